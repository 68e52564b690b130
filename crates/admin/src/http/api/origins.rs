//! Origins: list their states and their sitemaps, refresh and forget them.

use axum::extract::{Path, State};
use axum::routing::{get, post};
use axum::{Json, Router};
use http::StatusCode;
use serde::{Deserialize, Serialize};

use super::{DEFAULT_ITEMS, MAX_ITEMS, Page, QueryParams, failed};
use crate::RefreshedState;
use crate::http::problem::Problem;
use crate::http::sitemaps::{Lines, sitemaps};
use crate::http::{Actor, AppState};
use crate::query::params::cursor;
use crate::query::{self, STATES};
use crate::view::{FetchEntry, OriginEntry, Pace, SitemapEntry};
use crawlgate_gate::explain::sitemaps::OriginFilter;
use crawlgate_origins::identity::Identity;
use crawlgate_robots::Origin;
use crawlgate_store::{FETCHES_KEPT, OriginQuery};

pub(super) fn routes() -> Router<AppState> {
    Router::new()
        .route("/origins", get(list))
        .route("/origins/{origin}", get(one).delete(forget))
        .route("/origins/{origin}/fetches", get(fetches))
        .route("/refresh", post(refresh))
        .route("/sitemaps", get(list_sitemaps))
}

/// List the states of origins, in the order of their names and identities
#[cfg_attr(feature = "openapi", utoipa::path(
    get, path = "/origins", operation_id = "list_origins", tag = "origins",
    params(
        ("containing" = Option<String>, Query, description = "Only origins with this text in their name"),
        ("state" = Option<String>, Query, description = "Only origins in this state: `successful`, `unavailable` or `unreachable`", pattern = "^(successful|unavailable|unreachable)$"),
        ("limit" = Option<u32>, Query, description = "So many", minimum = 1, maximum = 1000),
        ("cursor" = Option<String>, Query, description = "`next` of the page before", pattern = "^[A-Za-z0-9_-]+$"),
    ),
    responses(
        (status = 200, description = "A page of them", body = Page<OriginEntry>),
        (status = "4XX", description = "The request is not valid"),
    ),
))]
pub(super) async fn list(
    State(app): State<AppState>,
    QueryParams(mut params): QueryParams,
) -> Result<Json<Page<OriginEntry>>, Problem> {
    let containing = params.text("containing")?;
    let state = params.word("state", &STATES)?;
    let limit = params.limit(DEFAULT_ITEMS, MAX_ITEMS)?;
    let after = params.cursor("origins")?;
    params.finish(&["containing", "state", "limit", "cursor"])?;
    let query = OriginQuery { after, containing, state, limit };
    let _permit = app.work_permit().await?;
    let page = app.require_store()?.origins(query).await?;
    let next = page.last().filter(|_| page.len() == limit);
    Ok(Json(Page {
        next: next.map(|last| cursor("origins", &last.place())),
        items: page.iter().map(OriginEntry::of).collect(),
    }))
}

/// An origin's states and its pace.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub(super) struct OriginReport {
    #[serde(flatten)]
    entry: OriginEntry,
    /// The state for each identity, that of `*` first.
    states: Vec<OriginEntry>,
    /// The limit on requests to the origin now; none without a limit.
    pace: Option<Pace>,
}

fn named(text: &str) -> Result<Origin, Problem> {
    query::origin(text).map_err(|why| Problem::bad(format!("{text}: {why}")))
}

fn identity(text: Option<String>) -> Result<Option<Identity>, Problem> {
    let identity = text.as_deref().map(query::identity).transpose();
    identity.map_err(|why| Problem::bad(format!("identity: {why}")))
}

fn unknown(origin: &Origin) -> Problem {
    Problem::missing(format!("{origin}: nothing is known of it"))
}

/// Show the states of one origin
#[cfg_attr(feature = "openapi", utoipa::path(
    get, path = "/origins/{origin}", operation_id = "origin", tag = "origins",
    params(
        ("origin" = String, Path, description = "The origin, percent-encoded: `https%3A%2F%2Fsite.example`", example = "https://site.example"),
        ("identity" = Option<String>, Query, description = "The identity; by default the first of `states`", pattern = "^[A-Za-z0-9._*@:-]+$"),
    ),
    responses(
        (status = 200, description = "What is known", body = OriginReport),
        (status = "4XX", description = "The origin has no state, or is not valid"),
    ),
))]
pub(super) async fn one(
    State(app): State<AppState>,
    Path(origin): Path<String>,
    QueryParams(mut params): QueryParams,
) -> Result<Json<OriginReport>, Problem> {
    let identity = identity(params.text("identity")?)?;
    params.finish(&["identity"])?;
    let origin = named(&origin)?;
    let all = app.require_store()?.origin(&origin).await?;
    let found = match &identity {
        Some(identity) => all.iter().find(|one| one.identity == *identity),
        None => all.iter().min_by_key(|one| one.identity.document()),
    };
    let found = found.ok_or_else(|| unknown(&origin))?;
    let pace = app.proxy().gate().pace().of(&origin);
    Ok(Json(OriginReport {
        entry: OriginEntry::of(found),
        states: all.iter().map(OriginEntry::of).collect(),
        pace: pace.map(Pace::of),
    }))
}

/// Fetches of an origin's robots.txt.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub(super) struct Fetches {
    /// The fetches, newest first.
    items: Vec<FetchEntry>,
}

/// The latest fetches of an origin's robots.txt
#[cfg_attr(feature = "openapi", utoipa::path(
    get, path = "/origins/{origin}/fetches", tag = "origins",
    params(("origin" = String, Path, description = "The origin, percent-encoded: `https%3A%2F%2Fsite.example`", example = "https://site.example")),
    responses(
        (status = 200, description = "The stored fetches; none of an origin that was never requested", body = Fetches),
        (status = "4XX", description = "It is no origin"),
    ),
))]
pub(super) async fn fetches(
    State(app): State<AppState>,
    Path(origin): Path<String>,
    QueryParams(params): QueryParams,
) -> Result<Json<Fetches>, Problem> {
    params.finish(&[])?;
    let origin = named(&origin)?;
    let fetches = app.require_store()?.fetches(&origin, FETCHES_KEPT).await?;
    let items = fetches.iter().map(FetchEntry::of).collect();
    Ok(Json(Fetches { items }))
}

/// Drop the state of an origin, for one identity or for all
///
/// The next request treats the origin as unknown. Decisions, and the robots.txt that they rest on, stay.
#[cfg_attr(feature = "openapi", utoipa::path(
    delete, path = "/origins/{origin}", tag = "origins",
    params(
        ("origin" = String, Path, description = "The origin, percent-encoded: `https%3A%2F%2Fsite.example`", example = "https://site.example"),
        ("identity" = Option<String>, Query, description = "The identity; by default all", pattern = "^[A-Za-z0-9._*@:-]+$"),
    ),
    responses(
        (status = 204, description = "It is forgotten"),
        (status = "4XX", description = "The origin had no state, or is not valid"),
    ),
))]
pub(super) async fn forget(
    State(app): State<AppState>,
    actor: Actor,
    Path(origin): Path<String>,
    QueryParams(mut params): QueryParams,
) -> Result<StatusCode, Problem> {
    let identity = identity(params.text("identity")?)?;
    params.finish(&["identity"])?;
    let origin = named(&origin)?;
    actor.tell_of("forget", &origin.to_string());
    match app.forget(&origin, identity).await {
        Ok(true) => Ok(StatusCode::NO_CONTENT),
        Ok(false) => Err(unknown(&origin)),
        Err(error) => Err(failed(error)),
    }
}

/// The origin to refresh.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct Refresh {
    /// The origin: `https://site.example`.
    #[cfg_attr(feature = "openapi", schema(example = "https://site.example"))]
    origin: String,
    /// The identity to fetch as; without one, every identity with a stored state.
    #[cfg_attr(feature = "openapi", schema(example = "GoodBot"))]
    identity: Option<String>,
}

/// The results of the fetches.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub(super) struct Refreshed {
    /// The origin.
    origin: String,
    /// The state of the first identity now: `successful`, `unavailable` or `unreachable`.
    state: String,
    /// The reason to treat the origin as one without robots.txt for that identity, if it is.
    absence: Option<String>,
    /// The reason why a fetch failed, if one did; an earlier copy holds for as long as its state allows.
    failure: Option<String>,
    /// The result for each identity.
    states: Vec<RefreshedState>,
}

/// Fetch the robots.txt of an origin now, even if its state is fresh
#[cfg_attr(feature = "openapi", utoipa::path(
    post, path = "/refresh", tag = "origins",
    request_body = Refresh,
    responses(
        (status = 200, description = "The fetches have ended", body = Refreshed),
        (status = "4XX", description = "The origin is not valid, or may not be fetched (409)"),
    ),
))]
pub(super) async fn refresh(
    State(app): State<AppState>,
    actor: Actor,
    QueryParams(params): QueryParams,
    Json(refresh): Json<Refresh>,
) -> Result<Json<Refreshed>, Problem> {
    params.finish(&[])?;
    let origin = named(&refresh.origin)?;
    let identity = identity(refresh.identity)?;
    actor.tell_of("refresh", &origin.to_string());
    let refreshed = app.refresh(&origin, identity).await;
    let states = refreshed.map_err(failed)?;
    Ok(Json(Refreshed {
        origin: origin.to_string(),
        state: states.first().map(|one| one.state.clone()).unwrap_or_default(),
        absence: states.first().and_then(|one| one.absence.clone()),
        failure: states.iter().find_map(|one| one.failure.clone()),
        states,
    }))
}

/// List the Sitemap lines of all known robots.txt, and whether a crawler may fetch each sitemap
///
/// The robots.txt of a sitemap's own origin decides: the one that the crawler itself got, otherwise that of `*` or of
/// another crawler. Nothing is fetched: the answer is `unknown` where that robots.txt is. A page may have fewer lines than
/// `limit`, even none, before the last one.
#[cfg_attr(feature = "openapi", utoipa::path(
    get, path = "/sitemaps", tag = "origins",
    params(
        ("agent" = Option<Vec<String>>, Query, description = "The crawler: product tokens, most specific first, or whole User-Agents, each as an `agent` of its own. Without one, `[agent] product_tokens`, else the rules for `*`"),
        ("containing" = Option<String>, Query, description = "Only lines of origins with this text in their name"),
        ("state" = Option<String>, Query, description = "Only lines of a robots.txt in this state: `successful`, `unavailable` or `unreachable`", pattern = "^(successful|unavailable|unreachable)$"),
        ("limit" = Option<u32>, Query, description = "So many at most", minimum = 1, maximum = 1000),
        ("cursor" = Option<String>, Query, description = "`next` of the page before", pattern = "^[A-Za-z0-9_-]+$"),
    ),
    responses(
        (status = 200, description = "A page of them", body = Page<SitemapEntry>),
        (status = "4XX", description = "The request is not valid, or there is no store"),
    ),
))]
pub(super) async fn list_sitemaps(
    State(app): State<AppState>,
    QueryParams(mut params): QueryParams,
) -> Result<Json<Page<SitemapEntry>>, Problem> {
    let agents = params.texts("agent");
    let wanted = OriginFilter {
        containing: params.text("containing")?,
        state: params.word("state", &STATES)?,
    };
    let limit = params.limit(DEFAULT_ITEMS, MAX_ITEMS)?;
    let place = params.cursor("sitemaps")?;
    params.finish(&["agent", "containing", "state", "limit", "cursor"])?;
    let lines = Lines::After(place, wanted);
    let part = sitemaps(&app, &agents, lines, limit).await?;
    Ok(Json(Page {
        items: part.items.iter().map(SitemapEntry::of).collect(),
        next: part.next.map(|place| cursor("sitemaps", &place)),
    }))
}
