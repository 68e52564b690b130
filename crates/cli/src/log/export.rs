//! Writes decisions into a table of a new SQLite file.

use super::{Format, ListArgs};
use crate::Failure;
use crate::collected::LogSelection;
use crate::terminal::{self, Unit};
use crawlgate_config::Config;
use crawlgate_store::sqlite::sql;
use crawlgate_system::clock::Clock;

/// Writes all decisions that meet the conditions.
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
