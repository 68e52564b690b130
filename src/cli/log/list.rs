//! Writes the list: the latest, all, or new decisions, or other events.

use std::io::{IsTerminal as _, Write as _};
use std::sync::Arc;
use std::time::Duration;

use super::filter::FilterArgs;
use super::sheet::Sheet;
use super::{ListArgs, summary};
use crate::cli::screen;
use crate::clock::Clock;
use crate::store::{DecisionQuery, Store, StoredDecision};

/// Decisions to read at once.
const PAGE: usize = 500;

/// Interval at which `--follow` looks for new decisions.
const EVERY: Duration = Duration::from_millis(250);

/// The entries to list.
struct Source {
    store: Arc<dyn Store>,
    /// True for events, false for decisions.
    events: bool,
}

impl Source {
    async fn page(&self, query: DecisionQuery) -> Result<Vec<StoredDecision>, String> {
        let page = match self.events {
            true => self.store.events(query),
            false => self.store.decisions(query),
        };
        page.await.map_err(|error| error.to_string())
    }
}

/// Writes the list that the arguments describe.
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
    let source = &Source {
        store: Arc::clone(store),
        events: args.events,
    };
    // Before the first read: `--follow` may repeat a decision made meanwhile, but misses none.
    let head = newest(source).await?;
    let mut sheet = Sheet::new(
        args.format(),
        args.events,
        screen::width(),
        std::io::stdout().is_terminal(),
    );
    if !screen::say(&sheet.heading()?)? {
        return Ok(());
    }
    let goes_on = if args.all {
        forward(source, &query, None, &mut sheet).await?.is_some()
    } else {
        latest(source, &query, args.limit, head, &mut sheet).await?
    };
    if args.follow && goes_on {
        follow(source, &query, head, &mut sheet).await?;
    } else if sheet.is_empty() {
        tell_of_none(args);
    }
    Ok(())
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

/// Returns the number of the newest entry of the source.
async fn newest(source: &Source) -> Result<u64, String> {
    let query = DecisionQuery {
        newest_first: true,
        limit: 1,
        ..DecisionQuery::default()
    };
    let page = source.page(query).await?;
    Ok(page.first().map_or(0, |decision| decision.seq))
}

/// Writes the latest `limit` decisions up to `head`, oldest first. Returns false when the reader has gone.
async fn latest(
    source: &Source,
    query: &DecisionQuery,
    limit: usize,
    head: u64,
    sheet: &mut Sheet,
) -> Result<bool, String> {
    // Search backwards, write forwards: keep only the numbers, unless they are few.
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
        let mut page = source.page(query).await?;
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
    Ok(forward(source, query, Some((after, head)), sheet)
        .await?
        .is_some())
}

/// Writes all decisions in their order, or those after one number up to another; returns the last number. `None` when
/// the reader has gone.
async fn forward(
    source: &Source,
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
        let mut page = source.page(query).await?;
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

/// Writes new decisions after `seen` until the reader has gone.
async fn follow(
    source: &Source,
    query: &DecisionQuery,
    mut seen: u64,
    sheet: &mut Sheet,
) -> Result<(), String> {
    loop {
        tokio::time::sleep(EVERY).await;
        // Without the filter, so that each non-matching decision is looked at only once.
        let head = newest(source).await?;
        if head > seen {
            match forward(source, query, Some((seen, head)), sheet).await? {
                Some(_) => seen = head,
                None => return Ok(()),
            }
        }
    }
}
