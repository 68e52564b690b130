//! The operator's own rate at one origin: requests per second, with a burst.
//!
//! This is the generic cell rate algorithm, like governor's, with two differences that a queue needs. Asking for the
//! next turn takes none: a request waits for several bounds and takes its turn when the last one permits it. And past
//! requests outlive a change of the rate: they count as if the new rate had always held.

use std::time::Duration;

use crate::clock::Moment;

const NANOS_PER_MS: u64 = 1_000_000;

/// A rate: one turn per interval, with a burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rate {
    /// Time from turn to turn, in nanoseconds; at least 1.
    interval: u64,
    /// Turns that may be taken at once; at least 1.
    burst: u32,
}

impl Rate {
    /// Builds a rate of `per_second` turns in bursts of `burst`.
    pub(super) fn new(per_second: f64, burst: u32) -> Option<Rate> {
        let interval = Duration::try_from_secs_f64(1.0 / per_second).ok()?;
        let interval = nanos(interval).max(1);
        // Turns that fall due within one tick of the clock may go within it.
        let within_a_tick = u32::try_from(NANOS_PER_MS / interval).unwrap_or(u32::MAX);
        Some(Rate {
            interval,
            burst: burst.max(within_a_tick).max(1),
        })
    }

    /// Returns the time between two turns without a burst.
    pub(super) fn interval(self) -> Duration {
        Duration::from_nanos(self.interval)
    }

    fn times(self, turns: u64) -> u64 {
        self.interval.saturating_mul(turns)
    }
}

/// The past turns at a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Gcra {
    /// The moment at which past turns are paid off, in nanoseconds since 1970.
    paid: u64,
    /// The rate of `paid`; none before the first turn.
    rate: Option<Rate>,
    /// The moment of the last turn.
    last: Moment,
}

impl Gcra {
    /// Returns the earliest moment of the next turn.
    pub(super) fn next(&self, rate: Rate) -> Moment {
        let saved = rate.times(u64::from(rate.burst).saturating_sub(1));
        let at = self.at(rate).paid.saturating_sub(saved);
        Moment::from_millis(at.div_ceil(NANOS_PER_MS))
    }

    /// Returns the earliest moment of a turn if `others` others are taken before it from now on.
    pub(super) fn next_but(&self, rate: Rate, others: u32, now: Moment) -> Moment {
        let Gcra { paid, .. } = self.at(rate);
        let paid = match others {
            0 => paid,
            others => paid
                .max(since_1970(now))
                .saturating_add(rate.times(u64::from(others))),
        };
        Gcra {
            paid,
            ..self.at(rate)
        }
        .next(rate)
    }

    /// Returns the moment of the last turn.
    pub(super) fn last(&self) -> Moment {
        self.last
    }

    /// Takes a turn now, due or not.
    pub(super) fn take(&mut self, rate: Rate, now: Moment) {
        let Gcra { paid, .. } = self.at(rate);
        *self = Gcra {
            paid: paid.max(since_1970(now)).saturating_add(rate.interval),
            rate: Some(rate),
            last: now,
        };
    }

    /// Tells whether all past turns are paid off.
    pub(super) fn is_paid(&self, now: Moment) -> bool {
        self.paid <= since_1970(now)
    }

    /// Moves past turns back with a clock that was set back.
    pub(super) fn set_back(&mut self, by: Duration) {
        self.paid = self.paid.saturating_sub(nanos(by));
        self.last = self.last - by;
    }

    /// Recounts the same turns by another rate: the same number of turns is owed as of the last one, but at most a
    /// burst.
    fn at(self, rate: Rate) -> Gcra {
        match self.rate {
            Some(before) if before != rate => {
                let last = since_1970(self.last);
                let owed = self
                    .paid
                    .saturating_sub(last)
                    .div_ceil(before.interval)
                    .clamp(1, u64::from(rate.burst));
                Gcra {
                    paid: last.saturating_add(rate.times(owed)),
                    rate: Some(rate),
                    last: self.last,
                }
            }
            _ => Gcra {
                rate: Some(rate),
                ..self
            },
        }
    }
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

fn since_1970(moment: Moment) -> u64 {
    moment.as_millis().saturating_mul(NANOS_PER_MS)
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

    /// Returns a gcra after these turns, in milliseconds from the start.
    fn after(rate: Rate, turns: &[u64]) -> Gcra {
        let mut gcra = Gcra::default();
        for at in turns {
            gcra.take(rate, START + ms(*at));
        }
        gcra
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
        let mut gcra = after(one, &[3_600_000]);
        gcra.set_back(ms(3_600_000));
        assert_eq!(gcra.next(one), START + ms(1_000));
        assert!(!gcra.is_paid(START) && gcra.is_paid(START + ms(1_000)));
    }
}
