//! Counts of fetches of robots.txt by hour: the history of an origin keeps only its latest fetches.

use rusqlite::{Connection, ToSql, params};

use super::digests;
use super::engine::{Failure, Statements as _, moment, number, time};
use crate::{FetchSum, FetchSums, HOUR, OriginUpdate};
use crawlgate_origins::document::Document;
use crawlgate_system::clock::Moment;

/// Creates the table.
pub(super) const TABLE: &str = r#"
-- How many fetches of robots.txt ended in each hour (its start, in milliseconds since the epoch), by result. Of those that
-- brought a text: how many brought the one that was known of the origin, or another one; and how many a text that was
-- longer than the limit. The fetches of hours before the first row were not counted. `digest` is that of the row.
CREATE TABLE fetch_hourly (
    hour INTEGER NOT NULL,
    result TEXT NOT NULL,
    fetches INTEGER NOT NULL,
    unchanged INTEGER NOT NULL,
    changed INTEGER NOT NULL,
    truncated INTEGER NOT NULL,
    digest BLOB,
    PRIMARY KEY (hour, result)
) STRICT, WITHOUT ROWID;
"#;

const NAME: &str = "fetch_hourly";

/// The condition of one row.
const ROW: &str = "hour = ?1 AND result = ?2";

/// Counts a fetch, before the origin's row says what it brought.
pub(super) fn count(connection: &Connection, update: &OriginUpdate) -> Result<(), Failure> {
    let OriginUpdate { origin, state, fetch, .. } = update;
    if fetch.identity.document() != Document::RobotsTxt {
        return Ok(());
    }
    let text = "SELECT sha256 FROM origin WHERE origin = ?1 AND identity = ?2";
    let place = params![origin.as_str(), fetch.identity.to_string()];
    let known: Option<Option<Vec<u8>>> = connection.value(text, place)?;
    let (found, known) = (fetch.sha256.as_ref(), known.flatten());
    let is_unchanged = found.is_some_and(|found| known.as_deref() == Some(found));
    let is_changed = found.is_some() && known.is_some() && !is_unchanged;
    let text = state.snapshot().filter(|_| found.is_some());
    let is_truncated = text.is_some_and(|text| text.robots.is_truncated());
    let millis = u64::try_from(HOUR.as_millis()).unwrap_or(1);
    let ended = fetch.time.as_millis();
    let hour = time(Moment::from_millis(ended - ended % millis));
    let row: [&dyn ToSql; 2] = [&hour, &fetch.result];
    let text = format!("SELECT * FROM {NAME} WHERE {ROW}");
    let holds = connection.first(&text, row, |row| Ok(digests::holds(NAME, row)?))?;
    if holds == Some(false) {
        // Another digest would hide the damage.
        return Ok(());
    }
    connection.run(
        "INSERT INTO fetch_hourly VALUES (?1, ?2, 1, ?3, ?4, ?5, NULL) ON CONFLICT DO UPDATE SET \
         fetches = fetches + 1, unchanged = unchanged + excluded.unchanged, \
         changed = changed + excluded.changed, truncated = truncated + excluded.truncated",
        params![hour, fetch.result, is_unchanged, is_changed, is_truncated],
    )?;
    digests::stamp(connection, NAME, ROW, &row)
}

/// See [`Store::fetch_sums`](crate::Store::fetch_sums).
pub(super) fn read(
    connection: &Connection,
    since: Moment,
    until: Moment,
) -> Result<FetchSums, Failure> {
    let first: Option<i64> = connection.only("SELECT min(hour) FROM fetch_hourly", [])?;
    let text = "SELECT * FROM fetch_hourly WHERE hour > ?1 AND hour < ?2 ORDER BY result, hour";
    // The hour that `since` is in counts.
    let span = [time(since - HOUR), time(until)];
    let mut by_result: Vec<FetchSum> = Vec::new();
    connection.each(text, span, |row| {
        digests::require(NAME, row)?;
        let result: String = row.get("result")?;
        if by_result.last().is_none_or(|last| last.result != result) {
            by_result.push(FetchSum { result, ..FetchSum::default() });
        }
        if let Some(sum) = by_result.last_mut() {
            sum.fetches += number(row.get("fetches")?);
            sum.unchanged += number(row.get("unchanged")?);
            sum.changed += number(row.get("changed")?);
            sum.truncated += number(row.get("truncated")?);
        }
        Ok(())
    })?;
    Ok(FetchSums { first: first.map(moment), by_result })
}

/// Drops the hours that end before `oldest`, the time of the first kept entry.
pub(super) fn prune(connection: &Connection, oldest: Moment) -> Result<(), Failure> {
    let text = "DELETE FROM fetch_hourly WHERE hour + 3600000 <= ?1";
    connection.run(text, [time(oldest)]).map(drop)
}
