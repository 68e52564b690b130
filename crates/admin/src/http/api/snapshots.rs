//! Texts of robots.txt that were in force, and the changes between two of them.

use std::time::Duration;

use axum::Router;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::header::CONTENT_TYPE;
use similar::TextDiff;
use tokio::task::spawn_blocking;

use super::QueryParams;
use crate::http::AppState;
use crate::http::problem::Problem;
use crawlgate_robots::decoded;
use crawlgate_store::Sha256;

/// Lines shown around a change.
const CONTEXT: usize = 3;

/// Time that a comparison may look for the shortest edit; then it takes a longer one.
const TIMEOUT: Duration = Duration::from_millis(500);

pub(super) fn routes() -> Router<AppState> {
    Router::new()
        .route("/snapshots/{sha256}", get(text))
        .route("/snapshots/{sha256}/diff/{to}", get(diff))
}

/// Reads a digest of 64 hexadecimal digits.
fn digest(text: &str) -> Result<Sha256, Problem> {
    let wrong = || Problem::bad(format!("{text}: a digest has 64 hexadecimal digits"));
    crawlgate_text::from_hex(text).ok_or_else(wrong)
}

async fn find(app: &AppState, text: &str) -> Result<Vec<u8>, Problem> {
    let sha256 = digest(text)?;
    let found = app.require_store()?.snapshot(sha256).await?;
    found.ok_or_else(|| Problem::missing(format!("{text}: no such robots.txt is in the store")))
}

fn plain(text: Vec<u8>) -> Response {
    ([(CONTENT_TYPE, "text/plain; charset=utf-8")], text).into_response()
}

/// The text of a robots.txt that was in force, octet for octet
#[cfg_attr(feature = "openapi", utoipa::path(
    get, path = "/snapshots/{sha256}", tag = "origins",
    params(("sha256" = String, Path, description = "Its SHA-256, in hexadecimal", pattern = "^[0-9a-fA-F]{64}$")),
    responses(
        (status = 200, description = "The text", body = String, content_type = "text/plain; charset=utf-8"),
        (status = "4XX", description = "There is no such text, or the digest is not valid"),
    ),
))]
pub(super) async fn text(
    State(app): State<AppState>,
    Path(sha256): Path<String>,
    QueryParams(params): QueryParams,
) -> Result<Response, Problem> {
    params.finish(&[])?;
    Ok(plain(find(&app, &sha256).await?))
}

/// The changes from one robots.txt to another, in the unified format
#[cfg_attr(feature = "openapi", utoipa::path(
    get, path = "/snapshots/{sha256}/diff/{to}", tag = "origins",
    params(
        ("sha256" = String, Path, description = "SHA-256 of the first text, in hexadecimal", pattern = "^[0-9a-fA-F]{64}$"),
        ("to" = String, Path, description = "SHA-256 of the other", pattern = "^[0-9a-fA-F]{64}$"),
    ),
    responses(
        (status = 200, description = "The difference; empty for equal texts", body = String, content_type = "text/plain; charset=utf-8"),
        (status = "4XX", description = "There is no such text, or a digest is not valid"),
    ),
))]
pub(super) async fn diff(
    State(app): State<AppState>,
    Path((from, to)): Path<(String, String)>,
    QueryParams(params): QueryParams,
) -> Result<Response, Problem> {
    params.finish(&[])?;
    let _permit = app.work_permit().await?;
    let (old, new) = (find(&app, &from).await?, find(&app, &to).await?);
    let compared = spawn_blocking(move || {
        let (old, new) = (decoded(&old), decoded(&new));
        let (old, new) = (String::from_utf8_lossy(&old), String::from_utf8_lossy(&new));
        TextDiff::configure()
            .timeout(TIMEOUT)
            .diff_lines(&*old, &*new)
            .unified_diff()
            .context_radius(CONTEXT)
            .header(&from, &to)
            .to_string()
    });
    let compared = compared.await;
    let compared = compared.map_err(|_| Problem::busy("the comparison was cut off"))?;
    Ok(plain(compared.into_bytes()))
}
