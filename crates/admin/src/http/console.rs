//! The console: pages for people who prefer to look rather than read JSON.
//!
//! Every page is rendered here, whole, from the store and the process, and works without script; the one script adds
//! live decisions and a copy button. Pages load nothing from elsewhere. Text from a crawler or a site stays text:
//! templates escape it, and characters that reverse text or control a terminal are spelt out.
//!
//! A page is as fast with a million decisions: lists go by record numbers, a search looks at a limited number of
//! records and then says how far it came, charts use hourly counts. Expensive pages wait for a permit
//! ([`AppState::work_permit`]).
//!
//! `layout` frames a page, `format` and `chart` write its parts; the other modules are a page or two each. `public` is a page
//! for everyone, at another address. A failure is a
//! [`Problem`](super::problem::Problem), which `problem_page` renders as a page for browsers.

mod actions;
mod assets;
mod chart;
mod decision;
mod denials;
mod diff;
mod export;
mod filter;
mod fleet;
mod format;
mod json;
mod layout;
mod live;
mod note;
mod origin;
mod origins;
mod overrides;
mod overview;
mod problem_page;
mod public;
mod report;
mod review;
mod reviewer;
mod rows;
mod setup;
mod sign_out;
mod text;
mod try_url;
mod usage;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::{get, post};

pub use self::problem_page::render_problem;
pub use self::public::{CONNECTIONS as PUBLIC_CONNECTIONS, PublicTry, TryCounts};
use super::{AppState, BODY_WITH_ROBOTS};

/// Returns the routes.
pub fn routes() -> Router<AppState> {
    let with_robots = DefaultBodyLimit::max(BODY_WITH_ROBOTS);
    Router::new()
        .route("/", get(overview::page))
        .route("/denials", get(denials::page))
        .route("/denials/export", get(export::stream))
        .route("/denials/acknowledge", get(review::page).post(review::all))
        .route("/denials/acknowledge/ticked", post(review::ticked))
        .route("/decisions/{id}", get(decision::page))
        .route("/decisions/{id}/evidence.json", get(decision::file))
        .route("/decisions/{id}/acknowledge", post(actions::acknowledge))
        .route("/origins", get(origins::page))
        .route("/origin", get(origin::page))
        .route("/origin/diff", get(diff::page))
        .route("/origin/refresh", post(actions::refresh))
        .route("/origin/forget", get(origin::forget_page).post(actions::forget))
        .route("/robots/{sha256}", get(text::page))
        .route("/overrides", get(overrides::page).post(actions::add_override))
        .route("/overrides/remove", post(actions::remove_override))
        .route("/fleet", get(fleet::page))
        .route("/report", get(report::page))
        .route("/report/crawlgate-report.html", get(report::html))
        .route("/report/crawlgate-report.json", get(report::json))
        .route("/try", get(try_url::page).post(try_url::judge).layer(with_robots))
        .route("/watch", get(live::page))
        .route("/setup", get(setup::page))
        .route("/ca.crt", get(setup::certificate))
        .route("/sign-out", get(sign_out::page))
        .merge(assets::routes())
}
