//! `[fleet]`: the instances that act as one gate.

use std::path::Path;

use super::super::fleet::EngineAddress;
use super::super::{
    Config, FleetConfig,
    read::Section,
    secs,
    values::{boolean, duration, one_or_list, path, service, text, unless},
};
use super::ONE_MS;
use std::time::Duration;

/// The longest name of an instance, a primary, a user or a prefix.
const NAME: usize = 128;

pub(super) fn fleet(mut section: Section<'_, '_>, base: &Path, config: &mut Config) {
    let is_per_address = config.pace.per_address;
    let has_store = config.store.path.is_some();
    let to: &mut FleetConfig = &mut config.fleet;
    let mut address: Option<EngineAddress> = None;
    section.set("engine", &mut address, unless("", service(str::parse)));
    let has_tls = address.as_ref().is_some_and(|address| address.tls);
    to.tls |= has_tls;
    let user = address.as_ref().and_then(|address| address.user.clone());
    to.engine = address.map(|address| address.endpoint);
    section.set(
        "sentinels",
        &mut to.sentinels,
        one_or_list(service(str::parse)),
    );
    section.set("master", &mut to.master, unless("", text(word)));
    section.set("tls", &mut to.tls, boolean);
    section.set("cert", &mut to.cert, unless("", path(base)));
    section.set("key", &mut to.key, unless("", path(base)));
    section.set("user", &mut to.user, unless("", text(word)));
    section.set(
        "password_file",
        &mut to.password_file,
        unless("", path(base)),
    );
    section.set("key_file", &mut to.key_file, unless("", path(base)));
    section.set("name", &mut to.name, unless("", text(word)));
    section.set("prefix", &mut to.prefix, text(prefix));
    let patience = secs(2)..=secs(3_600);
    section.set("patience", &mut to.patience, duration(patience));
    let timeout = ONE_MS * 10..=Duration::from_secs(1);
    section.set("timeout", &mut to.timeout, duration(timeout));
    section.require(to.tls || !has_tls, &["tls"], || {
        "the URL of the engine asks for TLS: leave tls = false out, or begin the URL with redis:// or valkey://".to_owned()
    });
    section.require(
        user.is_none() || to.user.is_none() || user == to.user,
        &["user"],
        || "the URL of the engine names another user: leave one of them out".to_owned(),
    );
    section.require(
        user.as_deref().is_none_or(|user| word(user).is_ok()),
        &["engine"],
        || "the user in the URL has characters that no user has here".to_owned(),
    );
    to.user = to.user.take().or(user);
    let (one, several) = (to.engine.is_some(), !to.sentinels.is_empty());
    section.require(!(one && several), &["sentinels", "engine"], || {
        "the sentinels name the engine: set engine = \"\"".to_owned()
    });
    section.require(to.master.is_some() || !several, &["sentinels"], || {
        "master is missing, the name under which the sentinels know the engine's primary".to_owned()
    });
    section.require(
        to.cert.is_some() == to.key.is_some(),
        &["cert", "key"],
        || "a certificate and its private key belong together: set cert and key".to_owned(),
    );
    section.require(to.tls || to.cert.is_none(), &["cert"], || {
        "a certificate is shown by TLS alone: set tls = true".to_owned()
    });
    section.require(to.key_file.is_some() || !to.is_on(), &["engine", "sentinels"], || {
        "key_file is missing, the key that all instances share; `crawlgate fleet key FILE` makes one"
            .to_owned()
    });
    section.require(!(to.is_on() && is_per_address), &["engine", "sentinels"], || {
        "[pace] per_address = true holds on one machine alone, as each resolves names for itself; set it to false"
            .to_owned()
    });
    section.require(has_store || !to.is_on(), &["engine", "sentinels"], || {
        "each instance keeps the states that it takes from others, but [store] path is \"\"; name a file there"
            .to_owned()
    });
    section.finish();
}

/// Reads a name that stands in messages and, with others, in names in the engine.
fn word(text: &str) -> Result<String, &'static str> {
    let is_plain = |octet: u8| octet.is_ascii_graphic() && !b"{}\"\\".contains(&octet);
    match !text.is_empty() && text.len() <= NAME && text.bytes().all(is_plain) {
        true => Ok(text.to_owned()),
        false => Err(
            "expected at most 128 visible characters of ASCII, without braces, quotes and backslashes",
        ),
    }
}

fn prefix(text: &str) -> Result<String, &'static str> {
    let is_plain = |octet: u8| octet.is_ascii_alphanumeric() || b"-_.".contains(&octet);
    match !text.is_empty() && text.len() <= NAME && text.bytes().all(is_plain) {
        true => Ok(text.to_owned()),
        false => Err("expected 1 to 128 letters, digits, \"-\", \"_\" and \".\": \"crawlgate\""),
    }
}
