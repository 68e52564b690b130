//! The room for a batch of entries, made before the batch is written.

use super::bounds::{Parts, excess};
use super::engine::Failure;
use super::entries::Blocks;
use super::write::Change;
use super::{prune, shipping};
use crate::{Pruned, Retention};
use crawlgate_system::clock::Moment;

/// Blocks dropped at once.
const AT_ONCE: usize = 16;

/// The latest request of maintenance: it bounds batches, too.
#[derive(Debug)]
pub(super) struct BatchRetention {
    retention: Retention,
    now: Moment,
    /// Amounts dropped by batches since the last maintenance step.
    dropped: Pruned,
}

impl BatchRetention {
    pub(super) fn new(retention: Retention, now: Moment) -> Self {
        Self {
            retention,
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

    /// Drops as many of the oldest entries as `incoming` octets of new ones need.
    ///
    /// # Errors
    /// When they are not shipped yet. Nothing may be written then, as on a full disk.
    pub(super) fn make_room(
        &mut self,
        change: &mut Change<'_>,
        blocks: &Blocks,
        incoming: u64,
    ) -> Result<Pruned, Failure> {
        let mut gone = Pruned::default();
        let Some(parts) = self.parts() else {
            return Ok(gone);
        };
        for _ in 0..AT_ONCE {
            if excess(change, parts, incoming)? == 0 {
                break;
            }
            let params = prune::RemovalParams {
                keep: self.retention.keep,
                now: self.now,
            };
            let step = prune::drop_for_room(change, blocks, &params)?;
            if step.is_full {
                self.dropped.add(step);
                return Err(shipping::full());
            }
            if step.decisions == 0 {
                break;
            }
            gone.add(step);
        }
        Ok(gone)
    }
}
