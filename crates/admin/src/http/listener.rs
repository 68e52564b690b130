//! The listener of the admin side: its own port, its own bounds, nothing shared with the proxy's. With a certificate it
//! speaks only TLS.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use http::HeaderValue;
use http::header::CONNECTION;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tower_service::Service as _;
use tracing::{debug, warn};

use super::connections::{ConnectionSlot, Connections, SlotKind};
use super::framing_filter::FramingFilter;
use crawlgate_config::AdminTls;
use crawlgate_net::read_filter::Filtered;
use crawlgate_proxy::listener::{TlsError, http1_config};

/// Connections that wait to be accepted.
const BACKLOG: u32 = 256;

/// Time for a TLS handshake, for a request's head, and for an idle connection.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Time after which a connection ends if its client reads nothing, in milliseconds.
const STALLED: u32 = 30_000;

/// Octets of a request's head: a filter with a long path needs most.
const HEAD: usize = 64 * 1024;

/// Pause after `accept` fails, as when descriptors run out.
const ACCEPT_RETRY: Duration = Duration::from_millis(200);

/// The service behind a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListenerKind {
    /// The admin side.
    Console,
    /// The page for everyone.
    PublicPage,
}

/// The reason why the port cannot be bound. The message names the key and the way out.
#[derive(Debug, thiserror::Error)]
#[error("cannot serve the {} at {address}: {source}: {}", .kind.name(), .kind.advice(.source))]
pub struct BindError {
    kind: ListenerKind,
    address: SocketAddr,
    source: io::Error,
}

impl ListenerKind {
    fn name(self) -> &'static str {
        match self {
            ListenerKind::Console => "console",
            ListenerKind::PublicPage => "public page",
        }
    }

    fn advice(self, error: &io::Error) -> String {
        let name = self.name();
        let key = match self {
            ListenerKind::Console => "[admin] address",
            ListenerKind::PublicPage => "[admin] public_try",
        };
        match error.kind() {
            io::ErrorKind::AddrInUse => format!(
                "is another crawlgate running? Give this one another port with {key}, 0 for any, or \
                 \"\" for no {name}"
            ),
            io::ErrorKind::AddrNotAvailable => format!("{key} must be an address of this machine"),
            _ => format!("name another {key}, or \"\" for no {name}"),
        }
    }
}

/// The sender of the requests on a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Peer {
    /// At this address.
    At(SocketAddr),
    /// A process of our user or of root, at the Unix socket.
    Local,
}

/// Marks a request of a local peer, in its extensions.
#[derive(Clone, Copy, Debug)]
pub(super) struct LocalPeer;

/// The bound port of the admin side.
#[derive(Debug)]
pub struct Listener {
    listener: TcpListener,
    address: SocketAddr,
}

impl Listener {
    /// Listens at `address`.
    ///
    /// # Errors
    /// When the port cannot be bound.
    pub fn bind(address: SocketAddr, kind: ListenerKind) -> Result<Listener, BindError> {
        let bound = (|| {
            let socket = match address {
                SocketAddr::V4(_) => TcpSocket::new_v4(),
                SocketAddr::V6(_) => TcpSocket::new_v6(),
            }?;
            socket.set_reuseaddr(true)?;
            socket.bind(address)?;
            let listener = socket.listen(BACKLOG)?;
            let address = listener.local_addr()?;
            Ok(Listener { listener, address })
        })();
        bound.map_err(|source| BindError { kind, address, source })
    }

    /// Returns the bound address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves at most `connections` connections at once, until this future is dropped: connections end with it. At the
    /// limit the longest idle connection closes, see `connections`. With a certificate, they speak TLS.
    pub async fn serve(self, router: Router, connections: usize, certificate: Option<Certificate>) {
        let slots = Connections::new(connections);
        let mut open = JoinSet::new();
        loop {
            let accepted = self.listener.accept().await;
            while open.try_join_next().is_some() {}
            match accepted {
                Ok((stream, peer)) => match slots.slot() {
                    Some(slot) => {
                        let tls = certificate.as_ref().map(Certificate::config);
                        open.spawn(serve_connection(stream, peer, slot, router.clone(), tls));
                    }
                    None => debug!(%peer, "an admin connection is closed: all are busy"),
                },
                Err(error) => {
                    warn!(%error, "an admin connection cannot be accepted");
                    // When descriptors run out, close an idle connection.
                    slots.make_room();
                    sleep(ACCEPT_RETRY).await;
                }
            }
        }
    }
}

/// The certificate of the port, as its files had it when they were read last. Clones share it.
#[derive(Clone, Debug)]
pub struct Certificate {
    files: AdminTls,
    config: Arc<ArcSwap<ServerConfig>>,
}

impl Certificate {
    /// Reads a certificate and its key.
    ///
    /// # Errors
    /// When a file cannot be used.
    pub fn load(files: &AdminTls) -> Result<Certificate, CertificateError> {
        let config = http1_config(&files.cert, &files.key).map_err(CertificateError)?;
        Ok(Certificate { files: files.clone(), config: Arc::new(ArcSwap::from(config)) })
    }

    /// Reads the files again, for sessions from now on.
    ///
    /// # Errors
    /// When a file cannot be used. The old certificate stays in force.
    pub fn renew(&self) -> Result<(), CertificateError> {
        let AdminTls { cert, key } = &self.files;
        self.config.store(http1_config(cert, key).map_err(CertificateError)?);
        Ok(())
    }

    fn config(&self) -> Arc<ServerConfig> {
        self.config.load_full()
    }
}

/// The reason why the port has no certificate. The message names the key and the file.
#[derive(Debug, thiserror::Error)]
#[error("[admin] {0}")]
pub struct CertificateError(#[source] TlsError);

/// Serves a connection, by TLS if there are settings for it. A handshake that stalls ends in time, and before that if
/// another connection needs the slot. A client that does not speak TLS gets an alert, and the connection ends.
async fn serve_connection(
    stream: TcpStream,
    peer: SocketAddr,
    slot: ConnectionSlot,
    router: Router,
    tls: Option<Arc<ServerConfig>>,
) {
    set_options(&stream, peer);
    let Some(tls) = tls else {
        return serve_http(stream, Peer::At(peer), slot, router).await;
    };
    let handshake = timeout(TIMEOUT, TlsAcceptor::from(tls).accept(stream));
    let shaken = tokio::select! {
        shaken = handshake => shaken,
        () = slot.has_to_leave() => return,
    };
    match shaken {
        Ok(Ok(stream)) => serve_http(stream, Peer::At(peer), slot, router).await,
        Ok(Err(error)) => debug!(%peer, %error, "a TLS session with an admin client failed"),
        Err(_) => debug!(%peer, "a TLS handshake of an admin client takes too long"),
    }
}

/// Sets the options of a connection.
fn set_options(stream: &TcpStream, peer: SocketAddr) {
    use rustix::net::sockopt::{set_socket_keepalive, set_tcp_user_timeout};
    let set = stream
        .set_nodelay(true)
        .and(set_socket_keepalive(stream, true).map_err(Into::into))
        .and(set_tcp_user_timeout(stream, STALLED).map_err(Into::into));
    if let Err(error) = set {
        debug!(%peer, %error, "an option of a connection could not be set");
    }
}

/// Serves HTTP on a connection until either side closes it.
pub(crate) async fn serve_http<S>(stream: S, peer: Peer, slot: ConnectionSlot, router: Router)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let kind = slot.kind();
    let service = service_fn(|request: hyper::Request<Incoming>| {
        let mut router = router.clone();
        let active = slot.begin_request();
        let mut request = request.map(Body::new);
        match peer {
            Peer::At(address) => drop(request.extensions_mut().insert(ConnectInfo(address))),
            Peer::Local => drop(request.extensions_mut().insert(LocalPeer)),
        }
        request.extensions_mut().insert(kind);
        async move {
            let mut response = router.call(request).await?;
            if kind == SlotKind::Spare {
                let close = HeaderValue::from_static("close");
                response.headers_mut().insert(CONNECTION, close);
            }
            Ok::<_, Infallible>(response.map(|body| active.ends_with(body)))
        }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(TIMEOUT)
        .max_buf_size(HEAD)
        .serve_connection(TokioIo::new(Filtered::new(stream, FramingFilter::new(HEAD))), service);
    let served = tokio::select! {
        served = served => served,
        () = slot.has_to_leave() => return,
    };
    if let Err(error) = served {
        debug!(?peer, %error, "an admin connection ended early");
    }
}
