//! The proxy: crawlers on one side, the gate in the middle, origins on the other.
//!
//! `server` accepts; `checked_stream` and `framing` check where each request begins and ends; `exchange` takes it to its
//! answer: `admission` identifies the client, `target` reads the request target, the gate decides, `forward` and
//! `upstream` send, `respond` refuses, `recorder` records, `linger` keeps the answer from a reset. `connect`
//! opens tunnels and hands intercepted ones back to `server`; `hello` reads the ClientHello of opaque ones.

mod admission;
mod body;
mod carrier;
mod checked_stream;
mod clearing;
mod client_stream;
mod connect;
mod connection;
mod counts;
pub mod decide;
mod exchange;
mod exchange_state;
mod fields;
mod forward;
pub mod framing;
mod hello;
mod http2;
mod limits;
mod linger;
pub mod listener;
pub mod override_sync;
mod recorder;
mod refused;
mod relay;
mod respond;
mod server;
mod stall;
mod target;
pub mod telemetry;
mod upload;
mod upstream;

use std::collections::HashSet;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::checked_stream::RefusalToken;
use self::counts::Counts;
use self::fields::Pseudonym;
use self::limits::Limiter;
pub use self::limits::Occupied;
use self::listener::{ActiveListener, Bound, ListenAddr, ListenError, Listener};
use crate::telemetry::Tracer;
use crawlgate_ca::Authority;
use crawlgate_config::Config;
use crawlgate_egress::{Egress, RobotsFetcher};
use crawlgate_evidence::{DecisionId, Log, Summary};
use crawlgate_gate::Gate;
use crawlgate_system::clock::Clock;
use crawlgate_system::metrics::Registry;
use crawlgate_turns::fleet::Fleet;

/// The host at which the proxy itself answers.
pub const SELF_TEST: &str = "self-test.crawlgate.invalid";

/// Limit on crawlers remembered as already warned about.
const MAX_WARNED: usize = 1024;

/// Reason that a connection comes to nothing; warned about once for each address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum ConnectionFailure {
    /// The crawler does not trust our CA.
    Distrust,
    /// The crawler speaks HTTP/2 where that is not spoken.
    Protocol,
    /// A load balancer names no client by the PROXY protocol.
    Unannounced,
    /// A load balancer names a client that may not connect.
    NotAllowed,
    /// The crawler shows a listener no certificate that is trusted.
    Certificate,
}

/// A proxy, listening or about to.
pub struct Proxy {
    gate: Gate,
    egress: Egress,
    authority: ArcSwap<Authority>,
    log: Arc<Log>,
    summary: Summary,
    counts: Counts,
    /// Set if exchanges are traced.
    tracer: OnceLock<Tracer>,
    settings: ArcSwap<Config>,
    name: Pseudonym,
    refusal_token: RefusalToken,
    clock: Clock,
    warned_clients: Mutex<HashSet<(IpAddr, ConnectionFailure)>>,
    limiter: Arc<Limiter>,
    listeners: Mutex<Vec<Arc<ActiveListener>>>,
    /// The addresses of all listeners, also after the stop.
    addresses: Mutex<Vec<ListenAddr>>,
    tasks: TaskTracker,
    /// Stops new connections and requests.
    stop: CancellationToken,
    /// Ends everything under way.
    cut: CancellationToken,
}

impl Proxy {
    /// Builds a proxy. Nothing listens and nothing is sent yet.
    ///
    /// # Errors
    /// When the system has no randomness.
    pub fn new(
        config: Config,
        (egress, fetcher): (Egress, RobotsFetcher),
        authority: Authority,
        log: Log,
        fleet: Option<Arc<Fleet>>,
        clock: Clock,
    ) -> io::Result<Arc<Proxy>> {
        let log = Arc::new(log);
        let gate =
            Gate::new(&config, (egress.clone(), fetcher), Arc::clone(&log), fleet, clock.clone());
        let id = DecisionId::mint(clock.now()).to_string();
        // The end of an identifier is its random part.
        let suffix = id.get(id.len().saturating_sub(8)..).unwrap_or(&id).to_ascii_lowercase();
        let name = Pseudonym::new(&suffix, config.upstream.via);
        egress.signs_as(name.name());
        Ok(Arc::new(Proxy {
            gate,
            egress,
            authority: ArcSwap::from_pointee(authority),
            log,
            summary: Summary::default(),
            counts: Counts::default(),
            tracer: OnceLock::new(),
            settings: ArcSwap::from_pointee(config),
            name,
            refusal_token: RefusalToken::new()?,
            clock,
            warned_clients: Mutex::default(),
            limiter: Arc::default(),
            listeners: Mutex::default(),
            addresses: Mutex::default(),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
            cut: CancellationToken::new(),
        }))
    }

    /// Accepts crawlers on these listeners, until [`Proxy::drain`].
    ///
    /// # Errors
    /// When a listener cannot be watched.
    pub fn serve(
        self: &Arc<Self>,
        listeners: Vec<std::net::TcpListener>,
    ) -> io::Result<Vec<SocketAddr>> {
        let listen = self.settings.load().listen.clone();
        let listeners =
            listeners.into_iter().map(|socket| Listener::simple(Bound::Tcp(socket), &listen));
        let addresses = self.serve_on(listeners.collect()).map_err(io::Error::other)?;
        let address = |address| match address {
            ListenAddr::Address(address) => Some(address),
            ListenAddr::Unix(_) => None,
        };
        Ok(addresses.into_iter().filter_map(address).collect())
    }

    /// Accepts crawlers on listeners of any kind.
    ///
    /// # Errors
    /// When a listener cannot be watched or has no usable certificate.
    pub fn serve_on(
        self: &Arc<Self>,
        listeners: Vec<Listener>,
    ) -> Result<Vec<ListenAddr>, ListenError> {
        let authority = self.authority();
        let opened: Result<Vec<_>, _> =
            listeners.into_iter().map(|listener| listener.open(&authority).map(Arc::new)).collect();
        let opened = opened?;
        let addresses: Result<Vec<_>, _> =
            opened.iter().map(|listener| listener.local_addr()).collect();
        let addresses = addresses?;
        for address in &addresses {
            // Before the first crawler connects.
            if let ListenAddr::Address(address) = address {
                self.egress.listens_on(&[*address]);
            }
        }
        for listener in &opened {
            // Tracked, so that a connection accepted just before the stop is served, too.
            self.tasks.spawn(server::listen(Arc::clone(self), Arc::clone(listener)));
        }
        self.listeners.lock().extend(opened);
        self.addresses.lock().extend_from_slice(&addresses);
        Ok(addresses)
    }

    /// Returns the addresses of the listeners; none before [`Proxy::serve_on`].
    pub fn addresses(&self) -> Vec<ListenAddr> {
        self.addresses.lock().clone()
    }

    /// Reloads the listeners' certificates for new TLS sessions. Returns the failures; the listeners concerned keep
    /// their old certificates.
    pub fn renew_certificates(&self) -> Vec<ListenError> {
        let authority = self.authority();
        let listeners = self.listeners.lock();
        let renewed = listeners.iter().map(|listener| listener.renew(&authority));
        renewed.filter_map(Result::err).collect()
    }

    /// Returns the connections and requests under way, and the connections without room.
    pub fn occupied(&self) -> Occupied {
        self.limiter.occupied()
    }

    /// Puts new settings in force for requests from now on; a connection keeps the limits it was opened with.
    pub fn reconfigure(&self, config: Config) {
        self.log.settings(&config);
        self.egress.reconfigure(&config);
        let config = Arc::new(config);
        // Before the generation ends in which exchanges have found the former ones.
        self.settings.store(Arc::clone(&config));
        self.gate.reconfigure(&config);
        self.log.adopt(&config);
    }

    /// Returns the settings in force.
    pub fn settings(&self) -> Arc<Config> {
        self.settings.load_full()
    }

    /// Takes no more connections and questions, and waits until those under way have ended: on return, every answer
    /// given is recorded. Accepted connections are answered: handshakes finish, and a connection without a request so
    /// far has a moment to send one. The last answer of each says `Connection: close`.
    pub async fn drain(&self) {
        self.stop.cancel();
        // The files of Unix sockets go with their listeners.
        self.listeners.lock().clear();
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Ends everything under way at once. The records are still written.
    pub async fn cut_off(&self) {
        self.stop.cancel();
        self.cut.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Tells whether the proxy takes no more connections and requests.
    pub fn is_stopping(&self) -> bool {
        self.stop.is_cancelled()
    }

    /// Returns the proxy's clock.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Returns the way out to origins.
    pub fn egress(&self) -> &Egress {
        &self.egress
    }

    /// Runs a connection's task until it ends or is cut off.
    fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        let cut = self.cut.clone();
        self.tasks.spawn(async move {
            tokio::select! {
                () = future => {}
                () = cut.cancelled() => {}
            }
        });
    }

    /// Tells whether a crawler at this address fails in this way for the first time: a flood of the same warning does
    /// not help.
    fn should_warn(&self, client: SocketAddr, failure: ConnectionFailure) -> bool {
        let mut warned = self.warned_clients.lock();
        warned.len() < MAX_WARNED && warned.insert((client.ip(), failure))
    }

    /// Returns the summary of exchanges so far.
    pub fn summary(&self) -> &Summary {
        &self.summary
    }

    /// Traces exchanges from now on. Only the first tracer counts.
    pub fn trace_with(&self, tracer: Tracer) {
        let _ = self.tracer.set(tracer);
    }

    /// Registers the metrics of the proxy and of its parts.
    pub fn register(&self, registry: &mut Registry) {
        self.counts.register(registry);
        self.gate.robots_cache().counts().register(registry);
        self.egress.register(registry);
        self.authority.load().register(registry);
        self.log.register(registry);
        if let Some(fleet) = self.gate.fleet() {
            fleet.register(registry);
        }
    }

    /// Returns the decision log.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// Returns the local certificate authority.
    pub fn authority(&self) -> Arc<Authority> {
        self.authority.load_full()
    }

    /// Puts another certificate authority in force for new TLS sessions, unless it signs and is trusted like the former
    /// one. A new one replaces the certificates minted so far and the resumable sessions. Tells whether it is new.
    pub fn adopt_authority(&self, mut authority: Authority) -> bool {
        let former = self.authority.load();
        let is_new = !former.has_same_signer(&authority);
        if is_new {
            authority.inherit_metrics(&former);
            self.authority.store(Arc::new(authority));
        }
        is_new
    }

    /// Returns the gate.
    pub fn gate(&self) -> &Gate {
        &self.gate
    }
}

impl std::fmt::Debug for Proxy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Proxy")
            .field("gate", &self.gate)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
