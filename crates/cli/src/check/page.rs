//! The text of an answer for people: lines with labels, and untrusted octets with control characters spelt out.

use std::fmt::{self, Write as _};

use crate::terminal::{Paint, Tone, fitted, printable};

/// Text under construction. Writing to a String cannot fail.
pub(super) struct Page {
    text: String,
    pub(super) paint: Paint,
}

impl Page {
    /// Returns an empty text.
    pub(super) fn new(paint: Paint) -> Page {
        Page { text: String::new(), paint }
    }

    /// Writes a line with its label in front; without a label, the line continues the one before.
    pub(super) fn line(&mut self, label: &str, content: impl fmt::Display) {
        let paint = self.paint;
        let label = if label.is_empty() { "" } else { &format!("{label}:") };
        let label = paint.tone(Tone::Label, format!("{label:<9}"));
        let _ = writeln!(self.text, "  {label} {content}");
    }

    /// Writes a line without a label.
    pub(super) fn raw(&mut self, content: impl fmt::Display) {
        let _ = writeln!(self.text, "{content}");
    }

    /// Returns the text.
    pub(super) fn into_text(self) -> String {
        self.text
    }
}

/// Untrusted octets in one line: characters that control a terminal, end a line or reverse text are escaped, and so are
/// octets that are not UTF-8.
pub(super) struct Escaped<'a>(pub(super) &'a [u8]);

/// Characters to show of one text.
const MAX_CHARS: usize = 400;

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        for chunk in self.0.utf8_chunks() {
            text.push_str(&printable(chunk.valid()));
            for octet in chunk.invalid() {
                write!(text, "\\x{octet:02X}")?;
            }
        }
        f.write_str(&fitted(&text, MAX_CHARS))
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
            ("ends of lines", "a\r\nb\u{2028}".as_bytes(), "a\\r\\nb\\u{2028}"),
            ("text turned around", "\u{202e}x".as_bytes(), "\\u{202e}x"),
            ("not UTF-8", b"/\xE9t\xFF", "/\\xE9t\\xFF"),
        ];
        for (name, text, expected) in cases {
            assert_eq!(Escaped(text).to_string(), *expected, "{name}");
        }
        let long = Escaped(&vec![b'a'; 1000]).to_string();
        assert_eq!(long.chars().count(), MAX_CHARS);
    }
}
