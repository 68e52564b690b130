//! The process itself.

use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use serde::Serialize;

use super::QueryParams;
use crate::Status;
use crate::http::AppState;
use crate::http::health::{Readiness, readiness};
use crate::http::problem::Problem;

pub(super) fn routes() -> Router<AppState> {
    Router::new().route("/status", get(status))
}

/// The status of the process.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub(super) struct StatusReport {
    #[serde(flatten)]
    status: Status,
    /// The addresses where crawlers connect: TCP ports, paths of Unix sockets.
    listening: Vec<String>,
    /// The readiness to answer requests.
    readiness: Readiness,
    /// The content of the store; none without a store.
    store: Option<StoreSize>,
}

/// The sizes of the store.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub(super) struct StoreSize {
    /// Octets on disk.
    bytes: u64,
    /// Origins.
    origins: u64,
    /// Texts of robots.txt.
    snapshots: u64,
    /// Decisions.
    decisions: u64,
}

/// Show the status of the process
#[cfg_attr(feature = "openapi", utoipa::path(
    get, path = "/status", tag = "process",
    responses(
        (status = 200, description = "How it is", body = StatusReport),
        (status = "4XX", description = "The request is not valid", body = Problem, content_type = "application/problem+json"),
        (status = "5XX", description = "Not now", body = Problem, content_type = "application/problem+json"),
    ),
))]
pub(super) async fn status(
    State(app): State<AppState>,
    QueryParams(params): QueryParams,
) -> Result<Json<StatusReport>, Problem> {
    params.finish(&[])?;
    let store = match app.store() {
        None => None,
        Some(store) => {
            let size = store.size().await?;
            Some(StoreSize {
                bytes: size.bytes,
                origins: size.origins,
                snapshots: size.snapshots,
                decisions: size.decisions,
            })
        }
    };
    let places = app.proxy().addresses();
    Ok(Json(StatusReport {
        status: app.process().status(),
        listening: places.iter().map(ToString::to_string).collect(),
        readiness: readiness(app.proxy()).await,
        store,
    }))
}
