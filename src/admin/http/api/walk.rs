//! A page of decisions, found by a bounded walk over the records.
//!
//! A condition without an index, such as an agent, is compared with record after record. A condition that no record
//! fulfils would read the whole store, so a page passes a limited number of records and says how far it came.

use crate::store::{DecisionQuery, Store, StoreError, StoredDecision};

/// Records that one page may pass.
const REACH: u64 = 20_000;

/// The result of one page.
#[derive(Debug)]
pub(super) struct Walk {
    pub(super) items: Vec<StoredDecision>,
    /// The number after which the next page begins; none at the end.
    pub(super) next: Option<u64>,
    /// The number of the last record passed, if the walk ended before the page was full and before the end.
    pub(super) searched_to: Option<u64>,
}

impl Walk {
    /// Reads the page that `query` selects by its `after`, `newest_first` and `limit`.
    ///
    /// # Errors
    /// When the store fails.
    pub(super) async fn of(store: &dyn Store, query: DecisionQuery) -> Result<Walk, StoreError> {
        let (newest_first, limit) = (query.newest_first, query.limit);
        let nothing = Walk {
            items: Vec::new(),
            next: None,
            searched_to: None,
        };
        let Some(first) = end(store, &query, false).await? else {
            return Ok(nothing);
        };
        let Some(last) = end(store, &query, true).await? else {
            return Ok(nothing);
        };
        // The numbers that this page passes, and whether there are others beyond.
        let (after, edge, goes_on) = if newest_first {
            let after = query.after.unwrap_or_else(|| last.saturating_add(1));
            let edge = after.saturating_sub(REACH).max(1);
            (after, edge, edge > first)
        } else {
            let after = query.after.unwrap_or_else(|| first.saturating_sub(1));
            let edge = after.saturating_add(REACH);
            (after, edge, edge < last)
        };
        let items = store
            .decisions(DecisionQuery {
                after: Some(after),
                from: newest_first.then_some(edge),
                to: (!newest_first).then_some(edge),
                ..query
            })
            .await?;
        let (next, searched_to) = match items.last() {
            Some(last) if items.len() == limit => (Some(last.seq), None),
            _ if goes_on => (Some(edge), Some(edge)),
            _ => (None, None),
        };
        Ok(Walk {
            items,
            next,
            searched_to,
        })
    }
}

/// Returns the number of the first or the last decision of the time range, found without a walk.
async fn end(
    store: &dyn Store,
    query: &DecisionQuery,
    newest_first: bool,
) -> Result<Option<u64>, StoreError> {
    let query = DecisionQuery {
        since: query.since,
        until: query.until,
        newest_first,
        limit: 1,
        ..DecisionQuery::default()
    };
    Ok(store.decisions(query).await?.first().map(|one| one.seq))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Moment;
    use crate::store::Batch;
    use crate::store::sqlite::Sqlite;
    use crate::store::tests::{ROW, Row};

    /// A little more than two pages pass.
    const COUNT: u64 = 2 * REACH + 10;

    fn time(n: u64) -> Moment {
        Moment::from_millis(1_795_176_000_000 + n * 1_000)
    }

    /// Only the first and the last are denials.
    async fn store() -> Sqlite {
        let store = Sqlite::temporary();
        let mut batch = Batch::default();
        for n in 1..=COUNT {
            let verdict = if n == 1 || n == COUNT {
                "deny"
            } else {
                "allow"
            };
            let time = time(n);
            let row = Row {
                time,
                verdict,
                ..ROW
            };
            row.file(&mut batch);
        }
        store.write(batch).await.expect("written");
        store
    }

    #[tokio::test]
    async fn a_page_passes_a_limited_number_of_records() {
        let store = store().await;
        let query = |verdict: &str, newest_first, limit| DecisionQuery {
            verdict: Some(verdict.to_owned()),
            newest_first,
            limit,
            ..DecisionQuery::default()
        };
        let since = |n| DecisionQuery {
            since: Some(time(n)),
            ..query("deny", true, 5)
        };
        // The records that each page has found, and how far it came.
        type Pages = &'static [(&'static [u64], Option<u64>)];
        #[rustfmt::skip] // one row, one case
        let cases: [(&str, DecisionQuery, Pages); 7] = [
            ("none, newest first", query("defer", true, 5), &[(&[], Some(20_011)), (&[], Some(11)), (&[], None)]),
            ("none, oldest first", query("defer", false, 5), &[(&[], Some(20_000)), (&[], Some(40_000)), (&[], None)]),
            ("few, newest first", query("deny", true, 5), &[(&[COUNT], Some(20_011)), (&[], Some(11)), (&[1], None)]),
            ("few, oldest first", query("deny", false, 5), &[(&[1], Some(20_000)), (&[], Some(40_000)), (&[COUNT], None)]),
            ("a full page says nothing", query("deny", true, 1), &[(&[COUNT], None), (&[], Some(20_010)), (&[], Some(10)), (&[1], None), (&[], None)]),
            ("no further back than is asked for", since(30_000), &[(&[COUNT], None)]),
            ("nothing is so new", since(COUNT + 1), &[(&[], None)]),
        ];
        for (name, query, pages) in cases {
            let mut after = None;
            for (at, (found, reached)) in pages.iter().enumerate() {
                let query = DecisionQuery {
                    after,
                    ..query.clone()
                };
                let page = Walk::of(&store, query).await.expect(name);
                let seqs: Vec<u64> = page.items.iter().map(|one| one.seq).collect();
                assert_eq!(
                    (&*seqs, page.searched_to),
                    (*found, *reached),
                    "{name}, page {at}"
                );
                assert_eq!(
                    page.next.is_none(),
                    at + 1 == pages.len(),
                    "{name}, page {at}"
                );
                after = page.next;
            }
        }
    }
}
