//! The line of a record, derived from its entry: a JSON object and a line feed.
//!
//! The line of an entry never changes. A decision's line has the fields of one [table](fields), which gives their columns,
//! too; an event's line has those of its kind after `time` and `event`.

mod cell;
mod event;
mod fields;
mod told;

use std::collections::HashMap;
use std::fmt;
use std::hash::BuildHasher;
use std::sync::LazyLock;

pub use self::cell::{Cell, token_texts};
use self::fields::{CellOf, Field};
pub use self::told::{File, Told, Untold};
use super::Digest;
use super::cbor::Malformed;
use super::object::Asserted;
use super::read::Entry;
use crawlgate_text::hex::Hex;
use crawlgate_text::json::Object;

/// Bounds of texts in a line, where they differ from those of an entry. They count octets of the line, with escapes.
mod most_in_line {
    /// A longer URL is named by the digest of the whole, too.
    pub(super) const URL: usize = 2 * 1024;
    pub(super) const REDIRECTED_URL: usize = 4 * 1024;
    /// Octets of a line after which no row is added.
    pub(super) const ROWS: usize = 48 * 1024;
}

/// The objects that entries name.
pub trait Objects {
    /// Returns the body of the object with this SHA-256.
    fn body(&self, sha256: &Digest) -> Option<&[u8]>;
}

impl<S: BuildHasher> Objects for HashMap<Digest, Vec<u8>, S> {
    fn body(&self, sha256: &Digest) -> Option<&[u8]> {
        self.get(sha256).map(Vec::as_slice)
    }
}

impl<B: AsRef<[u8]>> Objects for Vec<(Digest, B)> {
    fn body(&self, sha256: &Digest) -> Option<&[u8]> {
        let mut bodies = self.iter();
        bodies.find_map(|(named, body)| (named == sha256).then_some(body.as_ref()))
    }
}

/// An object without which an entry has no line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineError {
    /// The meaning of the object: the name of the line's field.
    pub what: &'static str,
    /// SHA-256 of its body.
    pub sha256: Digest,
    /// The fault of the body; `None` if it is missing.
    pub fault: Option<Malformed>,
}

impl fmt::Display for LineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, sha256, .. } = self;
        match self.fault {
            Some(fault) => write!(f, "the {what} object {}: {fault}", Hex(sha256)),
            None => write!(f, "the {what} object {} is missing", Hex(sha256)),
        }
    }
}

impl std::error::Error for LineError {}

/// Appends the line of an entry to `out`.
///
/// # Errors
/// When an object that the entry names is missing or invalid; `out` is then as before.
pub fn write_line(
    entry: &Entry<'_>,
    objects: &impl Objects,
    out: &mut Vec<u8>,
) -> Result<(), LineError> {
    match entry {
        Entry::Decision(decision) => {
            let told = Told::of(*decision, objects);
            told.missing.map_or(Ok(()), Err)?;
            write_fields(fields::LINE, &told, Object::open(out));
        }
        Entry::Event(event) => {
            let [overridden, ..] = entry.objects();
            let overridden = read("override", overridden, objects, Asserted::read)?;
            event::write_event(event, overridden, out);
        }
    }
    out.push(b'\n');
    Ok(())
}

/// Writes an object of these fields.
fn write_fields(fields: &[Field], told: &Told<'_>, mut to: Object<'_>) {
    for field in fields {
        match *field {
            Field::Value { is_computed: true, .. } => {}
            Field::Value { name, cell, .. } => cell(told).write(name, &mut to),
            Field::Object { name, is_given, fields, is_late } => match (is_given(told), is_late) {
                (true, _) => write_fields(fields, told, to.object(name)),
                (false, false) => to.null(name),
                (false, true) => {}
            },
        }
    }
    to.close();
}

/// Reads an object.
fn read<'o, T>(
    what: &'static str,
    sha256: Option<&Digest>,
    objects: &'o impl Objects,
    read: fn(&'o [u8]) -> Result<T, Malformed>,
) -> Result<Option<T>, LineError> {
    let Some(sha256) = sha256 else {
        return Ok(None);
    };
    let failed = |fault| LineError { what, sha256: *sha256, fault };
    let body = objects.body(sha256).ok_or_else(|| failed(None))?;
    read(body).map(Some).map_err(|fault| failed(Some(fault)))
}

/// Splits a canonical origin into scheme, host and port.
pub fn origin_parts(origin: &str) -> (&str, &str, u64) {
    let (scheme, authority) = origin.split_once("://").unwrap_or(("", origin));
    let after_address = authority.rfind(']').map_or(0, |end| end + 1);
    let colon = authority.rfind(':').filter(|&colon| colon >= after_address);
    let (host, port) = colon.map_or((authority, ""), |colon| {
        let (host, port) = authority.split_at(colon);
        (host, port.trim_start_matches(':'))
    });
    let default = match scheme {
        "http" => 80,
        "https" => 443,
        "ftp" => 21,
        _ => 0,
    };
    (scheme, host, port.parse().unwrap_or(default))
}

/// A column of decisions: a field of the line, with the name of its object before its own, or a value that is computed.
#[derive(Debug)]
pub struct Column {
    /// The name.
    pub name: String,
    /// The type in SQL.
    pub kind: &'static str,
    /// True if the value stands in an object that the entry names.
    pub is_of_object: bool,
    cell: CellOf,
}

impl Column {
    /// Returns the value for a decision.
    #[must_use]
    pub fn of<'a>(&self, told: &Told<'a>) -> Cell<'a> {
        (self.cell)(told)
    }
}

/// The columns of decisions.
pub static COLUMNS: LazyLock<Vec<Column>> = LazyLock::new(|| {
    let mut columns = Vec::new();
    add_columns(fields::LINE, None, false, &mut columns);
    // Their order in SQL is older than that of the line.
    columns.sort_by_key(|column| {
        let late = ["exempt_", "signed_", "usage_"];
        late.iter().position(|one| column.name.starts_with(one))
    });
    columns
});

fn add_columns(fields: &[Field], of: Option<&str>, is_of_object: bool, all: &mut Vec<Column>) {
    for field in fields {
        match *field {
            Field::Value { name, kind: Some(kind), cell, .. } => all.push(Column {
                name: of.map_or_else(|| name.to_owned(), |of| format!("{of}_{name}")),
                kind,
                is_of_object,
                cell,
            }),
            Field::Value { kind: None, .. } => {}
            Field::Object { name, fields, .. } => {
                let is_of_object = is_of_object || matches!(name, "override" | "robots");
                add_columns(fields, Some(name), is_of_object, all);
            }
        }
    }
}
