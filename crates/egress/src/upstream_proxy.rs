//! A connection through an upstream proxy: CONNECT (RFC 9110, section 9.3.6) and SOCKS 5 (RFC 1928, RFC 1929).
//!
//! The proxy opens a tunnel in either case, so all that comes through it is the origin's: no answer of the proxy
//! itself, such as the 403 of a filter, can be taken for a robots.txt without rules. Nothing beyond the proxy's answer
//! is read, so the origin's first octets are not lost.

use std::net::IpAddr;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use super::Failure;
use crawlgate_policy::address_policy::literal;

/// Limit of octets in the head of a proxy's answer.
const MAX_HEAD: usize = 16 * 1024;

/// Limit of fields in it.
const MAX_FIELDS: usize = 128;

/// A user and a password for a proxy.
#[derive(Clone)]
pub(super) struct ProxyCredentials {
    /// At most 255 octets.
    pub(super) user: String,
    /// At most 255 octets.
    pub(super) password: String,
}

/// Asks an HTTP proxy for a tunnel to `host`, a canonical host. `Via` names the proxies that the request has passed: no
/// origin sees it, and a proxy named there detects a circle.
pub(super) async fn http(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    host: &str,
    port: u16,
    login: Option<&ProxyCredentials>,
    via: Option<&str>,
) -> Result<(), Failure> {
    let authorization = login.map(|ProxyCredentials { user, password }| {
        let credentials = BASE64_STANDARD.encode(format!("{user}:{password}"));
        format!("Proxy-Authorization: Basic {credentials}\r\n")
    });
    let via = via.map(|via| format!("Via: {via}\r\n"));
    let request = format!(
        "CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n{}{}\r\n",
        authorization.unwrap_or_default(),
        via.unwrap_or_default()
    );
    write(stream, request.as_bytes()).await?;
    let mut head = Vec::with_capacity(256);
    // Octet by octet, once per connection: octets after the head are not ours.
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() >= MAX_HEAD {
            return Err(Failure::ProxyRefused);
        }
        head.push(stream.read_u8().await.map_err(|_| Failure::ProxyRefused)?);
    }
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut answer = httparse::Response::new(&mut fields);
    match answer.parse(&head) {
        Ok(_) => {}
        Err(_) => return Err(Failure::ProxyRefused),
    }
    match answer.code {
        Some(200..=299) => Ok(()),
        Some(407) => Err(Failure::ProxyLogin),
        Some(502 | 503) => Err(Failure::ProxyFailed),
        Some(504) => Err(Failure::ConnectTimeout),
        _ => Err(Failure::ProxyRefused),
    }
}

/// Asks a SOCKS 5 proxy for a tunnel to `host`, a canonical host.
pub(super) async fn socks5(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    host: &str,
    port: u16,
    login: Option<&ProxyCredentials>,
) -> Result<(), Failure> {
    const VERSION: u8 = 5;
    const NO_LOGIN: u8 = 0;
    const LOGIN: u8 = 2;
    let method = if login.is_some() { LOGIN } else { NO_LOGIN };
    write(stream, &[VERSION, 1, method]).await?;
    match (read::<2>(stream).await?, login) {
        ([VERSION, NO_LOGIN], None) => {}
        ([VERSION, LOGIN], Some(ProxyCredentials { user, password })) => {
            let mut request = vec![1];
            for text in [user, password] {
                request.push(u8::try_from(text.len()).map_err(|_| Failure::ProxyLogin)?);
                request.extend_from_slice(text.as_bytes());
            }
            write(stream, &request).await?;
            let [_, status] = read(stream).await?;
            if status != 0 {
                return Err(Failure::ProxyLogin);
            }
        }
        ([VERSION, _], _) => return Err(Failure::ProxyLogin),
        _ => return Err(Failure::ProxyRefused),
    }

    let mut request = vec![VERSION, 1, 0];
    match literal(host) {
        Some(IpAddr::V4(v4)) => {
            request.push(1);
            request.extend_from_slice(&v4.octets());
        }
        Some(IpAddr::V6(v6)) => {
            request.push(4);
            request.extend_from_slice(&v6.octets());
        }
        None => {
            request.push(3);
            request.push(u8::try_from(host.len()).map_err(|_| Failure::Unaddressable)?);
            request.extend_from_slice(host.as_bytes());
        }
    }
    request.extend_from_slice(&port.to_be_bytes());
    write(stream, &request).await?;
    let [version, reply, _, kind] = read(stream).await?;
    match (version, reply) {
        (VERSION, 0) => {}
        (VERSION, 1) => return Err(Failure::ProxyFailed),
        (VERSION, 3 | 4) => return Err(Failure::Unroutable),
        (VERSION, 5) => return Err(Failure::Refused),
        (VERSION, 6) => return Err(Failure::ConnectTimeout),
        _ => return Err(Failure::ProxyRefused),
    }
    // The address that the proxy dials from, which is not needed.
    match kind {
        1 => drop(read::<6>(stream).await?),
        4 => drop(read::<18>(stream).await?),
        3 => {
            let [length] = read(stream).await?;
            let mut rest = vec![0; usize::from(length) + 2];
            let read = stream.read_exact(&mut rest).await;
            read.map_err(|_| Failure::ProxyRefused)?;
        }
        _ => return Err(Failure::ProxyRefused),
    }
    Ok(())
}

async fn write(stream: &mut (impl AsyncWrite + Unpin), octets: &[u8]) -> Result<(), Failure> {
    let written = stream.write_all(octets).await;
    written.map_err(|_| Failure::ProxyRefused)
}

async fn read<const N: usize>(stream: &mut (impl AsyncRead + Unpin)) -> Result<[u8; N], Failure> {
    let mut octets = [0; N];
    let read = stream.read_exact(&mut octets).await;
    read.map_err(|_| Failure::ProxyRefused)?;
    Ok(octets)
}

#[cfg(test)]
mod tests {
    use tokio::io::DuplexStream;

    use super::*;

    /// A proxy that waits for `says` in turn, answers each, and then says "hello".
    async fn proxy(mut stream: DuplexStream, script: Vec<(Vec<u8>, Vec<u8>)>) -> DuplexStream {
        for (expected, answer) in script {
            let mut octets = vec![0; expected.len()];
            stream.read_exact(&mut octets).await.unwrap();
            assert_eq!(octets, expected, "{}", String::from_utf8_lossy(&octets));
            stream.write_all(&answer).await.unwrap();
        }
        let _ = stream.write_all(b"hello").await; // a refused client has disconnected
        stream
    }

    fn login() -> ProxyCredentials {
        ProxyCredentials { user: "ada".to_owned(), password: "sesame".to_owned() }
    }

    #[tokio::test]
    async fn an_http_proxy_is_asked_to_connect() {
        let plain = "CONNECT site.example:443 HTTP/1.1\r\nHost: site.example:443\r\n\r\n";
        let with_login = "CONNECT site.example:443 HTTP/1.1\r\nHost: site.example:443\r\n\
            Proxy-Authorization: Basic YWRhOnNlc2FtZQ==\r\n\r\n";
        let long = format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "x".repeat(MAX_HEAD));
        #[rustfmt::skip] // one row, one case
        let cases = [
            ("it opens", None, plain, "HTTP/1.1 200 Connection established\r\n\r\n", Ok(())),
            ("with fields", None, plain, "HTTP/1.0 200 OK\r\nVia: 1.1 proxy\r\n\r\n", Ok(())),
            ("with credentials", Some(login()), with_login, "HTTP/1.1 201 Made\r\n\r\n", Ok(())),
            ("it wants credentials", None, plain, "HTTP/1.1 407 Who?\r\n\r\n", Err(Failure::ProxyLogin)),
            ("it forbids", None, plain, "HTTP/1.1 403 No\r\n\r\n", Err(Failure::ProxyRefused)),
            ("it cannot", None, plain, "HTTP/1.1 502 No\r\n\r\n", Err(Failure::ProxyFailed)),
            ("no proxy answers", None, plain, "HTTP/1.1 504 No\r\n\r\n", Err(Failure::ConnectTimeout)),
            ("a redirect is no tunnel", None, plain, "HTTP/1.1 302 There\r\nLocation: http://a/\r\n\r\n", Err(Failure::ProxyRefused)),
            ("it speaks something else", None, plain, "SSH-2.0-x\r\n\r\n", Err(Failure::ProxyRefused)),
            ("it goes on and on", None, plain, &long, Err(Failure::ProxyRefused)),
        ];
        for (name, login, request, answer, want) in cases {
            let (mut ours, theirs) = tokio::io::duplex(64 * 1024);
            let script = vec![(request.as_bytes().to_vec(), answer.as_bytes().to_vec())];
            let proxy = tokio::spawn(proxy(theirs, script));
            let found = http(&mut ours, "site.example", 443, login.as_ref(), None).await;
            assert_eq!(found, want, "{name}");
            if want.is_ok() {
                assert_eq!(&read::<5>(&mut ours).await.unwrap(), b"hello", "{name}");
            }
            drop(proxy.await.unwrap());
        }
    }

    #[tokio::test]
    async fn a_socks_proxy_is_asked_for_a_tunnel() {
        const NAME: &[u8] = b"\x05\x01\x00\x03\x0csite.example\x01\xbb";
        const DONE: &[u8] = b"\x05\x00\x00\x01\x7f\x00\x00\x01\x12\x34";
        let greeting: (&[u8], &[u8]) = (b"\x05\x01\x00", b"\x05\x00");
        let wants_login: (&[u8], &[u8]) = (b"\x05\x01\x02", b"\x05\x02");
        let tells: &[u8] = b"\x01\x03ada\x06sesame";
        let reply = |code: u8| vec![5, code, 0, 1, 0, 0, 0, 0, 0, 0];
        let v6 = [&b"\x05\x01\x00\x04"[..], &[0; 15], b"\x01\x01\xbb"].concat();
        let by_name = b"\x05\x00\x00\x03\x03a.b\x00\x50".to_vec();
        let by_v6 = [&b"\x05\x00\x00\x04"[..], &[7; 18]].concat();
        let refusals = [
            (1, Failure::ProxyFailed),
            (2, Failure::ProxyRefused),
            (3, Failure::Unroutable),
            (4, Failure::Unroutable),
            (5, Failure::Refused),
            (6, Failure::ConnectTimeout),
            (8, Failure::ProxyRefused),
        ];
        type Case<'a> = (
            &'a str,
            &'a str,
            Option<ProxyCredentials>,
            Vec<(&'a [u8], Vec<u8>)>,
            Result<(), Failure>,
        );
        let own = |(says, answer): (&'static [u8], &[u8])| (says, answer.to_vec());
        #[rustfmt::skip] // one row, one case
        let mut cases: Vec<Case<'_>> = vec![
            ("a name", "site.example", None, vec![own(greeting), (NAME, DONE.to_vec())], Ok(())),
            ("it dials from a name", "site.example", None, vec![own(greeting), (NAME, by_name)], Ok(())),
            ("it dials from IPv6", "site.example", None, vec![own(greeting), (NAME, by_v6)], Ok(())),
            ("IPv4", "192.0.2.1", None, vec![own(greeting), (b"\x05\x01\x00\x01\xc0\x00\x02\x01\x01\xbb", DONE.to_vec())], Ok(())),
            ("IPv6", "[::1]", None, vec![own(greeting), (&v6, DONE.to_vec())], Ok(())),
            ("with credentials", "site.example", Some(login()),
                vec![own(wants_login), (tells, vec![1, 0]), (NAME, DONE.to_vec())], Ok(())),
            ("wrong credentials", "site.example", Some(login()),
                vec![own(wants_login), (tells, vec![1, 1])], Err(Failure::ProxyLogin)),
            ("it wants credentials", "site.example", None,
                vec![(b"\x05\x01\x00", vec![5, 0xff])], Err(Failure::ProxyLogin)),
            ("it wants none of ours", "site.example", Some(login()),
                vec![(b"\x05\x01\x02", vec![5, 0])], Err(Failure::ProxyLogin)),
            ("it speaks something else", "site.example", None,
                vec![(b"\x05\x01\x00", b"HTTP/1.1 400".to_vec())], Err(Failure::ProxyRefused)),
        ];
        for (code, failure) in refusals {
            let script = vec![own(greeting), (NAME, reply(code))];
            cases.push(("a refusal", "site.example", None, script, Err(failure)));
        }
        for (name, host, login, script, want) in cases {
            let (mut ours, theirs) = tokio::io::duplex(4096);
            let script = script.into_iter().map(|(says, answer)| (says.to_vec(), answer));
            let proxy = tokio::spawn(proxy(theirs, script.collect()));
            let found = socks5(&mut ours, host, 443, login.as_ref()).await;
            assert_eq!(found, want, "{name}");
            if want.is_ok() {
                assert_eq!(&read::<5>(&mut ours).await.unwrap(), b"hello", "{name}");
            }
            drop(proxy.await.unwrap());
        }
    }

    #[tokio::test]
    async fn a_proxy_that_hangs_up_refuses() {
        for answer in ["", "HTTP/1.1 200 OK\r\n"] {
            let (mut ours, mut theirs) = tokio::io::duplex(4096);
            theirs.write_all(answer.as_bytes()).await.unwrap();
            theirs.shutdown().await.unwrap();
            let found = http(&mut ours, "site.example", 443, None, None).await;
            assert_eq!(found, Err(Failure::ProxyRefused), "{answer:?}");
        }
        let (mut ours, mut theirs) = tokio::io::duplex(4096);
        theirs.write_all(&[5]).await.unwrap();
        theirs.shutdown().await.unwrap();
        let found = socks5(&mut ours, "site.example", 443, None).await;
        assert_eq!(found, Err(Failure::ProxyRefused));
    }
}
