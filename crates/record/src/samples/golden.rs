//! The frozen entries with their lines, in `golden.txt`.

use std::collections::HashMap;

use aws_lc_rs::digest::{SHA256, digest};

use crate::Digest;

/// The file.
pub(crate) const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/tests/golden.txt");

/// A row of the file.
pub(crate) struct Row {
    #[cfg_attr(not(test), allow(dead_code, reason = "tests name it"))]
    pub(crate) name: String,
    pub(crate) entry: Vec<u8>,
    pub(crate) line: String,
}

fn octets(digits: &str) -> Vec<u8> {
    let digit = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
    (0..digits.len()).step_by(2).map(digit).collect()
}

/// Returns the entries of the file with their lines.
pub fn entries() -> Vec<(Vec<u8>, String)> {
    let rows = read().1.into_iter();
    rows.map(|row| (row.entry, row.line)).collect()
}

/// Returns the objects of the file.
pub fn objects() -> HashMap<Digest, Vec<u8>> {
    read().0
}

/// Reads the file: its objects and its rows.
pub(crate) fn read() -> (HashMap<Digest, Vec<u8>>, Vec<Row>) {
    let text = std::fs::read_to_string(PATH).unwrap_or_default();
    let (mut objects, mut rows) = (HashMap::new(), Vec::new());
    let mut lines = text.lines().filter(|line| !line.starts_with('#'));
    while let Some(line) = lines.next() {
        let (kind, rest) = line.split_once(' ').unwrap();
        match kind {
            "object" => {
                let body = octets(rest);
                objects.insert(sha256(&body), body);
            }
            "name" => {
                let value =
                    |line: Option<&str>, kind| line.unwrap().strip_prefix(kind).unwrap().to_owned();
                rows.push(Row {
                    name: rest.to_owned(),
                    entry: octets(&value(lines.next(), "entry ")),
                    line: value(lines.next(), "line "),
                });
            }
            other => panic!("{other}"),
        }
    }
    (objects, rows)
}

pub(crate) fn sha256(body: &[u8]) -> Digest {
    digest(&SHA256, body).as_ref().try_into().unwrap()
}
