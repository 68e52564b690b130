//! The schema of the database, and the steps from an older one.
//!
//! People read the tables through the views below, in the `sqlite3` shell. Times are milliseconds since the epoch, UTC,
//! in tables, and text in views. Of a decision the table stores the record alone, with an index (`time`) and the proof
//! (`hash`). A view computes everything else from the record, so the view cannot disagree with it; generated columns of
//! the table would be computed with each insertion, at twice its price.

use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::digests;
use super::error::Failure;

/// Marks a database as ours (`PRAGMA application_id`): "crlg".
pub(super) const APPLICATION: i32 = 0x6372_6c67;

/// The steps from an empty database to the present schema. The database's `user_version` is the number of steps taken.
/// A released step is never changed: a new one follows.
pub(super) const STEPS: &[&str] = &[FIRST, SECOND, RECOUNT, BOUNDS, DIGESTS];

const FIRST: &str = r#"
CREATE TABLE meta (
    name TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO meta VALUES ('version', 0);

-- Each robots.txt once, by the SHA-256 of the text that counts. `body` is that text, compressed with zstd.
CREATE TABLE snapshot (
    number INTEGER PRIMARY KEY,
    sha256 BLOB NOT NULL UNIQUE,
    bytes INTEGER NOT NULL,
    body BLOB NOT NULL,
    first_fetched INTEGER NOT NULL,
    last_fetched INTEGER NOT NULL,
    last_decision INTEGER NOT NULL DEFAULT 0
) STRICT;

-- Snapshots that lost one of those who referred to them, to be looked at from `due` on: the last one may be gone.
-- The triggers below look first instead of saying OR IGNORE: a statement with ON CONFLICT puts its own in that place.
CREATE TABLE leftover (
    sha256 BLOB PRIMARY KEY,
    due INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX leftover_due ON leftover (due);

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
    FOREIGN KEY (origin, identity) REFERENCES origin (origin, identity) ON DELETE CASCADE
) STRICT;
CREATE INDEX fetch_origin ON fetch (origin, identity);
CREATE INDEX fetch_sha256 ON fetch (sha256) WHERE sha256 IS NOT NULL;
CREATE TRIGGER fetch_gone AFTER DELETE ON fetch
    WHEN old.sha256 IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM leftover WHERE sha256 = old.sha256)
    BEGIN INSERT INTO leftover VALUES (old.sha256, 0); END;

-- `record` is the decision, octet for octet as it was written, and `time` is its time, to be found by.
-- `hash` is the SHA-256 of the hash before it (of 32 zero octets before the first) and `record`. `seq` has no gaps.
CREATE TABLE decision (
    seq INTEGER PRIMARY KEY,
    time INTEGER NOT NULL,
    hash BLOB NOT NULL,
    record TEXT NOT NULL
) STRICT;
CREATE INDEX decision_time ON decision (time);

CREATE TABLE acknowledgement (
    seq INTEGER PRIMARY KEY REFERENCES decision (seq) ON DELETE CASCADE,
    time INTEGER NOT NULL,
    person TEXT NOT NULL,
    note TEXT NOT NULL
) STRICT;

-- What entries name by its SHA-256. `kind`: 0 settings (a JSON text), 1 the state of a robots.txt, 2 an override (CBOR).
-- `used` is the day of a latest record on it, `names` the SHA-256 of the robots.txt of a state.
CREATE TABLE object (
    sha256 BLOB PRIMARY KEY,
    kind INTEGER NOT NULL,
    body BLOB NOT NULL,
    used INTEGER NOT NULL,
    names BLOB
) STRICT, WITHOUT ROWID;

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
    removed_by TEXT
) STRICT;

-- The head of the chain of decisions at some time, signed (Ed25519).
CREATE TABLE seal (
    number INTEGER PRIMARY KEY,
    seq INTEGER NOT NULL,
    hash BLOB NOT NULL,
    time INTEGER NOT NULL,
    start_seq INTEGER NOT NULL,
    start_hash BLOB NOT NULL,
    signature BLOB NOT NULL,
    key BLOB NOT NULL
) STRICT;

CREATE VIEW decisions AS
SELECT seq, record->>'time' AS time, record->>'id' AS id, record->>'mode' AS mode, record->>'verdict' AS verdict,
    record->>'reason' AS reason,
    (record->>'scheme') || '://' || (record->>'host') || iif((record->>'scheme') || (record->>'port') IN ('http80', 'https443', 'ftp21'),
        '', ':' || (record->>'port')) AS origin,
    record->>'method' AS method, record->>'url' AS url, record->>'$.rule.text' AS rule, record->>'$.rule.line' AS line,
    record->>'$.agent.chain' AS agent, record->>'user_agent' AS user_agent, record->>'$.client.address' AS client,
    record->>'status' AS status, record->>'$.robots.sha256' AS sha256, person AS acknowledged_by, note
FROM decision LEFT JOIN acknowledgement USING (seq)
WHERE record->>'id' IS NOT NULL;

CREATE VIEW denials AS SELECT * FROM decisions WHERE verdict <> 'allow';

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

const SECOND: &str = r#"
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
"#;

/// Fills `hourly` from the stored decisions.
pub(super) const RECOUNT: &str = r#"
DELETE FROM hourly;
INSERT INTO hourly
SELECT time - time % 3600000, coalesce(record->>'mode', ''), coalesce(record->>'verdict', ''),
    coalesce(record->>'reason', ''), sum(iif(record->>'id' IS NULL, record->>'count', 1))
FROM decision WHERE json_valid(record) AND (record->>'id' IS NOT NULL OR record->>'event' = 'refusals_repeated')
GROUP BY 1, 2, 3, 4;
"#;

const BOUNDS: &str = r#"
-- Each client, and each address without one, has a share of the room for decisions: `octets` is what it takes of it, about,
-- and before `oldest` it has no decision. Number 0 stands for all that came when there were too many to tell apart.
ALTER TABLE decision ADD COLUMN party INTEGER NOT NULL DEFAULT 0;
CREATE TABLE party (
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    octets INTEGER NOT NULL,
    oldest INTEGER NOT NULL
) STRICT;
INSERT INTO party SELECT 0, 'others', coalesce(sum(length(record) + 128), 0), 0 FROM decision;

-- Decisions `first` to `last` were dropped to make room, between others that stay: the links before and after them,
-- signed (Ed25519). Without a signature they were lost to damage.
CREATE TABLE gap (
    first INTEGER PRIMARY KEY,
    last INTEGER NOT NULL,
    link_before BLOB NOT NULL,
    link_after BLOB NOT NULL,
    time INTEGER NOT NULL,
    signature BLOB,
    key BLOB
) STRICT;

-- A text that was dropped to make room leaves its row, without the text, for as long as a decision names it.
ALTER TABLE snapshot ADD COLUMN domain TEXT NOT NULL DEFAULT '';
ALTER TABLE snapshot ADD COLUMN dropped INTEGER;
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
INSERT INTO domain SELECT '', sum(length(body) + 256) FROM snapshot HAVING count(*) > 0;
INSERT INTO kept SELECT origin, '', updated, 1024 FROM origin;
"#;

/// Existing rows get their digests during the step, see [`migrate`].
const DIGESTS: &str = r#"
-- The first 16 octets of the SHA-256 of all that the row says: one that says something else is damaged.
ALTER TABLE origin ADD COLUMN digest BLOB;
ALTER TABLE fetch ADD COLUMN digest BLOB;
ALTER TABLE override ADD COLUMN digest BLOB;
"#;

/// The schema version of a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// An empty database.
    Empty,
    /// Number of steps taken, no more than there are.
    Known(usize),
    /// A newer crawlgate has taken steps that are unknown here.
    Newer(i32),
    /// It belongs to another program.
    Foreign,
}

/// Reads the schema version of a database.
pub(super) fn standing(connection: &Connection) -> rusqlite::Result<Standing> {
    let number = |pragma| connection.pragma_query_value(None, pragma, |row| row.get::<_, i32>(0));
    let (application, version) = (number("application_id")?, number("user_version")?);
    // A process killed during creation may have left a database without a table.
    let is_empty = || {
        let count = "SELECT count(*) FROM sqlite_schema";
        connection.query_row(count, [], |row| row.get::<_, i64>(0))
    };
    Ok(match (application, version, usize::try_from(version)) {
        (0, 0, _) if is_empty()? == 0 => Standing::Empty,
        (APPLICATION, _, Ok(steps)) if steps <= STEPS.len() => Standing::Known(steps),
        (APPLICATION, version, _) if version > 0 => Standing::Newer(version),
        _ => Standing::Foreign,
    })
}

/// Tells whether a database has exactly the tables, views and indices of the present schema, whatever its version says.
pub(super) fn is_present(connection: &Connection) -> Result<bool, Failure> {
    let shape = |connection: &Connection| -> rusqlite::Result<Vec<(String, Option<String>)>> {
        let text = "SELECT name, sql FROM sqlite_schema ORDER BY name";
        let mut all = connection.prepare(text)?;
        let all = all.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        all.collect()
    };
    let mut new = Connection::open_in_memory()?;
    migrate(&mut new, STEPS)?;
    Ok(shape(connection)? == shape(&new)?)
}

/// Takes the missing steps, all or none.
pub(super) fn migrate(connection: &mut Connection, steps: &[&str]) -> Result<(), Failure> {
    let transaction = Transaction::new(connection, TransactionBehavior::Immediate)?;
    // Read inside the transaction: another process may have been faster.
    let taken: i32 = transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let missing = steps.iter().skip(usize::try_from(taken).unwrap_or(0));
    for step in missing {
        transaction.execute_batch(step)?;
        if *step == DIGESTS {
            for table in digests::TABLES {
                digests::stamp_all(&transaction, table)?;
            }
        }
    }
    transaction.pragma_update(None, "application_id", APPLICATION)?;
    transaction.pragma_update(
        None,
        "user_version",
        i32::try_from(steps.len()).unwrap_or(0),
    )?;
    transaction.commit()?;
    Ok(())
}
