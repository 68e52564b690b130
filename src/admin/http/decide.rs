//! The decision service: other proxies ask whether a URL may be fetched.

use axum::Router;

use super::Site;

/// Its routes.
pub fn routes() -> Router<Site> {
    Router::new()
}
