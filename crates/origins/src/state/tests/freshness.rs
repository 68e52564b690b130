//! The life of a copy.

use super::*;

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
    let no_bounds = Timing { fresh_min: s(0), ..Timing::default() };
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
fn the_profile_does_not_matter_while_a_copy_is_fresh() {
    for profile in [ProfileName::Standard, ProfileName::Google, ProfileName::Archive] {
        Script::by(profile)
            .fetch(file(1))
            .at(h(23))
            .fetch(down(Cause::Dns))
            .expect(File(1), Due::No);
    }
}

#[test]
fn a_disallowed_hop_and_a_5xx_that_says_not_found_remove_no_copy() {
    removes_no_copy(Absence::DisallowedHop, Cause::DisallowedHop);
    removes_no_copy(Absence::NotFoundBehind(503), Cause::Status(503));
}

/// Asserts that a fetch opens an origin without a copy, and is a failure with `cause` for one with a copy.
fn removes_no_copy(why: Absence, cause: Cause) {
    let stopped = || AccessResult::Unavailable { why, freshness: Freshness::Unsaid };
    Script::new().fetch(stopped()).expect(NoRestrictions, Due::No);
    Script::new().fetch(down(Cause::Dns)).at(h(1)).fetch(stopped()).expect(NoRestrictions, Due::No);
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
    assert_eq!(outage.cause, cause);
    script.fetch(file(2)).expect(File(2), Due::No);
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
    assert!(held.reparsed(true).is_none());
    for state in [
        held.clone(),
        State::Unreachable {
            outage: Script::new()
                .fetch(down(Cause::Dns))
                .state
                .outage()
                .cloned()
                .expect("an outage"),
            last_good: held.snapshot().cloned(),
        },
    ] {
        let anew = state.reparsed(false).expect("another one");
        let (old, new) = (state.snapshot().expect("a"), anew.snapshot().expect("a"));
        assert!(old.robots.is_lenient() && !new.robots.is_lenient());
        assert_eq!((old.sha256, old.fetched), (new.sha256, new.fetched));
        assert_eq!(state.name(), anew.name());
    }
    assert!(State::NeverFetched.reparsed(false).is_none());
}
