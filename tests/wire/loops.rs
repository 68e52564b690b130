//! Requests that come back to the gate through a second instance. Page: `docs/messages.md`.

use std::net::{Shutdown, TcpListener, TcpStream};
use std::thread;

use serde_json::Value;

use crate::support::{CrawlgateProcess, Setup, wait_until};

#[test]
fn a_loop_through_a_second_instance_ends() {
    a_loop_ends(true);
}

#[test]
fn a_loop_ends_also_where_messages_do_not_name_us() {
    a_loop_ends(false);
}

#[track_caller]
fn a_loop_ends(via: bool) {
    // The first instance sends everything to the second, and the second to the first. The listener exists before either
    // runs, so that its address is known.
    let door = TcpListener::bind("127.0.0.1:0").unwrap();
    let by = |port: u16| {
        move |setup: &mut Setup| {
            let url = format!("\"http://127.0.0.1:{port}\"");
            setup.set("upstream", "via", &via.to_string());
            setup.set("[upstream.proxy]", "hosts", "[\"*\"]");
            setup.set("[upstream.proxy]", "url", &url);
        }
    };
    let first = CrawlgateProcess::with(by(door.local_addr().unwrap().port()));
    let second = CrawlgateProcess::with(by(first.address.port()));
    let target = second.address;
    thread::spawn(move || {
        for stream in door.incoming().flatten() {
            let onward = TcpStream::connect(target).unwrap();
            for (mut from, mut to) in
                [(stream.try_clone().unwrap(), onward.try_clone().unwrap()), (onward, stream)]
            {
                thread::spawn(move || {
                    // If one side ends, both end.
                    let _ = std::io::copy(&mut from, &mut to);
                    let _ = to.shutdown(Shutdown::Write);
                });
            }
        }
    });
    let answer = first.get("http://far.test/open");
    first.unreachable(&answer);
    let loops = |gate: &CrawlgateProcess| {
        let records = gate.records();
        let looped = |record: &&Value| record["error"] == "proxy_loop_detected";
        records.iter().filter(looped).count()
    };
    wait_until("one instance to detect the loop", || loops(&first) + loops(&second) > 0);
    let connections = |gate: &CrawlgateProcess| gate.records().len();
    assert!(
        connections(&first) + connections(&second) < 10,
        "the request went round more than once"
    );
}
