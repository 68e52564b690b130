//! One origin in memory: a slot for each document and identity that has its own state.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;

use super::counts::Known;
use super::fetch_handle::FetchHandle;
use crawlgate_config::RobotsConfig;
use crawlgate_origins::document::Document;
use crawlgate_origins::identity::{Crawler, FetchedAs, Identity, OWN_STATES};
use crawlgate_origins::snapshot::Snapshot;
use crawlgate_origins::state::State;
use crawlgate_policy::generation::Group;
use crawlgate_store::StoreError;
use crawlgate_system::clock::{Moment, Uptime};
use crawlgate_turns::fleet::coordinator::Token;

/// Pause after a fetch that found no descriptor.
pub(super) const EXHAUSTED: Duration = Duration::from_secs(1);

/// Pause after a fetch that was cut short, so that chains of redirects cause few fetches of the origins in their middle.
pub(super) const CUT: Duration = Duration::from_secs(60);

/// Octets of an entry without its slots, roughly.
pub(super) const ENTRY_BYTES: usize = 256;

/// Octets of a slot without its snapshot, roughly.
pub(super) const SLOT_BYTES: usize = 384;

/// Time without use after which another identity may take over a slot: as long as a copy is fresh by default, so that
/// thousands of made-up names cause no more fetches than a few.
const UNUSED: Duration = Duration::from_secs(86_400);

/// An origin.
pub(super) struct Entry {
    pub(super) slots: Mutex<Slots>,
    /// The group of origins that shares its update counter.
    pub(super) group: Group,
    pub(super) used: AtomicU64,
    /// Number of requests that have asked for it.
    pub(super) asked: AtomicU64,
}

/// The states of an origin.
pub(super) struct Slots {
    pub(super) recall: StoreLookup,
    /// The look-up in the store that is in progress.
    pub(super) recalling: Option<watch::Receiver<()>>,
    all: Vec<Slot>,
    /// The number of states that the cache counts for this origin, see [`Slots::count`].
    pub(super) counted: usize,
}

/// The state of one identity.
pub(super) struct Slot {
    pub(super) identity: Identity,
    pub(super) state: Arc<State>,
    /// The identity's latest failure; none if it was before this process, or the state was not in memory.
    pub(super) failed: Option<Uptime>,
    /// The end of the pause after a fetch that found no descriptor; none without one.
    pub(super) exhausted_until: Option<Moment>,
    /// The fetch behind the state; none without one.
    pub(super) fetched_as: Option<Arc<FetchedAs>>,
    pub(super) flight: Option<FetchHandle>,
    /// The reason for the flight, in a fleet.
    pub(super) reason: FlightReason,
    /// The latest fetch, if it was cut short.
    pub(super) cut: Option<Cut>,
    /// Orders the state among those of the fleet.
    pub(super) token: Token,
    /// The epoch of the fleet in which the state was compared last; none if the fleet may have another one.
    pub(super) epoch: Option<u64>,
    /// The moment of its last use.
    pub(super) used: Moment,
    pub(super) bytes: usize,
    /// The kind that metrics count it as.
    pub(super) known: Known,
}

/// The reason for a flight in a fleet. A stronger one comes later in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FlightReason {
    /// The state comes from the store, and the fleet may have another one since.
    Confirm,
    /// A fetch is due. A newer state of the fleet does, too.
    Fetch,
    /// The operator wants a fetch.
    FetchAnew,
}

/// A fetch that was cut short because of the number of others that waited for it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cut {
    /// That number.
    pub(super) depth: u8,
    /// Until then, no fetch with as many begins.
    pub(super) until: Moment,
}

/// The progress of the look-up in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum StoreLookup {
    /// Not yet.
    Due,
    /// It failed.
    Failed {
        /// The next attempt is not before this.
        until: Moment,
        error: StoreError,
    },
    /// It has succeeded, or there is no store.
    Done,
}

/// The slot that a crawler can use.
enum Room {
    /// Its own slot, at this index.
    At(usize),
    /// A new slot.
    New,
    /// The slot at this index, which was unused for long, or is one of too many of another client.
    InPlaceOf(usize),
    /// No separate slot: it shares that of `*`.
    Shared,
    /// No slot at all: nothing is known, and nothing is fetched.
    Nowhere,
}

impl Slots {
    pub(super) fn new(recall: StoreLookup) -> Slots {
        Slots { recall, recalling: None, all: Vec::new(), counted: 1 }
    }

    /// Returns the slot that `crawler` has or shares, made if there is room; `None` if no slot is left for it. `change`
    /// receives each slot that is added or removed for that.
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
            Room::Shared => {
                return self.slot(Crawler::common(crawler.document()), now, change);
            }
            Room::Nowhere => return None,
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
            let is_of_it = |slot: &Slot| slot.identity.document() == crawler.document();
            all.filter(move |(_, slot)| is_of_it(slot) && !slot.identity.is_common())
        };
        if crawler.is_common() || own().count() < OWN_STATES {
            return Room::New;
        }
        let resting = || own().filter(|(_, slot)| slot.flight.is_none());
        let idle = resting().filter(|(_, slot)| now.since(slot.used) >= UNUSED);
        if let Some((at, _)) = idle.min_by_key(|(_, slot)| slot.used) {
            return Room::InPlaceOf(at);
        }
        // A client that makes up names gets no other client judged by the file of `*`, which may permit more: it gives up
        // a state to one that has fewer. The difference of two keeps them from taking states from each other in turn.
        let held = |client: Option<&str>| {
            own().filter(|(_, slot)| slot.identity.client() == client).count()
        };
        let most = held(crawler.client()) + 2;
        let greedy = resting().filter(|(_, slot)| held(slot.identity.client()) >= most);
        match greedy.min_by_key(|(_, slot)| slot.used) {
            Some((at, _)) => Room::InPlaceOf(at),
            // robots.txt was asked whether this crawler may fetch the file, not whether `*` may.
            None if crawler.document() == Document::TdmRep => Room::Nowhere,
            None => Room::Shared,
        }
    }

    /// Returns the slot that `crawler` has, or that it would share.
    pub(super) fn held(&mut self, crawler: Crawler<'_>, now: Moment) -> Option<&mut Slot> {
        match self.room(crawler, now) {
            Room::At(at) => self.all.get_mut(at),
            Room::New | Room::InPlaceOf(_) | Room::Nowhere => None,
            Room::Shared => self.of(&Identity::common(crawler.document())),
        }
    }

    /// Returns the slot of an identity.
    pub(super) fn of(&mut self, identity: &Identity) -> Option<&mut Slot> {
        self.all.iter_mut().find(|slot| slot.identity == *identity)
    }

    /// Returns the slot with the newest copy of the origin's document, for any identity and however old the copy is, and
    /// that copy.
    pub(super) fn newest_copy(&self, document: Document) -> Option<(&Slot, &Arc<Snapshot>)> {
        let all = self.all.iter();
        let of_it = all.filter(|slot| slot.identity.document() == document);
        let copies = of_it.filter_map(|slot| Some((slot, slot.state.snapshot()?)));
        copies.max_by_key(|(_, copy)| copy.fetched)
    }

    /// Iterates over all slots.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Slot> {
        self.all.iter()
    }

    /// Iterates over all slots, mutably.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Slot> {
        self.all.iter_mut()
    }

    /// Adds a slot from the store, unless its identity has one already, which is newer.
    pub(super) fn put(&mut self, slot: Slot, change: &mut impl FnMut(Change<'_>)) {
        if self.of(&slot.identity).is_none() {
            self.push(slot, change);
        }
    }

    /// Removes slots.
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

    /// Returns the number of states that the origin counts as: one for each identity, and at least one.
    pub(super) fn count(&self) -> usize {
        self.all.len().max(1)
    }
}

/// A slot that was added or removed.
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
            reason: FlightReason::Fetch,
            cut: None,
            token: Token::default(),
            epoch: None,
            used: now,
            bytes: SLOT_BYTES,
            known: Known::Nothing,
        }
    }

    /// Tells whether the state was loaded from the store, and the fleet was not asked about it.
    pub(super) fn is_unconfirmed(&self) -> bool {
        self.token == Token::default() && !matches!(*self.state, State::NeverFetched)
    }

    /// Tells whether a fetch would find no descriptor, because one has just found none.
    pub(super) fn is_exhausted(&self, now: Moment) -> bool {
        // An end further away was set by a clock that was ahead.
        let holds = |until| now < until && until <= now + EXHAUSTED;
        self.exhausted_until.is_some_and(holds)
    }

    /// Tells whether a fetch that `depth` others wait for would be cut short, as one just was.
    pub(super) fn is_cut(&self, now: Moment, depth: u8) -> bool {
        // An end further away was set by a clock that was ahead.
        let holds = |cut: Cut| cut.depth <= depth && now < cut.until && cut.until <= now + CUT;
        self.cut.is_some_and(holds)
    }

    /// Returns the state, corrected for the clock and parsed by `config`. Usually that is the stored one.
    pub(super) fn normalize(&mut self, now: Moment, config: &RobotsConfig) -> Arc<State> {
        if let Some(corrected) = self.state.corrected(now, &config.timing) {
            self.state = Arc::new(corrected);
        }
        if let Some(anew) = self.state.reparsed(config.lenient) {
            self.state = Arc::new(anew);
        }
        Arc::clone(&self.state)
    }
}
