//! The content codings: each is undone to a limit (RFC 9110 section 8.4.1).
//!
//! Text and NULs that follow a complete gzip, zstd or brotli stream are no part of the file: servers append line ends,
//! padding and comments to what they have compressed. Rules, and octets that may be another part, show that the file is
//! longer.

use std::io;

use async_compression::tokio::bufread::{
    BrotliDecoder, DeflateDecoder, GzipDecoder, ZlibDecoder, ZstdDecoder,
};
use async_compression::zstd::DParameter;
use tokio::io::{AsyncRead, AsyncReadExt};

use crawlgate_robots as rep;

/// Octets by which a coded file may be longer than its content, which is when it does not compress.
pub(super) const CODED: usize = 64 * 1024;

/// Binary logarithm of the largest zstd window: 8 MiB (RFC 9659 section 3).
const ZSTD_WINDOW: u32 = 23;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Coding {
    Gzip,
    Deflate,
    Brotli,
    Zstd,
}

/// Undoes all codings, to `limit` octets of the content.
pub(super) async fn decode(
    mut body: Vec<u8>,
    codings: &[Coding],
    limit: usize,
) -> io::Result<Vec<u8>> {
    for (at, coding) in codings.iter().enumerate() {
        let is_last = at + 1 == codings.len();
        let most = match is_last {
            true => limit,
            false => limit.saturating_add(CODED),
        };
        body = undone(*coding, &body, most).await?;
    }
    Ok(body)
}

/// Undoes one coding, to `most` octets. Servers put their Content-Encoding on an empty file, too, and then send nothing to
/// decode.
async fn undone(coding: Coding, mut coded: &[u8], most: usize) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    let mut is_due = !coded.is_empty();
    while is_due && content.len() < most {
        let is_zlib = is_zlib(coded);
        let decoder: Box<dyn AsyncRead + Send + Unpin + '_> = match coding {
            Coding::Gzip => Box::new(GzipDecoder::new(&mut coded)),
            Coding::Deflate if is_zlib => Box::new(ZlibDecoder::new(&mut coded)),
            // "Some non-conformant implementations send the 'deflate' compressed data without the zlib
            // wrapper" (RFC 9110 section 8.4.1.2).
            Coding::Deflate => Box::new(DeflateDecoder::new(&mut coded)),
            Coding::Brotli => Box::new(BrotliDecoder::new(&mut coded)),
            Coding::Zstd => {
                let window = DParameter::window_log_max(ZSTD_WINDOW);
                Box::new(ZstdDecoder::with_params(&mut coded, &[window]))
            }
        };
        let left = most - content.len();
        decoder.take(left as u64).read_to_end(&mut content).await?;
        is_due = coding.goes_on(coded);
    }
    match content.len() < most && !coding.may_precede(coded) {
        true => Err(io::ErrorKind::InvalidData.into()),
        false => Ok(content),
    }
}

impl Coding {
    /// Tells whether what follows a stream is another part of the content: a member of gzip (RFC 1952 section 2.2), a frame
    /// of zstd or one to skip (RFC 8878 section 3.1).
    fn goes_on(self, rest: &[u8]) -> bool {
        match self {
            Coding::Gzip => rest.starts_with(&[0x1f, 0x8b]),
            Coding::Zstd => {
                matches!(rest, [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..])
            }
            Coding::Brotli | Coding::Deflate => false,
        }
    }

    /// Tells whether octets that follow a complete stream are surely no part of the file. Nothing checks a deflate stream:
    /// it may have ended early.
    fn may_precede(self, rest: &[u8]) -> bool {
        let is_stray = |octet: &u8| *octet == 0 || is_of_text(octet);
        rest.is_empty()
            || self != Coding::Deflate
                && rest.iter().all(is_stray)
                && !rep::has_rules(behind_padding(rest))
    }
}

/// Returns what stands behind a padding with NULs.
fn behind_padding(octets: &[u8]) -> &[u8] {
    let start = octets.iter().position(|octet| *octet != 0);
    octets.get(start.unwrap_or(octets.len())..).unwrap_or_default()
}

/// Tells whether data begins like zlib (RFC 1950 section 2.2). A raw deflate stream with this first octet would begin
/// with a kind of block that no encoder writes first.
fn is_zlib(data: &[u8]) -> bool {
    matches!(data, [cmf, flags, ..]
        if cmf & 0x0f == 8 && u16::from_be_bytes([*cmf, *flags]).is_multiple_of(31))
}

/// Tells whether an octet occurs in text, in any encoding that ASCII is a part of.
pub(super) fn is_of_text(octet: &u8) -> bool {
    !octet.is_ascii_control() || octet.is_ascii_whitespace()
}

#[cfg(test)]
mod tests {
    use super::*;
    use async_compression::tokio::bufread::{
        BrotliEncoder, DeflateEncoder, GzipEncoder, ZlibEncoder, ZstdEncoder,
    };

    const FILE: &[u8] = b"User-agent: *\nDisallow: /private\n";

    async fn all(mut reader: impl AsyncRead + Unpin) -> Vec<u8> {
        let mut all = Vec::new();
        reader.read_to_end(&mut all).await.expect("encodes");
        all
    }

    async fn decoded(body: &[u8], codings: &[Coding], limit: usize) -> io::Result<Vec<u8>> {
        decode(body.to_vec(), codings, limit).await
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
            ("raw deflate", all(DeflateEncoder::new(FILE)).await, &[Deflate]),
            ("brotli over gzip", twice, &[Brotli, Gzip]),
        ] {
            let content = decoded(&body, codings, 1000).await;
            assert_eq!(content.expect(name), FILE, "{name}");
            let content = decoded(&body, codings, 10).await;
            assert_eq!(content.expect(name), FILE[..10], "{name}, to the limit");
            let cut = decoded(&body[..body.len() - 3], codings, 1000).await;
            assert!(cut.is_err(), "{name}, cut");
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
        let gzip = [all(GzipEncoder::new(first)).await, all(GzipEncoder::new(second)).await];
        let content = decoded(&gzip.concat(), &[Coding::Gzip], 1000).await;
        assert_eq!(content.expect("decodes"), FILE);
        let zstd = [all(ZstdEncoder::new(first)).await, all(ZstdEncoder::new(second)).await];
        let content = decoded(&zstd.concat(), &[Coding::Zstd], 1000).await;
        assert_eq!(content.expect("decodes"), FILE);
    }

    #[tokio::test]
    async fn stray_octets_behind_a_complete_stream_are_dropped_and_a_damaged_part_is_not() {
        let gzip = all(GzipEncoder::new(FILE)).await;
        let zstd = all(ZstdEncoder::new(FILE)).await;
        let brotli = all(BrotliEncoder::new(FILE)).await;
        let twice = all(BrotliEncoder::new(&*[&gzip[..], b"\n"].concat())).await;
        let strays: [&[u8]; 4] = [
            b"\r\n",
            b"\0\0\0\0\0\0\0\0",
            b"<!-- cached -->",
            b"\0\0# caf\xe9 of 2026: Disallow: /\n",
        ];
        let padded = [b"\0\0", &gzip[..]].concat();
        let parts: [&[u8]; 5] =
            [&padded, &brotli, b"\x1f", b"\nDisallow: /other\n", b"\0\0user agent: *"];
        #[rustfmt::skip] // one row, one case
        let cases = [
            ("gzip", &gzip, &[Coding::Gzip][..], &[0x1f, 0x8b, 8, 0][..]),
            ("zstd", &zstd, &[Coding::Zstd], &[0x28, 0xb5, 0x2f, 0xfd, 4]),
            ("brotli", &brotli, &[Coding::Brotli], &[]),
            ("brotli over gzip", &twice, &[Coding::Brotli, Coding::Gzip], &[]),
        ];
        for (name, body, codings, begins) in cases {
            for stray in strays {
                let content = decoded(&[body, stray].concat(), codings, 1000).await;
                assert_eq!(content.expect(name), FILE, "{name} before {stray:?}");
            }
            for part in parts {
                let content = decoded(&[body, part].concat(), codings, 1000).await;
                assert!(content.is_err(), "{name} before {part:?}");
            }
            if !begins.is_empty() {
                let content = decoded(&[body, begins].concat(), codings, 1000).await;
                assert!(content.is_err(), "{name} before a part that is cut");
            }
        }
        // A deflate stream has no check that tells its end from the end of a part.
        for body in [all(ZlibEncoder::new(FILE)).await, all(DeflateEncoder::new(FILE)).await] {
            let content = decoded(&[&body[..], b"\n"].concat(), &[Coding::Deflate], 1000).await;
            assert!(content.is_err(), "a deflate stream before a line end");
        }
        // A frame to skip is no content, and the frame behind it counts.
        let skipped = [0x50, 0x2a, 0x4d, 0x18, 1, 0, 0, 0, 7];
        let skips = [&zstd[..], &skipped, &zstd].concat();
        let content = decoded(&skips, &[Coding::Zstd], 1000).await;
        assert_eq!(content.expect("decodes"), FILE.repeat(2));
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
