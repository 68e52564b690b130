//! Takes or opens a connection to an origin: TCP, by its route, TLS and the HTTP handshake, within one time-out.

use std::future::{Future, Ready, ready};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::uri;
use http::{Uri, Version};
use hyper_rustls::{HttpsConnector, MaybeHttpsStream};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;
use tower_service::Service;

use super::attempt::Lease;
use super::http1;
use super::http2;
use super::key::Key;
use super::key::{Protocols, Sharing};
use super::multiplexer::{Protocol, Turn};
use super::origin_stream::OriginStream;
use super::pin::{EndGuard, EndsWith};
use super::shared::Shared;
use super::tls::HTTP_2;
use super::{Failure, Reuse, ViaChain};
use crawlgate_ca::Authority;
use crawlgate_config::HostPattern;
use crawlgate_origins::access::tls_fault::TlsFault;
use crawlgate_robots::{Origin, Scheme};
use crawlgate_system::clock::Moment;
use crawlgate_system::descriptors::are_exhausted;

/// Time between two checks whether closed idle connections have given up their descriptors, and the number of checks.
const CLOSING: Duration = Duration::from_millis(10);
const CLOSING_CHECKS: usize = 50;

impl Shared {
    /// Tells whether HTTP/2 may be offered to an origin.
    pub(super) fn offers_http2(&self, origin: &Origin) -> bool {
        let keeps_to_http1 = |host: &HostPattern| host.matches(origin.host());
        self.tls.offers_http2() && !self.http1_hosts.load().iter().any(keeps_to_http1)
    }

    /// Takes an open connection, or a free place on a shared one. `now` saves a reading of the clock.
    pub(super) fn take(
        &self,
        key: &Key,
        (sharing, protocols): (Sharing, Protocols),
        reuse: Reuse,
        now: Option<Moment>,
    ) -> Option<Lease> {
        let idle = match reuse {
            Reuse::Allowed => self.pool.take_for(sharing, key, now),
            Reuse::Forbidden => None,
        };
        match protocols {
            Protocols::Shared => idle
                .map(Lease::Http1)
                .or_else(|| self.multiplexer.take(key, |_| true).map(Lease::Http2)),
            Protocols::WebSocket if reuse == Reuse::Allowed => {
                let place = self.multiplexer.take(key, http2::Connection::takes_websockets);
                place.map(Lease::Http2).or_else(|| idle.map(Lease::Http1))
            }
            Protocols::WebSocket | Protocols::Http1 | Protocols::New => idle.map(Lease::Http1),
        }
    }

    /// Closes connections that wait for their next request, and returns their number.
    pub(super) fn close_idle(&self) -> usize {
        self.pool.close_idle() + self.multiplexer.close_idle()
    }

    /// Makes a connection; if no descriptor is left, it closes idle connections to free one.
    pub(super) async fn reach(
        &self,
        origin: &Origin,
        via: Option<&ViaChain>,
    ) -> Result<TcpStream, Failure> {
        self.again_with_room(|| self.dialler.dial(origin, via)).await
    }

    /// Makes a second connection to the host of an origin in the same way.
    pub(super) async fn reach_second(
        &self,
        origin: &Origin,
        address: SocketAddr,
        via: Option<&ViaChain>,
    ) -> Result<TcpStream, Failure> {
        self.again_with_room(|| self.dialler.dial_second(origin, address, via)).await
    }

    async fn again_with_room<F>(&self, dial: impl Fn() -> F) -> Result<TcpStream, Failure>
    where
        F: Future<Output = Result<TcpStream, Failure>>,
    {
        match dial().await {
            Err(Failure::Exhausted) if self.close_idle() > 0 => {
                // Each closed connection ends in its own task.
                for _ in 0..CLOSING_CHECKS {
                    tokio::time::sleep(CLOSING).await;
                    if !are_exhausted() {
                        break;
                    }
                }
                dial().await
            }
            dialled => dialled,
        }
    }

    /// Connects to the origin of `key` within a time that covers the look-up of its name, TCP and TLS; or takes a place
    /// on a shared connection, for which it waits as long. Tells, too, whether all places were taken meanwhile.
    pub(super) async fn connect(
        &self,
        key: Key,
        (sharing, protocols): (Sharing, Protocols),
        within: Duration,
        via: Option<ViaChain>,
    ) -> Result<(Lease, bool), Failure> {
        let (dial, was_crowded) = match protocols {
            Protocols::Shared => match self.multiplexer.turn(&key, within).await? {
                (Turn::Place(place), was_crowded) => return Ok((Lease::Http2(place), was_crowded)),
                (Turn::Dial(dial), was_crowded) => (Some(dial), was_crowded),
                (Turn::Alone, was_crowded) => (None, was_crowded),
            },
            Protocols::Http1 | Protocols::WebSocket | Protocols::New => (None, false),
        };
        let dialled = timeout(within, self.dial(key, sharing, protocols, via))
            .await
            .unwrap_or(Err(Failure::ConnectTimeout));
        if let (Some(dial), Err(failure)) = (dial, &dialled) {
            dial.fail(failure.clone());
        }
        Ok((dialled?, was_crowded))
    }

    async fn dial(
        &self,
        key: Key,
        sharing: Sharing,
        protocols: Protocols,
        via: Option<ViaChain>,
    ) -> Result<Lease, Failure> {
        if self.multiplexer.protocol(key.origin()) != Some(Protocol::Http1Only) {
            return self.dial_by(key, sharing, (protocols, protocols), via).await;
        }
        let by_http1 = (protocols, Protocols::Http1);
        let dialled = self.dial_by(key.clone(), sharing, by_http1, via.clone());
        match dialled.await {
            // It speaks only HTTP/2, however badly.
            Err(Failure::NoProtocol) if protocols != Protocols::Http1 => {
                let again = self.dial_by(key, sharing, (protocols, protocols), via);
                again.await
            }
            dialled => dialled,
        }
    }

    /// Dials for a request that may take some protocols, and offers others.
    async fn dial_by(
        &self,
        key: Key,
        sharing: Sharing,
        (protocols, offers): (Protocols, Protocols),
        via: Option<ViaChain>,
    ) -> Result<Lease, Failure> {
        let origin = key.origin();
        let uri = address(origin).ok_or(Failure::Unaddressable)?;
        let is_https = origin.scheme() == Scheme::Https;
        if is_https && !Authority::can_name(origin.host()) {
            return Err(TlsFault::ServerName.into());
        }
        // Before the address policy is asked: a connection made by an earlier one does not come back.
        let (generation, of_pool) = (self.multiplexer.generation(), self.pool.generation());
        let stream = self.reach(origin, via.as_ref()).await?;
        let peer = stream.peer_addr().map_err(|error| Failure::of(&error))?;
        let mut tls = HttpsConnector::from((Dialled(Some(stream)), self.tls.offering(offers)));
        let io = tls.call(uri).await.map_err(|error| match Failure::of(&*error) {
            Failure::Terminated => TlsFault::Closed.into(),
            failure => failure,
        });
        if is_https {
            self.counts.shook(&io);
        }
        if matches!(io, Err(Failure::NoProtocol)) {
            // It may have asked for HTTP/1.1 before.
            self.multiplexer.forget(origin);
        }
        let bounds = self.bounds;
        match io? {
            MaybeHttpsStream::Https(tls) if has_chosen_http2(&tls) => {
                self.multiplexer.remember(origin, Protocol::Http2);
                let authority = uri::Authority::try_from(origin.authority())
                    .map_err(|_| Failure::Unaddressable)?;
                let group = self.multiplexer.group(&key);
                let held = self.counts.opened(Version::HTTP_2);
                let connection = http2::Connection::handshake(
                    tls.into_inner(),
                    (peer, authority),
                    bounds,
                    group.changed(),
                    held,
                )
                .await?;
                self.sweep();
                let joins = protocols == Protocols::Shared;
                Ok(Lease::Http2(group.adopt(connection, generation, joins)))
            }
            io => {
                if offers != Protocols::Http1 {
                    self.multiplexer.remember(origin, Protocol::Http1);
                }
                let (sender, head, connection) = http1::handshake(io).await?;
                // The exchange that the connection carries, or the pool, notices its end.
                let open = self.counts.opened(Version::HTTP_11);
                let (told, followed) = match sharing {
                    Sharing::Whole => {
                        let (told, followed) = oneshot::channel();
                        (Some(told), Some(followed))
                    }
                    Sharing::Pooled | Sharing::Last | Sharing::Alone => (None, None),
                };
                let ends_with = Arc::<EndsWith>::default();
                let end = EndGuard(Arc::clone(&ends_with));
                let task = tokio::spawn(async move {
                    let _end = end;
                    match told {
                        Some(told) => http1::drive(connection, told).await,
                        None => drop(connection.with_upgrades().await),
                    }
                    drop(open);
                });
                self.sweep();
                let task = task.abort_handle();
                let connection = http1::Connection {
                    followed,
                    ..http1::Connection::new((sender, head), peer, task, ends_with)
                };
                Ok(Lease::Http1(self.pool.lease(key, connection, sharing, of_pool)))
            }
        }
    }

    /// Closes connections that have been idle for too long, again and again, from the first call on.
    fn sweep(&self) {
        self.sweeping.call_once(|| {
            let every = (self.idle_timeout / 2).max(Duration::from_secs(1));
            let (pool, multiplexer) =
                (Arc::downgrade(&self.pool), Arc::downgrade(&self.multiplexer));
            tokio::spawn(async move {
                loop {
                    tokio::time::sleep(every).await;
                    let (Some(pool), Some(multiplexer)) = (pool.upgrade(), multiplexer.upgrade())
                    else {
                        return;
                    };
                    pool.sweep();
                    multiplexer.sweep();
                }
            });
        });
    }
}

fn has_chosen_http2<S>(stream: &TokioIo<TlsStream<S>>) -> bool {
    let (_, session) = stream.inner().get_ref();
    session.alpn_protocol() == Some(HTTP_2)
}

/// Returns the origin as the connector needs it: a URI.
fn address(origin: &Origin) -> Option<Uri> {
    match origin.scheme() {
        Scheme::Http | Scheme::Https => Uri::try_from(format!("{origin}/")).ok(),
        Scheme::Ftp => None,
    }
}

/// An open connection, for the TLS connector.
struct Dialled(Option<TcpStream>);

impl Service<Uri> for Dialled {
    type Response = TokioIo<OriginStream>;
    type Error = io::Error;
    type Future = Ready<io::Result<TokioIo<OriginStream>>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        // A second call finds the stream already taken.
        let stream = self.0.take();
        let stream = stream.map(|stream| TokioIo::new(OriginStream::new(stream)));
        ready(stream.ok_or_else(|| io::ErrorKind::NotConnected.into()))
    }
}
