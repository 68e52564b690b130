//! The admin side over HTTP: health, metrics, the API, the console, and the decision service.
//!
//! The admin side has a separate listener, off the proxy's port, and never touches a request that the proxy carries:
//! it reads the store and counters. Its use of resources is bounded: connections, the octets and the time of a request,
//! expensive requests, and readers of the live feed.
//!
//! `listener` accepts if `connections` has a free slot → `guard` checks the request and its credentials (`access`) → a page
//! answers if the sender's role allows it → `guard` sets the headers. Each failure is a `problem`.

mod access;
mod api;
mod app_state;
pub(super) mod connections;
mod console;
mod decide;
mod directory;
pub mod form;
mod framing_filter;
mod guard;
pub mod health;
mod instruments;
mod judge;
pub(super) mod listener;
mod logs;
mod metrics;
mod open_denials;
pub mod problem;
mod proof;
mod refusals;
mod report;
mod sitemaps;
mod tlog;
mod token;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn_with_state;

pub use self::access::Actor;
pub use self::app_state::{AppState, BODY, BODY_WITH_ROBOTS};
pub use self::console::{PUBLIC_CONNECTIONS, PublicTry, TryCounts};
pub use self::listener::{BindError, Certificate, CertificateError, Listener, ListenerKind};
pub use self::token::{Token, TokenError};

/// Returns the router of all pages.
pub fn router(app: AppState) -> Router {
    let bounded = from_fn_with_state(app.clone(), connections::bound_decisions);
    Router::new()
        .merge(health::routes())
        .merge(directory::routes())
        .merge(metrics::routes())
        .merge(api::routes())
        .merge(tlog::routes())
        .merge(decide::routes().route_layer(bounded))
        .merge(console::routes())
        .fallback(problem::not_found)
        .method_not_allowed_fallback(problem::not_allowed)
        .layer(from_fn_with_state(app.clone(), guard::authorise))
        .layer(axum::middleware::from_fn(connections::limit_spare_slots))
        .layer(DefaultBodyLimit::max(BODY))
        .layer(axum::middleware::from_fn(problem::rewrite))
        .layer(from_fn_with_state(app.clone(), console::render_problem))
        .layer(from_fn_with_state(app.clone(), guard::admit))
        .with_state(app)
}
