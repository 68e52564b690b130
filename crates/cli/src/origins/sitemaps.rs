//! The Sitemap lines of all origins, page by page, with the answer whether a crawler may fetch each.

use std::sync::Arc;

use clap::Args;

use super::StateName;
use super::paging::{Paging, Part};
use crate::{Failure, terminal};
use crawlgate_admin::view::SitemapEntry;
use crawlgate_config::Config;
use crawlgate_gate::explain;
use crawlgate_gate::explain::sitemaps::{OriginFilter, Sitemap, Sitemaps};
use crawlgate_store::Store;
use crawlgate_system::clock::Moment;

/// The crawler, the origins, and the form.
#[derive(Args, Clone, Debug)]
pub(super) struct SitemapsArgs {
    /// Product token to judge as, or a whole User-Agent; several are a chain, most specific first
    ///
    /// By default, [agent] product_tokens of the configuration, else the rules for `*`.
    #[arg(long, short, value_name = "TOKEN")]
    agent: Vec<String>,
    /// Only lines of a robots.txt in this state
    #[arg(long, value_name = "STATE")]
    state: Option<StateName>,
    #[command(flatten)]
    paging: Paging,
}

/// Writes the list.
pub(super) async fn sitemaps(
    args: &SitemapsArgs,
    store: &Store,
    config: &Config,
    now: Moment,
) -> Result<u8, Failure> {
    let agent = explain::agent(&args.agent, config)?;
    let sitemaps = Sitemaps::new(agent, Arc::new(config.clone()), now);
    let paging = &args.paging;
    let wanted = OriginFilter {
        containing: paging.containing.clone(),
        state: args.state.map(|state| state.as_str().to_owned()),
    };
    let part = async |after: Option<String>, limit| {
        let part = sitemaps.after(after.as_deref(), &wanted, limit, store);
        let part = part.await?;
        let lines = part.items.iter().map(|sitemap| {
            if paging.json {
                terminal::json_line(&SitemapEntry::of(sitemap))
            } else {
                row(sitemap).into_bytes()
            }
        });
        Ok(Part { lines: lines.collect(), next: part.next })
    };
    let heading = line("ORIGIN", "LINE", "ACCESS", "SITEMAP");
    paging.print(&heading, part).await
}

fn row(sitemap: &Sitemap) -> String {
    let about = sitemap.access.about();
    let url = match about.as_str() {
        "" => sitemap.url.clone(),
        about => format!("{}  {about}", sitemap.url),
    };
    let number = sitemap.line.to_string();
    let access = sitemap.access.as_str();
    line(sitemap.origin.as_str(), &number, access, &url)
}

fn line(origin: &str, number: &str, access: &str, url: &str) -> String {
    let origin = terminal::printable(origin);
    let url = terminal::printable(url);
    format!("{origin:<40} {number:>5}  {access:<10}  {url}\n")
}
