//! The things that the limiters of all origins and addresses have in common.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use arc_swap::ArcSwap;

use super::bound::Group;
use super::grants::{Grant, Grants};
use super::settings::PaceSettings;
use super::slots::SlotKeeper;
use crate::fleet::{Fleet, LinkState};
use crawlgate_system::clock::{Clock, Uptime};

/// The settings in force, the clock, and the fleet.
pub(super) struct Context {
    pub(super) settings: ArcSwap<PaceSettings>,
    pub(super) clock: Clock,
    /// The fleet that reserves the turns.
    pub(super) fleet: Option<FleetPace>,
    /// Requests that are held now.
    pub(super) held: AtomicUsize,
}

/// The part of a fleet that the pace needs. Clones share it.
#[derive(Debug, Clone)]
pub(super) struct FleetPace {
    pub(super) fleet: Arc<Fleet>,
    pub(super) slots: Arc<SlotKeeper>,
    /// The generation that the latest heartbeat told; with another one, the engine may have lost what it knew.
    pub(super) seen: Arc<AtomicU64>,
}

impl Context {
    /// Tells whether too many requests are held, `of_client` of them at this origin by the client that asks.
    pub(super) fn is_full(&self, settings: &PaceSettings, of_client: usize) -> bool {
        let most = settings.config.max_held;
        self.held.load(Ordering::Relaxed) >= most || of_client >= most / 2
    }
}

impl FleetPace {
    pub(super) fn new(fleet: &Arc<Fleet>) -> FleetPace {
        FleetPace {
            fleet: Arc::clone(fleet),
            slots: Arc::new(SlotKeeper::new(fleet)),
            seen: Arc::default(),
        }
    }

    /// Takes a turn in hand that is due; `None` while the engine does not answer: it may have forgotten the turn, and give
    /// the same time to another instance.
    pub(super) fn take(
        &self,
        grants: &mut Grants,
        group: Option<&Group>,
        now: Uptime,
    ) -> Option<Grant> {
        match self.fleet.link_at(now) {
            LinkState::Connected => grants.take(group, now),
            LinkState::Doubtful | LinkState::CutOff => None,
        }
    }
}
