//! The proxy: crawlers on one side, the gate in the middle, origins on the other.
//!
//! `server` accepts → `wire` and `framing` check where each request begins and ends → `exchange` takes it
//! to its answer: `target` reads what is asked for, the gate decides, `fields` and `upstream` forward,
//! `respond` refuses, `ledger` records. `connect` opens tunnels, whose inside comes back to `server`.

mod body;
mod connect;
mod exchange;
mod fields;
mod framing;
mod ledger;
mod link;
mod respond;
mod server;
mod target;
mod upstream;
mod wire;

use std::collections::HashSet;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::fields::Pseudonym;
use self::wire::Mark;
use crate::audit::{DecisionId, Log, Summary};
use crate::ca::Authority;
use crate::clock::Clock;
use crate::config::Config;
use crate::egress::Egress;
use crate::gate::Gate;

/// Crawlers that are told apart when they are warned of.
const MOST_TOLD: usize = 1024;

/// A proxy, listening or about to.
pub struct Proxy {
    gate: Gate,
    egress: Egress,
    authority: Arc<Authority>,
    log: Arc<Log>,
    summary: Summary,
    settings: ArcSwap<Config>,
    name: Pseudonym,
    mark: Mark,
    clock: Clock,
    told: Mutex<HashSet<IpAddr>>,
    tasks: TaskTracker,
    /// No new connections and requests.
    stop: CancellationToken,
    /// What is under way ends now.
    cut: CancellationToken,
}

impl Proxy {
    /// Puts a proxy together. Nothing listens and nothing is sent yet.
    ///
    /// # Errors
    /// When the system has no randomness.
    pub fn new(
        config: Config,
        egress: Egress,
        authority: Authority,
        log: Log,
        clock: Clock,
    ) -> io::Result<Arc<Proxy>> {
        let log = Arc::new(log);
        let gate = Gate::new(&config, egress.clone(), Arc::clone(&log), clock.clone());
        let id = DecisionId::mint(clock.now()).to_string();
        // The end of an identifier is its random part.
        let suffix = id
            .get(id.len().saturating_sub(8)..)
            .unwrap_or(&id)
            .to_ascii_lowercase();
        Ok(Arc::new(Proxy {
            gate,
            egress,
            authority: Arc::new(authority),
            log,
            summary: Summary::default(),
            settings: ArcSwap::from_pointee(config),
            name: Pseudonym::new(&suffix),
            mark: Mark::new()?,
            clock,
            told: Mutex::default(),
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
        let slots = Arc::new(Semaphore::new(
            self.settings
                .load()
                .limits
                .connections
                .min(Semaphore::MAX_PERMITS),
        ));
        let mut addresses = Vec::new();
        for listener in listeners {
            listener.set_nonblocking(true)?;
            let listener = TcpListener::from_std(listener)?;
            let address = listener.local_addr()?;
            // Before the first crawler comes.
            self.egress.listens_on(&[address]);
            addresses.push(address);
            tokio::spawn(server::listen(
                Arc::clone(self),
                listener,
                Arc::clone(&slots),
            ));
        }
        Ok(addresses)
    }

    /// Puts new settings in force for requests from now on; a connection keeps the limits it was opened with.
    pub fn reconfigure(&self, config: Config) {
        self.egress.reconfigure(&config);
        self.gate.reconfigure(&config);
        self.log.adopt(&config);
        self.settings.store(Arc::new(config));
    }

    /// The settings in force.
    pub fn settings(&self) -> Arc<Config> {
        self.settings.load_full()
    }

    /// Takes no more connections and waits until the exchanges under way have ended.
    pub async fn drain(&self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Ends what is under way at once. Its records are written all the same.
    pub async fn cut_off(&self) {
        self.stop.cancel();
        self.cut.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Runs what belongs to a connection, until it ends or is cut off.
    fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        let cut = self.cut.clone();
        self.tasks.spawn(async move {
            tokio::select! {
                () = future => {}
                () = cut.cancelled() => {}
            }
        });
    }

    /// Whether it is the first time that a crawler at this address does not trust us: a flood of the same
    /// warning helps nobody.
    fn is_news(&self, client: SocketAddr) -> bool {
        let mut told = self.told.lock();
        told.len() < MOST_TOLD && told.insert(client.ip())
    }

    /// What went through so far.
    pub fn summary(&self) -> &Summary {
        &self.summary
    }

    /// The decision log.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// The local certificate authority.
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// The gate.
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
