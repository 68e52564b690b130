//! All queries of the database.
//!
//! Long searches run in steps, each a separate statement: a single statement of minutes would keep the engine from
//! carrying over its log.

use rusqlite::{Connection, Row, named_params, params};
use tracing::error;

use super::digests;
use super::engine::{Failure, Statements as _, integer, number};
use super::entries::{self, Blocks, Lines};
use super::rows;
use crate::origins::place as place_of;
use crate::{
    Acknowledgement, Fetch, OriginQuery, Removed, Sha256, Size, StoreErrorKind, StoredDecision,
    StoredOrigin,
};
use crawlgate_block::unpack_frame;
use crawlgate_policy::overrides::Override;
use crawlgate_record as entry;
use crawlgate_system::clock::Moment;
use crawlgate_text::json::printable;
use crawlgate_text::{DecisionId, hex};

pub(super) fn origin(connection: &Connection, name: &str) -> Result<Vec<StoredOrigin>, Failure> {
    // The states of robots.txt come first.
    let mut statement = connection.prepare_cached(
        "SELECT * FROM origin WHERE origin = ?1 \
         ORDER BY instr(identity, 'tdmrep.json:') = 1, identity",
    )?;
    undamaged(statement.query([name])?, usize::MAX, rows::origin)
}

pub(super) fn origins(
    connection: &Connection,
    query: &OriginQuery,
) -> Result<Vec<StoredOrigin>, Failure> {
    // Each with the index that serves it.
    let mut statement = connection.prepare_cached(match query.state {
        Some(_) => {
            "SELECT * FROM origin WHERE state = :state AND (origin, identity) > (:after, :identity) \
             AND (:containing IS NULL OR instr(origin, :containing) > 0) ORDER BY origin, identity"
        }
        None => {
            "SELECT * FROM origin WHERE :state IS NULL AND (origin, identity) > (:after, :identity) \
             AND (:containing IS NULL OR instr(origin, :containing) > 0) ORDER BY origin, identity"
        }
    })?;
    let (after, identity) = place_of(query.after.as_deref().unwrap_or_default());
    let rows = statement.query(named_params! {
        ":after": after,
        ":identity": identity,
        ":state": query.state,
        ":containing": query.containing,
    })?;
    // No LIMIT: a page with damaged rows in it must not look like the last one.
    undamaged(rows, query.limit, rows::origin)
}

pub(super) fn fetches(
    connection: &Connection,
    origin: &str,
    most: usize,
) -> Result<Vec<Fetch>, Failure> {
    let mut statement = connection
        .prepare_cached("SELECT * FROM fetch WHERE origin = ?1 ORDER BY number DESC LIMIT ?2")?;
    let rows = statement.query(params![origin, limit(most)])?;
    undamaged(rows, most, rows::fetch)
}

/// Octets of the text of a robots.txt at most.
const MAX_TEXT: usize = 1 << 30;

pub(super) fn snapshot(
    connection: &Connection,
    sha256: Sha256,
) -> Result<Option<Vec<u8>>, Failure> {
    let text = "SELECT bytes, body FROM snapshot WHERE sha256 = ?1 AND dropped IS NULL";
    connection.first(text, [sha256], |row| {
        let bytes = usize::try_from(row.get::<_, i64>(0)?).unwrap_or_default();
        let packed = row.get_ref(1)?.as_blob().unwrap_or_default();
        // The length may be altered, too: no more is allocated than a text can have.
        let text = unpack_frame(packed, bytes.min(MAX_TEXT));
        text.map_err(|error| {
            let sha256 = hex(sha256);
            Failure::Damaged(format!("the robots.txt with SHA-256 {sha256}: {error}"))
        })
    })
}

/// Tells whether a person has acknowledged a decision.
pub(super) fn is_acknowledged(connection: &Connection, index: u64) -> bool {
    let seen = connection.has("SELECT 1 FROM acknowledgement WHERE seq = ?1", [integer(index + 1)]);
    // An error shows when the page is made.
    seen.unwrap_or_default()
}

/// Returns the record of an entry.
pub(super) fn stored(
    connection: &Connection,
    lines: &mut Lines,
    index: u64,
    entry: &[u8],
) -> Result<StoredDecision, Failure> {
    let seq = index + 1;
    let (record, bodies) = lines.whole(connection, entry)?;
    Ok(StoredDecision {
        seq,
        time: Moment::from_millis(entry::time_of(entry)),
        entry: entry.to_vec(),
        bodies,
        record,
        acknowledged: acknowledgement(connection, seq)?,
    })
}

/// Returns the acknowledgement of a record.
pub(super) fn acknowledgement(
    connection: &Connection,
    seq: u64,
) -> Result<Option<Acknowledgement>, Failure> {
    let text = "SELECT time, person, note FROM acknowledgement WHERE seq = ?1";
    connection.first(text, [integer(seq)], rows::acknowledgement)
}

pub(super) fn decision(
    connection: &Connection,
    blocks: &Blocks,
    id: &str,
) -> Result<Option<StoredDecision>, Failure> {
    let Some((index, entry)) = place(connection, blocks, id)? else {
        return Ok(None);
    };
    stored(connection, &mut Lines::default(), index, &entry).map(Some)
}

/// Returns the index and the entry of the decision with an identifier that begins with `id`.
pub(super) fn place(
    connection: &Connection,
    blocks: &Blocks,
    id: &str,
) -> Result<Option<(u64, Vec<u8>)>, Failure> {
    let Some(ids) = DecisionId::with_prefix(id) else {
        return Ok(None);
    };
    let mut found = entries::with_ids(connection, blocks, &ids, 2)?;
    match found.len() {
        0 | 1 => Ok(found.pop()),
        _ => Err(StoreErrorKind::Ambiguous
            .error(format!(
                "{id}: more than one decision has an identifier that begins so; write more of it"
            ))
            .into()),
    }
}

/// See [`Store::records`](crate::Store::records).
pub(super) fn records(
    connection: &Connection,
    blocks: &Blocks,
    after: u64,
    most: usize,
) -> Result<Vec<StoredDecision>, Failure> {
    let mut lines = Lines::default();
    let mut page = Vec::new();
    if most == 0 {
        return Ok(page);
    }
    // A check of the log tells what is missing here.
    entries::salvage(connection, blocks, after, |index, time, entry| {
        let time = Moment::from_millis(time);
        page.push(StoredDecision { time, ..stored(connection, &mut lines, index, entry)? });
        Ok(page.len() < most)
    })?;
    Ok(page)
}

pub(super) fn overrides(connection: &Connection) -> Result<Vec<Override>, Failure> {
    asserted(connection, |row| {
        let is_removed = row.get::<_, Option<i64>>("removed")?.is_some();
        (!is_removed).then(|| rows::override_(row)).transpose()
    })
}

/// See [`Store::removed_overrides`](crate::Store::removed_overrides).
pub(super) fn removed_overrides(connection: &Connection) -> Result<Vec<Removed>, Failure> {
    asserted(connection, |row| {
        let is_removed = row.get::<_, Option<i64>>("removed")?.is_some();
        is_removed.then(|| rows::removed(row)).transpose()
    })
}

/// Reads overrides. A damaged one may have been a denial, or may still be in force: the caller must not go on as if it
/// did not exist.
fn asserted<T>(
    connection: &Connection,
    read: impl Fn(&Row<'_>) -> Result<Option<T>, Failure>,
) -> Result<Vec<T>, Failure> {
    let mut found = Vec::new();
    connection.each("SELECT * FROM override ORDER BY number", [], |row| {
        if !digests::holds("override", row)? {
            let number: i64 = row.get("number")?;
            return Err(Failure::Store(StoreErrorKind::Corrupt.error(format!(
                    "the store is damaged: override {number} is not what was written, and is unreadable; \
                     `crawlgate override remove {number} --by NAME` takes it out of the store, or `crawlgate store \
                     rebuild` does; if it is to hold, add it anew"
                ))));
        }
                found.extend(read(row)?);
        Ok(())
    })?;
    Ok(found)
}

pub(super) fn version(connection: &Connection) -> Result<u64, Failure> {
    let text = "SELECT value FROM meta WHERE name = 'version'";
    connection.only(text, []).map(number)
}

/// Returns all sizes except the octets on disk.
pub(super) fn size(connection: &Connection) -> Result<Size, Failure> {
    let count = |text| connection.only(text, []).map(number);
    Ok(Size {
        bytes: 0,
        origins: count("SELECT count(*) FROM origin")?,
        snapshots: count("SELECT count(*) FROM snapshot")?,
        decisions: kept(connection)?,
    })
}

/// Returns the number of records that are here: neither those that were dropped nor those that are lost.
pub(super) fn kept(connection: &Connection) -> Result<u64, Failure> {
    let (first, end) = entries::extent(connection)?;
    let gone = "SELECT coalesce(sum(count), 0) FROM block WHERE body IS NULL AND first >= ?1";
    let gone = connection.only(gone, [integer(first)]).map(number)?;
    Ok((end - first).saturating_sub(gone))
}

fn limit(most: usize) -> i64 {
    i64::try_from(most).unwrap_or(i64::MAX)
}

/// Returns the first undamaged rows, at most so many. Logs each damaged one before them; its origin is asked anew.
fn undamaged<T>(
    mut rows: rusqlite::Rows<'_>,
    most: usize,
    read: impl Fn(&Row<'_>) -> Result<T, Failure>,
) -> Result<Vec<T>, Failure> {
    let mut undamaged = Vec::new();
    while undamaged.len() < most
        && let Some(row) = rows.next()?
    {
        match read(row) {
            Ok(one) => undamaged.push(one),
            Err(Failure::Damaged(what)) => {
                let origin = row.get::<_, String>("origin").unwrap_or_default();
                let origin = printable(&origin);
                error!(
                    %origin,
                    "the stored state of this origin is damaged, and its robots.txt is fetched again: {what}; \
                     `crawlgate origins forget {origin}` drops it, `crawlgate store check` tells what else is damaged"
                );
            }
            Err(failure) => return Err(failure),
        }
    }
    Ok(undamaged)
}
