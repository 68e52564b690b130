//! The operator's own rate at one origin: requests per second, with a burst.
//!
//! Asking for the next turn takes none: a request waits for several bounds and takes its turn when the last one permits
//! it. Past requests outlive a change of the rate: they count as if the new rate had always held.

use std::time::Duration;

use crate::gcra::{self, Gcra};
use crawlgate_system::clock::Moment;

const NANOS_PER_MS: u64 = 1_000_000;

/// A rate in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rate(gcra::Rate);

impl Rate {
    /// Builds a rate of `per_second` turns in bursts of `burst`.
    pub(super) fn new(per_second: f64, burst: u32) -> Option<Rate> {
        let interval = Duration::try_from_secs_f64(1.0 / per_second).ok()?;
        let interval = nanos(interval).max(1);
        // Turns that fall due within one tick of the clock may go within it.
        let within_a_tick = u32::try_from(NANOS_PER_MS / interval).unwrap_or(u32::MAX);
        Some(Rate(gcra::Rate {
            interval,
            burst: burst.max(within_a_tick).max(1),
        }))
    }

    /// Returns the time between two turns without a burst.
    pub(super) fn interval(self) -> Duration {
        Duration::from_nanos(self.0.interval)
    }

    /// Returns the number of turns that may be taken at once.
    pub(super) fn burst(self) -> u32 {
        self.0.burst
    }
}

/// The past turns at a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Turns {
    /// The turns, in nanoseconds since 1970.
    gcra: Gcra,
    /// Their rate; none before the first turn.
    rate: Option<Rate>,
    /// The moment of the last turn.
    last: Moment,
}

impl Turns {
    /// Returns the earliest moment of the next turn.
    pub(super) fn next(&self, rate: Rate) -> Moment {
        moment(self.at(rate).next(rate.0))
    }

    /// Returns the earliest moment of a turn if `others` others are taken before it from now on.
    pub(super) fn next_but(&self, rate: Rate, others: u32, now: Moment) -> Moment {
        let mut gcra = self.at(rate);
        if others > 0 {
            gcra.take(others, rate.0, since_1970(now));
        }
        moment(gcra.next(rate.0))
    }

    /// Returns the moment of the last turn.
    pub(super) fn last(&self) -> Moment {
        self.last
    }

    /// Takes a turn now, due or not.
    pub(super) fn take(&mut self, rate: Rate, now: Moment) {
        let mut gcra = self.at(rate);
        gcra.take(1, rate.0, since_1970(now));
        *self = Turns {
            gcra,
            rate: Some(rate),
            last: now,
        };
    }

    /// Tells whether all past turns are paid off.
    pub(super) fn is_paid(&self, now: Moment) -> bool {
        self.gcra.paid() <= since_1970(now)
    }

    /// Moves past turns back with a clock that was set back.
    pub(super) fn set_back(&mut self, by: Duration) {
        self.gcra.set_back(nanos(by));
        self.last = self.last - by;
    }

    /// Recounts the same turns by another rate: the same number of turns is owed as of the last one, but at most a
    /// burst.
    fn at(&self, rate: Rate) -> Gcra {
        match self.rate {
            Some(before) if before != rate => {
                let last = since_1970(self.last);
                let owed = u32::try_from(self.gcra.owed(before.0, last)).unwrap_or(u32::MAX);
                let mut gcra = Gcra::default();
                gcra.take(owed.clamp(1, rate.0.burst), rate.0, last);
                gcra
            }
            _ => self.gcra,
        }
    }
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

fn since_1970(moment: Moment) -> u64 {
    moment.as_millis().saturating_mul(NANOS_PER_MS)
}

fn moment(nanos: u64) -> Moment {
    Moment::from_millis(nanos.div_ceil(NANOS_PER_MS))
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Moment = Moment::from_millis(1_790_000_000_000);

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    fn rate(per_second: f64, burst: u32) -> Rate {
        Rate::new(per_second, burst).expect("a rate")
    }

    /// Returns the state after these turns, in milliseconds from the start.
    fn after(rate: Rate, turns: &[u64]) -> Turns {
        let mut past = Turns::default();
        for at in turns {
            past.take(rate, START + ms(*at));
        }
        past
    }

    #[test]
    fn the_next_turn_comes_when_the_rate_says() {
        #[rustfmt::skip] // one row, one case
        let cases: &[(&str, Rate, &[u64], u64)] = &[
            ("one at a time", rate(2.0, 1), &[0], 500),
            ("late turns save nothing up", rate(2.0, 1), &[0, 900], 1_400),
            ("a burst goes at once", rate(1.0, 3), &[0, 0], 0),
            ("and is paid off turn by turn", rate(1.0, 3), &[0, 0, 0], 1_000),
            ("a third is never early", rate(3.0, 1), &[0], 334),
            ("more than the clock can tell apart", rate(4_000.0, 1), &[0, 0, 0], 0),
            ("but no more than that", rate(4_000.0, 1), &[0, 0, 0, 0], 1),
        ];
        for (name, rate, turns, expected) in cases {
            let next = after(*rate, turns).next(*rate);
            assert_eq!(next.max(START), START + ms(*expected), "{name}");
        }
    }

    #[test]
    fn under_another_rate_the_same_turns_count() {
        #[rustfmt::skip] // one row, one case
        let cases: &[(&str, Rate, &[u64], Rate, u64)] = &[
            ("a slower one", rate(1.0, 1), &[0], rate(0.1, 1), 10_000),
            ("a faster one", rate(0.1, 1), &[0], rate(1.0, 1), 1_000),
            ("a burst that was used up is no debt of three", rate(1.0, 3), &[0, 0, 0], rate(1.0, 1), 1_000),
            ("a larger burst", rate(1.0, 1), &[0], rate(1.0, 2), 0),
            ("the same", rate(1.0, 3), &[0, 0, 0], rate(1.0, 3), 1_000),
        ];
        for (name, before, turns, now, expected) in cases {
            let next = after(*before, turns).next(*now);
            assert_eq!(next.max(START), START + ms(*expected), "{name}");
        }
    }

    #[test]
    fn a_clock_that_is_set_back_moves_past_turns_back() {
        let one = rate(1.0, 1);
        let mut past = after(one, &[3_600_000]);
        past.set_back(ms(3_600_000));
        assert_eq!(past.next(one), START + ms(1_000));
        assert!(!past.is_paid(START) && past.is_paid(START + ms(1_000)));
    }
}
