//! The outcomes of requests, as the pages count and colour them.

use super::pages::page;
use crate::support::{AdminGate, Origin, RULES, Reply};

#[test]
fn a_failure_does_not_look_like_success() {
    let gate = AdminGate::open();
    let last = Reply::with(200, "Connection: close\r\n", "page /open");
    let origin = Origin::with_rules(RULES).on("/open", [last]);
    gate.process.passes(&origin.url("/open"));
    origin.stop();
    assert_eq!(gate.process.get(&origin.url("/open/2")).status, 502);
    let dead = Origin::http();
    dead.stop();
    gate.process.unreachable(&gate.process.get(&dead.url("/x")));
    let overview = page(&gate, "/");
    for (count, name) in [(0, "Disallowed"), (1, "Unreachable"), (0, "Refused here"), (1, "Failed")]
    {
        let figure =
            format!("<span class=\"count\">{count}</span> <span class=\"name\">{name}</span>");
        assert!(overview.contains(&figure), "{figure}: {overview}");
    }
    says!(overview, "Nothing was disallowed.");
    let list = page(&gate, "/denials?verdict=any");
    says!(
        list,
        "<span class=\"verdict forwarded\">200</span>",
        "<span class=\"verdict failed\">502 connection_refused</span>",
        "<span class=\"verdict unreachable\">502 connection_refused</span>"
    );
    let decisions = gate.api("/decisions");
    let decisions = decisions["items"].as_array().unwrap().iter();
    let mut outcomes: Vec<_> = decisions.map(|one| one["outcome"].as_str().unwrap()).collect();
    outcomes.sort_unstable();
    assert_eq!(outcomes, ["failed", "forwarded", "unreachable"]);
}

#[test]
fn the_overview_says_nothing_that_its_figures_contradict() {
    let mut gate = AdminGate::with(|setup| setup.set("audit", "refusals_per_minute", "5"));
    let origin = Origin::with_rules(RULES);
    let empty = page(&gate, "/");
    says!(
        empty,
        "No request that was kept back is recorded of this time.",
        "href=\"/setup\">Set-up</a> says how"
    );
    for n in 0..20 {
        assert_eq!(gate.process.get(&origin.url(&format!("/private/{n}"))).status, 403);
    }
    let overview = page(&gate, "/");
    let counted = "<span class=\"name\">Of the refused, only counted</span>";
    says!(overview, &format!("<span class=\"count\">15</span> {counted}"));
    lacks!(overview, "No request that was kept back");
    gate.process.restart(rustix::process::Signal::TERM);
    let gate = AdminGate::of(gate.process);
    let overview = page(&gate, "/");
    says!(overview, "No request was judged since the process began.</p>");
    says!(overview, "robots_disallow");
}
