//! Ordinary requests to an origin that answers with frames in any order, and the check of what comes back.

use std::time::Duration;

use bytes::Bytes;
use h2::client::SendRequest;
use http::{HeaderMap, Method, Request, Response};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::lab::crawler::Crawlers;
use super::octets::Random;
use super::origin::{Hostile, Log};
use super::script::{NAME, read_name};

/// Requests at the same time.
const BATCH: usize = 12;

/// Time for an answer before its request is reset, at first. It doubles after a batch without any answer: a busy machine
/// takes longer.
pub const PATIENCE: Duration = Duration::from_millis(150);

/// Ends of exchanges.
#[derive(Debug, Default)]
pub struct Counters {
    whole: u64,
    broken_off: u64,
    /// Answered by crawlgate: the origin's response was none.
    refused: u64,
    silent: u64,
    /// Without the name of their place, which a changed octet took away.
    nameless: u64,
}

impl Counters {
    pub fn add(&mut self, other: &Counters) {
        self.whole += other.whole;
        self.broken_off += other.broken_off;
        self.refused += other.refused;
        self.silent += other.silent;
        self.nameless += other.nameless;
    }

    /// Tells whether no request was answered.
    pub fn is_silent(&self) -> bool {
        self.whole + self.broken_off + self.refused + self.nameless == 0
    }

    /// Tells whether responses passed, and others broke off and were refused.
    pub fn is_telling(&self) -> bool {
        self.whole > 0 && self.broken_off > 0 && self.refused > 0
    }
}

/// A response as it arrived.
struct Arrived {
    method: Method,
    head: http::response::Parts,
    body: Vec<u8>,
    is_whole: bool,
}

/// Sends a batch of requests through crawlgate, and resets each that has no answer in `patience`.
///
/// # Panics
/// When a response arrives as whole that the origin did not end, or with octets that it did not send.
pub async fn visit(
    crawlers: &Crawlers,
    hostile: &Hostile,
    random: &mut Random,
    patience: Duration,
) -> Counters {
    hostile.log.clear();
    let streams = crawlers.connect_http2("127.0.0.1", hostile.port).await;
    let streams = streams.unwrap();
    let mut asking = JoinSet::new();
    for number in 0..BATCH {
        let url = format!("https://127.0.0.1:{}/{number}", hostile.port);
        let method = [Method::GET, Method::GET, Method::POST, Method::HEAD]
            [random.below(4) as usize]
            .clone();
        let body = match method {
            Method::POST => {
                let count = random.below(100_000);
                Bytes::from(random.octets(count))
            }
            _ => Bytes::new(),
        };
        let streams = streams.clone();
        asking.spawn(async move { timeout(patience, ask(streams, method, &url, body)).await });
    }
    let mut counters = Counters::default();
    for arrived in asking.join_all().await {
        match arrived {
            Err(_) | Ok(Err(_)) => counters.silent += 1,
            Ok(Ok(arrived)) => *entry(&mut counters, &arrived, &hostile.log) += 1,
        }
    }
    counters
}

async fn ask(
    streams: SendRequest<Bytes>,
    method: Method,
    url: &str,
    body: Bytes,
) -> Result<Arrived, h2::Error> {
    let mut request = Request::new(());
    *request.method_mut() = method.clone();
    *request.uri_mut() = url.parse().unwrap();
    let mut streams = streams.ready().await?;
    let (response, mut sending) = streams.send_request(request, body.is_empty())?;
    if !body.is_empty() {
        // Waits for room by itself. A response may come before.
        sending.send_data(body, true)?;
    }
    let (head, mut receiving) = Response::into_parts(response.await?);
    let (mut body, mut is_whole) = (Vec::new(), true);
    while let Some(data) = receiving.data().await {
        let Ok(data) = data else {
            is_whole = false;
            break;
        };
        receiving.flow_control().release_capacity(data.len())?;
        body.extend(data);
    }
    is_whole = is_whole && receiving.trailers().await.is_ok();
    Ok(Arrived { method, head, body, is_whole })
}

/// Returns the counter of a response, having compared it with what the origin sent.
fn entry<'t>(counters: &'t mut Counters, arrived: &Arrived, log: &Log) -> &'t mut u64 {
    let named = |fields: &HeaderMap| read_name(fields.get(NAME)?.to_str().ok()?);
    if arrived.head.headers.contains_key("proxy-status") && arrived.head.status.is_server_error() {
        return &mut counters.refused;
    }
    let Some(sent) = named(&arrived.head.headers).and_then(|place| log.find(place)) else {
        return &mut counters.nameless;
    };
    let Arrived { body, head, .. } = arrived;
    assert!(
        sent.body.starts_with(body),
        "a body of other octets: {head:?}, {} of {}",
        body.len(),
        sent.body.len()
    );
    if !arrived.is_whole {
        return &mut counters.broken_off;
    }
    let has_none = arrived.method == Method::HEAD || matches!(head.status.as_u16(), 204 | 304);
    assert!(
        has_none || (sent.has_ended && sent.body.len() == body.len()),
        "a part was passed on as whole: {head:?}, {} of {} octets",
        body.len(),
        sent.body.len()
    );
    &mut counters.whole
}
