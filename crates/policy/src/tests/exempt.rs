//! Exempt clients.

use super::*;
use crawlgate_usage::Purpose;

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
