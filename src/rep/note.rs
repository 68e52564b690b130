//! What the author of a robots.txt should know about it: lines that do not do what they seem to.
//!
//! Notes never change a verdict. They are found by reading the text once more, so that the files
//! nobody asks about (all but a few) pay nothing for them.

use std::fmt;

use super::field::Field;
use super::line::{Lines, is_space};
use super::token::wide;

/// A remark on one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The line's number, from 1.
    pub line: u32,
    /// What is to be said of it.
    pub kind: NoteKind,
    /// The line, its comment kept off, lossily decoded.
    pub text: Box<str>,
}

/// What there is to remark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoteKind {
    /// The line is not of the form `field: value`.
    NoField,
    /// The field's name means nothing here.
    UnknownField,
    /// A rule before the first user-agent line.
    NobodysRule,
    /// A user-agent value that can name no crawler.
    NamesNobody,
    /// A rule path that begins with neither `/` nor `*`.
    NeverMatches,
    /// A line so long that only its beginning counts.
    Cut,
}

impl fmt::Display for NoteKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoField => "not of the form `field: value`, ignored",
            Self::UnknownField => "unknown field, ignored",
            Self::NobodysRule => {
                "a rule before the first user-agent line belongs to no group, ignored"
            }
            Self::NamesNobody => {
                "no crawler can have this name: letters, digits, `-`, `_` and `.` only, or `*`"
            }
            Self::NeverMatches => "matches nothing: a rule's path begins with `/` or `*`",
            Self::Cut => "only the first 16,663 octets of the line count",
        })
    }
}

/// The remarks on a text.
pub(super) fn notes(text: &[u8], lenient: bool) -> Vec<Note> {
    let mut notes = Vec::new();
    let mut is_group_seen = false;
    for line in Lines::new(text) {
        let mut note = |kind| {
            let text = Box::from(String::from_utf8_lossy(line.content));
            notes.push(Note {
                line: line.number,
                kind,
                text,
            });
        };
        if line.is_cut {
            note(NoteKind::Cut);
        }
        if line.content.is_empty() {
            continue;
        }
        let Some(pair) = line.pair(lenient) else {
            note(NoteKind::NoField);
            continue;
        };
        match pair.field {
            Some(Field::UserAgent) => {
                is_group_seen = true;
                let is_global = matches!(pair.value, [b'*', after @ ..] if after.first().is_none_or(|octet| is_space(*octet)));
                if !is_global && wide(pair.value).is_empty() {
                    note(NoteKind::NamesNobody);
                }
            }
            Some(Field::Allow | Field::Disallow) if !is_group_seen => note(NoteKind::NobodysRule),
            Some(Field::Allow | Field::Disallow) => {
                if !matches!(pair.value.first(), None | Some(b'/' | b'*')) {
                    note(NoteKind::NeverMatches);
                }
            }
            Some(_) => {}
            None => note(NoteKind::UnknownField),
        }
    }
    notes
}

#[cfg(test)]
mod tests {
    // A table's type is spelt where the table is.
    #![allow(
        clippy::type_complexity,
        reason = "a case is one row, its columns a tuple"
    )]
    use super::*;

    #[test]
    fn lines_that_do_not_do_what_they_seem_to() {
        let long = format!("Allow: /{}", "a".repeat(20_000));
        #[rustfmt::skip] // one row, one case
        let cases: &[(&str, &str, &[(u32, NoteKind)])] = &[
            ("all is well", "\n# x\nUser-agent: *\nDisallow:\nAllow: /a\nSitemap: https://a/\nUser-agent: * x\n", &[]),
            ("no field", "<html>", &[(1, NoteKind::NoField)]),
            ("unknown field", "noindex: /a", &[(1, NoteKind::UnknownField)]),
            ("too early", "Disallow: /a\nUser-agent: a\nDisallow: /a", &[(1, NoteKind::NobodysRule)]),
            ("nobody's name", "User-agent:\nUser-agent: *a\nUser-agent: 360", &[(1, NoteKind::NamesNobody), (2, NoteKind::NamesNobody)]),
            ("a path that matches nothing", "User-agent: *\nDisallow: a", &[(2, NoteKind::NeverMatches)]),
            ("overlong", &format!("User-agent: *\n{long}"), &[(2, NoteKind::Cut)]),
        ];
        for (name, text, expected) in cases {
            let found: Vec<_> = notes(text.as_bytes(), true)
                .iter()
                .map(|note| (note.line, note.kind))
                .collect();
            assert_eq!(found, *expected, "{name}");
        }
    }
}
