//! The sitemaps of a robots.txt, on the page of its origin.

use std::sync::Arc;

use super::super::AppState;
use super::super::problem::Problem;
use super::super::sitemaps::{Lines, sitemaps};
use crawlgate_gate::explain::sitemaps::Sitemap;
use crawlgate_origins::state::State;
use crawlgate_robots::Field;
use crawlgate_store::StoredOrigin;

/// The sitemaps of a file, judged for the configured crawler.
pub(super) struct SitemapList {
    /// The crawler: a product token, or `*`.
    pub(super) crawler: String,
    pub(super) items: Vec<Sitemap>,
    /// True if there are more.
    pub(super) has_more: bool,
}

impl SitemapList {
    /// Judges at most `limit` sitemaps of a state's file; none if it has none.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(super) async fn of(
        app: &AppState,
        found: &StoredOrigin,
        state: &Arc<State>,
        limit: usize,
    ) -> Result<Option<SitemapList>, Problem> {
        let file = state.snapshot();
        let mut others = file.into_iter().flat_map(|file| file.robots.others());
        if !others.any(|other| other.field == Field::Sitemap) {
            return Ok(None);
        }
        let lines = Lines::Of(Box::new(found.clone()), Arc::clone(state));
        let part = sitemaps(app, &[], lines, limit).await?;
        let settings = app.proxy().settings();
        let first = settings.agent.product_tokens.first();
        Ok(Some(SitemapList {
            crawler: first.map_or_else(|| "*".to_owned(), ToString::to_string),
            has_more: part.next.is_some(),
            items: part.items,
        }))
    }
}

/// Returns the class that gives an answer its colour: that of a state.
pub(super) fn colour(access: &str) -> &'static str {
    match access {
        "allowed" => "successful",
        "disallowed" => "unreachable",
        _ => "unavailable",
    }
}
