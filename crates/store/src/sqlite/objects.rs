//! The objects that entries name by their SHA-256.

use std::time::Duration;

use rusqlite::{Connection, params};

use super::engine::{Failure, Statements as _, integer, time};
use crate::batch::digest;
use crate::types::WEEK;
use crate::{Batch, Object, ObjectKind, Sha256};
use crawlgate_record::{Asserted, Basis, time_of};
use crawlgate_system::clock::Moment;

/// Time for which a process may use an object that it has added.
const IN_USE: Duration = Duration::from_secs(30 * 86_400);

/// Objects dropped at once.
const AT_ONCE: i64 = 64;

/// Time before the oldest kept entry from which on a note of use may stand for an entry that is kept: the precision of
/// notes, and a day for entries that are not quite in order.
pub(super) const MARGIN: Duration = Duration::from_millis(WEEK + 86_400_000);

/// Returns the body of an object.
pub(super) fn body(connection: &Connection, sha256: &Sha256) -> Result<Option<Vec<u8>>, Failure> {
    let text = "SELECT body FROM object WHERE sha256 = ?1";
    let body: Option<Vec<u8>> = connection.value(text, [sha256])?;
    // An altered body is another object's.
    Ok(body.filter(|body| digest(body) == *sha256))
}

/// Returns the text of settings.
pub(super) fn policy_settings(
    connection: &Connection,
    sha256: &Sha256,
) -> Result<Option<String>, Failure> {
    let text = "SELECT body FROM object WHERE sha256 = ?1 AND kind = ?2";
    let kind = integer(ObjectKind::PolicySettings.number());
    let body: Option<Vec<u8>> = connection.value(text, params![sha256, kind])?;
    // An altered text is reported by its digest; one without a body was lost.
    let body = body.filter(|body| !body.is_empty());
    Ok(body.map(|body| String::from_utf8_lossy(&body).into_owned()))
}

/// Adds the objects of a batch, noted as used by its latest entry. A body that was altered meanwhile is repaired.
pub(super) fn write(connection: &Connection, batch: &Batch) -> Result<(), Failure> {
    if batch.objects.is_empty() {
        return Ok(());
    }
    let used = batch.entries.iter().map(time_of).max().unwrap_or_default();
    let used = time(Moment::from_millis(used - used % WEEK));
    for object in &batch.objects {
        put(connection, object, used)?;
    }
    Ok(())
}

/// Adds an object that is used at this time.
pub(super) fn add(connection: &Connection, object: &Object, at: Moment) -> Result<(), Failure> {
    put(connection, object, time(at))
}

fn put(connection: &Connection, object: &Object, used: i64) -> Result<(), Failure> {
    let Object { sha256, kind, body } = object;
    let basis = match kind {
        ObjectKind::Basis => Basis::read(body).ok(),
        ObjectKind::PolicySettings | ObjectKind::Override => None,
    };
    let names = basis.and_then(|basis| basis.sha256);
    let text = "INSERT INTO object (sha256, kind, body, used, names) VALUES (?1, ?2, ?3, ?4, ?5) \
                ON CONFLICT (sha256) DO UPDATE SET kind = excluded.kind, body = excluded.body, names = excluded.names, \
                used = max(used, excluded.used) \
                WHERE kind <> excluded.kind OR body <> excluded.body OR used < excluded.used";
    let values = params![sha256, integer(kind.number()), &**body, used, names];
    connection.run(text, values).map(drop)
}

/// Drops states of a robots.txt that no entry can name: those that were last used long before `oldest`, the time of the
/// oldest kept entry. Returns their number. A process adds settings and overrides only once, however long it names them, so
/// they stay.
pub(super) fn drop_unused(
    connection: &Connection,
    oldest: Moment,
    now: Moment,
) -> Result<usize, Failure> {
    // A process may still name an object that it added up to `IN_USE` ago.
    let before = (oldest - MARGIN).min(now - IN_USE);
    let text = "DELETE FROM object WHERE sha256 IN \
                (SELECT sha256 FROM object WHERE used < ?1 AND kind = ?2 ORDER BY used LIMIT ?3)";
    let basis = integer(ObjectKind::Basis.number());
    connection.run(text, [time(before), basis, AT_ONCE])
}

/// Returns the kind of an object, and the robots.txt that it names.
fn facts(body: &[u8]) -> (ObjectKind, Option<&Sha256>) {
    match (Basis::read(body), Asserted::read(body)) {
        (Ok(basis), _) => (ObjectKind::Basis, basis.sha256),
        (_, Ok(_)) => (ObjectKind::Override, None),
        _ => (ObjectKind::PolicySettings, None),
    }
}

/// Leaves a row without a body for an object that was lost, unless it is there. Tells whether it was not.
pub(super) fn note_lost(
    connection: &Connection,
    sha256: &Sha256,
    kind: ObjectKind,
    now: Moment,
) -> Result<bool, Failure> {
    let text = "INSERT OR IGNORE INTO object VALUES (?1, ?2, x'', ?3, NULL)";
    let kind = integer(kind.number());
    Ok(connection.run(text, params![sha256, kind, time(now)])? > 0)
}

/// Returns the digests of objects with a row that names another kind, or another robots.txt, than the body does.
pub(super) fn misnamed(connection: &Connection) -> Result<Vec<Vec<u8>>, Failure> {
    let mut wrong = Vec::new();
    let text = "SELECT sha256, kind, body, names FROM object WHERE length(body) > 0";
    connection.each(text, [], |row| {
        let body = row.get_ref(2)?.as_blob().unwrap_or_default();
        let (kind, names) = facts(body);
        let named = row.get_ref(3)?.as_blob_or_null().unwrap_or(Some(&[]));
        let is_right = row.get::<_, i64>(1)? == integer(kind.number())
            && named == names.map(<[u8; 32]>::as_slice);
        if !is_right {
            wrong.push(row.get(0)?);
        }
        Ok(())
    })?;
    Ok(wrong)
}

/// Writes the rows of a rebuilt store as their bodies say. No record there is later than `now`, so objects are kept long
/// enough.
pub(super) fn mend(connection: &Connection, now: Moment) -> Result<(), Failure> {
    for sha256 in misnamed(connection)? {
        let text = "SELECT body FROM object WHERE sha256 = ?1";
        let body: Vec<u8> = connection.only(text, [&sha256])?;
        let (kind, names) = facts(&body);
        let text = "UPDATE object SET kind = ?2, names = ?3 WHERE sha256 = ?1";
        connection.run(text, params![sha256, integer(kind.number()), names])?;
    }
    let text = "UPDATE object SET used = max(used, ?1)";
    connection.run(text, [time(now)]).map(drop)
}

/// Returns the digests of objects that differ from them.
pub(super) fn wrong(connection: &Connection) -> Result<Vec<Vec<u8>>, Failure> {
    let text = "SELECT sha256, body FROM object WHERE length(body) > 0";
    let all = connection.all(text, [], |row| {
        let (sha256, body): (Vec<u8>, Vec<u8>) = (row.get(0)?, row.get(1)?);
        Ok((*sha256 != digest(&body)).then_some(sha256))
    })?;
    Ok(all.into_iter().flatten().collect())
}
