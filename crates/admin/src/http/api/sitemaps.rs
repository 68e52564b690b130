//! The Sitemap lines of all known origins.

use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};

use super::{DEFAULT_ITEMS, MAX_ITEMS, Page, QueryParams};
use crate::http::AppState;
use crate::http::problem::Problem;
use crate::http::sitemaps::{Lines, sitemaps};
use crate::query::STATES;
use crate::query::params::cursor;
use crate::view::SitemapEntry;
use crawlgate_gate::explain::sitemaps::OriginFilter;

pub(super) fn routes() -> Router<AppState> {
    Router::new().route("/sitemaps", get(list))
}

/// List the Sitemap lines of all known robots.txt, and whether a crawler may fetch each sitemap
///
/// The robots.txt of a sitemap's own origin decides: the one that the crawler itself got, otherwise that of `*` or of
/// another crawler. Nothing is fetched: the answer is `unknown` where that robots.txt is. A page may have fewer lines than
/// `limit`, even none, before the last one.
#[cfg_attr(feature = "openapi", utoipa::path(
    get, path = "/sitemaps", operation_id = "list_sitemaps", tag = "origins",
    params(
        ("agent" = Option<Vec<String>>, Query, description = "The crawler: product tokens, most specific first, or whole User-Agents, each as an `agent` of its own. Without one, `[agent] product_tokens`, else the rules for `*`"),
        ("containing" = Option<String>, Query, description = "Only lines of origins with this text in their name"),
        ("state" = Option<String>, Query, description = "Only lines of a robots.txt in this state: `successful`, `unavailable` or `unreachable`", pattern = "^(successful|unavailable|unreachable)$"),
        ("limit" = Option<u32>, Query, description = "So many at most", minimum = 1, maximum = 1000),
        ("cursor" = Option<String>, Query, description = "`next` of the page before", pattern = "^[A-Za-z0-9_-]+$"),
    ),
    responses(
        (status = 200, description = "A page of them", body = Page<SitemapEntry>),
        (status = "4XX", description = "The request is not valid, or there is no store", body = Problem, content_type = "application/problem+json"),
        (status = "5XX", description = "Not now", body = Problem, content_type = "application/problem+json"),
    ),
))]
pub(super) async fn list(
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
