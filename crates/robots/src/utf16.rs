//! Files in UTF-16.
//!
//! RFC 9309 section 2.3 requires UTF-8. A file that begins with a UTF-16 byte order mark is not UTF-8: read as octets,
//! it would hold no line and allow everything. So it is decoded first, and a note says so.

use std::borrow::Cow;

/// The byte order of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Little,
    Big,
}

/// A file in UTF-16.
#[derive(Clone, Copy, Debug)]
pub(super) struct Utf16<'a> {
    octets: &'a [u8],
    order: Order,
}

impl<'a> Utf16<'a> {
    /// Recognises a file by its byte order mark.
    pub(super) fn new(octets: &'a [u8]) -> Option<Self> {
        let order = match octets {
            [0xFF, 0xFE, ..] => Order::Little,
            [0xFE, 0xFF, ..] => Order::Big,
            _ => return None,
        };
        Some(Self { octets, order })
    }

    /// Returns the file cut to its whole lines within `limit` octets.
    pub(super) fn within(self, limit: usize) -> Self {
        let Some((kept, beyond)) = self.octets.split_at_checked(limit & !1) else {
            return self;
        };
        if self.octets.len() <= limit {
            return self;
        }
        // A single octet is a line end that the caller passed on to say that the text continues.
        let is_next_line = match beyond {
            [octet] => matches!(octet, b'\n' | b'\r'),
            [one, other, ..] => is_end(self.unit([*one, *other])),
            [] => true,
        };
        let is_last_of_line = |pair: &[u8]| match pair {
            [one, other] => is_end(self.unit([*one, *other])),
            _ => false,
        };
        let end = if is_next_line {
            kept.len()
        } else {
            let last = kept.chunks_exact(2).rposition(is_last_of_line);
            last.map_or(0, |last| 2 * (last + 1))
        };
        Self { octets: kept.get(..end).unwrap_or_default(), ..self }
    }

    pub(super) fn octets(self) -> &'a [u8] {
        self.octets
    }

    /// Returns the text as UTF-8, without the mark. Invalid units become U+FFFD; half a unit at the end is dropped.
    pub(super) fn decoded(self) -> Vec<u8> {
        let pairs = self.octets.chunks_exact(2).skip(1);
        let units = pairs.filter_map(|pair| Some(self.unit(pair.try_into().ok()?)));
        let characters = char::decode_utf16(units);
        let text: String =
            characters.map(|character| character.unwrap_or(char::REPLACEMENT_CHARACTER)).collect();
        text.into_bytes()
    }

    fn unit(self, octets: [u8; 2]) -> u16 {
        match self.order {
            Order::Little => u16::from_le_bytes(octets),
            Order::Big => u16::from_be_bytes(octets),
        }
    }
}

fn is_end(unit: u16) -> bool {
    unit == u16::from(b'\n') || unit == u16::from(b'\r')
}

/// Returns the text that the parser reads: UTF-16 decoded, anything else unchanged. Line numbers refer to this text.
pub fn decoded(text: &[u8]) -> Cow<'_, [u8]> {
    match Utf16::new(text) {
        Some(utf16) => Cow::Owned(utf16.decoded()),
        None => Cow::Borrowed(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(text: &str, order: Order) -> Vec<u8> {
        let octets = |unit: u16| match order {
            Order::Little => unit.to_le_bytes(),
            Order::Big => unit.to_be_bytes(),
        };
        "\u{feff}".encode_utf16().chain(text.encode_utf16()).flat_map(octets).collect()
    }

    #[test]
    fn ours_a_file_that_begins_with_the_mark_is_decoded() {
        for order in [Order::Little, Order::Big] {
            for text in ["", "User-agent: *\r\nDisallow: /", "/\u{e9}/\u{1f600}/\u{30c4}"] {
                assert_eq!(*decoded(&encoded(text, order)), *text.as_bytes(), "{text:?}");
            }
            let half = [encoded("a", order), vec![7]].concat();
            assert_eq!(*decoded(&half), *b"a", "half a unit");
            let surrogate = match order {
                Order::Little => [0, 0xD8],
                Order::Big => [0xD8, 0],
            };
            let alone = [encoded("a", order), surrogate.to_vec()].concat();
            assert_eq!(*decoded(&alone), *"a\u{fffd}".as_bytes(), "half a character");
        }
        for other in [&b""[..], b"\xFF", b"\xFEa", b"\xEF\xBB\xBFa", b"User-agent: *"] {
            assert_eq!(*decoded(other), *other);
        }
    }

    #[test]
    fn ours_the_line_that_the_limit_cuts_is_dropped() {
        for order in [Order::Little, Order::Big] {
            let text = encoded("ab\r\ncd\n", order);
            let kept = |text: &[u8], limit| {
                let utf16 = Utf16::new(text).expect("a mark").within(limit);
                String::from_utf8(utf16.decoded()).expect("UTF-8")
            };
            #[rustfmt::skip] // one row, one case
            let cases = [
                ("all of it", 16, "ab\r\ncd\n"),
                ("more than all", 99, "ab\r\ncd\n"),
                ("before the last end", 14, "ab\r\ncd"),
                ("within a line", 12, "ab\r\n"),
                ("within a unit", 13, "ab\r\n"),
                ("after a line", 10, "ab\r\n"),
                ("between two ends", 8, "ab\r"),
                ("before an end", 6, "ab"),
                ("within the first line", 4, ""),
                ("within the mark", 2, ""),
            ];
            for (name, limit, expected) in cases {
                assert_eq!(kept(&text, limit), expected, "{name}, {order:?}");
                // A text that was cut stays the same if cut again with the sign that more follows.
                let first = Utf16::new(&text).expect("a mark").within(limit).octets();
                if first.len() >= 2 && first.len() < text.len() {
                    let again = [first, b"\n"].concat();
                    assert_eq!(kept(&again, first.len()), expected, "{name}, {order:?}, again");
                }
            }
        }
    }
}
