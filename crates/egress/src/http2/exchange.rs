//! One exchange on a new stream, up to the head of the response.

use std::future::{Future as _, poll_fn};
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::task::Poll;

use bytes::Bytes;
use h2::client::ResponseFuture;
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use hyper::body::Body as _;

use super::super::interim::InterimCount;
use super::super::proof::Proof;
use super::super::{Failure, OutgoingRequest, RequestBody};
use super::connection::Connection;
use super::fields;
use super::fields::are_too_long;
use super::websocket::{self, Switched};
use crawlgate_net::http2_body::{End, Sending};

/// Fields of a response, as in HTTP/1.1.
const RESPONSE_FIELDS: usize = 512;

/// The last stream identifier after which a connection takes no more streams; about a billion requests.
const LAST_STREAM: u32 = 1 << 30;

/// A request that got no response.
pub(in super::super) enum Rejected {
    /// Nothing of it was sent: the connection takes no more streams.
    Unsent(OutgoingRequest),
    /// The origin did nothing with it, and says so (RFC 9113 8.7).
    Unprocessed(OutgoingRequest),
    /// The connection goes away, and the origin did nothing with it (RFC 9113 6.8). True if it has processed another one
    /// there.
    LeftBehind(OutgoingRequest, bool),
    /// The connection ended, and the origin may have processed it.
    Cut(OutgoingRequest),
    /// The origin did nothing with it and wants it by HTTP/1.1. `None` if a part of its body is gone.
    WantsHttp1(Option<OutgoingRequest>),
    /// The origin breaks the rules of HTTP/2, and may have processed it. `None` if a part of its body is gone.
    Broken(Failure, Option<OutgoingRequest>),
    /// It may have been processed.
    Failed(Failure),
}

/// A response head, and the upload if that continues.
pub(in super::super) struct Opened {
    pub(in super::super) response: Response<RecvStream>,
    pub(super) upload: Option<Sending<RequestBody>>,
    /// The answer to the key of a WebSocket's handshake, and the way for its octets.
    pub(super) websocket: Option<(HeaderValue, SendStream<Bytes>)>,
}

impl Opened {
    /// Begins the WebSocket that was asked for, which holds `held`.
    ///
    /// # Errors
    /// The response and `held`: it begins none.
    #[allow(
        clippy::result_large_err,
        reason = "it lives for an instant, and a box would cost more"
    )]
    pub(in super::super) fn switch<H>(
        mut self,
        held: H,
    ) -> Result<Response<Switched<H>>, (Opened, H)> {
        match self.websocket.take() {
            Some((accept, sending)) if self.response.status().is_success() => {
                Ok(Switched::of(self.response, sending, accept, held))
            }
            Some((_, mut sending)) => {
                // The crawler sends nothing more. A stream that was reset is at its end.
                drop(sending.send_data(Bytes::new(), true));
                Err((self, held))
            }
            None => Err((self, held)),
        }
    }
}

/// Opens a stream for a request, and waits for the head of its response. The stream is opened before the first wait,
/// and so while the proof holds.
pub(in super::super) async fn open(
    _: Proof<'_>,
    connection: &Connection,
    mut request: OutgoingRequest,
    interim: impl Fn(StatusCode, &HeaderMap),
) -> Result<Opened, Rejected> {
    let Some(mut head) = fields::head(&request, &connection.authority) else {
        return Err(Rejected::Failed(Failure::Unaddressable));
    };
    let accept = websocket::translate(&mut head, request.headers());
    let is_whole = request.body().is_end_stream();
    let sent = connection.sender.clone().send_request(head, is_whole && accept.is_none());
    let (mut response, stream) = match sent {
        Ok(sent) => sent,
        Err(error) => {
            connection.retire();
            return Err(if error.is_io() || error.is_go_away() {
                Rejected::Unsent(request)
            } else {
                Rejected::Failed(Failure::Http2)
            });
        }
    };
    if response.stream_id().as_u32() >= LAST_STREAM {
        connection.retire();
    }
    let (mut upload, websocket) = match (accept, is_whole) {
        (Some(accept), _) => (None, Some((accept, stream))),
        (None, true) => (None, None),
        (None, false) => {
            let body = std::mem::take(request.body_mut());
            (Some(Sending::new(stream, body)), None)
        }
    };
    match answered(&mut response, &mut upload, interim).await {
        Ok(response)
            if response.headers().len() > RESPONSE_FIELDS || are_too_long(response.headers()) =>
        {
            Err(Rejected::Failed(Failure::Http2))
        }
        // A client may ask again by another connection, with any method (RFC 9110 15.5.20).
        Ok(response)
            if response.status() == StatusCode::MISDIRECTED_REQUEST
                && upload.as_ref().map_or(is_whole, Sending::is_untouched) =>
        {
            Err(Rejected::WantsHttp1(unspent(request, upload, is_whole)))
        }
        Ok(response) => {
            let has_answered = &connection.status.has_answered;
            has_answered.store(true, Ordering::Release);
            Ok(Opened { response, upload, websocket })
        }
        Err(NoResponse::Failed(failure)) => Err(Rejected::Failed(failure)),
        Err(NoResponse::Origin(error)) => {
            let has_answered = connection.status.has_answered.load(Ordering::Acquire);
            let rejection = Rejection::of(&error, has_answered);
            if error.is_go_away() || rejection == Some(Rejection::WantsHttp1) {
                connection.retire();
            }
            let request = unspent(request, upload, is_whole);
            Err(match (rejection, request) {
                (Some(Rejection::Unprocessed), Some(request)) => Rejected::Unprocessed(request),
                (Some(Rejection::LeftBehind), Some(request)) => {
                    Rejected::LeftBehind(request, connection.has_served())
                }
                (Some(Rejection::Broken), request) => {
                    Rejected::Broken(Failure::of(&error), request)
                }
                (Some(Rejection::WantsHttp1), request) => Rejected::WantsHttp1(request),
                (None, Some(request)) if Failure::of(&error) == Failure::Terminated => {
                    Rejected::Cut(request)
                }
                _ => Rejected::Failed(Failure::of(&error)),
            })
        }
    }
}

/// Waits for the head of the response, and sends the body meanwhile.
async fn answered(
    response: &mut ResponseFuture,
    upload: &mut Option<Sending<RequestBody>>,
    interim: impl Fn(StatusCode, &HeaderMap),
) -> Result<Response<RecvStream>, NoResponse> {
    let mut count = InterimCount::default();
    poll_fn(|cx| {
        while let Poll::Ready(Some(Ok(one))) = response.poll_informational(cx) {
            if one.status() == StatusCode::SWITCHING_PROTOCOLS {
                // HTTP/2 has none (RFC 9113 8.6).
                return Poll::Ready(Err(NoResponse::Failed(Failure::Http2)));
            }
            if !count.holds(one.headers()) {
                return Poll::Ready(Err(NoResponse::Failed(Failure::Interim)));
            }
            interim(one.status(), one.headers());
        }
        // Before the upload: a reset that ends both leaves a body untouched that was not read yet.
        if let Poll::Ready(answer) = Pin::new(&mut *response).poll(cx) {
            return Poll::Ready(answer.map_err(NoResponse::Origin));
        }
        if let Some(body) = upload.as_mut()
            && let Poll::Ready(end) = Pin::new(body).poll(cx)
        {
            if end == End::Broken {
                return Poll::Ready(Err(NoResponse::Failed(Failure::RequestBody)));
            }
            *upload = None;
        }
        Poll::Pending
    })
    .await
}

/// Returns a request as it was if nothing of its body was taken.
fn unspent(
    mut request: OutgoingRequest,
    upload: Option<Sending<RequestBody>>,
    is_whole: bool,
) -> Option<OutgoingRequest> {
    if !is_whole {
        *request.body_mut() = upload?.untouched()?;
    }
    Some(request)
}

/// The reason that a stream had no response.
enum NoResponse {
    Failed(Failure),
    Origin(h2::Error),
}

/// The origin's word that it has not processed a request, or the sign that its HTTP/2 is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rejection {
    Unprocessed,
    LeftBehind,
    WantsHttp1,
    Broken,
}

/// Tells whether the error is that the origin breaks the rules of HTTP/2: it sends what none may send, or says `at_first` that
/// it cannot go on.
pub(super) fn is_broken(error: &h2::Error, at_first: bool) -> bool {
    match error.reason() {
        // It sends too much.
        Some(Reason::ENHANCE_YOUR_CALM) => false,
        _ if error.is_library() => true,
        Some(
            Reason::PROTOCOL_ERROR
            | Reason::INTERNAL_ERROR
            | Reason::FLOW_CONTROL_ERROR
            | Reason::FRAME_SIZE_ERROR
            | Reason::COMPRESSION_ERROR,
        ) => at_first && error.is_remote(),
        _ => false,
    }
}

impl Rejection {
    /// Reads an error; `has_answered` is true if the connection had an answer before. Of all streams of a connection that goes away,
    /// only those above the last one that the origin has processed get its GOAWAY as their error.
    fn of(error: &h2::Error, has_answered: bool) -> Option<Rejection> {
        match error.reason() {
            _ if is_broken(error, !has_answered) => Some(Rejection::Broken),
            _ if !error.is_remote() => None,
            _ if error.is_go_away() => Some(Rejection::LeftBehind),
            Some(Reason::REFUSED_STREAM) => Some(Rejection::Unprocessed),
            Some(Reason::HTTP_1_1_REQUIRED) => Some(Rejection::WantsHttp1),
            _ => None,
        }
    }
}
