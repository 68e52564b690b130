//! Reads the ClientHello of an opaque tunnel, and answers nothing.
//!
//! rustls parses it, as for an interception: over several records and segments, and with its own bounds. The octets are
//! kept and replayed to the origin. Only a name that rustls refuses is read here.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf as _, Bytes, BytesMut};
use rustls::server::Acceptor;
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};

use crawlgate_ca::Authority;
use crawlgate_net::read_filter::{Filtered, ReadFilter};

/// The handshake message of a ClientHello.
const CLIENT_HELLO: u8 = 1;

/// The extension with the server name.
const SERVER_NAME: &[u8] = &[0, 0];

/// Octets that a ClientHello may take, records included. Those of browsers take two thousand.
const MAX: usize = 65_536;

/// Octets read at once.
const CHUNK: usize = 4096;

/// The content type of a TLS record that carries a handshake message.
pub const TLS_HANDSHAKE: u8 = 0x16;

/// The first message in a tunnel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hello {
    /// A TLS session begins, for this server name.
    Tls(Option<Box<str>>),
    /// No ClientHello that could be read.
    Unreadable,
    /// The client closed without one.
    Closed,
}

/// Reads until the first message is known; `octets` takes everything that was read.
///
/// # Errors
/// When the connection breaks.
pub async fn read(io: &mut (impl AsyncRead + Unpin), octets: &mut BytesMut) -> io::Result<Hello> {
    let mut acceptor = Acceptor::default();
    loop {
        let before = octets.len();
        octets.reserve(CHUNK);
        if io.read_buf(octets).await? == 0 {
            return Ok(Hello::Closed);
        }
        if octets.first() != Some(&TLS_HANDSHAKE) || octets.len() > MAX {
            return Ok(Hello::Unreadable);
        }
        let mut fresh = octets.get(before..).unwrap_or_default();
        while !fresh.is_empty() {
            if !matches!(acceptor.read_tls(&mut fresh), Ok(1..)) {
                return Ok(Hello::Unreadable);
            }
            match acceptor.accept() {
                Ok(None) => {}
                Ok(Some(accepted)) => {
                    let name = accepted.client_hello().server_name().map(Box::from);
                    return Ok(Hello::Tls(name));
                }
                // It refuses names that origins do have: with a label that begins or ends with `-`.
                Err(_) => {
                    let name = name_in_records(octets).map(Box::from);
                    return Ok(name.map_or(Hello::Unreadable, |name| Hello::Tls(Some(name))));
                }
            }
        }
    }
}

/// A stream that replays octets read earlier.
pub type Replayed<S> = Filtered<S, Replay>;

/// Octets to read before those of the stream.
pub struct Replay(pub Bytes);

impl ReadFilter for Replay {
    fn poll_read(
        &mut self,
        inner: Pin<&mut (impl AsyncRead + Unpin)>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Replay(first) = self;
        if first.is_empty() {
            return inner.poll_read(cx, buf);
        }
        let count = first.len().min(buf.remaining());
        buf.put_slice(first.get(..count).unwrap_or_default());
        first.advance(count);
        if first.is_empty() {
            *first = Bytes::new();
        }
        Poll::Ready(Ok(()))
    }
}

/// Returns the one host name that a ClientHello (RFC 8446 4.1.2, RFC 6066 3) asks for, which rustls refuses for that name; `None` without such a name, or if the message is not whole. A
/// name that rustls takes does not count: it refused that message for another fault, and the origin may read the
/// message otherwise.
fn name_in_records(mut records: &[u8]) -> Option<String> {
    let mut message = Vec::new();
    while let Some((TLS_HANDSHAKE, rest)) = records.split_first().map(|(kind, rest)| (*kind, rest))
    {
        records = rest;
        take(&mut records, 2)?;
        let Some(part) = vector(&mut records, 2) else {
            break;
        };
        message.extend_from_slice(part);
    }
    let message = &mut message.as_slice();
    if take(message, 1)? != [CLIENT_HELLO] {
        return None;
    }
    let hello = &mut vector(message, 3)?;
    take(hello, 2 + 32)?; // version and random
    vector(hello, 1)?; // session
    vector(hello, 2)?; // cipher suites
    vector(hello, 1)?; // compression
    let extensions = &mut vector(hello, 2)?;
    let mut found = None;
    while !extensions.is_empty() {
        let kind = take(extensions, 2)?;
        let body = &mut vector(extensions, 2)?;
        if kind == SERVER_NAME {
            let list = &mut vector(body, 2)?;
            let is_host = take(list, 1)? == [0];
            let name = vector(list, 2)?;
            if !is_host || !list.is_empty() || !body.is_empty() || found.is_some() {
                return None;
            }
            found = String::from_utf8(name.to_vec()).ok();
        }
    }
    found.filter(|name| !Authority::can_name(name))
}

/// Takes octets from the front.
fn take<'a>(octets: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, rest) = octets.split_at_checked(count)?;
    *octets = rest;
    Some(taken)
}

/// Takes a vector with a length of `width` octets from the front.
fn vector<'a>(octets: &mut &'a [u8], width: usize) -> Option<&'a [u8]> {
    let mut rest = *octets;
    let length = take(&mut rest, width)?;
    let length = length.iter().fold(0, |sum, octet| sum << 8 | usize::from(*octet));
    let taken = take(&mut rest, length)?;
    *octets = rest;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::Arc;

    use rustls::pki_types::ServerName;
    use rustls::{ClientConfig, ClientConnection, RootCertStore};

    use super::*;

    /// Octets that arrive segment by segment.
    struct Segments(VecDeque<Vec<u8>>);

    impl AsyncRead for Segments {
        fn poll_read(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            buf: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            let mut segment = self.0.pop_front().unwrap_or_default();
            let rest = segment.split_off(segment.len().min(buf.remaining()));
            buf.put_slice(&segment);
            if !rest.is_empty() {
                self.0.push_front(rest);
            }
            Poll::Ready(Ok(()))
        }
    }

    /// Returns a ClientHello in one record, as rustls sends it.
    fn hello(name: &str) -> Vec<u8> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(RootCertStore::empty())
            .with_no_client_auth();
        let name = ServerName::try_from(name.to_owned()).expect("a name");
        let mut client = ClientConnection::new(Arc::new(config), name).expect("a client");
        let mut octets = Vec::new();
        client.write_tls(&mut octets).expect("written");
        octets
    }

    /// Returns the same handshake message in records of `size` octets.
    fn in_records(octets: &[u8], size: usize) -> Vec<u8> {
        let message = &octets[5..];
        let record = |part: &[u8]| {
            let length = u16::try_from(part.len()).expect("small").to_be_bytes();
            [&octets[..3], &length, part].concat()
        };
        message.chunks(size).flat_map(record).collect()
    }

    async fn read_in(octets: &[u8], segment: usize) -> (Hello, Vec<u8>) {
        let segments = octets.chunks(segment).map(<[u8]>::to_vec);
        let mut read_so_far = BytesMut::new();
        let hello = read(&mut Segments(segments.collect()), &mut read_so_far).await;
        (hello.expect("readable"), read_so_far.to_vec())
    }

    #[tokio::test]
    async fn the_server_name_is_found_however_the_octets_come() {
        let whole = hello("site.example");
        let named = Hello::Tls(Some("site.example".into()));
        for (octets, segment) in [
            (whole.clone(), usize::MAX),
            (whole.clone(), 1),
            (in_records(&whole, 1), usize::MAX),
            (in_records(&whole, 7), 3),
            (in_records(&whole, 100), 11),
        ] {
            let (found, kept) = read_in(&octets, segment).await;
            assert_eq!(found, named, "in segments of {segment}");
            assert_eq!(kept, octets, "all is there to be replayed");
        }
        let mut odd = whole.clone();
        let at = memchr::memmem::find(&odd, b"site.example").expect("named");
        for name in ["-ite.example", "sit-.example", "site.exampl-"] {
            odd.splice(at..at + name.len(), name.bytes());
            let named = Hello::Tls(Some(name.into()));
            for octets in [odd.clone(), in_records(&odd, 7)] {
                let (found, kept) = read_in(&octets, 11).await;
                assert_eq!((found, kept), (named.clone(), octets), "{name}");
            }
        }
        let by_address = hello("192.0.2.1");
        assert_eq!(read_in(&by_address, 64).await.0, Hello::Tls(None));
    }

    /// Returns a ClientHello with a second server name, which rustls refuses.
    fn with_second_name(whole: &[u8], name: &[u8]) -> Vec<u8> {
        let mut octets = whole.to_vec();
        let longer = |octets: &mut [u8], at: usize, by: usize| {
            let length = usize::from(u16::from_be_bytes([octets[at], octets[at + 1]])) + by;
            octets[at..at + 2]
                .copy_from_slice(&u16::try_from(length).expect("short").to_be_bytes());
        };
        let mut at = 5 + 4 + 2 + 32;
        at += 1 + usize::from(octets[at]);
        at += 2 + usize::from(u16::from_be_bytes([octets[at], octets[at + 1]]));
        at += 1 + usize::from(octets[at]);
        let length = u8::try_from(name.len()).expect("short");
        let head = [0, 0, 0, length + 5, 0, length + 3, 0, 0, length];
        let second = [&head[..], name].concat();
        for at in [3, 7, at] {
            longer(&mut octets, at, second.len());
        }
        octets.splice(at + 2..at + 2, second);
        octets
    }

    #[tokio::test]
    async fn a_second_server_name_is_refused() {
        for (first, second) in [
            ("site.example", "site.example"),
            ("site.example", "-ite.example"),
            ("site.example", "other.example"),
        ] {
            let octets = with_second_name(&hello(first), second.as_bytes());
            assert_eq!(read_in(&octets, 64).await.0, Hello::Unreadable, "{second}");
        }
        let mut odd = with_second_name(&hello("site.example"), b"-ite.example");
        let at = memchr::memmem::find(&odd, b"site.example").expect("named");
        odd[at] = b'-';
        assert_eq!(read_in(&odd, 64).await.0, Hello::Unreadable, "twice the same");
    }

    #[tokio::test]
    async fn octets_that_are_no_hello_are_told_apart() {
        let whole = hello("site.example");
        let mut broken = whole.clone();
        broken[5] = 2;
        let endless = [0x16, 3, 1, 0, 1, 1].repeat(MAX);
        for (octets, want) in [
            (b"GET / HTTP/1.1\r\n".to_vec(), Hello::Unreadable),
            (b"SSH-2.0-x\r\n".to_vec(), Hello::Unreadable),
            (broken, Hello::Unreadable),
            (endless, Hello::Unreadable),
            (vec![0x16, 3, 1, 255, 255, 1], Hello::Unreadable),
            (whole[..20].to_vec(), Hello::Closed),
            (Vec::new(), Hello::Closed),
        ] {
            let mut io = io::Cursor::new(octets.clone());
            let found = read(&mut io, &mut BytesMut::new()).await.expect("readable");
            let shown = &octets[..octets.len().min(20)];
            assert_eq!(found, want, "{shown:?}");
        }
    }

    #[tokio::test]
    async fn octets_read_earlier_come_first_again() {
        let inner = io::Cursor::new(b" world".to_vec());
        let mut io = Filtered::new(inner, Replay(Bytes::from_static(b"hello")));
        let mut start = [0; 3];
        io.read_exact(&mut start).await.expect("readable");
        let mut all = start.to_vec();
        io.read_to_end(&mut all).await.expect("readable");
        assert_eq!(all, b"hello world");
    }
}
