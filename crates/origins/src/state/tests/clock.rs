//! Clocks that are set.
//!
//! The waits between attempts.

use super::*;
use crate::access::tls_fault::TlsFault;

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
        script = script.fetch(down(Cause::Dns)).set(h(20) * jump).look().pass(m(1));
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
fn a_clock_that_is_set_back_opens_nothing() {
    Script::new().at(d(40)).fetch(down(Cause::Dns)).set(d(1)).expect(CompleteDisallow, Due::No);
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
        Script::new().fetch(result).at(h(24) - ms(1)).look().expect(meets, Due::Ahead);
    }
    let ahead = || Script::new().set(d(60)).fetch(come_back_in(Cause::Status(503), h(1)));
    ahead().set(s(1)).look().expect(CompleteDisallow, Due::Now).expect_outage(s(1), s(1));
    // A wait of at most the longest one is kept, also when the clock went back a little.
    ahead().set(d(60) - ms(1)).look().expect(CompleteDisallow, Due::Now);
    ahead()
        .at(d(60) + s(1))
        .look()
        .expect(CompleteDisallow, Due::No)
        .expect_outage(d(60), d(60) + h(1));
}

#[test]
fn retries_back_off() {
    let doubling = [5, 10, 20, 40, 80, 160, 320, 640, 1280, 2560, 3600, 3600];
    let doubling_to_5m = [5, 10, 20, 40, 80, 160, 300, 300, 300, 300, 300, 300];
    for (cause, waits) in [
        (Cause::Dns, doubling),
        (Cause::Status(500), doubling),
        (Cause::Status(429), doubling),
        (TlsFault::Certificate.into(), doubling),
        (Cause::Status(503), doubling_to_5m),
    ] {
        let mut script = Script::new();
        let mut clock = Duration::ZERO;
        for wait in waits {
            script = script
                .at(clock)
                .expect_due_now()
                .fetch(down(cause.clone()))
                .expect(CompleteDisallow, Due::No)
                .expect_outage(s(0), clock + s(wait));
            clock += s(wait);
        }
    }
}

#[test]
fn an_upstream_proxy_is_tried_every_minute() {
    let mut script = Script::new();
    for wait in [5, 10, 20, 40, 60, 60, 60] {
        script = script.fetch(down(Cause::UpstreamProxy));
        let outage = script.state.outage().expect("an outage");
        assert_eq!(outage.next_attempt.since(outage.last_attempt), s(wait));
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
        let name = cause.to_string();
        let script = script.fetch(AccessResult::Unreachable { cause, retry_after });
        let outage = script.state.outage().expect("an outage");
        assert_eq!(outage.next_attempt.since(START), wait, "{jitter} {name}");
    }
}
