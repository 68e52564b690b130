//! The body of an origin's response.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use super::http2;
use super::multiplexer::Place;
use super::pool::Lease;

/// The body of an origin's response, holding the connection, or the place on one, that it comes by.
pub struct ResponseBody(Octets);

enum Octets {
    Http1(Exclusive),
    /// Boxed: it is larger, and should not burden the answers by HTTP/1.1.
    Http2(Box<http2::Body<Place>>),
}

/// A body that has its connection to itself.
struct Exclusive {
    incoming: Incoming,
    lease: Option<Lease>,
}

impl ResponseBody {
    pub(super) fn http1(incoming: Incoming, lease: Lease) -> ResponseBody {
        let mut body = Exclusive {
            incoming,
            lease: Some(lease),
        };
        body.finish();
        ResponseBody(Octets::Http1(body))
    }

    pub(super) fn http2(body: http2::Body<Place>) -> ResponseBody {
        ResponseBody(Octets::Http2(Box::new(body)))
    }
}

impl Exclusive {
    fn finish(&mut self) {
        if self.incoming.is_end_stream()
            && let Some(lease) = self.lease.take()
        {
            lease.give_back();
        }
    }

    fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = ready!(Pin::new(&mut self.incoming).poll_frame(cx));
        match &frame {
            Some(Ok(frame)) if !frame.is_trailers() => self.finish(),
            Some(Err(_)) => self.lease = None,
            // Nothing follows a trailer section (RFC 9112 7.1.2), and nothing asks for more after it.
            Some(Ok(_)) | None => {
                if let Some(lease) = self.lease.take() {
                    lease.give_back();
                }
            }
        }
        Poll::Ready(frame)
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = ResponseError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ResponseError>>> {
        match &mut self.get_mut().0 {
            Octets::Http1(body) => body
                .poll_frame(cx)
                .map(|frame| frame.map(|frame| frame.map_err(ResponseError::Http1))),
            Octets::Http2(body) => Pin::new(body)
                .poll_frame(cx)
                .map(|frame| frame.map(|frame| frame.map_err(ResponseError::Http2))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Octets::Http1(body) => body.incoming.is_end_stream(),
            Octets::Http2(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Octets::Http1(body) => body.incoming.size_hint(),
            Octets::Http2(body) => body.size_hint(),
        }
    }
}

impl fmt::Debug for ResponseBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseBody").finish_non_exhaustive()
    }
}

/// The error that a response's body ended with.
#[derive(Debug, thiserror::Error)]
#[error("the response broke off")]
pub enum ResponseError {
    /// Of an HTTP/1.1 connection.
    Http1(#[source] hyper::Error),
    /// Of an HTTP/2 stream.
    Http2(#[source] h2::Error),
}
