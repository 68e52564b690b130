//! The schema of the database.
//!
//! People read the tables through the views below, in the `sqlite3` shell. Times are milliseconds since the epoch, UTC,
//! in tables, and text in views. Decisions lie in entries ([`entries`](super::entries)).

use std::collections::BTreeMap;

use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::engine::{Failure, Statements as _};
use super::entries;
use super::fetches;
use super::rotations;
use crawlgate_text::json::printable;

/// Marks a database as ours (`PRAGMA application_id`): "crlg".
pub(super) const APPLICATION: i32 = 0x6372_6c67;

/// The version of the schema (`PRAGMA user_version`). Each change of the schema takes the next one.
pub(super) const VERSION: i32 = 15;

/// The parts of the schema.
const PARTS: [&str; 5] = [ORIGINS, entries::TABLES, COUNTS, rotations::TABLE, fetches::TABLE];

const ORIGINS: &str = r#"
CREATE TABLE meta (
    name TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO meta VALUES ('version', 0);

-- Each robots.txt once, by the SHA-256 of the text that counts. `body` is that text, compressed with zstd. `last_named` is
-- the time up to which entries may rest on it, at least. A text that was dropped to make room leaves its row, without the
-- text, for as long as an entry names it.
CREATE TABLE snapshot (
    number INTEGER PRIMARY KEY,
    sha256 BLOB NOT NULL UNIQUE,
    bytes INTEGER NOT NULL,
    body BLOB NOT NULL,
    first_fetched INTEGER NOT NULL,
    last_fetched INTEGER NOT NULL,
    last_named INTEGER NOT NULL DEFAULT 0,
    domain TEXT NOT NULL DEFAULT '',
    dropped INTEGER
) STRICT;

-- Snapshots that lost one of those who referred to them, to be looked at from `due` on: the last one may be gone.
-- The triggers below look first instead of saying OR IGNORE: a statement with ON CONFLICT puts its own in that place.
CREATE TABLE leftover (
    sha256 BLOB PRIMARY KEY,
    due INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX leftover_due ON leftover (due);

-- A `digest` is the first 16 octets of the SHA-256 of all that the row says: one that says something else is damaged.

-- What is known of an origin's robots.txt as one identity: `*`, a product token in lower case, with `@` and a client's
-- name after it where a client answers for it. `user_agent` is that of the fetch that the state rests on.
CREATE TABLE origin (
    origin TEXT NOT NULL,
    identity TEXT NOT NULL,
    user_agent TEXT NOT NULL,
    state TEXT NOT NULL,
    updated INTEGER NOT NULL,
    fetched INTEGER,
    refresh_from INTEGER,
    fresh_until INTEGER,
    absence TEXT,
    cause TEXT,
    since INTEGER,
    last_failure INTEGER,
    last_attempt INTEGER,
    attempts INTEGER,
    next_attempt INTEGER,
    sha256 BLOB REFERENCES snapshot (sha256),
    status INTEGER,
    final_url TEXT,
    bytes INTEGER,
    truncated INTEGER,
    digest BLOB,
    PRIMARY KEY (origin, identity)
) STRICT, WITHOUT ROWID;
CREATE INDEX origin_sha256 ON origin (sha256) WHERE sha256 IS NOT NULL;
CREATE TRIGGER origin_changed AFTER UPDATE OF sha256 ON origin
    WHEN old.sha256 IS NOT NULL AND old.sha256 IS NOT new.sha256
    AND NOT EXISTS (SELECT 1 FROM leftover WHERE sha256 = old.sha256)
    BEGIN INSERT INTO leftover VALUES (old.sha256, 0); END;
CREATE TRIGGER origin_gone AFTER DELETE ON origin
    WHEN old.sha256 IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM leftover WHERE sha256 = old.sha256)
    BEGIN INSERT INTO leftover VALUES (old.sha256, 0); END;

-- `other` is the answer to another User-Agent that was held against this one: a JSON array of the two texts.
CREATE TABLE fetch (
    number INTEGER PRIMARY KEY,
    origin TEXT NOT NULL,
    identity TEXT NOT NULL,
    user_agent TEXT NOT NULL,
    other TEXT,
    time INTEGER NOT NULL,
    duration INTEGER NOT NULL,
    result TEXT NOT NULL,
    cause TEXT,
    status INTEGER,
    hops TEXT NOT NULL,
    sha256 BLOB,
    fields TEXT NOT NULL,
    digest BLOB,
    FOREIGN KEY (origin, identity) REFERENCES origin (origin, identity) ON DELETE CASCADE
) STRICT;
CREATE INDEX fetch_origin ON fetch (origin, identity);
CREATE INDEX fetch_sha256 ON fetch (sha256) WHERE sha256 IS NOT NULL;
CREATE TRIGGER fetch_gone AFTER DELETE ON fetch
    WHEN old.sha256 IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM leftover WHERE sha256 = old.sha256)
    BEGIN INSERT INTO leftover VALUES (old.sha256, 0); END;

-- A person has seen the decision. The log has an entry of it, too.
CREATE TABLE acknowledgement (
    seq INTEGER PRIMARY KEY,
    time INTEGER NOT NULL,
    person TEXT NOT NULL,
    note TEXT NOT NULL
) STRICT;

-- `id` is the identifier that the override has at every instance of a fleet, and `instance` the one that added it. Of two
-- columns with NULL at the end of a row, a flipped bit goes unnoticed.
CREATE TABLE override (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    origin TEXT NOT NULL,
    pattern TEXT NOT NULL,
    action TEXT NOT NULL,
    until INTEGER,
    person TEXT NOT NULL,
    reason TEXT NOT NULL,
    created INTEGER NOT NULL,
    removed INTEGER,
    removed_by TEXT,
    digest BLOB,
    id BLOB,
    instance TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE UNIQUE INDEX override_id ON override (id) WHERE id IS NOT NULL;

CREATE VIEW origins AS
SELECT origin, identity, state, absence, cause, user_agent,
    strftime('%Y-%m-%dT%H:%M:%fZ', fetched / 1000.0, 'unixepoch') AS fetched,
    strftime('%Y-%m-%dT%H:%M:%fZ', fresh_until / 1000.0, 'unixepoch') AS fresh_until,
    strftime('%Y-%m-%dT%H:%M:%fZ', since / 1000.0, 'unixepoch') AS unreachable_since,
    strftime('%Y-%m-%dT%H:%M:%fZ', last_attempt / 1000.0, 'unixepoch') AS last_attempt,
    attempts,
    strftime('%Y-%m-%dT%H:%M:%fZ', next_attempt / 1000.0, 'unixepoch') AS next_attempt,
    status, final_url, bytes, truncated, lower(hex(sha256)) AS sha256,
    strftime('%Y-%m-%dT%H:%M:%fZ', updated / 1000.0, 'unixepoch') AS updated
FROM origin;

CREATE VIEW snapshots AS
SELECT lower(hex(sha256)) AS sha256, bytes, length(body) AS compressed,
    strftime('%Y-%m-%dT%H:%M:%fZ', first_fetched / 1000.0, 'unixepoch') AS first_fetched,
    strftime('%Y-%m-%dT%H:%M:%fZ', last_fetched / 1000.0, 'unixepoch') AS last_fetched,
    (SELECT count(DISTINCT origin) FROM origin WHERE origin.sha256 = snapshot.sha256) AS origins
FROM snapshot;
"#;

const COUNTS: &str = r#"
-- How many decisions were written of each hour (its start, in milliseconds since the epoch), by what they have in
-- common: what a chart asks for.
CREATE TABLE hourly (
    hour INTEGER NOT NULL,
    mode TEXT NOT NULL,
    verdict TEXT NOT NULL,
    reason TEXT NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (hour, mode, verdict, reason)
) STRICT, WITHOUT ROWID;

-- Those that are unreachable are few among many, and looked for.
CREATE INDEX origin_state ON origin (state, origin, identity);

CREATE INDEX snapshot_used ON snapshot (last_fetched);
CREATE INDEX snapshot_domain ON snapshot (domain, last_fetched);

-- What is known of origins, by registrable domain, and what it takes, about: one domain with names without end must not
-- push out all others.
CREATE TABLE kept (
    origin TEXT PRIMARY KEY,
    domain TEXT NOT NULL,
    used INTEGER NOT NULL,
    octets INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX kept_used ON kept (used);
CREATE INDEX kept_domain ON kept (domain, used);
CREATE TABLE domain (
    name TEXT PRIMARY KEY,
    octets INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX domain_octets ON domain (octets);
INSERT INTO meta VALUES ('robots_octets', 0);

CREATE TRIGGER domain_new AFTER INSERT ON domain
    BEGIN UPDATE meta SET value = value + new.octets WHERE name = 'robots_octets'; END;
CREATE TRIGGER domain_changed AFTER UPDATE OF octets ON domain
    BEGIN UPDATE meta SET value = value + new.octets - old.octets WHERE name = 'robots_octets'; END;
CREATE TRIGGER domain_gone AFTER DELETE ON domain
    BEGIN UPDATE meta SET value = value - old.octets WHERE name = 'robots_octets'; END;

CREATE TRIGGER kept_new AFTER INSERT ON kept BEGIN
    INSERT INTO domain VALUES (new.domain, new.octets) ON CONFLICT (name) DO UPDATE SET octets = octets + excluded.octets;
END;
CREATE TRIGGER kept_changed AFTER UPDATE OF octets ON kept WHEN new.octets <> old.octets BEGIN
    UPDATE domain SET octets = octets + new.octets - old.octets WHERE name = new.domain;
END;
CREATE TRIGGER kept_gone AFTER DELETE ON kept BEGIN
    UPDATE domain SET octets = octets - old.octets WHERE name = old.domain;
    DELETE FROM domain WHERE name = old.domain AND octets <= 0;
END;
CREATE TRIGGER origin_gone_from_kept AFTER DELETE ON origin
    WHEN NOT EXISTS (SELECT 1 FROM origin WHERE origin = old.origin)
    BEGIN DELETE FROM kept WHERE origin = old.origin; END;

CREATE TRIGGER snapshot_new AFTER INSERT ON snapshot BEGIN
    INSERT INTO domain VALUES (new.domain, length(new.body) + 256)
    ON CONFLICT (name) DO UPDATE SET octets = octets + excluded.octets;
END;
CREATE TRIGGER snapshot_changed AFTER UPDATE OF body, domain ON snapshot BEGIN
    INSERT INTO domain VALUES (new.domain, length(new.body) + 256)
    ON CONFLICT (name) DO UPDATE SET octets = octets + excluded.octets;
    UPDATE domain SET octets = octets - length(old.body) - 256 WHERE name = old.domain;
    DELETE FROM domain WHERE name = old.domain AND octets <= 0;
END;
CREATE TRIGGER snapshot_gone AFTER DELETE ON snapshot BEGIN
    UPDATE domain SET octets = octets - length(old.body) - 256 WHERE name = old.domain;
    DELETE FROM domain WHERE name = old.domain AND octets <= 0;
END;

-- A text stays while an object names it, and an object while an entry may name it.
CREATE TRIGGER object_new AFTER INSERT ON object WHEN new.names IS NOT NULL BEGIN
    INSERT INTO snapshot (sha256, bytes, body, first_fetched, last_fetched, last_named, dropped)
    SELECT new.names, 0, x'', new.used, new.used, new.used, new.used
    WHERE NOT EXISTS (SELECT 1 FROM snapshot WHERE sha256 = new.names);
    UPDATE snapshot SET last_named = max(last_named, new.used) WHERE sha256 = new.names;
END;
CREATE TRIGGER object_used_again AFTER UPDATE OF used ON object WHEN new.names IS NOT NULL
    BEGIN UPDATE snapshot SET last_named = max(last_named, new.used) WHERE sha256 = new.names; END;
CREATE TRIGGER object_gone AFTER DELETE ON object
    WHEN old.names IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM leftover WHERE sha256 = old.names)
    BEGIN INSERT INTO leftover VALUES (old.names, 0); END;
"#;

/// The schema version of a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SchemaVersion {
    /// An empty database.
    Empty,
    /// The present one.
    Present,
    /// That of an earlier crawlgate, which no released one ever had.
    Earlier(i32),
    /// That of a newer crawlgate.
    Newer(i32),
    /// It belongs to another program.
    Foreign,
}

/// Reads the schema version of a database.
pub(super) fn read_version(connection: &Connection) -> rusqlite::Result<SchemaVersion> {
    let number = |pragma| connection.pragma_query_value(None, pragma, |row| row.get::<_, i32>(0));
    let (application, version) = (number("application_id")?, number("user_version")?);
    // A process killed during creation may have left a database without a table.
    let is_empty = || {
        let count = "SELECT count(*) FROM sqlite_schema";
        connection.query_row(count, [], |row| row.get::<_, i64>(0))
    };
    Ok(match (application, version) {
        (0, 0) if is_empty()? == 0 => SchemaVersion::Empty,
        (APPLICATION, VERSION) => SchemaVersion::Present,
        (APPLICATION, 0..VERSION) => SchemaVersion::Earlier(version),
        (APPLICATION, VERSION..) => SchemaVersion::Newer(version),
        _ => SchemaVersion::Foreign,
    })
}

/// Tells whether a database has exactly the tables, views and indices of the present schema, whatever its version says.
pub(super) fn is_present(connection: &Connection) -> Result<bool, Failure> {
    let mut new = Connection::open_in_memory()?;
    create(&mut new)?;
    Ok(shape(connection)? == shape(&new)?)
}

/// Returns a sentence for each table, view, index and trigger that is missing or another one, and for each foreign
/// trigger.
pub(super) fn differences(connection: &Connection) -> Result<Vec<String>, Failure> {
    let mut new = Connection::open_in_memory()?;
    create(&mut new)?;
    let (there, wanted) = (shape(connection)?, shape(&new)?);
    let mut differences = Vec::new();
    for (name, (kind, text)) in &wanted {
        match there.get(name) {
            None => differences.push(format!("the {kind} {name} is missing")),
            Some((_, other)) if other != text => {
                differences.push(format!("the {kind} {name} is not the one that crawlgate makes"));
            }
            Some(_) => {}
        }
    }
    // An index, a view or a table of an operator's own changes nothing here.
    let foreign =
        there.iter().filter(|(name, (kind, _))| kind == "trigger" && !wanted.contains_key(*name));
    differences.extend(foreign.map(|(name, _)| {
        let name = printable(name);
        format!(
            "the trigger {name} is none of crawlgate's: what it changes in the store is unknown"
        )
    }));
    Ok(differences)
}

/// Kind and text of each part of a schema, by its name.
type Shape = BTreeMap<String, (String, Option<String>)>;

/// Reads a schema. The engine's own tables are left out: a person's `ANALYZE` makes some.
fn shape(connection: &Connection) -> Result<Shape, Failure> {
    let text = "SELECT name, type, sql FROM sqlite_schema WHERE name NOT GLOB 'sqlite_*'";
    let parts = connection.all(text, [], |row| Ok((row.get(0)?, (row.get(1)?, row.get(2)?))))?;
    Ok(parts.into_iter().collect())
}

/// Makes the schema in an empty database, all of it or nothing.
pub(super) fn create(connection: &mut Connection) -> Result<(), Failure> {
    let transaction = Transaction::new(connection, TransactionBehavior::Immediate)?;
    // Read inside the transaction: another process may have been faster.
    if read_version(&transaction)? == SchemaVersion::Present {
        return Ok(());
    }
    for part in PARTS {
        transaction.execute_batch(part)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION)?;
    transaction.pragma_update(None, "user_version", VERSION)?;
    transaction.commit()?;
    Ok(())
}
