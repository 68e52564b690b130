//! `[ship]`: another place that has the decision log, too.

use std::path::Path;
use std::time::Duration;

use url::{Host, Url};

use super::super::{
    Config, ShipConfig, ShipTo,
    read::{Read, Section, Value},
    values::{duration, path, plain_url, service, unless},
};
use super::ONE_MS;

pub(super) fn ship(mut section: Section<'_, '_>, base: &Path, config: &mut Config) {
    let has_store = config.store.path.is_some();
    let to: &mut ShipConfig = &mut config.ship;
    section.set("to", &mut to.to, unless("", place(base)));
    let every = ONE_MS * 10..=Duration::from_secs(3_600);
    section.set("every", &mut to.every, duration(every));
    section.set("token_file", &mut to.token_file, unless("", path(base)));
    section.require(has_store || to.to.is_none(), &["to"], || {
        "the decision log is in the store, but [store] path is \"\"; name a file there".to_owned()
    });
    let is_secret = match (&to.to, &to.token_file) {
        (Some(ShipTo::Url(url)), Some(_)) => is_private(url),
        _ => true,
    };
    section.require(is_secret, &["to"], || {
        "with a token_file, name a URL with https: others read the token on the way".to_owned()
    });
    section.finish();
}

/// Reads a directory, or the URL of a service.
fn place(base: &Path) -> impl Fn(&Value<'_>) -> Read<ShipTo> {
    move |value| match value.get_ref().as_str() {
        Some(text) if text.contains("://") => service(url)(value).map(ShipTo::Url),
        _ => path(base)(value).map(ShipTo::Folder),
    }
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
