//! The exchange with the origin: an allowed request goes out, its response head comes back.
//!
//! `send(permit, …)` is the only call in the proxy that makes a request leave; `connect` has another one, for opaque
//! tunnels.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use http::header::{EXPECT, HeaderMap};
use http::{Request, StatusCode, Version};
use http_body::Body as _;
use tokio::sync::oneshot;

use super::client_stream::CrawlerBody;
use super::connection::Connection;
use super::exchange_state::ExchangeState;
use super::fields;
use super::recorder::{Exchange, Sent};
use super::stall::{StallLimit, Timer};
use super::upload::{ContinueSignal, Upload, UploadProgress, UploadState};
use crawlgate_egress::{
    self, Crawler, Failure, OutgoingRequest, RequestBody, Reuse, Signer, Unsent,
};
use crawlgate_gate::{Kind, MAX_JUDGEMENTS};
use crawlgate_policy::{Decision, Permit};
use crawlgate_system::clock::Moment;

/// Time that the origin may take over `Expect: 100-continue` before the body is sent regardless (RFC 9110 10.1.1: a
/// client need not wait for ever).
const CONTINUE_TIMEOUT: Duration = Duration::from_secs(1);

/// The maximum number of times that crawlgate sends a request again that got no answer.
const MAX_RETRIES: usize = 3;

/// The maximum number of times that crawlgate sends a request again that a connection has left behind which served others: each
/// of them is another request that the origin has processed.
const MAX_LEFT_BEHIND: usize = 100;

/// The attempt that a request is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Attempt {
    /// The first one is in flight.
    First,
    /// The request waits to be judged again, or for a turn to be sent again.
    AwaitingRetry,
    /// A further one is in flight.
    Retry,
}

/// A response head, with the state that its body needs.
#[derive(Debug)]
pub struct Received {
    /// The head, and the address that sent it.
    pub head: crawlgate_egress::Received,
    /// The continue signal of the request's body, kept while the response's body is read: without it the upload breaks
    /// off, and the connection with it.
    pub continue_signal: Option<Arc<ContinueSignal>>,
    /// The running timer; the response's body continues with it.
    pub timer: Timer,
}

/// Reason that no response head came.
#[derive(Debug)]
pub enum Unanswered {
    /// Sending or receiving failed.
    Failed(Failure),
    /// The request was judged again and may not go out; the exchange has the decision.
    Denied,
}

impl From<Failure> for Unanswered {
    fn from(failure: Failure) -> Unanswered {
        Unanswered::Failed(failure)
    }
}

/// Sends an allowed request and waits for the response head. Interim responses go to the exchange state.
///
/// # Errors
/// The failure or denial before a response head came.
pub async fn send(
    connection: &Connection,
    permit: Permit,
    request: Box<Request<CrawlerBody>>,
    (exchange, now): (&mut Exchange<Sent>, Moment),
) -> Result<Received, Unanswered> {
    // Time for the head of the origin's response, once it has the request.
    let origin = exchange.settings().upstream.response_timeout;
    let is_http_10 = request.version() == Version::HTTP_10;
    let (request, upload, continue_signal) = with_upload(request, exchange);
    let state = Arc::clone(exchange.state());
    // HTTP/1.0 has no interim responses (RFC 9110 15.2).
    let takes_interim = (!is_http_10).then(|| Arc::clone(&state));
    let stamps = exchange.settings().robots.signals.stamp;
    let interim = relay_interim(takes_interim, stamps, continue_signal.clone());
    let attempt = AtomicU8::new(Attempt::First as u8);
    let mut sent =
        std::pin::pin!(deliver(connection, permit, request, interim, now, exchange, &attempt,));
    let upload = upload.as_deref();
    // A request that is sent again gets the origin's time anew.
    let progress = || {
        let octets = upload.map_or(0, |upload| upload.octets.load(Ordering::Relaxed));
        (octets, attempt.load(Ordering::Relaxed))
    };
    let is = |flow| upload.is_some_and(|upload| upload.flow() == flow);
    let mut seen = progress();
    let mut timer = Timer::new(if continue_signal.is_some() { CONTINUE_TIMEOUT } else { origin });
    let head = loop {
        tokio::select! {
            biased;
            received = &mut sent => break match received {
                Err(Unanswered::Failed(Failure::RequestBody)) if is(UploadState::Stalled) => {
                    return Err(Failure::RequestStalled.into());
                }
                received => received?,
            },
            () = timer.fire() => {}
        }
        if let Some(continue_signal) = &continue_signal
            && continue_signal.send()
        {
            state.push_continue();
            timer.restart(origin);
            continue;
        }
        // While a body moves or is waited for, the origin's time does not start.
        let now = progress();
        if std::mem::replace(&mut seen, now) == now
            && !is(UploadState::Awaited)
            && now.1 != Attempt::AwaitingRetry as u8
        {
            return Err(Failure::ResponseTimeout.into());
        }
        timer.restart(origin);
    };
    Ok(Received { head, continue_signal, timer })
}

/// Passes interim responses of the origin on to the crawler, if it takes any. A 100 lets a body go that waits for one. If
/// this program `stamps` responses, no origin does in its name.
fn relay_interim(
    state: Option<Arc<ExchangeState>>,
    stamps: bool,
    continue_signal: Option<Arc<ContinueSignal>>,
) -> impl Fn(StatusCode, &HeaderMap) + Clone {
    move |status, fields| match (&state, status, &continue_signal) {
        (None, ..) => {}
        (Some(state), StatusCode::CONTINUE, Some(continue_signal)) => {
            if continue_signal.send() {
                state.push_continue();
            }
        }
        // The crawler did not ask for it.
        (Some(_), StatusCode::CONTINUE | StatusCode::SWITCHING_PROTOCOLS, _) => {}
        (Some(state), status, _) if stamps => {
            state.push_interim(status, &fields::own::unstamped(fields));
        }
        (Some(state), status, _) => state.push_interim(status, fields),
    }
}

/// Puts the body of a crawler's request under watch. Returns the request, the progress of its body if it has one, and
/// the signal that lets the body go if the crawler waits for one (RFC 9110 10.1.1).
fn with_upload(
    request: Box<Request<CrawlerBody>>,
    exchange: &mut Exchange<Sent>,
) -> (OutgoingRequest, Option<Arc<UploadProgress>>, Option<Arc<ContinueSignal>>) {
    let (parts, incoming) = request.into_parts();
    if incoming.is_end_stream() {
        let request = Request::from_parts(parts, RequestBody::Empty);
        return (Box::new(request), None, None);
    }
    let expects = parts
        .headers
        .get(EXPECT)
        .is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"100-continue"));
    let (continue_signal, invited) = if expects {
        let (invite, invited) = oneshot::channel();
        (Some(Arc::new(ContinueSignal::new(invite))), Some(invited))
    } else {
        (None, None)
    };
    let progress = Arc::new(UploadProgress::new(exchange.octets_in()));
    let stall = StallLimit::of(&exchange.settings().limits);
    let upload = Upload::new(incoming, Arc::clone(&progress), stall, invited);
    let request = Request::from_parts(parts, RequestBody::stream(upload));
    (Box::new(request), Some(progress), continue_signal)
}

/// Sends a request until it is answered, denied or lost for good. `attempt` shows whether it waits meanwhile. A request that
/// was lost once has left: its decision stays the one that it left by, unless it is sent again.
async fn deliver(
    connection: &Connection,
    mut permit: Permit,
    mut request: OutgoingRequest,
    interim: impl Fn(StatusCode, &HeaderMap) + Clone + Send + Sync + 'static,
    mut now: Moment,
    exchange: &mut Exchange<Sent>,
    attempt: &AtomicU8,
) -> Result<crawlgate_egress::Received, Unanswered> {
    let proxy = connection.proxy();
    let (mut overtaken, mut lost, mut left_behind) = (0, 0, 0);
    let mut left_by: Option<Decision> = None;
    while overtaken < MAX_JUDGEMENTS {
        let crawler = Crawler {
            client: exchange.client().name.clone(),
            pinned: Arc::clone(&connection.pinned),
        };
        let signed_as = exchange.client().signed_as.as_deref();
        let signer = proxy.egress.signer(signed_as);
        match &signer {
            Some(signer) => drop(request.extensions_mut().insert(signer.clone())),
            None => drop(request.extensions_mut().remove::<Signer>()),
        }
        exchange.set_signer(signer);
        let reuse = match lost {
            0 => Reuse::Allowed,
            _ => Reuse::Forbidden,
        };
        let sent = proxy.egress.send(permit, crawler, request, interim.clone(), now, reuse);
        let (again, has_left) = match sent.await {
            Ok(received) => return Ok(received),
            Err(Unsent::Failed(failure)) if is_recorded_unsent(&failure) => {
                return Err(unsent_or_lost(failure.into(), left_by, exchange));
            }
            Err(Unsent::Failed(failure)) => return Err(failure.into()),
            Err(Unsent::Overtaken(again)) => {
                overtaken += 1;
                (again, false)
            }
            Err(Unsent::Lost(again)) => {
                lost += 1;
                (again, true)
            }
            Err(Unsent::LeftBehind(again)) => {
                left_behind += 1;
                (again, true)
            }
        };
        attempt.store(Attempt::AwaitingRetry as u8, Ordering::Relaxed);
        if has_left {
            left_by = Some(exchange.decision().clone());
            let is_over = lost > MAX_RETRIES || left_behind > MAX_LEFT_BEHIND;
            if is_over || !exchange.retry_turn().await {
                return Err(Failure::Terminated.into());
            }
        }
        // Boxed: it is rare, and should not burden every request's future.
        let cleared = Box::pin(connection.judge(Kind::Request, again.target, exchange.gated()));
        let (Some(cleared), _) = cleared.await else {
            return Err(unsent_or_lost(Unanswered::Denied, left_by, exchange));
        };
        permit = cleared;
        request = again.request;
        attempt.store(Attempt::Retry as u8, Ordering::Relaxed);
        now = proxy.clock.now();
    }
    proxy.give_up(exchange.gated());
    Err(unsent_or_lost(Unanswered::Denied, left_by, exchange))
}

/// Tells whether the record of a request with this failure says that nothing was sent.
fn is_recorded_unsent(failure: &Failure) -> bool {
    matches!(
        failure,
        Failure::Prohibited(_) | Failure::Exhausted | Failure::Crowded | Failure::LoginLost
    )
}

/// Returns the end of a request that is not sent now. If an earlier attempt has left, the request ends as lost, under the
/// decision that it has left by: a refusal would say that the origin has seen nothing.
fn unsent_or_lost(
    end: Unanswered,
    left_by: Option<Decision>,
    exchange: &mut Exchange<Sent>,
) -> Unanswered {
    match left_by {
        None => end,
        Some(decision) => {
            exchange.gated().withdraw(decision);
            Failure::Terminated.into()
        }
    }
}
