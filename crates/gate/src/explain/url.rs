//! URLs as people write them: read, or answered with the way to write them.

use http::uri::PathAndQuery;

use super::error::UrlError;
use crawlgate_ftp as ftp;
use crawlgate_ftp::path::ReadError;
use crawlgate_policy::Target;
use crawlgate_robots::{Origin, OriginError, Scheme, split_transfer_type};

/// Returns the target of a URL.
///
/// # Errors
/// When the URL cannot be forwarded; the error says how to write it.
pub fn target(url: &str) -> Result<Target, UrlError> {
    let (origin, path) = origin(url)?;
    if origin.scheme() == Scheme::Ftp {
        if names_user(url) {
            return Err(UrlError::Ftp(ftp::NO_USER));
        }
        ftp::path::read(&path).map_err(|error| match error {
            ReadError::Nameless(error) => UrlError::Ftp(error.advice()),
            ReadError::Spelled(spelling) => {
                let whole = url.split_once('#').map_or(url, |(before, _)| before);
                let in_type = whole.get(split_transfer_type(whole).0.len()..);
                UrlError::Spelling(format!("{origin}{spelling}{}", in_type.unwrap_or_default()))
            }
        })?;
    }
    match PathAndQuery::try_from(&*path) {
        Ok(path) => Ok(Target { origin, path }),
        Err(error) => Err(match PathAndQuery::try_from(encoded(&path)) {
            Ok(encoded) => UrlError::Spelling(format!("{origin}{encoded}")),
            Err(_) => UrlError::Path(error),
        }),
    }
}

/// Tells whether an absolute URL has user information, which [`Origin::parse`] leaves out, of another login than the
/// anonymous one.
fn names_user(url: &str) -> bool {
    let rest = url.split_once("://").map_or("", |(_, rest)| rest);
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let userinfo = rest.get(..end).unwrap_or_default().rsplit_once('@');
    userinfo.is_some_and(|(userinfo, _)| !ftp::is_anonymous(userinfo))
}

/// Splits a URL into its origin and its path.
///
/// # Errors
/// When it is no URL; the error says how to write it.
pub fn origin(url: &str) -> Result<(Origin, String), UrlError> {
    Origin::parse(url).map_err(|error| {
        if error != OriginError::NotAbsolute {
            return UrlError::Origin(error);
        }
        if url.starts_with('/') {
            return UrlError::OnlyPath(url.to_owned());
        }
        if let Some(mended) = with_slashes(url) {
            return UrlError::Slashes(mended);
        }
        let guess = format!("https://{url}");
        match Origin::parse(&guess) {
            Ok(_) if !has_scheme(url) => UrlError::NoScheme(guess),
            _ => UrlError::Origin(error),
        }
    })
}

/// Writes the two slashes behind the scheme of a URL that has other than two; `None` if it has no such scheme, or is no URL
/// even so.
pub fn with_slashes(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once(':')?;
    let scheme = scheme.to_ascii_lowercase();
    let is_known = matches!(scheme.as_str(), "http" | "https" | "ftp");
    let mended = format!("{scheme}://{}", rest.trim_start_matches('/'));
    (is_known && !rest.starts_with("//") && Origin::parse(&mended).is_ok()).then_some(mended)
}

/// Tells whether a URL begins with a scheme and one slash: written behind another scheme, that scheme would be read as a
/// host.
fn has_scheme(url: &str) -> bool {
    url.split_once(":/").is_some_and(|(scheme, _)| !scheme.contains(['.', '/', ']', ':']))
}

/// Percent-encodes the characters of a path that no request can carry.
fn encoded(path: &str) -> String {
    use std::fmt::Write as _;
    path.bytes().fold(String::new(), |mut encoded, octet| {
        if octet.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&octet) {
            encoded.push(char::from(octet));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(encoded, "%{octet:02X}");
        }
        encoded
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_url_is_answered_with_its_correct_form() {
        let cases = [
            ("example.com/a", "write it with its scheme, as https://example.com/a"),
            ("//example.com/a", "a path, not a URL"),
            ("/a", "as https://example.com/a"),
            ("a b", "must begin with http://"),
            ("http:/x", "two slashes behind its scheme, as http://x"),
            ("HTTPS:example.com/a", "as https://example.com/a"),
            ("ftp:/a/b", "as ftp://a/b"),
            ("gopher:/a", "must begin with http://"),
            ("example.com:8080/a", "as https://example.com:8080/a"),
            ("ftp://anonymous:p@a/b", "without user and password"),
            ("gopher://a/", "the scheme must be http, https or ftp"),
            ("ftp://a/b//c", "without doubled slashes"),
            ("ftp://a/b%0d", "a control octet"),
            ("ftp://a/%62;type=i#c", "write ftp://a/b;type=i"),
            ("ftp://u:p@a/b", "without user and password"),
            ("ftp://@a/b", "without user and password"),
            ("http://a:0/", "the port must be"),
            ("http://a/b c", "write http://a/b%20c"),
            ("http://a/\u{1}", "write http://a/%01"),
        ];
        for (url, expected) in cases {
            let told = target(url).map(|_| ()).expect_err(url).to_string();
            assert!(told.contains(expected), "{url}: {told}");
        }
        assert!(target("ftp://a/b;type=i").is_ok_and(|target| target.path == "/b"));
        assert!(target("ftp://a/b@c").is_ok_and(|target| target.path == "/b@c"));
        for url in ["ftp://anonymous@a/b", "ftp://ftp@a/b"] {
            assert!(target(url).is_ok_and(|target| target.origin.as_str() == "ftp://a"));
        }
        assert!(target("http://u:p@a/b").is_ok_and(|target| target.origin.as_str() == "http://a"));
        assert!(target("http://a/ツ?{}#x y").is_ok_and(|target| target.path == "/ツ?{}"));
    }
}
