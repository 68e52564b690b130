//! Connections beyond a limit: each is answered, and ends in order.

use super::{TLS, inside, limited, listening};
use crate::clients::{PASSWORD, basic, entry};
use crate::support::http2::get;
use crate::support::http2_frames::{Frames, kind};
use crate::support::{CrawlgateProcess, Http2, Latch, Origin, eventually, wait_until};

/// Sends a request on a connection beyond a limit, and asserts that it is refused and that its connection ends behind
/// the answer.
#[track_caller]
fn refused_last(
    gate: &CrawlgateProcess,
    frames: &mut Frames,
    fields: &[(&str, &str)],
    status: u16,
) {
    let (found, body) = frames.request(1, fields).answer(1).unwrap();
    assert_eq!(found, status);
    let reason = match status {
        429 => "client_limit",
        _ => "overloaded",
    };
    gate.refusal(&serde_json::from_slice(&body).unwrap(), status, reason);
    // The answer came first.
    let mut goaway = None;
    while let Some((kind, _, payload)) = frames.frame() {
        match kind {
            kind::GOAWAY => goaway = Some(payload[4..8].to_vec()),
            kind::PING => drop(frames.send(kind::PING, 1, 0, &payload)),
            _ => {}
        }
    }
    assert_eq!(goaway, Some(vec![0; 4]), "NO_ERROR");
}

#[test]
fn a_connection_beyond_a_limit_ends_behind_its_answer() {
    let one_client = entry("news", "connections = 1");
    for (case, tables, key, status) in [
        ("of all", "", "connections", 503),
        ("of an address", "", "connections_per_client", 429),
        ("of a client", &*one_client, "", 429),
    ] {
        let (gate, place) = listening(&(TLS.to_owned() + tables), |setup| {
            if !key.is_empty() {
                setup.set("limits", key, "1");
            }
        });
        let latch = Latch::new();
        let origin = Origin::http().holds("/held", &latch);
        let credentials = basic("news", PASSWORD);
        let (_, credentials) = credentials.trim_end().split_once(": ").unwrap();
        let mut http2 = Http2::to(place, "127.0.0.1", &gate.ca_pem());
        let mut request = get(&origin.url("/held"));
        let fields = request.headers_mut();
        fields.insert("proxy-authorization", credentials.parse().unwrap());
        let pending = http2.begin(request, true).unwrap();
        latch.arrivals(1);

        let authority = origin.authority();
        let fields = [
            (":method", "GET"),
            (":scheme", "http"),
            (":authority", &*authority),
            (":path", "/open"),
            ("proxy-authorization", credentials),
        ];
        let mut frames = gate.frames_to(place, "127.0.0.1");
        refused_last(&gate, &mut frames, &fields, status);
        latch.open();
        assert_eq!(http2.answer(pending).unwrap().status, 204, "{case}");
        assert_eq!(origin.seen_but_robots(), ["GET /held"], "{case}");
        // The slot is free for the next connection.
        drop(http2);
        eventually("the slot", || {
            let mut frames = gate.frames_to(place, "127.0.0.1");
            let answer = frames.request(1, &fields).answer(1);
            (answer.unwrap().0 == 200).then_some(())
        });
    }
}

#[test]
fn a_stream_in_progress_counts_as_a_request() {
    for (key, status, reason) in
        [("requests", 503, "overloaded"), ("requests_per_client", 429, "client_limit")]
    {
        let (gate, latch) = (limited(&[(key, "2")]), Latch::new());
        let origin = Origin::https().holds("/held", &latch);
        let mut http2 = inside(&gate, &origin);
        let mut begin = || http2.begin(get(&origin.url("/held")), true).unwrap();
        let pending = [begin(), begin()];
        latch.arrivals(2);
        let answer = http2.get(&origin.url("/third"));
        gate.refused(&answer, status, reason);
        latch.open();
        for pending in pending {
            assert_eq!(http2.answer(pending).unwrap().status, 204, "{key}");
        }
        // The connection continues.
        wait_until("a place to be free", || http2.get(&origin.url("/fourth")).status == 200);
        let seen = origin.seen_but_robots();
        assert_eq!(seen, ["GET /held", "GET /held", "GET /fourth"], "{key}");
    }
}
