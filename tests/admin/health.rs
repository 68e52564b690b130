//! The health endpoints: liveness and readiness.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::process::{Child, Stdio};

use serde_json::json;

use crate::support::admin_gate::json;
use crate::support::{
    AdminGate, CrawlgateProcess, Latch, Origin, Reply, Setup, Wire, eventually, wait_until,
};
use rustix::process::Signal;

#[test]
fn a_gate_that_listens_and_records_is_ready() {
    let gate = AdminGate::open();
    let live = gate.get("/live");
    assert_eq!((live.status, json(&live)), (200, json!({"live": true})));
    // The listeners are announced a moment before the console knows of them.
    let ready = eventually("the gate to be ready", || {
        let answer = gate.get("/ready");
        (answer.status == 200).then(|| json(&answer))
    });
    assert_eq!(ready["ready"], true, "{ready}");
    let names: Vec<&str> = ready["checks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|check| check["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["listeners", "draining", "store", "log", "ca", "fleet"]);
    let (code, told, error) = gate.beside("ready", &[]);
    assert_eq!((code, &*told, &*error), (Some(0), "ready\n", ""));
}

#[test]
fn a_health_check_needs_neither_console_nor_token() {
    let setup = Setup::new();
    let told = |setup: &Setup| {
        let output = setup.command("ready").output().unwrap();
        let told = String::from_utf8(output.stdout).unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        (output.status.code(), told + &error)
    };
    let (code, why) = told(&setup);
    assert_eq!(code, Some(1), "{why}");
    assert!(why.starts_with("not ready: no crawlgate listens at "), "{why}");
    let gate = CrawlgateProcess::with(|setup| {
        setup.set("admin", "address", "\"\"");
        setup.set("admin", "token_file", "\"admin.token\"");
    });
    assert_eq!(told(&gate.setup), (Some(0), "ready\n".to_owned()));
    drop(gate);
    let mut setup = Setup::new();
    setup.set("admin", "socket", "\"\"");
    let (code, why) = told(&setup);
    assert_eq!(code, Some(2), "{why}");
    says!(why, "[admin] socket is \"\"");
}

#[test]
fn a_gate_with_unix_sockets_alone_is_ready() {
    struct Killed(Child);
    impl Drop for Killed {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
    let mut setup = Setup::new();
    setup.set("listen", "address", "[]");
    setup.set("admin", "address", "\"127.0.0.1:0\"");
    setup.tables("[[listener]]\nname = 'local'\nunix = 'gate.sock'\n");
    let said = setup.dir().join("said");
    let mut command = setup.command("serve");
    let command = command.stdout(Stdio::null()).stderr(File::create(&said).unwrap());
    let _gate = Killed(command.spawn().unwrap());
    let address: SocketAddr = eventually("the gate to listen", || {
        let said = fs::read_to_string(&said).unwrap();
        said.contains("gate.sock\n").then_some(())?;
        let (_, rest) = said.split_once("console: http://")?;
        rest.split_once('/')?.0.parse().ok()
    });
    let get = |target: &str| {
        let ask = format!("GET {target} HTTP/1.1\r\nHost: {address}\r\n\r\n");
        Wire::connect(address).exchange(ask)
    };
    // The log has the message before the console shows it.
    wait_until("it to be ready", || get("/ready").status == 200);
    let listening = &json(&get("/api/v1/status"))["listening"];
    let place = listening[0].as_str().unwrap_or_default();
    assert!(place.ends_with("gate.sock"), "{listening}");
    let setup = get("/setup").text();
    says!(setup, "gate.sock");
    assert!(!setup.contains("8118"), "nothing listens there: {setup}");
}

#[test]
fn a_gate_that_is_about_to_end_lives_and_is_not_ready() {
    let latch = Latch::new();
    let origin = Origin::with_rules("").on(
        "/slow",
        [Reply::silent().wait(&latch).send("HTTP/1.1 204 No\r\nConnection: close\r\n\r\n")],
    );
    let mut gate = AdminGate::open();
    // A request in progress delays its end.
    let mut wire = gate.connect();
    let url = origin.url("/slow");
    wire.send(format!("GET {url} HTTP/1.1\r\nHost: x\r\nUser-Agent: TestBot\r\n\r\n"));
    latch.arrivals(1);
    gate.signal(Signal::TERM);
    gate.until(503, "/ready");
    let ready = json(&gate.get("/ready"));
    let failed: Vec<&str> = ready["checks"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|check| check["ok"] == false)
        .map(|check| check["name"].as_str().unwrap())
        .collect();
    assert_eq!(failed, ["draining"], "{ready}");
    let (code, told, error) = gate.beside("ready", &[]);
    let why = "not ready: draining: no new requests are taken: the process is about to end\n";
    assert_eq!((code, &*told, &*error), (Some(1), why, ""));
    assert_eq!(gate.get("/live").status, 200);
    latch.open();
    assert_eq!(wire.response("GET").status, 204);
    assert!(gate.process.wait().success());
    assert!(std::net::TcpStream::connect(gate.address).is_err(), "it answers no more");
}

#[test]
fn a_stranger_may_ask_for_health_and_for_nothing_else() {
    let gate = AdminGate::with(|setup| setup.set("admin", "token_file", "\"admin.token\""));
    for target in ["/live", "/ready"] {
        let fields = "Host: balancer.example\r\n";
        let answer = gate.ask("GET", target, fields, "");
        assert_eq!(answer.status, 200, "{target}");
        // In the form that the oldest load balancers use.
        let mut wire = Wire::connect(gate.address);
        let old = wire.exchange(format!("GET {target} HTTP/1.0\r\n\r\n"));
        assert_eq!(old.status, 200, "{target}, HTTP/1.0");
    }
    assert_eq!(gate.ask("POST", "/live", "", "").status, 401);
    assert_eq!(gate.get("/api/v1/status").status, 401);
}
