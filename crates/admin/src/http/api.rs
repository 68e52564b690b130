//! The API, under `/api/v1`.
//!
//! Programs can read and do everything that the console shows. Answers are JSON, lists come by page, and a problem
//! document describes an error (RFC 9457). A change takes a POST with a JSON body or a DELETE: no form and no link of
//! another site can send these. `openapi.json` describes the API: `docs/openapi.json`, which is made from the same types.

mod acknowledgements;
mod check;
mod decisions;
#[cfg(all(test, feature = "openapi"))]
mod description;
mod live;
mod origins;
mod overrides;
mod snapshots;
mod status;

use std::convert::Infallible;
use std::fmt;

use axum::Router;
use axum::extract::{FromRequestParts, RawQuery};
use axum::response::IntoResponse;
use axum::routing::get;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use serde::Serialize;

use super::problem::{self, Problem};
use super::{Actor, AppState};
use crate::query::InvalidParam;
use crate::query::params::{Blank, Params};
use crawlgate_gate::view;
use crawlgate_policy::overrides::words;
use crawlgate_store::logs::Fault;

/// The path that all routes begin with.
const BASE: &str = "/api/v1";

/// Items of a page unless the request gives a number.
const DEFAULT_ITEMS: usize = 100;

/// Items of a page at most.
const MAX_ITEMS: usize = 1_000;

/// Returns the routes.
pub fn routes() -> Router<AppState> {
    let api = Router::new()
        .route("/openapi.json", get(openapi))
        .merge(acknowledgements::routes())
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

/// The description of the API (OpenAPI 3.1).
const DESCRIPTION: &str = include_str!("../../openapi.json");

async fn openapi() -> impl IntoResponse {
    ([(CONTENT_TYPE, "application/json")], DESCRIPTION)
}

/// The parameters of a request.
struct QueryParams(Params);

impl<S: Send + Sync> FromRequestParts<S> for QueryParams {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<QueryParams, Infallible> {
        let RawQuery(query) = RawQuery::from_request_parts(parts, state).await?;
        Ok(QueryParams(Params::of(query.as_deref(), Blank::Value)))
    }
}

impl From<InvalidParam> for Problem {
    fn from(wrong: InvalidParam) -> Problem {
        Problem::bad(wrong.to_string())
    }
}

/// A page of a list.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
struct Page<T> {
    /// The items.
    items: Vec<T>,
    /// The `cursor` of the next page, to be sent with all other parameters unchanged; none after the last page.
    next: Option<String>,
}

view! {
    /// A log that could not be read.
    struct LogFault of fault: &Fault {
        /// The name of the log.
        log: String = fault.log.to_string(),
        /// The reason.
        error: String = fault.error.to_string(),
    }
}

/// Returns the name to record an act of `actor` under; `does` says what the person of that name does.
fn by_of(actor: &Actor, named: Option<&str>, does: &str) -> Result<String, Problem> {
    let named = actor.acts_as(named)?;
    let named = named.ok_or_else(|| {
        InvalidParam::new("by", format_args!("is missing: name the person who {does}"))
    })?;
    words(&named).map_err(|error| InvalidParam::new("by", format_args!("{error}")).into())
}

/// Returns the problem for work that the process could not do.
fn failed(why: impl fmt::Display) -> Problem {
    Problem::new(StatusCode::CONFLICT, why.to_string())
}
