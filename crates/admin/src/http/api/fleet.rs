//! The fleet of the process.

use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};

use super::QueryParams;
use crate::http::AppState;
use crate::http::problem::Problem;
use crawlgate_turns::fleet::overview::FleetView;

pub(super) fn routes() -> Router<AppState> {
    Router::new().route("/fleet", get(fleet))
}

/// Show the fleet of the process, as it sees it
#[cfg_attr(feature = "openapi", utoipa::path(
    get, path = "/fleet", tag = "process",
    responses(
        (status = 200, description = "How it is", body = FleetView),
        (status = "4XX", description = "The request is not valid, or there is no fleet", body = Problem, content_type = "application/problem+json"),
        (status = "5XX", description = "Not now", body = Problem, content_type = "application/problem+json"),
    ),
))]
pub(super) async fn fleet(
    State(app): State<AppState>,
    QueryParams(params): QueryParams,
) -> Result<Json<FleetView>, Problem> {
    params.finish(&[])?;
    let alone = || Problem::missing("this instance is not in a fleet: there is no [fleet] engine");
    app.process().fleet().await.map(Json).ok_or_else(alone)
}
