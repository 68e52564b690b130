//! `crawlgate sql`: statements over the store, which only read.

mod printer;

use std::io::{self, IsTerminal as _, Read as _};
use std::process::ExitCode;

use clap::{Args, ValueEnum};

use self::printer::RowPrinter;
use super::collected::{CollectedArgs, LogSelection, StoreFileArgs};
use super::log::filter::FilterArgs;
use super::{Failure, fail, terminal};
use crawlgate_config::Config;
use crawlgate_store as store;
use crawlgate_store::sqlite::sql::{Exported, Session};
use crawlgate_system::clock::Clock;

/// Octets of statements from standard input.
const MAX_INPUT: u64 = 1024 * 1024;

/// Arguments of `crawlgate sql`.
#[derive(Args, Clone, Debug)]
#[command(after_help = AFTER_HELP)]
pub struct SqlArgs {
    #[command(flatten)]
    pub(super) collected: CollectedArgs,
    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    pub(super) store: StoreFileArgs,
    /// The format of the output
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    format: Format,
    /// A statement, or several with `;` between them [default: standard input]
    statement: Option<String>,
}

const AFTER_HELP: &str = "\
The views decisions and denials have a row for each decision that meets the conditions above, and a column for each \
field of a record; `SELECT * FROM decisions LIMIT 1` shows them. All other tables and views are readable, too: \
origins, snapshots, hourly, fetch_hourly, override, acknowledgement, checkpoint (schema store). Nothing can be changed.
With several logs there are the views alone, and their first column, log, is the name of the log.

Examples:
  crawlgate sql \"SELECT host, count(*) AS n FROM denials GROUP BY host ORDER BY n DESC LIMIT 10\"
  crawlgate sql --since 7d \"SELECT rule_text, count(*) FROM denials GROUP BY rule_text\"
  crawlgate sql --format csv \"SELECT time, url, status FROM decisions\" > decisions.csv
  crawlgate sql --log '*' \"SELECT log, count(*) FROM denials GROUP BY log\"
  crawlgate sql < report.sql";

/// The format of the rows.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    /// For people
    Table,
    /// An object per line
    Jsonl,
    /// For spreadsheets
    Csv,
}

/// Runs `crawlgate sql`; exits 0, or 2 on failure.
#[must_use]
pub fn run(args: &SqlArgs, config: &Config, chosen: &LogSelection) -> ExitCode {
    match execute(args, config, chosen) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&terminal::printable(&error.to_string())),
    }
}

fn execute(args: &SqlArgs, config: &Config, chosen: &LogSelection) -> Result<(), Failure> {
    let query = args.filter.query(Clock::system().now())?;
    let session = match chosen {
        LogSelection::One => store::named(config).and_then(|path| Session::open(path, &query)),
        LogSelection::Several(logs) => {
            let stores = logs.iter().filter_map(|log| {
                let name = Some(log.name().as_str());
                log.path().map(|path| Exported { name, path })
            });
            Session::open_several(&stores.collect::<Vec<_>>(), &query)
        }
    };
    let session = session?;
    let text = match &args.statement {
        Some(text) => text.clone(),
        None => from_input()?,
    };
    if text.trim().is_empty() {
        bail!("there is no statement; `crawlgate sql --help` has examples");
    }
    let mut printer = RowPrinter::new(args.format, terminal::width());
    let done = session.run(&text, &mut printer).map_err(|error| {
        let error = error.to_string();
        match chosen.is_several() && error.starts_with("no such table") {
            true => {
                format!("{error}; with several logs there are only the views decisions and denials")
            }
            false => error,
        }
    });
    // Rows before a failure are shown.
    printer.flush()?;
    Ok(done?)
}

fn from_input() -> Result<String, Failure> {
    let input = io::stdin();
    if input.is_terminal() {
        terminal::eprint("statements are read to the end of the input (Ctrl-D)");
    }
    let mut text = String::new();
    let read = input.lock().take(MAX_INPUT + 1).read_to_string(&mut text);
    read.map_err(|error| format!("standard input: {error}"))?;
    match text.len() as u64 > MAX_INPUT {
        true => Err(format!("standard input: more than {MAX_INPUT} octets").into()),
        false => Ok(text),
    }
}
