//! The main task: allowed requests arrive unchanged, disallowed ones get a 403 that names the rule.
//! Page: `docs/messages.md`.

use serde_json::json;

use crate::support::{CrawlgateProcess, Origin, RULES};

#[test]
fn a_disallowed_url_gets_a_403_with_its_rule_and_an_allowed_one_arrives_plain_and_intercepted() {
    let gate = CrawlgateProcess::start();
    for origin in [Origin::http().robots(RULES), Origin::https().robots(RULES)] {
        let record = gate.denies(&origin.url("/private/diary?day=1"));
        has!(record, {"rule": {"group": "*", "text": "Disallow: /private", "line": 3}});
        gate.passes(&origin.url("/private/open"));
        gate.passes(&origin.url("/elsewhere"));
        assert_eq!(origin.seen_but_robots(), ["GET /private/open", "GET /elsewhere"]);
        assert_eq!(origin.robots_fetches(), 1, "robots.txt is fetched once, not for every request");
    }
}

#[test]
fn a_record_says_everything_about_an_exchange() {
    let gate = CrawlgateProcess::start();
    for (origin, via) in [(Origin::http(), "plain"), (Origin::https(), "intercepted")] {
        let origin = origin.robots(RULES);
        let url = origin.url("/private?q=1");
        gate.denies(&url);
        let record = gate.record_of(&url);
        let robots_url = origin.url("/robots.txt");
        for (key, expected) in [
            ("mode", json!("enforce")),
            ("verdict", json!("deny")),
            ("user_agent", json!("TestBot/1.0")),
            ("method", json!("GET")),
            ("version", json!("1.1")),
            ("host", json!("site.test")),
            ("port", json!(origin.port())),
            ("scheme", json!(url.split(':').next())),
            ("via", json!(via)),
            ("status", json!(403)),
            ("upstream", json!(null)),
            ("error", json!("http_request_denied")),
        ] {
            assert_eq!(record[key], expected, "{key} in {record}");
        }
        assert_eq!(
            record["client"]["address"].as_str().unwrap().split(':').next(),
            Some("127.0.0.1")
        );
        assert_eq!(record["agent"]["chain"], json!(["TestBot"]));
        let robots = &record["robots"];
        has!(robots, {
            "url": robots_url, "final_url": robots_url, "state": "successful", "status": 200,
            "bytes": RULES.len(), "truncated": false,
        }, "{record}");
        assert_eq!(robots["sha256"].as_str().unwrap().len(), 64, "{record}");
        assert!(
            record["time"].as_str().unwrap().ends_with('Z') && record["duration_ms"].is_number(),
            "{record}"
        );

        let url = origin.url("/open");
        gate.get(&url);
        let record = gate.record_of(&url);
        has!(record, {
            "verdict": "allow", "status": 200, "upstream": format!("127.0.0.1:{}", origin.port()),
        });
        assert!(record["bytes_out"].as_u64().unwrap() >= "page /open".len() as u64, "{record}");
    }
}

#[test]
fn every_allowed_request_has_one_record_with_its_reason() {
    let gate = CrawlgateProcess::start();
    #[rustfmt::skip] // one row, one case
    let cases = [
        ("an allow rule", RULES, "/private/open", "robots_allow"),
        ("robots.txt itself, under any rules", "User-agent: *\nDisallow: /\n", "/robots.txt", "robots_txt"),
        (
            "a group of the crawler without rules",
            "User-agent: *\nDisallow: /\n\nUser-agent: TestBot\n",
            "/",
            "no_rules",
        ),
        ("an empty file", "", "/", "no_rules"),
    ];
    for (case, rules, path, reason) in cases {
        let origin = Origin::with_rules(rules);
        let url = origin.url(path);
        let answer = gate.get(&url);
        assert!(answer.status == 200 && !answer.is_ours(), "{case}: {answer:?}");
        has!(gate.record_of(&url), {"verdict": "allow", "reason": reason}, "{case}");
    }
}

#[test]
fn the_product_tokens_of_the_user_agent_choose_the_group() {
    let rules = "User-agent: *\nDisallow: /a\n\nUser-agent: deepbot\nDisallow: /b\n\nUser-agent: botnews\nDisallow: /c\n";
    #[rustfmt::skip] // one row, one case
    let cases = [
        ("an unknown crawler falls to the global group", "Curl/8", "/a", "*"),
        ("no product at all", "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36", "/a", "*"),
        ("a token in any case and version", "DeepBot/2.1", "/b", "deepbot"),
        ("a token inside a comment", "Mozilla/5.0 (compatible; DeepBot/1.0; +http://x.test/bot)", "/b", "deepbot"),
        ("the first token with a group", "Unknown/1 BotNews/1 DeepBot/1", "/c", "botnews"),
    ];
    let (gate, origin) = (CrawlgateProcess::start(), Origin::with_rules(rules));
    for (case, agent, path, group) in cases {
        let mut wire = gate.connect();
        let ask = |path: &str| {
            format!("GET {} HTTP/1.1\r\nHost: x\r\nUser-Agent: {agent}\r\n\r\n", origin.url(path))
        };
        has!(gate.denied(&wire.exchange(ask(path))), {"rule.group": group}, "{case}");
        for other in ["/a", "/b", "/c"].iter().filter(|other| **other != path) {
            assert_eq!(wire.exchange(ask(other)).status, 200, "{case}: {other}");
        }
    }
}

#[test]
fn a_configured_identity_outranks_the_user_agent() {
    let gate =
        CrawlgateProcess::with(|setup| setup.set("agent", "product_tokens", "[\"DeepBot\"]"));
    let origin = Origin::with_rules("User-agent: deepbot\nDisallow: /b\n");
    let record = gate.denies(&origin.url("/b"));
    assert_eq!(record["agent"]["chain"], json!(["DeepBot"]));
    assert_ne!(record["agent"]["source"], "user_agent");
}

#[test]
fn robots_txt_is_fetched_with_the_crawlers_token_and_our_name_and_unconditionally() {
    let (gate, origin) = (CrawlgateProcess::start(), Origin::with_rules(RULES));
    gate.request("GET", &origin.url("/"), "If-None-Match: \"x\"\r\nIf-Modified-Since: Thu, 01 Jan 2026 00:00:00 GMT\r\nCookie: a=b\r\n");
    let fetch = &origin.seen()[0].head;
    assert_eq!(fetch.start_line(), "GET /robots.txt HTTP/1.1");
    let sent = fetch.field("user-agent").unwrap();
    assert!(sent.starts_with("TestBot crawlgate/"), "{sent}");
    assert_eq!(fetch.field("host"), Some(origin.authority()));
    for name in ["if-none-match", "if-modified-since", "cookie", "range"] {
        assert_eq!(fetch.field(name), None, "{name}");
    }
}

#[test]
fn a_denial_is_text_on_request_and_without_body_for_head() {
    let (gate, origin) = (CrawlgateProcess::start(), Origin::with_rules(RULES));
    let url = origin.url("/private");
    let text = gate.request("GET", &url, "Accept: text/plain\r\n");
    assert_eq!(text.status, 403);
    assert!(text.field("content-type").unwrap().starts_with("text/plain"), "{text:?}");
    assert!(text.text().contains("Disallow: /private") && text.is_ours(), "{text:?}");

    let mut wire = gate.sends("HEAD", &url, "\r\n");
    let head = wire.response("HEAD");
    assert!(head.status == 403 && head.is_ours(), "{head:?}");
    gate.denied(&wire.get(&url));
    assert_eq!(origin.seen_but_robots(), [""; 0]);
}
