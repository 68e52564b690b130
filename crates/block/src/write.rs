//! The making of blocks, column by column.
//!
//! The writer takes each decision apart into its shape and the values of its holes ([`shape::split`]). It puts the shape,
//! and the values that repeat, into dictionaries, and their numbers into columns. It puts the other values into columns
//! themselves. A column has its values in the order of the entries. A decision without the column's hole in its shape has
//! no value there. Within a section, the columns stand in the order in which [`Block`](super::Block) reads them.
//!
//! The writer keeps an entry that is no decision among the others, with its place: its number in the block. Each entry that
//! reads as a decision is in the columns.

use super::columns::{Origins, Predicted};
use super::frame::{BlockError, MAX_ENTRIES, MAX_OCTETS, Packer, Section};
use super::shape::{self, Parts, RARE};
use super::varint::{put, put_signed};
use super::words::Dictionary;
use crawlgate_record::{self as entry, Outline, Verdict, key};

/// Makes blocks, one after the other, of entries in their order.
pub struct BlockWriter {
    packer: Packer,
    summary: BlockSummary,
    /// The earliest and the latest time.
    times: Option<(u64, u64)>,
    /// Octets of the entries so far.
    octets: usize,
    /// Room for the shape of an entry.
    shape: Vec<u8>,
    /// Room for a word that is made of two parts.
    word: Vec<u8>,
    /// Time and counter of the decision before: the columns have the differences.
    last: (u64, u32),
    keys: KeyColumns,
    measures: MeasureColumns,
    path_lengths: Vec<u8>,
    paths: Vec<u8>,
    words: Dictionaries,
    /// The basis and the upstream of the decision before on each origin.
    origins: Origins,
    /// Places of the entries that are no decisions, and the entries with their lengths.
    other_places: Vec<u8>,
    others: Vec<u8>,
    other_count: usize,
    /// The place of the one before.
    last_other: usize,
    /// A section on its way to the compressor.
    section: Vec<u8>,
}

/// The facts of a block beside it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockSummary {
    /// Number of entries.
    pub count: usize,
    /// The earliest time of an entry, in milliseconds since the epoch.
    pub min_time: u64,
    /// The latest time of an entry.
    pub max_time: u64,
    /// Number of decisions that deny.
    pub denials: usize,
}

/// The reason why a block does not take an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PushError {
    /// The block is full: the entry belongs to the next one.
    #[error("the block is full")]
    Full,
    /// The entry is longer than an entry can be.
    #[error("an entry of more than 65,535 octets")]
    TooLong,
}

#[derive(Default)]
struct KeyColumns {
    time: Vec<u8>,
    counter: Vec<u8>,
    shape: Vec<u8>,
    client: Vec<u8>,
    requester: Vec<u8>,
    origin: Vec<u8>,
    rule: Vec<u8>,
}

#[derive(Default)]
struct MeasureColumns {
    decided_after: Vec<u8>,
    port: Vec<u8>,
    basis: Vec<u8>,
    hold: Vec<u8>,
    duration: Vec<u8>,
    bytes_in: Vec<u8>,
    bytes_out: Vec<u8>,
    upstream: Vec<u8>,
    rest_lengths: Vec<u8>,
    rest: Vec<u8>,
}

#[derive(Default)]
struct Dictionaries {
    shape: Dictionary,
    client: Dictionary,
    requester: Dictionary,
    origin: Dictionary,
    rule: Dictionary,
    basis: Dictionary,
    upstream: Dictionary,
}

/// Moves the octets of columns to the end of a section.
fn drain<'c>(section: &mut Vec<u8>, columns: impl IntoIterator<Item = &'c mut Vec<u8>>) {
    for column in columns {
        section.append(column);
    }
}

impl std::fmt::Debug for BlockWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BlockWriter")
            .field("summary", &self.summary)
            .field("octets", &self.octets)
            .finish_non_exhaustive()
    }
}

impl BlockWriter {
    /// Returns a writer at the beginning of a block.
    ///
    /// # Errors
    /// When there is no memory for the compressor.
    pub fn new() -> Result<Self, BlockError> {
        Ok(Self {
            packer: Packer::new()?,
            summary: BlockSummary::default(),
            times: None,
            octets: 0,
            shape: Vec::new(),
            word: Vec::new(),
            last: (0, 0),
            keys: KeyColumns::default(),
            measures: MeasureColumns::default(),
            path_lengths: Vec::new(),
            paths: Vec::new(),
            words: Dictionaries::default(),
            origins: Origins::default(),
            other_places: Vec::new(),
            others: Vec::new(),
            other_count: 0,
            last_other: 0,
            section: Vec::new(),
        })
    }

    /// Returns the number of entries so far.
    #[must_use]
    pub fn count(&self) -> usize {
        self.summary.count
    }

    /// Adds an entry, and returns its outline if it is that of a decision. Octets that are no entry are kept as they are,
    /// too.
    ///
    /// # Errors
    /// When the block is full ([`MAX_ENTRIES`], [`MAX_OCTETS`]), or the entry too long.
    pub fn push<'e>(&mut self, entry: &'e [u8]) -> Result<Option<Outline<'e>>, PushError> {
        if entry.len() > entry::MAX {
            return Err(PushError::TooLong);
        }
        // One entry always fits: it is shorter than a block.
        if self.summary.count == MAX_ENTRIES || self.octets + entry.len() > MAX_OCTETS {
            return Err(PushError::Full);
        }
        let mut shape = std::mem::take(&mut self.shape);
        let (time, outline) = match shape::split(entry, &mut shape) {
            Ok(parts) => {
                self.put(&parts, &shape);
                (parts.time, parts.outline())
            }
            Err(_) => {
                self.put_other(entry);
                (entry::time_of(entry), None)
            }
        };
        self.shape = shape;
        let (min, max) = self.times.unwrap_or((time, time));
        self.times = Some((min.min(time), max.max(time)));
        self.octets += entry.len();
        self.summary.count += 1;
        Ok(outline)
    }

    /// Adds a decision to the columns.
    fn put(&mut self, parts: &Parts<'_>, shape: &[u8]) {
        let has = |key| parts.holes.has(key);
        self.summary.denials += usize::from(parts.verdict == Verdict::Deny);
        let (time, counter) = self.last;
        let keys = &mut self.keys;
        put_signed(&mut keys.time, parts.time.wrapping_sub(time).cast_signed());
        let counted = i64::from(parts.counter) - i64::from(counter);
        put_signed(&mut keys.counter, counted);
        self.last = (parts.time, parts.counter);

        let words = &mut self.words;
        words.shape.put(&mut keys.shape, shape);
        let (address, name) = parts.client;
        join(&mut self.word, address, name);
        words.client.put(&mut keys.client, &self.word);
        let (chain, user_agent) = parts.requester;
        join(&mut self.word, chain, user_agent);
        words.requester.put(&mut keys.requester, &self.word);
        let origin = has(key::ORIGIN).then(|| words.origin.put(&mut keys.origin, parts.origin));
        if has(key::RULE) {
            words.rule.put(&mut keys.rule, parts.rule);
        }

        let measures = &mut self.measures;
        put(&mut measures.port, parts.port);
        if has(key::DECIDED_AFTER) {
            put_signed(&mut measures.decided_after, parts.decided_after);
        }
        let last = self.origins.of(origin);
        if has(key::BASIS) {
            put_predicted(&mut measures.basis, &mut words.basis, &mut last.basis, parts.basis);
        }
        if has(key::UPSTREAM) {
            let column = &mut measures.upstream;
            put_predicted(column, &mut words.upstream, &mut last.upstream, parts.upstream);
        }
        let numbers = [
            (key::HOLD, &mut measures.hold, parts.hold),
            (key::BYTES_IN, &mut measures.bytes_in, parts.bytes_in),
            (key::BYTES_OUT, &mut measures.bytes_out, parts.bytes_out),
            (key::DURATION, &mut measures.duration, parts.duration),
        ];
        for (key, column, number) in numbers {
            if has(key) {
                put(column, number);
            }
        }
        for (key, item) in RARE.into_iter().zip(parts.rest) {
            if has(key) {
                put(&mut measures.rest_lengths, item.len() as u64);
                measures.rest.extend_from_slice(item);
            }
        }
        if has(key::PATH) || has(key::URL) {
            put(&mut self.path_lengths, parts.path.len() as u64);
            self.paths.extend_from_slice(parts.path);
        }
    }

    /// Adds what is no decision as it is.
    fn put_other(&mut self, entry: &[u8]) {
        let place = self.summary.count;
        put(&mut self.other_places, (place - self.last_other) as u64);
        put(&mut self.others, entry.len() as u64);
        self.others.extend_from_slice(entry);
        self.other_count += 1;
        self.last_other = place;
    }

    /// Appends the block to `out`, and begins the next one.
    ///
    /// # Errors
    /// When there are no entries, or no memory to compress them. The writer is then of no more use.
    pub fn finish(&mut self, out: &mut Vec<u8>) -> Result<BlockSummary, BlockError> {
        let mut summary = std::mem::take(&mut self.summary);
        (summary.min_time, summary.max_time) = self.times.take().unwrap_or_default();
        if summary.count == 0 {
            return Err(BlockError("no entries"));
        }
        let packer = &mut self.packer;
        let section = &mut self.section;
        let mut pack = |kind, section: &mut Vec<u8>| {
            let packed = packer.add(kind, section);
            section.clear();
            packed
        };
        section.clear();
        put(section, self.other_count as u64);
        let columns = &mut self.keys;
        drain(
            section,
            [
                &mut self.other_places,
                &mut columns.time,
                &mut columns.counter,
                &mut columns.shape,
                &mut columns.client,
                &mut columns.requester,
                &mut columns.origin,
                &mut columns.rule,
            ],
        );
        pack(Section::Keys, section)?;
        let columns = &mut self.measures;
        drain(
            section,
            [
                &mut columns.decided_after,
                &mut columns.port,
                &mut columns.basis,
                &mut columns.hold,
                &mut columns.duration,
                &mut columns.bytes_in,
                &mut columns.bytes_out,
                &mut columns.upstream,
                &mut columns.rest_lengths,
                &mut columns.rest,
            ],
        );
        pack(Section::Measures, section)?;
        drain(section, [&mut self.path_lengths, &mut self.paths]);
        pack(Section::Paths, section)?;
        let all = &mut self.words;
        for one in [
            &mut all.shape,
            &mut all.client,
            &mut all.requester,
            &mut all.origin,
            &mut all.rule,
            &mut all.basis,
            &mut all.upstream,
        ] {
            one.finish(section);
        }
        pack(Section::Words, section)?;
        pack(Section::Others, &mut self.others)?;
        self.origins.clear();
        self.last = (0, 0);
        (self.octets, self.other_count, self.last_other) = (0, 0, 0);
        self.packer.finish(summary.count, out)?;
        Ok(summary)
    }
}

/// Makes a word of two parts.
fn join(word: &mut Vec<u8>, first: &[u8], second: &[u8]) {
    word.clear();
    word.extend_from_slice(first);
    word.extend_from_slice(second);
}

/// Appends the place of a word, or that it is the one before on the same origin.
fn put_predicted(
    column: &mut Vec<u8>,
    words: &mut Dictionary,
    last: &mut Option<u32>,
    word: &[u8],
) {
    if last.is_some_and(|last| words.is(last, word)) {
        return put(column, Predicted::AS_LAST);
    }
    let (place, is_new) = words.place(word);
    let number = if is_new { Predicted::NEW } else { u64::from(place) + Predicted::FIRST };
    *last = Some(place);
    put(column, number);
}
