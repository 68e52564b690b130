//! The content of an answer: its body with the content codings undone (RFC 9110 section 8.4).
//!
//! Never more than the limit is read, inflated or kept: decoding is pulled from the far end and stops there.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use async_compression::tokio::bufread::{
    BrotliDecoder, DeflateDecoder, GzipDecoder, ZlibDecoder, ZstdDecoder,
};
use async_compression::zstd::DParameter;
use futures_core::Stream;
use http::header::{CONTENT_ENCODING, TRANSFER_ENCODING};
use http::{HeaderMap, Response};
use http_body::Body as _;
use tokio::io::{AsyncBufRead, AsyncRead, AsyncReadExt, BufReader};
use tokio_util::io::StreamReader;

use crate::egress::{ResponseBody, ResponseError};
use crate::robots::access::Cause;

/// The codings in our requests. [`codings`] understands these, and their older names.
pub(super) const ACCEPTED: &str = "gzip, br, zstd, deflate";

/// More codings on one body are a bomb, not a file.
const MAX_CODINGS: usize = 2;

/// Binary logarithm of the largest zstd window: 8 MiB (RFC 9659 section 3).
const ZSTD_WINDOW: u32 = 23;

type Reader = Box<dyn AsyncBufRead + Send + Unpin>;

/// Reads the decoded body, at most `limit` octets of it.
///
/// # Errors
/// The cause that the body is not whole or not readable. None of it counts then.
pub(super) async fn read(response: Response<ResponseBody>, limit: usize) -> Result<Vec<u8>, Cause> {
    transfer(response.headers())?;
    let codings = codings(response.headers())?;
    let body = Box::new(StreamReader::new(Frames(response.into_body())));
    decode(body, &codings, limit)
        .await
        .map_err(|error| cause(&error))
}

/// Classifies a failure to read: the connection's failures come through the decoders untouched, all others are the
/// decoders' own. A connection that ends or breaks before the body is whole is told from one with bad framing.
fn cause(error: &io::Error) -> Cause {
    let transport = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<ResponseError>());
    let transport = match transport {
        None => return Cause::Encoding,
        // A stream that breaks the protocol is reset by us.
        Some(ResponseError::Http2(error)) if error.is_library() => return Cause::Protocol,
        Some(ResponseError::Http2(_) | ResponseError::Ftp(_)) => return Cause::Incomplete,
        Some(ResponseError::Http1(transport)) => transport,
    };
    let below = std::error::Error::source(transport);
    let below = below.and_then(|below| below.downcast_ref::<io::Error>());
    let is_cut = below.is_some_and(|below| {
        matches!(
            below.kind(),
            io::ErrorKind::UnexpectedEof
                | io::ErrorKind::ConnectionReset
                | io::ErrorKind::ConnectionAborted
                | io::ErrorKind::BrokenPipe
                | io::ErrorKind::TimedOut
        )
    });
    if is_cut || transport.is_incomplete_message() || transport.is_closed() {
        Cause::Incomplete
    } else {
        Cause::Protocol
    }
}

/// Refuses transfer codings other than `chunked`, which hyper undoes (RFC 9112 section 7): the octets would be another
/// file than the origin's.
fn transfer(headers: &HeaderMap) -> Result<(), Cause> {
    for value in headers.get_all(TRANSFER_ENCODING) {
        let value = value.to_str().map_err(|_| Cause::Encoding)?;
        let mut names = value
            .split(',')
            .map(str::trim)
            .filter(|name| !name.is_empty());
        if !names.all(|name| name.eq_ignore_ascii_case("chunked")) {
            return Err(Cause::Encoding);
        }
    }
    Ok(())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Coding {
    Gzip,
    Deflate,
    Brotli,
    Zstd,
}

/// Returns the codings to undo, outermost first.
fn codings(headers: &HeaderMap) -> Result<Vec<Coding>, Cause> {
    let mut codings = Vec::new();
    for value in headers.get_all(CONTENT_ENCODING) {
        let value = value.to_str().map_err(|_| Cause::Encoding)?;
        for name in value
            .split(',')
            .map(str::trim)
            .filter(|name| !name.is_empty())
        {
            codings.push(match name.to_ascii_lowercase().as_str() {
                "identity" => continue,
                "gzip" | "x-gzip" => Coding::Gzip,
                "deflate" => Coding::Deflate,
                "br" => Coding::Brotli,
                "zstd" => Coding::Zstd,
                _ => return Err(Cause::Encoding),
            });
        }
    }
    if codings.len() > MAX_CODINGS {
        return Err(Cause::Encoding);
    }
    codings.reverse();
    Ok(codings)
}

async fn decode(mut body: Reader, codings: &[Coding], limit: usize) -> io::Result<Vec<u8>> {
    for coding in codings {
        let mut head = Vec::with_capacity(2);
        (&mut body).take(2).read_to_end(&mut head).await?;
        if head.is_empty() {
            // Servers put their Content-Encoding on an empty file too, and then send nothing to decode.
            return Ok(Vec::new());
        }
        let is_zlib = is_zlib(&head);
        let whole = io::Cursor::new(head).chain(body);
        body = match coding {
            Coding::Gzip => {
                let mut decoder = GzipDecoder::new(whole);
                decoder.multiple_members(true);
                buffered(decoder)
            }
            Coding::Deflate if is_zlib => buffered(ZlibDecoder::new(whole)),
            // "Some non-conformant implementations send the 'deflate' compressed data without the zlib
            // wrapper" (RFC 9110 section 8.4.1.2).
            Coding::Deflate => buffered(DeflateDecoder::new(whole)),
            Coding::Brotli => buffered(BrotliDecoder::new(whole)),
            Coding::Zstd => {
                let window = DParameter::window_log_max(ZSTD_WINDOW);
                let mut decoder = ZstdDecoder::with_params(whole, &[window]);
                decoder.multiple_members(true);
                buffered(decoder)
            }
        };
    }
    let mut content = Vec::new();
    body.take(limit as u64).read_to_end(&mut content).await?;
    Ok(content)
}

fn buffered(reader: impl AsyncRead + Send + Unpin + 'static) -> Reader {
    Box::new(BufReader::new(reader))
}

/// Tells whether data begins like zlib (RFC 1950 section 2.2). A raw deflate stream with this first octet would begin
/// with a kind of block that no encoder writes first.
fn is_zlib(head: &[u8]) -> bool {
    matches!(head, [cmf, flags]
        if cmf & 0x0f == 8 && u16::from_be_bytes([*cmf, *flags]).is_multiple_of(31))
}

/// The data frames of a body as a stream, for tokio's reader adapters.
struct Frames(ResponseBody);

impl Stream for Frames {
    type Item = io::Result<bytes::Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            return match Pin::new(&mut self.0).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => Poll::Ready(Some(Ok(data))),
                    Err(_trailers) => continue,
                },
                Poll::Ready(Some(Err(error))) => Poll::Ready(Some(Err(io::Error::other(error)))),
                Poll::Ready(None) => Poll::Ready(None),
                Poll::Pending => Poll::Pending,
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use async_compression::tokio::bufread::{
        BrotliEncoder, DeflateEncoder, GzipEncoder, ZlibEncoder, ZstdEncoder,
    };
    use http::HeaderValue;

    use super::*;

    const FILE: &[u8] = b"User-agent: *\nDisallow: /private\n";

    async fn all(mut reader: impl AsyncRead + Unpin) -> Vec<u8> {
        let mut all = Vec::new();
        reader.read_to_end(&mut all).await.expect("encodes");
        all
    }

    async fn decoded(body: &[u8], codings: &[Coding], limit: usize) -> io::Result<Vec<u8>> {
        decode(Box::new(io::Cursor::new(body.to_vec())), codings, limit).await
    }

    #[test]
    fn the_codings_of_a_body_are_undone_from_the_outermost() {
        use Coding::{Brotli, Deflate, Gzip, Zstd};
        type Case<'a> = (&'a str, &'a [&'a str], Result<&'a [Coding], Cause>);
        #[rustfmt::skip] // one row, one case
        let cases: &[Case<'_>] = &[
            ("no field", &[], Ok(&[])),
            ("an empty field", &[""], Ok(&[])),
            ("identity", &["identity"], Ok(&[])),
            ("one", &["gzip"], Ok(&[Gzip])),
            ("its old name, any case", &["X-GZip"], Ok(&[Gzip])),
            ("deflate", &["deflate"], Ok(&[Deflate])),
            ("brotli", &["br"], Ok(&[Brotli])),
            ("zstd", &["zstd"], Ok(&[Zstd])),
            ("two, applied in this order", &["gzip, br"], Ok(&[Brotli, Gzip])),
            ("two in two lines", &["gzip", "br"], Ok(&[Brotli, Gzip])),
            ("identity does not count", &["gzip, identity, br"], Ok(&[Brotli, Gzip])),
            ("a bomb", &["gzip, gzip, gzip"], Err(Cause::Encoding)),
            ("unknown", &["compress"], Err(Cause::Encoding)),
            ("known and unknown", &["gzip, x"], Err(Cause::Encoding)),
            ("no text", &["gz\u{e9}p"], Err(Cause::Encoding)),
        ];
        for (name, values, expected) in cases {
            let headers: HeaderMap = values
                .iter()
                .map(|text| HeaderValue::from_bytes(text.as_bytes()).expect("a field value"))
                .map(|value| (CONTENT_ENCODING, value))
                .collect();
            assert_eq!(codings(&headers).as_deref(), expected.as_deref(), "{name}");
        }
    }

    #[test]
    fn chunked_is_the_only_transfer_coding() {
        #[rustfmt::skip] // one row, one case
        let cases: &[(&str, &[&str], bool)] = &[
            ("none", &[], true),
            ("chunked", &["chunked"], true),
            ("in other letters", &["Chunked"], true),
            ("compressed first", &["gzip, chunked"], false),
            ("on two lines", &["gzip", "chunked"], false),
            ("compressed alone", &["gzip"], false),
            ("a coding that is none", &["identity"], false),
            ("no text", &["gz\u{e9}p"], false),
        ];
        for (name, values, expected) in cases {
            let headers: HeaderMap = values
                .iter()
                .map(|text| HeaderValue::from_bytes(text.as_bytes()).expect("a field value"))
                .map(|value| (TRANSFER_ENCODING, value))
                .collect();
            assert_eq!(transfer(&headers).is_ok(), *expected, "{name}");
        }
    }

    #[tokio::test]
    async fn every_coding_is_decoded_and_its_damage_noticed() {
        use Coding::{Brotli, Deflate, Gzip, Zstd};
        let twice = all(BrotliEncoder::new(&*all(GzipEncoder::new(FILE)).await)).await;
        for (name, body, codings) in [
            ("gzip", all(GzipEncoder::new(FILE)).await, &[Gzip][..]),
            ("brotli", all(BrotliEncoder::new(FILE)).await, &[Brotli]),
            ("zstd", all(ZstdEncoder::new(FILE)).await, &[Zstd]),
            ("zlib", all(ZlibEncoder::new(FILE)).await, &[Deflate]),
            (
                "raw deflate",
                all(DeflateEncoder::new(FILE)).await,
                &[Deflate],
            ),
            ("brotli over gzip", twice, &[Brotli, Gzip]),
        ] {
            let content = decoded(&body, codings, 1000).await;
            assert_eq!(content.expect(name), FILE, "{name}");
            let content = decoded(&body, codings, 10).await;
            assert_eq!(content.expect(name), FILE[..10], "{name}, to the limit");
            let cut = decoded(&body[..body.len() - 3], codings, 1000).await;
            assert_eq!(
                cut.map_err(|error| cause(&error)),
                Err(Cause::Encoding),
                "{name}, cut"
            );
            let empty = decoded(b"", codings, 1000).await;
            assert_eq!(empty.expect(name), b"", "{name} of nothing");
        }
    }

    #[tokio::test]
    async fn text_that_says_it_is_compressed_is_an_error() {
        for coding in [Coding::Gzip, Coding::Zstd, Coding::Deflate, Coding::Brotli] {
            assert!(decoded(FILE, &[coding], 1000).await.is_err(), "{coding:?}");
        }
    }

    #[tokio::test]
    async fn all_members_of_a_gzip_and_all_frames_of_a_zstd_count() {
        let (first, second) = FILE.split_at(14);
        let gzip = [
            all(GzipEncoder::new(first)).await,
            all(GzipEncoder::new(second)).await,
        ];
        let content = decoded(&gzip.concat(), &[Coding::Gzip], 1000).await;
        assert_eq!(content.expect("decodes"), FILE);
        let zstd = [
            all(ZstdEncoder::new(first)).await,
            all(ZstdEncoder::new(second)).await,
        ];
        let content = decoded(&zstd.concat(), &[Coding::Zstd], 1000).await;
        assert_eq!(content.expect("decodes"), FILE);
    }

    #[tokio::test]
    async fn a_bomb_is_inflated_to_the_limit_only() {
        let zeros = vec![0; 8 << 20];
        let bomb = all(GzipEncoder::new(&*all(GzipEncoder::new(&*zeros)).await)).await;
        let content = decoded(&bomb, &[Coding::Gzip, Coding::Gzip], 512_001).await;
        assert_eq!(content.expect("decodes").len(), 512_001);
    }

    #[tokio::test]
    async fn a_zstd_window_beyond_8_mib_is_refused() {
        // Magic, a frame header that declares a window of 2^27 octets, an empty last block.
        let frame = [0x28, 0xb5, 0x2f, 0xfd, 0x00, 17 << 3, 0x01, 0x00, 0x00];
        assert!(decoded(&frame, &[Coding::Zstd], 1000).await.is_err());
        let smaller = [0x28, 0xb5, 0x2f, 0xfd, 0x00, 13 << 3, 0x01, 0x00, 0x00];
        let content = decoded(&smaller, &[Coding::Zstd], 1000).await;
        assert_eq!(content.expect("a window of 8 MiB is fine"), b"");
    }
}
