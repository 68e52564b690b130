//! The only way out: connections to origin servers.
//!
//! Each request leaves with its permit: a page with the [`Permit`] that cleared it. A robots.txt needs none: the one
//! [`RobotsFetcher`] sends its request. This
//! module builds the request's URI from the permit, not from the crawler's text, so the origin is sent exactly the
//! target that was judged. The permit also sets the connection's time-outs. A permit is checked against all [`Changes`]
//! once its connection is there, right before use: a permit that settings or a robots.txt have overtaken comes back to
//! be judged again, and so does one for a request that a lost connection took with it. Connections are pooled per
//! origin, and per client where clients are told apart; TLS sessions are resumed, certificates are always verified. A
//! request that an origin may read as two (`Sharing`), and each robots.txt, has a connection to itself: no other
//! request gets an answer that belongs to a part of it. A connection with a login serves only one crawler connection
//! ([`Pinned`]).
//!
//! Only an address that the [address policy](crawlgate_policy::address_policy) allows is dialled, also for a redirect of a
//! robots.txt and for a name that resolves differently today.

mod attempt;
mod connect;
mod counts;
mod dial;
mod failure;
mod ftp;
mod happy_eyeballs;
mod http1;
mod http2;
mod idle;
mod interim;
mod key;
mod multiplexer;
mod origin_stream;
mod outgoing;
mod pin;
mod pinned;
mod pool;
mod proof;
mod request_body;
mod resolve;
mod response_body;
mod response_head;
mod robots_fetcher;
mod shared;
mod signer;
mod tls;
mod upstream_proxy;

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Once};
use std::time::Duration;

use arc_swap::ArcSwap;
use http::{HeaderMap, StatusCode, Uri};
use tokio::net::TcpStream;
use tokio::time::timeout;

use self::attempt::{AttemptEnd, Lease, Lost, NewConnections, answer, copy_if_safe};
use self::counts::Counts;
pub use self::dial::faults;
use self::dial::{Dialler, is_local};
pub use self::failure::{EgressError, Failure, ResponseError};
use self::idle::{IdleBudget, UseCount};
use self::multiplexer::{Bounds, Multiplexer, Protocol};
pub use self::outgoing::{
    AsteriskForm, Crawler, OutgoingRequest, Received, Resend, Reuse, Unconnected, Unsent, ViaChain,
};
use self::pinned::Claim;
pub use self::pinned::{EndsLogin, Pinned, offers_login};
use self::pool::Pool;
pub use self::proof::FetchTimeouts;
use self::proof::SendPermit;
pub use self::request_body::{BodyError, RequestBody};
pub use self::response_body::{ResponseBody, Switched, switched};
pub use self::robots_fetcher::RobotsFetcher;
use self::shared::Shared;
pub use self::signer::Signer;
use self::signer::Signers;
use self::tls::Tls;
pub use self::tls::{tls_config, tls_config_of};
use crate::key::Protocols;
use crawlgate_config::Config;
use crawlgate_policy::Permit;
pub use crawlgate_policy::address_policy::Prohibited;
use crawlgate_policy::generation::Changes;
use crawlgate_robots::{Origin, Scheme};
use crawlgate_signing::{Directory, Identities};
use crawlgate_system::clock::{Clock, Moment};
use crawlgate_system::descriptors::Budget;
use crawlgate_system::metrics::Registry;

/// After this idle time the origin may have closed the connection without our having noticed yet.
const DOUBTFUL: Duration = Duration::from_millis(2);

/// The connections to origins.
#[derive(Debug, Clone)]
pub struct Egress(Arc<Shared>);

impl Egress {
    /// Opens the egress as configured, and the way out for robots.txt, which sends without a permit. Nothing is connected
    /// yet.
    ///
    /// # Errors
    /// When the trusted roots, the credentials for an upstream proxy or the key of an identity cannot be read.
    pub fn new(config: &Config, clock: Clock) -> Result<(Egress, RobotsFetcher), EgressError> {
        let upstream = &config.upstream;
        let most = Budget::now(config.limits.connections).idle;
        let idle = Arc::new(IdleBudget::new(most));
        let tls = tls_config(&config.tls.extra_roots)?;
        let signers = Signers::new(config, clock.clone())?;
        let egress = Egress(Arc::new(Shared {
            dialler: Dialler::new(config)?,
            tls: Tls::new(tls, upstream.http2),
            pool: Pool::new(
                upstream.idle_per_host,
                Arc::clone(&idle),
                upstream.idle_timeout,
                clock.clone(),
            ),
            multiplexer: Arc::new(Multiplexer::new(Bounds {
                connections: upstream.http2_connections,
                streams: upstream.http2_streams as usize,
                timeout: upstream.idle_timeout,
                idle: Arc::clone(&idle),
                clock,
                generation: AtomicU64::new(0),
            })),
            idle,
            bounds: http2::Bounds {
                streams: upstream.http2_streams,
                window: upstream.http2_window,
            },
            connect_timeout: upstream.connect_timeout,
            idle_timeout: upstream.idle_timeout,
            takes_ftp: AtomicBool::new(upstream.ftp),
            http1_hosts: ArcSwap::from_pointee(upstream.http1_hosts.clone()),
            sweeping: Once::new(),
            counts: Counts::default(),
            signers,
            changes: Arc::default(),
        }));
        let fetcher = RobotsFetcher::new(egress.clone());
        Ok((egress, fetcher))
    }

    /// Puts the address policy of `config` in force, its choice of protocols and its identities. Connections made before
    /// are not used again, and names are looked up anew.
    pub fn reconfigure(&self, config: &Config) {
        self.0.dialler.reconfigure(config);
        self.0.signers.reconfigure(config);
        let most = Budget::now(config.limits.connections).idle;
        self.0.idle.keep_at_most(most);
        self.0.tls.offer(config.upstream.http2);
        let takes_ftp = config.upstream.ftp;
        self.0.takes_ftp.store(takes_ftp, Ordering::Relaxed);
        let http1_hosts = Arc::new(config.upstream.http1_hosts.clone());
        self.0.http1_hosts.store(http1_hosts);
        self.0.pool.empty();
        self.0.multiplexer.empty();
    }

    /// Closes connections that wait for their next request, to free descriptors when there are none left. Tells whether
    /// there were any.
    pub fn close_idle(&self) -> bool {
        self.0.close_idle() > 0
    }

    /// Registers the connection metrics.
    pub fn register(&self, registry: &mut Registry) {
        self.0.counts.register(registry, Arc::clone(&self.0.idle));
        self.0.signers.register(registry);
    }

    /// Tells whether an origin is asked by HTTP/1.1 since it has refused HTTP/2, or has broken its rules.
    #[must_use]
    pub fn has_left_http2(&self, origin: &Origin) -> bool {
        self.0.multiplexer.protocol(origin) == Some(Protocol::Http1Only)
    }

    /// Sets the addresses that this proxy listens on, which are never dialled.
    pub fn listens_on(&self, addresses: &[SocketAddr]) {
        self.0.dialler.listens_on(addresses);
    }

    /// Returns the addresses that this proxy listens on.
    #[must_use]
    pub fn own(&self) -> Vec<SocketAddr> {
        self.0.dialler.address_policy().own().to_vec()
    }

    /// Dials each origin only at the port of its scheme from now on, also behind a redirect.
    pub fn keep_to_default_ports(&self) {
        self.0.dialler.keep_to_default_ports();
    }

    /// Sets the name by which this proxy recognises its own requests.
    pub fn signs_as(&self, name: &str) {
        self.0.dialler.signs_as(name);
    }

    /// Returns the signer for a request with the identity of this name, to be carried beside it; `None` if it is not to be
    /// signed.
    #[must_use]
    pub fn signer(&self, signed_as: Option<&str>) -> Option<Signer> {
        self.0.signers.of(signed_as)
    }

    /// Returns the directory of keys that is published at this authority `now`; `None` if no identity has it.
    #[must_use]
    pub fn directory(&self, authority: &str, now: Moment) -> Option<Arc<Directory>> {
        let of = |identities: &Identities| identities.directory(authority, now);
        self.0.signers.with_identities(of).flatten()
    }

    /// Checks an origin against the address policy before its name is looked up. Costs next to nothing.
    ///
    /// # Errors
    /// The reason that the origin may not be dialled.
    pub fn check(&self, origin: &Origin) -> Result<(), Prohibited> {
        self.0.dialler.address_policy().check_origin(origin, is_local)
    }

    /// Checks the address that an open connection to an origin was made to. An upstream proxy hides it.
    ///
    /// # Errors
    /// The reason that the address may not be dialled any more.
    pub fn check_peer(&self, origin: &Origin, peer: SocketAddr) -> Result<(), Prohibited> {
        self.0.dialler.check_peer(origin, peer)
    }

    /// Looks up an origin's name and checks its addresses. An origin that cannot be found is not prohibited.
    ///
    /// # Errors
    /// The reason that the origin may not be dialled.
    pub async fn resolve_and_check(&self, origin: &Origin) -> Result<(), Prohibited> {
        let within = self.0.connect_timeout;
        match timeout(within, self.0.dialler.resolve_and_check(origin)).await {
            Ok(Err(Failure::Prohibited(prohibited))) => Err(prohibited),
            _ => Ok(()),
        }
    }

    /// Returns the lowest address that an origin's name leads to, so that the result does not depend on the order of
    /// the answer. `None` if the name does not resolve or only an upstream proxy resolves it.
    pub async fn address_of(&self, origin: &Origin) -> Option<IpAddr> {
        let within = self.0.connect_timeout;
        let found = timeout(within, self.0.dialler.addresses(origin)).await;
        found.ok()?.ok()?.into_iter().min()
    }

    /// Checks that a CONNECT may ask for this origin's port.
    ///
    /// # Errors
    /// When it may not.
    pub fn check_connect(&self, origin: &Origin) -> Result<(), Prohibited> {
        self.0.dialler.address_policy().check_connect(origin)
    }

    /// Checks the port of a request from inside an intercepted CONNECT. The origin's name is looked up: if all its
    /// addresses are allowed, every port is open, as it is for `http`. If an address is prohibited, that is the
    /// reported reason, because allowing the address opens the port, too.
    ///
    /// # Errors
    /// The reason that the port may not be used.
    pub async fn check_inside(&self, origin: &Origin) -> Result<(), Prohibited> {
        let Err(port) = self.check_connect(origin) else {
            return Ok(());
        };
        self.check(origin)?;
        let finding = self.0.dialler.addresses(origin);
        match timeout(self.0.connect_timeout, finding).await {
            Ok(Ok(found)) if self.0.dialler.address_policy().opens(&found, origin.port()) => Ok(()),
            Ok(Err(Failure::Prohibited(prohibited))) => Err(prohibited),
            _ => Err(port),
        }
    }

    /// Returns the changes that a permit must not be older than.
    pub fn changes(&self) -> Arc<Changes> {
        Arc::clone(&self.0.changes)
    }

    /// Sends a page `now` and waits for the response head, without its own time limit. Method, fields and body are the
    /// caller's; origin and target are the permit's. Only requests of the crawler's client share the connection; `interim` receives
    /// each interim response.
    ///
    /// # Errors
    /// The reason that no response head came. Sending the request again takes another permit.
    pub async fn send(
        &self,
        permit: Permit,
        crawler: Crawler,
        request: OutgoingRequest,
        interim: impl Fn(StatusCode, &HeaderMap) + Clone + Send + Sync + 'static,
        now: Moment,
        reuse: Reuse,
    ) -> Result<Received, Unsent> {
        let send_permit = SendPermit::Page(&permit, &crawler);
        let sent = self.try_send(send_permit, request, interim, Some(now), reuse);
        let failed = match sent.await {
            Ok(received) => return Ok(received),
            Err(failed) => failed,
        };
        let again = |request: OutgoingRequest, permit: Permit| {
            Box::new(Resend { target: permit.into_target(), request })
        };
        Err(match failed {
            AttemptEnd::Failed(failure) => Unsent::Failed(failure),
            AttemptEnd::Overtaken(request) => Unsent::Overtaken(again(request, permit)),
            AttemptEnd::Lost(request) => Unsent::Lost(again(request, permit)),
            AttemptEnd::LeftBehind(request) => Unsent::LeftBehind(again(request, permit)),
        })
    }

    async fn try_send(
        &self,
        send_permit: SendPermit<'_>,
        mut request: OutgoingRequest,
        interim: impl Fn(StatusCode, &HeaderMap) + Clone + Send + Sync + 'static,
        mut now: Option<Moment>,
        reuse: Reuse,
    ) -> Result<Received, AttemptEnd> {
        let (key, path) = send_permit.destination();
        let (to_connect, to_answer) = send_permit.timeouts(self.0.connect_timeout);
        if key.origin().scheme() == Scheme::Ftp {
            // Boxed: few requests are for such URLs.
            let asking = self.0.ask_ftp(send_permit, request, (to_connect, to_answer));
            return Box::pin(asking).await;
        }
        let is_whole = request.extensions().get::<AsteriskForm>().is_some() && path == "/";
        *request.uri_mut() = if is_whole { Uri::from_static("*") } else { Uri::from(path.clone()) };
        let of_pool = (&self.0.pool, &key);
        let claim = Claim::of(send_permit.pinned(), of_pool, request.headers(), to_connect)
            .await
            .map_err(AttemptEnd::Failed)?;
        let key = claim.key();
        let sharing = send_permit.sharing(&request, claim.is_pinned());
        let may_take_http2 = self.0.offers_http2(key.origin()) && !claim.is_pinned();
        let mut protocols = if may_take_http2 {
            send_permit.protocols(key.origin().scheme(), &request)
        } else {
            Protocols::Http1
        };
        let mut was_crowded = false;
        let mut new = NewConnections::default();
        // The failure by HTTP/2, if the request has left so and is asked again by HTTP/1.1.
        let mut broken = None;
        loop {
            // A login belongs to one connection.
            let is_bound = claim.is_bound();
            let reuse = if is_bound { Reuse::Allowed } else { reuse };
            let found = self.0.take(key, (sharing, protocols), reuse, now.take());
            let (mut lease, is_new) = match found {
                Some(lease) => (lease, false),
                None if is_bound => return Err(AttemptEnd::Failed(Failure::LoginLost)),
                None => {
                    // Boxed: state of a rare connect should not burden every request's future.
                    let via = request.extensions().get::<ViaChain>().cloned();
                    let use_for = (sharing, protocols.of_new_connection());
                    let connecting = self.0.connect(key.clone(), use_for, to_connect, via);
                    let (lease, had_to_wait) = Box::pin(connecting)
                        .await
                        .map_err(|failure| AttemptEnd::Failed(broken.take().unwrap_or(failure)))?;
                    was_crowded |= had_to_wait;
                    let is_new = lease.past().0 == UseCount::Fresh;
                    (lease, is_new)
                }
            };
            if let Lease::Http1(lease) = &mut lease {
                claim.hold(lease);
            }
            let (past, idle_for) = lease.past();
            let is_http1 = matches!(lease, Lease::Http1(_));
            let is_last = is_new && new.count(is_http1);
            // By HTTP/2, the request stays whole.
            let is_doubtful =
                is_http1 && !is_new && (idle_for >= DOUBTFUL || past == UseCount::Once);
            let spare = is_doubtful.then(|| copy_if_safe(&request)).flatten();
            let Some(proof) = send_permit.proof(&self.0.changes) else {
                lease.give_back();
                return Err(match broken {
                    None => AttemptEnd::Overtaken(request),
                    Some(_) => AttemptEnd::Lost(request),
                });
            };
            let is_http2 = matches!(lease, Lease::Http2(_));
            self.0.signers.sign(&mut request, key.origin(), is_http2);
            let attempt = answer(proof, (lease, &claim), request, interim.clone(), to_answer);
            let lost = match attempt.await {
                Ok(received) => {
                    if received.is_misdirected() {
                        self.0.multiplexer.leave(key);
                    }
                    return Ok(Received { was_crowded, ..received });
                }
                Err(lost) => lost,
            };
            if matches!(lost, Lost::WantsHttp1(_) | Lost::Broken(..)) {
                self.0.multiplexer.leave(key);
                protocols = Protocols::Http1;
            }
            request = match lost {
                Lost::Broken(failure, Some(request)) => {
                    broken = Some(failure);
                    Ok(request)
                }
                Lost::Unsent(_) if is_bound => Err(AttemptEnd::Failed(Failure::LoginLost)),
                Lost::Sent(failure) if is_bound => Err(AttemptEnd::Failed(failure)),
                lost => lost.send_again(is_last, spare, reuse),
            }?;
        }
    }

    /// Connects to the origin of a cleared tunnel, without TLS of our own. Octets may follow while the permit is
    /// current.
    ///
    /// # Errors
    /// The failure; the target if a change has overtaken the permit meanwhile.
    pub async fn connect(
        &self,
        permit: Permit,
        via: Option<&ViaChain>,
    ) -> Result<TcpStream, Unconnected> {
        let dialling = self.0.reach(&permit.target().origin, via);
        let stream = timeout(self.0.connect_timeout, dialling)
            .await
            .map_err(|_| Unconnected::Failed(Failure::ConnectTimeout))?
            .map_err(Unconnected::Failed)?;
        match permit.current(&self.0.changes) {
            Some(_) => Ok(stream),
            None => Err(Unconnected::Overtaken(permit.into_target())),
        }
    }
}
