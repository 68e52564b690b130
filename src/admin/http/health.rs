//! Whether the process lives, and whether it is ready.

use axum::Router;

use super::Site;

/// Its routes.
pub fn routes() -> Router<Site> {
    Router::new()
}
