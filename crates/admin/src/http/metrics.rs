//! Metrics for Prometheus: `GET /metrics`.

use std::fmt;

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::header::{ACCEPT, CONTENT_TYPE, VARY};
use http::{HeaderMap, HeaderValue, StatusCode};

use super::AppState;
use super::health::readiness;
use crawlgate_system::metrics::exposition::Format;

/// Returns the routes.
pub fn routes() -> Router<AppState> {
    Router::new().route("/metrics", get(metrics))
}

async fn metrics(State(app): State<AppState>, headers: HeaderMap) -> Response {
    let accept = headers.get_all(ACCEPT).iter();
    let accept: Vec<&str> = accept.filter_map(|value| value.to_str().ok()).collect();
    let format = Format::asked_for(&accept);
    let is_ready = readiness(app.proxy()).await.ready;
    match app.instruments().render(format, is_ready) {
        Ok(body) => {
            let headers = [
                (CONTENT_TYPE, HeaderValue::from_static(format.content_type())),
                (VARY, HeaderValue::from_static("accept")),
            ];
            (headers, body).into_response()
        }
        // Writing to memory does not fail.
        Err(fmt::Error) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}
