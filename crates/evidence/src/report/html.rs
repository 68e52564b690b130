//! The pages of a report: one file without script that loads nothing, and its part for other pages.
//!
//! Texts of crawlers, sites and people stay texts: the templates escape them, and characters that reverse text or control
//! a terminal are spelt out. The only link is the one to the JSON inside the file.

use askama::Template;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::content::{Report, SettingsRow};
use crawlgate_origins::timing::Finally;
use crawlgate_policy::settings::PolicySettings;
use crawlgate_text::json::{misleads, printable};

/// Octets of a settings text to show.
const MAX_SHOWN: usize = 300;

#[derive(Template)]
#[template(path = "report.html", config = "src/report/askama.toml")]
struct File<'r> {
    r: &'r Report,
    f: Form,
    /// The JSON, in base64.
    json: String,
}

#[derive(Template)]
#[template(path = "figures.html", config = "src/report/askama.toml")]
struct Part<'r> {
    r: &'r Report,
    f: Form,
}

impl Report {
    /// Returns the JSON, with a line feed at its end. No text of others can drive a terminal by it.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn json(&self) -> Result<Vec<u8>, serde_json::Error> {
        let json = serde_json::to_string_pretty(self)?;
        let mut out = String::with_capacity(json.len() + 1);
        for c in json.chars() {
            // Such a character can stand only in a string, where an escape means the same.
            if c == '\n' || !misleads(c) {
                out.push(c);
                continue;
            }
            for unit in c.encode_utf16(&mut [0; 2]) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        }
        out.push('\n');
        Ok(out.into_bytes())
    }

    /// Returns the HTML file.
    ///
    /// # Errors
    /// When the JSON inside or the page cannot be written.
    pub fn html(&self) -> Result<String, askama::Error> {
        let json = self.json().map_err(askama::Error::custom)?;
        let file = File { r: self, f: Form, json: STANDARD.encode(json) };
        file.render()
    }

    /// Returns the sections of the file, as HTML for a page that has its own style.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn sections(&self) -> Result<String, askama::Error> {
        Part { r: self, f: Form }.render()
    }
}

/// The form of values.
struct Form;

impl Form {
    /// Returns a foreign text in one line; a dash for an empty one.
    fn text(&self, text: &str) -> String {
        match text {
            "" => "–".to_owned(),
            text => printable(text).into_owned(),
        }
    }

    /// Returns an optional foreign text.
    fn maybe(&self, text: &Option<String>) -> String {
        self.text(text.as_deref().unwrap_or_default())
    }

    /// Returns a number with its thousands apart.
    fn n(&self, number: &u64) -> String {
        let digits = number.to_string();
        let mut text = String::with_capacity(digits.len() + digits.len() / 3);
        for (place, digit) in digits.chars().enumerate() {
            if place > 0 && (digits.len() - place).is_multiple_of(3) {
                text.push(',');
            }
            text.push(digit);
        }
        text
    }

    /// Returns a number that the log may not tell.
    fn known(&self, number: &Option<u64>) -> String {
        number.map_or_else(|| "unknown".to_owned(), |number| self.n(&number))
    }

    /// Returns a time to the second.
    fn when(&self, time: &str) -> String {
        time.get(..19).unwrap_or(time).replace('T', " ")
    }

    /// Returns an optional time to the second.
    fn maybe_when(&self, time: &Option<String>) -> String {
        self.text(&self.when(time.as_deref().unwrap_or_default()))
    }

    /// Returns a share in per cent, never rounded up to all.
    fn share(&self, part: &u64, whole: &u64) -> String {
        if *whole == 0 {
            return "–".to_owned();
        }
        let tenths = u128::from(*part) * 1_000 / u128::from(*whole);
        format!("{}.{} %", tenths / 10, tenths % 10)
    }

    /// Returns texts after one another.
    fn texts(&self, texts: &[String]) -> String {
        let texts: Vec<String> = texts.iter().map(|text| self.text(text)).collect();
        self.text(&texts.join(", "))
    }

    /// Returns the meaning of an outage under settings.
    fn profile(&self, row: &SettingsRow) -> String {
        let Some(settings) = &row.settings else {
            return "the store has lost these settings".to_owned();
        };
        let text = settings.to_string();
        let Ok(settings) = PolicySettings::read(&text) else {
            return self.text(text.get(..MAX_SHOWN).unwrap_or(&text));
        };
        let hours = |millis: u64| format!("{} h", millis / 3_600_000);
        let unreachable = settings.unreachable;
        let copy = match unreachable.last_good_until_ms {
            Some(until) => format!("then the last good copy until {}", hours(until)),
            None => "then the last good copy".to_owned(),
        };
        let finally = match unreachable.finally {
            Finally::Allow => "without one, or after that, no restrictions",
            Finally::Reachable => {
                "without one, or after that, no restrictions if the origin answers, else disallow"
            }
        };
        let on = |is_on: bool| if is_on { "on" } else { "off" };
        format!(
            "an unreachable robots.txt disallows for {}; {copy}; {finally}. Path guard {}, leniency {}, {} octets of a \
             file count",
            hours(unreachable.disallow_for_ms),
            on(settings.path_guard),
            on(settings.lenient),
            self.n(&settings.size_limit),
        )
    }
}
