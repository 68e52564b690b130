//! The report on a span of the log.

use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};

use super::QueryParams;
#[cfg(feature = "openapi")]
use super::described::LogParam;
use crate::http::AppState;
use crate::http::problem::Problem;
use crate::http::report::{PARAMETERS, report};
use crate::query::Conditions;
use crawlgate_evidence::report::Report;

pub(super) fn routes() -> Router<AppState> {
    Router::new().route("/report", get(of_span))
}

/// Report on a span: requests by outcome, clients, origins, rules, outages, overrides, exceptions
///
/// It is the JSON of `crawlgate report`, without the verification of the log. It counts each record of the span, of
/// several logs each number together.
#[cfg_attr(feature = "openapi", utoipa::path(
    get, path = "/report", operation_id = "report", tag = "decisions",
    params(
        ("since" = Option<String>, Query, description = "Earliest time, as for decisions; by default `30d`", example = "90d"),
        ("until" = Option<String>, Query, description = "Latest time, exclusive; a day counts whole; by default `now`", example = "2027-12-31"),
        ("client" = Option<String>, Query, description = "The client's address or name"),
        ("origin" = Option<String>, Query, description = "The origin (`https://site.example`), or a host with any scheme and port", example = "https://site.example"),
        LogParam,
    ),
    responses(
        (status = 200, description = "The report", body = Report),
        (status = "4XX", description = "The request is not valid, or there is no store", body = Problem, content_type = "application/problem+json"),
        (status = "5XX", description = "Not now", body = Problem, content_type = "application/problem+json"),
    ),
))]
pub(super) async fn of_span(
    State(app): State<AppState>,
    QueryParams(mut params): QueryParams,
) -> Result<Json<Report>, Problem> {
    let conditions = Conditions {
        since: params.text("since")?,
        until: params.text("until")?,
        client: params.text("client")?,
        origin: params.text("origin")?,
        ..Conditions::default()
    };
    let wanted = params.text("log")?;
    params.finish(&PARAMETERS)?;
    let report = report(&app, &conditions, wanted.as_deref()).await?;
    Ok(Json(report))
}
