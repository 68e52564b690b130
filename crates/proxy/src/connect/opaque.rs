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

use super::standing::denied;
use super::{established, names, whole};
use crate::body::Answer;
use crate::client_stream::{ClientStream, OnClientStream};
use crate::downstream::Connection;
use crate::hello::{self, Hello, Replay};
use crate::recorder::ExchangeRecorder;
use crate::refused::{RefusedExchange, unsent};
use crate::relay::Relay;
use crate::respond::Refusal;
use crate::server;
use crate::upstream::Unanswered;
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
    mut recorder: Box<ExchangeRecorder>,
) -> Result<Response<Answer>, RefusedExchange> {
    recorder.set_opaque();
    // Subscribed before the tunnel is judged, so that no change is missed.
    let changes = connection.downstream.proxy.gate.changes();
    let upstream = match dial(connection, &origin, &mut recorder).await {
        Ok(upstream) => upstream,
        Err(Unanswered::Failed(failure)) => return Err((unsent(failure, &mut recorder), recorder)),
        Err(Unanswered::Denied) => return Err((Refusal::Decided, recorder)),
    };
    recorder.set_upstream(upstream.peer_addr().ok());
    recorder.response_started(StatusCode::OK.as_u16(), None);
    let connection = connection.clone();
    let proxy = Arc::clone(&connection.downstream.proxy);
    proxy.spawn(async move {
        match client_stream.ready(&connection.downstream.slot).await {
            Ok(client_stream) => {
                pass(
                    &connection,
                    origin,
                    client_stream,
                    upstream,
                    recorder,
                    changes,
                )
                .await;
            }
            Err(_) => recorder.client_closed(),
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
    mut recorder: Box<ExchangeRecorder>,
    changes: watch::Receiver<()>,
) {
    let downstream = &connection.downstream;
    let patience = downstream.proxy.settings.load().limits.header_timeout;
    let (client, agent) = (Arc::clone(recorder.client()), Arc::clone(recorder.agent()));
    let to = (whole(origin.clone()), recorder.upstream());
    let denied = denied(downstream, Kind::Tunnel, to, client, agent, changes);
    let mut denied = std::pin::pin!(denied);
    let mut octets = BytesMut::new();
    let hello = tokio::select! {
        hello = timeout(patience, hello::read(&mut client_stream, &mut octets)) => hello,
        () = &mut denied => return recorder.failed("http_request_denied"),
        () = server::late(&downstream.proxy.stop, server::HANDSHAKE) => {
            return recorder.failed("proxy_stopped");
        }
    };
    let hello = match hello {
        Ok(Ok(hello)) => hello,
        Ok(Err(_)) => return recorder.failed("connection_terminated"),
        Err(_) => return recorder.failed("connection_read_timeout"),
    };
    let may_pass = match hello {
        Hello::Closed => return recorder.client_closed(),
        Hello::Tls(name) if fits(&origin, name.as_deref()) => true,
        Hello::Tls(name) => {
            debug!(%origin, ?name, "the server name of an opaque tunnel is not its host");
            recorder.set_detail(Some(&format!(
                "The ClientHello of this tunnel to {origin} names {}.",
                name.as_deref().unwrap_or("no server"),
            )));
            recorder.decide(Decision::bare(
                Reason::Misdirected,
                downstream.proxy.clock.now(),
            ));
            // The client may be gone, or take nothing: a stream of HTTP/2 has a window.
            let _ = timeout(patience, client_stream.write_all(&UNRECOGNIZED_NAME)).await;
            false
        }
        // Octets other than TLS may be anything; report mode lets them pass.
        Hello::Unreadable => may_pass_opaque(connection, &origin, &mut recorder).await,
    };
    if !may_pass {
        recorder.failed("tls_protocol_error");
        let _ = client_stream.shutdown().await; // the client may be gone
        return;
    }
    let client_stream = Filtered::new(client_stream, Replay(octets.freeze()));
    let relay = Relay::of(downstream, None);
    relay.run(client_stream, upstream, recorder, denied).await;
}

/// Judges a tunnel that carries something other than TLS.
async fn may_pass_opaque(
    connection: &Connection,
    origin: &Origin,
    recorder: &mut ExchangeRecorder,
) -> bool {
    let proxy = &connection.downstream.proxy;
    let (target, now) = (whole(origin.clone()), proxy.clock.now());
    let ruling = proxy
        .gate
        .clear_opaque(target, &recorder.requester(), now)
        .await;
    let passes = matches!(ruling, Ruling::Allow(..));
    recorder.decide(ruling.into_decision());
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
    recorder: &mut ExchangeRecorder,
) -> Result<TcpStream, Unanswered> {
    let proxy = &connection.downstream.proxy;
    let mut target = whole(origin.clone());
    for _ in 0..MAX_JUDGEMENTS {
        let permit = connection.clear(Kind::Tunnel, target, recorder).await;
        match proxy
            .egress
            .connect(
                permit.ok_or(Unanswered::Denied)?,
                connection.downstream.via.as_ref(),
            )
            .await
        {
            Ok(upstream) => return Ok(upstream),
            Err(Unconnected::Failed(failure)) => return Err(failure.into()),
            Err(Unconnected::Overtaken(again)) => target = again,
        }
    }
    proxy.give_up(recorder);
    Err(Unanswered::Denied)
}
