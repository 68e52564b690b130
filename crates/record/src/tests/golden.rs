//! The frozen entries with their lines, in `golden.txt`.
//!
//! The file fixes the form of an entry and its line for ever. The [table](super::table) made it, once; a new row of the
//! table is added to its end by
//!
//!     CRAWLGATE_GOLDEN=append cargo test -p crawlgate-record golden
//!
//! which changes nothing that the file already has.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use super::super::*;
use super::table;
use crate::samples::golden::{PATH, Row, read, sha256};
use crawlgate_text::hex::hex;

const HEADING: &str = "\
# Entries of the decision log with their lines. This file only grows: see golden.rs.
# \"object\" is the body of an object in hexadecimal digits; an entry names it by its SHA-256.
";

fn line_of(entry: &[u8], objects: &HashMap<Digest, Vec<u8>>) -> String {
    let mut line = Vec::new();
    write_line(&Entry::read(entry).unwrap(), objects, &mut line).unwrap();
    let line = String::from_utf8(line).unwrap();
    line.strip_suffix('\n').unwrap().to_owned()
}

/// Appends the rows of the table that the file lacks.
fn append() {
    let (mut objects, rows) = read();
    let known: HashSet<String> = rows.into_iter().map(|row| row.name).collect();
    let mut text = std::fs::read_to_string(PATH).unwrap_or_else(|_| HEADING.to_owned());
    for body in table::objects() {
        if objects.insert(sha256(&body), body.clone()).is_none() {
            writeln!(text, "object {}", hex(&body)).unwrap();
        }
    }
    for (name, entry) in table::entries() {
        if !known.contains(&name) {
            let line = line_of(&entry, &objects);
            writeln!(text, "name {name}\nentry {}\nline {line}", hex(&entry)).unwrap();
        }
    }
    std::fs::write(PATH, text).unwrap();
}

#[test]
fn entries_and_their_lines_are_frozen() {
    if std::env::var("CRAWLGATE_GOLDEN").is_ok_and(|value| value == "append") {
        append();
    }
    let (objects, rows) = read();
    assert!(rows.len() >= 200, "{}", rows.len());
    for row in &rows {
        assert_eq!(line_of(&row.entry, &objects), row.line, "{}", row.name);
        // Entries that an older table made are read, and written again, in the same octets.
        let mut again = Vec::new();
        match Entry::read(&row.entry).unwrap() {
            Entry::Decision(decision) => decision.encode(Bounds::CLIENTS, &mut again),
            Entry::Event(event) => event.encode(&mut again),
        }
        assert_eq!(again, row.entry, "{}", row.name);
    }
    let rows: HashMap<&str, &Row> = rows.iter().map(|row| (&*row.name, row)).collect();
    for (name, entry) in table::entries() {
        let row = rows.get(&*name).unwrap_or_else(|| panic!("{name}: see golden.rs"));
        assert_eq!(hex(&row.entry), hex(&entry), "{name}");
    }
    for body in table::objects() {
        assert!(objects.contains_key(&sha256(&body)), "see golden.rs");
    }
}

#[test]
fn the_golden_entries_have_every_field() {
    let (_, rows) = read();
    let mut reasons = HashSet::new();
    let mut kinds = HashSet::new();
    let mut keys = HashSet::new();
    for row in &rows {
        let mut reader = cbor::Reader::new(&row.entry);
        let mut of_map = cbor::Keys::of(&mut reader).unwrap();
        while let Some(key) = of_map.next(&mut reader).unwrap() {
            keys.insert(key);
            reader.item().unwrap();
        }
        let outline = Outline::read(&row.entry).unwrap();
        assert_eq!(outline, Outline::of(&Entry::read(&row.entry).unwrap()));
        match Entry::read(&row.entry).unwrap() {
            Entry::Decision(decision) => {
                reasons.insert(decision.reason.to_owned());
            }
            Entry::Event(event) => {
                kinds.insert(event.kind.number());
            }
        }
    }
    for reason in table::REASONS {
        assert!(reasons.contains(*reason), "{reason}");
    }
    assert_eq!(kinds, (1..=13).collect());
    let wanted: HashSet<u64> = (0..=59).collect();
    assert_eq!(keys, wanted);
}
