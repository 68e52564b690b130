//! From values to columns, and back.
//!
//! This module wrote every row itself, so a row without sense is damage: it becomes an error, never a guess.

use rusqlite::types::ValueRef;
use rusqlite::{Row, named_params};

use super::digests;
use super::engine::{Failure, Statements as _, integer, moment, number, time};
use crate::{
    Acknowledgement, Fetch, OtherAnswer, Removed, SnapshotMeta, StoredOrigin, StoredState,
};
use crawlgate_origins::access::{Absence, Cause};
use crawlgate_origins::identity::Identity;
use crawlgate_origins::state::{Fresh, Outage};
use crawlgate_policy::overrides::{Action, Override, OverrideId};
use crawlgate_robots::Origin;
use crawlgate_system::clock::Moment;
use crawlgate_text::DecisionId;

fn moment_at(row: &Row<'_>, column: &str) -> Result<Moment, Failure> {
    Ok(moment(row.get(column)?))
}

/// Reads a blob of exactly `N` octets.
fn octets<const N: usize>(row: &Row<'_>, column: &str) -> Result<Option<[u8; N]>, Failure> {
    match row.get_ref(column)? {
        ValueRef::Null => Ok(None),
        ValueRef::Blob(blob) => blob.try_into().map(Some).map_err(|_| nonsense(column)),
        _ => Err(nonsense(column)),
    }
}

fn nonsense(column: &str) -> Failure {
    Failure::Damaged(format!("the column {column} holds what was never written there"))
}

/// Writes an origin's row, in place of an older one.
pub(super) fn write_origin(
    connection: &rusqlite::Connection,
    memory: &StoredOrigin,
) -> Result<(), Failure> {
    let (copy, fresh, outage) = match &memory.state {
        StoredState::Successful { copy, fresh, outage } => {
            (Some(copy), Some(fresh), outage.as_ref())
        }
        StoredState::Unavailable { fresh, outage, .. } => (None, Some(fresh), outage.as_ref()),
        StoredState::Unreachable { outage, last_good } => (last_good.as_ref(), None, Some(outage)),
    };
    let (absence, learnt) = match &memory.state {
        StoredState::Unavailable { why, fetched, .. } => (Some(why.code()), Some(*fetched)),
        _ => (None, None),
    };
    let text = "INSERT INTO origin VALUES (:origin, :identity, :user_agent, :state, :updated, :fetched, :refresh_from, :fresh_until, :absence, :cause, \
         :since, :last_failure, :last_attempt, :attempts, :next_attempt, :sha256, :status, :final_url, :bytes, \
         :truncated, NULL) \
         ON CONFLICT (origin, identity) DO UPDATE SET user_agent = :user_agent, state = :state, updated = :updated, fetched = :fetched, \
         refresh_from = :refresh_from, fresh_until = :fresh_until, absence = :absence, cause = :cause, since = :since, \
         last_failure = :last_failure, last_attempt = :last_attempt, attempts = :attempts, next_attempt = :next_attempt, sha256 = :sha256, status = :status, \
                  final_url = :final_url, bytes = :bytes, truncated = :truncated";
    let values = named_params! {
        ":origin": memory.origin.as_str(),
        ":identity": memory.identity.to_string(),
        ":user_agent": memory.user_agent,
        ":state": memory.state.name(),
        ":updated": time(memory.updated),
        ":fetched": copy.map(|copy| copy.fetched).or(learnt).map(time),
        ":refresh_from": fresh.map(|fresh| time(fresh.refresh_from)),
        ":fresh_until": fresh.map(|fresh| time(fresh.until)),
        ":absence": absence,
        ":cause": outage.map(|outage| outage.cause.code()),
        ":since": outage.map(|outage| time(outage.since)),
        ":last_failure": outage.and_then(|outage| outage.last_failure).map(time),
        ":last_attempt": outage.map(|outage| time(outage.last_attempt)),
        ":attempts": outage.map(|outage| outage.attempts),
        ":next_attempt": outage.map(|outage| time(outage.next_attempt)),
        ":sha256": copy.map(|copy| copy.sha256),
        ":status": copy.map(|copy| copy.status),
        ":final_url": copy.map(|copy| copy.final_url.as_str()),
        ":bytes": copy.map(|copy| integer(copy.bytes)),
                ":truncated": copy.map(|copy| copy.truncated),
    };
    connection.run(text, values)?;
    digests::stamp(
        connection,
        "origin",
        "origin = ?1 AND identity = ?2",
        &[&memory.origin.as_str(), &memory.identity.to_string()],
    )
}

/// Reads an origin's row.
pub(super) fn origin(row: &Row<'_>) -> Result<StoredOrigin, Failure> {
    digests::require("origin", row)?;
    let state: String = row.get("state")?;
    let state = match state.as_str() {
        "successful" => StoredState::Successful {
            copy: copy(row)?.ok_or_else(|| nonsense("sha256"))?,
            fresh: fresh(row)?,
            outage: outage(row)?,
        },
        "unavailable" => {
            let why: String = row.get("absence")?;
            StoredState::Unavailable {
                why: Absence::from_code(&why).ok_or_else(|| nonsense("absence"))?,
                fetched: moment_at(row, "fetched")?,
                fresh: fresh(row)?,
                outage: outage(row)?,
            }
        }
        "unreachable" => StoredState::Unreachable {
            outage: outage(row)?.ok_or_else(|| nonsense("cause"))?,
            last_good: copy(row)?,
        },
        _ => return Err(nonsense("state")),
    };
    Ok(StoredOrigin {
        origin: origin_at(row)?,
        identity: identity_at(row)?,
        user_agent: row.get("user_agent")?,
        state,
        updated: moment_at(row, "updated")?,
    })
}

fn origin_at(row: &Row<'_>) -> Result<Origin, Failure> {
    let text: String = row.get("origin")?;
    let (origin, _) = Origin::parse(&text).map_err(|_| nonsense("origin"))?;
    Ok(origin)
}

fn identity_at(row: &Row<'_>) -> Result<Identity, Failure> {
    let text: String = row.get("identity")?;
    Identity::parse(&text).ok_or_else(|| nonsense("identity"))
}

fn fresh(row: &Row<'_>) -> Result<Fresh, Failure> {
    Ok(Fresh {
        refresh_from: moment_at(row, "refresh_from")?,
        until: moment_at(row, "fresh_until")?,
    })
}

fn outage(row: &Row<'_>) -> Result<Option<Outage>, Failure> {
    let Some(cause) = row.get::<_, Option<String>>("cause")? else {
        return Ok(None);
    };
    Ok(Some(Outage {
        cause: Cause::from_code(&cause).ok_or_else(|| nonsense("cause"))?,
        since: moment_at(row, "since")?,
        last_failure: row.get::<_, Option<i64>>("last_failure")?.map(moment),
        last_attempt: moment_at(row, "last_attempt")?,
        attempts: row.get("attempts")?,
        next_attempt: moment_at(row, "next_attempt")?,
    }))
}

fn copy(row: &Row<'_>) -> Result<Option<SnapshotMeta>, Failure> {
    let Some(sha256) = octets(row, "sha256")? else {
        return Ok(None);
    };
    Ok(Some(SnapshotMeta {
        sha256,
        fetched: moment_at(row, "fetched")?,
        status: row.get("status")?,
        final_url: row.get("final_url")?,
        bytes: number(row.get("bytes")?),
        truncated: row.get("truncated")?,
    }))
}

/// Adds a fetch to an origin's history.
pub(super) fn write_fetch(
    connection: &rusqlite::Connection,
    origin: &Origin,
    fetch: &Fetch,
) -> Result<(), Failure> {
    let text = "INSERT INTO fetch \
         (origin, identity, user_agent, other, time, duration, result, cause, status, hops, sha256, fields) VALUES \
         (:origin, :identity, :user_agent, :other, :time, :duration, :result, :cause, :status, :hops, :sha256, :fields)";
    let millis = u64::try_from(fetch.duration.as_millis()).unwrap_or(u64::MAX);
    let values = named_params! {
        ":origin": origin.as_str(),
        ":identity": fetch.identity.to_string(),
        ":user_agent": fetch.user_agent,
        ":other": fetch.other.as_ref().map(|other| json(&(&other.user_agent, &other.code))),
        ":time": time(fetch.time),
        ":duration": integer(millis),
        ":result": fetch.result,
        ":cause": fetch.cause,
        ":status": fetch.status,
        ":hops": json(&fetch.hops),
        ":sha256": fetch.sha256,
                ":fields": json(&fetch.fields),
    };
    connection.run(text, values)?;
    let number = connection.last_insert_rowid();
    digests::stamp(connection, "fetch", "number = ?1", &[&number])
}

/// Reads a fetch's row.
pub(super) fn fetch(row: &Row<'_>) -> Result<Fetch, Failure> {
    digests::require("fetch", row)?;
    let (hops, fields): (String, String) = (row.get("hops")?, row.get("fields")?);
    let other = match row.get::<_, Option<String>>("other")? {
        Some(text) => {
            let (user_agent, code) = serde_json::from_str(&text).map_err(|_| nonsense("other"))?;
            Some(OtherAnswer { user_agent, code })
        }
        None => None,
    };
    Ok(Fetch {
        identity: identity_at(row)?,
        user_agent: row.get("user_agent")?,
        other,
        time: moment_at(row, "time")?,
        duration: std::time::Duration::from_millis(number(row.get("duration")?)),
        result: row.get("result")?,
        cause: row.get("cause")?,
        status: row.get("status")?,
        hops: serde_json::from_str(&hops).map_err(|_| nonsense("hops"))?,
        sha256: octets(row, "sha256")?,
        fields: serde_json::from_str(&fields).map_err(|_| nonsense("fields"))?,
    })
}

/// Encodes texts as JSON, which cannot fail.
fn json(texts: &impl serde::Serialize) -> String {
    serde_json::to_string(texts).unwrap_or_default()
}

/// Reads the acknowledgement of a record, in the columns `time`, `person` and `note`.
pub(super) fn acknowledgement(row: &Row<'_>) -> Result<Acknowledgement, Failure> {
    Ok(Acknowledgement {
        time: moment_at(row, "time")?,
        by: row.get("person")?,
        note: row.get("note")?,
    })
}

/// Reads an override's row.
pub(super) fn override_(row: &Row<'_>) -> Result<Override, Failure> {
    let action: String = row.get("action")?;
    let action = Action::from_name(&action);
    Ok(Override {
        id: match row.get::<_, Option<[u8; 16]>>("id")? {
            Some(id) => OverrideId::Shared(DecisionId::from_octets(id)),
            None => OverrideId::Stored(number(row.get("number")?)),
        },
        origin: origin_at(row)?,
        pattern: row.get("pattern")?,
        action: action.ok_or_else(|| nonsense("action"))?,
        until: row.get::<_, Option<i64>>("until")?.map(moment),
        by: row.get("person")?,
        reason: row.get("reason")?,
        created: moment_at(row, "created")?,
        instance: Some(row.get("instance")?).filter(|name: &String| !name.is_empty()),
    })
}

/// Reads the row of an override that was removed.
pub(super) fn removed(row: &Row<'_>) -> Result<Removed, Failure> {
    Ok(Removed {
        asserted: override_(row)?,
        time: moment_at(row, "removed")?,
        by: row.get("removed_by")?,
    })
}
