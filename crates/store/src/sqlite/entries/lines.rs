//! Entries one after the other in a row, and the lines of entries, with the objects that they need.

use std::collections::HashMap;
use std::sync::Arc;

use rusqlite::Connection;

use super::super::engine::Failure;
use super::super::objects;
use crate::{Bodies, Sha256};
use crawlgate_record::{Entry, write_line};
use crawlgate_tlog::split_entry;

/// Octets of objects to remember while lines are made.
const MAX: usize = 4 * 1024 * 1024;

/// A maker of lines, which remembers the objects that they need.
#[derive(Default)]
pub(crate) struct Lines {
    bodies: HashMap<Sha256, Arc<[u8]>>,
    octets: usize,
    line: Vec<u8>,
}

impl Lines {
    /// Returns the line of an entry, without its line feed.
    pub(crate) fn line(
        &mut self,
        connection: &Connection,
        octets: &[u8],
    ) -> Result<String, Failure> {
        self.whole(connection, octets).map(|(line, _)| line)
    }

    /// Returns the line of an entry, and the objects that it needs. If an object is missing, the line goes without it and
    /// says so; that of octets that are no entry says only that.
    pub(crate) fn whole(
        &mut self,
        connection: &Connection,
        octets: &[u8],
    ) -> Result<(String, Bodies), Failure> {
        let entry = match Entry::read(octets) {
            Ok(entry) => entry,
            Err(error) => return Ok((format!("{{\"unreadable\":\"{error}\"}}"), Vec::new())),
        };
        let bodies = self.bodies(connection, &entry)?;
        self.line.clear();
        let Err(error) = write_line(&entry, &bodies, &mut self.line) else {
            return Ok((text(&self.line), bodies));
        };
        let Entry::Decision(mut decision) = entry else {
            return Ok((format!("{{\"missing\":\"{error}\"}}"), bodies));
        };
        (decision.basis, decision.overridden, decision.tdmrep) = (None, None, None);
        // It names no object any more.
        let _ = write_line(&Entry::Decision(decision), &bodies, &mut self.line);
        let line = text(&self.line);
        let line = line.strip_suffix('}').unwrap_or(&line);
        Ok((format!("{line},\"missing\":\"{error}\"}}"), bodies))
    }

    /// Returns the objects that the line of an entry needs, as far as they are there.
    pub(crate) fn bodies(
        &mut self,
        connection: &Connection,
        entry: &Entry<'_>,
    ) -> Result<Bodies, Failure> {
        let mut bodies = Vec::new();
        for sha256 in entry.objects().into_iter().flatten() {
            if let Some(body) = self.body(connection, sha256)? {
                bodies.push((*sha256, body));
            }
        }
        Ok(bodies)
    }

    fn body(
        &mut self,
        connection: &Connection,
        sha256: &Sha256,
    ) -> Result<Option<Arc<[u8]>>, Failure> {
        if let Some(body) = self.bodies.get(sha256) {
            return Ok(Some(Arc::clone(body)));
        }
        if self.octets > MAX {
            self.bodies.clear();
            self.octets = 0;
        }
        let Some(body) = objects::body(connection, sha256)? else {
            return Ok(None);
        };
        let body: Arc<[u8]> = body.into();
        self.octets += body.len();
        self.bodies.insert(*sha256, Arc::clone(&body));
        Ok(Some(body))
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
            return Some(Err(Failure::Damaged("an entry of the log is cut off".to_owned())));
        };
        self.0 = rest;
        Some(Ok(entry))
    }
}
