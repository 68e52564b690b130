//! The room for a batch of decisions, made before the batch is written.

use std::sync::Arc;

use rusqlite::Transaction;

use super::bounds::{Parts, excess};
use super::error::Failure;
use super::gaps;
use super::prune::{self, Dropped};
use crate::clock::Moment;
use crate::store::{Pruned, Retention, chain};

/// Octets dropped at once beyond twice the room that a batch needs, after the bound was lowered.
const AT_ONCE: u64 = 1024 * 1024;

/// The latest request of maintenance: it bounds batches, too.
#[derive(Debug)]
pub(super) struct Keeping {
    retention: Retention,
    key: Arc<chain::SealingKey>,
    now: Moment,
    /// Amounts dropped by batches since the last maintenance step.
    dropped: Pruned,
}

impl Keeping {
    pub(super) fn new(retention: Retention, key: Arc<chain::SealingKey>, now: Moment) -> Self {
        Self {
            retention,
            key,
            now,
            dropped: Pruned::default(),
        }
    }

    /// Returns the parts of a bounded store.
    pub(super) fn parts(&self) -> Option<Parts> {
        self.retention.max_size.map(Parts::of)
    }

    /// Adds the amounts that a batch has dropped, after its commit.
    pub(super) fn tell(&mut self, dropped: Pruned) {
        self.dropped.add(dropped);
    }

    /// Takes the amounts dropped since the last maintenance step.
    pub(super) fn take(&mut self) -> Pruned {
        std::mem::take(&mut self.dropped)
    }

    /// Drops as many decisions as `incoming` octets of new ones need.
    pub(super) fn make_room(
        &self,
        transaction: &Transaction<'_>,
        incoming: u64,
    ) -> Result<Dropped, Failure> {
        match self.parts() {
            Some(parts) => {
                let how = gaps::How {
                    keep: self.retention.keep,
                    key: &self.key,
                    now: self.now,
                };
                make_room(transaction, parts, incoming, &how)
            }
            None => Ok(Dropped::default()),
        }
    }
}

/// Drops decisions until `incoming` octets of new ones have room, each time the oldest of the client that takes most.
pub(super) fn make_room(
    transaction: &Transaction<'_>,
    parts: Parts,
    incoming: u64,
    how: &gaps::How<'_>,
) -> Result<Dropped, Failure> {
    let mut all = Dropped::default();
    let most = incoming.saturating_mul(2).saturating_add(AT_ONCE);
    while all.octets < most {
        let need = excess(transaction, parts, incoming)?;
        if need == 0 {
            break;
        }
        let step = prune::drop_largest(transaction, need.min(most), how)?;
        let is_over = step.count == 0;
        all.add(step);
        if is_over {
            break;
        }
    }
    Ok(all)
}
