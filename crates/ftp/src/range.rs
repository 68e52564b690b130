//! A Range field over a file of known length (RFC 9110 14.2): one range of octets, which REST can begin.

/// The octets of a file that an answer has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Range {
    /// All of them. A field that asks for several ranges, or cannot be read, is ignored (RFC 9110 14.2).
    Whole,
    /// From the first to the last one.
    Part {
        /// The first octet.
        from: u64,
        /// The last octet.
        to: u64,
    },
    /// None: the range begins behind the file.
    Unsatisfiable,
}

impl Range {
    /// Reads a Range field for a file of `size` octets.
    pub fn read(field: &str, size: u64) -> Range {
        Self::part(field, size).unwrap_or(Range::Whole)
    }

    fn part(field: &str, size: u64) -> Option<Range> {
        let (unit, range) = field.trim().split_once('=')?;
        if !unit.eq_ignore_ascii_case("bytes") {
            return None;
        }
        let (from, to) = range.trim().split_once('-')?;
        let last = size.checked_sub(1);
        let (from, to) = match (from, to) {
            ("", length) => match (number(length)?, last) {
                (0, _) | (_, None) => return Some(Range::Unsatisfiable),
                (length, Some(last)) => (size.saturating_sub(length), last),
            },
            (from, "") => (number(from)?, last.unwrap_or(0)),
            (from, to) => {
                let (from, to) = (number(from)?, number(to)?);
                if to < from {
                    return None;
                }
                (from, to.min(last.unwrap_or(0)))
            }
        };
        Some(if from < size { Range::Part { from, to } } else { Range::Unsatisfiable })
    }
}

/// Reads a number that may exceed any file.
fn number(digits: &str) -> Option<u64> {
    let is_number = !digits.is_empty() && digits.bytes().all(|octet| octet.is_ascii_digit());
    is_number.then(|| digits.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_range_of_octets_is_read() {
        let part = |from, to| Range::Part { from, to };
        #[rustfmt::skip] // one row, one case
        let cases = [
            ("bytes=0-0", 10, part(0, 0)),
            ("bytes=2-5", 10, part(2, 5)),
            ("Bytes=2-", 10, part(2, 9)),
            ("bytes=-3", 10, part(7, 9)),
            ("bytes=-30", 10, part(0, 9)),
            ("bytes=5-99999999999999999999999", 10, part(5, 9)),
            ("bytes=10-", 10, Range::Unsatisfiable),
            ("bytes=99999999999999999999999-", 10, Range::Unsatisfiable),
            ("bytes=-0", 10, Range::Unsatisfiable),
            ("bytes=0-0", 0, Range::Unsatisfiable),
            ("bytes=-1", 0, Range::Unsatisfiable),
            ("bytes=5-2", 10, Range::Whole),
            ("bytes=0-1,3-4", 10, Range::Whole),
            ("bytes=+1-2", 10, Range::Whole),
            ("bytes=a-b", 10, Range::Whole),
            ("bytes=-", 10, Range::Whole),
            ("lines=0-1", 10, Range::Whole),
            ("0-1", 10, Range::Whole),
            ("", 10, Range::Whole),
        ];
        for (field, size, expected) in cases {
            assert_eq!(Range::read(field, size), expected, "{field} of {size}");
        }
    }
}
