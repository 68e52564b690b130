//! The shares of the room for decisions.
//!
//! Each named client has a share, and so has each address without a name; all unidentified clients have one together,
//! and crawlgate's own lines have one. For lack of room the largest share gives first, so no party can take another's
//! room: with n of them, each keeps at least the n-th part for itself.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension as _, Transaction, params};

use super::error::Failure;
use super::rows::{integer, number};
use crate::store::Party;
use crate::store::filter::Head;

/// Maximum number of parties: without it, an attacker with a network of addresses would have a share for each of them.
const MOST: i64 = 1_024;

/// The additions of a batch to the shares.
#[derive(Debug, Default)]
pub(super) struct Shares(HashMap<Party, Share>);

#[derive(Debug, Clone, Copy)]
struct Share {
    party: i64,
    octets: u64,
}

impl Shares {
    /// Counts the record `seq`, of so many octets, and returns the number of its party.
    pub(super) fn count(
        &mut self,
        transaction: &Connection,
        party: Party,
        seq: u64,
        length: usize,
    ) -> Result<i64, Failure> {
        let octets = octets_of(length as u64);
        if let Some(share) = self.0.get_mut(&party) {
            share.octets += octets;
            return Ok(share.party);
        }
        let number = number_of(transaction, &party.to_string(), seq)?;
        self.0.insert(
            party,
            Share {
                party: number,
                octets,
            },
        );
        Ok(number)
    }

    /// Adds the counts to the stored ones.
    pub(super) fn write(&self, transaction: &Connection) -> Result<(), Failure> {
        let mut add = transaction
            .prepare_cached("UPDATE party SET octets = octets + ?2 WHERE number = ?1")?;
        for share in self.0.values() {
            add.execute(params![share.party, integer(share.octets)])?;
        }
        Ok(())
    }
}

/// Returns the number of the named party; a new party gets one if there is room for another.
fn number_of(transaction: &Connection, name: &str, seq: u64) -> Result<i64, Failure> {
    let mut look = transaction.prepare_cached("SELECT number FROM party WHERE name = ?1")?;
    if let Some(number) = look.query_row([name], |row| row.get(0)).optional()? {
        return Ok(number);
    }
    let mut add = transaction.prepare_cached(
        "INSERT INTO party (name, octets, oldest) SELECT ?1, 0, ?2 WHERE (SELECT count(*) FROM party) < ?3",
    )?;
    match add.execute(params![name, integer(seq), MOST])? {
        0 => Ok(0),
        _ => Ok(transaction.last_insert_rowid()),
    }
}

/// Returns the approximate room of a record in the file: a page holds as many records as fit, and none in part.
pub(super) fn octets_of(length: u64) -> u64 {
    const PAGE: u64 = super::open::PAGE as u64;
    match length {
        ..2_000 => length + length / 8 + 128,
        2_000..2_600 => PAGE / 3,
        2_600..3_900 => PAGE / 2,
        _ => length.div_ceil(PAGE) * PAGE,
    }
}

/// Returns the octets of all parties.
pub(super) fn octets(connection: &Connection) -> Result<u64, Failure> {
    let mut sum = connection.prepare_cached("SELECT coalesce(sum(octets), 0) FROM party")?;
    Ok(number(sum.query_row([], |row| row.get(0))?))
}

/// A party that takes room.
#[derive(Debug)]
pub(super) struct Largest {
    /// Its number.
    pub(super) party: i64,
    /// Its name.
    pub(super) name: String,
    /// The party has no decision before this one.
    pub(super) oldest: i64,
}

/// Returns the parties, the largest first.
pub(super) fn by_size(connection: &Connection) -> Result<Vec<Largest>, Failure> {
    let mut all = connection.prepare_cached(
        "SELECT number, name, oldest FROM party WHERE octets > 0 ORDER BY octets DESC",
    )?;
    let rows = all.query_map([], |row| {
        Ok(Largest {
            party: row.get(0)?,
            name: row.get(1)?,
            oldest: row.get(2)?,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Subtracts dropped octets from a party. A party without any is forgotten.
pub(super) fn take_off(transaction: &Connection, party: i64, octets: u64) -> Result<(), Failure> {
    let mut take = transaction.prepare_cached(
        "UPDATE party SET octets = max(octets - ?2, 0) WHERE number = ?1 RETURNING octets",
    )?;
    let left: Option<i64> = take
        .query_row(params![party, integer(octets)], |row| row.get(0))
        .optional()?;
    if left == Some(0) {
        // The party's last records may be those that were miscounted: a party with a record left keeps its name.
        transaction
            .prepare_cached(
                "DELETE FROM party WHERE number = ?1 AND number <> 0 AND NOT EXISTS \
                 (SELECT 1 FROM decision WHERE party = ?1 AND seq >= (SELECT oldest FROM party WHERE number = ?1))",
            )?
            .execute([party])?;
    }
    Ok(())
}

/// Notes that a party has no decision before `seq`.
pub(super) fn move_on(transaction: &Connection, party: i64, seq: u64) -> Result<(), Failure> {
    transaction
        .prepare_cached("UPDATE party SET oldest = max(oldest, ?2) WHERE number = ?1")?
        .execute(params![party, integer(seq)])?;
    Ok(())
}

/// Computes the shares anew, from the records.
pub(super) fn recount(transaction: &Transaction<'_>) -> Result<(), Failure> {
    transaction
        .execute_batch("UPDATE party SET octets = 0; DELETE FROM party WHERE number <> 0")?;
    let mut shares = Shares::default();
    let mut all = transaction.prepare("SELECT seq, record FROM decision ORDER BY seq")?;
    let mut put = transaction.prepare("UPDATE decision SET party = ?2 WHERE seq = ?1")?;
    let mut rows = all.query([])?;
    while let Some(row) = rows.next()? {
        let seq: i64 = row.get(0)?;
        let record = row.get_ref(1)?.as_str().unwrap_or_default();
        let party = Head::of(record).map_or(Party::Own, |head| head.party());
        let party = shares.count(transaction, party, number(seq), record.len())?;
        put.execute([seq, party])?;
    }
    shares.write(transaction)
}
