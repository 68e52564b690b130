//! Connections that wait for their next request: their number, and their history. The second connections of sessions over
//! FTP take descriptors from the same share ([`descriptors`](crawlgate_system::descriptors)), and come first.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of idle connections over all origins, and its limit.
#[derive(Debug)]
pub(super) struct IdleBudget {
    count: AtomicUsize,
    /// Second connections of exchanges.
    seconds: AtomicUsize,
    most: AtomicUsize,
}

/// The descriptor of a second connection, given back on drop.
#[derive(Debug)]
pub(super) struct SecondPlace(Arc<IdleBudget>);

impl Drop for SecondPlace {
    fn drop(&mut self) {
        self.0.seconds.fetch_sub(1, Ordering::Relaxed);
    }
}

impl IdleBudget {
    pub(super) fn new(most: usize) -> IdleBudget {
        IdleBudget {
            count: AtomicUsize::new(0),
            seconds: AtomicUsize::new(0),
            most: AtomicUsize::new(most),
        }
    }

    /// Limits the idle connections to `most` from now on.
    pub(super) fn keep_at_most(&self, most: usize) {
        self.most.store(most, Ordering::Relaxed);
    }

    /// Tells whether there is room for another one.
    pub(super) fn has_room(&self) -> bool {
        self.count() + self.seconds.load(Ordering::Relaxed) < self.most.load(Ordering::Relaxed)
    }

    /// Takes the place of a second connection; `None` if all descriptors of this share are in such use. Idle connections
    /// give way: the caller closes them if there is no room left ([`IdleBudget::is_exceeded`]).
    pub(super) fn second(self: &Arc<Self>) -> Option<SecondPlace> {
        let most = self.most.load(Ordering::Relaxed);
        let next = |taken| (taken < most).then_some(taken + 1);
        let taken = self.seconds.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        taken.is_ok().then(|| SecondPlace(Arc::clone(self)))
    }

    /// Tells whether there are more idle and second connections than descriptors for them.
    pub(super) fn is_exceeded(&self) -> bool {
        self.count() + self.seconds.load(Ordering::Relaxed) > self.most.load(Ordering::Relaxed)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_connections_come_before_idle_ones() {
        let budget = Arc::new(IdleBudget::new(2));
        budget.enter();
        let first = budget.second();
        assert!(first.is_some() && !budget.has_room() && !budget.is_exceeded());
        let second = budget.second();
        assert!(second.is_some() && budget.is_exceeded());
        budget.leave(1);
        assert!(!budget.is_exceeded() && budget.second().is_none());
        drop(first);
        assert!(budget.has_room());
        budget.keep_at_most(1);
        assert!(!budget.has_room() && budget.second().is_none());
        drop(second);
        assert!(budget.second().is_some() && budget.has_room());
    }
}
