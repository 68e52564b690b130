//! The list itself: the latest, all, and what comes.

use std::io::{IsTerminal as _, Write as _};
use std::sync::Arc;
use std::time::Duration;

use super::filter::FilterArgs;
use super::sheet::Sheet;
use super::{ListArgs, summary};
use crate::cli::screen;
use crate::clock::Clock;
use crate::store::{DecisionQuery, Store};

/// Decisions that are read at once.
const PAGE: usize = 500;

/// How often the store is asked for more by `--follow`.
const EVERY: Duration = Duration::from_millis(250);

/// Writes what the arguments ask for.
pub(super) async fn list(args: &ListArgs, store: &Arc<dyn Store>) -> Result<(), String> {
    let query = args.filter.query(Clock::system().now())?;
    if let Some(key) = args.summary {
        let limit = if args.all { usize::MAX } else { args.limit };
        let tallies = store.tally(query, key.of_store(), limit).await;
        let tallies = tallies.map_err(|error| error.to_string())?;
        let text = summary::text(&tallies, key, args.format())?;
        if tallies.is_empty() {
            tell_of_none(args);
        }
        return screen::say(&text).map(drop);
    }
    // Taken before anything is read: what comes meanwhile comes again when it is followed.
    let head = newest(store).await?;
    let mut sheet = Sheet::new(
        args.format(),
        screen::width(),
        std::io::stdout().is_terminal(),
    );
    if !screen::say(&sheet.heading()?)? {
        return Ok(());
    }
    let goes_on = if args.all {
        forward(store, &query, None, &mut sheet).await?.is_some()
    } else {
        latest(store, &query, args.limit, head, &mut sheet).await?
    };
    if args.follow && goes_on {
        follow(store, &query, head, &mut sheet).await?;
    } else if sheet.is_empty() {
        tell_of_none(args);
    }
    Ok(())
}

/// Says that there is nothing, beside the list: whoever reads that wants rows only.
fn tell_of_none(args: &ListArgs) {
    let said = if args.filter != FilterArgs::default() {
        "no decision that is kept meets all of these conditions"
    } else if args.limit == 0 && !args.all {
        return; // nothing was asked for
    } else {
        "no decisions are kept yet; [log] decisions says which are"
    };
    let _ = writeln!(std::io::stderr(), "crawlgate: {said}"); // nobody is left to tell
}

/// The place of the newest decision, whatever it is.
async fn newest(store: &Arc<dyn Store>) -> Result<u64, String> {
    let query = DecisionQuery {
        newest_first: true,
        limit: 1,
        ..DecisionQuery::default()
    };
    let page = store
        .decisions(query)
        .await
        .map_err(|error| error.to_string())?;
    Ok(page.first().map_or(0, |decision| decision.seq))
}

/// Writes the latest `limit` decisions up to `head`, oldest first. False when nobody reads any more.
async fn latest(
    store: &Arc<dyn Store>,
    query: &DecisionQuery,
    limit: usize,
    head: u64,
    sheet: &mut Sheet,
) -> Result<bool, String> {
    // Found backwards, written forwards: only places are kept, unless they are few.
    let mut before = None;
    let mut left = limit;
    let mut few = Vec::new();
    while left > 0 {
        let query = DecisionQuery {
            newest_first: true,
            after: before,
            limit: left.min(PAGE),
            ..query.clone()
        };
        let mut page = store
            .decisions(query)
            .await
            .map_err(|error| error.to_string())?;
        let Some(last) = page.last() else { break };
        before = Some(last.seq);
        page.retain(|decision| decision.seq <= head);
        left = left.saturating_sub(page.len());
        if limit <= PAGE {
            few.extend(page);
        }
    }
    if limit <= PAGE {
        few.reverse();
        return screen::say(&sheet.rows(&few)?);
    }
    let after = before.map_or(head, |first| first.saturating_sub(1));
    Ok(forward(store, query, Some((after, head)), sheet)
        .await?
        .is_some())
}

/// Writes all decisions in their order, or those after one place up to another; the place of the last. `None` when
/// nobody reads any more.
async fn forward(
    store: &Arc<dyn Store>,
    query: &DecisionQuery,
    between: Option<(u64, u64)>,
    sheet: &mut Sheet,
) -> Result<Option<u64>, String> {
    let (mut after, last) = between.unwrap_or((0, u64::MAX));
    loop {
        let query = DecisionQuery {
            after: Some(after),
            limit: PAGE,
            ..query.clone()
        };
        let mut page = store
            .decisions(query)
            .await
            .map_err(|error| error.to_string())?;
        page.retain(|decision| decision.seq <= last);
        let Some(end) = page.last() else {
            return Ok(Some(after));
        };
        after = end.seq;
        if !screen::say(&sheet.rows(&page)?)? {
            return Ok(None);
        }
    }
}

/// Writes what comes after `seen` as it comes, until nobody reads any more.
async fn follow(
    store: &Arc<dyn Store>,
    query: &DecisionQuery,
    mut seen: u64,
    sheet: &mut Sheet,
) -> Result<(), String> {
    loop {
        tokio::time::sleep(EVERY).await;
        // Asked without the filter: of all that came and was not wanted, each is looked at once.
        let head = newest(store).await?;
        if head > seen {
            match forward(store, query, Some((seen, head)), sheet).await? {
                Some(_) => seen = head,
                None => return Ok(()),
            }
        }
    }
}
