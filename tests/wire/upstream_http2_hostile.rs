//! HTTP/2 to origins that mean harm: each costs bounded memory and time, and other requests nothing.
//! Page: `docs/threat-model.md`.

use crate::support::CrawlgateProcess;
use crate::support::frame_origin::{self, END_HEADERS, END_STREAM, FrameOrigin, frame, head, kind};
use crate::support::http2_origin::Http2Origin;

/// The memory that a gate may use for one attack.
const ROOM: u64 = 48 << 20;

/// Frames of a stream, by its number.
type Frames = fn(u32) -> Vec<Vec<u8>>;

/// A status of 200 (RFC 7541, appendix A).
const OK: u8 = 0x88;

/// A field of 100 octets that stands for itself.
fn field() -> Vec<u8> {
    let mut field = vec![0, 1, b'x', 97];
    field.extend([b'y'; 97]);
    field
}

/// A head of about 600 KiB in parts.
fn large_head(stream: u32) -> Vec<Vec<u8>> {
    let part = field().repeat(160);
    let mut frames = vec![frame(kind::HEADERS, END_STREAM, stream, &[OK])];
    frames.extend((0..40).map(|_| frame(kind::CONTINUATION, 0, stream, &part)));
    frames.push(frame(kind::CONTINUATION, END_HEADERS, stream, &[]));
    frames
}

/// A head that continues in parts, and does not end.
fn endless_head(stream: u32) -> Vec<Vec<u8>> {
    let mut frames = vec![frame(kind::HEADERS, 0, stream, &[OK])];
    frames.extend((0..100_000).map(|_| frame(kind::CONTINUATION, 0, stream, &[])));
    frames
}

/// A field of 3,900 octets that is named ten thousand times by one octet (RFC 7541 6.1).
fn compressed_head(stream: u32) -> Vec<Vec<u8>> {
    let mut block = vec![OK, 0x40, 1, b'x', 0x7f, 0xbd, 0x1d];
    block.extend([b'y'; 3900]);
    block.extend([0xbe; 10_000]);
    vec![frame(kind::HEADERS, END_HEADERS | END_STREAM, stream, &block)]
}

/// Ten thousand PINGs and SETTINGS before the head.
fn chatter(stream: u32) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    for _ in 0..10_000 {
        frames.push(frame(kind::PING, 0, 0, &[0; 8]));
        frames.push(frame(kind::SETTINGS, 0, 0, &[]));
    }
    frames.extend(frame_origin::page(stream, "page"));
    frames
}

/// Frames without an octet in the middle of a body.
fn empty_parts(stream: u32) -> Vec<Vec<u8>> {
    let mut frames = vec![head(stream, &[(":status", "200")], false)];
    frames.extend((0..100_000).map(|_| frame_origin::data(stream, "", false)));
    frames.push(frame_origin::data(stream, "page", true));
    frames
}

/// A head of 10 MB in parts.
fn huge_head(stream: u32) -> Vec<Vec<u8>> {
    let part = field().repeat(160);
    let mut frames = vec![frame(kind::HEADERS, END_STREAM, stream, &[OK])];
    frames.extend((0..640).map(|_| frame(kind::CONTINUATION, 0, stream, &part)));
    frames.push(frame(kind::CONTINUATION, END_HEADERS, stream, &[]));
    frames
}

/// Interim responses without measure.
fn hints(stream: u32) -> Vec<Vec<u8>> {
    let mut frames = vec![head(stream, &[(":status", "103"), ("link", "</a>")], false); 10_000];
    frames.extend(frame_origin::page(stream, "page"));
    frames
}

#[test]
fn frames_without_measure_cost_no_memory_and_no_other_request() {
    let cases: [(&str, Frames, Option<u16>); 7] = [
        ("a huge head", huge_head, Some(502)),
        ("interim responses", hints, Some(502)),
        ("a large head", large_head, Some(502)),
        ("a head without end", endless_head, Some(502)),
        ("a compressed head", compressed_head, Some(502)),
        ("PINGs and SETTINGS", chatter, None),
        ("empty frames", empty_parts, None),
    ];
    for (case, frames, status) in cases {
        let gate = CrawlgateProcess::start();
        let origin = FrameOrigin::start(move |connection, stream| match (connection, stream) {
            (1, 3) => frames(stream),
            _ => frame_origin::page(stream, "page"),
        });
        let before = gate.resident();
        let answer = gate.get(&origin.url("/hostile"));
        match status {
            Some(status) => assert_eq!(answer.status, status, "{case}: {answer:?}"),
            // The connection may be ended for it; the page is whole, or is not taken for whole.
            None => assert!(
                answer.status == 502 || !answer.whole || answer.text() == "page",
                "{case}: {answer:?}"
            ),
        }
        let grown = gate.resident().saturating_sub(before);
        assert!(grown < ROOM, "{case}: memory grew by {grown} octets");
        has!(gate.record_of(&origin.url("/hostile")), {"status": answer.status}, "{case}");
        gate.get(&origin.url("/next")).is_origins(200, "page");
    }
}

#[test]
fn an_origin_that_takes_no_octet_of_an_upload_is_given_up() {
    let gate = CrawlgateProcess::with(|setup| setup.set("upstream", "response_timeout", "\"3s\""));
    let origin = Http2Origin::with(&["h2"], |server| {
        server.initial_window_size(0);
    });
    let origin = origin.on("/form", |stream| async move {
        let _held = stream;
        std::future::pending::<()>().await;
    });
    let body = "Content-Length: 4\r\n\r\nbody";
    gate.sends("POST", &origin.url("/form"), body).response("POST").is(504);
    has!(gate.record_of(&origin.url("/form")), {"error": "http_response_timeout"});
    gate.passes(&origin.url("/page"));
    assert_eq!(origin.connections(), 1, "other requests go on");
}
