//! Decisions in a table of a new SQLite file, for other programs.

use std::fmt::Write as _;
use std::path::Path;

use rusqlite::Connection;

use super::super::engine::Failure;
use super::super::{open, still};
use super::columns::columns as all_columns;
use super::source::Source;
use super::sources::Sources;
use super::{Names, not_made, views};
use crate::{Access, DecisionQuery, StoreError, StoreErrorKind};
use crawlgate_system::atomic_file::NewFile;

/// A store with decisions to write, or to ask for.
#[derive(Clone, Copy, Debug)]
pub struct Exported<'e> {
    /// The name of its log, for the column `log`; a table has this column if each store has a name.
    pub name: Option<&'e str>,
    /// Its file.
    pub path: &'e Path,
}

/// Writes the decisions of stores that meet `query` into the table `decisions` of a new file, and returns their number.
/// `progress` is told the passed records of a store, and how many there are. The file is there whole or not at all.
///
/// # Errors
/// When a store cannot be read, or the file exists already or cannot be written.
pub fn export(
    stores: &[Exported<'_>],
    query: &DecisionQuery,
    target: &Path,
    progress: impl FnMut(u64, u64) + Clone + Send + 'static,
) -> Result<u64, StoreError> {
    for store in stores {
        open::require(store.path, Access::Read)?;
    }
    let new = NewFile::create_new(target).map_err(|error| not_made(target, &error))?;
    let mut count = 0;
    for (nth, store) in stores.iter().enumerate() {
        let at = |failure: Failure| failure.at(store.path);
        let reader = still::reader(store.path)?;
        let progress = Box::new(progress.clone());
        let source = Source::new(reader, query, Some(progress)).map_err(at)?;
        let sources = Sources::one(store.path, query, source);
        let filled = fill(new.path(), store, sources, nth == 0);
        count += filled.map_err(|failure| match failure {
            // Of the new file: the store is only read.
            Failure::Engine(error)
                if error.sqlite_error_code() == Some(rusqlite::ErrorCode::DiskFull) =>
            {
                StoreErrorKind::Full.at(target, "no room is left on the disk")
            }
            failure => at(failure),
        })?;
    }
    new.persist().map_err(|error| not_made(target, &error))?;
    Ok(count)
}

/// Adds the decisions of one store, to a new table for the first one.
fn fill(
    file: &Path,
    store: &Exported<'_>,
    sources: Sources,
    is_first: bool,
) -> Result<u64, Failure> {
    let connection = Connection::open(file)?;
    // The file is synced at its end, and has no reader before.
    connection.pragma_update(None, "journal_mode", "OFF")?;
    connection.pragma_update(None, "synchronous", "OFF")?;
    views(&connection, sources, Names::None)?;
    if is_first {
        connection.execute_batch(&format!(
            "CREATE TABLE main.decisions ({})",
            columns(store.name.is_some())
        ))?;
    }
    let count = match store.name {
        Some(name) => {
            let text = "INSERT INTO main.decisions SELECT ?1, * FROM temp.decisions";
            connection.execute(text, [name])?
        }
        None => {
            let text = "INSERT INTO main.decisions SELECT * FROM temp.decisions";
            connection.execute(text, [])?
        }
    };
    connection.close().map_err(|(_, error)| error)?;
    Ok(count as u64)
}

/// Returns the columns of the table: with the name of the log, the numbers of records are no key by themselves.
fn columns(with_names: bool) -> String {
    let (mut columns, end) = if with_names {
        (String::from("log TEXT, seq INTEGER"), ", PRIMARY KEY (log, seq)")
    } else {
        (String::from("seq INTEGER PRIMARY KEY"), "")
    };
    for (name, kind) in all_columns() {
        let _ = write!(columns, ", \"{name}\" {kind}"); // a String takes all
    }
    columns + end
}
