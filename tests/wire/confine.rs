//! `crawlgate run --confine`: the addresses that the kernel lets the command reach. Page: `docs/clients.md`.
//!
//! A kernel that refuses is named on stderr, and the checks that need it are left out; the refusal itself is checked
//! then.

use std::io::ErrorKind;
use std::net::{TcpListener, UdpSocket};
use std::process::{Command, Output};

use crate::support::peer::python_with;
use crate::support::{Origin, RULES, Setup};

const WAYS: [&str; 2] = ["--confine", "--confine=net"];

/// Runs `crawlgate run WAY -- COMMAND…`.
fn confined(setup: &Setup, way: &str, command: &[&str]) -> Output {
    let mut run = setup.command("run");
    run.arg(way).arg("--").args(command).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns the ways that this kernel offers. A way that the kernel refuses must fail before anything starts.
fn offered(setup: &Setup) -> Vec<&'static str> {
    let is_offered = |way: &&str| {
        let trace = setup.dir().join("offered");
        let output = confined(setup, way, &["touch", trace.to_str().unwrap()]);
        if output.status.success() {
            return true;
        }
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{way}: {said}");
        says!(said, "was not started: the kernel does not"; "{way}");
        assert!(!trace.exists(), "{way}: it ran");
        eprintln!("skipped: {way}: {said}");
        false
    };
    WAYS.into_iter().filter(is_offered).collect()
}

#[test]
fn a_confined_command_reaches_the_proxy_and_nothing_else() {
    let setup = Setup::new();
    for way in offered(&setup) {
        let origin = Origin::with_rules(RULES);
        // By address: a name that only the proxy resolves could not be reached without it in any case.
        let url = |path| origin.url_as("127.0.0.1", path);
        let script = format!(
            "past() {{ exec 3<>/dev/tcp/127.0.0.1/{port} && printf 'GET /private/past HTTP/1.0\\r\\n\\r\\n' >&3 && cat <&3; }}; \
             (past) 2>/dev/null; echo $?; \
             sh -c 'curl -s --noproxy \"*\" {past}; echo $?'; \
             curl -s -o /dev/null -w '%{{http_code}}\\n' {open} -o /dev/null {private}",
            port = origin.port(),
            past = url("/private/past"),
            open = url("/open"),
            private = url("/private"),
        );
        let output = confined(&setup, way, &["bash", "-c", &script]);
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        // The failure of bash, the "could not connect" of curl in a grandchild, and the page through the proxy.
        assert_eq!(
            stdout.split_whitespace().collect::<Vec<_>>(),
            ["1", "7", "200", "403"],
            "{way}: {stderr}"
        );
        assert_eq!(output.status.code(), Some(0), "{way}: {stderr}");
        assert_eq!(origin.seen_but_robots(), ["GET /open"], "{way}: {stderr}");
        let log = std::fs::read_to_string(setup.dir().join("decisions.jsonl")).unwrap();
        let denied = format!("\"url\":\"{}\"", url("/private"));
        let denied: Vec<_> = log.lines().filter(|line| line.contains(&denied)).collect();
        assert!(denied.len() == 1 && denied[0].contains("robots_disallow"), "{way}: {log}");
        assert!(!stderr.contains("NO REQUEST"), "{way}: {stderr}");
    }
}

#[test]
fn a_confined_command_sends_no_datagram() {
    let setup = Setup::new();
    let outside = UdpSocket::bind("127.0.0.1:0").unwrap();
    outside.set_nonblocking(true).unwrap();
    let place = outside.local_addr().unwrap();
    let script = format!("echo out > /dev/udp/127.0.0.1/{}", place.port());
    let mut octets = [0; 8];
    for way in offered(&setup) {
        let said = text(&confined(&setup, way, &["bash", "-c", &script]).stderr);
        let got = outside.recv(&mut octets).map_err(|error| error.kind());
        assert_eq!(got, Err(ErrorKind::WouldBlock), "{way}: {said}");
    }
    // Outside the confinement the same words arrive, so the test would see them.
    let mut run = setup.command("run");
    run.args(["--", "bash", "-c", &script]).output().unwrap();
    assert_eq!(outside.recv(&mut octets).unwrap(), 4);
}

#[test]
fn a_network_of_its_own_has_no_interface_but_loopback() {
    let setup = Setup::new();
    if !offered(&setup).contains(&"--confine=net") {
        return;
    }
    let table = text(&confined(&setup, "--confine=net", &["cat", "/proc/net/dev"]).stdout);
    let names: Vec<_> =
        table.lines().skip(2).filter_map(|line| line.split(':').next()).map(str::trim).collect();
    assert_eq!(names.first(), Some(&"lo"), "{table}");
}

/// Tries each kind of socket, and the calls that would connect one without connect(2).
const SOCKETS: &str = r#"
import ctypes, errno, socket, sys

def tried(name, act):
    try: act(); print(name, "works")
    except OSError as why: print(name, errno.errorcode[why.errno])

def made(family, kind, protocol=0): return lambda: socket.socket(family, kind, protocol).close()

for family in (socket.AF_INET, socket.AF_INET6):
    for kind in (socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET):
        tried(f"{family.name} {kind.name}", made(family, kind | socket.SOCK_CLOEXEC))
    tried(f"{family.name} UDP-Lite", made(family, socket.SOCK_DGRAM, 136))
    tried(f"{family.name} SCTP", made(family, socket.SOCK_STREAM, 132))
    tried(f"{family.name} Multipath TCP", made(family, socket.SOCK_STREAM, 262))
    tried(f"{family.name} echo requests", made(family, socket.SOCK_DGRAM, 1))
for family in (17, 38, 40, 44):
    tried(f"family {family}", made(family, socket.SOCK_RAW))
def fast_open(call):
    with socket.socket() as one: call(one, ("127.0.0.1", int(sys.argv[1])))
tried("sendto", lambda: fast_open(lambda one, to: one.sendto(b"x", 0x20000000, to)))
tried("sendmsg", lambda: fast_open(lambda one, to: one.sendmsg([b"x"], [], 0x20000000, to)))
system = ctypes.CDLL(None, use_errno=True).syscall
def ring():
    if system(425, 1, bytes(120)) < 0: raise OSError(ctypes.get_errno(), "")
tried("io_uring", ring)
print("--")
tried("TCP", made(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK))
tried("TCP by number", made(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP))
tried("Unix", made(socket.AF_UNIX, socket.SOCK_DGRAM))
tried("netlink", made(socket.AF_NETLINK, socket.SOCK_RAW))
tried("names of this machine", lambda: socket.getaddrinfo("localhost", 80))
"#;

#[test]
fn no_socket_but_tcp_and_local_ones_is_left_to_a_confined_command() {
    let python = or_skip!(python_with("ctypes", "ctypes"));
    let setup = Setup::new();
    if !offered(&setup).contains(&"--confine") {
        return;
    }
    let outside = TcpListener::bind("127.0.0.1:0").unwrap();
    outside.set_nonblocking(true).unwrap();
    let port = outside.local_addr().unwrap().port().to_string();
    let output = confined(&setup, "--confine", &[&python, "-c", SOCKETS, &port]);
    let said = text(&output.stdout) + &text(&output.stderr);
    let (shut, open) = said.split_once("--\n").expect(&said);
    assert_eq!(shut.lines().count(), 21, "{said}");
    for line in shut.lines() {
        assert!(line.ends_with(" EACCES"), "{said}");
    }
    assert_eq!(open.lines().filter(|line| line.ends_with(" works")).count(), 5, "{said}");
    let got = outside.accept().map_err(|error| error.kind());
    assert_eq!(got.err(), Some(ErrorKind::WouldBlock), "{said}");
}

#[test]
fn confinement_keeps_the_exit_code_of_a_command() {
    let setup = Setup::new();
    let plain = setup.dir().join("plain-file");
    std::fs::write(&plain, "no program").unwrap();
    let signalled = "trap 'exit 42' USR1; kill -USR1 $PPID; while :; do :; done";
    for way in offered(&setup) {
        let cases = [
            (vec!["true"], 0),
            (vec!["sh", "-c", "exit 7"], 7),
            (vec!["sh", "-c", "kill -TERM $$"], 128 + 15),
            (vec!["sh", "-c", signalled], 42),
            (vec!["no-such-command-anywhere"], 127),
            (vec![plain.to_str().unwrap()], 126),
        ];
        for (command, code) in cases {
            let output = confined(&setup, way, &command);
            assert_eq!(
                output.status.code(),
                Some(code),
                "{way} {command:?}: {}",
                text(&output.stderr)
            );
        }
    }
}

#[test]
fn confinement_keeps_the_user_and_the_files() {
    let setup = Setup::new();
    let script = "id -u; id -g; stat -c %u .; echo \"$http_proxy\"";
    let plain = |command: &mut Command| text(&command.output().unwrap().stdout);
    let outside = plain(
        Command::new("sh").args(["-c", "id -u; id -g; stat -c %u ."]).current_dir(setup.dir()),
    );
    for way in offered(&setup) {
        let inside = text(&confined(&setup, way, &["sh", "-c", script]).stdout);
        let (same, proxy) = inside.trim_end().rsplit_once('\n').unwrap();
        assert_eq!(same, outside.trim_end(), "{way}");
        assert!(proxy.starts_with("http://127.0.0.1:"), "{way}: {proxy}");
    }
}

#[test]
fn where_the_kernel_refuses_a_network_nothing_is_started() {
    let setup = Setup::new();
    let trace = setup.dir().join("trace");
    // Forbids user namespaces inside a new one.
    let forbid = "echo 0 >/proc/sys/user/max_user_namespaces && exec \"$0\" \"$@\"";
    let unshare = ["unshare", "--user", "--map-root-user", "sh", "-c", forbid];
    let output = setup
        .command_in(&unshare, "run")
        .args(["--confine=net", "--", "touch"])
        .arg(&trace)
        .output()
        .unwrap();
    let said = text(&output.stderr);
    if said.contains("unshare failed") {
        eprintln!("skipped: {said}");
        return;
    }
    assert_eq!(output.status.code(), Some(2), "{said}");
    says!(said, "touch was not started: the kernel does not give it a network of its own");
    says!(said, "user.max_user_namespaces");
    assert!(!trace.exists(), "the command ran");
}
