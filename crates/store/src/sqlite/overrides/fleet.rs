//! The overrides that a fleet has in common: a set that only grows, with the removed ones marked.
//!
//! Every instance keeps all of them, so two stores that have heard of the same ones agree, in whatever order they heard.

use rusqlite::{Connection, params};

use super::super::digests;
use super::super::engine::{Failure, Statements as _};
use super::super::rows;
use super::super::transaction::{begin, changed};
use super::super::write::LogMemory;
use super::{Found, append_added, insert, mark_removed, row_of};
use crate::FleetOverrides;
use crawlgate_policy::overrides::{Override, OverrideId};
use crawlgate_system::clock::Moment;
use crawlgate_text::DecisionId;

/// See [`Store::merge_overrides`](crate::Store::merge_overrides).
pub(in super::super) fn merge(
    connection: &mut Connection,
    log: &mut LogMemory,
    all: &FleetOverrides,
    now: Moment,
) -> Result<bool, Failure> {
    let transaction = begin(connection)?;
    let mut head = log.head(&transaction)?;
    let mut is_new = false;
    let removed = all.removed.iter().map(|one| &one.asserted);
    for one in all.added.iter().chain(removed) {
        let is_shared = matches!(one.id, OverrideId::Shared(_));
        if is_shared && row_of(&transaction, one.id)?.is_none() {
            insert(&transaction, &mut head, one, now)?;
            is_new = true;
        }
    }
    for one in &all.removed {
        let found = row_of(&transaction, one.asserted.id)?;
        if let Some(Found::Whole {
            row,
            is_removed: false,
        }) = found
        {
            is_new |= mark_removed(&transaction, &mut head, row, &one.by, one.time, now)?;
        }
    }
    if is_new {
        changed(&transaction)?;
    }
    log.commit(transaction, head)?;
    Ok(is_new)
}

/// See [`Store::share_overrides`](crate::Store::share_overrides).
pub(in super::super) fn share(
    connection: &mut Connection,
    log: &mut LogMemory,
    instance: &str,
    now: Moment,
) -> Result<bool, Failure> {
    let transaction = begin(connection)?;
    let mut head = log.head(&transaction)?;
    let text = "SELECT * FROM override WHERE id IS NULL AND removed IS NULL";
    let own: Vec<(i64, Override)> = transaction.all(text, [], |row| {
        digests::require("override", row)?;
        Ok((row.get("number")?, rows::override_(row)?))
    })?;
    for (row, one) in &own {
        let id = DecisionId::mint(now);
        transaction.execute(
            "UPDATE override SET id = ?2, instance = ?3 WHERE number = ?1",
            params![row, id.octets(), instance],
        )?;
        digests::stamp(&transaction, "override", "number = ?1", &[row])?;
        let shared = Override {
            instance: Some(instance.to_owned()),
            ..one.clone()
        };
        append_added(
            &transaction,
            &mut head,
            &shared,
            OverrideId::Shared(id),
            now,
        )?;
    }
    if !own.is_empty() {
        changed(&transaction)?;
    }
    log.commit(transaction, head)?;
    Ok(!own.is_empty())
}
