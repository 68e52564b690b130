//! Other proxies that take part in the measurement by HTTP/2.

use std::net::TcpListener;
use std::process::Command;

use crate::lab::Lab;
use crate::lab::process::Process;

/// A proxy under way.
pub struct Proxy {
    pub process: Process,
    pub port: u16,
    /// Its requests name it as their origin.
    pub is_reverse: bool,
}

/// Starts nghttpx before the origin that speaks HTTP/2, if it is installed.
pub fn nghttpx(lab: &Lab, cpus: Option<&str>) -> Option<Proxy> {
    let found = Command::new("nghttpx").arg("--version").output();
    if !found.is_ok_and(|output| output.status.success()) {
        return None;
    }
    // It takes no port 0.
    let held = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = held.local_addr().unwrap().port();
    drop(held);
    let words = [
        "--conf=/dev/null".to_owned(),
        "--no-ocsp".to_owned(),
        "--single-process".to_owned(),
        "--workers=1".to_owned(),
        "--log-level=ERROR".to_owned(),
        format!("--frontend=127.0.0.1,{port}"),
        format!("--backend=127.0.0.1,{};;proto=h2;tls", lab.ports.http2),
        "--insecure".to_owned(),
        lab.file("origin.key").display().to_string(),
        lab.file("origin.crt").display().to_string(),
    ];
    let mut process = Process::start("nghttpx", &words, cpus);
    let port = process.listening_port();
    Some(Proxy {
        process,
        port,
        is_reverse: true,
    })
}

/// Starts the peer that is named, if any, with the CA of crawlgate.
pub fn named(lab: &Lab, cpus: Option<&str>) -> Option<Proxy> {
    let program = std::env::var("EXCHANGE_PEER").ok()?;
    let file = |name: &str| lab.file(name).display().to_string();
    let words = [
        "--port".to_owned(),
        "0".to_owned(),
        "--ca".to_owned(),
        file("ca.crt"),
        "--ca-key".to_owned(),
        file("ca.key"),
        "--origin-ca".to_owned(),
        file("origin-ca.pem"),
    ];
    let mut process = Process::start(&program, &words, cpus);
    let port = process.listening_port();
    Some(Proxy {
        process,
        port,
        is_reverse: false,
    })
}

/// Starts the program of another build of crawlgate that is named, if any.
pub fn other_build(lab: &Lab, cpus: Option<&str>) -> Option<Proxy> {
    let program = std::env::var("EXCHANGE_BUILD").ok()?;
    let (process, port) = lab.crawlgate_of_build(&program, cpus);
    Some(Proxy {
        process,
        port,
        is_reverse: false,
    })
}
