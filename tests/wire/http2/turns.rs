//! Pace and quotas: each stream takes a turn, as a request of HTTP/1.1 does.

use h2::Reason;

use super::{TLS, listening};
use crate::support::http2::get;
use crate::support::{Http2, Origin, RULES};

#[test]
fn each_stream_takes_a_turn_of_its_origins_pace() {
    let (gate, place) = listening(TLS, |setup| {
        setup.set("pace", "requests_per_second", "0.01");
        setup.set("pace", "burst", "3");
        setup.set("pace", "max_hold", "\"1s\"");
    });
    let (origin, other) = (Origin::with_rules(RULES), Origin::http());
    let mut http2 = Http2::to(place, "127.0.0.1", &gate.ca_pem());
    // The fetch of robots.txt was the first request.
    for path in ["/1", "/2"] {
        let answer = http2.get(&origin.url(path));
        answer.is_origins(200, &format!("page {path}"));
    }
    let answer = http2.get(&origin.url("/3"));
    gate.refused(&answer, 429, "paced");
    let seconds: u64 = answer.field("retry-after").unwrap().parse().unwrap();
    assert!((1..=100).contains(&seconds), "{seconds}");
    // The connection continues.
    http2.passes(&other.url("/4"));
    assert_eq!(origin.seen_but_robots(), ["GET /1", "GET /2"]);
}

#[test]
fn each_stream_spends_the_quota_of_its_client() {
    let quota = "[[client]]\nname = 'rest'\nquota = { requests = 3, per = '365d' }\n";
    let (gate, place) = listening(&(TLS.to_owned() + quota), |_| ());
    let origin = Origin::with_rules(RULES);
    let mut http2 = Http2::to(place, "127.0.0.1", &gate.ca_pem());
    http2.passes(&origin.url("/1"));
    gate.denied(&http2.get(&origin.url("/private")));
    http2.passes(&origin.url("/2"));
    let answer = http2.get(&origin.url("/3"));
    gate.refused(&answer, 429, "quota_spent");
    assert!(answer.field("retry-after").is_some(), "{answer:?}");
    assert_eq!(origin.seen_but_robots(), ["GET /1", "GET /2"]);
}

#[test]
fn a_stream_that_is_reset_while_held_keeps_no_turn() {
    let slow = "[[client]]\nname = 'rest'\nrequests_per_second = 0.01\n";
    let (gate, place) = listening(&(TLS.to_owned() + slow), |setup| {
        setup.set("pace", "max_hold", "\"150s\"");
    });
    let origin = Origin::with_rules(RULES);
    let mut http2 = Http2::to(place, "127.0.0.1", &gate.ca_pem());
    http2.passes(&origin.url("/a"));
    for round in 0..3 {
        let urls = [1, 2].map(|number| origin.url(&format!("/held/{round}/{number}")));
        let mut pending = urls.each_ref().map(|url| http2.begin(get(url), true).unwrap());
        let is_new = |record: &serde_json::Value| urls.iter().any(|url| record["url"] == *url);
        // One is held for 100 seconds. There is no room for the other, which would be held for 200. If earlier turns
        // were kept, there would be room for neither.
        gate.record("one refused", |record| is_new(record) && record["reason"] == "quota_spent");
        for pending in &mut pending {
            pending.body.send_reset(Reason::CANCEL);
        }
        let record = gate.record("one broken off", |record| {
            is_new(record) && record["error"] == "client_closed"
        });
        assert_eq!(record["reason"], "robots_allow", "{record}");
    }
    assert_eq!(origin.seen_but_robots(), ["GET /a"]);
}
