//! All queries of the database.
//!
//! An index on time narrows the search; [`Filter`] decides. Long searches run in steps, each a statement of its own: a
//! single statement of minutes would keep the engine from carrying over its log.

use memchr::memmem;
use rusqlite::{Connection, OptionalExtension as _, Row, named_params, params};
use tracing::error;

use super::digests;
use super::error::Failure;
use super::rows::{self, integer, number, time};
use crate::clock::Moment;
use crate::policy::overrides::Override;
use crate::store::filter::{Filter, Tallies};
use crate::store::origins::place as place_of;
use crate::store::{
    DecisionQuery, Fetch, OriginMemory, OriginQuery, Removed, Sha256, Size, StoreError,
    StoreErrorKind, StoredDecision, Tally, TallyKey, chain,
};
use crate::text::DecisionId;
use crate::text::json::printable;

/// Records read by one statement of a long search.
const STEP: usize = 2_000;

/// A decision's columns, with its acknowledgement.
const DECISION: &str = "SELECT decision.seq, decision.time AS time, record, hash, acknowledgement.time AS seen, person, note \
     FROM decision LEFT JOIN acknowledgement USING (seq)";

/// Bounds that a reader has found and need not search again.
#[derive(Clone, Debug, Default)]
pub(super) struct Hints {
    /// The last requested start, and the first record from then on.
    since: Option<(Moment, u64)>,
    /// The last requested end, and the last record before it.
    until: Option<(Moment, u64)>,
}

pub(super) fn origin(connection: &Connection, name: &str) -> Result<Vec<OriginMemory>, Failure> {
    let mut statement =
        connection.prepare_cached("SELECT * FROM origin WHERE origin = ?1 ORDER BY identity")?;
    sound(statement.query([name])?, rows::origin)
}

pub(super) fn origins(
    connection: &Connection,
    query: &OriginQuery,
) -> Result<Vec<OriginMemory>, Failure> {
    // Each with the index that serves it.
    let mut statement = connection.prepare_cached(match query.state {
        Some(_) => {
            "SELECT * FROM origin WHERE state = :state AND (origin, identity) > (:after, :identity) \
             AND (:containing IS NULL OR instr(origin, :containing) > 0) ORDER BY origin, identity LIMIT :limit"
        }
        None => {
            "SELECT * FROM origin WHERE :state IS NULL AND (origin, identity) > (:after, :identity) \
             AND (:containing IS NULL OR instr(origin, :containing) > 0) ORDER BY origin, identity LIMIT :limit"
        }
    })?;
    let (after, identity) = place_of(query.after.as_deref().unwrap_or_default());
    let rows = statement.query(named_params! {
        ":after": after,
        ":identity": identity,
        ":state": query.state,
        ":containing": query.containing,
        ":limit": limit(query.limit),
    })?;
    sound(rows, rows::origin)
}

pub(super) fn fetches(
    connection: &Connection,
    origin: &str,
    most: usize,
) -> Result<Vec<Fetch>, Failure> {
    let mut statement = connection
        .prepare_cached("SELECT * FROM fetch WHERE origin = ?1 ORDER BY number DESC LIMIT ?2")?;
    sound(statement.query(params![origin, limit(most)])?, rows::fetch)
}

pub(super) fn snapshot(
    connection: &Connection,
    sha256: Sha256,
) -> Result<Option<Vec<u8>>, Failure> {
    let mut statement = connection
        .prepare_cached("SELECT bytes, body FROM snapshot WHERE sha256 = ?1 AND dropped IS NULL")?;
    first(statement.query([sha256])?, |row| {
        let bytes = usize::try_from(row.get::<_, i64>(0)?).unwrap_or_default();
        let text = zstd::bulk::decompress(row.get_ref(1)?.as_blob().unwrap_or_default(), bytes);
        text.map_err(|error| Failure::Damaged(format!("the text of a robots.txt: {error}")))
    })
}

/// See [`Store::decisions`](crate::store::Store::decisions).
pub(super) fn decisions(
    connection: &Connection,
    query: &DecisionQuery,
    hints: &mut Hints,
) -> Result<Vec<StoredDecision>, Failure> {
    let filter = Filter::new(query)?;
    let mut page = Vec::new();
    if query.limit == 0 {
        return Ok(page);
    }
    walk(connection, query, &filter, hints, |decision| {
        let seen = decision.acknowledged.as_ref();
        if filter.facts(&decision.record, seen).is_some() {
            page.push(decision);
        }
        page.len() < query.limit
    })?;
    Ok(page)
}

/// See [`Store::tally`](crate::store::Store::tally).
pub(super) fn tally(
    connection: &Connection,
    query: &DecisionQuery,
    key: TallyKey,
    most: usize,
    hints: &mut Hints,
) -> Result<Vec<Tally>, Failure> {
    let filter = Filter::new(query)?;
    let mut tallies = Tallies::new(key);
    walk(connection, query, &filter, hints, |decision| {
        if let Some(facts) = filter.facts(&decision.record, decision.acknowledged.as_ref()) {
            tallies.count(&facts);
        }
        true
    })?;
    Ok(tallies.into_most_frequent(most))
}

/// Gives `visit` the candidate records, in order, until it returns false.
fn walk(
    connection: &Connection,
    query: &DecisionQuery,
    filter: &Filter<'_>,
    hints: &mut Hints,
    mut visit: impl FnMut(StoredDecision) -> bool,
) -> Result<(), Failure> {
    let (mut least, mut most) = bounds(connection, query, hints)?;
    let narrowed = match query.acknowledged {
        Some(true) => "AND person IS NOT NULL",
        _ => "",
    };
    let order = if query.newest_first { "DESC" } else { "ASC" };
    let text = format!(
        "{DECISION} WHERE decision.seq BETWEEN ?1 AND ?2 {narrowed} ORDER BY decision.seq {order} LIMIT ?3"
    );
    let mut statement = connection.prepare_cached(&text)?;
    // Most records are of another host, and show it without being read as JSON.
    let host = filter.host().map(str::to_ascii_lowercase);
    let host = host.as_ref().map(memmem::Finder::new);
    while least <= most {
        let mut rows = statement.query(params![integer(least), integer(most), limit(STEP)])?;
        let (mut count, mut last) = (0, 0);
        while let Some(row) = rows.next()? {
            (count, last) = (count + 1, number(row.get("seq")?));
            let record = row.get_ref("record")?.as_bytes().unwrap_or_default();
            if host
                .as_ref()
                .is_some_and(|host| host.find(record).is_none())
            {
                continue;
            }
            if !visit(rows::decision(row)?) {
                return Ok(());
            }
        }
        if count < STEP {
            return Ok(());
        }
        if query.newest_first {
            most = last.saturating_sub(1);
        } else {
            least = last + 1;
        }
    }
    Ok(())
}

/// Returns the first and the last candidate record.
fn bounds(
    connection: &Connection,
    query: &DecisionQuery,
    hints: &mut Hints,
) -> Result<(u64, u64), Failure> {
    let (mut least, mut most) = (
        query.from.unwrap_or(0),
        query.to.unwrap_or(u64::MAX).min(u64::MAX >> 1),
    );
    match (query.after, query.newest_first) {
        (Some(after), true) => most = most.min(after.saturating_sub(1)),
        (Some(after), false) => least = least.max(after.saturating_add(1)),
        (None, _) => {}
    }
    // A record's time is the start of its exchange, so records are not quite in the order of their times: the index
    // finds the candidates.
    if let Some(since) = query.since {
        let first = match hints.since {
            Some((moment, first)) if moment == since => Some(first),
            _ => edge(
                connection,
                "SELECT min(seq) FROM decision INDEXED BY decision_time WHERE time >= ?1",
                since,
            )?,
        };
        // Later records come after it, so this stays true. An empty range proves nothing for later.
        match first {
            Some(first) => {
                hints.since = Some((since, first));
                least = least.max(first);
            }
            None => return Ok((1, 0)),
        }
    }
    if let Some(until) = query.until {
        let last = match hints.until {
            // The first page sets the end for the others.
            Some((moment, last)) if moment == until && query.after.is_some() => Some(last),
            _ => edge(
                connection,
                "SELECT max(seq) FROM decision INDEXED BY decision_time WHERE time < ?1",
                until,
            )?,
        };
        match last {
            Some(last) => {
                hints.until = Some((until, last));
                most = most.min(last);
            }
            None => return Ok((1, 0)),
        }
    }
    Ok((least, most))
}

fn edge(connection: &Connection, text: &str, at: Moment) -> Result<Option<u64>, Failure> {
    let mut statement = connection.prepare_cached(text)?;
    let seq: Option<i64> = statement.query_row([time(at)], |row| row.get(0))?;
    Ok(seq.map(number))
}

pub(super) fn decision(
    connection: &Connection,
    id: &str,
) -> Result<Option<StoredDecision>, Failure> {
    let Some(seq) = place(connection, id)? else {
        return Ok(None);
    };
    let mut statement =
        connection.prepare_cached(&format!("{DECISION} WHERE decision.seq = ?1"))?;
    first(statement.query([seq])?, rows::decision)
}

/// Returns the place of the decision `id`. Its time, which an index finds, is part of its identifier.
pub(super) fn place(connection: &Connection, id: &str) -> Result<Option<i64>, Failure> {
    let Some(began) = DecisionId::time_of(id) else {
        return Ok(None);
    };
    let mut statement = connection
        .prepare_cached("SELECT seq FROM decision WHERE time = ?1 AND record->>'id' = ?2")?;
    let seq = statement.query_row(params![time(began), id], |row| row.get(0));
    Ok(seq.optional()?)
}

pub(super) fn links(
    connection: &Connection,
    after: u64,
    most: usize,
) -> Result<Vec<StoredDecision>, Failure> {
    let mut statement = connection.prepare_cached(&format!(
        "{DECISION} WHERE decision.seq > ?1 ORDER BY decision.seq LIMIT ?2"
    ))?;
    all(
        statement.query(params![integer(after), limit(most)])?,
        rows::decision,
    )
}

pub(super) fn seals(connection: &Connection) -> Result<Vec<chain::Seal>, Failure> {
    let mut statement = connection.prepare_cached("SELECT * FROM seal ORDER BY number")?;
    all(statement.query([])?, rows::seal)
}

pub(super) fn overrides(connection: &Connection) -> Result<Vec<Override>, Failure> {
    asserted(connection, |row| {
        let is_removed = row.get::<_, Option<i64>>("removed")?.is_some();
        (!is_removed).then(|| rows::override_(row)).transpose()
    })
}

/// See [`Store::removed_overrides`](crate::store::Store::removed_overrides).
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
    let mut statement = connection.prepare_cached("SELECT * FROM override ORDER BY number")?;
    let mut rows = statement.query([])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        if !digests::holds("override", row)? {
            let number: i64 = row.get("number")?;
            return Err(Failure::Told(StoreError {
                kind: StoreErrorKind::Corrupt,
                message: format!(
                    "the store is damaged: override {number} is not what was written, and is unreadable; \
                     `crawlgate override remove {number} --by NAME` takes it out of the store, or `crawlgate store \
                     rebuild` does; if it is to hold, add it anew"
                ),
            }));
        }
        found.extend(read(row)?);
    }
    Ok(found)
}

pub(super) fn version(connection: &Connection) -> Result<u64, Failure> {
    let mut statement =
        connection.prepare_cached("SELECT value FROM meta WHERE name = 'version'")?;
    Ok(number(statement.query_row([], |row| row.get(0))?))
}

/// Returns all sizes except the octets on disk.
pub(super) fn size(connection: &Connection) -> Result<Size, Failure> {
    let count = |text: &str| -> Result<u64, Failure> {
        let mut statement = connection.prepare_cached(text)?;
        Ok(number(statement.query_row([], |row| row.get(0))?))
    };
    Ok(Size {
        bytes: 0,
        origins: count("SELECT count(*) FROM origin")?,
        snapshots: count("SELECT count(*) FROM snapshot")?,
        // The chain is complete except for its gaps, so no rows need counting.
        decisions: count(
            "SELECT coalesce(max(seq) - min(seq) + 1 - (SELECT coalesce(sum(last - first + 1), 0) FROM gap \
             WHERE first > (SELECT min(seq) FROM decision)), 0) \
             FROM decision",
        )?,
    })
}

fn limit(most: usize) -> i64 {
    i64::try_from(most).unwrap_or(i64::MAX)
}

fn first<T>(
    mut rows: rusqlite::Rows<'_>,
    read: impl Fn(&Row<'_>) -> Result<T, Failure>,
) -> Result<Option<T>, Failure> {
    rows.next()?.map(read).transpose()
}

/// Returns the undamaged rows. Logs each damaged one; its origin is asked anew.
fn sound<T>(
    mut rows: rusqlite::Rows<'_>,
    read: impl Fn(&Row<'_>) -> Result<T, Failure>,
) -> Result<Vec<T>, Failure> {
    let mut sound = Vec::new();
    while let Some(row) = rows.next()? {
        match read(row) {
            Ok(one) => sound.push(one),
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
    Ok(sound)
}

fn all<T>(
    mut rows: rusqlite::Rows<'_>,
    read: impl Fn(&Row<'_>) -> Result<T, Failure>,
) -> Result<Vec<T>, Failure> {
    let mut read_so_far = Vec::new();
    while let Some(row) = rows.next()? {
        read_so_far.push(read(row)?);
    }
    Ok(read_so_far)
}
