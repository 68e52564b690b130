//! The fetch of one robots.txt: an unconditional GET with the crawler's own identification string.
//!
//! Up to five redirects are followed across authorities, and what comes back binds the origin that was
//! asked first (RFC 9309 2.3.1.2). No more than the size limit is ever read or inflated, every wait
//! has a deadline, and every failure becomes an [`AccessResult`]: this module never fails, it tells.

use std::pin::pin;
use std::time::Duration;

use futures_core::Stream;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, HOST, LOCATION, RETRY_AFTER,
    USER_AGENT,
};
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body::Body as _;
use tokio::io::{AsyncBufRead, AsyncRead, AsyncReadExt, BufReader};
use tokio::time::timeout;
use tokio_util::io::StreamReader;

use super::access::{
    Absence, AccessResult, Cause, Freshness, Reading, read_status, says_not_found,
};
use super::snapshot::Snapshot;
use crate::clock::Clock;
use crate::config::RobotsConfig;
use crate::egress::{Egress, Errand, Inbound, Outgoing};
use crate::rep::{Origin, ParseOptions, Robots};

/// What is sent when neither the crawler nor the configuration names anybody.
const FALLBACK_AGENT: HeaderValue =
    HeaderValue::from_static(concat!("crawlgate/", env!("CARGO_PKG_VERSION")));

/// How much of a 5xx body is looked at for "page not found".
const ERROR_PAGE: usize = 8192;

/// Leave to fetch a robots.txt, without a clearance. Made by this module only.
#[derive(Debug)]
pub struct RobotsErrand {
    origin: Origin,
    path: PathAndQuery,
}

impl RobotsErrand {
    /// What is fetched.
    pub fn target(&self) -> (&Origin, &PathAndQuery) {
        (&self.origin, &self.path)
    }
}

/// Fetches the robots.txt of `origin`, speaking as `user_agent`.
pub async fn fetch(
    egress: &Egress,
    origin: &Origin,
    user_agent: Option<&HeaderValue>,
    config: &RobotsConfig,
    clock: &Clock,
) -> AccessResult {
    let walk = walk(egress, origin, user_agent, config, clock);
    timeout(config.fetch_timeout, walk)
        .await
        .unwrap_or_else(|_| unreachable(Cause::Timeout))
}

fn unreachable(cause: Cause) -> AccessResult {
    AccessResult::Unreachable {
        cause,
        retry_after: None,
    }
}

async fn walk(
    egress: &Egress,
    origin: &Origin,
    user_agent: Option<&HeaderValue>,
    config: &RobotsConfig,
    clock: &Clock,
) -> AccessResult {
    let mut url = origin.robots_url();
    let mut visited: Vec<String> = Vec::new();
    loop {
        let response = match request(egress, &url, user_agent, config).await {
            Ok(response) => response,
            Err(cause) => return unreachable(cause),
        };
        let status = response.status().as_u16();
        match read_status(status, &config.deny_statuses, config.soft_404) {
            Reading::Body => return successful(response, &url, config, clock).await,
            Reading::Absent => {
                return AccessResult::Unavailable {
                    why: Absence::Status(status),
                    freshness: freshness(response.headers()),
                };
            }
            Reading::Unreachable => return refused(status, response.headers(), clock),
            Reading::UnreachableUnlessNotFound => {
                let result = refused(status, response.headers(), clock);
                let freshness = freshness(response.headers());
                let Ok(body) = read_body(response, ERROR_PAGE).await else {
                    return result;
                };
                if says_not_found(&body) {
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
                let freshness = freshness(response.headers());
                visited.push(std::mem::replace(&mut url, next));
                let why = if visited.contains(&url) {
                    Absence::RedirectLoop
                } else if visited.len() > config.max_redirects as usize {
                    Absence::TooManyRedirects
                } else {
                    continue;
                };
                return AccessResult::Unavailable { why, freshness };
            }
        }
    }
}

/// One GET.
async fn request(
    egress: &Egress,
    url: &str,
    user_agent: Option<&HeaderValue>,
    config: &RobotsConfig,
) -> Result<Response<Inbound>, Cause> {
    let (origin, path) = Origin::parse(url).map_err(|_| Cause::Redirect(0))?;
    let path = PathAndQuery::try_from(path).map_err(|_| Cause::Redirect(0))?;
    let mut request = Request::new(Outgoing::Empty);
    let headers = request.headers_mut();
    let host = HeaderValue::try_from(origin.authority()).map_err(|_| Cause::Redirect(0))?;
    headers.insert(HOST, host);
    headers.insert(USER_AGENT, user_agent.cloned().unwrap_or(FALLBACK_AGENT));
    headers.insert(ACCEPT, HeaderValue::from_static("text/plain, */*;q=0.8"));
    headers.insert(
        ACCEPT_ENCODING,
        HeaderValue::from_static("gzip, br, zstd, deflate"),
    );
    let errand = Errand::Robots(RobotsErrand { origin, path });
    // The connector bounds the connect itself; the sum bounds name look-up and TLS as well.
    let patience = config.connect_timeout + config.first_byte_timeout;
    match timeout(patience, egress.send(errand, request)).await {
        Ok(Ok(received)) => Ok(received.response),
        Ok(Err(failure)) => Err(failure.cause()),
        Err(_) => Err(Cause::Timeout),
    }
}

/// The next URL, without its fragment; none where `Location` cannot be followed.
fn location(base: &str, headers: &HeaderMap) -> Option<String> {
    let mut values = headers.get_all(LOCATION).iter();
    let location = std::str::from_utf8(values.next()?.as_bytes()).ok()?;
    let mut next = url::Url::parse(base).ok()?.join(location).ok()?;
    if !matches!(next.scheme(), "http" | "https") || next.host().is_none() {
        return None;
    }
    next.set_fragment(None);
    // Credentials in a redirect are never sent on.
    next.set_username("").ok()?;
    next.set_password(None).ok()?;
    Some(next.into())
}

async fn successful(
    response: Response<Inbound>,
    url: &str,
    config: &RobotsConfig,
    clock: &Clock,
) -> AccessResult {
    let status = response.status().as_u16();
    let freshness = freshness(response.headers());
    // One octet more than counts tells a file of exactly the limit from a longer one.
    let body = match read_body(response, config.size_limit.saturating_add(1)).await {
        Ok(body) => body,
        Err(cause) => return unreachable(cause),
    };
    let options = ParseOptions {
        lenient: config.lenient,
        limit: config.size_limit,
    };
    let robots = Robots::parse(&body, options);
    AccessResult::Successful {
        snapshot: Snapshot::new(robots, clock.now(), status, url).into(),
        freshness,
    }
}

fn refused(status: u16, headers: &HeaderMap, clock: &Clock) -> AccessResult {
    AccessResult::Unreachable {
        cause: Cause::Status(status),
        retry_after: retry_after(headers, clock),
    }
}

/// `Retry-After` as seconds or as a date (RFC 9110 10.2.3).
pub(crate) fn retry_after(headers: &HeaderMap, clock: &Clock) -> Option<Duration> {
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = value.parse::<u32>() {
        return Some(Duration::from_secs(u64::from(seconds)));
    }
    let date = httpdate::parse_http_date(value).ok()?;
    let until = date.duration_since(std::time::UNIX_EPOCH).ok()?;
    Some(until.saturating_sub(Duration::from_millis(clock.now().as_millis())))
}

fn freshness(headers: &HeaderMap) -> Freshness {
    let values = headers.get_all(CACHE_CONTROL).iter();
    Freshness::from_cache_control(values.filter_map(|value| value.to_str().ok()))
}

/// The decoded body, at most `limit` octets of it.
async fn read_body(response: Response<Inbound>, limit: usize) -> Result<Vec<u8>, Cause> {
    let codings = codings(response.headers())?;
    let frames = Frames(response.into_body());
    let mut reader: Box<dyn AsyncBufRead + Send + Unpin> = Box::new(StreamReader::new(frames));
    for coding in codings {
        reader = coding.decoder(reader);
    }
    let mut body = Vec::new();
    let mut reader = pin!(reader.take(limit as u64));
    match reader.read_to_end(&mut body).await {
        Ok(_) => Ok(body),
        Err(error) => Err(match error.get_ref() {
            Some(inner) if inner.is::<hyper::Error>() => body_cause(inner),
            _ => Cause::Encoding,
        }),
    }
}

fn body_cause(error: &(dyn std::error::Error + 'static)) -> Cause {
    match error.downcast_ref::<hyper::Error>() {
        Some(error) if error.is_incomplete_message() || error.is_closed() => Cause::Incomplete,
        _ => Cause::Protocol,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Coding {
    Gzip,
    Deflate,
    Brotli,
    Zstd,
}

/// The codings to undo, outermost first (RFC 9110 8.4). More than two is a bomb, not a file.
fn codings(headers: &HeaderMap) -> Result<Vec<Coding>, Cause> {
    let mut codings = Vec::new();
    for value in headers.get_all(CONTENT_ENCODING) {
        let value = value.to_str().map_err(|_| Cause::Encoding)?;
        for name in value
            .split(',')
            .map(str::trim)
            .filter(|name| !name.is_empty())
        {
            codings.push(match name.to_ascii_lowercase().as_str() {
                "identity" => continue,
                "gzip" | "x-gzip" => Coding::Gzip,
                "deflate" => Coding::Deflate,
                "br" => Coding::Brotli,
                "zstd" => Coding::Zstd,
                _ => return Err(Cause::Encoding),
            });
        }
    }
    if codings.len() > 2 {
        return Err(Cause::Encoding);
    }
    codings.reverse();
    Ok(codings)
}

impl Coding {
    fn decoder(
        self,
        reader: Box<dyn AsyncBufRead + Send + Unpin>,
    ) -> Box<dyn AsyncBufRead + Send + Unpin> {
        use async_compression::tokio::bufread::{
            BrotliDecoder, GzipDecoder, ZlibDecoder, ZstdDecoder,
        };
        fn buffered(
            reader: impl AsyncRead + Send + Unpin + 'static,
        ) -> Box<dyn AsyncBufRead + Send + Unpin> {
            Box::new(BufReader::new(reader))
        }
        match self {
            Coding::Gzip => {
                let mut decoder = GzipDecoder::new(reader);
                decoder.multiple_members(true);
                buffered(decoder)
            }
            Coding::Deflate => buffered(ZlibDecoder::new(reader)),
            Coding::Brotli => buffered(BrotliDecoder::new(reader)),
            Coding::Zstd => buffered(ZstdDecoder::new(reader)),
        }
    }
}

/// The data frames of a body as a stream, for tokio's reader adapters.
struct Frames(Inbound);

impl Stream for Frames {
    type Item = Result<bytes::Bytes, std::io::Error>;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        use std::task::Poll;
        loop {
            return match std::pin::Pin::new(&mut self.0).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => Poll::Ready(Some(Ok(data))),
                    Err(_trailers) => continue,
                },
                Poll::Ready(Some(Err(error))) => {
                    Poll::Ready(Some(Err(std::io::Error::other(error))))
                }
                Poll::Ready(None) => Poll::Ready(None),
                Poll::Pending => Poll::Pending,
            };
        }
    }
}
