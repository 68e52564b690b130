//! Octets that a TLS session holds until the end of a turn.
//!
//! `h2` flushes each DATA frame by itself, and a TLS stream makes a system call of each flush. Here the session encrypts
//! what `h2` writes and keeps it, a flush by `h2` does nothing, and the task of the connection sends all of it when
//! `h2` has nothing more to do. The bound is that of the session, 64 KiB: what exceeds it is sent at once. Nothing is
//! copied on the way, and an idle connection holds nothing.

use std::io::{self, IoSlice, Write as _};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::{client, server};

/// A stream that can keep octets.
pub trait Holding: AsyncRead + AsyncWrite + Unpin {
    /// Keeps some of these octets, and sends earlier ones if it has no room.
    fn poll_hold(&mut self, cx: &mut Context<'_>, parts: &[IoSlice<'_>])
    -> Poll<io::Result<usize>>;
}

/// Makes a stream hold what is written to it. The second part of the result sends it.
pub fn hold<S>(stream: S) -> (HeldWrites<S>, Release<S>) {
    let stream = Arc::new(Mutex::new(stream));
    (HeldWrites(Arc::clone(&stream)), Release(stream))
}

/// A stream that sends what is written to it by its [`Release`].
#[derive(Debug)]
pub struct HeldWrites<S>(Arc<Mutex<S>>);

/// The means to send what a stream holds.
#[derive(Debug)]
pub struct Release<S>(Arc<Mutex<S>>);

impl<S: Holding> Release<S> {
    /// Sends all octets that are held.
    pub fn poll_send(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0.lock()).poll_flush(cx)
    }
}

impl<S: Holding> AsyncRead for HeldWrites<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0.lock()).poll_read(cx, buf)
    }
}

impl<S: Holding> AsyncWrite for HeldWrites<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(buf)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.0.lock().poll_hold(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0.lock()).poll_shutdown(cx)
    }
}

/// Encrypts octets into the session of a stream, and sends what it holds if it has no room.
fn poll_encrypt<S: AsyncWrite + Unpin>(
    stream: &mut S,
    cx: &mut Context<'_>,
    parts: &[IoSlice<'_>],
    encrypt: impl Fn(&mut S, &[IoSlice<'_>]) -> io::Result<usize>,
) -> Poll<io::Result<usize>> {
    if parts.iter().all(|part| part.is_empty()) {
        return Poll::Ready(Ok(0));
    }
    match encrypt(stream, parts)? {
        0 => {}
        held => return Poll::Ready(Ok(held)),
    }
    let sent = Pin::new(&mut *stream).poll_flush(cx)?;
    match (encrypt(stream, parts)?, sent) {
        (0, Poll::Pending) => Poll::Pending,
        (0, Poll::Ready(())) => Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
        (held, _) => Poll::Ready(Ok(held)),
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Holding for server::TlsStream<S> {
    fn poll_hold(
        &mut self,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        poll_encrypt(self, cx, parts, |stream, parts| {
            stream.get_mut().1.writer().write_vectored(parts)
        })
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Holding for client::TlsStream<S> {
    fn poll_hold(
        &mut self,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        poll_encrypt(self, cx, parts, |stream, parts| {
            stream.get_mut().1.writer().write_vectored(parts)
        })
    }
}

/// A plain stream stands for a session in tests: it sends at once.
#[cfg(any(test, feature = "test-support"))]
impl Holding for tokio::io::DuplexStream {
    fn poll_hold(
        &mut self,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(self).poll_write_vectored(cx, parts)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use rcgen::{CertifiedKey, generate_simple_self_signed};
    use rustls::pki_types::{PrivateKeyDer, ServerName};
    use rustls::{ClientConfig, RootCertStore, ServerConfig};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
    use tokio_rustls::{TlsAcceptor, TlsConnector};

    use super::*;

    /// A stream that counts what is written to it.
    struct Counted(DuplexStream, Arc<AtomicUsize>);

    impl AsyncRead for Counted {
        fn poll_read(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            buf: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            Pin::new(&mut self.0).poll_read(cx, buf)
        }
    }

    impl AsyncWrite for Counted {
        fn poll_write(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            buf: &[u8],
        ) -> Poll<io::Result<usize>> {
            let written = Pin::new(&mut self.0).poll_write(cx, buf);
            if let Poll::Ready(Ok(octets)) = written {
                self.1.fetch_add(octets, Ordering::Relaxed);
            }
            written
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            Pin::new(&mut self.0).poll_shutdown(cx)
        }
    }

    /// Returns both ends of a session over a stream with a buffer of so many octets, and the count of what the first one
    /// has sent.
    async fn session(
        octets: usize,
    ) -> (server::TlsStream<Counted>, client::TlsStream<DuplexStream>, Arc<AtomicUsize>) {
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(["a.test".to_owned()]).unwrap();
        let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let ours = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![cert.der().clone()], key)
            .unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(cert.der().clone()).unwrap();
        let theirs = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let sent = Arc::new(AtomicUsize::new(0));
        let (one, other) = duplex(octets);
        let name = ServerName::try_from("a.test").unwrap();
        let accepting = TlsAcceptor::from(Arc::new(ours)).accept(Counted(one, Arc::clone(&sent)));
        let connecting = TlsConnector::from(Arc::new(theirs)).connect(name, other);
        let (ours, theirs) = tokio::join!(accepting, connecting);
        (ours.unwrap(), theirs.unwrap(), sent)
    }

    #[tokio::test]
    async fn a_flush_sends_nothing_and_the_release_sends_all() {
        let (ours, mut theirs, sent) = session(1 << 20).await;
        let before = sent.load(Ordering::Relaxed);
        let (mut held, release) = hold(ours);
        for part in [&b"head"[..], b" and ", b"body"] {
            held.write_all(part).await.unwrap();
            held.flush().await.unwrap();
        }
        assert_eq!(sent.load(Ordering::Relaxed), before);
        poll_fn(|cx| release.poll_send(cx)).await.unwrap();
        let mut octets = [0; 13];
        theirs.read_exact(&mut octets).await.unwrap();
        assert_eq!(&octets, b"head and body");
        theirs.write_all(b"answer").await.unwrap();
        let mut octets = [0; 6];
        held.read_exact(&mut octets).await.unwrap();
        assert_eq!(&octets, b"answer");
        held.write_all(b"last").await.unwrap();
        held.shutdown().await.unwrap();
        let mut rest = Vec::new();
        theirs.read_to_end(&mut rest).await.unwrap();
        assert_eq!(rest, b"last", "the shutdown sends what is held");
    }

    #[tokio::test]
    async fn what_the_session_has_no_room_for_is_sent_at_once_and_once() {
        let (ours, mut theirs, sent) = session(5_000).await;
        let before = sent.load(Ordering::Relaxed);
        let (mut held, release) = hold(ours);
        let octets: Vec<u8> = (0..1_000_000_u32).map(|at| (at % 251) as u8).collect();
        let writing = async {
            for part in octets.chunks(9_001) {
                held.write_all(part).await.unwrap();
                held.flush().await.unwrap();
            }
            let unsent = octets.len() + before - sent.load(Ordering::Relaxed).min(octets.len());
            assert!(unsent <= 70_000, "{unsent} octets are held");
            poll_fn(|cx| release.poll_send(cx)).await.unwrap();
        };
        let mut read = vec![0; octets.len()];
        let (_, whole) = tokio::join!(writing, theirs.read_exact(&mut read));
        whole.unwrap();
        assert!(read == octets, "each octet comes once, in order");
    }

    #[tokio::test]
    async fn a_stream_that_has_gone_is_an_error() {
        let (ours, theirs, _) = session(5_000).await;
        let (mut held, release) = hold(ours);
        drop(theirs);
        held.write_all(&[0; 10_000]).await.unwrap();
        let sent = poll_fn(|cx| release.poll_send(cx)).await;
        assert!(sent.is_err());
    }
}
