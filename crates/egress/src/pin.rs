//! The place of a connection that belongs to one crawler connection, and the turns on it.
//!
//! [`pinned`](super::pinned) makes pins and gives turns; [`pool`](super::pool) keeps the connections between two requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::key::Key;

/// The place of the pinned connection to one origin.
#[derive(Debug)]
pub(super) struct Pin {
    key: Key,
    /// One request at a time.
    turn: Arc<Semaphore>,
    /// True once the origin has answered a request with credentials.
    is_logged_in: AtomicBool,
    /// True once its crawler connection has ended.
    is_over: AtomicBool,
    /// Cancelled when a login is lost.
    lost: CancellationToken,
}

/// The right to use a pinned connection, until the end of the exchange.
#[derive(Debug)]
pub(super) struct Turn {
    pin: Arc<Pin>,
    _permit: OwnedSemaphorePermit,
}

/// The crawler connection that ends with a connection to an origin, if a login belongs to that.
#[derive(Debug, Default)]
pub(super) struct EndsWith(Mutex<End>);

#[derive(Debug, Default)]
enum End {
    /// No login belongs to the connection.
    #[default]
    Free,
    /// Cancelled with the end of the connection.
    Bound(CancellationToken),
    /// The connection has ended.
    Over,
}

/// Ends the crawler connection when it is dropped.
pub(super) struct EndGuard(pub(super) Arc<EndsWith>);

impl Pin {
    /// Makes a pin with a new key. `lost` ends its crawler connection.
    pub(super) fn new(key: Key, lost: CancellationToken) -> Pin {
        Pin {
            key,
            turn: Arc::new(Semaphore::new(1)),
            is_logged_in: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            lost,
        }
    }

    /// Returns the key of the connection.
    pub(super) fn key(&self) -> &Key {
        &self.key
    }

    /// Tells whether a login belongs to the connection.
    pub(super) fn is_logged_in(&self) -> bool {
        self.is_logged_in.load(Ordering::Acquire)
    }

    /// Notes the end of the crawler connection.
    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::Release);
    }

    /// Returns the turn, if no other request has it.
    pub(super) fn try_turn(self: Arc<Self>) -> Option<Arc<Turn>> {
        let permit = Arc::clone(&self.turn).try_acquire_owned().ok()?;
        Some(self.with(permit))
    }

    /// Waits for the turn; `None` if others keep it for longer.
    pub(super) async fn turn(self: Arc<Self>, within: Duration) -> Option<Arc<Turn>> {
        let waiting = timeout(within, Arc::clone(&self.turn).acquire_owned());
        let permit = waiting.await.ok()?.ok()?;
        Some(self.with(permit))
    }

    fn with(self: Arc<Self>, permit: OwnedSemaphorePermit) -> Arc<Turn> {
        Arc::new(Turn { pin: self, _permit: permit })
    }
}

impl Turn {
    /// Returns the key of the connection.
    pub(super) fn key(&self) -> &Key {
        &self.pin.key
    }

    /// Tells whether a login belongs to the connection.
    pub(super) fn is_logged_in(&self) -> bool {
        self.pin.is_logged_in()
    }

    /// Tells whether the crawler connection has ended.
    pub(super) fn is_over(&self) -> bool {
        self.pin.is_over.load(Ordering::Acquire)
    }

    /// Notes that a login belongs to this connection from now on.
    pub(super) fn logs_in(&self, connection: &EndsWith) {
        self.pin.is_logged_in.store(true, Ordering::Release);
        let mut end = connection.0.lock();
        match *end {
            // Right behind its answer.
            End::Over => self.pin.lost.cancel(),
            End::Free | End::Bound(_) => *end = End::Bound(self.pin.lost.clone()),
        }
    }

    /// Notes that the connection carries another protocol from now on: the next request logs in on a new one.
    pub(super) fn leaves(&self, connection: &EndsWith) {
        self.pin.is_logged_in.store(false, Ordering::Release);
        let mut end = connection.0.lock();
        if let End::Bound(_) = *end {
            *end = End::Free;
        }
    }
}

impl Drop for EndGuard {
    fn drop(&mut self) {
        let end = std::mem::replace(&mut *self.0.0.lock(), End::Over);
        if let End::Bound(lost) = end {
            lost.cancel();
        }
    }
}
