//! What an answer says of the codings of its body, where they cannot be undone.
//!
//! The beginning of a foreign text, as a cause keeps it.

use std::fmt;

/// Octets of a value that are kept: the origin chooses their number.
const KEPT: usize = 32;

/// A field that names codings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CodingField {
    /// `Content-Encoding`.
    Content,
    /// `Transfer-Encoding`.
    Transfer,
}

impl CodingField {
    const ALL: [CodingField; 2] = [CodingField::Content, CodingField::Transfer];

    /// Returns the name in records.
    fn code(self) -> &'static str {
        match self {
            CodingField::Content => "content_encoding:",
            CodingField::Transfer => "transfer_encoding:",
        }
    }
}

/// The field and its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Codings {
    field: CodingField,
    value: PlainText<KEPT>,
}

impl Codings {
    /// Keeps the beginning of a value. Octets that are no plain text become `?`.
    pub fn new(field: CodingField, value: &[u8]) -> Codings {
        Codings { field, value: PlainText::new(value) }
    }

    /// Returns one word for records; [`Codings::from_code`] reads it.
    pub(super) fn code(&self) -> String {
        format!("{}{}", self.field.code(), self.value.as_str())
    }

    /// Reads the word that [`Codings::code`] wrote.
    pub(super) fn from_code(code: &str) -> Option<Codings> {
        let of = |field: CodingField| {
            let value = code.strip_prefix(field.code())?;
            let codings = Codings::new(field, value.as_bytes());
            (codings.value.as_str() == value).then_some(codings)
        };
        CodingField::ALL.into_iter().find_map(of)
    }
}

impl fmt::Display for Codings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.field {
            CodingField::Content => "Content-Encoding",
            CodingField::Transfer => "Transfer-Encoding",
        };
        write!(f, "{name}: {}", self.value.as_str())
    }
}

/// At most `N` octets of visible ASCII and spaces, without those that JSON and Structured Fields escape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PlainText<const N: usize> {
    octets: [u8; N],
    length: usize,
}

impl<const N: usize> PlainText<N> {
    /// Keeps the beginning of a text. Each other octet becomes `?`.
    pub(super) fn new(text: &[u8]) -> PlainText<N> {
        let mut octets = [0; N];
        for (to, octet) in octets.iter_mut().zip(text) {
            let is_plain = matches!(octet, b' '..=b'~') && !matches!(octet, b'"' | b'\\');
            *to = if is_plain { *octet } else { b'?' };
        }
        PlainText { octets, length: text.len().min(N) }
    }

    pub(super) fn as_str(&self) -> &str {
        let text = self.octets.get(..self.length).unwrap_or_default();
        std::str::from_utf8(text).unwrap_or_default()
    }
}
