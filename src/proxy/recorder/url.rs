//! The URL of a request, as it came.

use http::Uri;

use crate::rep::Origin;

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
    /// Returns the path alone.
    pub(super) fn path(&self) -> &str {
        match self {
            Url::Whole(uri) | Url::Inside(_, uri) => uri.path(),
            Url::Excerpt(_) => "",
        }
    }

    /// Returns the text that the record keeps.
    pub(super) fn text(&self) -> Vec<u8> {
        match self {
            Url::Whole(uri) => {
                let mut text = Vec::with_capacity(128);
                if let Some(scheme) = uri.scheme_str() {
                    text.extend_from_slice(scheme.as_bytes());
                    text.extend_from_slice(b"://");
                }
                let authority = uri.authority().map_or("", |authority| authority.as_str());
                text.extend_from_slice(authority.as_bytes());
                let path = uri.path_and_query().map_or("", |path| path.as_str());
                text.extend_from_slice(path.as_bytes());
                text
            }
            Url::Inside(origin, uri) => {
                let path = uri.path_and_query().map_or("", |path| path.as_str());
                [origin.as_str().as_bytes(), path.as_bytes()].concat()
            }
            Url::Excerpt(bytes) => bytes.to_vec(),
        }
    }
}
