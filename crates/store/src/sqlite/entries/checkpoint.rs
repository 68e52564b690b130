//! Signed roots of the tree.

use rusqlite::{Connection, Row, Transaction, params};

use super::super::engine::{Failure, Statements as _, integer, meta, moment, number, time};
use super::head::Head;
use crate::log_key::StoredCheckpoint;
use crate::state_file::End;
use crawlgate_system::clock::Moment;
use crawlgate_tlog::{Checkpoint, KeyKind, Note, Signature, VerifierKey};

/// The name of the noted size in `meta`.
const SIZE: &str = "signed_size";

/// Signs the root of the present tree, unless it is signed already. The caller commits to the disk before the note
/// leaves the process.
pub(crate) fn sign(
    transaction: &Transaction<'_>,
    head: &Head,
    sign: impl FnOnce(End) -> Note,
    now: Moment,
) -> Result<Option<StoredCheckpoint>, Failure> {
    let last = last(transaction)?;
    let size = head.size();
    if size == 0 || last.is_some_and(|last| last.size >= size) {
        return Ok(None);
    }
    put(transaction, size, &sign((size, head.root())), now).map(Some)
}

/// Keeps a signed root, unless a witness knows more of the log.
pub(crate) fn put(
    transaction: &Transaction<'_>,
    size: u64,
    note: &Note,
    now: Moment,
) -> Result<StoredCheckpoint, Failure> {
    let log = note.text().lines().next().unwrap_or_default();
    if let Some((witness, known)) = ahead(transaction, log)?.into_iter().next() {
        return Err(crate::behind(&witness, known).into());
    }
    let stored = StoredCheckpoint {
        size,
        // A clock that was set back does not make a later root look older.
        time: last(transaction)?.map_or(now, |last| last.time.max(now)),
        note: note.to_string(),
    };
    transaction.run(
        "INSERT INTO checkpoint (size, time, note, cosigned) VALUES (?1, ?2, ?3, ?4)",
        params![
            integer(stored.size),
            time(stored.time),
            stored.note,
            integer(stored.cosignatures() as u64)
        ],
    )?;
    transaction.run(
        "INSERT INTO meta VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET value = max(value, excluded.value)",
        params![SIZE, integer(size)],
    )?;
    Ok(stored)
}

/// Returns the size of the largest checkpoint that was ever signed: it tells of a log that was shortened since, together with
/// its checkpoints.
pub(crate) fn noted_size(connection: &Connection) -> Result<u64, Failure> {
    Ok(meta(connection, SIZE)?.map_or(0, number))
}

/// Forgets that size: the log says what is missing.
pub(crate) fn forget_size(transaction: &Transaction<'_>) -> Result<(), Failure> {
    transaction.run("DELETE FROM meta WHERE name = ?1", [SIZE]).map(drop)
}

/// Adds the line of a witness to the checkpoint of this size, unless it has one of that witness. False if there is no such
/// checkpoint.
pub(crate) fn cosign(
    transaction: &Transaction<'_>,
    size: u64,
    line: &Signature,
) -> Result<bool, Failure> {
    let text = "SELECT note FROM checkpoint WHERE size = ?1";
    let note: Option<String> = transaction.value(text, [integer(size)])?;
    let note = note.and_then(|note| Note::parse(note.as_bytes()).ok());
    let Some(mut note) = note else {
        return Ok(false);
    };
    if note.signatures().iter().any(|one| one.is_of_same_key(line)) {
        return Ok(true);
    }
    note.push(line.clone()).map_err(|error| crate::failed(error.to_string()))?;
    let text = "UPDATE checkpoint SET note = ?2, cosigned = cosigned + 1 WHERE size = ?1";
    transaction.run(text, params![integer(size), note.to_string()])?;
    Ok(true)
}

/// Returns the witnesses that know a checkpoint of a log which the store does not have, and its size.
pub(crate) fn ahead(connection: &Connection, log: &str) -> Result<Vec<(String, u64)>, Failure> {
    let text = "SELECT witness, size FROM ahead WHERE log = ?1 ORDER BY witness";
    connection.all(text, [log], |row| Ok((row.get(0)?, number(row.get(1)?))))
}

/// Notes that a witness knows a checkpoint of a log, of this size, which the store does not have, or that it knows none.
pub(crate) fn note_ahead(
    transaction: &Transaction<'_>,
    witness: &str,
    log: &str,
    size: Option<u64>,
) -> Result<(), Failure> {
    match size {
        Some(size) => transaction.run(
            "INSERT OR REPLACE INTO ahead VALUES (?1, ?2, ?3)",
            params![witness, log, integer(size)],
        )?,
        None => {
            transaction.run("DELETE FROM ahead WHERE witness = ?1 AND log = ?2", [witness, log])?
        }
    };
    Ok(())
}

/// Returns the newest checkpoint.
pub(crate) fn last(connection: &Connection) -> Result<Option<StoredCheckpoint>, Failure> {
    let text = "SELECT size, time, note FROM checkpoint ORDER BY size DESC LIMIT 1";
    connection.first(text, [], stored)
}

/// Returns all checkpoints, by their sizes.
pub(crate) fn all(connection: &Connection) -> Result<Vec<StoredCheckpoint>, Failure> {
    let text = "SELECT size, time, note FROM checkpoint ORDER BY size";
    connection.all(text, [], stored)
}

fn stored(row: &Row<'_>) -> Result<StoredCheckpoint, Failure> {
    Ok(StoredCheckpoint { size: number(row.get(0)?), time: moment(row.get(1)?), note: row.get(2)? })
}

/// Returns the key with this public half under the name that a checkpoint has, if it has signed the checkpoint.
pub(crate) fn signer(checkpoint: &StoredCheckpoint, public: [u8; 32]) -> Option<VerifierKey> {
    let note = Note::parse(checkpoint.note.as_bytes()).ok()?;
    let name = Checkpoint::from_text(note.text())?.origin;
    let key = VerifierKey::new(name, KeyKind::Ed25519, public);
    let keys = [key.clone()];
    Checkpoint::open(&note, &keys).ok()?;
    Some(key)
}
