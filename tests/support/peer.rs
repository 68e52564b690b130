//! Real proxies and servers beside the gate: started on a free port, and ended with their test.

#![allow(clippy::print_stderr, reason = "a test names what it skips")]

use std::fs;
use std::io::Read as _;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::{Response, Wire, eventually};

/// Returns the program to run, if it is installed.
pub(crate) fn program(name: &str) -> Option<String> {
    let variable = format!("CRAWLGATE_{}", name.to_uppercase().replace('-', "_"));
    let chosen = std::env::var(variable).ok();
    let candidates = chosen
        .map_or_else(|| vec![name.to_owned(), format!("/usr/sbin/{name}")], |chosen| vec![chosen]);
    let works = |program: &&String| {
        let output = Command::new(program).arg("-v").output();
        output.is_ok_and(|output| output.status.success())
    };
    let found = candidates.iter().find(works).cloned();
    if found.is_none() {
        let required = std::env::var("CRAWLGATE_REQUIRE_CLIENTS").is_ok_and(|value| value == "1");
        assert!(!required, "{name} is missing ({candidates:?})");
        eprintln!("skipped: {name} is missing ({candidates:?})");
    }
    found
}

/// Returns the interpreter that has these modules; `None` if none is installed, which `CRAWLGATE_REQUIRE_CLIENTS` forbids.
/// `package` is the name to install.
pub(crate) fn python_with(modules: &str, package: &str) -> Option<String> {
    let python = std::env::var("CRAWLGATE_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let import = format!("import {modules}");
    let found = Command::new(&python).args(["-c", &import]).output();
    if found.is_ok_and(|output| output.status.success()) {
        return Some(python);
    }
    let required = std::env::var("CRAWLGATE_REQUIRE_CLIENTS").is_ok_and(|value| value == "1");
    let missing = format!("Python with {package} (CRAWLGATE_PYTHON) is missing");
    assert!(!required, "{missing}");
    eprintln!("skipped: {missing}");
    None
}

/// Returns a free port below those that the kernel picks. The other tests take and leave these all the time, for listeners
/// and for connections.
pub(crate) fn free_port() -> u16 {
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap();
    let lowest = range.split_whitespace().next().unwrap();
    let lowest = lowest.parse::<u16>().unwrap();
    eventually("a free port", || {
        let mut random = [0; 2];
        aws_lc_rs::rand::fill(&mut random).unwrap();
        let port = 5_000 + u16::from_be_bytes(random) % (lowest - 5_000);
        TcpListener::bind(("0.0.0.0", port)).is_ok().then_some(port)
    })
}

/// A proxy that listens.
pub(crate) struct Peer {
    child: Child,
    address: SocketAddr,
    dir: tempfile::TempDir,
}

impl Peer {
    /// Starts a proxy with the file that `configure` writes for a port and a directory.
    #[track_caller]
    pub(crate) fn start(
        program: &str,
        arguments: &[&str],
        configure: impl Fn(u16, &Path) -> String,
    ) -> Peer {
        // Another process may still take the port before the proxy does.
        for _ in 0..5 {
            let dir = tempfile::tempdir().unwrap();
            // Squid changes its user when root starts it.
            fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
            let port = free_port();
            let file = dir.path().join("proxy.conf");
            fs::write(&file, configure(port, dir.path())).unwrap();
            let log = fs::File::create(dir.path().join("stderr")).unwrap();
            let child = Command::new(program)
                .args(arguments)
                .arg(&file)
                .current_dir(dir.path())
                .stdin(Stdio::null())
                .stdout(log.try_clone().unwrap())
                .stderr(log)
                .spawn()
                .unwrap();
            let address = SocketAddr::from(([127, 0, 0, 1], port));
            let mut peer = Peer { child, address, dir };
            let is_up = eventually(&format!("{program} to listen"), || {
                match peer.child.try_wait().unwrap() {
                    Some(_) => Some(false),
                    None => TcpStream::connect(address).is_ok().then_some(true),
                }
            });
            if is_up {
                return peer;
            }
            eprintln!("{program} ended at once: {}", peer.said());
        }
        panic!("{program} does not start");
    }

    /// Returns the port that it listens on.
    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    /// Returns its directory.
    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        if let Some(id) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(id, signal);
        }
    }

    /// Returns the proxy's output.
    pub(crate) fn said(&self) -> String {
        let mut said = String::new();
        if let Ok(mut file) = fs::File::open(self.dir.path().join("stderr")) {
            drop(file.read_to_string(&mut said));
        }
        said
    }

    /// Sends a request in absolute-form through the proxy.
    #[track_caller]
    pub(crate) fn request(&self, method: &str, url: &str, fields: &str) -> Response {
        let authority = url.split('/').nth(2).unwrap();
        let mut wire = Wire::connect(self.address);
        wire.exchange(format!(
            "{method} {url} HTTP/1.1\r\nHost: {authority}\r\nUser-Agent: TestBot/1.0\r\n{fields}\r\n"
        ))
    }

    /// Sends a CONNECT through the proxy; returns the answer and the connection.
    #[track_caller]
    pub(crate) fn tunnel(&self, authority: &str) -> (Response, Wire) {
        let mut wire = Wire::connect(self.address);
        (wire.tunnel(authority), wire)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // A clean end, so that workers and helpers end as well.
        self.signal(Signal::TERM);
        drop(self.child.wait());
        if std::thread::panicking() {
            eprintln!("--- the other proxy ---\n{}", self.said());
        }
    }
}
