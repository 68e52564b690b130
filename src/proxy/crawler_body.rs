//! The body of a crawler's request, as it comes.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::RecvStream;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::sync::oneshot;

use super::http2::Tunnel;
use crate::egress::BodyError;

/// The body of a crawler's request.
#[derive(Debug)]
pub enum CrawlerBody {
    /// None.
    Empty,
    /// None: the octets after the answer to a CONNECT on HTTP/2.
    Tunnel(oneshot::Receiver<Tunnel>),
    /// On HTTP/1.1.
    Http1(Incoming),
    /// On a stream of HTTP/2. What was read makes room for more.
    Http2(RecvStream),
}

impl Body for CrawlerBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match self.get_mut() {
            CrawlerBody::Empty | CrawlerBody::Tunnel(_) => Poll::Ready(None),
            CrawlerBody::Http1(incoming) => {
                let frame = ready!(Pin::new(incoming).poll_frame(cx));
                Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
            }
            CrawlerBody::Http2(stream) => {
                match ready!(stream.poll_data(cx)) {
                    Some(Ok(data)) => {
                        let released = stream.flow_control().release_capacity(data.len());
                        let frame = released.map(|()| Frame::data(data));
                        return Poll::Ready(Some(frame.map_err(Into::into)));
                    }
                    // A reset of any kind: the request is not whole.
                    Some(Err(error)) => return Poll::Ready(Some(Err(error.into()))),
                    None => {}
                }
                let trailers = ready!(stream.poll_trailers(cx));
                Poll::Ready(match trailers {
                    Ok(trailers) => trailers.map(|trailers| Ok(Frame::trailers(trailers))),
                    Err(error) => Some(Err(error.into())),
                })
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            CrawlerBody::Empty | CrawlerBody::Tunnel(_) => true,
            CrawlerBody::Http1(incoming) => incoming.is_end_stream(),
            CrawlerBody::Http2(stream) => stream.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            CrawlerBody::Empty | CrawlerBody::Tunnel(_) => SizeHint::with_exact(0),
            CrawlerBody::Http1(incoming) => incoming.size_hint(),
            // A declared length is in the fields; the origin is sent it, and `h2` holds DATA against it.
            CrawlerBody::Http2(_) => SizeHint::default(),
        }
    }
}
