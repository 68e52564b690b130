//! An HTTP/2 client with answers that read like those of [`Wire`](super::Wire).

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use h2::client::{ResponseFuture, SendRequest};
use h2::{Reason, SendStream};
use http::{HeaderMap, Request, Version};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::http2_frames::Frames;
use super::{CrawlgateProcess, Head, PATIENCE, Response, Wire, pki};

/// One HTTP/2 connection.
pub(crate) struct Http2 {
    runtime: Arc<Runtime>,
    streams: SendRequest<Bytes>,
    connection: Task,
}

/// The task that moves a connection's frames.
type Task = JoinHandle<Result<(), h2::Error>>;

/// A request that still waits for its answer.
pub(crate) struct Pending {
    /// The answer to come.
    pub(crate) response: ResponseFuture,
    /// The rest of the request.
    pub(crate) body: SendStream<Bytes>,
}

impl Http2 {
    /// Opens a tunnel through the proxy, and speaks HTTP/2 in it as `host`.
    pub(crate) fn inside(proxy: SocketAddr, authority: &str, host: &str, ca_pem: &str) -> Self {
        Self::inside_with(proxy, authority, host, ca_pem, h2::client::Builder::new())
    }

    /// Does the same with these settings of the client.
    pub(crate) fn inside_with(
        proxy: SocketAddr,
        authority: &str,
        host: &str,
        ca_pem: &str,
        builder: h2::client::Builder,
    ) -> Self {
        let connect = format!(
            "CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\nUser-Agent: TestBot/1.0\r\n\r\n"
        );
        Self::open(proxy, Some(connect), host, ca_pem, builder)
    }

    /// Speaks HTTP/2 with a proxy that listens with TLS as `host`.
    pub(crate) fn to(proxy: SocketAddr, host: &str, ca_pem: &str) -> Self {
        Self::open(proxy, None, host, ca_pem, h2::client::Builder::new())
    }

    fn open(
        proxy: SocketAddr,
        connect: Option<String>,
        host: &str,
        ca_pem: &str,
        builder: h2::client::Builder,
    ) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let opened = async {
            let mut stream = TcpStream::connect(proxy).await.unwrap();
            if let Some(connect) = connect {
                stream.write_all(connect.as_bytes()).await.unwrap();
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(stream.read_u8().await.unwrap());
                }
                assert!(head.starts_with(b"HTTP/1.1 200"), "{:?}", String::from_utf8(head));
            }
            shake(stream, host, ca_pem, builder).await
        };
        let (streams, connection) = runtime
            .block_on(async { timeout(PATIENCE, opened).await })
            .expect("an HTTP/2 connection");
        Self { runtime: Arc::new(runtime), streams, connection }
    }

    /// Opens a tunnel on a stream, and speaks HTTP/2 in it as `host`.
    #[track_caller]
    pub(crate) fn tunnel(&mut self, connect: Request<()>, host: &str, ca_pem: &str) -> Self {
        let tunnel = self.try_tunnel(connect, host, ca_pem);
        tunnel.expect("a tunnel that is not refused")
    }

    /// Does the same; `None` if there is no room for it.
    pub(crate) fn try_tunnel(
        &mut self,
        connect: Request<()>,
        host: &str,
        ca_pem: &str,
    ) -> Option<Self> {
        let pending = self.begin(connect, false).unwrap();
        let opened = async {
            let response = pending.response.await.unwrap();
            if [429, 503].contains(&response.status().as_u16()) {
                return None;
            }
            assert_eq!(response.status(), 200);
            let (ours, theirs) = tokio::io::duplex(65_536);
            let (mut from, mut to) = tokio::io::split(theirs);
            let mut receiving = response.into_body();
            tokio::spawn(async move {
                while let Some(Ok(data)) = receiving.data().await {
                    drop(receiving.flow_control().release_capacity(data.len()));
                    drop(to.write_all(&data).await);
                }
            });
            let mut sending = pending.body;
            tokio::spawn(async move {
                let mut octets = vec![0; 16_384];
                while let Ok(count @ 1..) = from.read(&mut octets).await {
                    drop(sending.send_data(Bytes::copy_from_slice(&octets[..count]), false));
                }
            });
            Some(shake(ours, host, ca_pem, h2::client::Builder::new()).await)
        };
        let opened = async { timeout(PATIENCE, opened).await.expect("a tunnel in time") };
        let (streams, connection) = self.runtime.block_on(opened)?;
        Some(Self { runtime: Arc::clone(&self.runtime), streams, connection })
    }

    /// Sends a request without a body, and reads its answer.
    #[track_caller]
    pub(crate) fn exchange(&mut self, request: Request<()>) -> Response {
        self.try_exchange(request).expect("an answer")
    }

    /// Does the same, but the stream or the connection may break.
    pub(crate) fn try_exchange(&mut self, request: Request<()>) -> Result<Response, h2::Error> {
        let pending = self.begin(request, true)?;
        self.answer(pending)
    }

    /// GETs a URL.
    #[track_caller]
    pub(crate) fn get(&mut self, url: &str) -> Response {
        self.exchange(get(url))
    }

    /// GETs a URL and asserts that the origin answers, with the page that it has for each path.
    #[track_caller]
    pub(crate) fn passes(&mut self, url: &str) {
        self.get(url).is_page(url);
    }

    /// Sends the head of a request.
    pub(crate) fn begin(
        &mut self,
        request: Request<()>,
        is_whole: bool,
    ) -> Result<Pending, h2::Error> {
        let streams = self.streams.clone();
        let ready = async { timeout(PATIENCE, streams.ready()).await.expect("room") };
        self.streams = self.runtime.block_on(ready)?;
        // A task that the stream wakes has to belong to the runtime.
        let _guard = self.runtime.enter();
        let (response, body) = self.streams.send_request(request, is_whole)?;
        Ok(Pending { response, body })
    }

    /// Reads an answer to its end.
    pub(crate) fn answer(&mut self, pending: Pending) -> Result<Response, h2::Error> {
        let read = read(pending.response);
        let read = async { timeout(PATIENCE, read).await.expect("an answer in time") };
        self.runtime.block_on(read)
    }

    /// Reads the head of an answer, and returns its body unread.
    pub(crate) fn head(
        &mut self,
        pending: Pending,
    ) -> Result<http::Response<h2::RecvStream>, h2::Error> {
        let read = async { timeout(PATIENCE, pending.response).await.expect("a head in time") };
        self.runtime.block_on(read)
    }

    /// Runs a future on the connection's runtime.
    pub(crate) fn run<F: Future>(&self, future: F) -> F::Output {
        let bounded = async { timeout(PATIENCE, future).await.expect("an end in time") };
        self.runtime.block_on(bounded)
    }

    /// Waits for the end of the connection.
    pub(crate) fn closed(self) -> Result<(), h2::Error> {
        drop(self.streams);
        let ended = async { timeout(PATIENCE, self.connection).await };
        self.runtime.block_on(ended).expect("an end in time").unwrap()
    }
}

impl CrawlgateProcess {
    /// Opens a tunnel with CONNECT and speaks HTTP/2 in it as `host`, trusting the gate's CA.
    #[track_caller]
    pub(crate) fn intercept_http2(&self, authority: &str, host: &str) -> Http2 {
        Http2::inside(self.address(), authority, host, &self.ca_pem())
    }

    /// Opens a tunnel in which a test writes its own HTTP/2 frames.
    #[track_caller]
    pub(crate) fn intercept_frames(&self, authority: &str, host: &str) -> Frames {
        let mut wire = self.connect();
        assert_eq!(wire.tunnel(authority).status, 200);
        self.frames(wire, host)
    }

    /// Opens a connection to a listener with TLS, in which a test writes its own HTTP/2 frames.
    #[track_caller]
    pub(crate) fn frames_to(&self, place: SocketAddr, host: &str) -> Frames {
        self.frames(Wire::connect(place), host)
    }

    /// Speaks HTTP/2 on this connection, inside a tunnel or to a listener with TLS.
    #[track_caller]
    pub(crate) fn frames(&self, wire: Wire, host: &str) -> Frames {
        let mut config = Arc::unwrap_or_clone(pki::client_config(&self.ca_pem()));
        config.alpn_protocols = vec![b"h2".to_vec()];
        Frames::open(wire.handshake(host, Arc::new(config)).unwrap())
    }

    /// GETs an https URL by this version of HTTP, on a new connection.
    #[track_caller]
    pub(crate) fn get_by(&self, version: Version, url: &str) -> Response {
        if version != Version::HTTP_2 {
            return self.get(url);
        }
        let authority = url.split('/').nth(2).unwrap();
        let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
        self.intercept_http2(authority, host).get(url)
    }
}

/// Makes the TLS handshake and the one of HTTP/2.
async fn shake(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    host: &str,
    ca_pem: &str,
    builder: h2::client::Builder,
) -> (SendRequest<Bytes>, Task) {
    let mut config = Arc::unwrap_or_clone(pki::client_config(ca_pem));
    config.alpn_protocols = vec![b"h2".to_vec()];
    let name = ServerName::try_from(host.trim_matches(['[', ']']).to_owned()).unwrap();
    let tls = TlsConnector::from(Arc::new(config));
    let stream = tls.connect(name, stream).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let (streams, connection) = builder.handshake(stream).await.unwrap();
    (streams, tokio::spawn(connection))
}

/// Returns a GET as TestBot sends it.
pub(crate) fn get(url: &str) -> Request<()> {
    request("GET", url)
}

/// Returns a request as TestBot sends it.
pub(crate) fn request(method: &str, url: &str) -> Request<()> {
    let request = Request::builder().method(method).uri(url);
    request.header("user-agent", "TestBot/1.0").body(()).unwrap()
}

async fn read(response: ResponseFuture) -> Result<Response, h2::Error> {
    let (head, mut body) = response.await?.into_parts();
    let mut answer = Response {
        head: text(&format!("HTTP/2 {}", head.status.as_u16()), &head.headers),
        status: head.status.as_u16(),
        ..Response::default()
    };
    while let Some(data) = body.data().await {
        match data {
            Ok(data) => {
                body.flow_control().release_capacity(data.len())?;
                answer.body.extend_from_slice(&data);
            }
            Err(error) if error.reason() == Some(Reason::NO_ERROR) => break,
            // The head has come: the answer is one that broke off.
            Err(_) => return Ok(answer),
        }
    }
    if let Ok(Some(trailers)) = body.trailers().await {
        answer.trailers = text("", &trailers);
    }
    answer.whole = true;
    Ok(answer)
}

fn text(start: &str, fields: &HeaderMap) -> Head {
    let mut raw = start.as_bytes().to_vec();
    if !start.is_empty() {
        raw.extend_from_slice(b"\r\n");
    }
    for (name, value) in fields {
        raw.extend_from_slice(format!("{name}: ").as_bytes());
        raw.extend_from_slice(value.as_bytes());
        raw.extend_from_slice(b"\r\n");
    }
    Head { raw }
}
