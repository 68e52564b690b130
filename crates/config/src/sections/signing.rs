//! `[[signing]]`: the identities that requests are signed with.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crawlgate_origins::identity::client_name;
use crawlgate_signing::{AgentUrl, Cover, Form as AgentForm, Settings};

use super::*;

/// The life of a signature unless the file says otherwise.
const LIFETIME: Duration = secs(60);

pub(crate) const IDENTITIES: Tables<Settings> =
    Tables { name: "[signing]", read: signing, write: Keys::write };

table! {
    struct Keys of identity: Settings {
        name: Arc<str>, text(client_name), Some(identity.name.clone());
        agent: AgentUrl, service(AgentUrl::parse), Some(identity.agent.clone());
        key: PathBuf, key_file(), Some(identity.key.clone());
        publish: Vec<PathBuf>, list(key_file()), Some(identity.publish.clone());
        // The draft recommends no more than a day.
        lifetime: Duration, duration(secs(1)..=hours(24)), Some(identity.lifetime);
        cover: Cover, word(), Some(identity.cover);
        form: AgentForm, word(), Some(identity.form);
        plain_http: bool, boolean(), Some(identity.plain_http);
    }
}

words! { for Cover { Request = "request", Authority = "authority", } }
words! { for AgentForm { Dictionary = "dictionary", String = "string", } }

fn signing(table: &mut Section<'_, '_>, cx: &Context, before: &[Settings]) -> Option<Settings> {
    let keys = Keys::read(table, cx);
    table.demand(&["name", "agent", "key"]);
    let is_new = is_new(before, |one| &one.name, &keys.name);
    table.require(is_new, &["name"], "another [[signing]] has this name");
    let holder = before.iter().find(|one| Some(&one.key) == keys.key.as_ref());
    let other = holder.map_or("", |one| &*one.name);
    let why = format_args!(
        "{other:?} has this key; each identity needs its own: `crawlgate signing new` makes one"
    );
    table.require(holder.is_none(), &["key"], why);
    Some(Settings {
        name: keys.name?,
        agent: keys.agent?,
        key: keys.key?,
        publish: keys.publish.unwrap_or_default(),
        lifetime: keys.lifetime.unwrap_or(LIFETIME),
        cover: keys.cover.unwrap_or_default(),
        form: keys.form.unwrap_or_default(),
        plain_http: keys.plain_http.unwrap_or_default(),
    })
}

/// The path of a file with a key. A key in its place is not repeated.
fn key_file() -> Form<PathBuf> {
    let (read, write) = (path(), path());
    Form::new(
        move |value, cx| match value.get_ref().as_str() {
            Some(text) if text.contains(['\n', '\r']) || text.contains("-----BEGIN") => {
                let why = "expected the path of a file with the key, not the key itself";
                Err(Refusal::secret(value, why))
            }
            _ => read.parse(value, cx),
        },
        move |path| write.write(path),
    )
}

/// The name of an identity.
pub(super) fn identity() -> Form<Arc<str>> {
    text_within(|text, cx| known(text, cx.identities.as_deref(), "no [[signing]] has this name"))
}

/// Reads a name that must be `among` others, unless some of those are unknown.
pub(super) fn known(
    text: &str,
    among: Option<&[Arc<str>]>,
    unknown: &'static str,
) -> Result<Arc<str>, &'static str> {
    match among {
        Some(names) if !names.iter().any(|name| **name == *text) => Err(unknown),
        Some(_) | None => Ok(Arc::from(text)),
    }
}
