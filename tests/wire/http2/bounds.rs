//! Bounds on what a crawler may have under way, reset, leave open or not take.

use h2::Reason;

use super::{inside, limited};
use crate::support::http2::get;
use crate::support::http2_frames::{End, Frames, block, frame, get_fields, kind};
use crate::support::{CrawlgateProcess, Latch, Origin, Reply};

#[test]
fn a_slow_reader_holds_the_origin_back_and_is_cut() {
    let gate = limited(&[("body_timeout", "\"1s\"")]);
    let head = "HTTP/1.1 200 OK\r\nContent-Length: 67108864\r\n\r\n";
    let origin = Origin::https().on("/big", [Reply::raw(head).repeat(vec![b'x'; 65_536], 1024)]);
    let mut http2 = inside(&gate, &origin);
    let pending = http2.begin(get(&origin.url("/big")), true).unwrap();
    let (_, mut body) = http2.head(pending).unwrap().into_parts();
    // The window is never enlarged.
    let error = http2.run(async {
        loop {
            match body.data().await {
                Some(Ok(_)) => {}
                Some(Err(error)) => return error,
                None => panic!("a whole body"),
            }
        }
    });
    assert_eq!(error.reason(), Some(Reason::ENHANCE_YOUR_CALM), "{error}");
    drop(body);
    has!(gate.record_of(&origin.url("/big")), {"error": "client_stalled"});
    assert!(origin.sent() < 32 << 20, "{}", origin.sent());
    http2.passes(&origin.url("/page"));
}

#[test]
fn streams_beyond_the_limit_are_refused() {
    let (gate, latch) = (limited(&[("http2_streams", "2")]), Latch::new());
    let origin = Origin::https().holds("/held", &latch);
    let authority = origin.authority();
    let mut frames = gate.intercept_frames(&authority, "site.test");
    let fields = get_fields(&authority, "/held");
    frames.request(1, &fields).request(3, &fields);
    latch.arrivals(2);
    assert_eq!(frames.request(5, &fields).end(5), End::Reset(7), "REFUSED_STREAM");
    latch.open();
    assert_eq!(frames.end(3), End::Answered);
}

/// Returns a value of the gate's first SETTINGS (RFC 9113 6.5.1).
fn announced(frames: &mut Frames, setting: u16) -> Option<u32> {
    loop {
        let (kind, _, payload) = frames.frame().expect("SETTINGS");
        if kind == kind::SETTINGS {
            let mut settings = payload.chunks_exact(6);
            let found = settings.find(|one| one[..2] == setting.to_be_bytes());
            return found.map(|one| u32::from_be_bytes(one[2..].try_into().unwrap()));
        }
    }
}

#[test]
fn a_connection_has_the_bounds_of_the_last_reload() {
    let (mut gate, origin) = (CrawlgateProcess::start(), Origin::https());
    for (streams, window, octets) in [(3, "\"64KiB\"", 65_536), (7, "\"1MiB\"", 1_048_576)] {
        gate.reload(|setup| {
            setup.set("limits", "http2_streams", &streams.to_string());
            setup.set("limits", "http2_window", window);
        });
        for (setting, value) in [(3, streams), (4, octets)] {
            let mut frames = gate.intercept_frames(&origin.authority(), "site.test");
            assert_eq!(announced(&mut frames, setting), Some(value), "{setting}");
        }
    }
}

#[test]
fn resets_beyond_the_limit_end_the_connection() {
    let (gate, latch) = (limited(&[("http2_resets", "10")]), Latch::new());
    let origin = Origin::https().holds("/held", &latch);
    let authority = origin.authority();
    let mut frames = gate.intercept_frames(&authority, "site.test");
    let fields = get_fields(&authority, "/held");
    for number in 0..60 {
        let stream = 2 * number + 1;
        frames.request(stream, &fields).send(kind::RST_STREAM, 0, stream, &8_u32.to_be_bytes());
    }
    let end = frames.end(10_001);
    assert!(matches!(end, End::GoAway(11) | End::Closed), "ENHANCE_YOUR_CALM: {end:?}");
    latch.open();
    gate.passes(&origin.url("/page"));
}

#[test]
fn resets_within_the_limit_leave_the_connection_open_even_all_at_once() {
    let (gate, origin) = (CrawlgateProcess::start(), Origin::https());
    let authority = origin.authority();
    let mut frames = gate.intercept_frames(&authority, "site.test");
    let fields = get_fields(&authority, "/page");
    let mut octets = Vec::new();
    for number in 0..90 {
        let stream = 2 * number + 1;
        octets.extend(frame(kind::HEADERS, 5, stream, &block(&fields)));
        octets.extend(frame(kind::RST_STREAM, 0, stream, &8_u32.to_be_bytes()));
    }
    frames.octets(octets);
    assert_eq!(frames.request(201, &fields).end(201), End::Answered);
}

#[test]
fn malformed_requests_beyond_the_limit_end_the_connection() {
    let (gate, origin) = (limited(&[("http2_resets", "10")]), Origin::https());
    let authority = origin.authority();
    let mut frames = gate.intercept_frames(&authority, "site.test");
    let good = get_fields(&authority, "/page");
    let malformed = [&good[..], &[("connection", "close")]].concat();
    for number in 0..10 {
        let stream = 2 * number + 1;
        assert_eq!(frames.request(stream, &malformed).end(stream), End::Reset(1));
    }
    assert_eq!(frames.request(101, &good).end(101), End::Answered);
    assert_eq!(frames.request(103, &malformed).end(103), End::GoAway(11));
    assert_eq!(origin.seen_but_robots(), ["GET /page"]);
}

#[test]
fn a_head_without_end_is_bounded() {
    let (gate, origin) = (CrawlgateProcess::start(), Origin::https());
    let authority = origin.authority();
    let mut frames = gate.intercept_frames(&authority, "site.test");
    let many: Vec<_> = (0..100).map(|_| ("x-filler", "0123456789abcdef0123456789abcdef")).collect();
    let filler = block(&many);
    frames.send(kind::HEADERS, 1, 1, &filler);
    for _ in 0..400 {
        frames.send(kind::CONTINUATION, 0, 1, &filler);
    }
    let end = frames.end(1);
    assert!(matches!(end, End::GoAway(_) | End::Closed), "{end:?}");
    assert_eq!(origin.seen_but_robots(), [""; 0]);
}
