//! A client's usage: its turns over all origins together, and the rest of its quota.
//!
//! Two bounds apply. A rate (`requests_per_second`, `burst`) spreads requests: a request that comes too early gets a
//! turn and is held for it, in the order of arrival; it is refused if its turn is further away than the longest hold. A
//! quota counts the requests of each span and refuses the rest of the span. Each answered request counts, also one that
//! is denied, refused or deferred for another reason: its record takes room. Such a request takes a turn, too, without
//! being held for it. A request gives its turn back if its client disconnects while it is held; the next request gets
//! that turn.
//!
//! - `alone`: the usage of one process
//! - `in_fleet`: the usage that the instances of a fleet keep together; `chunk`: the part of a quota that one instance
//!   holds

mod alone;
mod chunk;
mod in_fleet;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use self::alone::Counters;
use self::in_fleet::FleetAccount;
use super::Client;
use crate::fleet::Fleet;
use crawlgate_config::Quota;
use crawlgate_system::clock::{Clock, Moment};

/// The client has used up its bound; it may send again at this moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuotaExceeded(pub Moment);

/// The reason why a request is not entered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotEntered {
    /// The client has used up its bound.
    Exceeded(QuotaExceeded),
    /// The fleet's engine, which keeps the rest of the bound, has not answered for the longest hold.
    Unanswered,
}

impl From<QuotaExceeded> for NotEntered {
    fn from(exceeded: QuotaExceeded) -> NotEntered {
        NotEntered::Exceeded(exceeded)
    }
}

/// One client's usage. It equals any other: usage is no part of a client's identity.
#[derive(Debug)]
pub struct ClientAccount(Usage);

#[derive(Debug)]
enum Usage {
    Alone(Mutex<Counters>),
    InFleet(Arc<FleetAccount>),
}

impl PartialEq for ClientAccount {
    fn eq(&self, _: &ClientAccount) -> bool {
        true
    }
}

impl Default for ClientAccount {
    fn default() -> ClientAccount {
        ClientAccount(Usage::Alone(Mutex::default()))
    }
}

/// One request's entry in the usage. Dropping it takes the entry back: the request was not sent.
#[derive(Debug)]
#[must_use = "dropping it takes the entry back"]
pub struct Reservation<'a> {
    /// None once it is final.
    entry: Option<ChargedUsage<'a>>,
    hold: Duration,
    has_waited: bool,
}

#[derive(Debug)]
enum ChargedUsage<'a> {
    Alone(&'a Mutex<Counters>, alone::Entry),
    InFleet(&'a FleetAccount, in_fleet::Entry),
}

impl Reservation<'_> {
    /// Returns the time to hold the request for.
    #[must_use]
    pub fn hold(&self) -> Duration {
        self.hold
    }

    /// Tells whether no time has passed before the entry, and none passes after it.
    #[must_use]
    pub fn is_immediate(&self) -> bool {
        self.hold.is_zero() && !self.has_waited
    }

    /// Tells whether the engine of the fleet may have lost the turn of the entry, which is void then.
    #[must_use]
    pub fn is_void(&self) -> bool {
        match &self.entry {
            Some(ChargedUsage::InFleet(account, entry)) => account.is_void(*entry),
            Some(ChargedUsage::Alone(..)) | None => false,
        }
    }

    /// Makes the entry final: the request is sent, or answered otherwise. Returns the time to hold it for.
    pub fn commit(mut self) -> Duration {
        self.entry = None;
        self.hold
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        match self.entry.take() {
            Some(ChargedUsage::Alone(counters, entry)) => counters.lock().take_back(&entry),
            Some(ChargedUsage::InFleet(account, entry)) => account.take_back(entry),
            None => {}
        }
    }
}

impl ClientAccount {
    /// Returns the account of a named client, which the instances of `fleet` keep together if there is one.
    #[must_use]
    pub fn of(name: &str, fleet: Option<&Arc<Fleet>>, clock: &Clock) -> ClientAccount {
        match fleet {
            Some(fleet) => {
                let account = FleetAccount::new(name, Arc::clone(fleet), clock.clone());
                ClientAccount(Usage::InFleet(Arc::new(account)))
            }
            None => ClientAccount::default(),
        }
    }

    /// Enters a request that would go out `now`, and returns its entry. In a fleet it may wait for the engine, for up to
    /// `max_hold`.
    ///
    /// # Errors
    /// [`NotEntered`] when the quota is used up, the turn would come after `max_hold`, or the engine does not answer.
    /// Nothing is entered then.
    pub async fn enter(
        &self,
        client: &Client,
        now: Moment,
        clock: &Clock,
        max_hold: Duration,
    ) -> Result<Reservation<'_>, NotEntered> {
        match &self.0 {
            Usage::Alone(counters) => {
                let entry = counters.lock().enter(client, now, || clock.uptime(), max_hold)?;
                Ok(Reservation {
                    hold: entry.hold,
                    entry: Some(ChargedUsage::Alone(counters, entry)),
                    has_waited: false,
                })
            }
            Usage::InFleet(account) => account.enter(client, max_hold).await,
        }
    }

    /// Counts a request that is refused: it is not held, and nothing waits here.
    ///
    /// # Errors
    /// [`QuotaExceeded`] when the quota is used up, or its turn would come after `max_hold`. It does not count then.
    pub fn count(
        &self,
        client: &Client,
        now: Moment,
        clock: &Clock,
        max_hold: Duration,
    ) -> Result<(), QuotaExceeded> {
        match &self.0 {
            Usage::Alone(counters) => {
                counters.lock().enter(client, now, || clock.uptime(), max_hold).map(drop)
            }
            Usage::InFleet(account) => account.count(client, max_hold),
        }
    }

    /// Checks that the quota of `client` leaves room for a request that would go out `now`, as far as is known here;
    /// enters nothing.
    ///
    /// # Errors
    /// [`QuotaExceeded`] when it does not.
    pub fn has_left(&self, client: &Client, now: Moment) -> Result<(), QuotaExceeded> {
        let Some(quota) = &client.quota else {
            return Ok(());
        };
        match &self.0 {
            Usage::Alone(counters) => counters.lock().has_left(quota, now),
            Usage::InFleet(account) => account.has_left(quota),
        }
    }

    /// Adds the octets that a request took, once they are known. They count by the quota in force, not by the one at
    /// the request's start.
    pub fn add_bytes(&self, bytes: u64, now: Moment) {
        match &self.0 {
            Usage::Alone(counters) => counters.lock().add_bytes(bytes, now),
            Usage::InFleet(account) => account.add_bytes(bytes),
        }
    }

    /// Tells the fleet what it has to know by now, at a heartbeat in this generation of the engine.
    pub(super) fn on_heartbeat(&self, client: &Client, generation: u64) {
        if let Usage::InFleet(account) = &self.0 {
            account.on_heartbeat(client, generation);
        }
    }

    /// Gives back what this instance holds of a quota and does not use.
    pub(super) async fn leave(&self, quota: &Quota) {
        if let Usage::InFleet(account) = &self.0 {
            account.leave(quota).await;
        }
    }
}

#[cfg(test)]
mod tests;
