//! The bypass table: ways to spell a request so that a careless gate judges one thing and fetches another. For each
//! denial the origin has seen nothing but `/robots.txt`.

use crate::support::{Gate, Origin, RULES};

fn ask(method: &str, target: &str, fields: &str) -> String {
    format!("{method} {target} HTTP/1.1\r\nUser-Agent: TestBot/1.0\r\n{fields}\r\n")
}

#[test]
fn path_spellings_of_a_disallowed_page_are_denied() {
    let gate = Gate::start();
    let cases = [
        ("/private", "robots_disallow"),
        ("/%70rivate", "robots_disallow"),
        ("/%70%72%69%76%61%74%65", "robots_disallow"),
        ("/privat%65/deep", "robots_disallow"),
        ("/private/", "robots_disallow"),
        ("/private%2f", "robots_disallow"),
        ("/private;x=1", "robots_disallow"),
        ("/private?", "robots_disallow"),
        ("/private?x", "robots_disallow"),
        ("/private/../open", "robots_disallow"),
        ("//private", "path_guard"),
        ("///private", "path_guard"),
        ("/./private", "path_guard"),
        ("/a/../private", "path_guard"),
        ("/a/%2e%2e/private", "path_guard"),
        ("/a/.%2E/%70rivate", "path_guard"),
        ("/a//../../private", "path_guard"),
        ("/../private", "path_guard"),
        ("/robots.txt/../private", "path_guard"),
        ("//robots.txt/../private", "path_guard"),
    ];
    for origin in [Origin::http(), Origin::https()] {
        let origin = origin.robots(RULES);
        for (path, reason) in cases {
            let answer = gate.get(&origin.url(path));
            assert_eq!(answer.problem()["reason"], reason, "{path}: {answer:?}");
            let record = gate.refused(&answer, 403, reason);
            assert_eq!(record["rule"]["text"], "Disallow: /private", "{path}");
            assert_eq!(
                record["url"],
                origin.url(path),
                "the record has the URL as received"
            );
        }
        assert_eq!(origin.seen_but_robots(), [""; 0]);
    }
}

#[test]
fn allowed_paths_arrive_octet_for_octet() {
    let gate = Gate::start();
    let paths = [
        "/PRIVATE",
        "/priva",
        "/%2Fprivate",
        "/open%2fx",
        "/%7euser/%C3%a9",
        "/a/b/../c/./d//e",
        "/open?q=/private&r=%zz",
        "/open?",
        "/open?a=b?c",
        "/*$",
        "/a;b=c,d:e@f!g'h(i)",
        "/robots.txt?x=1",
        "/private/open/../open",
    ];
    for origin in [Origin::http(), Origin::https()] {
        let origin = origin.robots(RULES);
        for path in paths {
            let answer = gate.get(&origin.url(path));
            assert_eq!(answer.status, 200, "{path}: {answer:?}");
            assert_eq!(origin.last(path).line(), format!("GET {path}"));
        }
    }
}

#[test]
fn rules_and_paths_beyond_ascii_meet_in_one_form() {
    let gate = Gate::start();
    let origin = Origin::with_rules("User-agent: *\nDisallow: /café\nDisallow: /%E3%81%82\n");
    for path in ["/caf%C3%A9", "/caf%c3%a9/menu", "/%e3%81%82"] {
        gate.denied(&gate.get(&origin.url(path)));
    }
    let mut wire = gate.connect();
    let raw = wire.exchange(ask("GET", &origin.url("/café"), "Host: x\r\n"));
    assert!(raw.status == 403 || raw.status == 400, "{raw:?}");
    assert_eq!(origin.seen_but_robots(), [""; 0]);
}

#[test]
fn a_fragment_neither_decides_nor_passes() {
    let gate = Gate::start();
    let origin = Origin::with_rules(RULES);
    for path in ["/private#x", "/open#/../private", "/private?#x"] {
        let answer = gate
            .connect()
            .exchange(ask("GET", &origin.url(path), "Host: x\r\n"));
        let denied = answer.status == 403 || answer.status == 400;
        assert!(denied || path.starts_with("/open"), "{path}: {answer:?}");
    }
    assert!(
        origin
            .seen()
            .iter()
            .all(|seen| !seen.line().contains(['#', '.']) || seen.line().ends_with("/robots.txt"))
    );
}

#[test]
fn host_spellings_are_one_origin_with_one_robots_txt() {
    let gate = Gate::start();
    let origin = Origin::with_rules(RULES);
    for host in [
        "site.test",
        "SITE.Test",
        "site.test.",
        "user@site.test",
        "user:private@site.test",
    ] {
        let answer =
            gate.connect()
                .exchange(ask("GET", &origin.url_as(host, "/private"), "Host: x\r\n"));
        assert_eq!(answer.status, 403, "{host}: {answer:?}");
        let record = gate.denied(&answer);
        assert_eq!(record["host"], "site.test", "{host}");
        assert!(
            !record["url"].as_str().unwrap().contains("user"),
            "user information in a record: {record}"
        );
    }
    assert_eq!(
        (origin.robots_fetches(), origin.seen_but_robots()),
        (1, Vec::new())
    );
    let answer = gate.connect().exchange(ask(
        "GET",
        &origin.url_as("user:word@site.test", "/open"),
        "Host: x\r\n",
    ));
    answer.is_origins(200, "page /open");
    let open = origin.last("/open").head;
    assert_eq!(open.field("host"), Some(origin.authority()));
    assert!(
        !open.text().contains("word"),
        "user information went to the origin: {}",
        open.text()
    );
}

#[test]
fn address_spellings_are_the_address_they_name() {
    let gate = Gate::start();
    let origin = Origin::with_rules(RULES);
    for host in ["127.0.0.1", "0x7f.1", "2130706433", "0177.0.0.1", "127.1"] {
        let answer =
            gate.connect()
                .exchange(ask("GET", &origin.url_as(host, "/private"), "Host: x\r\n"));
        assert_eq!(answer.status, 403, "{host}: {answer:?}");
        assert_eq!(gate.denied(&answer)["host"], "127.0.0.1", "{host}");
    }
    assert_eq!(origin.robots_fetches(), 1);
    for host in [
        "[::ffff:127.0.0.1]",
        "[::FFFF:7f00:1]",
        "[0:0:0:0:0:ffff:127.0.0.1]",
    ] {
        let answer =
            gate.connect()
                .exchange(ask("GET", &origin.url_as(host, "/private"), "Host: x\r\n"));
        assert_eq!(answer.status, 403, "{host}: {answer:?}");
        assert_eq!(gate.denied(&answer)["host"], "[::ffff:7f00:1]", "{host}");
    }
    assert_eq!(
        (origin.robots_fetches(), origin.seen_but_robots()),
        (2, Vec::new())
    );
}

#[test]
fn international_names_are_judged_as_punycode() {
    let gate = Gate::start();
    let origin = Origin::with_rules(RULES);
    gate.denied(&gate.get(&origin.url_as("xn--bcher-kva.test", "/private")));
    gate.denied(&gate.get(&origin.url_as("XN--Bcher-KVA.test", "/private")));
    for host in ["bücher.test", "b%C3%BCcher.test", "BÜCHER.test"] {
        let answer =
            gate.connect()
                .exchange(ask("GET", &origin.url_as(host, "/private"), "Host: x\r\n"));
        assert!(matches!(answer.status, 400 | 403), "{host}: {answer:?}");
    }
    assert_eq!(
        (origin.robots_fetches(), origin.seen_but_robots()),
        (1, Vec::new())
    );
}

#[test]
fn the_default_port_is_no_port() {
    let gate = Gate::start();
    for url in ["http://site.test:80/private", "http://site.test/private"] {
        let record = gate.refused(&gate.get(url), 403, "robots_unreachable");
        assert_eq!(
            (&record["robots"]["url"], &record["port"]),
            (&"http://site.test/robots.txt".into(), &80.into())
        );
    }
}

#[test]
fn a_robots_txt_speaks_for_its_own_host_and_port_only() {
    let gate = Gate::start();
    let (strict, free) = (
        Origin::with_rules("User-agent: *\nDisallow: /\n"),
        Origin::http(),
    );
    gate.denied(&gate.get(&strict.url("/a")));
    gate.get(&free.url("/a")).is_origins(200, "page /a");
    gate.denied(&gate.get(&strict.url_as("www.site.test", "/a")));
    assert_eq!(
        strict.robots_fetches(),
        2,
        "www.site.test has a robots.txt of its own"
    );
}

#[test]
fn every_method_is_judged_and_an_allowed_one_arrives_as_it_is() {
    let gate = Gate::start();
    let origin = Origin::with_rules(RULES);
    for method in [
        "GET", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "PROPFIND", "BREW", "get", "Post",
        "M-SEARCH",
    ] {
        let fields = "Host: x\r\nContent-Length: 0\r\n";
        let answer = gate
            .connect()
            .exchange(ask(method, &origin.url("/private"), fields));
        assert_eq!(answer.status, 403, "{method}: {answer:?}");
        assert_eq!(gate.denied(&answer)["method"], method);
        let path = format!("/open/{method}");
        gate.connect()
            .exchange(ask(method, &origin.url(&path), fields))
            .is_origins(200, &format!("page {path}"));
        assert_eq!(origin.last(&path).line(), format!("{method} {path}"));
    }
    assert!(
        origin
            .seen_but_robots()
            .iter()
            .all(|line| !line.contains("private"))
    );
}

#[test]
fn trace_is_refused() {
    let gate = Gate::start();
    let origin = Origin::http();
    for method in ["TRACE", "TRACK"] {
        let answer = gate.connect().exchange(ask(
            method,
            &origin.url("/open"),
            "Host: x\r\nX-Secret: s\r\n",
        ));
        if method == "TRACE" {
            assert!(
                matches!(answer.status, 405 | 501) && answer.is_ours(),
                "{method}: {answer:?}"
            );
            assert!(!answer.text().contains("X-Secret"));
        }
    }
    assert!(!origin.seen_but_robots().contains(&"TRACE /open".to_owned()));
}

#[test]
fn the_target_and_not_the_host_field_names_the_origin() {
    let gate = Gate::start();
    let (strict, free) = (Origin::with_rules(RULES), Origin::http());
    for host in [free.authority(), "other.test".to_owned(), String::new()] {
        let fields = format!("Host: {host}\r\n");
        gate.denied(
            &gate
                .connect()
                .exchange(ask("GET", &strict.url("/private"), &fields)),
        );
        gate.connect()
            .exchange(ask("GET", &strict.url("/open"), &fields))
            .is_origins(200, "page /open");
        assert_eq!(
            strict.last("/open").head.all("host"),
            [strict.authority()],
            "RFC 9112 3.2.2"
        );
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
    let gate = Gate::start();
    let origin = Origin::with_rules(RULES);
    let mut wire = gate.connect();
    wire.get(&origin.url("/1")).is_origins(200, "page /1");
    gate.denied(&wire.get(&origin.url("/private")));
    wire.get(&origin.url("/2")).is_origins(200, "page /2");
    let other = Origin::with_rules("User-agent: *\nDisallow: /2\n");
    gate.denied(&wire.get(&other.url("/2")));
    let tls = Origin::https().robots(RULES);
    let mut wire = gate.intercept(&tls.authority(), "site.test");
    wire.get_inside(&tls.authority(), "/1")
        .is_origins(200, "page /1");
    gate.denied(&wire.get_inside(&tls.authority(), "/private"));
    wire.get_inside(&tls.authority(), "/2")
        .is_origins(200, "page /2");
    for origin in [origin, tls] {
        assert_eq!(origin.seen_but_robots(), ["GET /1", "GET /2"]);
    }
}

#[test]
fn pipelined_requests_are_answered_in_order_each_with_its_own_verdict() {
    let gate = Gate::start();
    let origin = Origin::with_rules(RULES);
    let paths = ["/1", "/private", "/2", "/%70rivate", "/3"];
    let mut wire = gate.connect();
    wire.send(
        paths
            .map(|path| ask("GET", &origin.url(path), "Host: x\r\n"))
            .concat(),
    );
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
    let gate = Gate::start();
    let origin = Origin::with_rules(RULES);
    let smuggled = ask("GET", &origin.url("/smuggled"), "Host: x\r\n");
    let length = format!("Host: x\r\nContent-Length: {}\r\n", smuggled.len());
    let chunks = format!("{:x}\r\n{smuggled}\r\n0\r\n\r\n", smuggled.len());
    let bodies = [
        (length, smuggled),
        (
            "Host: x\r\nTransfer-Encoding: chunked\r\n".to_owned(),
            chunks,
        ),
    ];
    for (fields, body) in bodies {
        let mut wire = gate.connect();
        wire.send(ask("POST", &origin.url("/private"), &fields))
            .send(body);
        gate.denied(&wire.response("POST"));
        wire.send(ask("GET", &origin.url("/marker"), "Host: x\r\n"))
            .half_close();
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
    let gate = Gate::start();
    let origin = Origin::with_rules(RULES);
    let ask = |path: &str| {
        format!(
            "GET {} HTTP/1.0\r\nUser-Agent: TestBot/1.0\r\n\r\n",
            origin.url(path)
        )
    };
    let mut wire = gate.connect();
    gate.denied(&wire.exchange(ask("/private")));
    assert!(wire.is_closed(), "HTTP/1.0 without keep-alive");
    let mut wire = gate.connect();
    wire.exchange(ask("/open")).is_origins(200, "page /open");
    assert!(wire.is_closed());
    let open = origin.last("/open").head;
    assert_eq!(
        (open.word(2).as_str(), open.field("host")),
        ("HTTP/1.1", Some(origin.authority()))
    );
    assert_eq!(origin.seen_but_robots(), ["GET /open"]);
}
