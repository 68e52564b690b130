//! The reading of blocks.

use super::columns::{Origins, Predicted};
use super::frame::{BlockError, Packed, Section};
use super::shape::{RARE, Shape, value};
use super::varint::Input;
use super::words::{Places, Words};
use crate::entry::key;

/// A block that is unpacked.
#[derive(Debug)]
pub struct Block {
    pub(super) count: usize,
    /// The places of entries that are no decisions, in order.
    pub(super) other_places: Vec<u32>,
    pub(super) others: Vec<u8>,
    /// The end of each of these entries in `others`.
    pub(super) other_bounds: Vec<(u32, u32)>,
    pub(super) rows: Vec<Row>,
    pub(super) measures: Vec<Measures>,
    /// The section of the words.
    pub(super) words: Vec<u8>,
    pub(super) dictionaries: Dictionaries,
    pub(super) shapes: Vec<Shape>,
    pub(super) paths: Vec<u8>,
    /// The section of the measures, in which the rare values lie.
    pub(super) rest: Vec<u8>,
}

/// The keys of one decision: by them, a search finds it. Words are numbers in their dictionaries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// The place in the block.
    pub place: u32,
    /// The time, in milliseconds since the epoch.
    pub time: u64,
    /// The counter in the identifier.
    pub counter: u32,
    /// The shape.
    pub shape: u32,
    /// The client.
    pub client: u32,
    /// The requester.
    pub requester: u32,
    /// The origin, if there is one.
    pub origin: Option<u32>,
    /// The rule, if there is one.
    pub rule: Option<u32>,
}

/// The other values of a decision.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Measures {
    pub(super) decided_after: i64,
    pub(super) port: u64,
    pub(super) basis: u32,
    pub(super) hold: u64,
    pub(super) duration: u64,
    pub(super) bytes_in: u64,
    pub(super) bytes_out: u64,
    pub(super) upstream: u32,
    pub(super) path: (u32, u32),
    pub(super) rest: [(u32, u32); RARE.len()],
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

impl Block {
    /// Reads a block.
    ///
    /// # Errors
    /// When it is damaged, or none. Nothing is unpacked beyond 64 MiB.
    pub fn read(block: &[u8]) -> Result<Self, BlockError> {
        let packed = Packed::read(block)?;
        let mut block = Self {
            count: packed.count,
            other_places: Vec::new(),
            others: packed.unpack(Section::Others)?,
            other_bounds: Vec::new(),
            rows: Vec::new(),
            measures: Vec::new(),
            words: packed.unpack(Section::Words)?,
            dictionaries: Dictionaries::default(),
            shapes: Vec::new(),
            paths: packed.unpack(Section::Paths)?,
            rest: packed.unpack(Section::Measures)?,
        };
        block.dictionaries = Dictionaries::read(&block.words, packed.count)?;
        for place in 0..block.dictionaries.shape.len() {
            let word = block.dictionaries.shape.get(&block.words, place as u32)?;
            block.shapes.push(Shape::read(word)?);
        }
        block.read_keys(&packed.unpack(Section::Keys)?)?;
        block.read_measures()?;
        block.read_paths()?;
        block.read_others()?;
        Ok(block)
    }

    /// Returns the number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Tells whether there are no entries. A block has some.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the keys of the decisions, in order.
    #[must_use]
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Returns the words of a kind, in the order of their numbers.
    pub fn words(&self, kind: WordKind) -> impl Iterator<Item = Word<'_>> {
        let words = match kind {
            WordKind::Shape => &self.dictionaries.shape,
            WordKind::Client => &self.dictionaries.client,
            WordKind::Requester => &self.dictionaries.requester,
            WordKind::Origin => &self.dictionaries.origin,
            WordKind::Rule => &self.dictionaries.rule,
        };
        let all = (0..words.len()).filter_map(|place| words.get(&self.words, place as u32).ok());
        all.map(move |octets| Word { kind, octets })
    }

    /// Returns the path or URL of a decision by its place among the [rows](Self::rows).
    #[must_use]
    pub fn path(&self, row: usize) -> &[u8] {
        let measures = self.measures.get(row);
        measures.map_or(&[], |measures| slice(&self.paths, measures.path))
    }

    pub(super) fn shape(&self, place: u32) -> Result<&Shape, BlockError> {
        let shape = self.shapes.get(place as usize);
        shape.ok_or(BlockError("a shape that is not there"))
    }

    fn read_keys(&mut self, section: &[u8]) -> Result<(), BlockError> {
        let mut input = Input(section);
        let others = input.length()?;
        let decisions = self
            .count
            .checked_sub(others)
            .ok_or(BlockError("more entries than there are"))?;
        let mut place = 0_u64;
        for nth in 0..others {
            let step = input.number()?;
            place = place.saturating_add(step);
            if (nth > 0 && step == 0) || place >= self.count as u64 {
                return Err(BlockError("places that do not ascend"));
            }
            self.other_places.push(place as u32);
        }
        let mut others = self.other_places.iter().copied().peekable();
        let places = (0..self.count as u32).filter(|place| others.next_if_eq(place).is_none());
        self.rows = places
            .map(|place| Row {
                place,
                ..Row::default()
            })
            .collect();
        debug_assert_eq!(self.rows.len(), decisions);

        let mut time = 0_u64;
        for row in &mut self.rows {
            time = time.wrapping_add_signed(input.signed()?) & 0xffff_ffff_ffff;
            row.time = time;
        }
        let mut counter = 0_i64;
        for row in &mut self.rows {
            counter = counter.wrapping_add(input.signed()?);
            let of_id = u32::try_from(counter);
            row.counter = of_id.map_err(|_| BlockError("a counter out of range"))?;
        }
        let dictionaries = &self.dictionaries;
        let mut shapes = Places::new(&dictionaries.shape);
        for row in &mut self.rows {
            row.shape = shapes.place(input.number()?)?;
        }
        shapes.end()?;
        let mut clients = Places::new(&dictionaries.client);
        for row in &mut self.rows {
            row.client = clients.place(input.number()?)?;
        }
        clients.end()?;
        let mut requesters = Places::new(&dictionaries.requester);
        for row in &mut self.rows {
            row.requester = requesters.place(input.number()?)?;
        }
        requesters.end()?;
        let shapes = &self.shapes;
        let has = |row: &Row, key| {
            let shape = shapes.get(row.shape as usize);
            shape.is_some_and(|shape| shape.holes.has(key))
        };
        let mut origins = Places::new(&dictionaries.origin);
        for row in self.rows.iter_mut().filter(|row| has(row, key::ORIGIN)) {
            row.origin = Some(origins.place(input.number()?)?);
        }
        origins.end()?;
        let mut rules = Places::new(&dictionaries.rule);
        for row in self.rows.iter_mut().filter(|row| has(row, key::RULE)) {
            row.rule = Some(rules.place(input.number()?)?);
        }
        rules.end()?;
        input.end()
    }

    fn read_measures(&mut self) -> Result<(), BlockError> {
        let mut measures = vec![Measures::default(); self.rows.len()];
        let mut input = Input(&self.rest);
        // The rows that have a value at a key, each with the place for it.
        let mut each =
            |key: u8, put: &mut dyn FnMut(&mut Measures, &Row) -> Result<(), BlockError>| {
                for (row, measures) in self.rows.iter().zip(&mut measures) {
                    if self.shape(row.shape)?.holes.has(key) {
                        put(measures, row)?;
                    }
                }
                Ok(())
            };
        each(key::DECIDED_AFTER, &mut |to, _| {
            to.decided_after = input.signed()?;
            Ok(())
        })?;
        each(key::CLIENT, &mut |to, _| {
            to.port = input.number()?;
            Ok(())
        })?;
        let mut origins = Origins::default();
        let mut bases = Places::new(&self.dictionaries.basis);
        each(key::BASIS, &mut |to, row| {
            let last = &mut origins.of(row.origin).basis;
            to.basis = predicted(input.number()?, &mut bases, last)?;
            Ok(())
        })?;
        bases.end()?;
        each(key::HOLD, &mut |to, _| {
            to.hold = input.number()?;
            Ok(())
        })?;
        each(key::DURATION, &mut |to, _| {
            to.duration = input.number()?;
            Ok(())
        })?;
        each(key::BYTES_IN, &mut |to, _| {
            to.bytes_in = input.number()?;
            Ok(())
        })?;
        each(key::BYTES_OUT, &mut |to, _| {
            to.bytes_out = input.number()?;
            Ok(())
        })?;
        let mut upstreams = Places::new(&self.dictionaries.upstream);
        each(key::UPSTREAM, &mut |to, row| {
            let last = &mut origins.of(row.origin).upstream;
            to.upstream = predicted(input.number()?, &mut upstreams, last)?;
            Ok(())
        })?;
        upstreams.end()?;
        // Lengths first, then the octets; both row by row.
        for (row, to) in self.rows.iter().zip(&mut measures) {
            let holes = self.shape(row.shape)?.holes;
            for (key, bounds) in RARE.into_iter().zip(&mut to.rest) {
                if holes.has(key) {
                    bounds.1 = input.length()? as u32;
                }
            }
        }
        let mut end = self.rest.len() - input.0.len();
        for bounds in measures.iter_mut().flat_map(|to| &mut to.rest) {
            *bounds = take(&mut input, &mut end, bounds.1)?;
        }
        self.measures = measures;
        input.end()
    }

    fn read_paths(&mut self) -> Result<(), BlockError> {
        let mut input = Input(&self.paths);
        let mut measures = std::mem::take(&mut self.measures);
        for (row, to) in self.rows.iter().zip(&mut measures) {
            let holes = self.shape(row.shape)?.holes;
            if holes.has(key::PATH) || holes.has(key::URL) {
                to.path.1 = input.length()? as u32;
            }
        }
        let mut end = self.paths.len() - input.0.len();
        for to in &mut measures {
            to.path = take(&mut input, &mut end, to.path.1)?;
        }
        self.measures = measures;
        input.end()
    }

    fn read_others(&mut self) -> Result<(), BlockError> {
        let mut input = Input(&self.others);
        for _ in &self.other_places {
            let length = input.length()? as u32;
            let mut start = self.others.len() - input.0.len();
            self.other_bounds
                .push(take(&mut input, &mut start, length)?);
        }
        input.end()
    }
}

/// Returns the octets between bounds that were checked when they were read.
pub(super) fn slice(octets: &[u8], (start, end): (u32, u32)) -> &[u8] {
    octets.get(start as usize..end as usize).unwrap_or_default()
}

/// Takes the next octets, and returns their bounds in the section.
fn take(input: &mut Input<'_>, end: &mut usize, length: u32) -> Result<(u32, u32), BlockError> {
    input.take(length as usize)?;
    let start = *end as u32;
    *end += length as usize;
    Ok((start, *end as u32))
}

/// Reads a predicted place.
fn predicted(
    number: u64,
    places: &mut Places<'_>,
    last: &mut Option<u32>,
) -> Result<u32, BlockError> {
    let place = match number {
        Predicted::AS_LAST => last.ok_or(BlockError("a value that none comes before"))?,
        number => places.place(number - Predicted::NEW)?,
    };
    *last = Some(place);
    Ok(place)
}
