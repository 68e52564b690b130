//! A WebSocket on a stream (RFC 8441), from a handshake by HTTP/1.1 and with an answer as HTTP/1.1 has it: the crawler
//! may speak HTTP/1.1.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use h2::ext::Protocol;
use h2::{RecvStream, SendStream};
use http::header::{CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, UPGRADE};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crawlgate_net::http2_body::Tunnel;
use crawlgate_net::websocket::accept;

/// Turns the head of a handshake with these fields into an extended CONNECT. Returns the answer to its key; `None` if it
/// is no handshake.
pub(super) fn translate(head: &mut Request<()>, fields: &HeaderMap) -> Option<HeaderValue> {
    if !fields.contains_key(UPGRADE) {
        return None;
    }
    let key = head.headers_mut().remove(SEC_WEBSOCKET_KEY)?;
    *head.method_mut() = Method::CONNECT;
    head.extensions_mut().insert(Protocol::from_static("websocket"));
    HeaderValue::try_from(accept(key.as_bytes())).ok()
}

/// The octets of a WebSocket on a stream. `H` is held until its end.
pub(in super::super) struct Switched<H> {
    /// Dropped first: the stream ends before its place is free for another one.
    octets: Tunnel,
    _held: H,
}

impl<H> Switched<H> {
    /// Turns the answer that begins a WebSocket into the one to a handshake, which `accept`s its key.
    pub(super) fn of(
        response: Response<RecvStream>,
        sending: SendStream<Bytes>,
        accept: HeaderValue,
        held: H,
    ) -> Response<Switched<H>> {
        let (mut head, receiving) = response.into_parts();
        head.status = StatusCode::SWITCHING_PROTOCOLS;
        let fields = &mut head.headers;
        fields.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        fields.insert(UPGRADE, HeaderValue::from_static("websocket"));
        fields.insert(SEC_WEBSOCKET_ACCEPT, accept);
        let body = Switched { octets: Tunnel::new(receiving, sending), _held: held };
        Response::from_parts(head, body)
    }
}

impl<H: Unpin> AsyncRead for Switched<H> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().octets).poll_read(cx, buf)
    }
}

impl<H: Unpin> AsyncWrite for Switched<H> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().octets).poll_write(cx, buf)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().octets).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().octets).poll_shutdown(cx)
    }
}
