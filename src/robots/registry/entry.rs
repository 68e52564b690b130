//! One origin in memory: a slot for each identity that has a state of its own.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;

use super::counts::Known;
use super::flight::EXHAUSTED;
use crate::clock::{Moment, Uptime};
use crate::config::RobotsConfig;
use crate::policy::generation::Group;
use crate::robots::identity::{Crawler, FetchedAs, Identity, OWN_STATES};
use crate::robots::state::State;
use crate::store::StoreError;

/// Octets of an entry beside its slots, roughly.
pub(super) const ENTRY_BYTES: usize = 256;

/// Octets of a slot beside its snapshot, roughly.
pub(super) const SLOT_BYTES: usize = 384;

/// How long a state of its own must be out of use before another identity takes its place: as long as a copy is fresh by
/// default, so that thousands of made-up names cause no more fetches than a few.
const UNUSED: Duration = Duration::from_secs(86_400);

/// An origin.
pub(super) struct Entry {
    pub(super) slots: Mutex<Slots>,
    /// With which other origins' its landings are counted.
    pub(super) group: Group,
    pub(super) used: AtomicU64,
    /// Requests that have asked for it.
    pub(super) asked: AtomicU64,
}

/// The states of an origin.
pub(super) struct Slots {
    pub(super) recall: Recall,
    /// The question to the store that is under way.
    pub(super) recalling: Option<watch::Receiver<()>>,
    all: Vec<Slot>,
    /// As how many states they are counted, see [`Slots::count`].
    pub(super) counted: usize,
}

/// The state of one identity.
pub(super) struct Slot {
    pub(super) identity: Identity,
    pub(super) state: Arc<State>,
    /// When the identity's latest failure was; none where that was before this process, or the state was not in memory.
    pub(super) failed: Option<Uptime>,
    /// Where the last fetch could not begin for want of descriptors: there is none before this.
    pub(super) exhausted_until: Option<Moment>,
    /// How the state was learnt; none where nothing is known.
    pub(super) fetched_as: Option<Arc<FetchedAs>>,
    pub(super) flight: Option<watch::Receiver<()>>,
    /// When it was last looked at.
    pub(super) used: Moment,
    pub(super) bytes: usize,
    /// As what it is counted.
    pub(super) known: Known,
}

/// Whether the store was asked what is known of the origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Recall {
    /// Not yet.
    Due,
    /// In vain.
    Failed {
        /// Not again before this.
        until: Moment,
        error: StoreError,
    },
    /// It was, or there is none.
    Done,
}

/// What the slots of an origin have room for.
enum Room {
    /// This one is there.
    At(usize),
    /// It gets a new one.
    New,
    /// It takes the place of this one, which was out of use for long.
    InPlaceOf(usize),
    /// None of its own.
    Shared,
}

impl Slots {
    pub(super) fn new(recall: Recall) -> Slots {
        Slots {
            recall,
            recalling: None,
            all: Vec::new(),
            counted: 1,
        }
    }

    /// Returns the slot that `crawler` has or shares, made where there is room; with the weights of what was taken away
    /// and added for that.
    pub(super) fn slot(
        &mut self,
        crawler: Crawler<'_>,
        now: Moment,
        change: &mut impl FnMut(Change<'_>),
    ) -> Option<&mut Slot> {
        let at = match self.room(crawler, now) {
            Room::At(at) => at,
            Room::New => self.push(Slot::new(crawler.identity(), now), change),
            Room::InPlaceOf(at) => {
                change(Change::Went(&self.all.swap_remove(at)));
                self.push(Slot::new(crawler.identity(), now), change)
            }
            Room::Shared => return self.slot(Crawler::default(), now, change),
        };
        self.all.get_mut(at)
    }

    fn push(&mut self, slot: Slot, change: &mut impl FnMut(Change<'_>)) -> usize {
        change(Change::Came(&slot));
        self.all.push(slot);
        self.all.len() - 1
    }

    fn room(&self, crawler: Crawler<'_>, now: Moment) -> Room {
        let is_its = |slot: &Slot| crawler.is(&slot.identity);
        if let Some(at) = self.all.iter().position(is_its) {
            return Room::At(at);
        }
        let own = || {
            let all = self.all.iter().enumerate();
            all.filter(|(_, slot)| !slot.identity.is_common())
        };
        if crawler.is_common() || own().count() < OWN_STATES {
            return Room::New;
        }
        let idle =
            own().filter(|(_, slot)| slot.flight.is_none() && now.since(slot.used) >= UNUSED);
        match idle.min_by_key(|(_, slot)| slot.used) {
            Some((at, _)) => Room::InPlaceOf(at),
            None => Room::Shared,
        }
    }

    /// Returns the slot that `crawler` has, or that it would share.
    pub(super) fn held(&mut self, crawler: Crawler<'_>, now: Moment) -> Option<&mut Slot> {
        match self.room(crawler, now) {
            Room::At(at) => self.all.get_mut(at),
            Room::New | Room::InPlaceOf(_) => None,
            Room::Shared => self.of(&Identity::default()),
        }
    }

    /// Returns the slot of an identity.
    pub(super) fn of(&mut self, identity: &Identity) -> Option<&mut Slot> {
        self.all.iter_mut().find(|slot| slot.identity == *identity)
    }

    /// Tells whether a copy of the origin's file is held for any identity, however old.
    pub(super) fn holds_a_copy(&self) -> bool {
        self.all.iter().any(|slot| slot.state.snapshot().is_some())
    }

    /// All of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Slot> {
        self.all.iter()
    }

    /// All of them, to be changed.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Slot> {
        self.all.iter_mut()
    }

    /// Puts in what was known before. What is there already is newer.
    pub(super) fn put(&mut self, slot: Slot, change: &mut impl FnMut(Change<'_>)) {
        if self.of(&slot.identity).is_none() {
            self.push(slot, change);
        }
    }

    /// Takes slots away.
    pub(super) fn retain(
        &mut self,
        stays: impl Fn(&Slot) -> bool,
        change: &mut impl FnMut(Change<'_>),
    ) {
        self.all.retain(|slot| {
            let stays = stays(slot);
            if !stays {
                change(Change::Went(slot));
            }
            stays
        });
    }

    /// Returns as how many states the origin counts: one for each identity, and one while there is none.
    pub(super) fn count(&self) -> usize {
        self.all.len().max(1)
    }
}

/// A slot has come or gone.
pub(super) enum Change<'a> {
    Came(&'a Slot),
    Went(&'a Slot),
}

impl Slot {
    pub(super) fn new(identity: Identity, now: Moment) -> Slot {
        Slot {
            identity,
            state: Arc::default(),
            failed: None,
            exhausted_until: None,
            fetched_as: None,
            flight: None,
            used: now,
            bytes: SLOT_BYTES,
            known: Known::Nothing,
        }
    }

    /// Tells whether a fetch would find no descriptor, as one has just found none.
    pub(super) fn is_exhausted(&self, now: Moment) -> bool {
        // One that lies further away was set by a clock that was ahead.
        let holds = |until| now < until && until <= now + EXHAUSTED;
        self.exhausted_until.is_some_and(holds)
    }

    /// The state as it may be believed at `now` and as `config` reads it. Nearly always as it is.
    pub(super) fn settle(&mut self, now: Moment, config: &RobotsConfig) -> Arc<State> {
        if let Some(corrected) = self.state.corrected(now, &config.timing) {
            self.state = Arc::new(corrected);
        }
        if let Some(anew) = self.state.read_anew(config.lenient) {
            self.state = Arc::new(anew);
        }
        Arc::clone(&self.state)
    }
}
