//! Clocks that are set.

use super::*;

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
