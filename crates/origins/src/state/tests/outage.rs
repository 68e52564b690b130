//! The length of an outage, and its meaning for requests.

use super::*;
use crate::access::tls_fault::TlsFault;

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
fn the_profile_decides_what_a_long_outage_means() {
    use ProfileName::{Archive, Google, Standard};
    const DEAD: Cause = Cause::Timeout;
    const ERROR: Cause = Cause::Status(500);
    let almost = |duration| duration - ms(1);
    // The outage begins at hour 24, when the copy, if there is one, is stale.
    #[rustfmt::skip] // one row, one case
    let cases = [
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
        (Google, true, Cause::Encoding(None), d(30), NoRestrictions),
        (Google, true, Cause::from(TlsFault::NotTls), d(30), CompleteDisallow),
        (Google, true, Cause::Internal, s(0), CompleteDisallow),
        (Google, false, DEAD, almost(h(12)), CompleteDisallow),
        (Google, false, DEAD, h(12), NoRestrictions),
        (Google, false, DEAD, d(30), CompleteDisallow),
        (Google, false, ERROR, d(30), NoRestrictions),
        (Archive, true, DEAD, s(0), NoRestrictions),
        (Archive, false, ERROR, s(0), NoRestrictions),
        (Archive, true, DEAD, d(3650), NoRestrictions),
    ];
    for (profile, copy, cause, length, meets) in cases {
        let mut script = Script::by(profile);
        if copy {
            script = script.fetch(file(1));
        }
        let script = script.at(h(24)).fail_for(length, cause.clone());
        let stance = script.state.stance(script.now, &script.timing.profile);
        let row = (profile, copy, cause, length);
        assert_eq!(Meets::of(&stance), meets, "{row:?}");
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
    Script::new().fail_for(d(29), Cause::Dns).pass(m(1)).expect(CompleteDisallow, Due::No);
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
    for cause in [
        Cause::Internal,
        Cause::Prohibited,
        Cause::Unaddressable,
        Cause::UpstreamProxy,
        TlsFault::ServerName.into(),
    ] {
        for profile in [ProfileName::Standard, ProfileName::Google, ProfileName::Archive] {
            Script::by(profile).fail_for(d(40), cause.clone()).expect(CompleteDisallow, Due::No);
        }
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
