//! Limits of size and time for one message: heads, fields, slow bodies, and clients that say nothing.
//! Page: `docs/operating.md`.

use std::io::Write as _;

use rustix::process::{Resource, getrlimit, setrlimit};

use crate::support::{CrawlgateProcess, Origin, RULES, Reply};

#[test]
fn a_head_that_is_too_large_or_too_long_is_refused() {
    let gate = CrawlgateProcess::with(|setup| {
        setup.set("limits", "header_bytes", "8192");
        setup.set("limits", "uri_bytes", "1024");
    });
    let origin = Origin::http();
    let long = "x".repeat(2000);
    #[rustfmt::skip] // one row, one case
    let cases = [
        ("a long target", origin.url(&format!("/{long}")), String::new(), 414),
        ("a field of 10 kB", origin.url("/"), format!("X-Long: {}\r\n", "y".repeat(10_000)), 431),
        ("many fields", origin.url("/"), "X-Many: y\r\n".repeat(1000), 431),
    ];
    for (case, url, fields, status) in cases {
        let mut wire = gate.sends("GET", &url, &format!("{fields}\r\n"));
        let answer = wire.response("GET");
        assert_eq!(answer.status, status, "{case}: {answer:?}");
        assert!(answer.is_ours() && wire.is_closed(), "{case}");
    }
    gate.get(&origin.url(&format!("/{}", "x".repeat(900))))
        .is_origins(200, &format!("page /{}", "x".repeat(900)));
    assert_eq!(origin.seen_but_robots().len(), 1);
}

#[test]
fn a_head_and_an_idle_connection_have_time_limits() {
    let gate = CrawlgateProcess::with(|setup| {
        setup.set("limits", "header_timeout", "\"3s\"");
        setup.set("limits", "idle_timeout", "\"3s\"");
    });
    let origin = Origin::http();
    let mut slow = gate.connect();
    slow.send(format!("GET {} HTTP/1.1\r\nHost: x\r\nX-Slow: ", origin.url("/")));
    let answer = slow.response("GET");
    assert!(answer.status == 408 && answer.is_ours(), "{answer:?}");
    assert!(slow.is_closed());

    let mut idle = gate.connect();
    idle.passes(&origin.url("/a"));
    assert!(idle.is_closed(), "an idle connection stays open");
    let mut silent = gate.connect();
    silent.drain();
    assert_eq!(origin.seen_but_robots(), ["GET /a"]);
}

#[test]
fn a_client_hello_has_a_time_limit_too() {
    let gate = CrawlgateProcess::with(|setup| {
        setup.set("limits", "header_timeout", "\"3s\"");
        setup.set("limits", "idle_timeout", "\"3s\"");
    });
    let origin = Origin::https();
    for start in [&b""[..], b"\x16\x03\x01\x02\x00\x01"] {
        let mut wire = gate.tunnels(&origin.authority());
        wire.send(start);
        wire.drain();
    }
}

#[test]
fn fields_are_counted() {
    for most in [8, 100, 200] {
        let gate =
            CrawlgateProcess::with(|setup| setup.set("limits", "header_fields", &most.to_string()));
        let origin = Origin::http();
        let url = origin.url("/page");
        let ask = |fields: usize| {
            let more = "X-More: y\r\n".repeat(fields - 1);
            let mut wire = gate.connect();
            wire.exchange(format!("GET {url} HTTP/1.1\r\nHost: x\r\n{more}\r\n"))
        };
        ask(most).is_origins(200, "page /page");
        gate.refused(&ask(most + 1), 431, "bad_request");
        assert_eq!(origin.seen_but_robots().len(), 1, "{most}");
    }
}

#[test]
fn a_body_that_comes_too_slowly_is_given_up() {
    let gate = CrawlgateProcess::with(|setup| {
        setup.set("limits", "body_timeout", "\"3s\"");
        // This time-out is for the origin, which has nothing to answer yet.
        setup.set("upstream", "response_timeout", "\"2s\"");
    });
    let origin = Origin::http();
    let post = |path: &str| {
        let url = origin.url(path);
        format!("POST {url} HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n")
    };
    let mut stopped = gate.connect();
    stopped.send(post("/stopped")).send("abc");
    let mut silent = gate.connect();
    silent.send(post("/silent"));
    for (wire, path) in [(&mut stopped, "/stopped"), (&mut silent, "/silent")] {
        let answer = wire.response("POST");
        assert!(answer.status == 408 && answer.is_ours(), "{answer:?}");
        assert!(wire.is_closed(), "{path}");
        has!(gate.record_of(&origin.url(path)), {"error": "http_request_error", "status": 408});
    }
    assert_eq!(gate.record_of(&origin.url("/stopped"))["bytes_in"], 3);
    // An octet now and then does not help.
    let mut trickle = gate.connect();
    trickle.send(post("/trickle"));
    let mut sender = trickle.sender();
    let trickling = std::thread::spawn(move || {
        while sender.write_all(b"x").is_ok() {
            std::thread::park_timeout(std::time::Duration::from_millis(100));
        }
    });
    assert_eq!(trickle.response("POST").status, 408);
    drop(trickle);
    trickling.join().unwrap();
    // A client at the minimum rate has unlimited time.
    let mut steady = gate.connect();
    steady.send(post("/steady"));
    for _ in 0..40 {
        steady.send([b'y'; 25]);
        std::thread::park_timeout(std::time::Duration::from_millis(100));
    }
    steady.response("POST").is_origins(200, "page /steady");
}

#[test]
fn an_answer_that_the_client_does_not_read_is_cut_and_recorded_so() {
    let gate = CrawlgateProcess::with(|setup| setup.set("limits", "body_timeout", "\"3s\""));
    let length = 64 << 20;
    let large = Reply::raw(format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n"))
        .repeat([b'x'; 65_536], length / 65_536);
    let plain = Origin::http().on("/large", [large.clone()]);
    let tls = Origin::https().on("/large", [large]);
    let url = plain.url("/large");
    let _wire = gate.sends("GET", &url, "\r\n");
    let _inside = gate.sends("GET", &tls.url("/large"), "\r\n");
    for url in [url, tls.url("/large")] {
        let record = gate.record_of(&url);
        has!(record, {"error": "client_stalled", "status": 200});
        assert!(record["bytes_out"].as_u64().unwrap() < length, "{record}");
    }
    // A crawler that reads its answer gets all of it.
    assert!(gate.get(&plain.url("/large")).whole);
}

#[test]
fn thousands_of_silent_or_slow_connections_stop_no_crawler() {
    // Each connection takes two descriptors here; the tests beside this one need some, too.
    let most = getrlimit(Resource::Nofile);
    let raised = rustix::process::Rlimit { current: most.maximum, ..most };
    setrlimit(Resource::Nofile, raised).unwrap();
    let crowd = usize::try_from(most.maximum.unwrap_or(1 << 20)).unwrap_or(1 << 20);
    let crowd = (crowd.saturating_sub(4000) / 2).min(7_000);
    assert!(crowd >= 2000, "ulimit -Hn is too low for this test");
    let gate = CrawlgateProcess::with(|setup| {
        setup.set("limits", "connections", "1000");
        setup.set("limits", "header_timeout", "\"20s\"");
    });
    let origin = Origin::with_rules(RULES);
    let mut crawler = gate.connect();
    crawler.passes(&origin.url("/before"));
    let starts = [
        String::new(),
        "G".to_owned(),
        format!("GET {} HTTP/1.1\r\nHost: x\r\nX-Slow: ", origin.url("/slow")),
        format!("CONNECT {} HTTP/1.1\r\nHost: x\r\n\r\n", origin.authority()),
    ];
    let mut many = Vec::new();
    for (number, start) in (0..crowd).zip(starts.iter().cycle()) {
        let mut wire = gate.connect();
        wire.send(start);
        many.push(wire);
        if number % 250 == 0 {
            let path = format!("/{number}");
            // On a used connection, and on a new one.
            crawler.get(&origin.url(&path)).is_origins(200, &format!("page {path}"));
            gate.get(&origin.url(&path)).is_origins(200, &format!("page {path}"));
        }
    }
    gate.denies(&origin.url("/private"));
    crawler.passes(&origin.url("/after"));
    assert!(!origin.seen_but_robots().contains(&"GET /slow".to_owned()));
}
