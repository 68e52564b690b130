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
mod tests;
