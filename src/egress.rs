//! The only way out: connections to origin servers.
//!
//! Everything that leaves carries an errand: either a page with the [`Permit`] that cleared it, or
//! the fetch of a robots.txt. The request's URI is built here from the errand, not from what a crawler
//! wrote, so what was judged is what is fetched. How long a connection may take is the errand's, too.
//! A permit is checked against all [`Changes`] when its connection is there, right before it is used: one that settings
//! or a robots.txt have overtaken comes back, and so does one whose connection was lost. Connections are pooled per
//! origin, and per client where clients are told apart; TLS sessions are resumed, certificates are always verified. A
//! request that an origin may take for two (`Sharing`), and each robots.txt, has a connection to itself: no other
//! request gets an answer that belongs to a part of it.
//!
//! What is dialled is an address that [`walls`] let through, whoever named it: the crawler, a redirect of a
//! robots.txt, or a name that leads elsewhere today.

mod address;
mod attempt;
mod counts;
mod dial;
mod failure;
mod outgoing;
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
use std::sync::{Arc, Once};
use std::task::{Context, Poll};
use std::time::Duration;

use http::header::CONNECTION;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, Uri, Version};
use hyper::body::Body as _;
use hyper::client::conn::http1;
use hyper_rustls::HttpsConnector;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tower_service::Service;

use self::attempt::{Lost, answer, copy_if_safe};
use self::counts::Counts;
pub use self::dial::faults;
use self::dial::{Dialler, is_local};
pub use self::failure::Failure;
pub use self::outgoing::{BodyError, Outgoing};
pub use self::pool::Inbound;
use self::pool::{Connection, Key, Lease, Past, Pool};
pub use self::walls::Prohibited;
use crate::clock::{Clock, Moment};
use crate::config::Config;
use crate::descriptors::{Budget, are_exhausted};
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
/// How long idle connections that are closed may take to give up their descriptors, and how often that is looked for.
const CLOSING: Duration = Duration::from_millis(10);
const CLOSING_CHECKS: usize = 50;

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
    /// A page that was cleared, for the client of this name: no other client's requests share its connections.
    Page(&'a Permit, &'a Option<Arc<str>>),
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
            Errand::Page(permit, _) => permit.current(changes).map(Proof::Page),
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

/// How a request shares its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sharing {
    /// With requests before and after it.
    Pooled,
    /// With no other one: it goes out with `Connection: close`.
    Alone,
}

impl Sharing {
    /// A server that does not expect a body leaves it unread, and reads it as the next request: one that was not judged,
    /// with an answer that goes to the next request on the connection. No method is safe from that: a handler of POST
    /// may answer without reading, too. A robots.txt binds all crawlers, so its fetch trusts no connection that a
    /// crawler's request was on.
    fn of(errand: Errand<'_>, request: &Request<Outgoing>) -> Sharing {
        match errand {
            Errand::Page(..) if request.body().is_end_stream() => Sharing::Pooled,
            Errand::Page(..) | Errand::Robots(_) => Sharing::Alone,
        }
    }
}

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
            pool: Pool::new(
                upstream.idle_per_host,
                Budget::now(config.limits.connections).idle,
                upstream.idle_timeout,
                clock,
            ),
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
        let most = Budget::now(config.limits.connections).idle;
        self.0.pool.keep_at_most(most);
        self.0.pool.empty();
    }

    /// Closes connections that wait for their next request: where descriptors have run out, others need theirs more.
    /// Tells whether there were any.
    pub fn close_idle(&self) -> bool {
        self.0.pool.close_idle() > 0
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
    /// asks for are the permit's. The head may take as long as the caller waits. It is sent `now`, on a connection that only
    /// requests of `client` share; `interim` is told of each interim response.
    ///
    /// # Errors
    /// Why no response head came. The request goes out again by another permit only.
    pub async fn send(
        &self,
        permit: Permit,
        client: Option<Arc<str>>,
        request: Request<Outgoing>,
        interim: impl Fn(StatusCode, &HeaderMap) + Clone + Send + Sync + 'static,
        now: Moment,
        reuse: Reuse,
    ) -> Result<Received, Unsent> {
        let errand = Errand::Page(&permit, &client);
        let sent = self.try_send(errand, request, interim, Some(now), reuse);
        let failed = match sent.await {
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
        let sent = self
            .try_send(errand, request, |_, _| {}, Some(now), Reuse::Forbidden)
            .await;
        sent.map_err(|halt| match halt {
            Halt::Failed(failure) => failure,
            Halt::Lost(_) | Halt::Overtaken(_) => Failure::Terminated,
        })
    }

    async fn try_send(
        &self,
        errand: Errand<'_>,
        mut request: Request<Outgoing>,
        interim: impl Fn(StatusCode, &HeaderMap) + Clone + Send + Sync + 'static,
        mut now: Option<Moment>,
        reuse: Reuse,
    ) -> Result<Received, Halt> {
        let sharing = Sharing::of(errand, &request);
        let (key, path, to_connect, to_answer) = match errand {
            Errand::Page(permit, client) => {
                let target = permit.target();
                let key = Key::new(&target.origin, client.clone());
                (key, &target.path, self.0.connect_timeout, None)
            }
            Errand::Robots(errand) => {
                let (origin, path) = errand.target();
                let (to_connect, to_answer) = errand.patience();
                (Key::new(origin, None), path, to_connect, Some(to_answer))
            }
        };
        *request.uri_mut() = Uri::from(path.clone());
        *request.version_mut() = Version::HTTP_11;
        match sharing {
            Sharing::Pooled => {}
            Sharing::Alone => say_close(request.headers_mut()),
        }
        while reuse == Reuse::Allowed
            && let Some(lease) = self.0.pool.take_for(sharing, &key, now.take())
        {
            let is_doubtful = lease.idle_for >= DOUBTFUL || lease.past == Past::Once;
            let spare = is_doubtful.then(|| copy_if_safe(&request)).flatten();
            let Some(proof) = errand.proof(&self.0.changes) else {
                lease.give_back();
                return Err(Halt::Overtaken(Box::new(request)));
            };
            let attempt = answer(proof, lease, request, interim.clone(), to_answer);
            match (attempt.await, spare) {
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
        let lease = Box::pin(self.0.dial(key, sharing, to_connect, way))
            .await
            .map_err(Halt::Failed)?;
        let Some(proof) = errand.proof(&self.0.changes) else {
            lease.give_back();
            return Err(Halt::Overtaken(Box::new(request)));
        };
        answer(proof, lease, request, interim, to_answer)
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
        let dialling = self.0.reach(&permit.target().origin, way);
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
    /// Makes a connection, in the place of idle ones where no descriptor is left.
    async fn reach(&self, origin: &Origin, way: Option<&Way>) -> Result<TcpStream, Failure> {
        match self.dialler.dial(origin, way).await {
            Err(Failure::Exhausted) if self.pool.close_idle() > 0 => {
                // Each of them ends in its own task.
                for _ in 0..CLOSING_CHECKS {
                    tokio::time::sleep(CLOSING).await;
                    if !are_exhausted() {
                        break;
                    }
                }
                self.dialler.dial(origin, way).await
            }
            dialled => dialled,
        }
    }

    /// Connects to the origin of `key` within a time that covers the look-up of its name, TCP and TLS.
    async fn dial(
        &self,
        key: Key,
        sharing: Sharing,
        within: Duration,
        way: Option<Way>,
    ) -> Result<Lease, Failure> {
        let origin = key.origin();
        let uri = address(origin).ok_or(Failure::Unaddressable)?;
        let connecting = async {
            let stream = self.reach(origin, way.as_ref()).await?;
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
        let task = tokio::spawn(async move {
            drop(connection.with_upgrades().await);
            drop(open);
        });
        self.sweeping.call_once(|| {
            let every = (self.idle_timeout / 2).max(Duration::from_secs(1));
            tokio::spawn(Pool::sweep(Arc::downgrade(&self.pool), every));
        });
        let connection = Connection::new(sender, peer, task.abort_handle());
        Ok(self.pool.lease(key, connection, sharing))
    }
}

/// Says that the connection closes after this request, beside what else its list holds (RFC 9110 7.6.1). What comes back
/// to be judged again says so already.
fn say_close(headers: &mut HeaderMap) {
    let mut options = headers.get_all(CONNECTION).iter();
    if !options.any(|option| option.as_bytes() == b"close") {
        headers.append(CONNECTION, HeaderValue::from_static("close"));
    }
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
