//! The generic cell rate algorithm: one turn per interval, some of them early.
//!
//! Pure, and in units of the caller's choice: a time is a number of any unit since any beginning, the same ones for
//! all calls. Its users ask for the next turn without taking it, or give turns back, which governor's limiter
//! ([`RateLimit`](crate::rate_limit::RateLimit)) cannot.

/// A rate: one turn per interval, with a burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rate {
    /// Time from turn to turn; at least 1.
    pub(crate) interval: u64,
    /// Turns that may be taken at once; at least 1.
    pub(crate) burst: u32,
}

impl Rate {
    /// Returns the time by which a turn may be early.
    pub(crate) fn ahead(self) -> u64 {
        let early = self.burst.saturating_sub(1);
        self.interval.saturating_mul(u64::from(early))
    }
}

/// The turns that were taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Gcra {
    /// The time at which all of them are paid off: the time of the next turn without a burst.
    paid: u64,
}

impl Gcra {
    /// Returns the time at which all turns are paid off.
    pub(crate) fn paid(self) -> u64 {
        self.paid
    }

    /// Returns the earliest time of the next turn.
    pub(crate) fn next(self, rate: Rate) -> u64 {
        self.paid.saturating_sub(rate.ahead())
    }

    /// Takes this many turns now, due or not.
    pub(crate) fn take(&mut self, turns: u32, rate: Rate, now: u64) {
        let cost = rate.interval.saturating_mul(u64::from(turns));
        self.paid = self.paid.max(now).saturating_add(cost);
    }

    /// Gives the last turn back, which was taken at an interval of this length.
    pub(crate) fn give_back(&mut self, interval: u64) {
        self.paid = self.paid.saturating_sub(interval);
    }

    /// Returns the number of turns that are not paid off.
    pub(crate) fn owed(self, rate: Rate, now: u64) -> u64 {
        let left = self.paid.saturating_sub(now);
        left.div_ceil(rate.interval.max(1))
    }

    /// Forgets what is to be paid off after `latest`. Tells whether there was any.
    pub(crate) fn limit(&mut self, latest: u64) -> bool {
        let is_later = self.paid > latest;
        self.paid = self.paid.min(latest);
        is_later
    }

    /// Moves the turns back with a clock that was set back.
    pub(crate) fn set_back(&mut self, by: u64) {
        self.paid = self.paid.saturating_sub(by);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_000;

    fn rate(interval: u64, burst: u32) -> Rate {
        Rate { interval, burst }
    }

    /// Returns the state after turns at these times from now.
    fn after(rate: Rate, turns: &[u64]) -> Gcra {
        let mut gcra = Gcra::default();
        for at in turns {
            gcra.take(1, rate, NOW + at);
        }
        gcra
    }

    #[test]
    fn the_next_turn_comes_when_the_rate_says() {
        #[rustfmt::skip] // one row, one case
        let cases: &[(&str, Rate, &[u64], u64)] = &[
            ("none was taken", rate(10, 1), &[], 0),
            ("one at a time", rate(10, 1), &[0], 10),
            ("late turns save nothing up", rate(10, 1), &[0, 18], 28),
            ("a burst goes at once", rate(10, 3), &[0, 0], 0),
            ("and is paid off turn by turn", rate(10, 3), &[0, 0, 0], 10),
            ("early turns count in full", rate(10, 3), &[0, 0, 0, 10, 20], 30),
            ("turns before they are due", rate(10, 1), &[0, 0, 0], 30),
            ("no rate below nothing", rate(u64::MAX, u32::MAX), &[0, 0], 0),
        ];
        for (name, rate, turns, want) in cases {
            let next = after(*rate, turns).next(*rate);
            assert_eq!(next.max(NOW), NOW + want, "{name}");
        }
    }

    #[test]
    fn several_turns_at_once_are_as_many_single_ones() {
        let slow = rate(10, 3);
        let mut gcra = Gcra::default();
        gcra.take(4, slow, NOW);
        assert_eq!(gcra, after(slow, &[0, 0, 0, 0]));
        assert_eq!(gcra.paid(), NOW + 40);
    }

    #[test]
    fn turns_are_owed_until_they_are_paid_off() {
        let slow = rate(10, 3);
        let gcra = after(slow, &[0, 0]);
        for (at, want) in [(0, 2), (9, 2), (10, 1), (19, 1), (20, 0), (90, 0)] {
            assert_eq!(gcra.owed(slow, NOW + at), want, "{at}");
        }
    }

    #[test]
    fn a_turn_given_back_is_the_next_one() {
        let slow = rate(10, 1);
        let mut gcra = after(slow, &[0, 0]);
        gcra.give_back(slow.interval);
        assert_eq!(gcra, after(slow, &[0]));
        assert_eq!(gcra.next(slow), NOW + 10);
    }

    #[test]
    fn a_limit_forgets_turns_far_ahead_alone() {
        let mut gcra = after(rate(10, 1), &[0, 0, 0]);
        assert!(!gcra.limit(NOW + 30));
        assert!(gcra.limit(NOW + 20));
        assert_eq!(gcra.paid(), NOW + 20);
    }

    #[test]
    fn a_clock_that_is_set_back_moves_turns_back() {
        let one = rate(10, 1);
        let mut gcra = after(one, &[500]);
        gcra.set_back(500);
        assert_eq!(gcra, after(one, &[0]));
        gcra.set_back(u64::MAX);
        assert_eq!(gcra, Gcra::default());
    }
}
