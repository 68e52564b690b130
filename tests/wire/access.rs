//! The meaning of a fetch of robots.txt, by its status and its redirects. Page: `docs/robots.md`.

use crate::support::{Certificate, CrawlgateProcess, Origin, RULES, Reply};

/// The effect of a robots.txt response.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Access {
    /// The rules of its body: `/private` denied, `/open` allowed.
    Rules,
    /// No restrictions.
    Free,
    /// Complete disallow.
    Nothing,
}
use Access::{Free, Nothing, Rules};

/// Asserts the answers, the records and the requests that the origin saw.
#[track_caller]
pub(crate) fn check(case: &str, gate: &CrawlgateProcess, origin: &Origin, access: Access) {
    let private = gate.get(&origin.url("/private"));
    let open = gate.get(&origin.url("/open"));
    match access {
        Rules => {
            gate.denied(&private);
            assert_eq!(open.text(), "page /open", "{case}");
        }
        Free => {
            assert_eq!(
                (private.text().as_str(), open.text().as_str()),
                ("page /private", "page /open"),
                "{case}"
            );
            let record = gate.record_of(&origin.url("/private"));
            has!(record, {"reason": "robots_unavailable", "robots.state": "unavailable"}, "{case}");
        }
        Nothing => {
            for answer in [&private, &open] {
                has!(gate.unreachable(answer), {"robots.state": "unreachable"}, "{case}");
                assert!(
                    answer.field("retry-after").unwrap().parse::<u64>().unwrap() >= 1,
                    "{case}: {answer:?}"
                );
            }
            assert!(
                origin
                    .seen_but_robots()
                    .iter()
                    .all(|line| !line.contains("/private") && !line.contains("/open")),
                "{case}"
            );
        }
    }
}

#[test]
fn each_status_of_robots_txt_has_its_meaning() {
    let gate = CrawlgateProcess::start();
    #[rustfmt::skip] // one row, one case
    let cases = [
        ("200", Reply::ok(RULES), Rules),
        ("203 is a success too", Reply::status(203, RULES), Rules),
        (
            "a success of another content type",
            Reply::raw(format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\n\r\n{RULES}",
                RULES.len()
            )),
            Rules,
        ),
        ("chunked", Reply::chunked(RULES), Rules),
        ("ended by the end of the connection", Reply::raw(format!("HTTP/1.1 200 OK\r\n\r\n{RULES}")).close(), Rules),
        (
            "after an early hint",
            Reply::raw("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n").send(format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{RULES}",
                RULES.len()
            )),
            Rules,
        ),
        ("404, its body is no rule", Reply::status(404, "User-agent: *\nDisallow: /\n"), Free),
        ("410", Reply::status(410, ""), Free),
        ("401", Reply::status(401, ""), Free),
        ("403", Reply::status(403, "Disallow: /"), Free),
        ("429", Reply::status(429, RULES), Nothing),
        ("500, its body is no rule", Reply::status(500, "User-agent: *\nAllow: /\n"), Nothing),
        ("503", Reply::status(503, ""), Nothing),
        ("599", Reply::status(599, ""), Nothing),
        (
            "500 that says page not found, of a site that finds pages",
            Reply::status(500, "<h1>Page not found</h1>"),
            Nothing,
        ),
        ("304 to an unconditional request", Reply::raw("HTTP/1.1 304 Not Modified\r\n\r\n"), Nothing),
        ("no HTTP at all", Reply::raw("SSH-2.0-OpenSSH_9\r\n\r\n").close(), Nothing),
        ("an invalid status", Reply::raw("HTTP/1.1 20 OK\r\nContent-Length: 0\r\n\r\n").close(), Nothing),
        ("closed without an answer", Reply::silent().close(), Nothing),
        ("reset without an answer", Reply::silent().reset(), Nothing),
    ];
    for (case, reply, access) in cases {
        check(case, &gate, &Origin::http().on("/robots.txt", [reply]), access);
    }
}

#[test]
fn an_origin_without_a_listener_or_with_a_bad_certificate_is_unreachable() {
    let (gate, refused) = (CrawlgateProcess::start(), Origin::http());
    refused.stop();
    check("connection refused", &gate, &refused, Nothing);
    for (certificate, words) in [
        (Certificate::Untrusted, "[tls] extra_roots"),
        (Certificate::Expired, "its certificate expired on"),
        (Certificate::OtherName, "its certificate is for"),
    ] {
        let origin = Origin::https_with(certificate);
        check(&format!("{certificate:?}"), &gate, &origin, Nothing);
        assert_eq!(
            origin.seen().len(),
            0,
            "not even robots.txt is requested from an origin with a bad certificate"
        );
        let told = gate.get(&origin.url("/")).problem().to_string();
        assert!(told.contains(words), "{certificate:?}: {told}");
    }
    let unknown = gate.get("http://no-such-name.test/");
    gate.unreachable(&unknown);
}

#[test]
fn retry_after_is_passed_on_within_bounds_and_spares_the_origin() {
    let gate = CrawlgateProcess::start();
    let origin = Origin::http().on("/robots.txt", [Reply::with(503, "Retry-After: 120\r\n", "")]);
    let answer = gate.get(&origin.url("/"));
    gate.unreachable(&answer);
    let seconds: u64 = answer.field("retry-after").unwrap().parse().unwrap();
    assert!((100..=140).contains(&seconds), "{seconds}");
    gate.unreachable(&gate.get(&origin.url("/again")));
    assert_eq!(origin.robots_fetches(), 1, "asked again before its time");
}

#[test]
fn an_operator_chooses_other_statuses() {
    let gate = CrawlgateProcess::with(|setup| {
        setup.set("robots", "unreachable_status", "403");
        setup.set("robots", "deny_statuses", "[401, 403]");
        setup.set("robots", "soft_404", "false");
    });
    let down = Origin::http().on("/robots.txt", [Reply::status(500, "page not found")]);
    let answer = gate.get(&down.url("/"));
    let record = gate.refused(&answer, 403, "robots_unreachable");
    assert!(answer.field("retry-after").is_some());
    has!(record, {"error": "destination_unavailable"}, "the cause stays");
    let forbidden = Origin::http().on("/robots.txt", [Reply::status(403, "")]);
    assert!(gate.get(&forbidden.url("/")).is_ours());
    assert_eq!(forbidden.seen_but_robots(), [""; 0]);
}

/// Returns an origin with a robots.txt behind `hops` redirects.
fn chain(hops: usize, status: u16) -> Origin {
    let mut origin = Origin::http();
    for hop in 0..hops {
        let here = if hop == 0 { "/robots.txt".to_owned() } else { format!("/hop{hop}") };
        origin = origin.on(&here, [Reply::redirect(status, &format!("/hop{}", hop + 1))]);
    }
    origin.on(&format!("/hop{hops}"), [Reply::ok(RULES)])
}

#[test]
fn five_redirects_are_followed_and_a_sixth_is_not() {
    let gate = CrawlgateProcess::start();
    for status in [300, 301, 302, 303, 307, 308] {
        check(&format!("one {status}"), &gate, &chain(1, status), Rules);
    }
    for hops in 2..=5 {
        check(&format!("{hops} redirects"), &gate, &chain(hops, 302), Rules);
    }
    let six = chain(6, 302);
    check("six redirects", &gate, &six, Free);
    assert!(
        !six.seen_but_robots().contains(&"GET /hop6".to_owned()),
        "the sixth redirect was followed"
    );
}

#[test]
fn failed_redirects_of_robots_txt_have_their_meanings() {
    let gate = CrawlgateProcess::start();
    #[rustfmt::skip] // one row, one case
    let cases = [
        ("a loop", "/robots.txt", Free),
        ("no location", "", Nothing),
        ("another scheme", "gopher://site.test/robots.txt", Nothing),
        ("an invalid location", "http://[", Nothing),
        ("an unknown host", "http://no-such-name.test/robots.txt", Nothing),
    ];
    for (case, location, access) in cases {
        check(
            case,
            &gate,
            &Origin::http().on("/robots.txt", [Reply::redirect(301, location)]),
            access,
        );
    }
    let choices = Origin::http().on("/robots.txt", [Reply::redirect(300, "")]);
    check("choices without a preferred one", &gate, &choices, Nothing);
    let missing = Origin::http()
        .on("/robots.txt", [Reply::redirect(301, "/nowhere")])
        .on("/nowhere", [Reply::status(404, "")]);
    check("a redirect to a missing page", &gate, &missing, Free);
    let down = Origin::http()
        .on("/robots.txt", [Reply::redirect(301, "/down")])
        .on("/down", [Reply::status(500, "")]);
    check("a redirect to a failing page", &gate, &down, Nothing);
}

#[test]
fn a_redirected_robots_txt_binds_the_origin_that_was_asked_and_not_the_one_that_answered() {
    let gate = CrawlgateProcess::start();
    let target = Origin::https().on("/shared/rules", [Reply::ok(RULES)]);
    let middle = Origin::http()
        .on("/robots.txt", [Reply::redirect(307, &target.url_as("third.test", "/shared/rules"))]);
    let initial = Origin::http()
        .on("/robots.txt", [Reply::redirect(301, &middle.url_as("other.test", "/robots.txt"))]);
    check("across three origins", &gate, &initial, Rules);
    has!(gate.record_of(&initial.url("/private")), {
        "robots.url": initial.url("/robots.txt"),
        "robots.final_url": target.url_as("third.test", "/shared/rules"),
    });
    let hop = middle.last("/robots.txt").head;
    assert_eq!(hop.field("host"), Some(format!("other.test:{}", middle.port())));
    let sent = hop.field("user-agent").unwrap();
    assert!(sent.starts_with("TestBot crawlgate/"), "{sent}");
    let private = target.url_as("third.test", "/private");
    gate.get(&private).is_origins(200, "page /private");
}
