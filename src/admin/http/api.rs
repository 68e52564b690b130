//! The API, under `/api/v1`.

use axum::Router;

use super::Site;

/// Its routes.
pub fn routes() -> Router<Site> {
    Router::new()
}
