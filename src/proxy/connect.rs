//! CONNECT: what comes through a tunnel is looked into, or the tunnel does not open.
//!
//! By default crawlgate answers 200, ends the TLS session itself with a certificate minted for the host,
//! and judges each request inside; plain HTTP inside is judged as `http`. Hosts that the operator exempts,
//! and those outside the name constraints of the local CA, get an opaque tunnel, but only where their robots.txt
//! disallows nothing to this crawler. When the settings or the overrides change, what is open is judged again, and ended
//! where it would be denied now; a robots.txt that changes ends no tunnel. The same holds for WebSockets.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use http::{HeaderValue, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf, copy_bidirectional};
use tokio::sync::{oneshot, watch};
use tokio::time::timeout;
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;
use tracing::{debug, warn};

use super::Proxy;
use super::body::Answer;
use super::counts::Handshake;
use super::exchange::{Connection, Refused, unread, unsent};
use super::ledger::Ledger;
use super::respond::Refusal;
use super::self_test;
use super::server::{self, Visitor};
use super::target::{self, Scope, Unreadable};
use crate::agent::Agent;
use crate::client::{Client, Memo, Peer};
use crate::egress::Failure;
use crate::gate::{Asker, Kind};
use crate::policy::{Ruling, Target};
use crate::rep::{Origin, Scheme};

/// The content type of a TLS record that carries a handshake message.
const TLS_HANDSHAKE: u8 = 0x16;

/// How long one side of a WebSocket may take to close, too, when the other one has: nobody speaks half of it (RFC 6455
/// 7.1.1), and it should not keep its place and its turn for whoever has gone.
const GOODBYE: Duration = Duration::from_secs(2);

/// Answers a CONNECT.
///
/// # Errors
/// The refusal; nothing of the tunnel has been opened.
pub async fn connect(
    connection: &Connection,
    mut request: Request<Incoming>,
    mut ledger: Box<Ledger>,
) -> Result<Response<Answer>, Refused> {
    let origin = match (&connection.scope, target::read_connect(request.uri())) {
        (Scope::Plain, Ok(origin)) => origin,
        // A tunnel in a tunnel would hide what is inside.
        (Scope::Inside { .. }, Ok(_)) => return Err(unread(Unreadable::Malformed, ledger)),
        (_, Err(unreadable)) => return Err(unread(unreadable, ledger)),
    };
    ledger.origin = Some(origin.clone());
    let judged = connection.visitor.proxy.egress.judge_connect(&origin);
    if let Err(wall) = judged {
        return Err(unsent(Failure::Prohibited(wall), ledger));
    }
    let Some(upgrade) = request.extensions_mut().remove::<OnUpgrade>() else {
        return Err(unread(Unreadable::Malformed, ledger));
    };
    let settings = connection.visitor.proxy.settings.load_full();
    let host = origin.host();
    let is_exempt = settings
        .tls
        .tunnel
        .iter()
        .any(|pattern| pattern.matches(host));
    // A certificate that the CA may not sign would be refused by every crawler.
    let is_exempt = is_exempt && !self_test::is_meant(&origin);
    if is_exempt || !connection.visitor.proxy.authority.load().covers(host) {
        return open(connection, origin, upgrade, ledger).await;
    }
    let patience = settings.limits.header_timeout;
    let mut inside = connection.clone();
    // What is inside is of whoever opened it.
    inside.visitor.client = Arc::clone(&ledger.client);
    // What is asked for inside is judged and recorded there; the CONNECT itself asks for nothing.
    ledger.asks_nothing();
    ledger.status = Some(StatusCode::OK.as_u16());
    connection.visitor.proxy.spawn(async move {
        if let Ok(upgraded) = upgrade.await {
            intercept(inside, origin, upgraded, ledger, patience).await;
        }
    });
    Ok(established())
}

/// The 2xx to a CONNECT carries neither Content-Length nor Transfer-Encoding (RFC 9110 9.3.6).
fn established() -> Response<Answer> {
    Response::new(Answer::empty())
}

/// Ends the TLS session, or reads the plain HTTP, that comes through a tunnel. The ledger of the CONNECT only
/// tells of what is neither.
async fn intercept(
    connection: Connection,
    origin: Origin,
    upgraded: Upgraded,
    ledger: Box<Ledger>,
    patience: Duration,
) {
    let mut io = TokioIo::new(upgraded);
    let mut first = [0; 1];
    let [first] = tokio::select! {
        read = timeout(patience, io.read(&mut first)) => match read {
            Ok(Ok(1)) => first,
            // Hung up, or silent.
            _ => return,
        },
        () = connection.visitor.proxy.stop.cancelled() => return,
        () = connection.visitor.seat.has_to_leave() => return,
    };
    let io = Peeked {
        first: Some(first),
        inner: io,
    };
    match first {
        TLS_HANDSHAKE => {
            drop(ledger);
            // Boxed: what a handshake needs should not stay for as long as the session.
            let hands = Box::pin(handshake(&connection.visitor, &origin, io, patience));
            let shaken = tokio::select! {
                shaken = hands => shaken,
                () = connection.visitor.proxy.stop.cancelled() => return,
                () = connection.visitor.seat.has_to_leave() => return,
            };
            let counts = &connection.visitor.proxy.counts;
            match shaken {
                Ok((tls, stray_name)) => {
                    counts.shook(Handshake::Done);
                    let scope = Scope::Inside { origin, stray_name };
                    server::serve(tls, connection.visitor, scope).await;
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
            drop(ledger);
            let port = Some(origin.port());
            if let Ok(origin) = Origin::new(Scheme::Http, origin.host(), port) {
                let scope = Scope::Inside {
                    origin,
                    stray_name: None,
                };
                server::serve(io, connection.visitor, scope).await;
            }
        }
        _ => Box::pin(pass_opaque(&connection, origin, io, ledger)).await,
    }
}

/// Records that neither TLS nor HTTP is spoken in a tunnel, and where that is only to be reported, lets it through.
async fn pass_opaque(
    connection: &Connection,
    origin: Origin,
    io: Peeked<TokioIo<Upgraded>>,
    mut ledger: Box<Ledger>,
) {
    let proxy = &connection.visitor.proxy;
    let (client, agent) = (Arc::clone(&ledger.client), Arc::clone(&ledger.agent));
    let peer = &connection.visitor.peer;
    let asker = Asker {
        address: peer.address.ip(),
        client: &client,
        agent: &agent,
        user_agent: None,
    };
    let mut changes = proxy.gate.changes();
    match proxy
        .gate
        .clear_opaque(whole(origin.clone()), &asker, ledger.time)
        .await
    {
        Ruling::Refuse(decision) => {
            ledger.decision = decision;
            ledger.failed("http_protocol_error");
        }
        Ruling::Clear(permit, decision) => {
            ledger.decision = decision;
            ledger.opaque = true;
            match proxy.egress.connect(permit).await {
                Ok(upstream) => {
                    ledger.upstream = upstream.peer_addr().ok();
                    let denied = async {
                        while changes.changed().await.is_ok() {
                            let Some(client) = still(proxy, &client, peer) else {
                                return;
                            };
                            let asker = Asker {
                                client: &client,
                                ..asker
                            };
                            if proxy.gate.denies_opaque(whole(origin.clone()), &asker) {
                                return;
                            }
                        }
                        std::future::pending::<()>().await;
                    };
                    relay_unless(io, upstream, ledger, denied).await;
                }
                Err(failure) => ledger.failed(failure.error_type()),
            }
        }
    }
}

/// All that a tunnel to `origin` may carry.
fn whole(origin: Origin) -> Target {
    Target {
        origin,
        path: http::uri::PathAndQuery::from_static("/"),
    }
}

/// The stream inside a tunnel, once its TLS ends here.
type Tls = TlsStream<Peeked<TokioIo<Upgraded>>>;

/// Ends TLS, and tells the server name that the client asked for where it is not the tunnel's.
async fn handshake(
    visitor: &Visitor,
    origin: &Origin,
    io: Peeked<TokioIo<Upgraded>>,
    patience: Duration,
) -> io::Result<(Tls, Option<Box<str>>)> {
    let hello = LazyConfigAcceptor::new(rustls::server::Acceptor::default(), io);
    let start = timeout(patience, hello).await??;
    let name = start.client_hello().server_name().map(Box::<str>::from);
    // A client verifies the certificate against the name it asked for; to tell it that the name is not what
    // the tunnel is for takes a certificate that it accepts.
    let stray_name = name.filter(|name| !names(origin, name));
    let config = {
        let authority = visitor.proxy.authority.load();
        let stray = stray_name.as_deref().filter(|name| authority.covers(name));
        let host = stray.unwrap_or(origin.host());
        authority.server_config(host).map_err(io::Error::other)?
    };
    match timeout(patience, start.into_stream(config)).await? {
        Ok(tls) => Ok((tls, stray_name)),
        Err(error) => {
            if is_distrust(&error) && visitor.proxy.is_news(visitor.peer.address) {
                warn!(
                    %origin,
                    client = %visitor.peer.address,
                    "the crawler does not trust the local CA: see `crawlgate ca setup`"
                );
            }
            Err(error)
        }
    }
}

/// Whether a server name names the origin's host.
fn names(origin: &Origin, name: &str) -> bool {
    name.eq_ignore_ascii_case(origin.host())
        || Origin::new(origin.scheme(), name, Some(origin.port()))
            .is_ok_and(|named| named == *origin)
}

/// Whether a handshake failed because the client does not know our CA.
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
    mut ledger: Box<Ledger>,
) -> Result<Response<Answer>, Refused> {
    ledger.opaque = true;
    // From before it is judged: no change is missed.
    let changes = connection.visitor.proxy.gate.changes();
    let permit = match connection
        .clear(Kind::Tunnel, whole(origin.clone()), &mut ledger)
        .await
    {
        Some(permit) => permit,
        None => return Err((Refusal::Decided, ledger)),
    };
    let upstream = match connection.visitor.proxy.egress.connect(permit).await {
        Ok(upstream) => upstream,
        Err(failure) => return Err(unsent(failure, ledger)),
    };
    ledger.upstream = upstream.peer_addr().ok();
    ledger.answered(StatusCode::OK.as_u16(), None);
    let visitor = connection.visitor.clone();
    connection.visitor.proxy.spawn(async move {
        match upgrade.await {
            Ok(downstream) => {
                let (client, agent) = (Arc::clone(&ledger.client), Arc::clone(&ledger.agent));
                let user_agent = ledger.user_agent.clone();
                let (kind, target) = (Kind::Tunnel, whole(origin));
                let denied = denied(&visitor, kind, target, client, agent, user_agent, changes);
                relay_unless(TokioIo::new(downstream), upstream, ledger, denied).await;
            }
            Err(_) => ledger.hung_up(),
        }
        drop(visitor);
    });
    Ok(established())
}

/// Ends when what was opened to `target` would be denied, because settings or overrides have changed, or is nobody's.
async fn denied(
    visitor: &Visitor,
    kind: Kind,
    target: Target,
    client: Arc<Client>,
    agent: Arc<Agent>,
    user_agent: Option<HeaderValue>,
    mut changes: watch::Receiver<()>,
) {
    let gate = &visitor.proxy.gate;
    while changes.changed().await.is_ok() {
        let Some(client) = still(&visitor.proxy, &client, &visitor.peer) else {
            return;
        };
        let asker = Asker {
            address: visitor.peer.address.ip(),
            client: &client,
            agent: &agent,
            user_agent: user_agent.as_ref(),
        };
        // Boxed: it should not burden a tunnel for as long as it is open.
        if Box::pin(gate.denies(kind, target.clone(), &asker)).await {
            return;
        }
    }
    std::future::pending::<()>().await;
}

/// Whose a tunnel is by now; nobody's where its client is no more, or is recognised by other things.
fn still(proxy: &Proxy, client: &Arc<Client>, peer: &Peer) -> Option<Arc<Client>> {
    let clients = proxy.gate.clients();
    clients.again(client, peer, &Memo::default()).ok()
}

/// A protocol that a connection is about to switch to: what is needed to judge it again for as long as it is spoken.
pub struct Switching {
    target: Target,
    changes: watch::Receiver<()>,
}

impl Switching {
    /// Taken before `target` is judged: no change is missed.
    pub fn to(target: &Target, changes: watch::Receiver<()>) -> Switching {
        let target = target.clone();
        Switching { target, changes }
    }

    /// Passes octets both ways until one side has finished, and then lets the ledger go. Breaks off when the request
    /// that began it would be denied.
    pub async fn relay(
        self,
        visitor: &Visitor,
        downstream: impl AsyncRead + AsyncWrite + Unpin,
        upstream: impl AsyncRead + AsyncWrite + Unpin,
        ledger: Box<Ledger>,
    ) {
        let Switching { target, changes } = self;
        let (client, agent) = (Arc::clone(&ledger.client), Arc::clone(&ledger.agent));
        let user_agent = ledger.user_agent.clone();
        let kind = Kind::Request;
        let denied = denied(visitor, kind, target, client, agent, user_agent, changes);
        relay_while(downstream, upstream, ledger, denied, Some(GOODBYE)).await;
    }
}

/// Passes octets both ways until both sides have finished, and then lets the ledger go; breaks off when it is `denied`.
async fn relay_unless(
    downstream: impl AsyncRead + AsyncWrite + Unpin,
    upstream: impl AsyncRead + AsyncWrite + Unpin,
    ledger: Box<Ledger>,
    denied: impl Future<Output = ()>,
) {
    relay_while(downstream, upstream, ledger, denied, None).await;
}

/// The same. When one side has finished, the other one has `goodbye` to do so, too; none: as long as it likes.
async fn relay_while(
    mut downstream: impl AsyncRead + AsyncWrite + Unpin,
    mut upstream: impl AsyncRead + AsyncWrite + Unpin,
    mut ledger: Box<Ledger>,
    denied: impl Future<Output = ()>,
    goodbye: Option<Duration>,
) {
    let _open = ledger.tunnels();
    ledger.asks_something();
    let bytes_in = Arc::clone(ledger.bytes_in.get_or_insert_default());
    let (first, ended) = oneshot::channel();
    let mut counted = Counted {
        inner: &mut downstream,
        bytes_in: &bytes_in,
        ledger: &mut ledger,
        first: Some(first),
    };
    let overdue = async {
        let (Some(goodbye), Ok(side)) = (goodbye, ended.await) else {
            return std::future::pending().await;
        };
        tokio::time::sleep(goodbye).await;
        side
    };
    // Until both sides have finished, whoever drops this breaks off.
    counted.ledger.hung_up();
    let end = tokio::select! {
        copied = copy_bidirectional(&mut counted, &mut upstream) => match copied {
            Ok(_) => End::Finished,
            Err(_) => End::Broken,
        },
        () = denied => End::Denied,
        side = overdue => End::Of(side),
    };
    match end {
        End::Finished | End::Of(Side::Origin) => ledger.finished(),
        // As if it had hung up, which it most likely has.
        End::Of(Side::Crawler) => {}
        End::Broken => ledger.failed("connection_terminated"),
        End::Denied => ledger.failed("http_request_denied"),
    }
    let _ = downstream.shutdown().await; // the peer may be gone
}

/// Why a relay is over.
enum End {
    /// Both sides have finished.
    Finished,
    /// A connection broke.
    Broken,
    /// It would be denied by now.
    Denied,
    /// This side has finished, and the other one did not follow.
    Of(Side),
}

/// Who has finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Crawler,
    Origin,
}

/// The crawler's side of a relay, counting. Tells who finishes first.
struct Counted<'a, S> {
    inner: &'a mut S,
    bytes_in: &'a AtomicU64,
    ledger: &'a mut Ledger,
    first: Option<oneshot::Sender<Side>>,
}

impl<S> Counted<'_, S> {
    fn has_finished(&mut self, side: Side) {
        if let Some(first) = self.first.take() {
            let _ = first.send(side); // nobody may care
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Counted<'_, S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let has_room = buf.remaining() > 0;
        let poll = Pin::new(&mut *self.inner).poll_read(cx, buf);
        let octets = (buf.filled().len() - before) as u64;
        self.bytes_in.fetch_add(octets, Ordering::Relaxed);
        if has_room && octets == 0 && matches!(poll, Poll::Ready(Ok(()))) {
            self.has_finished(Side::Crawler);
        }
        poll
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Counted<'_, S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut *self.inner).poll_write(cx, buf);
        if let Poll::Ready(Ok(octets)) = poll {
            self.ledger.bytes_out += octets as u64;
        }
        poll
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // The origin has finished, and all that it said has been passed on.
        self.has_finished(Side::Origin);
        Pin::new(&mut *self.inner).poll_shutdown(cx)
    }
}

/// A stream whose first octet was looked at.
struct Peeked<S> {
    first: Option<u8>,
    inner: S,
}

impl<S: AsyncRead + Unpin> AsyncRead for Peeked<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if buf.remaining() > 0
            && let Some(first) = self.first.take()
        {
            buf.put_slice(&[first]);
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Peeked<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}
