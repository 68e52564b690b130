//! The page of one origin: its state, its pace, its robots.txt, the last fetches, and actions.

use std::sync::Arc;

use askama::Template;
use axum::extract::{RawQuery, State};

use super::super::problem::Problem;
use super::super::sitemaps::{Lines, sitemaps};
use super::super::{Actor, AppState};
use super::denials::origin_link;
use super::filter::params;
use super::format::{Fact, Timestamp, encoded, number};
use super::layout::{Layout, Page, PageResult, Section};
use super::origins::state_link;
use super::text::Text;
use crate::query;
use crawlgate_gate::explain::contents::File;
use crawlgate_gate::explain::sitemaps::Sitemap;
use crawlgate_gate::explain::states::{about, at_a_request, cause, lives, other_answer, stance};
use crawlgate_origins::document::Document;
use crawlgate_policy::overrides::Override;
use crawlgate_robots::{Field, Origin};
use crawlgate_store::persist::from_stored;
use crawlgate_store::{FETCHES_KEPT, Fetch, StoredOrigin, StoredState};
use crawlgate_system::clock::Moment;
use crawlgate_text::hex;
use crawlgate_usage::robots_fields;

/// Fields of a file to list; the others are counted.
const LISTED: usize = 50;

#[derive(Template)]
#[template(path = "origin.html", config = "src/http/console/askama.toml")]
pub(super) struct OriginPage {
    layout: Layout,
    name: String,
    link: String,
    done: Option<&'static str>,
    is_bad: bool,
    known: Option<OriginState>,
    overrides: Vec<Override>,
    pace: Vec<Fact>,
    is_kept: bool,
}

/// The state of an origin.
struct OriginState {
    found: StoredOrigin,
    all: Vec<StoredOrigin>,
    facts: Vec<Fact>,
    file: File,
    /// The fields about use, each with the number of its lines.
    uses: Vec<(&'static str, usize)>,
    sitemaps: Option<SitemapList>,
    text: Option<Text>,
    fetches: Vec<Fetch>,
    versions: Vec<Version>,
}

/// A robots.txt that was in force.
struct Version {
    sha256: String,
    since: String,
    is_old: bool,
    is_new: bool,
}

/// `/origin?of=…`
pub(super) async fn page(
    State(app): State<AppState>,
    actor: Actor,
    RawQuery(query): RawQuery,
) -> PageResult<OriginPage> {
    let mut params = params(query.as_deref());
    let of = params.text("of")?;
    let done = params.word("done", &["refreshed", "failed"])?;
    let identity = params.text("as")?;
    params.finish(&["of", "as", "done"])?;
    let origin = named(of)?;
    let identity = identity.as_deref().map(query::identity).transpose();
    let identity = identity.map_err(|why| Problem::bad(format!("as {why}")))?;
    let all = match app.store() {
        Some(store) => store.origin(&origin).await?,
        None => Vec::new(),
    };
    let found = match &identity {
        Some(identity) => all.iter().find(|one| one.identity == *identity),
        None => all.iter().min_by_key(|one| one.identity.document()),
    };
    let known = match found {
        Some(found) => Some(known(&app, found.clone(), all).await?),
        None => None,
    };
    let now = app.now();
    let overrides = app.overrides().await?;
    let overrides = overrides.into_iter();
    let overrides = overrides.filter(|one| one.origin == origin && one.holds(now));
    Ok(Page(OriginPage {
        layout: Layout::new(&app, &actor, Section::Origins, origin.to_string()),
        link: encoded(origin.as_str()),
        is_bad: done.as_deref() == Some("failed"),
        done: done.map(|done| match &*done {
            "failed" => "The fetch failed; an earlier copy holds for as long as its state allows.",
            _ => "Its documents were fetched.",
        }),
        known,
        overrides: overrides.collect(),
        pace: pace(&app, &origin),
        name: origin.to_string(),
        is_kept: app.store().is_some(),
    }))
}

/// Reads the origin of a page.
pub(super) fn named(of: Option<String>) -> Result<Origin, Problem> {
    let of = of.ok_or_else(|| Problem::bad("of which origin? /origin?of=https://site.example"))?;
    query::origin(of.trim()).map_err(|error| Problem::bad(format!("of {error}")))
}

/// Returns the pace of requests to the origin.
fn pace(app: &AppState, origin: &Origin) -> Vec<Fact> {
    let settings = app.proxy().settings();
    let own = match settings.pace.requests_per_second {
        Some(rate) => format!("{rate} requests per second, by [pace] requests_per_second"),
        None => "none, by [pace] requests_per_second".to_owned(),
    };
    let mut facts = vec![fact("Configured", own)];
    facts.extend(super::overview::pace_in_force(app, origin).map(|text| fact("In force", text)));
    facts
}

fn fact(name: &'static str, text: String) -> Fact {
    Fact { name, text, when: None }
}

async fn known(
    app: &AppState,
    found: StoredOrigin,
    all: Vec<StoredOrigin>,
) -> Result<OriginState, Problem> {
    let store = app.require_store()?;
    let now = app.now();
    let settings = app.proxy().settings();
    let document = found.identity.document();
    let limit = FETCHES_KEPT * Document::ALL.len();
    let mut fetches = store.fetches(&found.origin, limit).await?;
    fetches.retain(|fetch| fetch.identity.document() == document);
    let text = match found.state.copy() {
        Some(copy) => store.snapshot(copy.sha256).await?,
        None => None,
    };
    let state = from_stored(&found.state, text.as_deref(), settings.robots.lenient)
        .map_err(|broken| Problem::busy(format!("{}: {broken}", found.origin)))?;
    let state = Arc::new(state);
    let requests = stance(document, &state, &settings.robots.timing.profile, now).1;
    let snapshot = state.snapshot().filter(|_| document == Document::RobotsTxt);
    let sitemaps = match snapshot {
        Some(_) => SitemapList::of(app, &found, &state, LISTED).await?,
        None => None,
    };
    Ok(OriginState {
        facts: facts(&found, requests, now),
        file: snapshot.map_or_else(File::default, |file| File::of(&file.robots)),
        uses: snapshot.map_or_else(Vec::new, |file| {
            let counts = robots_fields(&file.robots).into_iter();
            counts.map(|(field, count)| (field.as_str(), count)).collect()
        }),
        sitemaps,
        text: text.map(|text| {
            let sha256 = found.state.copy().map(|copy| &copy.sha256);
            Text::of(&text, sha256, None, None)
        }),
        versions: versions(&fetches, now),
        fetches,
        found,
        all,
    })
}

/// Returns the facts of a state. `requests` tells what becomes of requests.
fn facts(found: &StoredOrigin, requests: String, now: Moment) -> Vec<Fact> {
    let mut facts = vec![
        fact("Document", found.identity.document().name().to_owned()),
        fact("About", about(&found.state)),
        fact("Known as", found.identity.to_string()),
        fact("Fetched with", found.user_agent.clone()),
        fact("Requests", requests),
    ];
    let mut when = |name, time: Moment| {
        facts.push(Fact { name, text: String::new(), when: Some(Timestamp::at(time, now)) });
    };
    let (fresh, outage) = lives(&found.state);
    match (&found.state, found.state.copy()) {
        (_, Some(copy)) => when("Fetched", copy.fetched),
        (StoredState::Unavailable { fetched, .. }, None) => when("Fetched", *fetched),
        _ => {}
    }
    if let Some(fresh) = fresh {
        when("Fresh until", fresh.until);
        when("Refreshed on demand from", fresh.refresh_from);
    }
    if let Some(outage) = outage {
        when("Failing since", outage.since);
        when("Last attempt", outage.last_attempt);
        let next = at_a_request(outage.next_attempt, now);
        facts.push(fact("Next attempt", next));
    }
    if let Some(copy) = found.state.copy() {
        facts.push(fact("From", format!("{} ({})", copy.final_url, copy.status)));
        facts.push(fact("SHA-256", hex(copy.sha256)));
    }
    facts
}

/// Returns how long a fetch took, in milliseconds.
fn millis(fetch: &Fetch) -> u64 {
    u64::try_from(fetch.duration.as_millis()).unwrap_or(u64::MAX)
}

/// Returns the beginning of a digest.
fn digest(sha256: &str) -> &str {
    sha256.get(..12).unwrap_or(sha256)
}

/// Returns the fetched files, newest first; the page compares the last two unless the user chooses others.
fn versions(fetches: &[Fetch], now: Moment) -> Vec<Version> {
    let mut versions: Vec<Version> = Vec::new();
    for fetch in fetches {
        let Some(sha256) = fetch.sha256.as_ref().map(hex) else {
            continue;
        };
        let when = Timestamp::at(fetch.time, now);
        match versions.last_mut() {
            // The first fetch of the same content gives the time.
            Some(last) if last.sha256 == sha256 => last.since = when.distance().to_owned(),
            _ => {
                let at = versions.len();
                versions.push(Version {
                    sha256,
                    since: when.distance().to_owned(),
                    is_old: at == 1,
                    is_new: at == 0,
                });
            }
        }
    }
    versions
}

/// The sitemaps of a file, judged for the configured crawler.
struct SitemapList {
    /// The crawler: a product token, or `*`.
    crawler: String,
    items: Vec<Sitemap>,
    /// True if there are more.
    has_more: bool,
}

impl SitemapList {
    /// Judges at most `limit` sitemaps of a state's file; none if it has none.
    ///
    /// # Errors
    /// When the store cannot be read.
    async fn of(
        app: &AppState,
        found: &StoredOrigin,
        state: &Arc<crawlgate_origins::state::State>,
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
fn colour(access: &str) -> &'static str {
    match access {
        "allowed" => "successful",
        "disallowed" => "unreachable",
        _ => "unavailable",
    }
}

#[derive(Template)]
#[template(path = "forget.html", config = "src/http/console/askama.toml")]
pub(super) struct ForgetPage {
    layout: Layout,
    name: String,
    back: String,
}

/// Serves `/origin/forget?of=…`, which asks for confirmation.
pub(super) async fn forget_page(
    State(app): State<AppState>,
    actor: Actor,
    RawQuery(query): RawQuery,
) -> PageResult<ForgetPage> {
    let mut params = params(query.as_deref());
    let of = params.text("of")?;
    params.finish(&["of"])?;
    let origin = named(of)?;
    Ok(Page(ForgetPage {
        layout: Layout::new(&app, &actor, Section::Origins, "Forget an origin"),
        back: origin_link(origin.as_str()),
        name: origin.to_string(),
    }))
}
