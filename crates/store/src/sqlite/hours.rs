//! Counts of decisions by hour, updated with each write, so that a chart of a month reads some thousand rows and not
//! some million records.
//!
//! These counts, and the size of the log when it was signed last, are written beside the log. Where records were taken out
//! of the log, its checkpoints and the state file, they still tell of them ([`Miscount`]).

use std::collections::BTreeMap;
use std::fmt;

use rusqlite::{Connection, params};

use super::engine::{Failure, Statements as _, integer, moment, number, time};
use super::entries::{Blocks, checkpoint};
use super::{entries, notes};
use crate::{HOUR, Hourly, hourly};
use crawlgate_record::Outline;
use crawlgate_system::clock::Moment;
use crawlgate_text::time_text;
use crawlgate_tlog::SEGMENT;

/// The counts of one batch. A batch has few kinds of decisions, and mostly the same one again.
#[derive(Debug, Default)]
pub(super) struct Hours(pub(super) Vec<Hourly>);

impl Hours {
    /// Counts a record, unless it is no decision.
    pub(super) fn count(&mut self, entry: &Outline<'_>) {
        let Some(new) = hourly(entry) else { return };
        match self.0.iter_mut().rev().find(|known| known.is_kind(&new)) {
            Some(known) => known.count += new.count,
            None => self.0.push(Hourly {
                hour: new.hour,
                mode: new.mode.to_owned(),
                verdict: new.verdict.to_owned(),
                reason: new.reason.to_owned(),
                count: new.count,
            }),
        }
    }

    /// Adds the counts to the stored ones.
    pub(super) fn write(&self, connection: &Connection) -> Result<(), Failure> {
        for one in &self.0 {
            let text = "INSERT INTO hourly VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT DO UPDATE SET count = count + excluded.count";
            let (hour, count) = (time(one.hour), integer(one.count));
            connection.run(text, params![hour, one.mode, one.verdict, one.reason, count])?;
        }
        Ok(())
    }
}

/// See [`Store::hours`](crate::Store::hours).
pub(super) fn read(
    connection: &Connection,
    since: Moment,
    until: Moment,
) -> Result<Vec<Hourly>, Failure> {
    let text = "SELECT hour, mode, verdict, reason, count FROM hourly WHERE hour > ?1 AND hour < ?2 \
                ORDER BY hour, mode, verdict, reason";
    // The hour that `since` is in counts.
    connection.all(text, [time(since - HOUR), time(until)], |row| {
        Ok(Hourly {
            hour: moment(row.get(0)?),
            mode: row.get(1)?,
            verdict: row.get(2)?,
            reason: row.get(3)?,
            count: number(row.get(4)?),
        })
    })
}

/// Drops the hours that end before `oldest`, the time of the first kept entry.
pub(super) fn prune(connection: &Connection, oldest: Moment) -> Result<(), Failure> {
    let text = "DELETE FROM hourly WHERE hour + 3600000 <= ?1";
    connection.run(text, [time(oldest)]).map(drop)
}

/// Counts all decisions anew, after a rebuild of a damaged store.
pub(super) fn recount(connection: &Connection, blocks: &Blocks) -> Result<(), Failure> {
    connection.run("DELETE FROM hourly", [])?;
    count_log(connection, blocks)?.write(connection)
}

fn count_log(connection: &Connection, blocks: &Blocks) -> Result<Hours, Failure> {
    let mut hours = Hours::default();
    entries::walk(connection, blocks, 0..=u64::MAX, false, |_, octets| {
        if let Ok(entry) = Outline::read(octets) {
            hours.count(&entry);
        }
        Ok(true)
    })?;
    Ok(hours)
}

/// Returns the decisions that the counts of hours know, and the records that the noted size counts, and the log does not have; `None` if there are none, or if
/// a part of the log cannot be read. Retention may have dropped records of the hours up to the latest dropped one, and
/// their counts are as they were.
pub(super) fn miscounted(
    connection: &Connection,
    blocks: &Blocks,
) -> Result<Option<Miscount>, Failure> {
    let _reading = entries::reading(connection)?;
    // The gaps of a collected copy tell its missing records.
    if notes::is_collected(connection)? {
        return Ok(None);
    }
    let (first, size) = entries::extent(connection)?;
    let noted = checkpoint::noted_size(connection)?;
    let mut found =
        Miscount { signed: Some((noted, size)).filter(|_| noted > size), ..Miscount::default() };
    let logged = match count_log(connection, blocks) {
        Ok(logged) => logged,
        // Told by another check.
        Err(Failure::Damaged(_)) => return Ok(None),
        Err(failure) => return Err(failure),
    };
    let mut sums: BTreeMap<_, u64> = BTreeMap::new();
    for one in logged.0 {
        let kind = (one.hour, one.mode, one.verdict, one.reason);
        *sums.entry(kind).or_default() += one.count;
    }
    let from = dropped_until(connection, first)?.map_or(Moment::default(), |until| until + HOUR);
    // `read` begins with the hour that its first argument is in.
    for one in read(connection, from, moment(i64::MAX))? {
        let (hour, counted) = (one.hour, one.count);
        let logged = sums.get(&(hour, one.mode, one.verdict, one.reason));
        let missing = counted.saturating_sub(logged.copied().unwrap_or_default());
        if missing > 0 {
            let (before, since, _) = found.decisions.unwrap_or((0, hour, hour));
            found.decisions = Some((before + missing, since, hour + HOUR));
        }
    }
    Ok((found != Miscount::default()).then_some(found))
}

/// Returns the latest time of the entries that retention has dropped, or of others of their segment.
fn dropped_until(connection: &Connection, first: u64) -> Result<Option<Moment>, Failure> {
    let mut latest = None;
    for (text, before) in [
        ("SELECT max(max_time) FROM block WHERE first < ?1", first),
        ("SELECT max(max_time) FROM segment WHERE number < ?1", first.div_ceil(SEGMENT)),
    ] {
        latest = latest.max(connection.only(text, [integer(before)])?);
    }
    Ok(latest.map(moment))
}

/// The missing records that the counts tell of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Miscount {
    /// Number of decisions without a record, the beginning of their first hour and the end of their last one.
    pub decisions: Option<(u64, Moment, Moment)>,
    /// The number of records that were signed, and the smaller one that the log has.
    pub signed: Option<(u64, u64)>,
}

impl fmt::Display for Miscount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((count, since, until)) = self.decisions {
            let (since, until) = (time_text(since), time_text(until));
            write!(
                f,
                "the counts of the hours from {since} to {until} have {count} decisions more than the log"
            )?;
        }
        if let Some((counted, size)) = self.signed {
            let and = if self.decisions.is_some() { ", and " } else { "" };
            write!(
                f,
                "{and}the store notes that {counted} records were signed, and the log has {size}"
            )?;
        }
        Ok(())
    }
}
