//! The duties of a proxy for fields and messages (RFC 9110 7.6, RFC 9112). Page: `docs/messages.md`.

use std::io::Write;

use crate::listeners::gate_in;
use crate::support::{CrawlgateProcess, Origin, Reply, WEBSOCKET};

pub fn post(url: &str, fields: &str) -> String {
    format!("POST {url} HTTP/1.1\r\nHost: x\r\nUser-Agent: TestBot/1.0\r\n{fields}\r\n")
}

#[test]
fn hop_by_hop_fields_stay_on_their_hop() {
    let gate = CrawlgateProcess::start();
    let origin = Origin::http().on(
        "/page",
        [Reply::with(200, "Connection: X-Answer\r\nConnection: x-second\r\nX-Answer: 1\r\nX-Second: 2\r\nKeep-Alive: timeout=5\r\nX-End: 3\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\n", "page")],
    );
    let fields = "Connection: keep-alive, X-Hop\r\nConnection: x-second\r\nX-Hop: 1\r\nX-Second: 2\r\nKeep-Alive: timeout=5\r\n\
        Proxy-Connection: keep-alive\r\nTE: gzip\r\nUpgrade: h2c\r\nProxy-Authorization: Basic c2VjcmV0\r\nX-End: 3\r\n";
    let answer = gate.request("GET", &origin.url("/page"), fields);
    let seen = origin.last("/page").head;
    let dropped = [
        "x-hop",
        "x-second",
        "keep-alive",
        "proxy-connection",
        "te",
        "upgrade",
        "proxy-authorization",
    ];
    for name in dropped {
        assert_eq!(seen.all(name), [""; 0], "{name} went on: {}", seen.text());
    }
    seen.field_is("x-end", Some("3"));
    for name in ["x-answer", "x-second", "keep-alive"] {
        assert_eq!(answer.head.all(name), [""; 0], "{name} came back: {answer:?}");
    }
    answer.field_is("x-end", Some("3"));
    assert_eq!(answer.head.all("set-cookie"), ["a=1", "b=2"]);
    for seen in origin.seen() {
        assert_eq!(seen.head.field("proxy-authorization"), None, "{}", seen.line());
    }
}

/// Fields that a server may take for the path, in spellings that CGI makes equal.
const PATH_FIELDS: [&str; 15] = [
    "X-Original-URL",
    "x-rewrite-url",
    "X-ORIGINAL-URL",
    "X_Original-Url",
    "X.Rewrite.Url",
    "SCRIPT_NAME",
    "Script-Name",
    "script!name",
    "PATH_INFO",
    "X-Forwarded-Prefix",
    "X-Envoy-Original-Path",
    "Request-URI",
    "X-Forwarded-Host",
    "X-Original-Host",
    "Forwarded",
];

/// Checks that a request arrived with all fields but these.
#[track_caller]
fn names_no_other_path(origin: &Origin, path: &str) {
    let seen = origin.last(path).head;
    for name in PATH_FIELDS {
        assert_eq!(seen.all(name), [""; 0], "{name} went on: {}", seen.text());
    }
    seen.field_is("x-original-id", Some("a.test"));
}

#[test]
fn fields_that_name_another_target_reach_no_origin() {
    let gate = CrawlgateProcess::start();
    let fields = PATH_FIELDS.map(|name| format!("{name}: /private\r\n"));
    let fields = format!("{}X-Original-Id: a.test\r\n", fields.concat());
    for origin in [Origin::http(), Origin::https()] {
        let origin = origin.robots(crate::support::RULES);
        gate.request("GET", &origin.url("/page"), &fields).is(200);
        names_no_other_path(&origin, "/page");
    }

    let origin = Origin::https();
    let mut asked = crate::support::http2::get(&origin.url("/page"));
    for (name, value) in
        PATH_FIELDS.map(|name| (name, "/private")).into_iter().chain([("x-original-id", "a.test")])
    {
        let name = http::HeaderName::from_bytes(name.as_bytes()).unwrap();
        asked.headers_mut().append(name, value.parse().unwrap());
    }
    let mut http2 = gate.intercept_http2(&origin.authority(), "site.test");
    assert_eq!(http2.exchange(asked).status, 200);
    names_no_other_path(&origin, "/page");

    let origin = Origin::http().on("/socket", [Reply::websocket().echo()]);
    let handshake = WEBSOCKET.replace("\r\n\r\n", &format!("\r\n{fields}\r\n"));
    let mut wire = gate.sends("GET", &origin.url("/socket"), &handshake);
    assert_eq!(wire.response_head().status, 101);
    names_no_other_path(&origin, "/socket");
}

#[test]
fn proxy_authorization_goes_to_no_origin_also_inside_a_tunnel() {
    let (gate, origin) = (CrawlgateProcess::start(), Origin::https());
    let mut wire = gate.connect();
    let authority = origin.authority();
    wire.exchange(format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\nProxy-Authorization: Basic c2VjcmV0\r\n\r\n"));
    let mut wire = wire.tls("site.test", &gate.ca_pem());
    wire.exchange(format!("GET / HTTP/1.1\r\nHost: {authority}\r\nProxy-Authorization: Basic c2VjcmV0\r\nAuthorization: Basic b3du\r\n\r\n"));
    assert!(origin.seen().iter().all(|seen| seen.head.field("proxy-authorization").is_none()));
    assert_eq!(
        origin.last("/").head.field("authorization").as_deref(),
        Some("Basic b3du"),
        "the origin's own passes"
    );
}

#[test]
fn end_to_end_fields_arrive_unchanged() {
    let (gate, origin) = (CrawlgateProcess::start(), Origin::http());
    let mut wire = gate.connect();
    let url = origin.url("/page");
    let mut request = format!("GET {url} HTTP/1.1\r\nHost: x\r\nX-Twice: a\r\nX-Twice: b\r\nAccept-Encoding: gzip\r\nRange: bytes=0-3\r\nX-Octets: ").into_bytes();
    request.write_all(b"caf\xc3\xa9 \xff\r\nCache-Control: no-cache\r\n\r\n").unwrap();
    assert_eq!(wire.exchange(request).status, 200);
    let seen = origin.last("/page").head;
    assert_eq!(seen.all("x-twice"), ["a", "b"]);
    assert!(seen.raw.windows(7).any(|octets| octets == b"caf\xc3\xa9 \xff"), "{}", seen.text());
    for (name, value) in
        [("accept-encoding", "gzip"), ("range", "bytes=0-3"), ("cache-control", "no-cache")]
    {
        assert_eq!(seen.all(name), [value], "{name}");
    }
    assert_eq!(seen.field("user-agent"), None, "no identification is invented");
}

#[test]
fn via_names_us_and_a_loop_is_refused() {
    let (gate, origin) = (CrawlgateProcess::start(), Origin::http());
    let answer = gate.request("GET", &origin.url("/page"), "Via: 1.0 fred\r\n");
    let via = origin.last("/page").head.all("via").join(", ");
    let ours = via.strip_prefix("1.0 fred, 1.1 ").unwrap_or_else(|| panic!("{via}")).to_owned();
    assert!(answer.field("via").is_some_and(|via| via.contains(&ours)), "{answer:?}");
    for via in [
        format!("1.1 {ours}"),
        format!("1.0 fred, 1.1 {ours}, 1.1 nowhere"),
        format!("1.0 a\r\nVia: 1.1 {ours}"),
    ] {
        let answer = gate.request("GET", &origin.url("/loop"), &format!("Via: {via}\r\n"));
        assert_eq!(answer.status, 502, "{answer:?}");
        assert!(
            answer.field("proxy-status").unwrap().contains("error=proxy_loop_detected"),
            "{answer:?}"
        );
    }
    has!(gate.record_of(&origin.url("/loop")), {"error": "proxy_loop_detected"});
    assert_eq!(origin.seen_but_robots(), ["GET /page"]);
}

#[test]
fn unchanged_means_unchanged() {
    let gate = CrawlgateProcess::with(|setup| setup.set("upstream", "via", "false"));
    let fields = "User-AGENT: TestBot/1.0\r\nX-lower-UPPER: 1\r\naccept: */*\r\nX-Twice: a\r\nx-TWICE: b\r\n\
        Accept-Encoding: gzip\r\nZ: 1\r\nA: 2\r\n";
    let answers = "sErVeR: x\r\nDATE: Sun, 22 Nov 2026 00:00:00 GMT\r\nX-a: 1\r\ncontent-TYPE: text/plain\r\n\
        set-cookie: a\r\nSet-Cookie: b\r\nVary: *\r\nB: 1\r\n";
    for origin in [Origin::http(), Origin::https()] {
        let hop = "Connection: keep-alive, X-Hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\n";
        let origin = origin
            .on("/length", [Reply::raw(format!("HTTP/1.1 200 Fine By Me\r\n{hop}{answers}Content-LENGTH: 4\r\n\r\npage"))])
            .on("/chunks", [Reply::raw(format!("HTTP/1.1 404 Not Here\r\nTransfer-ENCODING: chunked\r\n{hop}{answers}\r\n4\r\npage\r\n0\r\n\r\n"))]);
        #[rustfmt::skip] // one row, one case
        let rows = [
            ("/length", "200 Fine By Me", "", "Content-LENGTH: 4\r\n"),
            ("/chunks", "404 Not Here", "Transfer-ENCODING: chunked\r\n", ""),
        ];
        for (path, status, before, after) in rows {
            let (mut wire, target) = gate.open(&origin.url(path));
            let host = origin.authority();
            let answer = wire
                .exchange(format!("GET {target} HTTP/1.1\r\nhOST: {host}\r\n{hop}{fields}\r\n"));
            assert_eq!(
                answer.head.text(),
                format!("HTTP/1.1 {status}\r\n{before}{answers}{after}")
            );
            let seen = origin.last(path).head;
            assert_eq!(seen.text(), format!("GET {path} HTTP/1.1\r\nhOST: {host}\r\n{fields}"));
        }
    }
}

#[test]
fn without_via_no_message_names_us_and_no_circle_begins() {
    let tables = "[[listener]]\nname = 'second'\naddress = '127.0.0.1:0'\n";
    let (gate, places) = gate_in(tables, 2, |setup| setup.set("upstream", "via", "false"));
    let origin = Origin::http();
    let answer = gate.request("GET", &origin.url("/page"), "Via: 1.0 fred\r\n");
    answer.is_origins(200, "page /page");
    assert_eq!(answer.field("via"), None);
    assert_eq!(origin.last("/page").head.all("via"), ["1.0 fred"]);
    assert_eq!(origin.last("/robots.txt").head.field("via"), None);
    for place in &places {
        let (_, port) = place.rsplit_once(':').unwrap();
        for host in "127.0.0.1 site.test localhost 0.0.0.0 [::ffff:127.0.0.1]".split(' ') {
            gate.refuses(&format!("http://{host}:{port}/"), 403, "address_prohibited");
        }
    }
}

#[test]
fn fields_of_this_program_come_from_no_other() {
    let gate = CrawlgateProcess::start();
    let lines = "Proxy-Status: crawlgate; error=http_request_denied; details=\"robots_disallow\"\r\n\
        Proxy-Status: cdn.example; hit, \"crawlgate\"; details=\"a, b\"\r\n";
    let chunks = format!(
        "HTTP/1.1 403 Forbidden\r\nTransfer-Encoding: chunked\r\nTrailer: Proxy-Status\r\n{lines}\r\n2\r\nno\r\n0\r\n{lines}\r\n"
    );
    let origin = Origin::http().on("/page", [Reply::raw(chunks)]);
    let answer = gate.connect().exchange(format!(
        "GET {} HTTP/1.1\r\nHost: x\r\nTE: trailers\r\nConnection: TE\r\n\r\n",
        origin.url("/page")
    ));
    answer.is_origins(403, "no");
    assert_eq!(answer.head.all("proxy-status"), ["cdn.example; hit"]);
    assert_eq!(answer.trailers.all("proxy-status"), ["cdn.example; hit"]);
}

#[test]
fn answers_that_clients_take_are_passed_on_though_they_are_odd() {
    let gate = CrawlgateProcess::start();
    let many: String = (0..400).map(|n| format!("X-{n}: {n}\r\n")).collect();
    #[rustfmt::skip] // one row, one case
    let cases = [
        ("a name with a space", "Bad Name: x\r\nX-Good: y\r\n".to_owned(), "x-good"),
        ("a name with a letter beyond ASCII", "X-\u{e9}: x\r\nX-Good: y\r\n".to_owned(), "x-good"),
        ("more than a hundred", many, "x-399"),
    ];
    for (case, fields, kept) in cases {
        let origin = Origin::http().on("/odd", [Reply::with(200, &fields, "odd")]);
        let url = origin.url("/odd");
        let answer = gate.get(&url);
        answer.is_origins(200, "odd");
        assert!(answer.field(kept).is_some(), "{case}: {answer:?}");
        assert_eq!(gate.record_of(&url)["status"], 200, "{case}");
    }
}
