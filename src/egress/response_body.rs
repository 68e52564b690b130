//! The body of an origin's response.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use super::pool::Lease;

/// The body of an origin's response, holding the connection that it comes on.
pub struct ResponseBody {
    incoming: Incoming,
    lease: Option<Lease>,
}

impl ResponseBody {
    pub(super) fn new(incoming: Incoming, lease: Lease) -> ResponseBody {
        let mut inbound = ResponseBody {
            incoming,
            lease: Some(lease),
        };
        inbound.finish();
        inbound
    }

    fn finish(&mut self) {
        if self.incoming.is_end_stream()
            && let Some(lease) = self.lease.take()
        {
            lease.give_back();
        }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let this = self.get_mut();
        let frame = ready!(Pin::new(&mut this.incoming).poll_frame(cx));
        match &frame {
            Some(Ok(frame)) if !frame.is_trailers() => this.finish(),
            Some(Err(_)) => this.lease = None,
            // Nothing follows a trailer section (RFC 9112 7.1.2), and nothing asks for more after it.
            Some(Ok(_)) | None => {
                if let Some(lease) = this.lease.take() {
                    lease.give_back();
                }
            }
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}

impl std::fmt::Debug for ResponseBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ResponseBody").finish_non_exhaustive()
    }
}
