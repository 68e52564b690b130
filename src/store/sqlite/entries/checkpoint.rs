//! Signed roots of the tree.

use rusqlite::{Connection, OptionalExtension as _, Transaction, params};

use super::super::error::Failure;
use super::super::rows::{integer, number};
use super::head::Head;
use crate::clock::Moment;
use crate::store::log_key::StoredCheckpoint;
use crate::tlog::{Checkpoint, KeyKind, Note, Signer, VerifierKey};

/// Signs the root of the present tree, unless it is signed already. The caller commits to the disk before the note
/// leaves the process.
pub(in crate::store::sqlite) fn sign(
    transaction: &Transaction<'_>,
    head: &Head,
    signer: &Signer<'_>,
    now: Moment,
) -> Result<Option<StoredCheckpoint>, Failure> {
    let last = last(transaction)?;
    let size = head.size();
    if size == 0 || last.as_ref().is_some_and(|last| last.size >= size) {
        return Ok(None);
    }
    let stored = StoredCheckpoint {
        size,
        // A clock that was set back does not make a later root look older.
        time: last.map_or(now, |last| last.time.max(now)),
        note: signer.checkpoint(size, head.root()).to_string(),
    };
    transaction
        .prepare_cached("INSERT INTO checkpoint (size, time, note) VALUES (?1, ?2, ?3)")?
        .execute(params![
            integer(stored.size),
            integer(stored.time.as_millis()),
            stored.note
        ])?;
    Ok(Some(stored))
}

/// Returns the newest checkpoint.
pub(in crate::store::sqlite) fn last(
    connection: &Connection,
) -> Result<Option<StoredCheckpoint>, Failure> {
    let mut last = connection
        .prepare_cached("SELECT size, time, note FROM checkpoint ORDER BY size DESC LIMIT 1")?;
    Ok(last.query_row([], stored).optional()?)
}

/// Returns all checkpoints, by their sizes.
pub(in crate::store::sqlite) fn all(
    connection: &Connection,
) -> Result<Vec<StoredCheckpoint>, Failure> {
    let mut all =
        connection.prepare_cached("SELECT size, time, note FROM checkpoint ORDER BY size")?;
    let all = all.query_map([], stored)?;
    Ok(all.collect::<Result<_, _>>()?)
}

fn stored(row: &rusqlite::Row<'_>) -> rusqlite::Result<StoredCheckpoint> {
    Ok(StoredCheckpoint {
        size: number(row.get(0)?),
        time: Moment::from_millis(number(row.get(1)?)),
        note: row.get(2)?,
    })
}

/// Returns the key with this public half under the name that a checkpoint has, if it has signed the checkpoint.
pub(in crate::store::sqlite) fn signer(
    checkpoint: &StoredCheckpoint,
    public: [u8; 32],
) -> Option<VerifierKey> {
    let note = Note::parse(checkpoint.note.as_bytes()).ok()?;
    let name = Checkpoint::from_text(note.text())?.origin;
    let key = VerifierKey::new(name, KeyKind::Ed25519, public);
    let keys = [key.clone()];
    Checkpoint::open(&note, &keys).ok()?;
    Some(key)
}
