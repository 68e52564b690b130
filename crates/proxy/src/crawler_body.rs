//! The body of a crawler's request, as it comes.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::sync::oneshot;

use super::http2::Upload;
use crawlgate_egress::BodyError;
use crawlgate_net::http2_body::Tunnel;

/// The octets after the answer to a CONNECT on HTTP/2.
#[derive(Debug)]
pub struct OnTunnel {
    /// Resolves when the answer has gone.
    pub opening: oneshot::Receiver<Tunnel>,
    /// The `Sec-WebSocket-Accept` without which no WebSocket begins; `None` for an ordinary CONNECT.
    pub accept: Option<Box<str>>,
}

/// The body of a crawler's request.
#[derive(Debug)]
pub enum CrawlerBody {
    /// None.
    Empty,
    /// None: the octets after the answer to a CONNECT on HTTP/2.
    Tunnel(OnTunnel),
    /// On HTTP/1.1.
    Http1(Incoming),
    /// On a stream of HTTP/2.
    Http2(Upload),
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
            CrawlerBody::Http2(upload) => Pin::new(upload).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            CrawlerBody::Empty | CrawlerBody::Tunnel(_) => true,
            CrawlerBody::Http1(incoming) => incoming.is_end_stream(),
            CrawlerBody::Http2(upload) => upload.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            CrawlerBody::Empty | CrawlerBody::Tunnel(_) => SizeHint::with_exact(0),
            CrawlerBody::Http1(incoming) => incoming.size_hint(),
            CrawlerBody::Http2(upload) => upload.size_hint(),
        }
    }
}
