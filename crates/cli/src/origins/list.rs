//! The list: one line per origin, page by page.

use clap::Args;

use super::StateName;
use super::paging::{Paging, Part};
use crate::{Failure, terminal};
use crawlgate_admin::view::OriginEntry;
use crawlgate_gate::explain::states::{about, ago, next_fetch, since, to_come};
use crawlgate_store::{OriginQuery, Store, StoredOrigin};
use crawlgate_system::clock::Moment;

/// The origins to list, and the form.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ListArgs {
    /// Only origins in this state
    #[arg(long, value_name = "STATE")]
    state: Option<StateName>,
    #[command(flatten)]
    paging: Paging,
}

/// Writes the list.
pub(super) async fn list(args: &ListArgs, store: &Store, now: Moment) -> Result<u8, Failure> {
    let paging = &args.paging;
    let part = async |after, limit| {
        let query = OriginQuery {
            after,
            containing: paging.containing.clone(),
            state: args.state.map(|state| state.as_str().to_owned()),
            limit,
        };
        let page = store.origins(query).await?;
        let lines = page.iter().map(|found| {
            if paging.json {
                terminal::json_line(&OriginEntry::of(found))
            } else {
                row(found, now).into_bytes()
            }
        });
        let last = page.last().filter(|_| page.len() == limit);
        Ok(Part { lines: lines.collect(), next: last.map(StoredOrigin::place) })
    };
    let heading = line(["ORIGIN", "AS", "STATE", "SINCE", "NEXT"], "ABOUT");
    paging.print(&heading, part).await
}

fn row(found: &StoredOrigin, now: Moment) -> String {
    let state = &found.state;
    let next = next_fetch(state);
    line(
        [
            found.origin.as_str(),
            &found.identity.to_string(),
            state.name(),
            &ago(since(state), now),
            &to_come(next, now),
        ],
        &about(state),
    )
}

fn line([origin, identity, state, since, next]: [&str; 5], about: &str) -> String {
    let origin = terminal::printable(origin);
    let about = terminal::printable(about);
    format!("{origin:<40} {identity:<16} {state:<12} {since:>8} {next:>8}  {about}\n")
}
