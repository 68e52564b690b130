//! The notes of the store in the table `meta`: the part of the log that another place has, too, where retention stops; the
//! time that retention believes; and the mark of a collected copy.
//!
//! Without the first, the log is not shipped.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, Transaction};

use super::engine::{Failure, Statements as _, begin, integer, meta, moment, number, put_meta};
use super::entries::checkpoint;
use super::entries::retention::first_kept;
use crate::{Belief, Progress, ShipMark, StoreErrorKind};
use crawlgate_system::clock::Moment;

const TO: &str = "ship_to";
const SIZE: &str = "ship_size";

const TIME: &str = "believed_time";
const UPTIME: &str = "believed_uptime";
const BOOT: &str = "believed_boot";
const DOUBTED: &str = "believed_doubted";
const STEADY: &str = "believed_steady";

/// Marks a database as a collected copy.
pub(super) const MARK: &str = "INSERT INTO meta VALUES ('collected', 1)";

/// See [`Store::ship_to`](crate::Store::ship_to).
pub(super) fn ship_to(connection: &mut Connection, to: Option<ShipMark>) -> Result<u64, Failure> {
    let known = meta(connection, TO)?;
    let now = to.map(|to| i64::from_be_bytes(to.0));
    if known == now {
        return Ok(shipped_until(connection)?.unwrap_or(0));
    }
    let transaction = begin(connection)?;
    transaction.run("DELETE FROM meta WHERE name IN (?1, ?2)", [TO, SIZE])?;
    if let Some(now) = now {
        put_meta(&transaction, TO, now)?;
    }
    transaction.commit()?;
    Ok(0)
}

/// See [`Store::note_shipped`](crate::Store::note_shipped).
pub(super) fn note_shipped(transaction: &Transaction<'_>, size: u64) -> Result<(), Failure> {
    put_meta(transaction, SIZE, integer(size))
}

/// Returns the index before which entries may go; `None` if the log is not shipped.
pub(super) fn shipped_until(connection: &Connection) -> Result<Option<u64>, Failure> {
    if meta(connection, TO)?.is_none() {
        return Ok(None);
    }
    Ok(Some(meta(connection, SIZE)?.map_or(0, number)))
}

/// Returns the time from which on entries are not shipped yet; `None` if all are, or the log is not shipped.
pub(super) fn unshipped_from(connection: &Connection) -> Result<Option<i64>, Failure> {
    let Some(until) = shipped_until(connection)? else {
        return Ok(None);
    };
    let text = "SELECT min(min_time) FROM (SELECT first, count, min_time FROM block WHERE body IS NOT NULL \
                UNION ALL SELECT first, count, min_time FROM tail) WHERE first + count > ?1";
    connection.only(text, [integer(until)])
}

/// Tells whether every signed entry is shipped, so that the next ones wait only for a checkpoint.
pub(super) fn waits_for_checkpoint(connection: &Connection) -> Result<bool, Failure> {
    let Some(until) = shipped_until(connection)? else {
        return Ok(false);
    };
    let text = "SELECT coalesce(max(size), 0) FROM checkpoint";
    Ok(connection.only(text, []).map(number)? <= until)
}

/// Returns the error of a store without room, of which the oldest entries are not shipped.
pub(super) fn full() -> Failure {
    Failure::Store(StoreErrorKind::Full.error(
        "the store has no more room ([audit] max_size), and its oldest decisions are not at [ship] to yet: bring that \
         place back, or raise max_size; `crawlgate store release` lets go of them, once no process ships them"
    ))
}

/// See [`Store::progress`](crate::Store::progress).
pub(super) fn progress(connection: &Connection) -> Result<Progress, Failure> {
    Ok(Progress {
        belief: noted(connection)?,
        first: first_kept(connection)?,
        last: newest(connection)?,
    })
}

fn noted(connection: &Connection) -> Result<Option<Belief>, Failure> {
    let read = |name| meta(connection, name);
    let millis = |name| -> Result<Option<Duration>, Failure> {
        Ok(read(name)?.map(|value| Duration::from_millis(number(value))))
    };
    let (Some(time), Some(uptime), Some(boot)) = (read(TIME)?, millis(UPTIME)?, read(BOOT)?) else {
        return Ok(None);
    };
    Ok(Some(Belief {
        time: moment(time),
        uptime,
        boot: boot.cast_unsigned(),
        doubted: millis(DOUBTED)?,
        steady: millis(STEADY)?.unwrap_or_default(),
    }))
}

/// Returns the time of the last entry.
fn newest(connection: &Connection) -> Result<Option<Moment>, Failure> {
    let text = "SELECT max_time FROM (SELECT first, max_time FROM block UNION ALL SELECT first, max_time FROM tail) \
                ORDER BY first DESC LIMIT 1";
    Ok(connection.value(text, [])?.map(moment))
}

/// See [`Store::note_belief`](crate::Store::note_belief).
pub(super) fn note_belief(transaction: &Transaction<'_>, belief: &Belief) -> Result<(), Failure> {
    let Belief { time, uptime, boot, doubted, steady } = *belief;
    let millis = |duration: Duration| {
        let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        integer(millis)
    };
    for (name, value) in [
        (TIME, Some(integer(time.as_millis()))),
        (UPTIME, Some(millis(uptime))),
        (BOOT, Some(boot.cast_signed())),
        (STEADY, Some(millis(steady))),
        (DOUBTED, doubted.map(millis)),
    ] {
        match value {
            Some(value) => put_meta(transaction, name, value)?,
            None => drop(transaction.run("DELETE FROM meta WHERE name = ?1", [name])?),
        }
    }
    Ok(())
}

/// Fails for a collected copy, which no gate may write.
pub(super) fn refuse_collected(connection: &Connection, path: &Path) -> Result<(), Failure> {
    if !is_collected(connection)? {
        return Ok(());
    }
    let log = checkpoint::last(connection)?.and_then(|last| last.content());
    let log = log.map_or_else(String::new, |content| format!(" {}", content.origin));
    Err(Failure::Store(StoreErrorKind::Denied.at(path, format_args!(
        "this is the collected copy of the log{log}, which `crawlgate collect` alone writes; commands that only read \
         take it with --log; a damaged copy is moved away and collected anew; [store] path names the store of this \
         gate"
    ))))
}

/// Tells whether a database is the collected copy of a log.
pub(super) fn is_collected(connection: &Connection) -> Result<bool, Failure> {
    connection.has("SELECT 1 FROM meta WHERE name = 'collected'", [])
}
