//! The place up to which another place has the log, too, in the table `meta`: retention stops there.
//!
//! Without the rows, the log is not shipped.

use rusqlite::{Connection, OptionalExtension as _, params};

use super::error::Failure;
use super::rows::{integer, number};
use super::transaction::begin;
use crate::{ShipMark, StoreError, StoreErrorKind};

const TO: &str = "ship_to";
const SIZE: &str = "ship_size";

/// See [`Store::ship_to`](crate::Store::ship_to).
pub(super) fn ship_to(connection: &mut Connection, to: Option<ShipMark>) -> Result<u64, Failure> {
    let known = value(connection, TO)?;
    let now = to.map(|to| i64::from_be_bytes(to.0));
    if known == now {
        return Ok(until(connection)?.unwrap_or(0));
    }
    let transaction = begin(connection)?;
    transaction.execute("DELETE FROM meta WHERE name IN (?1, ?2)", [TO, SIZE])?;
    if let Some(now) = now {
        transaction.execute("INSERT INTO meta VALUES (?1, ?2)", params![TO, now])?;
    }
    transaction.commit()?;
    Ok(0)
}

/// See [`Store::note_shipped`](crate::Store::note_shipped).
pub(super) fn note(connection: &mut Connection, size: u64) -> Result<(), Failure> {
    let transaction = begin(connection)?;
    transaction
        .prepare_cached(
            "INSERT INTO meta VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        )?
        .execute(params![SIZE, integer(size)])?;
    transaction.commit()?;
    Ok(())
}

/// Returns the index before which entries may go; `None` if the log is not shipped.
pub(super) fn until(connection: &Connection) -> Result<Option<u64>, Failure> {
    if value(connection, TO)?.is_none() {
        return Ok(None);
    }
    Ok(Some(value(connection, SIZE)?.map_or(0, number)))
}

/// Returns the time from which on entries are not shipped yet; `None` if all are, or the log is not shipped.
pub(super) fn unshipped_from(connection: &Connection) -> Result<Option<i64>, Failure> {
    let Some(until) = until(connection)? else {
        return Ok(None);
    };
    let mut first = connection.prepare_cached(
        "SELECT min(min_time) FROM (SELECT first, count, min_time FROM block WHERE body IS NOT NULL \
         UNION ALL SELECT first, count, min_time FROM tail) WHERE first + count > ?1",
    )?;
    Ok(first.query_row([integer(until)], |row| row.get(0))?)
}

/// Tells whether every signed entry is shipped, so that the next ones wait for a checkpoint alone.
pub(super) fn waits_for_checkpoint(connection: &Connection) -> Result<bool, Failure> {
    let Some(until) = until(connection)? else {
        return Ok(false);
    };
    let mut newest = connection.prepare_cached("SELECT coalesce(max(size), 0) FROM checkpoint")?;
    let newest: i64 = newest.query_row([], |row| row.get(0))?;
    Ok(number(newest) <= until)
}

/// Returns the error of a store without room, of which the oldest entries are not shipped.
pub(super) fn full() -> Failure {
    Failure::Store(StoreError {
        kind: StoreErrorKind::Full,
        message: "the store has no more room ([audit] max_size), and its oldest decisions are not at [ship] to yet: bring \
                  that place back, or raise max_size; `crawlgate store release` lets go of them, once no process ships them"
            .to_owned(),
    })
}

fn value(connection: &Connection, name: &str) -> Result<Option<i64>, Failure> {
    let mut value = connection.prepare_cached("SELECT value FROM meta WHERE name = ?1")?;
    Ok(value.query_row([name], |row| row.get(0)).optional()?)
}
