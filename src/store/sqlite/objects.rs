//! The objects that entries name by their SHA-256.

use std::collections::HashMap;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension as _, params};

use super::error::Failure;
use super::rows::{integer, time};
use crate::clock::Moment;
use crate::entry::{Basis, Entry};
use crate::store::{Batch, Object, ObjectKind, Sha256};

/// Precision of the time that an object was last used.
const DAY: Duration = Duration::from_secs(86_400);

/// Returns the body of an object.
pub(super) fn body(connection: &Connection, sha256: &Sha256) -> Result<Option<Vec<u8>>, Failure> {
    let mut statement = connection.prepare_cached("SELECT body FROM object WHERE sha256 = ?1")?;
    Ok(statement.query_row([sha256], |row| row.get(0)).optional()?)
}

/// Returns the text of settings.
pub(super) fn terms(connection: &Connection, sha256: &Sha256) -> Result<Option<String>, Failure> {
    let mut statement =
        connection.prepare_cached("SELECT body FROM object WHERE sha256 = ?1 AND kind = ?2")?;
    let kind = integer(ObjectKind::Terms.number());
    let body: Option<Vec<u8>> = statement
        .query_row(params![sha256, kind], |row| row.get(0))
        .optional()?;
    // An altered text is reported by its digest.
    Ok(body.map(|body| String::from_utf8_lossy(&body).into_owned()))
}

/// Adds the objects of a batch. A body that was altered meanwhile is repaired.
pub(super) fn write(connection: &Connection, batch: &Batch) -> Result<(), Failure> {
    let used = batch
        .entries
        .iter()
        .filter_map(|entry| Entry::read(entry).ok());
    let used = match batch.objects.is_empty() {
        true => return Ok(()),
        false => used.map(|entry| entry.time()).max().unwrap_or_default(),
    };
    let day = u64::try_from(DAY.as_millis()).unwrap_or(1);
    let used = time(Moment::from_millis(used - used % day));
    let mut statement = connection.prepare_cached(
        "INSERT INTO object (sha256, kind, body, used, names) VALUES (?1, ?2, ?3, ?4, ?5) \
         ON CONFLICT (sha256) DO UPDATE SET kind = excluded.kind, body = excluded.body, names = excluded.names, \
         used = max(used, excluded.used) \
         WHERE kind <> excluded.kind OR body <> excluded.body OR used < excluded.used",
    )?;
    for object in &batch.objects {
        let Object { sha256, kind, body } = object;
        let basis = match kind {
            ObjectKind::Basis => Basis::read(body).ok(),
            ObjectKind::Terms | ObjectKind::Override => None,
        };
        let names = basis.and_then(|basis| basis.sha256);
        statement.execute(params![
            sha256,
            integer(kind.number()),
            &**body,
            used,
            names
        ])?;
    }
    Ok(())
}

/// Returns the bodies of the objects that the lines of a batch need.
pub(super) fn needed(
    connection: &Connection,
    batch: &Batch,
) -> Result<HashMap<Sha256, Vec<u8>>, Failure> {
    let mut bodies: HashMap<Sha256, Vec<u8>> = HashMap::new();
    for object in &batch.objects {
        bodies.insert(object.sha256, object.body.to_vec());
    }
    let entries = batch
        .entries
        .iter()
        .filter_map(|entry| Entry::read(entry).ok());
    for sha256 in entries.flat_map(|entry| entry.objects()).flatten() {
        if !bodies.contains_key(sha256)
            && let Some(body) = body(connection, sha256)?
        {
            bodies.insert(*sha256, body);
        }
    }
    Ok(bodies)
}

/// Returns the digests of objects that differ from them.
pub(super) fn wrong(connection: &Connection) -> Result<Vec<Vec<u8>>, Failure> {
    let mut statement = connection.prepare("SELECT sha256, kind, body FROM object")?;
    let mut rows = statement.query([])?;
    let mut wrong = Vec::new();
    while let Some(row) = rows.next()? {
        let (sha256, body): (Vec<u8>, Vec<u8>) = (row.get(0)?, row.get(2)?);
        let is_known = matches!(row.get(1)?, 0_i64..=2);
        let is_right = Object::new(ObjectKind::Terms, &body).sha256.as_slice() == sha256;
        if !(is_known && is_right) {
            wrong.push(sha256);
        }
    }
    Ok(wrong)
}
