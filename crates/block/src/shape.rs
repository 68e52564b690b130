//! Shapes: an entry is taken apart into its shape and the values of its holes.
//!
//! A shape is the entry without the values of its holes, octet for octet: their keys stay. Of the identifier, the part
//! that a process shares stays, too.

use std::ops::Range;

use super::frame::BlockError;
use crawlgate_record::cbor::{Keys, Malformed, Reader};
use crawlgate_record::{Counted, Digest, Mode, Outline, Verdict, key, variant};

/// The octets of an identifier that are no part of the shape, with the head before them: time and counter.
const OF_ID: usize = 1 + 10;

/// The octets of an identifier that its process shares.
const PROCESS: usize = 6;

/// A set of keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct KeySet(u64);

impl KeySet {
    pub(super) fn has(self, key: u8) -> bool {
        self.0 & 1 << (key & 63) != 0
    }

    fn add(&mut self, key: u8) {
        self.0 |= 1 << (key & 63);
    }
}

/// An entry in parts. Items are CBOR items with their heads.
#[derive(Debug, Default)]
pub(super) struct Parts<'e> {
    pub(super) holes: KeySet,
    pub(super) time: u64,
    pub(super) counter: u32,
    pub(super) decided_after: i64,
    pub(super) port: u64,
    /// The address of the client, then its name.
    pub(super) client: (&'e [u8], &'e [u8]),
    /// The chain, then the User-Agent.
    pub(super) requester: (&'e [u8], &'e [u8]),
    pub(super) origin: &'e [u8],
    pub(super) path: &'e [u8],
    pub(super) rule: &'e [u8],
    pub(super) basis: &'e [u8],
    pub(super) upstream: &'e [u8],
    pub(super) hold: u64,
    pub(super) bytes_in: u64,
    pub(super) bytes_out: u64,
    pub(super) duration: u64,
    /// Values of rare keys, in their order.
    pub(super) rest: [&'e [u8]; RARE.len()],
    /// Values of the shape that a store counts and follows.
    pub(super) mode: Mode,
    pub(super) verdict: Verdict,
    pub(super) reason: Option<&'e str>,
    pub(super) policy: Option<&'e Digest>,
    pub(super) overridden: Option<&'e Digest>,
}

impl<'e> Parts<'e> {
    /// Returns the outline of the entry, as [`Outline::read`] does; `None` where that fails.
    pub(super) fn outline(&self) -> Option<Outline<'e>> {
        let [.., tdmrep, _exempt] = self.rest;
        Some(Outline {
            time: self.time,
            counted: Some(Counted {
                mode: self.mode,
                verdict: self.verdict,
                reason: self.reason?,
                count: 1,
            }),
            named: [self.policy, self.overridden, digest(self.basis)?, digest(tdmrep)?],
        })
    }
}

/// Returns the digest of an item, if there is an item; `None` for an item of another kind.
fn digest(item: &[u8]) -> Option<Option<&Digest>> {
    match item {
        [] => Some(None),
        item => Reader::new(item).fixed().ok().map(Some),
    }
}

/// The entry is not that of a decision as it is written here.
const OTHER: Malformed = Malformed("no decision");

impl<'e> Parts<'e> {
    /// Takes a part that leaves a hole in the shape.
    #[inline]
    fn take(&mut self, key: u8, reader: &mut Reader<'e>) -> Result<(), Malformed> {
        match key {
            key::DECIDED_AFTER => self.decided_after = reader.int()?,
            key::CLIENT => {
                if reader.array()? != 2 || !reader.is_bytes() {
                    return Err(OTHER);
                }
                self.client.0 = reader.item()?;
                self.port = reader.uint()?;
            }
            key::CLIENT_NAME if reader.is_text() => self.client.1 = reader.item()?,
            key::CHAIN if reader.is_array() => self.requester.0 = reader.item()?,
            key::USER_AGENT if reader.is_bytes() => self.requester.1 = reader.item()?,
            key::ORIGIN if reader.is_text() => self.origin = reader.item()?,
            // One column serves both.
            key::PATH => self.path = reader.bytes()?,
            key::URL if !self.holes.has(key::PATH) => self.path = reader.bytes()?,
            key::RULE if reader.is_array() => self.rule = reader.item()?,
            key::BASIS if reader.is_bytes() => self.basis = reader.item()?,
            key::UPSTREAM if reader.is_array() => self.upstream = reader.item()?,
            key::HOLD => self.hold = reader.uint()?,
            key::BYTES_IN => self.bytes_in = reader.uint()?,
            key::BYTES_OUT => self.bytes_out = reader.uint()?,
            key::DURATION => self.duration = reader.uint()?,
            _ => {
                let mut rare = RARE.iter().zip(&mut self.rest);
                let (_, value) = rare.find(|(rare, _)| **rare == key).ok_or(OTHER)?;
                *value = reader.item()?;
            }
        }
        Ok(())
    }
}

/// Takes the entry of a decision apart; its shape goes to `shape`. An error means that the entry does not fit: it is
/// kept as it is.
pub(super) fn split<'e>(entry: &'e [u8], shape: &mut Vec<u8>) -> Result<Parts<'e>, Malformed> {
    shape.clear();
    // The octets before are in the shape, or in a hole.
    let mut from = 0;
    let mut parts = Parts::default();
    let reader = &mut Reader::new(entry);
    let mut keys = Keys::of(reader)?;
    while let Some(next) = keys.next(reader)? {
        let key = u8::try_from(next).map_err(|_| OTHER)?;
        let start = entry.len() - reader.rest().len();
        match key {
            key::MODE => {
                parts.mode = variant(reader, Mode::from_number)?;
                continue;
            }
            key::VERDICT => {
                parts.verdict = variant(reader, Verdict::from_number)?;
                continue;
            }
            key::REASON => {
                parts.reason = Some(reader.text()?);
                continue;
            }
            key::POLICY => {
                parts.policy = Some(reader.fixed()?);
                continue;
            }
            key::OVERRIDE => {
                parts.overridden = Some(reader.fixed()?);
                continue;
            }
            key::SOURCE
            | key::MISMATCH
            | key::METHOD
            | key::VIA
            | key::OPAQUE
            | key::PACE
            | key::STATUS
            | key::ERROR
            | key::VERSION
            | key::UPSTREAM_VERSION => {
                reader.item()?;
                continue;
            }
            key::ID => {
                let id: &[u8; 16] = reader.fixed()?;
                let number = u128::from_be_bytes(*id);
                parts.time = (number >> 80) as u64;
                parts.counter = (number >> 48) as u32;
                copy(shape, entry, from..start).ok_or(OTHER)?;
                from = start + OF_ID;
                parts.holes.add(key);
                continue;
            }
            _ => parts.take(key, reader)?,
        }
        copy(shape, entry, from..start).ok_or(OTHER)?;
        from = entry.len() - reader.rest().len();
        parts.holes.add(key);
    }
    reader.end()?;
    shape.extend_from_slice(entry.get(from..).ok_or(OTHER)?);
    if parts.holes.has(key::ID) && parts.holes.has(key::CLIENT) { Ok(parts) } else { Err(OTHER) }
}

/// Appends a piece of an entry; `None` if it is not there. Nearly all pieces are short: to call what copies them would take
/// longer than to copy more than is needed.
#[inline]
fn copy(shape: &mut Vec<u8>, entry: &[u8], piece: Range<usize>) -> Option<()> {
    const SHORT: usize = 16;
    let length = piece.end.checked_sub(piece.start)?;
    let from = entry.get(piece.start..)?;
    match from.first_chunk::<SHORT>() {
        Some(short) if length <= SHORT => {
            let start = shape.len();
            shape.extend_from_slice(short);
            shape.truncate(start + length);
        }
        _ => shape.extend_from_slice(from.get(..length)?),
    }
    Some(())
}

/// The keys of the rare values, in the order of [`Parts::rest`].
pub(super) const RARE: [u8; 8] = [
    key::CUTS,
    key::READING,
    key::URL_SHA256,
    key::DETAIL,
    key::USAGE,
    key::SIGNED,
    key::TDMREP,
    key::EXEMPT,
];

/// A shape that is read.
#[derive(Debug)]
pub(super) struct Shape {
    pub(super) holes: KeySet,
    /// The ends of the pieces between the holes, and the hole after each; `None` at the end.
    pub(super) pieces: Vec<(u32, Option<u8>)>,
    /// The last 48 bits of the identifiers: the number of the process.
    pub(super) process: u64,
}

impl Shape {
    /// Reads a shape.
    pub(super) fn read(word: &[u8]) -> Result<Self, BlockError> {
        const NONE: BlockError = BlockError("an invalid shape");
        let none = |_| NONE;
        let mut holes = KeySet::default();
        let mut pieces = Vec::new();
        let mut process = 0;
        let mut reader = Reader::new(word);
        let mut keys = Keys::of(&mut reader).map_err(none)?;
        while let Some(key) = keys.next(&mut reader).map_err(none)? {
            let key = u8::try_from(key).ok().filter(|key| *key < 64).ok_or(NONE)?;
            if !is_hole(key) {
                reader.item().map_err(none)?;
                continue;
            }
            holes.add(key);
            pieces.push(((word.len() - reader.rest().len()) as u32, Some(key)));
            if key == key::ID {
                let before = reader.rest();
                reader = skip_process(reader).ok_or(NONE)?;
                let octets = before.iter().take(PROCESS);
                process = octets.fold(0, |number, octet| number << 8 | u64::from(*octet));
            }
        }
        reader.end().map_err(none)?;
        let has_one_url = !(holes.has(key::PATH) && holes.has(key::URL));
        if !holes.has(key::ID) || !holes.has(key::CLIENT) || !has_one_url {
            return Err(NONE);
        }
        pieces.push((word.len() as u32, None));
        Ok(Self { holes, pieces, process })
    }
}

/// Skips the part of an identifier that stays in the shape.
fn skip_process(reader: Reader<'_>) -> Option<Reader<'_>> {
    let (_, rest) = reader.rest().split_at_checked(PROCESS)?;
    Some(Reader::new(rest))
}

fn is_hole(key: u8) -> bool {
    matches!(
        key,
        key::ID
            | key::DECIDED_AFTER
            | key::CLIENT
            | key::CLIENT_NAME
            | key::CHAIN
            | key::USER_AGENT
            | key::ORIGIN
            | key::PATH
            | key::URL
            | key::RULE
            | key::BASIS
            | key::UPSTREAM
            | key::HOLD
            | key::BYTES_IN
            | key::BYTES_OUT
            | key::DURATION
    ) || RARE.contains(&key)
}

/// Returns the CBOR item that a shape has at `key`, of any type; `None` if it has a hole there, or nothing.
pub(super) fn value(word: &[u8], key: u8) -> Option<&[u8]> {
    let mut reader = Reader::new(word);
    let mut keys = Keys::of(&mut reader).ok()?;
    while let Some(next) = keys.next(&mut reader).ok()? {
        let next = u8::try_from(next).ok()?;
        if next == key::ID {
            reader = skip_process(reader)?;
        } else if !is_hole(next) {
            let item = reader.item().ok()?;
            if next == key {
                return Some(item);
            }
        }
    }
    None
}
