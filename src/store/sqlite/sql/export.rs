//! Decisions in a table of a new SQLite file, for other programs.

use std::fmt::Write as _;
use std::path::Path;

use rusqlite::Connection;

use super::super::error::Failure;
use super::super::{open, still};
use super::columns::COLUMNS;
use super::source::Source;
use super::{not_made, views};
use crate::store::{Access, DecisionQuery, StoreError, StoreErrorKind};
use crate::whole_file::NewFile;

/// Writes the decisions of the store at `path` that meet `query` into the table `decisions` of a new file, and returns
/// their number. `progress` is told the passed records, and how many there are. The file is there whole or not at all.
///
/// # Errors
/// When the store cannot be read, or the file exists already or cannot be written.
pub fn export(
    path: &Path,
    query: &DecisionQuery,
    target: &Path,
    progress: impl FnMut(u64, u64) + Send + 'static,
) -> Result<u64, StoreError> {
    open::require(path, Access::Read)?;
    let at = |failure: Failure| failure.at(path);
    let source = Source::new(still::reader(path)?, query, Some(Box::new(progress))).map_err(at)?;
    let new = NewFile::for_nothing_at(target).map_err(|error| not_made(target, &error))?;
    let count = fill(new.path(), path, source).map_err(|failure| match failure {
        // Of the new file: the store is only read.
        Failure::Engine(error)
            if error.sqlite_error_code() == Some(rusqlite::ErrorCode::DiskFull) =>
        {
            StoreError {
                kind: StoreErrorKind::Full,
                message: format!("{}: no room is left on the disk", target.display()),
            }
        }
        failure => failure.at(path),
    })?;
    new.keep().map_err(|error| not_made(target, &error))?;
    Ok(count)
}

fn fill(file: &Path, store: &Path, source: Source) -> Result<u64, Failure> {
    let connection = Connection::open(file)?;
    // The file is synced at its end, and has no reader before.
    connection.pragma_update(None, "journal_mode", "OFF")?;
    connection.pragma_update(None, "synchronous", "OFF")?;
    views(&connection, store, source)?;
    let mut columns = String::from("seq INTEGER PRIMARY KEY");
    for column in COLUMNS {
        let _ = write!(columns, ", \"{}\" {}", column.name, column.kind); // a String takes all
    }
    connection.execute_batch(&format!("CREATE TABLE main.decisions ({columns})"))?;
    let count = connection.execute(
        "INSERT INTO main.decisions SELECT * FROM temp.decisions",
        [],
    )?;
    connection.close().map_err(|(_, error)| error)?;
    Ok(count as u64)
}
