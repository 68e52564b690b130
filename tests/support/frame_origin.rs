//! An HTTP/2 origin that answers each request with exactly the frames of a test (RFC 9113 4).

use std::io::{self, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use rustls::{ServerConnection, StreamOwned};

use super::{Certificate, Head, eventually, pki};

/// Frame types (RFC 9113 6).
pub(crate) mod kind {
    pub(crate) const DATA: u8 = 0;
    pub(crate) const HEADERS: u8 = 1;
    pub(crate) const RST_STREAM: u8 = 3;
    pub(crate) const SETTINGS: u8 = 4;
    pub(crate) const PUSH_PROMISE: u8 = 5;
    pub(crate) const PING: u8 = 6;
    pub(crate) const GOAWAY: u8 = 7;
    pub(crate) const CONTINUATION: u8 = 9;
}

pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;
const ACK: u8 = 1;

/// A frame that arrived, except SETTINGS and PING.
#[derive(Clone, Debug)]
pub(crate) struct SeenFrame {
    /// The number of the connection, counted from 1.
    pub(crate) connection: usize,
    pub(crate) kind: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

/// The running server. It lives as long as the test process.
#[derive(Clone)]
pub(crate) struct FrameOrigin {
    port: u16,
    seen: Arc<Mutex<Vec<SeenFrame>>>,
    /// The heads of requests by HTTP/1.1.
    heads: Arc<Mutex<Vec<Head>>>,
}

impl FrameOrigin {
    /// Starts an origin with a script for its pages: the frames that answer the head of a request, by the numbers of its
    /// connection and its stream. The first stream of the first connection asks for the robots.txt, and there is none.
    pub(crate) fn start(
        script: impl Fn(usize, u32) -> Vec<Vec<u8>> + Send + Sync + 'static,
    ) -> Self {
        Self::with(after_robots(script), None)
    }

    /// Starts the same origin, which speaks HTTP/1.1, too: these octets answer each request.
    pub(crate) fn with_http1(
        script: impl Fn(usize, u32) -> Vec<Vec<u8>> + Send + Sync + 'static,
        answer: &'static str,
    ) -> Self {
        Self::with(after_robots(script), Some(answer))
    }

    /// Starts an origin with a script for every stream, and an answer by HTTP/1.1 if it speaks that.
    pub(crate) fn with(
        script: impl Fn(usize, u32) -> Vec<Vec<u8>> + Send + Sync + 'static,
        http1: Option<&'static str>,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen: Arc<Mutex<Vec<SeenFrame>>> = Arc::default();
        let mut config = Arc::unwrap_or_clone(pki::origin_config(Certificate::Trusted));
        config.alpn_protocols = vec![b"h2".to_vec()];
        config.alpn_protocols.extend(http1.map(|_| b"http/1.1".to_vec()));
        let heads: Arc<Mutex<Vec<Head>>> = Arc::default();
        let by_http1 = Arc::clone(&heads);
        let (script, config) = (Arc::new(script), Arc::new(config));
        let log = Arc::clone(&seen);
        thread::spawn(move || {
            for (number, stream) in listener.incoming().flatten().enumerate() {
                let tls = ServerConnection::new(Arc::clone(&config)).unwrap();
                stream.set_nodelay(true).unwrap();
                let tls = StreamOwned::new(tls, stream);
                let (script, log) = (Arc::clone(&script), Arc::clone(&log));
                let heads = Arc::clone(&by_http1);
                // A peer that closes its connection does not fail the test.
                thread::spawn(move || serve(tls, number + 1, (&*script, http1), (&log, &heads)));
            }
        });
        Self { port, seen, heads }
    }

    /// Returns the targets of requests by HTTP/1.1.
    pub(crate) fn by_http1(&self) -> Vec<String> {
        let heads = self.heads.lock().unwrap();
        heads.iter().map(|head| head.word(1)).collect()
    }

    /// Returns `site.test:PORT`.
    pub(crate) fn authority(&self) -> String {
        format!("site.test:{}", self.port)
    }

    /// Returns the URL of `path` on the host `site.test`.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("https://{}{path}", self.authority())
    }

    /// Returns the connection and stream of each request so far but for the first, the robots.txt.
    pub(crate) fn pages(&self) -> Vec<(usize, u32)> {
        let seen = self.seen.lock().unwrap();
        let heads = seen.iter().filter(|frame| frame.kind == kind::HEADERS);
        let heads = heads.map(|frame| (frame.connection, frame.stream));
        heads.skip(1).collect()
    }

    /// Waits for a frame.
    #[track_caller]
    pub(crate) fn frame(&self, what: &str, is_it: impl Fn(&SeenFrame) -> bool) -> SeenFrame {
        eventually(what, || {
            let seen = self.seen.lock().unwrap();
            seen.iter().find(|frame| is_it(frame)).cloned()
        })
    }
}

/// Returns the script of an origin without a robots.txt, and with this one for its pages.
fn after_robots(pages: impl Fn(usize, u32) -> Vec<Vec<u8>>) -> impl Fn(usize, u32) -> Vec<Vec<u8>> {
    move |connection, stream| match (connection, stream) {
        (1, 1) => no_robots(stream),
        _ => pages(connection, stream),
    }
}

/// The frames that answer a stream of a connection.
type Script<'s> = &'s dyn Fn(usize, u32) -> Vec<Vec<u8>>;

fn serve(
    mut tls: StreamOwned<ServerConnection, TcpStream>,
    connection: usize,
    (script, http1): (Script<'_>, Option<&str>),
    (log, heads): (&Mutex<Vec<SeenFrame>>, &Mutex<Vec<Head>>),
) -> io::Result<()> {
    while tls.conn.is_handshaking() {
        tls.conn.complete_io(&mut tls.sock)?;
    }
    if let Some(answer) = http1.filter(|_| tls.conn.alpn_protocol() != Some(b"h2")) {
        let mut peer = BufReader::new(tls);
        while let Some(head) = Head::read(&mut peer)? {
            heads.lock().unwrap().push(head);
            peer.get_mut().write_all(answer.as_bytes())?;
            peer.get_mut().flush()?;
        }
        return Ok(());
    }
    let mut preface = [0; 24];
    tls.read_exact(&mut preface)?;
    assert_eq!(&preface, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    tls.write_all(&frame(kind::SETTINGS, 0, 0, &[]))?;
    loop {
        let mut head = [0; 9];
        tls.read_exact(&mut head)?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let (kind, flags) = (head[3], head[4]);
        let stream = u32::from_be_bytes(head[5..9].try_into().unwrap()) & 0x7fff_ffff;
        let mut payload = vec![0; length as usize];
        tls.read_exact(&mut payload)?;
        match kind {
            kind::SETTINGS | kind::PING if flags & ACK != 0 => {}
            kind::SETTINGS => tls.write_all(&frame(kind::SETTINGS, ACK, 0, &[]))?,
            kind::PING => tls.write_all(&frame(kind::PING, ACK, 0, &payload))?,
            _ => log.lock().unwrap().push(SeenFrame { connection, kind, stream, payload }),
        }
        if kind == kind::HEADERS {
            // At once: a peer that ends the connection half-way still gets what explains it.
            tls.write_all(&script(connection, stream).concat())?;
            tls.flush()?;
        }
    }
}

/// Builds a frame.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// Builds the head of a response, the first of its fields its status; `ends` the stream, too.
pub(crate) fn head(stream: u32, fields: &[(&str, &str)], ends: bool) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        // Without indexing and without Huffman codes (RFC 7541 6.2.2).
        block.push(0);
        for text in [name, value] {
            assert!(text.len() < 127, "a longer text needs more octets for its length");
            block.push(u8::try_from(text.len()).unwrap());
            block.extend(text.as_bytes());
        }
    }
    let flags = END_HEADERS | if ends { END_STREAM } else { 0 };
    frame(kind::HEADERS, flags, stream, &block)
}

/// Builds a part of a body; `ends` the stream, too.
pub(crate) fn data(stream: u32, octets: &str, ends: bool) -> Vec<u8> {
    let flags = if ends { END_STREAM } else { 0 };
    frame(kind::DATA, flags, stream, octets.as_bytes())
}

/// Builds the reset of a stream.
pub(crate) fn reset(stream: u32, code: u32) -> Vec<u8> {
    frame(kind::RST_STREAM, 0, stream, &code.to_be_bytes())
}

/// Builds the end of a connection: no stream above `last` was processed.
pub(crate) fn go_away(last: u32, code: u32) -> Vec<u8> {
    let payload = [last.to_be_bytes(), code.to_be_bytes()].concat();
    frame(kind::GOAWAY, 0, 0, &payload)
}

/// Builds a whole response.
pub(crate) fn page(stream: u32, body: &str) -> Vec<Vec<u8>> {
    vec![head(stream, &[(":status", "200")], false), data(stream, body, true)]
}

/// Builds the answer to a request for a robots.txt that is not there.
fn no_robots(stream: u32) -> Vec<Vec<u8>> {
    vec![head(stream, &[(":status", "404")], true)]
}
