//! The states of a fleet: one instance fetches a robots.txt, and all adopt its state.
//!
//! A flight asks the fleet's engine before it asks the origin. It finds a newer state, which it adopts; or a fetch in
//! progress elsewhere, which it waits for; or it gets the lease, fetches, and publishes. A state is adopted only if the
//! fleet's key has sealed it and its text has the digest that it names; it then goes to the own store, before a record
//! rests on it. A state that is late is refused by its token, and the newer one is adopted instead.
//!
//! While the engine does not answer, nothing is fetched and no result comes into force: the origin stays unknown, and its
//! requests wait for at most `[robots] hold`.

mod forget;
mod head;
mod packed;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval, sleep};
use tracing::{info, warn};

use self::head::{Content, Head, digest, place};
use super::entry::FlightReason;
use super::flight::FetchTask;
use super::recall::is_later;
use super::settings::Settings;
use crawlgate_origins::access::AccessResult;
use crawlgate_origins::identity::{FetchedAs, Identity};
use crawlgate_origins::state::Due;
use crawlgate_robots::Origin;
use crawlgate_store::persist::{from_stored, to_stored};
use crawlgate_store::{Fetch, OriginUpdate, StoredState};
use crawlgate_system::clock::{Moment, Uptime};
use crawlgate_system::metrics::GaugeGuard;
use crawlgate_text::DecisionId;
use crawlgate_turns::fleet::coordinator::{
    AcquireFetch, CoordinatorError, EngineTime, FetchLease, PublishState, Published, SharedState,
    StateKey, Token,
};
use crawlgate_turns::fleet::{Fleet, HeartbeatReply, LinkState};

/// The time for which a lease holds. A fetch that ended without telling is followed by another after it.
const LEASE: Duration = Duration::from_secs(3);

/// The time between renewals of a lease.
const RENEWAL: Duration = Duration::from_secs(1);

/// The first and the longest pause while another instance fetches, or the engine does not answer.
const PAUSE: Duration = Duration::from_millis(25);
const LONGEST: Duration = Duration::from_millis(250);

/// The time for which the engine keeps a state, after it is stale. Without it, the origin is fetched again.
const KEPT: Duration = Duration::from_secs(3_600);

/// The time for which the engine keeps a state of failures, from which the outage is counted.
const OUTAGE_KEPT: Duration = Duration::from_secs(35 * 86_400);

/// Limit on the wait for another instance's fetch, for a fetch that others wait for. Where two origins redirect to each
/// other, two instances would wait for each other.
const HOP_WAIT: Duration = Duration::from_secs(2);

/// The fleet's part of a cache.
pub(super) struct Sharing {
    fleet: Arc<Fleet>,
    /// The highest token seen at any origin.
    highest: AtomicU64,
    /// The generation of the engine that was heard of last.
    generation: AtomicU64,
    /// Counts the times after which each state is compared with that of the fleet.
    epoch: AtomicU64,
}

/// The right to fetch.
struct Lease {
    key: StateKey,
    holder: String,
    token: Token,
    /// The epoch in which the engine was asked first.
    epoch: u64,
    /// The fleet has another state than this instance, and neither is known to be the later one.
    is_disputed: bool,
    /// The engine's time at a moment of this machine.
    at: (EngineTime, Uptime),
    _counted: GaugeGuard,
}

/// A state that the fleet's key has sealed: its token, the state, and the text of its file.
type Opened = (Token, Head, Option<Vec<u8>>);

/// The answer of the fleet to a flight that asks before it fetches.
enum LeaseAnswer {
    /// It fetches.
    Fetch(Lease),
    /// The state of another instance is in force, or the own one is that of the fleet.
    Settled,
    /// Nothing is known: this instance is cut off, or has waited for another one for long enough.
    Withheld,
}

/// The lease of a flight when its fetch has ended.
enum LeaseState {
    /// It holds the lease.
    Held,
    /// Another instance has fetched meanwhile, or does.
    Overtaken,
    /// This instance is cut off.
    CutOff,
}

impl Sharing {
    pub(super) fn new(fleet: Arc<Fleet>) -> Sharing {
        Sharing {
            fleet,
            highest: AtomicU64::new(0),
            generation: AtomicU64::new(0),
            epoch: AtomicU64::new(0),
        }
    }

    /// Takes in a heartbeat: the engine may have lost states, or a message to forget one has not arrived.
    pub(super) fn on_heartbeat(&self, reply: &HeartbeatReply) {
        let before = self.generation.swap(reply.generation, Ordering::AcqRel);
        if before != reply.generation || reply.news.has_gap {
            self.epoch.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Returns the number of times after which each state is compared with that of the fleet.
    pub(super) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Asks for a state newer than `known`, or for the lease.
    async fn acquire(
        &self,
        key: &StateKey,
        holder: &str,
        known: Token,
    ) -> Result<FetchLease, CoordinatorError> {
        let ask = AcquireFetch {
            key,
            holder,
            known,
            highest: Token(self.highest.load(Ordering::Relaxed)),
            lease: LEASE,
        };
        let lease = self.fleet.coordinator().acquire_fetch(ask).await?;
        // A token of a state counts when its seal is known to hold.
        if let FetchLease::Acquired { token, .. } = &lease {
            self.highest.fetch_max(token.0, Ordering::Relaxed);
        }
        Ok(lease)
    }

    /// Returns a name for a fetch, unique over all instances.
    fn holder(&self, now: Moment) -> String {
        format!("{}/{}", self.fleet.name(), DecisionId::mint(now))
    }

    /// Returns the place of the state of `identity` at `origin` under these settings.
    fn key(origin: &Origin, identity: &Identity, settings: &Settings) -> StateKey {
        let read = head::reading(settings, identity);
        let document = identity.document();
        let named = digest(identity.to_string().as_bytes());
        StateKey { origin: origin.to_string(), variant: format!("{document}-{named}-{read}") }
    }

    /// Returns the content of a state; `None` if the fleet's key has not sealed it, or it is that of another identity.
    fn open(
        &self,
        key: &StateKey,
        identity: &Identity,
        state: &SharedState,
        settings: &Settings,
    ) -> Option<Opened> {
        let token = state.token.0.to_be_bytes();
        let place = place(key, &token);
        let opened = self.fleet.key().open(&place, &state.sealed);
        let opened = opened.and_then(|octets| Head::read(octets, identity, settings.longest()));
        if opened.is_some() {
            self.highest.fetch_max(state.token.0, Ordering::Relaxed);
        } else {
            self.fleet.status().refused();
            warn!(origin = %key.origin, "the engine holds a state that this fleet has not made; it is fetched again");
        }
        opened.map(|(head, text)| (state.token, head, text))
    }
}

impl FetchTask {
    /// Fetches, unless another instance of the fleet has, and publishes the state.
    pub(super) async fn run_in_fleet(&mut self, sharing: &Sharing, settings: &Settings) {
        loop {
            let mut lease = match self.ask_for_lease(sharing, settings).await {
                LeaseAnswer::Fetch(lease) => lease,
                LeaseAnswer::Settled | LeaseAnswer::Withheld => return self.end_without_fetch(),
            };
            let (result, fetch) = lease.held_for(sharing, self.fetched(settings)).await;
            // Before any request sees the result: another instance may have a newer one.
            let before = match self.lease_state(sharing, &mut lease).await {
                LeaseState::Held => self.set_order(lease.token, Some(lease.epoch)),
                LeaseState::Overtaken => {
                    sharing.fleet.status().lease_lost();
                    continue;
                }
                LeaseState::CutOff => return self.end_without_fetch(),
            };
            let has_failed = matches!(result, AccessResult::Unreachable { .. });
            if lease.is_disputed && before.0 == Token::default() && has_failed {
                self.drop_state();
            }
            return match self.end(result, fetch) {
                Some(fetch) => self.publish(sharing, &lease, settings, fetch).await,
                None => {
                    // The state is the one from before.
                    self.set_order(before.0, before.1);
                    self.release(sharing, &lease).await;
                }
            };
        }
    }

    /// Renews a lease after its fetch, so that no other instance fetches until the state is published. Waits for the
    /// engine: a result that may be older than the fleet's permits nothing.
    async fn lease_state(&self, sharing: &Sharing, lease: &mut Lease) -> LeaseState {
        loop {
            let asked = sharing.acquire(&lease.key, &lease.holder, lease.token);
            match asked.await {
                Ok(FetchLease::Acquired { token, at, .. }) => {
                    lease.token = token;
                    lease.at = (at, self.shared.clock.uptime());
                    return LeaseState::Held;
                }
                Ok(FetchLease::Newer(..) | FetchLease::Held { .. }) => {
                    return LeaseState::Overtaken;
                }
                Err(_) if sharing.fleet.link() == LinkState::CutOff => return LeaseState::CutOff,
                Err(_) => sleep(LONGEST).await,
            }
        }
    }

    /// Asks the fleet for a newer state, or for the right to fetch one. Waits for a fetch that is in progress elsewhere.
    async fn ask_for_lease(&self, sharing: &Sharing, settings: &Settings) -> LeaseAnswer {
        let Sharing { fleet, .. } = sharing;
        let key = Sharing::key(&self.subject.origin, &self.subject.identity, settings);
        let clock = &self.shared.clock;
        let holder = sharing.holder(clock.now());
        let epoch = sharing.epoch();
        let mut refused = Token::default();
        let mut pause = PAUSE;
        let began = clock.uptime();
        loop {
            let known = self.token().max(refused);
            match sharing.acquire(&key, &holder, known).await {
                Ok(FetchLease::Acquired { token, held, at }) => {
                    let lease = Lease {
                        key,
                        holder,
                        token,
                        epoch,
                        is_disputed: refused > Token::default(),
                        at: (at, clock.uptime()),
                        _counted: sharing.fleet.status().lease_acquired(),
                    };
                    // The engine was restored from an old file, or its state is broken, or older by clocks that may have
                    // been apart: the origin tells which state is right.
                    let is_behind =
                        refused > Token::default() || (held > Token::default() && held < known);
                    if is_behind || self.reason() > FlightReason::Confirm || self.is_due(settings) {
                        return LeaseAnswer::Fetch(lease);
                    }
                    // Nothing is published, so the engine's token stays that of this state.
                    let token = match held > Token::default() {
                        true => held,
                        false => lease.token,
                    };
                    self.set_order(token, Some(epoch));
                    self.release(sharing, &lease).await;
                    return LeaseAnswer::Settled;
                }
                Ok(FetchLease::Newer(state, at)) => {
                    let opened = sharing.open(&key, &self.subject.identity, &state, settings);
                    match opened.is_some_and(|opened| self.adopt(settings, opened, at, epoch)) {
                        true if !self.is_due(settings) => return LeaseAnswer::Settled,
                        true => {}
                        false => refused = state.token,
                    }
                    // Its next fetch is due already, or this instance cannot read it: ask for the lease.
                    continue;
                }
                Ok(FetchLease::Held { .. })
                    if self.subject.depth > 0 && clock.uptime().since(began) > HOP_WAIT =>
                {
                    return LeaseAnswer::Withheld;
                }
                Ok(FetchLease::Held { .. }) => {}
                Err(_) if fleet.link() == LinkState::CutOff => return LeaseAnswer::Withheld,
                Err(_) => {}
            }
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST);
        }
    }

    /// Returns the token of the state that this instance has.
    fn token(&self) -> Token {
        let mut slots = self.entry.slots.lock();
        let slot = slots.of(&self.subject.identity);
        slot.map_or(Token::default(), |slot| slot.token)
    }

    /// Returns the reason for this flight, which may have become a stronger one.
    fn reason(&self) -> FlightReason {
        let mut slots = self.entry.slots.lock();
        let slot = slots.of(&self.subject.identity);
        slot.map_or(FlightReason::Fetch, |slot| slot.reason)
    }

    /// Sets the place of the state in force, or of the one that comes into force now, among those of the fleet, and the
    /// epoch in which it was compared with them. Returns what they were.
    fn set_order(&self, token: Token, epoch: Option<u64>) -> (Token, Option<u64>) {
        let mut slots = self.entry.slots.lock();
        let slot = slots.of(&self.subject.identity);
        slot.map_or_else(Default::default, |slot| {
            let before = (slot.token, slot.epoch);
            (slot.token, slot.epoch) = (token, epoch);
            before
        })
    }

    /// Drops a state of the own store that is not known to be the later one: no copy stands in for an origin that does not
    /// answer then.
    fn drop_state(&self) {
        if let Some(slot) = self.entry.slots.lock().of(&self.subject.identity) {
            slot.state = Arc::default();
            slot.fetched_as = None;
        }
    }

    /// Tells whether the state in force calls for a fetch, or the operator does.
    fn is_due(&self, settings: &Settings) -> bool {
        let now = self.shared.clock.now();
        let mut slots = self.entry.slots.lock();
        let slot = slots.of(&self.subject.identity);
        slot.is_none_or(|slot| {
            let document = self.subject.identity.document();
            let due = slot.state.due_of(document, now, &settings.ours.config.timing.profile);
            due != Due::No || slot.reason == FlightReason::FetchAnew
        })
    }

    /// Puts a state of another instance in force, which was asked for in this epoch. False if the state is broken, or
    /// older than the own one.
    fn adopt(&self, settings: &Settings, opened: Opened, at: EngineTime, epoch: u64) -> bool {
        let (token, head, text) = opened;
        let config = &settings.ours.config;
        let origin = &self.subject.origin;
        let now = self.shared.clock.now();
        let content = head.content(at, now);
        let mut slots = self.entry.slots.lock();
        // A slot with a flight is never removed.
        let Some(slot) = slots.of(&self.subject.identity) else {
            return true;
        };
        let Some(Content { stored, fetch, user_agent }) = content else {
            // The origin was forgotten.
            (slot.token, slot.epoch) = (token, Some(epoch));
            slot.state = Arc::default();
            slot.fetched_as = None;
            return true;
        };
        let adopted = stored
            .agrees_with(&fetch)
            .and_then(|()| from_stored(&stored, text.as_deref(), config.lenient));
        let adopted = match adopted {
            Ok(adopted) => Arc::new(adopted),
            Err(broken) => {
                warn!(%origin, "the fleet's state of this origin is damaged, so its robots.txt is fetched again: {broken}");
                return false;
            }
        };
        // The store keeps no tokens, so the engine may have lost states since this one. The clocks of instances may differ.
        if slot.is_unconfirmed() && is_later(&slot.state, &adopted) {
            info!(%origin, identity = %self.subject.identity, "the fleet's state of this origin seems to be older than the own one, so its robots.txt is fetched again");
            return false;
        }
        info!(%origin, identity = %self.subject.identity, state = adopted.name(), "the state of this origin was taken from the fleet");
        (slot.token, slot.epoch) = (token, Some(epoch));
        slot.state = Arc::clone(&adopted);
        slot.failed = adopted.outage().map(|_| self.shared.clock.uptime());
        let fetched_as = FetchedAs::new(self.subject.identity.clone(), user_agent.as_str().into());
        slot.fetched_as = Some(Arc::new(fetched_as));
        self.shared.changes.origin_updated(self.entry.group);
        self.shared.update_size(slot);
        if let (Some(persistent), Some(fetch)) = (&self.shared.persistent, fetch) {
            // Under the lock: no request uses this state before the log has it, so its records come after it.
            persistent.record(OriginUpdate {
                origin: origin.clone(),
                state: adopted,
                user_agent: user_agent.into(),
                fetch,
            });
        }
        true
    }

    /// Makes the state in force that of the fleet, with the `fetch` behind it.
    async fn publish(&self, sharing: &Sharing, lease: &Lease, settings: &Settings, fetch: Fetch) {
        let clock = &self.shared.clock;
        let found = {
            let mut slots = self.entry.slots.lock();
            slots.of(&self.subject.identity).and_then(|slot| {
                let user_agent = slot.fetched_as.as_ref()?.user_agent.to_string();
                Some((Arc::clone(&slot.state), user_agent))
            })
        };
        let Some((state, user_agent)) = found else {
            return;
        };
        let Some(stored) = to_stored(&state) else {
            return;
        };
        let now = clock.now();
        let (at, then) = lease.at;
        let elapsed = clock.uptime().since(then).as_micros();
        let at = EngineTime(at.0.saturating_add(u64::try_from(elapsed).unwrap_or(u64::MAX)));
        let content = Content { stored, fetch: Some(fetch), user_agent };
        let text = state.snapshot().map(|snapshot| snapshot.robots.text());
        let identity = &self.subject.identity;
        let octets = Head::of(at, now, identity, &content).to_octets(text);
        let keep = match &content.stored {
            _ if state.outage().is_some() => OUTAGE_KEPT,
            StoredState::Successful { fresh, .. } | StoredState::Unavailable { fresh, .. } => {
                fresh.until.since(now) + KEPT
            }
            StoredState::Unreachable { .. } => OUTAGE_KEPT,
        };
        let token = lease.token.0.to_be_bytes();
        let sealed = sharing.fleet.key().seal(&place(&lease.key, &token), &octets);
        let publish = PublishState {
            key: &lease.key,
            holder: &lease.holder,
            token: lease.token,
            sealed: &sealed,
            keep,
        };
        let is_of_fleet = match sharing.fleet.coordinator().publish_state(publish).await {
            Ok(Published::Done) => true,
            Ok(Published::Superseded(newer, at)) => {
                sharing.fleet.status().result_refused();
                sharing
                    .open(&lease.key, identity, &newer, settings)
                    .is_some_and(|opened| self.adopt(settings, opened, at, lease.epoch))
            }
            Err(why) => {
                info!(origin = %self.subject.origin, "the state of this origin is not known to the fleet yet: {why}");
                false
            }
        };
        if !is_of_fleet {
            self.set_order(lease.token, None);
        }
    }

    /// Ends a lease without a state.
    async fn release(&self, sharing: &Sharing, lease: &Lease) {
        // It ends by itself otherwise.
        let coordinator = sharing.fleet.coordinator();
        let _ = coordinator.release_fetch(&lease.key, &lease.holder).await;
    }
}

impl Lease {
    /// Renews the lease until `work` has ended.
    async fn held_for<T>(&self, sharing: &Sharing, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        let mut renewals = interval(RENEWAL);
        renewals.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The first tick is at once.
        renewals.tick().await;
        loop {
            tokio::select! {
                done = &mut work => return done,
                _ = renewals.tick() => {
                    // A lost lease shows when the fetch has ended.
                    let _ = sharing.acquire(&self.key, &self.holder, self.token).await;
                }
            }
        }
    }
}
