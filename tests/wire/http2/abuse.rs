//! Frames that cost a crawler nothing: each kind has its bound.

use super::{inside, limited};
use crate::support::http2::get;
use crate::support::http2_frames::{End, Frames, block, flag, get_fields, kind};
use crate::support::{CrawlgateProcess, Latch, Origin, RULES, Reply};

/// The memory that a gate may use for one attack.
const ROOM: u64 = 32 << 20;

#[test]
fn frames_that_are_no_part_of_a_request_are_bounded() {
    let gate = limited(&[("http2_control_frames", "100")]);
    let origin = Origin::https().on("/up", [Reply::ok("up").read_body()]);
    let authority = origin.authority();
    let mut upload = get_fields(&authority, "/up");
    upload[0].1 = "POST";
    type Frame = (u8, u8, u32, &'static [u8]);
    #[rustfmt::skip] // one row, one case
    let cases: [(&str, Frame); 6] = [
        ("PING", (kind::PING, 0, 0, &[0; 8])),
        ("SETTINGS", (kind::SETTINGS, 0, 0, &[])),
        ("PRIORITY", (kind::PRIORITY, 0, 3, &[0, 0, 0, 0, 9])),
        ("an unknown frame", (99, 0, 0, &[0; 100])),
        ("empty DATA", (kind::DATA, 0, 1, &[])),
        ("WINDOW_UPDATE without an answer", (kind::WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1])),
    ];
    for (case, (kind, flags, stream, payload)) in cases {
        let mut frames = gate.intercept_frames(&authority, "site.test");
        frames.head(1, flag::END_HEADERS, &block(&upload));
        for _ in 0..90 {
            frames.send(kind, flags, stream, payload);
        }
        let page = get_fields(&authority, "/page");
        assert_eq!(frames.request(3, &page).end(3), End::Answered, "{case}");
        for _ in 0..200 {
            frames.send(kind, flags, stream, payload);
        }
        // A connection that is closed with octets unread may lose its GOAWAY.
        let end = frames.end(5);
        assert!(matches!(end, End::GoAway(11) | End::Closed), "{case}: {end:?}");
    }
    gate.passes(&origin.url("/page"));
}

#[test]
fn a_head_is_whole_in_time_or_ends_its_connection() {
    let gate = limited(&[("header_timeout", "\"3s\""), ("idle_timeout", "\"10m\"")]);
    let latch = Latch::new();
    let held = Reply::silent().wait(&latch).send("HTTP/1.1 204 No\r\n\r\n");
    let origin = Origin::https().robots(RULES).on("/held", [held]);
    let authority = origin.authority();
    let head = block(&get_fields(&authority, "/page"));
    type Case<'a> = (&'a str, &'a dyn Fn(&mut Frames));
    let cases: [Case<'_>; 3] = [
        ("a head without END_HEADERS", &|frames| {
            frames.send(kind::HEADERS, flag::END_STREAM, 1, &head);
        }),
        ("a part of a frame", &|frames| {
            frames.part(kind::HEADERS, 5, 1, head.len() + 1, &head);
        }),
        ("a head while another stream waits", &|frames| {
            frames.request(1, &get_fields(&authority, "/held"));
            latch.arrivals(1);
            frames.send(kind::HEADERS, flag::END_STREAM, 3, &head);
            frames.send(kind::CONTINUATION, 0, 3, &[]);
        }),
    ];
    for (case, send) in cases {
        let mut frames = gate.intercept_frames(&authority, "site.test");
        send(&mut frames);
        assert_eq!(frames.end(1), End::GoAway(11), "{case}: ENHANCE_YOUR_CALM");
        while frames.frame().is_some() {}
    }
    assert_eq!(origin.seen_but_robots(), ["GET /held"]);
    latch.open();
}

#[test]
fn a_compressed_head_grows_to_its_bound_and_no_further() {
    let (gate, origin) = (CrawlgateProcess::start(), Origin::https().robots(RULES));
    let authority = origin.authority();
    // A field of 3,900 octets that is named again and again by one octet (RFC 7541 6.1).
    let bomb = |times: usize| {
        let mut block = block(&get_fields(&authority, "/page"));
        block.extend([0x40, 1, b'x', 0x7f, 0xbd, 0x1d]);
        block.extend([b'y'; 3900]);
        block.extend(vec![0xbe; times]);
        block
    };
    let before = gate.resident();
    for (case, times, expected) in [
        ("within the bound", 10, Some(200)),
        ("beyond it", 20, Some(431)),
        ("far beyond it", 60_000, None),
    ] {
        let mut frames = gate.intercept_frames(&authority, "site.test");
        let flags = flag::END_HEADERS | flag::END_STREAM;
        let found = frames.head(1, flags, &bomb(times)).answer(1);
        match (found, expected) {
            (Ok((status, _)), expected) => assert_eq!(Some(status), expected, "{case}"),
            // ENHANCE_YOUR_CALM; a close with unread octets may overtake it.
            (Err(End::GoAway(11) | End::Closed), None) => {}
            (Err(end), _) => panic!("{case}: {end:?}"),
        }
    }
    let grown = gate.resident().saturating_sub(before);
    assert!(grown < ROOM, "memory grew by {grown} octets");
    has!(gate.wait_records(2), {"1.status": 431});
    assert_eq!(origin.seen_but_robots(), ["GET /page"]);
}

#[test]
fn windows_that_stay_shut_hold_bounded_memory() {
    let gate = limited(&[("http2_streams", "100")]);
    let head = "HTTP/1.1 200 OK\r\nContent-Length: 67108864\r\n\r\n";
    let big = Reply::raw(head).repeat(vec![b'x'; 65_536], 1024);
    let origin = Origin::https().on("/big", vec![big; 100]);
    let authority = origin.authority();
    let big = get_fields(&authority, "/big");
    let mut frames = gate.intercept_frames(&authority, "site.test");
    frames.request(1, &get_fields(&authority, "/page"));
    assert_eq!(frames.end(1), End::Answered);
    let before = gate.resident();
    for number in 1..=100 {
        frames.request(2 * number + 1, &big);
    }
    // The connection's window lets 65,535 octets of all streams through.
    let mut octets = 0;
    while octets < 65_000 {
        let (kind, _, payload) = frames.frame().expect("a part of an answer");
        octets += if kind == kind::DATA { payload.len() } else { 0 };
    }
    // Nothing more comes from the origins.
    let mut sent = origin.sent();
    crate::support::eventually("the origins to stop", || {
        std::thread::sleep(std::time::Duration::from_millis(300));
        (std::mem::replace(&mut sent, origin.sent()) == origin.sent()).then_some(())
    });
    let grown = gate.resident().saturating_sub(before);
    assert!(grown < 100 * (512 << 10), "memory grew by {grown} octets");
}

#[test]
fn windows_that_grow_by_an_octet_are_served_and_pass_no_octet_twice() {
    let gate = CrawlgateProcess::start();
    let text: String = (0..400).map(|number| format!("{number} ")).collect();
    let origin = Origin::https().on("/text", [Reply::ok(&text)]);
    let authority = origin.authority();
    let mut frames = gate.intercept_frames(&authority, "site.test");
    // SETTINGS_INITIAL_WINDOW_SIZE of none.
    frames.send(kind::SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0]);
    frames.request(1, &get_fields(&authority, "/text"));
    assert_eq!(frames.end(1), End::Answered);
    for _ in 0..text.len() {
        frames.send(kind::WINDOW_UPDATE, 0, 1, &1_u32.to_be_bytes());
    }
    let mut body = Vec::new();
    while body.len() < text.len() {
        let (kind, _, payload) = frames.frame().expect("a part of the answer");
        if kind == kind::DATA {
            body.extend(payload);
        }
    }
    assert_eq!(String::from_utf8(body).unwrap(), text);
}

#[test]
fn an_upload_that_is_never_sent_is_given_up() {
    let gate = limited(&[("body_timeout", "\"1s\"")]);
    let origin = Origin::https().on("/up", [Reply::ok("up")]);
    let authority = origin.authority();
    let mut upload = get_fields(&authority, "/up");
    upload[0].1 = "POST";
    let mut frames = gate.intercept_frames(&authority, "site.test");
    frames.head(1, flag::END_HEADERS, &block(&upload));
    let (status, _) = frames.answer(1).unwrap();
    assert_eq!(status, 408);
    has!(gate.record_of(&origin.url("/up")), {"status": 408});
    let mut http2 = inside(&gate, &origin);
    http2.exchange(get(&origin.url("/page"))).is_origins(200, "page /page");
}

#[test]
fn a_denied_request_that_is_reset_is_recorded_once() {
    let gate = CrawlgateProcess::with(|setup| setup.set("audit", "durability", "\"strict\""));
    let origin = Origin::https().robots(RULES);
    let authority = origin.authority();
    let private = get_fields(&authority, "/private");
    let mut frames = gate.intercept_frames(&authority, "site.test");
    // From here on, the robots.txt is known.
    assert_eq!(frames.request(1, &private).answer(1).unwrap().0, 403);
    let streams = 40;
    for number in 1..=streams {
        let stream = 2 * number + 1;
        frames.request(stream, &private);
        // Its answer means that the stream has come; the one to the request waits for the disk.
        frames.send(kind::PING, 0, 0, &[7; 8]);
        while frames.frame().expect("a connection").0 != kind::PING {}
        frames.send(kind::RST_STREAM, 0, stream, &8_u32.to_be_bytes());
    }
    gate.wait_records(1 + streams as usize);
    gate.denies(&origin.url("/private"));
    let records = gate.records();
    assert_eq!(records.len(), 2 + streams as usize);
    for record in records {
        assert_eq!(record["reason"], "robots_disallow", "{record}");
    }
    assert_eq!(origin.seen_but_robots(), [""; 0]);
}

#[test]
fn denied_requests_that_are_reset_at_once_end_their_connection() {
    let gate = limited(&[("http2_resets", "10")]);
    let origin = Origin::https().robots(RULES);
    let authority = origin.authority();
    let private = get_fields(&authority, "/private");
    let mut frames = gate.intercept_frames(&authority, "site.test");
    for number in 0..200 {
        let stream = 2 * number + 1;
        frames.request(stream, &private);
        frames.send(kind::RST_STREAM, 0, stream, &8_u32.to_be_bytes());
    }
    let mut ended = None;
    while let Some((kind, _, payload)) = frames.frame() {
        if kind == kind::GOAWAY {
            ended = Some(payload[7]);
        }
    }
    assert!(matches!(ended, Some(11) | None), "ENHANCE_YOUR_CALM: {ended:?}");
    assert_eq!(origin.seen_but_robots(), [""; 0]);
    gate.denies(&origin.url("/private"));
}
