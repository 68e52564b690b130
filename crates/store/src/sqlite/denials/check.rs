//! The tables of denials against the log: what a check of the store tells of them.

use rusqlite::Connection;
use rusqlite::types::Value;

use super::super::entries::{self, Blocks, Lines};
use super::super::error::Failure;
use super::super::rows::{integer, number};
use super::daily::digest_of;
use super::recent::{NAMES, RunEntries, values};

/// Returns the faults of the tables, a sentence for each.
pub(crate) fn faults(connection: &Connection) -> Result<Vec<String>, Failure> {
    let mut faults = Vec::new();
    let wrong = wrong_denials(connection)?;
    if wrong > 0 {
        faults.push(format!(
            "recent_denial: {wrong} rows are not what the log says; `crawlgate store rebuild` drops the table, and \
             `crawlgate serve` fills it again"
        ));
    }
    let wrong = wrong_days(connection)?;
    if wrong > 0 {
        faults.push(format!(
            "denied_daily: the rules of {wrong} days are not what was counted; `crawlgate store rebuild` drops the table, \
             and `crawlgate serve` counts them again"
        ));
    }
    Ok(faults)
}

/// Counts the rows of denials that say something else than the log, as far as the log can be read.
fn wrong_denials(connection: &Connection) -> Result<u64, Failure> {
    let mut seqs = connection.prepare("SELECT seq FROM recent_denial ORDER BY seq")?;
    let seqs = seqs.query_map([], |row| row.get(0).map(number))?;
    let seqs: Vec<u64> = seqs.collect::<Result<_, _>>()?;
    let (blocks, mut lines) = (Blocks::default(), Lines::default());
    let (mut wrong, mut left) = (0, seqs.as_slice());
    while let Some(seq) = left.first() {
        let index = seq.saturating_sub(1);
        let mut count = 0;
        let read = entries::runs(
            connection,
            &blocks,
            index..=index,
            false,
            |_| Ok(false),
            |placed, _| {
                let end = placed.first.saturating_add(placed.count);
                let run = RunEntries::of(placed)?;
                count = left.partition_point(|seq| *seq <= end);
                for seq in left.get(..count).unwrap_or_default() {
                    let entry = run.entry(seq.saturating_sub(1))?;
                    let said = values(connection, &mut lines, &entry)?;
                    if said != Some(stored(connection, *seq)?) {
                        wrong += 1;
                    }
                }
                Ok(false)
            },
        );
        match read {
            // Told of the block.
            Err(Failure::Damaged(_)) => {}
            Err(failure) => return Err(failure),
            Ok(()) if count == 0 => wrong += 1,
            Ok(()) => {}
        }
        left = left.get(count.max(1)..).unwrap_or_default();
    }
    Ok(wrong)
}

fn stored(connection: &Connection, seq: u64) -> Result<Vec<Value>, Failure> {
    let mut row = connection.prepare_cached("SELECT * FROM recent_denial WHERE seq = ?1")?;
    Ok(row.query_row([integer(seq)], |row| {
        (1..=NAMES.len()).map(|place| row.get(place)).collect()
    })?)
}

/// Counts the days with other rows than were written.
fn wrong_days(connection: &Connection) -> Result<u64, Failure> {
    let mut wrong = 0;
    let mut days = connection.prepare("SELECT day, rows, digest FROM denied_day")?;
    let mut days = days.query([])?;
    while let Some(row) = days.next()? {
        let (day, digest): (i64, Vec<u8>) = (row.get(0)?, row.get(2)?);
        let count: i64 = connection
            .prepare_cached("SELECT count(*) FROM denied_daily WHERE day = ?1")?
            .query_row([day], |row| row.get(0))?;
        let is_right =
            count == row.get::<_, i64>(1)? && digest == digest_of(connection, number(day))?;
        wrong += u64::from(!is_right);
    }
    let unknown: i64 = connection.query_row(
        "SELECT count(DISTINCT day) FROM denied_daily WHERE day NOT IN (SELECT day FROM denied_day)",
        [],
        |row| row.get(0),
    )?;
    Ok(wrong + number(unknown))
}
