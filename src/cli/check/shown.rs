//! Foreign text on a terminal: what would drive it is spelt out, and colour is for those who see it.

use std::fmt::{self, Write as _};

use anstyle::{AnsiColor, Style};

use crate::cli::screen::{fitted, printable};

/// Octets that nobody vouches for, in one line: what drives a terminal, ends a line or turns text around is escaped,
/// and so is what is not UTF-8.
pub(in crate::cli) struct Shown<'a>(pub(super) &'a [u8]);

/// What is shown of one text, in characters.
const MOST: usize = 400;

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        for chunk in self.0.utf8_chunks() {
            text.push_str(&printable(chunk.valid()));
            for octet in chunk.invalid() {
                write!(text, "\\x{octet:02X}")?;
            }
        }
        f.write_str(&fitted(&text, MOST))
    }
}

/// What a piece of text is, for those who see colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum Tone {
    /// An allowing verdict.
    Good,
    /// A denying one.
    Bad,
    /// A remark.
    Remark,
    /// The name of what follows.
    Label,
    /// What decides.
    Strong,
}

/// Whether to colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum Paint {
    /// Text only.
    Plain,
    /// With the terminal's own colours.
    Colour,
}

impl Paint {
    /// Colour on a terminal that has it, unless the environment says no (<https://no-color.org>).
    pub(in crate::cli) fn on(is_terminal: bool) -> Paint {
        let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        if is_terminal && !is_set("NO_COLOR") && !is_dumb {
            Paint::Colour
        } else {
            Paint::Plain
        }
    }

    /// `text` in its tone.
    pub(in crate::cli) fn tone<T: fmt::Display>(self, tone: Tone, text: T) -> Toned<T> {
        let style = match (self, tone) {
            (Paint::Plain, _) => Style::new(),
            (Paint::Colour, Tone::Good) => AnsiColor::Green.on_default().bold(),
            (Paint::Colour, Tone::Bad) => AnsiColor::Red.on_default().bold(),
            (Paint::Colour, Tone::Remark) => AnsiColor::Yellow.on_default(),
            (Paint::Colour, Tone::Label) => Style::new().dimmed(),
            (Paint::Colour, Tone::Strong) => Style::new().bold(),
        };
        Toned { style, text }
    }
}

/// A text with its style around it.
pub(in crate::cli) struct Toned<T> {
    style: Style,
    text: T,
}

impl<T: fmt::Display> fmt::Display for Toned<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Toned { style, text } = self;
        write!(f, "{style}{text}{style:#}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_drives_no_terminal() {
        let cases: &[(&str, &[u8], &str)] = &[
            ("plain", b"/a?b=c d", "/a?b=c d"),
            ("letters of any script", "/ツ".as_bytes(), "/ツ"),
            ("an escape sequence", b"/\x1b[31m", "/\\u{1b}[31m"),
            ("C1 controls", "/\u{9b}31m".as_bytes(), "/\\u{9b}31m"),
            (
                "ends of lines",
                "a\r\nb\u{2028}".as_bytes(),
                "a\\r\\nb\\u{2028}",
            ),
            ("text turned around", "\u{202e}x".as_bytes(), "\\u{202e}x"),
            ("not UTF-8", b"/\xE9t\xFF", "/\\xE9t\\xFF"),
        ];
        for (name, text, expected) in cases {
            assert_eq!(Shown(text).to_string(), *expected, "{name}");
        }
        let long = Shown(&vec![b'a'; 1000]).to_string();
        assert_eq!(long.chars().count(), MOST);
    }

    #[test]
    fn colours_are_put_around_text_and_taken_back() {
        let toned = |paint: Paint| paint.tone(Tone::Good, "allow").to_string();
        assert_eq!(toned(Paint::Plain), "allow");
        let coloured = toned(Paint::Colour);
        assert!(coloured.starts_with("\u{1b}[") && coloured.ends_with("\u{1b}[0m"));
    }
}
