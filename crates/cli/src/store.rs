//! `crawlgate store`: checks, backs up, measures and rebuilds the store, and releases what was to be shipped.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};

use super::collected::{CollectedArgs, StoreFileArgs};
use super::terminal::Unit;
use super::{Failure, small_runtime, terminal};
use crawlgate_config::{Config, format_bytes};
use crawlgate_store::collection::{COLLECT_ANEW, is_in_collection};
use crawlgate_store::log_key::log_key_file;
use crawlgate_store::public_keys::collected_keys_file;
use crawlgate_store::sqlite::repair;
use crawlgate_store::{self as store, Access};
use crawlgate_system::clock::Clock;

/// Exit code of `store check` for a store that is damaged.
const DAMAGED: u8 = 1;

/// Repairs and losses of a rebuild to print one by one.
const MAX_SHOWN: usize = 100;

/// Arguments of `crawlgate store`.
#[derive(Args, Clone, Debug)]
pub struct StoreArgs {
    #[command(flatten)]
    pub(super) collected: CollectedArgs,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Clone, Debug)]
enum Command {
    /// Check the store
    ///
    /// Checks its structure, its references, the latest records and all checkpoints of the log, and every robots.txt and
    /// all settings against their digests. Exits 0 if all is right, 1 if not. `crawlgate audit verify --all` proves
    /// every record.
    Check {
        #[command(flatten)]
        store: StoreFileArgs,
    },
    /// Save the readable part of a damaged store into a new one
    ///
    /// The new store replaces the damaged one, which is kept beside it. No other process may have the store open.
    Rebuild,
    /// Copy the store into a new file, while it is in use
    ///
    /// The copy is the store as it is when the copy begins. The key and the state file beside the store are not part of
    /// it.
    Backup {
        /// The new file
        file: PathBuf,
    },
    /// Show the size of the store
    Size,
    /// Let retention drop what is not shipped
    ///
    /// While the log is shipped ([ship] to), retention keeps what the place does not have, also after the key is gone from the
    /// configuration. This command ends that. A process that still ships the log begins anew with its next pass: first
    /// set [ship] to = "" there and restart it.
    Release,
}

impl StoreArgs {
    /// Tells whether the command reads the records of a store that may be in use.
    pub(super) fn reads_records(&self) -> bool {
        match &self.command {
            Command::Check { .. } | Command::Backup { .. } | Command::Size => true,
            Command::Rebuild | Command::Release => false,
        }
    }

    /// Returns the option that names the file of a store, if the command has it.
    pub(super) fn store_file(&self) -> Option<&StoreFileArgs> {
        match &self.command {
            Command::Check { store } => Some(store),
            _ => None,
        }
    }
}

/// Runs `crawlgate store`; exits 0, 1 for a damaged store, or 2 on failure.
pub(super) fn run(args: &StoreArgs, config: &Config) -> Result<ExitCode, Failure> {
    let (text, code) = match &args.command {
        Command::Check { .. } => check(config)?,
        Command::Rebuild => (rebuild(config)?, ExitCode::SUCCESS),
        Command::Backup { file } => (backup(config, file)?, ExitCode::SUCCESS),
        Command::Size => (size(config)?, ExitCode::SUCCESS),
        Command::Release => (release(config)?, ExitCode::SUCCESS),
    };
    terminal::print(&text)?;
    Ok(code)
}

fn check(config: &Config) -> Result<(String, ExitCode), Failure> {
    let path = store::named(config)?;
    let faults = repair::check(path)?;
    let mut text = String::new();
    let all = faults.damaged.iter().chain(&faults.altered);
    for fault in all.chain(&faults.beside) {
        let _ = writeln!(text, "{fault}");
    }
    let is_copy = is_in_collection(path);
    let path = path.display();
    if !faults.damaged.is_empty() {
        let way_out = if is_copy {
            COLLECT_ANEW
        } else {
            "`crawlgate store rebuild` saves what can be read into a new one; what is missing it cannot bring back"
        };
        let _ = writeln!(text, "{path}: damaged; {way_out}");
    }
    if !faults.beside.is_empty() && faults.damaged.is_empty() && faults.altered.is_empty() {
        let _ = writeln!(text, "{path}: the database itself is in order");
    }
    if !faults.altered.is_empty() {
        let _ = writeln!(
            text,
            "{path}: altered ({}): the original is unknown, so a rebuild leaves it as it is; `crawlgate audit verify \
             --all` reports which decisions can still be proven",
            faults.altered.len()
        );
    }
    let code = if faults.is_empty() {
        let _ = writeln!(text, "{path}: in order");
        ExitCode::SUCCESS
    } else {
        ExitCode::from(DAMAGED)
    };
    Ok((text, code))
}

fn rebuild(config: &Config) -> Result<String, Failure> {
    let path = store::named(config)?;
    let now = Clock::system().now();
    let rebuilt = repair::rebuild(path, now)?;
    let mut text = String::new();
    for saved in &rebuilt.tables {
        let lost = match saved.lost {
            Some(0) => String::new(),
            Some(lost) => format!(", {lost} lost"),
            None => ", some lost: the damage hides how many".to_owned(),
        };
        let _ = writeln!(text, "{}: {} saved{lost}", saved.table, saved.rows);
    }
    for what in rebuilt.report.iter().take(MAX_SHOWN) {
        let _ = writeln!(text, "{what}");
    }
    if let Some(more @ 1..) = rebuilt.report.len().checked_sub(MAX_SHOWN) {
        let _ = writeln!(text, "and {more} more");
    }
    let (path, aside) = (path.display(), rebuilt.aside.display());
    let _ = writeln!(text, "{path}: rebuilt; the damaged one is kept as {aside}");
    let _ = writeln!(text, "`crawlgate audit verify --all` tells what of it can be proven");
    Ok(text)
}

fn backup(config: &Config, file: &Path) -> Result<String, Failure> {
    let path = store::named(config)?;
    let bar = terminal::bar(Unit::Octets, 0);
    let done = store::sqlite::backup(path, file, |copied, all| {
        bar.set_length(all);
        bar.set_position(copied);
    });
    bar.finish_and_clear();
    done?;
    let collected = Some(collected_keys_file(path)).filter(|keys| keys.exists());
    let key = collected.unwrap_or_else(|| log_key_file(path));
    Ok(format!(
        "{}: a copy of {}; the key of its log is {}\n",
        file.display(),
        path.display(),
        key.display()
    ))
}

fn size(config: &Config) -> Result<String, Failure> {
    let store = store::open(config, Access::Read)?;
    let (size, shipped) = small_runtime()?
        .block_on(async { Ok::<_, Failure>((store.size().await?, store.shipped().await?)) })?;
    let limit = config
        .audit
        .max_size
        .map_or_else(|| "no limit".to_owned(), |limit| format!("at most {}", format_bytes(limit)));
    let mut text = format!(
        "decisions  {}\norigins    {}\nrobots.txt {}\noctets     {} ({limit})\n",
        size.decisions, size.origins, size.snapshots, size.bytes
    );
    if let Some(shipped) = shipped {
        let _ = writeln!(text, "shipped    up to record {shipped}");
    }
    Ok(text)
}

fn release(config: &Config) -> Result<String, Failure> {
    let store = store::open(config, Access::Write)?;
    let held = small_runtime()?.block_on(async {
        let held = store.shipped().await?;
        store.ship_to(None).await?;
        Ok::<_, Failure>(held)
    })?;
    Ok(match held {
        Some(shipped) => format!(
            "released: the log was shipped up to record {shipped}, and retention may drop later ones now\n"
        ),
        None => "nothing to release: the log is not shipped\n".to_owned(),
    })
}
