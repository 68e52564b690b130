//! Questions to the decision service: who asks, and what may be asked.

use std::fs;

use serde_json::json;

use super::service::AGENT;
use crate::support::{AdminGate, Origin, RULES, Reply, Setup, Wire};

#[test]
fn an_invalid_question_is_refused_without_a_record() {
    let gate = AdminGate::open();
    let origin = Origin::with_rules(RULES);
    let url = origin.url("/open");
    for (name, query) in [
        ("no URL", "agent=A".to_owned()),
        ("nothing", String::new()),
        ("an unencoded URL", format!("url={url}?a=1&b=2")),
        ("two URLs", format!("url={url}&url={url}")),
        ("half an octet", format!("url={url}%2")),
    ] {
        let request = format!("GET /decide?{query} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let answer = gate.say(&request);
        assert_eq!(answer.status, 400, "{name}: {answer:?}");
        assert_eq!(answer.field("x-crawlgate-verdict"), None, "{name}");
    }
    let posted = gate.say(&format!(
        "POST /decide?url={url} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"
    ));
    assert_eq!(posted.status, 405, "{posted:?}");
    assert_eq!(gate.process.records().len(), 0);
    assert_eq!(origin.seen().len(), 0);
}

#[test]
fn the_agent_selects_the_group() {
    let gate = AdminGate::open();
    let origin = Origin::with_rules(
        "User-agent: *\nDisallow: /a\n\nUser-agent: news\nDisallow: /b\n\nUser-agent: news-image\nDisallow: /c\n",
    );
    #[rustfmt::skip] // one row, one case
    let cases = [
        ("no agent", "", "/a"),
        ("an empty one", "&agent=", "/a"),
        ("a User-Agent", "&agent=Mozilla/5.0+%28compatible%3B+News/2.0%29", "/b"),
        ("a product token", "&agent=news", "/b"),
        ("a chain, most specific first", "&agent=News-Image%20News", "/c"),
    ];
    for (name, agent, denied) in cases {
        for path in ["/a", "/b", "/c"] {
            let answer = gate.decide(&origin.url(path), agent);
            let expected = if path == denied { 403 } else { 200 };
            assert_eq!(answer.status, expected, "{name} {path}: {answer:?}");
        }
    }
}

#[test]
fn no_agent_that_is_asked_about_changes_what_others_are_judged_by() {
    let gate = AdminGate::open();
    let long = |head: &crate::support::Head| head.text().len() > 8192;
    let refused = Reply::status(400, "too large");
    let origin = Origin::with_rules(RULES).on_if("/robots.txt", long, refused);
    let big = format!("&agent=BigBot/1.0+{}", "x".repeat(9_000));
    for agent in [&*big, AGENT, ""] {
        let answer = gate.decide(&origin.url("/private"), agent);
        gate.decided(&answer, 403, "robots_disallow");
    }
    assert_eq!(origin.robots_fetches(), 3);
    assert!(origin.robots_agents().iter().all(|agent| agent.len() <= 256));
    assert_eq!(origin.seen_but_robots(), [""; 0]);
}

#[test]
fn an_exempt_client_is_let_out_by_name() {
    let mut setup = Setup::new();
    setup.set("admin", "address", "\"127.0.0.1:0\"");
    let mut text = fs::read_to_string(setup.write()).unwrap();
    text.push_str("\n[[client]]\nname = \"helper\"\nnetworks = [\"192.0.2.0/24\"]\nexempt = \"a person asks\"\n");
    let gate = AdminGate::started(setup, &text);
    let origin = Origin::with_rules(RULES);
    let url = origin.url("/private/x");
    let helper = format!("{AGENT}&client=helper");
    let record = gate.decided(&gate.decide(&url, &helper), 200, "client_exempt");
    let exempt = json!({"from": "robots_disallow", "reason": "a person asks"});
    assert_eq!(record["exempt"], exempt, "{record}");
    gate.decided(&gate.decide(&url, AGENT), 403, "robots_disallow");
    assert_eq!(origin.seen_but_robots(), [""; 0]);
}

#[test]
fn a_client_is_judged_as_itself() {
    let mut setup = Setup::new();
    setup.set("admin", "address", "\"127.0.0.1:0\"");
    let mut text = fs::read_to_string(setup.write()).unwrap();
    text.push_str("\n[[client]]\nname = \"news\"\nnetworks = [\"192.0.2.0/24\"]\nproduct_tokens = [\"NewsBot\"]\n");
    let gate = AdminGate::started(setup, &text);
    let origin = Origin::with_rules("User-agent: newsbot\nDisallow: /news\n");
    let url = origin.url("/news");
    gate.decided(&gate.decide(&url, AGENT), 200, "no_rules");
    let record =
        gate.decided(&gate.decide(&url, &format!("{AGENT}&client=news")), 403, "robots_disallow");
    assert_eq!(record["client"]["name"], "news");
    let asked = |path: &str| {
        gate.say(&format!(
            "GET {path} HTTP/1.1\r\nHost: localhost\r\nX-Original-URL: {url}\r\nUser-Agent: NewsBot/1\r\n\r\n"
        ))
    };
    gate.decided(&asked("/auth?client=news"), 403, "robots_disallow");
    for (name, answer, status) in [
        ("a stranger", gate.decide(&url, "&client=sports"), 400),
        ("a stranger of nginx's", asked("/auth?client=sports"), 403),
        ("another word", asked("/auth?for=news"), 403),
    ] {
        assert_eq!(answer.status, status, "{name}: {answer:?}");
        assert_eq!(answer.field("x-crawlgate-verdict"), None, "{name}");
    }
}

#[test]
fn head_is_answered_alike_without_a_body() {
    let gate = AdminGate::open();
    let origin = Origin::with_rules(RULES);
    for (path, status, verdict) in [("/open", 200, "allow"), ("/private", 403, "deny")] {
        let url = origin.url(path);
        let answer =
            gate.say(&format!("HEAD /decide?url={url} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        assert_eq!((answer.status, answer.body.len()), (status, 0), "{answer:?}");
        answer.field_is("x-crawlgate-verdict", Some(verdict));
        let record = gate.process.record_of(&url);
        has!(record, {"method": "GET"}, "the method is the request's, not the question's");
        assert_eq!(record["id"].as_str(), answer.field("x-crawlgate-decision").as_deref());
    }
}

#[test]
fn a_connect_is_judged_as_a_tunnel_for_any_client() {
    let gate = AdminGate::open();
    let bound = Origin::https().robots(RULES);
    let url = bound.url("/open");
    gate.decided(&gate.decide(&url, "&method=CONNECT"), 403, "opaque_tunnel");
    let asked = gate.say(&format!(
        "GET /auth HTTP/1.1\r\nHost: localhost\r\nX-Original-URL: {url}\r\nX-Original-Method: CONNECT\r\n\r\n"
    ));
    gate.decided(&asked, 403, "opaque_tunnel");
}

#[test]
fn a_fragment_in_the_question_itself_is_refused() {
    let gate = AdminGate::open();
    let origin = Origin::with_rules(RULES);
    let host = origin.authority();
    for target in [
        format!("/decide?url={}#x&agent=TestBot", origin.url("/open")),
        "/ext-authz/open#/../private".to_owned(),
    ] {
        let answer = gate.say(&format!(
            "GET {target} HTTP/1.1\r\nHost: {host}\r\nX-Forwarded-Proto: http\r\n\r\n"
        ));
        assert_eq!(answer.status, 400, "{target}: {answer:?}");
    }
    assert_eq!(gate.process.records().len(), 0);
}

#[test]
fn a_body_with_a_line_that_looks_like_a_fragment_is_accepted() {
    let gate = AdminGate::open();
    let origin = Origin::with_rules(RULES);
    let host = origin.authority();
    let body = "a note # on HTTP/1.1\r\nGET /#x HTTP/1.1\r\n\r\n";
    for framing in [
        format!("Content-Length: {}\r\n\r\n{body}", body.len()),
        format!("Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n", body.len()),
    ] {
        let mut wire = Wire::connect(gate.address);
        let answer = wire.exchange(format!(
            "POST /ext-authz/open HTTP/1.1\r\nHost: {host}\r\nX-Forwarded-Proto: http\r\nUser-Agent: TestBot/1.0\r\n{framing}"
        ));
        gate.decided(&answer, 200, "robots_allow");
        // A fragment in the target behind it is still refused, and nothing is decided.
        let answer = wire.exchange(format!(
            "GET /ext-authz/open#x HTTP/1.1\r\nHost: {host}\r\nX-Forwarded-Proto: http\r\nUser-Agent: TestBot/1.0\r\n\r\n"
        )).is(400);
        assert_eq!(answer.field("x-crawlgate-verdict"), None, "{answer:?}");
    }
}

#[test]
fn another_sites_page_cannot_ask_and_a_denial_is_no_page() {
    let gate = AdminGate::open();
    let origin = Origin::with_rules(RULES);
    let url = origin.url("/private");
    let ask = |fields: &str| {
        gate.say(&format!(
            "GET /decide?url={url}&pace=true HTTP/1.1\r\nHost: localhost\r\nAccept: text/html\r\n{fields}\r\n"
        ))
    };
    let led =
        ask("Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: iframe\r\n");
    assert_eq!(led.status, 403, "{led:?}");
    assert_eq!(led.field("x-crawlgate-decision"), None, "{led:?}");
    assert_eq!(gate.process.records().len(), 0);
    gate.decided(&ask(""), 403, "robots_disallow");
    // The crawler's User-Agent says nothing about the requester.
    let auth = gate.say(&format!(
        "GET /auth HTTP/1.1\r\nHost: localhost\r\nX-Original-URL: {url}\r\nSec-Fetch-Site: cross-site\r\n\r\n"
    ));
    gate.decided(&auth, 403, "robots_disallow");
}

#[test]
fn a_question_without_a_client_has_the_general_purposes_also_after_a_reload() {
    let mut gate = AdminGate::with(|setup| setup.set("policy", "purposes", "\"search\""));
    let origin = Origin::with_rules("User-agent: *\nAllow: /\nContent-Usage: train-ai=n\n");
    let url = origin.url("/page");
    gate.decided(&gate.decide(&url, ""), 200, "robots_allow");
    let train = |setup: &mut Setup| setup.set("policy", "purposes", "\"train-ai\"");
    gate.process.reload_until(train, "policy.purposes");
    let answer = gate.decide(&url, "");
    has!(gate.decided(&answer, 403, "usage_disallow"), {"usage.refused.0": "train-ai"});
    assert_eq!(answer.problem()["usage"]["refused"][0], "train-ai");
    assert_eq!(origin.seen_but_robots(), [""; 0]);
}
