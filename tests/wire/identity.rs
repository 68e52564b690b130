//! The crawler that an origin's answer applies to: an answer to one User-Agent lifts no rule for another, and no
//! crawler chooses the User-Agent of a fetch of robots.txt. Page: `docs/robots.md`.

use serde_json::Value;

use crate::support::{CrawlgateProcess, Head, Origin, RULES, Reply, Response};

/// crawlgate's own User-Agent, as it is configured by default.
const OWN: &str = "crawlgate/0.1 (+https://www.rfc-editor.org/rfc/rfc9309)";

/// GETs a URL as a crawler that sends this User-Agent, octet for octet.
#[track_caller]
fn get_as(gate: &CrawlgateProcess, user_agent: &[u8], url: &str) -> Response {
    let authority = url.split('/').nth(2).unwrap();
    let mut request =
        format!("GET {url} HTTP/1.1\r\nHost: {authority}\r\nUser-Agent: ").into_bytes();
    request.extend_from_slice(user_agent);
    request.extend_from_slice(b"\r\n\r\n");
    gate.connect().exchange(request)
}

/// Tells whether the crawler of a request names itself so.
fn names(name: &'static str) -> impl Fn(&Head) -> bool + Send {
    move |head| {
        let sent = head.field("user-agent").unwrap_or_default();
        sent.contains(name)
    }
}

/// Returns the fields of a record that name the User-Agent of the fetched robots.txt.
fn fetched_as(record: &Value) -> (&str, &str) {
    let robots = &record["robots"];
    (robots["identity"].as_str().unwrap(), robots["user_agent"].as_str().unwrap())
}

#[test]
fn a_user_agent_of_nine_kilobytes_lifts_no_rule() {
    let gate = CrawlgateProcess::start();
    for (name, status) in [("400", 400), ("431", 431), ("494", 494)] {
        let origin = Origin::with_rules(RULES).on_if(
            "/robots.txt",
            |head| head.text().len() > 8192,
            Reply::status(status, "too large"),
        );
        let long = format!("BigBot/1.0 ({})", "x".repeat(9_000));
        let refused = get_as(&gate, long.as_bytes(), &origin.url("/private/diary"));
        let record = gate.denied(&refused);
        let sent = format!("BigBot {OWN}");
        assert_eq!(fetched_as(&record), ("bigbot", &*sent), "{name}");
        gate.denies(&origin.url("/private"));
        assert_eq!(origin.seen_but_robots(), [""; 0], "{name}");
        assert_eq!(origin.robots_agents(), [sent, format!("TestBot {OWN}")]);
    }
}

#[test]
fn a_bad_request_is_no_missing_file() {
    let gate = CrawlgateProcess::start();
    for status in [400, 405, 406, 408, 411, 413, 417, 421, 425, 426, 428, 431, 494] {
        let origin = Origin::http().on("/robots.txt", [Reply::status(status, "").close()]);
        let refused = gate.get(&origin.url("/page"));
        gate.unreachable(&refused);
        assert_eq!(origin.seen_but_robots(), [""; 0], "{status}");
        assert_eq!(origin.robots_fetches(), 1, "{status}: nothing to confirm");
    }
}

#[test]
fn a_firewall_that_refuses_one_name_lifts_nothing() {
    let gate = CrawlgateProcess::start();
    let origin = Origin::with_rules(RULES).on_if(
        "/robots.txt",
        names("sqlmap"),
        Reply::status(403, "go away"),
    );
    let refused = get_as(&gate, b"sqlmap/1.7#stable", &origin.url("/private"));
    let record = gate.denied(&refused);
    assert_eq!(fetched_as(&record), ("sqlmap", OWN));
    gate.denies(&origin.url("/private"));
    assert_eq!(origin.seen_but_robots(), [""; 0]);
    let agents = [format!("sqlmap {OWN}"), OWN.to_owned(), format!("TestBot {OWN}")];
    assert_eq!(origin.robots_agents(), agents);
}

#[test]
fn an_outage_for_one_crawler_shuts_the_site_for_no_other() {
    let gate = CrawlgateProcess::start();
    let origin =
        Origin::with_rules(RULES).on_if("/robots.txt", names("BadBot"), Reply::status(503, ""));
    let refused = get_as(&gate, b"BadBot/1.0", &origin.url("/open"));
    gate.unreachable(&refused);
    assert_eq!(origin.seen_but_robots(), [""; 0]);
    gate.passes(&origin.url("/open"));
}

#[test]
fn a_file_that_is_served_to_one_name_binds_it_alone() {
    let gate = CrawlgateProcess::start();
    let origin = Origin::with_rules(RULES).on_if(
        "/robots.txt",
        names("GoodBot"),
        Reply::ok("User-agent: *\nDisallow: /\n"),
    );
    gate.denied(&get_as(&gate, b"GoodBot/2.0", &origin.url("/open")));
    gate.passes(&origin.url("/open"));
    gate.denied(&get_as(&gate, b"goodbot/3.0", &origin.url("/open")));
    assert_eq!(origin.robots_fetches(), 2);
}

#[test]
fn names_by_the_hundred_cause_nine_fetches() {
    let (gate, origin) = (CrawlgateProcess::start(), Origin::with_rules(RULES));
    for number in 0..100 {
        let name = format!("Random{number}Bot/1.0");
        gate.denied(&get_as(&gate, name.as_bytes(), &origin.url("/private")));
    }
    assert_eq!(origin.robots_fetches(), 9);
    assert_eq!(origin.robots_agents().last().unwrap(), OWN);
    assert_eq!(origin.seen_but_robots(), [""; 0]);
}

#[test]
fn octets_that_are_no_visible_ascii_never_reach_the_origins_robots_txt() {
    let (gate, origin) = (CrawlgateProcess::start(), Origin::with_rules(RULES));
    for sent in [&b"\xff\xfe OddBot/1.0 \x80"[..], b"Odd\tBot/1.0", "\u{fc}berbot/1.0".as_bytes()] {
        gate.denied(&get_as(&gate, sent, &origin.url("/private")));
    }
    for agent in origin.robots_agents() {
        assert!(agent.ends_with(OWN), "{agent}");
        assert!(agent.bytes().all(|octet| matches!(octet, b' '..=b'~')), "{agent}");
        assert!(agent.len() <= 256, "{agent}");
    }
    assert_eq!(origin.seen_but_robots(), [""; 0]);
}

/// Returns an origin that keeps the robots.txt of others, with its own rules.
fn keeper(rules: &str) -> Origin {
    Origin::with_rules(rules).on("/kept/robots.txt", [Reply::ok("User-agent: *\nDisallow: /\n")])
}

/// Returns an origin with its robots.txt at a path of another one.
fn kept_by(keeper: &Origin, path: &str) -> Origin {
    Origin::http().on("/robots.txt", [Reply::redirect(302, &keeper.url(path))])
}

/// Returns the number of requests for the file that an origin keeps for others.
fn kept_file_requests(keeper: &Origin) -> usize {
    let lines = keeper.seen_but_robots();
    let is_it = |line: &&String| *line == "GET /kept/robots.txt";
    lines.iter().filter(is_it).count()
}

#[test]
fn a_redirect_into_what_its_origin_disallows_ends_the_chain_whichever_is_visited_first() {
    let gate = CrawlgateProcess::start();
    for is_visited_first in [false, true] {
        let keeper = keeper("User-agent: *\nDisallow: /kept/\n");
        let site = kept_by(&keeper, "/kept/robots.txt");
        if is_visited_first {
            gate.passes(&keeper.url("/open"));
        }
        // The site has no other robots.txt, so the page goes out.
        gate.passes(&site.url("/page"));
        has!(gate.record_of(&site.url("/page")), {"reason": "robots_unavailable"});
        assert_eq!(kept_file_requests(&keeper), 0, "the hop was made");
        let agents = [format!("TestBot {OWN}"), OWN.to_owned()];
        assert_eq!(keeper.robots_agents(), agents);
        assert_eq!(site.robots_agents(), agents, "confirmed as crawlgate alone");
        // A robots.txt is always allowed.
        let fine = kept_by(&keeper, "/robots.txt");
        gate.passes(&fine.url("/page"));
        assert_eq!(gate.record_of(&fine.url("/page"))["reason"], "robots_allow");
    }
}

#[test]
fn a_redirect_that_is_disallowed_to_one_name_alone_opens_nothing_for_it() {
    let gate = CrawlgateProcess::start();
    for is_visited_first in [false, true] {
        let keeper = keeper("User-agent: TestBot\nDisallow: /kept/\n");
        let site = kept_by(&keeper, "/kept/robots.txt");
        if is_visited_first {
            gate.passes(&keeper.url("/open"));
        }
        let record = gate.denies(&site.url("/page"));
        assert_eq!(fetched_as(&record), ("testbot", OWN));
        let hop = keeper.last("/kept/robots.txt").head;
        hop.field_is("user-agent", Some(OWN));
        gate.denied(&get_as(&gate, b"OtherBot/1", &site.url("/page")));
        assert_eq!(site.seen_but_robots(), [""; 0]);
    }
}

#[test]
fn a_redirect_that_is_disallowed_takes_no_file_away() {
    let gate = CrawlgateProcess::start();
    let keeper = keeper("User-agent: *\nDisallow: /kept/\n");
    let hop = Reply::redirect(302, &keeper.url("/kept/robots.txt"));
    let site = Origin::http().on("/robots.txt", [Reply::ok(RULES), hop]);
    gate.denies(&site.url("/private"));
    gate.ends(1, "origins", &["refresh", &site.url("")]);
    assert_eq!(site.robots_fetches(), 3, "confirmed as crawlgate alone");
    gate.denies(&site.url("/private"));
    gate.passes(&site.url("/open"));
    // A crawler without an earlier robots.txt is still not admitted.
    let other = get_as(&gate, b"OtherBot/1", &site.url("/private"));
    has!(gate.unreachable(&other), {"robots.unreachable.cause": "disallowed_hop"});
    assert_eq!(site.seen_but_robots(), ["GET /open"]);
    assert_eq!(kept_file_requests(&keeper), 0);
}

#[test]
fn a_redirect_that_cannot_be_judged_is_not_followed() {
    let gate = CrawlgateProcess::start();
    for is_visited_first in [false, true] {
        let keeper = Origin::http()
            .on("/robots.txt", [Reply::status(503, "")])
            .on("/kept/robots.txt", [Reply::ok("")]);
        let site = kept_by(&keeper, "/kept/robots.txt");
        if is_visited_first {
            let refused = gate.get(&keeper.url("/open"));
            gate.unreachable(&refused);
        }
        let refused = gate.get(&site.url("/page"));
        has!(gate.unreachable(&refused), {"robots.unreachable.cause": "unjudged_hop"});
        assert_eq!(keeper.seen_but_robots(), [""; 0]);
        assert_eq!(site.seen_but_robots(), [""; 0]);
    }
    // Two origins that keep each other's robots.txt: neither can be judged.
    let (one, two) = (Origin::http(), Origin::http());
    let hop = |to: &Origin| [Reply::redirect(302, &to.url("/kept"))];
    one.script("/robots.txt", hop(&two));
    two.script("/robots.txt", hop(&one));
    for site in [&one, &two] {
        let refused = gate.get(&site.url("/page"));
        gate.unreachable(&refused);
        assert_eq!(site.seen_but_robots(), [""; 0]);
    }
}

#[test]
fn a_site_that_keeps_its_robots_txt_elsewhere_stays_shut_when_it_is_fetched_again() {
    let gate = CrawlgateProcess::start();
    let origin = Origin::http()
        .on("/robots.txt", [Reply::redirect(301, "/kept/robots.txt")])
        .on("/kept/robots.txt", [Reply::ok("User-agent: *\nDisallow: /\n")]);
    gate.denies(&origin.url("/page"));
    gate.succeeds("origins", &["refresh", &origin.url("")]);
    assert_eq!(origin.robots_fetches(), 2);
    has!(gate.denies(&origin.url("/page")), {"reason": "robots_disallow"});
    assert_eq!(origin.seen().iter().filter(|seen| seen.line() == "GET /page").count(), 0);
}

#[test]
fn the_operator_names_another_user_agent() {
    let gate = CrawlgateProcess::with(|setup| {
        setup.set("robots", "user_agent", "\"Fleet/2.0 (+https://fleet.example)\"");
    });
    let origin = Origin::with_rules(RULES);
    let record = gate.denies(&origin.url("/private"));
    let sent = "TestBot Fleet/2.0 (+https://fleet.example)";
    assert_eq!(fetched_as(&record), ("testbot", sent));
    assert_eq!(origin.robots_agents(), [sent]);
}
