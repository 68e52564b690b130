//! HTTP/2 to origins: which requests go by it, and which of them share a connection. Page: `docs/messages.md`.

use std::thread;
use std::time::Duration;

use crate::clients::entry;
use crate::support::http2_origin::{Holds, Http2Origin};
use crate::support::{CrawlgateProcess, Origin, RULES, Reply, Response};

/// Longer than an answer may take that is not slow.
const SLOW: Duration = Duration::from_secs(2);

/// Asks for these URLs at once, each on a new connection, and calls `meanwhile`; returns the answers in order.
fn at_once(gate: &CrawlgateProcess, urls: &[String], meanwhile: impl FnOnce()) -> Vec<Response> {
    thread::scope(|scope| {
        let asking: Vec<_> = urls.iter().map(|url| scope.spawn(|| gate.get(url))).collect();
        meanwhile();
        asking.into_iter().map(|asking| asking.join().unwrap()).collect()
    })
}

/// Returns an origin; its paths `/held…` wait for leave to answer.
fn holding(origin: Http2Origin, holds: &Holds, count: usize) -> (Http2Origin, Vec<String>) {
    let paths = (0..count).map(|number| format!("/held{number}"));
    let paths: Vec<String> = paths.collect();
    let mut origin = origin;
    for path in &paths {
        let (holds, text) = (holds.clone(), format!("page {path}"));
        origin = origin.on(path, move |stream| {
            let (holds, text) = (holds.clone(), text.clone());
            async move {
                holds.pass().await;
                stream.reply(200, text).await;
            }
        });
    }
    let urls = paths.iter().map(|path| origin.url(path)).collect();
    (origin, urls)
}

#[track_caller]
fn are_pages(answers: &[Response]) {
    for (number, answer) in answers.iter().enumerate() {
        answer.is_origins(200, &format!("page /held{number}"));
    }
}

#[test]
fn requests_at_once_share_one_connection() {
    let (gate, holds) = (CrawlgateProcess::start(), Holds::new());
    let (origin, urls) = holding(Http2Origin::start(), &holds, 20);
    let answers = at_once(&gate, &urls, || {
        origin.wait_pages(20);
        holds.let_pass(20);
    });
    are_pages(&answers);
    // The robots.txt was the first request on it.
    assert_eq!(origin.connections(), 1);
    assert_eq!(origin.seen().len(), 21);
    for url in &urls {
        has!(gate.record_of(url), {"upstream_version": "2", "status": 200});
    }
}

#[test]
fn requests_above_the_origins_limit_get_a_second_connection() {
    let (gate, holds) = (CrawlgateProcess::start(), Holds::new());
    let origin = Http2Origin::with(&["h2"], |server| {
        server.max_concurrent_streams(4);
    });
    let (origin, urls) = holding(origin, &holds, 7);
    let answers = at_once(&gate, &urls, || {
        origin.wait_pages(7);
        holds.let_pass(7);
    });
    are_pages(&answers);
    let on = |number| {
        let pages = origin.pages();
        pages.iter().filter(|page| page.connection == number).count()
    };
    assert_eq!((on(1), on(2), origin.connections()), (4, 3, 2));
}

#[test]
fn requests_above_all_limits_wait_for_one_that_ends() {
    for (most, streams) in [("http2_connections", 2), ("http2_streams", 1000)] {
        let gate = CrawlgateProcess::with(|setup| {
            setup.set("upstream", "http2_connections", "1");
            if most == "http2_streams" {
                setup.set("upstream", most, "2");
            }
        });
        let holds = Holds::new();
        let origin = Http2Origin::with(&["h2"], |server| {
            server.max_concurrent_streams(streams);
        });
        let (origin, urls) = holding(origin, &holds, 5);
        let answers = at_once(&gate, &urls, || {
            for arrived in [2, 3, 4, 5, 5] {
                origin.wait_pages(arrived);
                assert_eq!(origin.pages().len(), arrived, "{most}");
                holds.let_pass(1);
            }
        });
        are_pages(&answers);
        assert_eq!(origin.connections(), 1, "{most}");
    }
}

/// A gate with one place for requests to an origin.
fn with_one_place(timeout: &str) -> CrawlgateProcess {
    CrawlgateProcess::with(|setup| {
        setup.set("upstream", "http2_connections", "1");
        setup.set("upstream", "http2_streams", "1");
        setup.set("upstream", "connect_timeout", timeout);
    })
}

#[test]
fn requests_that_find_no_place_in_time_are_refused_and_slow_nothing() {
    let gate = with_one_place("\"3s\"");
    let holds = Holds::new();
    let (origin, urls) = holding(Http2Origin::start(), &holds, 1);
    // Three failures in a row of the origin would slow its pace.
    let late: Vec<_> = (0..4).map(|number| origin.url(&format!("/late{number}"))).collect();
    thread::scope(|scope| {
        let first = scope.spawn(|| gate.get(&urls[0]));
        origin.wait_pages(1);
        for answer in at_once(&gate, &late, || {}) {
            has!(gate.refused(&answer, 503, "overloaded"), {"error": "connection_limit_reached"});
        }
        holds.let_pass(1);
        are_pages(&[first.join().unwrap()]);
    });
    gate.passes(&origin.url("/next"));
    has!(gate.record_of(&origin.url("/next")), {"pace": null});
    assert_eq!(origin.pages().len(), 2);
}

#[test]
fn answers_that_had_to_wait_for_a_place_are_not_slow() {
    let gate = with_one_place("\"10s\"");
    let holds = Holds::new();
    let (origin, urls) = holding(Http2Origin::start(), &holds, 1);
    // Enough for the usual time of an answer.
    for number in 0..20 {
        gate.answers(&origin.url(&format!("/fast{number}")), 200);
    }
    // Four slow answers in a row would slow the origin's pace.
    let late: Vec<_> = (0..6).map(|number| origin.url(&format!("/late{number}"))).collect();
    let answers = thread::scope(|scope| {
        scope.spawn(|| gate.get(&urls[0]));
        origin.wait_pages(21);
        at_once(&gate, &late, || {
            // Slower than any answer may be without notice.
            thread::park_timeout(SLOW);
            holds.let_pass(1);
        })
    });
    assert!(answers.iter().all(|answer| answer.status == 200));
    gate.passes(&origin.url("/next"));
    has!(gate.record_of(&origin.url("/next")), {"pace": null});
}

#[test]
fn an_origin_without_http2_is_asked_as_ever() {
    let (gate, origin) = (CrawlgateProcess::start(), Origin::https());
    for path in ["/one", "/two"] {
        let answer = gate.get(&origin.url(path));
        answer.is_origins(200, &format!("page {path}"));
        has!(gate.record_of(&origin.url(path)), {"upstream_version": "1.1"});
    }
    assert_eq!(origin.last("/one").connection, origin.last("/two").connection);
    assert_ne!(origin.last("/robots.txt").connection, origin.last("/one").connection);
    // At once, each has a connection.
    let latch = crate::support::Latch::new();
    let wait = Reply::silent().wait(&latch);
    let urls: Vec<_> = (0..6).map(|number| origin.url(&format!("/{number}"))).collect();
    for number in 0..6 {
        let reply = wait.clone().send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
        origin.script(&format!("/{number}"), [reply]);
    }
    let answers = at_once(&gate, &urls, || {
        latch.arrivals(6);
        latch.open();
    });
    assert!(answers.iter().all(|answer| answer.text() == "hi"));
}

#[test]
fn an_origin_with_http2_alone_is_asked_by_it() {
    let gate = CrawlgateProcess::start();
    let origin = Http2Origin::with(&["h2"], |_| ());
    gate.passes(&origin.url("/page"));
    assert_eq!(origin.last("/page").version, "2");
    has!(gate.record_of(&origin.url("/page")), {"upstream_version": "2"});
}

#[test]
fn a_page_passes_by_http2_on_both_sides() {
    let (gate, origin) = (CrawlgateProcess::start(), Http2Origin::start());
    let mut crawler = gate.intercept_http2(&origin.authority(), "site.test");
    for path in ["/one", "/two"] {
        let answer = crawler.get(&origin.url(path));
        answer.is_origins(200, &format!("page {path}"));
        has!(gate.record_of(&origin.url(path)), {"version": "2", "upstream_version": "2"});
        let via = origin.last(path).fields["via"].to_str().unwrap().to_owned();
        assert!(via.starts_with("2.0 crawlgate-"), "{via}");
    }
    assert_eq!((origin.connections(), origin.seen().len()), (1, 3));
}

#[test]
fn a_denial_by_a_robots_txt_that_came_by_http2_reaches_no_origin() {
    let gate = CrawlgateProcess::start();
    let origin = Http2Origin::start().robots(RULES);
    has!(gate.denies(&origin.url("/private/page")), {"upstream_version": null});
    gate.passes(&origin.url("/private/open"));
    let paths: Vec<_> = origin.seen().into_iter().map(|seen| (seen.version, seen.path)).collect();
    assert_eq!(paths, [("2", "/robots.txt".to_owned()), ("2", "/private/open".to_owned())]);
}

#[test]
fn http2_can_be_switched_off_and_on() {
    let answer = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfirst";
    let origin = Http2Origin::start().http1(answer);
    let mut gate = CrawlgateProcess::with(|setup| setup.set("upstream", "http2", "false"));
    gate.get(&origin.url("/off")).is_origins(200, "first");
    assert_eq!(origin.last("/off").version, "1.1");
    has!(gate.record_of(&origin.url("/off")), {"upstream_version": "1.1"});
    gate.reload(|setup| setup.set("upstream", "http2", "true"));
    gate.passes(&origin.url("/on"));
    gate.reload(|setup| setup.set("upstream", "http2", "false"));
    gate.get(&origin.url("/off-again")).is_origins(200, "first");
    assert_eq!(origin.last("/off-again").version, "1.1");
}

#[test]
fn no_connection_serves_two_origins() {
    let gate = CrawlgateProcess::start();
    // One server of two names, at one address and port.
    let origin = Http2Origin::start();
    let ask = |host: &str, path: &str| {
        let url = origin.url(path).replacen("site.test", host, 1);
        gate.get(&url).is_origins(200, &format!("page {path}"));
        let seen = origin.last(path);
        assert!(seen.authority.starts_with(host), "{seen:?}");
        seen.connection
    };
    let (site, other) = (ask("site.test", "/1"), ask("other.test", "/2"));
    assert_ne!(site, other);
    assert_eq!((ask("site.test", "/3"), ask("other.test", "/4")), (site, other));
}

#[test]
fn clients_share_no_http2_connection() {
    use base64::Engine as _;
    let gate = CrawlgateProcess::with(|setup| setup.tables(&(entry("a", "") + &entry("b", ""))));
    let origin = Http2Origin::start();
    let ask = |name: &str, path: &str| {
        let pair = format!("{name}:{}", crate::clients::PASSWORD);
        let pair = base64::engine::general_purpose::STANDARD.encode(pair);
        let login = format!("Proxy-Authorization: Basic {pair}\r\n");
        let authority = origin.authority();
        let mut wire = gate.connect();
        wire.exchange(format!(
            "CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\nUser-Agent: TestBot/1.0\r\n{login}\r\n"
        )).is(200);
        let mut wire = wire.tls("site.test", &gate.ca_pem());
        wire.get_inside(&authority, path).is_origins(200, &format!("page {path}"));
        origin.last(path).connection
    };
    let (a, b) = (ask("a", "/a"), ask("b", "/b"));
    assert_ne!(a, b);
    assert_eq!((ask("a", "/a2"), ask("b", "/b2")), (a, b));
}
