//! Writes the list, or a table of a new SQLite file: the latest, all, or new decisions, or other events; of one log, or of several by their times.

use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use super::filter::FilterArgs;
use super::printer::LogPrinter;
use super::{Format, ListArgs, summary};
use crate::Failure;
use crate::collected::LogSelection;
use crate::terminal::{self, Unit};
use crawlgate_config::Config;
use crawlgate_store::DecisionQuery;
use crawlgate_store::logs::{EntryKind, Fault, Log, Logs, MAX_OPEN, MergedList, Places};
use crawlgate_store::sqlite::sql;
use crawlgate_system::clock::Clock;

/// Decisions to read at once.
const PAGE: usize = 500;

/// Interval at which `--follow` looks for new decisions.
const EVERY: Duration = Duration::from_millis(250);

/// Writes the list that the arguments describe. `with_names` asks for the name of the log of each entry.
pub(super) async fn list(args: &ListArgs, logs: &Logs, with_names: bool) -> Result<(), Failure> {
    let query = args.filter.query(Clock::system().now())?;
    if args.follow && logs.len() > MAX_OPEN {
        bail!(
            "--follow reads at most {MAX_OPEN} logs, and these are {}; name fewer with --log",
            logs.len()
        );
    }
    let mut source = Source {
        logs,
        kind: if args.events { EntryKind::Events } else { EntryKind::Decisions },
        query,
        faults: Vec::new(),
    };
    if let Some(key) = args.summary {
        let limit = if args.all { usize::MAX } else { args.limit };
        let mut list = source.list(false);
        let tallies = list.count_by(key.of_store(), limit).await?;
        source.note(list.faults());
        let text = summary::text(&tallies, key, args.format())?;
        if tallies.is_empty() {
            tell_of_none(args);
        }
        terminal::print(&text)?;
        return source.end();
    }
    // Before the first read: `--follow` may repeat a decision made meanwhile, but misses none.
    let head = source.ends().await?;
    let mut printer = LogPrinter::new(
        args.format(),
        args.events,
        terminal::width(),
        std::io::stdout().is_terminal(),
    );
    if with_names {
        printer = printer.with_names(logs.iter().map(Log::name));
    }
    if !terminal::print(&printer.heading()?)? {
        return Ok(());
    }
    let goes_on = if args.all {
        let all = source.list(false);
        source.forward(all, &mut printer).await?
    } else {
        source.latest(args.limit, &head, &mut printer).await?
    };
    if args.follow && goes_on {
        source.follow(head, &mut printer).await?;
    } else if printer.is_empty() {
        tell_of_none(args);
    }
    source.end()
}

/// Reports an empty list on standard error, which keeps standard output to rows.
fn tell_of_none(args: &ListArgs) {
    let said = if args.events && args.filter != FilterArgs::default() {
        "no event that is kept is of this time"
    } else if args.filter != FilterArgs::default() {
        "no decision that is kept meets all of these conditions"
    } else if args.limit == 0 && !args.all {
        return; // an empty list is as requested
    } else if args.events {
        "no events are stored yet"
    } else {
        "no decisions are stored yet; [log] decisions selects them"
    };
    let _ = writeln!(std::io::stderr(), "crawlgate: {said}"); // stderr may be closed
}

/// The entries to list.
struct Source<'l> {
    logs: &'l Logs,
    kind: EntryKind,
    query: DecisionQuery,
    /// The logs that could not be read.
    faults: Vec<Fault>,
}

impl<'l> Source<'l> {
    fn list(&self, newest_first: bool) -> MergedList<'l> {
        let query = DecisionQuery { newest_first, ..self.query.clone() };
        MergedList::new(self.logs, self.kind, query)
    }

    /// Reports logs that cannot be read, each once.
    fn note(&mut self, faults: Vec<Fault>) {
        for fault in faults {
            if self.faults.iter().all(|known| known.log != fault.log) {
                terminal::eprint(&fault.to_string());
                self.faults.push(fault);
            }
        }
    }

    /// Fails if a log could not be read.
    fn end(&self) -> Result<(), Failure> {
        let names: Vec<&str> = self.faults.iter().map(|one| one.log.as_str()).collect();
        if names.is_empty() {
            Ok(())
        } else {
            Err(format!("the list lacks these logs: {}", names.join(", ")).into())
        }
    }

    /// Returns the number of the newest entry of each log.
    async fn ends(&mut self) -> Result<Places, Failure> {
        let (ends, mut faults) = self.logs.ends().await;
        if self.logs.only().is_some() {
            return match faults.pop() {
                Some(fault) => Err(fault.error.to_string().into()),
                None => Ok(ends),
            };
        }
        self.note(faults);
        Ok(ends)
    }

    /// Writes the latest `limit` decisions up to `head`, oldest first. Returns false when the reader has gone.
    async fn latest(
        &mut self,
        limit: usize,
        head: &Places,
        printer: &mut LogPrinter,
    ) -> Result<bool, Failure> {
        // Search backwards, write forwards: keep only the places, unless the entries are few.
        let mut list = self.list(true).up_to(head);
        let mut left = limit;
        let mut few = Vec::new();
        while left > 0 {
            let page = list.page(left.min(PAGE)).await?;
            if page.is_empty() {
                break;
            }
            left = left.saturating_sub(page.len());
            if limit <= PAGE {
                few.extend(page);
            }
        }
        self.note(list.faults());
        if limit <= PAGE {
            few.reverse();
            return terminal::print(&printer.rows(&few)?);
        }
        let again = self.list(false).after(&list.turned()).up_to(head);
        self.forward(again, printer).await
    }

    /// Writes a list to its end. Returns false when the reader has gone.
    async fn forward(
        &mut self,
        mut list: MergedList<'l>,
        printer: &mut LogPrinter,
    ) -> Result<bool, Failure> {
        loop {
            let page = list.page(PAGE).await?;
            if page.is_empty() {
                self.note(list.faults());
                return Ok(true);
            }
            if !terminal::print(&printer.rows(&page)?)? {
                return Ok(false);
            }
        }
    }

    /// Writes new decisions after `seen` until the reader has gone. New ones of several logs come by their times as far as
    /// they come together.
    async fn follow(&mut self, mut seen: Places, printer: &mut LogPrinter) -> Result<(), Failure> {
        loop {
            tokio::time::sleep(EVERY).await;
            // Without the filter, so that each non-matching decision is looked at only once.
            let head = self.ends().await?.or(&seen);
            if head != seen {
                let list = self.list(false).after(&seen).up_to(&head);
                if !self.forward(list, printer).await? {
                    return Ok(());
                }
                seen = head;
            }
        }
    }
}

/// Writes all decisions that meet the conditions into a table of a new SQLite file.
pub(super) fn export(
    args: &ListArgs,
    config: &Config,
    chosen: &LogSelection,
) -> Result<(), Failure> {
    let (Some(file), Format::Sqlite) = (&args.output, args.format) else {
        bail!("--format sqlite and --output FILE belong together");
    };
    let plain = ListArgs {
        filter: args.filter.clone(),
        all: args.all,
        format: args.format,
        output: args.output.clone(),
        ..ListArgs::default()
    };
    if *args != plain {
        bail!(
            "--format sqlite writes all decisions that meet the conditions: it goes without --limit, --follow, \
             --summary and --events"
        );
    }
    let query = args.filter.query(Clock::system().now())?;
    let logs = chosen.logs(config)?;
    let sources: Vec<sql::Exported<'_>> = logs
        .iter()
        .filter_map(|log| {
            let path = log.path()?;
            let name = chosen.is_several().then(|| log.name().as_str());
            Some(sql::Exported { name, path })
        })
        .collect();
    let bar = terminal::bar(Unit::Records, 0);
    let progress = {
        let bar = bar.clone();
        move |passed, all| {
            bar.set_length(all);
            bar.set_position(passed);
        }
    };
    let count = sql::export(&sources, &query, file, progress);
    bar.finish_and_clear();
    let count = count?;
    let said = format!("{}: {count} decisions\n", file.display());
    terminal::print(terminal::printable(said.trim_end()).as_bytes())
        .and_then(|_| terminal::print(b"\n"))
        .map(drop)
}
