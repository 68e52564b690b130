//! The content of an answer: its body with the content codings undone (RFC 9110 section 8.4).
//!
//! A body counts when it is whole, and is read and inflated to a limit at most.

mod coding;

use std::future::poll_fn;
use std::io;
use std::pin::Pin;

use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, HeaderName, TRANSFER_ENCODING};
use http::response::Parts;
use http::{HeaderMap, Response, Version};
use http_body::Body as _;

use self::coding::{CODED, Coding, decode, is_of_text};
use crawlgate_egress::{ResponseBody, ResponseError};
use crawlgate_origins::access::{Cause, CodingField, Codings};

/// The codings in our requests. [`codings`] understands these, and their older names.
pub(super) const ACCEPTED: &str = "gzip, br, zstd, deflate";

/// More codings on one body are a bomb, not a file.
const MAX_CODINGS: usize = 2;

/// Values of Content-Encoding that leave a text as it is. None is registered; browsers and libraries read them so. They are
/// charsets, names from MIME, and a framing that a storage service has undone.
const OF_TEXT: [&str; 6] = ["none", "utf-8", "binary", "7bit", "8bit", "aws-chunked"];

/// Reads the decoded body, at most `limit` octets of it.
///
/// # Errors
/// The cause that the body is not whole or not readable. None of it counts then.
pub(super) async fn read(response: Response<ResponseBody>, limit: usize) -> Result<Vec<u8>, Cause> {
    let (head, body) = response.into_parts();
    transfer(&head.headers)?;
    let codings = codings(&head.headers)?;
    let most = match &*codings {
        [] => limit,
        _ => limit.saturating_add(CODED),
    };
    let body = received(body, most).await?;
    if body.is_empty() && !codings.is_empty() && ends_with_connection(&head) {
        return Err(Cause::Incomplete);
    }
    let undecodable = || undecodable(&head.headers, CodingField::Content);
    let content = decode(body, &codings, limit).await;
    let content = content.map_err(|_| undecodable())?;
    // The name may stand for a coding that was not undone.
    match names_text(&head.headers) && !content.iter().all(is_of_text) {
        true => Err(undecodable()),
        false => Ok(content),
    }
}

/// Tells whether the answer names a coding that stands for a text as it is.
fn names_text(headers: &HeaderMap) -> bool {
    let names = names(headers, &CONTENT_ENCODING).unwrap_or_default();
    names.into_iter().any(is_text_name)
}

fn is_text_name(name: &str) -> bool {
    OF_TEXT.iter().any(|known| name.eq_ignore_ascii_case(known))
}

/// Tells whether only the end of the connection ends the body (RFC 9112 section 6.3): a server that stops before the
/// first octet of a coded file sends the same.
fn ends_with_connection(head: &Parts) -> bool {
    let names_length = |name| head.headers.contains_key(name);
    head.version < Version::HTTP_2
        && !names_length(CONTENT_LENGTH)
        && !names_length(TRANSFER_ENCODING)
}

/// Reads a body to its end, or `most` octets of it.
async fn received(mut body: ResponseBody, most: usize) -> Result<Vec<u8>, Cause> {
    let mut octets = Vec::new();
    while octets.len() < most
        && let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await
    {
        let frame = frame.map_err(|error| cause(&error))?;
        octets.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
    }
    octets.truncate(most);
    Ok(octets)
}

/// Classifies a failure to read. A connection that ends or breaks before the body is whole is told from one with bad
/// framing.
fn cause(error: &ResponseError) -> Cause {
    let transport = match error {
        ResponseError::Length => return Cause::Length,
        // A stream that breaks the protocol is reset by us.
        ResponseError::Http2(error) if error.is_library() => return Cause::Protocol,
        ResponseError::Http2(_) | ResponseError::Ftp(_) => return Cause::Incomplete,
        ResponseError::Http1(transport) => transport,
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
    let refused = || undecodable(headers, CodingField::Transfer);
    let names = names(headers, &TRANSFER_ENCODING).ok_or_else(refused)?;
    let is_chunked = |name: &&str| name.eq_ignore_ascii_case("chunked");
    names.iter().all(is_chunked).then_some(()).ok_or_else(refused)
}

/// Returns the codings to undo, outermost first.
fn codings(headers: &HeaderMap) -> Result<Vec<Coding>, Cause> {
    let refused = || undecodable(headers, CodingField::Content);
    let mut codings = Vec::new();
    for name in names(headers, &CONTENT_ENCODING).ok_or_else(refused)? {
        codings.push(match name.to_ascii_lowercase().as_str() {
            "identity" => continue,
            name if is_text_name(name) => continue,
            "gzip" | "x-gzip" => Coding::Gzip,
            "deflate" => Coding::Deflate,
            "br" => Coding::Brotli,
            "zstd" => Coding::Zstd,
            _ => return Err(refused()),
        });
    }
    if codings.len() > MAX_CODINGS {
        return Err(refused());
    }
    codings.reverse();
    Ok(codings)
}

/// Returns the members of a list in all lines of a field; `None` if one is no text.
fn names<'a>(headers: &'a HeaderMap, field: &HeaderName) -> Option<Vec<&'a str>> {
    let mut names = Vec::new();
    for value in headers.get_all(field) {
        let members = value.to_str().ok()?.split(',').map(str::trim);
        names.extend(members.filter(|name| !name.is_empty()));
    }
    Some(names)
}

/// Returns the cause that names what a field says.
fn undecodable(headers: &HeaderMap, field: CodingField) -> Cause {
    let name = match field {
        CodingField::Content => CONTENT_ENCODING,
        CodingField::Transfer => TRANSFER_ENCODING,
    };
    let lines = headers.get_all(name).iter().map(|line| line.as_bytes());
    let value = lines.collect::<Vec<_>>().join(&b", "[..]);
    Cause::Encoding(Some(Codings::new(field, &value)))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn the_codings_of_a_body_are_undone_from_the_outermost() {
        use Coding::{Brotli, Deflate, Gzip, Zstd};
        type Case<'a> = (&'a str, &'a [&'a str], Result<&'a [Coding], &'a str>);
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
            ("a bomb", &["gzip, gzip, gzip"], Err("gzip, gzip, gzip")),
            ("unknown", &["compress"], Err("compress")),
            ("known and unknown", &["gzip, x"], Err("gzip, x")),
            ("unknown on a second line", &["gzip", "x"], Err("gzip, x")),
            ("no text", &["gz\u{e9}p"], Err("gz??p")),
            ("names that stand for identity", &["none, utf-8, binary", "7bit, 8bit", "AWS-Chunked", ""], Ok(&[])),
        ];
        for (name, values, expected) in cases {
            let headers: HeaderMap = values
                .iter()
                .map(|text| HeaderValue::from_bytes(text.as_bytes()).expect("a field value"))
                .map(|value| (CONTENT_ENCODING, value))
                .collect();
            let expected = expected.map_err(|value: &str| {
                Cause::Encoding(Some(Codings::new(CodingField::Content, value.as_bytes())))
            });
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
}
