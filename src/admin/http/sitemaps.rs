//! The Sitemap lines of the known robots.txt, as the API and the console give them.

use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::task::spawn_blocking;

use super::Site;
use super::problem::Problem;
use crate::explain;
use crate::explain::sitemaps::{Sitemaps, Stretch};
use crate::store::OriginMemory;

/// The lines to judge.
#[derive(Debug)]
pub(super) enum Lines {
    /// Those of all origins, after a place.
    After {
        /// The place: an origin, or the end of the part before.
        place: Option<String>,
        /// A part of the names of the origins.
        containing: Option<String>,
    },
    /// Those of one file.
    Of(Box<OriginMemory>),
}

/// Returns at most `limit` lines, judged for the crawler that these names identify; without names, for the configured one.
///
/// # Errors
/// When a name is no product token and no User-Agent, or the store cannot be read.
pub(super) async fn sitemaps(
    site: &Site,
    agents: &[String],
    lines: Lines,
    limit: usize,
) -> Result<Stretch, Problem> {
    let settings = site.proxy().settings();
    let agent =
        explain::agent(agents, &settings).map_err(|why| Problem::bad(format!("agent: {why}")))?;
    let sitemaps = Sitemaps::new(agent, settings, site.now());
    let store = Arc::clone(site.kept()?);
    let _turn = site.turn().await?;
    let runtime = Handle::current();
    // Long files and long paths take a while.
    let judging = spawn_blocking(move || {
        runtime.block_on(async {
            match &lines {
                Lines::After { place, containing } => {
                    let (place, containing) = (place.as_deref(), containing.as_deref());
                    sitemaps.after(place, containing, limit, &*store).await
                }
                Lines::Of(found) => sitemaps.of(found, limit, &*store).await,
            }
        })
    });
    let judged = judging.await;
    Ok(judged.map_err(|_| Problem::busy("the judgement was cut off"))??)
}
