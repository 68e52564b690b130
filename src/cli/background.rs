//! The background tasks of a serving proxy: they open the store, take over changed overrides, sign the log, drop old
//! decisions, and answer the admin socket and HTTP.
//!
//! No request waits for these tasks. They report a failure and try again.

mod service;

use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::{debug, info, warn};

use self::service::{ProxyService, RunService};
use super::join::first_answer;
use super::override_sync::OverrideSync;
use crate::admin::Socket;
use crate::admin::http::{
    AppState, Certificate, CertificateError, Listener, ListenerKind, PUBLIC_CONNECTIONS, PublicTry,
    Token, TryCounts, router,
};
use crate::proxy::Proxy;
use crate::ship::Shipper;
use crate::witness::Witnesses;
use crawlgate_config::{AdminConfig, Config};
use crawlgate_store::{self as store, Access, LogKey, Store};
use crawlgate_system::clock::{self, Clock, Moment};
use crawlgate_turns::fleet::{Fleet, HeartbeatListener};

/// Time for the last checkpoint: the end of a process waits for it.
const LAST_CHECKPOINT_TIMEOUT: Duration = Duration::from_secs(5);

/// Opens the configured store, if there is one.
pub(super) fn open_store(config: &Config) -> Result<Option<Arc<Store>>, String> {
    if config.store.path.is_none() {
        return Ok(None);
    }
    let store = store::open(config, Access::Write).map_err(|error| error.to_string())?;
    Ok(Some(store))
}

/// The background tasks of a proxy. They end with this value.
pub(super) struct BackgroundTasks {
    tasks: JoinSet<()>,
    overrides_changed: Arc<Notify>,
    override_sync: Option<Arc<OverrideSync>>,
    log: Option<LogParts>,
    fleet: Option<Arc<Fleet>>,
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
    pub(super) async fn start(proxy: &Arc<Proxy>) -> Result<BackgroundTasks, String> {
        let clock = Clock::system();
        let mut background = BackgroundTasks {
            tasks: JoinSet::new(),
            overrides_changed: Arc::default(),
            override_sync: None,
            log: None,
            fleet: None,
            servers: Vec::new(),
            certificate: None,
            tries: TryCounts::default(),
            link: JoinSet::new(),
            started: clock.now(),
            clock,
        };
        background
            .tasks
            .spawn(clock::watch(background.clock.clone()));
        if let Some(store) = proxy.log().store() {
            background.attach_store(proxy, store).await?;
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
    async fn attach_store(&mut self, proxy: &Arc<Proxy>, store: &Arc<Store>) -> Result<(), String> {
        let settings = proxy.settings();
        let key = store::log_key(&settings).map_err(|error| error.to_string())?;
        let witnesses = Witnesses::of(&settings, store, &key, self.clock.clone()).await;
        let witnesses = Arc::new(witnesses.map_err(|error| error.to_string())?);
        let shipper = Shipper::of(&settings, store, &key, self.clock.clone()).await;
        let shipper = shipper.map_err(|error| error.to_string())?;
        self.log = Some(LogParts {
            store: Arc::clone(store),
            key: Arc::clone(&key),
            witnesses: Arc::clone(&witnesses),
            shipper,
        });
        for task in witnesses.tasks() {
            self.tasks.spawn(task);
        }
        let override_sync = OverrideSync::start(proxy, store).await;
        let override_sync =
            override_sync.map_err(|error| format!("the overrides cannot be read: {error}"))?;
        let changed = Arc::clone(&self.overrides_changed);
        self.tasks
            .spawn(Arc::clone(&override_sync).follow_store(changed));
        self.override_sync = Some(override_sync);
        Ok(())
    }

    /// Records the start of the process, begins the store's maintenance with a checkpoint of it, and starts the HTTP servers,
    /// which decide about URLs for other programs, too. Called before the first request.
    pub(super) fn begin(&mut self, proxy: &Arc<Proxy>) {
        proxy.log().begin(&proxy.settings());
        for server in std::mem::take(&mut self.servers) {
            self.tasks.spawn(server);
        }
        let Some(kept) = &self.log else {
            return;
        };
        let (store, key) = (Arc::clone(&kept.store), Arc::clone(&kept.key));
        let witnesses = Arc::clone(&kept.witnesses);
        if let Some(shipper) = &kept.shipper {
            self.tasks.spawn(Arc::clone(shipper).run());
        }
        let settings = {
            let proxy = Arc::clone(proxy);
            move || proxy.settings().audit.clone()
        };
        let (proxy, clock) = (Arc::clone(proxy), self.clock.clone());
        self.tasks.spawn(async move {
            // A failure is told by the log, and goes on here as soon as it is over.
            let _ = proxy.log().flush().await;
            witnesses.asked().await;
            store::maintain(store, key, settings, clock).await;
        });
    }

    /// Returns the service that answers for the process.
    fn service(&self, proxy: &Arc<Proxy>) -> Arc<ProxyService> {
        Arc::new(ProxyService {
            proxy: Arc::clone(proxy),
            overrides_changed: Arc::clone(&self.overrides_changed),
            override_sync: self.override_sync.clone(),
            witnesses: self.log.as_ref().map(|log| Arc::clone(&log.witnesses)),
            shipper: self.log.as_ref().and_then(|log| log.shipper.clone()),
            tries: self.tries.clone(),
            started: self.started,
        })
    }

    /// Binds the configured address of the console, the API, health and metrics. [`BackgroundTasks::begin`] serves them; crawlers
    /// cannot connect yet.
    ///
    /// # Errors
    /// When the address, the token or the certificate is not available: an operator who relies on the console must not miss
    /// it.
    pub(super) fn open_admin(&mut self, proxy: &Arc<Proxy>) -> Result<(), String> {
        let settings = proxy.settings();
        let Some(address) = settings.admin.address else {
            return Ok(());
        };
        let token = settings.admin.token_file.as_deref();
        let token = token.map(Token::load_or_create).transpose();
        let token = token.map_err(|error| error.to_string())?;
        let certificate = settings.admin.tls.as_ref().map(Certificate::load);
        let certificate = certificate.transpose().map_err(|error| error.to_string())?;
        let listener = Listener::bind(address, ListenerKind::Console);
        let listener = listener.map_err(|error| error.to_string())?;
        let address = listener.address();
        // Before the first crawler connects, so that no crawler reaches the console through the proxy.
        proxy.egress().listens_on(&[address]);
        let scheme = certificate.as_ref().map_or("http", |_| "https");
        info!("console: {scheme}://{address}/");
        tell_of_access(&settings.admin);
        let app = AppState::new(Arc::clone(proxy), self.service(proxy), token);
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
    pub(super) fn renew_certificate(&self) -> Result<(), CertificateError> {
        self.certificate.as_ref().map_or(Ok(()), Certificate::renew)
    }

    /// Binds the configured address of the page for everyone. [`BackgroundTasks::begin`] serves it.
    ///
    /// # Errors
    /// When the address is not available.
    pub(super) fn open_public(&mut self, proxy: &Arc<Proxy>) -> Result<(), String> {
        let settings = proxy.settings();
        let Some(address) = settings.admin.public_try else {
            return Ok(());
        };
        let listener = Listener::bind(address, ListenerKind::PublicPage);
        let listener = listener.map_err(|error| error.to_string())?;
        let address = listener.address();
        // Before the first crawler connects, so that no crawler reaches it through the proxy.
        proxy.egress().listens_on(&[address]);
        let page = PublicTry::new(Arc::clone(proxy), self.tries.clone());
        let page = page.map_err(|error| error.to_string())?;
        info!("public page: http://{address}/try");
        let serving = listener.serve(page.router(), PUBLIC_CONNECTIONS, None);
        self.servers.push(Box::pin(serving));
        Ok(())
    }

    /// Answers requests at `path`, unless another process does.
    pub(super) async fn listen(&mut self, proxy: &Arc<Proxy>, path: &Path) {
        match Socket::bind(path).await {
            Ok(socket) => {
                info!(socket = %path.display(), "other commands reach this process here");
                self.tasks.spawn(socket.serve(self.service(proxy)));
            }
            Err(error) => {
                warn!("other commands cannot reach this process: {error}");
            }
        }
    }

    /// Lets commands that read the store have the records of this run written before. A run that cannot listen goes on: such a
    /// command misses its records of the last 100 ms.
    pub(super) async fn listen_as_run(&mut self, proxy: &Arc<Proxy>) {
        let settings = proxy.settings();
        let (Some(store), Some(_)) = (&settings.store.path, &settings.admin.socket) else {
            return;
        };
        match Socket::bind_run(store).await {
            Ok(socket) => {
                let service = RunService(Arc::clone(proxy));
                self.tasks.spawn(socket.serve(Arc::new(service)));
            }
            Err(error) => debug!("commands that read the store cannot reach this run: {error}"),
        }
    }

    /// Ends the tasks, signs the log, and ships the rest of the log. Called after the last record is written, so the
    /// checkpoint covers every record.
    pub(super) async fn end(mut self) {
        if let (Some(fleet), Some(override_sync)) = (&self.fleet, &self.override_sync) {
            override_sync.give_back().await;
            // Another heartbeat would make this instance a member again.
            self.link.shutdown().await;
            fleet.leave().await;
        }
        self.tasks.shutdown().await;
        let Some(LogParts {
            store,
            key,
            witnesses,
            shipper,
        }) = self.log
        else {
            return;
        };
        let signed = timeout(
            LAST_CHECKPOINT_TIMEOUT,
            store.checkpoint(key, self.clock.now()),
        )
        .await;
        match signed {
            Ok(Ok(_)) => witnesses.offer_last().await,
            // The next process begins with a checkpoint.
            Ok(Err(error)) => warn!("the last records are not signed yet: {error}"),
            Err(_) => warn!("the last records are not signed yet: the store takes too long"),
        }
        if let Some(shipper) = shipper {
            shipper.last().await;
        }
    }
}

/// Warns of credentials that others can read on their way to the console: beyond loopback the configuration demands some.
fn tell_of_access(admin: &AdminConfig) {
    if admin.tls.is_none() && !admin.is_on_loopback() {
        warn!(
            "passwords and tokens for the console cross the network in the clear: name a certificate with [admin] cert and key, \
             or listen on 127.0.0.1 and reach it by ssh -L"
        );
    }
}
