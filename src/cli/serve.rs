//! `crawlgate serve`: listen, reload on SIGHUP, drain on SIGTERM or SIGINT, end at once on a second one.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::timeout;
use tracing::{error, info, warn};

use super::beside::{Beside, open_store};
use super::{FAILED, LevelHandle, fail, tell_on_stderr};
use crate::audit::{Log, LogError};
use crate::ca::Authority;
use crate::clock::Clock;
use crate::config::{Config, Listen, Mode, PolicyConfig};
use crate::egress::Egress;
use crate::proxy::Proxy;
use crate::store::Store;

/// Connections that wait to be accepted, per listener.
const BACKLOG: u32 = 1024;

/// How long exchanges that are cut off may take to be recorded.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Arguments of `crawlgate serve`: all settings are in the configuration.
#[derive(Args, Clone, Debug)]
pub struct ServeArgs {}

/// Listens until a signal ends it.
#[must_use]
pub fn run(_: &ServeArgs, config: Config, explicit: Option<&Path>) -> ExitCode {
    let level = match tell_on_stderr(&config.log.level) {
        Ok(level) => level,
        Err(error) => return fail(&error),
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => return fail(&format!("the runtime cannot be started: {error}")),
    };
    let outcome = runtime.block_on(serve(config, explicit, &level));
    // Look-ups that hang in the system's resolver must not keep the process.
    runtime.shutdown_timeout(Duration::from_millis(100));
    match outcome {
        Ok(Ended::Drained) => ExitCode::SUCCESS,
        Ok(Ended::Forced) => ExitCode::from(1),
        // Said when it happened.
        Ok(Ended::Unrecorded) => ExitCode::from(FAILED),
        Err(error) => fail(&error),
    }
}

enum Ended {
    Drained,
    Forced,
    /// Decisions are left that could not be recorded.
    Unrecorded,
}

async fn serve(
    config: Config,
    explicit: Option<&Path>,
    level: &LevelHandle,
) -> Result<Ended, String> {
    // Before anything else: a signal that comes early must find someone listening.
    let mut signals =
        Signals::new().map_err(|error| format!("signals cannot be received: {error}"))?;
    raise_descriptor_limit();
    info!(configuration = %config.source, "crawlgate {}", env!("CARGO_PKG_VERSION"));
    let proxy = build(config, Log::open)?;
    let kept = proxy.settings();
    info!(file = %kept.tls.ca_cert.display(), "the local CA");
    tell_where_decisions_go(&kept);
    tell_mode(&kept.policy);
    let mut beside = Beside::start(&proxy).await?;
    if let Some(path) = &kept.admin.socket {
        beside.listen(&proxy, path).await;
    }
    // Last: whoever connects finds everything in place.
    let listeners = listeners(&kept)?;
    let addresses = proxy
        .serve(listeners)
        .map_err(|error| format!("listening failed: {error}"))?;
    for address in &addresses {
        info!("listening on {address}");
    }
    notify(&[sd_notify::NotifyState::Ready]);
    loop {
        tokio::select! {
            _ = signals.hang_up.recv() => reload(&proxy, explicit, level),
            _ = signals.terminate.recv() => break,
            _ = signals.interrupt.recv() => break,
        }
    }
    notify(&[sd_notify::NotifyState::Stopping]);
    let ended = drain(&proxy, &mut signals).await;
    beside.end().await;
    Ok(ended)
}

fn tell_where_decisions_go(config: &Config) {
    if let Some(store) = &config.store.path {
        info!(store = %store.display(), "decisions and what is known of origins are kept");
    }
    if let Some(file) = &config.log.file {
        info!(file = %file.display(), "decisions are written");
    }
    if config.log.stdout {
        info!("decisions go to standard output");
    }
    if config.store.path.is_none() {
        if config.log.file.is_none() && !config.log.stdout {
            warn!("decisions are not kept: [store] path and [log] file are empty");
        }
        warn!("what is known of origins ends with this process: [store] path is empty");
    }
}

/// Nobody should take a gate that denies nothing for one that does.
pub(super) fn tell_mode(policy: &PolicyConfig) {
    if policy.mode == Mode::Report {
        warn!("report mode: everything is decided and recorded, NOTHING IS DENIED ([policy] mode)");
    } else if !policy.report_origins.is_empty() || !policy.report_clients.is_empty() {
        warn!(
            origins = ?policy.report_origins,
            clients = ?policy.report_clients,
            "report mode for some: nothing is denied there ([policy] report_origins, report_clients)"
        );
    }
}

/// Puts a proxy together from its configuration: authority, way out, store, log.
pub(super) fn build(
    config: Config,
    open: impl FnOnce(&Config, Option<Arc<dyn Store>>, &Clock) -> Result<Log, LogError>,
) -> Result<Arc<Proxy>, String> {
    let clock = Clock::system();
    let authority =
        Authority::load_or_create(&config.tls, clock.clone()).map_err(|e| e.to_string())?;
    let egress = Egress::new(&config, clock.clone()).map_err(|error| error.to_string())?;
    let store = open_store(&config)?;
    let log = open(&config, store, &clock).map_err(|error| error.to_string())?;
    Proxy::new(config, egress, authority, log, clock).map_err(|error| error.to_string())
}

/// The sockets that systemd passed, or else the configured addresses.
fn listeners(config: &Config) -> Result<Vec<TcpListener>, String> {
    let mut passed = listenfd::ListenFd::from_env();
    if passed.len() == 0 {
        return config.listen.addresses.iter().map(bind).collect();
    }
    let mut listeners = Vec::new();
    for index in 0..passed.len() {
        let listener = passed
            .take_tcp_listener(index)
            .map_err(|error| format!("socket {index} passed by the service manager: {error}"))?
            .ok_or_else(|| format!("socket {index} passed by the service manager is gone"))?;
        let address = listener.local_addr().map_err(|error| error.to_string())?;
        if !config.listen.may_listen_on(&address) {
            return Err(format!(
                "[listen] {address}, passed by the service manager: {}",
                Listen::EXPOSED
            ));
        }
        listeners.push(listener);
    }
    Ok(listeners)
}

/// Each exchange takes two descriptors, and the usual soft limit of 1,024 is there for programs that use select(2).
fn raise_descriptor_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        warn!(%error, "the limit on open descriptors cannot be raised");
    }
}

fn bind(address: &SocketAddr) -> Result<TcpListener, String> {
    let told = |error: io::Error| {
        let hint = match error.kind() {
            io::ErrorKind::AddrInUse => {
                ": is crawlgate running already? Set [listen] address to another port"
            }
            io::ErrorKind::AddrNotAvailable => {
                ": [listen] address must be an address of this machine"
            }
            io::ErrorKind::PermissionDenied => ": set [listen] address to a port above 1023",
            _ => "",
        };
        format!("cannot listen on {address}: {error}{hint}")
    };
    let socket = match address {
        SocketAddr::V4(_) => tokio::net::TcpSocket::new_v4(),
        SocketAddr::V6(_) => tokio::net::TcpSocket::new_v6(),
    };
    let socket = socket.map_err(told)?;
    socket.set_reuseaddr(true).map_err(told)?;
    socket.bind(*address).map_err(told)?;
    let listener = socket.listen(BACKLOG).map_err(told)?;
    listener.into_std().map_err(told)
}

fn reload(proxy: &Proxy, explicit: Option<&Path>, level: &LevelHandle) {
    // With the moment, as Type=notify-reload wants it.
    let moment = sd_notify::NotifyState::monotonic_usec_now();
    match moment {
        Ok(moment) => notify(&[sd_notify::NotifyState::Reloading, moment]),
        Err(_) => notify(&[sd_notify::NotifyState::Reloading]),
    }
    match Config::load(explicit) {
        Ok(config) => {
            let (config, plan) = proxy.settings().reloaded(&config);
            if let Err(error) = level.set(&config.log.level) {
                warn!("[log] level stays as it was: {error}");
            }
            tell_mode(&config.policy);
            proxy.reconfigure(config);
            info!(applied = ?plan.applied, "the configuration was read again");
            if !plan.needs_restart.is_empty() {
                warn!(keys = ?plan.needs_restart, "these changes need a restart");
            }
        }
        Err(error) => error!("the configuration stays as it was:\n{error}"),
    }
    notify(&[sd_notify::NotifyState::Ready]);
}

async fn drain(proxy: &Proxy, signals: &mut Signals) -> Ended {
    let grace = proxy.settings().limits.drain;
    info!(
        ?grace,
        "no new connections; waiting for exchanges to end, a second signal ends them"
    );
    let ended = tokio::select! {
        drained = timeout(grace, proxy.drain()) => match drained {
            Ok(()) => Ended::Drained,
            Err(_) => {
                warn!("what is still under way is cut off at the end of [limits] drain");
                Ended::Drained
            }
        },
        () = signals.second() => {
            warn!("what is still under way is cut off by a second signal");
            Ended::Forced
        }
    };
    if timeout(LAST_WORDS, proxy.cut_off()).await.is_err() {
        warn!("some exchanges did not end");
    }
    if let Err(error) = proxy.log().close() {
        error!("{error}");
        return Ended::Unrecorded;
    }
    ended
}

fn notify(states: &[sd_notify::NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        warn!(%error, "the service manager cannot be told");
    }
}

struct Signals {
    hang_up: Signal,
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> io::Result<Signals> {
        Ok(Signals {
            hang_up: signal(SignalKind::hangup())?,
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn second(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
