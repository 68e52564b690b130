//! The rows of sums as columns of numbers.

use super::MILLIS;
use crate::search::Group;
use crawlgate_block::varint::{Input, put, put_signed};
use crawlgate_block::{BlockError, NO_WORD};

/// The decisions of an hour with the same facts, origin and rule.
#[derive(Clone, Copy, Debug)]
pub(super) struct Decided {
    pub(super) hour: u32,
    pub(super) facts: u32,
    pub(super) origin: u32,
    pub(super) rule: u32,
    pub(super) group: Group,
}

/// A value of each column.
type Columns<T> = [T; 7];

/// Writes the number of a word; [`NO_WORD`] is 0.
fn put_word(out: &mut Vec<u8>, word: u32) {
    put(out, u64::from(word.wrapping_add(1)));
}

/// Reads the number of a word among `count`.
fn word(number: u64, count: usize) -> Result<u32, BlockError> {
    match usize::try_from(number) {
        Ok(0) => Ok(NO_WORD),
        Ok(number) if number <= count => Ok(number as u32 - 1),
        _ => Err(BlockError("a word that is not there")),
    }
}

/// Reads the number of a word that must be there.
fn some(number: u64, count: usize) -> Result<u32, BlockError> {
    word(number.saturating_add(1), count)
}

impl Decided {
    /// The row before the first.
    const START: Self = Self { hour: 0, facts: 0, origin: 0, rule: 0, group: Group::NOTHING };

    /// Appends all rows: their number, the lengths of the columns, and the columns.
    pub(super) fn write_all(rows: &[Self], out: &mut Vec<u8>) {
        let mut columns: Columns<Vec<u8>> = Default::default();
        let mut last = Self::START;
        for row in rows {
            row.write(&last, &mut columns);
            last = *row;
        }
        put(out, rows.len() as u64);
        columns.iter().for_each(|column| put(out, column.len() as u64));
        columns.iter_mut().for_each(|column| out.append(column));
    }

    /// Reads all rows; `words` are the lengths of their dictionaries.
    pub(super) fn read_all(
        input: &mut Input<'_>,
        words: [usize; 3],
    ) -> Result<Vec<Self>, BlockError> {
        let count = input.length()?;
        let mut lengths: Columns<usize> = Default::default();
        for length in &mut lengths {
            *length = input.length()?;
        }
        let mut columns = Columns::default();
        for (column, length) in columns.iter_mut().zip(lengths) {
            *column = Input(input.take(length)?);
        }
        // Each row has an octet of the first column at least.
        let [first, ..] = columns;
        if count > first.0.len() {
            return Err(BlockError("a column that is too short"));
        }
        let mut rows = Vec::with_capacity(count);
        let mut last = Self::START;
        for _ in 0..count {
            last = Self::read(&mut columns, &last, words)?;
            rows.push(last);
        }
        columns.into_iter().try_for_each(Input::end)?;
        Ok(rows)
    }

    /// Writes a row after `last`, as numbers that are small next to it.
    fn write(
        &self,
        last: &Self,
        [hour, facts, origin, rule, count, first, span]: &mut Columns<Vec<u8>>,
    ) {
        put(hour, u64::from(self.hour - last.hour));
        put(facts, u64::from(self.facts));
        // Rows are sorted: the origin is usually the one after the last.
        let step = i64::from(self.origin.wrapping_add(1)) - i64::from(last.origin.wrapping_add(1));
        put_signed(origin, step);
        put_word(rule, self.rule);
        put(count, self.group.count);
        put(first, self.group.first - u64::from(self.hour) * MILLIS);
        put(span, self.group.last - self.group.first);
    }

    /// Reads a row after `last`.
    fn read(
        [hour, facts, origin, rule, count, first, span]: &mut Columns<Input<'_>>,
        last: &Self,
        [of_facts, of_origins, of_rules]: [usize; 3],
    ) -> Result<Self, BlockError> {
        let hour = u64::from(last.hour).checked_add(hour.number()?);
        let hour = hour.and_then(|hour| u32::try_from(hour).ok());
        let hour = hour.ok_or(BlockError("an hour out of range"))?;
        let origin = origin.signed()?.checked_add(last.origin.wrapping_add(1).into());
        let origin = origin.and_then(|origin| u64::try_from(origin).ok());
        let (from, span) = (first.number()?, span.number()?);
        if from.saturating_add(span) >= MILLIS {
            return Err(BlockError("a time out of its hour"));
        }
        let first = u64::from(hour) * MILLIS + from;
        Ok(Self {
            hour,
            facts: some(facts.number()?, of_facts)?,
            origin: word(origin.unwrap_or(u64::MAX), of_origins)?,
            rule: word(rule.number()?, of_rules)?,
            group: Group { count: count.number()?, first, last: first + span },
        })
    }
}
