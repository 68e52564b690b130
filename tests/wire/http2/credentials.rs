//! Credentials: each stream of a proxy connection has its own.

use http::Request;
use serde_json::json;

use crate::clients::{PASSWORD, basic, entry};
use crate::support::http2::get;
use crate::support::{AdminGate, Http2, Latch, Origin, RULES, Reply, wait_until};

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
    has!(gate.record("the page", |record| record["status"] == 200), {"client.name": "shop"});
    let news = http2.exchange(by(get(&open), "news", PASSWORD));
    has!(gate.refused(&news, 429, "client_limit"), {"client.name": "news"});
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
        tunnel.exchange(by(get(&url), "shop", PASSWORD)).is_origins(200, &format!("page {path}"));
        assert_eq!(gate.record_of(&url)["client"]["name"], json!(client));
    }
}

#[test]
fn clients_on_streams_take_turns_at_an_origin() {
    let tables = super::TLS.to_owned() + &entry("news", "") + &entry("shop", "");
    let (gate, place) = super::listening(&tables, |setup| {
        setup.set("pace", "concurrency", "1");
        setup.set("pace", "max_hold", "\"1m\"");
        setup.set("admin", "address", "\"127.0.0.1:0\"");
    });
    let ca_pem = gate.ca_pem();
    let gate = AdminGate::of(gate);
    let latch = Latch::new();
    let held = Reply::silent().wait(&latch);
    let held = held.send("HTTP/1.1 204 No\r\n\r\n");
    let origin = Origin::http().robots(RULES).on("/held", [held]);
    let mut http2 = Http2::to(place, "127.0.0.1", &ca_pem);
    let mut begin = |path: &str, user| {
        let request = by(get(&origin.url(path)), user, PASSWORD);
        http2.begin(request, true).unwrap()
    };
    let mut pending = vec![begin("/held", "news")];
    latch.arrivals(1);
    // Six requests of one client wait before the first of the other comes.
    let news = (1..=6).map(|n| (format!("/news/{n}"), "news"));
    let shop = (1..=2).map(|n| (format!("/shop/{n}"), "shop"));
    for (waiting, (path, user)) in news.chain(shop).enumerate() {
        pending.push(begin(&path, user));
        let line = format!("\ncrawlgate_paced_requests {}\n", waiting + 1);
        wait_until("the request to wait for its turn", || {
            gate.get("/metrics").text().contains(&line)
        });
    }
    latch.open();
    for (place, pending) in pending.into_iter().enumerate() {
        let answer = http2.answer(pending).unwrap();
        assert_eq!(answer.status, if place == 0 { 204 } else { 200 });
    }
    let seen = origin.seen_but_robots();
    let of = |client: &str| -> Vec<usize> {
        let is_of = |(_, line): &(usize, &String)| line.contains(client);
        seen.iter().enumerate().filter(is_of).map(|(place, _)| place).collect()
    };
    // One of each client in turn, and those of one client as they came.
    assert!(of("shop")[1] <= 4, "{seen:?}");
    let mut in_order = seen.clone();
    in_order.sort();
    in_order.sort_by_key(|line| line.contains("shop"));
    let mut by_client = seen.clone();
    by_client.sort_by_key(|line| line.contains("shop"));
    assert_eq!(by_client, in_order, "GET /held comes first, then by number");
    assert_eq!(seen.len(), 9);
}
