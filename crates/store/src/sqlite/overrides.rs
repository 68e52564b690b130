//! The overrides that people add and remove.

use rusqlite::{Connection, Row, params};
use tracing::warn;

use super::digests;
use super::engine::{Failure, Statements as _, integer, number, time};

use super::engine::changed;
use super::log::Change;
use super::objects;
use super::rows;
use crate::{FleetOverrides, Object, ObjectKind};
use crawlgate_policy::overrides::{self, Override, OverrideId};
use crawlgate_record::{self as entry, Asserted, EventKind};
use crawlgate_system::clock::Moment;
use crawlgate_text::DecisionId;

const TABLE: &str = "override";

/// The condition of one row.
const ROW: &str = "number = ?1";

/// See [`Store::add_override`](crate::Store::add_override).
pub(super) fn add(change: &mut Change<'_>, new: &Override) -> Result<OverrideId, Failure> {
    let id = insert(change, new, new.created)?;
    changed(change)?;
    Ok(id)
}

/// Adds an override, with its entry in the log.
fn insert(change: &mut Change<'_>, new: &Override, now: Moment) -> Result<OverrideId, Failure> {
    let shared = match new.id {
        OverrideId::Shared(id) => Some(id.octets()),
        OverrideId::Stored(_) | OverrideId::Configured(_) => None,
    };
    change.run(
        "INSERT INTO override (origin, pattern, action, until, person, reason, created, id, instance) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        params![
            new.origin.as_str(),
            new.pattern,
            new.action.as_str(),
            new.until.map(time),
            new.by,
            new.reason,
            time(new.created),
            shared,
            new.instance.as_deref().unwrap_or_default(),
        ],
    )?;
    let row = change.last_insert_rowid();
    digests::stamp(change, TABLE, ROW, &[&row])?;
    let id = match new.id {
        OverrideId::Shared(_) => new.id,
        OverrideId::Stored(_) | OverrideId::Configured(_) => OverrideId::Stored(number(row)),
    };
    append_added(change, new, id, now)?;
    Ok(id)
}

/// Writes the entry of an addition.
fn append_added(
    change: &mut Change<'_>,
    one: &Override,
    id: OverrideId,
    now: Moment,
) -> Result<(), Failure> {
    let object = object(one, id);
    objects::add(change, &object, now)?;
    let overridden = &object.sha256;
    change.event(now, EventKind::OverrideAdded { overridden })
}

/// Returns the override as entries name it.
fn object(one: &Override, id: OverrideId) -> Object {
    let mut body = Vec::new();
    Asserted {
        id: &id.to_string(),
        origin: one.origin.as_str(),
        pattern: &one.pattern,
        action: match one.action {
            overrides::Action::Allow => entry::Action::Allow,
            overrides::Action::AllowUsage => entry::Action::AllowUsage,
            overrides::Action::Deny => entry::Action::Deny,
        },
        by: &one.by,
        reason: &one.reason,
        until: one.until.map(Moment::as_millis),
        created: one.created.as_millis(),
        instance: one.instance.as_deref(),
    }
    .encode(&mut body);
    Object::new(ObjectKind::Override, &body)
}

/// See [`Store::remove_override`](crate::Store::remove_override).
pub(super) fn remove(
    change: &mut Change<'_>,
    id: OverrideId,
    by: &str,
    now: Moment,
) -> Result<bool, Failure> {
    let removed = match row_of(change, id)? {
        None => false,
        Some(Found::Damaged(row)) => {
            // The text of the override and its removal are unknown: there is nothing to keep of it.
            warn!(number = row, by, "an override that was damaged is taken out of the store");
            change.run("DELETE FROM override WHERE number = ?1", [row])? > 0
        }
        Some(Found::Whole { row, is_removed }) => {
            !is_removed && mark_removed(change, row, by, now, now)?
        }
    };
    if removed {
        changed(change)?;
    }
    Ok(removed)
}

/// An override in the store.
enum Found {
    /// It is as it was written.
    Whole { row: i64, is_removed: bool },
    /// It is not what was written.
    Damaged(i64),
}

/// Finds an override. One of a fleet is found by its number only if it is damaged.
fn row_of(connection: &Connection, id: OverrideId) -> Result<Option<Found>, Failure> {
    let found = |row: &Row<'_>| {
        let at: i64 = row.get("number")?;
        if !digests::holds(TABLE, row)? {
            return Ok(Some(Found::Damaged(at)));
        }
        let is_removed = row.get::<_, Option<i64>>("removed")?.is_some();
        let is_it = rows::override_(row)?.id == id;
        Ok(is_it.then_some(Found::Whole { row: at, is_removed }))
    };
    let text = "SELECT * FROM override WHERE";
    let row = match id {
        OverrideId::Configured(_) => None,
        OverrideId::Stored(number) => {
            connection.first(&format!("{text} number = ?1"), [integer(number)], found)?
        }
        OverrideId::Shared(id) => {
            connection.first(&format!("{text} id = ?1"), [id.octets()], found)?
        }
    };
    Ok(row.flatten())
}

/// Marks an override as removed at `time`, with its entry in the log.
fn mark_removed(
    change: &mut Change<'_>,
    row: i64,
    by: &str,
    at: Moment,
    now: Moment,
) -> Result<bool, Failure> {
    let text = "SELECT * FROM override WHERE number = ?1 AND removed IS NULL";
    let Some(going) = change.first(text, [row], rows::override_)? else {
        return Ok(false);
    };
    let text = "UPDATE override SET removed = ?2, removed_by = ?3 WHERE number = ?1";
    change.run(text, params![row, time(at), by])?;
    digests::stamp(change, TABLE, ROW, &[&row])?;
    let object = object(&going, going.id);
    objects::add(change, &object, now)?;
    let kind = EventKind::OverrideRemoved { overridden: &object.sha256, by: by.into() };
    change.event(now, kind)?;
    Ok(true)
}

/// Takes over the overrides that a fleet has in common: a set that only grows, with the removed ones marked. Every instance
/// keeps all of them, so two stores that have heard of the same ones agree, in whatever order they heard.
///
/// See [`Store::merge_overrides`](crate::Store::merge_overrides).
pub(super) fn merge(
    change: &mut Change<'_>,
    all: &FleetOverrides,
    now: Moment,
) -> Result<bool, Failure> {
    let mut is_new = false;
    let removed = all.removed.iter().map(|one| &one.asserted);
    for one in all.added.iter().chain(removed) {
        let is_shared = matches!(one.id, OverrideId::Shared(_));
        if is_shared && row_of(change, one.id)?.is_none() {
            insert(change, one, now)?;
            is_new = true;
        }
    }
    for one in &all.removed {
        if let Some(Found::Whole { row, is_removed }) = row_of(change, one.asserted.id)?
            && !is_removed
        {
            is_new |= mark_removed(change, row, &one.by, one.time, now)?;
        }
    }
    if is_new {
        changed(change)?;
    }
    Ok(is_new)
}

/// See [`Store::share_overrides`](crate::Store::share_overrides).
pub(super) fn share(change: &mut Change<'_>, instance: &str, now: Moment) -> Result<bool, Failure> {
    let text = "SELECT * FROM override WHERE id IS NULL AND removed IS NULL";
    let own: Vec<(i64, Override)> = change.all(text, [], |row| {
        digests::require(TABLE, row)?;
        Ok((row.get("number")?, rows::override_(row)?))
    })?;
    for (row, one) in &own {
        let id = DecisionId::mint(now);
        let text = "UPDATE override SET id = ?2, instance = ?3 WHERE number = ?1";
        change.run(text, params![row, id.octets(), instance])?;
        digests::stamp(change, TABLE, ROW, &[row])?;
        let shared = Override { instance: Some(instance.to_owned()), ..one.clone() };
        append_added(change, &shared, OverrideId::Shared(id), now)?;
    }
    if !own.is_empty() {
        changed(change)?;
    }
    Ok(!own.is_empty())
}
