//! Servers that read their configuration again under load: old connections end, and requests are on their way.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rustix::process::Signal;
use serde_json::Value;

use super::servers::Server;
use crate::support::{CrawlgateProcess, Wire, wait_until};

/// Requests that the backend has to see between two restarts.
const BETWEEN: usize = 100;

/// Restarts.
const RESTARTS: usize = 5;

/// Crawlers that only read, and crawlers that send forms.
const READERS: usize = 4;
const WRITERS: usize = 3;

/// The outcome of one request: its path, and its status.
type Outcome = (String, u16);

fn inside(gate: &CrawlgateProcess, server: &Server) -> Wire {
    gate.intercept(&server.authority(), "site.test")
}

/// Sends requests, one after the other, until `is_over`.
fn crawl(
    gate: &CrawlgateProcess,
    server: &Server,
    method: &str,
    number: usize,
    is_over: &AtomicBool,
) -> Vec<Outcome> {
    let mut wire = inside(gate, server);
    let mut outcomes = Vec::new();
    let authority = server.authority();
    while !is_over.load(Ordering::SeqCst) {
        let path = format!("/{method}/{number}/{}", outcomes.len());
        let body = match method {
            "POST" => "Content-Length: 4\r\n\r\nform",
            _ => "\r\n",
        };
        wire.send(format!(
            "{method} {path} HTTP/1.1\r\nHost: {authority}\r\nUser-Agent: TestBot/1.0\r\n{body}"
        ));
        let answer = wire.response(method);
        assert!(answer.whole, "{path}: {answer:?}");
        if answer.status == 200 {
            assert_eq!(answer.text(), format!("page {path}"));
        }
        if answer.field("connection").as_deref() == Some("close") {
            wire = inside(gate, server);
        }
        outcomes.push((path, answer.status));
    }
    outcomes
}

fn loses_nothing(server: &Server) {
    let gate = CrawlgateProcess::start();
    let is_over = AtomicBool::new(false);
    let outcomes: Vec<Outcome> = thread::scope(|scope| {
        let crawl = |method, number| {
            let (gate, is_over) = (&gate, &is_over);
            scope.spawn(move || crawl(gate, server, method, number, is_over))
        };
        let readers = (0..READERS).map(|number| crawl("GET", number));
        let writers = (0..WRITERS).map(|number| crawl("POST", number));
        let crawlers: Vec<_> = readers.chain(writers).collect();
        for _ in 0..RESTARTS {
            let goal = server.backend.seen().len() + BETWEEN;
            wait_until("requests between two restarts", || server.backend.seen().len() >= goal);
            server.peer.signal(Signal::HUP);
        }
        let goal = server.backend.seen().len() + BETWEEN;
        wait_until("requests after the last restart", || server.backend.seen().len() >= goal);
        is_over.store(true, Ordering::SeqCst);
        crawlers.into_iter().flat_map(|crawler| crawler.join().unwrap()).collect()
    });
    let mut arrived: HashMap<String, usize> = HashMap::new();
    for seen in server.backend.seen() {
        *arrived.entry(seen.head.word(1)).or_default() += 1;
    }
    let count = |path: &str| arrived.get(path).copied().unwrap_or_default();
    let (forms, pages): (Vec<_>, Vec<_>) =
        outcomes.iter().partition(|(path, _)| path.starts_with("/POST"));
    let records = gate.wait_records(outcomes.len());
    let lost: Vec<_> = pages.iter().filter(|(_, status)| *status != 200).collect();
    let is_of_lost = |record: &&Value| {
        let url = record["url"].as_str().unwrap();
        lost.iter().any(|(path, _)| url.ends_with(path))
    };
    let told: Vec<_> = records.iter().filter(is_of_lost).collect();
    assert!(lost.is_empty(), "of {} pages, lost: {told:#?}", pages.len());
    let failed = forms.iter().filter(|(_, status)| *status != 200).count();
    eprintln!("{} pages, {} forms, of which {failed} failed", pages.len(), forms.len());
    for (path, status) in forms {
        // A form that was lost may have been processed, and is not sent again.
        assert!(*status == 200 || *status == 502, "{path}: {status}");
        let most = count(path);
        assert!(
            most <= 1 && (most == 1 || *status != 200),
            "{path}: {status}, arrived {most} times"
        );
    }
    let by_http2 = records.iter().filter(|record| record["upstream_version"] == "2").count();
    assert!(by_http2 * 10 >= outcomes.len() * 9, "{by_http2} of {}", outcomes.len());
}

#[test]
fn nginx_starts_anew_under_load() {
    if let Some(server) = Server::nginx() {
        loses_nothing(&server);
    }
}

#[test]
fn nghttpx_starts_anew_under_load() {
    if let Some(server) = Server::nghttpx("h2") {
        loses_nothing(&server);
    }
}
