//! Answers before the answer: `100 Continue` and other interim responses. Page: `docs/messages.md`.

use crate::fields::post;
use crate::support::{CrawlgateProcess, Latch, Origin, Reply};

#[test]
fn an_expectation_is_met_by_the_origin() {
    let gate = CrawlgateProcess::start();
    let origin = Origin::http()
        .on(
            "/upload",
            [Reply::raw("HTTP/1.1 100 Continue\r\n\r\n")
                .read_body()
                .send("HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n")],
        )
        .on("/refuses", [Reply::status(417, "no").ignoring_body().close()]);
    let mut wire = gate.connect();
    wire.send(post(&origin.url("/upload"), "Expect: 100-continue\r\nContent-Length: 4\r\n"));
    // The body follows only after the interim response, which thus comes from the origin.
    assert_eq!(wire.interim().word(1), "100");
    wire.send("body");
    assert_eq!(wire.response("POST").status, 201);
    assert_eq!(origin.last("/upload").body, b"body");
    assert_eq!(origin.last("/upload").head.field("expect").as_deref(), Some("100-continue"));

    let mut wire = gate.connect();
    wire.send(post(&origin.url("/refuses"), "Expect: 100-continue\r\nContent-Length: 4\r\n"));
    let answer = wire.response("POST");
    assert_eq!((answer.status, answer.interim.len()), (417, 0), "{answer:?}");
}

#[test]
fn an_expectation_that_the_origin_ignores_does_not_hold_the_body_for_ever() {
    let (gate, origin) = (CrawlgateProcess::start(), Origin::http());
    let mut wire = gate.connect();
    wire.send(post(&origin.url("/upload"), "Expect: 100-continue\r\nContent-Length: 4\r\n"));
    assert_eq!(wire.interim().word(1), "100");
    wire.send("body");
    wire.response("POST").is_origins(200, "page /upload");
    assert_eq!(origin.last("/upload").body, b"body");
}

#[test]
fn a_denied_upload_gets_no_100_continue() {
    let gate = CrawlgateProcess::start();
    let origin = Origin::with_rules("User-agent: *\nDisallow: /upload\n");
    let mut wire = gate.connect();
    wire.send(post(&origin.url("/upload"), "Expect: 100-continue\r\nContent-Length: 4\r\n"));
    let answer = wire.response("POST");
    assert_eq!(answer.interim.len(), 0, "{answer:?}");
    answer.field_is("connection", Some("close"));
    gate.denied(&answer);
}

#[test]
fn interim_responses_pass() {
    // The gate checks an idle connection once in a while; the interim response must not wait for that.
    let gate = CrawlgateProcess::with(|setup| setup.set("limits", "idle_timeout", "\"1h\""));
    let early = "HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\n\r\n";
    let latch = Latch::new();
    let reply =
        Reply::raw(early).wait(&latch).send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npage");
    let origin = Origin::http().on("/page", [reply]);
    let mut wire = gate.connect();
    wire.send(format!("GET {} HTTP/1.1\r\nHost: x\r\n\r\n", origin.url("/page")));
    let interim = wire.interim();
    interim.field_is("link", Some("</style.css>; rel=preload"));
    latch.open();
    wire.response("GET").is_origins(200, "page");
}
