//! The body of an origin's response.

use std::future::{Future as _, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use std::{fmt, io};

use bytes::Bytes;
use http::Response;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;

use super::failure::ResponseError;
use super::ftp::Body as FtpBody;
use super::http1::Followed;
use super::http2::{Body as Http2Body, Switched as WebSocket};
use super::multiplexer::Place;
use super::pool::Lease;

/// Limit on a discarded body that is read so that its connection serves another request, in octets.
const MAX_DISCARDED: u64 = 65_536;

/// Time for the octets of a discarded body, which are on their way already.
const DISCARDING: Duration = Duration::from_secs(1);

/// The body of an origin's response, holding the connection, or the place on one, that it comes by.
pub struct ResponseBody(Octets);

#[allow(
    clippy::large_enum_variant,
    reason = "the large one is the frequent one, and a box would cost each answer an allocation"
)]
enum Octets {
    Http1(Exclusive),
    /// Boxed: it is larger, and should not burden the answers by HTTP/1.1.
    Http2(Box<Http2Body<Place>>),
    /// Boxed for the same reason.
    Ftp(Box<FtpBody>),
    /// A WebSocket: it begins after the head, and there is no body.
    Switched(Box<WebSocket<Place>>),
}

/// A body that has its connection to itself.
struct Exclusive {
    incoming: Incoming,
    lease: Option<Lease>,
    /// Tells whether octets followed, where that makes the response invalid; none once it is known.
    followed: Option<Followed>,
}

impl ResponseBody {
    pub(super) fn http1(incoming: Incoming, mut lease: Lease) -> ResponseBody {
        let mut body =
            Exclusive { incoming, followed: lease.connection.followed.take(), lease: Some(lease) };
        body.finish();
        ResponseBody(Octets::Http1(body))
    }

    pub(super) fn http2(body: Http2Body<Place>) -> ResponseBody {
        ResponseBody(Octets::Http2(Box::new(body)))
    }

    pub(super) fn ftp(body: FtpBody) -> ResponseBody {
        ResponseBody(Octets::Ftp(Box::new(body)))
    }

    pub(super) fn switched(octets: WebSocket<Place>) -> ResponseBody {
        ResponseBody(Octets::Switched(Box::new(octets)))
    }

    /// Drops a body that no crawler gets. The connection goes back to the pool if the rest is announced, short and there;
    /// otherwise it is closed, or the stream is reset, and an upload ends with it.
    pub fn discard(self) {
        let Octets::Http1(mut body) = self.0 else {
            return;
        };
        if body.is_worth_reading() {
            tokio::spawn(timeout(DISCARDING, body.read_to_end()));
        } else if let Some(lease) = body.lease.take() {
            lease.close();
        }
    }
}

/// The octets to and from an origin that has switched protocols.
pub trait Switched: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Switched for T {}

/// Returns the octets that follow a response that switches protocols.
///
/// # Errors
/// When the connection has ended before.
pub async fn switched(mut response: Response<ResponseBody>) -> io::Result<Box<dyn Switched>> {
    let upgrade = hyper::upgrade::on(&mut response);
    match response.into_body().0 {
        Octets::Switched(octets) => Ok(octets),
        // Held until the switch: they are its connection's.
        _held @ (Octets::Http1(_) | Octets::Http2(_) | Octets::Ftp(_)) => {
            let upgraded = upgrade.await.map_err(io::Error::other)?;
            Ok(Box::new(TokioIo::new(upgraded)))
        }
    }
}

impl Exclusive {
    /// Tells whether the end of the body is near, and the connection can carry another exchange after it.
    fn is_worth_reading(&self) -> bool {
        let length = self.incoming.size_hint().exact();
        length.is_some_and(|length| length <= MAX_DISCARDED)
            && self.lease.as_ref().is_some_and(|lease| !lease.is_alone())
    }

    /// Reads the body and forgets it.
    async fn read_to_end(mut self) {
        while let Some(Ok(_)) = poll_fn(|cx| self.poll_frame(cx)).await {}
    }

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
    ) -> Poll<Option<Result<Frame<Bytes>, ResponseError>>> {
        let frame = ready!(Pin::new(&mut self.incoming).poll_frame(cx));
        match &frame {
            Some(Ok(frame)) if !frame.is_trailers() => self.finish(),
            Some(Err(_)) => (self.lease, self.followed) = (None, None),
            // Nothing follows a trailer section (RFC 9112 7.1.2), and nothing asks for more after it.
            Some(Ok(_)) | None => {
                if let Some(lease) = self.lease.take() {
                    lease.give_back();
                }
            }
        }
        if frame.is_none()
            && let Some(followed) = &mut self.followed
        {
            // If the end was not seen, more may follow.
            let follows = ready!(Pin::new(followed).poll(cx)).unwrap_or(true);
            self.followed = None;
            return Poll::Ready(follows.then_some(Err(ResponseError::Length)));
        }
        Poll::Ready(frame.map(|frame| frame.map_err(ResponseError::Http1)))
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
            Octets::Http1(body) => body.poll_frame(cx),
            Octets::Http2(body) => Pin::new(body).poll_frame(cx),
            Octets::Ftp(body) => body
                .poll_frame(cx)
                .map(|frame| frame.map(|frame| frame.map_err(ResponseError::Ftp))),
            Octets::Switched(_) => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Octets::Http1(body) => body.incoming.is_end_stream() && body.followed.is_none(),
            Octets::Http2(body) => body.is_end_stream(),
            Octets::Ftp(body) => body.is_end_stream(),
            Octets::Switched(_) => true,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Octets::Http1(body) => body.incoming.size_hint(),
            Octets::Http2(body) => body.size_hint(),
            Octets::Ftp(body) => body.size_hint(),
            Octets::Switched(_) => SizeHint::with_exact(0),
        }
    }
}

impl fmt::Debug for ResponseBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseBody").finish_non_exhaustive()
    }
}
