//! Opens a connection to an origin: TCP, by its route, TLS and the HTTP handshake, within one time-out.

use std::future::{Ready, ready};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper_rustls::HttpsConnector;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tower_service::Service;

use super::http1::{self, Connection};
use super::pool::{Key, Lease, Pool};
use super::sharing::Sharing;
use super::{Failure, Shared, Way};
use crate::descriptors::are_exhausted;
use crate::rep::{Origin, Scheme};
use crate::trust::{self, TrustError};

/// Time between two checks whether closed idle connections have given up their descriptors, and the number of checks.
const CLOSING: Duration = Duration::from_millis(10);
const CLOSING_CHECKS: usize = 50;

/// Number of origins with resumable TLS sessions.
const RESUMABLE: usize = 4096;

impl Shared {
    /// Makes a connection; if no descriptor is left, it closes idle connections to free one.
    pub(super) async fn reach(
        &self,
        origin: &Origin,
        way: Option<&Way>,
    ) -> Result<TcpStream, Failure> {
        match self.dialler.dial(origin, way).await {
            Err(Failure::Exhausted) if self.pool.close_idle() > 0 => {
                // Each closed connection ends in its own task.
                for _ in 0..CLOSING_CHECKS {
                    tokio::time::sleep(CLOSING).await;
                    if !are_exhausted() {
                        break;
                    }
                }
                self.dialler.dial(origin, way).await
            }
            dialled => dialled,
        }
    }

    /// Connects to the origin of `key` within a time that covers the look-up of its name, TCP and TLS.
    pub(super) async fn dial(
        &self,
        key: Key,
        sharing: Sharing,
        within: Duration,
        way: Option<Way>,
    ) -> Result<Lease, Failure> {
        let origin = key.origin();
        let uri = address(origin).ok_or(Failure::Unaddressable)?;
        let connecting = async {
            let stream = self.reach(origin, way.as_ref()).await?;
            let peer = stream.peer_addr().map_err(|error| Failure::of(&error))?;
            let mut tls = HttpsConnector::from((Dialled(Some(stream)), Arc::clone(&self.tls)));
            let io = tls.call(uri).await.map_err(|error| Failure::of(&*error));
            if origin.scheme() == Scheme::Https {
                self.counts.shook(&io);
            }
            Ok((io?, peer))
        };
        let (io, peer) = timeout(within, connecting)
            .await
            .map_err(|_| Failure::ConnectTimeout)??;
        let (sender, connection) = http1::handshake(io).await?;
        // The exchange that the connection carries, or the pool, notices its end.
        let open = self.counts.opened();
        let task = tokio::spawn(async move {
            drop(connection.with_upgrades().await);
            drop(open);
        });
        self.sweeping.call_once(|| {
            let every = (self.idle_timeout / 2).max(Duration::from_secs(1));
            tokio::spawn(Pool::sweep(Arc::downgrade(&self.pool), every));
        });
        let connection = Connection::new(sender, peer, task.abort_handle());
        Ok(self.pool.lease(key, connection, sharing))
    }
}

/// Returns the origin as the connector needs it: a URI.
fn address(origin: &Origin) -> Option<Uri> {
    match origin.scheme() {
        Scheme::Http | Scheme::Https => Uri::try_from(format!("{origin}/")).ok(),
        Scheme::Ftp => None,
    }
}

/// Returns the TLS settings for connections to origins, which verify certificates by the system's roots and these.
pub(crate) fn tls_config(extra_roots: &[PathBuf]) -> Result<rustls::ClientConfig, TrustError> {
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

/// An open connection, for the TLS connector.
struct Dialled(Option<TcpStream>);

impl Service<Uri> for Dialled {
    type Response = TokioIo<TcpStream>;
    type Error = io::Error;
    type Future = Ready<io::Result<TokioIo<TcpStream>>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        // A second call finds the stream already taken.
        let stream = self.0.take().map(TokioIo::new);
        ready(stream.ok_or_else(|| io::ErrorKind::NotConnected.into()))
    }
}
