//! Checks of the decision log, and what a rebuild saves of it.

use std::collections::HashSet;

use rusqlite::{Connection, Transaction, params};

use super::super::entries::{self, Blocks, Ground, Head, Roots, append, checkpoint};
use super::super::error::Failure;
use super::super::rows::{integer, number};
use super::super::{objects, write};
use super::{Faults, RECORDS};
use crate::clock::Moment;
use crate::entry::{Entry, EventKind};
use crate::store::Sha256;
use crate::text::hex;
use crate::tlog::{Checkpoint, Note, push_entry};

/// Finds what breaks the log: rows that do not follow one another, and blocks without sense.
pub(super) fn rows(connection: &Connection, faults: &mut Faults) -> Result<(), Failure> {
    Head::read(connection)?;
    if let Some(record) = unreadable_tail(connection)? {
        faults
            .damaged
            .push(format!("record {record}: it cannot be read"));
    }
    let (first, size) = entries::extent(connection)?;
    let from = first.max(size.saturating_sub(RECORDS));
    for block in entries::blocks_from(connection, from)? {
        match block.roots_of(connection)? {
            Roots::Right | Roots::Dropped => {}
            Roots::Differ => faults.damaged.push(format!(
                "the roots stored for {} are not those of the records",
                block.told()
            )),
            Roots::Unreadable(why) => faults.damaged.push(format!("{}: {why}", block.told())),
        }
    }
    Ok(())
}

/// Returns the first record of the tail that cannot be read.
fn unreadable_tail(connection: &Connection) -> Result<Option<u64>, Failure> {
    let mut rows = connection.prepare("SELECT first FROM tail ORDER BY first")?;
    let rows = rows.query_map([], |row| row.get::<_, i64>(0))?;
    for first in rows {
        for (index, entry) in entries::entries_at(connection, number(first?))? {
            if Entry::read(&entry).is_err() {
                return Ok(Some(index + 1));
            }
        }
    }
    Ok(None)
}

/// Finds a checkpoint that the log contradicts.
pub(super) fn signed(connection: &Connection, faults: &mut Faults) -> Result<(), Failure> {
    let (first, size) = entries::extent(connection)?;
    let blocks = Blocks::default();
    let ground = Ground::new(connection, &blocks);
    for stored in checkpoint::all(connection)? {
        let read = Note::parse(stored.note.as_bytes()).ok();
        let Some(read) = read.and_then(|note| Checkpoint::from_text(note.text())) else {
            faults
                .altered
                .push(format!("checkpoint {}: it is no checkpoint", stored.size));
            continue;
        };
        if stored.size > size {
            faults.altered.push(format!(
                "records {} to {} are missing: a checkpoint names them",
                size + 1,
                stored.size
            ));
        } else if stored.size > first && ground.root(stored.size)? != read.root {
            faults.altered.push(format!(
                "the records up to {} are not those that were signed",
                stored.size
            ));
        }
    }
    Ok(())
}

/// Finds objects that are missing behind the latest records.
pub(super) fn named(connection: &Connection, faults: &mut Faults) -> Result<(), Failure> {
    let (_, size) = entries::extent(connection)?;
    let range = size.saturating_sub(RECORDS)..=u64::MAX;
    let (mut known, mut missing): (HashSet<Sha256>, HashSet<Sha256>) = Default::default();
    entries::walk(connection, &Blocks::default(), range, true, |_, octets| {
        let Ok(entry) = Entry::read(octets) else {
            return Ok(true);
        };
        for sha256 in entry.named().into_iter().flatten() {
            if known.insert(*sha256) && objects::body(connection, sha256)?.is_none() {
                missing.insert(*sha256);
            }
        }
        Ok(true)
    })?;
    for sha256 in missing {
        faults.damaged.push(format!(
            "object {}: it is missing, and records rest on it",
            hex(sha256)
        ));
    }
    Ok(())
}

/// Mends the rows of the log in a rebuilt store. True if the log is a new one, without the checkpoints of the old.
pub(super) fn mend(
    target: &Transaction<'_>,
    now: Moment,
    told: &mut Vec<String>,
) -> Result<bool, Failure> {
    let mut is_lost = false;
    for block in entries::blocks_from(target, 0)? {
        match block.roots_of(target)? {
            Roots::Right | Roots::Dropped => {}
            Roots::Unreadable(why) => {
                told.push(format!("{}: {why}; they are lost", block.told()));
                target.execute(
                    "UPDATE block SET body = NULL WHERE first = ?1",
                    [integer(block.first)],
                )?;
            }
            Roots::Differ => is_lost = true,
        }
    }
    if !is_lost && Head::read(target).is_ok() && unreadable_tail(target)?.is_none() {
        return Ok(false);
    }
    begin_anew(target, now, None, told)?;
    Ok(true)
}

/// Makes a new log of all entries that can be read: places are missing, or roots, so that the old tree cannot go on.
pub(super) fn begin_anew(
    target: &Transaction<'_>,
    now: Moment,
    missing: Option<EventKind<'static>>,
    told: &mut Vec<String>,
) -> Result<(), Failure> {
    let last = checkpoint::last(target).ok().flatten();
    let last = last.and_then(|last| {
        let note = Note::parse(last.note.as_bytes()).ok()?;
        Checkpoint::from_text(note.text())
    });
    let mut saved: Vec<(u64, Vec<u8>)> = Vec::new();
    for first in firsts(target)? {
        // Entries of a row that cannot be read are lost.
        if let Ok(entries) = entries::entries_at(target, first) {
            let whole = entries.into_iter();
            saved.extend(whole.filter(|(_, entry)| Entry::read(entry).is_ok()));
        }
    }
    saved.sort_by_key(|(index, _)| *index);
    saved.dedup_by_key(|(index, _)| *index);
    target.execute_batch(
        "DELETE FROM tail; DELETE FROM block; DELETE FROM segment; DELETE FROM checkpoint; DELETE FROM acknowledgement;",
    )?;
    let mut head = Head::default();
    if let Some(last) = &last {
        let kind = EventKind::Forked {
            log: last.origin.as_str(),
            size: last.size,
            root: &last.root,
            reason: "the store was damaged, and rebuilt".into(),
        };
        write::event(target, &mut head, now, kind)?;
    }
    let mut frames = Vec::new();
    let mut next = saved.first().map_or(0, |(index, _)| *index);
    let mut lost = 0;
    for (index, entry) in &saved {
        lost += index - next;
        next = index + 1;
        push_entry(&mut frames, entry)
            .map_err(|error| Failure::Damaged(format!("an entry of the log: {error}")))?;
    }
    append(target, &mut head, &frames, None)?;
    if let Some(missing) = missing {
        write::event(target, &mut head, now, missing)?;
    }
    if lost > 0 {
        let at = now.as_millis();
        let kind = EventKind::Lost {
            count: lost,
            first: at,
            last: at,
            size: Some(next),
        };
        write::event(target, &mut head, now, kind)?;
        told.push(format!("{lost} records between others are lost"));
    }
    told.push(format!(
        "the log could not go on: {} records begin a new one, with new numbers and a new key; what was signed before is \
         proven by the damaged store alone",
        saved.len()
    ));
    Ok(())
}

fn firsts(target: &Transaction<'_>) -> Result<Vec<u64>, Failure> {
    let mut all =
        target.prepare("SELECT first FROM block UNION SELECT first FROM tail ORDER BY 1")?;
    let all = all.query_map(params![], |row| row.get::<_, i64>(0))?;
    let all: Vec<i64> = all.collect::<Result<_, _>>()?;
    Ok(all.into_iter().map(number).collect())
}
