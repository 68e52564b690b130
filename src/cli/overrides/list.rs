//! Overrides as a list, for people and for programs.

use crate::cli::terminal;
use crawlgate_policy::overrides::Override;
use crawlgate_store::Removed;
use crawlgate_system::clock::Moment;
use crawlgate_text::json::Object;
use crawlgate_text::time_text;

/// Octets of one text in JSON: more than any accepted one.
const MAX_TEXT: usize = 64 * 1024;

/// An override of a list, with its fate.
pub(super) struct Listed {
    pub(super) asserted: Override,
    /// The time and the person of its removal.
    removed: Option<(Moment, String)>,
}

impl From<Override> for Listed {
    fn from(asserted: Override) -> Self {
        Self {
            asserted,
            removed: None,
        }
    }
}

impl From<Removed> for Listed {
    fn from(one: Removed) -> Self {
        Self {
            asserted: one.asserted,
            removed: Some((one.time, one.by)),
        }
    }
}

impl Listed {
    /// Returns when the override ends, or how it has ended.
    pub(super) fn end(&self, now: Moment) -> String {
        match (&self.removed, self.asserted.until) {
            (Some((time, by)), _) => {
                format!(
                    "removed {} by {}",
                    time_text(*time),
                    terminal::printable(by)
                )
            }
            (None, None) => "-".to_owned(),
            (None, Some(until)) if self.asserted.holds(now) => time_text(until),
            (None, Some(until)) => format!("expired {}", time_text(until)),
        }
    }
}

/// Writes a table for people.
pub(super) fn table(shown: &[Listed], now: Moment, width: Option<usize>) -> String {
    const HEADING: [&str; 7] = ["ID", "ACTION", "ORIGIN", "PATTERN", "UNTIL", "BY", "REASON"];
    let rows = shown.iter().map(|listed| {
        let one = &listed.asserted;
        // A fleet's override says where it was added; without a fleet, nothing is added elsewhere.
        let by = match &one.instance {
            Some(instance) => format!("{} at {instance}", one.by),
            None => one.by.clone(),
        };
        [
            one.id.to_string(),
            one.action.as_str().to_owned(),
            one.origin.to_string(),
            one.pattern.clone(),
            listed.end(now),
            by,
            one.reason.clone(),
        ]
    });
    terminal::table(HEADING, rows, width)
}

/// Writes a JSON object on each line.
pub(super) fn lines(shown: &[Listed]) -> Vec<u8> {
    let mut out = Vec::new();
    for listed in shown {
        let one = &listed.asserted;
        let mut object = Object::open(&mut out);
        object.plain("id", one.id.to_string().as_bytes());
        object.text("origin", one.origin.as_str().as_bytes(), MAX_TEXT);
        object.text("pattern", one.pattern.as_bytes(), MAX_TEXT);
        object.text("action", one.action.as_str().as_bytes(), MAX_TEXT);
        let until = one.until.map(time_text);
        object.text_or_null("until", until.as_deref().map(str::as_bytes), MAX_TEXT);
        object.text("by", one.by.as_bytes(), MAX_TEXT);
        object.text("reason", one.reason.as_bytes(), MAX_TEXT);
        // The time when a person wrote the configuration is unknown.
        let created = (!one.id.is_configured()).then(|| time_text(one.created));
        object.text_or_null("created", created.as_deref().map(str::as_bytes), MAX_TEXT);
        let instance = one.instance.as_deref();
        object.text_or_null("instance", instance.map(str::as_bytes), MAX_TEXT);
        let removed = listed.removed.as_ref();
        let time = removed.map(|(time, _)| time_text(*time));
        object.text_or_null("removed", time.as_deref().map(str::as_bytes), MAX_TEXT);
        let by = removed.map(|(_, by)| by.as_bytes());
        object.text_or_null("removed_by", by, MAX_TEXT);
        object.close();
        out.push(b'\n');
    }
    out
}
