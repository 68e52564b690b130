//! The rows of entries: the line that a store of lines keeps, and the facts by which it files the line.

use super::filter::Head;
use super::{Entries, StoreError, failed};
use crate::entry::{Basis, Entry, Objects, write_line};

/// The row of an entry.
pub(super) struct Row<'e> {
    /// The line, without its line feed.
    pub(super) line: String,
    /// The facts.
    pub(super) head: Head<'e>,
}

/// Returns the row of each entry.
pub(super) fn rows<'e>(
    entries: &'e Entries,
    objects: &impl Objects,
) -> Result<Vec<Row<'e>>, StoreError> {
    entries.iter().map(|entry| row(entry, objects)).collect()
}

fn row<'e>(octets: &'e [u8], objects: &impl Objects) -> Result<Row<'e>, StoreError> {
    let wrong = |error: &dyn std::fmt::Display| failed(format!("an entry: {error}"));
    let entry = Entry::read(octets).map_err(|error| wrong(&error))?;
    let mut line = Vec::with_capacity(1024);
    write_line(&entry, objects, &mut line).map_err(|error| wrong(&error))?;
    line.pop(); // its line feed
    let line = String::from_utf8(line).map_err(|error| wrong(&error))?;
    let [_, basis] = entry.objects();
    let basis = basis.and_then(|sha256| Basis::read(objects.body(sha256)?).ok());
    let sha256 = basis.and_then(|basis| basis.sha256.copied());
    Ok(Row {
        line,
        head: Head::of_entry(&entry, sha256),
    })
}
