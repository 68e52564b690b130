//! The note of the time that retention believes, in the table `meta`.

use std::time::Duration;

use rusqlite::{Connection, OptionalExtension as _, params};

use super::entries::oldest::first_kept;
use super::error::Failure;
use super::rows::{integer, number};
use super::transaction::begin;
use crate::{Belief, Progress};
use crawlgate_system::clock::Moment;

const TIME: &str = "believed_time";
const UPTIME: &str = "believed_uptime";
const BOOT: &str = "believed_boot";
const DOUBTED: &str = "believed_doubted";
const STEADY: &str = "believed_steady";

/// See [`Store::progress`](crate::Store::progress).
pub(super) fn progress(connection: &Connection) -> Result<Progress, Failure> {
    Ok(Progress {
        belief: noted(connection)?,
        first: first_kept(connection)?,
        last: newest(connection)?,
    })
}

fn noted(connection: &Connection) -> Result<Option<Belief>, Failure> {
    let read = |name: &str| -> Result<Option<i64>, Failure> {
        let mut statement = connection.prepare_cached("SELECT value FROM meta WHERE name = ?1")?;
        Ok(statement.query_row([name], |row| row.get(0)).optional()?)
    };
    let millis = |name| -> Result<Option<Duration>, Failure> {
        Ok(read(name)?.map(|value| Duration::from_millis(number(value))))
    };
    let (Some(time), Some(uptime), Some(boot)) = (read(TIME)?, millis(UPTIME)?, read(BOOT)?) else {
        return Ok(None);
    };
    Ok(Some(Belief {
        time: Moment::from_millis(number(time)),
        uptime,
        boot: boot.cast_unsigned(),
        doubted: millis(DOUBTED)?,
        steady: millis(STEADY)?.unwrap_or_default(),
    }))
}

/// Returns the time of the last entry.
fn newest(connection: &Connection) -> Result<Option<Moment>, Failure> {
    let mut newest = connection.prepare_cached(
        "SELECT max_time FROM (SELECT first, max_time FROM block UNION ALL SELECT first, max_time FROM tail) \
         ORDER BY first DESC LIMIT 1",
    )?;
    let newest = newest.query_row([], |row| row.get(0)).optional()?;
    Ok(newest.map(|time| Moment::from_millis(number(time))))
}

/// See [`Store::note_belief`](crate::Store::note_belief).
pub(super) fn note(connection: &mut Connection, belief: &Belief) -> Result<(), Failure> {
    let Belief {
        time,
        uptime,
        boot,
        doubted,
        steady,
    } = *belief;
    let millis = |duration: Duration| {
        let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        integer(millis)
    };
    let transaction = begin(connection)?;
    {
        let mut put = transaction.prepare_cached(
            "INSERT INTO meta VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        )?;
        put.execute(params![TIME, integer(time.as_millis())])?;
        put.execute(params![UPTIME, millis(uptime)])?;
        put.execute(params![BOOT, boot.cast_signed()])?;
        put.execute(params![STEADY, millis(steady)])?;
        match doubted {
            Some(doubted) => put.execute(params![DOUBTED, millis(doubted)])?,
            None => transaction.execute("DELETE FROM meta WHERE name = ?1", [DOUBTED])?,
        };
    }
    transaction.commit()?;
    Ok(())
}
