//! `crawlgate log`: what was decided, page by page, and what people have said of it.

mod filter;
mod list;
mod sheet;
mod summary;

use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, Subcommand, ValueEnum};

use self::filter::FilterArgs;
use super::{fail, screen};
use crate::audit::replay::Evidence;
use crate::clock::Clock;
use crate::config::Config;
use crate::store::{self, Access, Acknowledgement, Store, StoredDecision, TallyKey};

/// Arguments of `crawlgate log`.
#[derive(Args, Clone, Debug)]
#[command(after_help = AFTER_HELP)]
pub struct LogArgs {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    list: ListArgs,
}

/// What to list, and how.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
struct ListArgs {
    #[command(flatten)]
    filter: FilterArgs,
    /// The latest so many; of a summary, the most frequent so many
    #[arg(long, short = 'n', value_name = "COUNT", default_value_t = MOST)]
    limit: usize,
    /// All there are, page by page, oldest first
    #[arg(long, conflicts_with = "limit")]
    all: bool,
    /// Go on with new ones as they come
    #[arg(long, short, conflicts_with_all = ["all", "summary", "until"])]
    follow: bool,
    /// Count by this instead of listing, with first and last
    #[arg(long, value_name = "KEY", num_args = 0..=1, default_missing_value = "reason")]
    summary: Option<Key>,
    /// How to write it
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    format: Format,
    /// The same as --format jsonl
    #[arg(long, conflicts_with = "format")]
    json: bool,
}

impl ListArgs {
    fn format(&self) -> Format {
        match self.json {
            true => Format::Jsonl,
            false => self.format,
        }
    }
}

impl Default for ListArgs {
    fn default() -> Self {
        Self {
            filter: FilterArgs::default(),
            limit: MOST,
            all: false,
            follow: false,
            summary: None,
            format: Format::Table,
            json: false,
        }
    }
}

/// Decisions listed where nothing is said.
const MOST: usize = 50;

const AFTER_HELP: &str = "\
Times are UTC: 2026-11-20, 2026-11-20T12:00, or how long ago: 2h, 7d.

Formats: table fits the terminal; jsonl gives each record octet for octet as it is kept; csv is for \
spreadsheets: a cell that one could take for a formula gets a ' in front, and controls are spelt out.

Examples:
  crawlgate log --follow
  crawlgate log --since 24h --verdict deny --origin https://example.com
  crawlgate log --since 7d --summary origin
  crawlgate log --all --format jsonl > decisions.jsonl
  crawlgate log ack 01KB7W3Y5E000000000VY7H1Q2 --note \"site owner informed\"";

#[derive(Subcommand, Clone, Debug)]
enum Command {
    /// All that is known of a decision
    Show {
        /// The decision's id, as answers and records have it
        #[arg(required = true)]
        id: Vec<String>,
        /// The record as it is kept
        #[arg(long)]
        json: bool,
    },
    /// Note that somebody has seen a decision
    Ack {
        /// The decisions' ids
        #[arg(required = true)]
        id: Vec<String>,
        /// What there is to say of them
        #[arg(long, value_name = "TEXT")]
        note: String,
        /// Who says so [default: $USER]
        #[arg(long, value_name = "NAME")]
        by: Option<String>,
        /// Put this in the place of what somebody noted before
        #[arg(long)]
        replace: bool,
    },
}

/// What a summary counts by.
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
    fn of_store(self) -> TallyKey {
        match self {
            Key::Origin => TallyKey::Origin,
            Key::Reason => TallyKey::Reason,
            Key::Rule => TallyKey::Rule,
        }
    }
}

/// How lists are written.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    /// For people
    Table,
    /// Records as they are kept, one per line
    Jsonl,
    /// For spreadsheets
    Csv,
}

/// Runs `crawlgate log`; exits 0, or 2 when it cannot.
#[must_use]
pub fn run(args: &LogArgs, config: &Config) -> ExitCode {
    match told(args, config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error),
    }
}

fn told(args: &LogArgs, config: &Config) -> Result<(), String> {
    // Not clap's to refuse: it would refuse --config before a command, too.
    if args.command.is_some() && args.list != ListArgs::default() {
        return Err("the options of the list stand without a command".to_owned());
    }
    let open = |access| store::open(config, access).map_err(|error| error.to_string());
    let mut store = open(Access::Read)?;
    if let Some(Command::Ack { .. }) = args.command {
        // Only now: a store that is not there is not to be made by a note on it.
        store = open(Access::Write)?;
    }
    let runtime = super::small_runtime()?;
    runtime.block_on(async {
        match &args.command {
            None => list::list(&args.list, &store).await,
            Some(Command::Show { id, json }) => show(&store, id, *json).await,
            Some(Command::Ack {
                id,
                note,
                by,
                replace,
            }) => {
                let note = Acknowledgement {
                    time: Clock::system().now(),
                    by: person(by.as_deref())?,
                    note: note.clone(),
                };
                acknowledge(&store, id, &note, *replace).await
            }
        }
    })
}

async fn show(store: &Arc<dyn Store>, ids: &[String], json: bool) -> Result<(), String> {
    for (index, id) in ids.iter().enumerate() {
        let decision = find(store, id).await?;
        let text = if json {
            decision.record + "\n"
        } else {
            let gap = if index > 0 { "\n" } else { "" };
            format!("{gap}{}", shown(&decision)?)
        };
        if !screen::say(text.as_bytes())? {
            return Ok(());
        }
    }
    Ok(())
}

fn shown(decision: &StoredDecision) -> Result<String, String> {
    let evidence = Evidence::read(&decision.record)
        .map_err(|error| format!("record {}: {error}", decision.seq))?;
    Ok(super::audit::evidence::told(&evidence, decision))
}

async fn find(store: &Arc<dyn Store>, id: &str) -> Result<StoredDecision, String> {
    let found = store.decision(&id.to_ascii_uppercase()).await;
    found
        .map_err(|error| error.to_string())?
        .ok_or_else(|| unknown(id))
}

/// What to say of a decision that is not there.
pub(super) fn unknown(id: &str) -> String {
    format!(
        "{id}: no such decision in the store; it was never kept ([log] decisions says which are), or is older than \
         [audit] keep"
    )
}

/// Who acknowledges, where the command line does not say: whoever is logged in.
fn person(by: Option<&str>) -> Result<String, String> {
    let name = |variable| std::env::var(variable).ok().filter(|name| !name.is_empty());
    by.map(str::to_owned)
        .or_else(|| name("USER"))
        .or_else(|| name("LOGNAME"))
        .ok_or_else(|| "say who has seen it: --by NAME".to_owned())
}

/// Notes `note` on each, and tells of each what came of it: one that fails keeps none of the others from being noted.
async fn acknowledge(
    store: &Arc<dyn Store>,
    ids: &[String],
    note: &Acknowledgement,
    replace: bool,
) -> Result<(), String> {
    let mut refused = Vec::new();
    for id in ids {
        match acknowledge_one(store, id, note, replace).await {
            Ok(()) => {
                let said = format!("{id}: acknowledged by {}: {}", note.by, note.note);
                screen::say(format!("{}\n", screen::printable(&said)).as_bytes())?;
            }
            Err(error) => refused.push(error),
        }
    }
    match refused.is_empty() {
        true => Ok(()),
        false => Err(refused.join("\ncrawlgate: ")),
    }
}

async fn acknowledge_one(
    store: &Arc<dyn Store>,
    id: &str,
    note: &Acknowledgement,
    replace: bool,
) -> Result<(), String> {
    if let (Some(seen), false) = (find(store, id).await?.acknowledged, replace) {
        let at = crate::audit::time_text(seen.time);
        let said = format!(
            "{id}: acknowledged already, by {} at {at}: {}; --replace puts the new note in the place of that one",
            seen.by, seen.note
        );
        return Err(screen::printable(&said).into_owned());
    }
    let done = store.acknowledge(&id.to_ascii_uppercase(), note.clone());
    match done.await.map_err(|error| error.to_string())? {
        true => Ok(()),
        // Retention has dropped it meanwhile.
        false => Err(unknown(id)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Moment;
    use crate::store::Batch;
    use crate::store::memory::Memory;

    #[tokio::test]
    async fn a_note_stands_until_it_is_replaced_on_purpose() {
        const ID: &str = "01KB7W3Y5E000000000VY7H1Q2";
        let store: Arc<dyn Store> = Arc::new(Memory::new());
        let lines = format!("{}\n", sheet::tests::decision("enforce", "null").record);
        let batch = Batch {
            lines: lines.into_bytes(),
            ..Batch::default()
        };
        store.write(batch).await.unwrap();
        let note = |by: &str| Acknowledgement {
            time: Moment::from_millis(1_795_176_000_123),
            by: by.to_owned(),
            note: "known".to_owned(),
        };
        let by = async || {
            let kept = store.decision(ID).await.unwrap().unwrap();
            kept.acknowledged.map(|seen| seen.by)
        };
        let ids = ["01KB7W3Y5E000000000VY7H1Q3", ID].map(str::to_owned);
        let refused = acknowledge(&store, &ids, &note("Ada"), false).await;
        let refused = refused.expect_err("one is not there");
        assert!(
            refused.starts_with(&format!("{}: no such", ids[0])),
            "{refused}"
        );
        assert!(!refused.contains(ID), "{refused}");
        assert_eq!(by().await.as_deref(), Some("Ada"), "the other one is");

        let refused = acknowledge(&store, &ids[1..], &note("Grace"), false).await;
        let refused = refused.expect_err("it is acknowledged");
        assert!(
            refused.contains("by Ada at 2026-11-20T12:00:00.123Z: known; --replace"),
            "{refused}"
        );
        assert_eq!(by().await.as_deref(), Some("Ada"));
        let replaced = acknowledge(&store, &ids[1..], &note("Grace"), true).await;
        assert_eq!(replaced, Ok(()));
        assert_eq!(by().await.as_deref(), Some("Grace"));
    }
}
