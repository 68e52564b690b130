//! Tests of the test harness, without a gate.

use std::net::SocketAddr;

use crate::support::{Certificate, FullQueue, Latch, Origin, Reply, Wire, origin_ca_pem};

fn to(origin: &Origin) -> Wire {
    Wire::connect(SocketAddr::from(([127, 0, 0, 1], origin.port())))
}

#[test]
fn an_origin_plays_its_replies_in_order_and_remembers_what_it_was_asked() {
    let origin = Origin::with_rules("User-agent: *\n")
        .on("/a", [Reply::ok("first"), Reply::chunked("second")]);
    let mut wire = to(&origin);
    let heads = "Host: x\r\nX-Odd:  two  spaces \r\n";
    wire.exchange(format!("POST /a HTTP/1.1\r\n{heads}Content-Length: 3\r\n\r\nabc"))
        .is_origins(200, "first");
    wire.exchange(format!("GET /a?b HTTP/1.1\r\n{heads}\r\n")).is_origins(200, "second");
    wire.exchange("GET /robots.txt HTTP/1.1\r\nHost: x\r\n\r\n").is_origins(200, "User-agent: *\n");
    assert_eq!(origin.seen_but_robots(), ["POST /a", "GET /a?b"]);
    assert_eq!((origin.robots_fetches(), origin.connections()), (1, 1));
    let first = &origin.seen()[0];
    assert_eq!(first.body, b"abc");
    assert!(first.head.text().contains("X-Odd:  two  spaces \r\n"));
}

#[test]
fn interim_responses_trailers_and_broken_framing_are_told_apart() {
    let origin = Origin::http()
        .on("/interim", [Reply::raw("HTTP/1.1 103 Early Hints\r\nLink: </s.css>\r\n\r\n").send("HTTP/1.1 204 No\r\n\r\n")])
        .on("/trailers", [Reply::raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX-T: 1\r\n\r\n")])
        .on("/short", [Reply::raw("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf").close()])
        .on("/reset", [Reply::raw("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n").reset()]);
    let get = |path: &str| to(&origin).exchange(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n"));
    let interim = get("/interim");
    assert_eq!(
        (interim.status, interim.interim[0].field("link").as_deref()),
        (204, Some("</s.css>"))
    );
    let trailers = get("/trailers");
    assert_eq!((trailers.text().as_str(), trailers.trailers.text().as_str()), ("a", "X-T: 1\r\n"));
    assert_eq!((get("/short").whole, get("/short").text().as_str()), (false, "half"));
    assert!(!get("/reset").whole);
}

#[test]
fn a_stalled_reply_waits_for_its_latch() {
    let latch = Latch::new();
    let origin = Origin::http().holds("/slow", &latch);
    let mut wire = to(&origin);
    wire.send("GET /slow HTTP/1.1\r\nHost: x\r\n\r\n");
    latch.arrivals(1);
    origin.wait_seen(1);
    assert_eq!(origin.sent(), 0);
    latch.open();
    assert_eq!(wire.response("GET").status, 204);
}

#[test]
fn certificates_have_the_requested_faults() {
    let handshake = |certificate| {
        to(&Origin::https_with(certificate)).try_tls("any.test", origin_ca_pem()).is_ok()
    };
    assert!(handshake(Certificate::Trusted));
    for bad in [Certificate::Untrusted, Certificate::Expired, Certificate::OtherName] {
        assert!(!handshake(bad), "{bad:?} was believed");
    }
    let origin = Origin::https();
    let mut wire = to(&origin).tls_as("sni.test").unwrap();
    wire.get_inside("x", "/echo").is_origins(200, "page /echo");
    assert_eq!(origin.last("/echo").sni.as_deref(), Some("sni.test"));
}

#[test]
fn a_full_queue_completes_no_connection() {
    let queue = FullQueue::new();
    let address = SocketAddr::from(([127, 0, 0, 1], queue.port));
    assert!(
        std::net::TcpStream::connect_timeout(&address, std::time::Duration::from_millis(200))
            .is_err()
    );
}
