//! The API, under `/api/v1`.
//!
//! Everything that the console shows and does, for programs. Answers are JSON, lists come by page, and where something
//! is wrong a problem document says what (RFC 9457). What changes something is asked by POST with a JSON body or by
//! DELETE: no form and no link of another site can do that. `openapi.json` describes all of it, and is made from the
//! same types.

mod check;
mod decisions;
mod live;
mod origins;
mod overrides;
mod snapshots;
mod status;
mod walk;

use std::convert::Infallible;

use axum::extract::{FromRequestParts, RawQuery};
use axum::routing::get;
use axum::{Json, Router};
use http::StatusCode;
use http::request::Parts;
use serde::Serialize;
use utoipa::OpenApi as _;

use super::Site;
use super::problem::{self, Problem};
use crate::admin::query::Wrong;
use crate::admin::query::params::{Blank, Params};

/// Where it begins.
const BASE: &str = "/api/v1";

/// Items of a page where nothing is said.
const USUAL: usize = 100;

/// Items of a page at most.
const MOST: usize = 1_000;

/// Its routes.
pub fn routes() -> Router<Site> {
    let api = Router::new()
        .route("/openapi.json", get(openapi))
        .merge(check::routes())
        .merge(decisions::routes())
        .merge(live::routes())
        .merge(origins::routes())
        .merge(overrides::routes())
        .merge(snapshots::routes())
        .merge(status::routes())
        .fallback(problem::not_found);
    Router::new().nest(BASE, api)
}

/// The description.
#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "crawlgate",
        description = "What a running crawlgate has decided, knows of origins, and holds to be asserted by people.",
        license(name = "Apache-2.0", identifier = "Apache-2.0"),
    ),
    servers((url = "/api/v1")),
    paths(
        status::status,
        decisions::list,
        decisions::one,
        decisions::evidence,
        decisions::acknowledge,
        decisions::tallies,
        live::live,
        origins::list,
        origins::one,
        origins::fetches,
        origins::forget,
        origins::refresh,
        snapshots::text,
        snapshots::diff,
        overrides::list,
        overrides::add,
        overrides::remove,
        check::check,
    ),
    components(schemas(Problem)),
    tags(
        (name = "decisions", description = "What was decided, about whom, and on what grounds"),
        (name = "origins", description = "What is known of origins and their robots.txt"),
        (name = "overrides", description = "What people assert over a robots.txt"),
        (name = "process", description = "The process itself"),
    ),
)]
struct Description;

async fn openapi() -> Json<utoipa::openapi::OpenApi> {
    Json(Description::openapi())
}

/// The parameters of a request.
struct Asked(Params);

impl<S: Send + Sync> FromRequestParts<S> for Asked {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Asked, Infallible> {
        let RawQuery(query) = RawQuery::from_request_parts(parts, state).await?;
        Ok(Asked(Params::of(query.as_deref(), Blank::Value)))
    }
}

impl From<Wrong> for Problem {
    fn from(wrong: Wrong) -> Problem {
        Problem::bad(wrong.to_string())
    }
}

/// A page of a list.
#[derive(Debug, Serialize, utoipa::ToSchema)]
struct Page<T> {
    /// What is on it.
    items: Vec<T>,
    /// What to ask for as `cursor`, with all else as it was, to have the next page; none after the last.
    next: Option<String>,
}

/// 404 for what the store does not have.
fn unknown_decision(id: &str) -> Problem {
    Problem::missing(format!(
        "{id}: no such decision in the store; it was never kept ([log] decisions says which are), or is older than [audit] \
         keep"
    ))
}

/// What the desk cannot do.
fn failed(why: String) -> Problem {
    Problem::new(StatusCode::CONFLICT, why)
}
