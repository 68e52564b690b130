//! The counts of decisions against the log that they were counted from.

use std::collections::BTreeMap;

use rusqlite::Connection;

use super::engine::{Failure, Statements as _, integer, moment};
use super::entries::{self, Blocks, checkpoint};
use super::hours::{Hours, read};
use super::kind;
use crate::{HOUR, Miscount};
use crawlgate_record::Outline;
use crawlgate_system::clock::Moment;
use crawlgate_tlog::SEGMENT;

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
    if kind::is_collected(connection)? {
        return Ok(None);
    }
    let (first, size) = entries::extent(connection)?;
    let noted = checkpoint::noted_size(connection)?;
    let mut found = Miscount {
        signed: Some((noted, size)).filter(|_| noted > size),
        ..Miscount::default()
    };
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
        (
            "SELECT max(max_time) FROM segment WHERE number < ?1",
            first.div_ceil(SEGMENT),
        ),
    ] {
        latest = latest.max(connection.only(text, [integer(before)])?);
    }
    Ok(latest.map(moment))
}
