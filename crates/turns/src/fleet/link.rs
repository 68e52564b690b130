//! The state of the link to the engine: the time since the last heartbeat that the engine has answered, and its meaning.
//!
//! The time counts from the sending of that heartbeat, by the clock that is never set, so it is never too short. A stopped
//! process (SIGSTOP) finds itself cut off when it continues.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::history::micros;
use crawlgate_system::clock::Uptime;

/// Time without an answer after which an instance is doubtful.
pub(super) const DOUBTFUL: Duration = Duration::from_secs(1);

crawlgate_text::spelled! {
    /// The state of the link to the engine.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum LinkState {
        /// Everything goes.
        Connected = "connected",
        /// Known, fresh and unpaced origins go; unknown origins and paced requests are held.
        Doubtful = "doubtful",
        /// Nothing goes.
        CutOff = "cut_off",
    }
}

impl LinkState {
    /// Returns the state after this time without an answer.
    #[must_use]
    pub fn after(silence: Duration, patience: Duration) -> LinkState {
        match silence {
            silence if silence > patience => LinkState::CutOff,
            silence if silence >= DOUBTFUL => LinkState::Doubtful,
            _ => LinkState::Connected,
        }
    }
}

/// The moment of the last answered heartbeat, and the patience.
#[derive(Debug)]
pub(super) struct Link {
    /// Microseconds of uptime at which the last answered heartbeat was sent, plus one; 0: none was answered.
    heard: AtomicU64,
    /// Microseconds.
    patience: AtomicU64,
}

impl Link {
    pub(super) fn new(patience: Duration) -> Link {
        Link { heard: AtomicU64::new(0), patience: AtomicU64::new(micros(patience)) }
    }

    pub(super) fn set_patience(&self, patience: Duration) {
        self.patience.store(micros(patience), Ordering::Relaxed);
    }

    pub(super) fn patience(&self) -> Duration {
        Duration::from_micros(self.patience.load(Ordering::Relaxed))
    }

    /// Records that the engine has answered a heartbeat that was sent at this time, and that its answer is in force.
    pub(super) fn heard(&self, sent: Uptime) {
        let sent = sent.as_micros().saturating_add(1);
        self.heard.fetch_max(sent, Ordering::AcqRel);
    }

    /// Returns the time since the last answered heartbeat was sent; `None` if none was answered.
    pub(super) fn silence(&self, now: Uptime) -> Option<Duration> {
        let heard = self.heard.load(Ordering::Acquire).checked_sub(1)?;
        Some(Duration::from_micros(now.as_micros().saturating_sub(heard)))
    }

    pub(super) fn state(&self, now: Uptime) -> LinkState {
        match self.silence(now) {
            Some(silence) => LinkState::after(silence, self.patience()),
            None => LinkState::CutOff,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crawlgate_system::clock::{Clock, Moment};

    #[test]
    fn silence_ends_in_nothing_at_all() {
        let clock = Clock::manual(Moment::from_millis(1_000));
        let link = Link::new(Duration::from_secs(15));
        assert_eq!(link.state(clock.uptime()), LinkState::CutOff, "never heard");
        link.heard(clock.uptime());
        let rows = [
            (0, LinkState::Connected),
            (999, LinkState::Connected),
            (1, LinkState::Doubtful),
            (13_999, LinkState::Doubtful),
            (1, LinkState::Doubtful),
            (1, LinkState::CutOff),
            (1_000_000, LinkState::CutOff),
        ];
        for (millis, want) in rows {
            clock.advance(Duration::from_millis(millis));
            assert_eq!(link.state(clock.uptime()), want, "after {millis} ms more");
        }
        let sent = clock.uptime();
        clock.advance(Duration::from_secs(2));
        link.heard(sent);
        let state = link.state(clock.uptime());
        assert_eq!(state, LinkState::Doubtful, "the answer came two seconds after the question");
        link.set_patience(Duration::from_secs(1));
        assert_eq!(link.state(clock.uptime()), LinkState::CutOff, "less patience");
    }

    #[test]
    fn an_answer_to_an_earlier_heartbeat_takes_nothing_back() {
        let clock = Clock::manual(Moment::from_millis(1_000));
        let link = Link::new(Duration::from_secs(15));
        let early = clock.uptime();
        clock.advance(Duration::from_secs(3));
        link.heard(clock.uptime());
        link.heard(early);
        assert_eq!(link.state(clock.uptime()), LinkState::Connected);
    }
}
