//! HTTP/2 from crawlers: every stream is judged as a request is, and what the protocol adds is bounded.

mod bounds;
mod connections;
mod judged;
mod malformed;
mod messages;
mod websocket;

use crate::support::{Gate, Http2, Origin};

fn limited(keys: &[(&str, &str)]) -> Gate {
    Gate::with(|setup| {
        for (key, value) in keys {
            setup.set("limits", key, value);
        }
    })
}

fn inside(gate: &Gate, origin: &Origin) -> Http2 {
    gate.intercept_http2(&origin.authority(), "site.test")
}
