//! The console: pages for people.

use axum::Router;

use super::Site;

/// Its routes.
pub fn routes() -> Router<Site> {
    Router::new()
}
