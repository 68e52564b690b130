//! `[store]`, `[audit]` and `[[audit.witness]]`: the database, and what it keeps of decisions.
//!
//! `[ship]`: another place that has the decision log, too.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;
use url::{Host, Url};

use super::*;
use crawlgate_origins::identity::client_name;
use crawlgate_tlog::{KeyError, KeyKind, KeyName, VerifierKey};

section! {
    /// `[store]`
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct StoreConfig "store" {
        /// The database; `None`: states and decisions end with the process.
        path: Option<PathBuf> = None, or_false(unless("", path())), AtRestart;
        /// The writes that a power cut may lose.
        synchronous: Synchronous = Synchronous::Full, word(), AtRestart;
    }
}

words! {
    /// The durability of the store's writes. A kill of the process loses nothing either way.
    pub enum Synchronous {
        /// A power cut may lose the writes since the last checkpoint of the log, but leaves the store whole. Denials under
        /// strict durability, overrides and acknowledgements wait for the disk all the same.
        Normal = "normal",
        /// A power cut loses no write: each waits for the disk.
        Full = "full",
    }
}

section! {
    /// `[audit]`
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct AuditConfig "audit" {
        /// The time by which a denial must be in the store.
        durability: Durability = Durability::Relaxed, word(), AtReload;
        /// Age until which decisions are kept; `None`: for ever.
        keep: Option<Duration> = Some(days(90)), forever(duration(hours(1)..=days(36_500))), AtReload;
        /// Octets of the store on disk; above that, retention deletes the oldest decisions of the client with the most.
        /// `None`: unlimited.
        max_size: Option<u64> = Some(10 * GIB), unlimited(bytes(MIB as u64..=1 << 50)), AtReload;
        /// Refusals of one client, for one reason, that are recorded one by one in a minute; further ones are counted. `None`:
        /// every denial is recorded.
        refusals_per_minute: Option<u32> = None, unlimited(integer(1..=10_000_000)), AtReload;
        /// Interval of checkpoints of the decision log.
        checkpoint_every: Duration = secs(600), duration(secs(1)..=days(365)), AtReload;
        /// The name of the decision log; `None`: one made of its key.
        log_name: Option<KeyName> = None, unless("", log_name()), AtRestart;
        /// Witnesses that must have cosigned a checkpoint for it to count as witnessed.
        quorum: usize = 1, integer(1..=100), AtRestart;
        /// The directory of the logs of other machines that `crawlgate collect` has filed; `None`: none.
        collection: Option<PathBuf> = None, unless("", path()), AtReload;
        /// `[[audit.witness]]`: the witnesses of the decision log, in the order of the file.
        witnesses as "witness": Vec<WitnessConfig> = Vec::new(), WITNESSES, AtRestart;
    }
}

words! {
    /// The time by which a denial must be in the store.
    pub enum Durability {
        /// Within 100 ms.
        Relaxed = "relaxed",
        /// Before its answer leaves, and on the disk.
        Strict = "strict",
    }
}

impl AuditConfig {
    /// Returns the keys of the witnesses.
    #[must_use]
    pub fn witness_keys(&self) -> Vec<VerifierKey> {
        self.witnesses.iter().map(|one| one.vkey.clone()).collect()
    }

    /// Checks the rule between its keys.
    pub(crate) fn check(&self, section: &mut Section<'_, '_>) {
        let count = section.count("witness");
        let why = match count {
            0 => "there is no [[audit.witness]]".to_owned(),
            1 => "there is only one [[audit.witness]]".to_owned(),
            count => format!("there are only {count} [[audit.witness]]"),
        };
        // The default stands without a witness, too: nothing is witnessed then.
        section.require(self.quorum <= count.max(1), &["quorum"], why);
    }
}

/// The name of a log (c2sp.org/signed-note).
fn log_name() -> Form<KeyName> {
    let read = |value: &Value<'_>| value.get_ref().as_str()?.parse().ok();
    let why = "a name without spaces and plus signs, such as \"logs.example.org/fra-1\"";
    checked(read, why, quoted)
}

/// `[[audit.witness]]`: a witness that cosigns the checkpoints of the decision log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WitnessConfig {
    /// Its name in messages, metrics and the console.
    pub name: String,
    /// Its submission prefix, without a slash at the end.
    pub url: String,
    /// Its key.
    pub vkey: VerifierKey,
    /// The file with the only CAs that its certificate may be of; `None`: those of the system, and `[tls] extra_roots`.
    pub ca: Option<PathBuf>,
}

const WITNESSES: Tables<WitnessConfig> =
    Tables { name: "[audit.witness]", read: witness, write: WitnessKeys::write };

table! {
    struct WitnessKeys of witness: WitnessConfig {
        name: String, text(|name| client_name(name).map(|name| name.to_string())), Some(witness.name.clone());
        url: String, service(prefix), Some(witness.url.clone());
        vkey: VerifierKey, text(vkey), Some(witness.vkey.clone());
        ca: Option<PathBuf>, unless("", path()), witness.ca.clone().map(Some);
    }
}

fn witness(
    table: &mut Section<'_, '_>,
    cx: &Context,
    earlier: &[WitnessConfig],
) -> Option<WitnessConfig> {
    let WitnessKeys { name, url, vkey, ca } = WitnessKeys::read(table, cx);
    let is_other = is_new(earlier, |one| &one.name, &name);
    table.require(is_other, &["name"], "an earlier witness has this name");
    let is_new = is_new(earlier, |one| &one.vkey, &vkey);
    table.require(is_new, &["vkey"], "an earlier witness has this key");
    let ca = ca.flatten();
    let is_tls = url.as_ref().is_none_or(|url| url.starts_with("https:"));
    let why = "it goes with a url that begins with https://";
    table.require(ca.is_none() || is_tls, &["ca"], why);
    table.demand(&["name", "url", "vkey"]);
    Some(WitnessConfig { name: name?, url: url?, vkey: vkey?, ca })
}

const EXPECTED: &str = "expected the vkey that the operator of the witness publishes: name+id+key";

/// The reason why a text is not the vkey of a witness.
#[derive(Debug, PartialEq, Eq, Error)]
enum VkeyError {
    #[error("{0}; {EXPECTED}")]
    Malformed(#[from] KeyError),
    #[error("this is the key of a log, which does not cosign; {EXPECTED}")]
    OfLog,
}

/// Reads the URL of a witness, without the name of a call, which crawlgate adds.
fn prefix(text: &str) -> Result<String, &'static str> {
    const ALLOWED: &str = "expected the submission prefix of a witness, without credentials, query and \"/add-checkpoint\": \
        \"https://witness.example\", \"http://127.0.0.1:8080/w1\"";
    let url = plain_url(text).ok_or(ALLOWED)?;
    let prefix = url.as_str().trim_end_matches('/');
    if prefix.ends_with("/add-checkpoint") { Err(ALLOWED) } else { Ok(prefix.to_owned()) }
}

/// Reads the vkey of a witness.
fn vkey(text: &str) -> Result<VerifierKey, VkeyError> {
    let key: VerifierKey = text.parse()?;
    match key.kind() {
        KeyKind::CosignatureV1 => Ok(key),
        KeyKind::Ed25519 => Err(VkeyError::OfLog),
    }
}

section! {
    /// `[ship]`
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ShipConfig "ship" {
        /// The place; `None`: the log is in the store alone.
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
    /// A directory of this log alone.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_witness_is_named_by_a_plain_prefix() {
        #[rustfmt::skip] // one row, one case
        let cases: &[(&str, &str, Option<&str>)] = &[
            ("a host", "https://witness.example", Some("https://witness.example")),
            ("a slash at the end", "https://witness.example/", Some("https://witness.example")),
            ("a path", "http://127.0.0.1:8080/w1/", Some("http://127.0.0.1:8080/w1")),
            ("the name of the call", "https://witness.example/add-checkpoint", None),
            ("credentials", "https://user:secret@witness.example", None),
            ("a query", "https://witness.example/?key=secret", None),
            ("a fragment", "https://witness.example/#w1", None),
            ("another scheme", "ftp://witness.example", None),
            ("no scheme", "witness.example", None),
        ];
        for (name, text, want) in cases {
            assert_eq!(prefix(text).ok().as_deref(), *want, "{name}");
        }
    }

    #[test]
    fn a_witness_has_a_key_that_cosigns() {
        let public = [7; 32];
        let of = |kind| VerifierKey::new("witness.example/w1".parse().unwrap(), kind, public);
        let right = of(KeyKind::CosignatureV1).to_string();
        assert_eq!(vkey(&right).map(|key| key.to_string()), Ok(right.clone()));
        for (wrong, why) in [
            (of(KeyKind::Ed25519).to_string(), "the key of a log"),
            (right.replace("+", "-"), "name+id+key"),
            (right.replace("w1", "w2"), "name+id+key"),
        ] {
            let said = vkey(&wrong).unwrap_err().to_string();
            assert!(said.contains(why), "{said}");
        }
    }
}
