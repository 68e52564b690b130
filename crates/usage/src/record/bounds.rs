//! Bounds on the parts of a record.

use std::borrow::Cow;

/// Parts of each list, and octets of each text, if the text would be too long otherwise.
pub(super) const SHORT: Bounds = Bounds {
    parts: 8,
    octets: 48,
};

/// Bounds on parts and texts.
#[derive(Clone, Copy)]
pub(super) struct Bounds {
    pub(super) parts: usize,
    pub(super) octets: usize,
}

impl Bounds {
    /// Returns the beginning of a text, up to a whole character.
    pub(super) fn cut(self, text: &str) -> Cow<'_, str> {
        let mut ends = (0..=self.octets.min(text.len())).rev();
        let end = ends.find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        Cow::Borrowed(text.get(..end).unwrap_or(text))
    }
}
