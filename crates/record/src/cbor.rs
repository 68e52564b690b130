//! Deterministic CBOR (RFC 8949, section 4.2.1), both ways: shortest integers, definite lengths, ascending keys.
//!
//! By hand, since the stability of the octets is the point: a digest covers them. Only the types of entries are here:
//! integers, octets, text, arrays, maps, `false` and `true`.

use std::net::{IpAddr, SocketAddr};

/// The major types, in the upper three bits of an item's first octet.
mod major {
    pub(super) const UINT: u8 = 0;
    pub(super) const NEGATIVE: u8 = 1;
    pub(super) const BYTES: u8 = 2;
    pub(super) const TEXT: u8 = 3;
    pub(super) const ARRAY: u8 = 4;
    pub(super) const MAP: u8 = 5;
    pub(super) const SIMPLE: u8 = 7;
}

const FALSE: u64 = 20;
const TRUE: u64 = 21;

/// Octets that are not the one canonical form of an entry or object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not canonical: {0}")]
pub struct Malformed(pub &'static str);

/// Writes the head of an item: its major type and its number, in as few octets as possible.
#[inline]
fn head(out: &mut Vec<u8>, major: u8, number: u64) {
    let first = major << 5;
    if number < 24 {
        out.push(first | number as u8);
    } else {
        long_head(out, first, number);
    }
}

#[inline]
fn long_head(out: &mut Vec<u8>, first: u8, number: u64) {
    let [.., c, b, a] = number.to_be_bytes();
    if number <= 0xff {
        out.extend_from_slice(&[first | 24, a]);
    } else if number <= 0xffff {
        out.extend_from_slice(&[first | 25, b, a]);
    } else if number <= 0xffff_ffff {
        let [_, _, _, _, d, _, _, _] = number.to_be_bytes();
        out.extend_from_slice(&[first | 26, d, c, b, a]);
    } else {
        let [h, g, f, e, d, _, _, _] = number.to_be_bytes();
        out.extend_from_slice(&[first | 27, h, g, f, e, d, c, b, a]);
    }
}

/// Writes an unsigned integer.
#[inline]
pub fn uint(out: &mut Vec<u8>, number: u64) {
    head(out, major::UINT, number);
}

/// Writes an integer.
#[inline]
pub fn int(out: &mut Vec<u8>, number: i64) {
    match u64::try_from(number) {
        Ok(number) => head(out, major::UINT, number),
        Err(_) => head(out, major::NEGATIVE, !number.cast_unsigned()),
    }
}

/// Writes octets.
#[inline]
pub fn bytes(out: &mut Vec<u8>, octets: &[u8]) {
    head(out, major::BYTES, octets.len() as u64);
    out.extend_from_slice(octets);
}

/// Writes the head of octets that the caller appends.
#[inline]
pub fn bytes_head(out: &mut Vec<u8>, length: usize) {
    head(out, major::BYTES, length as u64);
}

/// Writes text.
#[inline]
pub fn text(out: &mut Vec<u8>, text: &str) {
    head(out, major::TEXT, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

/// Writes the head of an array of `count` items.
#[inline]
pub fn array(out: &mut Vec<u8>, count: usize) {
    head(out, major::ARRAY, count as u64);
}

/// Writes `false` or `true`.
#[inline]
pub(crate) fn boolean(out: &mut Vec<u8>, boolean: bool) {
    head(out, major::SIMPLE, if boolean { TRUE } else { FALSE });
}

/// Writes an address as an array of its octets and the port.
pub(crate) fn address(out: &mut Vec<u8>, address: SocketAddr) {
    array(out, 2);
    match address.ip() {
        IpAddr::V4(ip) => bytes(out, &ip.octets()),
        IpAddr::V6(ip) => bytes(out, &ip.octets()),
    }
    uint(out, u64::from(address.port()));
}

/// A map under construction at the end of a buffer. Its pairs are counted, so that its head need not be known before.
pub(crate) struct MapWriter<'b> {
    out: &'b mut Vec<u8>,
    start: usize,
    count: u8,
}

impl<'b> MapWriter<'b> {
    /// Opens a map.
    #[inline]
    pub(crate) fn open(out: &'b mut Vec<u8>) -> Self {
        let start = out.len();
        out.push(major::MAP << 5);
        Self { out, start, count: 0 }
    }

    /// Writes a key, which is greater than the one before, and returns the buffer for its value.
    #[inline]
    pub(crate) fn key(&mut self, key: u8) -> &mut Vec<u8> {
        self.count += 1;
        uint(self.out, u64::from(key));
        self.out
    }

    /// Closes the map: enters the number of pairs into its head.
    #[inline]
    pub(crate) fn close(self) {
        let is_short = self.count < 24;
        if let Some(first) = self.out.get_mut(self.start) {
            *first |= if is_short { self.count } else { 24 };
        }
        if !is_short {
            self.out.insert(self.start + 1, self.count);
        }
    }
}

/// A strict reader: it refuses every form but the canonical one.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Returns a reader of the items in these octets.
    pub fn new(octets: &'a [u8]) -> Self {
        Self { rest: octets }
    }

    /// Tells whether all octets are read.
    pub fn is_done(self) -> bool {
        self.rest.is_empty()
    }

    /// Returns the octets that are not read yet.
    pub fn rest(self) -> &'a [u8] {
        self.rest
    }

    /// Refuses octets after the end.
    pub fn end(self) -> Result<(), Malformed> {
        match self.rest {
            [] => Ok(()),
            _ => Err(Malformed("octets after the end")),
        }
    }

    /// Returns the major type of the next item.
    fn peek(self) -> Option<u8> {
        self.rest.first().map(|first| first >> 5)
    }

    /// Tells whether the next item is an array.
    pub fn is_array(self) -> bool {
        self.peek() == Some(major::ARRAY)
    }

    /// Tells whether the next item is a string of octets.
    pub fn is_bytes(self) -> bool {
        self.peek() == Some(major::BYTES)
    }

    /// Tells whether the next item is text.
    pub fn is_text(self) -> bool {
        self.peek() == Some(major::TEXT)
    }

    #[inline]
    fn head(&mut self) -> Result<(u8, u64), Malformed> {
        let [first, rest @ ..] = self.rest else {
            return Err(Malformed("the end is missing"));
        };
        self.rest = rest;
        let (major, short) = (first >> 5, first & 31);
        if short < 24 {
            return Ok((major, u64::from(short)));
        }
        let (number, least) = match (short, rest) {
            (24, [a, rest @ ..]) => {
                self.rest = rest;
                (u64::from(*a), 24)
            }
            (25, [a, b, rest @ ..]) => {
                self.rest = rest;
                (u64::from(u16::from_be_bytes([*a, *b])), 0x100)
            }
            (26, [a, b, c, d, rest @ ..]) => {
                self.rest = rest;
                (u64::from(u32::from_be_bytes([*a, *b, *c, *d])), 0x1_0000)
            }
            (27, [a, b, c, d, e, f, g, h, rest @ ..]) => {
                self.rest = rest;
                let number = u64::from_be_bytes([*a, *b, *c, *d, *e, *f, *g, *h]);
                (number, 0x1_0000_0000)
            }
            (24..=27, _) => return Err(Malformed("the end is missing")),
            _ => return Err(Malformed("a length that is not definite")),
        };
        if number < least || major == major::SIMPLE {
            return Err(Malformed("a number that is not in its shortest form"));
        }
        Ok((major, number))
    }

    #[inline]
    fn number(&mut self, wanted: u8, other: &'static str) -> Result<u64, Malformed> {
        match self.head()? {
            (major, number) if major == wanted => Ok(number),
            _ => Err(Malformed(other)),
        }
    }

    #[inline]
    fn take(&mut self, length: u64) -> Result<&'a [u8], Malformed> {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let (taken, rest) =
            self.rest.split_at_checked(length).ok_or(Malformed("the end is missing"))?;
        self.rest = rest;
        Ok(taken)
    }

    /// Reads an unsigned integer.
    #[inline]
    pub fn uint(&mut self) -> Result<u64, Malformed> {
        self.number(major::UINT, "no unsigned integer")
    }

    /// Reads an unsigned integer that fits into a smaller type.
    #[inline]
    pub fn small<T: TryFrom<u64>>(&mut self) -> Result<T, Malformed> {
        T::try_from(self.uint()?).map_err(|_| Malformed("a number out of range"))
    }

    /// Reads an integer.
    #[inline]
    pub fn int(&mut self) -> Result<i64, Malformed> {
        let out_of_range = |_| Malformed("a number out of range");
        match self.head()? {
            (major::UINT, number) => i64::try_from(number).map_err(out_of_range),
            (major::NEGATIVE, number) => Ok(!i64::try_from(number).map_err(out_of_range)?),
            _ => Err(Malformed("no integer")),
        }
    }

    /// Reads octets.
    #[inline]
    pub fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let length = self.number(major::BYTES, "no octets")?;
        self.take(length)
    }

    /// Reads as many octets as a digest has.
    #[inline]
    pub fn fixed<const N: usize>(&mut self) -> Result<&'a [u8; N], Malformed> {
        let octets = self.bytes()?;
        octets.try_into().map_err(|_| Malformed("octets of another length"))
    }

    /// Reads text.
    #[inline]
    pub fn text(&mut self) -> Result<&'a str, Malformed> {
        let length = self.number(major::TEXT, "no text")?;
        std::str::from_utf8(self.take(length)?).map_err(|_| Malformed("text that is not UTF-8"))
    }

    /// Reads the head of an array, and refuses more items than octets follow.
    #[inline]
    pub fn array(&mut self) -> Result<usize, Malformed> {
        let count = self.number(major::ARRAY, "no array")?;
        self.bounded(count)
    }

    /// Reads the head of an array, and refuses another number of items than `count`.
    pub(crate) fn array_of(&mut self, count: usize, other: &'static str) -> Result<(), Malformed> {
        if self.array()? == count { Ok(()) } else { Err(Malformed(other)) }
    }

    /// Reads the head of a map, and refuses more pairs than octets follow.
    pub(crate) fn map(&mut self) -> Result<usize, Malformed> {
        let count = self.number(major::MAP, "no map")?;
        self.bounded(count)
    }

    #[inline]
    fn bounded(self, count: u64) -> Result<usize, Malformed> {
        usize::try_from(count)
            .ok()
            .filter(|&count| count <= self.rest.len())
            .ok_or(Malformed("the end is missing"))
    }

    /// Reads `false` or `true`.
    pub(crate) fn boolean(&mut self) -> Result<bool, Malformed> {
        match self.head()? {
            (major::SIMPLE, FALSE) => Ok(false),
            (major::SIMPLE, TRUE) => Ok(true),
            _ => Err(Malformed("neither false nor true")),
        }
    }

    /// Reads an address: an array of its octets and the port.
    pub(crate) fn address(&mut self) -> Result<SocketAddr, Malformed> {
        self.array_of(2, "no address")?;
        let octets = self.bytes()?;
        let ip = if let Ok(octets) = <[u8; 4]>::try_from(octets) {
            IpAddr::from(octets)
        } else if let Ok(octets) = <[u8; 16]>::try_from(octets) {
            IpAddr::from(octets)
        } else {
            return Err(Malformed("no address"));
        };
        Ok(SocketAddr::new(ip, self.small()?))
    }

    /// Reads an item of any type, and returns its octets. Their form is checked as far as lengths and integers go.
    #[inline]
    pub fn item(&mut self) -> Result<&'a [u8], Malformed> {
        let whole = self.rest;
        // Nearly all items are numbers, short texts and digests.
        let length = match whole {
            [0..24, ..] => 1,
            [0x18, 24..=u8::MAX, ..] => 2,
            [0x19, 1..=u8::MAX, ..] => 3,
            [first @ (0x40..0x58 | 0x60..0x78), ..] => usize::from(first & 31) + 1,
            [0x58 | 0x78, length @ 24..=u8::MAX, ..] => usize::from(*length) + 2,
            _ => return self.long_item(),
        };
        let Some((item, rest)) = whole.split_at_checked(length) else {
            return self.long_item();
        };
        self.rest = rest;
        Ok(item)
    }

    fn long_item(&mut self) -> Result<&'a [u8], Malformed> {
        let whole = self.rest;
        let mut pending = 1_usize;
        while let Some(left) = pending.checked_sub(1) {
            let (major, number) = self.head()?;
            let inside = match major {
                major::BYTES | major::TEXT => {
                    self.take(number)?;
                    0
                }
                major::ARRAY => self.bounded(number)?,
                major::MAP => self.bounded(number)?.saturating_mul(2),
                major::UINT | major::NEGATIVE => 0,
                major::SIMPLE if matches!(number, FALSE | TRUE) => 0,
                _ => return Err(Malformed("an item of an unknown type")),
            };
            pending = left.checked_add(inside).ok_or(Malformed("the end is missing"))?;
        }
        let length = whole.len() - self.rest.len();
        Ok(whole.split_at(length).0)
    }
}

/// Keys of a map in ascending order, each once.
#[derive(Debug)]
pub struct Keys {
    left: usize,
    least: u64,
}

impl Keys {
    /// Reads the head of a map.
    pub fn of(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { left: reader.map()?, least: 0 })
    }

    /// Reads the next key; `None` after the last pair.
    #[inline]
    pub fn next(&mut self, reader: &mut Reader<'_>) -> Result<Option<u64>, Malformed> {
        let Some(left) = self.left.checked_sub(1) else {
            return Ok(None);
        };
        self.left = left;
        let key = reader.uint()?;
        if key < self.least {
            return Err(Malformed("keys that do not ascend"));
        }
        self.least = key.saturating_add(1);
        Ok(Some(key))
    }

    /// Returns the number of pairs that are not read yet.
    pub(crate) fn left(&self) -> usize {
        self.left
    }
}
