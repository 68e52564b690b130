//! The kinds of listeners, and the facts that a connection tells about its client before any request.
//! Page: `docs/clients.md`.

use std::fs;
use std::io::{BufReader, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::Signal;

use crate::support::{
    CrawlgateProcess, Origin, Response, Setup, Wire, eventually, program, wait_until,
};

/// Starts a gate with these tables; returns the addresses of its listeners, those of `[listen]` first.
pub fn gate_with(tables: &str, listeners: usize) -> (CrawlgateProcess, Vec<String>) {
    gate_in(tables, listeners, |_| ())
}

pub fn gate_in(
    tables: &str,
    listeners: usize,
    configure: impl FnOnce(&mut Setup),
) -> (CrawlgateProcess, Vec<String>) {
    let gate = CrawlgateProcess::with(|setup| {
        setup.tables(tables);
        configure(setup);
    });
    let places = listens_on(&gate, listeners);
    (gate, places)
}

pub fn at(place: &str) -> Wire {
    Wire::connect(place.parse::<SocketAddr>().unwrap())
}

pub fn port(place: &str) -> u16 {
    place.parse::<SocketAddr>().unwrap().port()
}

/// Returns the messages about a wrong set-up.
pub fn refused(configure: impl FnOnce(&mut Setup)) -> String {
    let mut setup = Setup::new();
    configure(&mut setup);
    let output = setup.command("serve").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Returns the addresses that a gate has said it listens on.
fn listens_on(gate: &CrawlgateProcess, count: usize) -> Vec<String> {
    eventually("the listeners", || {
        let said = gate.said();
        let whole = said.rfind('\n').map_or("", |end| &said[..end]);
        let places = whole.lines().filter_map(|line| line.split("listening on ").nth(1));
        let places: Vec<String> = places.map(str::to_owned).collect();
        (places.len() == count).then_some(places)
    })
}

#[test]
fn an_option_names_the_addresses_and_holds_after_a_reload() {
    let mut setup = Setup::new();
    // The file's address is another one, and so is the variable's.
    setup.set("listen", "address", "\"127.0.0.2:0\"");
    let mut command = setup.command("serve");
    command.args(["--listen", "127.0.0.3:0", "--listen", "[::1]:0"]);
    command.env("CRAWLGATE_LISTEN__ADDRESS", "127.0.0.4:0");
    let mut gate = CrawlgateProcess::spawn(setup, command);
    let places = listens_on(&gate, 2);
    assert!(places[0].starts_with("127.0.0.3:"), "{places:?}");
    assert!(places[1].starts_with("[::1]:"), "{places:?}");
    let origin = Origin::http();
    for place in &places {
        at(place).get(&origin.url("/1")).is_origins(200, "page /1");
    }
    let other = |setup: &mut Setup| setup.set("listen", "address", "\"127.0.0.5:0\"");
    gate.reload(other);
    assert!(!gate.said().contains("need a restart"), "{}", gate.said());
    at(&places[0]).get(&origin.url("/2")).is_origins(200, "page /2");
}

#[test]
fn a_reload_tells_the_faults_that_a_restart_would_meet() {
    let mut gate = CrawlgateProcess::start();
    let configured = |setup: &mut Setup| {
        setup.tables("[[listener]]\nname = \"two\"\naddress = \"127.0.0.1:0\"\ntls = true\ncert = \"two.crt\"\nkey = \"two.key\"\n");
    };
    gate.reload_until(configured, "need a restart");
    gate.wait_said("a restart would meet this fault");
    gate.wait_said("two.crt");
}

#[test]
fn an_address_of_the_option_is_checked_as_the_files() {
    let setup = Setup::new();
    let said = |address: &str| {
        let mut command = setup.command("serve");
        let output = command.args(["--listen", address]).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let exposed = said("0.0.0.0:0");
    assert!(exposed.starts_with("crawlgate: --listen: [listen] address"), "{exposed}");
    says!(exposed, "allow");
    let none = said("site.example");
    says!(none, "--listen <ADDRESS>");
}

#[test]
fn a_listener_of_its_own_serves_beside_the_simple_ones_and_is_never_dialled() {
    let tables = "[[listener]]\nname = 'fleet'\naddress = '127.0.0.1:0'\n";
    let (gate, places) = gate_with(tables, 2);
    let origin = Origin::http();
    for (path, place) in [("/1", &places[0]), ("/2", &places[1])] {
        let url = origin.url(path);
        at(place).get(&url).is_origins(200, &format!("page {path}"));
        let record = gate.record_of(&url);
        assert!(record["client"]["address"].is_string(), "{record}");
    }
    for place in &places {
        gate.refuses(&format!("http://{place}/"), 403, "address_prohibited");
    }
}

#[test]
fn without_a_simple_address_there_are_only_listeners() {
    let tables = "[[listener]]\nname = 'fleet'\naddress = '127.0.0.1:0'\n";
    let (_gate, places) = gate_in(tables, 1, |setup| setup.set("listen", "address", "[]"));
    let origin = Origin::http();
    at(&places[0]).get(&origin.url("/")).is_origins(200, "page /");
}

fn ask_by(socket: &Path, url: &str) -> Response {
    let mut stream = UnixStream::connect(socket).unwrap();
    write!(stream, "GET {url} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut reader = BufReader::new(stream);
    Response::read(&mut reader, "GET").unwrap().unwrap()
}

#[test]
fn a_unix_socket_serves_the_users_that_its_permissions_admit() {
    let tables = "[[listener]]\nname = 'local'\nunix = 'run/gate.sock'\nmode = '0660'\n";
    let (mut gate, places) = gate_with(tables, 2);
    let socket = gate.setup.dir().join("run/gate.sock");
    assert_eq!(Path::new(&places[1]), socket);
    let mode = fs::metadata(&socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o660);
    let origin = Origin::with_rules("User-agent: *\nDisallow: /private\n");
    ask_by(&socket, &origin.url("/page")).is_origins(200, "page /page");
    has!(gate.denied(&ask_by(&socket, &origin.url("/private"))), {"client.address": "127.0.0.1:0"});
    // A second instance does not take the socket away.
    let mut setup = Setup::new();
    setup.tables(&tables.replace("run/gate.sock", &socket.display().to_string()));
    let second = setup.command("serve").output().unwrap();
    let said = String::from_utf8_lossy(&second.stderr);
    says!(said, "another process listens there");
    // A socket that a killed process has left is replaced.
    gate.restart(Signal::KILL);
    wait_until("the socket to answer", || gate.said().contains("gate.sock"));
    ask_by(&socket, &origin.url("/again")).is_origins(200, "page /again");
    gate.signal(Signal::TERM);
    gate.wait();
    assert!(!socket.exists(), "its file is left");
}

#[test]
fn a_socket_that_systemd_passes_by_name_belongs_to_that_listener() {
    let mut setup = Setup::new();
    setup.tables("[[listener]]\nname = 'local'\nunix = 'unused.sock'\n");
    let (tcp, path) = (TcpListener::bind("127.0.0.1:0").unwrap(), setup.dir().join("passed.sock"));
    let address = tcp.local_addr().unwrap();
    let unix = UnixListener::bind(&path).unwrap();
    let mut command = Command::new("sh");
    command
        .args([
            "-c",
            "exec 3<&0 4>&1 </dev/null >/dev/null; export LISTEN_PID=$$ LISTEN_FDS=2 LISTEN_FDNAMES=any:local; \
             exec \"$0\" serve --config \"$1\"",
        ])
        .arg(program())
        .arg(setup.write())
        .current_dir(setup.dir())
        .stdin(Stdio::from(OwnedFd::from(tcp)))
        .stdout(Stdio::from(OwnedFd::from(unix)))
        .stderr(Stdio::piped());
    let gate = CrawlgateProcess::spawn(setup, command);
    assert_eq!(gate.address, address);
    gate.wait_said("passed.sock");
    let origin = Origin::http();
    gate.passes(&origin.url("/1"));
    ask_by(&path, &origin.url("/2")).is_origins(200, "page /2");
    assert!(!gate.setup.dir().join("unused.sock").exists());
    gate.signal(Signal::TERM);
    wait_until("the process to end", || UnixStream::connect(&path).is_err());
    assert!(path.exists(), "a file that is systemd's was taken away");
}

#[test]
fn all_sockets_that_systemd_passes_by_one_name_belong_to_that_listener() {
    let mut setup = Setup::new();
    setup.tables("[[listener]]\nname = 'local'\nunix = 'unused.sock'\n");
    let paths = ["one.sock", "two.sock"].map(|name| setup.dir().join(name));
    let [one, two] = paths.each_ref().map(|path| OwnedFd::from(UnixListener::bind(path).unwrap()));
    let mut command = Command::new("sh");
    command
        .args([
            "-c",
            "exec 3<&0 4>&1 </dev/null >/dev/null; export LISTEN_PID=$$ LISTEN_FDS=2 LISTEN_FDNAMES=local:local; \
             exec \"$0\" serve --config \"$1\"",
        ])
        .arg(program())
        .arg(setup.write())
        .current_dir(setup.dir())
        .stdin(Stdio::from(one))
        .stdout(Stdio::from(two))
        .stderr(Stdio::piped());
    let gate = CrawlgateProcess::spawn(setup, command);
    gate.wait_said("two.sock");
    let origin = Origin::http();
    for path in &paths {
        ask_by(path, &origin.url("/")).is_origins(200, "page /");
    }
}
