//! A copy of the store while it is in use.

use std::path::Path;
use std::time::Duration;

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, ErrorCode};

use super::engine::Failure;
use super::{open, still};
use crate::{Access, StoreError, StoreErrorKind, state_file};
use crawlgate_system::atomic_file::NewFile;

/// Pages to copy at a time: 8 MiB.
const STEP: i32 = 1_024;

/// Time between two attempts while the database is locked.
const RETRY_PAUSE: Duration = Duration::from_millis(50);

/// Copies the store at `path`, as it is when the copy begins, into a new file. Other processes go on reading and writing
/// meanwhile. `progress` is told the copied octets, and how many there are. The file is there whole or not at all. The state
/// file is copied first, beside the new file, unless one lies there: it is never ahead of the copy.
///
/// # Errors
/// When the store cannot be read, or the file exists already or cannot be written.
pub fn backup(
    path: &Path,
    target: &Path,
    mut progress: impl FnMut(u64, u64),
) -> Result<(), StoreError> {
    open::require(path, Access::Read)?;
    let source = still::reader(path)?;
    // A check tells of a damaged one.
    let state = state_file::read(path).ok().flatten();
    let failed = |kind: StoreErrorKind, what: &dyn std::fmt::Display| kind.at(target, what);
    let new =
        NewFile::create_new(target).map_err(|error| failed(StoreErrorKind::Denied, &error))?;
    let mut copied = || -> Result<(), Failure> {
        let mut copy = Connection::open(new.path())?;
        // The file is synced at its end, and has no reader before.
        copy.pragma_update(None, "journal_mode", "OFF")?;
        copy.pragma_update(None, "synchronous", "OFF")?;
        // One state of the database from the first page to the last: a write would begin the copy anew.
        source.execute_batch("BEGIN")?;
        source.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
        pages(&source, &mut copy, &mut progress)?;
        source.execute_batch("COMMIT")?;
        // Without a write-ahead log, the copy can be read where nothing can be written.
        copy.pragma_update(None, "journal_mode", "DELETE")?;
        copy.close().map_err(|(_, error)| error)?;
        Ok(())
    };
    copied().map_err(|failure| match failure {
        // Of the new file: the store is only read.
        Failure::Engine(error) if error.sqlite_error_code() == Some(ErrorCode::DiskFull) => {
            failed(StoreErrorKind::Full, &"no room is left on the disk")
        }
        failure => failure.at(path),
    })?;
    let state = state.map(|(state, _)| state);
    new.persist()
        .and_then(|()| state.map_or(Ok(()), |state| state_file::copy_beside(&state, target)))
        .map_err(|error| failed(StoreErrorKind::Failed, &error))
}

fn pages(
    source: &Connection,
    copy: &mut Connection,
    progress: &mut impl FnMut(u64, u64),
) -> Result<(), Failure> {
    let size: i64 = source.pragma_query_value(None, "page_size", |row| row.get(0))?;
    let size = size.unsigned_abs();
    let backup = Backup::new(source, copy)?;
    loop {
        let step = backup.step(STEP)?;
        let state = backup.progress();
        let [left, all] =
            [state.remaining, state.pagecount].map(|pages| u64::from(pages.unsigned_abs()));
        progress(all.saturating_sub(left) * size, all * size);
        match step {
            StepResult::Done => return Ok(()),
            StepResult::More => {}
            _ => std::thread::sleep(RETRY_PAUSE),
        }
    }
}
