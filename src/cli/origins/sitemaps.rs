//! The Sitemap lines of all origins, page by page, with the answer whether a crawler may fetch each.

use std::io::IsTerminal as _;
use std::sync::Arc;

use clap::Args;

use super::NOTHING;
use crate::admin::view::SitemapEntry;
use crate::cli::screen;
use crate::clock::Moment;
use crate::config::Config;
use crate::explain;
use crate::explain::sitemaps::{Access, Sitemap, Sitemaps};
use crate::policy::Verdict;
use crate::store::Store;

/// Lines to read at once.
const PAGE: usize = 500;

/// Lines to list by default.
const LIMIT: usize = 100;

/// The crawler, the origins, and the form.
#[derive(Args, Clone, Debug)]
pub(super) struct SitemapsArgs {
    /// Product token to judge as, or a whole User-Agent; several are a chain, most specific first
    ///
    /// By default, [agent] product_tokens of the configuration, else the rules for `*`.
    #[arg(long, short, value_name = "TOKEN")]
    agent: Vec<String>,
    /// Only the lines of origins with this text in their name
    #[arg(long, value_name = "TEXT")]
    containing: Option<String>,
    /// Only lines after this origin, or after the place that the list names at its end
    #[arg(long, value_name = "ORIGIN")]
    after: Option<String>,
    /// At most this many lines
    #[arg(long, short = 'n', value_name = "COUNT", default_value_t = LIMIT)]
    limit: usize,
    /// List all lines, page by page
    #[arg(long, conflicts_with = "limit")]
    all: bool,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

/// Writes the list.
pub(super) async fn sitemaps(
    args: &SitemapsArgs,
    store: &dyn Store,
    config: &Config,
    now: Moment,
) -> Result<u8, String> {
    let agent = explain::agent(&args.agent, config).map_err(|error| error.to_string())?;
    let sitemaps = Sitemaps::new(agent, Arc::new(config.clone()), now);
    let containing = args.containing.as_deref();
    let mut left = if args.all { usize::MAX } else { args.limit };
    let mut after = args.after.clone();
    let mut is_first = true;
    while left > 0 {
        let limit = left.min(PAGE);
        let part = sitemaps.after(after.as_deref(), containing, limit, store);
        let part = part.await.map_err(|error| error.to_string())?;
        let mut text = Vec::new();
        if is_first && !args.json && !part.items.is_empty() {
            text.extend(line("ORIGIN", "LINE", "ACCESS", "SITEMAP").bytes());
        }
        for sitemap in &part.items {
            if args.json {
                text.extend(screen::json_line(&SitemapEntry::of(sitemap)));
            } else {
                text.extend(row(sitemap).bytes());
            }
        }
        if !screen::say(&text)? {
            return Ok(0);
        }
        is_first &= part.items.is_empty();
        left -= part.items.len();
        after = part.next;
        if after.is_none() {
            return Ok(if is_first { NOTHING } else { 0 });
        }
    }
    // A hint for people only; scripts have set their limit.
    if let Some(after) = after.filter(|_| std::io::stdout().is_terminal()) {
        screen::say(format!("… there may be more: --after '{after}', or --all\n").as_bytes())?;
    }
    Ok(0)
}

fn row(sitemap: &Sitemap) -> String {
    let about = match &sitemap.access {
        Access::Judged {
            reason,
            rule,
            judged_as,
            is_stale,
        } => {
            let mut grounds = Vec::new();
            match rule {
                Some(rule) => grounds.push(format!("{} (line {})", rule.text, rule.line)),
                None if reason.verdict() != Verdict::Allow => {
                    grounds.push(reason.info().meaning.to_owned());
                }
                None => {}
            }
            if *is_stale {
                grounds.push(format!("by a stale copy, fetched as {judged_as}"));
            }
            grounds.join("; ")
        }
        Access::Unknown => "the robots.txt of its origin is not known".to_owned(),
        Access::Invalid(why) => why.clone(),
    };
    let url = match about.as_str() {
        "" => sitemap.url.clone(),
        about => format!("{}  {about}", sitemap.url),
    };
    let number = sitemap.line.to_string();
    let access = sitemap.access.as_str();
    line(sitemap.origin.as_str(), &number, access, &url)
}

fn line(origin: &str, number: &str, access: &str, url: &str) -> String {
    let origin = screen::printable(origin);
    let url = screen::printable(url);
    format!("{origin:<40} {number:>5}  {access:<10}  {url}\n")
}
