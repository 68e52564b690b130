//! The operator's own rate at one origin: so many requests per second, so many of them at once.
//!
//! The generic cell rate algorithm, which is also governor's, with two differences that a queue needs. To ask when the
//! next turn is takes none: a request waits for several things and takes its turn when the last of them is there. And
//! what was let through outlives the rate it went by: under another rate, the same requests count as if that had always
//! held.

use std::time::Duration;

use crate::clock::Moment;

const NANOS_PER_MS: u64 = 1_000_000;

/// A rate: one turn per interval, and so many that may be taken at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rate {
    /// Time from turn to turn, in nanoseconds; at least 1.
    interval: u64,
    /// Turns that may be taken at once; at least 1.
    burst: u32,
}

impl Rate {
    /// So many turns a second, in bursts of so many.
    pub(super) fn new(per_second: f64, burst: u32) -> Option<Rate> {
        let interval = Duration::try_from_secs_f64(1.0 / per_second).ok()?;
        let interval = nanos(interval).max(1);
        // What falls due within one tick of the clock may go within it.
        let within_a_tick = u32::try_from(NANOS_PER_MS / interval).unwrap_or(u32::MAX);
        Some(Rate {
            interval,
            burst: burst.max(within_a_tick).max(1),
        })
    }

    /// Time from turn to turn, where no burst was saved up.
    pub(super) fn interval(self) -> Duration {
        Duration::from_nanos(self.interval)
    }

    fn times(self, turns: u64) -> u64 {
        self.interval.saturating_mul(turns)
    }
}

/// What was let through at a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Meter {
    /// When all that was let through is paid off, in nanoseconds since 1970.
    paid: u64,
    /// The rate that this counts by; none before the first turn.
    rate: Option<Rate>,
    /// When the last turn was.
    last: Moment,
}

impl Meter {
    /// When the next turn may be taken at the earliest.
    pub(super) fn next(&self, rate: Rate) -> Moment {
        let saved = rate.times(u64::from(rate.burst).saturating_sub(1));
        let at = self.at(rate).paid.saturating_sub(saved);
        Moment::from_millis(at.div_ceil(NANOS_PER_MS))
    }

    /// When a turn may be taken at the earliest if so many others are taken from now on before it.
    pub(super) fn next_but(&self, rate: Rate, others: u32, now: Moment) -> Moment {
        let Meter { paid, .. } = self.at(rate);
        let paid = match others {
            0 => paid,
            others => paid
                .max(since_1970(now))
                .saturating_add(rate.times(u64::from(others))),
        };
        Meter {
            paid,
            ..self.at(rate)
        }
        .next(rate)
    }

    /// When the last turn was.
    pub(super) fn last(&self) -> Moment {
        self.last
    }

    /// Takes a turn now, whether it is due or not.
    pub(super) fn take(&mut self, rate: Rate, now: Moment) {
        let Meter { paid, .. } = self.at(rate);
        *self = Meter {
            paid: paid.max(since_1970(now)).saturating_add(rate.interval),
            rate: Some(rate),
            last: now,
        };
    }

    /// Whether nothing is left to be paid off.
    pub(super) fn is_paid(&self, now: Moment) -> bool {
        self.paid <= since_1970(now)
    }

    /// The clock was set back by so much: what was let through goes with it.
    pub(super) fn set_back(&mut self, by: Duration) {
        self.paid = self.paid.saturating_sub(nanos(by));
        self.last = self.last - by;
    }

    /// The same requests, counted by another rate: as many turns are owed as of the last one, but no more than a burst.
    fn at(self, rate: Rate) -> Meter {
        match self.rate {
            Some(before) if before != rate => {
                let last = since_1970(self.last);
                let owed = self
                    .paid
                    .saturating_sub(last)
                    .div_ceil(before.interval)
                    .clamp(1, u64::from(rate.burst));
                Meter {
                    paid: last.saturating_add(rate.times(owed)),
                    rate: Some(rate),
                    last: self.last,
                }
            }
            _ => Meter {
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

    /// A meter from which these turns were taken, in milliseconds from the start.
    fn after(rate: Rate, turns: &[u64]) -> Meter {
        let mut meter = Meter::default();
        for at in turns {
            meter.take(rate, START + ms(*at));
        }
        meter
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
    fn a_clock_that_is_set_back_takes_what_was_paid_with_it() {
        let one = rate(1.0, 1);
        let mut meter = after(one, &[3_600_000]);
        meter.set_back(ms(3_600_000));
        assert_eq!(meter.next(one), START + ms(1_000));
        assert!(!meter.is_paid(START) && meter.is_paid(START + ms(1_000)));
    }
}
