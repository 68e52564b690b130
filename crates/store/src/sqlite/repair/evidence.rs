//! Checks of the decision log, and what a rebuild saves of it.

use std::collections::HashMap;
use std::path::Path;

use rusqlite::{Connection, Transaction, params};

use super::super::engine::{Failure, Statements as _, integer, number};
use super::super::entries::{
    self, BlockPlace, Blocks, Head, Relation, StoredTree, append, checkpoint,
};
use super::super::{log, objects};
use super::{Faults, RECORDS, rotations};
use crate::log_key::{LogKey, log_key_file};
use crate::types::WEEK;
use crate::{ObjectKind, Records, Sha256, StoredCheckpoint, objects_of};
use crawlgate_record::{Entry, EventKind};
use crawlgate_system::clock::Moment;
use crawlgate_text::hex;
use crawlgate_tlog::{Checkpoint, KeyKind, Note, NoteError, VerifierKey, push_entry};

/// Finds what breaks the log: rows that do not follow one another, and blocks without sense.
pub(super) fn rows(connection: &Connection, faults: &mut Faults) -> Result<(), Failure> {
    Head::read(connection)?;
    if let Some(record) = unreadable_tail(connection)? {
        faults.damaged.push(format!("record {record}: it cannot be read"));
    }
    for (first, _) in entries::wrong_tail_times(connection)? {
        faults.damaged.push(format!(
            "record {}: the times of its row are not those of the records",
            first + 1
        ));
    }
    for segment in entries::wrong_segments(connection)? {
        faults
            .damaged
            .push(format!("segment {}: its row does not follow from its blocks", segment.number));
    }
    let (first, size) = entries::extent(connection)?;
    let from = first.max(size.saturating_sub(RECORDS));
    for block in entries::blocks_from(connection, from)? {
        let records = block.records();
        match block.relation(connection)? {
            Relation::Right | Relation::Dropped => {}
            Relation::Roots(_) => match are_roots_signed(connection, &block)? {
                Some(false) => faults.damaged.push(format!(
                    "the roots stored for {records} are damaged: a checkpoint names others"
                )),
                _ => faults
                    .altered
                    .push(format!("the roots stored for {records} are not those of the records")),
            },
            Relation::Facts(_) => faults.damaged.push(format!(
                "the times or the denials stored for {records} are not those of the records"
            )),
            Relation::Unreadable(why) => faults.damaged.push(format!("{records}: {why}")),
        }
    }
    Ok(())
}

/// Tells whether the stored roots lead to the newest checkpoint over a block. `None` without a checkpoint.
fn are_roots_signed(connection: &Connection, block: &BlockPlace) -> Result<Option<bool>, Failure> {
    let blocks = Blocks::default();
    let tree = StoredTree::new(connection, &blocks);
    for stored in checkpoint::all(connection)?.iter().rev() {
        if stored.size < block.end() {
            break;
        }
        if let Some(signed) = content(stored) {
            return Ok(Some(tree.root(stored.size)? == signed.root));
        }
    }
    Ok(None)
}

/// Reads a checkpoint of the size that its row says.
fn content(stored: &StoredCheckpoint) -> Option<Checkpoint> {
    stored.content().filter(|one| one.size == stored.size)
}

/// Returns the first record of the tail that cannot be read.
fn unreadable_tail(connection: &Connection) -> Result<Option<u64>, Failure> {
    let text = "SELECT first FROM tail ORDER BY first";
    for first in connection.all(text, [], |row| Ok(number(row.get(0)?)))? {
        for (index, entry) in entries::entries_at(connection, first)? {
            if Entry::read(&entry).is_err() {
                return Ok(Some(index + 1));
            }
        }
    }
    Ok(None)
}

/// Finds checkpoints that the log contradicts.
pub(super) fn signed(connection: &Connection, faults: &mut Faults) -> Result<(), Failure> {
    let (first, size) = entries::extent(connection)?;
    let blocks = Blocks::default();
    let tree = StoredTree::new(connection, &blocks);
    for stored in checkpoint::all(connection)? {
        let Some(read) = content(&stored) else {
            faults
                .damaged
                .push(format!("the checkpoint of {} records cannot be read", stored.size));
            continue;
        };
        if stored.size > first && stored.size <= size && tree.root(stored.size)? != read.root {
            faults
                .altered
                .push(format!("the records up to {} are not those that were signed", stored.size));
        }
    }
    if let Some((size, signed)) = beyond(connection)? {
        let records = Records::new(size + 1, signed);
        let are = records.are();
        faults.damaged.push(format!("{records} {are} missing: a checkpoint covers more"));
    }
    for size in wrong_edges(connection)? {
        faults.damaged.push(format!(
            "the hashes kept with the checkpoint of {size} records do not lead to the log"
        ));
    }
    Ok(())
}

/// Returns the size of the log and that of the largest checkpoint, if that is beyond it.
pub(crate) fn beyond(connection: &Connection) -> Result<Option<(u64, u64)>, Failure> {
    let (_, size) = entries::extent(connection)?;
    let all = checkpoint::all(connection)?;
    let sizes = all.iter().filter_map(content).map(|one| one.size);
    Ok(sizes.max().filter(|signed| *signed > size).map(|signed| (size, signed)))
}

/// Returns the checkpoints that keep hashes of dropped parts, and that the log is not proven to continue.
fn wrong_edges(connection: &Connection) -> Result<Vec<u64>, Failure> {
    let (_, size) = entries::extent(connection)?;
    let blocks = Blocks::default();
    let tree = StoredTree::new(connection, &blocks);
    let mut wrong = Vec::new();
    for stored in checkpoint::all(connection)? {
        let text = "SELECT edge IS NOT NULL FROM checkpoint WHERE size = ?1";
        let has_edge: bool = connection.only(text, [integer(stored.size)])?;
        let (true, Some(read)) = (has_edge && stored.size <= size, content(&stored)) else {
            continue;
        };
        let proven = match tree.consistency(stored.size, size) {
            Ok(proof) => proof.verify(&read.root, &tree.root(size)?).is_ok(),
            Err(Failure::Damaged(_)) => false,
            Err(failure) => return Err(failure),
        };
        if !proven {
            wrong.push(stored.size);
        }
    }
    Ok(wrong)
}

/// Finds checkpoints that the key beside the store has not made, though they bear its name.
pub(super) fn forged(connection: &Connection, path: &Path) -> Result<Vec<u64>, Failure> {
    let Ok(key) = LogKey::load(&log_key_file(path), None) else {
        return Ok(Vec::new());
    };
    let mut forged = Vec::new();
    for stored in checkpoint::all(connection)? {
        let Ok(note) = Note::parse(stored.note.as_bytes()) else {
            continue;
        };
        let name = note.text().lines().next().unwrap_or_default().parse();
        let Ok(name) = name else { continue };
        let key = VerifierKey::new(name, KeyKind::Ed25519, *key.vkey().public());
        if let Err(NoteError::Invalid(_)) = note.verify(&[key]) {
            forged.push(stored.size);
        }
    }
    Ok(forged)
}

/// Finds objects that are missing behind the latest records, or may go too early.
pub(super) fn named(connection: &Connection, faults: &mut Faults) -> Result<(), Failure> {
    let (_, size) = entries::extent(connection)?;
    let mut named = latest_uses(connection, size.saturating_sub(RECORDS))?;
    connection.each("SELECT sha256, used FROM object", [], |row| {
        let Ok(sha256) = Sha256::try_from(row.get_ref(0)?.as_blob().unwrap_or_default()) else {
            return Ok(());
        };
        let week = named.remove(&sha256).map_or(0, |(_, week)| week);
        if number(row.get(1)?) < week * WEEK {
            faults.damaged.push(format!(
                "object {}: records rest on it that are later than its row says",
                hex(sha256)
            ));
        }
        Ok(())
    })?;
    for sha256 in named.into_keys() {
        faults
            .damaged
            .push(format!("object {}: it is missing, and records rest on it", hex(sha256)));
    }
    Ok(())
}

/// Returns the objects that the records from an index on name, each with its kind and the latest week.
fn latest_uses(
    connection: &Connection,
    from: u64,
) -> Result<HashMap<Sha256, (ObjectKind, u64)>, Failure> {
    let mut named: HashMap<Sha256, (ObjectKind, u64)> = HashMap::new();
    entries::salvage(connection, &Blocks::default(), from, |_, _, octets| {
        let Ok(entry) = Entry::read(octets) else {
            return Ok(true);
        };
        let week = entry.time() / WEEK;
        for (kind, sha256) in objects_of(&entry) {
            let (_, latest) = named.entry(*sha256).or_insert((kind, week));
            *latest = week.max(*latest);
        }
        Ok(true)
    })?;
    Ok(named)
}

/// Leaves a row for each lost object that a record names. The next process that uses it puts it back.
pub(super) fn note_lost(
    target: &Transaction<'_>,
    now: Moment,
    report: &mut Vec<String>,
) -> Result<(), Failure> {
    for (sha256, (kind, _)) in latest_uses(target, 0)? {
        if objects::note_lost(target, &sha256, kind, now)? {
            report.push(format!("object {}: it is lost, and records rest on it", hex(sha256)));
        }
    }
    Ok(())
}

/// Mends the rows of the log in a rebuilt store. True if the log is a new one, without the checkpoints of the old.
pub(super) fn mend(
    target: &Transaction<'_>,
    now: Moment,
    report: &mut Vec<String>,
) -> Result<bool, Failure> {
    for block in entries::blocks_from(target, 0)? {
        let first = integer(block.first);
        match block.relation(target)? {
            Relation::Right | Relation::Dropped => {}
            Relation::Unreadable(why) => {
                report.push(format!("{}: {why}; they are lost", block.records()));
                target.run("UPDATE block SET body = NULL WHERE first = ?1", [first])?;
            }
            Relation::Roots(roots) => {
                // Where the stored roots are those that were signed, the records are others: that is no damage to mend.
                if are_roots_signed(target, &block)? == Some(false) {
                    report.push(format!("the roots of {} were damaged", block.records()));
                    let text = "UPDATE block SET roots = ?2 WHERE first = ?1";
                    target.run(text, params![first, roots.as_flattened()])?;
                }
            }
            Relation::Facts(facts) => {
                report.push(format!("the times of {} were damaged", block.records()));
                let [min, max, denials] =
                    [facts.min_time, facts.max_time, facts.denials].map(integer);
                let text =
                    "UPDATE block SET min_time = ?2, max_time = ?3, denials = ?4 WHERE first = ?1";
                target.run(text, [first, min, max, denials])?;
            }
        }
    }
    for segment in entries::wrong_segments(target)? {
        report.push(format!("the row of segment {} was damaged", segment.number));
        target.execute(
            "UPDATE segment SET root = ?2, min_time = ?3, max_time = ?4, keys = ?5, sums = ?6 WHERE number = ?1",
            params![
                integer(segment.number),
                segment.root,
                segment.times.0,
                segment.times.1,
                segment.keys,
                segment.sums,
            ],
        )?;
    }
    for (first, facts) in entries::wrong_tail_times(target)? {
        let text = "UPDATE tail SET min_time = ?2, max_time = ?3 WHERE first = ?1";
        target.run(text, [first, facts.min_time, facts.max_time].map(integer))?;
    }
    if Head::read(target).is_ok() && unreadable_tail(target)?.is_none() {
        mend_checkpoints(target, report)?;
        rotations::mend(target, report)?;
        return Ok(false);
    }
    rebuild_log(target, now, None, report)?;
    Ok(true)
}

/// Drops checkpoints that cannot be read, and hashes that prove nothing.
fn mend_checkpoints(target: &Transaction<'_>, report: &mut Vec<String>) -> Result<(), Failure> {
    for stored in checkpoint::all(target)? {
        if content(&stored).is_none() {
            drop_checkpoint(target, stored.size, report)?;
        }
    }
    for size in wrong_edges(target)? {
        let text = "UPDATE checkpoint SET edge = NULL WHERE size = ?1";
        target.run(text, [integer(size)])?;
        report.push(format!(
            "the checkpoint of {size} records cannot be compared any more: the hashes kept with it were damaged"
        ));
    }
    Ok(())
}

/// Drops a damaged checkpoint.
pub(super) fn drop_checkpoint(
    target: &Transaction<'_>,
    size: u64,
    report: &mut Vec<String>,
) -> Result<(), Failure> {
    target.execute("DELETE FROM checkpoint WHERE size = ?1", [integer(size)])?;
    report.push(format!(
        "the checkpoint of {size} records: it was damaged; the next one covers them, too"
    ));
    Ok(())
}

/// Makes a new log of all entries that can be read: places are missing, or roots, so that the old tree cannot go on.
pub(super) fn rebuild_log(
    target: &Transaction<'_>,
    now: Moment,
    missing: Option<EventKind<'static>>,
    report: &mut Vec<String>,
) -> Result<(), Failure> {
    let last = checkpoint::last(target).ok().flatten();
    let last = last.and_then(|last| last.content());
    // Row by row: the whole log, unpacked, may be larger than the memory.
    entries::set_aside(target)?;
    target.execute_batch(
        "DELETE FROM segment; DELETE FROM checkpoint; DELETE FROM ahead; DELETE FROM rotation; DELETE FROM acknowledgement;",
    )?;
    let mut head = Head::default();
    if let Some(last) = &last {
        let kind = EventKind::Forked {
            log: last.origin.as_str(),
            size: last.size,
            root: &last.root,
            reason: "the store was damaged, and rebuilt".into(),
        };
        log::event(target, &mut head, now, kind)?;
    }
    let (mut saved, mut lost, mut next) = (0_u64, 0, None);
    let mut frames = Vec::new();
    while let Some(row) = entries::take_aside(target)? {
        frames.clear();
        for (index, entry) in row {
            // Damaged rows may overlap.
            let is_new = next.is_none_or(|next| index >= next);
            if !is_new || Entry::read(&entry).is_err() {
                continue;
            }
            lost += next.map_or(0, |next| index - next);
            next = Some(index + 1);
            saved += 1;
            push_entry(&mut frames, &entry)
                .map_err(|error| Failure::Damaged(format!("an entry of the log: {error}")))?;
        }
        append(target, &mut head, &frames, None, None)?;
    }
    if let Some(missing) = missing {
        log::event(target, &mut head, now, missing)?;
    }
    if lost > 0 {
        let at = now.as_millis();
        let kind = EventKind::Lost { count: lost, first: at, last: at, size: next };
        log::event(target, &mut head, now, kind)?;
        report.push(format!("{lost} records between others are lost"));
    }
    report.push(format!(
        "the log could not go on: {saved} records begin a new one, with new numbers and a new key; what was signed before is \
         proven by the damaged store alone"
    ));
    Ok(())
}
