//! The origin: a robots.txt, pages of 1 KB, and a count of requests.

use std::convert::Infallible;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// The path that is disallowed.
pub const DISALLOWED: &str = "/private/page";

/// A path that is allowed.
pub const ALLOWED: &str = "/pages/page";

/// The path of a body of 10 MB.
pub const LARGE: &str = "/pages/large";

/// The path of the origin's counts.
pub const SEEN: &str = "/seen";

const PAGE: &[u8] = &[b'x'; 1024];

const LARGE_BODY: &[u8] = &[b'x'; 10_000_000];

/// The ports of the origin.
#[derive(Clone, Copy, Debug)]
pub struct Ports {
    pub http: u16,
    /// HTTP/1.1 in TLS.
    pub https: u16,
    /// HTTP/2 in TLS, and nothing else.
    pub http2: u16,
}

impl Ports {
    /// Reads the line that [`serve`] prints.
    pub fn read(line: &str) -> Ports {
        let mut ports = line.split_whitespace().map(|port| port.parse().unwrap());
        let mut next = || ports.next().unwrap();
        Ports { http: next(), https: next(), http2: next() }
    }
}

/// The counts of an origin.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    pub robots: u64,
    pub allowed: u64,
    pub disallowed: u64,
}

impl Seen {
    /// Reads an answer of [`SEEN`].
    pub fn read(text: &str) -> Seen {
        let mut numbers = text.split_whitespace().map(|number| number.parse().unwrap());
        let mut next = || numbers.next().unwrap();
        Seen { robots: next(), allowed: next(), disallowed: next() }
    }
}

#[derive(Default)]
struct Counts {
    robots: AtomicU64,
    allowed: AtomicU64,
    disallowed: AtomicU64,
}

/// Returns 100 rules, as `DISALLOWED` and `ALLOWED` need them.
fn robots_txt() -> Bytes {
    let mut text = String::from("User-agent: *\nDisallow: /private/\n");
    for n in 0..79 {
        text.push_str(&format!("Disallow: /section-{n:02}/private/\n"));
    }
    for n in 0..20 {
        text.push_str(&format!("Disallow: /*?*sort-{n:02}=\n"));
    }
    text.into()
}

/// Serves on three free ports, which it prints, until the parent ends.
pub fn serve(directory: &Path) {
    super::process::end_with_parent();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let counts = Arc::new(Counts::default());
        let robots = robots_txt();
        let plain = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let secure = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let http2 = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let ports = [&plain, &secure, &http2].map(|listener| {
            let address = listener.local_addr().unwrap();
            address.port().to_string()
        });
        println!("{}", ports.join(" "));
        std::io::stdout().flush().unwrap();
        tokio::join!(
            accept(plain, None, Arc::clone(&counts), robots.clone()),
            accept(
                secure,
                Some(acceptor(directory, b"http/1.1")),
                Arc::clone(&counts),
                robots.clone()
            ),
            accept(http2, Some(acceptor(directory, b"h2")), counts, robots)
        );
    });
}

/// Returns the TLS settings of an origin that speaks this protocol.
pub fn acceptor(directory: &Path, protocol: &[u8]) -> TlsAcceptor {
    let chain = vec![CertificateDer::from_pem_file(directory.join("origin.crt")).unwrap()];
    let key = PrivateKeyDer::from_pem_file(directory.join("origin.key")).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    config.alpn_protocols = vec![protocol.to_vec()];
    TlsAcceptor::from(Arc::new(config))
}

async fn accept(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    counts: Arc<Counts>,
    robots: Bytes,
) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        stream.set_nodelay(true).unwrap();
        let (counts, robots, tls) = (Arc::clone(&counts), robots.clone(), tls.clone());
        tokio::spawn(async move {
            let service = service_fn(move |request| {
                let response = answer(&request, &counts, &robots);
                async move { Ok::<_, Infallible>(response) }
            });
            let server = http1::Builder::new();
            // The client decides how a connection ends.
            match tls {
                None => drop(server.serve_connection(TokioIo::new(stream), service).await),
                Some(tls) => {
                    let Ok(stream) = tls.accept(stream).await else {
                        return;
                    };
                    if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
                        let server = http2::Builder::new(TokioExecutor::new());
                        drop(server.serve_connection(TokioIo::new(stream), service).await);
                    } else {
                        drop(server.serve_connection(TokioIo::new(stream), service).await);
                    }
                }
            }
        });
    }
}

fn answer(request: &Request<Incoming>, counts: &Counts, robots: &Bytes) -> Response<Full<Bytes>> {
    let body = match request.uri().path() {
        "/robots.txt" => {
            counts.robots.fetch_add(1, Relaxed);
            robots.clone()
        }
        DISALLOWED => {
            counts.disallowed.fetch_add(1, Relaxed);
            Bytes::from_static(PAGE)
        }
        LARGE => Bytes::from_static(LARGE_BODY),
        SEEN => {
            let numbers = [&counts.robots, &counts.allowed, &counts.disallowed];
            let numbers = numbers.map(|number| number.load(Relaxed).to_string());
            Bytes::from(numbers.join(" "))
        }
        _ => {
            counts.allowed.fetch_add(1, Relaxed);
            Bytes::from_static(PAGE)
        }
    };
    Response::new(Full::new(body))
}
