//! Checks of the keys that others have replaced, and their repair.

use rusqlite::{Connection, Transaction};

use super::super::error::Failure;
use super::super::rotations;
use super::super::rows::integer;
use super::Faults;

/// Finds rotations of the key that cannot be read.
pub(super) fn check(connection: &Connection, faults: &mut Faults) -> Result<(), Failure> {
    let damaged = rotations::damaged(connection)?.into_iter();
    faults.damaged.extend(damaged.map(rotations::told));
    Ok(())
}

/// Drops rotations that cannot be read: the present key signs alone then.
pub(super) fn mend(target: &Transaction<'_>, told: &mut Vec<String>) -> Result<(), Failure> {
    for seq in rotations::damaged(target)? {
        target.execute("DELETE FROM rotation WHERE seq = ?1", [integer(seq)])?;
        told.push(format!(
            "{}: it is dropped, and the present key signs alone",
            rotations::told(seq)
        ));
    }
    Ok(())
}
