//! HTTP/2 to origins: answers that break off or break the protocol, and exchanges that one side ends early.
//! Page: `docs/messages.md`.

use bytes::Bytes;

use crate::support::frame_origin::{
    self, END_HEADERS, END_STREAM, FrameOrigin, data, frame, head, kind,
};
use crate::support::http2_origin::Http2Origin;
use crate::support::{CrawlgateProcess, Latch, eventually, http2};

/// HTTP/2 error codes (RFC 9113 7).
const NO_ERROR: u32 = 0;
const INTERNAL_ERROR: u32 = 2;
const CANCEL: u32 = 8;

#[test]
fn a_body_that_the_origin_resets_is_never_whole() {
    for code in [NO_ERROR, INTERNAL_ERROR, CANCEL] {
        for length in [None, Some("9")] {
            let case = format!("{code}, {length:?}");
            let gate = CrawlgateProcess::start();
            let origin = FrameOrigin::start(move |connection, stream| match (connection, stream) {
                (1, 3 | 5) => {
                    let mut fields = vec![(":status", "200")];
                    fields.extend(length.map(|length| ("content-length", length)));
                    vec![
                        head(stream, &fields, false),
                        data(stream, "half", false),
                        frame_origin::reset(stream, code),
                    ]
                }
                _ => frame_origin::page(stream, "page"),
            });
            let answer = gate.get(&origin.url("/half"));
            assert_eq!(answer.status, 200, "{case}: {answer:?}");
            assert!(!answer.whole, "{case}: {answer:?}");
            let record = gate.record_of(&origin.url("/half"));
            has!(record, {"error": "http_response_incomplete"}, "{case}");
            // To a crawler that speaks HTTP/2, too, the reset says that something is missing.
            let mut crawler = gate.intercept_http2(&origin.authority(), "site.test");
            let pending = crawler.begin(http2::get(&origin.url("/half")), true).unwrap();
            let mut body = crawler.head(pending).unwrap().into_body();
            let error = crawler.run(async {
                loop {
                    match body.data().await {
                        Some(Ok(_)) => {}
                        Some(Err(error)) => return error,
                        None => panic!("{case}: it is whole"),
                    }
                }
            });
            assert_eq!(error.reason(), Some(h2::Reason::INTERNAL_ERROR), "{case}");
            // The connection serves others.
            gate.get(&origin.url("/next")).is_origins(200, "page");
            assert_eq!(origin.pages(), [(1, 3), (1, 5), (1, 7)], "{case}");
        }
    }
}

#[test]
fn a_response_that_breaks_the_protocol_is_none() {
    type Frames = fn(u32) -> Vec<Vec<u8>>;
    const OK: (&str, &str) = (":status", "200");
    let cases: [(&str, Frames); 7] = [
        ("a connection field", |id| vec![head(id, &[OK, ("connection", "close")], true)]),
        ("a transfer coding", |id| vec![head(id, &[OK, ("transfer-encoding", "chunked")], true)]),
        ("a keep-alive", |id| vec![head(id, &[OK, ("keep-alive", "timeout=5")], true)]),
        ("an upgrade", |id| vec![head(id, &[OK, ("upgrade", "h2c")], true)]),
        ("an upper-case name", |id| vec![head(id, &[OK, ("X-Upper", "1")], true)]),
        ("no status", |id| vec![head(id, &[("x-one", "1")], true)]),
        ("a length without a body", |id| vec![head(id, &[OK, ("content-length", "4")], true)]),
    ];
    for (case, frames) in cases {
        let gate = CrawlgateProcess::start();
        let origin = FrameOrigin::start(move |_, stream| frames(stream));
        let answer = gate.get(&origin.url("/page"));
        assert_eq!(answer.status, 502, "{case}: {answer:?}");
        has!(gate.record_of(&origin.url("/page")), {"error": "http_protocol_error"}, "{case}");
        assert_eq!(origin.pages().len(), 1, "{case}: it is not sent again");
    }
}

#[test]
fn a_length_that_is_not_that_of_the_body_breaks_the_answer_off() {
    for (case, length, parts) in
        [("too short", "9", &["half"][..]), ("too long", "4", &["half", "other half"][..])]
    {
        let gate = CrawlgateProcess::start();
        let origin = FrameOrigin::start(move |_, stream| {
            let fields = [(":status", "200"), ("content-length", length)];
            let mut frames = vec![head(stream, &fields, false)];
            for (at, part) in parts.iter().enumerate() {
                frames.push(data(stream, part, at + 1 == parts.len()));
            }
            frames
        });
        let answer = gate.get(&origin.url("/page"));
        let is_broken = answer.status == 502 || !answer.whole;
        // What is too long may follow a whole answer.
        assert!(is_broken || (case == "too long" && answer.text() == "half"), "{case}: {answer:?}");
        let record = gate.record_of(&origin.url("/page"));
        if is_broken {
            assert!(record["error"].is_string(), "{case}: {record}");
        }
    }
}

#[test]
fn frames_that_no_response_has_make_no_whole_response() {
    type Frames = fn(u32) -> Vec<Vec<u8>>;
    const OK: (&str, &str) = (":status", "200");
    let cases: [(&str, Frames); 7] = [
        ("two heads and a body", |id| {
            let mut frames = vec![head(id, &[OK], false)];
            frames.extend(frame_origin::page(id, "page"));
            frames
        }),
        ("trailers that do not end the stream", |id| {
            vec![
                head(id, &[OK], false),
                data(id, "page", false),
                head(id, &[("x-sum", "7")], false),
            ]
        }),
        ("a switch of protocols", |id| {
            let mut frames = vec![head(id, &[(":status", "101")], false)];
            frames.extend(frame_origin::page(id, "page"));
            frames
        }),
        ("a switch of protocols that ends", |id| vec![head(id, &[(":status", "101")], true)]),
        ("an interim response that ends", |id| vec![head(id, &[(":status", "103")], true)]),
        ("a body without a head", |id| vec![data(id, "page", true)]),
        ("a promise", |id| {
            let promise = [&2_u32.to_be_bytes()[..], &[0x82, 0x87, 0x84, 0x01, 1, b'a']].concat();
            let mut frames = vec![frame(kind::PUSH_PROMISE, END_HEADERS, id, &promise)];
            frames.extend(frame_origin::page(id, "page"));
            frames
        }),
    ];
    for (case, frames) in cases {
        let gate = CrawlgateProcess::start();
        let origin = FrameOrigin::start(move |connection, stream| match (connection, stream) {
            (1, 3) => frames(stream),
            _ => frame_origin::page(stream, "next"),
        });
        let answer = gate.get(&origin.url("/page"));
        // The head of a response may be on its way when the fault arrives.
        assert!(
            answer.status == 502 || (answer.status == 200 && !answer.whole),
            "{case}: {answer:?}"
        );
        let record = gate.record_of(&origin.url("/page"));
        let errors = ["http_protocol_error", "http_response_incomplete", "connection_terminated"];
        assert!(errors.iter().any(|error| record["error"] == *error), "{case}: {record}");
        assert_eq!(origin.pages().len(), 1, "{case}: it is not sent again");
        gate.get(&origin.url("/next")).is_origins(200, "next");
    }
}

#[test]
fn a_second_head_at_the_end_counts_as_trailers() {
    // The frame layer drops pseudo-fields there. All that the origin sent arrives, with its first status.
    for body in ["", "page"] {
        let gate = CrawlgateProcess::start();
        let origin = FrameOrigin::start(move |_, stream| {
            vec![
                head(stream, &[(":status", "200")], false),
                data(stream, body, false),
                head(stream, &[(":status", "500"), ("content-length", "9")], true),
            ]
        });
        gate.get(&origin.url("/page")).is_origins(200, body);
        has!(gate.record_of(&origin.url("/page")), {"status": 200});
    }
}

/// Splits a field section into frames that end their stream.
fn trailers(stream: u32, block: &[u8]) -> Vec<Vec<u8>> {
    let mut parts = block.chunks(60_000).peekable();
    let mut frames = Vec::new();
    let mut of = (kind::HEADERS, END_STREAM);
    while let Some(part) = parts.next() {
        let last = if parts.peek().is_none() { END_HEADERS } else { 0 };
        frames.push(frame(of.0, of.1 | last, stream, part));
        of = (kind::CONTINUATION, 0);
    }
    frames
}

#[test]
fn trailers_that_are_too_long_make_no_whole_response() {
    // Fields of 100 octets that stand for themselves, and one of 800,000 (RFC 7541 5.1 and 6.2.2).
    let short = |count: usize| [&[0, 1, b'x', 97][..], &[b'y'; 97]].concat().repeat(count);
    let mut long = vec![0, 1, b'x', 0x7f];
    let mut rest = 800_000 - 127;
    while rest >= 128 {
        long.push(u8::try_from(rest % 128).unwrap() | 0x80);
        rest /= 128;
    }
    long.push(u8::try_from(rest).unwrap());
    long.extend(vec![b'y'; 800_000]);
    for (case, block, is_whole) in [
        ("many", short(1_500), true),
        ("too many", short(2_500), false),
        ("far too many", short(7_000), false),
        ("one", long, false),
    ] {
        let gate = CrawlgateProcess::start();
        let origin = FrameOrigin::start(move |connection, stream| match (connection, stream) {
            (1, 3) => {
                let mut frames =
                    vec![head(stream, &[(":status", "200")], false), data(stream, "page", false)];
                frames.extend(trailers(stream, &block));
                frames
            }
            _ => frame_origin::page(stream, "next"),
        });
        let answer = gate.get(&origin.url("/page"));
        assert_eq!((answer.status, answer.whole), (200, is_whole), "{case}: {answer:?}");
        let record = gate.record_of(&origin.url("/page"));
        let error = (!is_whole).then_some("http_response_incomplete");
        assert_eq!(record["error"].as_str(), error, "{case}: {record}");
        assert_eq!(origin.pages().len(), 1, "{case}: it is not sent again");
        gate.get(&origin.url("/next")).is_origins(200, "next");
    }
}

#[test]
fn a_connection_that_is_lost_breaks_its_answers_off() {
    let gate = CrawlgateProcess::start();
    let origin = FrameOrigin::start(|connection, stream| match (connection, stream) {
        (1, _) => vec![
            head(stream, &[(":status", "200")], false),
            data(stream, "half", false),
            // Not the preface's continuation: a frame of a reserved stream that ends the connection.
            frame_origin::go_away(0, INTERNAL_ERROR),
            data(0, "nonsense", false),
        ],
        _ => frame_origin::page(stream, "page"),
    });
    let answer = gate.get(&origin.url("/half"));
    assert!(answer.status == 502 || !answer.whole, "{answer:?}");
    assert!(gate.record_of(&origin.url("/half"))["error"].is_string());
    gate.get(&origin.url("/next")).is_origins(200, "page");
}

#[test]
fn interim_responses_without_end_are_no_answer() {
    let gate = CrawlgateProcess::start();
    let origin = FrameOrigin::start(|_, stream| {
        let mut frames = vec![head(stream, &[(":status", "103")], false); 65];
        frames.extend(frame_origin::page(stream, "page"));
        frames
    });
    gate.answers(&origin.url("/page"), 502);
    has!(gate.record_of(&origin.url("/page")), {"error": "http_protocol_error"});
}

#[test]
fn an_early_answer_ends_the_upload() {
    let gate = CrawlgateProcess::start();
    let origin = Http2Origin::start().on("/form", |mut stream| async move {
        // Dropped with a part of the body unread, the stream is reset with NO_ERROR.
        drop(stream.send(413, &[]).send_all(Bytes::from("too much")).await);
    });
    let mut wire = gate.sends("POST", &origin.url("/form"), "Content-Length: 1000000\r\n\r\nbegin");
    let answer = wire.response("POST");
    answer.is_origins(413, "too much");
    has!(gate.record_of(&origin.url("/form")), {"status": 413});
    gate.passes(&origin.url("/next"));
    assert_eq!(origin.connections(), 1, "the connection serves others");
}

#[test]
fn a_crawler_that_leaves_resets_its_stream() {
    let (gate, latch) = (CrawlgateProcess::start(), Latch::new());
    let passed = latch.clone();
    let origin = Http2Origin::start()
        .on("/silent", |mut stream| async move {
            let reset = std::future::poll_fn(|cx| stream.respond.poll_reset(cx)).await;
            stream.enter(|seen| seen.reset = reset.ok().map(u32::from));
        })
        .on("/half", move |mut stream| {
            let passed = passed.clone();
            async move {
                let mut sending = stream.send(200, &[]);
                sending.send(Bytes::from("half")).await;
                passed.open();
                stream.wait_reset(&mut sending).await;
            }
        });
    let wire = gate.sends("GET", &origin.url("/silent"), "\r\n");
    origin.wait_pages(1);
    drop(wire);
    let mut wire = gate.sends("GET", &origin.url("/half"), "\r\n");
    assert_eq!(wire.response_head().status, 200);
    latch.pass();
    drop(wire);
    for path in ["/silent", "/half"] {
        let code = eventually("the reset", || origin.last(path).reset);
        assert_eq!(code, CANCEL, "{path}");
        has!(gate.record_of(&origin.url(path)), {"error": "client_closed"}, "{path}");
    }
    gate.passes(&origin.url("/page"));
    assert_eq!(origin.connections(), 1);
}
