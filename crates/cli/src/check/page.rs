//! The text of an answer for people: lines with labels.

use std::fmt::{self, Write as _};

use crate::terminal::{Paint, Tone};

/// Text under construction. Writing to a String cannot fail.
pub(super) struct Page {
    text: String,
    pub(super) paint: Paint,
}

impl Page {
    /// Returns an empty text.
    pub(super) fn new(paint: Paint) -> Page {
        Page {
            text: String::new(),
            paint,
        }
    }

    /// Writes a line with its label in front; without a label, the line continues the one before.
    pub(super) fn line(&mut self, label: &str, content: impl fmt::Display) {
        let paint = self.paint;
        let label = if label.is_empty() {
            ""
        } else {
            &format!("{label}:")
        };
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
