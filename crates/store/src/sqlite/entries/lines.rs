//! Entries one after the other in a row, and the lines of entries.

use std::collections::HashMap;

use rusqlite::Connection;

use super::super::engine::Failure;
use super::super::objects;
use crate::Sha256;
use crawlgate_record::{Entry, write_line};
use crawlgate_tlog::split_entry;

/// Octets of objects to remember while lines are made.
const MAX: usize = 4 * 1024 * 1024;

/// A maker of lines, which remembers the objects that they need.
#[derive(Default)]
pub(crate) struct Lines {
    bodies: HashMap<Sha256, Vec<u8>>,
    octets: usize,
    line: Vec<u8>,
}

impl Lines {
    /// Returns the line of an entry, without its line feed. If an object is missing, the line goes without it and says so;
    /// that of octets that are no entry says only that.
    pub(crate) fn line(
        &mut self,
        connection: &Connection,
        octets: &[u8],
    ) -> Result<String, Failure> {
        let entry = match Entry::read(octets) {
            Ok(entry) => entry,
            Err(error) => return Ok(format!("{{\"unreadable\":\"{error}\"}}")),
        };
        for sha256 in entry.objects().into_iter().flatten() {
            self.learn(connection, sha256)?;
        }
        self.line.clear();
        let Err(error) = write_line(&entry, &self.bodies, &mut self.line) else {
            return Ok(text(&self.line));
        };
        let Entry::Decision(mut decision) = entry else {
            return Ok(format!("{{\"missing\":\"{error}\"}}"));
        };
        (decision.basis, decision.overridden, decision.tdmrep) = (None, None, None);
        // It names no object any more.
        let _ = write_line(&Entry::Decision(decision), &self.bodies, &mut self.line);
        let line = text(&self.line);
        let line = line.strip_suffix('}').unwrap_or(&line);
        Ok(format!("{line},\"missing\":\"{error}\"}}"))
    }

    fn learn(&mut self, connection: &Connection, sha256: &Sha256) -> Result<(), Failure> {
        if self.bodies.contains_key(sha256) {
            return Ok(());
        }
        if self.octets > MAX {
            self.bodies.clear();
            self.octets = 0;
        }
        if let Some(body) = objects::body(connection, sha256)? {
            self.octets += body.len();
            self.bodies.insert(*sha256, body);
        }
        Ok(())
    }
}

/// Returns a line, which is UTF-8, without its line feed.
fn text(line: &[u8]) -> String {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    String::from_utf8_lossy(line).into_owned()
}

/// Entries one after the other.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frames<'f>(pub(crate) &'f [u8]);

impl<'f> Iterator for Frames<'f> {
    type Item = Result<&'f [u8], Failure>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let Some((entry, rest)) = split_entry(self.0) else {
            self.0 = &[];
            return Some(Err(Failure::Damaged(
                "an entry of the log is cut off".to_owned(),
            )));
        };
        self.0 = rest;
        Some(Ok(entry))
    }
}
