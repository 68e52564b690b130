//! The look-up of an origin's states in the store, which all its requests wait for.

use std::sync::Arc;

use tokio::sync::watch;

use super::Shared;
use super::entry::{Entry, Slot, Slots, StoreLookup};
use crawlgate_robots::Origin;
use crawlgate_store::StoreError;

/// A look-up of an origin in the store, in progress.
struct Recalling {
    entry: Arc<Entry>,
    /// Dropped last.
    _sender: watch::Sender<()>,
}

impl Shared {
    /// Returns the look-up in the store that is in progress, or starts one.
    pub(super) fn join_recall(
        self: &Arc<Self>,
        entry: &Arc<Entry>,
        origin: &Origin,
        slots: &mut Slots,
    ) -> watch::Receiver<()> {
        let recalling = slots.recalling.get_or_insert_with(|| {
            let (sender, recalling) = watch::channel(());
            let recalled = Recalling { entry: Arc::clone(entry), _sender: sender };
            tokio::spawn(recalled.ask(Arc::clone(self), origin.clone()));
            recalling
        });
        recalling.clone()
    }

    /// Waits until the store has loaded an origin's states; asks it again if it failed last.
    pub(super) async fn recalled(
        self: &Arc<Self>,
        entry: &Arc<Entry>,
        origin: &Origin,
    ) -> Result<(), StoreError> {
        let mut recalling = {
            let mut slots = entry.slots.lock();
            if slots.recall == StoreLookup::Done {
                return Ok(());
            }
            self.join_recall(entry, origin, &mut slots)
        };
        // The sender is never used, only dropped.
        let _ = recalling.changed().await;
        match &entry.slots.lock().recall {
            StoreLookup::Failed { error, .. } => Err(error.clone()),
            StoreLookup::Due | StoreLookup::Done => Ok(()),
        }
    }
}

impl Recalling {
    async fn ask(self, shared: Arc<Shared>, origin: Origin) {
        let config = Arc::clone(&shared.settings.load().ours.config);
        let recalled = match &shared.persistent {
            Some(persistent) => persistent.recall(&origin, &config).await,
            None => Ok(Vec::new()),
        };
        {
            let mut slots = self.entry.slots.lock();
            let now = shared.clock.now();
            match recalled {
                // The origin was forgotten meanwhile.
                Ok(_) if slots.recall == StoreLookup::Done => {}
                Ok(known) => {
                    slots.recall = StoreLookup::Done;
                    for one in known {
                        let mut slot = Slot::new(one.fetched_as.identity.clone(), one.updated);
                        let is_doubted = shared.is_doubted(&one.state);
                        slot.state = Arc::new(match is_doubted {
                            true => one.state.overdue(now),
                            false => one.state,
                        });
                        slot.fetched_as = Some(Arc::new(one.fetched_as));
                        Shared::measure_new(&mut slot);
                        slots.put(slot, &mut |change| shared.count(change));
                    }
                    shared.recount(&mut slots);
                }
                Err(error) => {
                    let until = now + config.timing.retry_min;
                    slots.recall = StoreLookup::Failed { until, error };
                }
            }
        }
        drop(self);
        shared.bound();
    }
}

impl Drop for Recalling {
    fn drop(&mut self) {
        self.entry.slots.lock().recalling = None;
    }
}
