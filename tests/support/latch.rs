//! A latch between a test and its origins: closed until a test opens it, then open for good.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use super::PATIENCE;

/// The point at which a scripted origin waits, and at which a test sees that the origin has arrived.
#[derive(Clone, Default)]
pub(crate) struct Latch(Arc<(Mutex<State>, Condvar)>);

#[derive(Default)]
struct State {
    open: bool,
    arrivals: usize,
}

impl Latch {
    /// Returns a closed latch.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Lets all threads pass, now and later.
    pub(crate) fn open(&self) {
        self.0.0.lock().unwrap().open = true;
        self.0.1.notify_all();
    }

    /// Waits until the latch is open. A latch that stays closed gives way after twice the time-out of a test, so that a
    /// failed test leaves no thread behind.
    pub(crate) fn pass(&self) {
        let (state, changed) = &*self.0;
        let mut state = state.lock().unwrap();
        state.arrivals += 1;
        changed.notify_all();
        drop(changed.wait_timeout_while(state, PATIENCE * 2, |state| !state.open).unwrap());
    }

    /// Waits until `count` threads have reached the latch.
    pub(crate) fn arrivals(&self, count: usize) {
        self.arrivals_within(PATIENCE, count);
    }

    /// Works like [`Latch::arrivals`], for another time.
    pub(crate) fn arrivals_within(&self, limit: Duration, count: usize) {
        let (state, changed) = &*self.0;
        let (_state, timeout) = changed
            .wait_timeout_while(state.lock().unwrap(), limit, |state| state.arrivals < count)
            .unwrap();
        assert!(!timeout.timed_out(), "no thread reached the latch");
    }
}
