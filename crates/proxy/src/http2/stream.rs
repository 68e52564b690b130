//! One HTTP/2 stream: an exchange, from the head of its request to the end of its answer.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use http::header::{CONNECTION, DATE, Entry, HeaderValue, TRANSFER_ENCODING};
use http::{HeaderMap, Method, Request, Response};
use http_body::Body as _;
use tokio::sync::{Notify, oneshot};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::super::body::Answer;
use super::super::carrier::Http2Exchange;
use super::super::checked_stream::{CHANCE, ConnectionTimeouts};
use super::super::client_stream::{CrawlerBody, OnTunnel};
use super::super::connection::ConnectionState;
use super::super::connection::{Connection, Downstream};
use super::super::exchange_state::ExchangeState;
use super::super::framing::{Bounds, Violation};
use super::super::stall::{StallLimit, StallTimer};
use super::super::target::Scope;
use super::abuse::Abuse;
use super::form;
use super::upload::Upload;
use super::websocket;
use crawlgate_net::http2_body::{End, Sending, Tunnel};
use crawlgate_turns::client::AuthCache;

/// Has the connection's task write all frames that are queued. A reset drops those of its stream.
#[derive(Default)]
pub(super) struct Flush {
    asked: Notify,
    done: Notify,
}

impl Flush {
    /// Waits until the connection's task has written what it could.
    async fn flush(&self) {
        let mut done = pin!(self.done.notified());
        done.as_mut().enable();
        self.asked.notify_one();
        // The connection may have ended.
        drop(timeout(CHANCE, done).await);
    }

    /// Waits until a stream asks.
    pub(super) async fn asked(&self) {
        self.asked.notified().await;
    }

    /// Tells the streams that their frames are written. Called when the connection was polled after
    /// [`asked`](Flush::asked).
    pub(super) fn done(&self) {
        self.done.notify_waiters();
    }
}

/// State that the streams of a connection share.
pub(super) struct Shared {
    pub(super) connection: Connection,
    pub(super) state: Arc<ConnectionState>,
    pub(super) abuse: Arc<Abuse>,
    pub(super) flush: Flush,
    /// Cancelled when an answer was sent that ends the connection.
    pub(super) last_answer: CancellationToken,
    bounds: Bounds,
    taking: StallLimit,
}

impl Shared {
    /// Creates the state of a connection without streams.
    pub(super) fn new(
        downstream: Downstream,
        scope: Scope,
        timeouts: ConnectionTimeouts,
        abuse: Arc<Abuse>,
    ) -> Shared {
        Shared {
            state: Arc::new(ConnectionState::of(&downstream.slot)),
            connection: Connection {
                downstream,
                scope,
                auth_cache: AuthCache::default(),
                pinned: Arc::default(),
            },
            abuse,
            flush: Flush::default(),
            last_answer: CancellationToken::new(),
            bounds: timeouts.bounds,
            taking: timeouts.taking,
        }
    }
}

/// The crawler has reset the stream, or has gone.
struct StreamReset;

/// Runs the exchange of a stream. If the crawler resets the stream, the exchange is dropped, and its request to the
/// origin with it.
pub(super) async fn run(
    shared: Arc<Shared>,
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
) {
    let mut violation = form::check(&request, shared.bounds).err();
    let (mut parts, received) = request.into_parts();
    form::join_cookies(&mut parts.headers);
    let is_tunnel = parts.method == Method::CONNECT;
    let accept = match websocket::translate(&mut parts) {
        Some(Ok(accept)) => Some(accept),
        Some(Err(_)) => {
            violation.get_or_insert(Violation::Protocol);
            None
        }
        None => None,
    };
    let is_websocket = accept.is_some();
    let (body, tunnel, rest) = if is_tunnel {
        let (opened, opening) = oneshot::channel();
        (CrawlerBody::Tunnel(OnTunnel { opening, accept }), Some((opened, received)), None)
    } else {
        form::frame(&mut parts.headers, received.is_end_stream());
        let (upload, rest) = Upload::new(received, shared.bounds);
        (CrawlerBody::Http2(upload), None, Some(rest))
    };
    let http2 = Arc::new(Http2Exchange::of(violation));
    let state = Arc::new(ExchangeState::of_http2(&shared.state, &http2));
    let request = Box::new(Request::from_parts(parts, body));
    let answered = answer(&shared.connection, &state, request, &http2, &mut respond).await;
    let Ok(response) = answered else {
        shared.abuse.count_reset();
        return;
    };
    let (mut head, body) = response.into_parts();
    strip(&mut head.headers);
    // RFC 9110 6.6.1; hyper adds it on HTTP/1.
    if let Entry::Vacant(date) = head.headers.entry(DATE) {
        let now = shared.connection.downstream.proxy.clock().now();
        if let Ok(now) = HeaderValue::try_from(httpdate::fmt_http_date(now.into())) {
            date.insert(now);
        }
    }
    let opens = if is_websocket {
        websocket::complete(&mut head.status, &mut head.headers)
    } else {
        head.status.is_success()
    };
    let head = Response::from_parts(head, ());
    if let Some((opened, received)) = tunnel.filter(|_| opens) {
        if let Ok(sending) = respond.send_response(head, false) {
            // The exchange may have ended.
            drop(opened.send(Tunnel::new(received, sending)));
        }
        return;
    }
    let is_whole = body.is_end_stream();
    let Ok(sending) = respond.send_response(head, is_whole) else {
        // The crawler reset the stream in the moment of the answer.
        shared.abuse.count_reset();
        return;
    };
    if !is_whole {
        send(body, sending, &http2, shared.taking, &shared.flush).await;
    }
    // The exchange is over.
    let is_last = http2.is_last.load(Ordering::Relaxed);
    drop((state, http2));
    if is_last {
        shared.flush.flush().await;
        shared.last_answer.cancel();
    }
    if let Some(rest) = rest {
        rest.discard(&shared.state).await;
    }
}

/// Waits for the answer, and sends the interim responses before it.
async fn answer(
    connection: &Connection,
    state: &Arc<ExchangeState>,
    request: Box<Request<CrawlerBody>>,
    http2: &Http2Exchange,
    respond: &mut SendResponse<Bytes>,
) -> Result<Response<Answer>, StreamReset> {
    let mut answering = pin!(connection.exchange(state, request));
    poll_fn(|cx| {
        let answered = answering.as_mut().poll(cx);
        // Also those that came together with the answer.
        for interim in http2.take_interim(cx) {
            // A stream that was reset is noticed below.
            drop(respond.send_informational(interim));
        }
        if let Poll::Ready(response) = answered {
            return Poll::Ready(Ok(response));
        }
        match respond.poll_reset(cx) {
            Poll::Ready(_) => Poll::Ready(Err(StreamReset)),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// Removes the fields that only a HTTP/1.1 connection has (RFC 9113 8.2.2).
fn strip(headers: &mut HeaderMap) {
    headers.remove(CONNECTION);
    headers.remove(TRANSFER_ENCODING);
}

/// Sends the body of an answer as fast as the crawler takes it.
async fn send(
    body: Answer,
    stream: SendStream<Bytes>,
    http2: &Http2Exchange,
    taking: StallLimit,
    flush: &Flush,
) {
    let mut stall: Option<StallTimer> = None;
    let mut sending = Sending::new(stream, body);
    let ended = poll_fn(|cx| {
        let before = sending.sent();
        let ended = Pin::new(&mut sending).poll(cx);
        let moved = sending.sent() - before;
        if let Some(stall) = stall.as_mut().filter(|_| moved > 0) {
            stall.moved(moved);
        }
        if ended.is_pending() && sending.is_held_back() {
            let stall = stall.get_or_insert_with(|| StallTimer::new(taking));
            return stall.poll_too_long(cx).map(|()| None);
        }
        ended.map(Some)
    });
    match ended.await {
        Some(End::Whole | End::Reset) => {}
        // The crawler must not take a part for the whole.
        Some(End::Broken) => {
            flush.flush().await;
            sending.reset(Reason::INTERNAL_ERROR);
        }
        None => {
            http2.is_stalled.store(true, Ordering::Relaxed);
            // The crawler holds back what it has asked for.
            sending.reset(Reason::ENHANCE_YOUR_CALM);
        }
    }
}
