//! Calls of the engine: a statement in one call each, its numbers and its failures, and transactions that write.
//!
//! The connection keeps the statements that it has prepared.

pub(super) use super::error::Failure;

use rusqlite::types::FromSql;
use rusqlite::{Connection, Params, Row, Transaction, TransactionBehavior, params};

use crawlgate_system::clock::Moment;

/// Converts a number for the engine; one beyond its range becomes the largest.
pub(super) fn integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Converts a number of the engine that was never negative.
pub(super) fn number(integer: i64) -> u64 {
    u64::try_from(integer).unwrap_or_default()
}

/// Converts a time for the engine.
pub(super) fn time(moment: Moment) -> i64 {
    integer(moment.as_millis())
}

/// Converts a time of the engine.
pub(super) fn moment(integer: i64) -> Moment {
    Moment::from_millis(number(integer))
}

/// Reads a column of octets that is a row of SHA-256 digests, and what is left over behind the last one.
pub(super) fn hashes<'r>(
    row: &'r Row<'_>,
    at: usize,
) -> Result<(&'r [[u8; 32]], &'r [u8]), Failure> {
    Ok(row.get_ref(at)?.as_blob().unwrap_or_default().as_chunks())
}

/// Statements, each in one call.
pub(super) trait Statements {
    /// Runs a statement, and returns the number of rows that it has changed.
    fn run(&self, text: &str, params: impl Params) -> Result<usize, Failure>;

    /// Tells whether a query has a row.
    fn has(&self, text: &str, params: impl Params) -> Result<bool, Failure>;

    /// Returns the first column of the first row, and fails without a row.
    fn only<T: FromSql>(&self, text: &str, params: impl Params) -> Result<T, Failure>;

    /// Returns the first column of the first row; `None` without a row.
    fn value<T: FromSql>(&self, text: &str, params: impl Params) -> Result<Option<T>, Failure> {
        self.first(text, params, |row| Ok(row.get(0)?))
    }

    /// Reads the first row of a query; `None` without one.
    fn first<T>(
        &self,
        text: &str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> Result<T, Failure>,
    ) -> Result<Option<T>, Failure>;

    /// Gives each row of a query to a function.
    fn each(
        &self,
        text: &str,
        params: impl Params,
        visit: impl FnMut(&Row<'_>) -> Result<(), Failure>,
    ) -> Result<(), Failure>;

    /// Reads all rows of a query.
    fn all<T>(
        &self,
        text: &str,
        params: impl Params,
        mut read: impl FnMut(&Row<'_>) -> Result<T, Failure>,
    ) -> Result<Vec<T>, Failure> {
        let mut all = Vec::new();
        self.each(text, params, |row| {
            all.push(read(row)?);
            Ok(())
        })?;
        Ok(all)
    }
}

impl Statements for Connection {
    fn run(&self, text: &str, params: impl Params) -> Result<usize, Failure> {
        Ok(self.prepare_cached(text)?.execute(params)?)
    }

    fn has(&self, text: &str, params: impl Params) -> Result<bool, Failure> {
        Ok(self.prepare_cached(text)?.exists(params)?)
    }

    fn only<T: FromSql>(&self, text: &str, params: impl Params) -> Result<T, Failure> {
        Ok(self.prepare_cached(text)?.query_row(params, |row| row.get(0))?)
    }

    fn first<T>(
        &self,
        text: &str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> Result<T, Failure>,
    ) -> Result<Option<T>, Failure> {
        self.prepare_cached(text)?.query(params)?.next()?.map(read).transpose()
    }

    fn each(
        &self,
        text: &str,
        params: impl Params,
        mut visit: impl FnMut(&Row<'_>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut statement = self.prepare_cached(text)?;
        let mut rows = statement.query(params)?;
        while let Some(row) = rows.next()? {
            visit(row)?;
        }
        Ok(())
    }
}

/// Sets a number in the table `meta`.
pub(super) fn put_meta(connection: &Connection, name: &str, value: i64) -> Result<(), Failure> {
    let text =
        "INSERT INTO meta VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET value = excluded.value";
    connection.run(text, params![name, value]).map(drop)
}

/// Returns a number of the table `meta`.
pub(super) fn meta(connection: &Connection, name: &str) -> Result<Option<i64>, Failure> {
    connection.value("SELECT value FROM meta WHERE name = ?1", [name])
}

/// Begins a transaction that writes.
pub(super) fn begin(connection: &mut Connection) -> Result<Transaction<'_>, Failure> {
    if !connection.is_autocommit() {
        // Roll back an earlier transaction that failed without room even for its own rollback.
        connection.execute_batch("ROLLBACK")?;
    }
    let behavior = TransactionBehavior::Immediate;
    Ok(connection.transaction_with_behavior(behavior)?)
}

/// Runs a write in a transaction.
pub(super) fn within<T>(
    connection: &mut Connection,
    write: impl FnOnce(&Transaction<'_>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let transaction = begin(connection)?;
    let result = write(&transaction)?;
    transaction.commit()?;
    Ok(result)
}

/// Runs a write with a commit that waits for the disk. `[store] synchronous` does not change that.
pub(super) fn durably<T>(
    connection: &mut Connection,
    write: impl FnOnce(&mut Connection) -> Result<T, Failure>,
) -> Result<T, Failure> {
    /// The engine's number for FULL.
    const FULL: i64 = 2;

    let usual: i64 = connection.pragma_query_value(None, "synchronous", |row| row.get(0))?;
    if usual == FULL {
        return write(connection);
    }
    connection.pragma_update(None, "synchronous", "FULL")?;
    let outcome = write(connection);
    connection.pragma_update(None, "synchronous", usual)?;
    outcome
}

/// Notes that overrides or states have changed: [`Store::version`](crate::Store::version) is another from now on.
pub(super) fn changed(transaction: &Transaction<'_>) -> Result<(), Failure> {
    let text = "UPDATE meta SET value = value + 1 WHERE name = 'version'";
    transaction.run(text, []).map(drop)
}
