//! What requests wait for: the answer of the engine that one of them asks for, and the turns that it has brought.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::sync::Mutex as AsyncMutex;

use crate::fleet::EngineTime;
use crate::fleet::reservation::{ENGINE_RETRY, LATE, Reserved};
use crawlgate_system::clock::Uptime;

/// The requests that wait for answers of one kind.
#[derive(Debug, Default)]
pub(super) struct Row {
    /// One question at a time: those that wait for it find its answer.
    pub(super) asking: Arc<AsyncMutex<()>>,
    pub(super) waiting: AtomicU32,
}

/// Counts a request among those that wait, until it is dropped.
pub(super) struct WaiterGuard<'a>(&'a AtomicU32);

impl<'a> WaiterGuard<'a> {
    pub(super) fn new(count: &'a AtomicU32) -> WaiterGuard<'a> {
        count.fetch_add(1, Ordering::AcqRel);
        WaiterGuard(count)
    }

    /// Returns the number of requests that wait, this one included.
    pub(super) fn count(&self) -> u64 {
        self.0.load(Ordering::Acquire).max(1).into()
    }
}

impl Drop for WaiterGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Turns that are reserved and not taken.
#[derive(Debug, Default)]
pub(super) struct Turns {
    granted: VecDeque<Turn>,
    /// The time of the next turn beyond them, and the time until which that is known.
    pub(super) next: Option<(Uptime, Uptime)>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Turn {
    pub(super) due: Uptime,
    pub(super) at: EngineTime,
}

impl Turns {
    /// Takes the first turn that is not lost.
    pub(super) fn take(&mut self, now: Uptime) -> Option<Turn> {
        while let Some(turn) = self.granted.pop_front() {
            if turn.due + LATE >= now {
                return Some(turn);
            }
        }
        None
    }

    /// Returns the time of the next turn if it is known to come after `until`.
    pub(super) fn too_far(&self, now: Uptime, until: Uptime) -> Option<Uptime> {
        let (at, is_known_until) = self.next?;
        (now < is_known_until && at > until).then_some(at)
    }

    /// Takes in an answer that arrived now.
    pub(super) fn learn(&mut self, now: Uptime, reserved: &Reserved) {
        self.granted
            .extend(reserved.turns.iter().map(|turn| Turn { due: now + turn.after, at: turn.at }));
        self.learn_next(now, reserved);
    }

    /// Takes in the time of the next turn alone.
    pub(super) fn learn_next(&mut self, now: Uptime, reserved: &Reserved) {
        self.next = Some((now + reserved.next, now + ENGINE_RETRY));
    }
}
