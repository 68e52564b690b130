//! Faults of a store, as a test asks for them.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::{StoreError, StoreErrorKind};

/// The faults of one store.
#[derive(Debug, Default)]
pub struct Faults {
    /// Number of look-ups of an origin.
    pub asked: AtomicUsize,
    /// True if look-ups, and orders to forget an origin, fail.
    pub fails_reads: AtomicBool,
    /// True if look-ups never end.
    pub hangs_reads: AtomicBool,
    /// True if the texts of robots.txt are gone.
    pub loses_texts: AtomicBool,
    /// True if writes wait.
    pub holds_writes: AtomicBool,
}

impl Faults {
    pub(crate) async fn look_up(&self) -> Result<(), StoreError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.read().await
    }

    pub(crate) async fn read(&self) -> Result<(), StoreError> {
        if self.hangs_reads.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        if self.fails_reads.load(Ordering::Relaxed) {
            return Err(StoreErrorKind::Busy.error("as the test asked"));
        }
        Ok(())
    }

    /// Tells whether a text is gone.
    pub(crate) async fn text(&self) -> Result<bool, StoreError> {
        if self.loses_texts.load(Ordering::Relaxed) {
            return Ok(true);
        }
        self.read().await?;
        Ok(false)
    }

    pub(crate) fn write(&self) {
        while self.holds_writes.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
    }
}
