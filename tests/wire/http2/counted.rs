//! Metrics: the version of each request, and the way in which each connection ended.

use super::inside;
use crate::metrics::wait;
use crate::support::http2::get;
use crate::support::http2_frames::{End, block, flag, get_fields, kind};
use crate::support::http2_origin::Http2Origin;
use crate::support::{CrawlgateProcess, Latch, Origin};

#[test]
fn each_end_of_a_connection_is_counted_once_by_its_kind() {
    let gate = CrawlgateProcess::with(|setup| {
        setup.set("admin", "address", "\"127.0.0.1:0\"");
        setup.set("limits", "http2_resets", "1");
        setup.set("limits", "http2_control_frames", "100");
        setup.set("limits", "header_timeout", "\"1s\"");
    });
    let latch = Latch::new();
    let origin = Origin::https().holds("/held", &latch);
    let authority = origin.authority();
    let fields = get_fields(&authority, "/held");

    let mut resets = gate.intercept_frames(&authority, "site.test");
    for number in 1..=2 {
        let stream = 2 * number as u32 - 1;
        resets.request(stream, &fields);
        // Its exchange is under way.
        latch.arrivals(number);
        resets.send(kind::RST_STREAM, 0, stream, &8_u32.to_be_bytes());
    }
    assert_eq!(resets.end(5), End::GoAway(11), "ENHANCE_YOUR_CALM");
    let mut pings = gate.intercept_frames(&authority, "site.test");
    for _ in 0..200 {
        pings.send(kind::PING, 0, 0, &[0; 8]);
    }
    let mut slow = gate.intercept_frames(&authority, "site.test");
    slow.send(kind::HEADERS, flag::END_STREAM, 1, &block(&fields));
    assert_eq!(slow.end(1), End::GoAway(11), "ENHANCE_YOUR_CALM");
    let mut broken = gate.intercept_frames(&authority, "site.test");
    broken.send(kind::PING, 0, 0, &[0; 7]);
    let mut in_order = inside(&gate, &origin);
    let page = origin.url("/page");
    in_order.exchange(get(&page)).is_origins(200, "page /page");
    drop(in_order);

    for end in "too_many_resets too_many_frames slow_head protocol_error closed".split(' ') {
        let series = format!("crawlgate_downstream_http2_connections_total{{end=\"{end}\"}}");
        wait(&gate, &series, 1.0);
    }
    let requests = "crawlgate_downstream_requests_total{version=\"2\"}";
    wait(&gate, requests, 3.0);
    latch.open();
}

#[test]
fn a_connection_to_an_origin_is_counted_by_its_version() {
    let gate = CrawlgateProcess::with(|setup| setup.set("admin", "address", "\"127.0.0.1:0\""));
    let origin = Http2Origin::start();
    for path in ["/1", "/2"] {
        let answer = gate.get(&origin.url(path));
        answer.is_origins(200, &format!("page {path}"));
    }
    // The requests and the fetch of robots.txt share one.
    for (version, count) in [("2", 1.0), ("1.1", 0.0)] {
        let series =
            format!("crawlgate_upstream_connections_opened_total{{version=\"{version}\"}}");
        wait(&gate, &series, count);
    }
}
