//! The review list: denials, newest first, or counted by a common key.

use askama::Template;
use axum::extract::{RawQuery, State};
use http::{HeaderMap, StatusCode};

use super::super::logs::MAX_PASSED;
use super::super::problem::Problem;
use super::super::{Actor, AppState};
use super::filter::{Filter, params};
use super::format::{Timestamp, encoded, headline, number};
use super::layout::{FormResult, Layout, Page, Section};
use super::note::NoteForm;
use super::reviewer::Reviewer;
use super::rows::{DecisionRow, LogFault, LogNames, rows};
use crate::query::InvalidParam;
use crawlgate_store::logs::{ALL, EntryKind, MergedList, Places};
use crawlgate_store::{DecisionQuery, GroupBy, GroupCount};
use crawlgate_system::clock::Moment;

/// Decisions on a page.
const PAGE: usize = 50;

/// Groups on a page.
const GROUPS: usize = 100;

#[derive(Template)]
#[template(path = "denials.html", config = "src/http/console/askama.toml")]
pub(super) struct DenialsPage {
    layout: Layout,
    filter: Filter,
    view: View,
    rows: Vec<DecisionRow>,
    groups: Vec<GroupCount>,
    /// The query of the next page, if there is one.
    next: Option<String>,
    /// True for every page after the first.
    is_later: bool,
    /// The extent of the search, if it stopped before the end.
    reached: Option<SearchExtent>,
    is_kept: bool,
    /// True for a list of several logs: each row names its own.
    with_log: bool,
    faults: Vec<LogFault>,
    /// The form for ticked decisions.
    note: NoteForm,
}

/// The extent of a search.
pub(super) struct SearchExtent {
    /// Records looked at.
    pub(super) looked_at: String,
    /// The time of the last one.
    pub(super) back_to: Timestamp,
}

impl SearchExtent {
    /// Returns the extent of the search of a list; `None` if it came to the end.
    pub(super) fn of(list: &MergedList<'_>, now: Moment) -> Option<SearchExtent> {
        list.reached().map(|reached| SearchExtent {
            looked_at: number(reached.passed),
            back_to: Timestamp::at(reached.time, now),
        })
    }
}

/// The form of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum View {
    /// One row for each decision.
    List,
    /// Counts by this key.
    By(GroupBy),
}

const VIEWS: [(&str, &str, View); 4] = [
    ("", "each decision", View::List),
    ("rule", "by rule", View::By(GroupBy::Rule)),
    ("origin", "by origin", View::By(GroupBy::Origin)),
    ("reason", "by reason", View::By(GroupBy::Reason)),
];

impl View {
    fn of(word: Option<&str>) -> Result<View, InvalidParam> {
        let word = word.unwrap_or_default();
        let known = VIEWS.iter().find(|(name, _, _)| *name == word);
        known.map(|(_, _, view)| *view).ok_or_else(|| {
            InvalidParam::new("view", format_args!("{word}: it is one of rule, origin, reason"))
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
            View::By(GroupBy::Origin) => &["Origin"],
            View::By(GroupBy::Reason) => &["Reason"],
            View::By(GroupBy::Rule) => &["Origin", "Rule"],
        }
    }

    fn view_word(&self) -> &'static str {
        let known = VIEWS.iter().find(|(_, _, view)| *view == self.view);
        known.map_or("", |(word, _, _)| word)
    }

    /// Returns the conditions of this list for a review of all; `None` if there is nothing to acknowledge.
    fn review(&self) -> Option<String> {
        let has_some = !self.rows.is_empty() || !self.groups.is_empty();
        let can_be = self.is_kept && has_some && self.can_be_reviewed();
        can_be.then(|| self.filter.link(&[]))
    }

    /// Tells whether decisions of this list can be acknowledged at once: those of this process that are not yet.
    fn can_be_reviewed(&self) -> bool {
        self.layout.may_review()
            && self.filter.wanted().is_none()
            && !self.filter.is_empty()
            && self.filter.acknowledged != "true"
    }

    /// Returns the conditions of the list, for the forms of the page.
    fn list(&self) -> String {
        self.filter.link(&[("log", "")])
    }

    fn has_open_rows(&self) -> bool {
        self.rows.iter().any(|row| row.open.is_some())
    }

    fn export(&self, format: &str) -> String {
        self.filter.link(&[("format", format)])
    }
}

/// `/denials`
pub(super) async fn page(
    State(app): State<AppState>,
    actor: Actor,
    reviewer: Reviewer,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> FormResult<DenialsPage> {
    let mut params = params(query.as_deref());
    let mut filter = Filter::take(&mut params, "deny")?.with_log(&mut params, &app)?;
    let view = params.text("view")?;
    let view = View::of(view.as_deref())?;
    let before = params.text("before")?;
    let before = before.map(|text| places(&text)).transpose()?;
    params.finish(&["view", "before", "log"])?;
    let status = filter.check(&app, &headers)?;
    let mut page = DenialsPage {
        layout: Layout::new(&app, &actor, Section::Denials, "Denials"),
        view,
        rows: Vec::new(),
        groups: Vec::new(),
        next: None,
        is_later: before.is_some(),
        reached: None,
        is_kept: app.store().is_some(),
        with_log: false,
        faults: Vec::new(),
        note: NoteForm::of(reviewer),
        filter,
    };
    if status == StatusCode::OK && (page.is_kept || page.filter.wanted().is_some()) {
        page.fill(&app, before.as_ref()).await?;
    }
    Ok((status, Page(page)))
}

/// Reads the places where a page begins.
fn places(text: &str) -> Result<Places, Problem> {
    let places = text.parse();
    places.map_err(|error| Problem::bad(format!("before {text}: {error}")))
}

impl DenialsPage {
    async fn fill(&mut self, app: &AppState, before: Option<&Places>) -> Result<(), Problem> {
        let query = DecisionQuery { newest_first: true, ..self.filter.query(app)? };
        let logs = app.logs(self.filter.wanted())?;
        self.with_log = logs.only().is_none() || self.filter.log == ALL;
        let permit = app.work_permit().await?;
        let mut list = MergedList::new(&logs, EntryKind::Decisions, query).passing(MAX_PASSED);
        if let Some(before) = before {
            list = list.after(before);
        }
        let now = app.now();
        match self.view {
            View::List => {
                let page = list.page(PAGE).await?;
                let names = LogNames {
                    own: app.own_name(),
                    are_shown: self.with_log,
                    context: &self.filter.context(),
                    can_be_ticked: self.layout.may_review(),
                };
                self.rows = rows(&page, &names, now);
                if page.len() < PAGE {
                    self.reached = SearchExtent::of(&list, now);
                }
            }
            View::By(key) => {
                self.groups = list.count_by(key, GROUPS).await?;
                self.reached = SearchExtent::of(&list, now);
            }
        }
        drop(permit);
        self.faults = LogFault::all(&list.faults());
        self.next = list.next_places().map(|next| {
            let next = next.to_string();
            self.filter.link(&[("view", self.view_word()), ("before", &next)])
        });
        Ok(())
    }

    /// Returns the query that lists the counted decisions.
    fn narrowed(&self, group: &GroupCount) -> String {
        let names = self.columns().iter().map(|name| name.to_ascii_lowercase());
        let pairs: Vec<_> = names.zip(&group.key).collect();
        let pairs = pairs.iter().map(|(name, part)| (&**name, &***part));
        self.filter.link(&pairs.collect::<Vec<_>>())
    }

    /// Returns the heading of decisions that are counted by their reason.
    fn headline(&self, group: &GroupCount) -> Option<String> {
        let is_reason = self.view == View::By(GroupBy::Reason);
        headline(group.key.first().filter(|_| is_reason)?, false)
    }
}

/// Returns the link to an origin's page.
pub(super) fn origin_link(origin: &str) -> String {
    format!("/origin?of={}", encoded(origin))
}
