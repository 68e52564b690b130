//! Fetches and drops states on an operator's command.

use std::sync::Arc;

use tokio::task::JoinSet;

use super::entry::{Entry, FlightReason, Slot, StoreLookup};
use super::{RobotsCache, Shared};
use crawlgate_origins::document::Document;
use crawlgate_origins::identity::{Crawler, Identity};
use crawlgate_origins::state::State;
use crawlgate_robots::Origin;
use crawlgate_store::StoreError;
use crawlgate_turns::fleet::CoordinatorError;

impl RobotsCache {
    /// Fetches the documents of `origin` now, as `which` or as all identities with a state, even if the next attempt
    /// is not due; returns the states afterwards. robots.txt comes first: a tdmrep.json that it disallows is not fetched. A fetch in progress began before this call, so it is awaited and
    /// another follows. There is no time-out here: a fetch has its own.
    ///
    /// # Errors
    /// When the store cannot load the earlier states. Nothing is fetched then: the outcome could not be added to them.
    pub async fn refresh(
        &self,
        origin: &Origin,
        which: Option<&Identity>,
    ) -> Result<Vec<(Identity, Arc<State>)>, StoreError> {
        self.refresh_for(origin, which, FlightReason::FetchAnew).await
    }

    /// Does the same as [`RobotsCache::refresh`], after another instance of the fleet has: takes over its state, and fetches
    /// only if that instance has none.
    ///
    /// # Errors
    /// When the store cannot load the earlier states.
    pub async fn follow_refresh(
        &self,
        origin: &Origin,
        which: Option<&Identity>,
    ) -> Result<(), StoreError> {
        let refreshed = self.refresh_for(origin, which, FlightReason::Fetch).await;
        refreshed.map(drop)
    }

    async fn refresh_for(
        &self,
        origin: &Origin,
        which: Option<&Identity>,
        reason: FlightReason,
    ) -> Result<Vec<(Identity, Arc<State>)>, StoreError> {
        let shared = &self.shared;
        let entry = shared.entry(origin);
        shared.recalled(&entry, origin).await?;
        let identities = match which {
            Some(identity) => vec![identity.clone()],
            None => {
                let slots = entry.slots.lock();
                let known: Vec<_> = slots.iter().map(|slot| slot.identity.clone()).collect();
                if known.is_empty() { vec![Identity::default()] } else { known }
            }
        };
        let mut refreshed = Vec::new();
        for document in Document::ALL {
            let mut refreshing = JoinSet::new();
            let of_it = identities.iter().enumerate();
            for (at, identity) in of_it.filter(|(_, one)| one.document() == document) {
                let (shared, entry) = (Arc::clone(shared), Arc::clone(&entry));
                let (origin, identity) = (origin.clone(), identity.clone());
                refreshing.spawn(async move {
                    let state = shared.refresh(&entry, &origin, &identity, reason).await;
                    state.map(|state| (at, identity, state))
                });
            }
            refreshed.extend(refreshing.join_all().await.into_iter().flatten());
        }
        refreshed.sort_by_key(|(at, identity, _)| (identity.document(), *at));
        let refreshed = refreshed.into_iter();
        Ok(refreshed.map(|(_, identity, state)| (identity, state)).collect())
    }

    /// Drops the states of `origin`, of one identity or of all, from memory and from the store; the next request treats
    /// the origin as new. Tells whether there were any. A fetch in progress continues and makes the first new state.
    ///
    /// # Errors
    /// When the store cannot drop them. Nothing is forgotten then.
    pub async fn forget(
        &self,
        origin: &Origin,
        which: Option<&Identity>,
    ) -> Result<bool, StoreError> {
        let shared = &self.shared;
        let entry = shared.entry(origin);
        let is_meant = |slot: &Slot| which.is_none_or(|identity| slot.identity == *identity);
        // First, so that a flight that ends meanwhile changes a state that is dropped.
        let (before, recall) = {
            let mut slots = entry.slots.lock();
            let mut before = Vec::new();
            for slot in slots.iter_mut().filter(|slot| is_meant(slot)) {
                let state = std::mem::take(&mut slot.state);
                slot.failed = None;
                before.push((slot.identity.clone(), state, slot.fetched_as.take()));
                shared.update_size(slot);
            }
            let unused = |slot: &Slot| is_meant(slot) && slot.flight.is_none();
            slots.retain(|slot| !unused(slot), &mut |change| shared.count(change));
            shared.recount(&mut slots);
            shared.changes.origin_updated(entry.group);
            let recall = match which {
                // The other identities' states are still to be loaded.
                Some(_) => None,
                None => Some(std::mem::replace(&mut slots.recall, StoreLookup::Done)),
            };
            (before, recall)
        };
        let was_known = before.iter().any(|(_, state, _)| !matches!(**state, State::NeverFetched));
        let Some(persistent) = &shared.persistent else {
            return Ok(was_known);
        };
        match persistent.forget(origin, which).await {
            Ok(was_kept) => Ok(was_known || was_kept),
            Err(error) => {
                let mut slots = entry.slots.lock();
                for (identity, state, fetched_as) in before {
                    let crawler = identity.token().map_or(&[][..], std::slice::from_ref);
                    let crawler = Crawler::with(&identity, crawler);
                    let now = shared.clock.now();
                    let slot = slots.slot(crawler, now, &mut |change| shared.count(change));
                    if let Some(slot) = slot
                        && matches!(*slot.state, State::NeverFetched)
                    {
                        (slot.state, slot.fetched_as) = (state, fetched_as);
                        shared.update_size(slot);
                    }
                }
                if let Some(recall) = recall {
                    slots.recall = recall;
                }
                shared.recount(&mut slots);
                Err(error)
            }
        }
    }
}

impl RobotsCache {
    /// Makes the other instances of the fleet forget the states of `origin`, too, of one identity or of those known here,
    /// in memory or in the store. Each drops its own by [`RobotsCache::forget`].
    ///
    /// # Errors
    /// When the fleet's engine does not answer, or the store cannot name the identities.
    pub async fn forget_in_fleet(
        &self,
        origin: &Origin,
        which: Option<&Identity>,
    ) -> Result<(), NotForgotten> {
        let shared = &self.shared;
        let Some(sharing) = &shared.sharing else {
            return Ok(());
        };
        let identities = match which {
            Some(identity) => vec![identity.clone()],
            None => {
                let entry = shared.entry(origin);
                shared.recalled(&entry, origin).await?;
                let slots = entry.slots.lock();
                let known = slots.iter().map(|slot| slot.identity.clone());
                known.chain(Document::ALL.map(Identity::common)).collect()
            }
        };
        shared.forget_shared(sharing, origin, &identities).await?;
        Ok(())
    }
}

/// The reason why the fleet has not forgotten an origin.
#[derive(Debug, Clone, thiserror::Error)]
pub enum NotForgotten {
    /// The engine does not keep it.
    #[error(transparent)]
    Engine(#[from] CoordinatorError),
    /// The identities with a state are unknown.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Shared {
    /// Fetches once more for one identity, see [`RobotsCache::refresh`]; `None` if the document may not be fetched.
    async fn refresh(
        self: Arc<Self>,
        entry: &Arc<Entry>,
        origin: &Origin,
        identity: &Identity,
        reason: FlightReason,
    ) -> Option<Arc<State>> {
        if !self.may_refresh(origin, identity) {
            return None;
        }
        let tokens = identity.token().map_or(&[][..], std::slice::from_ref);
        let crawler = Crawler::with(identity, tokens);
        loop {
            let (mut flight, is_ours) = {
                let mut slots = entry.slots.lock();
                let now = self.clock.now();
                let slot = slots.slot(crawler, now, &mut |change| self.count(change));
                let slot = slot?;
                let is_ours = slot.flight.is_none();
                (self.join(entry, (origin, None), slot, 0, reason), is_ours)
            };
            flight.ended().await;
            if is_ours {
                let mut slots = entry.slots.lock();
                let slot = slots.held(crawler, self.clock.now());
                return Some(slot.map_or_else(Arc::default, |slot| Arc::clone(&slot.state)));
            }
        }
    }
}
