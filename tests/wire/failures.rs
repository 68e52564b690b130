//! Origins that fail after their robots.txt was read: a 502 or 504 of ours that says why.

use serde_json::json;

use crate::support::{Gate, Latch, Origin, Reply};

#[test]
fn failures_of_an_origin_are_ours_to_name() {
    let gate = Gate::with(|setup| {
        setup.set("upstream", "response_timeout", "\"1s\"");
    });
    let never = Latch::new();
    let cases = [
        (
            "reset",
            Reply::silent().reset(),
            502,
            "connection_terminated",
        ),
        (
            "closed",
            Reply::silent().close(),
            502,
            "connection_terminated",
        ),
        (
            "half a head",
            Reply::raw("HTTP/1.1 200 OK\r\nX: ").close(),
            502,
            "connection_terminated",
        ),
        (
            "no HTTP",
            Reply::raw("SSH-2.0-x\r\n\r\n").close(),
            502,
            "http_protocol_error",
        ),
        (
            "a bad field",
            Reply::raw("HTTP/1.1 200 OK\r\nBad Field: x\r\n\r\n").close(),
            502,
            "http_protocol_error",
        ),
        (
            "silence",
            Reply::silent().wait(&never),
            504,
            "http_response_timeout",
        ),
        (
            "half a head, then silence",
            Reply::raw("HTTP/1.1 200 OK\r\nX: ").wait(&never),
            504,
            "http_response_timeout",
        ),
    ];
    for (case, reply, status, error) in cases {
        for origin in [Origin::http(), Origin::https()] {
            let origin = origin.on("/page", [reply.clone()]);
            let answer = gate.request("POST", &origin.url("/page"), "Content-Length: 0\r\n");
            assert_eq!(
                (answer.status, answer.is_ours()),
                (status, true),
                "{case}: {answer:?}"
            );
            let said = answer.field("proxy-status").unwrap();
            let other_name =
                error == "connection_terminated" && said.contains("error=http_response_incomplete");
            assert!(
                said.contains(&format!("error={error}")) || other_name,
                "{case}: {said}"
            );
            let record = gate.record_of(&origin.url("/page"));
            assert_eq!(
                (&record["verdict"], &record["status"]),
                (&json!("allow"), &json!(status)),
                "{case}: {record}"
            );
            let named = record["error"].as_str().unwrap();
            assert!(
                said.contains(&format!("error={named}")),
                "{case}: {said} {record}"
            );
            let problem = answer.problem();
            assert_eq!(
                (&problem["status"], &problem["id"]),
                (&json!(status), &record["id"]),
                "{case}: {problem}"
            );
        }
    }
    never.open();
}

#[test]
fn an_origin_that_is_gone_is_a_502() {
    let gate = Gate::start();
    let origin = Origin::http()
        .on("/robots.txt", [Reply::ok("").close()])
        .on("/1", [Reply::ok("page").close()]);
    gate.get(&origin.url("/1")).is_origins(200, "page");
    origin.stop();
    let answer = gate.get(&origin.url("/2"));
    assert_eq!(answer.status, 502, "{answer:?}");
    assert!(
        answer
            .field("proxy-status")
            .unwrap()
            .contains("error=connection_refused"),
        "{answer:?}"
    );
    assert_eq!(
        gate.record_of(&origin.url("/2"))["error"],
        "connection_refused"
    );
}

#[test]
fn a_pooled_connection_that_the_origin_closed_is_no_failure_of_the_next_request() {
    let gate = Gate::start();
    let origin = Origin::http().on("/1", [Reply::ok("page").reset()]);
    for _ in 0..10 {
        gate.get(&origin.url("/1")).is_origins(200, "page");
        gate.get(&origin.url("/2")).is_origins(200, "page /2");
    }
}

#[test]
fn upstream_connections_are_shared_between_crawlers() {
    let gate = Gate::start();
    for origin in [Origin::http(), Origin::https()] {
        for n in 0..10 {
            let path = format!("/{n}");
            gate.get(&origin.url(&path))
                .is_origins(200, &format!("page {path}"));
        }
        assert!(
            origin.connections() <= 2,
            "{} connections for ten requests in a row",
            origin.connections()
        );
    }
}
