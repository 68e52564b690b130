//! The reading of blocks.

use std::borrow::Cow;
use std::sync::OnceLock;

use super::frame::{BlockError, Packed, Section};
use super::keys::{Found, Keys, Row};
use super::measures::{Measures, Parts};
use super::shape::{Shape, value};
use super::varint::Input;
use super::words::Words;
use crawlgate_record::cbor::Reader;
use crawlgate_record::key;

/// A block, of which the keys are unpacked, and the rest on demand.
#[derive(Debug)]
pub struct Block<'a> {
    packed: Packed<'a>,
    keys: Keys,
    /// The section of the words.
    pub(super) words: Vec<u8>,
    pub(super) dictionaries: Dictionaries,
    pub(super) shapes: Vec<Shape>,
    measures: OnceLock<Measures>,
    paths: OnceLock<Parts>,
    others: OnceLock<Parts>,
}

/// The kinds of words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WordKind {
    /// Values that stand in the entries as they are, see [`Word::value`].
    Shape,
    /// Address and, if there is one, name: CBOR items.
    Client,
    /// Chain and User-Agent, each if there is one: CBOR items.
    Requester,
    /// A CBOR text.
    Origin,
    /// Group, text and line: a CBOR array.
    Rule,
    /// The SHA-256 of a basis: a CBOR byte string.
    Basis,
}

/// A word of a dictionary.
#[derive(Clone, Copy, Debug)]
pub struct Word<'b> {
    kind: WordKind,
    /// The octets.
    pub octets: &'b [u8],
}

impl<'b> Word<'b> {
    /// Returns the CBOR item that entries of this shape have at `key`; `None` if they have none, or each its own.
    #[must_use]
    pub fn value(&self, key: u8) -> Option<&'b [u8]> {
        match self.kind {
            WordKind::Shape => value(self.octets, key),
            _ => None,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Dictionaries {
    pub(super) shape: Words,
    pub(super) client: Words,
    pub(super) requester: Words,
    pub(super) origin: Words,
    pub(super) rule: Words,
    pub(super) basis: Words,
    pub(super) upstream: Words,
}

impl Dictionaries {
    fn read(section: &[u8], most: usize) -> Result<Self, BlockError> {
        let mut input = Input(section);
        let mut next = || Words::read(section, &mut input, most);
        let read = Self {
            shape: next()?,
            client: next()?,
            requester: next()?,
            origin: next()?,
            rule: next()?,
            basis: next()?,
            upstream: next()?,
        };
        input.end()?;
        Ok(read)
    }
}

impl<'a> Block<'a> {
    /// Reads a block: its head, keys and words. The other sections are unpacked when they are needed first.
    ///
    /// # Errors
    /// When these are damaged, or it is no block. Nothing is unpacked beyond 64 MiB.
    pub fn read(block: impl Into<Cow<'a, [u8]>>) -> Result<Self, BlockError> {
        let packed = Packed::read(block.into())?;
        let words = packed.unpack(Section::Words)?;
        let dictionaries = Dictionaries::read(&words, packed.count)?;
        let mut shapes = Vec::with_capacity(dictionaries.shape.len());
        for place in 0..dictionaries.shape.len() {
            shapes.push(Shape::read(dictionaries.shape.get(&words, place as u32)?)?);
        }
        let of_keys = [
            &dictionaries.shape,
            &dictionaries.client,
            &dictionaries.requester,
            &dictionaries.origin,
            &dictionaries.rule,
        ];
        let section = packed.unpack(Section::Keys)?;
        let keys = Keys::read(&section, packed.count, &shapes, of_keys)?;
        Ok(Self {
            packed,
            keys,
            words,
            dictionaries,
            shapes,
            measures: OnceLock::new(),
            paths: OnceLock::new(),
            others: OnceLock::new(),
        })
    }

    /// Unpacks all sections.
    ///
    /// # Errors
    /// When one of them is damaged.
    pub fn check(&self) -> Result<(), BlockError> {
        self.measures()?;
        self.paths()?;
        self.others()?;
        Ok(())
    }

    /// Returns the number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.packed.count
    }

    /// Tells whether there are no entries. A block has some.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.packed.count == 0
    }

    /// Returns the keys of the decisions, in order.
    #[must_use]
    pub fn keys(&self) -> &Keys {
        &self.keys
    }

    /// Returns the keys row by row.
    pub fn rows(&self) -> impl Iterator<Item = Row> {
        (0..self.keys.len()).filter_map(|row| self.keys.row(row))
    }

    /// Returns the identifier of a decision by its row.
    #[must_use]
    pub fn id(&self, row: usize) -> Option<[u8; 16]> {
        let keys = &self.keys;
        let shape = self.shapes.get(*keys.shape.get(row)? as usize)?;
        let time = u128::from(*keys.time.get(row)?) << 80;
        let counter = u128::from(*keys.counter.get(row)?) << 48;
        Some((time | counter | u128::from(shape.process)).to_be_bytes())
    }

    /// Returns the words of a kind, in the order of their numbers.
    pub fn words(&self, kind: WordKind) -> impl Iterator<Item = Word<'_>> {
        let words = match kind {
            WordKind::Shape => &self.dictionaries.shape,
            WordKind::Client => &self.dictionaries.client,
            WordKind::Requester => &self.dictionaries.requester,
            WordKind::Origin => &self.dictionaries.origin,
            WordKind::Rule => &self.dictionaries.rule,
            WordKind::Basis => &self.dictionaries.basis,
        };
        let all = (0..words.len()).filter_map(|place| words.get(&self.words, place as u32).ok());
        all.map(move |octets| Word { kind, octets })
    }

    /// Returns the path or URL of a decision by its row; nothing if it has none.
    ///
    /// # Errors
    /// When the section of the paths is damaged.
    pub fn path(&self, row: usize) -> Result<&[u8], BlockError> {
        Ok(self.paths()?.get(row).unwrap_or_default())
    }

    /// Tells whether a row has a path, which follows its origin, instead of a URL.
    #[must_use]
    pub fn follows_origin(&self, row: usize) -> bool {
        let shape = self.keys.shape.get(row).map(|shape| *shape as usize);
        let shape = shape.and_then(|shape| self.shapes.get(shape));
        shape.is_some_and(|shape| shape.holes.has(key::PATH))
    }

    /// Returns the client's port of a decision by its row.
    ///
    /// # Errors
    /// When the section of the measures is damaged.
    pub fn port(&self, row: usize) -> Result<u64, BlockError> {
        let measured = self.measures()?.row(row);
        Ok(measured.map_or(0, |measured| measured.port))
    }

    /// Returns the number of the basis of a decision by its row; `None` if it has none.
    ///
    /// # Errors
    /// When the section of the measures is damaged.
    pub fn basis(&self, row: usize) -> Result<Option<u32>, BlockError> {
        let shape = self.keys.shape.get(row).map(|shape| *shape as usize);
        let shape = shape.and_then(|shape| self.shapes.get(shape));
        if shape.is_none_or(|shape| !shape.holes.has(key::BASIS)) {
            return Ok(None);
        }
        Ok(self.measures()?.row(row).map(|measured| measured.basis))
    }

    /// Returns what the site says of use, of a decision by its row; `None` if it has none.
    ///
    /// # Errors
    /// When the section of the measures is damaged.
    pub fn usage(&self, row: usize) -> Result<Option<&str>, BlockError> {
        let shape = self.keys.shape.get(row).map(|shape| *shape as usize);
        let shape = shape.and_then(|shape| self.shapes.get(shape));
        if shape.is_none_or(|shape| !shape.holes.has(key::USAGE)) {
            return Ok(None);
        }
        let measures = self.measures()?;
        let item = measures.row(row).map(|measured| measures.rare(measured, key::USAGE));
        Ok(item.and_then(|item| Reader::new(item).text().ok()))
    }

    /// Returns an entry that is kept as it is, by its place among those ([`Found::Other`]).
    ///
    /// # Errors
    /// When their section is damaged.
    pub fn other(&self, nth: usize) -> Result<&[u8], BlockError> {
        let other = self.others()?.get(nth);
        other.ok_or(BlockError("an entry that is not there"))
    }

    /// Returns the places of the entries that are kept as they are: events, and what is no entry.
    #[must_use]
    pub fn other_places(&self) -> &[u32] {
        &self.keys.other_places
    }

    pub(super) fn at(&self, place: usize) -> Option<Found> {
        self.keys.at(u32::try_from(place).ok()?)
    }

    pub(super) fn shape(&self, place: u32) -> Result<&Shape, BlockError> {
        let shape = self.shapes.get(place as usize);
        shape.ok_or(BlockError("a shape that is not there"))
    }

    pub(super) fn measures(&self) -> Result<&Measures, BlockError> {
        on_demand(&self.measures, || {
            let section = self.packed.unpack(Section::Measures)?;
            let Dictionaries { basis, upstream, .. } = &self.dictionaries;
            Measures::read(section, &self.keys, &self.shapes, basis, upstream)
        })
    }

    fn paths(&self) -> Result<&Parts, BlockError> {
        on_demand(&self.paths, || {
            let section = self.packed.unpack(Section::Paths)?;
            Parts::of_paths(section, &self.keys, &self.shapes)
        })
    }

    fn others(&self) -> Result<&Parts, BlockError> {
        on_demand(&self.others, || {
            let section = self.packed.unpack(Section::Others)?;
            Parts::of_others(section, self.keys.other_places.len())
        })
    }
}

/// Returns the content of a cell, and reads it first if it was not read yet.
fn on_demand<T>(
    cell: &OnceLock<T>,
    read: impl FnOnce() -> Result<T, BlockError>,
) -> Result<&T, BlockError> {
    if let Some(read) = cell.get() {
        return Ok(read);
    }
    let read = read()?;
    Ok(cell.get_or_init(|| read))
}
