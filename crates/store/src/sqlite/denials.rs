//! Denials as rows, for programs that read the database without crawlgate: the view `denials` over the newest ones, and
//! the view `rules` over the most frequent rules of each day.
//!
//! Both tables are derived from the log and say no more than its lines. No write of a request's way fills them: a refresh
//! ([`Store::list_denials`](crate::Store::list_denials),
//! [`Store::count_denied_rules`](crate::Store::count_denied_rules)) reads the log by the connection for long searches,
//! and then writes in transactions of some milliseconds. Each row is known by its place in the log, or by its day: a refresh
//! that was cut off is done again, and several processes may refresh at once.
//!
//! Retention drops rows together with their entries. A rebuild leaves both tables empty, for the next refresh. A change of
//! the words that a column has takes a step of the schema that empties the table: a check compares rows with the log.
//!
//! - [`recent`]: the newest denials
//! - [`daily`]: the most frequent rules
//! - [`check`]: both against the log

pub(super) mod check;
pub(super) mod daily;
pub(super) mod recent;
mod refresh;

use rusqlite::{Connection, OptionalExtension as _, params};

use super::bounds::Parts;
use super::error::Failure;
use super::rows::{integer, number};

/// The verdict that is a denial.
const DENY: &str = "deny";

/// Creates the tables and the views.
pub(super) const TABLES: &str = r#"
-- The newest denials, in the words of `crawlgate sql`. `seq` is the number of the record.
CREATE TABLE recent_denial (
    seq INTEGER PRIMARY KEY,
    time TEXT,
    id TEXT,
    mode TEXT,
    verdict TEXT,
    reason TEXT,
    client_address TEXT,
    client_name TEXT,
    agent TEXT,
    user_agent TEXT,
    method TEXT,
    url TEXT,
    origin TEXT,
    host TEXT,
    via TEXT,
    rule_group TEXT,
    rule_text TEXT,
    rule_line INTEGER,
    override_id TEXT,
    override_by TEXT,
    override_reason TEXT,
    robots_state TEXT,
    robots_status INTEGER,
    robots_fetched_at TEXT,
    robots_sha256 TEXT,
    unreachable_since TEXT,
    unreachable_cause TEXT,
    status INTEGER,
    error TEXT,
    detail TEXT
) STRICT;

-- How often a rule denied requests on a day (its start, in milliseconds since the epoch), and when first and last; the most
-- frequent ones. Without an origin or a rule, its text is empty.
CREATE TABLE denied_daily (
    day INTEGER NOT NULL,
    origin TEXT NOT NULL,
    rule TEXT NOT NULL,
    reason TEXT NOT NULL,
    count INTEGER NOT NULL,
    first INTEGER NOT NULL,
    last INTEGER NOT NULL,
    PRIMARY KEY (day, origin, rule, reason)
) STRICT, WITHOUT ROWID;

-- The days in it: the number of their rows, the size of the log when they were counted, and the first 16 octets of the
-- SHA-256 of the rows.
CREATE TABLE denied_day (
    day INTEGER PRIMARY KEY,
    rows INTEGER NOT NULL,
    size INTEGER NOT NULL,
    digest BLOB NOT NULL
) STRICT;

CREATE VIEW denials AS
SELECT recent_denial.*,
    strftime('%Y-%m-%dT%H:%M:%fZ', acknowledgement.time / 1000.0, 'unixepoch') AS acknowledged_at,
    acknowledgement.person AS acknowledged_by, acknowledgement.note AS acknowledged_note
FROM recent_denial LEFT JOIN acknowledgement USING (seq);

CREATE VIEW rules AS
SELECT date(day / 1000, 'unixepoch') AS day, nullif(origin, '') AS origin, nullif(rule, '') AS rule, reason, count,
    strftime('%Y-%m-%dT%H:%M:%fZ', first / 1000.0, 'unixepoch') AS first,
    strftime('%Y-%m-%dT%H:%M:%fZ', last / 1000.0, 'unixepoch') AS last
FROM denied_daily;
"#;

/// The most rows of the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Room {
    /// Denials.
    pub(super) denials: u64,
    /// Rules of one day.
    pub(super) rules: u64,
    /// Rules of all days.
    pub(super) all_rules: u64,
}

impl Room {
    const DENIALS: u64 = 10_000;
    const RULES: u64 = 1_000;

    /// Returns the room in a store of at most `max_size` octets: a small part of that for decisions.
    pub(super) fn of(max_size: Option<u64>) -> Self {
        /// Octets of a row.
        const DENIAL: u64 = 1_024;
        const RULE: u64 = 128;
        let most = max_size.map_or(u64::MAX, |most| Parts::of(most).decisions / 64);
        Self {
            denials: Self::DENIALS.min(most / DENIAL).max(1),
            rules: Self::RULES.min(most / RULE).max(1),
            all_rules: (most / RULE).max(1),
        }
    }
}

/// Reads a number that a refresh has noted; 0 if it has noted none.
fn noted(connection: &Connection, name: &str) -> Result<u64, Failure> {
    let mut noted = connection.prepare_cached("SELECT value FROM meta WHERE name = ?1")?;
    let noted: Option<i64> = noted.query_row([name], |row| row.get(0)).optional()?;
    Ok(noted.map_or(0, number))
}

/// Notes a number for the next refresh.
fn note(connection: &Connection, name: &str, value: u64) -> Result<(), Failure> {
    connection
        .prepare_cached(
            "INSERT INTO meta VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        )?
        .execute(params![name, integer(value)])?;
    Ok(())
}

#[cfg(test)]
mod tests;
