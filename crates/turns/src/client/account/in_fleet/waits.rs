//! The number of requests that wait for one answer of the engine.

use std::sync::atomic::{AtomicU32, Ordering};

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
