//! Scripts of (moment, result) → stances for requests. No runtime, no clock.

mod clock;
mod freshness;
mod outage;
mod properties;
mod tdmrep;

use super::*;
use crate::timing::ProfileName;
use crawlgate_robots::{ParseOptions, Robots};

/// The consequence for a request, reduced to its deciding parts. Files are told apart by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meets {
    Wait,
    File(u16),
    NoRestrictions,
    CompleteDisallow,
}
use Meets::{CompleteDisallow, File, NoRestrictions, Wait};

impl Meets {
    fn of(stance: &Stance) -> Meets {
        match stance {
            Stance::Unknown => Wait,
            Stance::Rules(snapshot) => File(snapshot.status),
            Stance::AllowAll => NoRestrictions,
            Stance::DisallowAll { .. } => CompleteDisallow,
        }
    }
}

/// One origin's life. Times count from its start.
struct Script {
    state: State,
    timing: Timing,
    /// The time of the wall clock.
    now: Moment,
    /// The time that has passed.
    passed: Duration,
    /// The origin's latest failure, by `passed`; none after a restart.
    failed: Option<Duration>,
    jitter: f64,
}

/// Any day except the epoch.
const START: Moment = Moment::from_millis(1_790_000_000_000);

impl Script {
    fn new() -> Script {
        Script::by(ProfileName::Standard)
    }

    fn by(profile: ProfileName) -> Script {
        Script {
            state: State::default(),
            timing: Timing { profile: ProfileRules::of(profile), ..Timing::default() },
            now: START,
            passed: Duration::ZERO,
            failed: None,
            jitter: 0.0,
        }
    }

    /// Lets time pass, on both clocks.
    fn pass(mut self, time: Duration) -> Script {
        self.now = self.now + time;
        self.passed += time;
        self
    }

    /// Lets time pass until the wall clock shows this time after the start.
    fn at(self, since_start: Duration) -> Script {
        let time = (START + since_start).since(self.now);
        self.pass(time)
    }

    /// Sets the wall clock.
    fn set(mut self, since_start: Duration) -> Script {
        self.now = START + since_start;
        self
    }

    /// Restarts the process: from now on only the wall clock tells the time since a failure.
    fn restart(mut self) -> Script {
        self.failed = None;
        self
    }

    /// Ends a fetch.
    fn fetch(self, result: AccessResult) -> Script {
        self.fetch_reaching(Reach::Some, result)
    }

    /// Ends a fetch while the gate reaches no origin.
    fn fetch_in_vain(self, result: AccessResult) -> Script {
        self.fetch_reaching(Reach::Nothing, result)
    }

    fn fetch_reaching(mut self, reach: Reach, mut result: AccessResult) -> Script {
        if let AccessResult::Successful { snapshot, .. } = &mut result {
            let robots = snapshot.robots.clone();
            *snapshot = Snapshot::new(robots, self.now, snapshot.status, "").into();
        }
        let end = FetchEnd {
            now: self.now,
            since_failure: self.failed.map(|failed| self.passed - failed),
            reach,
        };
        self.state = self.state.after(result, end, &self.timing, self.jitter);
        match self.state.outage().map(|outage| outage.last_failure) {
            Some(Some(last)) if last == self.now => self.failed = Some(self.passed),
            Some(_) => {}
            None => self.failed = None,
        }
        self
    }

    /// Fails now, and again each day or sooner until the outage is this long.
    fn fail_for(mut self, length: Duration, cause: Cause) -> Script {
        self = self.fetch(down(cause.clone()));
        let end = self.passed + length;
        while self.passed < end {
            let gap = OBSERVED.min(end - self.passed);
            self = self.pass(gap).fetch(down(cause.clone()));
        }
        self
    }

    /// Corrects the state as a request would, after any change of clock or settings.
    fn look(mut self) -> Script {
        if let Some(corrected) = self.state.corrected(self.now, &self.timing) {
            self.state = corrected;
        }
        let again = self.state.corrected(self.now, &self.timing);
        assert!(again.is_none(), "corrected once and for all: {again:?}");
        self
    }

    #[track_caller]
    fn expect(self, meets: Meets, due: Due) -> Script {
        let stance = self.state.stance(self.now, &self.timing.profile);
        let found = (Meets::of(&stance), self.due());
        let after = self.now.since(START);
        assert_eq!(found, (meets, due), "after {after:?}: {:?}", self.state);
        self
    }

    #[track_caller]
    fn expect_due_now(self) -> Script {
        assert_eq!(self.due(), Due::Now);
        self
    }

    fn due(&self) -> Due {
        self.state.due(self.now, &self.timing.profile)
    }

    #[track_caller]
    fn expect_outage(self, since: Duration, next_attempt: Duration) -> Script {
        let outage = self.state.outage().expect("an outage");
        let found = (outage.since, outage.next_attempt);
        assert_eq!(found, (START + since, START + next_attempt));
        self
    }
}

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}
const fn s(n: u64) -> Duration {
    Duration::from_secs(n)
}
const fn m(n: u64) -> Duration {
    s(60 * n)
}
const fn h(n: u64) -> Duration {
    m(60 * n)
}
const fn d(n: u64) -> Duration {
    h(24 * n)
}

fn file(number: u16) -> AccessResult {
    file_for(number, Freshness::Unsaid)
}

fn file_for(number: u16, freshness: Freshness) -> AccessResult {
    let robots = Robots::parse(b"User-agent: *\nDisallow: /", ParseOptions::default());
    AccessResult::Successful {
        snapshot: Snapshot::new(robots, START, number, "").into(),
        freshness,
    }
}

fn gone() -> AccessResult {
    AccessResult::Unavailable { why: Absence::Status(404), freshness: Freshness::Unsaid }
}

fn down(cause: Cause) -> AccessResult {
    AccessResult::Unreachable { cause, retry_after: None }
}

fn come_back_in(cause: Cause, retry_after: Duration) -> AccessResult {
    AccessResult::Unreachable { cause, retry_after: Some(retry_after) }
}

#[test]
fn the_first_request_waits_and_the_first_result_decides() {
    let first = || Script::new().expect(Wait, Due::Now);
    first().fetch(file(1)).expect(File(1), Due::No);
    first().fetch(gone()).expect(NoRestrictions, Due::No);
    first()
        .fetch(down(Cause::Dns))
        .expect(CompleteDisallow, Due::No)
        .at(s(5) - ms(1))
        .expect(CompleteDisallow, Due::No)
        .at(s(5))
        .expect(CompleteDisallow, Due::Now);
}
