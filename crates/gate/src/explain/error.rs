//! Questions that cannot be answered.

use std::str::Utf8Error;

use http::uri::InvalidUri;
use thiserror::Error;

use crawlgate_robots::OriginError;
use crawlgate_usage::Purpose;

/// A name of a crawler that is neither a product token nor a User-Agent.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("agent {0:?}: neither a product token nor a User-Agent")]
pub struct AgentError(pub(super) String);

/// The value of a Sitemap line that names no URL that can be requested.
#[derive(Debug, Error)]
pub enum SitemapError {
    /// It is empty.
    #[error("empty: a sitemap has an absolute URL")]
    Empty,
    /// It is no text.
    #[error("not UTF-8")]
    Encoding(#[from] Utf8Error),
    /// It cannot be judged.
    #[error(transparent)]
    Url(#[from] UrlError),
}

/// A word that names no purpose.
#[derive(Debug, Error)]
#[error("`{}` is no purpose: write {}", .0, purposes())]
pub struct PurposeError(pub(super) String);

/// A URL that cannot be judged, with the way to write it.
#[derive(Debug, Error)]
pub enum UrlError {
    /// The path of an `ftp` URL has more than one meaning, or none; or the URL has a user.
    #[error("{0}")]
    Ftp(&'static str),
    /// The URL has characters that no request line may have.
    #[error("no request can carry this spelling: write {0}")]
    Spelling(String),
    /// The path is invalid, however it is written.
    #[error(transparent)]
    Path(InvalidUri),
    /// A path without scheme and host.
    #[error("a path, not a URL: write it with scheme and host, as https://example.com{0}")]
    OnlyPath(String),
    /// A host and a path without a scheme.
    #[error("not a URL: write it with its scheme, as {0}")]
    NoScheme(String),
    /// Other than two slashes behind the scheme.
    #[error("not a URL: write two slashes behind its scheme, as {0}")]
    Slashes(String),
    /// The origin is invalid.
    #[error(transparent)]
    Origin(OriginError),
}

fn purposes() -> String {
    Purpose::ALL.map(Purpose::as_str).join(", ")
}
