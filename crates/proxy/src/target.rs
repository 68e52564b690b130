//! Reads all forms of a request target (RFC 9112 3.2) as the one [`Target`] that is judged and sent.
//!
//! After this module no code reads the raw URI again. A target that disagrees with itself is refused here.

use http::header::HOST;
use http::uri::PathAndQuery;
use http::{HeaderMap, Method, Uri};

use crawlgate_ftp::is_anonymous;
use crawlgate_ftp::path::{self, PathError, ReadError};
use crawlgate_policy::Target;
use crawlgate_record::Via;
use crawlgate_robots::{Origin, Scheme, TransferType, split_transfer_type};

/// The way that requests come on a connection.
#[derive(Debug, Clone)]
pub enum Scope {
    /// To the proxy itself, in absolute-form.
    Plain,
    /// Inside a CONNECT to this origin; crawlgate ends its TLS or plain HTTP.
    Inside {
        /// The origin that CONNECT named; `http` if plain HTTP was spoken inside.
        origin: Origin,
        /// The server name of the TLS handshake, if it was another one.
        stray_name: Option<Box<str>>,
    },
}

impl Scope {
    /// Returns this way, as records name it.
    pub fn via(&self) -> Via {
        match self {
            Scope::Plain => Via::Plain,
            Scope::Inside { .. } => Via::Intercepted,
        }
    }
}

/// Reason that a target cannot be judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unreadable {
    /// Origin-form, sent to the proxy as to an origin server.
    NotAbsolute,
    /// Not a target of the method or of HTTP.
    Malformed,
    /// A scheme that is not forwarded.
    Scheme,
    /// An `ftp` URL with a user other than the anonymous one.
    Userinfo,
    /// The path of an `ftp` URL that has more than one meaning on a server, or none.
    FtpPath(PathError),
    /// The path of an `ftp` URL in another than its one spelling; the URL in that one.
    FtpSpelling(Box<str>),
    /// The connection, the handshake and the request name different origins.
    Misdirected {
        /// The origin of the connection.
        expected: Box<str>,
        /// The origin named instead.
        found: Box<str>,
        /// The part that names it.
        by: NamedBy,
    },
}

/// The part of an exchange that names another origin than its connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamedBy {
    /// The request's target or its Host field: the URL that the crawler asks for.
    Request,
    /// The server name of the TLS handshake.
    Handshake,
}

/// Reads the target of a request other than CONNECT, and the transfer type that an `ftp` URL names: it is no part of the
/// target. `takes_ftp` is true if `ftp` URLs are forwarded.
///
/// # Errors
/// When it cannot be judged.
pub fn read(
    uri: &Uri,
    headers: &HeaderMap,
    scope: &Scope,
    takes_ftp: bool,
) -> Result<(Target, Option<TransferType>), Unreadable> {
    let path = path_of(uri)?;
    match scope {
        Scope::Plain => {
            if uri.scheme().is_none() {
                return Err(match uri.authority() {
                    // Only CONNECT has authority-form.
                    Some(_) => Unreadable::Malformed,
                    None => Unreadable::NotAbsolute,
                });
            }
            let origin = origin_of(uri)?;
            match origin.scheme() {
                Scheme::Ftp if takes_ftp => of_ftp(origin, &path),
                Scheme::Ftp => Err(Unreadable::Scheme),
                Scheme::Http | Scheme::Https => Ok((Target { origin, path }, None)),
            }
        }
        Scope::Inside { origin, stray_name } => {
            match (uri.scheme(), uri.authority()) {
                (None, None) => {}
                (None, Some(_)) => return Err(Unreadable::Malformed),
                (Some(_), _) => {
                    let named = origin_of(uri)?;
                    if named != *origin {
                        return Err(misdirected(origin, named.as_str(), NamedBy::Request));
                    }
                }
            }
            if let Some(host) = headers.get(HOST) {
                agree(origin, host.as_bytes())?;
            }
            if let Some(name) = stray_name {
                return Err(misdirected(origin, name, NamedBy::Handshake));
            }
            let origin = origin.clone();
            Ok((Target { origin, path }, None))
        }
    }
}

/// Returns the target of a WebSocket handshake as the `http` or `https` URL that it requests (RFC 6455, section 4.1):
/// some clients (aiohttp) send a proxy the `ws` or `wss` URL as it stands. `None` for any other target.
pub fn of_handshake(uri: &Uri) -> Option<Uri> {
    let scheme = uri.scheme_str()?;
    let scheme = match scheme {
        "http" | "https" => return None,
        _ if scheme.eq_ignore_ascii_case("ws") => http::uri::Scheme::HTTP,
        _ if scheme.eq_ignore_ascii_case("wss") => http::uri::Scheme::HTTPS,
        _ => return None,
    };
    let mut parts = uri.clone().into_parts();
    parts.scheme = Some(scheme);
    Uri::from_parts(parts).ok()
}

/// Returns the root of the origin for an OPTIONS that asks for the server as a whole, as which it is judged: by `*`, or by a URL
/// without a path and a query (RFC 9112 3.2.4). `None` for any other request.
pub fn of_server(method: &Method, uri: &Uri) -> Option<Uri> {
    let root = PathAndQuery::from_static("/");
    let path = uri.path_and_query().filter(|_| *method == Method::OPTIONS)?;
    // An empty path is shown as `/`, and is not equal to it.
    if path.as_str() != "*" && (path.as_str() != "/" || *path == root) {
        return None;
    }
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(root);
    Uri::from_parts(parts).ok()
}

/// Reads the target of a CONNECT: authority-form, `host:port` (RFC 9110 9.3.6).
///
/// # Errors
/// When it is anything else.
pub fn read_connect(uri: &Uri) -> Result<Origin, Unreadable> {
    let (Some(authority), None, None) = (uri.authority(), uri.scheme(), uri.path_and_query())
    else {
        return Err(Unreadable::Malformed);
    };
    if authority.as_str().contains('@') {
        return Err(Unreadable::Malformed);
    }
    let port = authority.port_u16().ok_or(Unreadable::Malformed)?;
    Origin::new(Scheme::Https, authority.host(), Some(port)).map_err(|_| Unreadable::Malformed)
}

/// Returns the target of an `ftp` URL, and its transfer type.
fn of_ftp(
    origin: Origin,
    path: &PathAndQuery,
) -> Result<(Target, Option<TransferType>), Unreadable> {
    let whole = path.as_str();
    let (path, named) = split_transfer_type(whole);
    path::read(path).map_err(|error| match error {
        ReadError::Nameless(error) => Unreadable::FtpPath(error),
        ReadError::Spelled(spelling) => {
            let in_type = whole.get(path.len()..).unwrap_or_default();
            Unreadable::FtpSpelling(format!("{origin}{spelling}{in_type}").into())
        }
    })?;
    let path = if path.is_empty() { "/" } else { path };
    let path = PathAndQuery::try_from(path).map_err(|_| Unreadable::Malformed)?;
    Ok((Target { origin, path }, named))
}

fn path_of(uri: &Uri) -> Result<PathAndQuery, Unreadable> {
    let Some(path) = uri.path_and_query() else {
        // `http://host` without a path is the root; no other target without a path is.
        return match uri.scheme() {
            Some(_) => Ok(PathAndQuery::from_static("/")),
            None => Err(Unreadable::Malformed),
        };
    };
    match path.as_str().as_bytes() {
        // An empty path reads as the root, but is written as nothing: `http://host#x` leaves one.
        [] | b"/" => Ok(PathAndQuery::from_static("/")),
        [b'/', ..] => Ok(path.clone()),
        [b'?', ..] => {
            let rooted = format!("/{}", path.as_str());
            PathAndQuery::try_from(rooted).map_err(|_| Unreadable::Malformed)
        }
        [_, ..] => Err(Unreadable::Malformed),
    }
}

fn origin_of(uri: &Uri) -> Result<Origin, Unreadable> {
    let scheme = match uri.scheme_str() {
        Some("http") => Scheme::Http,
        Some("https") => Scheme::Https,
        Some(ftp) if ftp.eq_ignore_ascii_case("ftp") => Scheme::Ftp,
        _ => return Err(Unreadable::Scheme),
    };
    let authority = uri.authority().ok_or(Unreadable::Malformed)?.as_str();
    // The last `@`: no octet before it is part of the host.
    let (userinfo, host) = match authority.rsplit_once('@') {
        Some((userinfo, host)) => (Some(userinfo), host),
        None => (None, authority),
    };
    if scheme == Scheme::Ftp && userinfo.is_some_and(|userinfo| !is_anonymous(userinfo)) {
        return Err(Unreadable::Userinfo);
    }
    named(scheme, host)
}

/// Returns the origin that `host[:port]` names. A missing or empty port is the scheme's default (RFC 3986 3.2.3); a
/// port that is not a number of 16 bits is an error, never the default.
fn named(scheme: Scheme, text: &str) -> Result<Origin, Unreadable> {
    let bytes = text.as_bytes();
    // The colons of an IPv6 address are inside its brackets.
    let bracket = memchr::memrchr(b']', bytes).map_or(0, |at| at + 1);
    let after = bytes.get(bracket..).unwrap_or_default();
    let colon = memchr::memchr(b':', after).map_or(text.len(), |at| bracket + at);
    let (host, port) = text.split_at_checked(colon).ok_or(Unreadable::Malformed)?;
    let port = match port.strip_prefix(':') {
        None | Some("") => None,
        Some(digits) if digits.bytes().all(|b| b.is_ascii_digit()) => {
            Some(digits.parse().map_err(|_| Unreadable::Malformed)?)
        }
        Some(_) => return Err(Unreadable::Malformed),
    };
    Origin::new(scheme, host, port).map_err(|_| Unreadable::Malformed)
}

/// Tells whether a Host field names the authority of an absolute URI (RFC 9113 8.3.1) or of a CONNECT.
pub fn is_same_authority(uri: &Uri, host: &[u8]) -> bool {
    let origin = match uri.scheme() {
        Some(_) => origin_of(uri),
        None => read_connect(uri),
    };
    origin.is_ok_and(|origin| agree(&origin, host).is_ok())
}

fn agree(origin: &Origin, host: &[u8]) -> Result<(), Unreadable> {
    let stray = || misdirected(origin, &String::from_utf8_lossy(host), NamedBy::Request);
    let text = std::str::from_utf8(host).map_err(|_| stray())?;
    let (_, canonical) = origin.as_str().split_once("://").unwrap_or_default();
    if text == canonical {
        return Ok(());
    }
    match named(origin.scheme(), text) {
        Ok(named) if named == *origin => Ok(()),
        _ => Err(stray()),
    }
}

/// Builds the error. The answer and the record show the name that was found, but no credentials in it.
fn misdirected(origin: &Origin, found: &str, by: NamedBy) -> Unreadable {
    let at = memchr::memrchr(b'@', found.as_bytes()).map_or(0, |at| at + 1);
    let found = found.get(at..).unwrap_or_default();
    Unreadable::Misdirected {
        expected: origin.as_str().into(),
        found: found.chars().take(256).collect::<String>().into(),
        by,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inside(origin: &str) -> Scope {
        Scope::Inside { origin: Origin::parse(origin).unwrap().0, stray_name: None }
    }

    fn read_as(uri: &str, host: &str, scope: &Scope) -> String {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, host.parse().unwrap());
        match uri.parse::<Uri>().map(|uri| read(&uri, &headers, scope, true)) {
            Ok(Ok((target, None))) => format!("{}{}", target.origin, target.path),
            Ok(Ok((target, Some(named)))) => {
                format!("{}{} as {named:?}", target.origin, target.path)
            }
            Ok(Err(Unreadable::Misdirected { .. })) => "misdirected".to_owned(),
            Ok(Err(error)) => format!("{error:?}"),
            Err(_) => "not a URI".to_owned(),
        }
    }

    #[test]
    fn every_form_of_a_target_is_one_origin_and_one_path() {
        let plain = &Scope::Plain;
        let tls = &inside("https://a.test/");
        let odd = &inside("https://a.test:8443/");
        for (uri, host, scope, expected) in [
            ("http://a.test/x?y", "b.test", plain, "http://a.test/x?y"),
            ("http://A.TEST.:80/", "", plain, "http://a.test/"),
            ("http://u:p@a.test/", "", plain, "http://a.test/"),
            ("http://a.test", "", plain, "http://a.test/"),
            ("http://a.test?x", "", plain, "http://a.test/?x"),
            ("http://a.test:/", "", plain, "http://a.test/"),
            ("http://0x7f.1:8080/%70", "", plain, "http://127.0.0.1:8080/%70"),
            ("http://[::1]:8080/", "", plain, "http://[::1]:8080/"),
            ("https://a.test/x", "", plain, "https://a.test/x"),
            ("ws://a.test/x", "", plain, "Scheme"),
            ("ftp://a.test/x", "", plain, "ftp://a.test/x"),
            ("FTP://A.test:21/x;type=i", "", plain, "ftp://a.test/x as Image"),
            ("ftp://a.test:2121/x/", "", plain, "ftp://a.test:2121/x/"),
            ("ftp://a.test", "", plain, "ftp://a.test/"),
            ("ftp://a.test/;type=d", "", plain, "ftp://a.test/ as Directory"),
            ("http://a.test/x;type=a", "", plain, "http://a.test/x;type=a"),
            ("ftp://u:p@a.test/x", "", plain, "Userinfo"),
            ("ftp://@a.test/x", "", plain, "Userinfo"),
            ("ftp://anonymous@a.test/x", "", plain, "ftp://a.test/x"),
            ("ftp://ftp@a.test:2121/", "", plain, "ftp://a.test:2121/"),
            ("ftp://ftp:p@a.test/x", "", plain, "Userinfo"),
            ("ftp://anonymous@b.test@a.test/x", "", plain, "Userinfo"),
            ("ftp://Anonymous@a.test/x", "", plain, "Userinfo"),
            ("ftp://a.test/x%0d%0ay", "", plain, "FtpPath(Control)"),
            ("ftp://a.test/x?y", "", plain, "FtpPath(Query)"),
            ("ftp://a.test//x", "", plain, "FtpPath(Empty)"),
            ("ftp://a.test/x/../y", "", plain, "FtpPath(Dots)"),
            ("ftp://a.test/x%2Fy", "", plain, "FtpPath(Slash)"),
            ("ftp://a.test/%78%3Dy;type=i", "", plain, "FtpSpelling(\"ftp://a.test/x=y;type=i\")"),
            ("/x", "a.test", plain, "NotAbsolute"),
            ("*", "a.test", plain, "Malformed"),
            ("a.test:80", "a.test", plain, "Malformed"),
            ("http://a.test:99999/", "", plain, "Malformed"),
            ("/x", "a.test", tls, "https://a.test/x"),
            ("/x", "A.test:443", tls, "https://a.test/x"),
            ("/x", "b.test", tls, "misdirected"),
            ("/x", "a.test:444", tls, "misdirected"),
            ("/x", "u@a.test", tls, "misdirected"),
            ("/x", "", tls, "misdirected"),
            ("/x", "a.test", odd, "misdirected"),
            ("/x", "a.test:8443", odd, "https://a.test:8443/x"),
            ("https://a.test/x", "a.test", tls, "https://a.test/x"),
            ("http://a.test/x", "a.test", tls, "misdirected"),
            ("ftp://a.test/x", "a.test", tls, "misdirected"),
            ("https://b.test/x", "a.test", tls, "misdirected"),
            ("*", "a.test", tls, "Malformed"),
        ] {
            assert_eq!(read_as(uri, host, scope), expected, "{uri} with Host {host:?}");
        }
    }

    #[test]
    fn ftp_is_forwarded_where_it_is_wanted() {
        let uri: Uri = "ftp://a.test/x".parse().unwrap();
        let read = |takes_ftp| read(&uri, &HeaderMap::new(), &Scope::Plain, takes_ftp);
        assert!(read(true).is_ok());
        assert_eq!(read(false).unwrap_err(), Unreadable::Scheme);
    }

    #[test]
    fn a_websocket_url_is_the_http_url_of_its_handshake() {
        for (uri, expected) in [
            ("ws://a.test/x?y", Some("http://a.test/x?y")),
            ("WSS://a.test:8443/x", Some("https://a.test:8443/x")),
            ("ws://a.test:443", Some("http://a.test:443/")),
            ("http://a.test/x", None),
            ("wsx://a.test/x", None),
            ("a.test:80", None),
            ("/ws", None),
        ] {
            let found = of_handshake(&uri.parse().unwrap()).map(|uri| uri.to_string());
            assert_eq!(found.as_deref(), expected, "{uri}");
        }
    }

    #[test]
    fn an_options_without_a_path_asks_for_the_server() {
        for (uri, expected) in [
            ("*", Some("/")),
            // Framing writes it as the next one.
            ("http://a.test", None),
            ("http://a.test#", Some("http://a.test/")),
            ("http://a.test#x", Some("http://a.test/")),
            ("http://a.test/", None),
            ("http://a.test?x", None),
            ("http://a.test/*", None),
            ("/*", None),
            ("/", None),
            ("a.test:80", None),
        ] {
            let uri = uri.parse().unwrap();
            let found = of_server(&Method::OPTIONS, &uri).map(|uri| uri.to_string());
            assert_eq!(found.as_deref(), expected, "{uri}");
            assert_eq!(of_server(&Method::GET, &uri), None);
        }
    }

    #[test]
    fn connect_takes_a_host_and_a_port() {
        for (uri, expected) in [
            ("a.test:443", Some("https://a.test")),
            ("A.test.:8443", Some("https://a.test:8443")),
            ("[::1]:443", Some("https://[::1]")),
            ("a.test", None),
            ("u@a.test:443", None),
            ("http://a.test/", None),
            ("/x", None),
        ] {
            let origin = read_connect(&uri.parse().unwrap()).ok();
            assert_eq!(origin.as_ref().map(Origin::as_str), expected, "{uri}");
        }
    }
}
