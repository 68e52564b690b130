//! The console: pages for people who would rather look than read.
//!
//! Every page is made here, whole, from what the store and the process hold, and works without script; the one script
//! adds what only a script can: decisions as they happen, and a button that copies. Nothing comes from elsewhere.
//! Whatever a crawler or a site has sent is text: it is escaped by the templates, and what would turn it around or drive
//! a terminal is spelt out.
//!
//! No page is slower for there being a million decisions: lists go by places in the order of writing, a search looks at
//! so many records and then says how far it came, charts are drawn from counts by the hour. What goes the longest ways
//! takes its turn ([`Site::turn`]).
//!
//! `shell` frames a page, `words` and `chart` write its parts; the other modules are a page or two each. What fails is a
//! [`Problem`](super::problem::Problem), and `dress` makes a page of it for whoever looks with a browser.

mod act;
mod assets;
mod chart;
mod decision;
mod denials;
mod diff;
mod dress;
mod explained;
mod export;
mod filter;
mod json;
mod live;
mod origin;
mod origins;
mod overrides;
mod overview;
mod rows;
mod setup;
mod shell;
mod text;
mod trial;
mod words;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::{get, post};

pub use self::dress::dress;
use super::{BODY_WITH_ROBOTS, Site};

/// Its routes.
pub fn routes() -> Router<Site> {
    let with_robots = DefaultBodyLimit::max(BODY_WITH_ROBOTS);
    let trial = get(trial::page).post(trial::judge).layer(with_robots);
    Router::new()
        .route("/", get(overview::page))
        .route("/denials", get(denials::page))
        .route("/denials/export", get(export::stream))
        .route("/decisions/{id}", get(decision::page))
        .route("/decisions/{id}/acknowledge", post(act::acknowledge))
        .route("/origins", get(origins::page))
        .route("/origin", get(origin::page))
        .route("/origin/diff", get(diff::page))
        .route("/origin/refresh", post(act::refresh))
        .route("/origin/forget", get(origin::forget_page).post(act::forget))
        .route("/robots/{sha256}", get(text::page))
        .route("/overrides", get(overrides::page).post(act::add_override))
        .route("/overrides/remove", post(act::remove_override))
        .route("/try", trial)
        .route("/watch", get(live::page))
        .route("/setup", get(setup::page))
        .route("/ca.crt", get(setup::certificate))
        .merge(assets::routes())
}
