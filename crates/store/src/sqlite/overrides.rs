//! The overrides that people add and remove.

pub(super) mod fleet;

use rusqlite::{Connection, Row, Transaction, params};
use tracing::warn;

use super::digests;
use super::engine::{Failure, Statements as _, integer, number, time};
use super::entries::Head;
use super::objects;
use super::rows;
use super::transaction::{begin, changed};
use super::write::{LogMemory, event};
use crate::{Object, ObjectKind};
use crawlgate_policy::overrides::{self, Override, OverrideId};
use crawlgate_record::{self as entry, Asserted, EventKind};
use crawlgate_system::clock::Moment;

/// See [`Store::add_override`](crate::Store::add_override).
pub(super) fn add(
    connection: &mut Connection,
    log: &mut LogMemory,
    new: &Override,
) -> Result<OverrideId, Failure> {
    let transaction = begin(connection)?;
    let mut head = log.head(&transaction)?;
    let id = insert(&transaction, &mut head, new, new.created)?;
    changed(&transaction)?;
    log.commit(transaction, head)?;
    Ok(id)
}

/// Adds an override, with its entry in the log.
fn insert(
    transaction: &Transaction<'_>,
    head: &mut Head,
    new: &Override,
    now: Moment,
) -> Result<OverrideId, Failure> {
    let shared = match new.id {
        OverrideId::Shared(id) => Some(id.octets()),
        OverrideId::Stored(_) | OverrideId::Configured(_) => None,
    };
    transaction.execute(
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
    let row = transaction.last_insert_rowid();
    digests::stamp(transaction, "override", "number = ?1", &[&row])?;
    let id = match new.id {
        OverrideId::Shared(_) => new.id,
        OverrideId::Stored(_) | OverrideId::Configured(_) => OverrideId::Stored(number(row)),
    };
    append_added(transaction, head, new, id, now)?;
    Ok(id)
}

/// Writes the entry of an addition.
fn append_added(
    transaction: &Transaction<'_>,
    head: &mut Head,
    one: &Override,
    id: OverrideId,
    now: Moment,
) -> Result<(), Failure> {
    let object = object(one, id);
    objects::add(transaction, &object, now)?;
    let overridden = &object.sha256;
    event(
        transaction,
        head,
        now,
        EventKind::OverrideAdded { overridden },
    )
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
    connection: &mut Connection,
    log: &mut LogMemory,
    id: OverrideId,
    by: &str,
    now: Moment,
) -> Result<bool, Failure> {
    let transaction = begin(connection)?;
    let mut head = log.head(&transaction)?;
    let removed = match row_of(&transaction, id)? {
        None => false,
        Some(Found::Damaged(row)) => {
            // The text of the override and its removal are unknown: there is nothing to keep of it.
            warn!(
                number = row,
                by, "an override that was damaged is taken out of the store"
            );
            transaction.run("DELETE FROM override WHERE number = ?1", [row])? > 0
        }
        Some(Found::Whole { row, is_removed }) => {
            !is_removed && mark_removed(&transaction, &mut head, row, by, now, now)?
        }
    };
    if removed {
        changed(&transaction)?;
    }
    log.commit(transaction, head)?;
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
fn row_of(transaction: &Transaction<'_>, id: OverrideId) -> Result<Option<Found>, Failure> {
    let found = |row: &Row<'_>| {
        let at: i64 = row.get("number")?;
        if !digests::holds("override", row)? {
            return Ok(Some(Found::Damaged(at)));
        }
        let is_removed = row.get::<_, Option<i64>>("removed")?.is_some();
        let is_it = rows::override_(row)?.id == id;
        Ok(is_it.then_some(Found::Whole {
            row: at,
            is_removed,
        }))
    };
    let text = "SELECT * FROM override WHERE";
    let row = match id {
        OverrideId::Configured(_) => None,
        OverrideId::Stored(number) => {
            transaction.first(&format!("{text} number = ?1"), [integer(number)], found)?
        }
        OverrideId::Shared(id) => {
            transaction.first(&format!("{text} id = ?1"), [id.octets()], found)?
        }
    };
    Ok(row.flatten())
}

/// Marks an override as removed at `time`, with its entry in the log.
fn mark_removed(
    transaction: &Transaction<'_>,
    head: &mut Head,
    row: i64,
    by: &str,
    at: Moment,
    now: Moment,
) -> Result<bool, Failure> {
    let text = "SELECT * FROM override WHERE number = ?1 AND removed IS NULL";
    let Some(going) = transaction.first(text, [row], rows::override_)? else {
        return Ok(false);
    };
    transaction.execute(
        "UPDATE override SET removed = ?2, removed_by = ?3 WHERE number = ?1",
        params![row, time(at), by],
    )?;
    digests::stamp(transaction, "override", "number = ?1", &[&row])?;
    let object = object(&going, going.id);
    objects::add(transaction, &object, now)?;
    let kind = EventKind::OverrideRemoved {
        overridden: &object.sha256,
        by: by.into(),
    };
    event(transaction, head, now, kind)?;
    Ok(true)
}
