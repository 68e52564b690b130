//! The times of the entries that are kept longest.

use rusqlite::Connection;

use super::super::engine::{Failure, Statements as _, integer, moment};
use super::read::extent;
use crawlgate_system::clock::Moment;

/// Returns the time of the oldest entry that is kept. It need not be the first one: a clock may have been wrong.
pub(crate) fn oldest_kept(connection: &Connection) -> Result<Option<Moment>, Failure> {
    let (first, _) = extent(connection)?;
    let text = "SELECT min(min_time) FROM (SELECT min_time FROM block INDEXED BY block_time WHERE first >= ?1 \
                UNION ALL SELECT min_time FROM tail)";
    let oldest: Option<i64> = connection.only(text, [integer(first)])?;
    Ok(oldest.map(moment))
}

/// Returns the time of the first entry that is kept.
pub(crate) fn first_kept(connection: &Connection) -> Result<Option<Moment>, Failure> {
    let text = "SELECT min_time FROM (SELECT first, min_time FROM block WHERE body IS NOT NULL \
                UNION ALL SELECT first, min_time FROM tail) ORDER BY first LIMIT 1";
    Ok(connection.value(text, [])?.map(moment))
}
