//! A scripted HTTP/2 origin on loopback: for each path a handler, and a log of all requests.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex};

use bytes::Bytes;
use h2::server::{Builder, SendResponse};
use h2::{RecvStream, SendStream};
use http::{HeaderMap, Request, Response, StatusCode};
use rustls::ServerConfig;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{self, Runtime};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::{Certificate, PATIENCE, eventually, pki, wait_until};

/// The runtime of all these origins.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
});

/// One request as the origin received it.
#[derive(Clone, Debug)]
pub(crate) struct SeenStream {
    /// The number of the connection that carried it, counted from 1.
    pub(crate) connection: usize,
    /// `2`, or `1.1`.
    pub(crate) version: &'static str,
    pub(crate) method: String,
    /// The `:authority`.
    pub(crate) authority: String,
    pub(crate) path: String,
    pub(crate) fields: HeaderMap,
    /// The body, as far as the handler read it.
    pub(crate) body: Vec<u8>,
    pub(crate) trailers: Option<HeaderMap>,
    /// The error code by which the stream was reset, as far as the handler looked.
    pub(crate) reset: Option<u32>,
}

/// One request in the hands of its handler.
pub(crate) struct Stream {
    pub(crate) body: RecvStream,
    pub(crate) respond: SendResponse<Bytes>,
    place: usize,
    shared: Arc<Shared>,
}

type Done = Pin<Box<dyn Future<Output = ()> + Send>>;
type Handler = Arc<dyn Fn(Stream) -> Done + Send + Sync>;

/// The running server. It lives as long as the test process.
#[derive(Clone)]
pub(crate) struct Http2Origin {
    shared: Arc<Shared>,
}

struct Shared {
    port: u16,
    builder: Builder,
    handlers: Mutex<HashMap<String, Handler>>,
    /// The octets that answer every request by HTTP/1.1; the connection is an echo afterwards.
    http1: Mutex<Vec<u8>>,
    seen: Mutex<Vec<SeenStream>>,
    connections: AtomicUsize,
}

impl Http2Origin {
    /// Starts an origin that prefers HTTP/2: 404 for robots.txt, 200 with `page PATH` for every other path.
    pub(crate) fn start() -> Self {
        Self::with(&["h2", "http/1.1"], |_| ())
    }

    /// Starts the same origin with these protocols and settings.
    pub(crate) fn with(protocols: &[&str], configure: impl FnOnce(&mut Builder)) -> Self {
        let mut config: ServerConfig =
            Arc::unwrap_or_clone(pki::origin_config(Certificate::Trusted));
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let mut builder = Builder::new();
        configure(&mut builder);
        let listener = RUNTIME.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let shared = Arc::new(Shared {
            port: listener.local_addr().unwrap().port(),
            builder,
            handlers: Mutex::default(),
            http1: Mutex::default(),
            seen: Mutex::default(),
            connections: AtomicUsize::new(0),
        });
        let server = Arc::clone(&shared);
        RUNTIME.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (server, acceptor) = (Arc::clone(&server), acceptor.clone());
                // A peer that closes its connection does not fail the test.
                tokio::spawn(async move {
                    stream.set_nodelay(true).unwrap();
                    let connection = server.connections.fetch_add(1, Ordering::SeqCst) + 1;
                    if let Ok(stream) = acceptor.accept(stream).await {
                        server.serve(stream, connection).await;
                    }
                });
            }
        });
        Self { shared }
    }

    /// Sets the handler of a path.
    pub(crate) fn on<F>(
        self,
        path: &str,
        handler: impl Fn(Stream) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let handler: Handler = Arc::new(move |stream| Box::pin(handler(stream)));
        let mut handlers = self.shared.handlers.lock().unwrap();
        handlers.insert(path.to_owned(), handler);
        drop(handlers);
        self
    }

    /// Serves these rules.
    pub(crate) fn robots(self, rules: &'static str) -> Self {
        self.on("/robots.txt", move |stream| stream.reply(200, rules))
    }

    /// Sets the octets that answer requests by HTTP/1.1.
    pub(crate) fn http1(self, answer: &str) -> Self {
        *self.shared.http1.lock().unwrap() = answer.as_bytes().to_vec();
        self
    }

    /// Returns `site.test:PORT`.
    pub(crate) fn authority(&self) -> String {
        format!("site.test:{}", self.shared.port)
    }

    /// Returns the URL of `path` on the host `site.test`.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("https://{}{path}", self.authority())
    }

    /// Returns all requests so far.
    pub(crate) fn seen(&self) -> Vec<SeenStream> {
        self.shared.seen.lock().unwrap().clone()
    }

    /// Returns all requests so far for this path.
    pub(crate) fn seen_of(&self, path: &str) -> Vec<SeenStream> {
        let mut seen = self.seen();
        seen.retain(|one| one.path == path);
        seen
    }

    /// Waits for the last request for a path.
    #[track_caller]
    pub(crate) fn last(&self, path: &str) -> SeenStream {
        eventually(&format!("a request for {path}"), || self.seen_of(path).pop())
    }

    /// Returns all requests so far but for robots.txt.
    pub(crate) fn pages(&self) -> Vec<SeenStream> {
        let mut seen = self.seen();
        seen.retain(|one| one.path != "/robots.txt");
        seen
    }

    /// Waits until `count` requests have arrived, not counting robots.txt.
    #[track_caller]
    pub(crate) fn wait_pages(&self, count: usize) {
        wait_until(&format!("{count} requests"), || self.pages().len() >= count);
    }

    /// Returns the number of connections accepted.
    pub(crate) fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }
}

impl Shared {
    async fn serve(self: Arc<Self>, stream: TlsStream<TcpStream>, connection: usize) {
        let (_, session) = stream.get_ref();
        if session.alpn_protocol() != Some(b"h2") {
            return self.serve_http1(stream, connection).await;
        }
        let Ok(mut server) = self.builder.handshake::<_, Bytes>(stream).await else {
            return;
        };
        while let Some(Ok((request, respond))) = server.accept().await {
            let place = self.enter(&request, connection, "2");
            let path = request.uri().path().to_owned();
            let handler = self.handlers.lock().unwrap().get(&path).cloned();
            let stream =
                Stream { body: request.into_body(), respond, place, shared: Arc::clone(&self) };
            tokio::spawn(async move {
                match handler {
                    Some(handler) => handler(stream).await,
                    None if path == "/robots.txt" => stream.reply(404, "none").await,
                    None => stream.reply(200, format!("page {path}")).await,
                }
            });
        }
    }

    async fn serve_http1(&self, mut stream: TlsStream<TcpStream>, connection: usize) {
        loop {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let Ok(octet) = stream.read_u8().await else {
                    return;
                };
                head.push(octet);
            }
            let text = String::from_utf8(head).unwrap();
            let mut request = Request::builder();
            let mut words = text.split(' ');
            request = request.method(words.next().unwrap());
            request = request.uri(words.next().unwrap());
            for line in text.lines().skip(1) {
                if let Some((name, value)) = line.split_once(": ") {
                    request = request.header(name, value);
                }
            }
            let request = request.body(()).unwrap();
            self.enter(&request, connection, "1.1");
            let answer = match request.uri().path() {
                "/robots.txt" => b"HTTP/1.1 404 None\r\nContent-Length: 0\r\n\r\n".to_vec(),
                _ => self.http1.lock().unwrap().clone(),
            };
            if stream.write_all(&answer).await.is_err() {
                return;
            }
            if answer.starts_with(b"HTTP/1.1 101") {
                let (mut reads, mut writes) = tokio::io::split(stream);
                drop(tokio::io::copy(&mut reads, &mut writes).await);
                return;
            }
        }
    }

    fn enter<B>(&self, request: &Request<B>, connection: usize, version: &'static str) -> usize {
        let uri = request.uri();
        let mut seen = self.seen.lock().unwrap();
        seen.push(SeenStream {
            connection,
            version,
            method: request.method().to_string(),
            authority: uri.authority().map(ToString::to_string).unwrap_or_default(),
            path: uri.path().to_owned(),
            fields: request.headers().clone(),
            body: Vec::new(),
            trailers: None,
            reset: None,
        });
        seen.len() - 1
    }
}

impl Stream {
    /// Enters something into the log of requests.
    pub(crate) fn enter(&self, change: impl FnOnce(&mut SeenStream)) {
        change(&mut self.shared.seen.lock().unwrap()[self.place]);
    }

    /// Reads the body and its trailers into the log.
    pub(crate) async fn read(&mut self) {
        while let Some(Ok(octets)) = self.body.data().await {
            self.body.flow_control().release_capacity(octets.len()).unwrap();
            self.enter(|seen| seen.body.extend_from_slice(&octets));
        }
        if let Ok(trailers) = self.body.trailers().await {
            self.enter(|seen| seen.trailers = trailers);
        }
    }

    /// Reads the body, and answers with this status and body.
    pub(crate) async fn reply(mut self, status: u16, body: impl Into<Bytes>) {
        self.read().await;
        let body = self.send(status, &[]).send_all(body.into()).await;
        drop(body);
    }

    /// Sends the head of a response.
    pub(crate) fn send(&mut self, status: u16, fields: &[(&str, &str)]) -> Sending {
        let response = head(status, fields);
        Sending(self.respond.send_response(response, false).unwrap())
    }

    /// Sends a response without a body.
    pub(crate) fn send_empty(&mut self, status: u16, fields: &[(&str, &str)]) {
        drop(self.respond.send_response(head(status, fields), true).unwrap());
    }

    /// Waits until the crawler's side resets the stream, and enters the error code.
    pub(crate) async fn wait_reset(&mut self, sending: &mut Sending) {
        let reset = std::future::poll_fn(|cx| sending.0.poll_reset(cx)).await;
        self.enter(|seen| seen.reset = reset.ok().map(u32::from));
    }
}

/// Builds the head of a response.
pub(crate) fn head(status: u16, fields: &[(&str, &str)]) -> Response<()> {
    let mut response = Response::new(());
    *response.status_mut() = StatusCode::from_u16(status).unwrap();
    for (name, value) in fields {
        let name = http::HeaderName::try_from(*name).unwrap();
        response.headers_mut().append(name, value.parse().unwrap());
    }
    response
}

/// The body of a response under way.
pub(crate) struct Sending(pub(crate) SendStream<Bytes>);

impl Sending {
    /// Sends octets as the windows permit. Returns their number, fewer than all if the stream was reset.
    pub(crate) async fn send(&mut self, mut octets: Bytes) -> usize {
        let mut sent = 0;
        while !octets.is_empty() {
            self.0.reserve_capacity(octets.len());
            let room = std::future::poll_fn(|cx| self.0.poll_capacity(cx)).await;
            let Some(Ok(room)) = room else { return sent };
            let part = octets.split_to(room.min(octets.len()));
            sent += part.len();
            if self.0.send_data(part, false).is_err() {
                return sent;
            }
        }
        sent
    }

    /// Sends octets and the end of the stream.
    pub(crate) async fn send_all(mut self, octets: Bytes) -> Self {
        self.send(octets).await;
        drop(self.0.send_data(Bytes::new(), true)); // a reset stream is at its end
        self
    }
}

/// The point at which handlers wait until a test lets them go on.
#[derive(Clone)]
pub(crate) struct Holds(Arc<Semaphore>);

impl Holds {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Semaphore::new(0)))
    }

    /// Lets so many handlers pass.
    pub(crate) fn let_pass(&self, count: usize) {
        self.0.add_permits(count);
    }

    /// Waits for leave to pass.
    pub(crate) async fn pass(&self) {
        let permit = tokio::time::timeout(PATIENCE * 2, self.0.acquire()).await;
        permit.unwrap().unwrap().forget();
    }
}
