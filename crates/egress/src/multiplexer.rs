//! HTTP/2 connections to origins, each shared by the exchanges of one client with one origin.
//!
//! A request takes a place on a connection that has one free, as far as the origin permits streams. If none is free,
//! one request makes another connection, up to a bound, while the others wait for it or for a free place. They also wait
//! for the first connection to an origin: if it turns out to speak HTTP/1.1, each of them then makes its own. Origins
//! are remembered by the protocol that they chose. No connection serves two origins, even if its certificate would
//! permit it: each origin has its own robots.txt.
//!
//! hyper-util's composable pools (`client::pool`) do not carry this: its `singleton` keeps one connection and no second
//! one where the streams of the first are used up, a `map` is one lock over all origins, and a service that comes out
//! of them tells neither how long it was idle nor whether a lost request was processed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use dashmap::DashMap;
use parking_lot::Mutex;
use quick_cache::sync::Cache;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use super::Failure;
use super::http2::Connection;
use super::idle::{IdleBudget, UseCount};
use super::key::Key;
use crawlgate_robots::Origin;
use crawlgate_system::clock::{Clock, Moment};

/// Number of origins with a remembered protocol.
const REMEMBERED: usize = 8192;

/// Idle time after which a connection may have been lost without a sign.
const SILENT: Duration = Duration::from_secs(5);

/// The protocol that an origin chose last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    /// HTTP/1.1. HTTP/2 is offered again with each connection.
    Http1,
    /// HTTP/2.
    Http2,
    /// HTTP/1.1, after it refused a request by HTTP/2 (HTTP_1_1_REQUIRED, or a 421), or broke its rules.
    Http1Only,
}

/// Shared connections, by origin and client.
pub(super) struct Multiplexer {
    groups: DashMap<Key, Arc<Group>, ahash::RandomState>,
    protocols: Arc<Protocols>,
    bounds: Arc<Bounds>,
}

/// The bounds of all groups, with what they share.
#[derive(Debug)]
pub(super) struct Bounds {
    /// Most connections for one key.
    pub(super) connections: usize,
    /// Most exchanges at once on one connection.
    pub(super) streams: usize,
    /// Time that a connection without exchanges is kept.
    pub(super) timeout: Duration,
    /// Connections without exchanges, over all origins.
    pub(super) idle: Arc<IdleBudget>,
    pub(super) clock: Clock,
    /// Number of times all groups were emptied: connections made before do not come in again.
    pub(super) generation: AtomicU64,
}

/// The connections of one key.
pub(super) struct Group {
    state: Mutex<State>,
    /// A connection or a place came, or a connection failed.
    changed: Arc<Notify>,
    bounds: Arc<Bounds>,
    origin: Origin,
    protocols: Arc<Protocols>,
}

/// The protocols that origins chose last.
struct Protocols(Cache<Origin, Protocol>);

#[derive(Default)]
struct State {
    open: Vec<Member>,
    is_dialling: bool,
    /// Number of the connection attempt under way, or of the last one.
    attempt: u64,
    /// The last attempt that failed.
    failed: Option<(u64, Failure)>,
}

/// A connection in use or idle.
struct Member {
    connection: Arc<Connection>,
    /// Exchanges on it.
    streams: usize,
    /// The end of the last exchange.
    since: Moment,
    past: UseCount,
    /// The generation that it was made in.
    generation: u64,
}

/// A place for one exchange on a shared connection, given back when it is dropped.
pub(super) struct Place {
    pub(super) connection: Arc<Connection>,
    /// Time for which the connection carried no exchange.
    pub(super) idle_for: Duration,
    /// Its history before this exchange.
    pub(super) past: UseCount,
    group: Arc<Group>,
    generation: u64,
}

/// The way for a request that found no free place.
pub(super) enum Turn {
    /// A place has become free.
    Place(Place),
    /// It makes the next connection, and tells the others of the outcome.
    Dial(Dial),
    /// The origin speaks HTTP/1.1: each request makes its own connection.
    Alone,
}

/// A connection attempt that others wait for.
pub(super) struct Dial {
    group: Arc<Group>,
    attempt: u64,
    failed: Option<Failure>,
}

impl Multiplexer {
    pub(super) fn new(bounds: Bounds) -> Multiplexer {
        Multiplexer {
            groups: DashMap::default(),
            protocols: Arc::new(Protocols(Cache::new(REMEMBERED))),
            bounds: Arc::new(bounds),
        }
    }

    /// Returns the generation of connections that are made from now on.
    pub(super) fn generation(&self) -> u64 {
        self.bounds.generation.load(Ordering::Acquire)
    }

    /// Returns the protocol that an origin chose last.
    pub(super) fn protocol(&self, origin: &Origin) -> Option<Protocol> {
        self.protocols.0.get(origin)
    }

    /// Remembers the protocol that an origin has chosen.
    pub(super) fn remember(&self, origin: &Origin, protocol: Protocol) {
        self.protocols.remember(origin, protocol);
    }

    /// Forgets the protocol that an origin has chosen.
    pub(super) fn forget(&self, origin: &Origin) {
        self.protocols.0.remove(origin);
    }

    /// Remembers that an origin wants HTTP/1.1. Its connections for `key` take no further request.
    pub(super) fn leave(&self, key: &Key) {
        self.remember(key.origin(), Protocol::Http1Only);
        let Some(group) = self.groups.get(key).map(|group| Arc::clone(&*group)) else {
            return;
        };
        group.retire();
    }

    /// Takes a free place on an open connection that `fits`.
    pub(super) fn take(&self, key: &Key, fits: impl Fn(&Connection) -> bool) -> Option<Place> {
        let group = Arc::clone(&*self.groups.get(key)?);
        let mut state = group.state.lock();
        group.take(&mut state, fits)
    }

    /// Waits for a free place, or for leave to make a connection. Tells, too, whether all places were taken meanwhile.
    ///
    /// # Errors
    /// The failure of the connection attempt that the request has waited for, or the lack of a place `within` the time.
    pub(super) async fn turn(&self, key: &Key, within: Duration) -> Result<(Turn, bool), Failure> {
        let group = self.group(key);
        let deadline = Instant::now() + within;
        let mut awaited = None;
        let mut is_crowded = false;
        loop {
            let speaks = self.protocol(key.origin());
            if matches!(speaks, Some(Protocol::Http1 | Protocol::Http1Only)) {
                return Ok((Turn::Alone, is_crowded));
            }
            // Created first, so that no change is missed.
            let changed = group.changed.notified();
            {
                let mut state = group.state.lock();
                if let Some(place) = group.take(&mut state, |_| true) {
                    return Ok((Turn::Place(place), is_crowded));
                }
                if let Some((attempt, failure)) = &state.failed
                    && awaited == Some(*attempt)
                {
                    return Err(failure.clone());
                }
                if state.may_dial(group.bounds.connections) {
                    state.is_dialling = true;
                    state.attempt += 1;
                    let dial =
                        Dial { attempt: state.attempt, group: Arc::clone(&group), failed: None };
                    return Ok((Turn::Dial(dial), is_crowded));
                }
                awaited = state.is_dialling.then_some(state.attempt);
                is_crowded |= !state.open.is_empty();
            }
            if timeout_at(deadline, changed).await.is_err() {
                return Err(if is_crowded { Failure::Crowded } else { Failure::ConnectTimeout });
            }
        }
    }

    /// Returns the connections of a key.
    pub(super) fn group(&self, key: &Key) -> Arc<Group> {
        if let Some(group) = self.groups.get(key) {
            return Arc::clone(&*group);
        }
        let group = self.groups.entry(key.clone()).or_insert_with(|| {
            Arc::new(Group {
                state: Mutex::default(),
                changed: Arc::default(),
                bounds: Arc::clone(&self.bounds),
                origin: key.origin().clone(),
                protocols: Arc::clone(&self.protocols),
            })
        });
        Arc::clone(&*group)
    }

    /// Closes connections without exchanges, and returns their number.
    pub(super) fn close_idle(&self) -> usize {
        let closed = self.groups.iter().map(|group| {
            let mut state = group.state.lock();
            group.retain(&mut state, |member| member.streams > 0)
        });
        closed.sum()
    }

    /// Closes all connections, those in use as soon as their exchanges have ended, and forgets all protocols.
    pub(super) fn empty(&self) {
        // First: a connection that is made meanwhile has an older generation, or is found below.
        self.bounds.generation.fetch_add(1, Ordering::AcqRel);
        self.protocols.0.clear();
        for group in &self.groups {
            let mut state = group.state.lock();
            group.retain(&mut state, |_| false);
        }
    }

    /// Closes connections that have been idle for too long or have ended, and forgets unused groups.
    pub(super) fn sweep(&self) {
        let now = self.bounds.clock.now();
        self.groups.retain(|_, group| {
            let mut state = group.state.lock();
            group.retain(&mut state, |member| {
                !member.connection.is_over()
                    && (member.streams > 0 || now.since(member.since) < group.bounds.timeout)
            });
            // Requests that wait hold the group, too.
            !state.open.is_empty() || Arc::strong_count(group) > 1
        });
    }
}

impl Protocols {
    fn remember(&self, origin: &Origin, protocol: Protocol) {
        if self.0.get(origin) != Some(protocol) {
            self.0.insert(origin.clone(), protocol);
        }
    }
}

impl State {
    /// Tells whether another connection may be made: the last one is known to be full.
    fn may_dial(&self, most: usize) -> bool {
        !self.is_dialling
            && self.open.len() < most
            && self.open.iter().all(|member| member.connection.is_settled())
    }
}

impl Group {
    /// Returns the notice that connections give of their changes.
    pub(super) fn changed(&self) -> Arc<Notify> {
        Arc::clone(&self.changed)
    }

    /// Has its connections take no further request.
    fn retire(&self) {
        self.retain(&mut self.state.lock(), |member| {
            member.connection.retire();
            false
        });
        self.changed.notify_waiters();
    }

    /// Returns the first place on a connection made in this `generation`. The connection becomes shared if `joins`;
    /// else its first exchange has it to itself.
    pub(super) fn adopt(
        self: &Arc<Self>,
        connection: Connection,
        generation: u64,
        joins: bool,
    ) -> Place {
        let connection = Arc::new(connection);
        connection.begin();
        let mut state = self.state.lock();
        if joins && self.bounds.generation.load(Ordering::Acquire) == generation {
            state.open.push(Member {
                connection: Arc::clone(&connection),
                streams: 1,
                since: Moment::default(),
                past: UseCount::Once,
                generation,
            });
        }
        Place {
            connection,
            idle_for: Duration::ZERO,
            past: UseCount::Fresh,
            group: Arc::clone(self),
            generation,
        }
    }

    fn take(
        self: &Arc<Self>,
        state: &mut State,
        fits: impl Fn(&Connection) -> bool,
    ) -> Option<Place> {
        self.retain(state, |member| !member.connection.is_over());
        let most = self.bounds.streams;
        // The oldest first, so that further ones fall idle when there is less to do.
        let free = |member: &&mut Member| {
            member.streams < most
                && member.streams < member.connection.most_streams()
                && fits(&member.connection)
        };
        let member = state.open.iter_mut().find(free)?;
        let mut idle_for = Duration::ZERO;
        if member.streams == 0 {
            self.bounds.idle.leave(1);
            idle_for = self.bounds.clock.now().since(member.since);
            if idle_for >= SILENT {
                member.connection.probe();
            }
        }
        member.streams += 1;
        member.connection.begin();
        let past = member.past;
        member.past = past.with_one_more();
        Some(Place {
            connection: Arc::clone(&member.connection),
            idle_for,
            past,
            group: Arc::clone(self),
            generation: member.generation,
        })
    }

    /// Keeps those connections, and returns the number of the others that were idle.
    fn retain(&self, state: &mut State, keeps: impl Fn(&Member) -> bool) -> usize {
        let mut closed = 0;
        state.open.retain(|member| {
            let is_kept = keeps(member);
            if !is_kept && member.streams == 0 {
                self.bounds.idle.leave(1);
                closed += 1;
            }
            is_kept
        });
        closed
    }

    /// Takes the place of an exchange back.
    fn release(&self, place: &Place) {
        place.connection.end();
        if place.connection.is_broken() {
            // Its answer had begun: the next request is asked by HTTP/1.1.
            self.protocols.remember(&self.origin, Protocol::Http1Only);
            self.retire();
        }
        let mut state = self.state.lock();
        let state = &mut *state;
        let is_this = |member: &Member| Arc::ptr_eq(&member.connection, &place.connection);
        let at = state.open.iter().position(is_this);
        let is_first = state.open.is_empty()
            && place.generation == self.bounds.generation.load(Ordering::Acquire);
        let at = match at {
            Some(at) => at,
            // A connection that its first exchange had to itself. A second one of that kind is not needed.
            None if is_first && !place.connection.is_over() => {
                state.open.push(Member {
                    connection: Arc::clone(&place.connection),
                    streams: 1,
                    since: Moment::default(),
                    past: UseCount::Once,
                    generation: place.generation,
                });
                0
            }
            None => return,
        };
        let Some(member) = state.open.get_mut(at) else {
            return;
        };
        member.streams -= 1;
        if member.streams == 0 {
            member.since = self.bounds.clock.now();
            if member.connection.is_over() || !self.bounds.idle.has_room() {
                state.open.remove(at);
            } else {
                self.bounds.idle.enter();
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.group.release(self);
        self.group.changed.notify_one();
    }
}

impl Dial {
    /// Tells the waiting requests that the attempt has failed.
    pub(super) fn fail(mut self, failure: Failure) {
        self.failed = Some(failure);
    }
}

impl Drop for Dial {
    fn drop(&mut self) {
        let mut state = self.group.state.lock();
        state.is_dialling = false;
        if let Some(failure) = self.failed.take() {
            state.failed = Some((self.attempt, failure));
        }
        drop(state);
        self.group.changed.notify_waiters();
    }
}

impl std::fmt::Debug for Multiplexer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Multiplexer").field("bounds", &self.bounds).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
