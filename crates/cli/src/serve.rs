//! `crawlgate serve`: listen, reload on SIGHUP, drain on SIGTERM, SIGINT or SIGQUIT, end at once on a second one.

use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use rustix::process::Signal;
use sd_notify::NotifyState;
use tokio::time::timeout;
use tracing::{error, info, warn};

use super::signals::{CaughtSignals, ignore_others};
use super::{FAILED, Failure};
use crate::service::announce::{
    tell_authority, tell_exemptions, tell_mode, tell_shut, tell_where_decisions_go,
};
use crate::service::listeners::listeners;
use crate::service::{BackgroundTasks, build, supervise};
use crawlgate_admin::version::{COMMIT, VERSION};
use crawlgate_ca::Authority;
use crawlgate_config::{
    Config, ConfigError, DEFAULT_ADDRESS, DEFAULT_ADMIN_ADDRESS, TlsConfig, Variables,
};
use crawlgate_evidence::Log;
use crawlgate_proxy::Proxy;
use crawlgate_proxy::telemetry::{LevelHandle, Telemetry};
use crawlgate_system::clock::Clock;
use crawlgate_system::descriptors::{Budget, limit, raise_limit};

/// Time to record exchanges that are cut off.
const LAST_RECORDS_TIMEOUT: Duration = Duration::from_secs(1);

/// Arguments of `crawlgate serve`: other settings are in the configuration.
#[derive(Args, Clone, Debug, Default)]
pub struct ServeArgs {
    /// Listen here, in place of [listen] address of the configuration, also after a reload; may be repeated
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    listen: Vec<SocketAddr>,
}

/// Reads an address to listen on.
fn address(text: &str) -> Result<SocketAddr, String> {
    let example = DEFAULT_ADDRESS;
    let error = |_| format!("write an IP address and a port, such as {example}");
    text.parse().map_err(error)
}

impl ServeArgs {
    /// Reads the configuration in force, with the options in it.
    pub(super) fn load(&self, explicit: Option<&Path>) -> Result<Config, ConfigError> {
        let mut variables = Variables::from_env();
        if !self.listen.is_empty() {
            let addresses: Vec<String> =
                self.listen.iter().map(|address| format!("\"{address}\"")).collect();
            let addresses = format!("[{}]", addresses.join(", "));
            variables = variables.with_option("--listen", "listen", "address", &addresses);
        }
        Config::load_with(explicit, &variables)
    }
}

/// Returns the line on `crawlgate serve` in the list of commands.
pub(super) fn about() -> String {
    format!("Listen for crawlers (the default): on {DEFAULT_ADDRESS}, unless configured otherwise")
}

/// Returns the beginning of `crawlgate serve --help`.
pub(super) fn long_about() -> String {
    format!(
        "Listen for crawlers (the default): on {DEFAULT_ADDRESS}, unless [listen] address or --listen names another \
         address

Crawlers reach it with http_proxy and https_proxy set to http://{DEFAULT_ADDRESS}. People and programs use it over HTTP: the \
         console, the API (/api/v1), /live, /ready and /metrics are at `admin.address`, by default \
         `http://{DEFAULT_ADMIN_ADDRESS}/`."
    )
}

/// Listens until a signal ends it.
pub(super) fn run(
    args: &ServeArgs,
    config: Config,
    explicit: Option<&Path>,
) -> Result<ExitCode, Failure> {
    let level = config.log.level.clone();
    let ended = supervise(config, &level, async |config, telemetry| {
        serve(args, config, explicit, telemetry).await
    });
    Ok(ExitCode::from(ended? as u8))
}

/// The end of a service, as its exit code.
#[derive(Clone, Copy)]
enum Ended {
    Drained = 0,
    Forced = 1,
    /// Some decisions could not be recorded. The failure was reported when it happened.
    Unrecorded = FAILED as isize,
}

async fn serve(
    args: &ServeArgs,
    config: Config,
    explicit: Option<&Path>,
    telemetry: &Telemetry,
) -> Result<Ended, Failure> {
    // Before anything else: an early signal must be caught.
    let signals = Signals::listen();
    let mut signals = signals.map_err(|error| format!("signals cannot be received: {error}"))?;
    if let Err(error) = raise_limit() {
        warn!(%error, "the limit on open descriptors cannot be raised");
    }
    let config = within_descriptors(config);
    info!(configuration = %config.source, commit = COMMIT, "crawlgate {VERSION}");
    let proxy = build(config, None, Log::open)?;
    if let Some(tracer) = telemetry.tracer() {
        proxy.trace_with(tracer);
    }
    let kept = proxy.settings();
    tell_authority(&proxy.authority(), &kept.tls);
    tell_where_decisions_go(&kept);
    tell_mode(&kept);
    tell_exemptions(&kept);
    let mut tasks = BackgroundTasks::start(&proxy).await?;
    if let Some(path) = &kept.admin.socket {
        tasks.listen(path).await?;
    }
    // Bound before the start is recorded, as a process without a port never serves; connections wait meanwhile.
    let listeners = listeners(&kept).await?;
    tasks.open_admin()?;
    tasks.open_public()?;
    tasks.begin();
    // Last: a new connection finds everything in place.
    let places = proxy.serve_on(listeners)?;
    for place in &places {
        info!("listening on {place}");
    }
    notify(&[NotifyState::Ready]);
    loop {
        tokio::select! {
            _ = signals.hang_up.next() => reload(&proxy, &tasks, args, explicit, &telemetry.level),
            _ = signals.end.next() => break,
        }
    }
    notify(&[NotifyState::Stopping]);
    let ended = drain(&proxy, &mut signals).await;
    tasks.end().await;
    Ok(ended)
}

/// Takes over the changes of `ca rotate`.
fn reload_authority(proxy: &Proxy, config: &TlsConfig) {
    match Authority::load(config, Clock::system()) {
        Ok(authority) => {
            if proxy.adopt_authority(authority) {
                tell_authority(&proxy.authority(), config);
            }
        }
        Err(error) => error!("the local CA stays as it was: {error}"),
    }
}

/// Limits connections to the available descriptors: each exchange takes two.
fn within_descriptors(mut config: Config) -> Config {
    let wanted = config.limits.connections;
    let Budget { connections, idle } = Budget::now(wanted);
    if connections < wanted {
        warn!(
            limit = limit(),
            wanted,
            connections,
            idle,
            "the limit on open descriptors is too low for [limits] connections, each of which may take two: fewer are \
             taken, and fewer unused connections to origins kept; raise it (LimitNOFILE=, ulimit -Hn), or lower \
             connections"
        );
        config.limits.connections = connections;
    }
    config
}

fn reload(
    proxy: &Proxy,
    tasks: &BackgroundTasks,
    args: &ServeArgs,
    explicit: Option<&Path>,
    level: &LevelHandle,
) {
    // With the time, which Type=notify-reload requires.
    let mut states = vec![NotifyState::Reloading];
    states.extend(NotifyState::monotonic_usec_now());
    notify(&states);
    match args.load(explicit) {
        Ok(read) => {
            let read = within_descriptors(read);
            let (config, plan) = proxy.settings().reloaded(&read);
            if let Err(error) = level.set(&config.log.level) {
                warn!("[log] level stays as it was: {error}");
            }
            reload_authority(proxy, &config.tls);
            proxy.reconfigure(config);
            // The messages tell of settings that are in force.
            let config = proxy.settings();
            tell_mode(&config);
            tell_exemptions(&config);
            tell_shut(&config.admin);
            for error in proxy.renew_certificates() {
                error!("{error}; the certificate stays as it was");
            }
            if let Err(error) = tasks.renew_certificate() {
                error!("{error}; the certificate stays as it was");
            }
            info!(applied = ?plan.applied, "the configuration was read again");
            if !plan.needs_restart.is_empty() {
                warn!(keys = ?plan.needs_restart, "these changes need a restart");
                for fault in super::config::faults(&read).lines() {
                    error!("a restart would meet this fault: {fault}");
                }
            }
        }
        Err(error) => error!("the configuration stays as it was:\n{error}"),
    }
    notify(&[NotifyState::Ready]);
}

async fn drain(proxy: &Proxy, signals: &mut Signals) -> Ended {
    let grace = proxy.settings().limits.drain;
    info!(?grace, "no new connections; waiting for exchanges to end, a second signal ends them");
    let ended = tokio::select! {
        drained = timeout(grace, proxy.drain()) => match drained {
            Ok(()) => Ended::Drained,
            Err(_) => {
                warn!("what is still under way is cut off at the end of [limits] drain");
                Ended::Drained
            }
        },
        _ = signals.end.next() => {
            warn!("what is still under way is cut off by a second signal");
            Ended::Forced
        }
    };
    if timeout(LAST_RECORDS_TIMEOUT, proxy.cut_off()).await.is_err() {
        warn!("some exchanges did not end");
    }
    if let Err(error) = proxy.log().close() {
        error!("{error}");
        return Ended::Unrecorded;
    }
    ended
}

fn notify(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        warn!(%error, "the service manager cannot be told");
    }
}

/// The signals that a service obeys.
struct Signals {
    /// Reads the configuration again.
    hang_up: CaughtSignals,
    /// Ends the service.
    end: CaughtSignals,
}

impl Signals {
    fn listen() -> std::io::Result<Signals> {
        ignore_others()?;
        Ok(Signals {
            hang_up: CaughtSignals::listen(&[Signal::HUP])?,
            end: CaughtSignals::listen(&[Signal::TERM, Signal::INT, Signal::QUIT])?,
        })
    }
}
