//! Backs off from an origin in trouble: widens the gap between requests.
//!
//! Three signs count: the origin says so (429, or 503; RFC 6585 section 4, RFC 9110 section 15.6.4), it cannot be
//! reached several times in a row, or it answers several times in a row far more slowly than usual. Each sign sets a
//! *gap*, the least time from one request to the next; an origin that says so also gets a rest for its `Retry-After`,
//! or for the gap. The gap doubles with every further sign and halves with every good answer, so it disappears soon
//! after the trouble.
//!
//! Nothing here lasts: no gap and no rest is longer than `[pace] backoff_max`, a gap without a request for ten minutes
//! is forgotten, and each rest ends with a request. One slow or broken page does not slow a site: one slow answer means
//! nothing, and after one 503 three good answers end the gap.
//!
//! Here an outcome becomes a sign; the gap and the rest that follow are part of the origin's
//! [`history`](crate::history). Pure.

use std::time::Duration;

use crate::history::{Report, Sign};

/// The gap after the first sign.
const FIRST: Duration = Duration::from_secs(1);

/// The longest gap for an origin that cannot be reached: below the default hold, so that its crawlers still hear of the
/// failure.
const UNREACHED: Duration = Duration::from_secs(10);

/// The longest gap for an origin that is slow.
const SLUGGISH: Duration = Duration::from_secs(10);

/// Failures to connect, or to answer in time, in a row that count as one sign.
const FAILURES: u8 = 3;

/// Slow answers in a row that count as one sign.
const SLOW_ANSWERS: u8 = 4;

/// An answer is slow if it takes this many times as long as usual …
const FACTOR: f32 = 4.0;

/// … and longer than this, in milliseconds.
const SLOW: f32 = 500.0;

/// Weight of one answer in the usual time.
const SHARE: f32 = 1.0 / 32.0;

/// Answers before the usual time is known.
const KNOWN: u8 = 16;

/// The outcome of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// A response head came, with another status than those below.
    Fine {
        /// The time to the answer; none if it says nothing about the origin.
        latency: Option<Duration>,
    },
    /// 429 or 503.
    Refused {
        /// Its `Retry-After`.
        retry_after: Option<Duration>,
    },
    /// No connection, or no response head in time.
    Failed,
}

/// The signs of trouble in an origin's answers.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Signs {
    failures: u8,
    slow: u8,
    /// The usual time to an answer, in milliseconds.
    usual: f32,
    answers: u8,
}

impl Signs {
    /// Returns the sign that the outcome of a request is. No delay lasts longer than `most`.
    pub(super) fn notice(&mut self, outcome: Outcome, most: Duration) -> Option<Report> {
        match outcome {
            Outcome::Fine { latency } => {
                self.failures = 0;
                if let Some(latency) = latency.filter(|latency| self.is_slow(*latency)) {
                    self.slow = self.slow.saturating_add(1);
                    // A pause as long as the answer took: this halves the rate.
                    let is_sign = self.slow >= SLOW_ANSWERS;
                    return is_sign.then(|| troubled(latency, SLUGGISH.min(most)));
                }
                self.slow = 0;
                Some(Report { sign: Sign::Fine, first: Duration::ZERO, widest: Duration::ZERO })
            }
            Outcome::Refused { retry_after } => {
                (self.failures, self.slow) = (0, 0);
                let retry_after = retry_after.unwrap_or_default();
                Some(Report { sign: Sign::Refused { retry_after }, first: FIRST, widest: most })
            }
            Outcome::Failed => {
                self.slow = 0;
                self.failures = self.failures.saturating_add(1);
                let is_sign = self.failures >= FAILURES;
                is_sign.then(|| troubled(FIRST, UNREACHED.min(most)))
            }
        }
    }

    /// Tells whether an answer took far longer than usual; the usual time adapts slowly.
    fn is_slow(&mut self, latency: Duration) -> bool {
        let latency = latency.as_secs_f32() * 1000.0;
        let is_slow = self.answers >= KNOWN && latency > SLOW && latency > self.usual * FACTOR;
        if self.answers < KNOWN {
            self.answers += 1;
            self.usual += (latency - self.usual) / f32::from(self.answers);
        } else {
            // Clamped: an answer of a minute counts no more than a slow one.
            let latency = latency.min(self.usual.max(SLOW / FACTOR) * FACTOR);
            self.usual += (latency - self.usual) * SHARE;
        }
        is_slow
    }
}

fn troubled(first: Duration, widest: Duration) -> Report {
    Report { sign: Sign::Troubled, first, widest }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Trouble, moment, since_1970};
    use crawlgate_system::clock::Moment;

    /// A gap is forgotten after this time without a request.
    const FORGOTTEN: Duration = Duration::from_secs(600);

    /// An origin, as its limiter sees it.
    #[derive(Default)]
    struct Backoff {
        signs: Signs,
        trouble: Trouble,
    }

    impl Backoff {
        fn record_outcome(&mut self, outcome: Outcome, sent: Moment, now: Moment, most: Duration) {
            let (sent, now) = (since_1970(sent), since_1970(now));
            self.trouble.settle(now);
            if let Some(sign) = self.signs.notice(outcome, most) {
                self.trouble.enter(sign, sent, now, most);
            }
        }

        fn gap(&self) -> Duration {
            Duration::from_micros(self.trouble.gap)
        }

        /// Returns the end of the rest, unless it is over.
        fn rest(&self, now: Moment) -> Option<Moment> {
            Some(moment(self.trouble.rest)).filter(|until| *until > now)
        }

        fn settle(&mut self, now: Moment) {
            self.trouble.settle(since_1970(now));
        }

        fn is_calm(&self) -> bool {
            self.trouble.is_calm()
        }
    }

    const START: Moment = Moment::from_millis(1_790_000_000_000);
    const MAX: Duration = Duration::from_secs(300);

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    const FINE: Outcome = Outcome::Fine { latency: None };
    const REFUSED: Outcome = Outcome::Refused { retry_after: None };

    fn after(retry_after: u64) -> Outcome {
        Outcome::Refused { retry_after: Some(Duration::from_secs(retry_after)) }
    }

    fn latency(millis: u64) -> Outcome {
        Outcome::Fine { latency: Some(ms(millis)) }
    }

    /// Returns the gap and the rest of the rest at the end, in milliseconds, after these outcomes ten seconds apart.
    fn one_by_one(outcomes: &[Outcome]) -> (u128, u128) {
        let mut backoff = Backoff::default();
        let mut now = START;
        for outcome in outcomes {
            now = now + ms(10_000);
            backoff.record_outcome(*outcome, now, now, MAX);
        }
        let rest = backoff.rest(now).map(|until| until.since(now));
        (backoff.gap().as_millis(), rest.unwrap_or_default().as_millis())
    }

    #[test]
    fn signs_widen_the_gap_and_fine_answers_narrow_it() {
        #[rustfmt::skip] // one row, one case
        let cases: &[(&str, &[Outcome], (u128, u128))] = &[
            ("nothing", &[FINE, FINE], (0, 0)),
            ("a refusal", &[REFUSED], (1_000, 1_000)),
            ("again", &[REFUSED, REFUSED, REFUSED], (4_000, 4_000)),
            ("Retry-After", &[after(120)], (1_000, 120_000)),
            ("Retry-After: 0 is no leave to hurry", &[after(0)], (1_000, 1_000)),
            ("Retry-After beyond the bound", &[after(86_400)], (1_000, 300_000)),
            ("for ever", &[REFUSED; 40], (300_000, 300_000)),
            ("fine again", &[REFUSED, REFUSED, REFUSED, FINE], (2_000, 0)),
            ("one refusal is over after three answers", &[REFUSED, FINE, FINE, FINE], (0, 0)),
            ("every second page is broken", &[REFUSED, FINE, REFUSED, FINE, REFUSED], (1_000, 1_000)),
            ("two failures mean nothing", &[Outcome::Failed; 2], (0, 0)),
            ("three do", &[Outcome::Failed; 3], (1_000, 0)),
            ("a crawler still learns of the hundredth", &[Outcome::Failed; 100], (10_000, 0)),
            ("failures that are not in a row", &[Outcome::Failed, Outcome::Failed, FINE, Outcome::Failed], (0, 0)),
            ("a failure takes nothing back", &[REFUSED, REFUSED, REFUSED, REFUSED, REFUSED, REFUSED, Outcome::Failed, Outcome::Failed, Outcome::Failed], (32_000, 2_000)),
        ];
        for (name, outcomes, expected) in cases {
            assert_eq!(one_by_one(outcomes), *expected, "{name}");
        }
    }

    #[test]
    fn repeated_answers_slower_than_usual_count_as_slow() {
        let usual = |millis: u64, then: &[u64]| {
            let outcomes = std::iter::repeat_n(millis, 50).chain(then.iter().copied());
            one_by_one(&outcomes.map(latency).collect::<Vec<_>>()).0
        };
        #[rustfmt::skip] // one row, one case
        let cases: &[(&str, u64, &[u64], u128)] = &[
            ("one slow page", 50, &[30_000], 0),
            ("three, one of them twice", 50, &[2_000, 2_000, 2_000], 0),
            ("slow pages between others", 50, &[2_000, 50, 2_000, 2_000, 50, 2_000], 0),
            ("four in a row", 50, &[2_000, 2_000, 2_000, 2_000], 2_000),
            ("fast again", 50, &[2_000, 2_000, 2_000, 2_000, 50, 50], 500),
            ("never longer than ten seconds", 50, &[60_000; 8], 10_000),
            ("a slow origin is not slower than usual", 2_000, &[2_500; 10], 0),
            ("a rise too small to notice", 5, &[400; 10], 0),
        ];
        for (name, before, then, expected) in cases {
            assert_eq!(usual(*before, then), *expected, "{name}");
        }
        assert_eq!(usual(50, &[2_000; 400]), 0, "what lasts becomes usual");
    }

    #[test]
    fn refusals_in_flight_at_the_same_time_count_once() {
        let mut backoff = Backoff::default();
        for at in 0..64 {
            backoff.record_outcome(REFUSED, START, START + ms(100 + at), MAX);
        }
        assert_eq!(backoff.gap(), ms(1_000));
        backoff.record_outcome(FINE, START, START + ms(200), MAX);
        assert_eq!(backoff.gap(), ms(1_000), "an old answer takes nothing back");
        let rest = backoff.rest(START + ms(200)).expect("a rest");
        assert_eq!(rest, START + ms(163) + ms(1_000));
    }

    #[test]
    fn gaps_and_rests_that_are_over_are_forgotten() {
        let mut backoff = Backoff::default();
        backoff.record_outcome(after(5), START, START, MAX);
        backoff.settle(START + ms(5_000));
        assert_eq!((backoff.gap(), backoff.rest(START)), (ms(1_000), None));
        assert!(!backoff.is_calm());
        backoff.settle(START + FORGOTTEN);
        assert!(backoff.is_calm());
    }
}
