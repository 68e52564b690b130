//! Each stream is judged as a request of HTTP/1.1 is.

use h2::Reason;
use serde_json::json;

use super::inside;
use crate::support::http2::get;
use crate::support::{CrawlgateProcess, Latch, Origin, RULES, Reply};

#[test]
fn each_stream_of_a_connection_is_judged() {
    let (gate, origin) = (CrawlgateProcess::start(), Origin::https().robots(RULES));
    let mut http2 = inside(&gate, &origin);
    http2.passes(&origin.url("/open"));
    let record = gate.denied(&http2.get(&origin.url("/private")));
    has!(record, {"version": "2", "via": "intercepted", "url": origin.url("/private")});
    http2.get(&origin.url("/private/open")).is_origins(200, "page /private/open");
    assert_eq!(gate.record_of(&origin.url("/open"))["version"], "2");
    assert_eq!(origin.seen_but_robots(), ["GET /open", "GET /private/open"]);
    let via = origin.last("/open").head.all("via").join(", ");
    assert!(via.starts_with("2.0 crawlgate-"), "{via}");
}

#[test]
fn streams_are_under_way_at_the_same_time() {
    let (gate, latch) = (CrawlgateProcess::start(), Latch::new());
    let origin = Origin::https().robots(RULES);
    for number in 0..20 {
        let held = Reply::silent().wait(&latch).send("HTTP/1.1 204 No\r\n\r\n");
        origin.script(&format!("/{number}"), [held]);
    }
    let mut http2 = inside(&gate, &origin);
    let pending: Vec<_> = (0..20)
        .map(|number| http2.begin(get(&origin.url(&format!("/{number}"))), true).unwrap())
        .collect();
    latch.arrivals(20);
    gate.denied(&http2.get(&origin.url("/private")));
    latch.open();
    for pending in pending {
        assert_eq!(http2.answer(pending).unwrap().status, 204);
    }
}

#[test]
fn report_mode_and_strict_durability_hold_on_streams() {
    let gate = CrawlgateProcess::with(|setup| {
        setup.set("policy", "mode", "\"report\"");
        setup.set("audit", "durability", "\"strict\"");
    });
    let latch = Latch::new();
    let held = Reply::silent().wait(&latch).send("HTTP/1.1 204 No\r\n\r\n");
    let origin = Origin::https().robots(RULES).on("/private/held", [held]);
    let mut http2 = inside(&gate, &origin);
    let url = origin.url("/private");
    http2.get(&url).is_origins(200, "page /private");
    let held = origin.url("/private/held");
    let mut pending = http2.begin(get(&held), true).unwrap();
    latch.arrivals(1);
    pending.body.send_reset(Reason::CANCEL);
    for (url, error) in [(&url, json!(null)), (&held, json!("client_closed"))] {
        has!(gate.record_of(url), {"mode": "report", "reason": "robots_disallow", "error": error});
    }
    latch.open();
}

#[test]
fn a_stream_for_another_authority_is_misdirected() {
    let (gate, origin) = (CrawlgateProcess::start(), Origin::https().robots(RULES));
    let other = Origin::https().robots(RULES);
    let mut http2 = inside(&gate, &origin);
    let plain = origin.url("/open").replacen("https", "http", 1);
    for url in [origin.url_as("other.test", "/open"), other.url("/open"), plain] {
        has!(gate.refused(&http2.get(&url), 421, "misdirected"), {"url": url});
    }
    let mut host = get(&origin.url("/open"));
    host.headers_mut().insert("host", "other.test".parse().unwrap());
    gate.refused(&http2.exchange(host), 400, "bad_request");
    http2.passes(&origin.url("/open"));
    assert_eq!(origin.seen_but_robots(), ["GET /open"]);
    assert_eq!(other.connections(), 0);
}

#[test]
fn a_stream_behind_another_server_name_is_misdirected() {
    let (gate, origin) = (CrawlgateProcess::start(), Origin::https().robots(RULES));
    for (name, host) in
        [("other.test", "site.test"), ("other.test", "other.test"), ("www.site.test", "site.test")]
    {
        // The CONNECT is for site.test.
        let mut http2 = gate.intercept_http2(&origin.authority(), name);
        let url = origin.url_as(host, "/open");
        let answer = http2.get(&url);
        has!(gate.refused(&answer, 421, "misdirected"), {"url": url, "version": "2"});
    }
    assert_eq!(origin.connections(), 0);
}
