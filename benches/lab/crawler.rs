//! A crawler: one connection, one request after the other, written and read by hand so that it costs little.

use std::future::poll_fn;
use std::io;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use h2::client::SendRequest;
use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, ServerName, pem::PemObject as _};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// The way of requests to their origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Without a proxy.
    Direct,
    /// Through the proxy on this port of 127.0.0.1.
    Proxy(u16),
}

/// The common parts of all crawlers.
#[derive(Clone)]
pub struct Crawlers {
    way: Way,
    tls: TlsConnector,
    http2: TlsConnector,
}

/// One connection.
pub struct Crawler {
    stream: Box<dyn Stream>,
    buffer: Vec<u8>,
}

/// An answer that has arrived whole.
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    pub status: u16,
    /// True if a proxy made the answer (RFC 9209).
    pub by_proxy: bool,
}

/// Octets both ways.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

impl Crawlers {
    /// Returns crawlers that trust these CAs.
    pub fn new(way: Way, authorities: &[&Path]) -> Crawlers {
        let mut roots = RootCertStore::empty();
        for file in authorities {
            roots.add(CertificateDer::from_pem_file(file).unwrap()).unwrap();
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let mut http2 = config.clone();
        http2.alpn_protocols = vec![b"h2".to_vec()];
        Crawlers {
            way,
            tls: TlsConnector::from(Arc::new(config)),
            http2: TlsConnector::from(Arc::new(http2)),
        }
    }

    /// Connects for requests to an origin; a plain connection to a proxy serves all plain origins.
    pub async fn connect(&self, secure: bool, host: &str, port: u16) -> io::Result<Crawler> {
        let crawler = self.reach(secure, host, port).await?;
        if !secure {
            return Ok(crawler);
        }
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let stream = self.tls.connect(name, crawler.stream).await?;
        Ok(Crawler::new(stream))
    }

    /// Connects for frames of HTTP/2 to an origin.
    pub async fn speak_http2(&self, host: &str, port: u16) -> io::Result<impl Stream + use<>> {
        let stream = self.reach(true, host, port).await?.stream;
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        self.http2.connect(name, stream).await
    }

    /// Connects by HTTP/2. Clones of the result share the connection.
    pub async fn connect_http2(&self, host: &str, port: u16) -> io::Result<SendRequest<Bytes>> {
        let stream = self.speak_http2(host, port).await?;
        let (streams, connection) =
            h2::client::handshake(stream).await.map_err(io::Error::other)?;
        tokio::spawn(connection);
        Ok(streams)
    }

    /// Reaches an origin: directly, or through the proxy, in a tunnel if it is secure.
    async fn reach(&self, secure: bool, host: &str, port: u16) -> io::Result<Crawler> {
        let to = match self.way {
            Way::Direct => port,
            Way::Proxy(proxy) => proxy,
        };
        let stream = TcpStream::connect(("127.0.0.1", to)).await?;
        stream.set_nodelay(true)?;
        let mut crawler = Crawler::new(stream);
        if secure && let Way::Proxy(_) = self.way {
            let connect = format!("CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n");
            crawler.stream.write_all(connect.as_bytes()).await?;
            let (answer, _, _) = crawler.head().await?;
            if answer.status != 200 {
                return Err(io::Error::other(format!("CONNECT: {}", answer.status)));
            }
        }
        Ok(crawler)
    }

    /// Returns a request for a connection of [`connect`](Self::connect).
    pub fn request(&self, secure: bool, host: &str, port: u16, path: &str) -> Vec<u8> {
        let absolute = match self.way {
            Way::Proxy(_) if !secure => format!("http://{host}:{port}"),
            _ => String::new(),
        };
        format!(
            "GET {absolute}{path} HTTP/1.1\r\nHost: {host}:{port}\r\nUser-Agent: BenchBot/1.0 \
             (+http://bench.test/bot)\r\nAccept: */*\r\n\r\n"
        )
        .into_bytes()
    }
}

/// Sends a GET on a new stream, reads its answer to the end, and returns the status.
pub async fn ask_http2(streams: &mut SendRequest<Bytes>, url: &str) -> Result<u16, h2::Error> {
    let request = http::Request::get(url)
        .header("user-agent", "BenchBot/1.0 (+http://bench.test/bot)")
        .header("accept", "*/*")
        .body(())
        .unwrap();
    poll_fn(|cx| streams.poll_ready(cx)).await?;
    let (response, _) = streams.send_request(request, true)?;
    let response = response.await?;
    let status = response.status().as_u16();
    let mut body = response.into_body();
    while let Some(data) = body.data().await {
        body.flow_control().release_capacity(data?.len())?;
    }
    Ok(status)
}

impl Crawler {
    fn new(stream: impl Stream + 'static) -> Crawler {
        Crawler { stream: Box::new(stream), buffer: Vec::with_capacity(8192) }
    }

    /// Sends a request and reads its answer.
    pub async fn ask(&mut self, request: &[u8]) -> io::Result<Answer> {
        self.exchange(request).await.map(|(answer, _)| answer)
    }

    /// Sends a request and reads its answer and body.
    pub async fn exchange(&mut self, request: &[u8]) -> io::Result<(Answer, Vec<u8>)> {
        self.stream.write_all(request).await?;
        self.stream.flush().await?;
        let (answer, head, length) = self.head().await?;
        while self.buffer.len() < head + length {
            self.fill().await?;
        }
        let body = self.buffer.get(head..head + length).unwrap_or_default().to_vec();
        self.buffer.drain(..head + length);
        Ok((answer, body))
    }

    /// Reads a head and returns it with its length and its body's. The head stays in the buffer unless no body follows.
    async fn head(&mut self) -> io::Result<(Answer, usize, usize)> {
        loop {
            let mut fields = [httparse::EMPTY_HEADER; 32];
            let mut head = httparse::Response::new(&mut fields);
            let parsed = head.parse(&self.buffer).map_err(io::Error::other)?;
            if let httparse::Status::Complete(octets) = parsed {
                let mut answer = Answer { status: head.code.unwrap_or_default(), by_proxy: false };
                let mut length = None;
                for field in head.headers.iter() {
                    if field.name.eq_ignore_ascii_case("content-length") {
                        length = std::str::from_utf8(field.value).ok().and_then(|n| n.parse().ok());
                    } else if field.name.eq_ignore_ascii_case("proxy-status") {
                        answer.by_proxy = true;
                    }
                }
                return match length {
                    Some(length) => Ok((answer, octets, length)),
                    // Only the answer to CONNECT may leave out its length.
                    None => {
                        self.buffer.drain(..octets);
                        Ok((answer, 0, 0))
                    }
                };
            }
            self.fill().await?;
        }
    }

    async fn fill(&mut self) -> io::Result<()> {
        match self.stream.read_buf(&mut self.buffer).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }
}
