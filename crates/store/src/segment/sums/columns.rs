//! The tables of sums as columns of numbers.

use super::MILLIS;
use crate::search::Group;
use crawlgate_block::varint::{Input, put, put_signed};
use crawlgate_block::{BlockError, NO_WORD};
use crawlgate_record::Verdict;

/// The decisions of an hour with the same facts, origin and rule.
#[derive(Clone, Copy, Debug)]
pub(super) struct Decided {
    pub(super) hour: u32,
    pub(super) facts: u32,
    pub(super) origin: u32,
    pub(super) rule: u32,
    pub(super) group: Group,
}

/// The requests of an hour of one client under one token, with the same verdict.
#[derive(Clone, Copy, Debug)]
pub(super) struct Requested {
    pub(super) hour: u32,
    pub(super) client: u32,
    pub(super) token: u32,
    pub(super) verdict: u32,
    pub(super) count: u64,
}

/// The refusals of an hour that were counted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Repeated {
    pub(super) hour: u32,
    pub(super) facts: u32,
    pub(super) count: u64,
}

/// A table of sums. Each row is written as numbers that are small next to the row before.
pub(super) trait Table: Copy {
    /// The row before the first.
    const START: Self;

    /// Writes a row after `last`.
    fn write(&self, last: &Self, out: &mut [Vec<u8>; 7]);

    /// Reads a row after `last`; `words` are the lengths of its dictionaries.
    fn read(input: &mut [Input<'_>; 7], last: &Self, words: [usize; 3])
    -> Result<Self, BlockError>;

    /// Appends all rows: their number, the lengths of the columns, and the columns.
    fn write_all(rows: &[Self], out: &mut Vec<u8>) {
        let mut columns: [Vec<u8>; 7] = Default::default();
        let mut last = Self::START;
        for row in rows {
            row.write(&last, &mut columns);
            last = *row;
        }
        put(out, rows.len() as u64);
        columns
            .iter()
            .for_each(|column| put(out, column.len() as u64));
        columns.iter_mut().for_each(|column| out.append(column));
    }

    /// Reads all rows.
    fn read_all(input: &mut Input<'_>, words: [usize; 3]) -> Result<Vec<Self>, BlockError> {
        let count = input.length()?;
        let mut lengths = [0; 7];
        for length in &mut lengths {
            *length = input.length()?;
        }
        let mut columns = [Input::default(); 7];
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
}

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

fn hour(input: &mut Input<'_>, last: u32) -> Result<u32, BlockError> {
    let hour = u64::from(last).checked_add(input.number()?);
    let hour = hour.and_then(|hour| u32::try_from(hour).ok());
    hour.ok_or(BlockError("an hour out of range"))
}

impl Table for Decided {
    const START: Self = Self {
        hour: 0,
        facts: 0,
        origin: 0,
        rule: 0,
        group: Group::NOTHING,
    };

    fn write(
        &self,
        last: &Self,
        [hour, facts, origin, rule, count, first, span]: &mut [Vec<u8>; 7],
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

    fn read(
        [of_hour, facts, origin, rule, count, first, span]: &mut [Input<'_>; 7],
        last: &Self,
        [of_facts, of_origins, of_rules]: [usize; 3],
    ) -> Result<Self, BlockError> {
        let hour = hour(of_hour, last.hour)?;
        let origin = origin
            .signed()?
            .checked_add(last.origin.wrapping_add(1).into());
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
            group: Group {
                count: count.number()?,
                first,
                last: first + span,
            },
        })
    }
}

impl Table for Requested {
    const START: Self = Self {
        hour: 0,
        client: 0,
        token: 0,
        verdict: 0,
        count: 0,
    };

    fn write(&self, last: &Self, [hour, client, token, verdict, count, ..]: &mut [Vec<u8>; 7]) {
        put(hour, u64::from(self.hour - last.hour));
        put(client, u64::from(self.client));
        put(token, u64::from(self.token));
        put(verdict, u64::from(self.verdict));
        put(count, self.count);
    }

    fn read(
        [of_hour, client, token, verdict, count, ..]: &mut [Input<'_>; 7],
        last: &Self,
        [clients, tokens, _]: [usize; 3],
    ) -> Result<Self, BlockError> {
        Ok(Self {
            hour: hour(of_hour, last.hour)?,
            client: some(client.number()?, clients)?,
            token: some(token.number()?, tokens)?,
            verdict: some(verdict.number()?, Verdict::ALL.len())?,
            count: count.number()?,
        })
    }
}

impl Table for Repeated {
    const START: Self = Self {
        hour: 0,
        facts: 0,
        count: 0,
    };

    fn write(&self, last: &Self, [hour, facts, count, ..]: &mut [Vec<u8>; 7]) {
        put(hour, u64::from(self.hour - last.hour));
        put(facts, u64::from(self.facts));
        put(count, self.count);
    }

    fn read(
        [of_hour, facts, count, ..]: &mut [Input<'_>; 7],
        last: &Self,
        [of_facts, ..]: [usize; 3],
    ) -> Result<Self, BlockError> {
        Ok(Self {
            hour: hour(of_hour, last.hour)?,
            facts: some(facts.number()?, of_facts)?,
            count: count.number()?,
        })
    }
}
