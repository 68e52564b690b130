//! Restarts while the service manager holds the listening socket: accepted connections are answered, others wait.
//! Page: `docs/operating.md`.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use rustix::process::Signal;
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};

use crate::support::{CrawlgateProcess, Origin, PATIENCE, Response, Setup, client_config, program};

/// The number of restarts under load.
const RESTARTS: usize = 8;

const STOPPING: &str = "no new connections";

/// Starts a gate on a socket that outlives it.
fn activated(setup: Setup, listener: &TcpListener) -> CrawlgateProcess {
    let passed = OwnedFd::from(listener.try_clone().unwrap());
    let mut command = Command::new("sh");
    command
        .args([
            "-c",
            "exec 3<&0 </dev/null; LISTEN_PID=$$ LISTEN_FDS=1 exec \"$0\" serve --config \"$1\"",
        ])
        .arg(program())
        .arg(setup.write())
        .current_dir(setup.dir())
        .stdin(Stdio::from(passed))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    CrawlgateProcess::spawn(setup, command)
}

#[test]
fn an_accepted_connection_is_served_when_the_gate_stops() {
    let (mut gate, origin) = (CrawlgateProcess::start(), Origin::http());
    let bound = Origin::https();
    let url = origin.url("/new");
    let mut kept = gate.connect();
    kept.passes(&origin.url("/kept"));
    bound_is_known(&gate, &bound);
    let mut fresh = gate.connect();
    let mut half = gate.connect();
    let (start, rest) = url.split_at(12);
    half.send(format!("GET {start}"));
    let tunnel = gate.tunnels(&bound.authority());
    // The gate has accepted all of them by now, because it accepts connections in their order.
    gate.signal(Signal::TERM);
    gate.wait_said(STOPPING);
    let answer = fresh.get(&url);
    answer.is_origins(200, "page /new");
    answer.field_is("connection", Some("close"));
    assert!(fresh.is_closed());
    half.send(format!("{rest} HTTP/1.1\r\nHost: x\r\n\r\n"));
    half.response("GET").is_origins(200, "page /new");
    let mut tunnel = tunnel.tls("site.test", &gate.ca_pem());
    let answer = tunnel.get_inside(&bound.authority(), "/inside");
    answer.is_origins(200, "page /inside");
    answer.field_is("connection", Some("close"));
    assert!(kept.is_closed(), "it carried a request and rested");
    assert_eq!(gate.wait().code(), Some(0));
}

/// Makes the gate fetch an origin's robots.txt.
fn bound_is_known(gate: &CrawlgateProcess, origin: &Origin) {
    gate.passes(&origin.url("/known"));
}

#[test]
fn restarts_under_socket_activation_break_no_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (plain, bound) = (Origin::http(), Origin::https());
    let mut gate = activated(Setup::new(), &listener);
    let ca = gate.ca_pem();
    let stop = Arc::new(AtomicBool::new(false));
    let (served, broken) = (Arc::new(AtomicUsize::new(0)), Arc::default());
    let crawlers: Vec<_> = (0..6)
        .map(|n| {
            let crawler = Crawler {
                address,
                url: plain.url("/page"),
                inside: bound.authority(),
                ca: ca.clone(),
                served: Arc::clone(&served),
                broken: Arc::clone(&broken),
            };
            let stop = Arc::clone(&stop);
            thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    match n % 3 {
                        0 => crawler.on_new_connections(),
                        1 => crawler.on_a_kept_connection(),
                        _ => crawler.through_a_tunnel(),
                    }
                }
            })
        })
        .collect();
    for _ in 0..RESTARTS {
        let before = served.load(Ordering::Relaxed);
        // The gate must be in the middle of some work when the signal comes.
        crate::support::wait_until("some load", || served.load(Ordering::Relaxed) >= before + 60);
        gate.signal(Signal::TERM);
        assert_eq!(gate.wait().code(), Some(0), "{}", gate.said());
        let setup = std::mem::replace(&mut gate.setup, Setup::new());
        gate = activated(setup, &listener);
    }
    stop.store(true, Ordering::Relaxed);
    for crawler in crawlers {
        crawler.join().unwrap();
    }
    let broken: Vec<String> = std::mem::take(&mut *broken.lock().unwrap());
    let served = served.load(Ordering::Relaxed);
    assert!(broken.is_empty(), "{} of {served}: {broken:#?}", broken.len());
}

/// A client that counts the failures that it could not retry.
struct Crawler {
    address: SocketAddr,
    url: String,
    inside: String,
    ca: String,
    served: Arc<AtomicUsize>,
    broken: Arc<std::sync::Mutex<Vec<String>>>,
}

/// The end of one request.
enum End {
    Served {
        goes_on: bool,
    },
    /// No octet came: on a reused connection, the client may send the request again (RFC 9112 9.5).
    Nothing,
    Broken(String),
}

impl Crawler {
    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    fn count(&self, what: &str, end: &End, is_new: bool) -> bool {
        let told = match end {
            End::Served { goes_on } => {
                self.served.fetch_add(1, Ordering::Relaxed);
                return *goes_on;
            }
            End::Nothing if !is_new => return false,
            End::Nothing => "nothing came".to_owned(),
            End::Broken(why) => why.clone(),
        };
        self.broken.lock().unwrap().push(format!("{what}: {told}"));
        false
    }

    fn on_new_connections(&self) {
        let mut stream = self.connect();
        let end = ask(&mut stream, &self.url, "Connection: close\r\n");
        self.count("a new connection", &end, true);
    }

    fn on_a_kept_connection(&self) {
        let mut stream = self.connect();
        let mut is_new = true;
        for _ in 0..50 {
            let end = ask(&mut stream, &self.url, "");
            if !self.count("a kept connection", &end, is_new) {
                return;
            }
            is_new = false;
        }
    }

    fn through_a_tunnel(&self) {
        let mut stream = self.connect();
        let connect = format!("CONNECT {0} HTTP/1.1\r\nHost: {0}\r\n\r\n", self.inside);
        stream.write_all(connect.as_bytes()).ok();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut octet = [0];
            match stream.read(&mut octet) {
                Ok(1) => head.push(octet[0]),
                end => {
                    let why = format!("{end:?} after {}", String::from_utf8_lossy(&head));
                    self.count("a CONNECT", &End::Broken(why), true);
                    return;
                }
            }
        }
        if !head.starts_with(b"HTTP/1.1 200") {
            let why = String::from_utf8_lossy(&head).into_owned();
            self.count("a CONNECT", &End::Broken(why), true);
            return;
        }
        let name = ServerName::try_from("site.test").unwrap();
        let session = ClientConnection::new(client_config(&self.ca), name).unwrap();
        let mut tls = StreamOwned::new(session, stream);
        while tls.conn.is_handshaking() {
            if let Err(why) = tls.conn.complete_io(&mut tls.sock) {
                self.count("a handshake", &End::Broken(why.to_string()), true);
                return;
            }
        }
        let mut is_new = true;
        for _ in 0..5 {
            let end = ask(&mut tls, "/inside", &format!("X-Host: {}\r\n", self.inside));
            if !self.count("inside a tunnel", &end, is_new) {
                return;
            }
            is_new = false;
        }
    }
}

/// Sends a request and reads its answer.
fn ask(stream: &mut (impl Read + Write), target: &str, fields: &str) -> End {
    let host = match fields.strip_prefix("X-Host: ") {
        Some(host) => host.trim_end(),
        None => target.split('/').nth(2).unwrap(),
    };
    let request = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n");
    // An error here shows in the answer, too.
    drop(stream.write_all(request.as_bytes()).and_then(|()| stream.flush()));
    let mut first = [0];
    match stream.read(&mut first) {
        Ok(0) => return End::Nothing,
        Ok(_) => {}
        Err(why) if is_an_end(&why) => return End::Nothing,
        Err(why) => return End::Broken(why.to_string()),
    }
    let mut whole = std::io::BufReader::new(first.as_slice().chain(&mut *stream));
    match Response::read(&mut whole, "GET") {
        Ok(Some(answer)) if answer.status == 200 && answer.whole => {
            let goes_on = answer.field("connection").as_deref() != Some("close");
            End::Served { goes_on }
        }
        Ok(Some(answer)) => End::Broken(format!("{} {}", answer.head.text(), answer.text())),
        Ok(None) => End::Broken("nothing after the first octet".to_owned()),
        Err(why) => End::Broken(why.to_string()),
    }
}

fn is_an_end(why: &std::io::Error) -> bool {
    use std::io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(why.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
}
