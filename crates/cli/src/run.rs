//! `crawlgate run COMMAND…`: runs one command, held to robots.txt.
//!
//! crawlgate starts a separate proxy on a free loopback port, and the command with all variables that make common
//! clients use the proxy and trust its authority. There are four steps:
//!
//! 1. `ClientFiles::create` writes the files that clients read (the authority, a bundle, a truststore, …)
//! 2. `child_environment` names the variables that point to the proxy and to those files
//! 3. `fill_placeholders` serves programs that read no variables
//! 4. `start` starts the command, and `Running::end` passes signals on and reports how the command ended
//!
//! Variables are a request, which a program may ignore. With `--confine` the kernel lets the command connect only to
//! the proxy (`confine`, `namespace`).

mod args;
mod child;
mod confine;
mod environment;
mod inherited;
mod namespace;
mod summary;

pub use self::{
    args::RunArgs,
    child::{CommandEnd, Reachable, Running, SpawnError, start},
    environment::Variables,
    namespace::ConfinedArgs,
};

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use self::args::Confine;
use self::environment::{ClientFiles, child_environment, fill_placeholders};
use self::namespace::Handover;
pub(super) use self::namespace::run as run_confined;
use self::summary::{Exemption, FORMAT, OfRun, OlderRobots, Output};
use super::Failure;
use super::terminal::{say, tell};
use crate::service::announce::{tell_mode, warn_of_authority};
use crate::service::{self, BackgroundTasks};
use crawlgate_config::Config;
use crawlgate_evidence::{Log, Summary};
use crawlgate_proxy::Proxy;
use crawlgate_proxy::telemetry::Telemetry;
use crawlgate_system::clock::Clock;

/// Time for exchanges to end after the command.
const GRACE: Duration = Duration::from_secs(2);

/// Exit code of a run without any request, with `--require-traffic`, if the command itself reported success.
const NO_TRAFFIC: u8 = 3;

/// Exit code of a run with a denied request, with `--fail-on-denied`, if the command itself reported success.
const DENIED: u8 = 4;

/// Runs the command; the exit code is the command's.
pub(super) fn run(args: &RunArgs, mut config: Config) -> Result<ExitCode, Failure> {
    let exemption = args.put_in(&mut config)?;
    // Refused before the command starts.
    let output = Output::of(args.summary.as_deref())?;
    // Keep out of the command's output: report errors only.
    let level = match config.log.level.as_str() {
        "info" => "warn".to_owned(),
        level => level.to_owned(),
    };
    let code = service::supervise(config, &level, async |config, telemetry| {
        if !args.report {
            tell_mode(&config);
        }
        supervised(args, config, telemetry, exemption, output).await
    });
    code.map(ExitCode::from)
}

async fn supervised(
    args: &RunArgs,
    config: Config,
    telemetry: &Telemetry,
    exemption: Option<Exemption>,
    output: Option<Output>,
) -> Result<u8, Failure> {
    let tls = config.tls.clone();
    let mut log_file = None;
    let proxy = service::build(config, Some(std::process::id()), |config, store, clock| {
        let mut config = config.clone();
        let first = Log::open(&config, store.clone(), clock);
        let opened = match (first, &mut config.log.file) {
            // Another process holds this log: this run keeps its own beside it.
            (Err(error), Some(file)) if error.is_taken() => {
                let name = format!("run-{}.jsonl", std::process::id());
                *file = file.with_extension(name);
                Log::open(&config, store, clock)
            }
            (opened, _) => opened,
        };
        log_file = config.log.file;
        opened
    });
    let proxy = proxy?;
    if let Some(tracer) = telemetry.tracer() {
        proxy.trace_with(tracer);
    }
    let began = proxy.clock().now();
    if args.fresh {
        proxy.gate().robots_cache().doubt_before(began);
    }
    warn_of_authority(&proxy.authority(), &tls);
    let mut tasks = BackgroundTasks::start(&proxy).await?;
    tasks.listen_as_run().await;
    let endpoint = ProxyEndpoint::open(args.confine)?;
    let url = format!("http://{}", endpoint.address);
    let now = Clock::system().now();
    let files = ClientFiles::create(&proxy.authority(), &tls, &url, now)
        .map_err(|error| format!("the files for the command cannot be written: {error}"))?;
    tasks.begin();
    let ended = command(args, &proxy, &url, endpoint, &files).await;
    // After the command, exchanges that it left behind have no reader.
    if tokio::time::timeout(GRACE, proxy.drain()).await.is_err() {
        let _ = tokio::time::timeout(GRACE, proxy.cut_off()).await;
    }
    if let Err(error) = proxy.log().close() {
        tell(error);
    }
    tasks.end().await;
    if let Err(error) = files.remove() {
        tell(error);
    }
    let older = OlderRobots::of(&proxy, began);
    let code = match ended? {
        Ok(ended) => {
            if !args.quiet && !matches!(output, Some(Output::Stderr)) {
                tell_summary(&proxy, &older, exemption.as_ref(), log_file.as_deref());
            }
            if !proxy.summary().has_requests() {
                tell_of_no_traffic(args.confine, proxy.summary());
            }
            code_of_run(args, ended.exit_code(), proxy.summary())
        }
        Err(error) => {
            tell(&error);
            error.exit_code()
        }
    };
    let Some(output) = output else {
        return Ok(code);
    };
    let facts = proxy.summary().facts(proxy.settings().log.redact_query);
    let of_run = OfRun {
        format: FORMAT,
        exit_code: code,
        exemption_not_taken: exemption.as_ref(),
        older_robots: &older,
        refused_without_record: proxy.log().refused_without_record(),
        facts: &facts,
    };
    match (output.write(&of_run), code) {
        (Ok(()), code) => Ok(code),
        (Err(error), 0) => Err(error),
        // The command's own failure comes before this one.
        (Err(error), code) => {
            tell(error);
            Ok(code)
        }
    }
}

/// Writes the summary of a run for people: what was denied, by what robots.txt older than the run, the exemption that was not
/// taken, where the denials stand.
fn tell_summary(
    proxy: &Proxy,
    older: &OlderRobots,
    exemption: Option<&Exemption>,
    log_file: Option<&Path>,
) {
    say(format_args!("{}{older}", proxy.summary()));
    if let Some(exemption) = exemption {
        say(exemption);
    }
    let uncounted = proxy.log().refused_without_record();
    if uncounted > 0 {
        say(format_args!(
            "{uncounted} of the refused requests have no record of their own: they were put off too often in a minute, or exceeded \
             the rate or quota of the client, and were counted"
        ));
    }
    if proxy.summary().has_denials() {
        if let Some(file) = log_file {
            say(format_args!("the denials stand in {}", file.display()));
        }
        if let Some(store) = &proxy.settings().store.path {
            say(format_args!(
                "the denials stand in {}: `crawlgate log` lists them",
                store.display()
            ));
        }
    }
}

/// Returns the exit code of a run: the command's own failure, or what the options demand of a success.
fn code_of_run(args: &RunArgs, of_command: u8, summary: &Summary) -> u8 {
    match of_command {
        0 if args.require_traffic && !summary.has_requests() => NO_TRAFFIC,
        0 if args.fail_on_denied && !summary.totals().denied.is_empty() => DENIED,
        code => code,
    }
}

/// The command's way to the proxy.
struct ProxyEndpoint {
    address: SocketAddr,
    /// None while the command's own network does not exist yet.
    listener: Option<TcpListener>,
    /// The other destinations of the command.
    reachable: Reachable,
}

impl ProxyEndpoint {
    fn open(confine: Option<Confine>) -> Result<Self, Failure> {
        if confine == Some(Confine::Net) {
            return Ok(Self {
                address: namespace::INSIDE,
                listener: None,
                reachable: Reachable::Anywhere, // in its own network
            });
        }
        let bound = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .and_then(|listener| Ok((listener.local_addr()?, listener)));
        let (address, listener) =
            bound.map_err(|error| format!("no free port on the loopback interface: {error}"))?;
        Ok(Self {
            address,
            listener: Some(listener),
            reachable: match confine {
                None => Reachable::Anywhere,
                Some(_) => Reachable::Port(address.port()),
            },
        })
    }
}

/// Runs the command beside the proxy. The outer error is crawlgate's, the inner one says why the command did not start.
async fn command(
    args: &RunArgs,
    proxy: &Arc<Proxy>,
    url: &str,
    endpoint: ProxyEndpoint,
    files: &ClientFiles,
) -> Result<Result<CommandEnd, SpawnError>, Failure> {
    let mut words = args.command.clone();
    let spki = proxy.authority().spki_sha256_base64();
    fill_placeholders(&mut words, url, &files.files().certificates.authorities, &spki);
    let inherited = std::env::vars_os()
        .filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.to_string_lossy().into()))
        })
        .collect();
    let environment = child_environment(url, files.files(), &inherited);
    let serve = |listener| {
        let served = proxy.serve(vec![listener]);
        served.map_err(|error| format!("listening failed: {error}"))
    };
    let handover = match endpoint.listener {
        Some(listener) => {
            serve(listener)?;
            None
        }
        None => {
            let handover = Handover::listen()
                .map_err(|error| format!("no socket for --confine=net: {error}"))?;
            words = handover.wrap(words);
            Some(handover)
        }
    };
    let (program, arguments) = words.split_first().ok_or("no command")?;
    let mut running = match start(program, arguments, &environment, endpoint.reachable) {
        Ok(running) => running,
        Err(error) => return Ok(Err(error)),
    };
    if let Some(handover) = handover {
        tokio::select! {
            listener = handover.receive() => {
                serve(listener.map_err(|error| format!("--confine=net: {error}"))?)?;
            }
            // The process has reported the reason.
            ended = running.end() => return Ok(ended),
        }
    }
    Ok(running.end().await)
}

/// Reports that the command sent nothing through the proxy: it may have bypassed the proxy, and the summary by itself
/// would look fine.
fn tell_of_no_traffic(confine: Option<Confine>, summary: &Summary) {
    if let Some(distrust) = summary.distrust() {
        return tell(format_args!(
            "WARNING: NO REQUEST CAME THROUGH THE PROXY: the command ended its TLS sessions before a request \
             ({distrust}), so it does not trust the local CA; `crawlgate ca setup` tells how to have it do so, and {{ca}} in the \
             command stands for the file of its certificate"
        ));
    }
    let hint = match confine {
        None => {
            "a program that reads no proxy variables goes past it: `crawlgate run --confine=net` lets nothing past"
        }
        Some(_) => {
            "if it tried, it reads no proxy variables, and the kernel let it connect nowhere else"
        }
    };
    tell(format_args!(
        "WARNING: NO REQUEST CAME THROUGH THE PROXY, so robots.txt was applied to nothing that the command did; {hint}"
    ));
}
