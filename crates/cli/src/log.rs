//! `crawlgate log`: lists decisions, page by page, and people's notes on them.

mod ack;
pub(super) mod filter;
mod list;
mod printer;
mod summary;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand, ValueEnum};

use self::filter::FilterArgs;
use super::collected::{CollectedArgs, LogSelection};
use super::{Failure, fail, terminal, words};
use crawlgate_config::Config;
use crawlgate_store::logs::{Fault, Listed, Logs, Lookup, unknown};
use crawlgate_store::{GroupBy, StoredDecision};
use crawlgate_tlog::KeyName;

/// Arguments of `crawlgate log`.
#[derive(Args, Clone, Debug)]
#[command(after_help = AFTER_HELP)]
pub struct LogArgs {
    #[command(flatten)]
    pub(super) collected: CollectedArgs,
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    list: ListArgs,
}

impl LogArgs {
    /// Fails if several logs are chosen for an acknowledgement.
    pub(super) fn require_logs(&self, chosen: &LogSelection) -> Result<(), Failure> {
        match self.command {
            Some(Command::Ack(_)) => chosen.require_one("`crawlgate log ack`"),
            _ => Ok(()),
        }
    }
}

/// The decisions to list, and the form.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
struct ListArgs {
    #[command(flatten)]
    filter: FilterArgs,
    /// At most this many: the latest, or of a summary the most frequent
    #[arg(long, short = 'n', value_name = "COUNT", default_value_t = DEFAULT_LIMIT)]
    limit: usize,
    /// List all decisions, page by page, oldest first
    #[arg(long, conflicts_with = "limit")]
    all: bool,
    /// Continue with new decisions as they come
    #[arg(long, short, conflicts_with_all = ["all", "summary", "until"])]
    follow: bool,
    /// List what else happened, instead of decisions: starts and stops, settings, overrides, acknowledgements, losses
    #[arg(long, conflicts_with = "summary")]
    events: bool,
    /// Count by this key instead of listing, with first and last time
    #[arg(long, value_name = "KEY", num_args = 0..=1, default_missing_value = "reason")]
    summary: Option<Key>,
    /// The format of the output
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    format: Format,
    /// Short for --format jsonl
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// The file of --format sqlite
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl ListArgs {
    fn format(&self) -> Format {
        if self.json { Format::Jsonl } else { self.format }
    }

    /// Fails for options that only decisions have.
    fn check(&self) -> Result<(), Failure> {
        if self.events && self.filter.asks_for_decisions() {
            bail!("--events: of the conditions, only --since and --until are for events");
        }
        if self.events && self.format() == Format::Csv {
            bail!("--events: the columns of csv are those of decisions; use --format jsonl");
        }
        Ok(())
    }
}

impl Default for ListArgs {
    fn default() -> Self {
        Self {
            filter: FilterArgs::default(),
            limit: DEFAULT_LIMIT,
            all: false,
            follow: false,
            events: false,
            summary: None,
            format: Format::Table,
            json: false,
            output: None,
        }
    }
}

/// Decisions to list by default.
const DEFAULT_LIMIT: usize = 50;

const AFTER_HELP: &str = "\
Times are UTC: 2026-11-20, 2026-11-20T12:00, or how long ago: 2h, 7d.

Formats: table fits the terminal; jsonl gives each stored record octet for octet; csv is for \
spreadsheets: a cell that looks like a formula gets a ' in front, and control characters are spelt out; sqlite \
writes all decisions that meet the conditions into a table of a new file, for sqlite3, DuckDB or pandas.

Of several logs (--log), the decisions come by their times in one list, with the name of the log in a column or in the \
member `log`. One that cannot be read is named, and the others are listed.

Examples:
  crawlgate log --follow
  crawlgate log --since 24h --verdict deny --origin https://example.com
  crawlgate log --since 7d --summary origin
  crawlgate log --since 7d --events
  crawlgate log --all --format jsonl > decisions.jsonl
  crawlgate log --since 7d --format sqlite -o week.db
  crawlgate log --log '*' --since 24h --verdict deny
  crawlgate log ack 01KB7W3Y5E000000000VY7H1Q2 --note \"site owner informed\"
  crawlgate log ack --rule 'Disallow: /x' --since 7d --note \"known\"";

#[derive(Subcommand, Clone, Debug)]
enum Command {
    /// Show all facts of a decision
    Show {
        /// The decision's id, as answers and records have it
        #[arg(required = true)]
        id: Vec<String>,
        /// Print the stored record
        #[arg(long)]
        json: bool,
    },
    /// Acknowledge decisions: those with these ids, or all that meet the conditions
    Ack(Box<AckArgs>),
}

/// Arguments of `crawlgate log ack`.
#[derive(Args, Clone, Debug)]
#[command(override_usage = ACK_USAGE, after_help = ACK_AFTER_HELP)]
struct AckArgs {
    /// The decisions' ids
    id: Vec<String>,
    #[command(flatten)]
    filter: FilterArgs,
    /// A note on these decisions
    #[arg(long, value_name = "TEXT")]
    note: String,
    /// The person who acknowledges; needed where neither $USER nor $LOGNAME is set [default: $USER, else $LOGNAME]
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
    /// Replace earlier acknowledgements, too
    #[arg(long)]
    replace: bool,
    /// Acknowledge all decisions that meet the conditions, without a question
    #[arg(long)]
    yes: bool,
}

const ACK_USAGE: &str = "\
crawlgate log ack --note <TEXT> [--by <NAME>] [OPTIONS] <ID>...
       crawlgate log ack --note <TEXT> [--by <NAME>] [OPTIONS] <CONDITIONS>";

const ACK_AFTER_HELP: &str = "\
Conditions are the options from --since to --unacknowledged. With them, the command first counts the decisions that meet them and are not acknowledged yet, and asks. Decisions that \
come after its start are not acknowledged. It works in batches: what is done stays done if it is interrupted, and the same \
command goes on with the rest.

An acknowledgement never overwrites another one unseen: if a second person has acknowledged a decision meanwhile, theirs \
stays, the command says so, and exits 2.

Examples:
  crawlgate log ack 01KB7W3Y5E000000000VY7H1Q2 --note \"site owner informed\"
  crawlgate log ack --rule 'Disallow: /x' --since 7d --note \"known\"
  crawlgate log ack --verdict deny --origin https://example.com --note \"closed\" --yes";

/// The key of a summary.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    /// Origin
    Origin,
    /// Reason code
    Reason,
    /// Origin and rule
    Rule,
}

impl Key {
    fn of_store(self) -> GroupBy {
        match self {
            Key::Origin => GroupBy::Origin,
            Key::Reason => GroupBy::Reason,
            Key::Rule => GroupBy::Rule,
        }
    }
}

/// The format of a list.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    /// For people
    Table,
    /// Stored records, one per line
    Jsonl,
    /// For spreadsheets
    Csv,
    /// A table in a new file
    Sqlite,
}

/// Runs `crawlgate log`; exits 0, or 2 on failure.
#[must_use]
pub fn run(args: &LogArgs, config: &Config, chosen: &LogSelection) -> ExitCode {
    match execute(args, config, chosen) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error),
    }
}

fn execute(args: &LogArgs, config: &Config, chosen: &LogSelection) -> Result<(), Failure> {
    // clap cannot refuse this: it would refuse --config before a command, too.
    if args.command.is_some() && args.list != ListArgs::default() {
        bail!("the options of the list stand without a command");
    }
    args.list.check()?;
    if args.list.format == Format::Sqlite || args.list.output.is_some() {
        return list::export(&args.list, config, chosen);
    }
    let runtime = super::small_runtime()?;
    runtime.block_on(async {
        match &args.command {
            None => list::list(&args.list, &chosen.logs(config)?, chosen.is_several()).await,
            Some(Command::Show { id, json }) => {
                show(&chosen.logs(config)?, chosen.is_several(), id, *json).await
            }
            Some(Command::Ack(args)) => ack::ack(args, config).await,
        }
    })
}

async fn show(logs: &Logs, is_several: bool, ids: &[String], json: bool) -> Result<(), Failure> {
    for (index, id) in ids.iter().enumerate() {
        let listed = found(logs, id).await?;
        let text = match (json, is_several) {
            (true, false) => listed.entry.record + "\n",
            (true, true) => listed.line() + "\n",
            (false, _) => {
                let gap = if index > 0 { "\n" } else { "" };
                let log = is_several.then_some(&listed.log);
                format!("{gap}{}", shown(&listed.entry, log)?)
            }
        };
        if !terminal::print(text.as_bytes())? {
            return Ok(());
        }
    }
    Ok(())
}

fn shown(decision: &StoredDecision, log: Option<&KeyName>) -> Result<String, Failure> {
    let told = decision.told().map_err(|error| format!("record {}: {error}", decision.seq))?;
    Ok(super::audit::evidence::text(&told, decision, log))
}

/// Returns the decision of this identifier from the log that has it.
pub(super) async fn found(logs: &Logs, id: &str) -> Result<Listed, Failure> {
    let Lookup { mut found, faults } = logs.find(id).await;
    let mut messages: Vec<String> = match logs.only() {
        Some(_) => faults.iter().map(|fault| fault.error.to_string()).collect(),
        None => faults.iter().map(Fault::to_string).collect(),
    };
    match (found.pop(), found.is_empty()) {
        (Some(listed), true) => {
            for fault in messages {
                terminal::eprint(&fault);
            }
            Ok(listed)
        }
        (Some(listed), false) => {
            found.push(listed);
            let logs: Vec<&str> = found.iter().map(|one| one.log.as_str()).collect();
            Err(Failure::from(format!(
                "{id}: more than one log has a decision with an identifier that begins so: {}; write more of it",
                logs.join(", ")
            )))
        }
        // The fault of the only log says all.
        (None, _) if logs.only().is_some() && !messages.is_empty() => {
            Err(messages.swap_remove(0).into())
        }
        (None, _) => {
            messages.push(unknown(id));
            Err(messages.join("\ncrawlgate: ").into())
        }
    }
}

/// Returns the person who acts: by default the user who is logged in. `missing` asks for one.
pub(super) fn person(by: Option<&str>, missing: &str) -> Result<String, Failure> {
    let name = |variable| std::env::var(variable).ok().filter(|name| !name.is_empty());
    let by = by
        .map(str::to_owned)
        .or_else(|| name("USER"))
        .or_else(|| name("LOGNAME"))
        .ok_or_else(|| missing.to_owned())?;
    words("--by", &by)
}
