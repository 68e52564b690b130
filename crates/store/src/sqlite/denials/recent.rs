//! The newest denials, each a row with the columns of `crawlgate sql`.
//!
//! A refresh adds at most a thousand rows, from the newest on. Where more have come meanwhile, it leaves a gap, which later
//! refreshes fill from its upper end as soon as fewer come. The [`Window`] is the part of the log without a gap.

use std::fmt::Write as _;

use rusqlite::types::Value;
use rusqlite::{Connection, Transaction, params_from_iter};

use super::super::entries::{self, Blocks, Lines, Placed, Run};
use super::super::error::Failure;
use super::super::rows::{integer, number};
use super::super::search::places;
use super::super::sql::columns::{COLUMNS, Column, Source, of_line};
use super::super::transaction::begin;
use super::{DENY, Room, note, noted};
use crate::DecisionQuery;
use crate::search::Search;
use crawlgate_record::Entry;
use crawlgate_tlog::SEGMENT;

/// The columns after `seq`, by their names in `crawlgate sql`.
pub(super) const NAMES: [&str; 29] = [
    "time",
    "id",
    "mode",
    "verdict",
    "reason",
    "client_address",
    "client_name",
    "agent",
    "user_agent",
    "method",
    "url",
    "origin",
    "host",
    "via",
    "rule_group",
    "rule_text",
    "rule_line",
    "override_id",
    "override_by",
    "override_reason",
    "robots_state",
    "robots_status",
    "robots_fetched_at",
    "robots_sha256",
    "unreachable_since",
    "unreachable_cause",
    "status",
    "error",
    "detail",
];

/// Rows that one refresh adds.
const AT_ONCE: usize = 1_000;

/// Rows of one transaction.
const PART: usize = 250;

/// Entries that one refresh passes.
const PASSED: u64 = 4 * SEGMENT;

/// Names of the window's ends in `meta`.
const FROM: &str = "denials_from";
const UNTIL: &str = "denials_until";

/// The part of the log of which the table has each denial: indices from `from`, or from the first entry that the table has
/// room for if that is 0, up to `until`.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Window {
    from: u64,
    until: u64,
}

/// A row: the index of the entry, and the values of the columns.
type Row = (u64, Vec<Value>);

/// The rows that a refresh adds.
#[derive(Debug)]
pub(crate) struct Refresh {
    rows: Vec<Row>,
    window: Window,
    most: u64,
}

/// Reads the denials that the table lacks, the newest first. `None` if it lacks none.
pub(crate) fn look(
    connection: &Connection,
    blocks: &Blocks,
    room: Room,
) -> Result<Option<Refresh>, Failure> {
    let (first, size) = entries::extent(connection)?;
    let known = Window {
        from: noted(connection, FROM)?,
        until: noted(connection, UNTIL)?,
    };
    if known.until == size && known.from <= first {
        return Ok(None);
    }
    let at_once = usize::try_from(room.denials).unwrap_or(AT_ONCE);
    let mut pass = Pass {
        connection,
        blocks,
        search: Search::new(&DecisionQuery {
            verdict: Some(DENY.to_owned()),
            ..DecisionQuery::default()
        })?,
        lines: Lines::default(),
        rows: Vec::new(),
        most: at_once.min(AT_ONCE),
        left: PASSED,
    };
    // A log that is shorter than it was is another one.
    let least = if known.until > size { 0 } else { known.until }.max(first);
    let mut from = pass.down(least, size)?;
    // The new rows follow the known ones without a gap.
    if from == least && least > first {
        from = known.from;
        if from > first && pass.rows.len() as u64 + count_from(connection, from)? < room.denials {
            from = pass.down(first, from)?;
        } else {
            from = 0;
        }
    }
    if from <= first || pass.rows.len() as u64 >= room.denials {
        from = 0;
    }
    Ok(Some(Refresh {
        rows: pass.rows,
        window: Window { from, until: size },
        most: room.denials,
    }))
}

/// Counts the rows from an index on.
fn count_from(connection: &Connection, from: u64) -> Result<u64, Failure> {
    let mut there =
        connection.prepare_cached("SELECT count(*) FROM recent_denial WHERE seq > ?1")?;
    Ok(number(there.query_row([integer(from)], |row| row.get(0))?))
}

/// A pass over the log, from the newest entries on.
struct Pass<'c> {
    connection: &'c Connection,
    blocks: &'c Blocks,
    search: Search,
    lines: Lines,
    rows: Vec<Row>,
    /// Rows to read.
    most: usize,
    /// Entries to pass.
    left: u64,
}

impl Pass<'_> {
    /// Reads the denials among the entries from `least` on, before `end`, and returns the index down to which it came. What
    /// cannot be read is passed over: a check of the store tells it.
    fn down(&mut self, least: u64, end: u64) -> Result<u64, Failure> {
        let Some(last) = end.checked_sub(1).filter(|_| end > least) else {
            return Ok(end);
        };
        let mut at = end;
        if self.left == 0 || self.rows.len() >= self.most {
            return Ok(at);
        }
        let (connection, blocks) = (self.connection, self.blocks);
        let read = entries::runs(
            connection,
            blocks,
            least..=last,
            true,
            |_| Ok(false),
            |placed, range| {
                let most = self.most.saturating_sub(self.rows.len());
                let found = places(connection, &self.search, placed, range, true, most)?;
                let is_full = found.len() == most;
                at = match found.last() {
                    Some(place) if is_full => placed.first + place,
                    _ => placed.first.max(least),
                };
                if !found.is_empty() {
                    let entries = RunEntries::of(placed)?;
                    for index in found.into_iter().map(|place| placed.first + place) {
                        let entry = entries.entry(index)?;
                        let values = values(connection, &mut self.lines, &entry)?;
                        self.rows.extend(values.map(|values| (index, values)));
                    }
                }
                self.left = self.left.saturating_sub(placed.count);
                Ok(!is_full && self.left > 0)
            },
        );
        match read {
            Ok(()) => Ok(at),
            Err(Failure::Damaged(_)) => Ok(least),
            Err(failure) => Err(failure),
        }
    }
}

/// The entries of a run, to be read one by one.
pub(super) struct RunEntries<'p> {
    placed: &'p Placed,
    tail: Vec<(u64, Vec<u8>)>,
}

impl<'p> RunEntries<'p> {
    pub(super) fn of(placed: &'p Placed) -> Result<Self, Failure> {
        let tail = match placed.run {
            Run::Tail(_) => placed.entries(&(0..=u64::MAX))?,
            Run::Block(_) | Run::Dropped => Vec::new(),
        };
        Ok(Self { placed, tail })
    }

    /// Returns the entry of an index in the run.
    pub(super) fn entry(&self, index: u64) -> Result<Vec<u8>, Failure> {
        let place = index.saturating_sub(self.placed.first);
        let at = usize::try_from(place).unwrap_or(usize::MAX);
        match self.tail.get(at) {
            Some((_, entry)) => Ok(entry.clone()),
            None => self.placed.entry(place),
        }
    }
}

/// Returns the columns of the table after `seq`.
fn columns() -> impl Iterator<Item = &'static Column> {
    NAMES
        .iter()
        .filter_map(|name| COLUMNS.iter().find(|column| column.name == *name))
}

/// Returns the values of the columns for a decision; `None` for another entry.
pub(super) fn values(
    connection: &Connection,
    lines: &mut Lines,
    entry: &[u8],
) -> Result<Option<Vec<Value>>, Failure> {
    let Ok(Entry::Decision(decision)) = Entry::read(entry) else {
        return Ok(None);
    };
    let (mut values, mut line) = (Vec::with_capacity(NAMES.len()), None);
    for column in columns() {
        let Source::Line(pointer, short) = column.source else {
            continue;
        };
        values.push(match (short(&decision), &line) {
            (Some(value), _) => value,
            (None, Some(line)) => of_line(line, pointer),
            (None, None) => {
                let text = lines.line(connection, entry)?;
                let said = serde_json::from_str(&text).unwrap_or_default();
                of_line(line.insert(said), pointer)
            }
        });
    }
    Ok(Some(values))
}

impl Refresh {
    /// Splits the rows into those of each transaction; the window is noted after them.
    pub(crate) fn into_parts(self) -> (Vec<Vec<Row>>, Done) {
        let done = Done {
            window: self.window,
            most: self.most,
        };
        let (mut rows, mut parts) = (self.rows, Vec::new());
        while !rows.is_empty() {
            let rest = rows.split_off(rows.len().min(PART));
            parts.push(std::mem::replace(&mut rows, rest));
        }
        (parts, done)
    }
}

/// Adds rows, unless retention has dropped their entries meanwhile.
pub(crate) fn put(connection: &mut Connection, rows: &[Row]) -> Result<(), Failure> {
    let mut text = "INSERT OR REPLACE INTO recent_denial (seq".to_owned();
    for name in NAMES {
        let _ = write!(text, ", {name}"); // a String takes all
    }
    text.push_str(") VALUES (?");
    text.push_str(&", ?".repeat(NAMES.len()));
    text.push(')');
    let transaction = begin(connection)?;
    let (first, _) = entries::extent(&transaction)?;
    {
        let mut put = transaction.prepare_cached(&text)?;
        for (index, values) in rows.iter().filter(|(index, _)| *index >= first) {
            let seq = Value::Integer(integer(index + 1));
            put.execute(params_from_iter(std::iter::once(&seq).chain(values)))?;
        }
    }
    transaction.commit()?;
    Ok(())
}

/// Drops the rows behind the end of the log.
pub(crate) fn cut_off(connection: &Connection, size: u64) -> Result<(), Failure> {
    connection
        .prepare_cached("DELETE FROM recent_denial WHERE seq > ?1")?
        .execute([integer(size)])?;
    Ok(())
}

/// Drops the rows of dropped entries: those before an index.
pub(crate) fn drop_before(transaction: &Transaction<'_>, end: u64) -> Result<(), Failure> {
    transaction
        .prepare_cached("DELETE FROM recent_denial WHERE seq <= ?1")?
        .execute([integer(end)])?;
    Ok(())
}

/// The end of a refresh.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Done {
    window: Window,
    most: u64,
}

impl Done {
    /// Drops the rows that the table has no room for, and notes the window.
    pub(crate) fn note(self, connection: &mut Connection) -> Result<(), Failure> {
        let transaction = begin(connection)?;
        transaction
            .prepare_cached(
                "DELETE FROM recent_denial WHERE seq <= \
                 (SELECT seq FROM recent_denial ORDER BY seq DESC LIMIT 1 OFFSET ?1)",
            )?
            .execute([integer(self.most)])?;
        let (_, size) = entries::extent(&transaction)?;
        transaction
            .prepare_cached("DELETE FROM recent_denial WHERE seq > ?1")?
            .execute([integer(size)])?;
        note(&transaction, FROM, self.window.from)?;
        note(&transaction, UNTIL, self.window.until)?;
        transaction.commit()?;
        Ok(())
    }
}
