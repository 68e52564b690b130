//! The note of the time that retention believes, in the table `meta`.

use std::time::Duration;

use rusqlite::{Connection, Transaction};

use super::engine::{Failure, Statements as _, integer, meta, moment, number, put_meta};
use super::entries::oldest::first_kept;
use crate::{Belief, Progress};
use crawlgate_system::clock::Moment;

const TIME: &str = "believed_time";
const UPTIME: &str = "believed_uptime";
const BOOT: &str = "believed_boot";
const DOUBTED: &str = "believed_doubted";
const STEADY: &str = "believed_steady";

/// See [`Store::progress`](crate::Store::progress).
pub(super) fn progress(connection: &Connection) -> Result<Progress, Failure> {
    Ok(Progress {
        belief: noted(connection)?,
        first: first_kept(connection)?,
        last: newest(connection)?,
    })
}

fn noted(connection: &Connection) -> Result<Option<Belief>, Failure> {
    let read = |name| meta(connection, name);
    let millis = |name| -> Result<Option<Duration>, Failure> {
        Ok(read(name)?.map(|value| Duration::from_millis(number(value))))
    };
    let (Some(time), Some(uptime), Some(boot)) = (read(TIME)?, millis(UPTIME)?, read(BOOT)?) else {
        return Ok(None);
    };
    Ok(Some(Belief {
        time: moment(time),
        uptime,
        boot: boot.cast_unsigned(),
        doubted: millis(DOUBTED)?,
        steady: millis(STEADY)?.unwrap_or_default(),
    }))
}

/// Returns the time of the last entry.
fn newest(connection: &Connection) -> Result<Option<Moment>, Failure> {
    let text = "SELECT max_time FROM (SELECT first, max_time FROM block UNION ALL SELECT first, max_time FROM tail) \
                ORDER BY first DESC LIMIT 1";
    Ok(connection.value(text, [])?.map(moment))
}

/// See [`Store::note_belief`](crate::Store::note_belief).
pub(super) fn note(transaction: &Transaction<'_>, belief: &Belief) -> Result<(), Failure> {
    let Belief {
        time,
        uptime,
        boot,
        doubted,
        steady,
    } = *belief;
    let millis = |duration: Duration| {
        let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        integer(millis)
    };
    for (name, value) in [
        (TIME, Some(integer(time.as_millis()))),
        (UPTIME, Some(millis(uptime))),
        (BOOT, Some(boot.cast_signed())),
        (STEADY, Some(millis(steady))),
        (DOUBTED, doubted.map(millis)),
    ] {
        match value {
            Some(value) => put_meta(transaction, name, value)?,
            None => drop(transaction.run("DELETE FROM meta WHERE name = ?1", [name])?),
        }
    }
    Ok(())
}
