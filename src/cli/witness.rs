//! `crawlgate witness`: a witness for the logs of other machines.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, Subcommand};
use tokio::net::TcpListener;
use tracing::info;

use super::signals::{EndSignals, HANG_UP, OTHERS, ignore};
use super::{fail, small_runtime, terminal};
use crate::audit::verify::named_keys::named_keys;
use crate::telemetry::Telemetry;
use crate::witness::OwnWitness;
use crawlgate_config::Config;
use crawlgate_system::clock::Clock;
use crawlgate_tlog::{KeyKind, KeyName, VerifierKey};

const HELP: &str = "\
It keeps the size and root of each log that it has cosigned in the state file, and cosigns a newer checkpoint only with a \
proof that the log continues it. Key and state belong together: without one, the other is refused. Plain HTTP: put a front \
with TLS before it, or a network that is private.

Example:
  crawlgate witness key --key w1.key --name witness.example/w1
  crawlgate witness --listen 127.0.0.1:8121 --key w1.key --log crawlgate.vkey";

/// Arguments of `crawlgate witness`.
#[derive(Args, Clone, Debug)]
#[command(subcommand_negates_reqs = true, after_help = HELP)]
pub struct WitnessArgs {
    #[command(subcommand)]
    command: Option<WitnessCommand>,
    #[command(flatten)]
    files: Files,
    /// The address to listen at, such as 127.0.0.1:8121
    #[arg(long, value_name = "ADDRESS", required = true)]
    listen: Option<SocketAddr>,
    /// A log to cosign: the output of `crawlgate audit key`, or a file with it; repeat it for more logs, and for a second
    /// key of one
    #[arg(long, value_name = "VKEY|FILE", required = true)]
    log: Vec<String>,
}

#[derive(Subcommand, Clone, Debug)]
enum WitnessCommand {
    /// Print the public key of the witness, for [[audit.witness]] vkey; make the key if there is none
    Key(Files),
}

/// The files of a witness.
#[derive(Args, Clone, Debug)]
struct Files {
    /// The key of the witness; it is made if it is missing
    #[arg(long, value_name = "FILE", required = true)]
    key: Option<PathBuf>,
    /// The state of the witness [default: beside the key, with .state behind its name]
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    /// The name of the witness, for a new key: witness.example/w1; a key keeps its name [default: one made of its key]
    #[arg(long, value_name = "NAME")]
    name: Option<KeyName>,
}

/// Runs `crawlgate witness`; exits 0 after SIGTERM or SIGINT, or 2.
#[must_use]
pub fn run(args: &WitnessArgs, config: &Config) -> ExitCode {
    let outcome = match &args.command {
        Some(WitnessCommand::Key(files)) => {
            vkey(files).and_then(|vkey| terminal::print(format!("{vkey}\n").as_bytes()).map(drop))
        }
        None => serve(args, config),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error),
    }
}

/// Returns the public key of a witness, which may be running.
fn vkey(files: &Files) -> Result<VerifierKey, String> {
    let key = files.key.as_ref().ok_or("--key is missing")?;
    let (state, name) = (files.state.as_deref(), files.name.clone());
    let vkey = OwnWitness::vkey_of(key, state, name, Clock::system());
    vkey.map_err(|error| error.to_string())
}

fn open(files: &Files, logs: &[String]) -> Result<OwnWitness, String> {
    let key = files.key.as_ref().ok_or("--key is missing")?;
    let logs = named_keys("--log", logs, KeyKind::Ed25519, None);
    let logs = logs.map_err(|error| error.to_string())?;
    let (state, name) = (files.state.as_deref(), files.name.clone());
    let witness = OwnWitness::open(key, state, name, &logs, Clock::system());
    witness.map_err(|error| error.to_string())
}

fn serve(args: &WitnessArgs, config: &Config) -> Result<(), String> {
    let runtime = small_runtime()?;
    let telemetry = Telemetry::start(config, &config.log.level, runtime.handle());
    let telemetry = telemetry.map_err(|error| error.to_string())?;
    let outcome = runtime.block_on(async {
        let failed = |error| format!("signals cannot be received: {error}");
        let mut signals = EndSignals::listen().map_err(failed)?;
        ignore(OTHERS.into_iter().chain([HANG_UP])).map_err(failed)?;
        let witness = Arc::new(open(&args.files, &args.log)?);
        let address = args.listen.ok_or("--listen is missing")?;
        let listener = TcpListener::bind(address).await;
        let listener = listener.map_err(|error| format!("--listen {address}: {error}"))?;
        let address = listener.local_addr().map_err(|error| error.to_string())?;
        info!(vkey = %witness.vkey(), "the witness cosigns by this key");
        info!("listening on {address}");
        witness.serve(listener, signals.next()).await;
        Ok(())
    });
    telemetry.end();
    outcome
}
