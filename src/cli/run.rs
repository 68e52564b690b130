//! `crawlgate run COMMAND…`: one command, held to robots.txt.
//!
//! A proxy of its own is started on a free loopback port, and the command with every variable set that makes common
//! clients use it and trust its authority. What the command needs is four steps:
//!
//! 1. [`PrivateFiles::create`] writes what clients read from files (the authority, a bundle, a truststore, …)
//! 2. [`child_environment`] names the variables that point to the proxy and to those files
//! 3. [`fill_placeholders`] serves programs that read no variables
//! 4. [`supervise`] runs the command, passes signals on, and tells how it ended

mod child;
mod environment;

pub use self::{
    child::{Ended, SpawnError, supervise},
    environment::{Files, PrivateFiles, child_environment, fill_placeholders},
};

use std::ffi::OsString;
use std::io::{self, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;

use super::beside::Beside;
use super::{FAILED, Reach, fail, serve};
use crate::audit::Log;
use crate::clock::Clock;
use crate::config::{ClientConfig, Conditions, Config, Mode};
use crate::telemetry::{Telemetry, Tracer};

/// How long exchanges may go on once the command has ended.
const GRACE: Duration = Duration::from_secs(2);

/// Arguments of `crawlgate run`.
#[derive(Args, Clone, Debug)]
pub struct RunArgs {
    /// No summary at the end
    #[arg(long, short)]
    quiet: bool,
    #[command(flatten)]
    reach: Reach,
    /// Deny nothing: record and sum up what would have been denied
    #[arg(long)]
    report: bool,
    /// Crawl as this [[client]] of the configuration, whatever it is recognised by: its product tokens, mode, profile,
    /// pace and quota. Without, as nobody of them
    #[arg(long, value_name = "NAME")]
    client: Option<String>,
    /// The command and its arguments; `{proxy}`, `{ca}` and `{spki}` in them are replaced
    #[arg(
        required = true,
        trailing_var_arg = true,
        value_name = "COMMAND",
        long_help = COMMAND_HELP
    )]
    command: Vec<OsString>,
}

const COMMAND_HELP: &str = "\
The command and its arguments; `{proxy}`, `{ca}` and `{spki}` in them are replaced

The variables that make common clients use the proxy and trust its CA are set for it. Programs that read none \
take placeholders: {proxy} is the proxy's URL, {ca} the file of the CA's certificate, {spki} the hash of its \
key. For example:

  crawlgate run -- chromium --headless --user-data-dir=/tmp/crawl
    --proxy-server={proxy}
    --ignore-certificate-errors-spki-list={spki} --dump-dom URL

Denials are kept in the store, which a proxy that stays may share, and in the decision log if there is one; \
beside another process that holds that, in one of their own. Where is said at the end.";

/// Runs the command; the exit code is its own.
#[must_use]
pub fn run(args: &RunArgs, mut config: Config) -> ExitCode {
    args.reach.add_to(&mut config);
    // The command's output is not ours to clutter: what goes wrong is said, what goes on is not.
    let level = match config.log.level.as_str() {
        "info" => "warn",
        level => level,
    };
    let level = level.to_owned();
    let listener = match TcpListener::bind((Ipv4Addr::LOCALHOST, 0)) {
        Ok(listener) => listener,
        Err(error) => return fail(&format!("no free port on the loopback interface: {error}")),
    };
    if let Err(error) = crawl_as(args.client.as_deref(), &mut config.clients) {
        return fail(&error);
    }
    if args.report {
        config.policy.mode = Mode::Report;
        for client in &mut config.clients {
            client.mode = None;
        }
    } else {
        serve::tell_mode(&config);
    }
    // Standard output is the command's.
    config.log.stdout = false;
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => return fail(&format!("the runtime cannot be started: {error}")),
    };
    let telemetry = match Telemetry::start(&config, &level, runtime.handle()) {
        Ok(telemetry) => telemetry,
        Err(error) => return fail(&error),
    };
    let outcome = runtime.block_on(supervised(args, config, listener, telemetry.tracer()));
    telemetry.end();
    runtime.shutdown_timeout(Duration::from_millis(100));
    match outcome {
        Ok(code) => ExitCode::from(code),
        Err(error) => fail(&error),
    }
}

async fn supervised(
    args: &RunArgs,
    config: Config,
    listener: TcpListener,
    tracer: Option<Tracer>,
) -> Result<u8, String> {
    let tls = config.tls.clone();
    let mut log_file = None;
    let proxy = serve::build(config, |config, store, clock| {
        let mut config = config.clone();
        let first = Log::open(&config, store.clone(), clock);
        let opened = match (first, &mut config.log.file) {
            // Another run, or a proxy that stays, writes it: this one keeps its own beside it.
            (Err(error), Some(file)) if error.is_taken() => {
                let name = format!("run-{}.jsonl", std::process::id());
                *file = file.with_extension(name);
                Log::open(&config, store, clock)
            }
            (opened, _) => opened,
        };
        log_file = config.log.file;
        opened
    })?;
    if let Some(tracer) = tracer {
        proxy.trace_with(tracer);
    }
    serve::warn_of_authority(&proxy.authority(), &tls);
    let beside = Beside::start(&proxy).await?;
    let files = PrivateFiles::create(&proxy.authority(), &tls, Clock::system().now())
        .map_err(|error| format!("the files for the command cannot be written: {error}"))?;
    let addresses = proxy
        .serve(vec![listener])
        .map_err(|error| format!("listening failed: {error}"))?;
    let address = addresses.first().ok_or("nothing listens")?;
    let url = format!("http://{address}");
    let mut command = args.command.clone();
    let spki = proxy.authority().spki_sha256_base64();
    fill_placeholders(&mut command, &url, &files.files().ca, &spki);
    let (program, arguments) = command.split_first().ok_or("no command")?;
    let environment = child_environment(&url, files.files(), |name| std::env::var(name).ok());
    let ended = supervise(program, arguments, &environment).await;
    // Exchanges that the command left behind are of no use to anybody.
    if tokio::time::timeout(GRACE, proxy.drain()).await.is_err() {
        let _ = tokio::time::timeout(GRACE, proxy.cut_off()).await;
    }
    if let Err(error) = proxy.log().close() {
        let _ = writeln!(io::stderr(), "crawlgate: {error}");
    }
    beside.end().await;
    if let Err(error) = files.remove() {
        let _ = writeln!(io::stderr(), "crawlgate: {error}");
    }
    match ended {
        Ok(ended) => {
            if !args.quiet {
                let _ = writeln!(io::stderr(), "{}", proxy.summary());
                if proxy.summary().has_denials() {
                    tell_where_denials_stand(log_file.as_deref(), &proxy.settings());
                }
            }
            Ok(ended.exit_code())
        }
        Err(error) => {
            let _ = writeln!(io::stderr(), "crawlgate: {error}");
            Ok(match error.exit_code() {
                0 => FAILED,
                code => code,
            })
        }
    }
}

/// Leaves the one client that the command crawls as: nobody else reaches its proxy, so nothing needs to be shown.
fn crawl_as(name: Option<&str>, clients: &mut Vec<ClientConfig>) -> Result<(), String> {
    let Some(name) = name else {
        clients.clear();
        return Ok(());
    };
    let names: Vec<_> = clients
        .iter()
        .map(|client| Arc::clone(&client.name))
        .collect();
    clients.retain(|client| *client.name == *name);
    let [client] = clients.as_mut_slice() else {
        let all = names
            .iter()
            .map(|name| &**name)
            .collect::<Vec<_>>()
            .join(", ");
        return Err(format!(
            "--client {name}: no [[client]] has this name; there are: {all}"
        ));
    };
    client.conditions = Conditions::default();
    Ok(())
}

fn tell_where_denials_stand(log_file: Option<&Path>, config: &Config) {
    let mut stderr = io::stderr();
    // Nobody is left to tell.
    if let Some(file) = log_file {
        let _ = writeln!(stderr, "the denials stand in {}", file.display());
    }
    if let Some(store) = &config.store.path {
        let _ = writeln!(
            stderr,
            "the denials stand in {}: `crawlgate log` lists them",
            store.display()
        );
    }
}
