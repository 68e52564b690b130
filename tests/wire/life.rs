//! Start, reload and end of the process. Page: `docs/operating.md`.

use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};
use std::thread;

use rustix::process::Signal;

use crate::opaque::{SWITCH, upgrade, websocket};
use crate::support::{
    CrawlgateProcess, Latch, Origin, PATIENCE, RULES, Reply, Setup, eventually, program, wait_until,
};

/// Runs `serve` with a configuration that must not start, and returns its exit code and stderr.
fn fails(configure: impl FnOnce(&mut Setup)) -> (Option<i32>, String) {
    let mut setup = Setup::new();
    configure(&mut setup);
    let mut child = setup.command("serve").spawn().unwrap();
    let status = eventually("a refusal to start", || child.try_wait().unwrap());
    let mut said = String::new();
    std::io::Read::read_to_string(&mut child.stderr.take().unwrap(), &mut said).unwrap();
    assert!(!said.contains("listening on"), "{said}");
    (status.code(), said)
}

#[test]
fn a_bad_configuration_is_refused_before_anything_listens() {
    let cases = [
        ("robots", "unknwon_key", "1", "unknwon_key"),
        ("robots", "profile", "\"strict\"", "google"),
        ("robots", "hold", "\"soon\"", "hold"),
        ("robots", "size_limit", "1000", "size_limit"),
        ("limits", "connections", "\"many\"", "connections"),
        ("listen", "address", "\"0.0.0.0:0\"", "open"),
        ("listen", "address", "\"[::]:0\"", "allow"),
        ("listen", "address", "\"somewhere\"", "somewhere"),
        ("tls", "extra_roots", "[\"missing.pem\"]", "missing.pem"),
    ];
    for (section, key, value, mention) in cases {
        let (code, said) = fails(|setup| setup.set(section, key, value));
        assert_eq!(code, Some(2), "{key}: {said}");
        assert!(said.contains(mention), "{key}: {said}");
    }
}

#[test]
fn a_signal_without_a_meaning_is_told_and_ignored() {
    let mut gate = CrawlgateProcess::start();
    for (signal, name) in [
        (Signal::USR1, "SIGUSR1"),
        (Signal::USR2, "SIGUSR2"),
        (Signal::ALARM, "SIGALRM"),
        (Signal::IO, "SIGIO"),
    ] {
        gate.signal(signal);
        gate.wait_said(&format!("{name} has no meaning here and is ignored"));
    }
    let origin = Origin::with_rules(RULES);
    assert_eq!(gate.get(&origin.url("/open")).status, 200);
    gate.signal(Signal::QUIT);
    assert_eq!(gate.wait().code(), Some(0), "it ends in order");
}

#[test]
fn a_reload_changes_the_settings_and_a_broken_file_does_not() {
    let mut gate = CrawlgateProcess::start();
    let origin = Origin::with_rules("User-agent: OtherBot\nDisallow: /private\n");
    let url = origin.url("/private");
    assert_eq!(gate.get(&url).status, 200);
    gate.setup.set("agent", "product_tokens", "[\"OtherBot\"]");
    gate.setup.write();
    gate.signal(Signal::HUP);
    gate.until(403, &url);

    let said = gate.said().len();
    gate.setup.set("limits", "connections", "7");
    gate.setup.write();
    gate.signal(Signal::HUP);
    wait_until("what needs a restart", || gate.said()[said..].contains("limits.connections"));

    let said = gate.said().len();
    gate.setup.set("limits", "connections", "4096");
    gate.setup.set("agent", "product_tokens", "[\"Nobody\"]");
    gate.setup.set("robots", "profile", "\"no such profile\"");
    gate.setup.write();
    gate.signal(Signal::HUP);
    wait_until("the complaint", || gate.said()[said..].contains("no such profile"));
    gate.denies(&url);
    assert!(gate.is_running());
}

#[test]
fn requests_during_reloads_are_judged_as_usual() {
    let (gate, origin) = (CrawlgateProcess::start(), Origin::with_rules(RULES));
    thread::scope(|scope| {
        let crawlers: Vec<_> = (0..4)
            .map(|n| {
                let (gate, origin) = (&gate, &origin);
                scope.spawn(move || {
                    let mut wire = gate.connect();
                    for request in 0..50 {
                        assert_eq!(
                            wire.get(&origin.url("/private")).status,
                            403,
                            "crawler {n}, request {request}"
                        );
                        assert_eq!(
                            wire.get(&origin.url("/open")).status,
                            200,
                            "crawler {n}, request {request}"
                        );
                    }
                })
            })
            .collect();
        while !crawlers.iter().all(|crawler| crawler.is_finished()) {
            gate.signal(Signal::HUP);
            thread::park_timeout(std::time::Duration::from_millis(2));
        }
    });
    assert!(origin.seen_but_robots().iter().all(|line| line == "GET /open"));
}

/// Returns an origin that stops in the middle of the body of `/slow`.
fn slow(latch: &Latch) -> Origin {
    Origin::http().on(
        "/slow",
        [Reply::raw("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\npart").wait(latch).send("rest")],
    )
}

#[test]
fn sigterm_lets_transfers_end_and_takes_no_new_ones() {
    let (mut gate, latch) = (CrawlgateProcess::start(), Latch::new());
    let origin = slow(&latch);
    let mut wire = gate.connect();
    wire.send(format!("GET {} HTTP/1.1\r\nHost: x\r\n\r\n", origin.url("/slow")));
    assert_eq!(wire.response_head().status, 200);
    let mut idle = gate.connect();
    idle.passes(&origin.url("/"));
    gate.signal(Signal::TERM);
    wait_until("the listener to close", || TcpStream::connect(gate.address).is_err());
    assert!(idle.is_closed(), "an idle connection outlives the listener");
    assert!(gate.is_running(), "the gate did not wait for the transfer");
    latch.open();
    assert_eq!(wire.read(8), b"partrest");
    assert_eq!(gate.wait().code(), Some(0));
    has!(gate.record_of(&origin.url("/slow")), {"status": 200, "error": null});
}

#[test]
fn a_second_signal_or_the_end_of_the_grace_period_ends_at_once() {
    let latch = Latch::new();
    for grace in ["\"10m\"", "\"1s\""] {
        let mut gate = CrawlgateProcess::with(|setup| setup.set("limits", "drain", grace));
        let origin = slow(&latch);
        let mut wire = gate.sends("GET", &origin.url("/slow"), "\r\n");
        assert_eq!(wire.response_head().status, 200);
        gate.signal(Signal::TERM);
        if grace == "\"10m\"" {
            wait_until("the listener to close", || TcpStream::connect(gate.address).is_err());
            gate.signal(Signal::INT);
        }
        gate.wait();
        has!(gate.record_of(&origin.url("/slow")), {"error": "proxy_stopped"});
    }
    latch.open();
}

#[test]
fn sigterm_lets_a_websocket_end() {
    let mut gate = CrawlgateProcess::start();
    let origin = Origin::http().on("/socket", [Reply::raw(SWITCH).echo()]);
    let mut wire = websocket(&gate, &origin);
    gate.signal(Signal::TERM);
    wait_until("the listener to close", || TcpStream::connect(gate.address).is_err());
    wire.send(b"still");
    assert_eq!(wire.read(5), b"still");
    drop(wire);
    assert_eq!(gate.wait().code(), Some(0));
    has!(gate.record_of(&origin.url("/socket")), {"bytes_out": 5});
}

#[test]
fn a_crawler_that_breaks_its_websocket_off_has_hung_up() {
    let gate = CrawlgateProcess::start();
    let origin = Origin::https().on("/socket", [Reply::raw(SWITCH).echo()]);
    let mut wire = gate.intercept(&origin.authority(), "site.test");
    wire.exchange(upgrade("/socket", &origin.authority())).is(101);
    // Without a close of the WebSocket or of the TLS session.
    drop(wire);
    has!(gate.record_of(&origin.url("/socket")), {"error": "client_closed"});
}

#[test]
fn a_socket_passed_by_systemd_is_used() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let setup = Setup::new();
    let mut command = Command::new("sh");
    command
        .args([
            "-c",
            "exec 3<&0 </dev/null; LISTEN_PID=$$ LISTEN_FDS=1 exec \"$0\" serve --config \"$1\"",
        ])
        .arg(program())
        .arg(setup.write())
        .current_dir(setup.dir())
        .stdin(Stdio::from(OwnedFd::from(listener)))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let gate = CrawlgateProcess::spawn(setup, command);
    assert_eq!(gate.address, address);
    let origin = Origin::with_rules(RULES);
    gate.denies(&origin.url("/private"));
}

#[test]
fn systemd_is_told_of_start_reload_and_end() {
    let setup = Setup::new();
    let path = setup.dir().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let hear = |expected: &str| {
        let mut buffer = [0; 4096];
        loop {
            let count =
                socket.recv(&mut buffer).unwrap_or_else(|why| panic!("no {expected}: {why}"));
            let message = String::from_utf8_lossy(&buffer[..count]).into_owned();
            if message.lines().any(|line| line == expected) {
                return message;
            }
        }
    };
    let mut command = setup.command("serve");
    command.env("NOTIFY_SOCKET", &path);
    let mut gate = CrawlgateProcess::spawn(setup, command);
    hear("READY=1");
    gate.signal(Signal::HUP);
    assert!(hear("RELOADING=1").contains("MONOTONIC_USEC="), "what Type=notify-reload requires");
    hear("READY=1");
    gate.signal(Signal::TERM);
    hear("STOPPING=1");
    assert_eq!(gate.wait().code(), Some(0));
}

#[test]
fn the_private_key_is_ours_alone_and_outlives_a_restart() {
    use std::os::unix::fs::PermissionsExt;
    let mut gate = CrawlgateProcess::start();
    let key = gate.setup.dir().join("ca.key");
    assert_eq!(std::fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
    let before = gate.ca_pem();
    gate.signal(Signal::TERM);
    assert_eq!(gate.wait().code(), Some(0));
    let again = gate.setup.command("serve");
    let setup = std::mem::replace(&mut gate.setup, Setup::new());
    let gate = CrawlgateProcess::spawn(setup, again);
    assert_eq!(gate.ca_pem(), before);
}

#[test]
fn a_websocket_that_is_cut_off_is_recorded_as_cut_off() {
    let mut gate = CrawlgateProcess::with(|setup| setup.set("limits", "drain", "\"1s\""));
    let origin = Origin::http().on("/socket", [Reply::raw(SWITCH).echo()]);
    let _wire = websocket(&gate, &origin);
    gate.signal(Signal::TERM);
    gate.wait();
    has!(gate.record_of(&origin.url("/socket")), {"error": "proxy_stopped"});
}
