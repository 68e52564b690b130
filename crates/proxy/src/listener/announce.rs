//! The PROXY protocol, versions 1 and 2: a load balancer names the client that it connects for.
//!
//! The header is read only from peers that the operator names, and then required of them. Exactly the header is taken
//! from the connection, not an octet more, so nothing needs to be put back; it is bounded in size here and in time by
//! the caller. From any other peer it is a malformed request.

use std::io;
use std::net::SocketAddr;

use ppp::{v1, v2};
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// Octets that tell the versions apart: the length of version 2's signature, shorter than any header of version 1.
const START: usize = 12;

/// Octets of a header of version 1 with its line end, as its specification bounds it.
const LONGEST_V1: usize = 107;

/// Octets of a header of version 2 with everything that a balancer adds to the addresses.
const LONGEST_V2: usize = 4096;

/// Reads the header and returns the client's address. `None` if the peer connects for itself (LOCAL), does not know its
/// client (UNKNOWN) or does not name it by an IP address.
///
/// # Errors
/// When the octets are no such header, or the connection ends.
pub async fn read(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<SocketAddr>> {
    let mut header = vec![0; START];
    stream.read_exact(&mut header).await?;
    if header == v2::PROTOCOL_PREFIX {
        read_v2(stream, header).await
    } else if header.starts_with(b"PROXY ") {
        read_v1(stream, header).await
    } else {
        Err(malformed("no PROXY protocol header"))
    }
}

async fn read_v1(
    stream: &mut (impl AsyncRead + Unpin),
    mut line: Vec<u8>,
) -> io::Result<Option<SocketAddr>> {
    // Octet by octet: the octets after the line are not ours. The line is read once per connection, and is short.
    while !line.ends_with(b"\r\n") {
        if line.len() >= LONGEST_V1 {
            return Err(malformed("a PROXY protocol header that is too long"));
        }
        line.push(stream.read_u8().await?);
    }
    let line = str::from_utf8(&line).map_err(malformed)?;
    let header = v1::Header::try_from(line).map_err(malformed)?;
    Ok(match header.addresses {
        v1::Addresses::Tcp4(v1) => Some((v1.source_address, v1.source_port).into()),
        v1::Addresses::Tcp6(v1) => Some((v1.source_address, v1.source_port).into()),
        v1::Addresses::Unknown => None,
    })
}

async fn read_v2(
    stream: &mut (impl AsyncRead + Unpin),
    mut header: Vec<u8>,
) -> io::Result<Option<SocketAddr>> {
    let command_and_family = stream.read_u16().await?;
    header.extend_from_slice(&command_and_family.to_be_bytes());
    let length = stream.read_u16().await?;
    header.extend_from_slice(&length.to_be_bytes());
    let rest = header.len();
    let whole = rest + usize::from(length);
    if whole > LONGEST_V2 {
        return Err(malformed("a PROXY protocol header that is too long"));
    }
    header.resize(whole, 0);
    let addresses = header.get_mut(rest..).unwrap_or_default();
    stream.read_exact(addresses).await?;
    let header = v2::Header::try_from(header.as_slice()).map_err(malformed)?;
    if header.command == v2::Command::Local {
        return Ok(None);
    }
    if header.protocol == v2::Protocol::Datagram {
        return Err(malformed("a PROXY protocol header that tells of datagrams"));
    }
    Ok(match header.addresses {
        v2::Addresses::IPv4(v2) => Some((v2.source_address, v2.source_port).into()),
        v2::Addresses::IPv6(v2) => Some((v2.source_address, v2.source_port).into()),
        v2::Addresses::Unix(_) | v2::Addresses::Unspecified => None,
    })
}

fn malformed(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the address that a well-formed header announces; `GET` must follow it untouched.
    async fn announced(octets: &[u8]) -> Result<Option<String>, io::ErrorKind> {
        let whole = [octets, b"GET"].concat();
        let mut stream = whole.as_slice();
        let announced = read(&mut stream).await.map_err(|error| error.kind())?;
        assert_eq!(stream, b"GET", "what follows is taken, or left over");
        Ok(announced.map(|address| address.to_string()))
    }

    fn v2(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
        let length = u16::try_from(rest.len()).expect("short").to_be_bytes();
        let head = [&[command, family][..], &length].concat();
        [v2::PROTOCOL_PREFIX, &head, rest].concat()
    }

    #[tokio::test]
    async fn the_client_is_announced_and_not_an_octet_more_is_read() {
        let four = [192, 0, 2, 7, 127, 0, 0, 1, 0x9c, 0x40, 0, 80];
        let mut six = [0; 36];
        six[..4].copy_from_slice(&[0x20, 0x01, 0x0d, 0xb8]);
        six[15] = 1;
        six[32..].copy_from_slice(&[0, 7, 0, 80]);
        let with_more = [&four[..], &[4, 0, 1, 42]].concat();
        let large = [&four[..], &[4, 0x0f, 0xe1], &[0; 0x0fe1]].concat();
        let unix = [0; 216];
        for (name, octets, want) in [
            (
                "v1, IPv4",
                b"PROXY TCP4 192.0.2.7 127.0.0.1 40000 80\r\n".to_vec(),
                Some("192.0.2.7:40000"),
            ),
            ("v1, IPv6", b"PROXY TCP6 2001:db8::1 ::1 7 80\r\n".to_vec(), Some("[2001:db8::1]:7")),
            ("v1, unknown", b"PROXY UNKNOWN\r\n".to_vec(), None),
            ("v1, unknown with addresses", b"PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n".to_vec(), None),
            ("v2, IPv4", v2(0x21, 0x11, &four), Some("192.0.2.7:40000")),
            ("v2, IPv6", v2(0x21, 0x21, &six), Some("[2001:db8::1]:7")),
            ("v2 with a TLV", v2(0x21, 0x11, &with_more), Some("192.0.2.7:40000")),
            ("v2 of 4096", v2(0x21, 0x11, &large), Some("192.0.2.7:40000")),
            ("v2, local", v2(0x20, 0x00, &[]), None),
            ("v2, local with addresses", v2(0x20, 0x11, &four), None),
            ("v2, unspecified", v2(0x21, 0x00, &[]), None),
            ("v2, a Unix socket", v2(0x21, 0x31, &unix), None),
        ] {
            let got = announced(&octets).await;
            assert_eq!(got, Ok(want.map(str::to_owned)), "{name}");
        }
    }

    #[tokio::test]
    async fn octets_that_are_no_header_are_refused() {
        let four = [192, 0, 2, 7, 127, 0, 0, 1, 0x9c, 0x40, 0, 80];
        let large = [&four[..], &[4, 0x10, 0], &[0; 0x1000]].concat();
        let long = format!("PROXY UNKNOWN {}\r\n", "x".repeat(100));
        for (name, octets) in [
            ("a request", b"GET / HTTP/1.1\r\n\r\n".to_vec()),
            ("a ClientHello", vec![0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3, 0]),
            ("v1 of another family", b"PROXY UDP4 a b 1 2\r\n".to_vec()),
            ("v1 without addresses", b"PROXY TCP4 192.0.2.7\r\n".to_vec()),
            ("v1 with a name", b"PROXY TCP4 site.example 127.0.0.1 1 2\r\n".to_vec()),
            (
                "v1 with a port that is none",
                b"PROXY TCP4 192.0.2.7 127.0.0.1 70000 80\r\n".to_vec(),
            ),
            ("v1 that does not end", long.into_bytes()),
            ("v1 that is not text", b"PROXY TCP4 \xff\xff\r\n".to_vec()),
            ("v2 of version 1", v2(0x11, 0x11, &four)),
            ("v2 of an unknown command", v2(0x22, 0x11, &four)),
            ("v2 of datagrams", v2(0x21, 0x12, &four)),
            ("v2 that is too short", v2(0x21, 0x11, &four[..11])),
            ("v2 that is too long", v2(0x21, 0x11, &large)),
        ] {
            let got = announced(&octets).await;
            assert_eq!(got, Err(io::ErrorKind::InvalidData), "{name}");
        }
        let cut = read(&mut &b"PROXY TCP4 "[..]).await.map_err(|e| e.kind());
        assert_eq!(cut, Err(io::ErrorKind::UnexpectedEof), "the end");
    }
}
