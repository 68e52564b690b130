use std::time::Duration;

use super::overrides::{Override, OverrideId};
use super::usage::Signals;
use super::*;
use crate::agent;
use crawlgate_origins::snapshot::Snapshot;
use crawlgate_robots::{ParseOptions, ProductToken, Robots};
use crawlgate_usage::{Purpose, Purposes};

const NOW: Moment = Moment::from_millis(1_790_000_000_000);

fn target(path: &'static str) -> Target {
    let (origin, _) = Origin::parse("https://a.example/").expect("a URL");
    Target { origin, path: PathAndQuery::from_static(path) }
}

fn example_bot() -> Agent {
    Agent {
        tokens: vec![ProductToken::new("ExampleBot").expect("a valid token")],
        source: agent::Source::UserAgent,
        mismatch: false,
    }
}

fn rules(text: &str) -> Stance {
    let robots = Robots::parse(text.as_bytes(), ParseOptions::default());
    Stance::Rules(Arc::new(Snapshot::new(robots, NOW, 200, "")))
}

fn outage(next_attempt: Moment) -> Stance {
    Stance::DisallowAll { cause: Cause::Dns, next_attempt }
}

fn settings(mode: Mode, path_guard: bool) -> DecisionInputs {
    DecisionInputs {
        mode,
        generation: Generation::default(),
        path_guard,
        policy: PolicyDigest([7; 32]),
        exempt: None,
        signals: Signals::of(Purposes::NONE, &Arc::default()),
    }
}

fn judge(path: &'static str, stance: &Stance, path_guard: bool) -> Ruling {
    let state = Arc::default();
    decide(target(path), &example_bot(), &state, stance, settings(Mode::Enforce, path_guard), NOW)
}

fn judge_tunnel(stance: &Stance, mode: Mode) -> Ruling {
    let (agent, state) = (example_bot(), Arc::default());
    decide_tunnel(target("/"), &agent, &state, stance, settings(mode, true), NOW)
}

/// Returns the only override, for this pattern.
fn overridden(id: OverrideId, pattern: &str, action: Action, until: Option<Moment>) -> Overrides {
    Overrides::new([Override {
        id,
        origin: target("/").origin,
        pattern: pattern.to_owned(),
        action,
        until,
        by: "Ada Example".to_owned(),
        reason: "a letter".to_owned(),
        created: NOW,
        instance: None,
    }])
}

/// Returns the decision; checks that there is a permit for this path exactly if the decision allows.
fn decision(ruling: Ruling, path: &str) -> Decision {
    match ruling {
        Ruling::Allow(permit, decision) => {
            assert_eq!(decision.verdict(), Verdict::Allow);
            assert_eq!(permit.target().path.as_str(), path);
            *decision
        }
        Ruling::Refuse(decision) => {
            assert_ne!(decision.verdict(), Verdict::Allow);
            *decision
        }
    }
}

#[test]
fn the_rules_decide_and_the_one_that_did_is_named() {
    use Reason::{NoRules, RobotsAllow, RobotsDisallow};
    const FILE: &str = "User-agent: *\nDisallow: /\n\n\
                        User-agent: ExampleBot\nDisallow: /p\nAllow: /p/open\nDisallow: /*?q\n";
    const EMPTY_GROUP: &str = "User-agent: *\nDisallow: /\n\nUser-agent: ExampleBot\nDisallow:\n";
    #[rustfmt::skip] // one row, one case
    let cases: &[(&str, &str, &'static str, Reason, Option<u32>)] = &[
        ("a rule disallows", FILE, "/p/x", RobotsDisallow, Some(5)),
        ("a more specific rule allows", FILE, "/p/open/x", RobotsAllow, Some(6)),
        ("the query takes part", FILE, "/x?q", RobotsDisallow, Some(7)),
        ("no rule matches", FILE, "/x", RobotsAllow, None),
        ("another spelling of a disallowed path", FILE, "/%70/x", RobotsDisallow, Some(5)),
        ("another path that only looks alike", FILE, "/P/x", RobotsAllow, None),
        ("its own group is empty", EMPTY_GROUP, "/x", NoRules, None),
        ("no group at all", "Sitemap: https://a.example/s\n", "/x", NoRules, None),
        ("an empty file", "", "/x", NoRules, None),
        ("only others are named", "User-agent: Other\nDisallow: /\n", "/x", NoRules, None),
    ];
    for (name, text, path, reason, line) in cases {
        for path_guard in [true, false] {
            let decision = decision(judge(path, &rules(text), path_guard), path);
            assert_eq!(decision.reason, *reason, "{name}");
            assert_eq!(decision.rule.map(|rule| rule.line), *line, "{name}");
            assert_eq!(decision.retry_at, None, "{name}");
        }
    }
}

#[test]
fn the_path_guard_judges_every_reading_of_a_path() {
    use Reason::{PathGuard, RobotsAllow, RobotsDisallow};
    const FILE: &str = "User-agent: *\nDisallow: /private\nAllow: /a/\nDisallow: /a/b/c\n";
    #[rustfmt::skip] // one row, one case
    let cases: &[(&str, &'static str, Reason, Option<u32>, Reason)] = &[
        ("a dot segment leads to it", "/a/../private", PathGuard, Some(2), RobotsAllow),
        ("an encoded one does", "/a/%2e%2E/private/x", PathGuard, Some(2), RobotsAllow),
        ("doubled slashes hide it", "//private", PathGuard, Some(2), RobotsAllow),
        ("either order of resolving counts", "/a//../b/c", PathGuard, Some(4), RobotsAllow),
        ("a dot segment leads elsewhere", "/a/../b", RobotsAllow, Some(3), RobotsAllow),
        ("the path as written is judged first", "/private/../a/", RobotsDisallow, Some(2), RobotsDisallow),
        ("dots in the query lead nowhere", "/x?/../private", RobotsAllow, None, RobotsAllow),
        ("an encoded slash hides it", "/%2Fprivate", PathGuard, Some(2), RobotsAllow),
        ("dots and an encoded slash lead to it", "/a/..%2fprivate", PathGuard, Some(2), RobotsAllow),
        ("an encoded slash is one to most servers", "/a%2Fb/c", PathGuard, Some(4), RobotsAllow),
        ("an encoded slash leads elsewhere", "/a%2Fc/b", RobotsAllow, None, RobotsAllow),
    ];
    for (name, path, guarded, line, unguarded) in cases {
        let with = decision(judge(path, &rules(FILE), true), path);
        assert_eq!(with.reason, *guarded, "{name}");
        assert_eq!(with.rule.map(|rule| rule.line), *line, "{name}");
        let without = decision(judge(path, &rules(FILE), false), path);
        assert_eq!(without.reason, *unguarded, "{name}, switched off");
    }
}

#[test]
fn without_rules_the_stance_decides() {
    use Reason::{RobotsPending, RobotsUnavailable, RobotsUnreachable};
    let later = NOW + Duration::from_secs(60);
    let earlier = NOW - Duration::from_secs(60);
    #[rustfmt::skip] // one row, one case
    let cases = [
        ("no robots.txt", Stance::AllowAll, RobotsUnavailable, None),
        ("an outage", outage(later), RobotsUnreachable, Some(later)),
        ("an outage, a fetch overdue", outage(earlier), RobotsUnreachable, Some(NOW)),
        ("nothing known", Stance::Unknown, RobotsPending, None),
    ];
    for (name, stance, reason, retry_at) in cases {
        let tunnel = judge_tunnel(&stance, Mode::Enforce);
        for ruling in [judge("/", &stance, true), tunnel] {
            let decision = decision(ruling, "/");
            assert_eq!(decision.reason, reason, "{name}");
            assert_eq!(decision.retry_at, retry_at, "{name}");
            assert!(decision.rule.is_none(), "{name}");
            assert!(decision.basis.is_some(), "{name}");
        }
    }
}

#[test]
fn a_tunnel_passes_only_where_nothing_is_disallowed() {
    #[rustfmt::skip] // one row, one case
    let cases = [
        ("no rules", "", Reason::NoRules),
        ("an empty disallow", "User-agent: *\nDisallow:\n", Reason::NoRules),
        ("nothing but allow", "User-agent: *\nAllow: /\n", Reason::RobotsAllow),
        ("anything disallowed", "User-agent: *\nDisallow: /x\n", Reason::OpaqueTunnel),
        ("disallowed to others", "User-agent: Other\nDisallow: /\n", Reason::NoRules),
        ("its own group decides", "User-agent: *\nDisallow: /\n\nUser-agent: ExampleBot\nAllow: /\n", Reason::RobotsAllow),
    ];
    for (name, text, reason) in cases {
        let ruling = judge_tunnel(&rules(text), Mode::Enforce);
        assert_eq!(decision(ruling, "/").reason, reason, "{name}");
    }
}

#[test]
fn robots_txt_itself_needs_no_rules() {
    for (path, is_cleared) in [
        ("/robots.txt", true),
        ("/%72obots.txt", true),
        ("/robots.txt?x", false),
        ("//robots.txt", false),
        ("/a/../robots.txt", false),
        ("/Robots.txt", false),
        ("/a/robots.txt", false),
    ] {
        match clear_robots_txt(target(path), Mode::Enforce, NOW) {
            Ok(ruling) => {
                assert!(is_cleared, "{path}");
                assert_eq!(decision(ruling, path).reason, Reason::RobotsTxt);
            }
            Err(target) => {
                assert!(!is_cleared, "{path}");
                assert_eq!(target.path.as_str(), path);
            }
        }
    }
}

/// Returns the decision, and whether the request leaves.
fn outcome(ruling: Ruling) -> (Decision, bool) {
    match ruling {
        Ruling::Allow(_, decision) => (*decision, true),
        Ruling::Refuse(decision) => (*decision, false),
    }
}

#[test]
fn report_mode_decides_the_same_and_lets_every_request_out() {
    const FILE: &str = "User-agent: *\nDisallow: /private\n";
    let overrides = overridden(OverrideId::Stored(1), "/denied", Action::Deny, None);
    let state = Arc::default();
    let judged = |path, stance: Stance, mode| {
        let settings = settings(mode, true);
        decide(target(path), &example_bot(), &state, &stance, settings, NOW)
    };
    let paced = |mode| match judged("/", rules(""), mode) {
        Ruling::Allow(permit, allowed) => await_turn(permit, allowed, NOW),
        refused => refused,
    };
    let pending =
        |mode| await_robots(target("/"), Arc::clone(&state), NOW, settings(mode, true), NOW);
    let by_hand = |mode| decide_by_override(target("/denied"), &overrides, mode, NOW);
    type Case<'a> = (Reason, Box<dyn Fn(Mode) -> Ruling + 'a>);
    #[rustfmt::skip] // one row, one case
    let cases: [Case<'_>; 9] = [
        (Reason::NoRules, Box::new(|mode| judged("/", rules(""), mode))),
        (Reason::RobotsDisallow, Box::new(|mode| judged("/private", rules(FILE), mode))),
        (Reason::PathGuard, Box::new(|mode| judged("/a/../private", rules(FILE), mode))),
        (Reason::RobotsUnreachable, Box::new(|mode| judged("/", outage(NOW), mode))),
        (Reason::OpaqueTunnel, Box::new(|mode| judge_tunnel(&rules(FILE), mode))),
        (Reason::OpaqueTunnel, Box::new(|mode| decide_opaque(target("/"), mode, NOW))),
        (Reason::RobotsPending, Box::new(pending)),
        (Reason::Paced, Box::new(paced)),
        (Reason::OperatorDeny, Box::new(|mode| by_hand(mode).expect("an override"))),
    ];
    for (reason, decide) in cases {
        let (enforced, goes_out) = outcome(decide(Mode::Enforce));
        assert_eq!((enforced.reason, enforced.mode), (reason, Mode::Enforce));
        assert_eq!(goes_out, reason.verdict() == Verdict::Allow, "{reason:?}");
        assert!(!enforced.is_only_reported(), "{reason:?}");
        let (reported, goes_out) = outcome(decide(Mode::Report));
        assert_eq!((reported.reason, reported.mode), (reason, Mode::Report));
        assert!(goes_out, "{reason:?}");
        let allows = reason.verdict() == Verdict::Allow;
        assert_eq!(reported.is_only_reported(), !allows, "{reason:?}");
        assert_eq!(reported.at, NOW, "{reason:?}");
    }
}

#[test]
fn walls_hold_in_report_mode() {
    for reason in Reason::ALL {
        let decision = Decision { mode: Mode::Report, ..Decision::bare(reason, NOW) };
        let goes_out =
            outcome(Ruling::of(target("/"), Box::new(decision), Generation::default())).1;
        assert_eq!(goes_out, !reason.is_always_enforced(), "{reason:?}");
    }
}

#[test]
fn an_override_decides_before_robots_txt_and_robots_txt_itself_before_that() {
    let end = NOW + Duration::from_millis(1);
    let overrides = |action| overridden(OverrideId::Configured(2), "/", action, Some(end));
    let deny_all = overrides(Action::Deny);
    let ruling = clear_robots_txt(target("/robots.txt"), Mode::Enforce, NOW)
        .or_else(|target| decide_by_override(target, &deny_all, Mode::Enforce, NOW));
    assert_eq!(outcome(ruling.expect("decided")).0.reason, Reason::RobotsTxt);

    for (action, reason) in
        [(Action::Allow, Reason::OperatorAllow), (Action::Deny, Reason::OperatorDeny)]
    {
        let overrides = overrides(action);
        for decided in [
            decide_by_override(target("/x"), &overrides, Mode::Enforce, NOW),
            decide_tunnel_by_override(target("/"), &overrides, Mode::Enforce, NOW),
        ] {
            let (decision, goes_out) = outcome(decided.expect("an override"));
            assert_eq!((decision.reason, goes_out), (reason, action == Action::Allow));
            let id = decision.asserted.as_ref().map(|asserted| asserted.id);
            assert_eq!(id, Some(OverrideId::Configured(2)));
            assert!(decision.basis.is_none() && decision.policy.is_none());
        }
        let expired = decide_by_override(target("/x"), &overrides, Mode::Enforce, end);
        assert!(expired.is_err(), "it has expired");
    }
}

#[test]
fn codes_are_read_back_and_told_apart() {
    for reason in Reason::ALL {
        assert_eq!(Reason::from_name(reason.as_str()), Some(reason));
    }
    assert_eq!(Reason::from_name("Robots_Allow"), None);
}

#[test]
fn a_permit_is_current_under_the_generation_that_it_was_made_in() {
    let changes = Changes::default();
    let permit = |generation| {
        let context = DecisionContext { mode: Mode::Enforce, generation };
        match clear_robots_txt(target("/robots.txt"), context, NOW) {
            Ok(Ruling::Allow(permit, _)) => permit,
            other => panic!("{other:?}"),
        }
    };
    let fresh = permit(changes.generation());
    assert!(fresh.current(&changes).is_some());
    changes.settings_changed();
    assert!(fresh.current(&changes).is_none(), "overtaken");
    let judged_again = permit(changes.generation());
    assert!(judged_again.current(&changes).is_some());
    let only_told = permit(Generation::default());
    assert!(only_told.current(&changes).is_none(), "it was for no request");
}

#[test]
fn an_exemption_lifts_what_rules_disallow_and_nothing_else() {
    let some = "User-agent: *\nDisallow: /x\nContent-Usage: train-ai=n\n";
    let next = NOW + Duration::from_secs(60);
    let (none, declared) = (Purposes::NONE, Purposes::NONE.with(Purpose::TrainAi));
    #[rustfmt::skip] // one row, one case
    let cases = [
        ("a rule", "/x", rules(some), none, Reason::ClientExempt, Some(Reason::RobotsDisallow)),
        ("a reading", "/a/%2e%2e/x", rules(some), none, Reason::ClientExempt, Some(Reason::PathGuard)),
        ("what is allowed", "/a", rules(some), none, Reason::RobotsAllow, None),
        ("use", "/x", rules(some), declared, Reason::UsageDisallow, Some(Reason::RobotsDisallow)),
        ("an outage", "/x", outage(next), none, Reason::RobotsUnreachable, None),
        ("nothing known", "/x", Stance::Unknown, none, Reason::RobotsPending, None),
    ];
    let why: Arc<str> = "a person asks".into();
    let inputs = |mode, purposes| DecisionInputs {
        exempt: Some(Arc::clone(&why)),
        signals: Signals::of(purposes, &Arc::default()),
        ..settings(mode, true)
    };
    let (agent, state) = (example_bot(), Arc::default());
    for (name, path, stance, purposes, reason, from) in cases {
        for mode in [Mode::Enforce, Mode::Report] {
            let inputs = inputs(mode, purposes);
            let ruling = decide(target(path), &agent, &state, &stance, inputs, NOW);
            let decision = ruling.decision();
            assert_eq!(decision.reason, reason, "{name}");
            let exempt = decision.exempt.as_ref();
            assert_eq!(exempt.map(|exempt| exempt.from), from, "{name}");
            let is_exempted = reason == Reason::ClientExempt;
            assert_eq!(decision.rule.is_some(), is_exempted, "{name}");
            assert!(!(is_exempted && decision.is_only_reported()), "{name}");
        }
    }
    #[rustfmt::skip] // one row, one case
    let tunnels = [
        ("a rule", rules(some), none, Reason::OpaqueTunnel),
        ("use", rules(some), declared, Reason::OpaqueTunnel),
        ("an outage", outage(next), none, Reason::RobotsUnreachable),
    ];
    for (name, stance, purposes, reason) in tunnels {
        let inputs = inputs(Mode::Enforce, purposes);
        let ruling = decide_tunnel(target("/"), &agent, &state, &stance, inputs, NOW);
        assert_eq!(ruling.decision().reason, reason, "a tunnel, {name}");
    }
}
