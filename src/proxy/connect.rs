//! CONNECT: crawlgate intercepts a tunnel or, under conditions, opens it opaquely.
//!
//! By default crawlgate answers 200, ends the TLS session itself with a certificate minted for the host, and judges
//! each request inside; plain HTTP inside is judged as `http`. Hosts that the operator exempts, and those outside the
//! name constraints of the local CA, get an opaque tunnel, but only if their robots.txt disallows nothing to this
//! crawler, and only for a TLS session with a ClientHello that names the host. When the settings or the overrides
//! change, open tunnels are judged again, and end if they would be denied now; a changed robots.txt ends no tunnel. The
//! same holds for WebSockets.

use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;
use tracing::{debug, warn};

use super::body::Answer;
use super::checked_stream::CHANCE;
use super::counts::Handshake;
use super::downstream::{Connection, Downstream};
use super::hello::{self, Hello, Replayed, TLS_HANDSHAKE};
use super::recorder::ExchangeRecorder;
use super::refused::{Refused, turned_away, unread, unsent};
use super::relay::{GOODBYE, Relay};
use super::respond::Refusal;
use super::self_test;
use super::server;
use super::target::{self, Scope, Unreadable};
use super::upstream::Unanswered;
use super::{Proxy, Trouble};
use crate::agent::Agent;
use crate::client::{AuthCache, Client, Peer};
use crate::egress::{Failure, Unconnected};
use crate::gate::{Kind, MOST_JUDGEMENTS, Requester};
use crate::policy::{Decision, Reason, Ruling, Target};
use crate::rep::{Origin, Scheme};

/// A TLS alert: fatal, unrecognized_name (RFC 6066 3).
const UNRECOGNIZED_NAME: [u8; 7] = [0x15, 3, 3, 0, 2, 2, 112];

/// Answers a CONNECT.
///
/// # Errors
/// The refusal; nothing of the tunnel has been opened.
pub async fn connect(
    connection: &Connection,
    mut request: Request<Incoming>,
    mut recorder: Box<ExchangeRecorder>,
) -> Result<Response<Answer>, Refused> {
    let origin = match (&connection.scope, target::read_connect(request.uri())) {
        (Scope::Plain, Ok(origin)) => origin,
        // A tunnel in a tunnel would hide its contents.
        (Scope::Inside { .. }, Ok(_)) => return Err(unread(Unreadable::Malformed, recorder)),
        (_, Err(unreadable)) => return Err(unread(unreadable, recorder)),
    };
    recorder.origin = Some(origin.clone());
    let Some(upgrade) = request.extensions_mut().remove::<OnUpgrade>() else {
        return Err(unread(Unreadable::Malformed, recorder));
    };
    let settings = connection.downstream.proxy.settings.load_full();
    let host = origin.host();
    let is_exempt = settings
        .tls
        .tunnel
        .iter()
        .any(|pattern| pattern.matches(host));
    // Every crawler would refuse a certificate that the CA may not sign.
    let is_exempt = is_exempt && !self_test::is_meant(&origin);
    if is_exempt || !connection.downstream.proxy.authority.load().covers(host) {
        let judged = connection.downstream.proxy.egress.check_connect(&origin);
        if let Err(prohibited) = judged {
            return Err(unsent(Failure::Prohibited(prohibited), recorder));
        }
        return open(connection, origin, upgrade, recorder).await;
    }
    // Requests inside are refused inside, even for a port that no CONNECT may ask for: clients show the reason there,
    // but of a refused CONNECT the status at most.
    let patience = settings.limits.header_timeout;
    let mut inside = connection.clone();
    // Requests inside belong to the client that opened the tunnel.
    inside.downstream.client = Arc::clone(&recorder.client);
    // Requests inside are judged and recorded there; the CONNECT itself asks for nothing.
    recorder.suspend();
    recorder.status = Some(StatusCode::OK.as_u16());
    connection.downstream.proxy.spawn(async move {
        if let Ok(upgraded) = upgrade.await {
            intercept(inside, origin, upgraded, recorder, patience).await;
        }
    });
    Ok(established())
}

/// The 2xx to a CONNECT carries neither Content-Length nor Transfer-Encoding (RFC 9110 9.3.6).
fn established() -> Response<Answer> {
    Response::new(Answer::empty())
}

/// Ends the TLS session of a tunnel, or reads the plain HTTP in it. The CONNECT's recorder records only
/// a tunnel that carries neither.
async fn intercept(
    connection: Connection,
    origin: Origin,
    upgraded: Upgraded,
    recorder: Box<ExchangeRecorder>,
    patience: Duration,
) {
    let mut io = TokioIo::new(upgraded);
    // No server answers behind a refused port: a client that waits for its first octets would wait for nothing.
    let silence = match connection.downstream.proxy.egress.check_connect(&origin) {
        Ok(()) => patience,
        Err(_) => patience.min(CHANCE),
    };
    let mut first = [0; 1];
    let [first] = tokio::select! {
        read = timeout(silence, io.read(&mut first)) => match read {
            Ok(Ok(1)) => first,
            // Closed or silent.
            _ => return refuse_unheard(&connection, &origin, recorder),
        },
        () = server::late(&connection.downstream.proxy.stop, CHANCE) => {
            return refuse_unheard(&connection, &origin, recorder);
        }
        () = connection.downstream.slot.has_to_leave() => {
            return refuse_unheard(&connection, &origin, recorder);
        }
    };
    let io = Replayed::new(Bytes::copy_from_slice(&[first]), io);
    match first {
        TLS_HANDSHAKE => {
            drop(recorder);
            // Boxed: the state of a handshake should not stay for as long as the session.
            let hands = Box::pin(handshake(&connection.downstream, &origin, io, patience));
            let shaken = tokio::select! {
                shaken = hands => shaken,
                () = server::late(&connection.downstream.proxy.stop, server::HANDSHAKE) => return,
                () = connection.downstream.slot.has_to_leave() => return,
            };
            let counts = &connection.downstream.proxy.counts;
            match shaken {
                Ok((tls, stray_name)) => {
                    counts.shook(Handshake::Done);
                    let scope = Scope::Inside { origin, stray_name };
                    server::serve(tls, connection.downstream, scope).await;
                }
                Err(error) => {
                    counts.shook(match is_distrust(&error) {
                        true => Handshake::Distrusted,
                        false => Handshake::Failed,
                    });
                    debug!(%origin, %error, "a TLS session through the proxy failed");
                }
            }
        }
        b'A'..=b'Z' | b'a'..=b'z' => {
            drop(recorder);
            let port = Some(origin.port());
            if let Ok(origin) = Origin::new(Scheme::Http, origin.host(), port) {
                let scope = Scope::Inside {
                    origin,
                    stray_name: None,
                };
                server::serve(io, connection.downstream, scope).await;
            }
        }
        _ => Box::pin(pass_opaque(&connection, origin, io, recorder)).await,
    }
}

/// Records a prohibited tunnel in which no request came that could have been refused.
fn refuse_unheard(connection: &Connection, origin: &Origin, mut recorder: Box<ExchangeRecorder>) {
    let proxy = &connection.downstream.proxy;
    if let Err(prohibited) = proxy.egress.check_connect(origin) {
        recorder.decision = Decision::prohibited(prohibited, proxy.clock.now());
        recorder.failed(Failure::Prohibited(prohibited).error_type());
    }
}

/// Records a tunnel that carries neither TLS nor HTTP, and lets it through in report mode.
async fn pass_opaque(
    connection: &Connection,
    origin: Origin,
    io: Replayed<TokioIo<Upgraded>>,
    mut recorder: Box<ExchangeRecorder>,
) {
    let proxy = &connection.downstream.proxy;
    let peer = &connection.downstream.peer;
    let mut changes = proxy.gate.changes();
    let upstream = match dial_opaque(connection, &origin, &mut recorder).await {
        Ok(upstream) => upstream,
        Err(Unanswered::Failed(failure)) => {
            if let Failure::Prohibited(prohibited) = failure {
                recorder.decision = Decision::prohibited(prohibited, proxy.clock.now());
            }
            return recorder.failed(failure.error_type());
        }
        Err(Unanswered::Denied) => return recorder.failed("http_protocol_error"),
    };
    recorder.upstream = upstream.peer_addr().ok();
    let (client, agent) = (Arc::clone(&recorder.client), Arc::clone(&recorder.agent));
    let denied = async {
        while changes.changed().await.is_ok() {
            let generation = proxy.gate.generation();
            let Some(client) = still(proxy, &client, peer) else {
                return;
            };
            let requester = Requester {
                address: peer.address.ip(),
                client: &client,
                agent: &agent,
                generation,
            };
            if proxy.gate.denies_opaque(whole(origin.clone()), &requester) {
                return;
            }
        }
        std::future::pending::<()>().await;
    };
    let relay = Relay::of(&connection.downstream, None);
    relay.run(io, upstream, recorder, denied).await;
}

/// Connects a tunnel that carries neither TLS nor HTTP, if it may be opened. Judges again after a change while
/// connecting.
async fn dial_opaque(
    connection: &Connection,
    origin: &Origin,
    recorder: &mut ExchangeRecorder,
) -> Result<TcpStream, Unanswered> {
    let proxy = &connection.downstream.proxy;
    proxy
        .egress
        .check_connect(origin)
        .map_err(Failure::Prohibited)?;
    for _ in 0..MOST_JUDGEMENTS {
        // The tunnel may have been silent for long.
        if let Err(auth_error) = connection.keep_identified(recorder) {
            recorder.decision = turned_away(auth_error, proxy.clock.now());
            return Err(Unanswered::Denied);
        }
        let requester = Requester {
            address: connection.downstream.peer.address.ip(),
            client: &recorder.client,
            agent: &recorder.agent,
            generation: recorder.generation,
        };
        let (target, now) = (whole(origin.clone()), recorder.time);
        let ruling = proxy.gate.clear_opaque(target, &requester, now).await;
        let permit = match ruling {
            Ruling::Refuse(decision) => {
                recorder.decision = decision;
                return Err(Unanswered::Denied);
            }
            Ruling::Clear(permit, decision) => {
                recorder.decision = decision;
                permit
            }
        };
        recorder.opaque = true;
        match proxy
            .egress
            .connect(permit, connection.downstream.way.as_ref())
            .await
        {
            Ok(upstream) => return Ok(upstream),
            Err(Unconnected::Failed(failure)) => return Err(failure.into()),
            Err(Unconnected::Overtaken(_)) => {}
        }
    }
    connection.give_up(recorder);
    Err(Unanswered::Denied)
}

/// Returns the target that stands for all requests of a tunnel to `origin`.
fn whole(origin: Origin) -> Target {
    Target {
        origin,
        path: http::uri::PathAndQuery::from_static("/"),
    }
}

/// The stream inside an intercepted tunnel.
type Tls = TlsStream<Replayed<TokioIo<Upgraded>>>;

/// Ends TLS, and returns the server name that the client asked for if it is not the tunnel's.
async fn handshake(
    downstream: &Downstream,
    origin: &Origin,
    io: Replayed<TokioIo<Upgraded>>,
    patience: Duration,
) -> io::Result<(Tls, Option<Box<str>>)> {
    let hello = LazyConfigAcceptor::new(rustls::server::Acceptor::default(), io);
    let start = timeout(patience, hello).await??;
    let name = start.client_hello().server_name().map(Box::<str>::from);
    let speaks_http_1 = start
        .client_hello()
        .alpn()
        .is_none_or(|mut offered| offered.any(|protocol| protocol == b"http/1.1"));
    let client = downstream.peer.address;
    if !speaks_http_1 && downstream.proxy.is_news(client, Trouble::Protocol) {
        warn!(
            %origin,
            %client,
            "the crawler offers HTTP/2 only, which the gate does not speak: have it offer HTTP/1.1, too (ALPN http/1.1)"
        );
    }
    // A client verifies the certificate against the name it asked for. It reads the refusal of a wrong name only behind
    // a certificate that it accepts.
    let stray_name = name.filter(|name| !names(origin, name));
    let config = {
        let authority = downstream.proxy.authority.load();
        let stray = stray_name.as_deref().filter(|name| authority.covers(name));
        let host = stray.unwrap_or(origin.host());
        authority.server_config(host).map_err(io::Error::other)?
    };
    match timeout(patience, start.into_stream(config)).await? {
        Ok(tls) => Ok((tls, stray_name)),
        Err(error) => {
            if is_distrust(&error) && downstream.proxy.is_news(client, Trouble::Distrust) {
                warn!(
                    %origin,
                    %client,
                    "the crawler does not trust the local CA: see `crawlgate ca setup`"
                );
            }
            Err(error)
        }
    }
}

/// Tells whether a server name names the origin's host.
fn names(origin: &Origin, name: &str) -> bool {
    name.eq_ignore_ascii_case(origin.host())
        || Origin::new(origin.scheme(), name, Some(origin.port()))
            .is_ok_and(|named| named == *origin)
}

/// Tells whether a handshake failed because the client does not know our CA.
fn is_distrust(error: &io::Error) -> bool {
    use rustls::AlertDescription::{BadCertificate, CertificateUnknown, UnknownCA};
    let tls = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<rustls::Error>());
    matches!(
        tls,
        Some(rustls::Error::AlertReceived(
            UnknownCA | BadCertificate | CertificateUnknown
        ))
    )
}

/// Opens an opaque tunnel, if it may be opened.
async fn open(
    connection: &Connection,
    origin: Origin,
    upgrade: OnUpgrade,
    mut recorder: Box<ExchangeRecorder>,
) -> Result<Response<Answer>, Refused> {
    recorder.opaque = true;
    // Subscribed before the tunnel is judged, so that no change is missed.
    let changes = connection.downstream.proxy.gate.changes();
    let upstream = match dial(connection, &origin, &mut recorder).await {
        Ok(upstream) => upstream,
        Err(Unanswered::Failed(failure)) => return Err(unsent(failure, recorder)),
        Err(Unanswered::Denied) => return Err((Refusal::Decided, recorder)),
    };
    recorder.upstream = upstream.peer_addr().ok();
    recorder.response_started(StatusCode::OK.as_u16(), None);
    let connection = connection.clone();
    let proxy = Arc::clone(&connection.downstream.proxy);
    proxy.spawn(async move {
        match upgrade.await {
            Ok(client_stream) => {
                let client_stream = TokioIo::new(client_stream);
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
    mut client_stream: TokioIo<Upgraded>,
    upstream: TcpStream,
    mut recorder: Box<ExchangeRecorder>,
    changes: watch::Receiver<()>,
) {
    let downstream = &connection.downstream;
    let patience = downstream.proxy.settings.load().limits.header_timeout;
    let (client, agent) = (Arc::clone(&recorder.client), Arc::clone(&recorder.agent));
    let (kind, target) = (Kind::Tunnel, whole(origin.clone()));
    let denied = denied(downstream, kind, target, client, agent, changes);
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
            if let Some(name) = name {
                recorder.set_misdirected(&name);
            }
            recorder.decision = Decision::bare(Reason::Misdirected, downstream.proxy.clock.now());
            let _ = client_stream.write_all(&UNRECOGNIZED_NAME).await; // the client may be gone
            false
        }
        // Octets other than TLS may be anything; report mode lets them pass.
        Hello::Unreadable => is_let_pass(connection, &origin, &mut recorder).await,
    };
    if !may_pass {
        recorder.failed("tls_protocol_error");
        let _ = client_stream.shutdown().await; // the client may be gone
        return;
    }
    let client_stream = Replayed::new(octets.freeze(), client_stream);
    let relay = Relay::of(downstream, None);
    relay.run(client_stream, upstream, recorder, denied).await;
}

/// Judges a tunnel that carries something other than TLS.
async fn is_let_pass(
    connection: &Connection,
    origin: &Origin,
    recorder: &mut ExchangeRecorder,
) -> bool {
    let proxy = &connection.downstream.proxy;
    let requester = Requester {
        address: connection.downstream.peer.address.ip(),
        client: &recorder.client,
        agent: &recorder.agent,
        generation: recorder.generation,
    };
    let (target, now) = (whole(origin.clone()), proxy.clock.now());
    let ruling = proxy.gate.clear_opaque(target, &requester, now).await;
    let (passes, decision) = match ruling {
        Ruling::Clear(_, decision) => (true, decision),
        Ruling::Refuse(decision) => (false, decision),
    };
    recorder.decision = decision;
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
    for _ in 0..MOST_JUDGEMENTS {
        let permit = connection.clear(Kind::Tunnel, target, recorder).await;
        match proxy
            .egress
            .connect(
                permit.ok_or(Unanswered::Denied)?,
                connection.downstream.way.as_ref(),
            )
            .await
        {
            Ok(upstream) => return Ok(upstream),
            Err(Unconnected::Failed(failure)) => return Err(failure.into()),
            Err(Unconnected::Overtaken(again)) => target = again,
        }
    }
    connection.give_up(recorder);
    Err(Unanswered::Denied)
}

/// Resolves when a change of settings or overrides would deny the exchange with `target`, or has removed its client.
async fn denied(
    downstream: &Downstream,
    kind: Kind,
    target: Target,
    client: Arc<Client>,
    agent: Arc<Agent>,
    mut changes: watch::Receiver<()>,
) {
    let gate = &downstream.proxy.gate;
    while changes.changed().await.is_ok() {
        let Some(client) = still(&downstream.proxy, &client, &downstream.peer) else {
            return;
        };
        let requester = Requester {
            address: downstream.peer.address.ip(),
            client: &client,
            agent: &agent,
            generation: gate.generation(),
        };
        // Boxed: it should not burden a tunnel for as long as it is open.
        if Box::pin(gate.denies(kind, target.clone(), &requester)).await {
            return;
        }
    }
    std::future::pending::<()>().await;
}

/// Returns the tunnel's client under the current configuration; `None` if it was removed or its conditions changed.
fn still(proxy: &Proxy, client: &Arc<Client>, peer: &Peer) -> Option<Arc<Client>> {
    let clients = proxy.gate.clients();
    clients.again(client, peer, &AuthCache::default()).ok()
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

    /// Relays octets both ways until one side has finished, then drops the recorder. Breaks off when the request that
    /// began it would be denied.
    pub async fn relay(
        self,
        downstream: &Downstream,
        client_stream: impl AsyncRead + AsyncWrite + Unpin,
        upstream: impl AsyncRead + AsyncWrite + Unpin,
        recorder: Box<ExchangeRecorder>,
    ) {
        let Switching { target, changes } = self;
        let (client, agent) = (Arc::clone(&recorder.client), Arc::clone(&recorder.agent));
        let kind = Kind::Request;
        let denied = denied(downstream, kind, target, client, agent, changes);
        let relay = Relay::of(downstream, Some(GOODBYE));
        relay.run(client_stream, upstream, recorder, denied).await;
    }
}
