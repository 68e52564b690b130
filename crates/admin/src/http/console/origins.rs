//! The list of origins with a state.

use askama::Template;
use axum::extract::{RawQuery, State};

use super::super::{Actor, AppState};
use super::denials::origin_link;
use super::filter::params;
use super::format::{Timestamp, encoded, line};
use super::layout::{Layout, Page, PageResult, Section};
use crate::query::STATES;
use crawlgate_gate::explain::states::{about, at_a_request, next_fetch};
use crawlgate_store::{OriginQuery, StoredOrigin, StoredState};
use crawlgate_system::clock::Moment;

/// Origins on a page.
const PAGE: usize = 100;

#[derive(Template)]
#[template(path = "origins.html", config = "src/http/console/askama.toml")]
pub(super) struct OriginsPage {
    layout: Layout,
    done: Option<String>,
    containing: String,
    state: String,
    rows: Vec<OriginRow>,
    next: Option<String>,
    is_later: bool,
    is_kept: bool,
}

/// An origin, as a list shows it.
pub(super) struct OriginRow {
    pub(super) name: String,
    pub(super) identity: String,
    pub(super) href: String,
    pub(super) state: &'static str,
    pub(super) since: Timestamp,
    /// The time of the next fetch, in words.
    pub(super) next: String,
    pub(super) about: String,
}

impl OriginRow {
    pub(super) fn of(found: &StoredOrigin, now: Moment) -> OriginRow {
        let since = match &found.state {
            StoredState::Successful { copy, .. } => copy.fetched,
            StoredState::Unavailable { fetched, .. } => *fetched,
            StoredState::Unreachable { outage, .. } => outage.since,
        };
        OriginRow {
            name: line(found.origin.as_str()),
            identity: line(&found.identity.to_string()),
            href: format!(
                "{}&as={}",
                origin_link(found.origin.as_str()),
                encoded(&found.identity.to_string())
            ),
            state: found.state.name(),
            since: Timestamp::at(since, now),
            next: at_a_request(next_fetch(&found.state), now),
            about: line(&about(&found.state)),
        }
    }
}

impl OriginsPage {
    fn states(&self) -> Vec<(&'static str, bool)> {
        STATES
            .iter()
            .map(|state| (*state, *state == self.state))
            .collect()
    }
}

/// `/origins`
pub(super) async fn page(
    State(app): State<AppState>,
    actor: Actor,
    RawQuery(query): RawQuery,
) -> PageResult<OriginsPage> {
    let mut params = params(query.as_deref());
    let containing = params.text("containing")?;
    let state = params.word("state", &STATES)?;
    let after = params.text("after")?;
    let forgotten = params.text("forgotten")?;
    params.finish(&["containing", "state", "after", "forgotten"])?;
    let is_later = after.is_some();
    let found = match app.store() {
        Some(store) => {
            let query = OriginQuery {
                after,
                // Names are in lower case.
                containing: containing
                    .as_ref()
                    .map(|text| text.trim().to_ascii_lowercase()),
                state: state.clone(),
                limit: PAGE,
            };
            store.origins(query).await?
        }
        None => Vec::new(),
    };
    let containing = containing.unwrap_or_default();
    let state = state.unwrap_or_default();
    let last = found.last().filter(|_| found.len() == PAGE);
    let next = last.map(|last| {
        let (containing, after) = (encoded(&containing), encoded(&last.place()));
        format!("/origins?containing={containing}&state={state}&after={after}")
    });
    Ok(Page(OriginsPage {
        layout: Layout::new(&app, &actor, Section::Origins, "Origins"),
        done: forgotten.map(|name| {
            let name = line(&name);
            format!("{name} is forgotten: the next request treats it as unknown.")
        }),
        containing: line(&containing),
        state,
        rows: found
            .iter()
            .map(|one| OriginRow::of(one, app.now()))
            .collect(),
        next,
        is_later,
        is_kept: app.store().is_some(),
    }))
}
