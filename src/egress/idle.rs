//! Connections that wait for their next request: their number, and their history.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of idle connections over all origins, and its limit.
#[derive(Debug)]
pub(super) struct IdleBudget {
    count: AtomicUsize,
    most: AtomicUsize,
}

impl IdleBudget {
    pub(super) fn new(most: usize) -> IdleBudget {
        IdleBudget {
            count: AtomicUsize::new(0),
            most: AtomicUsize::new(most),
        }
    }

    /// Limits the idle connections to `most` from now on.
    pub(super) fn keep_at_most(&self, most: usize) {
        self.most.store(most, Ordering::Relaxed);
    }

    /// Tells whether there is room for another one.
    pub(super) fn has_room(&self) -> bool {
        self.count() < self.most.load(Ordering::Relaxed)
    }

    /// Counts one more.
    pub(super) fn enter(&self) {
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts `number` fewer.
    pub(super) fn leave(&self, number: usize) {
        self.count.fetch_sub(number, Ordering::Relaxed);
    }

    /// Returns the number of idle connections.
    pub(super) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }
}

/// The history of a connection, which hints at how long its origin keeps it open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UseCount {
    /// New: no history.
    Fresh,
    /// It has carried one exchange. Some origins then close it without notice.
    Once,
    /// It was used again: its origin keeps it open.
    Proven,
}

impl UseCount {
    /// Returns the history after another exchange.
    pub(super) fn with_one_more(self) -> UseCount {
        match self {
            UseCount::Fresh => UseCount::Once,
            UseCount::Once | UseCount::Proven => UseCount::Proven,
        }
    }
}
