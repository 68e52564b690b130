//! The field lines of a response that speak of use: borrowed from its head, and kept for its record.

use smallvec::SmallVec;

use super::field_name::FieldName;
pub use super::field_name::{Line, Lines};
use super::fields::{LONGEST, SEPARATOR};
use super::statement::trimmed;

/// Copies of some lines.
#[derive(Clone, Debug, Default)]
pub struct KeptLines {
    octets: Vec<u8>,
    /// The name of each line, and the end of its octets.
    ends: SmallVec<[(FieldName, usize); FieldName::ALL.len()]>,
}

/// Returns the lines about use among the fields of a response, in order. Empty, and nothing is allocated, where none speaks
/// of use.
#[must_use]
pub fn of<'a>(fields: impl Iterator<Item = (&'a str, &'a [u8])>) -> Lines<'a> {
    let mut lines = Lines::new();
    let (mut first_type, mut more_types) = (None, Vec::new());
    for (name, value) in fields {
        match (FieldName::of(name), first_type) {
            (Some(FieldName::ContentType), None) => first_type = Some(value),
            (Some(FieldName::ContentType), Some(_)) => more_types.push(value),
            (Some(name), _) => lines.push((name, value)),
            (None, _) => {}
        }
    }
    // The type of the content matters only to X-Robots-Tag.
    if lines.iter().any(|(name, _)| *name == FieldName::RobotsTag) {
        let types = first_type.into_iter().chain(more_types);
        lines.extend(types.map(|value| (FieldName::ContentType, value)));
    }
    lines
}

impl KeptLines {
    /// Copies lines.
    #[must_use]
    pub fn of(lines: &[Line<'_>]) -> KeptLines {
        let mut kept = KeptLines {
            octets: Vec::with_capacity(lines.iter().map(|(_, line)| line.len()).sum()),
            ends: SmallVec::with_capacity(lines.len()),
        };
        for (name, line) in lines {
            kept.octets.extend_from_slice(line);
            kept.ends.push((*name, kept.octets.len()));
        }
        kept
    }

    /// Returns the number of lines.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Tells whether there are no lines.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Tells whether the lines of a field are too long together to be read.
    #[must_use]
    pub fn is_too_long(&self, name: FieldName) -> bool {
        let lines = self.iter().filter(|(known, _)| *known == name);
        let octets = lines.map(|(_, line)| trimmed(line).len() + SEPARATOR.len());
        octets.sum::<usize>() > LONGEST + SEPARATOR.len()
    }

    /// Returns the lines, in order.
    pub fn iter(&self) -> impl Iterator<Item = Line<'_>> {
        let mut begin = 0;
        self.ends.iter().map(move |(name, end)| {
            let line = self.octets.get(begin..*end).unwrap_or_default();
            begin = *end;
            (*name, line)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_kept_as_they_were() {
        let fields: [(&str, &[u8]); 5] = [
            ("server", b"nginx"),
            ("X-Robots-Tag", b"noai"),
            ("content-type", b"image/png"),
            ("tdm-reservation", b""),
            ("x-robots-tag", b"noindex"),
        ];
        let lines = of(fields.into_iter());
        let expected: [Line<'_>; 4] = [
            (FieldName::RobotsTag, b"noai"),
            (FieldName::TdmReservation, b""),
            (FieldName::RobotsTag, b"noindex"),
            (FieldName::ContentType, b"image/png"),
        ];
        assert_eq!(lines[..], expected);
        let kept = KeptLines::of(&lines);
        assert_eq!(kept.iter().collect::<Vec<_>>(), expected);
        assert_eq!((kept.len(), kept.is_empty()), (4, false));
        let untagged = fields.into_iter().skip(2).take(2);
        assert_eq!(of(untagged)[..], expected[1..2]);
        let twice = [fields[2], fields[1], ("content-type", b"text/html")];
        assert_eq!(of(twice.into_iter()).len(), 3);
    }
}
