//! Counts of decisions by hour, updated with each write, so that a chart of a month reads some thousand rows and not
//! some million records.

use rusqlite::{Connection, params};

use super::engine::{Failure, Statements as _, integer, moment, number, time};
use crate::{HOUR, Hourly, hourly};
use crawlgate_record::Outline;
use crawlgate_system::clock::Moment;

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
            connection.run(
                text,
                params![hour, one.mode, one.verdict, one.reason, count],
            )?;
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
