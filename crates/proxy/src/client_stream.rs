//! Octets of the crawler: the body of a request, and what comes once HTTP has ended, after a CONNECT or a switch of protocols.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::{io, mem};

use bytes::Bytes;
use http::header::SEC_WEBSOCKET_ACCEPT;
use http::{Request, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::oneshot;

use super::http2::Upload;
use super::limits::ConnectionSlot;
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

/// Octets to and from the crawler.
pub trait Octets: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Octets for T {}

/// The octets of a crawler's connection or stream. Boxed: tunnels are few, and each read does far more than a call.
pub type ClientStream = Box<dyn Octets>;

/// The octets to come, once the answer has gone.
#[derive(Debug)]
pub enum OnClientStream {
    /// Of a connection that spoke HTTP/1.1.
    Http1(OnUpgrade),
    /// Of an HTTP/2 stream.
    Http2(OnTunnel),
}

impl OnClientStream {
    /// Takes the octets that may follow the answer to a request; `None` if nothing can.
    pub fn take(request: &mut Request<CrawlerBody>) -> Option<OnClientStream> {
        match request.body_mut() {
            CrawlerBody::Tunnel(_) => match mem::replace(request.body_mut(), CrawlerBody::Empty) {
                CrawlerBody::Tunnel(tunnel) => Some(OnClientStream::Http2(tunnel)),
                _ => None,
            },
            CrawlerBody::Http1(_) => {
                let upgrade = request.extensions_mut().remove::<OnUpgrade>();
                upgrade.map(OnClientStream::Http1)
            }
            CrawlerBody::Empty | CrawlerBody::Http2(_) => None,
        }
    }

    /// Tells whether the origin's answer to a WebSocket handshake can be passed on. On HTTP/2 the crawler sees no
    /// `Sec-WebSocket-Accept`, and any 2xx would tell it that the WebSocket begins (RFC 8441 5).
    pub fn fits<B>(&self, response: &Response<B>) -> bool {
        let OnClientStream::Http2(OnTunnel { accept: Some(accept), .. }) = self else {
            return true;
        };
        match response.status() {
            StatusCode::SWITCHING_PROTOCOLS => response
                .headers()
                .get(SEC_WEBSOCKET_ACCEPT)
                .is_some_and(|found| found.as_bytes() == accept.as_bytes()),
            status => !status.is_success(),
        }
    }

    /// Waits until the answer has gone. A stream of HTTP/2 ends with a reset if `slot` says so; a connection knows its
    /// slot.
    ///
    /// # Errors
    /// When the connection or the stream has ended before.
    pub async fn ready(self, slot: &Arc<ConnectionSlot>) -> io::Result<ClientStream> {
        match self {
            OnClientStream::Http1(upgrade) => {
                let upgraded = upgrade.await.map_err(io::Error::other)?;
                Ok(Box::new(TokioIo::new(upgraded)))
            }
            OnClientStream::Http2(tunnel) => {
                let mut tunnel = tunnel.opening.await.map_err(io::Error::other)?;
                let slot = Arc::clone(slot);
                tunnel.obey(move || slot.resets());
                Ok(Box::new(tunnel))
            }
        }
    }
}
