//! The process itself, and its fleet.

use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use serde::Serialize;

use super::QueryParams;
use crate::Status;
use crate::http::AppState;
use crate::http::health::{Readiness, readiness};
use crate::http::problem::Problem;
use crawlgate_gate::view;
use crawlgate_store as store;
use crawlgate_turns::fleet::overview::FleetView;

pub(super) fn routes() -> Router<AppState> {
    Router::new().route("/status", get(status)).route("/fleet", get(fleet))
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

view! {
    /// The sizes of the store.
    pub(super) struct StoreSize of size: store::Size {
        /// Octets on disk.
        bytes: u64 = size.bytes,
        /// Origins.
        origins: u64 = size.origins,
        /// Texts of robots.txt.
        snapshots: u64 = size.snapshots,
        /// Decisions.
        decisions: u64 = size.decisions,
    }
}

/// Show the status of the process
#[cfg_attr(feature = "openapi", utoipa::path(
    get, path = "/status", tag = "process",
    responses(
        (status = 200, description = "How it is", body = StatusReport),
        (status = "4XX", description = "The request is not valid"),
    ),
))]
pub(super) async fn status(
    State(app): State<AppState>,
    QueryParams(params): QueryParams,
) -> Result<Json<StatusReport>, Problem> {
    params.finish(&[])?;
    let store = match app.store() {
        None => None,
        Some(store) => Some(StoreSize::of(store.size().await?)),
    };
    let places = app.proxy().addresses();
    Ok(Json(StatusReport {
        status: app.process().status(),
        listening: places.iter().map(ToString::to_string).collect(),
        readiness: readiness(app.proxy()).await,
        store,
    }))
}

/// Show the fleet of the process, as it sees it
#[cfg_attr(feature = "openapi", utoipa::path(
    get, path = "/fleet", tag = "process",
    responses(
        (status = 200, description = "How it is", body = FleetView),
        (status = "4XX", description = "The request is not valid, or there is no fleet"),
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
