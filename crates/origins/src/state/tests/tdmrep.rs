//! The stance of a tdmrep.json in each state, and the fetches that requests wait for.

use super::*;
use crate::document::Document;

impl Script {
    #[track_caller]
    fn expect_of_tdmrep(self, meets: Meets, due: Due) -> Script {
        let (now, profile) = (self.now, &self.timing.profile);
        let stance = self.state.stance_of(Document::TdmRep, now, profile);
        let found = (Meets::of(&stance), self.state.due_of(Document::TdmRep, now, profile));
        assert_eq!(found, (meets, due), "at {now:?}: {:?}", self.state);
        self
    }
}

#[test]
fn a_first_fetch_is_waited_for_and_a_failure_of_the_origin_reserves_nothing() {
    let first = || Script::new().expect_of_tdmrep(Wait, Due::Now);
    first().fetch(file(1)).expect_of_tdmrep(File(1), Due::No);
    first().fetch(gone()).expect_of_tdmrep(NoRestrictions, Due::No);
    first()
        .fetch(down(Cause::Dns))
        .expect_of_tdmrep(NoRestrictions, Due::No)
        .at(s(5))
        .expect_of_tdmrep(Wait, Due::Now);
}

#[test]
fn a_copy_is_refreshed_ahead_and_waited_for_once_it_is_stale() {
    Script::new()
        .fetch(file(1))
        .at(h(20))
        .expect_of_tdmrep(File(1), Due::Ahead)
        .at(h(24))
        .expect_of_tdmrep(Wait, Due::Now)
        .fetch(gone())
        .expect_of_tdmrep(NoRestrictions, Due::No);
}

#[test]
fn the_last_good_copy_holds_as_long_as_the_profile_keeps_it() {
    let of = |name| Script::by(name).fetch(file(1)).at(h(24)).fetch(down(Cause::Status(503)));
    for name in [ProfileName::Standard, ProfileName::Google] {
        of(name).expect_of_tdmrep(File(1), Due::No);
    }
    of(ProfileName::Standard).fail_for(d(90), Cause::Connect).expect_of_tdmrep(File(1), Due::No);
    of(ProfileName::Google)
        .fail_for(d(31), Cause::Connect)
        .expect_of_tdmrep(NoRestrictions, Due::No);
    of(ProfileName::Archive).expect_of_tdmrep(NoRestrictions, Due::No);
}

#[test]
fn a_failing_file_is_tried_as_rarely_as_a_robots_txt_that_lets_nothing_out() {
    let mut script = Script::by(ProfileName::Archive).fetch(file(1)).at(h(24));
    for _ in 0..8 {
        script = script.pass(h(1)).fetch(down(Cause::Status(503)));
    }
    let next = script.state.outage().expect("an outage").next_attempt;
    let wait = next.since(script.now);
    assert!(wait > SOON, "{wait:?}");
    script
        .pass(wait - ms(1))
        .expect_of_tdmrep(NoRestrictions, Due::No)
        .pass(ms(1))
        .expect_of_tdmrep(Wait, Due::Now);
}

#[test]
fn a_failure_counts_until_the_next_attempt_alone() {
    let failed = Script::new().fetch(file(1)).at(h(24)).fetch(down(Cause::Status(503)));
    let next = failed.state.outage().expect("an outage").next_attempt;
    let wait = next.since(failed.now);
    failed
        .pass(wait - ms(1))
        .expect_of_tdmrep(File(1), Due::No)
        .pass(ms(1))
        .expect_of_tdmrep(Wait, Due::Now)
        .pass(d(60))
        .expect_of_tdmrep(Wait, Due::Now)
        .fetch(down(Cause::Status(503)))
        .expect_of_tdmrep(File(1), Due::No);
}

#[test]
fn a_failure_that_is_not_the_origins_tells_nothing() {
    for cause in [
        Cause::Internal,
        Cause::UnjudgedHop,
        Cause::HopChain,
        Cause::DeniedHop,
        Cause::ProhibitedHop,
    ] {
        Script::new().fetch(down(cause.clone())).expect_of_tdmrep(Wait, Due::No);
        Script::new()
            .fetch(file(1))
            .at(h(24))
            .fetch(down(cause))
            .expect_of_tdmrep(File(1), Due::No);
    }
    Script::new().fetch_in_vain(down(Cause::Dns)).expect_of_tdmrep(Wait, Due::No);
    Script::new()
        .fetch(down(Cause::Dns))
        .expect_of_tdmrep(NoRestrictions, Due::No)
        .at(s(5))
        .fetch_in_vain(down(Cause::Dns))
        .expect_of_tdmrep(Wait, Due::No);
}
