//! The body of a request on a stream, and its rest after the answer.
//!
//! RFC 9113 8.1 lets a server reset a stream after a complete answer. Some clients then wait forever for room to send
//! the rest of their body, and never read the answer. So crawlgate reads the rest and drops it, within the
//! limits of HTTP/1.1's lingering close.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::RecvStream;
use http_body::{Body, Frame, SizeHint};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::super::connection::ConnectionState;
use super::super::framing::Bounds;
use super::super::linger;
use super::form;
use crawlgate_egress::BodyError;
use crawlgate_net::http2_body;

/// The body of a request. What was read makes room for more. Dropped before its end, it leaves the rest to the stream.
#[derive(Debug)]
pub struct Upload {
    receiving: Option<RecvStream>,
    rest: Option<oneshot::Sender<RecvStream>>,
    bounds: Bounds,
}

/// The rest of a body that was dropped before its end.
pub(super) struct Rest(oneshot::Receiver<RecvStream>);

impl Upload {
    /// Takes the body that follows a head. `bounds` are those of its trailers.
    pub(super) fn new(receiving: RecvStream, bounds: Bounds) -> (Upload, Rest) {
        let (rest, left) = oneshot::channel();
        let upload = Upload { receiving: Some(receiving), rest: Some(rest), bounds };
        (upload, Rest(left))
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if let (Some(receiving), Some(rest)) = (self.receiving.take(), self.rest.take())
            && !receiving.is_end_stream()
        {
            // A stream that has ended wants no rest.
            drop(rest.send(receiving));
        }
    }
}

impl Rest {
    /// Reads and drops the rest, until it ends or a limit is reached.
    pub(super) async fn discard(self, connection: &ConnectionState) {
        let discarding = async {
            let Ok(mut receiving) = self.0.await else {
                return;
            };
            let mut octets_left = linger::MAX_OCTETS;
            loop {
                let silence =
                    if connection.is_draining() { linger::LAST_SILENCE } else { linger::SILENCE };
                let next = poll_fn(|cx| http2_body::poll_frame(&mut receiving, cx));
                let Ok(Some(Ok(frame))) = timeout(silence, next).await else {
                    return;
                };
                let Some(octets) = frame.data_ref() else {
                    return;
                };
                octets_left = octets_left.saturating_sub(octets.len() as u64);
                if octets_left == 0 {
                    return;
                }
            }
        };
        drop(timeout(linger::TOTAL, discarding).await);
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let bounds = self.bounds;
        let Some(stream) = self.get_mut().receiving.as_mut() else {
            return Poll::Ready(None);
        };
        // A reset of any kind is an error: the request is not whole.
        let frame = ready!(http2_body::poll_frame(stream, cx));
        Poll::Ready(frame.map(|frame| {
            let frame = frame?;
            if let Some(trailers) = frame.trailers_ref() {
                form::check_trailers(trailers, bounds)
                    .map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
            }
            Ok(frame)
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.receiving.as_ref().is_none_or(RecvStream::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        // A declared length is in the fields; the origin is sent it, and `h2` holds DATA against it.
        SizeHint::default()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use h2::SendStream;
    use http::Request;
    use tokio::io::duplex;
    use tokio::time::{Instant, sleep};

    use super::*;

    const BOUNDS: Bounds = Bounds { head: 1 << 16, target: 1 << 16, fields: 100 };

    /// Returns both ends of the body of a request.
    async fn body() -> (SendStream<Bytes>, RecvStream) {
        let (crawler, proxy) = duplex(1 << 16);
        let serving = tokio::spawn(async move {
            let mut connection = h2::server::handshake(proxy).await.unwrap();
            let (request, respond) = connection.accept().await.unwrap().unwrap();
            tokio::spawn(async move {
                let _open = respond;
                while connection.accept().await.is_some() {}
            });
            request.into_body()
        });
        let (mut streams, connection) = h2::client::handshake(crawler).await.unwrap();
        tokio::spawn(connection);
        let request = Request::post("https://a.test/").body(()).unwrap();
        let (_, sending) = streams.send_request(request, false).unwrap();
        (sending, serving.await.unwrap())
    }

    /// Sends so many octets at a time, with a pause after each time, until they are refused or no longer taken.
    async fn send(mut sending: SendStream<Bytes>, octets: usize, pause: Duration) {
        loop {
            sending.reserve_capacity(octets);
            let room = poll_fn(|cx| sending.poll_capacity(cx)).await;
            let Some(Ok(room)) = room else { return };
            let data = Bytes::from(vec![0; room.min(octets)]);
            if sending.send_data(data, false).is_err() {
                return;
            }
            if !pause.is_zero() {
                sleep(pause).await;
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_rest_is_read_within_its_bounds() {
        let pause = Duration::from_secs(2);
        for (name, octets, is_draining, expected) in [
            ("silence", 0, false, linger::SILENCE),
            ("silence when the proxy stops", 0, true, linger::LAST_SILENCE),
            ("an octet now and then", 1, false, linger::TOTAL),
        ] {
            let (sending, receiving) = body().await;
            let (upload, rest) = Upload::new(receiving, BOUNDS);
            let state = ConnectionState::default();
            if is_draining {
                state.drain();
            }
            let _held = match octets {
                0 => Some(sending),
                octets => {
                    tokio::spawn(send(sending, octets, pause));
                    None
                }
            };
            drop(upload);
            let begun = Instant::now();
            rest.discard(&state).await;
            let took = begun.elapsed().saturating_sub(expected);
            assert!(begun.elapsed() >= expected && took < pause, "{name}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_of_the_rest_is_read_than_is_dropped_on_http_1() {
        let (sending, receiving) = body().await;
        let (upload, rest) = Upload::new(receiving, BOUNDS);
        let sending = tokio::spawn(send(sending, 1 << 16, Duration::ZERO));
        drop(upload);
        let begun = Instant::now();
        rest.discard(&ConnectionState::default()).await;
        assert!(begun.elapsed() < linger::SILENCE, "by octets, not by time");
        assert!(!sending.is_finished(), "the crawler has more");
    }
}
