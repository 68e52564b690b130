//! Scripts of (moment, result) → stances for requests. No runtime, no clock.

use proptest::prelude::*;

use super::*;
use crate::config::ProfileName;
use crate::rep::{ParseOptions, Robots};

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
            timing: Timing {
                profile: ProfileRules::of(profile),
                ..Timing::default()
            },
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
        self = self.fetch(down(cause));
        let end = self.passed + length;
        while self.passed < end {
            let gap = OBSERVED.min(end - self.passed);
            self = self.pass(gap).fetch(down(cause));
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
    AccessResult::Unavailable {
        why: Absence::Status(404),
        freshness: Freshness::Unsaid,
    }
}

fn down(cause: Cause) -> AccessResult {
    AccessResult::Unreachable {
        cause,
        retry_after: None,
    }
}

fn come_back_in(cause: Cause, retry_after: Duration) -> AccessResult {
    AccessResult::Unreachable {
        cause,
        retry_after: Some(retry_after),
    }
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

#[test]
fn a_copy_is_fresh_for_24_hours_and_refreshed_ahead_of_its_end() {
    let refresh_from = h(24).mul_f64(0.8);
    for (result, meets) in [(file(1), File(1)), (gone(), NoRestrictions)] {
        Script::new()
            .fetch(result)
            .at(refresh_from - ms(1))
            .expect(meets, Due::No)
            .at(refresh_from)
            .expect(meets, Due::Ahead)
            .at(h(24) - ms(1))
            .expect(meets, Due::Ahead)
            .at(h(24))
            .expect(Wait, Due::Now)
            .fetch(file(2))
            .expect(File(2), Due::No);
    }
}

#[test]
fn cache_control_changes_freshness_within_bounds() {
    use Freshness::{MaxAge, Shortest, Unsaid};
    for (name, asked, life) in [
        ("nothing said", Unsaid, h(24)),
        ("max-age within bounds", MaxAge(h(2)), h(2)),
        ("max-age of the lower bound", MaxAge(m(5)), m(5)),
        ("max-age below", MaxAge(s(1)), m(5)),
        ("max-age 0", MaxAge(s(0)), m(5)),
        ("max-age above", MaxAge(d(365)), h(24)),
        ("no-store, no-cache", Shortest, m(5)),
    ] {
        let fresh = Fresh::starting(START, asked, &Timing::default());
        assert_eq!(fresh.until.since(START), life, "{name}");
        assert!(START < fresh.refresh_from, "{name}");
        assert!(fresh.refresh_from < fresh.until, "{name}");
    }
    let no_bounds = Timing {
        fresh_min: s(0),
        ..Timing::default()
    };
    let fresh = Fresh::starting(START, Shortest, &no_bounds);
    assert!(START < fresh.until, "those who waited can use what came");
}

#[test]
fn a_failed_refresh_changes_nothing_while_the_copy_is_fresh() {
    Script::new()
        .fetch(file(1))
        .at(h(20))
        .expect(File(1), Due::Ahead)
        .fetch(down(Cause::Timeout))
        .expect(File(1), Due::No)
        .at(h(20) + s(5))
        .expect(File(1), Due::Ahead)
        .at(h(24) - ms(1))
        .expect(File(1), Due::Ahead)
        .fetch(file(2))
        .at(h(24))
        .expect(File(2), Due::No);
    Script::new()
        .fetch(gone())
        .at(h(20))
        .fetch(down(Cause::Timeout))
        .expect(NoRestrictions, Due::No)
        .at(h(20) + s(5))
        .expect(NoRestrictions, Due::Ahead);
}

#[test]
fn a_stale_copy_in_an_outage_is_a_complete_disallow_since_the_first_failure() {
    for (result, meets) in [(file(1), File(1)), (gone(), NoRestrictions)] {
        Script::new()
            .fetch(result)
            .at(h(23))
            .fetch(down(Cause::Connect))
            .at(h(23) + m(30))
            .fetch(down(Cause::Timeout))
            .expect(meets, Due::No)
            .at(h(24))
            .expect(CompleteDisallow, Due::Now)
            .fetch(down(Cause::Status(500)))
            .expect(CompleteDisallow, Due::No)
            .expect_outage(h(23), h(24) + s(20));
    }
}

#[test]
fn a_copy_that_went_stale_unused_is_fetched_before_it_fails() {
    Script::new()
        .fetch(file(1))
        .at(d(40))
        .expect(Wait, Due::Now)
        .fetch(down(Cause::Dns))
        .expect(CompleteDisallow, Due::No)
        .expect_outage(d(40), d(40) + s(5));
}

#[test]
fn retries_back_off() {
    let doubling = [5, 10, 20, 40, 80, 160, 320, 640, 1280, 2560, 3600, 3600];
    let doubling_to_5m = [5, 10, 20, 40, 80, 160, 300, 300, 300, 300, 300, 300];
    for (cause, waits) in [
        (Cause::Dns, doubling),
        (Cause::Status(500), doubling),
        (Cause::Status(429), doubling),
        (Cause::Certificate, doubling),
        (Cause::Status(503), doubling_to_5m),
    ] {
        let mut script = Script::new();
        let mut clock = Duration::ZERO;
        for wait in waits {
            script = script
                .at(clock)
                .expect_due_now()
                .fetch(down(cause))
                .expect(CompleteDisallow, Due::No)
                .expect_outage(s(0), clock + s(wait));
            clock += s(wait);
        }
    }
}

#[test]
fn the_back_off_survives_any_number_of_failures() {
    let mut script = Script::new();
    for _ in 0..100 {
        script = script.fetch(down(Cause::Dns));
    }
    script.expect_outage(s(0), h(1));
}

#[test]
fn the_bound_of_503_holds_from_the_first_503_on() {
    let mut script = Script::new();
    for _ in 0..12 {
        script = script.fetch(down(Cause::Dns));
    }
    script
        .expect_outage(s(0), h(1))
        .at(h(1))
        .fetch(down(Cause::Status(503)))
        .expect_outage(s(0), h(1) + m(5));
}

#[test]
fn retry_after_is_honoured_within_bounds() {
    for (name, cause, asked, wait) in [
        ("within", Cause::Status(503), m(2), m(2)),
        ("beyond the bound of 503", Cause::Status(503), m(50), m(50)),
        ("too soon", Cause::Status(429), s(0), s(5)),
        ("too late", Cause::Status(429), d(3), h(1)),
        ("absurd", Cause::Status(429), Duration::MAX, h(1)),
    ] {
        let script = Script::new().fetch(come_back_in(cause, asked));
        let outage = script.state.outage().expect("an outage");
        assert_eq!(outage.next_attempt.since(START), wait, "{name}");
    }
}

#[test]
fn jitter_makes_retries_later_only_and_never_later_than_the_bound() {
    for (jitter, cause, retry_after, wait) in [
        (0.0, Cause::Dns, None, s(5)),
        (0.5, Cause::Dns, None, ms(5_250)),
        (0.999, Cause::Dns, None, ms(5_499)),
        (0.5, Cause::Status(429), Some(m(10)), s(630)),
        (0.999, Cause::Status(429), Some(h(1)), h(1)),
    ] {
        let mut script = Script::new();
        script.jitter = jitter;
        let script = script.fetch(AccessResult::Unreachable { cause, retry_after });
        let outage = script.state.outage().expect("an outage");
        assert_eq!(outage.next_attempt.since(START), wait, "{jitter} {cause}");
    }
}

#[test]
fn the_profile_decides_what_a_long_outage_means() {
    use ProfileName::{Archive, Google, Standard};
    const DEAD: Cause = Cause::Timeout;
    const ERROR: Cause = Cause::Status(500);
    let almost = |duration| duration - ms(1);
    // The outage begins at hour 24, when the copy, if there is one, is stale.
    for (profile, copy, cause, length, meets) in [
        (Standard, true, DEAD, s(0), CompleteDisallow),
        (Standard, true, DEAD, almost(d(30)), CompleteDisallow),
        (Standard, true, DEAD, d(30), File(1)),
        (Standard, true, ERROR, d(3650), File(1)),
        (Standard, false, DEAD, almost(d(30)), CompleteDisallow),
        (Standard, false, DEAD, d(30), NoRestrictions),
        (Standard, false, ERROR, d(3650), NoRestrictions),
        (Google, true, DEAD, almost(h(12)), CompleteDisallow),
        (Google, true, DEAD, h(12), File(1)),
        (Google, true, DEAD, almost(d(30)), File(1)),
        (Google, true, DEAD, d(30), CompleteDisallow),
        (Google, true, ERROR, d(30), NoRestrictions),
        (Google, true, Cause::Redirect(304), d(30), NoRestrictions),
        (Google, true, Cause::Encoding, d(30), NoRestrictions),
        (Google, true, Cause::Tls, d(30), CompleteDisallow),
        (Google, true, Cause::Internal, s(0), CompleteDisallow),
        (Google, false, DEAD, almost(h(12)), CompleteDisallow),
        (Google, false, DEAD, h(12), NoRestrictions),
        (Google, false, DEAD, d(30), CompleteDisallow),
        (Google, false, ERROR, d(30), NoRestrictions),
        (Archive, true, DEAD, s(0), NoRestrictions),
        (Archive, false, ERROR, s(0), NoRestrictions),
        (Archive, true, DEAD, d(3650), NoRestrictions),
    ] {
        let mut script = Script::by(profile);
        if copy {
            script = script.fetch(file(1));
        }
        let script = script.at(h(24)).fail_for(length, cause);
        let stance = script.state.stance(script.now, &script.timing.profile);
        let row = (profile, copy, cause, length);
        assert_eq!(Meets::of(&stance), meets, "{row:?}");
    }
}

#[test]
fn the_profile_does_not_matter_while_a_copy_is_fresh() {
    for profile in [
        ProfileName::Standard,
        ProfileName::Google,
        ProfileName::Archive,
    ] {
        Script::by(profile)
            .fetch(file(1))
            .at(h(23))
            .fetch(down(Cause::Dns))
            .expect(File(1), Due::No);
    }
}

#[test]
fn what_a_long_outage_permits_is_asked_about_first_and_each_minute() {
    let open = || Script::new().fail_for(d(30), Cause::Dns);
    open()
        .expect(NoRestrictions, Due::No)
        .pass(s(60) - ms(1))
        .expect(NoRestrictions, Due::No)
        .pass(ms(1))
        .expect(NoRestrictions, Due::Now)
        .fetch(down(Cause::Dns))
        .expect(NoRestrictions, Due::No)
        .pass(m(10))
        .expect(NoRestrictions, Due::Now)
        .fetch(file(1))
        .expect(File(1), Due::No);
    // The origin's `Retry-After` does not postpone the next fetch here.
    open()
        .pass(m(1))
        .fetch(come_back_in(Cause::Status(503), h(1)))
        .expect(NoRestrictions, Due::No)
        .pass(m(1))
        .expect(NoRestrictions, Due::Now);
    Script::new()
        .fetch(file(1))
        .at(h(24))
        .fail_for(d(30), Cause::Timeout)
        .expect(File(1), Due::No)
        .pass(m(1))
        .expect(File(1), Due::Now);
    // An outage that still disallows backs off.
    Script::new()
        .fail_for(d(29), Cause::Dns)
        .pass(m(1))
        .expect(CompleteDisallow, Due::No);
    Script::by(ProfileName::Archive)
        .fetch(down(Cause::Dns))
        .expect(NoRestrictions, Due::No)
        .at(s(5))
        .expect(NoRestrictions, Due::Now)
        .fail_for(h(20), Cause::Dns)
        .expect(NoRestrictions, Due::No)
        .pass(m(1))
        .expect(NoRestrictions, Due::Now);
}

#[test]
fn an_outage_is_only_as_long_as_it_was_observed() {
    // One failure, then no request for a month: the origin may have been back for weeks.
    Script::new()
        .fetch(down(Cause::Dns))
        .at(d(31))
        .expect(CompleteDisallow, Due::Now)
        .fetch(down(Cause::Dns))
        .expect(CompleteDisallow, Due::No)
        .expect_outage(d(31), d(31) + s(5));
    for (name, gap, since) in [
        ("a day", d(1), d(29)),
        ("longer than a day", d(1) + ms(1), d(30) + ms(1)),
        ("a week", d(7), d(36)),
    ] {
        let script = Script::new().pass(d(29)).fetch(down(Cause::Dns)).pass(gap);
        let script = script.fetch(down(Cause::Connect));
        let outage = script.state.outage().expect(name);
        assert_eq!(outage.since, START + since, "{name}");
    }
    // Twenty-nine days, a pause of two, and all of them count.
    Script::new()
        .fail_for(d(29), Cause::Dns)
        .pass(d(2))
        .fail_for(d(30) - ms(1), Cause::Dns)
        .expect(CompleteDisallow, Due::No)
        .pass(ms(1))
        .fetch(down(Cause::Dns))
        .expect(NoRestrictions, Due::No);
}

#[test]
fn a_clock_that_is_set_lengthens_no_outage() {
    // The clock is forty days behind, and then right.
    Script::new()
        .fetch(down(Cause::Dns))
        .set(d(40))
        .look()
        .expect(CompleteDisallow, Due::Now)
        .pass(s(5))
        .fetch(down(Cause::Dns))
        .expect(CompleteDisallow, Due::No)
        .expect_outage(d(40), d(40) + s(15));
    // Jumps by hours, again and again: each is too short to begin a new outage.
    let mut script = Script::new();
    for jump in 0..60 {
        script = script
            .fetch(down(Cause::Dns))
            .set(h(20) * jump)
            .look()
            .pass(m(1));
    }
    let length = script.state.outage().expect("an outage").length();
    assert!(length <= h(1), "{length:?}");
    script.expect(CompleteDisallow, Due::Now);
    // Set back by any time: the observed length stays.
    Script::new()
        .at(d(100))
        .fail_for(d(29), Cause::Dns)
        .set(s(0))
        .look()
        .expect(CompleteDisallow, Due::Now)
        .fail_for(d(1), Cause::Dns)
        .expect(NoRestrictions, Due::No);
    // A restart, with a clock that was set in either direction meanwhile.
    for (wall, wait) in [(d(40), s(5)), (s(0), s(10))] {
        Script::new()
            .at(d(20))
            .fetch(down(Cause::Dns))
            .restart()
            .set(wall)
            .look()
            .fetch(down(Cause::Dns))
            .expect(CompleteDisallow, Due::No)
            .expect_outage(wall, wall + wait);
    }
}

#[test]
fn the_gates_own_outage_counts_for_no_origin() {
    // Such a failure denies from the start, but starts no outage.
    let mut script = Script::new();
    for _ in 0..40 {
        script = script
            .fetch_in_vain(down(Cause::Dns))
            .expect(CompleteDisallow, Due::No)
            .pass(d(1))
            .expect(CompleteDisallow, Due::Now);
    }
    let now = script.now.since(START);
    script
        .fetch(down(Cause::Dns))
        .expect_outage(now, now + h(1))
        .fail_for(d(30) - ms(1), Cause::Dns)
        .expect(CompleteDisallow, Due::No);
    // Nor does it lengthen one.
    Script::new()
        .fail_for(d(29), Cause::Timeout)
        .pass(h(20))
        .fetch_in_vain(down(Cause::Dns))
        .pass(h(20))
        .fetch_in_vain(down(Cause::Dns))
        .expect(CompleteDisallow, Due::No)
        .pass(h(20))
        .fetch(down(Cause::Timeout))
        .expect(CompleteDisallow, Due::No)
        .expect_outage(d(29) + h(60), d(29) + h(60) + s(5));
    // Once it is over, no request waits for an hour.
    let script = Script::new().fetch_in_vain(come_back_in(Cause::Timeout, h(1)));
    script.pass(m(1)).expect(CompleteDisallow, Due::Now);
    // The rules of a fresh copy hold.
    Script::new()
        .fetch(file(1))
        .at(h(20))
        .fetch_in_vain(down(Cause::Dns))
        .expect(File(1), Due::No)
        .at(h(24))
        .expect(CompleteDisallow, Due::Now);
    // A failure before the origin was asked is not the origin's.
    for cause in [Cause::Internal, Cause::Prohibited, Cause::Unaddressable] {
        Script::new()
            .fail_for(d(40), cause)
            .expect(CompleteDisallow, Due::No);
    }
}

#[test]
fn a_result_ends_the_outage() {
    let outage = || {
        Script::new()
            .fetch(file(1))
            .at(h(25))
            .fetch(down(Cause::Dns))
            .at(h(26))
            .fetch(down(Cause::Dns))
            .expect(CompleteDisallow, Due::No)
            .at(h(27))
    };
    outage()
        .fetch(file(2))
        .expect(File(2), Due::No)
        .at(h(50))
        .fetch(down(Cause::Dns))
        .expect_outage(h(50), h(50) + s(5));
    outage().fetch(gone()).expect(NoRestrictions, Due::No);
}

#[test]
fn a_disallowed_hop_removes_no_copy() {
    let stopped = || AccessResult::Unavailable {
        why: Absence::DisallowedHop,
        freshness: Freshness::Unsaid,
    };
    Script::new()
        .fetch(stopped())
        .expect(NoRestrictions, Due::No);
    Script::new()
        .fetch(down(Cause::Dns))
        .at(h(1))
        .fetch(stopped())
        .expect(NoRestrictions, Due::No);
    let script = Script::new()
        .fetch(file(1))
        .at(h(20))
        .fetch(stopped())
        .expect(File(1), Due::No)
        .at(h(25))
        .fetch(stopped())
        .expect(CompleteDisallow, Due::No)
        .at(h(26))
        .fetch(stopped())
        .expect(CompleteDisallow, Due::No);
    let outage = script.state.outage().expect("an outage");
    assert_eq!(outage.cause, Cause::DisallowedHop);
    script.fetch(file(2)).expect(File(2), Due::No);
}

#[test]
fn a_404_after_an_outage_forgets_the_last_good_copy() {
    let script = Script::new()
        .fetch(file(1))
        .at(h(25))
        .fetch(down(Cause::Dns))
        .at(h(26))
        .fetch(gone())
        .at(h(50))
        .expect(Wait, Due::Now)
        .fail_for(d(30), Cause::Dns)
        .expect(NoRestrictions, Due::No);
    assert!(script.state.snapshot().is_none());
}

#[test]
fn a_clock_that_is_set_back_opens_nothing() {
    Script::new()
        .at(d(40))
        .fetch(down(Cause::Dns))
        .set(d(1))
        .expect(CompleteDisallow, Due::No);
}

#[test]
fn moments_from_a_clock_that_was_ahead_are_not_believed() {
    for (result, meets) in [(file(1), File(1)), (gone(), NoRestrictions)] {
        let ahead = || Script::new().set(d(60)).fetch(result.clone());
        ahead().set(d(60) - ms(1)).look().expect(Wait, Due::Now);
        for after in [s(1), d(3), d(30)] {
            ahead().set(after).look().expect(Wait, Due::Now);
            ahead()
                .fetch(down(Cause::Dns))
                .set(after)
                .look()
                .expect(CompleteDisallow, Due::Now)
                .expect_outage(after, after);
        }
        Script::new()
            .fetch(result)
            .at(h(24) - ms(1))
            .look()
            .expect(meets, Due::Ahead);
    }
    let ahead = || {
        Script::new()
            .set(d(60))
            .fetch(come_back_in(Cause::Status(503), h(1)))
    };
    ahead()
        .set(s(1))
        .look()
        .expect(CompleteDisallow, Due::Now)
        .expect_outage(s(1), s(1));
    // A wait of at most the longest one is kept, also when the clock went back a little.
    ahead()
        .set(d(60) - ms(1))
        .look()
        .expect(CompleteDisallow, Due::Now);
    ahead()
        .at(d(60) + s(1))
        .look()
        .expect(CompleteDisallow, Due::No)
        .expect_outage(d(60), d(60) + h(1));
}

#[test]
fn lowered_bounds_apply_to_stored_copies() {
    for result in [file(1), gone()] {
        // Counted from the fetch, not from the first look at it.
        for after in [s(0), h(1), h(23) + m(30)] {
            let mut script = Script::new().fetch(result.clone());
            script.timing.fresh_max = h(1);
            script.at(after).look().expect(Wait, Due::Now);
        }
    }
    let mut script = Script::new().fetch(come_back_in(Cause::Status(429), h(1)));
    script.timing.retry_max = m(1);
    script.look().expect(CompleteDisallow, Due::Now);
}

#[test]
fn a_file_is_parsed_again_under_another_leniency() {
    let held = Script::new().fetch(file(1)).state;
    assert!(held.read_anew(true).is_none());
    for state in [
        held.clone(),
        State::Unreachable {
            outage: Script::new()
                .fetch(down(Cause::Dns))
                .state
                .outage()
                .copied()
                .expect("an outage"),
            last_good: held.snapshot().cloned(),
        },
    ] {
        let anew = state.read_anew(false).expect("another one");
        let (old, new) = (state.snapshot().expect("a"), anew.snapshot().expect("a"));
        assert!(old.robots.is_lenient() && !new.robots.is_lenient());
        assert_eq!((old.sha256, old.fetched), (new.sha256, new.fetched));
        assert_eq!(state.name(), anew.name());
    }
    assert!(State::NeverFetched.read_anew(false).is_none());
}

/// The next event in a random life: some time passes, then a fetch ends.
fn step() -> impl Strategy<Value = (Duration, AccessResult)> {
    let gap = prop_oneof![
        (0..10_000_u64).prop_map(ms),
        (0..10_000_u64).prop_map(s),
        (0..50_u64).prop_map(h),
        (0..40_u64).prop_map(d),
    ];
    let cause = prop::sample::select(&[
        Cause::Dns,
        Cause::Timeout,
        Cause::Status(429),
        Cause::Status(500),
        Cause::Status(503),
        Cause::Internal,
    ]);
    let retry_after = prop::option::weighted(0.3, (0..100_000_u64).prop_map(s));
    let failed = (cause, retry_after)
        .prop_map(|(cause, retry_after)| AccessResult::Unreachable { cause, retry_after });
    let freshness = prop_oneof![
        Just(Freshness::Unsaid),
        Just(Freshness::Shortest),
        (0..200_000_u64).prop_map(|age| Freshness::MaxAge(s(age))),
    ];
    let ended = (any::<bool>(), freshness).prop_map(|(found, freshness)| {
        if found {
            file_for(1, freshness)
        } else {
            AccessResult::Unavailable {
                why: Absence::Status(404),
                freshness,
            }
        }
    });
    (gap, prop_oneof![3 => failed, 1 => ended])
}

/// An event of the clocks before a step, besides the time that passes.
#[derive(Debug, Clone, Copy)]
enum Befalls {
    Nothing,
    /// Sets the wall clock to this time after the start.
    Set(Duration),
    /// Restarts the process.
    Restart,
}

fn befalls() -> impl Strategy<Value = Befalls> {
    prop_oneof![
        3 => Just(Befalls::Nothing),
        1 => (0..3_000_u64).prop_map(|hours| Befalls::Set(h(hours))),
        1 => Just(Befalls::Restart),
    ]
}

/// An outside record of a life, by true time alone: the observed length of the failures, the latest failure, and the
/// number of gaps that only the wall clock measured.
#[derive(Default)]
struct Memory {
    failing: Option<Failing>,
    fresh_until: Option<Moment>,
}

struct Failing {
    /// The length of the outage, and the origin's latest failure; none if only the gate has failed.
    observed: Option<(Duration, Duration)>,
    /// True if the process restarted after the origin's latest failure: only the wall clock measures the gap.
    is_blind: bool,
    /// Number of gaps that only a changed wall clock measured: at most a day each.
    blind: u32,
}

impl Memory {
    /// Records a fetch that failed at `passed`.
    fn failed(&mut self, passed: Duration, is_the_origins: bool) {
        let failing = self.failing.get_or_insert(Failing {
            observed: None,
            is_blind: false,
            blind: 0,
        });
        if !is_the_origins {
            return;
        }
        failing.blind += u32::from(failing.is_blind);
        failing.is_blind = false;
        failing.observed = Some(match failing.observed {
            Some((length, last)) if passed - last <= d(1) => (length + (passed - last), passed),
            _ => (Duration::ZERO, passed),
        });
    }

    /// Returns the longest possible length of the outage.
    fn longest(&self) -> Duration {
        self.failing.as_ref().map_or(Duration::ZERO, |failing| {
            let (length, _) = failing.observed.unwrap_or_default();
            length + d(1) * failing.blind
        })
    }
}

proptest! {
    #[test]
    fn no_life_allows_before_an_outage_has_lasted(
        steps in prop::collection::vec((step(), prop::bool::weighted(0.2)), 1..40),
        jitter in 0.0..1.0,
        pause in (0..800_u64).prop_map(h),
    ) {
        let mut script = Script::new();
        script.jitter = jitter;
        let mut memory = Memory::default();
        for ((gap, result), in_vain) in steps {
            script = script.pass(gap);
            check(&script, &memory)?;
            let failure = match &result {
                AccessResult::Unreachable { cause, retry_after } => Some((*cause, *retry_after)),
                AccessResult::Successful { freshness, .. }
                | AccessResult::Unavailable { freshness, .. } => {
                    let fresh = Fresh::starting(script.now, *freshness, &script.timing);
                    memory = Memory { failing: None, fresh_until: Some(fresh.until) };
                    None
                }
            };
            let (now, passed) = (script.now, script.passed);
            let reach = if in_vain { Reach::Nothing } else { Reach::Some };
            script = script.fetch_reaching(reach, result);
            if let Some((cause, retry_after)) = failure {
                memory.failed(passed, !in_vain && cause != Cause::Internal);
                let outage = script.state.outage().expect("a failure is remembered");
                let wait = outage.next_attempt.since(now);
                let longest = match (cause, retry_after) {
                    _ if in_vain => m(1),
                    (Cause::Status(503), None) => m(5),
                    _ => h(1),
                };
                prop_assert!(s(5) <= wait && wait <= longest, "{wait:?}");
                prop_assert_eq!(script.due(), Due::No);
            }
            check(&script, &memory)?;
        }
        script = script.pass(pause);
        check(&script, &memory)?;
    }
}

proptest! {
    #[test]
    fn a_clock_that_jumps_prolongs_neither_allowing_nor_denying(
        steps in prop::collection::vec((step(), befalls(), prop::bool::weighted(0.2)), 1..40),
        fresh_max in (1..24_u64).prop_map(h),
    ) {
        let mut script = Script::new();
        let mut memory = Memory::default();
        for ((gap, result), befalls, in_vain) in steps {
            script = script.pass(gap).look();
            let passed = script.passed;
            match &result {
                AccessResult::Unreachable { cause, .. } => {
                    memory.failed(passed, !in_vain && *cause != Cause::Internal);
                }
                _ => memory.failing = None,
            }
            let reach = if in_vain { Reach::Nothing } else { Reach::Some };
            script = script.fetch_reaching(reach, result);
            match befalls {
                Befalls::Nothing => {}
                Befalls::Set(to) => script = script.set(to),
                Befalls::Restart => {
                    script = script.restart();
                    if let Some(failing) = &mut memory.failing {
                        failing.is_blind = true;
                    }
                }
            }
            script = script.look();
            script.timing.fresh_max = fresh_max;
            script = script.look();
            let (now, state) = (script.now, &script.state);
            let outage = state.outage().copied();
            let is_fresh = match state {
                State::Successful { snapshot, fresh, .. } => {
                    now < fresh.until && snapshot.fetched <= now && now < snapshot.fetched + fresh_max
                }
                State::Unavailable { fetched, fresh, .. } => {
                    now < fresh.until && *fetched <= now && now < *fetched + fresh_max
                }
                State::NeverFetched | State::Unreachable { .. } => false,
            };
            let length = outage.map_or(Duration::ZERO, |outage| outage.length());
            prop_assert!(length <= memory.longest() + s(5) * 40, "{length:?}, {:?}", memory.longest());
            let meets = Meets::of(&state.stance(now, &script.timing.profile));
            if let File(_) | NoRestrictions = meets {
                prop_assert!(is_fresh || d(30) <= length, "{state:?} at {now:?}");
            }
            prop_assert!(outage.is_none_or(|outage| outage.since <= now && outage.last_attempt <= now));
            // No request is denied for longer than the longest wait without a new fetch.
            let profile = &script.timing.profile;
            prop_assert!(is_fresh || state.due(now + h(1), profile) == Due::Now, "{state:?} at {now:?}");
            prop_assert!(meets != Wait || script.due() == Due::Now);
            // A request that an outage lets out had a fetch within the last minute, or waits for one now.
            if !is_fresh && matches!(meets, File(_) | NoRestrictions) {
                prop_assert_eq!(state.due(now + m(1), profile), Due::Now);
            }
        }
    }
}

fn check(script: &Script, memory: &Memory) -> Result<(), TestCaseError> {
    let now = script.now;
    let stance = script.state.stance(now, &script.timing.profile);
    let meets = Meets::of(&stance);
    let outage = script.state.outage();
    prop_assert_eq!(outage.is_some(), memory.failing.is_some());
    let length = outage.map_or(Duration::ZERO, Outage::length);
    prop_assert_eq!(length, memory.longest());
    let is_fresh = memory.fresh_until.is_some_and(|until| now < until);
    match memory.failing {
        _ if is_fresh => prop_assert!(matches!(meets, File(_) | NoRestrictions), "{meets:?}"),
        None => prop_assert_eq!(meets, Wait),
        Some(_) if length < d(30) => prop_assert_eq!(meets, CompleteDisallow),
        Some(_) => {
            prop_assert!(matches!(meets, File(_) | NoRestrictions), "{meets:?}");
            let latest = outage.map(|outage| outage.last_attempt);
            let is_recent = latest.is_some_and(|latest| now < latest + m(1));
            prop_assert!(is_recent || script.due() == Due::Now);
        }
    }
    // A request is told to wait only if there is a fetch to wait for.
    prop_assert!(meets != Wait || script.due() == Due::Now);
    Ok(())
}
