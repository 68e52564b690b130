//! A request's way to the state of a document of its origin: the look at the cache, and the wait for the fetch that makes it usable.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::MutexGuard;
use tokio::sync::watch;
use tokio::time::timeout;

use super::Shared;
use super::entry::{Entry, FlightReason, Slot, Slots, StoreLookup};
use super::fetch_handle::{Ended, FetchHandle};
use super::hops::FetchSubject;
use super::settings::EffectiveSettings;
use crawlgate_config::ProfileName;
use crawlgate_origins::document::Document;
use crawlgate_origins::identity::{Crawler, FetchedAs};
use crawlgate_origins::requesting_client::RequestingClient;
use crawlgate_origins::state::{Due, Stance, State};
use crawlgate_policy::generation::OriginUpdates;
use crawlgate_robots::Origin;
use crawlgate_system::clock::Moment;
use crawlgate_turns::client::ClientKey;

/// The answer about an origin for one request.
#[derive(Clone, Debug)]
pub struct View {
    /// The origin's state, for the request's identity.
    pub state: Arc<State>,
    /// The identity and User-Agent of the fetch behind it; none without a fetch.
    pub fetched_as: Option<Arc<FetchedAs>>,
    /// Its meaning now. [`Stance::Unknown`] when the fetch outlasted the hold.
    pub stance: Stance,
    /// The moment of this view: the clock is read once for the whole decision.
    pub now: Moment,
    /// True if the state is unknown because this machine had no room for a fetch.
    pub is_exhausted: bool,
    /// The settings that the file was parsed by and that the stance follows from.
    pub by: Arc<EffectiveSettings>,
    /// The updates that the state takes into account.
    pub updates: OriginUpdates,
}

/// The moment and settings of a view, before a state is known.
pub(super) struct ViewContext {
    now: Moment,
    by: Arc<EffectiveSettings>,
    updates: OriginUpdates,
    document: Document,
}

impl ViewContext {
    pub(super) fn now(&self) -> Moment {
        self.now
    }

    /// Returns the view of a slot's state; without a slot, nothing is known.
    pub(super) fn view(self, slot: Option<&mut Slot>) -> View {
        let ViewContext { now, by, updates, document } = self;
        let (state, fetched_as, is_exhausted) = match slot {
            Some(slot) => {
                (slot.normalize(now, &by.config), slot.fetched_as.clone(), slot.is_exhausted(now))
            }
            None => (Arc::default(), None, false),
        };
        View {
            stance: state.stance_of(document, now, &by.config.timing.profile),
            state,
            fetched_as,
            now,
            is_exhausted,
            by,
            updates,
        }
    }
}

/// The event that a request waits for.
pub(super) enum Awaited {
    /// The store's answer; then the state is checked again.
    StoreLookup(watch::Receiver<()>),
    /// A fetch.
    Fetch(FetchHandle),
}

impl Shared {
    /// Returns the present view, and the event to wait for if the state is not usable. `depth` is the number of flights
    /// that already wait for a flight started here.
    pub(super) fn look(
        self: &Arc<Self>,
        entry: &Arc<Entry>,
        origin: &Origin,
        crawler: Crawler<'_>,
        profile: Option<ProfileName>,
        depth: u8,
    ) -> (View, Option<Awaited>) {
        let (mut slots, context) = self.begin_view(entry, crawler.document(), profile);
        let now = context.now;
        entry.used.store(now.as_millis(), Ordering::Relaxed);
        match slots.recall {
            StoreLookup::Done => {}
            // The store has just failed: this request is not held for the next attempt. An attempt further away was set
            // by a clock that was ahead.
            StoreLookup::Failed { until, .. }
                if now < until && until <= now + context.by.config.timing.retry_min =>
            {
                return (context.view(None), None);
            }
            StoreLookup::Failed { .. } | StoreLookup::Due => {
                let recalling = self.join_recall(entry, origin, &mut slots);
                return (context.view(None), Some(Awaited::StoreLookup(recalling)));
            }
        }
        let Some(slot) = slots.slot(crawler, now, &mut |change| self.count(change)) else {
            return (context.view(None), None);
        };
        slot.used = now;
        let view = context.view(Some(&mut *slot));
        let mut grown = self.update_size(slot);
        // A request waits for a flight in progress only if no state is usable; a complete disallow before its next
        // attempt is usable.
        let due = match view.is_exhausted {
            true => Due::No,
            false => {
                let profile = &view.by.config.timing.profile;
                view.state.due_of(crawler.document(), now, profile)
            }
        };
        let is_unconfirmed = self.sharing.is_some() && slot.is_unconfirmed();
        let is_compared = self.is_compared(slot);
        let requester = crawler.requester;
        let mut join = |reason| self.join(entry, (origin, requester), slot, depth, reason);
        let awaited = match due {
            Due::No | Due::Ahead if is_unconfirmed => {
                let reason = match due {
                    Due::Ahead => FlightReason::Fetch,
                    Due::No | Due::Now => FlightReason::Confirm,
                };
                Some(Awaited::Fetch(join(reason)))
            }
            // The engine may have an older state since, or forgotten this one.
            Due::No if !is_compared && !view.is_exhausted => {
                join(FlightReason::Confirm);
                None
            }
            Due::No => None,
            // The process that the states belong to refreshes them.
            Due::Ahead if self.is_onlooker() => None,
            Due::Ahead => {
                join(FlightReason::Fetch);
                None
            }
            Due::Now => Some(Awaited::Fetch(join(FlightReason::Fetch))),
        };
        grown |= self.recount(&mut slots);
        drop(slots);
        if grown {
            self.bound();
        }
        (view, awaited)
    }

    /// Tells whether a state was compared with that of the fleet in the present epoch.
    fn is_compared(&self, slot: &Slot) -> bool {
        let sharing = self.sharing.as_ref();
        sharing.is_none_or(|sharing| slot.epoch == Some(sharing.epoch()))
    }

    /// Locks the states of an origin, for one view.
    pub(super) fn begin_view<'a>(
        &self,
        entry: &'a Entry,
        document: Document,
        profile: Option<ProfileName>,
    ) -> (MutexGuard<'a, Slots>, ViewContext) {
        let by = self.settings.load().under(profile);
        let slots = entry.slots.lock();
        let context = ViewContext {
            // Read under the lock, so that each update counted here is earlier than `now`.
            now: self.clock.now(),
            updates: self.changes.updates_of(entry.group),
            by,
            document,
        };
        (slots, context)
    }

    pub(super) async fn wait(
        self: &Arc<Self>,
        entry: &Arc<Entry>,
        origin: &Origin,
        crawler: Crawler<'_>,
        profile: Option<ProfileName>,
        awaited: Awaited,
    ) -> View {
        let hold = self.settings.load().ours.config.hold;
        let waiting = self.wait_for_fetch(entry, origin, crawler, profile, awaited, 0);
        let is_in_time = timeout(hold, waiting).await.is_ok();
        let (mut slots, context) = self.begin_view(entry, crawler.document(), profile);
        let mut slot = slots.held(crawler, context.now);
        let mut view = context.view(slot.as_deref_mut());
        let mut is_confirmed = true;
        if let Some(slot) = slot {
            // The fleet could not be asked: it may have forgotten this state.
            is_confirmed = self.sharing.is_none() || !slot.is_unconfirmed();
            self.update_size(slot);
        }
        if !is_in_time || !is_confirmed {
            view.stance = Stance::Unknown;
        }
        view
    }

    /// Waits until the fetch that `awaited` is, or leads to, has ended. A fetch that was cut short because more than
    /// `depth` others waited for it is followed by another.
    pub(super) async fn wait_for_fetch(
        self: &Arc<Self>,
        entry: &Arc<Entry>,
        origin: &Origin,
        crawler: Crawler<'_>,
        profile: Option<ProfileName>,
        mut awaited: Awaited,
        depth: u8,
    ) -> Ended {
        loop {
            match awaited {
                Awaited::Fetch(mut flight) => match flight.ended().await {
                    Ended::Cut(waiting) if waiting > depth => {}
                    ended => return ended,
                },
                Awaited::StoreLookup(mut recalling) => {
                    // The sender is never used; it is dropped when the slots have their states.
                    let _ = recalling.changed().await;
                }
            }
            match self.look(entry, origin, crawler, profile, depth) {
                (_, Some(next)) => awaited = next,
                (_, None) => return Ended::Completed,
            }
        }
    }

    /// Returns the flight of a slot. Without one, starts one, which counts against the client that asks.
    pub(super) fn join(
        self: &Arc<Self>,
        entry: &Arc<Entry>,
        (origin, requester): (&Origin, Option<RequestingClient<'_>>),
        slot: &mut Slot,
        depth: u8,
        reason: FlightReason,
    ) -> FetchHandle {
        slot.reason = match slot.flight {
            Some(_) => slot.reason.max(reason),
            None => reason,
        };
        let flight = slot.flight.get_or_insert_with(|| {
            let subject = FetchSubject {
                origin: origin.clone(),
                identity: slot.identity.clone(),
                client: requester.map(ClientKey::of),
                depth,
            };
            self.start_fetch(entry, subject)
        });
        flight.clone()
    }
}
