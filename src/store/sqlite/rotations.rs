//! The rotations of the key that signs the log, as the database keeps them.
//!
//! A row has the entry and its proof, so a rotation stays provable when retention has dropped the entry. The signatures in
//! the proof cover all that the row says: a damaged one cannot be read.

use rusqlite::{Connection, Transaction, params};

use super::entries::{self, Blocks, Ground, checkpoint};
use super::error::Failure;
use super::rows::{integer, number};
use super::write::{self, LogMemory};
use crate::clock::Moment;
use crate::entry::{Event, EventKind};
use crate::store::log_key::LogKey;
use crate::store::rotation::{self, Rotation, Words};
use crate::store::state_file::End;
use crate::store::{Sha256, failed};
use crate::text::DecisionId;
use crate::tlog::EntryProof;

/// Creates the table.
pub(super) const TABLE: &str = r#"
-- The keys that have replaced others: the entry that says so, and its path to a checkpoint that both have signed, a text of
-- c2sp.org/tlog-proof. `seq` is the number of the entry.
CREATE TABLE rotation (
    seq INTEGER PRIMARY KEY,
    entry BLOB NOT NULL,
    proof TEXT NOT NULL
) STRICT;
"#;

/// A row, or the number of one that is damaged.
type Row = Result<Rotation, u64>;

fn rows(connection: &Connection) -> Result<Vec<Row>, Failure> {
    let mut all =
        connection.prepare_cached("SELECT seq, entry, proof FROM rotation ORDER BY seq")?;
    let mut rows = all.query([])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let seq = number(row.get(0)?);
        let entry = row.get_ref(1)?.as_blob().unwrap_or_default().to_vec();
        let proof = row.get_ref(2)?.as_str().unwrap_or_default().to_owned();
        let read = Rotation::read(entry, proof).filter(|one| one.seq == seq);
        found.push(read.ok_or(seq));
    }
    Ok(found)
}

/// Returns all rotations, in their order.
///
/// # Errors
/// When one is damaged: the keys that are to sign are unknown then.
pub(super) fn all(connection: &Connection) -> Result<Vec<Rotation>, Failure> {
    let rows = rows(connection)?.into_iter();
    rows.map(|row| row.map_err(|seq| Failure::Damaged(told(seq))))
        .collect()
}

/// Returns the rotations that can be read.
pub(super) fn readable(connection: &Connection) -> Result<Vec<Rotation>, Failure> {
    Ok(rows(connection)?.into_iter().filter_map(Row::ok).collect())
}

/// Returns the numbers of those that cannot.
pub(super) fn damaged(connection: &Connection) -> Result<Vec<u64>, Failure> {
    Ok(rows(connection)?.into_iter().filter_map(Row::err).collect())
}

/// Returns a damaged row in words.
pub(super) fn told(seq: u64) -> String {
    format!("rotation: the proof that record {seq} replaced the key of the log is damaged")
}

/// Replaces the key of the log by the first one of `new`: appends the entry, and signs the log with both.
pub(super) fn rotate(
    connection: &mut Connection,
    log: &mut LogMemory,
    new: &LogKey,
    words: &Words,
    now: Moment,
) -> Result<(Rotation, End), Failure> {
    let transaction = write::begin(connection)?;
    let rotations = all(&transaction)?;
    let keys = new.vkeys();
    let [successor, old, ..] = &keys[..] else {
        return Err(failed("a new key without the old one".to_owned()).into());
    };
    if rotation::present(*old.public(), &rotations) != *old.public() {
        let told = "another process has replaced the key meanwhile; call this again";
        return Err(failed(told.to_owned()).into());
    }
    let mut head = log.head(&transaction)?;
    let id = DecisionId::mint(now).octets();
    let (of_old, of_new) = (old.to_string(), successor.to_string());
    let kind = EventKind::KeyRotated {
        old: &of_old,
        new: &of_new,
        by: words.by.as_str().into(),
        reason: words.reason.as_str().into(),
    };
    let entry = entries::append_event(&transaction, &mut head, &Event { id, kind })?;
    let end = (head.size(), head.root());
    let note = rotation::sign_as_new(new, *old.public(), &rotations, now, end);
    let blocks = Blocks::default();
    let proof = Ground::new(&transaction, &blocks).inclusion(end.0 - 1, end.0)?;
    let proof = EntryProof::new(proof, note.clone()).to_string();
    put(&transaction, end, &entry, &proof)?;
    checkpoint::put(&transaction, end.0, &note, now)?;
    let rotation = Rotation::read(entry, proof)
        .ok_or_else(|| failed("the proof of the new key does not hold".to_owned()))?;
    log.commit(transaction, head)?;
    Ok((rotation, end))
}

fn put(
    transaction: &Transaction<'_>,
    (seq, _): (u64, Sha256),
    entry: &[u8],
    proof: &str,
) -> Result<(), Failure> {
    transaction.execute(
        "INSERT INTO rotation VALUES (?1, ?2, ?3)",
        params![integer(seq), entry, proof],
    )?;
    Ok(())
}
