//! Accepts crawlers and serves HTTP to them, on the wire or inside a tunnel.

use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tracing::{debug, warn};

use super::Proxy;
use super::body::Answer;
use super::exchange::Connection;
use super::framing::Bounds;
use super::link::Link;
use super::target::Scope;
use super::wire::{Patience, Wire};
use crate::client::{Client, Peer};

/// Pause after the system refused to hand out a connection, such as for want of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Accepts connections until the proxy stops.
pub async fn listen(proxy: Arc<Proxy>, listener: TcpListener, slots: Arc<Semaphore>) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = proxy.stop.cancelled() => return,
        };
        match accepted {
            Ok((stream, client)) => {
                if !proxy.is_welcome(client.ip()) {
                    debug!(%client, "not in [listen] allow");
                    continue;
                }
                // One waits here for a slot, the others in the system's queue: none is dropped.
                let slot = tokio::select! {
                    slot = Arc::clone(&slots).acquire_owned() => slot,
                    () = proxy.stop.cancelled() => return,
                };
                let Ok(slot) = slot else { return };
                let visitor = Visitor {
                    proxy: Arc::clone(&proxy),
                    peer: Arc::new(Peer {
                        address: client,
                        listener: None,
                        certificate: None,
                        is_private: client.ip().to_canonical().is_loopback(),
                    }),
                    client: Arc::default(),
                    slot: Arc::new(slot),
                };
                proxy.spawn(accept(visitor, stream));
            }
            Err(error) if is_of_one_connection(&error) => {}
            Err(error) => {
                warn!(%error, "no connection could be accepted");
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

/// Who is connected. Clones go with whatever the connection becomes.
#[derive(Debug, Clone)]
pub struct Visitor {
    /// The proxy.
    pub proxy: Arc<Proxy>,
    /// Who it is, as far as the connection tells.
    pub peer: Arc<Peer>,
    /// Whose connection it is, as far as that is known without what a request says.
    pub client: Arc<Client>,
    /// Its place under `[limits] connections`, free again when the last clone has gone: a tunnel outlives
    /// the HTTP connection that it was opened on.
    #[allow(dead_code, reason = "held, not read")]
    slot: Arc<OwnedSemaphorePermit>,
}

async fn accept(visitor: Visitor, stream: TcpStream) {
    if let Err(error) = stream.set_nodelay(true) {
        debug!(client = %visitor.peer.address, %error, "TCP_NODELAY could not be set");
    }
    // A crawler that vanished from a tunnel or a WebSocket is noticed by nothing else.
    if let Err(error) = rustix::net::sockopt::set_socket_keepalive(&stream, true) {
        debug!(client = %visitor.peer.address, %error, "SO_KEEPALIVE could not be set");
    }
    serve(stream, visitor, Scope::Plain).await;
}

/// Serves HTTP on `io` until either side closes it. Boxed: a tunnel serves inside what serves it.
pub fn serve<S>(io: S, visitor: Visitor, scope: Scope) -> Pin<Box<dyn Future<Output = ()> + Send>>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    Box::pin(async move {
        let (proxy, client) = (&visitor.proxy, visitor.peer.address);
        let stop = proxy.stop.clone();
        let limits = &proxy.settings.load_full().limits;
        let link = Arc::<Link>::default();
        let patience = Patience {
            bounds: Bounds {
                head: limits.header_bytes,
                target: limits.uri_bytes,
            },
            header: limits.header_timeout,
            idle: limits.idle_timeout,
        };
        let head_bytes = limits.header_bytes;
        let wire = Wire::new(io, patience, proxy.mark.clone(), Arc::clone(&link));
        let service = Exchanges(Arc::new(Connection {
            visitor,
            scope,
            link,
        }));
        let connection = http1::Builder::new()
            .max_buf_size((head_bytes + 8192).max(65_536))
            .serve_connection(TokioIo::new(wire), service)
            .with_upgrades();
        let mut connection = pin!(connection);
        let result = tokio::select! {
            biased;
            result = &mut connection => result,
            () = stop.cancelled() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = result {
            debug!(%client, %error, "a connection ended early");
        }
    })
}

/// hyper's view of a connection's exchanges.
struct Exchanges(Arc<Connection>);

impl Service<Request<Incoming>> for Exchanges {
    type Response = Response<Answer>;
    type Error = std::convert::Infallible;
    // Boxed, so that an idle connection does not hold room for an exchange.
    type Future = Pin<Box<dyn Future<Output = Result<Response<Answer>, Self::Error>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let connection = Arc::clone(&self.0);
        Box::pin(async move { Ok(connection.exchange(request).await) })
    }
}

impl Proxy {
    /// Whether a client of this address may connect.
    fn is_welcome(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        let listen = &self.settings.load().listen;
        listen.open
            || address.is_loopback()
            || listen
                .allow
                .iter()
                .any(|network| network.contains(&address))
    }
}
