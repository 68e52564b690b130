//! The bypass table, second half: methods, the Host field, and requests that share a connection. For each denial the
//! origin has seen only `/robots.txt`. `http2/bypass.rs` has these rows on streams of HTTP/2. Page: `docs/messages.md`.

use crate::support::{CrawlgateProcess, Origin, RULES};

fn ask(method: &str, target: &str, fields: &str) -> String {
    format!("{method} {target} HTTP/1.1\r\nUser-Agent: TestBot/1.0\r\n{fields}\r\n")
}

#[test]
fn a_fragment_is_no_part_of_a_request_and_an_empty_path_is_the_root() {
    let (gate, origin) = (CrawlgateProcess::start(), Origin::http());
    let start = origin.url("");
    for (target, expected) in [
        (format!("{start}#x"), "GET /"),
        (start.clone(), "GET /"),
        (format!("{start}?q#x"), "GET /?q"),
        (format!("{start}/a#b"), "GET /a"),
        (format!("{start}/#"), "GET /"),
    ] {
        let answer = gate.connect().exchange(format!("GET {target} HTTP/1.1\r\nHost: x\r\n\r\n"));
        assert_eq!(answer.status, 200, "{target}: {answer:?}");
        assert_eq!(origin.seen_but_robots().last().map(String::as_str), Some(expected), "{target}");
    }
    assert_eq!(gate.wait_records(5).len(), 5);
}

#[test]
fn every_method_is_judged_and_an_allowed_one_arrives_as_it_is() {
    let (gate, origin) = (CrawlgateProcess::start(), Origin::with_rules(RULES));
    for method in [
        "GET", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "PROPFIND", "BREW", "get", "Post",
        "M-SEARCH",
    ] {
        let fields = "Host: x\r\nContent-Length: 0\r\n";
        let answer = gate.connect().exchange(ask(method, &origin.url("/private"), fields));
        assert_eq!(answer.status, 403, "{method}: {answer:?}");
        assert_eq!(gate.denied(&answer)["method"], method);
        let path = format!("/open/{method}");
        gate.connect()
            .exchange(ask(method, &origin.url(&path), fields))
            .is_origins(200, &format!("page {path}"));
        assert_eq!(origin.last(&path).line(), format!("{method} {path}"));
    }
    assert!(origin.seen_but_robots().iter().all(|line| !line.contains("private")));
}

#[test]
fn trace_is_refused() {
    let (gate, origin) = (CrawlgateProcess::start(), Origin::http());
    for method in ["TRACE", "TRACK"] {
        let answer = gate.connect().exchange(ask(
            method,
            &origin.url("/open"),
            "Host: x\r\nX-Secret: s\r\n",
        ));
        if method == "TRACE" {
            assert!(matches!(answer.status, 405 | 501) && answer.is_ours(), "{method}: {answer:?}");
            assert!(!answer.text().contains("X-Secret"));
        }
    }
    assert!(!origin.seen_but_robots().contains(&"TRACE /open".to_owned()));
}

#[test]
fn the_target_and_not_the_host_field_names_the_origin() {
    let gate = CrawlgateProcess::start();
    let (strict, free) = (Origin::with_rules(RULES), Origin::http());
    for host in [free.authority(), "other.test".to_owned(), String::new()] {
        let fields = format!("Host: {host}\r\n");
        gate.denied(&gate.connect().exchange(ask("GET", &strict.url("/private"), &fields)));
        gate.connect()
            .exchange(ask("GET", &strict.url("/open"), &fields))
            .is_origins(200, "page /open");
        assert_eq!(strict.last("/open").head.all("host"), [strict.authority()], "RFC 9112 3.2.2");
    }
    let origin_form = gate.connect().exchange(ask(
        "GET",
        "/private",
        &format!("Host: {}\r\n", strict.authority()),
    ));
    assert!(
        matches!(origin_form.status, 400 | 403 | 421) && origin_form.is_ours(),
        "{origin_form:?}"
    );
    assert_eq!(strict.seen_but_robots().len(), 3);
    assert_eq!(free.seen().len(), 0);
}

#[test]
fn a_kept_connection_is_judged_request_by_request() {
    let (gate, origin) = (CrawlgateProcess::start(), Origin::with_rules(RULES));
    let mut wire = gate.connect();
    wire.passes(&origin.url("/1"));
    gate.denied(&wire.get(&origin.url("/private")));
    wire.passes(&origin.url("/2"));
    let other = Origin::with_rules("User-agent: *\nDisallow: /2\n");
    gate.denied(&wire.get(&other.url("/2")));
    let tls = Origin::https().robots(RULES);
    let mut wire = gate.intercept(&tls.authority(), "site.test");
    wire.get_inside(&tls.authority(), "/1").is_origins(200, "page /1");
    gate.denied(&wire.get_inside(&tls.authority(), "/private"));
    wire.get_inside(&tls.authority(), "/2").is_origins(200, "page /2");
    for origin in [origin, tls] {
        assert_eq!(origin.seen_but_robots(), ["GET /1", "GET /2"]);
    }
}

#[test]
fn pipelined_requests_are_answered_in_order_each_with_its_own_verdict() {
    let (gate, origin) = (CrawlgateProcess::start(), Origin::with_rules(RULES));
    let paths = ["/1", "/private", "/2", "/%70rivate", "/3"];
    let mut wire = gate.connect();
    wire.send(paths.map(|path| ask("GET", &origin.url(path), "Host: x\r\n")).concat());
    for path in paths {
        let answer = wire.response("GET");
        match path {
            "/private" | "/%70rivate" => drop(gate.denied(&answer)),
            _ => answer.is_origins(200, &format!("page {path}")),
        }
    }
    assert_eq!(origin.seen_but_robots(), ["GET /1", "GET /2", "GET /3"]);
}

#[test]
fn the_body_of_a_denied_request_never_becomes_a_request() {
    let (gate, origin) = (CrawlgateProcess::start(), Origin::with_rules(RULES));
    let smuggled = ask("GET", &origin.url("/smuggled"), "Host: x\r\n");
    let length = format!("Host: x\r\nContent-Length: {}\r\n", smuggled.len());
    let chunks = format!("{:x}\r\n{smuggled}\r\n0\r\n\r\n", smuggled.len());
    #[rustfmt::skip] // one row, one case
    let bodies = [
        (length, smuggled),
        ("Host: x\r\nTransfer-Encoding: chunked\r\n".to_owned(), chunks),
    ];
    for (fields, body) in bodies {
        let mut wire = gate.connect();
        wire.send(ask("POST", &origin.url("/private"), &fields)).send(body);
        gate.denied(&wire.response("POST"));
        wire.send(ask("GET", &origin.url("/marker"), "Host: x\r\n")).half_close();
        wire.drain();
    }
    assert!(
        !origin
            .seen_but_robots()
            .iter()
            .any(|line| line.contains("smuggled") || line.contains("private"))
    );
}

#[test]
fn http_1_0_is_judged_like_any_other() {
    let (gate, origin) = (CrawlgateProcess::start(), Origin::with_rules(RULES));
    let ask = |path: &str| {
        format!("GET {} HTTP/1.0\r\nUser-Agent: TestBot/1.0\r\n\r\n", origin.url(path))
    };
    let mut wire = gate.connect();
    gate.denied(&wire.exchange(ask("/private")));
    assert!(wire.is_closed(), "HTTP/1.0 without keep-alive");
    let mut wire = gate.connect();
    wire.exchange(ask("/open")).is_origins(200, "page /open");
    assert!(wire.is_closed());
    let open = origin.last("/open").head;
    assert_eq!((open.word(2).as_str(), open.field("host")), ("HTTP/1.1", Some(origin.authority())));
    assert_eq!(origin.seen_but_robots(), ["GET /open"]);
}
