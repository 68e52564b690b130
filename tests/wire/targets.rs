//! Request targets: OPTIONS for a server as a whole, its count of forwards, and the characters that a target may have; and the
//! characters of responses that hyper by itself would lose. Page: `docs/messages.md`.

use http::{Request, Uri};

use crate::support::{CrawlgateProcess, Origin, Reply};

/// Sends an OPTIONS for this target to the proxy, or inside a tunnel.
fn options(gate: &CrawlgateProcess, origin: &Origin, target: &str, fields: &str) -> u16 {
    let authority = origin.authority();
    let (mut wire, _) = gate.open(&origin.url("/"));
    let request = format!(
        "OPTIONS {target} HTTP/1.1\r\nHost: {authority}\r\nUser-Agent: TestBot/1.0\r\n{fields}\r\n"
    );
    wire.exchange(request).status
}

#[test]
fn an_options_without_a_path_asks_for_the_whole_server() {
    for (is_tls, targets) in [(false, &["{url}", "{url}#part"][..]), (true, &["*", "{url}"])] {
        let gate = CrawlgateProcess::start();
        let origin = if is_tls { Origin::https() } else { Origin::http() };
        for target in targets {
            let target = target.replace("{url}", &origin.url(""));
            assert_eq!(options(&gate, &origin, &target, ""), 200, "{target}");
            assert_eq!(origin.seen_but_robots().last().unwrap(), "OPTIONS *", "{target}");
        }
        // The root is a path, and no server as a whole.
        assert_eq!(options(&gate, &origin, &origin.url("/"), ""), 200);
        assert_eq!(origin.seen_but_robots().last().unwrap(), "OPTIONS /");
        let records = gate.wait_records(targets.len() + 1);
        for record in records {
            let url = record["url"].as_str().unwrap();
            assert!(url.starts_with(&origin.url("")), "{record}");
            has!(record, {"verdict": "allow", "method": "OPTIONS"});
        }
    }
}

#[test]
fn an_options_for_the_whole_server_is_judged_as_its_root() {
    for rules in ["User-agent: *\nDisallow: /\n", "User-agent: *\nDisallow: /$\n"] {
        let gate = CrawlgateProcess::start();
        let (plain, tls) = (Origin::with_rules(rules), Origin::https().robots(rules));
        assert_eq!(options(&gate, &plain, &plain.url(""), ""), 403);
        assert_eq!(options(&gate, &tls, "*", ""), 403);
        let mut http2 = gate.intercept_http2(&tls.authority(), "site.test");
        let uri = Uri::builder().scheme("https").authority(tls.authority());
        let request = Request::options(uri.path_and_query("*").build().unwrap());
        assert_eq!(http2.exchange(request.body(()).unwrap()).status, 403);
        assert!(plain.seen_but_robots().is_empty() && tls.seen_but_robots().is_empty());
        let records = gate.wait_records(3);
        assert!(records.iter().all(|one| one["reason"] == "robots_disallow"), "{records:?}");
    }
}

#[test]
fn forwards_are_counted_and_the_last_recipient_answers() {
    let (gate, origin) = (CrawlgateProcess::start(), Origin::http());
    assert_eq!(options(&gate, &origin, &origin.url("/page"), "Max-Forwards: 3\r\n"), 200);
    let seen = origin.last("/page");
    seen.head.field_is("max-forwards", Some("2"));
    let last = gate.request("OPTIONS", &origin.url("/last"), "Max-Forwards: 0\r\n").is(200);
    assert!(last.is_ours() && last.field("allow").unwrap().contains("OPTIONS"), "{last:?}");
    assert_eq!(origin.seen_but_robots(), ["OPTIONS /page"]);
    has!(gate.record_of(&origin.url("/last")), {"verdict": "allow", "status": 200});
    // Only OPTIONS and TRACE are counted.
    gate.request("GET", &origin.url("/get"), "Max-Forwards: 0\r\n").is_origins(200, "page /get");
    assert_eq!(origin.last("/get").head.field("max-forwards").as_deref(), Some("0"));
}

#[test]
fn every_visible_character_passes_in_path_and_query() {
    let gate = CrawlgateProcess::start();
    let origin = Origin::http().robots("User-agent: *\nDisallow: /private\n");
    let mut wire = gate.connect();
    for octet in (b'!'..=b'~').filter(|octet| !b"#?".contains(octet)) {
        let character = char::from(octet);
        for (target, escapes) in
            [(format!("/a{character}b"), "<>`"), (format!("/a?b{character}c"), "<>\"")]
        {
            let answer = wire.get(&origin.url(&target));
            assert_eq!(answer.status, 200, "{target}: {answer:?}");
            let expected = match escapes.contains(character) {
                true => target.replace(character, &format!("%{octet:02X}")),
                false => target.clone(),
            };
            let seen = origin.seen_but_robots();
            assert_eq!(seen.last().unwrap(), &format!("GET {expected}"));
            gate.record_of(&origin.url(&expected));
        }
    }
    // It is judged as it goes out, and so is the request behind it.
    let authority = origin.authority();
    let pipelined = format!(
        "GET {} HTTP/1.1\r\nHost: {authority}\r\n\r\nGET {} HTTP/1.1\r\nHost: {authority}\r\n\r\n",
        origin.url("/private`"),
        origin.url("/open`<>"),
    );
    let mut wire = gate.connect();
    wire.send(pipelined);
    assert_eq!(wire.response("GET").status, 403);
    assert_eq!(wire.response("GET").status, 200);
    assert_eq!(origin.seen_but_robots().last().unwrap(), "GET /open%60%3C%3E");
}

#[test]
fn an_octet_that_no_url_has_is_refused_by_name() {
    let (gate, origin) = (CrawlgateProcess::start(), Origin::http());
    for (octets, name) in [
        (&b"\x01"[..], "0x01"),
        (b"\x7f", "0x7F"),
        (b"\t", "0x09"),
        (b" ", "0x20"),
        (b"\xe9", "0xE9"),
    ] {
        for path in ["/a", "/a?b"] {
            let before = format!("GET {}", origin.url(path)).into_bytes();
            let behind = b" HTTP/1.1\r\nHost: x\r\n\r\n";
            let mut wire = gate.connect();
            let answer = wire.exchange([&before, octets, behind].concat());
            assert_eq!(answer.status, 400, "{name}: {answer:?}");
            let detail = answer.problem()["detail"].to_string();
            says!(detail, name);
        }
    }
    assert!(origin.seen().is_empty());
}

#[test]
fn control_octets_of_a_response_become_spaces() {
    for origin in [Origin::http(), Origin::https()] {
        let gate = CrawlgateProcess::start();
        let sent = b"HTTP/1.1 200 O\x01K\r\nX-One: a\x01b\0c\x7fd\r\nX-Two: e\rf\r\nContent-Length: 5\r\n\r\n\x01\0\x7f\r\x02";
        let origin = origin.on("/page", [Reply::raw(sent)]);
        let answer = gate.get(&origin.url("/page")).is(200);
        answer.field_is("x-one", Some("a b c d"));
        answer.field_is("x-two", Some("e f"));
        assert_eq!(answer.body, b"\x01\0\x7f\r\x02", "the body stays as it is");
        gate.passes(&origin.url("/next"));
    }
}

#[test]
fn a_reason_phrase_above_ascii_passes() {
    let gate = CrawlgateProcess::start();
    let latin = b"HTTP/1.1 404 Introuvable \xe9\r\nContent-Length: 0\r\n\r\n";
    let origin = Origin::http().on("/page", [Reply::raw(latin)]);
    let answer = gate.get(&origin.url("/page"));
    let line = answer.head.raw.split(|octet| *octet == b'\r').next().unwrap();
    assert_eq!(line, b"HTTP/1.1 404 Introuvable \xe9");
}
