//! The body of a response on its stream.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::RecvStream;
use http::header::CONTENT_LENGTH;
use http::{Method, Response, StatusCode};
use http_body::{Frame, SizeHint};
use tokio::task::AbortHandle;

use super::exchange::Opened;

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
    /// Splits a response to a request by `method` into its head and its body, which holds `held`. An upload goes on
    /// beside it.
    pub(in super::super) fn of(method: &Method, opened: Opened, held: H) -> Response<Body<H>> {
        let Opened { response, upload } = opened;
        let is_empty = *method == Method::HEAD
            || matches!(
                response.status(),
                StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED
            );
        let length = response.headers().get(CONTENT_LENGTH);
        let left = length.and_then(|length| length.to_str().ok()?.parse().ok());
        response.map(|stream| {
            if is_empty || stream.is_end_stream() {
                return Body {
                    open: None,
                    left: Some(0),
                };
            }
            let upload = upload.map(|upload| Aborted(tokio::spawn(upload).abort_handle()));
            Body {
                open: Some(Open {
                    stream,
                    _upload: upload,
                    _held: held,
                }),
                left,
            }
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
    type Error = h2::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        let this = self.get_mut();
        let open = loop {
            let Some(open) = &mut this.open else {
                return Poll::Ready(None);
            };
            let octets = match ready!(open.stream.poll_data(cx)) {
                None => break open,
                Some(Ok(octets)) => octets,
                Some(Err(error)) => {
                    this.open = None;
                    return Poll::Ready(Some(Err(error)));
                }
            };
            // The origin may send as much again: a crawler that reads no further holds it back.
            let released = open.stream.flow_control().release_capacity(octets.len());
            debug_assert!(released.is_ok(), "no more than was received");
            if let Some(left) = &mut this.left {
                *left = left.saturating_sub(octets.len() as u64);
            }
            if open.stream.is_end_stream() {
                this.finish();
            }
            if !octets.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(octets))));
            }
        };
        let trailers = ready!(open.stream.poll_trailers(cx));
        this.open = None;
        this.left = Some(0);
        Poll::Ready(
            trailers
                .transpose()
                .map(|trailers| trailers.map(Frame::trailers)),
        )
    }

    fn is_end_stream(&self) -> bool {
        self.open.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        self.left
            .map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}
