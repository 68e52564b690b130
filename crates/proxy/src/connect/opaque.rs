//! An opaque tunnel to an exempt host: open only for a TLS session with a ClientHello that names the host.

use std::net::Ipv4Addr;
use std::sync::Arc;

use bytes::BytesMut;
use http::{Response, StatusCode};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;
use tracing::debug;

use super::{denied, established, names, whole};
use crate::body::Answer;
use crate::client_stream::{ClientStream, OnClientStream};
use crate::connection::Connection;
use crate::hello::{self, Hello, Replay};
use crate::recorder::{Admitted, Answered, Exchange, Sent};
use crate::refused::Refused;
use crate::relay::relay;
use crate::respond::Refusal;
use crate::server;
use crawlgate_egress::Unconnected;
use crawlgate_gate::{Kind, MAX_JUDGEMENTS};
use crawlgate_net::read_filter::Filtered;
use crawlgate_policy::{Decision, Reason, Ruling};
use crawlgate_robots::Origin;

/// A TLS alert: fatal, unrecognized_name (RFC 6066 3).
const UNRECOGNIZED_NAME: [u8; 7] = [0x15, 3, 3, 0, 2, 2, 112];

/// Opens an opaque tunnel, if it may be opened.
pub(super) async fn open(
    connection: &Connection,
    origin: Origin,
    client_stream: OnClientStream,
    mut exchange: Exchange<Admitted>,
) -> Result<Response<Answer>, Refused> {
    exchange.set_opaque();
    // Subscribed before the tunnel is judged, so that no change is missed.
    let changes = connection.proxy().gate.changes();
    let (upstream, exchange) = dial(connection, &origin, exchange).await?;
    let mut exchange = exchange.answer(StatusCode::OK, None);
    let connection = connection.clone();
    let proxy = Arc::clone(&connection.downstream.proxy);
    proxy.spawn(async move {
        match client_stream.ready(&connection.downstream.slot).await {
            Ok(client_stream) => {
                pass(&connection, origin, client_stream, upstream, exchange, changes).await;
            }
            Err(_) => exchange.leave(),
        }
        drop(connection);
    });
    Ok(established())
}

/// Relays an opaque tunnel once its ClientHello names the tunnel's host.
async fn pass(
    connection: &Connection,
    origin: Origin,
    mut client_stream: ClientStream,
    upstream: TcpStream,
    mut exchange: Exchange<Answered>,
    changes: watch::Receiver<()>,
) {
    let downstream = &connection.downstream;
    let patience = exchange.settings().limits.header_timeout;
    let target = whole(origin.clone());
    let denied = denied(downstream, Some(Kind::Tunnel), target, &exchange, changes);
    let mut denied = std::pin::pin!(denied);
    let mut octets = BytesMut::new();
    let hello = tokio::select! {
        hello = timeout(patience, hello::read(&mut client_stream, &mut octets)) => hello,
        () = &mut denied => return exchange.fail("http_request_denied"),
        () = server::late(&downstream.proxy.stop, server::HANDSHAKE) => {
            return exchange.fail("proxy_stopped");
        }
    };
    let hello = match hello {
        Ok(Ok(hello)) => hello,
        Ok(Err(_)) => return exchange.fail("connection_terminated"),
        Err(_) => return exchange.fail("connection_read_timeout"),
    };
    let may_pass = match hello {
        Hello::Closed => return exchange.leave(),
        Hello::Tls(name) if fits(&origin, name.as_deref()) => true,
        Hello::Tls(name) => {
            debug!(%origin, ?name, "the server name of an opaque tunnel is not its host");
            exchange.set_detail(Some(&format!(
                "The ClientHello of this tunnel to {origin} names {}.",
                name.as_deref().unwrap_or("no server"),
            )));
            exchange.overrule(Decision::bare(Reason::Misdirected, downstream.proxy.clock.now()));
            // The client may be gone, or take nothing: a stream of HTTP/2 has a window.
            let _ = timeout(patience, client_stream.write_all(&UNRECOGNIZED_NAME)).await;
            false
        }
        // Octets other than TLS may be anything; report mode lets them pass.
        Hello::Unreadable => may_pass_opaque(connection, &origin, &mut exchange).await,
    };
    if !may_pass {
        exchange.fail("tls_protocol_error");
        let _ = client_stream.shutdown().await; // the client may be gone
        return;
    }
    let client_stream = Filtered::new(client_stream, Replay(octets.freeze()));
    relay(downstream, None, (client_stream, upstream), exchange, denied).await;
}

/// Judges a tunnel that carries something other than TLS.
async fn may_pass_opaque(
    connection: &Connection,
    origin: &Origin,
    exchange: &mut Exchange<Answered>,
) -> bool {
    let proxy = connection.proxy();
    let (target, now) = (whole(origin.clone()), proxy.clock.now());
    let ruling = proxy.gate.clear_opaque(target, &exchange.requester(), now).await;
    let passes = matches!(ruling, Ruling::Allow(..));
    exchange.overrule(ruling.into_decision());
    passes
}

/// Tells whether a ClientHello with this server name may go to `origin`: an address needs none (RFC 6066 3), a host
/// must be named.
fn fits(origin: &Origin, name: Option<&str>) -> bool {
    match name {
        Some(name) => names(origin, name),
        None => is_address(origin.host()),
    }
}

fn is_address(host: &str) -> bool {
    host.starts_with('[') || host.parse::<Ipv4Addr>().is_ok()
}

/// Connects a tunnel to its origin, if it may be opened. Judges again after a change while connecting.
async fn dial(
    connection: &Connection,
    origin: &Origin,
    mut exchange: Exchange<Admitted>,
) -> Result<(TcpStream, Exchange<Sent>), Refused> {
    let proxy = connection.proxy();
    let mut target = whole(origin.clone());
    for _ in 0..MAX_JUDGEMENTS {
        let (permit, decided) = connection.clear(Kind::Tunnel, target, exchange).await?;
        let via = connection.downstream.via.as_ref();
        match proxy.egress.connect(permit, via).await {
            Ok(upstream) => {
                let address = upstream.peer_addr().ok();
                return Ok((upstream, decided.connect(address)));
            }
            Err(Unconnected::Failed(failure)) => return Err(decided.unsent(failure)),
            Err(Unconnected::Overtaken(again)) => target = again,
        }
        exchange = decided.overtaken();
    }
    let judged = proxy.give_up(exchange.gated());
    Err(exchange.decided(judged).refuse(Refusal::Decided))
}
