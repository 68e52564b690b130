//! The log of this process as the files of c2sp.org/tlog-tiles, for monitors and mirrors.
//!
//! A file is made when it is asked for, of the tree of the newest checkpoint: what no checkpoint covers may still vanish.
//! A reader checks the note and the hashes itself.

use axum::Router;
use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use http::StatusCode;
use http::header::CONTENT_TYPE;

use super::AppState;
use super::problem::Problem;
use crawlgate_evidence::tiles::{self, TilesError};
use crawlgate_tlog::Resource;

/// Returns the route.
pub fn routes() -> Router<AppState> {
    Router::new().route("/tlog/{*path}", get(file))
}

async fn file(State(app): State<AppState>, Path(path): Path<String>) -> Result<Response, Problem> {
    let store = app.require_store()?;
    let Some(resource) = Resource::parse(&path) else {
        let why = "no file of the log has this path; there are /tlog/checkpoint, /tlog/tile/L/N[.p/W] and \
                   /tlog/tile/entries/N[.p/W]";
        return Err(Problem::missing(why));
    };
    let _permit = app.work_permit().await?;
    if resource == Resource::Checkpoint {
        let newest = store.checkpoints().await?.pop();
        let why =
            "the log has no checkpoint yet; [audit] checkpoint_every says how often one is signed";
        let newest = newest.ok_or_else(|| Problem::missing(why))?;
        return Ok(([(CONTENT_TYPE, "text/plain; charset=utf-8")], newest.note).into_response());
    }
    // No log has that size, so there is no wait.
    let size = store.signed(u64::MAX).await?;
    let content = tiles::content(store, resource, size).await?;
    let why = || {
        format!(
            "the tree of {size} records, which the newest checkpoint covers, has no such file, or retention has dropped \
             its records"
        )
    };
    let content = content.ok_or_else(|| Problem::missing(why()))?;
    Ok(([(CONTENT_TYPE, "application/octet-stream")], content).into_response())
}

impl From<TilesError> for Problem {
    fn from(error: TilesError) -> Problem {
        match error {
            TilesError::Store(error) => error.into(),
            error => Problem::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
        }
    }
}
