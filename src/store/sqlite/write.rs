//! Every change of the database, each in one transaction.
//!
//! A transaction begins as a writing one and reads the head of the chain inside, so that several processes may write to
//! one store and the chain stays one.

use std::collections::HashMap;
use std::path::Path;

use rusqlite::{Connection, OptionalExtension as _, Transaction, TransactionBehavior, params};
use tracing::{error, warn};

use super::bounds::{self, Parts};
use super::digests;
use super::error::Failure;
use super::hours::Hours;
use super::keeping::Keeping;
use super::robots;
use super::rows::{self, integer, number, time};
use super::shares::{self, Shares};
use crate::clock::Moment;
use crate::policy::overrides::Override;
use crate::robots::identity::OWN_STATES;
use crate::robots::snapshot::Snapshot;
use crate::store::filter::{Head, records_of};
use crate::store::persist::to_stored;
use crate::store::{
    Acknowledgement, Batch, FETCHES_KEPT, OriginMemory, OriginUpdate, Pruned, RecordSummary,
    Sha256, chain,
};
use crate::text::hex;

/// Compression level of texts: zstd's own default.
const LEVEL: i32 = 3;

/// Approximate octets of a state without a text.
const STATE: u64 = 1_024;

/// Begins a transaction that writes.
pub(super) fn begin(connection: &mut Connection) -> Result<Transaction<'_>, Failure> {
    if !connection.is_autocommit() {
        // Roll back an earlier transaction that failed without room even for its own rollback.
        connection.execute_batch("ROLLBACK")?;
    }
    let behavior = TransactionBehavior::Immediate;
    Ok(connection.transaction_with_behavior(behavior)?)
}

/// See [`Store::write`](crate::store::Store::write). Under maintenance, the batch makes its room within the bound.
pub(super) fn batch(
    connection: &mut Connection,
    path: &Path,
    batch: &Batch,
    keeping: Option<&mut Keeping>,
) -> Result<(), Failure> {
    let parts = keeping.as_ref().and_then(|keeping| keeping.parts());
    let mut dropped = Pruned::default();
    let mut transaction = begin(connection)?;
    for one in &batch.landings {
        dropped.origins += landing_or_nothing(&mut transaction, one, parts)?;
    }
    for (digest, text) in &batch.policies {
        let mut statement =
            transaction.prepare_cached(
                // Repair settings that were altered meanwhile.
                "INSERT INTO policy VALUES (?1, ?2) ON CONFLICT (digest) DO UPDATE SET text = excluded.text \
                 WHERE text <> excluded.text",
            )?;
        statement.execute(params![&**digest, &**text])?;
    }
    if !batch.lines.is_empty() {
        if let Some(keeping) = &keeping {
            let incoming = shares::octets_of_lines(&batch.lines)?;
            dropped.add(keeping.make_room(&transaction, incoming)?.told());
        }
        records(&transaction, &batch.lines, &batch.notes)?;
    }
    transaction.commit()?;
    if let Some(keeping) = keeping {
        keeping.tell(dropped);
    }
    match parts {
        Some(parts) => bounds::shorten_log(connection, path, parts),
        None => Ok(()),
    }
}

/// Writes the update of an origin, or warns and writes nothing of it if this very row fails. A state is only a cache
/// and is fetched again; the records of the batch must not wait for it for ever. Returns the amounts dropped to make
/// room.
fn landing_or_nothing(
    transaction: &mut Transaction<'_>,
    one: &OriginUpdate,
    parts: Option<Parts>,
) -> Result<u64, Failure> {
    let savepoint = transaction.savepoint()?;
    match landing(&savepoint, one, parts) {
        Ok(gone) => {
            savepoint.commit()?;
            Ok(gone)
        }
        Err(failure) if failure.is_of_one_row() => {
            // An unfinished savepoint is rolled back on drop.
            savepoint.finish()?;
            error!(
                origin = one.origin.as_str(),
                ?failure,
                "the state of this origin cannot be stored; its robots.txt is fetched again after a restart"
            );
            Ok(0)
        }
        Err(failure) => Err(failure),
    }
}

fn landing(
    transaction: &Connection,
    landing: &OriginUpdate,
    parts: Option<Parts>,
) -> Result<u64, Failure> {
    let Some(state) = to_stored(&landing.state) else {
        return Ok(0);
    };
    let mut gone = 0;
    if let (None, Some(parts)) = (landing.state.snapshot(), parts) {
        gone = robots::make_room(transaction, parts.robots, STATE, landing.fetch.time)?;
    }
    if let Some(file) = landing.state.snapshot() {
        match snapshot(transaction, file, landing, parts)? {
            Kept::Whole { dropped } => gone = dropped,
            Kept::TooLarge => {
                warn!(
                    origin = landing.origin.as_str(),
                    "the robots.txt of this origin is too large for so small a store ([audit] max_size); it is fetched \
                     anew after a restart, and decisions that rest on it cannot be proven"
                );
                return Ok(0);
            }
        }
    }
    let memory = OriginMemory {
        origin: landing.origin.clone(),
        identity: landing.fetch.identity.clone(),
        user_agent: landing.user_agent.to_string(),
        state,
        updated: landing.fetch.time,
    };
    rows::write_origin(transaction, &memory)?;
    rows::write_fetch(transaction, &landing.origin, &landing.fetch)?;
    let mut surplus = transaction.prepare_cached(
        "DELETE FROM fetch WHERE origin = ?1 AND identity = ?2 AND number <= \
         (SELECT number FROM fetch WHERE origin = ?1 AND identity = ?2 ORDER BY number DESC LIMIT 1 OFFSET ?3)",
    )?;
    let (origin, identity) = (landing.origin.as_str(), memory.identity.to_string());
    surplus.execute(params![origin, identity, FETCHES_KEPT as i64])?;
    // A state that has replaced another in memory replaces it here, too.
    let mut replaced = transaction.prepare_cached(
        "DELETE FROM origin WHERE origin = ?1 AND identity IN \
         (SELECT identity FROM origin WHERE origin = ?1 AND identity <> '*' ORDER BY updated DESC LIMIT -1 OFFSET ?2)",
    )?;
    replaced.execute(params![origin, OWN_STATES as i64])?;
    robots::note(transaction, &landing.origin, landing.fetch.time)?;
    Ok(gone)
}

/// The outcome of keeping a text.
enum Kept {
    /// The text is kept.
    Whole {
        /// Texts and origins dropped to make room for it.
        dropped: u64,
    },
    /// The text has no room even alone.
    TooLarge,
}

/// Keeps a text that is not kept yet; replaces one that was altered since, which readers would refuse for ever.
fn snapshot(
    transaction: &Connection,
    file: &Snapshot,
    landing: &OriginUpdate,
    parts: Option<Parts>,
) -> Result<Kept, Failure> {
    let now = landing.fetch.time;
    let text = file.robots.text();
    let mut seen = transaction.prepare_cached(
        "UPDATE snapshot SET last_fetched = max(last_fetched, ?2) WHERE sha256 = ?1",
    )?;
    let is_known = seen.execute(params![file.sha256, time(now)])? > 0;
    if is_known && is_kept_whole(transaction, file.sha256, text)? {
        return Ok(Kept::Whole { dropped: 0 });
    }
    let body = zstd::bulk::compress(text, LEVEL)
        .map_err(|error| Failure::Told(crate::store::failed(format!("zstd: {error}"))))?;
    let mut dropped = 0;
    if let Some(Parts { robots: most, .. }) = parts {
        let length = body.len() as u64;
        if length > most / 2 {
            return Ok(Kept::TooLarge);
        }
        dropped = robots::make_room(transaction, most, length, now)?;
    }
    let kept = Kept::Whole { dropped };
    let domain = robots::domain_of(&landing.origin);
    // Making room may have dropped the row, too.
    let was_dropped = robots::is_dropped(transaction, file.sha256)?;
    let is_known = transaction
        .prepare_cached("SELECT 1 FROM snapshot WHERE sha256 = ?1")?
        .exists([file.sha256])?;
    if is_known && !was_dropped {
        let sha256 = hex(file.sha256);
        warn!(
            sha256,
            "a robots.txt in the store was altered; it was fetched again, and is put back as it was"
        );
    }
    if is_known {
        let mut mend = transaction.prepare_cached(
            "UPDATE snapshot SET bytes = ?2, body = ?3, domain = ?4, dropped = NULL WHERE sha256 = ?1",
        )?;
        mend.execute(params![file.sha256, text.len() as i64, body, domain])?;
        return Ok(kept);
    }
    let mut add = transaction.prepare_cached(
        "INSERT INTO snapshot (sha256, bytes, body, first_fetched, last_fetched, domain) VALUES (?1, ?2, ?3, ?4, ?4, ?5)",
    )?;
    add.execute(params![
        file.sha256,
        text.len() as i64,
        body,
        time(now),
        domain
    ])?;
    Ok(kept)
}

/// Tells whether the stored text of this digest is `text`.
fn is_kept_whole(connection: &Connection, sha256: Sha256, text: &[u8]) -> Result<bool, Failure> {
    match super::read::snapshot(connection, sha256) {
        Ok(kept) => Ok(kept.as_deref() == Some(text)),
        Err(Failure::Damaged(_)) => Ok(false),
        Err(failure) => Err(failure),
    }
}

/// Adds records to the chain.
fn records(
    transaction: &Transaction<'_>,
    lines: &[u8],
    notes: &[RecordSummary],
) -> Result<(), Failure> {
    // Without one summary per line, parse each line.
    let is_noted = memchr::memchr_iter(b'\n', lines).count() == notes.len();
    let mut notes = notes.iter().filter(|_| is_noted);
    let (mut seq, mut hash) = head(transaction)?;
    let mut used: HashMap<Sha256, (u64, Moment)> = HashMap::new();
    let mut hours = Hours::default();
    let mut shares = Shares::default();
    {
        let mut add = transaction.prepare_cached(
            "INSERT INTO decision (seq, time, hash, record, party) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?;
        for record in records_of(lines)? {
            let facts = match notes.next() {
                Some(note) => Head::noted(note),
                None => Head::of(record)?,
            };
            hours.count(&facts);
            seq += 1;
            hash = chain::link(&hash, record.as_bytes());
            let party = shares.count(transaction, facts.party(), seq, record.len())?;
            let at = time(facts.time());
            add.execute(params![integer(seq), at, hash, record, party])?;
            if let Some(sha256) = facts.sha256() {
                used.insert(sha256, (seq, facts.time()));
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
    Ok(())
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

/// See [`Store::add_override`](crate::store::Store::add_override).
pub(super) fn add_override(connection: &mut Connection, new: &Override) -> Result<u64, Failure> {
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
pub(super) fn remove_override(
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

fn changed(transaction: &Transaction<'_>) -> Result<(), Failure> {
    transaction.execute(
        "UPDATE meta SET value = value + 1 WHERE name = 'version'",
        [],
    )?;
    Ok(())
}
