//! Messages to and from origins by HTTP/2: fields, bodies, trailers and interim responses. Page: `docs/messages.md`.

use bytes::Bytes;
use http::HeaderMap;

use crate::support::http2::request;
use crate::support::http2_frames::get_fields;
use crate::support::http2_origin::Http2Origin;
use crate::support::{CrawlgateProcess, Response, Wire, eventually};

const CHUNK: usize = 64 * 1024;

fn text(fields: &HeaderMap, name: &str) -> Vec<String> {
    let values = fields.get_all(name).iter();
    values.map(|value| value.to_str().unwrap().to_owned()).collect()
}

#[test]
fn a_request_by_http2_has_the_fields_of_its_version() {
    let (gate, origin) = (CrawlgateProcess::start(), Http2Origin::start());
    let fields = "Connection: te, x-hop\r\nTE: trailers\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\nProxy-Connection: close\r\n\
        Cookie: a=1; b=2\r\nPriority: u=1\r\nX-Two: 1\r\nX-Two: 2\r\nAccept-Encoding: gzip\r\n\r\n";
    gate.sends("GET", &origin.url("/page?q=1"), fields)
        .response("GET")
        .is_origins(200, "page /page");
    let seen = origin.last("/page");
    assert_eq!((&*seen.authority, &*seen.method), (&*origin.authority(), "GET"));
    for gone in "host connection keep-alive proxy-connection transfer-encoding".split(' ') {
        assert!(!seen.fields.contains_key(gone), "{gone}: {:?}", seen.fields);
    }
    for (name, values) in [
        ("te", vec!["trailers"]),
        ("cookie", vec!["a=1; b=2"]),
        ("priority", vec!["u=1"]),
        ("x-two", vec!["1", "2"]),
        ("accept-encoding", vec!["gzip"]),
        ("user-agent", vec!["TestBot/1.0"]),
    ] {
        assert_eq!(text(&seen.fields, name), values, "{name}");
    }
    let via = text(&seen.fields, "via").join("");
    assert!(via.starts_with("1.1 crawlgate-"), "{via}");
}

#[test]
fn a_response_by_http2_is_signed_with_its_version() {
    let gate = CrawlgateProcess::start();
    let origin = Http2Origin::start().on("/page", |mut stream| async move {
        let fields = [("x-one", "1"), ("set-cookie", "a"), ("set-cookie", "b")];
        stream.send(203, &fields).send_all(Bytes::from("body")).await;
    });
    let answer = gate.get(&origin.url("/page"));
    answer.is_origins(203, "body");
    assert_eq!(answer.head.all("set-cookie"), ["a", "b"]);
    answer.field_is("x-one", Some("1"));
    let via = answer.field("via").unwrap();
    assert!(via.starts_with("2.0 crawlgate-"), "{via}");
    has!(gate.record_of(&origin.url("/page")), {"status": 203, "bytes_out": 4});
}

#[test]
fn bodies_and_trailers_pass_both_ways() {
    let gate = CrawlgateProcess::start();
    let origin = Http2Origin::start().on("/form", |mut stream| async move {
        stream.read().await;
        let mut sending = stream.send(200, &[("trailer", "x-end")]);
        sending.send(Bytes::from("answer")).await;
        let mut trailers = HeaderMap::new();
        trailers.insert("x-end", "1".parse().unwrap());
        trailers.insert("content-length", "6".parse().unwrap());
        sending.0.send_trailers(trailers).unwrap();
    });
    #[rustfmt::skip] // one row, one case
    let cases = [
        ("a known length", "Content-Length: 4\r\n\r\nbody", "body", false),
        ("chunks", "Transfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n2\r\nab\r\n0\r\n\r\n", "bodyab", false),
        ("chunks and trailers", "Transfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\nX-Sum: 7\r\n\r\n", "body", true),
        ("an empty body", "Content-Length: 0\r\n\r\n", "", false),
    ];
    for (case, body, arrives, has_trailers) in cases {
        let fields = format!("Connection: te\r\nTE: trailers\r\n{body}");
        let answer = gate.sends("POST", &origin.url("/form"), &fields).response("POST");
        answer.is_origins(200, "answer");
        answer.trailers.field_is("x-end", Some("1"));
        assert_eq!(answer.trailers.field("content-length"), None, "{case}");
        let seen = origin.last("/form");
        assert_eq!(String::from_utf8_lossy(&seen.body), arrives, "{case}");
        let trailers = seen.trailers.map(|trailers| text(&trailers, "x-sum"));
        assert_eq!(trailers, has_trailers.then(|| vec!["7".to_owned()]), "{case}");
        let is_known = body.starts_with("Content-Length");
        assert_eq!(seen.fields.contains_key("content-length"), is_known, "{case}");
        let records = gate.record(case, |record| record["bytes_in"] == arrives.len());
        assert_eq!(records["upstream_version"], "2");
    }
    // Bodies are streams of the same connection: none can be read as another request.
    let connections: Vec<_> = origin.seen().iter().map(|seen| seen.connection).collect();
    assert_eq!(connections, [1; 5]);
}

#[test]
fn responses_without_a_body_have_none() {
    let gate = CrawlgateProcess::start();
    let origin = Http2Origin::start()
        .on("/head", |mut stream| async move {
            stream.send_empty(200, &[("content-length", "1234")]);
        })
        .on("/late-head", |mut stream| async move {
            // The end comes in a separate frame.
            stream.send(200, &[("content-length", "1234")]).send_all(Bytes::new()).await;
        })
        .on("/204", |mut stream| async move { stream.send_empty(204, &[]) })
        .on("/304", |mut stream| async move {
            stream.send_empty(304, &[("content-length", "1234"), ("etag", "\"a\"")]);
        })
        .on("/empty", |mut stream| async move { stream.send_empty(200, &[]) });
    for (method, path, status, length) in [
        ("HEAD", "/head", 200, Some("1234")),
        ("HEAD", "/late-head", 200, Some("1234")),
        ("GET", "/204", 204, None),
        // hyper leaves out a length that no body has, unless the request is a HEAD.
        ("GET", "/304", 304, None),
        ("GET", "/empty", 200, Some("0")),
    ] {
        let answer = gate.request(method, &origin.url(path), "");
        answer.is_origins(status, "");
        assert_eq!(answer.field("content-length").as_deref(), length, "{path}");
        has!(gate.record_of(&origin.url(path)), {"error": null, "bytes_out": 0}, "{path}");
    }
    let mut crawler = gate.intercept_http2(&origin.authority(), "site.test");
    for (method, path, status, length) in [
        ("HEAD", "/head", 200, Some("1234")),
        ("HEAD", "/late-head", 200, Some("1234")),
        ("GET", "/204", 204, None),
        ("GET", "/304", 304, Some("1234")),
    ] {
        let answer = crawler.exchange(request(method, &origin.url(path)));
        answer.is_origins(status, "");
        assert_eq!(answer.field("content-length").as_deref(), length, "{path}");
    }
    assert_eq!(origin.connections(), 1);
}

#[test]
fn a_big_body_passes_whole() {
    const SIZE: usize = 10 << 20;
    let gate = CrawlgateProcess::start();
    let origin = Http2Origin::start().on("/big", |mut stream| async move {
        stream.read().await;
        let length = SIZE.to_string();
        let sending = stream.send(200, &[("content-length", &length)]);
        sending.send_all(Bytes::from(vec![b'x'; SIZE])).await;
    });
    let answer = gate.get(&origin.url("/big"));
    assert_eq!((answer.status, answer.body.len(), answer.whole), (200, SIZE, true));
    let mut wire =
        gate.sends("POST", &origin.url("/big"), &format!("Content-Length: {SIZE}\r\n\r\n"));
    for _ in 0..SIZE / CHUNK {
        wire.send([b'y'; CHUNK]);
    }
    assert_eq!(wire.response("POST").body.len(), SIZE);
    let seen = origin.last("/big");
    assert!(seen.body.len() == SIZE && seen.body.iter().all(|octet| *octet == b'y'));
    assert_eq!(origin.connections(), 1);
}

#[test]
fn a_crawler_that_does_not_read_holds_back_its_stream_alone() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    let gate = CrawlgateProcess::start();
    let sent = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&sent);
    let origin = Http2Origin::start().on("/endless", move |mut stream| {
        let sent = Arc::clone(&counter);
        async move {
            let mut sending = stream.send(200, &[]);
            loop {
                let part = sending.send(Bytes::from_static(&[b'x'; 1024])).await;
                if part < 1024 {
                    return;
                }
                sent.fetch_add(part, Ordering::SeqCst);
            }
        }
    });
    let mut slow: Vec<Wire> = Vec::new();
    for _ in 0..3 {
        let mut wire = gate.sends("GET", &origin.url("/endless"), "\r\n");
        assert_eq!(wire.response_head().status, 200);
        slow.push(wire);
    }
    let (mut last, mut still) = (0, 0);
    eventually("the origin to come to rest", || {
        let sent = sent.load(Ordering::SeqCst);
        still = if sent == last { still + 1 } else { 0 };
        last = sent;
        (still == 40).then_some(())
    });
    assert!(last < 48 << 20, "{last} octets were taken for crawlers that read none");
    gate.passes(&origin.url("/page"));
    assert_eq!(origin.connections(), 1);
    drop(slow);
    gate.record_of(&origin.url("/endless"));
}

#[test]
fn interim_responses_pass() {
    let gate = CrawlgateProcess::start();
    let origin = Http2Origin::start().on("/page", |mut stream| async move {
        let hints = crate::support::http2_origin::head(103, &[("link", "</style.css>")]);
        stream.respond.send_informational(hints).unwrap();
        stream.reply(200, "page").await;
    });
    let answer = gate.get(&origin.url("/page"));
    answer.is_origins(200, "page");
    let links: Vec<_> =
        answer.interim.iter().map(|head| (head.word(1), head.field("link"))).collect();
    assert_eq!(links, [("103".to_owned(), Some("</style.css>".to_owned()))]);
    let authority = origin.authority();
    let mut crawler = gate.intercept_frames(&authority, "site.test");
    let fields = get_fields(&authority, "/page");
    // The first of two heads is that of the hints.
    let answer = crawler.request(1, &fields).answer(1);
    assert_eq!(answer, Ok((103, b"page".to_vec())));
}

#[test]
fn a_body_waits_for_the_origins_continue() {
    let gate = CrawlgateProcess::start();
    let origin = Http2Origin::start().on("/form", |mut stream| async move {
        stream.respond.send_informational(crate::support::http2_origin::head(100, &[])).unwrap();
        stream.reply(200, "taken").await;
    });
    let expects = "Expect: 100-continue\r\nContent-Length: 4\r\n\r\n";
    let mut wire = gate.sends("POST", &origin.url("/form"), expects);
    assert_eq!(wire.interim().word(1), "100");
    wire.send("body");
    wire.response("POST").is_origins(200, "taken");
    let seen = origin.last("/form");
    assert_eq!((&*seen.body, text(&seen.fields, "expect").len()), (&b"body"[..], 1));
}

#[test]
fn octets_flow_both_ways_at_once() {
    let gate = CrawlgateProcess::start();
    let origin = Http2Origin::start().on("/echo", |mut stream| async move {
        let mut sending = stream.send(200, &[]);
        while let Some(Ok(octets)) = stream.body.data().await {
            stream.body.flow_control().release_capacity(octets.len()).unwrap();
            sending.send(octets).await;
        }
        sending.send_all(Bytes::new()).await;
    });
    let mut wire = gate.sends("POST", &origin.url("/echo"), "Transfer-Encoding: chunked\r\n\r\n");
    let answer: Response = wire.response_head();
    assert_eq!(answer.status, 200);
    for word in ["first", "other"] {
        wire.send(format!("5\r\n{word}\r\n"));
        assert_eq!(wire.read(10), format!("5\r\n{word}\r\n").as_bytes());
    }
    wire.send("0\r\n\r\n");
    assert_eq!(wire.read(5), b"0\r\n\r\n");
    has!(gate.record_of(&origin.url("/echo")), {"bytes_in": 10, "bytes_out": 10, "error": null});
}
