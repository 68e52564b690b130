//! The list of origins with a state.

use askama::Template;
use axum::extract::{RawQuery, State};

use super::super::{Actor, AppState};
use super::denials::origin_link;
use super::filter::params;
use super::format::encoded;
use super::layout::{Layout, Page, PageResult, Section};
use crate::query::STATES;
use crawlgate_gate::explain::states::{about, at_a_request, next_fetch, since};
use crawlgate_store::{OriginQuery, StoredOrigin};
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
    rows: Vec<StoredOrigin>,
    next: Option<String>,
    is_later: bool,
    is_kept: bool,
}

/// Returns the link to a state.
pub(super) fn state_link(found: &StoredOrigin) -> String {
    let (origin, identity) = (found.origin.as_str(), found.identity.to_string());
    format!("{}&as={}", origin_link(origin), encoded(&identity))
}

/// Returns the time of the next fetch, in words.
pub(super) fn next(found: &StoredOrigin, now: &Moment) -> String {
    at_a_request(next_fetch(&found.state), *now)
}

impl OriginsPage {
    fn states(&self) -> Vec<(&'static str, bool)> {
        STATES.iter().map(|state| (*state, *state == self.state)).collect()
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
                containing: containing.as_ref().map(|text| text.trim().to_ascii_lowercase()),
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
        done: forgotten
            .map(|name| format!("{name} is forgotten: the next request treats it as unknown.")),
        containing,
        state,
        rows: found,
        next,
        is_later,
        is_kept: app.store().is_some(),
    }))
}
