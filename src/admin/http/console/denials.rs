//! The review list: denials, newest first, or counted by a common key.

use askama::Template;
use axum::extract::{RawQuery, State};

use super::super::Site;
use super::super::problem::Problem;
use super::filter::{Filter, params, wrong};
use super::rows::{Row, rows};
use super::shell::{Page, Place, Shell, Shown};
use super::words::{When, encoded, line, number};
use crate::admin::query::Wrong;
use crate::clock::Moment;
use crate::store::{DecisionQuery, Store, Tally, TallyKey};

/// Decisions on a page.
const PAGE: usize = 50;

/// Groups on a page.
const GROUPS: usize = 100;

/// Records that one page looks at, at most. The user may continue a search that finds little.
pub(super) const REACH: u64 = 20_000;

#[derive(Template)]
#[template(path = "denials.html", config = "src/admin/http/console/askama.toml")]
pub(super) struct DenialsPage {
    shell: Shell,
    filter: Filter,
    view: View,
    rows: Vec<Row>,
    groups: Vec<Group>,
    /// The query of the next page, if there is one.
    next: Option<String>,
    /// True for every page after the first.
    is_later: bool,
    /// The extent of the search, if it stopped before the end.
    reached: Option<Reached>,
    is_kept: bool,
}

/// The extent of a search.
pub(super) struct Reached {
    /// Records looked at.
    pub(super) looked_at: String,
    /// The time of the last one.
    pub(super) back_to: Option<When>,
}

/// Decisions with a common key.
struct Group {
    count: String,
    key: Vec<String>,
    first: When,
    last: When,
    /// The query that lists these decisions.
    link: String,
}

/// The form of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum View {
    /// One row for each decision.
    List,
    /// Counts by this key.
    By(TallyKey),
}

const VIEWS: [(&str, &str, View); 4] = [
    ("", "each decision", View::List),
    ("rule", "by rule", View::By(TallyKey::Rule)),
    ("origin", "by origin", View::By(TallyKey::Origin)),
    ("reason", "by reason", View::By(TallyKey::Reason)),
];

impl View {
    fn of(word: Option<&str>) -> Result<View, Wrong> {
        let word = word.unwrap_or_default();
        let known = VIEWS.iter().find(|(name, _, _)| *name == word);
        known.map(|(_, _, view)| *view).ok_or_else(|| {
            Wrong::new(
                "view",
                format_args!("{word}: it is one of rule, origin, reason"),
            )
        })
    }
}

/// A link to another view of the same decisions.
struct ViewLink {
    name: &'static str,
    link: String,
    is_here: bool,
}

impl DenialsPage {
    fn views(&self) -> Vec<ViewLink> {
        let links = VIEWS.iter().map(|(word, name, view)| ViewLink {
            name,
            link: self.filter.link(&[("view", word)]),
            is_here: *view == self.view,
        });
        links.collect()
    }

    fn columns(&self) -> &'static [&'static str] {
        match self.view {
            View::List => &[],
            View::By(TallyKey::Origin) => &["Origin"],
            View::By(TallyKey::Reason) => &["Reason"],
            View::By(TallyKey::Rule) => &["Origin", "Rule"],
        }
    }

    fn view_word(&self) -> &'static str {
        let known = VIEWS.iter().find(|(_, _, view)| *view == self.view);
        known.map_or("", |(word, _, _)| word)
    }

    fn export(&self, format: &str) -> String {
        self.filter.link(&[("format", format)])
    }
}

/// `/denials`
pub(super) async fn page(
    State(site): State<Site>,
    RawQuery(query): RawQuery,
) -> Shown<DenialsPage> {
    let mut params = params(query.as_deref());
    let filter = Filter::take(&mut params, "deny")?;
    let view = params.text("view").map_err(wrong)?;
    let view = View::of(view.as_deref()).map_err(wrong)?;
    let before = params.text("before").map_err(wrong)?;
    let before = before.map(|text| place(&text)).transpose()?;
    params.finish(&["view", "before"]).map_err(wrong)?;
    let mut page = DenialsPage {
        shell: Shell::new(&site, Place::Denials, "Denials"),
        view,
        rows: Vec::new(),
        groups: Vec::new(),
        next: None,
        is_later: before.is_some(),
        reached: None,
        is_kept: site.store().is_some(),
        filter,
    };
    let query = page.filter.query(&site)?;
    if let Some(store) = site.store() {
        let turn = site.turn().await?;
        let span = Span::of(&**store, before, &query).await?;
        match view {
            View::List => page.list(&site, &**store, query, &span).await?,
            View::By(key) => page.count(&site, &**store, query, key, &span).await?,
        }
        drop(turn);
    }
    Ok(Page(page))
}

/// Reads the number of a record.
fn place(text: &str) -> Result<u64, Problem> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| Problem::bad(format!("before {text}: it is the number of a record")))
}

/// The records that one page looks at.
pub(super) struct Span {
    /// The record number after the last one.
    before: u64,
    /// The first record number.
    pub(super) from: u64,
    /// True if older records may match, too.
    pub(super) goes_on: bool,
    /// The number of records.
    pub(super) looked_at: u64,
    /// The time of the oldest record.
    back_to: Option<Moment>,
}

impl Span {
    /// Returns as many records as a page may look at: those before `before`, or else the newest that may match.
    pub(super) async fn of(
        store: &dyn Store,
        before: Option<u64>,
        query: &DecisionQuery,
    ) -> Result<Span, Problem> {
        let end = match before {
            Some(before) => before,
            None => newest(store, query.until).await?.saturating_add(1),
        };
        let from = end.saturating_sub(REACH).max(1);
        // The oldest record left: retention deletes older ones.
        let first = store.records(from.saturating_sub(1), 1).await?.pop();
        let back_to = first.as_ref().map(|first| first.time);
        let begins = first.map_or(from, |first| first.seq);
        let is_before_since =
            matches!((query.since, back_to), (Some(since), Some(back)) if back < since);
        Ok(Span {
            before: end,
            from,
            goes_on: from > 1 && begins == from && !is_before_since,
            looked_at: end.saturating_sub(begins),
            back_to,
        })
    }

    /// Returns the extent of the search if there may be more.
    pub(super) fn reached(&self, site: &Site) -> Option<Reached> {
        self.goes_on.then(|| Reached {
            looked_at: number(self.looked_at),
            back_to: self.back_to.map(|time| When::at(time, site.now())),
        })
    }
}

/// Returns the number of the newest decision before `until`; 0 without one.
async fn newest(store: &dyn Store, until: Option<Moment>) -> Result<u64, Problem> {
    let query = DecisionQuery {
        until,
        newest_first: true,
        limit: 1,
        ..DecisionQuery::default()
    };
    Ok(store
        .decisions(query)
        .await?
        .first()
        .map_or(0, |one| one.seq))
}

impl DenialsPage {
    async fn list(
        &mut self,
        site: &Site,
        store: &dyn Store,
        query: DecisionQuery,
        span: &Span,
    ) -> Result<(), Problem> {
        let page = store
            .decisions(DecisionQuery {
                after: Some(span.before),
                from: Some(span.from),
                newest_first: true,
                limit: PAGE,
                ..query
            })
            .await?;
        self.rows = rows(&page, site.now());
        let next = match page.last() {
            Some(last) if page.len() == PAGE => Some(last.seq),
            _ => {
                self.reached = span.reached(site);
                span.goes_on.then_some(span.from)
            }
        };
        self.next = next.map(|next| self.filter.link(&[("before", &next.to_string())]));
        Ok(())
    }

    async fn count(
        &mut self,
        site: &Site,
        store: &dyn Store,
        query: DecisionQuery,
        key: TallyKey,
        span: &Span,
    ) -> Result<(), Problem> {
        let query = DecisionQuery {
            after: Some(span.before),
            from: Some(span.from),
            newest_first: true,
            ..query
        };
        let tallies = store.tally(query, key, GROUPS).await?;
        let groups = tallies.iter().map(|tally| Group {
            count: number(tally.count),
            key: tally.key.iter().map(|part| line(part)).collect(),
            first: When::at(tally.first, site.now()),
            last: When::at(tally.last, site.now()),
            link: self.narrowed(tally, key),
        });
        self.groups = groups.collect();
        self.reached = span.reached(site);
        if span.goes_on {
            let (view, before) = (self.view_word(), span.from.to_string());
            self.next = Some(self.filter.link(&[("view", view), ("before", &before)]));
        }
        Ok(())
    }

    /// Returns the query that lists the counted decisions.
    fn narrowed(&self, tally: &Tally, key: TallyKey) -> String {
        let part = |at: usize| tally.key.get(at).map_or("", String::as_str);
        match key {
            TallyKey::Origin => self.filter.link(&[("origin", part(0))]),
            TallyKey::Reason => self.filter.link(&[("reason", part(0))]),
            TallyKey::Rule => self.filter.link(&[("origin", part(0)), ("rule", part(1))]),
        }
    }
}

/// Returns the link to an origin's page.
pub(super) fn origin_link(origin: &str) -> String {
    format!("/origin?of={}", encoded(origin))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Batch;
    use crate::store::sqlite::Sqlite;
    use crate::store::tests::{ROW, Row};

    #[tokio::test]
    async fn a_page_looks_where_records_may_match() {
        let store = Sqlite::temporary();
        let time = |n: u64| Moment::from_millis(1_795_176_000_000 + n * 1_000);
        let count = REACH + 100;
        let mut batch = Batch::default();
        for n in 1..=count {
            let row = Row {
                time: time(n),
                ..ROW
            };
            row.file(&mut batch);
        }
        store.write(batch).await.expect("written");
        let none = DecisionQuery::default();
        let since = |n| DecisionQuery {
            since: Some(time(n)),
            ..DecisionQuery::default()
        };
        let until = |n| DecisionQuery {
            until: Some(time(n)),
            ..DecisionQuery::default()
        };
        #[rustfmt::skip] // one row, one case
        let cases = [
            ("the newest", None, none.clone(), (101, count + 1, true)),
            ("before a place", Some(101), none, (1, 101, false)),
            ("none that is old enough to be among the newest", None, until(50), (1, 50, false)),
            ("nothing older is asked for", None, since(200), (101, count + 1, false)),
            ("older ones are asked for", None, since(50), (101, count + 1, true)),
        ];
        for (name, before, query, want) in cases {
            let span = Span::of(&store, before, &query).await.expect(name);
            assert_eq!((span.from, span.before, span.goes_on), want, "{name}");
        }
    }
}
