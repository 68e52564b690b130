//! The overrides that people add and remove.

use rusqlite::{Connection, params};
use tracing::warn;

use super::digests;
use super::error::Failure;
use super::objects;
use super::rows::{self, integer, number, time};
use super::write::{LogMemory, begin, changed, event};
use crate::clock::Moment;
use crate::entry::{self, Asserted, EventKind};
use crate::policy::overrides::{self, Override, OverrideId};
use crate::store::{Object, ObjectKind};

/// See [`Store::add_override`](crate::store::Store::add_override).
pub(super) fn add(
    connection: &mut Connection,
    log: &mut LogMemory,
    new: &Override,
) -> Result<u64, Failure> {
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
    let object = object(new, id);
    objects::add(&transaction, &object, new.created)?;
    let mut head = log.head(&transaction)?;
    let overridden = &object.sha256;
    let kind = EventKind::OverrideAdded { overridden };
    event(&transaction, &mut head, new.created, kind)?;
    log.commit(transaction, head)?;
    Ok(id)
}

/// Returns the override as entries name it.
fn object(one: &Override, id: u64) -> Object {
    let mut body = Vec::new();
    Asserted {
        id: &OverrideId::Stored(id).to_string(),
        origin: one.origin.as_str(),
        pattern: &one.pattern,
        action: match one.action {
            overrides::Action::Allow => entry::Action::Allow,
            overrides::Action::Deny => entry::Action::Deny,
        },
        by: &one.by,
        reason: &one.reason,
        until: one.until.map(Moment::as_millis),
        created: one.created.as_millis(),
    }
    .encode(&mut body);
    Object::new(ObjectKind::Override, &body)
}

/// See [`Store::remove_override`](crate::store::Store::remove_override).
pub(super) fn remove(
    connection: &mut Connection,
    log: &mut LogMemory,
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
    let mut going = None;
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
            going = transaction
                .prepare("SELECT * FROM override WHERE number = ?1 AND removed IS NULL")?
                .query_and_then([integer(id)], rows::override_)?
                .next()
                .transpose()?;
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
    let mut head = log.head(&transaction)?;
    if let Some(going) = going {
        let object = object(&going, id);
        objects::add(&transaction, &object, now)?;
        let kind = EventKind::OverrideRemoved {
            overridden: &object.sha256,
            by: by.into(),
        };
        event(&transaction, &mut head, now, kind)?;
    }
    log.commit(transaction, head)?;
    Ok(removed > 0)
}
