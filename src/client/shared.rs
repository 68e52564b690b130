//! The part of a client's usage that the processes of a fleet would keep together.
//!
//! [`ClientAccount`](super::account::ClientAccount) keeps it within one process and is the only implementation. Nothing here waits: usage is also
//! entered and charged while an exchange is dropped. An implementation over a network would take shares of the bounds
//! ahead and answer from them. `pace::shared` tells why the pace of an origin has an interface of its own.

use std::time::Duration;

use super::Client;
use crate::clock::{Moment, Uptime};

/// The client has used up its bound; it may send again at this moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuotaExceeded(pub Moment);

/// One client's turns over all origins, and the rest of its quota.
pub trait SharedUsage: Send + Sync {
    /// One request's entry. Dropping it takes the entry back: the request was not sent.
    type Reservation<'a>: Reserved
    where
        Self: 'a;

    /// Enters a request that would go out `now`, by both clocks, and returns its entry. The second clock is read only if
    /// there is a rate.
    ///
    /// # Errors
    /// [`QuotaExceeded`] when the quota is used up, or the turn would come after `max_hold`. Nothing is entered then.
    fn enter(
        &self,
        client: &Client,
        now: Moment,
        uptime: impl FnOnce() -> Uptime,
        max_hold: Duration,
    ) -> Result<Self::Reservation<'_>, QuotaExceeded>;

    /// Checks that the quota of `client` leaves room for a request that would go out `now`; enters nothing.
    ///
    /// # Errors
    /// [`QuotaExceeded`] when it does not.
    fn has_left(&self, client: &Client, now: Moment) -> Result<(), QuotaExceeded>;

    /// Adds the octets that a request took, once they are known. They count by the quota in force, not by the one at
    /// the request's start.
    fn add_bytes(&self, bytes: u64, now: Moment);
}

/// The entry of one request.
pub trait Reserved {
    /// Returns the time to hold the request for.
    #[must_use]
    fn hold(&self) -> Duration;

    /// Makes the entry final: the request is sent, or answered otherwise. Returns the time to hold it for.
    fn commit(self) -> Duration;
}
