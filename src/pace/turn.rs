//! The permission for one request to go, and its return.

use std::sync::Arc;

use super::limiter::OriginLimiter;
use crate::clock::Moment;

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
}

impl Turn {
    pub(super) fn new(limiter: &Arc<OriginLimiter>, at: Moment, number: u64) -> Turn {
        Turn {
            limiter: Arc::clone(limiter),
            at_address: None,
            at,
            number,
        }
    }

    /// Gives back an unused turn: the next request need not wait for it, unless another one has gone since.
    pub(super) fn give_back(mut self) {
        self.limiter.undo(self.number);
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
