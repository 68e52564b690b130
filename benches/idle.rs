//! The memory of an idle connection: `cargo bench --bench idle`.
//!
//! Crawlers open connections through a crawlgate that has just started, ask for one page on each, and keep them open. The
//! measure is what crawlgate's resident memory has grown by, over the number of connections. The page is asked for once
//! before, so that what all connections share is there. The requests follow each other: one connection to the origin
//! serves them all, and its memory is no part of the figure.
//!
//! `IDLE_CONNECTIONS` (1000) sets the number.

#![allow(
    dead_code,
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a measurement reads the clock, prints, and ends loudly where it cannot be set up"
)]

mod lab;

use std::io::Write as _;
use std::path::Path;

use lab::crawler::{Crawlers, Way, ask_http2};
use lab::origin::ALLOWED;
use lab::process::Process;
use lab::{Lab, word};

fn main() {
    match lab::role().as_deref() {
        Some("origin") => lab::origin::serve(Path::new(&word(2))),
        Some("load") => load(),
        _ if lab::is_asked_to_measure() => measure(),
        _ => {}
    }
}

fn measure() {
    let connections = lab::setting("IDLE_CONNECTIONS", 1_000);
    let lab = Lab::new(None);
    println!("| {connections} idle connections | KiB each |");
    println!("|---|---:|");
    let ways = [
        ("plain HTTP/1.1", "http", lab.ports.http),
        ("intercepted HTTP/1.1", "https", lab.ports.https),
        ("intercepted HTTP/2", "http2", lab.ports.http2),
    ];
    for (name, protocol, port) in ways {
        let tables = format!("[limits]\nconnections = {}\n", connections + 16);
        let (gate, gate_port) = lab.crawlgate_with(None, protocol, "denied", &[], &tables);
        let words = [
            "--role=load".to_owned(),
            gate_port.to_string(),
            protocol.to_owned(),
            port.to_string(),
            connections.to_string(),
            lab.file("origin-ca.pem").display().to_string(),
            lab.file("ca.crt").display().to_string(),
        ];
        let mut load = Process::part(&words, None);
        assert_eq!(load.line().trim(), "one");
        let before = gate.resident();
        load.go();
        assert_eq!(load.line().trim(), "all");
        let after = gate.resident();
        let each = after.saturating_sub(before) as f64 / 1024.0 / connections as f64;
        println!("| {name} | {each:.1} |");
    }
}

/// Runs the crawlers: asks once, waits for a line, asks once on each connection, and keeps all open until it is ended.
fn load() {
    let way = Way::Proxy(word(2).parse().unwrap());
    let protocol = word(3);
    let port: u16 = word(4).parse().unwrap();
    let connections: usize = word(5).parse().unwrap();
    let authorities = [word(6), word(7)];
    let authorities = authorities.each_ref().map(Path::new);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let crawlers = Crawlers::new(way, &authorities);
        let url = format!("https://127.0.0.1:{port}{ALLOWED}");
        let secure = protocol == "https";
        let request = crawlers.request(secure, "127.0.0.1", port, ALLOWED);
        let (mut http1, mut http2) = (Vec::new(), Vec::new());
        for number in 0..=connections {
            if protocol == "http2" {
                let mut streams = crawlers.connect_http2("127.0.0.1", port).await.unwrap();
                assert_eq!(ask_http2(&mut streams, &url).await.unwrap(), 200);
                http2.push(streams);
            } else {
                let mut crawler = crawlers.connect(secure, "127.0.0.1", port).await.unwrap();
                assert_eq!(crawler.ask(&request).await.unwrap().status, 200);
                http1.push(crawler);
            }
            match number {
                0 => tell("one"),
                _ if number == connections => tell("all"),
                _ => {}
            }
        }
    });
}

/// Prints a word, and waits for a line.
fn tell(word: &str) {
    println!("{word}");
    std::io::stdout().flush().unwrap();
    std::io::stdin().read_line(&mut String::new()).unwrap();
}
