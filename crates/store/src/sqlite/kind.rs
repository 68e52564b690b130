//! The two kinds of stores: that of a gate, and the collected copy of a log.

use std::path::Path;

use rusqlite::Connection;

use super::engine::{Failure, Statements as _};
use super::entries::checkpoint;
use crate::StoreErrorKind;

/// Marks a database as a collected copy.
pub(super) const MARK: &str = "INSERT INTO meta VALUES ('collected', 1)";

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
