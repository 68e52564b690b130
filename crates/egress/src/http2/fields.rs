//! The head of a request as HTTP/2 carries it (RFC 9113 8.2 and 8.3).
//!
//! The bound of the fields that an origin may send.

use std::io;

use http::header::{CONNECTION, HOST, HeaderName, TE, TRANSFER_ENCODING, UPGRADE};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderMap, Request, Uri, Version};

/// Fields of one connection, which HTTP/2 has not; and Host, which is its `:authority`.
const OF_A_CONNECTION: [HeaderName; 6] = [
    HOST,
    CONNECTION,
    TRANSFER_ENCODING,
    UPGRADE,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
];

/// Copies the head of a request to `authority`. The request itself stays whole: it may have to be sent again.
pub(super) fn head<B>(request: &Request<B>, authority: &Authority) -> Option<Request<()>> {
    let path = request.uri().path_and_query().cloned();
    let uri = Uri::builder()
        .scheme(Scheme::HTTPS)
        .authority(authority.clone())
        .path_and_query(path.unwrap_or(PathAndQuery::from_static("/")))
        .build()
        .ok()?;
    let mut head = Request::new(());
    *head.version_mut() = Version::HTTP_2;
    *head.uri_mut() = uri;
    head.method_mut().clone_from(request.method());
    *head.headers_mut() = fields(request.headers());
    Some(head)
}

/// Copies the fields that HTTP/2 carries, in their order: to remove the others from a copy would change it.
fn fields(of: &HeaderMap) -> HeaderMap {
    let mut fields = HeaderMap::with_capacity(of.len());
    for (name, value) in of {
        let is_kept = match *name {
            TE => value.as_bytes() == b"trailers",
            _ => !OF_A_CONNECTION.contains(name),
        };
        if is_kept {
            fields.append(name.clone(), value.clone());
        }
    }
    fields
}

/// Most octets of the fields of a head or of trailers, each with 32 more (RFC 9113 6.5.2).
pub(super) const FIELDS: usize = 256 * 1024;

/// The kind of the error that ends a connection with a longer section: `h2` keeps the kind alone, and no other error of a
/// socket has it.
pub(in super::super) const TOO_LONG: io::ErrorKind = io::ErrorKind::FileTooLarge;

/// Tells whether fields have more than [`FIELDS`] octets.
pub(super) fn are_too_long(fields: &HeaderMap) -> bool {
    let sizes = fields.iter().map(|(name, value)| name.as_str().len() + value.len() + 32);
    sizes.sum::<usize>() > FIELDS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_loses_the_fields_of_its_connection_and_keeps_all_others() {
        let request = Request::post("/a?b=1")
            .header("host", "elsewhere.example")
            .header("connection", "te, close")
            .header("keep-alive", "timeout=5")
            .header("proxy-connection", "close")
            .header("transfer-encoding", "chunked")
            .header("upgrade", "h2c")
            .header("te", "trailers")
            .header("cookie", "a=1; b=2")
            .header("x-one", "1")
            .header("x-one", "2")
            .body("body")
            .expect("a request");
        let head = head(&request, &Authority::from_static("site.example:8443")).expect("a head");
        assert_eq!(head.uri(), "https://site.example:8443/a?b=1");
        assert_eq!((head.method().as_str(), head.version()), ("POST", Version::HTTP_2));
        let fields: Vec<_> = head.headers().iter().collect();
        let fields: Vec<_> =
            fields.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
        let kept: [(&str, &[u8]); 4] =
            [("te", b"trailers"), ("cookie", b"a=1; b=2"), ("x-one", b"1"), ("x-one", b"2")];
        assert_eq!(fields, kept);
        assert_eq!(request.headers().len(), 10, "the request stays whole");
    }

    #[test]
    fn te_passes_only_as_trailers() {
        for (te, passes) in [("trailers", true), ("gzip", false), ("trailers, deflate", false)] {
            let request = Request::get("/").header("te", te).body(()).expect("a request");
            let head = head(&request, &Authority::from_static("a.example")).expect("a head");
            assert_eq!(head.headers().contains_key(TE), passes, "{te}");
        }
    }
}
