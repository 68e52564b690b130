//! The running gate, of `serve` and of `run`: a proxy built from its configuration, and the tasks beside it. They take over
//! changed overrides, sign the log, drop old decisions, and answer the admin socket and HTTP.
//!
//! No request waits for these tasks. They report a failure and try again.

pub mod announce;
pub mod join;
pub mod listeners;

use std::future::Future;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::{debug, info, warn};

use self::join::{first_answer, join};
use crate::Failure;
use crawlgate_admin::http::{
    AppState, Certificate, CertificateError, Listener, ListenerKind, PUBLIC_CONNECTIONS, PublicTry,
    Token, TryCounts, router,
};
use crawlgate_admin::{Process, Socket};
use crawlgate_ca::Authority;
use crawlgate_config::{AdminConfig, Config};
use crawlgate_egress::Egress;
use crawlgate_evidence::ship::Shipper;
use crawlgate_evidence::witness::Witnesses;
use crawlgate_evidence::{Log, LogError};
use crawlgate_proxy::Proxy;
use crawlgate_proxy::override_sync::OverrideSync;
use crawlgate_proxy::telemetry::Telemetry;
use crawlgate_store::{self as store, Access, LogKey, Store};
use crawlgate_system::clock::{self, Clock, Moment};
use crawlgate_turns::fleet::{Fleet, HeartbeatListener};

/// Time for the last checkpoint: the end of a process waits for it.
const LAST_CHECKPOINT_TIMEOUT: Duration = Duration::from_secs(5);

/// Runs a gate, and shows what it logs from this `level` on, until it has ended.
///
/// # Errors
/// When telemetry or the runtime cannot be started, or the gate fails.
pub fn supervise<T>(
    config: Config,
    level: &str,
    gate: impl AsyncFnOnce(Config, &Telemetry) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.enable_all().build();
    let runtime = runtime.map_err(|error| format!("the runtime cannot be started: {error}"))?;
    let telemetry = Telemetry::start(&config, level, runtime.handle())?;
    let outcome = runtime.block_on(gate(config, &telemetry));
    telemetry.end();
    // A look-up that hangs in the system's resolver must not keep the process.
    runtime.shutdown_timeout(Duration::from_millis(100));
    outcome
}

/// Builds a proxy from its configuration: authority, egress, store, log, fleet. `suffix` tells its place in the fleet from
/// that of the process that serves.
///
/// # Errors
/// When a part of it cannot be opened; the message names the way out.
pub fn build(
    config: Config,
    suffix: Option<u32>,
    open: impl FnOnce(&Config, Option<Arc<Store>>, &Clock) -> Result<Log, LogError>,
) -> Result<Arc<Proxy>, Failure> {
    let clock = Clock::system();
    let authority = Authority::load_or_create(&config.tls, clock.clone())?;
    let egress = Egress::new(&config, clock.clone())?;
    let path = config.store.path.as_ref();
    let store = path.map(|_| store::open(&config, Access::Write));
    let store = store.transpose()?;
    let log = open(&config, store, &clock)?;
    let fleet = join(&config, suffix, &clock)?;
    Ok(Proxy::new(config, egress, authority, log, fleet, clock)?)
}

/// The background tasks of a proxy. They end with this value.
pub struct BackgroundTasks {
    proxy: Arc<Proxy>,
    tasks: JoinSet<()>,
    overrides_changed: Arc<Notify>,
    override_sync: Option<Arc<OverrideSync>>,
    log: Option<LogParts>,
    fleet: Option<Arc<Fleet>>,
    app: Option<AppState>,
    /// The console and the page for everyone, bound and not served yet.
    servers: Vec<Pin<Box<dyn Future<Output = ()> + Send>>>,
    /// The certificate of the console, if it has one.
    certificate: Option<Certificate>,
    /// Questions at the page for everyone.
    tries: TryCounts,
    /// The link to the fleet's engine: it ends before this instance leaves.
    link: JoinSet<()>,
    clock: Clock,
    started: Moment,
}

/// The store, the key of its log, its witnesses, and the place that has it, too.
#[derive(Clone)]
struct LogParts {
    store: Arc<Store>,
    key: Arc<LogKey>,
    witnesses: Arc<Witnesses>,
    shipper: Option<Arc<Shipper>>,
}

impl BackgroundTasks {
    /// Puts the overrides of the store in force. Called before the first request.
    ///
    /// # Errors
    /// When the key or the overrides cannot be read: without the overrides, no request can be judged.
    pub async fn start(proxy: &Arc<Proxy>) -> Result<BackgroundTasks, Failure> {
        let clock = Clock::system();
        let mut background = BackgroundTasks {
            proxy: Arc::clone(proxy),
            tasks: JoinSet::new(),
            overrides_changed: Arc::default(),
            override_sync: None,
            log: None,
            fleet: None,
            app: None,
            servers: Vec::new(),
            certificate: None,
            tries: TryCounts::default(),
            link: JoinSet::new(),
            started: clock.now(),
            clock,
        };
        let watch = clock::watch(background.clock.clone());
        background.tasks.spawn(watch);
        if let Some(store) = proxy.log().store() {
            background.attach_store(store).await?;
        }
        // The configuration demands a store for a fleet.
        if let (Some(fleet), Some(override_sync)) =
            (proxy.gate().fleet(), &background.override_sync)
        {
            background.fleet = Some(Arc::clone(fleet));
            let override_sync: Arc<dyn HeartbeatListener> =
                Arc::<OverrideSync>::clone(override_sync);
            let follower = proxy.gate().pace().following(override_sync);
            background.link.spawn(Arc::clone(fleet).run(follower));
            first_answer(fleet).await;
        }
        Ok(background)
    }

    /// Starts the tasks of a store: witnesses, shipping, overrides, retention.
    async fn attach_store(&mut self, store: &Arc<Store>) -> Result<(), Failure> {
        let settings = self.proxy.settings();
        let key = store::log_key(&settings)?;
        let witnesses = Witnesses::of(&settings, store, &key, self.clock.clone()).await?;
        let shipper = Shipper::of(&settings, store, &key, self.clock.clone()).await?;
        for task in witnesses.tasks() {
            self.tasks.spawn(task);
        }
        self.log = Some(LogParts {
            store: Arc::clone(store),
            key,
            witnesses: Arc::new(witnesses),
            shipper,
        });
        let sync = OverrideSync::start(&self.proxy, store).await;
        let sync = sync.map_err(|error| format!("the overrides cannot be read: {error}"))?;
        let changed = Arc::clone(&self.overrides_changed);
        self.tasks.spawn(Arc::clone(&sync).follow_store(changed));
        self.override_sync = Some(sync);
        Ok(())
    }

    /// Records the start of the process, begins the store's maintenance with a checkpoint of it, and starts the HTTP servers,
    /// which decide about URLs for other programs, too. Called before the first request.
    pub fn begin(&mut self) {
        let proxy = Arc::clone(&self.proxy);
        proxy.log().begin(&proxy.settings());
        for server in std::mem::take(&mut self.servers) {
            self.tasks.spawn(server);
        }
        let Some(log) = self.log.clone() else {
            return;
        };
        if let Some(shipper) = log.shipper {
            self.tasks.spawn(shipper.run());
        }
        let clock = self.clock.clone();
        self.tasks.spawn(async move {
            // A failure is told by the log, and this task continues as soon as it is over.
            let _ = proxy.log().flush().await;
            log.witnesses.asked().await;
            let settings = move || proxy.settings().audit.clone();
            store::maintain(log.store, log.key, settings, clock).await;
        });
    }

    /// Returns the state of the admin side, made at the first call. Its token opens only the pages at
    /// `[admin] address`.
    ///
    /// # Errors
    /// When the token is not available: an operator who relies on the console must not miss it.
    fn app(&mut self) -> Result<AppState, Failure> {
        if let Some(app) = &self.app {
            return Ok(app.clone());
        }
        let admin = &self.proxy.settings().admin;
        let token = admin.token_file.as_deref();
        let token = token.filter(|_| admin.address.is_some());
        let token = token.map(Token::load_or_create).transpose()?;
        let log = self.log.as_ref();
        let process = Process {
            proxy: Arc::clone(&self.proxy),
            overrides_changed: Arc::clone(&self.overrides_changed),
            override_sync: self.override_sync.clone(),
            witnesses: log.map(|log| Arc::clone(&log.witnesses)),
            shipper: log.and_then(|log| log.shipper.clone()),
            started: self.started,
        };
        let app = AppState::new(process, &self.tries, token);
        Ok(self.app.insert(app).clone())
    }

    /// Binds the configured address of the console, the API, health and metrics. [`BackgroundTasks::begin`] serves them; crawlers
    /// cannot connect yet.
    ///
    /// # Errors
    /// When the address, the token or the certificate is not available: an operator who relies on the console must not miss
    /// it.
    pub fn open_admin(&mut self) -> Result<(), Failure> {
        let settings = self.proxy.settings();
        let Some(address) = settings.admin.address else {
            return Ok(());
        };
        let app = self.app()?;
        let certificate = settings.admin.tls().map(|tls| Certificate::load(&tls));
        let certificate = certificate.transpose()?;
        let (listener, address) = self.bind(address, ListenerKind::Console)?;
        let scheme = certificate.as_ref().map_or("http", |_| "https");
        info!("console: {scheme}://{address}/");
        tell_of_access(&settings.admin);
        let connections = settings.admin.connections;
        let serving = listener.serve(router(app), connections, certificate.clone());
        self.servers.push(Box::pin(serving));
        self.certificate = certificate;
        Ok(())
    }

    /// Reads the certificate of the console again, for sessions from now on.
    ///
    /// # Errors
    /// When a file cannot be used. The old certificate stays in force.
    pub fn renew_certificate(&self) -> Result<(), CertificateError> {
        self.certificate.as_ref().map_or(Ok(()), Certificate::renew)
    }

    /// Binds the configured address of the page for everyone. [`BackgroundTasks::begin`] serves it.
    ///
    /// # Errors
    /// When the address is not available.
    pub fn open_public(&mut self) -> Result<(), Failure> {
        let Some(address) = self.proxy.settings().admin.public_try else {
            return Ok(());
        };
        let (listener, address) = self.bind(address, ListenerKind::PublicPage)?;
        let page = PublicTry::new(Arc::clone(&self.proxy), self.tries.clone())?;
        info!("public page: http://{address}/try");
        let serving = listener.serve(page.router(), PUBLIC_CONNECTIONS, None);
        self.servers.push(Box::pin(serving));
        Ok(())
    }

    /// Binds an address before the first crawler connects, so that no crawler reaches it through the proxy.
    fn bind(
        &self,
        address: SocketAddr,
        kind: ListenerKind,
    ) -> Result<(Listener, SocketAddr), Failure> {
        let listener = Listener::bind(address, kind)?;
        let address = listener.address();
        self.proxy.egress().listens_on(&[address]);
        Ok((listener, address))
    }

    /// Answers requests at `path`, unless another process does.
    ///
    /// # Errors
    /// When the token of the admin side is not available.
    pub async fn listen(&mut self, path: &Path) -> Result<(), Failure> {
        let app = self.app()?;
        match Socket::bind(path).await {
            Ok(socket) => {
                info!(socket = %path.display(), "other commands reach this process here");
                // A decision is recorded behind the start of the process.
                self.servers.push(Box::pin(socket.serve(app)));
            }
            Err(error) => {
                warn!("other commands cannot reach this process: {error}");
            }
        }
        Ok(())
    }

    /// Lets commands that read the store have the records of this run written before. A run that cannot listen
    /// continues: such a command misses its records of the last 100 ms.
    pub async fn listen_as_run(&mut self) {
        let settings = self.proxy.settings();
        let (Some(store), Some(_)) = (&settings.store.path, &settings.admin.socket) else {
            return;
        };
        match Socket::bind_run(store).await {
            Ok(socket) => {
                let serving = socket.serve_run(Arc::clone(&self.proxy));
                self.tasks.spawn(serving);
            }
            Err(error) => debug!("commands that read the store cannot reach this run: {error}"),
        }
    }

    /// Ends the tasks, signs the log, and ships the rest of the log. Called after the last record is written, so the
    /// checkpoint covers every record.
    pub async fn end(mut self) {
        if let (Some(fleet), Some(override_sync)) = (&self.fleet, &self.override_sync) {
            override_sync.give_back().await;
            // Another heartbeat would make this instance a member again.
            self.link.shutdown().await;
            fleet.leave().await;
        }
        self.tasks.shutdown().await;
        let Some(log) = self.log else {
            return;
        };
        let signed = log.store.checkpoint(log.key, self.clock.now());
        match timeout(LAST_CHECKPOINT_TIMEOUT, signed).await {
            Ok(Ok(_)) => log.witnesses.offer_last().await,
            // The next process begins with a checkpoint.
            Ok(Err(error)) => warn!("the last records are not signed yet: {error}"),
            Err(_) => warn!("the last records are not signed yet: the store takes too long"),
        }
        if let Some(shipper) = log.shipper {
            shipper.last().await;
        }
    }
}

/// Warns of credentials that others can read on their way to the console: beyond loopback the configuration demands some.
fn tell_of_access(admin: &AdminConfig) {
    if admin.cert.is_none() && !admin.is_on_loopback() {
        warn!(
            "passwords and tokens for the console cross the network in the clear: name a certificate with [admin] cert and key, \
             or listen on 127.0.0.1 and reach it by ssh -L"
        );
    }
}
