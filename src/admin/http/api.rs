//! The API, under `/api/v1`.
//!
//! Programs can read and do everything that the console shows. Answers are JSON, lists come by page, and a problem
//! document describes an error (RFC 9457). A change takes a POST with a JSON body or a DELETE: no form and no link of
//! another site can send these. `openapi.json` describes the API and is generated from the same types.

mod acknowledgements;
mod check;
mod decisions;
mod fleet;
mod live;
mod origins;
mod overrides;
mod report;
mod sitemaps;
mod snapshots;
mod status;

use std::convert::Infallible;

use axum::extract::{FromRequestParts, RawQuery};
use axum::routing::get;
use axum::{Json, Router};
use http::StatusCode;
use http::request::Parts;
use serde::Serialize;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::{Modify, OpenApi as _};

use super::problem::{self, Problem};
use super::{Actor, AppState};
use crate::admin::query::InvalidParam;
use crate::admin::query::params::{Blank, Params};
use crate::policy::overrides::words;
use crate::store::logs::Fault;

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
        .merge(fleet::routes())
        .merge(live::routes())
        .merge(origins::routes())
        .merge(overrides::routes())
        .merge(report::routes())
        .merge(sitemaps::routes())
        .merge(snapshots::routes())
        .merge(status::routes())
        .fallback(problem::not_found);
    Router::new().nest(BASE, api)
}

/// The OpenAPI description.
#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "crawlgate",
        description = "The decisions of a running crawlgate, the states of origins, and people's overrides. Where users or a token \
            are configured, a request without right credentials is answered 401, and one beyond the role of its user 403: \
            `read` may do every GET and the check, `review` may acknowledge, too, `operate` may do everything. Too many wrong \
            passwords are answered 429.",
        license(name = "Apache-2.0", identifier = "Apache-2.0"),
    ),
    servers((url = "/api/v1")),
    paths(
        status::status,
        fleet::fleet,
        decisions::list,
        decisions::one,
        decisions::evidence,
        decisions::proof,
        acknowledgements::one,
        acknowledgements::all,
        decisions::tallies,
        report::of_span,
        live::live,
        origins::list,
        origins::one,
        origins::fetches,
        origins::forget,
        origins::refresh,
        sitemaps::list,
        snapshots::text,
        snapshots::diff,
        overrides::list,
        overrides::add,
        overrides::remove,
        check::check,
    ),
    modifiers(&Credentials),
    security((), ("basic" = []), ("bearer" = [])),
    components(schemas(Problem)),
    tags(
        (name = "decisions", description = "Decisions, their clients, and their reasons"),
        (name = "origins", description = "Origins, their states and their robots.txt"),
        (name = "overrides", description = "Paths that people allow or deny regardless of robots.txt"),
        (name = "process", description = "The process itself"),
    ),
)]
struct Description;

/// The schemes of credentials.
struct Credentials;

impl Modify for Credentials {
    fn modify(&self, description: &mut utoipa::openapi::OpenApi) {
        let components = description.components.get_or_insert_default();
        for (name, scheme, said) in [
            (
                "basic",
                HttpAuthScheme::Basic,
                "The name and the password of an [[admin.user]]",
            ),
            (
                "bearer",
                HttpAuthScheme::Bearer,
                "The token of an [[admin.user]], or that of [admin] token_file",
            ),
        ] {
            let http = HttpBuilder::new().scheme(scheme).description(Some(said));
            components.add_security_scheme(name, SecurityScheme::Http(http.build()));
        }
    }
}

async fn openapi() -> Json<utoipa::openapi::OpenApi> {
    Json(Description::openapi())
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
#[derive(Debug, Serialize, utoipa::ToSchema)]
struct Page<T> {
    /// The items.
    items: Vec<T>,
    /// The `cursor` of the next page, to be sent with all other parameters unchanged; none after the last page.
    next: Option<String>,
}

/// A log that could not be read.
#[derive(Debug, Serialize, utoipa::ToSchema)]
struct LogFault {
    /// The name of the log.
    log: String,
    /// The reason.
    error: String,
}

impl LogFault {
    fn all(faults: Vec<Fault>) -> Vec<LogFault> {
        let faults = faults.into_iter().map(|fault| LogFault {
            log: fault.log.to_string(),
            error: fault.error.to_string(),
        });
        faults.collect()
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
fn failed(why: String) -> Problem {
    Problem::new(StatusCode::CONFLICT, why)
}
