//! Every change of the database, each in one transaction.
//!
//! A transaction begins as a writing one and reads the head of the chain inside, so that several processes may write to
//! one store and the chain stays one.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension as _, Transaction, TransactionBehavior, params};

use super::error::Failure;
use super::hours::Hours;
use super::keeping::Keeping;
use super::landing::landing_or_nothing;
use super::objects;
use super::rows::{self, integer, number, time};
use super::shares::{self, Shares};
use crate::clock::Moment;
use crate::store::derived::{self, Row};
use crate::store::state_file::End;
use crate::store::{Acknowledgement, Batch, Pruned, Sha256, chain};

/// Begins a transaction that writes.
pub(super) fn begin(connection: &mut Connection) -> Result<Transaction<'_>, Failure> {
    if !connection.is_autocommit() {
        // Roll back an earlier transaction that failed without room even for its own rollback.
        connection.execute_batch("ROLLBACK")?;
    }
    let behavior = TransactionBehavior::Immediate;
    Ok(connection.transaction_with_behavior(behavior)?)
}

/// See [`Store::write`](crate::store::Store::write). Under maintenance, the batch makes its room within the bound. Returns
/// the last record, if there are any.
pub(super) fn batch(
    connection: &mut Connection,
    batch: &Batch,
    keeping: Option<&mut Keeping>,
) -> Result<Option<End>, Failure> {
    let parts = keeping.as_ref().and_then(|keeping| keeping.parts());
    let mut dropped = Pruned::default();
    let mut end = None;
    let mut transaction = begin(connection)?;
    for one in &batch.landings {
        dropped.origins += landing_or_nothing(&mut transaction, one, parts)?;
    }
    objects::write(&transaction, batch)?;
    if !batch.entries.is_empty() {
        let bodies = objects::needed(&transaction, batch)?;
        let rows = derived::rows(&batch.entries, &bodies)?;
        if let Some(keeping) = &keeping {
            let room = rows
                .iter()
                .map(|row| shares::octets_of(row.line.len() as u64));
            dropped.add(keeping.make_room(&transaction, room.sum())?.told());
        }
        end = Some(records(&transaction, &rows)?);
    }
    transaction.commit()?;
    if let Some(keeping) = keeping {
        keeping.tell(dropped);
    }
    Ok(end)
}

/// Adds records to the chain and returns the last one.
fn records(transaction: &Transaction<'_>, rows: &[Row<'_>]) -> Result<End, Failure> {
    let (mut seq, mut hash) = end(transaction)?;
    let mut used: HashMap<Sha256, (u64, Moment)> = HashMap::new();
    let mut hours = Hours::default();
    let mut shares = Shares::default();
    {
        let mut add = transaction.prepare_cached(
            "INSERT INTO decision (seq, time, hash, record, party) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?;
        for Row { line, head } in rows {
            hours.count(head);
            seq += 1;
            hash = chain::link(&hash, line.as_bytes());
            let party = shares.count(transaction, head.party(), seq, line.len())?;
            let at = time(head.time());
            add.execute(params![integer(seq), at, hash, line, party])?;
            if let Some(sha256) = head.sha256() {
                used.insert(sha256, (seq, head.time()));
            }
        }
    }
    hours.write(transaction)?;
    shares.write(transaction)?;
    let mut refer =
        transaction.prepare_cached("UPDATE snapshot SET last_decision = ?2 WHERE sha256 = ?1")?;
    // A process may know a text for which the store had no room any more.
    let mut lack = transaction.prepare_cached(
        "INSERT INTO snapshot (sha256, bytes, body, first_fetched, last_fetched, last_decision, dropped) \
         VALUES (?1, 0, x'', ?3, ?3, ?2, ?3)",
    )?;
    for (sha256, (seq, at)) in used {
        if refer.execute(params![sha256, integer(seq)])? == 0 {
            lack.execute(params![sha256, integer(seq), time(at)])?;
        }
    }
    Ok((seq, hash))
}

/// Returns the last record's place and link.
pub(super) fn head(connection: &Connection) -> Result<(u64, Sha256), Failure> {
    let mut statement =
        connection.prepare_cached("SELECT seq, hash FROM decision ORDER BY seq DESC LIMIT 1")?;
    let last = statement.query_row([], |row| Ok((row.get::<_, i64>(0)?, row.get(1)?)));
    Ok(match last.optional()? {
        Some((seq, hash)) => (number(seq), hash),
        None => (0, chain::GENESIS),
    })
}

/// Returns the place and the link that the next record follows: those of the last record, or of the last one that was lost
/// behind it.
pub(super) fn end(connection: &Connection) -> Result<(u64, Sha256), Failure> {
    let (seq, hash) = head(connection)?;
    let mut lost = connection.prepare_cached(
        "SELECT last, link_after FROM gap WHERE first > ?1 ORDER BY first DESC LIMIT 1",
    )?;
    let lost = lost.query_row([integer(seq)], |row| {
        Ok((row.get::<_, i64>(0)?, row.get(1)?))
    });
    Ok(match lost.optional()? {
        Some((last, hash)) => (number(last), hash),
        None => (seq, hash),
    })
}

/// Runs a write with a commit that waits for the disk. `[store] synchronous` does not change that.
pub(super) fn durably<T>(
    connection: &mut Connection,
    write: impl FnOnce(&mut Connection) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let usual: i64 = connection.pragma_query_value(None, "synchronous", |row| row.get(0))?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    let outcome = write(connection);
    connection.pragma_update(None, "synchronous", usual)?;
    outcome
}

/// Returns `now`, or the last record's time if a clock that was set back makes that later: a seal is never older than
/// its records.
pub(super) fn not_before_last(connection: &Connection, now: Moment) -> Result<Moment, Failure> {
    let mut statement =
        connection.prepare_cached("SELECT time FROM decision ORDER BY seq DESC LIMIT 1")?;
    let last = statement.query_row([], |row| row.get::<_, i64>(0));
    let last = last.optional()?.map_or(0, number);
    Ok(now.max(Moment::from_millis(last)))
}

/// Returns the first record's place, and the link before it.
pub(super) fn start(connection: &Connection) -> Result<(u64, Sha256), Failure> {
    let mut statement =
        connection.prepare_cached("SELECT seq FROM decision ORDER BY seq LIMIT 1")?;
    let first = statement
        .query_row([], |row| row.get::<_, i64>(0))
        .optional()?;
    let first = first.map_or(1, number);
    if first == 1 {
        return Ok((1, chain::GENESIS));
    }
    // Earlier records are gone; the seal from that time names the link.
    let mut statement = connection.prepare_cached(
        "SELECT start_hash FROM seal WHERE start_seq = ?1 ORDER BY number DESC LIMIT 1",
    )?;
    let mut before: Option<Sha256> = statement
        .query_row([integer(first)], |row| row.get(0))
        .optional()?;
    if before.is_none() {
        // Or damage took them, and a rebuild has noted the link.
        before = connection
            .prepare_cached("SELECT link_after FROM gap WHERE first = 1 AND last = ?1")?
            .query_row([integer(first - 1)], |row| row.get(0))
            .optional()?;
    }
    before.map(|before| (first, before)).ok_or_else(|| {
        Failure::Damaged(format!(
            "decisions before {first} are gone, and no seal says why"
        ))
    })
}

/// See [`Store::seal`](crate::store::Store::seal).
pub(super) fn seal(
    connection: &mut Connection,
    key: &chain::SealingKey,
    now: Moment,
) -> Result<Option<chain::Seal>, Failure> {
    let transaction = begin(connection)?;
    let (seq, hash) = head(&transaction)?;
    let sealed = transaction
        .query_row(
            "SELECT seq FROM seal ORDER BY number DESC LIMIT 1",
            [],
            |row| row.get::<_, i64>(0),
        )
        .optional()?;
    if seq == 0 || sealed.map(number) == Some(seq) {
        return Ok(None);
    }
    let now = not_before_last(&transaction, now)?;
    let seal = key.seal(seq, hash, start(&transaction)?, now);
    rows::write_seal(&transaction, &seal)?;
    transaction.commit()?;
    Ok(Some(seal))
}

/// See [`Store::forget`](crate::store::Store::forget).
pub(super) fn forget(
    connection: &mut Connection,
    origin: &str,
    identity: Option<&str>,
) -> Result<bool, Failure> {
    let transaction = begin(connection)?;
    let known = transaction.execute(
        "DELETE FROM origin WHERE origin = ?1 AND (?2 IS NULL OR identity = ?2)",
        params![origin, identity],
    )?;
    if known > 0 {
        changed(&transaction)?;
    }
    transaction.commit()?;
    Ok(known > 0)
}

/// See [`Store::acknowledge`](crate::store::Store::acknowledge).
pub(super) fn acknowledge(
    connection: &mut Connection,
    id: &str,
    note: &Acknowledgement,
) -> Result<bool, Failure> {
    let transaction = begin(connection)?;
    let Some(seq) = super::read::place(&transaction, id)? else {
        return Ok(false);
    };
    transaction.execute(
        "INSERT OR REPLACE INTO acknowledgement VALUES (?1, ?2, ?3, ?4)",
        params![seq, time(note.time), note.by, note.note],
    )?;
    transaction.commit()?;
    Ok(true)
}

pub(super) fn changed(transaction: &Transaction<'_>) -> Result<(), Failure> {
    transaction.execute(
        "UPDATE meta SET value = value + 1 WHERE name = 'version'",
        [],
    )?;
    Ok(())
}
