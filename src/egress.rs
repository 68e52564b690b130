//! The only way out: connections to origin servers.
//!
//! Everything that leaves carries an [`Errand`]: either a page with the [`Permit`] that cleared it, or
//! the fetch of a robots.txt. The request's URI is built here from the errand, not from what a crawler
//! wrote, so what was judged is what is fetched. Connections are pooled across crawlers and per origin,
//! TLS sessions are resumed, certificates are always verified.

mod failure;

use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::uri::{Authority, PathAndQuery, Scheme as UriScheme};
use http::{Request, Response, Uri};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::Name;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::net::TcpStream;
use tower_service::Service;

pub use self::failure::Failure;
use crate::config::{Config, UpstreamConfig};
use crate::policy::Permit;
use crate::rep::{Origin, Scheme};
use crate::robots::fetch::RobotsErrand;
use crate::trust::{self, TrustError};

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
pub struct Egress {
    client: Client<HttpsConnector<HttpConnector<Resolver>>, Outgoing>,
    tunnels: HttpConnector<Resolver>,
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
    pub fn new(config: &Config) -> Result<Egress, TrustError> {
        let tls = tls_config(&config.tls.extra_roots)?;
        let connector = tcp_connector(&config.upstream);
        let https = hyper_rustls::HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_http1()
            .wrap_connector(connector.clone());
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(config.upstream.idle_timeout)
            .pool_max_idle_per_host(config.upstream.idle_per_host)
            .set_host(false)
            // A proxy removes these before it forwards (RFC 9112 5.1 and 5.2); hyper does.
            .http1_allow_spaces_after_header_name_in_responses(true)
            .http1_allow_obsolete_multiline_headers_in_responses(true)
            .build(https);
        Ok(Egress {
            client,
            tunnels: connector,
        })
    }

    /// Sends a request on its errand. Method, fields and body are the caller's; the URI is the errand's.
    ///
    /// # Errors
    /// What went wrong, as [`Failure`] tells it; no response head came.
    pub async fn send(
        &self,
        errand: Errand,
        mut request: Request<Outgoing>,
    ) -> Result<Response<Incoming>, Failure> {
        let (origin, path) = match &errand {
            Errand::Page(permit) => (&permit.target().origin, &permit.target().path),
            Errand::Robots(errand) => errand.target(),
        };
        *request.uri_mut() = absolute(origin, path).ok_or(Failure::Unaddressable)?;
        *request.version_mut() = http::Version::HTTP_11;
        self.client
            .request(request)
            .await
            .map_err(|error| Failure::of(&error))
    }

    /// Connects to the origin of a tunnel that was cleared, without TLS of our own.
    ///
    /// # Errors
    /// What went wrong.
    pub async fn connect(&self, permit: Permit) -> Result<TcpStream, Failure> {
        let target = permit.target();
        let uri = absolute(&target.origin, &target.path).ok_or(Failure::Unaddressable)?;
        let mut connector = self.tunnels.clone();
        std::future::poll_fn(|cx| Service::poll_ready(&mut connector, cx))
            .await
            .map_err(|error| Failure::of(&error))?;
        let stream = connector
            .call(uri)
            .await
            .map_err(|error| Failure::of(&error))?;
        Ok(stream.into_inner())
    }
}

fn absolute(origin: &Origin, path: &PathAndQuery) -> Option<Uri> {
    let scheme = match origin.scheme() {
        Scheme::Http => UriScheme::HTTP,
        Scheme::Https => UriScheme::HTTPS,
        Scheme::Ftp => return None,
    };
    let authority = Authority::from_maybe_shared(Bytes::from(origin.authority())).ok()?;
    let mut parts = http::uri::Parts::default();
    parts.scheme = Some(scheme);
    parts.authority = Some(authority);
    parts.path_and_query = Some(path.clone());
    Uri::from_parts(parts).ok()
}

fn tls_config(extra_roots: &[PathBuf]) -> Result<rustls::ClientConfig, TrustError> {
    let roots = trust::upstream_roots(extra_roots)?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(TrustError::from)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(config)
}

fn tcp_connector(config: &UpstreamConfig) -> HttpConnector<Resolver> {
    let mut connector = HttpConnector::new_with_resolver(Resolver {
        hosts: Arc::new(config.hosts.clone()),
        system: hyper_util::client::legacy::connect::dns::GaiResolver::new(),
    });
    connector.enforce_http(false);
    connector.set_nodelay(true);
    connector.set_connect_timeout(Some(config.connect_timeout));
    connector.set_keepalive(Some(Duration::from_secs(60)));
    connector
}

/// Static names first, then the system's resolver.
#[derive(Debug, Clone)]
struct Resolver {
    hosts: Arc<HashMap<String, IpAddr>>,
    system: hyper_util::client::legacy::connect::dns::GaiResolver,
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
