//! The columns by which a search finds a decision. [`block`](super) says what shapes, words and places are.

use super::frame::BlockError;
use super::shape::Shape;
use super::varint::Input;
use super::words::{Places, Words};
use crawlgate_record::key;

/// The error of all columns.
const DAMAGED: BlockError = BlockError("a column that is cut off, or has a wrong number");

/// The number in a column where a decision has no word.
pub const NO_WORD: u32 = u32::MAX;

/// The keys of the decisions, a column each. Words are numbers in their dictionaries.
#[derive(Debug, Default)]
pub struct Keys {
    /// The places of entries that are no decisions, in order.
    pub(super) other_places: Vec<u32>,
    /// The place of each decision; empty if all entries are decisions.
    places: Vec<u32>,
    /// The times, in milliseconds since the epoch.
    pub time: Vec<u64>,
    /// The counters in the identifiers.
    pub counter: Vec<u32>,
    /// The shapes.
    pub shape: Vec<u32>,
    /// The clients.
    pub client: Vec<u32>,
    /// The requesters.
    pub requester: Vec<u32>,
    /// The origins, or [`NO_WORD`].
    pub origin: Vec<u32>,
    /// The rules, or [`NO_WORD`].
    pub rule: Vec<u32>,
}

/// The keys of one decision.
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

/// An entry in the columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// A decision in the columns: its row.
    Row(usize),
    /// An entry that is kept as it is: its place among those.
    Other(usize),
}

impl Keys {
    /// Reads the section of a block of `count` entries.
    pub(super) fn read(
        section: &[u8],
        count: usize,
        shapes: &[Shape],
        words: [&Words; 5],
    ) -> Result<Self, BlockError> {
        let mut input = Input(section);
        let other_places = other_places(&mut input, count)?;
        let rows = count - other_places.len();
        let times = times(&mut input, rows).ok_or(DAMAGED)?;
        let counters = counters(&mut input, rows).ok_or(DAMAGED)?;
        let [shape, client, requester, origin, rule] = words;
        let shape = column(&mut input, shape, rows).ok_or(DAMAGED)?;
        let keys = Self {
            client: column(&mut input, client, rows).ok_or(DAMAGED)?,
            requester: column(&mut input, requester, rows).ok_or(DAMAGED)?,
            origin: sparse(&mut input, origin, &shape, shapes, key::ORIGIN).ok_or(DAMAGED)?,
            rule: sparse(&mut input, rule, &shape, shapes, key::RULE).ok_or(DAMAGED)?,
            places: places(&other_places, count),
            other_places,
            time: times,
            counter: counters,
            shape,
        };
        input.end()?;
        Ok(keys)
    }

    /// Returns the number of decisions in the columns.
    #[must_use]
    pub fn len(&self) -> usize {
        self.time.len()
    }

    /// Tells whether there are no decisions.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.time.is_empty()
    }

    /// Returns the keys of one decision.
    #[must_use]
    pub fn row(&self, nth: usize) -> Option<Row> {
        let word = |column: &[u32]| column.get(nth).copied().filter(|word| *word != NO_WORD);
        Some(Row {
            place: self.place(nth)?,
            time: *self.time.get(nth)?,
            counter: *self.counter.get(nth)?,
            shape: *self.shape.get(nth)?,
            client: *self.client.get(nth)?,
            requester: *self.requester.get(nth)?,
            origin: word(&self.origin),
            rule: word(&self.rule),
        })
    }

    /// Returns the place of a decision in the block.
    #[must_use]
    pub fn place(&self, nth: usize) -> Option<u32> {
        if self.other_places.is_empty() {
            u32::try_from(nth).ok().filter(|_| nth < self.len())
        } else {
            self.places.get(nth).copied()
        }
    }

    /// Returns the entry at a place in the block; `None` beyond its end.
    #[inline]
    #[must_use]
    pub fn at(&self, place: u32) -> Option<Found> {
        if self.other_places.is_empty() {
            let row = place as usize;
            return (row < self.len()).then_some(Found::Row(row));
        }
        match self.other_places.binary_search(&place) {
            Ok(nth) => Some(Found::Other(nth)),
            Err(before) => {
                let row = (place as usize).checked_sub(before)?;
                (row < self.len()).then_some(Found::Row(row))
            }
        }
    }
}

/// Reads the places of entries that are no decisions.
fn other_places(input: &mut Input<'_>, count: usize) -> Result<Vec<u32>, BlockError> {
    let others = input.length()?;
    if others > count {
        return Err(BlockError("more entries than there are"));
    }
    let mut places = Vec::with_capacity(others);
    let mut place = 0_u64;
    for nth in 0..others {
        let step = input.number()?;
        place = place.saturating_add(step);
        if (nth > 0 && step == 0) || place >= count as u64 {
            return Err(BlockError("places that do not ascend"));
        }
        places.push(place as u32);
    }
    Ok(places)
}

/// Returns the places of the decisions; none if there are no others.
fn places(others: &[u32], count: usize) -> Vec<u32> {
    if others.is_empty() {
        return Vec::new();
    }
    let mut others = others.iter().copied().peekable();
    let all = 0..count as u32;
    all.filter(|place| others.next_if_eq(place).is_none()).collect()
}

fn times(input: &mut Input<'_>, rows: usize) -> Option<Vec<u64>> {
    let mut times = vec![0; rows];
    let mut time = 0_u64;
    for slot in &mut times {
        time = time.wrapping_add_signed(input.next_signed()?) & 0xffff_ffff_ffff;
        *slot = time;
    }
    Some(times)
}

fn counters(input: &mut Input<'_>, rows: usize) -> Option<Vec<u32>> {
    let mut counters = vec![0; rows];
    let mut counter = 0_i64;
    for slot in &mut counters {
        counter = counter.wrapping_add(input.next_signed()?);
        *slot = u32::try_from(counter).ok()?;
    }
    Some(counters)
}

/// Reads the words of all rows.
fn column(input: &mut Input<'_>, words: &Words, rows: usize) -> Option<Vec<u32>> {
    let mut column = vec![NO_WORD; rows];
    let mut places = Places::new(words);
    for slot in &mut column {
        *slot = places.next_place(input.next_number()?)?;
    }
    places.end().ok()?;
    Some(column)
}

/// Reads the words of the rows that have one.
fn sparse(
    input: &mut Input<'_>,
    words: &Words,
    rows: &[u32],
    shapes: &[Shape],
    key: u8,
) -> Option<Vec<u32>> {
    let has: Vec<bool> = shapes.iter().map(|shape| shape.holes.has(key)).collect();
    let mut column = vec![NO_WORD; rows.len()];
    let mut places = Places::new(words);
    for (slot, shape) in column.iter_mut().zip(rows) {
        if *has.get(*shape as usize)? {
            *slot = places.next_place(input.next_number()?)?;
        }
    }
    places.end().ok()?;
    Some(column)
}
