//! An intercepted tunnel: its TLS session ends here, or its plain HTTP is read here.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;
use tracing::{debug, warn};

use super::{denied, names, whole};
use crate::checked_stream::CHANCE;
use crate::client_stream::ClientStream;
use crate::connection::{Connection, Downstream};
use crate::counts::Handshake;
use crate::hello::{Replay, Replayed, TLS_HANDSHAKE};
use crate::recorder::{Exchange, Suspended};
use crate::refused::unidentified;
use crate::relay::relay;
use crate::target::Scope;
use crate::upstream::Unanswered;
use crate::{ConnectionFailure, http2, server};
use crawlgate_egress::{Failure, Unconnected};
use crawlgate_gate::MAX_JUDGEMENTS;
use crawlgate_net::read_filter::Filtered;
use crawlgate_origins::access::tls_fault::alert_name;
use crawlgate_policy::{Decision, Ruling};
use crawlgate_robots::{Origin, Scheme};

/// The work after a tunnel's first octets, to the tunnel's end. Apart from [`intercept`], so that the state of a
/// handshake does not stay for as long as the session.
type Rest = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Ends the TLS session of a tunnel, or reads the plain HTTP in it, and returns the rest of the tunnel. The CONNECT's
/// exchange is recorded only for a tunnel that carries neither.
pub(super) async fn intercept(
    connection: Connection,
    origin: Origin,
    mut io: ClientStream,
    exchange: Exchange<Suspended>,
) -> Option<Rest> {
    let patience = exchange.settings().limits.header_timeout;
    // No server answers behind a refused port: a client that waits for its first octets would wait for nothing.
    let silence = match connection.downstream.proxy.egress.check_connect(&origin) {
        Ok(()) => patience,
        Err(_) => patience.min(CHANCE),
    };
    let mut first = [0; 1];
    let heard = tokio::select! {
        read = timeout(silence, io.read(&mut first)) => matches!(read, Ok(Ok(1))),
        () = server::late(&connection.downstream.proxy.stop, CHANCE) => false,
        () = connection.downstream.slot.has_to_leave() => false,
    };
    if !heard {
        record_prohibited(&connection, &origin, exchange);
        return None;
    }
    let [first] = first;
    let io = Filtered::new(io, Replay(Bytes::copy_from_slice(&[first])));
    match first {
        TLS_HANDSHAKE => {
            drop(exchange);
            let shaken = tokio::select! {
                shaken = handshake(&connection.downstream, &origin, io, patience) => shaken,
                () = server::late(&connection.downstream.proxy.stop, server::HANDSHAKE) => return None,
                () = connection.downstream.slot.has_to_leave() => return None,
            };
            let counts = &connection.downstream.proxy.counts;
            match shaken {
                Ok((tls, stray_name)) => {
                    counts.shook(Handshake::Done);
                    Some(serve(tls, connection.downstream, origin, stray_name))
                }
                Err(error) => {
                    counts.shook(if is_distrust(&error) {
                        Handshake::Distrusted
                    } else {
                        Handshake::Failed
                    });
                    debug!(%origin, %error, "a TLS session through the proxy failed");
                    None
                }
            }
        }
        b'A'..=b'Z' | b'a'..=b'z' => {
            drop(exchange);
            let port = Some(origin.port());
            let origin = Origin::new(Scheme::Http, origin.host(), port).ok()?;
            let scope = Scope::Inside { origin, stray_name: None };
            Some(server::serve(io, connection.downstream, scope))
        }
        _ => Some(Box::pin(pass_opaque(connection, origin, io, exchange))),
    }
}

/// Serves the requests of a TLS session, and counts it if none came: some clients verify a certificate after the handshake.
fn serve(tls: Tls, downstream: Downstream, origin: Origin, stray_name: Option<Box<str>>) -> Rest {
    let (proxy, slot) = (Arc::clone(&downstream.proxy), Arc::clone(&downstream.slot));
    let begun = slot.last_end();
    let name = tls.get_ref().1.server_name().map(Box::<str>::from);
    let tunnel = origin.clone();
    let scope = Scope::Inside { origin, stray_name };
    let served = if server::has_chosen_http2(&tls) {
        http2::serve(tls, downstream, scope)
    } else {
        server::serve(tls, downstream, scope)
    };
    Box::pin(async move {
        served.await;
        let is_unused = slot.last_end() == begun && !slot.is_busy();
        if is_unused && !proxy.stop.is_cancelled() {
            proxy.summary.count_ended_session(tunnel.as_str(), name.as_deref(), None);
        }
    })
}

/// Records a prohibited tunnel in which no request came that could have been refused.
fn record_prohibited(connection: &Connection, origin: &Origin, mut exchange: Exchange<Suspended>) {
    let proxy = connection.proxy();
    if let Err(prohibited) = proxy.egress.check_connect(origin) {
        exchange.decide(Decision::prohibited(prohibited, proxy.clock.now()));
        exchange.fail(Failure::Prohibited(prohibited).error_type());
    }
}

/// Records a tunnel that carries neither TLS nor HTTP, and lets it through in report mode.
async fn pass_opaque(
    connection: Connection,
    origin: Origin,
    io: Replayed<ClientStream>,
    mut exchange: Exchange<Suspended>,
) {
    let proxy = connection.proxy();
    let changes = proxy.gate.changes();
    let upstream = match dial_opaque(&connection, &origin, &mut exchange).await {
        Ok(upstream) => upstream,
        Err(Unanswered::Failed(failure)) => {
            if let Failure::Prohibited(prohibited) = failure {
                exchange.decide(Decision::prohibited(prohibited, proxy.clock.now()));
            }
            return exchange.fail(failure.error_type());
        }
        Err(Unanswered::Denied) => return exchange.fail("http_protocol_error"),
    };
    let exchange = exchange.connect(upstream.peer_addr().ok());
    let downstream = &connection.downstream;
    let denied = denied(downstream, None, whole(origin), &exchange, changes);
    relay(downstream, None, (io, upstream), exchange, denied).await;
}

/// Connects a tunnel that carries neither TLS nor HTTP, if it may be opened. Judges again after a change while
/// connecting.
async fn dial_opaque(
    connection: &Connection,
    origin: &Origin,
    exchange: &mut Exchange<Suspended>,
) -> Result<TcpStream, Unanswered> {
    let proxy = connection.proxy();
    proxy.egress.check_connect(origin).map_err(Failure::Prohibited)?;
    for _ in 0..MAX_JUDGEMENTS {
        // The tunnel may have been silent for long.
        if let Err(auth_error) = connection.keep_identified(exchange.gated()) {
            exchange.decide(unidentified(auth_error, proxy.clock.now()));
            return Err(Unanswered::Denied);
        }
        let (target, now) = (whole(origin.clone()), exchange.time());
        let ruling = proxy.gate.clear_opaque(target, &exchange.requester(), now).await;
        let permit = match ruling {
            Ruling::Refuse(decision) => {
                exchange.decide(*decision);
                return Err(Unanswered::Denied);
            }
            Ruling::Allow(permit, decision) => {
                exchange.decide(*decision);
                permit
            }
        };
        exchange.set_opaque();
        match proxy.egress.connect(permit, connection.downstream.via.as_ref()).await {
            Ok(upstream) => return Ok(upstream),
            Err(Unconnected::Failed(failure)) => return Err(failure.into()),
            Err(Unconnected::Overtaken(_)) => {}
        }
    }
    proxy.give_up(exchange.gated());
    Err(Unanswered::Denied)
}

/// The stream inside an intercepted tunnel.
type Tls = TlsStream<Replayed<ClientStream>>;

/// Ends TLS, and returns the server name that the client asked for if it is not the tunnel's.
async fn handshake(
    downstream: &Downstream,
    origin: &Origin,
    io: Replayed<ClientStream>,
    patience: Duration,
) -> io::Result<(Tls, Option<Box<str>>)> {
    let hello = LazyConfigAcceptor::new(rustls::server::Acceptor::default(), io);
    let start = timeout(patience, hello).await??;
    let name = start.client_hello().server_name().map(Box::<str>::from);
    let offered = start.client_hello().alpn();
    let speaks_http_1 =
        offered.is_none_or(|mut offered| offered.any(|protocol| protocol == b"http/1.1"));
    let client = downstream.peer.address;
    let has_http_2 = downstream.proxy.settings.load().listen.http2;
    if !has_http_2
        && !speaks_http_1
        && downstream.proxy.should_warn(client, ConnectionFailure::Protocol)
    {
        warn!(
            %origin,
            %client,
            "the crawler offers HTTP/2 only, which [listen] http2 = false forbids: have it offer HTTP/1.1, too (ALPN http/1.1)"
        );
    }
    // A client verifies the certificate against the name it asked for. It reads the refusal of a wrong name only behind
    // a certificate that it accepts.
    let stray_name = name.clone().filter(|name| !names(origin, name));
    let config = {
        let authority = downstream.proxy.authority.load();
        let stray = stray_name.as_deref().filter(|name| authority.covers(name));
        let host = stray.unwrap_or(origin.host());
        let config = authority.server_config(host).map_err(io::Error::other)?;
        server::offering(config, has_http_2)
    };
    match timeout(patience, start.into_stream(config)).await? {
        Ok(tls) => Ok((tls, stray_name)),
        Err(error) => {
            let proxy = &downstream.proxy;
            let alert = match tls_error(&error) {
                Some(rustls::Error::AlertReceived(alert)) => Some(u8::from(*alert)),
                // What the client sent was refused here.
                Some(_) => return Err(error),
                None => None,
            };
            proxy.summary.count_ended_session(origin.as_str(), name.as_deref(), alert);
            if is_distrust(&error) && proxy.should_warn(client, ConnectionFailure::Distrust) {
                warn!(
                    %origin,
                    %client,
                    server_name = name.as_deref(),
                    alert = alert.and_then(alert_name),
                    "the crawler does not trust the local CA: see `crawlgate ca setup`"
                );
            }
            Err(error)
        }
    }
}

/// Returns the error of TLS by which a handshake failed; `None`: the connection broke.
fn tls_error(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref()
}

/// Tells whether a handshake failed because the client does not know our CA.
fn is_distrust(error: &io::Error) -> bool {
    use rustls::AlertDescription::{BadCertificate, CertificateUnknown, UnknownCA};
    matches!(
        tls_error(error),
        Some(rustls::Error::AlertReceived(UnknownCA | BadCertificate | CertificateUnknown))
    )
}
