//! The body of a response on its stream.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::{Reason, RecvStream};
use http::header::CONTENT_LENGTH;
use http::{Method, Response, StatusCode};
use http_body::{Frame, SizeHint};
use tokio::task::AbortHandle;

use super::connection::Connection;
use super::exchange::{Opened, is_broken};
use super::fields::are_too_long;
use crate::failure::ResponseError;
use crawlgate_net::http2_body::{self, End};

/// A body under way. Dropped before its end, it resets its stream with CANCEL. `H` is held until then.
pub(in super::super) struct Body<H> {
    /// `None` at the end.
    open: Option<Open<H>>,
    /// Octets left of a known length.
    left: Option<u64>,
}

/// The fields are dropped in this order: the stream ends before its place is free for another one.
struct Open<H> {
    stream: RecvStream,
    connection: Arc<Connection>,
    _upload: Option<Aborted>,
    _held: H,
}

/// A task that ends with the body.
struct Aborted(AbortHandle);

impl Drop for Aborted {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl<H> Body<H> {
    /// Splits a response to a request by `method` into its head and its body, which holds `held`. An upload continues
    /// beside it. True beside `held`: octets of a response that has none make it invalid.
    pub(in super::super) fn of(
        method: &Method,
        opened: Opened,
        connection: Arc<Connection>,
        (held, is_whole): (H, bool),
    ) -> Response<Body<H>> {
        let Opened { response, upload, .. } = opened;
        let has_none = response.status() == StatusCode::NO_CONTENT;
        let is_empty = *method == Method::HEAD
            || response.status() == StatusCode::NOT_MODIFIED
            || has_none && !is_whole;
        let length = response.headers().get(CONTENT_LENGTH);
        let left = if has_none {
            Some(0)
        } else {
            length.and_then(|length| length.to_str().ok()?.parse().ok())
        };
        response.map(|stream| {
            if is_empty || stream.is_end_stream() {
                return Body { open: None, left: Some(0) };
            }
            let upload = upload.map(|mut upload| {
                let upload = tokio::spawn(async move {
                    if (&mut upload).await == End::Broken {
                        upload.reset(Reason::CANCEL);
                    }
                });
                Aborted(upload.abort_handle())
            });
            Body { open: Some(Open { stream, connection, _upload: upload, _held: held }), left }
        })
    }
}

impl<H> Body<H> {
    fn finish(&mut self) {
        self.open = None;
        self.left = Some(0);
    }
}

impl<H: Unpin> http_body::Body for Body<H> {
    type Data = Bytes;
    type Error = ResponseError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ResponseError>>> {
        let this = self.get_mut();
        let Some(open) = &mut this.open else {
            return Poll::Ready(None);
        };
        let frame = ready!(http2_body::poll_frame(&mut open.stream, cx));
        if let Some(Err(error)) = &frame
            && is_broken(error, false)
        {
            open.connection.break_off();
        }
        let trailers = |frame: &Frame<Bytes>| frame.trailers_ref().is_some_and(are_too_long);
        let left = this.left;
        let is_longer = |frame: &Frame<Bytes>| {
            let octets = frame.data_ref().map_or(0, Bytes::len);
            left.is_some_and(|left| left < octets as u64)
        };
        let frame = match frame {
            // `h2` may have dropped some of them.
            Some(Ok(frame)) if trailers(&frame) => {
                Some(Err(ResponseError::Http2(Reason::ENHANCE_YOUR_CALM.into())))
            }
            Some(Ok(frame)) if is_longer(&frame) => Some(Err(ResponseError::Length)),
            // `h2` resets a stream with more or fewer octets than its content-length.
            Some(Err(error)) if left.is_some() && is_of_this_stream(&error) => {
                Some(Err(ResponseError::Length))
            }
            frame => frame.map(|frame| frame.map_err(ResponseError::Http2)),
        };
        match &frame {
            Some(Ok(frame)) if let Some(octets) = frame.data_ref() => {
                if let Some(left) = &mut this.left {
                    *left = left.saturating_sub(octets.len() as u64);
                }
                if open.stream.is_end_stream() {
                    this.finish();
                }
            }
            Some(Err(_)) => this.open = None,
            Some(Ok(_)) | None => this.finish(),
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.open.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        self.left.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

/// Tells whether `h2` has reset only the stream, because it breaks the protocol.
fn is_of_this_stream(error: &h2::Error) -> bool {
    error.is_library() && error.is_reset() && error.reason() == Some(Reason::PROTOCOL_ERROR)
}
