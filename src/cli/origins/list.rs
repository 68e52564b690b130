//! The list: one line per origin, page by page.

use std::io::IsTerminal as _;

use clap::Args;

use super::{NOTHING, StateName};
use crate::admin::view::OriginEntry;
use crate::cli::screen;
use crate::clock::Moment;
use crate::explain::states::{about, ago, next_fetch, to_come};
use crate::store::{OriginMemory, OriginQuery, Store, StoredState};

/// Origins to read at once.
const PAGE: usize = 500;

/// Origins to list by default.
const LIMIT: usize = 100;

/// The origins to list, and the form.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub(super) struct ListArgs {
    /// Only origins in this state
    #[arg(long, value_name = "STATE")]
    state: Option<StateName>,
    /// Only origins with this text in their name
    #[arg(long, value_name = "TEXT")]
    containing: Option<String>,
    /// Only origins after this one, in the order of their names and identities
    #[arg(long, value_name = "ORIGIN")]
    after: Option<String>,
    /// At most this many
    #[arg(long, short = 'n', value_name = "COUNT", default_value_t = LIMIT)]
    limit: usize,
    /// List all origins, page by page
    #[arg(long, conflicts_with = "limit")]
    all: bool,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

impl Default for ListArgs {
    fn default() -> ListArgs {
        ListArgs {
            state: None,
            containing: None,
            after: None,
            limit: LIMIT,
            all: false,
            json: false,
        }
    }
}

/// Writes the list.
pub(super) async fn list(args: &ListArgs, store: &dyn Store, now: Moment) -> Result<u8, String> {
    let mut left = if args.all { usize::MAX } else { args.limit };
    let mut after = args.after.clone();
    let mut is_first = true;
    while left > 0 {
        let limit = left.min(PAGE);
        let query = OriginQuery {
            after: after.clone(),
            containing: args.containing.clone(),
            state: args.state.map(|state| state.as_str().to_owned()),
            limit,
        };
        let page = store.origins(query).await.map_err(|e| e.to_string())?;
        let mut text = Vec::new();
        if is_first && !args.json && !page.is_empty() {
            text.extend(line(["ORIGIN", "AS", "STATE", "SINCE", "NEXT"], "ABOUT").bytes());
        }
        for found in &page {
            if args.json {
                text.extend(screen::json_line(&OriginEntry::of(found)));
            } else {
                text.extend(row(found, now).bytes());
            }
        }
        if !screen::say(&text)? {
            return Ok(0);
        }
        let is_last = page.len() < limit;
        if is_first && page.is_empty() {
            return Ok(NOTHING);
        }
        is_first = false;
        left -= page.len();
        after = page.last().map(OriginMemory::place);
        if is_last {
            return Ok(0);
        }
    }
    // A hint for people only; scripts have set their limit.
    if let Some(after) = after.filter(|_| std::io::stdout().is_terminal()) {
        screen::say(format!("… there may be more: --after '{after}', or --all\n").as_bytes())?;
    }
    Ok(0)
}

fn row(found: &OriginMemory, now: Moment) -> String {
    let state = &found.state;
    let since = match state {
        StoredState::Successful { copy, .. } => copy.fetched,
        StoredState::Unavailable { fetched, .. } => *fetched,
        StoredState::Unreachable { outage, .. } => outage.since,
    };
    let next = next_fetch(state);
    line(
        [
            found.origin.as_str(),
            &found.identity.to_string(),
            state.name(),
            &ago(since, now),
            &to_come(next, now),
        ],
        &about(state),
    )
}

fn line([origin, identity, state, since, next]: [&str; 5], about: &str) -> String {
    let origin = screen::printable(origin);
    let about = screen::printable(about);
    format!("{origin:<40} {identity:<16} {state:<12} {since:>8} {next:>8}  {about}\n")
}
