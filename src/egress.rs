//! The only way out: connections to origin servers.
//!
//! Everything that leaves carries an [`Errand`]: either a page with the [`Permit`] that cleared it, or
//! the fetch of a robots.txt. The request's URI is built here from the errand, not from what a crawler
//! wrote, so what was judged is what is fetched. How long a connection may take is the errand's, too.
//! Connections are pooled across crawlers and per origin, TLS sessions are resumed, certificates are
//! always verified.

mod failure;
mod pool;

use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Once};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, Uri, Version};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::connect::dns::{GaiResolver, Name};
use hyper_util::client::legacy::connect::{Connection as _, HttpConnector, HttpInfo};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tower_service::Service;

pub use self::failure::Failure;
pub use self::pool::Inbound;
use self::pool::{Lease, Pool};
use crate::clock::Clock;
use crate::config::{Config, UpstreamConfig};
use crate::policy::Permit;
use crate::rep::{Origin, Scheme};
use crate::robots::fetch::RobotsErrand;
use crate::trust::{self, TrustError};

/// A connection that was idle for so long may have been closed by the origin without our having heard of it yet.
const DOUBTFUL: Duration = Duration::from_millis(2);

/// Origins whose TLS sessions can be resumed.
const RESUMABLE: usize = 4096;

/// What a request goes out for.
#[derive(Debug)]
pub enum Errand {
    /// A page that was cleared.
    Page(Permit),
    /// A robots.txt, which needs no clearance.
    Robots(RobotsErrand),
}

/// The connections to origins.
#[derive(Debug, Clone)]
pub struct Egress(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    tcp: HttpConnector<Resolver>,
    tls: Arc<rustls::ClientConfig>,
    pool: Arc<Pool>,
    connect_timeout: Duration,
    idle_timeout: Duration,
    sweeping: Once,
}

/// A response head, and where it came from.
#[derive(Debug)]
pub struct Received {
    /// The head, with the body to come.
    pub response: Response<Inbound>,
    /// The address that was dialled.
    pub peer: SocketAddr,
}

/// The body of a request that leaves.
#[derive(Default)]
pub enum Outgoing {
    /// None.
    #[default]
    Empty,
    /// As it comes from the crawler.
    Stream(Pin<Box<dyn Body<Data = Bytes, Error = BodyError> + Send>>),
}

/// Why a body could not be passed on.
pub type BodyError = Box<dyn std::error::Error + Send + Sync>;

impl Egress {
    /// Opens the way out as configured. Nothing is connected yet.
    ///
    /// # Errors
    /// When the trusted roots cannot be read.
    pub fn new(config: &Config, clock: Clock) -> Result<Egress, TrustError> {
        let upstream = &config.upstream;
        Ok(Egress(Arc::new(Shared {
            tcp: tcp_connector(upstream),
            tls: Arc::new(tls_config(&config.tls.extra_roots)?),
            pool: Pool::new(upstream.idle_per_host, upstream.idle_timeout, clock),
            connect_timeout: upstream.connect_timeout,
            idle_timeout: upstream.idle_timeout,
            sweeping: Once::new(),
        })))
    }

    /// Sends a request on its errand and waits for the response head. Method, fields and body are the
    /// caller's; where it goes, what it asks for and how long a connection may take are the errand's. A page's
    /// head may take as long as the caller waits, a robots.txt's as long as its errand says from the
    /// moment that there is a connection.
    ///
    /// # Errors
    /// What went wrong, as [`Failure`] tells it; no response head came.
    pub async fn send(
        &self,
        errand: Errand,
        mut request: Request<Outgoing>,
    ) -> Result<Received, Failure> {
        let (origin, path) = match &errand {
            Errand::Page(permit) => (&permit.target().origin, &permit.target().path),
            Errand::Robots(errand) => errand.target(),
        };
        let (to_connect, to_answer) = match &errand {
            Errand::Page(_) => (self.0.connect_timeout, None),
            Errand::Robots(errand) => {
                let (to_connect, to_answer) = errand.patience();
                (to_connect, Some(to_answer))
            }
        };
        *request.uri_mut() = Uri::from(path.clone());
        *request.version_mut() = Version::HTTP_11;
        let is_barred = |lease: &Lease| match &errand {
            Errand::Page(_) => false,
            Errand::Robots(errand) => !errand.may_reach(lease.peer.ip()),
        };
        while let Some(lease) = self.0.pool.take(origin) {
            if is_barred(&lease) {
                return Err(Failure::Prohibited);
            }
            let spare = (lease.idle_for >= DOUBTFUL)
                .then(|| copy_if_safe(&request))
                .flatten();
            match (answer(lease, request, to_answer).await, spare) {
                (Ok(received), _) => return Ok(received),
                (Err(Lost::Unsent(unsent)), _) => request = unsent,
                // The origin may have closed the connection while the request was on its way. Once more, then,
                // on a connection that has no past.
                (Err(Lost::Sent(Failure::Terminated)), Some(spare)) => {
                    request = spare;
                    break;
                }
                (Err(Lost::Sent(failure)), _) => return Err(failure),
            }
        }
        // Boxed: what a rare connect needs should not burden every request's future.
        let lease = Box::pin(self.0.dial(origin, to_connect)).await?;
        if is_barred(&lease) {
            return Err(Failure::Prohibited);
        }
        answer(lease, request, to_answer)
            .await
            .map_err(|lost| match lost {
                Lost::Sent(failure) => failure,
                Lost::Unsent(_) => Failure::Terminated,
            })
    }

    /// Connects to the origin of a tunnel that was cleared, without TLS of our own.
    ///
    /// # Errors
    /// What went wrong.
    pub async fn connect(&self, permit: Permit) -> Result<TcpStream, Failure> {
        let uri = address(&permit.target().origin).ok_or(Failure::Unaddressable)?;
        let within = self.0.connect_timeout;
        let stream = timeout(within, self.0.tcp(within).call(uri))
            .await
            .map_err(|_| Failure::ConnectTimeout)?
            .map_err(|error| Failure::of(&error))?;
        Ok(stream.into_inner())
    }
}

impl Shared {
    /// A connector for one connection, with its share of time for each of a host's addresses: one that does not
    /// answer must not use up what the next one needs.
    fn tcp(&self, within: Duration) -> HttpConnector<Resolver> {
        let mut tcp = self.tcp.clone();
        tcp.set_connect_timeout(Some(within));
        tcp
    }

    /// Connects to `origin` within a time that covers the look-up of its name, TCP and TLS.
    async fn dial(&self, origin: &Origin, within: Duration) -> Result<Lease, Failure> {
        let uri = address(origin).ok_or(Failure::Unaddressable)?;
        let mut connector = HttpsConnector::from((self.tcp(within), Arc::clone(&self.tls)));
        let io = timeout(within, connector.call(uri))
            .await
            .map_err(|_| Failure::ConnectTimeout)?
            .map_err(|error| Failure::of(&*error))?;
        let mut extras = http::Extensions::new();
        io.connected().get_extras(&mut extras);
        let peer = extras
            .get::<HttpInfo>()
            .map(HttpInfo::remote_addr)
            .ok_or(Failure::Unaddressable)?;
        let (sender, connection) = http1::Builder::new()
            // A proxy mends these before it forwards (RFC 9112 5.1 and 5.2); hyper does.
            .allow_spaces_after_header_name_in_responses(true)
            .allow_obsolete_multiline_headers_in_responses(true)
            .handshake(io)
            .await
            .map_err(|error| Failure::of(&error))?;
        // Its end is seen by the exchange that it carries, or by the pool.
        tokio::spawn(async move { drop(connection.with_upgrades().await) });
        self.sweeping.call_once(|| {
            let every = (self.idle_timeout / 2).max(Duration::from_secs(1));
            tokio::spawn(Pool::sweep(Arc::downgrade(&self.pool), every));
        });
        Ok(self.pool.lease(origin, sender, peer))
    }
}

/// A request that got no answer.
#[allow(
    clippy::large_enum_variant,
    reason = "it lives for an instant, and a box would cost more"
)]
enum Lost {
    /// Nothing of it was sent.
    Unsent(Request<Outgoing>),
    /// It may have been.
    Sent(Failure),
}

/// An attempt whose response head may take `patience`; without one, any time.
async fn answer(
    lease: Lease,
    request: Request<Outgoing>,
    patience: Option<Duration>,
) -> Result<Received, Lost> {
    match patience {
        None => attempt(lease, request).await,
        // Boxed, as a connect is: pages need no second attempt in their future.
        Some(patience) => Box::pin(timeout(patience, attempt(lease, request)))
            .await
            .unwrap_or(Err(Lost::Sent(Failure::ResponseTimeout))),
    }
}

async fn attempt(mut lease: Lease, request: Request<Outgoing>) -> Result<Received, Lost> {
    match lease.sender.try_send_request(request).await {
        Ok(response) => {
            let peer = lease.peer;
            let response = response.map(|incoming: Incoming| Inbound::new(incoming, lease));
            Ok(Received { response, peer })
        }
        Err(mut error) => Err(match error.take_message() {
            Some(request) => Lost::Unsent(request),
            None => Lost::Sent(Failure::of(error.error())),
        }),
    }
}

/// A second copy of a request that may be sent twice: safe, and without a body.
fn copy_if_safe(request: &Request<Outgoing>) -> Option<Request<Outgoing>> {
    let is_safe = matches!(
        *request.method(),
        Method::GET | Method::HEAD | Method::OPTIONS
    );
    if !is_safe || !request.body().is_end_stream() {
        return None;
    }
    let mut copy = Request::new(Outgoing::Empty);
    copy.method_mut().clone_from(request.method());
    copy.uri_mut().clone_from(request.uri());
    copy.headers_mut().clone_from(request.headers());
    copy.extensions_mut().clone_from(request.extensions());
    Some(copy)
}

/// The origin as the connector wants it: a URI.
fn address(origin: &Origin) -> Option<Uri> {
    match origin.scheme() {
        Scheme::Http | Scheme::Https => Uri::try_from(format!("{origin}/")).ok(),
        Scheme::Ftp => None,
    }
}

fn tls_config(extra_roots: &[PathBuf]) -> Result<rustls::ClientConfig, TrustError> {
    let roots = trust::upstream_roots(extra_roots)?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(TrustError::from)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.resumption = rustls::client::Resumption::in_memory_sessions(RESUMABLE);
    Ok(config)
}

fn tcp_connector(config: &UpstreamConfig) -> HttpConnector<Resolver> {
    let mut connector = HttpConnector::new_with_resolver(Resolver {
        hosts: Arc::new(config.hosts.clone()),
        system: GaiResolver::new(),
    });
    connector.enforce_http(false);
    connector.set_nodelay(true);
    connector.set_keepalive(Some(Duration::from_secs(60)));
    connector
}

/// Static names first, then the system's resolver.
#[derive(Debug, Clone)]
struct Resolver {
    hosts: Arc<HashMap<String, IpAddr>>,
    system: GaiResolver,
}

/// A name did not resolve.
#[derive(Debug)]
struct DnsError(io::Error);

impl std::fmt::Display for DnsError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "name not resolved: {}", self.0)
    }
}

impl std::error::Error for DnsError {}

impl Service<Name> for Resolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = DnsError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, DnsError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), DnsError>> {
        Service::poll_ready(&mut self.system, cx).map_err(DnsError)
    }

    fn call(&mut self, name: Name) -> Self::Future {
        if let Some(address) = self.hosts.get(name.as_str()) {
            let found = vec![SocketAddr::new(*address, 0)];
            return Box::pin(async move { Ok(found.into_iter()) });
        }
        let lookup = self.system.call(name);
        Box::pin(async move {
            let found: Vec<SocketAddr> = lookup.await.map_err(DnsError)?.collect();
            Ok(found.into_iter())
        })
    }
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match self.get_mut() {
            Outgoing::Empty => Poll::Ready(None),
            Outgoing::Stream(body) => body.as_mut().poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Outgoing::Empty => true,
            Outgoing::Stream(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Outgoing::Empty => SizeHint::with_exact(0),
            Outgoing::Stream(body) => body.size_hint(),
        }
    }
}
