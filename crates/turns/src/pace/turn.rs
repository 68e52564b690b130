//! The permission for one request to go, and its return.

use std::sync::Arc;
use std::time::Duration;

use super::bound::Group;
use super::limiter::OriginLimiter;
use super::slots::Slot;
use crate::fleet::{EngineTime, Fleet};
use crawlgate_system::clock::{Moment, Uptime};

/// The permission for one request to go. The request counts as in flight until this is dropped.
#[derive(Debug)]
#[must_use = "the request is under way for as long as this is kept"]
pub struct Turn {
    pub(super) limiter: Arc<OriginLimiter>,
    pub(super) at_address: Option<Box<Turn>>,
    /// The moment of the turn.
    pub(super) at: Moment,
    /// Its number at its origin limiter.
    pub(super) number: u64,
    /// Boxed: only a fleet has reservations.
    pub(super) reservation: Option<Box<Reservation>>,
}

/// The turn in the engine of a fleet that a request goes by.
#[derive(Debug)]
pub(super) struct Reservation {
    pub(super) fleet: Arc<Fleet>,
    pub(super) origin: Arc<str>,
    pub(super) at: EngineTime,
    /// The same moment here.
    pub(super) due: Uptime,
    pub(super) group: Option<(Group, Duration)>,
    /// Released with the turn.
    pub(super) _slot: Option<Slot>,
}

impl Turn {
    pub(super) fn new(limiter: &Arc<OriginLimiter>, at: Moment, number: u64) -> Turn {
        Turn { limiter: Arc::clone(limiter), at_address: None, at, number, reservation: None }
    }

    /// Gives back an unused turn: the next request need not wait for it, unless another one has gone since.
    pub(super) fn give_back(mut self) {
        self.limiter.undo(self.number);
        if let Some(reservation) = self.reservation.take() {
            let Reservation { fleet, origin, at, group, .. } = *reservation;
            fleet.give_back(origin, at, group);
        }
        if let Some(turn) = self.at_address.take() {
            turn.give_back();
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.limiter.end();
    }
}
