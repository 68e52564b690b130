//! The time between the first request and its robots.txt: one fetch for all waiting requests, time limits for
//! everything. Page: `docs/robots.md`.

use crate::support::{CrawlgateProcess, FullQueue, Latch, Origin, RULES, Reply, Wire, eventually};

/// Returns an origin with a robots.txt that waits at a latch.
fn slow(origin: Origin, latch: &Latch) -> Origin {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", RULES.len());
    origin.on("/robots.txt", [Reply::silent().wait(latch).send(head).send(RULES)])
}

#[test]
fn two_hundred_first_requests_cause_one_fetch() {
    let (gate, latch) = (CrawlgateProcess::start(), Latch::new());
    let origin = slow(Origin::http(), &latch);
    let urls: Vec<_> = (0..200)
        .map(|n| origin.url(&format!("/{}/{n}", if n % 2 == 0 { "private" } else { "page" })))
        .collect();
    let mut wires: Vec<Wire> = urls.iter().map(|url| gate.asks(url)).collect();
    latch.arrivals(1);
    assert_eq!(origin.seen().len(), 1, "something was sent before the rules were known");
    latch.open();
    for (n, wire) in wires.iter_mut().enumerate() {
        assert_eq!(wire.response("GET").status, if n % 2 == 0 { 403 } else { 200 }, "request {n}");
    }
    assert_eq!((origin.robots_fetches(), origin.seen_but_robots().len()), (1, 100));
    assert_eq!(gate.wait_records(200).len(), 200);
}

#[test]
fn a_crawler_that_hangs_up_does_not_cancel_the_fetch() {
    let (gate, latch) = (CrawlgateProcess::start(), Latch::new());
    let origin = slow(Origin::http(), &latch);
    let mut wire = gate.connect();
    let impatient = origin.url("/impatient");
    wire.ask(&impatient);
    latch.arrivals(1);
    drop(wire);
    gate.record_of(&impatient);
    latch.open();
    gate.denies(&origin.url("/private"));
    assert_eq!((origin.robots_fetches(), origin.seen_but_robots()), (1, Vec::new()));
}

#[test]
fn a_request_held_too_long_gets_a_retry_after_and_the_fetch_goes_on() {
    let gate = CrawlgateProcess::with(|setup| setup.set("robots", "hold", "\"1s\""));
    for (origin, path) in [(Origin::http(), "/private"), (Origin::https(), "/open")] {
        let latch = Latch::new();
        let origin = slow(origin, &latch);
        let answer = gate.get(&origin.url(path));
        let record = gate.refused(&answer, 503, "robots_pending");
        assert!(answer.field("retry-after").unwrap().parse::<u64>().unwrap() >= 1);
        assert!(record["hold_ms"].as_f64().unwrap() >= 900.0, "{record}");
        assert_eq!(origin.seen_but_robots(), [""; 0]);
        latch.open();
        // A busy machine may take longer than the hold.
        let answer = eventually("the robots.txt to be known", || {
            let answer = gate.get(&origin.url("/private"));
            (answer.status != 503).then_some(answer)
        });
        gate.denied(&answer);
        assert_eq!(origin.robots_fetches(), 1);
    }
}

#[test]
fn every_stall_of_a_fetch_ends_at_its_deadline() {
    let gate = CrawlgateProcess::with(|setup| {
        setup.set("robots", "connect_timeout", "\"1s\"");
        setup.set("robots", "first_byte_timeout", "\"1s\"");
        setup.set("robots", "fetch_timeout", "\"2s\"");
    });
    let never = Latch::new();
    let head = "HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n";
    #[rustfmt::skip] // one row, one case
    let cases = [
        ("no first octet", Reply::silent().wait(&never)),
        ("a head without an end", Reply::raw("HTTP/1.1 200 OK\r\nContent-").wait(&never)),
        ("a body without an end", Reply::raw(head).send(RULES).wait(&never)),
        ("a redirect to a target that stalls", Reply::redirect(302, "/stalls")),
    ];
    for (case, reply) in cases {
        let origin =
            Origin::http().on("/robots.txt", [reply]).on("/stalls", [Reply::silent().wait(&never)]);
        let answer = gate.get(&origin.url("/private/open"));
        assert_eq!(answer.status, 504, "{case}: {answer:?}");
        gate.unreachable(&answer);
    }
    let queue = FullQueue::new();
    gate.unreachable(&gate.get(&format!("http://site.test:{}/", queue.port)));
    never.open();
}

#[test]
fn a_connection_and_the_wait_for_an_answer_each_have_a_deadline_of_their_own() {
    const CONNECT: (&str, &str) = ("robots", "connect_timeout");
    const ANSWER: (&str, &str) = ("robots", "first_byte_timeout");
    const PAGES: (&str, &str) = ("upstream", "connect_timeout");
    let queue = FullQueue::new();
    let never = Latch::new();
    // The kernel accepts the connection, but nothing answers: TLS never completes.
    let mute = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let no_tcp = format!("http://site.test:{}/", queue.port);
    let no_tls = format!("https://site.test:{}/", mute.local_addr().unwrap().port());
    let silent = Origin::http().on("/robots.txt", [Reply::silent().wait(&never)]);
    let no_answer = silent.url("/");
    let (ended, goes_on) = ((504, "robots_unreachable"), (503, "robots_pending"));
    // The named key is short; all other time-outs exceed the longest hold.
    #[rustfmt::skip] // one row, one case
    let cases = [
        ("no TCP", &no_tcp, CONNECT, ended),
        ("no TLS", &no_tls, CONNECT, ended),
        ("no answer", &no_answer, ANSWER, ended),
        ("an answer has time once there is a connection", &no_answer, CONNECT, goes_on),
        ("a connection has time for itself", &no_tcp, ANSWER, goes_on),
        ("a time-out of pages does not hold here", &no_tcp, PAGES, goes_on),
    ];
    std::thread::scope(|scope| {
        for (case, url, (section, key), (status, reason)) in cases {
            scope.spawn(move || {
                let gate = CrawlgateProcess::with(|setup| {
                    for (section, key) in [CONNECT, ANSWER, PAGES, ("robots", "fetch_timeout")] {
                        setup.set(section, key, "\"60s\"");
                    }
                    setup.set(section, key, "\"1s\"");
                    setup.set("robots", "hold", "\"8s\"");
                });
                let answer = gate.get(url);
                assert_eq!(answer.status, status, "{case}: {answer:?}");
                gate.refused(&answer, status, reason);
            });
        }
    });
    never.open();
}

#[test]
fn an_unreachable_origin_is_closed_for_every_request_and_opens_when_it_answers_again() {
    let gate = CrawlgateProcess::with(|setup| {
        setup.set("robots", "retry_min", "\"1s\"");
        setup.set("robots", "retry_max", "\"1s\"");
        setup.set("robots", "retry_max_503", "\"1s\"");
    });
    let origin = Origin::http().on("/robots.txt", [Reply::status(503, "")]);
    for path in ["/private", "/open", "/private/open"] {
        gate.unreachable(&gate.get(&origin.url(path)));
    }
    gate.get(&origin.url("/robots.txt"));
    assert_eq!(origin.seen_but_robots(), [""; 0]);
    origin.script("/robots.txt", [Reply::ok(RULES)]);
    let url = origin.url("/open");
    gate.until(200, &url);
    gate.denies(&origin.url("/private"));
}
