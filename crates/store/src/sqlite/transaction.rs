//! A transaction that writes: it begins as one and reads the end of the log inside, so that several processes may write to one
//! store and the log stays one.

use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::engine::{Failure, Statements as _};

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
