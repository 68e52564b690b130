//! Envoy's `ext_authz` filter over HTTP, in the form of the requests that it sends: the method, path and Host of the
//! request, the path behind `path_prefix`, Content-Length 0, and the fields that the filter's configuration adds.

use crate::support::{AdminGate, Origin, RULES, Reply};

#[test]
fn the_request_is_judged_as_envoy_forwards_it() {
    let gate = AdminGate::open();
    let origin = Origin::with_rules(RULES);
    let tls = Origin::https().robots(RULES);
    #[rustfmt::skip] // one row, one case
    let cases = [
        ("an allowed page", "GET", "/open?a=1", "http", &origin, 200, "robots_allow"),
        ("the root", "GET", "/", "http", &origin, 200, "robots_allow"),
        ("a disallowed page", "GET", "/private?a=1", "http", &origin, 403, "robots_disallow"),
        ("a POST request", "POST", "/private", "http", &origin, 403, "robots_disallow"),
        ("a HEAD request", "HEAD", "/private", "http", &origin, 403, "robots_disallow"),
        ("a path of ours", "GET", "/decide", "http", &origin, 200, "robots_allow"),
        ("one in another spelling", "GET", "/%70rivate", "http", &origin, 403, "robots_disallow"),
        ("a page behind a dot segment", "GET", "/a/../private", "http", &origin, 403, "path_guard"),
        ("one behind two slashes", "GET", "//private", "http", &origin, 403, "path_guard"),
        ("a page over TLS", "DELETE", "/open", "https", &tls, 200, "robots_allow"),
        ("a disallowed page over TLS", "GET", "/private", "https", &tls, 403, "robots_disallow"),
    ];
    for (name, method, path, proto, site, status, reason) in cases {
        let answer = gate.say(&format!(
            "{method} /ext-authz{path} HTTP/1.1\r\nHost: {}\r\nContent-Length: 0\r\nUser-Agent: TestBot/1.0\r\n\
             Origin: http://elsewhere.test\r\nX-Forwarded-Proto: {proto}\r\n\r\n",
            site.authority()
        ));
        assert_eq!(answer.status, status, "{name}: {answer:?}");
        let id = answer.field("x-crawlgate-decision").expect("a decision");
        has!(gate.process.record(name, |record| record["id"] == id), {
            "reason": reason, "url": site.url(path), "method": method, "agent.chain.0": "TestBot",
        }, "{name}");
        if method != "HEAD" {
            gate.decided(&answer, status, reason);
        }
    }
    assert_eq!(origin.seen_but_robots(), [""; 0]);
    assert_eq!(tls.seen_but_robots(), [""; 0]);
}

#[test]
fn a_request_with_missing_or_excess_information_is_refused() {
    let gate = AdminGate::open();
    let origin = Origin::with_rules(RULES);
    let host = origin.authority();
    #[rustfmt::skip] // one row, one case
    let rows = [
        ("no scheme", "/ext-authz/open", format!("Host: {host}\r\n")),
        (
            "two schemes",
            "/ext-authz/open",
            format!("Host: {host}\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Proto: https\r\n"),
        ),
        ("another scheme", "/ext-authz/open", format!("Host: {host}\r\nX-Forwarded-Proto: ftp\r\n")),
        ("a host that goes on", "/ext-authz/private", format!("Host: {host}/open?\r\nX-Forwarded-Proto: http\r\n")),
        (
            "a host behind a user",
            "/ext-authz/private",
            format!("Host: other.test@{host}\r\nX-Forwarded-Proto: http\r\n"),
        ),
        ("two hosts", "/ext-authz/private", format!("Host: {host}\r\nHost: other.test\r\nX-Forwarded-Proto: http\r\n")),
        ("no path prefix", "/open", format!("Host: {host}\r\nX-Forwarded-Proto: http\r\n")),
        ("a path of another kind", "/ext-authz*", "Host: localhost\r\nX-Forwarded-Proto: http\r\n".to_owned()),
    ];
    for (name, path, fields) in rows {
        let answer = gate.say(&format!("GET {path} HTTP/1.1\r\n{fields}Content-Length: 0\r\n\r\n"));
        assert!(answer.status >= 400, "{name}: {answer:?}");
        assert_eq!(answer.field("x-crawlgate-verdict"), None, "{name}");
    }
    assert_eq!(gate.process.records().len(), 0);
    assert_eq!(origin.seen().len(), 0);
}

#[test]
fn no_refusal_looks_like_an_error_that_envoy_may_let_pass() {
    let gate = AdminGate::open();
    let down = Origin::http().on("/robots.txt", [Reply::status(500, "")]);
    let answer = gate.say(&format!(
        "GET /ext-authz/x HTTP/1.1\r\nHost: {}\r\nContent-Length: 0\r\nUser-Agent: TestBot/1.0\r\nX-Forwarded-Proto: http\r\n\r\n",
        down.authority()
    ));
    gate.decided(&answer, 403, "robots_unreachable");
    assert!(answer.field("retry-after").is_some(), "{answer:?}");
    assert_eq!(down.seen_but_robots(), [""; 0]);
}
