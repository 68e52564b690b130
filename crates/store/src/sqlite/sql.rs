//! SQL for people: statements that only read, over the tables of the store and two views of the decisions.
//!
//! The views `decisions` and `denials` exist only in a [`Session`]. Their rows are the indices of the decisions that meet
//! the session's conditions, page by page from a function, and each column is a function of the index: a column that no
//! statement names costs nothing, and rows are made while they are read.

pub(super) mod columns;
mod export;
mod source;
mod sources;

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use rusqlite::fallible_iterator::FallibleIterator as _;
use rusqlite::functions::FunctionFlags;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::types::ValueRef;
use rusqlite::{Batch, Connection, Error, ErrorCode, OpenFlags, Statement};

pub use self::export::{Exported, export};
use self::source::{Source, View};
use self::sources::{INDEX, Sources};
use super::engine::{Failure, number};
use super::error::said;
use super::{file, open, still};
use crate::collection::{COLLECT_ANEW, is_in_collection};
use crate::{Access, DecisionQuery, StoreError, StoreErrorKind};

/// A value of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(missing_docs, reason = "each is what its name says")]
pub enum Cell<'a> {
    Null,
    Integer(i64),
    Real(f64),
    Text(&'a [u8]),
    Blob(&'a [u8]),
}

impl<'a> From<ValueRef<'a>> for Cell<'a> {
    fn from(value: ValueRef<'a>) -> Self {
        match value {
            ValueRef::Null => Self::Null,
            ValueRef::Integer(number) => Self::Integer(number),
            ValueRef::Real(number) => Self::Real(number),
            ValueRef::Text(text) => Self::Text(text),
            ValueRef::Blob(octets) => Self::Blob(octets),
        }
    }
}

/// A taker of rows. Each call returns false when it wants no more.
pub trait Rows {
    /// The reason why rows cannot be written.
    type Error;

    /// Takes the names of the columns, once for each statement.
    ///
    /// # Errors
    /// When they cannot be written.
    fn names(&mut self, names: &[&str]) -> Result<bool, Self::Error>;

    /// Takes the next row.
    ///
    /// # Errors
    /// When it cannot be written.
    fn row(&mut self, cells: &[Cell<'_>]) -> Result<bool, Self::Error>;

    /// Takes the end of a statement's rows.
    ///
    /// # Errors
    /// When what is left cannot be written.
    fn end(&mut self) -> Result<bool, Self::Error>;
}

/// The reason why statements were not run to their end.
#[derive(Debug, thiserror::Error)]
pub enum RunError<E> {
    /// A statement is wrong, or fails.
    #[error("{0}")]
    Statement(StatementError),
    /// The rows cannot be written.
    #[error("{0}")]
    Output(E),
}

/// The fault of a statement.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StatementError {
    /// It would change something.
    #[error("the statement would change something, and only reading is possible here")]
    Writes,
    /// It meets damage, in the engine's words.
    #[error(
        "the store is damaged: {said}; {}",
        if *.is_copy { COLLECT_ANEW } else { "`crawlgate store check` shows the damage" }
    )]
    Damaged {
        /// The fault.
        said: String,
        /// True for a collected copy.
        is_copy: bool,
    },
    /// It is wrong at a place of the text, in the engine's words.
    #[error("{said}, in line {line} at column {column}")]
    Wrong {
        /// The fault.
        said: String,
        /// The line, from 1.
        line: usize,
        /// The character in the line, from 1.
        column: usize,
    },
    /// It fails otherwise, in the engine's words.
    #[error("{0}")]
    Failed(String),
}

/// A connection for statements that only read.
pub struct Session {
    connection: Connection,
}

impl Session {
    /// Opens the store at `path`. The views have the decisions that meet `query`.
    ///
    /// # Errors
    /// When there is no store, it cannot be read, or a condition is wrong.
    pub fn open(path: &Path, query: &DecisionQuery) -> Result<Self, StoreError> {
        open::require(path, Access::Read)?;
        let made = || -> Result<Self, Failure> {
            let source = Source::new(still::reader(path)?, query, None)?;
            let connection = open_database(Some(path))?;
            views(&connection, Sources::one(path, query, source), Names::None)?;
            Self::reading(connection)
        };
        made().map_err(|failure| failure.at(path))
    }

    /// Opens stores with the names of their logs. The views have the decisions of all of them that meet `query`, one log
    /// after the other, with the name in a column `log`; there are no other tables.
    ///
    /// # Errors
    /// When one is not there, the first one cannot be read, or a condition is wrong.
    pub fn open_several(
        stores: &[Exported<'_>],
        query: &DecisionQuery,
    ) -> Result<Self, StoreError> {
        for store in stores {
            open::require(store.path, Access::Read)?;
        }
        let all = stores.iter();
        let all = all.map(|store| (store.name.unwrap_or_default(), store.path));
        let sources = Sources::several(all, query)?;
        let made = || -> Result<Self, Failure> {
            let connection = open_database(None)?;
            views(&connection, sources, Names::OfLogs)?;
            Self::reading(connection)
        };
        let first = stores.first().map_or(Path::new(""), |store| store.path);
        made().map_err(|failure| failure.at(first))
    }

    fn reading(mut connection: Connection) -> Result<Self, Failure> {
        only_read(&mut connection)?;
        Ok(Self { connection })
    }

    /// Runs the statements of `text`, one after the other, and gives their rows to `rows`.
    ///
    /// # Errors
    /// When a statement is wrong, would change something, or fails; those before it have run.
    pub fn run<R: Rows>(&self, text: &str, rows: &mut R) -> Result<(), RunError<R::Error>> {
        let mut statements = Batch::new(&self.connection, text);
        let file = self.connection.path().map(Path::new);
        let is_copy = file.is_some_and(is_in_collection);
        let fault_text = |error| RunError::Statement(fault_text(&error, text, is_copy));
        while let Some(mut statement) = statements.next().map_err(fault_text)? {
            if !run_one(&mut statement, rows).map_err(|error| match error {
                Stopped::By(error) => fault_text(error),
                Stopped::Output(error) => RunError::Output(error),
            })? {
                return Ok(());
            }
        }
        Ok(())
    }
}

enum Stopped<E> {
    By(Error),
    Output(E),
}

impl<E> From<Error> for Stopped<E> {
    fn from(error: Error) -> Self {
        Self::By(error)
    }
}

fn run_one<R: Rows>(statement: &mut Statement<'_>, to: &mut R) -> Result<bool, Stopped<R::Error>> {
    let count = statement.column_count();
    let names: Vec<&str> = statement.column_names().collect();
    if !to.names(&names).map_err(Stopped::Output)? {
        return Ok(false);
    }
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let cells: Result<Vec<Cell<'_>>, Error> =
            (0..count).map(|at| row.get_ref(at).map(Cell::from)).collect();
        if !to.row(&cells?).map_err(Stopped::Output)? {
            return Ok(false);
        }
    }
    to.end().map_err(Stopped::Output)
}

/// Returns a connection to an empty database, with the store attached if there is one. The store is not the main database:
/// functions of tables belong to that one, and a statement over only the views would keep a state of the store.
fn open_database(store: Option<&Path>) -> Result<Connection, Failure> {
    let connection = Connection::open_in_memory_with_flags(
        OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_URI
            | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    connection.busy_timeout(file::PATIENCE)?;
    // Before the views, which it drops: sorting by more than fits into the page cache goes to a file.
    connection.pragma_update(None, "temp_store", "FILE")?;
    let Some(path) = store else {
        return Ok(connection);
    };
    let attach = |uri: &Path| -> rusqlite::Result<()> {
        let uri = uri.to_string_lossy();
        connection.execute("ATTACH ?1 AS store", [uri])?;
        let look = "SELECT count(*) FROM store.sqlite_schema";
        connection.query_row(look, [], |_| Ok(()))
    };
    if attach(&still::uri(path, "mode=ro")?).is_err() {
        // The source was opened before: so it can be read as it lies there.
        let _ = connection.execute("DETACH store", []);
        attach(&still::uri(path, still::IMMUTABLE)?)?;
    }
    Ok(connection)
}

/// The names of logs in the rows of the views.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Names {
    None,
    OfLogs,
}

/// Makes the functions and the views.
fn views(connection: &Connection, sources: Sources, names: Names) -> Result<(), Failure> {
    // Innocuous: a view may call them though the schema of a file is not trusted.
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_INNOCUOUS;
    let sources = Arc::new(Mutex::new(sources));
    let failed = |error: StoreError| Error::UserFunctionError(error.into());
    let (pages, logs) = (Arc::clone(&sources), Arc::clone(&sources));
    connection.create_scalar_function("crawlgate_page", 2, flags, move |context| {
        let view = match context.get::<i64>(0)? {
            0 => View::Decisions,
            _ => View::Denials,
        };
        let from = number(context.get(1)?);
        pages.lock().page(view, from).map_err(failed)
    })?;
    connection.create_scalar_function("crawlgate_column", 2, flags, move |context| {
        let (row, column) = (number(context.get(0)?), context.get::<i64>(1)?);
        let column = usize::try_from(column).unwrap_or(usize::MAX);
        sources.lock().value(row, column).map_err(failed)
    })?;
    connection.create_scalar_function("crawlgate_log", 1, flags, move |context| {
        Ok(logs.lock().name(number(context.get(0)?)))
    })?;
    let mut columns = match names {
        Names::None => String::new(),
        Names::OfLogs => "crawlgate_log(at.value) AS log, ".to_owned(),
    };
    let _ = write!(columns, "(at.value & {INDEX}) + 1 AS seq"); // a String takes all
    for (place, (name, _)) in self::columns::columns().enumerate() {
        let _ = write!(columns, ", crawlgate_column(at.value, {place}) AS \"{name}\"");
    }
    for (name, view) in [("decisions", View::Decisions), ("denials", View::Denials)] {
        let view = view as i64;
        connection.execute_batch(&format!(
            "CREATE TEMP VIEW {name} AS WITH RECURSIVE crawlgate_pages (page) AS (\
             SELECT crawlgate_page({view}, 0) UNION ALL \
             SELECT crawlgate_page({view}, page ->> '$.next') FROM crawlgate_pages WHERE page IS NOT NULL) \
             SELECT {columns} FROM crawlgate_pages CROSS JOIN json_each(crawlgate_pages.page, '$.found') AS at"
        ))?;
    }
    Ok(())
}

/// Makes a connection refuse whatever changes a file.
fn only_read(connection: &mut Connection) -> Result<(), Failure> {
    connection.pragma_update(None, "trusted_schema", false)?;
    connection.pragma_update(None, "query_only", true)?;
    connection.authorizer(Some(|context: AuthContext<'_>| {
        if only_reads(&context.action) { Authorization::Allow } else { Authorization::Deny }
    }))?;
    Ok(())
}

/// Pragmas that tell something, without a value.
const TELLS: [&str; 14] = [
    "application_id",
    "auto_vacuum",
    "collation_list",
    "compile_options",
    "database_list",
    "encoding",
    "freelist_count",
    "function_list",
    "journal_mode",
    "page_count",
    "page_size",
    "pragma_list",
    "schema_version",
    "user_version",
];

/// Pragmas that tell something of the table or the index that is their value.
const TELLS_OF: [&str; 7] = [
    "foreign_key_list",
    "index_info",
    "index_list",
    "index_xinfo",
    "table_info",
    "table_list",
    "table_xinfo",
];

/// Tells whether an action reads, and nothing else.
fn only_reads(action: &AuthAction<'_>) -> bool {
    match action {
        AuthAction::Select | AuthAction::Recursive | AuthAction::Read { .. } => true,
        AuthAction::Function { function_name } => {
            !function_name.eq_ignore_ascii_case("load_extension")
        }
        AuthAction::Pragma { pragma_name, pragma_value } => {
            let is = |name: &&str| name.eq_ignore_ascii_case(pragma_name);
            TELLS_OF.iter().any(is) || pragma_value.is_none() && TELLS.iter().any(is)
        }
        _ => false,
    }
}

/// Returns the fault of a statement, and its place in the text. `is_copy` tells whether the store is a collected copy.
fn fault_text(error: &Error, text: &str, is_copy: bool) -> StatementError {
    match error.sqlite_error_code() {
        Some(ErrorCode::AuthorizationForStatementDenied | ErrorCode::ReadOnly) => {
            return StatementError::Writes;
        }
        Some(ErrorCode::DatabaseCorrupt) => {
            let said = said(error);
            return StatementError::Damaged { said, is_copy };
        }
        _ => {}
    }
    let said = said(error);
    let Error::SqlInputError { sql, offset, .. } = error else {
        return StatementError::Failed(said);
    };
    let before = text.rfind(sql.as_str()).unwrap_or_default();
    let at = before.saturating_add(usize::try_from(*offset).unwrap_or_default());
    match text.get(..at).filter(|_| *offset >= 0) {
        Some(before) => {
            let line = before.matches('\n').count() + 1;
            let column = before.rsplit('\n').next().unwrap_or(before).chars().count() + 1;
            StatementError::Wrong { said, line, column }
        }
        None => StatementError::Failed(said),
    }
}

/// Returns a failure that keeps a file from being made.
fn not_made(path: &Path, error: &dyn std::fmt::Display) -> StoreError {
    StoreErrorKind::Failed.at(path, error)
}

#[cfg(test)]
mod tests;
