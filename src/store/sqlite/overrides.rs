//! The overrides that people add and remove.

use rusqlite::{Connection, params};
use tracing::warn;

use super::digests;
use super::error::Failure;
use super::rows::{integer, number, time};
use super::write::{begin, changed};
use crate::clock::Moment;
use crate::policy::overrides::Override;

/// See [`Store::add_override`](crate::store::Store::add_override).
pub(super) fn add(connection: &mut Connection, new: &Override) -> Result<u64, Failure> {
    let transaction = begin(connection)?;
    transaction.execute(
        "INSERT INTO override (origin, pattern, action, until, person, reason, created) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        params![
            new.origin.as_str(),
            new.pattern,
            new.action.as_str(),
            new.until.map(time),
            new.by,
            new.reason,
            time(new.created),
        ],
    )?;
    let row = transaction.last_insert_rowid();
    digests::stamp(&transaction, "override", "number = ?1", &[&row])?;
    let id = number(row);
    changed(&transaction)?;
    transaction.commit()?;
    Ok(id)
}

/// See [`Store::remove_override`](crate::store::Store::remove_override).
pub(super) fn remove(
    connection: &mut Connection,
    id: u64,
    by: &str,
    now: Moment,
) -> Result<bool, Failure> {
    let transaction = begin(connection)?;
    let holds = transaction
        .prepare("SELECT * FROM override WHERE number = ?1")?
        .query_and_then([integer(id)], |row| digests::holds("override", row))?
        .next()
        .transpose()?;
    let removed = match holds {
        None => 0,
        // The text of the override and its removal are unknown: there is nothing to keep of it.
        Some(false) => {
            warn!(
                number = id,
                by, "an override that was damaged is taken out of the store"
            );
            transaction.execute("DELETE FROM override WHERE number = ?1", [integer(id)])?
        }
        Some(true) => {
            let removed = transaction.execute(
                "UPDATE override SET removed = ?2, removed_by = ?3 WHERE number = ?1 AND removed IS NULL",
                params![integer(id), time(now), by],
            )?;
            digests::stamp(&transaction, "override", "number = ?1", &[&integer(id)])?;
            removed
        }
    };
    if removed > 0 {
        changed(&transaction)?;
    }
    transaction.commit()?;
    Ok(removed > 0)
}
