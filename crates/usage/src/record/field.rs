//! A field line of a response in a record: enough of it to judge the response again.
//!
//! Bounds on the parts of a record.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::fields::LONGEST;
use crawlgate_text::hex::hex;

/// Octets that are kept of each line of a field that was too long to be read. That it was too long follows from the lengths.
const MAX_OF_UNREAD: usize = 256;

/// One field line of the response.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "each is what its name says")]
pub struct FieldRecord<'a> {
    pub name: Cow<'a, str>,
    pub text: Cow<'a, str>,
    /// SHA-256 of the whole line, in hexadecimal digits.
    pub sha256: Cow<'a, str>,
    /// True if the text is not the whole line.
    pub cut: bool,
    /// The octets of the line, if the text is not the whole of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub octets: Option<usize>,
    /// True if the line is not UTF-8: each character of the text stands for the octet of its number.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub latin1: bool,
}

impl<'a> FieldRecord<'a> {
    /// Returns the record of one field line. If the field `is_unread` because it is too long, the beginning is enough.
    #[must_use]
    pub fn of(name: &'a str, line: &'a [u8], is_unread: bool) -> FieldRecord<'a> {
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, line);
        let most = Bounds { parts: 1, octets: if is_unread { MAX_OF_UNREAD } else { usize::MAX } };
        let (text, latin1) = match str::from_utf8(line) {
            Ok(text) => (most.cut(text), false),
            Err(_) => {
                let octets = line.get(..most.octets).unwrap_or(line);
                let text: String = octets.iter().map(|octet| char::from(*octet)).collect();
                (Cow::Owned(text), true)
            }
        };
        let kept = if latin1 { text.chars().count() } else { text.len() };
        let cut = kept < line.len();
        FieldRecord {
            name: name.into(),
            text,
            sha256: hex(digest).into(),
            cut,
            octets: cut.then_some(line.len()),
            latin1,
        }
    }

    /// Returns the line. Of a line that is cut, the octets left out have others in their places, as many as matter: it was
    /// too long to be read. `None` if not even its length is known, or this program did not write the text.
    #[must_use]
    pub fn line(&self) -> Option<Vec<u8>> {
        let mut line = if self.latin1 {
            let octets = self.text.chars().map(|one| u8::try_from(one).ok());
            octets.collect::<Option<Vec<u8>>>()?
        } else {
            self.text.as_bytes().to_vec()
        };
        if self.cut {
            let octets = self.octets.filter(|octets| *octets > line.len())?;
            line.resize(octets.min(LONGEST + 1).max(line.len()), b'.');
        }
        Some(line)
    }

    pub(super) fn within(&self, bounds: Bounds) -> FieldRecord<'_> {
        let text = bounds.cut(&self.text);
        FieldRecord {
            name: bounds.cut(&self.name),
            cut: self.cut || text != self.text,
            octets: self.octets,
            latin1: self.latin1,
            text,
            sha256: Cow::Borrowed(&self.sha256),
        }
    }
}

/// Parts of each list, and octets of each text, if the text would be too long otherwise.
pub(super) const SHORT: Bounds = Bounds { parts: 8, octets: 48 };

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_comes_back_from_its_record() {
        let long = "ä".repeat(300);
        #[rustfmt::skip] // one row, one case
        let cases: &[(&str, &[u8], bool, &str, bool)] = &[
            ("text", b"train-ai=n", false, "train-ai=n", false),
            ("an empty line", b"", true, "", false),
            ("no UTF-8", b"a=\xFF, \x80\xC3", false, "a=\u{FF}, \u{80}\u{C3}", true),
            ("a long line that was read", long.as_bytes(), false, &long, false),
        ];
        for (name, line, is_unread, text, latin1) in cases {
            let record = FieldRecord::of("link", line, *is_unread);
            assert_eq!((&*record.text, record.latin1), (*text, *latin1), "{name}");
            assert_eq!((record.cut, record.octets), (false, None), "{name}");
            assert_eq!(record.line().as_deref(), Some(*line), "{name}");
        }
        // Of a line that was too long to be read, the length comes back.
        let longer = [b"noai, \xFF".as_slice(), &[b'x'; 2 * LONGEST]].concat();
        for (line, octets) in [(long.as_bytes(), 600), (&longer[..], LONGEST + 1)] {
            let record = FieldRecord::of("link", line, true);
            assert_eq!((record.cut, record.octets), (true, Some(line.len())));
            let again = record.line().unwrap();
            assert_eq!((again.len(), &again[..200]), (octets, &line[..200]));
            assert_eq!(FieldRecord::of("link", &again, true).text, record.text);
            let older = FieldRecord { octets: None, ..record };
            assert_eq!(older.line(), None);
        }
        let none_of_ours =
            FieldRecord { text: "€".into(), ..FieldRecord::of("link", b"\xFF", false) };
        assert_eq!(none_of_ours.line(), None);
    }
}
