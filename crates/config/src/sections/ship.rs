//! `[ship]`: another place that has the decision log, too.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use url::{Host, Url};

use super::*;

section! {
    /// `[ship]`
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ShipConfig "ship" {
        /// The place; `None`: the log is only in the store.
        to: Option<ShipTo> = None, unless("", place()), AtRestart;
        /// The least time between two passes.
        every: Duration = secs(10), duration(ONE_MS * 10..=secs(3_600)), AtRestart;
        /// The file with the token for the service; `None`: none.
        token_file: Option<PathBuf> = None, unless("", path()), AtRestart;
    }
}

/// A place for the files of a log.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ShipTo {
    /// A directory only for this log.
    Folder(PathBuf),
    /// The URL of a service that takes files by PUT, without a slash at its end. The name of the log follows.
    Url(String),
}

impl fmt::Display for ShipTo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(path) => path.display().fmt(f),
            Self::Url(url) => f.write_str(url),
        }
    }
}

impl ShipConfig {
    /// Checks the rules between its keys, and that there is a store to ship.
    pub(crate) fn check(&self, section: &mut Section<'_, '_>, has_store: bool) {
        let why = "the decision log is in the store, but [store] path is \"\"; name a file there";
        section.require(has_store || self.to.is_none(), &["to"], why);
        let is_secret = match (&self.to, &self.token_file) {
            (Some(ShipTo::Url(url)), Some(_)) => is_private(url),
            _ => true,
        };
        let why = "with a token_file, name a URL with https: others read the token on the way";
        section.require(is_secret, &["to"], why);
    }
}

/// A directory, or the URL of a service.
fn place() -> Form<ShipTo> {
    let (url, folder) = (service(url), path());
    Form::new(
        move |value, cx| match value.get_ref().as_str() {
            Some(text) if text.contains("://") => url.parse(value, cx).map(ShipTo::Url),
            _ => folder.parse(value, cx).map(ShipTo::Folder),
        },
        quoted,
    )
}

fn url(text: &str) -> Result<String, &'static str> {
    let url = plain_url(text).ok_or(
        "expected a directory, or a URL without credentials and query: \"/mnt/evidence/fra-1\", \
         \"https://collect.example/ship\"",
    )?;
    Ok(url.as_str().trim_end_matches('/').to_owned())
}

/// Tells whether others cannot read what is sent to this URL.
fn is_private(url: &str) -> bool {
    let Ok(url) = Url::parse(url) else {
        return false;
    };
    url.scheme() == "https"
        || match url.host() {
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => address.is_loopback(),
            Some(Host::Domain(name)) => name == "localhost",
            None => false,
        }
}
