//! Origins with broken HTTP/2 and sound HTTP/1.1: they are asked by HTTP/1.1 where that is safe, and from then on.
//! Page: `docs/messages.md`.

use crate::support::frame_origin::{self, FrameOrigin};
use crate::support::http2_origin::Http2Origin;
use crate::support::{CrawlgateProcess, Latch};

const BY_HTTP1: &str = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\none";
const INTERNAL_ERROR: u32 = 2;
const PROTOCOL_ERROR: u32 = 1;

type Frames = Vec<Vec<u8>>;

/// Returns an answer with this field, which no response by HTTP/2 has.
fn with_field(stream: u32, name: &str, value: &str) -> Frames {
    let fields = [(":status", "200"), (name, value)];
    vec![frame_origin::head(stream, &fields, false), frame_origin::data(stream, "page", true)]
}

#[test]
fn a_page_that_comes_broken_by_http2_is_asked_for_by_http1() {
    let length = |stream| {
        let fields = [(":status", "200"), ("content-length", "5")];
        vec![frame_origin::head(stream, &fields, true)]
    };
    type Case<'a> = (&'a str, fn(u32) -> Frames);
    let cases: [Case<'_>; 4] = [
        ("Connection", |stream| with_field(stream, "connection", "keep-alive")),
        ("Upgrade", |stream| with_field(stream, "upgrade", "h2,h2c")),
        ("Transfer-Encoding", |stream| with_field(stream, "transfer-encoding", "chunked")),
        ("a wrong length", length),
    ];
    for (name, broken) in cases {
        let gate = CrawlgateProcess::start();
        let script = move |_, stream| broken(stream);
        let origin = FrameOrigin::with_http1(script, BY_HTTP1);
        gate.get(&origin.url("/page")).is_origins(200, "one");
        assert_eq!(origin.pages(), [(1, 3)], "{name}");
        assert_eq!(origin.by_http1(), ["/page"], "{name}");
        has!(gate.record_of(&origin.url("/page")), {"upstream_version": "1.1"}, "{name}");
        gate.get(&origin.url("/next")).is_origins(200, "one");
        assert_eq!(origin.by_http1(), ["/page", "/next"], "{name}");
        assert_eq!(origin.pages().len(), 1, "{name}: it is remembered");
    }
}

#[test]
fn an_origin_that_resets_its_first_exchange_is_asked_by_http1() {
    for code in [INTERNAL_ERROR, PROTOCOL_ERROR] {
        for goes_away in [false, true] {
            let gate = CrawlgateProcess::start();
            let script = move |_, stream| match goes_away {
                true => vec![frame_origin::go_away(0, code)],
                false => vec![frame_origin::reset(stream, code)],
            };
            let origin = FrameOrigin::with(script, Some(BY_HTTP1));
            gate.get(&origin.url("/page")).is_origins(200, "one");
            assert_eq!(origin.by_http1(), ["/robots.txt", "/page"], "{code}");
            assert_eq!(origin.pages(), [], "{code}: robots.txt alone went by HTTP/2");
        }
    }
}

#[test]
fn a_robots_txt_with_a_wrong_length_is_fetched_by_http1() {
    let gate = CrawlgateProcess::start();
    let rules = "HTTP/1.1 200 OK\r\nContent-Length: 33\r\n\r\nUser-agent: *\nDisallow: /private\n";
    let script = |_, stream| {
        let fields = [(":status", "200"), ("content-length", "3")];
        vec![
            frame_origin::head(stream, &fields, false),
            frame_origin::data(stream, "User-agent: *\n", true),
        ]
    };
    let origin = FrameOrigin::with(script, Some(rules));
    gate.denies(&origin.url("/private"));
    assert_eq!(origin.by_http1(), ["/robots.txt"]);
    assert_eq!(gate.get(&origin.url("/page")).status, 200);
}

#[test]
fn a_page_with_a_wrong_length_breaks_off_and_the_next_one_comes_by_http1() {
    let gate = CrawlgateProcess::start();
    let script = |_, stream| {
        let fields = [(":status", "200"), ("content-length", "3")];
        vec![
            frame_origin::head(stream, &fields, false),
            frame_origin::data(stream, "more than three", true),
        ]
    };
    let origin = FrameOrigin::with_http1(script, BY_HTTP1);
    let broken = gate.get(&origin.url("/page"));
    assert!(!broken.whole, "its head has gone to the crawler: {broken:?}");
    gate.record_of(&origin.url("/page"));
    gate.get(&origin.url("/next")).is_origins(200, "one");
    assert_eq!(origin.by_http1(), ["/next"]);
}

#[test]
fn a_request_that_may_have_been_processed_by_broken_http2_is_not_sent_again() {
    let gate = CrawlgateProcess::start();
    let script = |_, stream| with_field(stream, "connection", "close");
    let origin = FrameOrigin::with_http1(script, BY_HTTP1);
    let answer = gate.request("DELETE", &origin.url("/page"), "").is(502);
    let detail = answer.problem()["detail"].to_string();
    says!(detail, "not valid HTTP/2");
    assert_eq!(origin.by_http1(), [""; 0]);
    gate.get(&origin.url("/next")).is_origins(200, "one");
}

#[test]
fn broken_http2_is_told_where_there_is_no_http1() {
    let gate = CrawlgateProcess::start();
    let origin = FrameOrigin::start(|_, stream| with_field(stream, "connection", "close"));
    let answer = gate.get(&origin.url("/page")).is(502);
    let detail = answer.problem()["detail"].to_string();
    says!(detail, "not valid HTTP/2");
    has!(gate.record_of(&origin.url("/page")), {"error": "http_protocol_error"});
}

#[test]
fn what_is_forbidden_while_its_answer_comes_broken_is_not_asked_for_by_http1() {
    let (mut gate, latch) = (CrawlgateProcess::start(), Latch::new());
    let held = latch.clone();
    let script = move |_, stream| {
        held.pass();
        with_field(stream, "connection", "close")
    };
    let origin = FrameOrigin::with_http1(script, BY_HTTP1);
    let mut wire = gate.sends("GET", &origin.url("/page"), "\r\n");
    origin.frame("the page's request", |frame| frame.stream == 3);
    gate.reload(|setup| setup.asserts(&origin.url(""), "deny"));
    latch.open();
    wire.response("GET").is(502);
    assert_eq!(origin.by_http1(), [""; 0]);
    // The origin has seen it: the record is that of the request which has left.
    has!(gate.record_of(&origin.url("/page")), {"verdict": "allow"});
}

#[test]
fn a_host_that_is_named_so_is_asked_by_http1_alone() {
    let gate =
        CrawlgateProcess::with(|setup| setup.set("upstream", "http1_hosts", "[\"site.test\"]"));
    let origin = Http2Origin::start().http1(BY_HTTP1);
    gate.get(&origin.url("/page")).is_origins(200, "one");
    let versions: Vec<_> = origin.seen().iter().map(|seen| seen.version).collect();
    assert_eq!(versions, ["1.1", "1.1"], "robots.txt and the page");
}
