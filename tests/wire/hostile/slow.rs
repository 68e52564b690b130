//! Octets that come too slowly.

use super::Way::{self, Bare, Plain, Tls};
use super::bounds;
use crate::support::{CrawlgateProcess, Origin, RULES, Wire};

#[test]
fn what_comes_too_slowly_is_ended() {
    let gate = CrawlgateProcess::with(|setup| {
        bounds(setup);
        setup.set("limits", "idle_timeout", "\"3s\"");
    });
    let (plain, tls) = (Origin::with_rules(RULES), Origin::https().robots(RULES));
    let (url, host) = (plain.url("/open"), plain.authority());
    #[rustfmt::skip] // one row, one case
    let cases: [(&str, Way, String, Option<u16>); 7] = [
        ("nothing at all", Plain, String::new(), None),
        ("half a request line", Plain, "GET http://si".to_owned(), Some(408)),
        ("a head without end", Plain, format!("GET {url} HTTP/1.1\r\nHost: {host}\r\n"), Some(408)),
        ("a head without end inside", Tls, "GET /open HTTP/1.1\r\nHost: ".to_owned(), Some(408)),
        ("nothing inside", Tls, String::new(), None),
        ("nothing in a tunnel", Bare, String::new(), None),
        ("half a ClientHello", Bare, "\x16\x03\x01\x00\x40\x01".to_owned(), None),
    ];
    // All at once: each connection has its own time.
    let wires: Vec<Wire> = cases
        .iter()
        .map(|(name, way, text, _)| {
            let mut wire = match way {
                Plain => gate.connect(),
                Tls => gate.intercept(&tls.authority(), "site.test"),
                Bare => gate.connect(),
            };
            if *way == Bare {
                assert_eq!(wire.tunnel(&host).status, 200, "{name}");
            }
            wire.send(text);
            wire
        })
        .collect();
    for ((name, _, _, status), mut wire) in cases.iter().zip(wires) {
        if let Some(status) = status {
            gate.refused(&wire.response("GET"), *status, "bad_request");
        }
        assert!(wire.is_closed(), "{name}");
    }
    assert_eq!([plain.connections(), tls.connections()], [0, 0]);
}
