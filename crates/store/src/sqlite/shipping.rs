//! The place up to which another place has the log, too, in the table `meta`: retention stops there.
//!
//! Without the rows, the log is not shipped.

use rusqlite::{Connection, Transaction};

use super::engine::{Failure, Statements as _, integer, meta, number, put_meta};
use super::transaction::begin;
use crate::{ShipMark, StoreErrorKind};

const TO: &str = "ship_to";
const SIZE: &str = "ship_size";

/// See [`Store::ship_to`](crate::Store::ship_to).
pub(super) fn ship_to(connection: &mut Connection, to: Option<ShipMark>) -> Result<u64, Failure> {
    let known = meta(connection, TO)?;
    let now = to.map(|to| i64::from_be_bytes(to.0));
    if known == now {
        return Ok(until(connection)?.unwrap_or(0));
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
pub(super) fn note(transaction: &Transaction<'_>, size: u64) -> Result<(), Failure> {
    put_meta(transaction, SIZE, integer(size))
}

/// Returns the index before which entries may go; `None` if the log is not shipped.
pub(super) fn until(connection: &Connection) -> Result<Option<u64>, Failure> {
    if meta(connection, TO)?.is_none() {
        return Ok(None);
    }
    Ok(Some(meta(connection, SIZE)?.map_or(0, number)))
}

/// Returns the time from which on entries are not shipped yet; `None` if all are, or the log is not shipped.
pub(super) fn unshipped_from(connection: &Connection) -> Result<Option<i64>, Failure> {
    let Some(until) = until(connection)? else {
        return Ok(None);
    };
    let text = "SELECT min(min_time) FROM (SELECT first, count, min_time FROM block WHERE body IS NOT NULL \
                UNION ALL SELECT first, count, min_time FROM tail) WHERE first + count > ?1";
    connection.only(text, [integer(until)])
}

/// Tells whether every signed entry is shipped, so that the next ones wait for a checkpoint alone.
pub(super) fn waits_for_checkpoint(connection: &Connection) -> Result<bool, Failure> {
    let Some(until) = until(connection)? else {
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
