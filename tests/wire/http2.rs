//! HTTP/2 from crawlers: every stream is judged as a request is, and what the protocol adds is bounded.
//! Page: `docs/messages.md`.

mod abuse;
mod bounds;
pub(crate) mod bypass;
mod connections;
mod counted;
mod credentials;
mod judged;
mod limits;
mod malformed;
mod messages;
mod tunnels;
mod turns;
mod websocket;

use std::net::SocketAddr;

use crate::listeners::gate_in;
use crate::support::{CrawlgateProcess, Http2, Origin, Setup};

/// A listener with TLS.
pub const TLS: &str =
    "[[listener]]\nname = 'tls'\naddress = '127.0.0.1:0'\ntls = true\nnames = ['127.0.0.1']\n";

/// Starts a gate with these tables, and returns the address of its listener with TLS.
pub fn listening(
    tables: &str,
    configure: impl FnOnce(&mut Setup),
) -> (CrawlgateProcess, SocketAddr) {
    let (gate, places) = gate_in(tables, 2, configure);
    let ours = gate.address().to_string();
    let place = places.iter().find(|place| **place != ours);
    let place = place.and_then(|place| place.parse().ok());
    (gate, place.expect("a listener with TLS"))
}

fn limited(keys: &[(&str, &str)]) -> CrawlgateProcess {
    CrawlgateProcess::with(|setup| {
        for (key, value) in keys {
            setup.set("limits", key, value);
        }
    })
}

fn inside(gate: &CrawlgateProcess, origin: &Origin) -> Http2 {
    gate.intercept_http2(&origin.authority(), "site.test")
}
