//! State that a connection's exchanges and its [`CheckedStream`](super::checked_stream::CheckedStream) share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::task::{Context, Waker};

use parking_lot::Mutex;

use super::framing::{Switch, Violation};
use super::limits::ConnectionSlot;

/// Octets of interim responses that wait for the crawler to take them.
const MAX_INTERIM: usize = 65_536;

/// State of a connection. One exchange at a time is under way.
#[derive(Debug, Default)]
pub struct ConnectionState {
    /// A [`Stage`], read on every write and so without the lock.
    stage: AtomicU8,
    has_interim: AtomicBool,
    has_switch: AtomicBool,
    /// True if the crawler took its answer too slowly.
    is_stalled: AtomicBool,
    /// True if the connection must make room, without lingering.
    is_leaving: AtomicBool,
    /// True if the proxy stops: exchanges that have begun are answered, and the connection ends.
    is_draining: AtomicBool,
    /// True if the body of the request under way has not come to its end yet.
    is_in_body: AtomicBool,
    /// True if a CONNECT was refused: octets after it mean nothing.
    is_tunnel_refused: AtomicBool,
    slot: Option<Arc<ConnectionSlot>>,
    shared: Mutex<Shared>,
}

/// Progress of the exchange under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Stage {
    /// No exchange: silence is idleness.
    Idle = 0,
    /// The final answer is awaited.
    Waiting = 1,
    /// The final answer is being written.
    Answering = 2,
}

#[derive(Debug, Default)]
struct Shared {
    switch: Option<Switch>,
    interim: Vec<u8>,
    refused: Option<Refused>,
    waker: Option<Waker>,
}

/// A request refused for its form.
#[derive(Debug, Clone)]
pub struct Refused {
    /// The fault of its form.
    pub violation: Violation,
    /// Its first octets.
    pub excerpt: Box<[u8]>,
}

impl ConnectionState {
    /// Creates the state of a connection with this slot.
    pub fn of(slot: &Arc<ConnectionSlot>) -> ConnectionState {
        ConnectionState {
            slot: Some(Arc::clone(slot)),
            ..ConnectionState::default()
        }
    }

    /// Notes that a request is complete, and its exchange is about to begin.
    pub fn expect(&self) {
        self.enter(Stage::Waiting);
    }

    /// Notes that an exchange begins.
    pub fn begin(&self) {
        self.enter(Stage::Waiting);
        if let Some(slot) = &self.slot {
            slot.begin();
        }
    }

    /// Marks the connection as idle until an exchange begins or goes on.
    pub fn rest(&self) {
        if let Some(slot) = &self.slot {
            slot.end();
        }
    }

    /// Notes that a suspended exchange goes on.
    pub fn go_on(&self) {
        if let Some(slot) = &self.slot {
            slot.begin();
        }
    }

    /// Has the connection end with a reset.
    pub fn reset(&self) {
        if let Some(slot) = &self.slot {
            slot.reset();
        }
    }

    /// Notes that the crawler took its answer too slowly: the connection ends.
    pub fn stall(&self) {
        self.is_stalled.store(true, Ordering::Relaxed);
    }

    /// Tells whether the crawler took its answer too slowly.
    pub fn is_stalled(&self) -> bool {
        self.is_stalled.load(Ordering::Relaxed)
    }

    /// Notes that the connection must make room for another.
    pub fn leave(&self) {
        self.is_leaving.store(true, Ordering::Relaxed);
    }

    /// Tells whether the connection must make room.
    pub fn is_leaving(&self) -> bool {
        self.is_leaving.load(Ordering::Relaxed)
    }

    /// Ends the connection as soon as nothing is under way on it, because the proxy stops.
    pub fn drain(&self) {
        self.is_draining.store(true, Ordering::Relaxed);
    }

    /// Tells whether the connection ends because the proxy stops.
    pub fn is_draining(&self) -> bool {
        self.is_draining.load(Ordering::Relaxed)
    }

    /// Sets whether the body of a request has begun and not ended.
    pub fn set_in_body(&self, is_in_body: bool) {
        self.is_in_body.store(is_in_body, Ordering::Relaxed);
    }

    /// Tells whether the crawler still has to send a part of its request's body.
    pub fn is_in_body(&self) -> bool {
        self.is_in_body.load(Ordering::Relaxed)
    }

    /// Notes that a CONNECT was refused.
    pub fn refuse_tunnel(&self) {
        self.is_tunnel_refused.store(true, Ordering::Relaxed);
    }

    /// Tells whether a CONNECT was refused.
    pub fn is_tunnel_refused(&self) -> bool {
        self.is_tunnel_refused.load(Ordering::Relaxed)
    }

    /// Notes that the head of the final answer is about to be written.
    pub fn answer(&self) {
        self.enter(Stage::Answering);
    }

    /// Notes that the exchange has ended.
    pub fn end(&self) {
        self.enter(Stage::Idle);
        self.rest();
        // Octets held back until the answer was known are read from now on.
        if self.has_switch.load(Ordering::Acquire) {
            self.shared.lock().wake();
        }
    }

    /// Returns the progress of the exchange under way.
    pub fn stage(&self) -> Stage {
        match self.stage.load(Ordering::Acquire) {
            1 => Stage::Waiting,
            2 => Stage::Answering,
            _ => Stage::Idle,
        }
    }

    fn enter(&self, stage: Stage) {
        self.stage.store(stage as u8, Ordering::Release);
    }

    /// Sets the answer to a request to switch protocols. Called once for each request that the checked stream takes for
    /// one: with an Upgrade field, and without a body.
    pub fn decide(&self, switch: Switch) {
        let mut shared = self.shared.lock();
        shared.switch = Some(switch);
        self.has_switch.store(true, Ordering::Release);
        shared.wake();
    }

    /// Takes the answer to a request to switch protocols; the connection is woken later if there is none yet.
    pub fn take_switch(&self, cx: &Context<'_>) -> Option<Switch> {
        let mut shared = self.shared.lock();
        let switch = shared.switch.take();
        match switch {
            Some(_) => self.has_switch.store(false, Ordering::Release),
            None => shared.wake_by(cx),
        }
        switch
    }

    /// Queues the head of an interim response. Drops it if the final answer came first, or if the crawler takes none of
    /// those before it.
    pub fn push_interim(&self, head: &[u8]) {
        let mut shared = self.shared.lock();
        if self.stage() != Stage::Waiting || shared.interim.len() + head.len() > MAX_INTERIM {
            return;
        }
        shared.interim.extend_from_slice(head);
        self.has_interim.store(true, Ordering::Release);
        // Nothing else may wake the connection before the final answer comes.
        shared.wake();
    }

    /// Takes the interim responses that wait, if any.
    pub fn take_interim(&self) -> Vec<u8> {
        if self.has_interim.load(Ordering::Acquire) {
            self.has_interim.store(false, Ordering::Release);
            std::mem::take(&mut self.shared.lock().interim)
        } else {
            Vec::new()
        }
    }

    /// Has the next interim response wake the connection.
    pub fn await_interim(&self, cx: &Context<'_>) {
        if self.stage() == Stage::Waiting {
            self.shared.lock().wake_by(cx);
        }
    }

    /// Keeps a refused request for the exchange of its refusal_token.
    pub fn leave_refused(&self, refused: Refused) {
        self.shared.lock().refused = Some(refused);
    }

    /// Takes the refused request that a refusal_token stands for.
    pub fn take_refused(&self) -> Option<Refused> {
        self.shared.lock().refused.take()
    }
}

impl Shared {
    fn wake_by(&mut self, cx: &Context<'_>) {
        match &mut self.waker {
            Some(waker) => waker.clone_from(cx.waker()),
            None => self.waker = Some(cx.waker().clone()),
        }
    }

    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}
