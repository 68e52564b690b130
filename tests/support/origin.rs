//! A scripted origin server on loopback: for each path a list of replies, and a log of all requests.

use std::collections::{HashMap, VecDeque};
use std::io::{self, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Instant;

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::http::{Body, Head};
use super::reply::{Reply, Step};
use super::{Certificate, Latch, PATIENCE, eventually, pki, wait_until};

/// The key of the reply for `.txt` paths without a script. No request-target equals it.
const MISSING: &str = "missing";

/// One request as an origin received it.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// The time at which its head had come.
    pub(crate) at: Instant,
    /// The number of the origin's connection that carried the request, counted from 1.
    pub(crate) connection: usize,
    /// The server name of the TLS handshake.
    pub(crate) sni: Option<String>,
    /// The request's head, octet for octet.
    pub(crate) head: Head,
    /// The request's body, as far as the origin read it.
    pub(crate) body: Vec<u8>,
    /// The request's trailer section.
    pub(crate) trailers: Head,
    /// True if the body came whole, by its own framing.
    pub(crate) whole: bool,
}

impl Seen {
    /// Returns the method and request-target.
    pub(crate) fn line(&self) -> String {
        format!("{} {}", self.head.word(0), self.head.word(1))
    }
}

/// A predicate that picks requests.
type Picks = Box<dyn Fn(&Head) -> bool + Send>;

/// The running server. It lives as long as the test process.
#[derive(Clone)]
pub(crate) struct Origin {
    shared: Arc<Shared>,
}

struct Shared {
    port: u16,
    tls: Mutex<Option<Arc<ServerConfig>>>,
    stopped: AtomicBool,
    routes: Mutex<HashMap<String, VecDeque<Reply>>>,
    /// Replies to picked requests for a target, tried before the scripts.
    picked: Mutex<Vec<(String, Picks, Reply)>>,
    seen: Mutex<Vec<Seen>>,
    news: Condvar,
    connections: AtomicUsize,
    ended: AtomicUsize,
    sent: AtomicU64,
}

impl Origin {
    /// Starts a plain HTTP origin: 404 for robots.txt, 200 with `page PATH` for every other path.
    pub(crate) fn http() -> Self {
        Self::start(None)
    }

    /// Starts the same origin with TLS and a certificate for every name.
    pub(crate) fn https() -> Self {
        Self::https_with(Certificate::Trusted)
    }

    /// Starts the same origin with a certificate of this quality.
    pub(crate) fn https_with(certificate: Certificate) -> Self {
        Self::start(Some(pki::origin_config(certificate)))
    }

    /// Starts a plain HTTP origin with these rules.
    pub(crate) fn with_rules(robots: &str) -> Self {
        Self::http().robots(robots)
    }

    fn start(tls: Option<Arc<ServerConfig>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let shared = Arc::new(Shared {
            port: listener.local_addr().unwrap().port(),
            tls: Mutex::new(tls),
            stopped: AtomicBool::new(false),
            routes: Mutex::default(),
            picked: Mutex::default(),
            seen: Mutex::default(),
            news: Condvar::new(),
            connections: AtomicUsize::new(0),
            ended: AtomicUsize::new(0),
            sent: AtomicU64::new(0),
        });
        let server = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if server.stopped.load(Ordering::SeqCst) {
                    break;
                }
                let server = Arc::clone(&server);
                // A peer that closes its connection does not fail the test.
                thread::spawn(move || {
                    drop(server.serve(stream));
                    server.ended.fetch_add(1, Ordering::SeqCst);
                });
            }
        });
        Self { shared }
    }

    /// Scripts a request-target: uses the replies in order and repeats the last one. Replaces an earlier script.
    pub(crate) fn on(self, target: &str, replies: impl IntoIterator<Item = Reply>) -> Self {
        self.script(target, replies);
        self
    }

    /// Answers a request-target with 204 once the latch opens.
    pub(crate) fn holds(self, target: &str, latch: &Latch) -> Self {
        let held = Reply::silent().wait(latch);
        self.on(target, [held.send("HTTP/1.1 204 No\r\n\r\n")])
    }

    /// Sets the reply for `.txt` paths without a script.
    pub(crate) fn missing(self, reply: Reply) -> Self {
        self.on(MISSING, [reply])
    }

    /// Does the same as [`Origin::on`], later in a test.
    pub(crate) fn script(&self, target: &str, replies: impl IntoIterator<Item = Reply>) {
        let replies = replies.into_iter().collect();
        self.shared.routes.lock().unwrap().insert(target.to_owned(), replies);
    }

    /// Answers the requests for a target that `picks` selects, before any script.
    pub(crate) fn on_if(
        self,
        target: &str,
        picks: impl Fn(&Head) -> bool + Send + 'static,
        reply: Reply,
    ) -> Self {
        let picked = (target.to_owned(), Box::new(picks) as Picks, reply);
        self.shared.picked.lock().unwrap().push(picked);
        self
    }

    /// Returns the User-Agents of the requests for its robots.txt.
    pub(crate) fn robots_agents(&self) -> Vec<String> {
        let seen = self.seen();
        let fetches = seen.iter().filter(|seen| seen.line() == "GET /robots.txt");
        fetches.map(|seen| seen.head.field("user-agent").unwrap_or_default()).collect()
    }

    /// Serves these rules.
    pub(crate) fn robots(self, robots: &str) -> Self {
        self.on("/robots.txt", [Reply::ok(robots)])
    }

    /// Switches to another certificate, and resumes no earlier TLS session.
    pub(crate) fn change_certificate(&self, certificate: Certificate) {
        *self.shared.tls.lock().unwrap() = Some(pki::origin_config(certificate));
    }

    /// Stops listening: from now on connections are refused.
    pub(crate) fn stop(&self) {
        self.shared.stopped.store(true, Ordering::SeqCst);
        let address = std::net::SocketAddr::from(([127, 0, 0, 1], self.port()));
        wait_until("the origin to stop", || TcpStream::connect(address).is_err());
    }

    /// Returns the port.
    pub(crate) fn port(&self) -> u16 {
        self.shared.port
    }

    /// Returns `site.test:PORT`.
    pub(crate) fn authority(&self) -> String {
        format!("site.test:{}", self.port())
    }

    /// Returns the URL of `path` on the host `site.test`.
    pub(crate) fn url(&self, path: &str) -> String {
        self.url_as("site.test", path)
    }

    /// Returns the URL of `path` under another name of this origin.
    pub(crate) fn url_as(&self, host: &str, path: &str) -> String {
        let scheme = if self.shared.tls.lock().unwrap().is_some() { "https" } else { "http" };
        format!("{scheme}://{host}:{}{path}", self.port())
    }

    /// Returns all requests so far.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.shared.seen.lock().unwrap().clone()
    }

    /// Returns the method and target of all requests except `GET /robots.txt`.
    pub(crate) fn seen_but_robots(&self) -> Vec<String> {
        self.seen().iter().map(Seen::line).filter(|line| line != "GET /robots.txt").collect()
    }

    /// Returns the number of requests for robots.txt.
    pub(crate) fn robots_fetches(&self) -> usize {
        self.seen().iter().filter(|seen| seen.line() == "GET /robots.txt").count()
    }

    /// Returns the last request for `target`.
    #[track_caller]
    pub(crate) fn last(&self, target: &str) -> Seen {
        let seen = self.seen();
        let found = seen.iter().rev().find(|seen| seen.head.word(1) == target);
        found
            .unwrap_or_else(|| panic!("{target} never arrived: {:?}", self.seen_but_robots()))
            .clone()
    }

    /// Waits until `count` requests have arrived.
    #[track_caller]
    pub(crate) fn wait_seen(&self, count: usize) {
        let seen = self.shared.seen.lock().unwrap();
        let (seen, timeout) =
            self.shared.news.wait_timeout_while(seen, PATIENCE, |seen| seen.len() < count).unwrap();
        assert!(!timeout.timed_out(), "only {} of {count} requests arrived", seen.len());
    }

    /// Returns the number of its connections that have ended.
    pub(crate) fn ended(&self) -> usize {
        self.shared.ended.load(Ordering::SeqCst)
    }

    /// Returns the number of connections accepted.
    pub(crate) fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// Returns the octets of scripted replies that were sent.
    pub(crate) fn sent(&self) -> u64 {
        self.shared.sent.load(Ordering::SeqCst)
    }
}

trait Stream: Read + Write + Send {
    /// Announces the end of the stream in the protocol's own way.
    fn goodbye(&mut self) -> io::Result<()>;
}

impl Stream for TcpStream {
    fn goodbye(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Stream for StreamOwned<ServerConnection, TcpStream> {
    fn goodbye(&mut self) -> io::Result<()> {
        self.conn.send_close_notify();
        self.flush()
    }
}

impl Shared {
    fn serve(&self, stream: TcpStream) -> io::Result<()> {
        let connection = self.connections.fetch_add(1, Ordering::SeqCst) + 1;
        stream.set_nodelay(true)?;
        let socket = stream.try_clone()?;
        let (stream, sni): (Box<dyn Stream>, _) = match self.tls.lock().unwrap().clone() {
            None => (Box::new(stream), None),
            Some(config) => {
                let mut tls = StreamOwned::new(
                    ServerConnection::new(config).map_err(io::Error::other)?,
                    stream,
                );
                while tls.conn.is_handshaking() {
                    tls.conn.complete_io(&mut tls.sock)?;
                }
                let sni = tls.conn.server_name().map(str::to_owned);
                (Box::new(tls), sni)
            }
        };
        let mut peer = BufReader::new(stream);
        while let Some(head) = Head::read(&mut peer)? {
            let reply = self.picked(&head).unwrap_or_else(|| self.reply(&head.word(1)));
            let waits =
                reply.ignores_body || reply.steps.iter().any(|step| matches!(step, Step::ReadBody));
            let at = Instant::now();
            let body = if waits { Body::default() } else { Body::of_request(&mut peer, &head) };
            let number = {
                let mut seen = self.seen.lock().unwrap();
                seen.push(Seen {
                    at,
                    connection,
                    sni: sni.clone(),
                    head: head.clone(),
                    body: body.bytes,
                    trailers: body.trailers,
                    whole: body.whole,
                });
                self.news.notify_all();
                seen.len() - 1
            };
            for step in reply.steps {
                match step {
                    Step::Send(bytes) => self.send(&mut peer, &bytes)?,
                    Step::Repeat(bytes, times) => {
                        for _ in 0..times {
                            self.send(&mut peer, &bytes)?;
                        }
                    }
                    Step::Wait(latch) => latch.pass(),
                    Step::Pause(span) => thread::sleep(span),
                    Step::ReadBody => {
                        let body = Body::of_request(&mut peer, &head);
                        let mut seen = self.seen.lock().unwrap();
                        let place = &mut seen[number];
                        (place.body, place.trailers, place.whole) =
                            (body.bytes, body.trailers, body.whole);
                    }
                    Step::WebSocket => self.send(&mut peer, switch(&head).as_bytes())?,
                    Step::Echo => echo(&mut peer)?,
                    Step::Reset => {
                        tokio::net::TcpSocket::from_std_stream(socket).set_zero_linger()?;
                        return Ok(());
                    }
                    Step::Cut => return close(&socket),
                    Step::Close => {
                        peer.get_mut().goodbye()?;
                        return close(&socket);
                    }
                }
            }
        }
        Ok(())
    }

    fn send(&self, peer: &mut BufReader<Box<dyn Stream>>, bytes: &[u8]) -> io::Result<()> {
        let peer = peer.get_mut();
        peer.write_all(bytes)?;
        peer.flush()?;
        self.sent.fetch_add(bytes.len() as u64, Ordering::SeqCst);
        Ok(())
    }

    /// Returns the reply to a picked request.
    fn picked(&self, head: &Head) -> Option<Reply> {
        let picked = self.picked.lock().unwrap();
        let found = picked.iter().find(|(target, picks, _)| *target == head.word(1) && picks(head));
        found.map(|(_, _, reply)| reply.clone())
    }

    /// Returns the next scripted reply for a request-target: by the whole target, or by its path.
    fn reply(&self, target: &str) -> Reply {
        let mut routes = self.routes.lock().unwrap();
        let path = target.split('?').next().unwrap_or_default();
        let key = if routes.contains_key(target) {
            target
        } else if routes.contains_key(path) || path == "/robots.txt" || !path.ends_with(".txt") {
            path
        } else {
            MISSING
        };
        match routes.get_mut(key) {
            Some(replies) if replies.len() > 1 => replies.pop_front().unwrap(),
            Some(replies) => replies[0].clone(),
            None if path == "/robots.txt" => Reply::status(404, "no robots.txt here"),
            None => Reply::ok(format!("page {target}")),
        }
    }
}

/// Returns the answer to a WebSocket's handshake.
fn switch(head: &Head) -> String {
    let key = head.field("sec-websocket-key").unwrap_or_default();
    let keyed = format!("{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    let accept = STANDARD.encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, keyed.as_bytes()));
    format!(
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Accept: {accept}\r\n\r\n"
    )
}

fn echo(peer: &mut BufReader<Box<dyn Stream>>) -> io::Result<()> {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let count = peer.read(&mut buffer)?;
        if count == 0 {
            return Ok(());
        }
        peer.get_mut().write_all(&buffer[..count])?;
        peer.get_mut().flush()?;
    }
}

/// Closes so that everything sent still arrives: shuts down the sending side first, then reads the rest from the peer.
fn close(socket: &TcpStream) -> io::Result<()> {
    socket.shutdown(std::net::Shutdown::Write)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    io::copy(&mut &*socket, &mut io::sink())?;
    Ok(())
}

/// An address that completes no TCP handshake, because its accept queue is full.
pub(crate) struct FullQueue {
    /// The port that stalls.
    pub(crate) port: u16,
    _runtime: tokio::runtime::Runtime,
    _listener: tokio::net::TcpListener,
    _queue: Vec<TcpStream>,
}

impl FullQueue {
    /// Fills a queue of one.
    pub(crate) fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        let listener = runtime.block_on(async {
            let socket = tokio::net::TcpSocket::new_v4().unwrap();
            socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
            socket.listen(1).unwrap()
        });
        let address = listener.local_addr().unwrap();
        let mut queue = Vec::new();
        let patience = std::time::Duration::from_millis(300);
        eventually("a full queue", || match TcpStream::connect_timeout(&address, patience) {
            Ok(stream) => {
                queue.push(stream);
                None
            }
            Err(_) => Some(()),
        });
        Self { port: address.port(), _runtime: runtime, _listener: listener, _queue: queue }
    }
}
