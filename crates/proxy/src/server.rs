//! Accepts crawlers and serves HTTP to them, directly or inside a tunnel.
//!
//! The accept loop waits for nothing but connections. Admission and room are checked without waiting; the octets that a
//! connection sends before its first request are read in its own task.

use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::body::Answer;
use super::carrier::Http1Exchange;
use super::checked_stream::{CheckedStream, ConnectionTimeouts};
use super::client_stream::CrawlerBody;
use super::connection::ConnectionState;
use super::connection::{Connection, Downstream};
use super::counts::Handshake;
use super::exchange_state::ExchangeState;
use super::framing::USUAL_FIELDS;
use super::http2;
use super::limits::ConnectionSlot;
use super::listener::{ActiveListener, Stream, announce, certificate};
use super::refused::last_if;
use super::target::Scope;
use super::{ConnectionFailure, Proxy};
use crawlgate_egress::Pinned;
use crawlgate_system::clock::Moment;
use crawlgate_turns::client::{AuthCache, Peer};

/// Pause after the system refused to hand out a connection, for example for lack of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Time between two warnings of a listener that no connection could be accepted.
const BETWEEN_WARNINGS: Duration = Duration::from_secs(60);

/// Time for a handshake that has begun when the proxy stops.
pub const HANDSHAKE: Duration = Duration::from_secs(5);

/// Waits until the proxy stops, and then for `patience`.
pub async fn late(stop: &CancellationToken, patience: Duration) {
    stop.cancelled().await;
    tokio::time::sleep(patience).await;
}

/// Accepts connections until the proxy stops.
pub async fn listen(proxy: Arc<Proxy>, listener: Arc<ActiveListener>) {
    let mut warned_at: Option<Moment> = None;
    loop {
        let accepted = tokio::select! {
            biased;
            // First: a connection that is not accepted waits for the next process, if the service manager holds the
            // socket.
            () = proxy.stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, address)) => {
                let is_balancer = listener.is_balancer(address.ip());
                if !is_balancer && !listener.may_connect(address.ip()) {
                    debug!(client = %address, "not in allow");
                    continue;
                }
                let Some((slot, turned_away)) = proxy.slot() else {
                    debug!(client = %address, "no room, not even for an answer");
                    continue;
                };
                let downstream = Downstream {
                    proxy: Arc::clone(&proxy),
                    peer: Arc::new(Peer {
                        address,
                        listener: listener.name().cloned(),
                        certificate: None,
                        is_private: address.ip().to_canonical().is_loopback(),
                    }),
                    client: Arc::default(),
                    turned_away,
                    via: None,
                    slot: Arc::new(slot),
                };
                let tls = listener.tls();
                if is_balancer || tls.is_some() {
                    let listener = Arc::clone(&listener);
                    // Boxed: most connections need no prologue.
                    let prologue =
                        Box::pin(prologue(downstream, stream, listener, is_balancer, tls));
                    proxy.spawn(prologue);
                } else {
                    proxy.spawn(attend(downstream, stream));
                }
            }
            Err(error) if is_of_one_connection(&error) => {}
            // The system refuses a descriptor before it looks for a connection.
            Err(_) if !listener.has_waiting() => tokio::time::sleep(ACCEPT_PAUSE).await,
            Err(error) => {
                let now = proxy.clock.now();
                if warned_at.is_none_or(|at| now.since(at) >= BETWEEN_WARNINGS) {
                    warned_at = Some(now);
                    warn!(%error, "no connection could be accepted");
                }
                // If descriptors have run out, those of idle connections are of more use to another one.
                if !proxy.egress.close_idle() {
                    proxy.limiter.make_room();
                }
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
    )
}

/// Runs the steps before HTTP: a load balancer's announcement, and the TLS handshake.
async fn prologue(
    downstream: Downstream,
    stream: Stream,
    listener: Arc<ActiveListener>,
    is_balancer: bool,
    tls: Option<Arc<ServerConfig>>,
) {
    let (stop, slot) = (downstream.proxy.stop.clone(), Arc::clone(&downstream.slot));
    let patience = downstream.proxy.settings.load().limits.header_timeout;
    let prologue = read_prologue(downstream, stream, &listener, is_balancer, tls);
    let (downstream, stream) = tokio::select! {
        read = timeout(patience, prologue) => match read {
            Ok(Some(read)) => read,
            Ok(None) | Err(_) => return,
        },
        () = slot.has_to_leave() => return,
        () = late(&stop, HANDSHAKE) => return,
    };
    drop(slot);
    match stream {
        AcceptedStream::Plain(stream) => attend(downstream, stream).await,
        AcceptedStream::Tls(stream) => attend(downstream, *stream).await,
    }
}

/// Tells whether a listener refused the certificate of a client, or missed one.
fn is_refused_certificate(error: &io::Error) -> bool {
    use rustls::Error::{InvalidCertificate, NoCertificatesPresented};
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref());
    matches!(tls, Some(NoCertificatesPresented | InvalidCertificate(_)))
}

enum AcceptedStream {
    Plain(Stream),
    Tls(Box<TlsStream<Stream>>),
}

async fn read_prologue(
    mut downstream: Downstream,
    mut stream: Stream,
    listener: &ActiveListener,
    is_balancer: bool,
    tls: Option<Arc<ServerConfig>>,
) -> Option<(Downstream, AcceptedStream)> {
    let mut peer = Peer::clone(&downstream.peer);
    if is_balancer {
        let announced = match announce::read(&mut stream).await {
            Ok(announced) => announced,
            Err(error) => {
                let proxy = &downstream.proxy;
                if proxy.should_warn(peer.address, ConnectionFailure::Unannounced) {
                    warn!(
                        balancer = %peer.address.ip(),
                        %error,
                        "its connection was closed, which began with no valid PROXY protocol header: the listener's \
                         proxy_protocol_from names this address"
                    );
                }
                return None;
            }
        };
        peer.address = announced.unwrap_or(peer.address);
        // Both hops must be on this machine.
        peer.is_private &= peer.address.ip().to_canonical().is_loopback();
        if !listener.may_connect(peer.address.ip()) {
            let (proxy, balancer) = (&downstream.proxy, downstream.peer.address);
            if proxy.should_warn(balancer, ConnectionFailure::NotAllowed) {
                warn!(
                    balancer = %balancer.ip(),
                    client = %peer.address.ip(),
                    "a connection was closed: the listener's allow has not the client that the load balancer names"
                );
            }
            return None;
        }
    }
    let Some(tls) = tls else {
        downstream.peer = Arc::new(peer);
        return Some((downstream, AcceptedStream::Plain(stream)));
    };
    let tls = offering(tls, downstream.proxy.settings.load().listen.http2);
    let stream = match TlsAcceptor::from(tls).accept(stream).await {
        Ok(stream) => stream,
        Err(error) => {
            let proxy = &downstream.proxy;
            proxy.counts.shook(Handshake::Failed);
            if is_refused_certificate(&error)
                && proxy.should_warn(peer.address, ConnectionFailure::Certificate)
            {
                warn!(
                    client = %peer.address.ip(),
                    %error,
                    "a connection was closed: the crawler shows no certificate that the listener's client_ca verifies"
                );
            } else {
                debug!(client = %peer.address, %error, "a TLS session with a crawler failed");
            }
            return None;
        }
    };
    downstream.proxy.counts.shook(Handshake::Done);
    let (_, session) = stream.get_ref();
    peer.certificate = certificate(session).map(Arc::new);
    peer.is_private = true;
    downstream.peer = Arc::new(peer);
    Some((downstream, AcceptedStream::Tls(Box::new(stream))))
}

/// Serves a connection when its peer's address is known.
async fn attend<S>(mut downstream: Downstream, mut stream: S)
where
    S: Tune,
{
    if let Err(error) = stream.tune() {
        debug!(client = %downstream.peer.address, %error, "a connection could not be tuned");
    }
    if downstream.turned_away.is_none() {
        let settings = downstream.proxy.settings.load_full();
        let address = downstream.peer.address.ip();
        // The client's own limits hold from here on, and not only from its first request.
        let known = downstream.proxy.gate.clients().known(&downstream.peer);
        let client = known.as_ref().unwrap_or(&downstream.client);
        let taken_slot = downstream.slot.belongs_to(client, address, &settings.limits);
        if let Err(reason) = taken_slot {
            downstream.client = Arc::clone(client);
            let Some(slot) = downstream.proxy.limiter.spare_slot() else {
                return;
            };
            downstream.slot = Arc::new(slot);
            downstream.turned_away = Some(reason);
        }
    }
    stream.obey(&downstream.slot);
    stream.serve(downstream).await;
}

/// The connection of a crawler, as a listener hands it on.
trait Tune {
    fn tune(&self) -> io::Result<()>;

    /// Ends the connection with a reset if its `slot` says so.
    fn obey(&mut self, slot: &Arc<ConnectionSlot>);

    /// Serves the connection by the version of HTTP that was agreed.
    fn serve(self, downstream: Downstream) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

impl Tune for Stream {
    fn tune(&self) -> io::Result<()> {
        Stream::tune(self)
    }

    fn obey(&mut self, slot: &Arc<ConnectionSlot>) {
        Stream::obey(self, slot);
    }

    fn serve(self, downstream: Downstream) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        serve(self, downstream, Scope::Plain)
    }
}

impl Tune for TlsStream<Stream> {
    fn tune(&self) -> io::Result<()> {
        self.get_ref().0.tune()
    }

    fn obey(&mut self, slot: &Arc<ConnectionSlot>) {
        self.get_mut().0.obey(slot);
    }

    fn serve(self, downstream: Downstream) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        if has_chosen_http2(&self) {
            http2::serve(self, downstream, Scope::Plain)
        } else {
            serve(self, downstream, Scope::Plain)
        }
    }
}

/// Serves HTTP on `io` until either side closes it. Boxed: a tunnel is served inside this same function.
pub fn serve<S>(
    io: S,
    downstream: Downstream,
    scope: Scope,
) -> Pin<Box<dyn Future<Output = ()> + Send>>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    Box::pin(async move {
        let (proxy, client) = (&downstream.proxy, downstream.peer.address);
        let (stop, slot) = (proxy.stop.clone(), Arc::clone(&downstream.slot));
        let settings = proxy.settings.load_full();
        let limits = &settings.limits;
        let state = Arc::new(ConnectionState::of(&slot));
        let http1 = Arc::<Http1Exchange>::default();
        let exchange = Arc::new(ExchangeState::of_http1(&state, &http1));
        let patience = ConnectionTimeouts::of(limits, downstream.turned_away.is_some());
        let bounds = patience.bounds;
        let wire = CheckedStream::new(
            io,
            patience,
            proxy.refusal_token.clone(),
            Arc::clone(&exchange),
            http1,
        );
        // Only its numbers are needed; a connection should not keep replaced settings in memory.
        drop(settings);
        let pinned = Arc::<Pinned>::default();
        let service = Exchanges {
            connection: Arc::new(Connection {
                downstream,
                scope,
                auth_cache: AuthCache::default(),
                pinned: Arc::clone(&pinned),
            }),
            exchange,
        };
        let mut builder = http1::Builder::new();
        builder.preserve_header_case(true);
        builder.max_buf_size((bounds.head + 8192).max(65_536));
        if bounds.fields > USUAL_FIELDS {
            builder.max_headers(bounds.fields);
        }
        let connection = builder.serve_connection(TokioIo::new(wire), service).with_upgrades();
        let mut connection = pin!(connection);
        let result = tokio::select! {
            biased;
            result = &mut connection => result,
            // hyper's own shutdown would close connections with a request that has arrived and was not read yet.
            () = stop.cancelled() => {
                state.drain();
                connection.await
            }
            // An exchange that has begun in this very moment is still answered.
            () = slot.has_to_leave() => {
                state.leave();
                connection.as_mut().graceful_shutdown();
                connection.await
            }
            () = pinned.lost() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = result {
            debug!(%client, %error, "a connection ended early");
        }
    })
}

/// Returns a TLS configuration that offers HTTP/2 only if that is switched on.
pub fn offering(config: Arc<ServerConfig>, http2: bool) -> Arc<ServerConfig> {
    if http2 {
        return config;
    }
    let mut config = Arc::unwrap_or_clone(config);
    config.alpn_protocols.retain(|protocol| protocol != http2::ALPN);
    Arc::new(config)
}

/// Tells whether both sides of a TLS session have agreed on HTTP/2.
pub fn has_chosen_http2<S>(tls: &TlsStream<S>) -> bool {
    tls.get_ref().1.alpn_protocol() == Some(http2::ALPN)
}

/// hyper's view of a connection's exchanges.
struct Exchanges {
    connection: Arc<Connection>,
    /// State of the exchange under way.
    exchange: Arc<ExchangeState>,
}

impl Service<Request<Incoming>> for Exchanges {
    type Response = Response<Answer>;
    type Error = std::convert::Infallible;
    // Boxed, so that an idle connection does not hold room for an exchange.
    type Future = Pin<Box<dyn Future<Output = Result<Response<Answer>, Self::Error>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let connection = Arc::clone(&self.connection);
        let exchange = Arc::clone(&self.exchange);
        // hyper reads on before it polls the exchange for the first time.
        exchange.expect();
        let request = Box::new(request.map(CrawlerBody::Http1));
        Box::pin(async move {
            let is_connect = *request.method() == Method::CONNECT;
            let response = connection.exchange(&exchange, request).await;
            // A tunnel or another protocol has its own end.
            let goes_on = is_connect && response.status().is_success()
                || response.status() == StatusCode::SWITCHING_PROTOCOLS;
            let is_last = exchange.connection().is_draining() && !goes_on;
            Ok(last_if(is_last, response))
        })
    }
}
