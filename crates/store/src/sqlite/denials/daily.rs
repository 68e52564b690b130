//! How often each rule denied requests, by day: the most frequent ones.
//!
//! A refresh counts anew each day that has got entries, or lost some, since the last one. It reads the sums of segments, and
//! the blocks and the tail that are in none. A count says for which size of the log it was made: one that another process
//! has made of a longer log stays.

use aws_lc_rs::digest::{Context, SHA256};
use rusqlite::{Connection, OptionalExtension as _, Transaction, params};

use super::super::entries::{self, Blocks, oldest};
use super::super::error::Failure;
use super::super::rows::{integer, number, time};
use super::super::search::add_counts;
use super::super::transaction::begin;
use super::{DENY, Room, note, noted};
use crate::search::GroupCounts;
use crate::{DecisionQuery, GroupCount, HOUR};
use crawlgate_record::time_of;
use crawlgate_system::clock::Moment;
use crawlgate_tlog::SEGMENT;

/// Milliseconds of a day.
pub(super) const DAY: u64 = 24 * HOUR.as_millis() as u64;

/// Segments that one step counts.
const AT_ONCE: u64 = 16;

/// Groups of a day to remember from one step to the next.
const GROUPS: usize = 50_000;

/// Days between the first and the last entry of a block, from which on its entries are asked: a clock was wrong.
const WIDE: u64 = 3;

/// Names in `meta`: the extent of the log at the last refresh.
const FIRST: &str = "denied_first";
const SIZE: &str = "denied_size";

/// The days that a refresh counts.
#[derive(Debug)]
pub(crate) struct Refresh {
    /// The starts of the days.
    pub(crate) days: Vec<u64>,
    extent: (u64, u64),
}

/// Returns the days that are to be counted. `None` if the log is as it was.
pub(crate) fn look(connection: &Connection, blocks: &Blocks) -> Result<Option<Refresh>, Failure> {
    let (first, size) = entries::extent(connection)?;
    let (known_first, known) = (noted(connection, FIRST)?, noted(connection, SIZE)?);
    if (known_first, known) == (first, size) {
        return Ok(None);
    }
    // A log that is shorter than it was is another one.
    let from = if known > size { 0 } else { known };
    let mut days = Vec::new();
    for (begin, end, (min, max)) in runs(connection, from)? {
        if max / DAY - min.min(max) / DAY < WIDE {
            days.extend((min / DAY..=max / DAY).map(|day| day * DAY));
            continue;
        }
        let read = entries::walk(connection, blocks, begin..=end, false, |_, entry| {
            days.push(time_of(entry) / DAY * DAY);
            Ok(true)
        });
        passed_over(read)?;
    }
    if known_first != first {
        let oldest = oldest::first_kept(connection)?.unwrap_or_default();
        let mut shorter =
            connection.prepare_cached("SELECT day FROM denied_day WHERE day <= ?1")?;
        let shorter = shorter.query_map([time(oldest)], |row| row.get::<_, i64>(0))?;
        for day in shorter {
            days.push(number(day?));
        }
    }
    days.sort_unstable();
    days.dedup();
    Ok(Some(Refresh {
        days,
        extent: (first, size),
    }))
}

/// The first and the last index of entries that lie together, and the earliest and the latest time of them.
type Times = (u64, u64, (u64, u64));

/// Returns the runs of entries from an index on.
fn runs(connection: &Connection, from: u64) -> Result<Vec<Times>, Failure> {
    let mut all = Vec::new();
    // The tail first: its entries may become a block meanwhile.
    for text in [
        "SELECT first, count, min_time, max_time FROM tail WHERE first + count > ?1",
        "SELECT first, count, min_time, max_time FROM block WHERE first >= \
         (SELECT coalesce(max(first), 0) FROM block WHERE first <= ?1) AND first + count > ?1 AND body IS NOT NULL",
    ] {
        let mut found = connection.prepare_cached(text)?;
        let found = found.query_map([integer(from)], |row| {
            let [first, count, min, max] =
                [row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?].map(number);
            let last = first.saturating_add(count).saturating_sub(1);
            Ok((first, last, (min, max)))
        })?;
        for one in found {
            all.push(one?);
        }
    }
    Ok(all)
}

/// Leaves out what cannot be read: a check of the store tells it.
fn passed_over(read: Result<(), Failure>) -> Result<bool, Failure> {
    match read {
        Ok(()) => Ok(true),
        Err(Failure::Damaged(_)) => Ok(false),
        Err(failure) => Err(failure),
    }
}

/// The count of a day, some segments at a time.
#[derive(Debug)]
pub(crate) struct Count {
    day: u64,
    groups: GroupCounts,
    /// The segment to go on from, and the last one; `None` before the first step.
    segments: Option<(u64, u64)>,
    is_readable: bool,
}

impl Count {
    /// Returns the count of a day before it begins.
    pub(crate) fn of(day: u64) -> Self {
        Self {
            day,
            groups: GroupCounts::of_rules_and_reasons(),
            segments: None,
            is_readable: true,
        }
    }

    /// Counts the denials of the next segments. False at the end.
    pub(crate) fn step(
        &mut self,
        connection: &Connection,
        blocks: &Blocks,
    ) -> Result<bool, Failure> {
        let (from, last) = match self.segments {
            Some(segments) => segments,
            None => segments(connection, self.day)?,
        };
        let to = last.min(from + AT_ONCE - 1);
        let query = DecisionQuery {
            since: Some(Moment::from_millis(self.day)),
            until: Some(Moment::from_millis(self.day + DAY)),
            verdict: Some(DENY.to_owned()),
            from: Some(from * SEGMENT + 1),
            to: Some((to + 1) * SEGMENT),
            ..DecisionQuery::default()
        };
        let counted = add_counts(connection, blocks, &query, &mut self.groups);
        self.is_readable &= passed_over(counted)?;
        self.groups.shrink(GROUPS);
        self.segments = Some((to + 1, last));
        Ok(to < last)
    }
}

/// Returns the first and the last segment that may have entries of a day. The last one of the log has no row yet.
fn segments(connection: &Connection, day: u64) -> Result<(u64, u64), Failure> {
    let (first, size) = entries::extent(connection)?;
    let least: Option<i64> = connection
        .prepare_cached("SELECT min(number) FROM segment WHERE max_time >= ?1 AND min_time < ?2 AND number >= ?3")?
        .query_row(
            [integer(day), integer(day + DAY), integer(first / SEGMENT)],
            |row| row.get(0),
        )?;
    let last = size / SEGMENT;
    Ok((
        least.map_or(last, number).max(first / SEGMENT).min(last),
        last,
    ))
}

impl Refresh {
    /// Writes the count of a day in the place of an earlier one.
    pub(crate) fn put(
        &self,
        connection: &mut Connection,
        count: Count,
        room: Room,
    ) -> Result<(), Failure> {
        // Less than there is would be wrong, and an earlier count is not.
        if !count.is_readable {
            return Ok(());
        }
        let (day, size) = (count.day, self.extent.1);
        let most = usize::try_from(room.rules).unwrap_or(usize::MAX);
        let groups = count.groups.into_most_frequent(most);
        let transaction = begin(connection)?;
        let known: Option<i64> = transaction
            .prepare_cached("SELECT size FROM denied_day WHERE day = ?1")?
            .query_row([integer(day)], |row| row.get(0))
            .optional()?;
        let (_, end) = entries::extent(&transaction)?;
        // Another process has counted a longer log, unless the log has been cut since.
        if known.is_some_and(|known| (size + 1..=end).contains(&number(known))) {
            return Ok(());
        }
        drop_day(&transaction, day)?;
        for group in &groups {
            put_row(&transaction, day, group)?;
        }
        if !groups.is_empty() {
            let digest = digest_of(&transaction, day)?;
            transaction
                .prepare_cached("INSERT INTO denied_day VALUES (?1, ?2, ?3, ?4)")?
                .execute(params![
                    integer(day),
                    integer(groups.len() as u64),
                    integer(size),
                    digest
                ])?;
        }
        transaction.commit()?;
        Ok(())
    }

    /// Drops the days without an entry, and those that the table has no room for, and notes that the log was counted.
    pub(crate) fn note(&self, connection: &mut Connection, room: Room) -> Result<(), Failure> {
        let transaction = begin(connection)?;
        if let Some(oldest) = oldest::oldest_kept(&transaction)? {
            prune(&transaction, oldest)?;
        }
        for day in beyond(&transaction, room.all_rules)? {
            drop_day(&transaction, day)?;
        }
        note(&transaction, FIRST, self.extent.0)?;
        note(&transaction, SIZE, self.extent.1)?;
        transaction.commit()?;
        Ok(())
    }
}

fn put_row(transaction: &Transaction<'_>, day: u64, group: &GroupCount) -> Result<(), Failure> {
    if let [origin, reason, rule] = group.key.as_slice() {
        transaction
            .prepare_cached("INSERT INTO denied_daily VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")?
            .execute(params![
                integer(day),
                origin,
                rule,
                reason,
                integer(group.count),
                time(group.first),
                time(group.last),
            ])?;
    }
    Ok(())
}

fn drop_day(transaction: &Transaction<'_>, day: u64) -> Result<(), Failure> {
    for text in [
        "DELETE FROM denied_daily WHERE day = ?1",
        "DELETE FROM denied_day WHERE day = ?1",
    ] {
        transaction.prepare_cached(text)?.execute([integer(day)])?;
    }
    Ok(())
}

/// Returns the largest size of the log of which a day was counted.
pub(crate) fn counted_size(connection: &Connection) -> Result<u64, Failure> {
    let largest: i64 = connection
        .prepare_cached("SELECT coalesce(max(size), 0) FROM denied_day")?
        .query_row([], |row| row.get(0))?;
    Ok(number(largest).max(noted(connection, SIZE)?))
}

/// Empties the tables of days, for the next refresh.
pub(crate) fn count_anew(transaction: &Transaction<'_>) -> Result<(), Failure> {
    transaction.execute_batch("DELETE FROM denied_daily; DELETE FROM denied_day")?;
    note(transaction, FIRST, 0)?;
    note(transaction, SIZE, 0)
}

/// Returns the oldest days, behind the newest ones that have `most` rows together.
fn beyond(connection: &Connection, most: u64) -> Result<Vec<u64>, Failure> {
    let mut days =
        connection.prepare_cached("SELECT day, rows FROM denied_day ORDER BY day DESC")?;
    let mut days = days.query([])?;
    let (mut rows, mut beyond) = (0_u64, Vec::new());
    while let Some(row) = days.next()? {
        rows = rows.saturating_add(number(row.get(1)?));
        if rows > most {
            beyond.push(number(row.get(0)?));
        }
    }
    Ok(beyond)
}

/// Drops the days that end before `oldest`, the time of the oldest kept entry.
pub(crate) fn prune(connection: &Connection, oldest: Moment) -> Result<(), Failure> {
    let end = time(oldest).saturating_sub(integer(DAY));
    for text in [
        "DELETE FROM denied_daily WHERE day <= ?1",
        "DELETE FROM denied_day WHERE day <= ?1",
    ] {
        connection.prepare_cached(text)?.execute([end])?;
    }
    Ok(())
}

/// Returns the digest of the rows of a day.
pub(super) fn digest_of(connection: &Connection, day: u64) -> Result<[u8; 16], Failure> {
    let mut rows = connection.prepare_cached(
        "SELECT origin, rule, reason, count, first, last FROM denied_daily WHERE day = ?1 ORDER BY origin, rule, reason",
    )?;
    let mut rows = rows.query([integer(day)])?;
    let mut context = Context::new(&SHA256);
    while let Some(row) = rows.next()? {
        for place in 0..3 {
            let text = row.get_ref(place)?.as_bytes().unwrap_or_default();
            context.update(&(text.len() as u64).to_be_bytes());
            context.update(text);
        }
        for place in 3..6 {
            context.update(&row.get::<_, i64>(place)?.to_be_bytes());
        }
    }
    let half = context.finish().as_ref().first_chunk().copied();
    Ok(half.unwrap_or_default())
}
