//! The Sitemap lines of the known robots.txt, as the API and the console give them.

use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::task::spawn_blocking;

use super::AppState;
use super::problem::Problem;
use crawlgate_gate::explain;
use crawlgate_gate::explain::sitemaps::{OriginFilter, SitemapPage, Sitemaps};
use crawlgate_origins::state::State;
use crawlgate_store::StoredOrigin;

/// The lines to judge.
#[derive(Debug)]
pub(super) enum Lines {
    /// Those of the wanted origins, after a place: an origin, or the end of the part before.
    After(Option<String>, OriginFilter),
    /// Those of the file of one state.
    Of(Box<StoredOrigin>, Arc<State>),
}

/// Returns at most `limit` lines, judged for the crawler that these names identify; without names, for the configured one.
///
/// # Errors
/// When a name is no product token and no User-Agent, or the store cannot be read.
pub(super) async fn sitemaps(
    app: &AppState,
    agents: &[String],
    lines: Lines,
    limit: usize,
) -> Result<SitemapPage, Problem> {
    let settings = app.proxy().settings();
    let agent =
        explain::agent(agents, &settings).map_err(|why| Problem::bad(format!("agent: {why}")))?;
    let sitemaps = Sitemaps::new(agent, settings, app.now());
    let store = Arc::clone(app.require_store()?);
    let _permit = app.work_permit().await?;
    let runtime = Handle::current();
    // Long files and long paths take a while.
    let judging = spawn_blocking(move || {
        runtime.block_on(async {
            match &lines {
                Lines::After(place, wanted) => {
                    let place = place.as_deref();
                    sitemaps.after(place, wanted, limit, &store).await
                }
                Lines::Of(found, state) => {
                    let state = Arc::clone(state);
                    sitemaps.of(found, state, limit, &store).await
                }
            }
        })
    });
    let judged = judging.await;
    Ok(judged.map_err(|_| Problem::busy("the judgement was cut off"))??)
}
