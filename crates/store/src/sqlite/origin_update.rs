//! The update of an origin: its state, its fetch, and the text of its robots.txt.

use rusqlite::{Connection, Transaction, params};
use tracing::{error, warn};

use super::bounds::Parts;
use super::engine::{Failure, Statements as _, time};
use super::fetches;
use super::robots;
use super::rows;
use crate::persist::to_stored;
use crate::{FETCHES_KEPT, OriginUpdate, Sha256, StoredOrigin};
use crawlgate_origins::identity::{Identity, OWN_STATES};
use crawlgate_origins::snapshot::Snapshot;
use crawlgate_text::hex;

/// Compression level of texts: zstd's own default.
const LEVEL: i32 = 3;

/// Approximate octets of a state without a text.
const STATE: u64 = 1_024;

/// Writes the update of an origin, or warns and writes nothing of it if this very row fails. A state is only a cache
/// and is fetched again; the records of the batch must not wait for it for ever. Returns the amounts dropped to make
/// room.
pub(super) fn update_or_nothing(
    transaction: &mut Transaction<'_>,
    one: &OriginUpdate,
    parts: Option<Parts>,
) -> Result<u64, Failure> {
    let savepoint = transaction.savepoint()?;
    match update(&savepoint, one, parts) {
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

fn update(
    transaction: &Connection,
    update: &OriginUpdate,
    parts: Option<Parts>,
) -> Result<u64, Failure> {
    fetches::count(transaction, update)?;
    let Some(state) = to_stored(&update.state) else {
        return Ok(0);
    };
    let mut gone = 0;
    if let (None, Some(parts)) = (update.state.snapshot(), parts) {
        gone = robots::make_room(transaction, parts.robots, STATE, update.fetch.time)?;
    }
    if let Some(file) = update.state.snapshot() {
        match snapshot(transaction, file, update, parts)? {
            Kept::Whole { dropped } => gone = dropped,
            Kept::TooLarge => {
                warn!(
                    origin = update.origin.as_str(),
                    "the robots.txt of this origin is too large for so small a store ([audit] max_size); it is fetched \
                     anew after a restart, and decisions that rest on it cannot be proven"
                );
                return Ok(0);
            }
        }
    }
    let memory = StoredOrigin {
        origin: update.origin.clone(),
        identity: update.fetch.identity.clone(),
        user_agent: update.user_agent.to_string(),
        state,
        updated: update.fetch.time,
    };
    rows::write_origin(transaction, &memory)?;
    rows::write_fetch(transaction, &update.origin, &update.fetch)?;
    let (origin, identity) = (update.origin.as_str(), memory.identity.to_string());
    transaction.run(
        "DELETE FROM fetch WHERE origin = ?1 AND identity = ?2 AND number <= \
         (SELECT number FROM fetch WHERE origin = ?1 AND identity = ?2 ORDER BY number DESC LIMIT 1 OFFSET ?3)",
        params![origin, identity, FETCHES_KEPT as i64],
    )?;
    // A state that has replaced another in memory replaces it here, too.
    let common = Identity::common(memory.identity.document()).to_string();
    transaction.run(
        "DELETE FROM origin WHERE origin = ?1 AND identity IN \
         (SELECT identity FROM origin WHERE origin = ?1 AND identity <> ?3 AND instr(identity, ':') = instr(?3, ':') \
         ORDER BY updated DESC LIMIT -1 OFFSET ?2)",
        params![origin, OWN_STATES as i64, common],
    )?;
    robots::note(transaction, &update.origin, update.fetch.time)?;
    Ok(gone)
}

/// The outcome of keeping a text.
enum Kept {
    /// The text is kept.
    Whole {
        /// Texts and origins dropped to make room for it.
        dropped: u64,
    },
    /// The text has no room, even without any other.
    TooLarge,
}

/// Compresses a text for its row.
pub(super) fn packed(text: &[u8]) -> Result<Vec<u8>, Failure> {
    let packed = zstd::bulk::compress(text, LEVEL);
    packed.map_err(|error| Failure::Store(crate::failed(format!("zstd: {error}"))))
}

/// Keeps a text that is not kept yet; replaces one that was altered since, which readers would refuse for ever.
fn snapshot(
    transaction: &Connection,
    file: &Snapshot,
    update: &OriginUpdate,
    parts: Option<Parts>,
) -> Result<Kept, Failure> {
    let now = update.fetch.time;
    let text = file.robots.text();
    let seen = "UPDATE snapshot SET last_fetched = max(last_fetched, ?2) WHERE sha256 = ?1";
    let is_known = transaction.run(seen, params![file.sha256, time(now)])? > 0;
    if is_known && is_kept_whole(transaction, file.sha256, text)? {
        return Ok(Kept::Whole { dropped: 0 });
    }
    let body = packed(text)?;
    let mut dropped = 0;
    if let Some(Parts { robots: most, .. }) = parts {
        let length = body.len() as u64;
        if length > most / 2 {
            return Ok(Kept::TooLarge);
        }
        dropped = robots::make_room(transaction, most, length, now)?;
    }
    let kept = Kept::Whole { dropped };
    let domain = robots::domain_of(&update.origin);
    // Making room may have dropped the row, too.
    let was_dropped = robots::is_dropped(transaction, file.sha256)?;
    let is_known = transaction.has("SELECT 1 FROM snapshot WHERE sha256 = ?1", [file.sha256])?;
    if is_known && !was_dropped {
        let sha256 = hex(file.sha256);
        warn!(
            sha256,
            "a robots.txt in the store was altered; it was fetched again, and is put back as it was"
        );
    }
    if is_known {
        transaction.run(
            "UPDATE snapshot SET bytes = ?2, body = ?3, domain = ?4, dropped = NULL WHERE sha256 = ?1",
            params![file.sha256, text.len() as i64, body, domain],
        )?;
        return Ok(kept);
    }
    transaction.run(
        "INSERT INTO snapshot (sha256, bytes, body, first_fetched, last_fetched, domain) VALUES (?1, ?2, ?3, ?4, ?4, ?5)",
        params![file.sha256, text.len() as i64, body, time(now), domain],
    )?;
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
