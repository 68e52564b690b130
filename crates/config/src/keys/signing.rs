//! `[[signing]]`: the identities that requests are signed with.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::super::{
    hours,
    read::{Read, Refusal, Section, Value},
    secs,
    values::{boolean, choice, duration, list, path, text},
};
use super::{FORMS, SIGNED_PARTS};
use crawlgate_origins::identity::client_name;
use crawlgate_signing::settings::EXPECTED;
use crawlgate_signing::{AgentUrl, Cover, Form, Settings};

/// The life of a signature unless the file says otherwise.
const LIFETIME: Duration = secs(60);

/// Reads one `[[signing]]`, after those in `before`.
pub(super) fn signing(
    mut section: Section<'_, '_>,
    base: &Path,
    before: &[Settings],
) -> Option<Settings> {
    let (mut name, mut agent, mut key) = (None, None, None);
    section.set("name", &mut name, |value| {
        text(client_name)(value).map(Some)
    });
    section.set("agent", &mut agent, |value| {
        let read = text(AgentUrl::parse)(value).map(Some);
        match value.get_ref().as_str() {
            // It may hold a password, which is one of the faults.
            Some(url) if url.contains('@') => read.map_err(|_| Refusal::secret(value, EXPECTED)),
            _ => read,
        }
    });
    section.set("key", &mut key, |value| key_file(base)(value).map(Some));
    let mut publish = Vec::new();
    section.set("publish", &mut publish, list(key_file(base)));
    let mut lifetime = LIFETIME;
    // The draft recommends no more than a day.
    section.set("lifetime", &mut lifetime, duration(secs(1)..=hours(24)));
    let (mut cover, mut form) = (Cover::default(), Form::default());
    section.set("cover", &mut cover, choice(&SIGNED_PARTS));
    section.set("form", &mut form, choice(&FORMS));
    let mut plain_http = false;
    section.set("plain_http", &mut plain_http, boolean);
    for key in ["name", "agent", "key"] {
        section.demand(key);
    }
    let is_taken = name.is_some() && before.iter().any(|one| Some(&one.name) == name.as_ref());
    section.require(!is_taken, &["name"], || {
        "another [[signing]] has this name".to_owned()
    });
    let holder = before.iter().find(|one| Some(&one.key) == key.as_ref());
    section.require(holder.is_none(), &["key"], || {
        let other = holder.map_or("", |one| &*one.name);
        format!(
            "{other:?} has this key; each identity needs its own: `crawlgate signing new` makes one"
        )
    });
    section.finish();
    Some(Settings {
        name: name?,
        agent: agent?,
        key: key?,
        publish,
        lifetime,
        cover,
        form,
        plain_http,
    })
}

/// Reads the path of a file with a key. A key in its place is not repeated.
fn key_file(base: &Path) -> impl Fn(&Value<'_>) -> Read<PathBuf> {
    let read = path(base);
    move |value| match value.get_ref().as_str() {
        Some(text) if text.contains(['\n', '\r']) || text.contains("-----BEGIN") => {
            let why = "expected the path of a file with the key, not the key itself";
            Err(Refusal::secret(value, why))
        }
        _ => read(value),
    }
}

/// Reads the name of an identity; `known` are those of the file, `None` where some have a fault.
pub(super) fn identity(known: Option<&[Settings]>) -> impl Fn(&Value<'_>) -> Read<Arc<str>> {
    text(move |text| {
        let is_known = |known: &[Settings]| known.iter().any(|one| *one.name == *text);
        match known {
            Some(known) if !is_known(known) => Err("no [[signing]] has this name"),
            Some(_) | None => Ok(Arc::from(text)),
        }
    })
}
