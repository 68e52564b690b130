//! Credentials: each stream of a proxy connection has its own.

use http::Request;
use serde_json::json;

use crate::clients::{PASSWORD, basic, entry};
use crate::support::http2::get;
use crate::support::{Http2, Latch, Origin, RULES, Reply};

/// Adds the credentials of this client.
fn by<T>(mut request: Request<T>, user: &str, password: &str) -> Request<T> {
    let line = basic(user, password);
    let (_, value) = line.trim_end().split_once(": ").unwrap();
    let fields = request.headers_mut();
    fields.insert("proxy-authorization", value.parse().unwrap());
    request
}

#[test]
fn each_stream_of_a_connection_has_its_own_client() {
    let tables = super::TLS.to_owned() + &entry("news", "requests = 1") + &entry("shop", "");
    let (gate, place) = super::listening(&tables, |_| ());
    let (latch, held) = (Latch::new(), Reply::silent());
    let held = held.wait(&latch).send("HTTP/1.1 204 No\r\n\r\n");
    let origin = Origin::http().robots(RULES).on("/held", [held]);
    let mut http2 = Http2::to(place, "127.0.0.1", &gate.ca_pem());
    let (open, held) = (origin.url("/open"), origin.url("/held"));
    gate.refused(&http2.get(&open), 407, "unauthenticated");
    let pending = http2.begin(by(get(&held), "news", PASSWORD), true).unwrap();
    latch.arrivals(1);
    // While one client's stream is open, the other's is judged, counted and recorded as its own.
    let shop = http2.exchange(by(get(&open), "shop", PASSWORD));
    shop.is_origins(200, "page /open");
    let record = gate.record("the page", |record| record["status"] == 200);
    assert_eq!(record["client"]["name"], "shop");
    let news = http2.exchange(by(get(&open), "news", PASSWORD));
    let record = gate.refused(&news, 429, "client_limit");
    assert_eq!(record["client"]["name"], "news");
    gate.refused(&http2.get(&open), 407, "unauthenticated");
    let wrong = http2.exchange(by(get(&open), "shop", "wrong"));
    gate.refused(&wrong, 407, "unauthenticated");
    latch.open();
    assert_eq!(http2.answer(pending).unwrap().status, 204);
    assert_eq!(gate.record_of(&held)["client"]["name"], "news");
    assert_eq!(origin.seen_but_robots(), ["GET /held", "GET /open"]);
    for seen in origin.seen() {
        assert_eq!(seen.head.field("proxy-authorization"), None);
    }
}

#[test]
fn the_client_of_a_tunnel_is_that_of_its_stream() {
    let tables = super::TLS.to_owned() + &entry("news", "") + &entry("shop", "");
    let (gate, place) = super::listening(&tables, |_| ());
    let origin = Origin::https().robots(RULES);
    let mut http2 = Http2::to(place, "127.0.0.1", &gate.ca_pem());
    let connect = || {
        let connect = Request::builder().method("CONNECT");
        connect.uri(origin.authority()).body(()).unwrap()
    };
    gate.refused(&http2.exchange(connect()), 407, "unauthenticated");
    let tunnel = by(connect(), "news", PASSWORD);
    let news = http2.tunnel(tunnel, "site.test", &gate.ca_pem());
    let tunnel = by(connect(), "shop", PASSWORD);
    let shop = http2.tunnel(tunnel, "site.test", &gate.ca_pem());
    let mut tunnels = [("news", news), ("shop", shop)];
    for (at, path) in [(0, "/1"), (1, "/2"), (0, "/3")] {
        let (client, tunnel) = &mut tunnels[at];
        let url = origin.url(path);
        // Credentials inside are meant for the origin's side, and name no client.
        tunnel
            .exchange(by(get(&url), "shop", PASSWORD))
            .is_origins(200, &format!("page {path}"));
        assert_eq!(gate.record_of(&url)["client"]["name"], json!(client));
    }
}
