//! CONNECT: crawlgate intercepts a tunnel or, under conditions, opens it opaquely.
//!
//! By default crawlgate answers 200, ends the TLS session itself with a certificate minted for the host, and judges
//! each request inside; plain HTTP inside is judged as `http`. Hosts that the operator exempts, and those outside the
//! name constraints of the local CA, get an opaque tunnel, but only if their robots.txt disallows nothing to this
//! crawler, and only for a TLS session with a ClientHello that names the host. When the settings or the overrides
//! change, open tunnels are judged again, and end if they would be denied now; a changed robots.txt ends no tunnel. The
//! same holds for WebSockets.
//!
//! rustls takes no name with a label that begins or ends with `-`, on either side. A tunnel to such a host is opaque, too: its
//! robots.txt is unreachable for that cause, which refuses the CONNECT unless an override allows the host.

mod intercept;
mod opaque;

use std::sync::Arc;

use http::{Request, Response, StatusCode};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;

use self::intercept::intercept;
use self::opaque::open;
use super::body::Answer;
use super::client_stream::CrawlerBody;
use super::client_stream::OnClientStream;
use super::connection::{Connection, Downstream};
use super::recorder::{Admitted, Answered, Exchange};
use super::refused::Refused;
use super::relay::{GOODBYE, relay};
use super::respond;
use super::target::{self, Scope, Unreadable};
use crawlgate_ca::Authority;
use crawlgate_gate::{Kind, Requester};
use crawlgate_policy::Target;
use crawlgate_robots::{Origin, Scheme};
use crawlgate_turns::client::AuthCache;

/// Answers a CONNECT.
///
/// # Errors
/// The refusal; nothing of the tunnel has been opened.
pub async fn connect(
    connection: &Connection,
    mut request: Box<Request<CrawlerBody>>,
    mut exchange: Exchange<Admitted>,
) -> Result<Response<Answer>, Refused> {
    let origin = match (&connection.scope, target::read_connect(request.uri())) {
        (Scope::Plain, Ok(origin)) => origin,
        // A tunnel in a tunnel would hide its contents.
        (Scope::Inside { .. }, Ok(_)) => return Err(exchange.unread(Unreadable::Malformed)),
        (_, Err(unreadable)) => return Err(exchange.unread(unreadable)),
    };
    exchange.set_origin(origin.clone());
    let Some(client_stream) = OnClientStream::take(&mut request) else {
        return Err(exchange.unread(Unreadable::Malformed));
    };
    let host = origin.host();
    let mut patterns = exchange.settings().tls.tunnel.iter();
    let is_exempt = patterns.any(|pattern| pattern.matches(host));
    // Every crawler would refuse a certificate that the CA may not sign.
    let is_exempt = is_exempt && !respond::is_self_test(&origin);
    // A TLS session with such a name cannot end here; port 80 carries plain HTTP.
    let has_odd_name = !Authority::can_name(host) && origin.port() != Scheme::Http.default_port();
    let is_exempt = is_exempt || has_odd_name;
    let proxy = connection.proxy();
    if is_exempt || !proxy.authority.load().covers(host) {
        if let Err(prohibited) = proxy.egress.check_connect(&origin) {
            return Err(exchange.prohibited(prohibited));
        }
        return open(connection, origin, client_stream, exchange).await;
    }
    // Requests inside are refused inside, even for a port that no CONNECT may ask for: clients show the reason there,
    // but of a refused CONNECT the status at most.
    let mut inside = connection.clone();
    // Requests inside belong to the client that opened the tunnel.
    inside.downstream.client = Arc::clone(exchange.client());
    // Requests inside are judged and recorded there; the CONNECT itself asks for nothing.
    let exchange = exchange.suspend(StatusCode::OK);
    proxy.spawn(async move {
        let Ok(client_stream) = client_stream.ready(&inside.downstream.slot).await else {
            return;
        };
        let intercepted = intercept(inside, origin, client_stream, exchange);
        if let Some(rest) = Box::pin(intercepted).await {
            rest.await;
        }
    });
    Ok(established())
}

/// The 2xx to a CONNECT carries neither Content-Length nor Transfer-Encoding (RFC 9110 9.3.6).
fn established() -> Response<Answer> {
    Response::new(Answer::empty())
}

/// Returns the target that stands for all requests of a tunnel to `origin`.
fn whole(origin: Origin) -> Target {
    Target { origin, path: http::uri::PathAndQuery::from_static("/") }
}

/// Tells whether a server name names the origin's host.
fn names(origin: &Origin, name: &str) -> bool {
    name.eq_ignore_ascii_case(origin.host())
        || Origin::new(origin.scheme(), name, Some(origin.port()))
            .is_ok_and(|named| named == *origin)
}

/// Resolves when a change of settings or overrides would deny the exchange with `target`, or has removed its client. A tunnel
/// that carries neither TLS nor HTTP has no `kind`.
fn denied<'a>(
    downstream: &'a Downstream,
    kind: Option<Kind>,
    target: Target,
    exchange: &Exchange<Answered>,
    mut changes: watch::Receiver<()>,
) -> impl Future<Output = ()> + use<'a> {
    let (client, agent) = (Arc::clone(exchange.client()), Arc::clone(exchange.agent()));
    let dialled = exchange.upstream();
    let Downstream { proxy, peer, .. } = downstream;
    let gate = &proxy.gate;
    async move {
        while changes.changed().await.is_ok() {
            let generation = gate.generation();
            let clients = gate.clients();
            // Removed, or its conditions have changed.
            let Ok(client) = clients.again(&client, peer, &AuthCache::default()) else {
                return;
            };
            let requester = Requester {
                address: peer.address.ip(),
                client: &client,
                agent: &agent,
                generation,
            };
            let target = target.clone();
            let is_denied = match kind {
                // Boxed: it should not burden a tunnel for as long as it is open.
                Some(kind) => Box::pin(gate.denies(kind, target, dialled, &requester)).await,
                None => gate.denies_opaque(target, &requester),
            };
            if is_denied {
                return;
            }
        }
        std::future::pending::<()>().await;
    }
}

/// A protocol switch under way, with the inputs to judge it again while the other protocol is spoken.
pub struct Switching {
    target: Target,
    changes: watch::Receiver<()>,
}

impl Switching {
    /// Keeps `target` and a subscription from before it was judged, so that no change is missed.
    pub fn to(target: &Target, changes: watch::Receiver<()>) -> Switching {
        let target = target.clone();
        Switching { target, changes }
    }

    /// Relays octets both ways until one side has finished, then drops the exchange. Breaks off when the request that
    /// began it would be denied.
    pub async fn relay(
        self,
        downstream: &Downstream,
        client_stream: impl AsyncRead + AsyncWrite + Unpin,
        upstream: impl AsyncRead + AsyncWrite + Unpin,
        exchange: Exchange<Answered>,
    ) {
        let Switching { target, changes } = self;
        let denied = denied(downstream, Some(Kind::Request), target, &exchange, changes);
        let both = (client_stream, upstream);
        relay(downstream, Some(GOODBYE), both, exchange, denied).await;
    }
}
