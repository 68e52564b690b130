//! The Sitemap lines of all known origins, each with the answer whether a crawler may fetch it.
//!
//! A Sitemap holds for the whole file, whatever group it stands in, and may name any host. So the robots.txt of the
//! sitemap's own origin judges it. The store has all of that: nothing is fetched for the answer, and an origin that the
//! store does not know leaves it open. The command and the API read the list page by page, the console that of one file.

mod access;

use std::collections::HashMap;
use std::sync::Arc;

use tracing::warn;

pub use self::access::{Access, OriginFilter};
use super::{SitemapError, target};
use crawlgate_config::{Config, Mode};
use crawlgate_origins::document::Document;
use crawlgate_origins::identity::{Crawler, Identity};
use crawlgate_origins::state::{Stance, State};
use crawlgate_policy::agent::Agent;
use crawlgate_policy::{self as policy, Reason, Target};
use crawlgate_robots::{Field, Origin};
use crawlgate_store::persist::from_stored;
use crawlgate_store::{OriginQuery, Store, StoreError, StoredOrigin};
use crawlgate_system::clock::Moment;

/// States to read at once.
const STATES: usize = 100;

/// Octets of robots.txt after which a page ends, so that a file with few Sitemap lines or none costs no page much.
const MAX_READ: u64 = 8 << 20;

/// A Sitemap line, judged.
#[derive(Debug)]
pub struct Sitemap {
    /// The origin of the file with the line.
    pub origin: Origin,
    /// The identity that got the file.
    pub identity: Identity,
    /// The line's number, from 1.
    pub line: u32,
    /// The value of the line, lossily decoded.
    pub url: String,
    /// The crawler's access to it.
    pub access: Access,
}

/// A part of the list.
#[derive(Debug)]
pub struct SitemapPage {
    /// The lines.
    pub items: Vec<Sitemap>,
    /// The place after which the next part begins; `None` at the end of the list.
    pub next: Option<String>,
}

/// The crawler that asks, and the settings that judge it.
#[derive(Debug)]
pub struct Sitemaps {
    agent: Arc<Agent>,
    identity: Identity,
    config: Arc<Config>,
    now: Moment,
}

/// The robots.txt of the origin of a sitemap.
struct Known {
    state: Arc<State>,
    stance: Stance,
    identity: Identity,
    is_stale: bool,
}

/// The reading so far for one part of the list.
#[derive(Default)]
struct Reading {
    items: Vec<Sitemap>,
    octets: u64,
    /// The robots.txt by origin; none where it is not known.
    known: HashMap<Origin, Option<Known>>,
    /// The state that was read last, with its file, by its place.
    last: Option<(String, Arc<State>)>,
}

impl Sitemaps {
    /// Returns the list for a crawler.
    #[must_use]
    pub fn new(agent: Arc<Agent>, config: Arc<Config>, now: Moment) -> Sitemaps {
        Sitemaps { identity: Crawler::named(&agent.tokens).identity(), agent, config, now }
    }

    /// Returns at most `limit` lines of the wanted origins after a place: an origin, or [`SitemapPage::next`].
    ///
    /// A part may have fewer lines, even none, before the end of the list: reading is bounded, too.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn after(
        &self,
        place: Option<&str>,
        wanted: &OriginFilter,
        limit: usize,
        store: &Store,
    ) -> Result<SitemapPage, StoreError> {
        let mut reading = Reading::default();
        let mut after = place.map(str::to_owned);
        if let Some((state, line)) = place.and_then(line_of) {
            after = Some(state.to_owned());
            let begun = state.split_once(' ').and_then(|(origin, _)| {
                let (origin, _) = Origin::parse(origin).ok()?;
                Some(origin)
            });
            let states = match begun {
                Some(origin) => store.origin(&origin).await?,
                None => Vec::new(),
            };
            if let Some(found) = states.iter().find(|found| found.place() == state)
                && let next = self.read(found, line, wanted, limit, &mut reading, store)
                && let Some(next) = next.await?
            {
                return Ok(reading.into_page(Some(next)));
            }
        }
        loop {
            let query = OriginQuery {
                after: after.clone(),
                containing: wanted.containing.clone(),
                state: wanted.state.clone(),
                limit: STATES,
            };
            let page = store.origins(query).await?;
            for found in &page {
                let next = self.read(found, 0, wanted, limit, &mut reading, store);
                if let Some(next) = next.await? {
                    return Ok(reading.into_page(Some(next)));
                }
            }
            match page.last() {
                Some(last) if page.len() == STATES => after = Some(last.place()),
                _ => return Ok(reading.into_page(None)),
            }
        }
    }

    /// Returns at most `limit` lines of one state's file, also if another identity got the same one.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn of(
        &self,
        found: &StoredOrigin,
        state: Arc<State>,
        limit: usize,
        store: &Store,
    ) -> Result<SitemapPage, StoreError> {
        let mut reading = Reading { last: Some((found.place(), state)), ..Reading::default() };
        let lines = self.lines(found, 0, limit, &mut reading, store).await?;
        let next = self.judge_lines(found, lines, 0, limit, &mut reading, store);
        let next = next.await?;
        Ok(reading.into_page(next))
    }

    /// Reads the lines of a state's file after a line. Returns the place to go on from if this part of the list is full.
    async fn read(
        &self,
        found: &StoredOrigin,
        after: u32,
        wanted: &OriginFilter,
        limit: usize,
        reading: &mut Reading,
        store: &Store,
    ) -> Result<Option<String>, StoreError> {
        let lines = self.lines(found, after, limit, reading, store).await?;
        if !lines.is_empty() && !is_repeated(found, wanted, store).await? {
            let next = self.judge_lines(found, lines, after, limit, reading, store);
            if let Some(next) = next.await? {
                return Ok(Some(next));
            }
        }
        let is_over = reading.items.len() >= limit || reading.octets >= MAX_READ;
        Ok(is_over.then(|| found.place()))
    }

    /// Returns the numbers and values of the lines of a state's file after a line: one more than fits tells that the list
    /// continues.
    async fn lines(
        &self,
        found: &StoredOrigin,
        after: u32,
        limit: usize,
        reading: &mut Reading,
        store: &Store,
    ) -> Result<Vec<(u32, Vec<u8>)>, StoreError> {
        let is_robots = found.identity.document() == Document::RobotsTxt;
        if !is_robots || found.state.copy().is_none() {
            return Ok(Vec::new());
        }
        let Some(state) = self.state(found, reading, store).await? else {
            return Ok(Vec::new());
        };
        let others = state.snapshot().into_iter().flat_map(|file| {
            let others = file.robots.others();
            others.filter(|other| other.field == Field::Sitemap && other.line > after)
        });
        let others = others.take(limit.saturating_add(1));
        Ok(others.map(|other| (other.line, other.value.to_vec())).collect())
    }

    /// Judges lines. Returns the place of the last one that fits if more are left.
    async fn judge_lines(
        &self,
        found: &StoredOrigin,
        lines: Vec<(u32, Vec<u8>)>,
        mut done: u32,
        limit: usize,
        reading: &mut Reading,
        store: &Store,
    ) -> Result<Option<String>, StoreError> {
        for (line, value) in lines {
            if reading.is_full(limit) {
                return Ok(Some(format!("{} {done}", found.place())));
            }
            done = line;
            let access = self.access(&value, reading, store).await?;
            reading.items.push(Sitemap {
                origin: found.origin.clone(),
                identity: found.identity.clone(),
                line,
                url: String::from_utf8_lossy(&value).into_owned(),
                access,
            });
        }
        Ok(None)
    }

    /// Returns the state with its file; none if the store has lost the file.
    async fn state(
        &self,
        found: &StoredOrigin,
        reading: &mut Reading,
        store: &Store,
    ) -> Result<Option<Arc<State>>, StoreError> {
        let place = found.place();
        if let Some((last, state)) = &reading.last
            && *last == place
        {
            return Ok(Some(Arc::clone(state)));
        }
        let text = match found.state.copy() {
            Some(copy) => store.snapshot(copy.sha256).await?,
            None => None,
        };
        reading.octets += text.as_ref().map_or(0, |text| text.len() as u64);
        let state = from_stored(&found.state, text.as_deref(), self.config.robots.lenient);
        Ok(match state {
            Ok(state) => {
                let (_, state) = reading.last.insert((place, Arc::new(state)));
                Some(Arc::clone(state))
            }
            Err(broken) => {
                let origin = &found.origin;
                warn!(%origin, "its robots.txt is left aside: {broken}; `crawlgate store check` tells more");
                None
            }
        })
    }

    async fn access(
        &self,
        value: &[u8],
        reading: &mut Reading,
        store: &Store,
    ) -> Result<Access, StoreError> {
        let target = match read_url(value) {
            Ok(target) => target,
            Err(why) => return Ok(Access::Invalid(why)),
        };
        if !reading.known.contains_key(&target.origin) {
            let known = self.known(&target.origin, reading, store).await?;
            reading.known.insert(target.origin.clone(), known);
        }
        let known = reading.known.get(&target.origin);
        Ok(match known.and_then(Option::as_ref) {
            Some(known) => self.judge(target, known),
            None => Access::Unknown,
        })
    }

    /// Returns the robots.txt of an origin: the one that the crawler itself got, otherwise that of `*`, otherwise the
    /// first one.
    async fn known(
        &self,
        origin: &Origin,
        reading: &mut Reading,
        store: &Store,
    ) -> Result<Option<Known>, StoreError> {
        let mut all = store.origin(origin).await?;
        all.retain(|one| one.identity.document() == Document::RobotsTxt);
        let own = all.iter().find(|one| one.identity == self.identity);
        let common = || all.iter().find(|one| one.identity.is_common());
        let Some(found) = own.or_else(common).or(all.first()) else {
            return Ok(None);
        };
        let state = self.state(found, reading, store).await?;
        Ok(state.map(|state| {
            let profile = &self.config.robots.timing.profile;
            let stance = state.stance(self.now, profile);
            let is_stale = matches!(stance, Stance::Unknown);
            Known {
                stance: match (stance, &*state) {
                    (Stance::Unknown, State::Successful { snapshot, .. }) => {
                        Stance::Rules(Arc::clone(snapshot))
                    }
                    (Stance::Unknown, State::Unavailable { .. }) => Stance::AllowAll,
                    (stance, _) => stance,
                },
                state,
                identity: found.identity.clone(),
                is_stale,
            }
        }))
    }

    fn judge(&self, target: Target, known: &Known) -> Access {
        let mode = Mode::Enforce;
        let ruling = policy::clear_robots_txt(target, mode, self.now).unwrap_or_else(|target| {
            let settings = self.config.robots.settings(mode);
            let Known { state, stance, .. } = known;
            policy::decide(target, &self.agent, state, stance, settings, self.now)
        });
        let decision = ruling.into_decision();
        match decision.reason {
            Reason::RobotsPending => Access::Unknown,
            reason => Access::Judged {
                reason,
                rule: decision.rule,
                judged_as: known.identity.clone(),
                is_stale: known.is_stale,
            },
        }
    }
}

impl Reading {
    /// Tells whether no line fits any more. The first one always does, so that each part of the list gets ahead.
    fn is_full(&self, limit: usize) -> bool {
        let is_costly = self.octets >= MAX_READ && !self.items.is_empty();
        self.items.len() >= limit || is_costly
    }

    fn into_page(self, next: Option<String>) -> SitemapPage {
        SitemapPage { items: self.items, next }
    }
}

/// Tells whether an identity before this one got the same file, so that its lines are listed already.
async fn is_repeated(
    found: &StoredOrigin,
    wanted: &OriginFilter,
    store: &Store,
) -> Result<bool, StoreError> {
    let digest = |one: &StoredOrigin| one.state.copy().map(|copy| copy.sha256);
    let name = found.identity.to_string();
    let all = store.origin(&found.origin).await?;
    Ok(all.iter().any(|other| {
        other.identity.document() == Document::RobotsTxt
            && wanted.is_state(&other.state)
            && digest(other) == digest(found)
            && other.identity.to_string() < name
    }))
}

/// Splits the place of a line into the place of its state and its number.
fn line_of(place: &str) -> Option<(&str, u32)> {
    let (state, line) = place.rsplit_once(' ')?;
    let line = line.parse().ok()?;
    state.contains(' ').then_some((state, line))
}

/// Reads the value of a Sitemap line.
fn read_url(value: &[u8]) -> Result<Target, SitemapError> {
    match value {
        [] => Err(SitemapError::Empty),
        value => Ok(target(str::from_utf8(value)?)?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::{agent, file, view};

    /// A name, the crawler, the value of the line, the answer, and the line of the rule.
    type Case<'a> = (&'a str, &'a str, &'a [u8], &'a str, Option<u32>);

    #[test]
    fn a_sitemap_is_judged_by_the_file_of_its_own_origin() {
        let config = Arc::new(Config::default());
        let now = Moment::from_millis(1_790_000_000_000);
        let text = b"User-agent: shop\nDisallow: /news\n\nUser-agent: *\nDisallow: /shop\n";
        let snapshot = file(text, "robots.txt", &config.robots, now);
        let view = view(&snapshot, &config.robots, now);
        let known = Known {
            state: view.state,
            stance: view.stance,
            identity: Identity::default(),
            is_stale: false,
        };
        #[rustfmt::skip] // one row, one case
        let cases: &[Case<'_>] = &[
            ("no rule matches", "*", b"https://a.example/map.xml", "allowed", None),
            ("a rule", "*", b"https://a.example/shop.xml", "disallowed", Some(5)),
            ("a rule for others", "*", b"https://a.example/news.xml", "allowed", None),
            ("a rule for the crawler", "Shop", b"https://a.example/news.xml", "disallowed", Some(2)),
            ("a path in another spelling", "*", b"https://a.example/%73hop.xml", "disallowed", Some(5)),
            ("robots.txt itself", "*", b"https://a.example/robots.txt", "allowed", None),
            ("ftp", "*", b"ftp://a.example/map.xml", "allowed", None),
            ("a scheme in upper case", "*", b"HTTPS://a.example/shop", "disallowed", Some(5)),
            ("relative", "*", b"/map.xml", "invalid", None),
            ("without a scheme", "*", b"a.example/map.xml", "invalid", None),
            ("empty", "*", b"", "invalid", None),
            ("another scheme", "*", b"gopher://a.example/map.xml", "invalid", None),
            ("a space", "*", b"https://a.example/a b", "invalid", None),
            ("no UTF-8", "*", b"https://a.example/\xff", "invalid", None),
        ];
        for (name, crawler, value, expected, line) in cases {
            let agent = agent(&[(*crawler).to_owned()], &config).expect("an agent");
            let sitemaps = Sitemaps::new(agent, Arc::clone(&config), now);
            let access = match read_url(value) {
                Ok(target) => sitemaps.judge(target, &known),
                Err(why) => Access::Invalid(why),
            };
            assert_eq!(access.as_str(), *expected, "{name}: {access:?}");
            let found = match access {
                Access::Judged { rule, .. } => rule.map(|rule| rule.line),
                Access::Unknown | Access::Invalid(_) => None,
            };
            assert_eq!(found, *line, "{name}");
        }
    }

    #[test]
    fn the_place_of_a_line_is_told_from_that_of_an_origin() {
        for (place, expected) in [
            ("http://a.example", None),
            ("http://a.example *", None),
            ("http://a.example 7", None),
            ("http://a.example * 7", Some(("http://a.example *", 7))),
            ("http://a.example 7 8", Some(("http://a.example 7", 8))),
        ] {
            assert_eq!(line_of(place), expected, "{place}");
        }
    }
}
