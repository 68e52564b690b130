//! The rotations of the key that signs the log, as the database keeps them.
//!
//! A row has the entry and its proof, so a rotation stays provable when retention has dropped the entry. The signatures in
//! the proof cover all that the row says: a damaged one cannot be read.

use rusqlite::{Connection, Transaction, params};

use super::engine::{Failure, Statements as _, integer, number};
use super::entries::{Blocks, StoredTree};
use crate::rotation::Rotation;
use crawlgate_tlog::{EntryProof, Note};

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
    let text = "SELECT seq, entry, proof FROM rotation ORDER BY seq";
    connection.all(text, [], |row| {
        let seq = number(row.get(0)?);
        let entry = row.get_ref(1)?.as_blob().unwrap_or_default().to_vec();
        let proof = row.get_ref(2)?.as_str().unwrap_or_default().to_owned();
        let read = Rotation::read(entry, proof).filter(|one| one.seq == seq);
        Ok(read.ok_or(seq))
    })
}

/// Returns all rotations, in their order.
///
/// # Errors
/// When one is damaged: the keys that are to sign are unknown then.
pub(super) fn all(connection: &Connection) -> Result<Vec<Rotation>, Failure> {
    let rows = rows(connection)?.into_iter();
    rows.map(|row| row.map_err(|seq| Failure::Damaged(damage_text(seq)))).collect()
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
pub(super) fn damage_text(seq: u64) -> String {
    format!("rotation: the proof that record {seq} replaced the key of the log is damaged")
}

/// Keeps the rotation by the last entry of a log of this size, with the path to the checkpoint over it. `None` unless that
/// proves it.
pub(super) fn put(
    transaction: &Transaction<'_>,
    entry: Vec<u8>,
    size: u64,
    checkpoint: &Note,
) -> Result<Option<Rotation>, Failure> {
    let path =
        StoredTree::new(transaction, &Blocks::default()).inclusion(size.saturating_sub(1), size)?;
    let proof = EntryProof::new(path, checkpoint.clone()).to_string();
    let rotation = Rotation::read(entry, proof);
    if let Some(one) = &rotation {
        let values = params![integer(one.seq), one.entry, one.proof];
        transaction.run("INSERT INTO rotation VALUES (?1, ?2, ?3)", values)?;
    }
    Ok(rotation)
}
