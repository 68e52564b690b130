//! Checks of the keys that others have replaced, and their repair.

use rusqlite::{Connection, Transaction};

use super::super::engine::{Failure, Statements as _, integer};
use super::super::entries::{self, Blocks, checkpoint};
use super::super::rotations;
use super::Faults;
use crawlgate_tlog::Note;

/// Finds rotations of the key that cannot be read.
pub(super) fn check(connection: &Connection, faults: &mut Faults) -> Result<(), Failure> {
    let damaged = rotations::damaged(connection)?.into_iter();
    faults.damaged.extend(damaged.map(rotations::damage_text));
    Ok(())
}

/// Makes rotations that cannot be read anew from the log, or drops them: then only the present key signs.
pub(super) fn mend(target: &Transaction<'_>, report: &mut Vec<String>) -> Result<(), Failure> {
    for seq in rotations::damaged(target)? {
        target.run("DELETE FROM rotation WHERE seq = ?1", [integer(seq)])?;
        let outcome = if rebuild_rotation(target, seq)? {
            "it is made anew from the log"
        } else {
            "it is dropped, and the present key signs alone; checkpoints of the earlier key alone need its public half \
                 (`crawlgate audit verify --key`, for each key)"
        };
        report.push(format!("{}: {outcome}", rotations::damage_text(seq)));
    }
    Ok(())
}

/// Makes a rotation anew by its entry and the checkpoint right over it. False if one of them is gone, or they do not prove it.
fn rebuild_rotation(target: &Transaction<'_>, seq: u64) -> Result<bool, Failure> {
    let all = checkpoint::all(target)?;
    let note = all.iter().find(|one| one.size == seq);
    let note = note.and_then(|one| Note::parse(one.note.as_bytes()).ok());
    let (first, size) = entries::extent(target)?;
    let (Some(note), Some(index)) = (note, seq.checked_sub(1)) else {
        return Ok(false);
    };
    if !(first..size).contains(&index) {
        return Ok(false);
    }
    let mut found = None;
    let range = index..=index;
    entries::walk(target, &Blocks::default(), range, false, |_, entry| {
        found = Some(entry.to_vec());
        Ok(false)
    })?;
    match found {
        Some(entry) => Ok(rotations::put(target, entry, seq, &note)?.is_some()),
        None => Ok(false),
    }
}
