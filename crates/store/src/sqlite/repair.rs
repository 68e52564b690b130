//! Repair of a damaged database: find the damage, and save all readable data.
//!
//! The engine refuses a file shorter than its header says, and a schema with one damaged row, before a single table can
//! be read. It accepts a connection that may write the schema (`lenient`): present pages are read, and missing ones
//! fail one by one.

mod copy;
mod evidence;
mod remains;
mod rotations;
mod salvage;

use std::fs::{self, File};
use std::path::Path;

use rusqlite::{Connection, ErrorCode, OpenFlags};

pub use self::copy::Saved;
pub(super) use self::evidence::beyond;
pub(super) use self::salvage::refuse_if_open;
pub use self::salvage::{Rebuilt, rebuild};
use super::agree::{self, Relation};
use super::digests;
use super::engine::{Failure, Statements as _, moment};
use super::entries::Blocks;
use super::error::said;
use super::file::Header;
use super::file::PATIENCE;
use super::hours;
use super::objects;
use super::schema::{self, APPLICATION, SchemaVersion};
use super::{entries, open, read, still};
use crate::batch::digest;
use crate::log_key::log_key_file;
use crate::state_file::{self, state_file};
use crate::{Access, Sha256, StoreError, StoreErrorKind};
use crawlgate_system::clock::Moment;
use crawlgate_text::hex;
use crawlgate_text::json::printable;

/// Faults of the engine's own structure that are named one by one.
const MAX_FAULTS: i64 = 20;

/// The latest records, which a check reads; `crawlgate audit verify --all` reads all.
const RECORDS: u64 = 10_000;

/// The faults of a store, a sentence for each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Faults {
    /// Faults that a rebuild mends, or leaves out and names.
    pub damaged: Vec<String>,
    /// Faults that contradict what was signed: a rebuild leaves this evidence as it is.
    pub altered: Vec<String>,
    /// Faults beside the database, each with its way out: a rebuild mends none of them.
    pub beside: Vec<String>,
}

impl Faults {
    /// Tells whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.damaged.is_empty() && self.altered.is_empty() && self.beside.is_empty()
    }

    /// Adds that a part cannot be read. Several checks may meet the same part.
    fn unreadable(&mut self, failure: Failure, path: &Path) {
        let fault = sentence(failure, path);
        if !self.damaged.contains(&fault) {
            self.damaged.push(fault);
        }
    }
}

/// Checks the store at `path`, and returns its faults.
///
/// # Errors
/// When the store cannot be opened at all, or is another program's.
pub fn check(path: &Path) -> Result<Faults, StoreError> {
    open::require(path, Access::Read)?;
    let mut faults = Faults::default();
    let mut begins_well = true;
    let connection = match still::reader(path) {
        Ok(connection) => connection,
        Err(error) if error.kind == StoreErrorKind::Corrupt && may_be_ours(path) => {
            begins_well = false;
            faults.damaged.extend(cut_off(path));
            match lenient(path, OpenFlags::SQLITE_OPEN_READ_ONLY) {
                Ok(connection) => connection,
                Err(error) => {
                    faults.damaged.push(sentence(error.into(), path));
                    return Ok(faults);
                }
            }
        }
        Err(error) => return Err(error),
    };
    // One state of the database for all of them: a writer may be at work.
    let reading = entries::reading(&connection).unwrap_or_else(|failure| {
        faults.damaged.push(sentence(failure, path));
        None
    });
    // An unreadable part is reported, too, and the next check runs all the same.
    for check in CHECKS {
        if let Err(failure) = check(&connection, &mut faults) {
            faults.unreadable(failure, path);
        }
    }
    match evidence::forged(&connection, path) {
        Ok(sizes) => faults.damaged.extend(sizes.iter().map(|size| {
            format!("the checkpoint of {size} records is damaged: its signature does not hold")
        })),
        Err(failure) => faults.unreadable(failure, path),
    }
    // The state file may be ahead of that state.
    drop(reading);
    beside(&connection, path, &mut faults);
    if !begins_well && faults.is_empty() {
        if let Ok(SchemaVersion::Newer(version @ ..1_000)) = schema::read_version(&connection) {
            return Err(StoreErrorKind::Newer.at(path, format_args!(
                "{}; that one can check it. If no newer crawlgate ever ran here, the number is damaged, and `crawlgate \
                 store rebuild` mends it",
                open::numbered_beyond(version),
            )));
        }
        let what = "the beginning of the file is damaged, which says what it is".to_owned();
        faults.damaged.push(what);
    }
    Ok(faults)
}

/// Compares the database with the state file beside it.
fn beside(connection: &Connection, path: &Path, faults: &mut Faults) {
    match agree::look(connection, path) {
        Ok(Relation::Agrees) => match agree::missing_checkpoint(connection, path) {
            Ok(None) => {}
            Ok(Some(size)) => faults.beside.push(format!(
                "the checkpoint of {size} records is missing, the newest that {} names; `crawlgate serve` signs another \
                 one when it starts",
                state_file(path).display()
            )),
            Err(failure) => faults.unreadable(failure, path),
        },
        Ok(Relation::Misses(missing)) => {
            faults.damaged.push(missing.describe());
        }
        Ok(Relation::Differs(size)) => faults.altered.push(format!(
            "the log of {size} records is not the one that {} names",
            state_file(path).display()
        )),
        Ok(Relation::Unknown) => faults.beside.push(state_file::gone(path)),
        // The state file, or a part of the database that another check names, too.
        Err(Failure::Store(error)) => faults.beside.push(error.message),
        Err(failure) => faults.unreadable(failure, path),
    }
}

/// Returns the words of a failure, without the advice that follows once, at the end.
fn sentence(failure: Failure, path: &Path) -> String {
    match failure {
        Failure::Damaged(what) => what,
        Failure::Engine(error)
            if matches!(
                error.sqlite_error_code(),
                None | Some(
                    ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::Unknown
                )
            ) =>
        {
            format!("cannot be read to its end: {}", said(&error))
        }
        other => other.at(path).message,
    }
}

/// Tells whether the file at `path` may have been a store, however damaged. Only an intact database of another program
/// is no store, and even that may be one if a store's key lies beside it.
fn may_be_ours(path: &Path) -> bool {
    let may_be = header(path).is_none_or(|header| header.application == APPLICATION);
    may_be || log_key_file(path).exists()
}

fn header(path: &Path) -> Option<Header> {
    Header::read(&File::open(path).ok()?)
}

/// Reports a file that is shorter than its header says.
fn cut_off(path: &Path) -> Option<String> {
    let (said, there) = (header(path)?.size, fs::metadata(path).ok()?.len());
    (there < said).then(|| format!("the file was cut off: {there} of its {said} octets are there"))
}

/// Opens a connection to a database that the engine refuses otherwise.
fn lenient(path: &Path, mode: OpenFlags) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(path, mode | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(PATIENCE)?;
    // Before anything else: most other statements read the schema.
    connection.pragma_update(None, "writable_schema", true)?;
    Ok(connection)
}

/// A check that adds the faults of one kind.
type Check = fn(&Connection, &mut Faults) -> Result<(), Failure>;

/// The checks that need only the database.
const CHECKS: [Check; 12] = [
    structure,
    self::schema,
    references,
    rows,
    fetched_texts,
    evidence::rows,
    evidence::signed,
    self::rotations::check,
    evidence::named,
    texts,
    self::objects,
    counts,
];

/// Runs the engine's own check of its pages and indices.
fn structure(connection: &Connection, faults: &mut Faults) -> Result<(), Failure> {
    let text = format!("PRAGMA integrity_check({MAX_FAULTS})");
    connection.each(&text, [], |row| {
        let said: String = row.get(0)?;
        if said != "ok" {
            faults.damaged.push(said);
        }
        Ok(())
    })
}

/// Finds parts of the schema that are missing or foreign.
fn schema(connection: &Connection, faults: &mut Faults) -> Result<(), Failure> {
    // A damaged version tells no schema to compare with. The other checks find that fault.
    if schema::read_version(connection)? == SchemaVersion::Present {
        faults.damaged.extend(schema::differences(connection)?);
    }
    Ok(())
}

/// Finds rows with references to missing rows.
fn references(connection: &Connection, faults: &mut Faults) -> Result<(), Failure> {
    let text = "SELECT \"table\", parent, count(*) FROM pragma_foreign_key_check GROUP BY \"table\", parent";
    connection.each(text, [], |row| {
        let (table, parent, count): (String, String, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        faults.damaged.push(format!("{table}: {count} rows refer to a {parent} that is not there"));
        Ok(())
    })
}

/// Finds fetches, and states behind records, without their text.
fn fetched_texts(connection: &Connection, faults: &mut Faults) -> Result<(), Failure> {
    let lacking = |table: &str, column: &str| {
        let text = format!(
            "SELECT count(*) FROM {table} WHERE {column} IS NOT NULL AND {column} NOT IN (SELECT sha256 FROM snapshot)"
        );
        connection.only::<i64>(&text, [])
    };
    let (count, named) = (lacking("fetch", "sha256")?, lacking("object", "names")?);
    if named > 0 {
        let fault = format!("object: {named} name a robots.txt that is not there");
        faults.damaged.push(fault);
    }
    if count > 0 {
        let fault = format!("fetch: {count} have got a robots.txt that is not there");
        faults.damaged.push(fault);
    }
    Ok(())
}

/// Finds rows that differ from the written ones, and says how to drop each.
fn rows(connection: &Connection, faults: &mut Faults) -> Result<(), Failure> {
    for table in digests::TABLES {
        let (mut named, mut more) = (0, 0_u64);
        connection.each(&format!("SELECT * FROM \"{table}\""), [], |row| {
            if digests::holds(table, row)? {
                return Ok(());
            }
            if named == MAX_FAULTS {
                more += 1;
                return Ok(());
            }
            named += 1;
            let origin = row.get::<_, String>("origin").unwrap_or_default();
            let origin = printable(&origin);
            let number = row.get::<_, i64>("number").unwrap_or_default();
            faults.damaged.push(match table {
                "override" => format!(
                    "override {number}: it is not what was written; `crawlgate override remove {number} --by NAME` takes \
                     it out of the store, and if it is to hold, it must be added anew"
                ),
                "fetch" => format!(
                    "fetch {number}, of {origin}: it is not what was written; `crawlgate origins forget {origin}` drops it"
                ),
                "fetch_hourly" => {
                                        let hour = row.get("hour").map_or_else(|_| Moment::default(), moment);
                    let hour = crawlgate_text::time_text(hour);
                    format!(
                        "fetch_hourly: the number of fetches in the hour from {hour} on is not what was written; no report on \
                         that hour can be made until `crawlgate store rebuild` drops it"
                    )
                }
                _ => format!(
                    "origin {origin}: its state is not what was written, and it is asked anew; `crawlgate origins forget \
                                          {origin}` drops it"
                ),
            });
            Ok(())
        })?;
        if more > 0 {
            let fault = format!("{table}: and {more} more are not what was written");
            faults.damaged.push(fault);
        }
    }
    Ok(())
}

/// Finds texts that differ from their digests.
fn texts(connection: &Connection, faults: &mut Faults) -> Result<(), Failure> {
    let count = wrong_texts(connection)?.len();
    if count > 0 {
        let fault = format!("snapshot: {count} are not what their digests name");
        faults.damaged.push(fault);
    }
    Ok(())
}

/// Returns the numbers of texts that differ from their digests.
fn wrong_texts(connection: &Connection) -> Result<Vec<i64>, Failure> {
    let mut wrong = Vec::new();
    let text = "SELECT number, sha256, bytes FROM snapshot WHERE dropped IS NULL";
    connection.each(text, [], |row| {
        let number: i64 = row.get(0)?;
        let Ok(sha256) = Sha256::try_from(row.get_ref(1)?.as_blob().unwrap_or_default()) else {
            wrong.push(number);
            return Ok(());
        };
        let bytes: i64 = row.get(2)?;
        let is_right = match read::snapshot(connection, sha256) {
            Ok(text) => text.is_some_and(|text| {
                digest(&text) == sha256 && usize::try_from(bytes) == Ok(text.len())
            }),
            Err(Failure::Damaged(_)) => false,
            Err(failure) => return Err(failure),
        };
        if !is_right {
            wrong.push(number);
        }
        Ok(())
    })?;
    Ok(wrong)
}

/// Finds objects that differ from their digests.
fn objects(connection: &Connection, faults: &mut Faults) -> Result<(), Failure> {
    for sha256 in objects::wrong(connection)? {
        faults.damaged.push(format!("object {}: it is not what its digest names", hex(sha256)));
    }
    for sha256 in objects::misnamed(connection)? {
        faults.damaged.push(format!("object {}: its row is not what its body says", hex(sha256)));
    }
    Ok(())
}

/// Finds decisions that the store counts, and has no record of.
fn counts(connection: &Connection, faults: &mut Faults) -> Result<(), Failure> {
    if let Some(counted) = hours::miscounted(connection, &Blocks::default())? {
        faults.altered.push(format!(
            "records are missing at the end of the log: {counted}; bring back a backup, or let `crawlgate audit fork` begin \
             a new log, which says so"
        ));
    }
    Ok(())
}
