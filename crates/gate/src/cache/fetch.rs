//! The fetch of one robots.txt or tdmrep.json: an unconditional GET with the User-Agent of an [`Identity`].
//!
//! A 5xx that says "page not found" is checked further: one probe of a path that cannot exist tells whether the site
//! answers all missing pages with it. A fetch that fails while the process stood still is repeated.
//!
//! Up to five redirects are followed across authorities, and the final answer binds the origin that was asked first
//! (RFC 9309 2.3.1.2). Never more than the size limit is read or inflated, every wait has a deadline, and every failure
//! becomes an [`AccessResult`] rather than an error.

mod content;
mod pause;
mod trace;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http::header::{
    ACCEPT, ACCEPT_ENCODING, AGE, CACHE_CONTROL, DATE, EXPIRES, HOST, HeaderName, LOCATION,
    RETRY_AFTER, USER_AGENT,
};
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Request, Response};
use tokio::time::timeout;
use tracing::info;

use self::content::{ACCEPTED, read};
use self::pause::{Continuity, driven};
use self::trace::Trace;
use crawlgate_config::RobotsConfig;
use crawlgate_egress::{FetchTimeouts, Received, RequestBody, ResponseBody, RobotsFetcher};
use crawlgate_ftp as ftp;
use crawlgate_origins::access::{
    Absence, AccessResult, Cause, ERROR_PAGE, Freshness, FtpReply, Hop, Reading, Validity,
    phrases_in, read_status,
};
use crawlgate_origins::document::Document;
use crawlgate_origins::identity::Identity;
use crawlgate_origins::snapshot::Snapshot;
use crawlgate_robots::{ComparisonPath, Origin, ParseOptions, Robots};
use crawlgate_store as store;
use crawlgate_system::clock::Clock;
use crawlgate_text::hex;
use crawlgate_turns::client::ClientKey;
use crawlgate_turns::pace::{FetchSlot, Pace, SharedPace as _};
use crawlgate_usage::tdmrep;

/// Limit of repetitions after the process stood still.
const MAX_REPEATS: u32 = 3;

/// The longest life of a 5xx that means "no robots.txt": an outage of the whole site may look the same.
const NOT_FOUND: Duration = Duration::from_secs(3_600);

/// The parameters of one fetch.
pub struct FetchRequest {
    /// The origin.
    pub origin: Origin,
    /// The identity that the answer counts for.
    pub identity: Identity,
    /// The client that the fetch counts against; none: crawlgate itself.
    pub client: Option<ClientKey>,
    /// The User-Agent of the request.
    pub user_agent: HeaderValue,
    /// The name of the `[[signing]]` of its requests; none: they are not signed.
    pub signed_as: Option<Arc<str>>,
    /// The settings.
    pub config: Arc<RobotsConfig>,
    /// Judges a redirect by the rules of the other origin that it leads to.
    pub judge: HopJudge,
}

/// Judges a redirect to another origin by the rules there, which may have to be fetched first.
pub type HopJudge = Box<dyn Fn(Origin, String) -> HopJudgement + Send + Sync>;

/// The future of the verdict on a redirect.
pub type HopJudgement = Pin<Box<dyn Future<Output = Hop> + Send>>;

/// Fetches the robots.txt of an origin that has its turn; returns the meaning and the trace of the fetch. Redirect hops
/// count in `pace`, and wait for no turn. While the fetch waits for another origin's rules, it frees its `place`.
pub async fn fetch(
    fetcher: &RobotsFetcher,
    pace: &Pace,
    place: &mut FetchSlot<'_>,
    asked: &FetchRequest,
    clock: &Clock,
) -> (AccessResult, store::Fetch) {
    // Outside, so that a fetch that is cut off keeps its trace.
    let mut trace = Trace::start(clock.now());
    let mut probe = Probe::Due;
    let mut repeats = 0;
    let mut speaks_http2 = !fetcher.egress().has_left_http2(&asked.origin);
    let result = loop {
        let chain = RedirectChain {
            fetcher,
            pace,
            place,
            asked,
            clock,
            probe: &mut probe,
            trace: &mut trace,
        };
        let following = timeout(asked.config.fetch_timeout, chain.go());
        let (result, continuity) = driven(clock, following).await;
        let result = result.unwrap_or_else(|_| unreachable(Cause::Timeout));
        let is_of_the_network = matches!(
            &result,
            AccessResult::Unreachable { cause, .. } if cause.is_network()
        );
        // The body of a file that came by HTTP/2 broke its rules: HTTP/1.1 may have it whole.
        let is_unreachable = matches!(result, AccessResult::Unreachable { .. });
        if is_unreachable && speaks_http2 && fetcher.egress().has_left_http2(&asked.origin) {
            speaks_http2 = false;
            trace.restart();
            continue;
        }
        if !is_of_the_network || continuity == Continuity::Continuous || repeats >= MAX_REPEATS {
            break result;
        }
        repeats += 1;
        info!(origin = %asked.origin, "repeating the fetch of {}: the process stood still", asked.identity.document());
        trace.restart();
    };
    let fetch = trace.end(asked, &result, clock.now());
    (result, fetch)
}

/// Returns the end of a fetch that did not begin, because too many others wait.
pub fn without_room(asked: &FetchRequest, clock: &Clock) -> (AccessResult, store::Fetch) {
    let result = unreachable(Cause::Exhausted);
    let fetch = Trace::start(clock.now()).end(asked, &result, clock.now());
    (result, fetch)
}

/// The state of the probe for a path that cannot exist: sent at most once per fetch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Probe {
    Due,
    Done,
}

/// The requests of one fetch, redirects followed.
struct RedirectChain<'a, 'b> {
    fetcher: &'a RobotsFetcher,
    pace: &'a Pace,
    place: &'a mut FetchSlot<'b>,
    asked: &'a FetchRequest,
    clock: &'a Clock,
    probe: &'a mut Probe,
    trace: &'a mut Trace,
}

fn unreachable(cause: Cause) -> AccessResult {
    AccessResult::Unreachable { cause, retry_after: None }
}

impl RedirectChain<'_, '_> {
    async fn go(mut self) -> AccessResult {
        let (asked, clock) = (self.asked, self.clock);
        let (origin, config) = (&asked.origin, &*asked.config);
        let document = asked.identity.document();
        let mut url = document.url(origin);
        // A probe is for a file that restricts while it is unknown.
        let soft_404 = config.soft_404 && document == Document::RobotsTxt;
        let mut visited: Vec<String> = Vec::new();
        loop {
            self.trace.record_request(&url);
            let Received { response, .. } = match self.request(&url).await {
                Ok(received) => received,
                // The hop is prohibited, not the origin.
                Err(Cause::Prohibited) if !visited.is_empty() => {
                    return unreachable(Cause::ProhibitedHop);
                }
                Err(cause) => return unreachable(cause),
            };
            let status = response.status().as_u16();
            // Of FTP, the status is crawlgate's own word.
            let ftp = response.extensions().get::<ftp::status::Refusal>();
            let ftp = ftp.map(|refusal| FtpReply::of(&refusal.reply));
            let told = ftp.is_none().then_some(status);
            self.trace.answered(told, response.headers());
            match read_status(status, &config.deny_statuses, soft_404) {
                Reading::Body => {
                    return successful(*response, (document, &url), config, clock).await;
                }
                Reading::Absent => {
                    return AccessResult::Unavailable {
                        why: ftp.map_or(Absence::Status(status), Absence::Ftp),
                        freshness: freshness(response.headers(), clock),
                    };
                }
                Reading::Unreachable => {
                    let cause = ftp.map_or(Cause::Status(status), Cause::Ftp);
                    return refused(cause, response.headers(), clock);
                }
                Reading::UnreachableUnlessNotFound => {
                    let cause = ftp.map_or(Cause::Status(status), Cause::Ftp);
                    let result = refused(cause, response.headers(), clock);
                    // An outage that says when it ends is one.
                    if let AccessResult::Unreachable { retry_after: Some(_), .. } = result {
                        return result;
                    }
                    let freshness = freshness(response.headers(), clock).at_most(NOT_FOUND);
                    // Another origin's missing pages say nothing about this one's.
                    let is_its_own = Origin::parse(&url).is_ok_and(|(asked, _)| asked == *origin);
                    if is_its_own && self.answers_missing_pages_so(origin, *response).await {
                        return AccessResult::Unavailable {
                            why: Absence::NotFoundBehind(status),
                            freshness,
                        };
                    }
                    return result;
                }
                Reading::Nonsense => return unreachable(Cause::Redirect(status)),
                Reading::Follow => {
                    let Some(next) = location(&url, response.headers()) else {
                        return unreachable(Cause::Redirect(status));
                    };
                    let freshness = freshness(response.headers(), clock);
                    // Its connection is not kept while the next hop is judged.
                    drop(response);
                    visited.push(std::mem::replace(&mut url, next));
                    let why = if visited.contains(&url) {
                        Absence::RedirectLoop
                    } else if visited.len() > config.max_redirects as usize {
                        Absence::TooManyRedirects
                    } else {
                        match self.judge(&url).await {
                            Hop::Allowed => continue,
                            Hop::Disallowed => Absence::DisallowedHop,
                            Hop::Refused(cause) => return unreachable(cause),
                        }
                    };
                    return AccessResult::Unavailable { why, freshness };
                }
            }
        }
    }

    /// Judges a hop, and counts it if it may be made. `/robots.txt` itself is always allowed (RFC 9309 2.2.2). The
    /// initial origin's rules are in the robots.txt being fetched here, so they forbid no hop on the way to it.
    async fn judge(&mut self, url: &str) -> Hop {
        // An invalid URL fails when it is requested.
        let Ok((origin, path)) = Origin::parse(url) else {
            return Hop::Allowed;
        };
        let is_robots_txt = ComparisonPath::new(path.as_bytes()).is_robots_txt();
        let is_on_the_way =
            self.asked.identity.document() == Document::RobotsTxt && origin == self.asked.origin;
        let hop = match is_robots_txt || is_on_the_way {
            true => Hop::Allowed,
            false => {
                let judging = (self.asked.judge)(origin.clone(), path);
                self.place.outside(judging).await
            }
        };
        if hop == Hop::Allowed {
            self.pace.count_robots(&origin);
        }
        hop
    }

    /// Tells whether the site answers every missing page as it has answered robots.txt: the error page says that there
    /// is no such page, and a path that cannot exist gets the same status and phrase.
    async fn answers_missing_pages_so(
        &mut self,
        origin: &Origin,
        response: Response<ResponseBody>,
    ) -> bool {
        let status = response.status();
        let phrases = &self.asked.config.soft_404_phrases;
        let Ok(page) = read(response, ERROR_PAGE).await else {
            return false;
        };
        let said = phrases_in(&page, phrases);
        if said.is_empty() || std::mem::replace(self.probe, Probe::Done) == Probe::Done {
            return false;
        }
        let Some(url) = missing_page(origin) else {
            return false;
        };
        self.pace.count_robots(origin);
        let (answered, agrees) = match self.request(&url).await {
            Err(cause) => (cause.to_string(), false),
            Ok(Received { response, .. }) => {
                let same = response.status() == status;
                let answered = format!("it answered {}", response.status().as_u16());
                let agrees = same
                    && read(*response, ERROR_PAGE).await.is_ok_and(|page| {
                        let probed = phrases_in(&page, phrases);
                        said.iter().any(|phrase| probed.contains(phrase))
                    });
                (answered, agrees)
            }
        };
        self.trace.probed(&url, &answered, agrees);
        agrees
    }

    /// Sends one GET.
    async fn request(&self, url: &str) -> Result<Received, Cause> {
        request(self.fetcher, url, self.asked, self.clock).await
    }
}

/// Returns a random URL of `origin` that cannot exist; `None` without randomness. It ends as robots.txt does, so that
/// the same part of the server answers it.
fn missing_page(origin: &Origin) -> Option<String> {
    let mut random = [0; 16];
    aws_lc_rs::rand::fill(&mut random).ok()?;
    let name = hex(random);
    let robots = origin.robots_url();
    Some(format!("{}/{name}.txt", robots.strip_suffix("/robots.txt")?))
}

/// Sends one GET.
async fn request(
    fetcher: &RobotsFetcher,
    url: &str,
    asked: &FetchRequest,
    clock: &Clock,
) -> Result<Received, Cause> {
    let (origin, path) = Origin::parse(url).map_err(|_| Cause::Unaddressable)?;
    let path = PathAndQuery::try_from(path).map_err(|_| Cause::Unaddressable)?;
    let mut request = Request::new(RequestBody::Empty);
    let headers = request.headers_mut();
    let host = HeaderValue::try_from(origin.authority()).map_err(|_| Cause::Unaddressable)?;
    headers.insert(HOST, host);
    headers.insert(USER_AGENT, asked.user_agent.clone());
    let accepted = match asked.identity.document() {
        Document::RobotsTxt => "text/plain, */*;q=0.8",
        Document::TdmRep => "application/json, */*;q=0.8",
    };
    headers.insert(ACCEPT, HeaderValue::from_static(accepted));
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static(ACCEPTED));
    if let Some(signer) = fetcher.egress().signer(asked.signed_as.as_deref()) {
        request.extensions_mut().insert(signer);
    }
    let timeouts = FetchTimeouts {
        connect: asked.config.connect_timeout,
        first_byte: asked.config.first_byte_timeout,
    };
    fetcher
        .fetch((origin, path), request, timeouts, clock.now())
        .await
        .map_err(|failure| failure.cause())
}

/// Returns the next URL, without its fragment; `None` if `Location` cannot be followed, or is given twice and differs: each
/// of the files could be the one that is meant.
fn location(base: &str, headers: &HeaderMap) -> Option<String> {
    let mut values = headers.get_all(LOCATION).iter();
    let first = values.next()?;
    if values.any(|other| other != first) {
        return None;
    }
    let location = std::str::from_utf8(first.as_bytes()).ok()?;
    let mut next = url::Url::parse(base).ok()?.join(location).ok()?;
    if !matches!(next.scheme(), "http" | "https") || next.host().is_none() {
        return None;
    }
    next.set_fragment(None);
    // Credentials in a redirect are never forwarded.
    next.set_username("").ok()?;
    next.set_password(None).ok()?;
    Some(next.into())
}

async fn successful(
    response: Response<ResponseBody>,
    (document, url): (Document, &str),
    config: &RobotsConfig,
    clock: &Clock,
) -> AccessResult {
    let status = response.status().as_u16();
    let freshness = freshness(response.headers(), clock);
    let limit = match document {
        Document::RobotsTxt => config.size_limit,
        Document::TdmRep => tdmrep::LONGEST,
    };
    // One octet above the limit tells a file of exactly the limit from a longer one.
    let body = match read(response, limit.saturating_add(1)).await {
        Ok(body) => body,
        Err(cause) => return unreachable(cause),
    };
    let options = ParseOptions { lenient: config.lenient, limit };
    let robots = Robots::parse(&body, options);
    AccessResult::Successful {
        snapshot: Snapshot::new(robots, clock.now(), status, url).into(),
        freshness,
    }
}

fn refused(cause: Cause, headers: &HeaderMap, clock: &Clock) -> AccessResult {
    AccessResult::Unreachable { cause, retry_after: retry_after(headers, clock) }
}

/// Reads `Retry-After` as seconds or as a date (RFC 9110 10.2.3).
pub fn retry_after(headers: &HeaderMap, clock: &Clock) -> Option<Duration> {
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if !value.is_empty() && value.bytes().all(|octet| octet.is_ascii_digit()) {
        // A value of digits fails to parse only if there are too many.
        let seconds = value.parse::<u32>().unwrap_or(u32::MAX);
        return Some(Duration::from_secs(u64::from(seconds)));
    }
    let date = httpdate::parse_http_date(value).ok()?;
    let until = date.duration_since(std::time::UNIX_EPOCH).ok()?;
    Some(until.saturating_sub(Duration::from_millis(clock.now().as_millis())))
}

fn freshness(headers: &HeaderMap, clock: &Clock) -> Freshness {
    let one = |name: HeaderName| headers.get(name)?.to_str().ok();
    let values = headers.get_all(CACHE_CONTROL).iter();
    let said = Validity {
        cache_control: values.filter_map(|value| value.to_str().ok()).collect(),
        expires: one(EXPIRES),
        date: one(DATE),
        age: one(AGE),
    };
    Freshness::of(&said, clock.now())
}

#[cfg(test)]
mod tests;
