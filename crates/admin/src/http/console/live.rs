//! The live page. It begins with the latest stored decisions; the script adds new ones from the API's live feed and
//! keeps the page's limit.

use askama::Template;
use axum::extract::{RawQuery, State};
use http::{HeaderMap, StatusCode};

use super::super::logs::MAX_PASSED;
use super::super::{Actor, AppState};
use super::filter::{Filter, params};
use super::layout::{FormResult, Layout, Page, Section};
use super::rows::{DecisionRow, LogNames, rows};
use crawlgate_store::DecisionQuery;
use crawlgate_store::logs::{EntryKind, MergedList};

/// Decisions that the page begins with.
const BEGIN: usize = 30;

/// Decisions that it holds at most.
const MAX_DECISIONS: usize = 200;

#[derive(Template)]
#[template(path = "live.html", config = "src/http/console/askama.toml")]
pub(super) struct LivePage {
    layout: Layout,
    filter: Filter,
    rows: Vec<DecisionRow>,
    most: usize,
}

impl LivePage {
    /// Returns the query of the feed: the same conditions, without times.
    fn feed(&self) -> String {
        let verdict = match &*self.filter.verdict {
            "any" => "",
            verdict => verdict,
        };
        self.filter.link(&[
            ("since", ""),
            ("until", ""),
            ("acknowledged", ""),
            ("verdict", verdict),
        ])
    }
}

/// `/watch`
pub(super) async fn page(
    State(app): State<AppState>,
    actor: Actor,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> FormResult<LivePage> {
    let mut params = params(query.as_deref());
    let mut filter = Filter::take(&mut params, "any")?;
    params.finish(&[])?;
    let status = filter.check(&app, &headers)?;
    let latest = match app.store() {
        Some(_) if status == StatusCode::OK => {
            let query = filter.query(&app)?;
            let logs = app.logs(None)?;
            let permit = app.work_permit().await?;
            let query = DecisionQuery { newest_first: true, ..query };
            let mut list = MergedList::new(&logs, EntryKind::Decisions, query).passing(MAX_PASSED);
            let latest = list.page(BEGIN).await?;
            drop(permit);
            latest
        }
        _ => Vec::new(),
    };
    let names =
        LogNames { own: app.own_name(), are_shown: false, context: "", can_be_ticked: false };
    let page = LivePage {
        layout: Layout::new(&app, &actor, Section::Live, "Live"),
        rows: rows(&latest, &names, app.now()),
        filter,
        most: MAX_DECISIONS,
    };
    Ok((status, Page(page)))
}
