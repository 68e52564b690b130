//! The URL of a request, as it came.

use http::{Method, Uri};

use crawlgate_robots::Origin;

/// The URL as it came.
pub(super) enum Url {
    /// In the request line.
    Whole(Uri),
    /// Split between CONNECT and the request line.
    Inside(Origin, Uri),
    /// A request line that cannot be read.
    Excerpt(Box<[u8]>),
}

impl Url {
    /// Reads method and target of a request that could not be read as a whole, from its first octets. Octets that do not
    /// begin like a request line may be anything, a field with a password or the rest of a body, so none of them are
    /// kept, and there is no method.
    pub(super) fn of_excerpt(excerpt: &[u8]) -> (Option<Method>, Url) {
        let line_end = memchr::memchr2(b'\r', b'\n', excerpt).unwrap_or(excerpt.len());
        let line = excerpt.get(..line_end).unwrap_or(excerpt);
        let mut words = line.split(|byte| *byte == b' ');
        let method = words.next().and_then(|word| Method::from_bytes(word).ok());
        let target = words.next().unwrap_or_default();
        let is_target = target.starts_with(b"/")
            || memchr::memmem::find(target, b"://").is_some()
            || method == Some(Method::CONNECT);
        let target = match method {
            Some(_) if is_target => target,
            _ => b"",
        };
        (method, Url::Excerpt(target.into()))
    }

    /// Returns the URL with another origin. `found` may lack a scheme.
    pub(super) fn at(&self, found: &str, own: Option<&Origin>) -> Url {
        let path = match self {
            Url::Whole(uri) | Url::Inside(_, uri) => uri.path_and_query(),
            Url::Excerpt(_) => None,
        };
        let path = path.map_or("", |path| path.as_str());
        let url = match found.contains("://") {
            true => format!("{found}{path}"),
            false => {
                let scheme = own.map_or("http", |origin| origin.scheme().as_str());
                format!("{scheme}://{found}{path}")
            }
        };
        Url::Excerpt(url.into_bytes().into())
    }

    /// Returns only the path.
    pub(super) fn path(&self) -> &str {
        match self {
            Url::Whole(uri) | Url::Inside(_, uri) => uri.path(),
            Url::Excerpt(_) => "",
        }
    }

    /// Appends the text that the record keeps to `text`.
    pub(super) fn write(&self, text: &mut Vec<u8>) {
        match self {
            Url::Whole(uri) => {
                if let Some(scheme) = uri.scheme_str() {
                    text.extend_from_slice(scheme.as_bytes());
                    text.extend_from_slice(b"://");
                }
                let authority = uri.authority().map_or("", |authority| authority.as_str());
                text.extend_from_slice(authority.as_bytes());
                let path = uri.path_and_query().map_or("", |path| path.as_str());
                text.extend_from_slice(path.as_bytes());
            }
            Url::Inside(origin, uri) => {
                let path = uri.path_and_query().map_or("", |path| path.as_str());
                text.extend_from_slice(origin.as_str().as_bytes());
                text.extend_from_slice(path.as_bytes());
            }
            Url::Excerpt(bytes) => text.extend_from_slice(bytes),
        }
    }
}
