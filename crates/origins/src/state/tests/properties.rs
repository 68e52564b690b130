//! Random lives: no outage opens an origin before its time.

use proptest::prelude::*;

use super::*;

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
            AccessResult::Unavailable { why: Absence::Status(404), freshness }
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

/// An outside record of a life, only by true time: the observed length of the failures, the latest failure, and the
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
        let failing =
            self.failing.get_or_insert(Failing { observed: None, is_blind: false, blind: 0 });
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
                AccessResult::Unreachable { cause, retry_after } => Some((cause.clone(), *retry_after)),
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
            let outage = state.outage();
            let is_fresh = match state {
                State::Successful { snapshot, fresh, .. } => {
                    now < fresh.until && snapshot.fetched <= now && now < snapshot.fetched + fresh_max
                }
                State::Unavailable { fetched, fresh, .. } => {
                    now < fresh.until && *fetched <= now && now < *fetched + fresh_max
                }
                State::NeverFetched | State::Unreachable { .. } => false,
            };
            let length = outage.map_or(Duration::ZERO, Outage::length);
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
