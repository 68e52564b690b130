//! The only way out: connections to origin servers.
//!
//! Everything that leaves carries an errand: either a page with the [`Permit`] that cleared it, or
//! the fetch of a robots.txt. The request's URI is built here from the errand, not from what a crawler
//! wrote, so what was judged is what is fetched. How long a connection may take is the errand's, too.
//! A permit is checked against all [`Changes`] when its connection is there, right before it is used: one that settings
//! or a robots.txt have overtaken comes back, and so does one whose connection was lost.
//! Connections are pooled across crawlers and per origin, TLS sessions are resumed, certificates are always verified.
//!
//! What is dialled is an address that [`walls`] let through, whoever named it: the crawler, a redirect of a
//! robots.txt, or a name that leads elsewhere today.

mod address;
mod counts;
mod dial;
mod failure;
mod pool;
mod race;
mod resolve;
mod tunnel;
pub mod walls;

use std::fmt;
use std::future::{Ready, ready};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Once};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, Uri, Version};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_rustls::HttpsConnector;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tower_service::Service;

use self::counts::Counts;
pub use self::dial::faults;
use self::dial::{Dialler, is_local};
pub use self::failure::Failure;
pub use self::pool::Inbound;
use self::pool::{Lease, Past, Pool};
pub use self::walls::Prohibited;
use crate::clock::{Clock, Moment};
use crate::config::Config;
use crate::metrics::Registry;
use crate::policy::generation::Changes;
use crate::policy::{Current, Permit, Target};
use crate::rep::{Origin, Scheme};
use crate::robots::fetch::RobotsErrand;
use crate::trust::{self, TrustError};

/// A connection that was idle for so long may have been closed by the origin without our having heard of it yet.
const DOUBTFUL: Duration = Duration::from_millis(2);

/// Fields of a response. Some origins send more than the hundred that are hyper's default.
const RESPONSE_FIELDS: usize = 512;

/// Origins whose TLS sessions can be resumed.
const RESUMABLE: usize = 4096;

/// The proxies that a request has passed, as `Via` names them. Carried beside the request and told to upstream proxies, so
/// that requests that go in a circle are seen even where they do not say which way they came.
#[derive(Clone, Debug)]
pub struct Way(Arc<str>);

impl From<String> for Way {
    fn from(way: String) -> Way {
        Way(way.into())
    }
}

/// What a request goes out for.
#[derive(Debug, Clone, Copy)]
enum Errand<'a> {
    /// A page that was cleared.
    Page(&'a Permit),
    /// A robots.txt, which needs no clearance.
    Robots(&'a RobotsErrand),
}

/// What lets one request out, right now.
#[derive(Debug, Clone, Copy)]
enum Proof<'a> {
    Page(#[allow(dead_code, reason = "held, not read")] Current<'a>),
    Robots(#[allow(dead_code, reason = "held, not read")] &'a RobotsErrand),
}

impl<'a> Errand<'a> {
    /// The proof that it may go out; nothing where what it rests on has changed.
    fn proof(self, changes: &Changes) -> Option<Proof<'a>> {
        match self {
            Errand::Page(permit) => permit.current(changes).map(Proof::Page),
            Errand::Robots(errand) => Some(Proof::Robots(errand)),
        }
    }
}

/// The connections that a request may go out on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reuse {
    /// Any.
    Allowed,
    /// A new one only: the request was lost with one that had been used before.
    Forbidden,
}

/// A page that got no answer.
#[derive(Debug)]
pub enum Unsent {
    /// Something went wrong.
    Failed(Failure),
    /// Nothing of it was sent: what its permit rests on has changed. To be judged again, and sent then.
    Overtaken(Box<Again>),
    /// Its connection had been used before and was lost with the request, which is safe to be sent twice (RFC 9110
    /// 9.2.2). To be judged again, and sent on a new connection then.
    Lost(Box<Again>),
}

/// What is left of a page that may be sent again.
pub struct Again {
    /// What it asks for.
    pub target: Target,
    /// Its head, and its body if it has one.
    pub request: Request<Outgoing>,
}

impl fmt::Debug for Again {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Again").field(&self.target).finish()
    }
}

/// The connections to origins.
#[derive(Debug, Clone)]
pub struct Egress(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    dialler: Dialler,
    tls: Arc<rustls::ClientConfig>,
    pool: Arc<Pool>,
    connect_timeout: Duration,
    idle_timeout: Duration,
    sweeping: Once,
    counts: Counts,
    changes: Arc<Changes>,
}

/// A response head, and where it came from.
#[derive(Debug)]
pub struct Received {
    /// The head, with the body to come.
    pub response: Response<Inbound>,
    /// The address that was dialled.
    pub peer: SocketAddr,
}

/// The body of a request that leaves.
#[derive(Default)]
pub enum Outgoing {
    /// None.
    #[default]
    Empty,
    /// As it comes from the crawler.
    Stream(Pin<Box<dyn Body<Data = Bytes, Error = BodyError> + Send>>),
}

/// Why a body could not be passed on.
pub type BodyError = Box<dyn std::error::Error + Send + Sync>;

impl Egress {
    /// Opens the way out as configured. Nothing is connected yet.
    ///
    /// # Errors
    /// When the trusted roots or the credentials for an upstream proxy cannot be read.
    pub fn new(config: &Config, clock: Clock) -> Result<Egress, EgressError> {
        let upstream = &config.upstream;
        Ok(Egress(Arc::new(Shared {
            dialler: Dialler::new(config)?,
            tls: Arc::new(tls_config(&config.tls.extra_roots)?),
            pool: Pool::new(upstream.idle_per_host, upstream.idle_timeout, clock),
            connect_timeout: upstream.connect_timeout,
            idle_timeout: upstream.idle_timeout,
            sweeping: Once::new(),
            counts: Counts::default(),
            changes: Arc::default(),
        })))
    }

    /// Puts the walls of `config` in force. No connection that was made before them is used again, and names are
    /// looked up anew.
    pub fn reconfigure(&self, config: &Config) {
        self.0.dialler.reconfigure(config);
        self.0.pool.empty();
    }

    /// Shows what is counted of connections.
    pub fn register(&self, registry: &mut Registry) {
        self.0.counts.register(registry, Arc::clone(&self.0.pool));
    }

    /// Learns what this proxy listens on, which is never dialled.
    pub fn listens_on(&self, addresses: &[SocketAddr]) {
        self.0.dialler.listens_on(addresses);
    }

    /// Learns the name by which this proxy knows what it has sent itself.
    pub fn signs_as(&self, name: &str) {
        self.0.dialler.signs_as(name);
    }

    /// What the walls say of an origin before its name is looked up. Costs next to nothing.
    ///
    /// # Errors
    /// Why it may not be dialled.
    pub fn judge(&self, origin: &Origin) -> Result<(), Prohibited> {
        self.0.dialler.walls().judge_origin(origin, is_local)
    }

    /// What the walls say of an origin, its name looked up. An origin that cannot be found is not prohibited.
    ///
    /// # Errors
    /// Why it may not be dialled.
    pub async fn examine(&self, origin: &Origin) -> Result<(), Prohibited> {
        let within = self.0.connect_timeout;
        match timeout(within, self.0.dialler.examine(origin)).await {
            Ok(Err(Failure::Prohibited(wall))) => Err(wall),
            _ => Ok(()),
        }
    }

    /// The address that stands for all those that an origin's name leads to: the lowest, so that it is the same whatever
    /// order they come in. None where that cannot be told, or a proxy on the way knows it alone.
    pub async fn address_of(&self, origin: &Origin) -> Option<IpAddr> {
        let within = self.0.connect_timeout;
        let found = timeout(within, self.0.dialler.addresses(origin)).await;
        found.ok()?.ok()?.into_iter().min()
    }

    /// Whether a CONNECT may ask for this origin's port.
    ///
    /// # Errors
    /// That it may not.
    pub fn judge_connect(&self, origin: &Origin) -> Result<(), Prohibited> {
        self.0.dialler.walls().judge_connect(origin)
    }

    /// Judges the port of a request that came through a CONNECT and is looked into. Where the name of its origin leads is
    /// found out for it: a name whose addresses are all allowed is open at every port, as it is for `http`. Where an address
    /// is behind a wall, that is told: its way out opens the port, too.
    ///
    /// # Errors
    /// Why it may not be asked for.
    pub async fn judge_inside(&self, origin: &Origin) -> Result<(), Prohibited> {
        let Err(port) = self.judge_connect(origin) else {
            return Ok(());
        };
        self.judge(origin)?;
        let finding = self.0.dialler.addresses(origin);
        match timeout(self.0.connect_timeout, finding).await {
            Ok(Ok(found)) if self.0.dialler.walls().opens(&found, origin.port()) => Ok(()),
            Ok(Err(Failure::Prohibited(wall))) => Err(wall),
            _ => Err(port),
        }
    }

    /// The changes that a permit must not be older than.
    pub fn changes(&self) -> Arc<Changes> {
        Arc::clone(&self.0.changes)
    }

    /// Sends a page and waits for the response head. Method, fields and body are the caller's; where it goes and what it
    /// asks for are the permit's. The head may take as long as the caller waits. It is sent `now`.
    ///
    /// # Errors
    /// Why no response head came. The request goes out again by another permit only.
    pub async fn send(
        &self,
        permit: Permit,
        request: Request<Outgoing>,
        now: Moment,
        reuse: Reuse,
    ) -> Result<Received, Unsent> {
        let errand = Errand::Page(&permit);
        let failed = match self.try_send(errand, request, Some(now), reuse).await {
            Ok(received) => return Ok(received),
            Err(failed) => failed,
        };
        let again = |request: Box<Request<Outgoing>>, permit: Permit| {
            Box::new(Again {
                target: permit.surrender(),
                request: *request,
            })
        };
        Err(match failed {
            Halt::Failed(failure) => Unsent::Failed(failure),
            Halt::Overtaken(request) => Unsent::Overtaken(again(request, permit)),
            Halt::Lost(request) => Unsent::Lost(again(request, permit)),
        })
    }

    /// Sends the request for a robots.txt and waits for the response head, as long as its errand says from the moment
    /// that there is a connection. It is sent `now`.
    ///
    /// # Errors
    /// What went wrong, as [`Failure`] tells it; no response head came.
    pub async fn fetch(
        &self,
        errand: RobotsErrand,
        request: Request<Outgoing>,
        now: Moment,
    ) -> Result<Received, Failure> {
        let errand = Errand::Robots(&errand);
        let sent = match self
            .try_send(errand, request, Some(now), Reuse::Allowed)
            .await
        {
            Err(Halt::Lost(request)) => {
                self.try_send(errand, *request, None, Reuse::Forbidden)
                    .await
            }
            sent => sent,
        };
        sent.map_err(|halt| match halt {
            Halt::Failed(failure) => failure,
            Halt::Lost(_) | Halt::Overtaken(_) => Failure::Terminated,
        })
    }

    async fn try_send(
        &self,
        errand: Errand<'_>,
        mut request: Request<Outgoing>,
        mut now: Option<Moment>,
        reuse: Reuse,
    ) -> Result<Received, Halt> {
        let (origin, path) = match errand {
            Errand::Page(permit) => (&permit.target().origin, &permit.target().path),
            Errand::Robots(errand) => errand.target(),
        };
        let (to_connect, to_answer) = match errand {
            Errand::Page(_) => (self.0.connect_timeout, None),
            Errand::Robots(errand) => {
                let (to_connect, to_answer) = errand.patience();
                (to_connect, Some(to_answer))
            }
        };
        *request.uri_mut() = Uri::from(path.clone());
        *request.version_mut() = Version::HTTP_11;
        while reuse == Reuse::Allowed
            && let Some(lease) = self.0.pool.take(origin, now.take())
        {
            let is_doubtful = lease.idle_for >= DOUBTFUL || lease.past == Past::Once;
            let spare = is_doubtful.then(|| copy_if_safe(&request)).flatten();
            let Some(proof) = errand.proof(&self.0.changes) else {
                lease.give_back();
                return Err(Halt::Overtaken(Box::new(request)));
            };
            match (answer(proof, lease, request, to_answer).await, spare) {
                (Ok(received), _) => return Ok(received),
                (Err(Lost::Unsent(unsent)), _) => request = unsent,
                // The origin may have closed the connection while the request was on its way. Once more, then,
                // on a connection that has no past.
                (Err(Lost::Sent(Failure::Terminated)), Some(spare)) => {
                    return Err(Halt::Lost(Box::new(spare)));
                }
                (Err(Lost::Sent(failure)), _) => return Err(Halt::Failed(failure)),
            }
        }
        // Boxed: what a rare connect needs should not burden every request's future.
        let way = request.extensions().get::<Way>().cloned();
        let lease = Box::pin(self.0.dial(origin, to_connect, way))
            .await
            .map_err(Halt::Failed)?;
        let Some(proof) = errand.proof(&self.0.changes) else {
            lease.give_back();
            return Err(Halt::Overtaken(Box::new(request)));
        };
        answer(proof, lease, request, to_answer)
            .await
            .map_err(|lost| match lost {
                Lost::Sent(failure) => Halt::Failed(failure),
                Lost::Unsent(_) => Halt::Failed(Failure::Terminated),
            })
    }

    /// Connects to the origin of a tunnel that was cleared, without TLS of our own. Octets may follow while the permit is
    /// current.
    ///
    /// # Errors
    /// What went wrong; the target, where what the permit rests on has changed meanwhile.
    pub async fn connect(
        &self,
        permit: Permit,
        way: Option<&Way>,
    ) -> Result<TcpStream, Unconnected> {
        let dialling = self.0.dialler.dial(&permit.target().origin, way);
        let stream = timeout(self.0.connect_timeout, dialling)
            .await
            .map_err(|_| Unconnected::Failed(Failure::ConnectTimeout))?
            .map_err(Unconnected::Failed)?;
        match permit.current(&self.0.changes) {
            Some(_) => Ok(stream),
            None => Err(Unconnected::Overtaken(permit.surrender())),
        }
    }
}

/// A tunnel that got no connection.
#[derive(Debug)]
pub enum Unconnected {
    /// Something went wrong.
    Failed(Failure),
    /// What its permit rests on has changed: to be judged again.
    Overtaken(Target),
}

/// A request that got no answer, whatever it went out for.
enum Halt {
    Failed(Failure),
    Overtaken(Box<Request<Outgoing>>),
    Lost(Box<Request<Outgoing>>),
}

impl Shared {
    /// Connects to `origin` within a time that covers the look-up of its name, TCP and TLS.
    async fn dial(
        &self,
        origin: &Origin,
        within: Duration,
        way: Option<Way>,
    ) -> Result<Lease, Failure> {
        let uri = address(origin).ok_or(Failure::Unaddressable)?;
        let connecting = async {
            let stream = self.dialler.dial(origin, way.as_ref()).await?;
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
        let (sender, connection) = http1::Builder::new()
            // Names as the crawler writes them, and in the usual case where it writes none.
            .preserve_header_case(true)
            .title_case_headers(true)
            // A proxy mends these before it forwards (RFC 9112 5.1 and 5.2); hyper does.
            .allow_spaces_after_header_name_in_responses(true)
            .allow_obsolete_multiline_headers_in_responses(true)
            // Clients take what follows from origins, so crawlers would lose pages that they get without a proxy. A line that
            // is no field is left out; no crawler could be sent it in a well-formed answer.
            .ignore_invalid_headers_in_responses(true)
            .max_headers(RESPONSE_FIELDS)
            .handshake(io)
            .await
            .map_err(|error| Failure::of(&error))?;
        // Its end is seen by the exchange that it carries, or by the pool.
        let open = self.counts.opened();
        tokio::spawn(async move {
            drop(connection.with_upgrades().await);
            drop(open);
        });
        self.sweeping.call_once(|| {
            let every = (self.idle_timeout / 2).max(Duration::from_secs(1));
            tokio::spawn(Pool::sweep(Arc::downgrade(&self.pool), every));
        });
        Ok(self.pool.lease(origin, sender, peer))
    }
}

/// A request that got no answer.
#[allow(
    clippy::large_enum_variant,
    reason = "it lives for an instant, and a box would cost more"
)]
enum Lost {
    /// Nothing of it was sent.
    Unsent(Request<Outgoing>),
    /// It may have been.
    Sent(Failure),
}

/// An attempt whose response head may take `patience`; without one, any time.
async fn answer(
    proof: Proof<'_>,
    lease: Lease,
    request: Request<Outgoing>,
    patience: Option<Duration>,
) -> Result<Received, Lost> {
    match patience {
        None => attempt(proof, lease, request).await,
        // Boxed, as a connect is: pages need no second attempt in their future.
        Some(patience) => Box::pin(timeout(patience, attempt(proof, lease, request)))
            .await
            .unwrap_or(Err(Lost::Sent(Failure::ResponseTimeout))),
    }
}

/// The only place where a request leaves; without a proof that nothing has changed there is no way to call it.
async fn attempt(
    _: Proof<'_>,
    mut lease: Lease,
    request: Request<Outgoing>,
) -> Result<Received, Lost> {
    match lease.sender.try_send_request(request).await {
        Ok(response) => {
            let peer = lease.peer;
            let response = response.map(|incoming: Incoming| Inbound::new(incoming, lease));
            Ok(Received { response, peer })
        }
        Err(mut error) => Err(match error.take_message() {
            Some(request) => Lost::Unsent(request),
            None => Lost::Sent(Failure::of(error.error())),
        }),
    }
}

/// A second copy of a request that may be sent twice: safe, and without a body.
fn copy_if_safe(request: &Request<Outgoing>) -> Option<Request<Outgoing>> {
    let is_safe = matches!(
        *request.method(),
        Method::GET | Method::HEAD | Method::OPTIONS
    );
    if !is_safe || !request.body().is_end_stream() {
        return None;
    }
    let mut copy = Request::new(Outgoing::Empty);
    copy.method_mut().clone_from(request.method());
    copy.uri_mut().clone_from(request.uri());
    copy.headers_mut().clone_from(request.headers());
    copy.extensions_mut().clone_from(request.extensions());
    Some(copy)
}

/// The origin as the connector wants it: a URI.
fn address(origin: &Origin) -> Option<Uri> {
    match origin.scheme() {
        Scheme::Http | Scheme::Https => Uri::try_from(format!("{origin}/")).ok(),
        Scheme::Ftp => None,
    }
}

/// TLS as it is spoken to others, whose certificates are verified: by the roots of the system and these.
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

/// A connection that is there already, for what makes TLS of it.
struct Dialled(Option<TcpStream>);

impl Service<Uri> for Dialled {
    type Response = TokioIo<TcpStream>;
    type Error = io::Error;
    type Future = Ready<io::Result<TokioIo<TcpStream>>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        // Asked for twice, there is none.
        let stream = self.0.take().map(TokioIo::new);
        ready(stream.ok_or_else(|| io::ErrorKind::NotConnected.into()))
    }
}

/// Why there is no way out.
#[derive(Debug)]
#[non_exhaustive]
pub enum EgressError {
    /// Whom to trust is not known.
    Trust(TrustError),
    /// Who we are to an upstream proxy is not known.
    Credentials {
        /// The file that should say.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
}

impl From<TrustError> for EgressError {
    fn from(error: TrustError) -> EgressError {
        EgressError::Trust(error)
    }
}

impl fmt::Display for EgressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EgressError::Trust(error) => error.fmt(f),
            EgressError::Credentials { path, why } => {
                let path = path.display();
                write!(f, "[[upstream.proxy]] credentials_file = {path}: {why}")
            }
        }
    }
}

impl std::error::Error for EgressError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            EgressError::Trust(error) => Some(error),
            EgressError::Credentials { .. } => None,
        }
    }
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match self.get_mut() {
            Outgoing::Empty => Poll::Ready(None),
            Outgoing::Stream(body) => body.as_mut().poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Outgoing::Empty => true,
            Outgoing::Stream(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Outgoing::Empty => SizeHint::with_exact(0),
            Outgoing::Stream(body) => body.size_hint(),
        }
    }
}
