//! A page for everyone: the verdict on a URL, at a separate address (`[admin] public_try`).
//!
//! It tells what the robots.txt of a public site says, and nothing of the operator: no records, overrides, clients or
//! states of the proxy reach it. It serves GET and HEAD of one page and its style, and knows no cookie and no token. It is
//! no tool against other networks: it fetches only from public addresses, whatever `[egress] allow` opens to crawlers
//! (`sites`), at the ports of the schemes. Each peer asks at a limited rate (`peers`), and few questions are answered at
//! once.

mod counts;
mod peers;
mod sites;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use axum::Router;
use axum::extract::{ConnectInfo, RawQuery, Request, State};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use http::header::{self, HeaderMap, HeaderName};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use self::counts::Outcome;
pub use self::counts::TryCounts;
use self::peers::Peers;
use self::sites::Sites;
use super::super::connections;
use super::super::guard::set_headers;
use super::super::problem::{self, Problem};
use super::assets;
use super::filter::params;
use super::layout::Page;
use super::try_url::{UrlFields, names};
use crate::query::InvalidParam;
use crawlgate_egress::EgressError;
use crawlgate_gate::explain::{self, Documents, Evaluation, Evaluator, Judgement};
use crawlgate_origins::document::Document;
use crawlgate_origins::identity::Crawler;
use crawlgate_policy::overrides::Overrides;
use crawlgate_proxy::Proxy;
use crawlgate_usage::SignalMode;

/// Limit on open connections.
pub const CONNECTIONS: usize = 128;

/// Questions that are answered at once.
const MAX_QUESTIONS: usize = 8;

/// Octets of a URL, and of an agent.
const LONGEST: usize = 4096;

/// Time for an answer beside the wait for robots.txt.
const GRACE: Duration = Duration::from_secs(10);

/// The path of the style.
const STYLE: &str = "/try/style.css";

/// The sources that the page may load from: its own style.
const CONTENT_POLICY: &str = "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; \
    frame-ancestors 'none'";

/// Header fields of every answer, beside those of all ports. Search engines must not follow links that ask.
const HEADERS: [(HeaderName, &str); 3] = [
    (header::CONTENT_SECURITY_POLICY, CONTENT_POLICY),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("x-robots-tag"), "noindex, nofollow"),
];

/// The page. Cheap to clone.
#[derive(Clone)]
pub struct PublicTry(Arc<Inner>);

struct Inner {
    proxy: Arc<Proxy>,
    sites: Sites,
    peers: Peers,
    work: Semaphore,
    counts: TryCounts,
}

impl std::fmt::Debug for PublicTry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PublicTry").finish_non_exhaustive()
    }
}

impl PublicTry {
    /// Creates the page.
    ///
    /// # Errors
    /// When the trusted roots cannot be read.
    pub fn new(proxy: Arc<Proxy>, counts: TryCounts) -> Result<PublicTry, EgressError> {
        let per_minute = proxy.settings().admin.public_try_per_minute;
        Ok(PublicTry(Arc::new(Inner {
            sites: Sites::new(Arc::clone(&proxy))?,
            peers: Peers::new(per_minute, proxy.clock().clone()),
            work: Semaphore::new(MAX_QUESTIONS),
            counts,
            proxy,
        })))
    }

    /// Returns the router: one page and its style.
    pub fn router(self) -> Router {
        Router::new()
            .route("/try", get(page))
            .route(STYLE, get(style))
            .fallback(problem::not_found)
            .method_not_allowed_fallback(problem::not_allowed)
            .layer(from_fn(connections::limit_spare_slots))
            .layer(from_fn(problem::rewrite))
            .layer(from_fn(protect))
            .with_state(self)
    }
}

/// Sets the header fields of an answer.
async fn protect(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    set_headers(response.headers_mut(), HEADERS);
    response
}

async fn style(headers: HeaderMap) -> Response {
    assets::STYLE.answer(&headers)
}

#[derive(Template)]
#[template(path = "public.html", config = "src/http/console/askama.toml")]
struct PublicPage {
    style: &'static str,
    asked: UrlFields,
    answer: Option<Judgement>,
}

/// Serves `/try`: the form, and the answer if a link names a URL.
async fn page(
    State(PublicTry(inner)): State<PublicTry>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let mut params = params(query.as_deref());
    let url = params.text("url")?.unwrap_or_default();
    let agent = params.text("agent")?.unwrap_or_default();
    params.finish(&["url", "agent"])?;
    let mut page = PublicPage { style: STYLE, asked: UrlFields::new(&url, &agent), answer: None };
    if url.trim().is_empty() {
        return Ok(Page(page).into_response());
    }
    let counts = &inner.counts;
    let _question = match inner.peers.take(peer.ip()) {
        Ok(question) => question,
        Err(wait) => {
            counts.add(Outcome::Limited);
            let why = "too many questions from this address; try again later";
            return Err(Problem::too_many(why, wait));
        }
    };
    let Ok(_permit) = inner.work.try_acquire() else {
        counts.add(Outcome::Busy);
        return Err(Problem::busy("too many questions at once; try again"));
    };
    let patience = inner.proxy.settings().robots.hold.saturating_add(GRACE);
    let Ok(judged) = timeout(patience, judge(&inner, &url, &agent)).await else {
        counts.add(Outcome::Busy);
        return Err(Problem::busy("this takes too long; try again"));
    };
    match judged {
        Ok(judged) => {
            counts.add(Outcome::Judged);
            page.answer = Some(judged);
        }
        Err(TryError::Invalid(why)) => {
            counts.add(Outcome::Invalid);
            page.asked.wrong = Some(why);
        }
        Err(TryError::NotPublic) => {
            counts.add(Outcome::NotPublic);
            let why = "This page judges sites on the public internet only.";
            page.asked.wrong = Some(InvalidParam::new("url", why));
        }
    }
    Ok(Page(page).into_response())
}

/// The reason for no verdict.
enum TryError {
    /// The question names nothing to judge.
    Invalid(InvalidParam),
    /// The site has no public address, or the operator denies it.
    NotPublic,
}

/// Judges a URL by the robots.txt of its site. Overrides stay out: they are the operator's own.
async fn judge(inner: &Inner, url: &str, agent: &str) -> Result<Judgement, TryError> {
    if url.len() > LONGEST || agent.len() > LONGEST {
        let name = if url.len() > LONGEST { "url" } else { "agent" };
        let why = format!("the URL and the agent may have {LONGEST} octets each");
        return Err(TryError::Invalid(InvalidParam::new(name, why)));
    }
    let (sites, settings) = (&inner.sites, inner.sites.adopt());
    let agent = explain::agent(&names(agent), &settings);
    let mut asked = explain::usage::UsageQuery::configured(&settings);
    // It is fetched for a crawler that robots.txt was asked about by name, and strangers choose no name of a fetch.
    Arc::make_mut(&mut asked.modes).tdmrep = SignalMode::Off;
    let agent = agent.map_err(|error| TryError::Invalid(InvalidParam::new("agent", error)))?;
    let evaluator = Evaluator::of(agent, asked, Overrides::default(), &settings);
    let target = explain::target(url.trim());
    let target = target.map_err(|error| TryError::Invalid(InvalidParam::new("url", error)))?;
    // Also where a robots.txt is known: the operator may have denied the site since.
    if !sites.is_public(&target.origin).await {
        return Err(TryError::NotPublic);
    }
    // The egress refuses other ports, too, without these words.
    if target.origin.port() != target.origin.scheme().default_port() {
        let why = "this page judges URLs without a port, or with that of their scheme";
        return Err(TryError::Invalid(InvalidParam::new("url", why)));
    }
    let (target, asserted) = match evaluator.begin(target, inner.proxy.clock().now()) {
        Evaluation::Judged(judged) => return Ok(*judged),
        Evaluation::Open(target, asserted) => (target, asserted),
    };
    // All share one state: strangers choose no User-Agent of a fetch.
    let crawler = Crawler::common(Document::RobotsTxt);
    let view = sites.cache().view(&target.origin, crawler).await;
    if view.stance.is_prohibited() {
        return Err(TryError::NotPublic);
    }
    let documents = Documents { view, tdmrep: None };
    Ok(evaluator.by_origin(target, asserted, documents))
}
