//! The codings that an answer names for its body, where they cannot be undone.

use std::fmt;

use super::plain_text::PlainText;

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
        Codings {
            field,
            value: PlainText::new(value),
        }
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
