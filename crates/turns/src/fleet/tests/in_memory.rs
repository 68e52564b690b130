//! The engine of a fleet within one process, for tests: the same answers as Valkey and Redis give. Its turns follow the
//! law that a gate without a fleet keeps, too ([`history`](crate::history)).

mod limiters;
mod quotas;

use std::collections::{BTreeMap, HashMap};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use self::limiters::Limiters;
use self::quotas::Quotas;
use super::coordinator::{
    AcquireFetch, Call, Coordinator, CoordinatorError, EngineTime, FetchLease, Heartbeat,
    HeartbeatReply, MemberRow, NAME_HELD, News, PublishState, Published, SealedOverrides,
    SharedState, StateKey, Token,
};
use super::quota::{ChargeQuota, Charged};
use super::reservation::{GiveBack, OriginBackoff, ReportBackoff, Reserve, Reserved, SLOT_LIFE};
use crawlgate_system::clock::{Clock, Moment};

/// A generation that begins later than this was begun by a clock that has been set back since.
const SET_BACK: Duration = Duration::from_secs(60);

/// The state that several coordinators share, in the place of an engine.
#[derive(Debug)]
pub struct InMemoryEngine {
    clock: Clock,
    state: Mutex<Contents>,
}

#[derive(Debug, Default)]
struct Contents {
    generation: u64,
    /// The time at which the generation began.
    began: EngineTime,
    /// The time of the first heartbeat after a span without any in which slots ran out.
    resumed: EngineTime,
    limiters: Limiters,
    quotas: Quotas,
    members: BTreeMap<String, Row>,
    overrides: SealedOverrides,
    news: Vec<String>,
    states: HashMap<StateKey, (SharedState, Moment)>,
    leases: HashMap<StateKey, Lease>,
}

/// A member.
#[derive(Debug)]
struct Row {
    process: String,
    key: String,
    report: String,
    last: Moment,
}

#[derive(Debug)]
struct Lease {
    holder: String,
    token: Token,
    until: Moment,
}

/// One instance's way to an [`InMemoryEngine`].
#[derive(Debug)]
pub struct InMemoryCoordinator {
    engine: Arc<InMemoryEngine>,
    known: Mutex<Known>,
}

/// The generation that an instance knows; 0: none.
#[derive(Debug, Default)]
struct Known {
    generation: u64,
    count: u64,
}

impl InMemoryEngine {
    /// Returns an empty world with the time of `clock`.
    #[must_use]
    pub fn new(clock: Clock) -> Arc<InMemoryEngine> {
        let began = engine_time(clock.now());
        Arc::new(InMemoryEngine {
            clock,
            state: Mutex::new(Contents { generation: 1, began, ..Contents::default() }),
        })
    }

    /// Returns the engine's clock.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Forgets everything, as an engine does that is started anew without its file.
    pub fn forget(&self) {
        let mut state = self.state.lock();
        let generation = state.generation + 1;
        *state =
            Contents { generation, began: engine_time(self.clock.now()), ..Contents::default() };
    }

    /// Returns one instance's way here.
    #[must_use]
    pub fn coordinator(self: &Arc<InMemoryEngine>) -> Arc<InMemoryCoordinator> {
        Arc::new(InMemoryCoordinator { engine: Arc::clone(self), known: Mutex::default() })
    }

    fn time(&self) -> (Moment, EngineTime) {
        let now = self.clock.now();
        (now, engine_time(now))
    }
}

impl InMemoryCoordinator {
    /// Calls `change` under the generation that this instance knows.
    fn call<'a, T: Send + 'a>(
        &'a self,
        change: impl FnOnce(&mut Contents, Moment, EngineTime) -> T + Send + 'a,
    ) -> Call<'a, T> {
        Box::pin(async move {
            let mut state = self.engine.state.lock();
            if self.known.lock().generation != state.generation {
                return Err(CoordinatorError::Lost);
            }
            let (now, at) = self.engine.time();
            Ok(change(&mut state, now, at))
        })
    }

    /// Calls `change` under any generation.
    fn call_regardless<'a>(
        &'a self,
        change: impl FnOnce(&mut Contents, EngineTime) + Send + 'a,
    ) -> Call<'a, ()> {
        Box::pin(async move {
            let mut state = self.engine.state.lock();
            let (_, at) = self.engine.time();
            change(&mut state, at);
            Ok(())
        })
    }
}

impl Coordinator for InMemoryCoordinator {
    fn keep_connected(self: Arc<Self>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(std::future::pending())
    }

    fn heartbeat<'a>(&'a self, beat: Heartbeat<'a>) -> Call<'a, HeartbeatReply> {
        Box::pin(async move {
            let (now, _) = self.engine.time();
            let mut state = self.engine.state.lock();
            if state.began > engine_time(now + SET_BACK) {
                state.generation += 1;
                state.began = engine_time(now);
                state.limiters = Limiters::default();
            }
            let last = state.members.values().map(|row| row.last).max();
            if last.is_some_and(|last| now.since(last) > SLOT_LIFE) {
                state.resumed = engine_time(now);
            }
            let forget = beat.forget_after;
            state
                .members
                .retain(|_, row| now.since(row.last) <= forget && row.last.since(now) <= forget);
            if let Some(row) = state.members.get(beat.name)
                && row.process != beat.process
                && row.last <= now
                && now.since(row.last) < NAME_HELD
            {
                return Err(CoordinatorError::Duplicate(beat.name.into()));
            }
            let before = state.members.get(beat.name);
            if before.is_none_or(|row| row.key != beat.key) {
                let mut others = state.members.iter().filter(|(name, _)| *name != beat.name);
                if let Some((name, _)) = others.find(|(_, row)| row.key != beat.key) {
                    return Err(CoordinatorError::OtherKey(name.as_str().into()));
                }
            }
            let row = Row {
                process: beat.process.to_owned(),
                key: beat.key.to_owned(),
                report: beat.report.to_owned(),
                last: now,
            };
            state.members.insert(beat.name.to_owned(), row);
            let last = state.news.len() as u64;
            let after = beat.after.unwrap_or(last);
            let known = usize::try_from(after).unwrap_or(usize::MAX);
            let items = state.news.get(known..).unwrap_or_default().to_vec();
            let mut known = self.known.lock();
            if known.generation != state.generation {
                known.generation = state.generation;
                known.count += 1;
            }
            Ok(HeartbeatReply {
                generation: known.count,
                overrides: state.overrides.change,
                news: News { has_gap: last < after, last, items },
                members: state.members.len() as u64,
            })
        })
    }

    fn leave<'a>(&'a self, name: &'a str, process: &'a str) -> Call<'a, ()> {
        self.call_regardless(move |state, _| {
            state.members.retain(|member, row| member != name || row.process != process);
        })
    }

    fn announce<'a>(&'a self, item: &'a str) -> Call<'a, ()> {
        self.call(move |state, _, _| state.news.push(item.to_owned()))
    }

    fn acquire_fetch<'a>(&'a self, ask: AcquireFetch<'a>) -> Call<'a, FetchLease> {
        self.call(move |state, now, at| {
            state.expire_state(ask.key, now);
            let published = state.states.get(ask.key).map(|(published, _)| published);
            let held = published.map_or(Token(0), |published| published.token);
            if let Some(published) = published.filter(|_| held > ask.known) {
                return FetchLease::Newer(published.clone(), at);
            }
            state.expire_lease(ask.key, now);
            let until = now + ask.lease;
            match state.leases.get_mut(ask.key) {
                Some(lease) if lease.holder != ask.holder => {
                    FetchLease::Held { by: lease.holder.clone(), left: lease.until.since(now) }
                }
                Some(lease) => {
                    lease.until = until;
                    let token = lease.token;
                    FetchLease::Acquired { token, held, at }
                }
                None => {
                    let highest = held.max(ask.known).max(ask.highest).max(Token(at.0));
                    let token = Token(highest.0 + 1);
                    let lease = Lease { holder: ask.holder.to_owned(), token, until };
                    state.leases.insert(ask.key.clone(), lease);
                    FetchLease::Acquired { token, held, at }
                }
            }
        })
    }

    fn publish_state<'a>(&'a self, new: PublishState<'a>) -> Call<'a, Published> {
        self.call(move |state, now, at| {
            state.expire_lease(new.key, now);
            state.expire_state(new.key, now);
            let held = state.leases.get(new.key);
            if held.is_some_and(|held| held.holder == new.holder && held.token == new.token) {
                state.leases.remove(new.key);
            }
            let before = state.states.get(new.key).map(|(before, _)| before);
            if let Some(before) = before.filter(|before| before.token > new.token) {
                return Published::Superseded(before.clone(), at);
            }
            let published = SharedState { token: new.token, sealed: new.sealed.to_vec() };
            let kept = (published, now + new.keep.max(Duration::from_millis(1)));
            state.states.insert(new.key.clone(), kept);
            Published::Done
        })
    }

    fn release_fetch<'a>(&'a self, key: &'a StateKey, holder: &'a str) -> Call<'a, ()> {
        self.call(move |state, now, _| {
            state.expire_lease(key, now);
            if state.leases.get(key).is_some_and(|lease| lease.holder == holder) {
                state.leases.remove(key);
            }
        })
    }

    fn add_override<'a>(&'a self, id: &'a str, sealed: &'a [u8]) -> Call<'a, u64> {
        self.call(move |state, _, at| state.overrides.put(false, id, sealed, at))
    }

    fn remove_override<'a>(&'a self, id: &'a str, sealed: &'a [u8]) -> Call<'a, u64> {
        self.call(move |state, _, at| state.overrides.put(true, id, sealed, at))
    }

    fn overrides(&self) -> Call<'_, SealedOverrides> {
        self.call(|state, _, _| state.overrides.clone())
    }

    fn members(&self) -> Call<'_, Vec<MemberRow>> {
        self.call(|state, now, _| state.rows(now))
    }

    fn reserve<'a>(&'a self, ask: Reserve<'a>) -> Call<'a, Reserved> {
        self.call(move |state, _, at| state.limiters.reserve(ask, at, (state.began, state.resumed)))
    }

    fn give_back<'a>(&'a self, turn: GiveBack<'a>) -> Call<'a, ()> {
        self.call(move |state, _, _| state.limiters.give_back(turn))
    }

    fn report_backoff<'a>(&'a self, report: ReportBackoff<'a>) -> Call<'a, OriginBackoff> {
        self.call(move |state, _, at| state.limiters.report(report, at, state.began))
    }

    fn renew_slots<'a>(&'a self, origin: &'a str, slots: &'a [String]) -> Call<'a, ()> {
        self.call_regardless(move |state, at| state.limiters.renew(origin, slots, at, state.began))
    }

    fn release_slot<'a>(&'a self, origin: &'a str, slot: &'a str) -> Call<'a, ()> {
        self.call_regardless(move |state, _| state.limiters.release(origin, slot))
    }

    fn charge_quota<'a>(&'a self, charge: ChargeQuota<'a>) -> Call<'a, Charged> {
        self.call(move |state, _, at| state.quotas.charge(charge, at, state.began))
    }
}

impl SealedOverrides {
    /// Puts content under an identifier; returns the number of the last change.
    fn put(&mut self, is_removal: bool, id: &str, sealed: &[u8], at: EngineTime) -> u64 {
        let set = if is_removal { &mut self.removed } else { &mut self.added };
        let held = set.iter_mut().find(|(known, _)| known == id);
        match held {
            Some((_, content)) if content == sealed => return self.change,
            Some((_, content)) => *content = sealed.to_vec(),
            None => set.push((id.to_owned(), sealed.to_vec())),
        }
        self.change = at.0.max(self.change + 1);
        self.change
    }
}

impl Contents {
    fn rows(&self, now: Moment) -> Vec<MemberRow> {
        let row = |(name, row): (&String, &Row)| MemberRow {
            name: name.clone(),
            report: row.report.clone(),
            silent: now.since(row.last),
        };
        self.members.iter().map(row).collect()
    }

    /// Drops the lease under this key if it has expired. An engine does so once a script asks for it: a clock that is set
    /// back afterwards does not bring the lease back.
    fn expire_lease(&mut self, key: &StateKey, now: Moment) {
        if self.leases.get(key).is_some_and(|lease| lease.until <= now) {
            self.leases.remove(key);
        }
    }

    /// Drops the state under this key if it has expired.
    fn expire_state(&mut self, key: &StateKey, now: Moment) {
        if self.states.get(key).is_some_and(|(_, until)| *until <= now) {
            self.states.remove(key);
        }
    }
}

fn engine_time(now: Moment) -> EngineTime {
    EngineTime(now.as_millis().saturating_mul(1_000))
}
