//! The times of the entries that are kept longest.

use rusqlite::{Connection, OptionalExtension as _};

use super::super::error::Failure;
use super::super::rows::{integer, number};
use super::read::extent;
use crawlgate_system::clock::Moment;

/// Returns the time of the oldest entry that is kept. It need not be the first one: a clock may have been wrong.
pub(crate) fn oldest_kept(connection: &Connection) -> Result<Option<Moment>, Failure> {
    let (first, _) = extent(connection)?;
    let mut oldest = connection.prepare_cached(
        "SELECT min(min_time) FROM (SELECT min_time FROM block INDEXED BY block_time WHERE first >= ?1 \
         UNION ALL SELECT min_time FROM tail)",
    )?;
    let oldest: Option<i64> = oldest.query_row([integer(first)], |row| row.get(0))?;
    Ok(oldest.map(|time| Moment::from_millis(number(time))))
}

/// Returns the time of the first entry that is kept.
pub(crate) fn first_kept(connection: &Connection) -> Result<Option<Moment>, Failure> {
    let mut oldest = connection.prepare_cached(
        "SELECT min_time FROM (SELECT first, min_time FROM block WHERE body IS NOT NULL \
         UNION ALL SELECT first, min_time FROM tail) ORDER BY first LIMIT 1",
    )?;
    let oldest = oldest.query_row([], |row| row.get(0)).optional()?;
    Ok(oldest.map(|time| Moment::from_millis(number(time))))
}
