//! The signature of one request.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::HeaderName;
use http::{HeaderMap, HeaderValue};
use thiserror::Error;

use super::base::{Base, Component, Parameter};
use super::key::{KeyFault, SigningKey};
use super::settings::{Cover, Form, Settings};
use crawlgate_system::atomic_file::PrivateFileError;
use crawlgate_system::clock::Moment;

/// The field that names the directory of keys.
pub const SIGNATURE_AGENT: HeaderName = HeaderName::from_static("signature-agent");

/// The field with the components and parameters of signatures.
pub const SIGNATURE_INPUT: HeaderName = HeaderName::from_static("signature-input");

/// The field with the signatures.
pub const SIGNATURE: HeaderName = HeaderName::from_static("signature");

/// The key of our members in the three fields.
const LABEL: &str = "crawlgate";

/// The only algorithm.
const ED25519: &str = "ed25519";

/// The application of these signatures.
const TAG: &str = "web-bot-auth";

/// An identity with its keys: it signs requests.
#[derive(Debug)]
pub struct Identity {
    settings: Settings,
    keys: Arc<Keys>,
    /// The URL in Signature-Agent: the whole one, or its origin.
    url: Box<str>,
    /// The value of Signature-Agent.
    agent: HeaderValue,
}

/// The keys of an identity.
#[derive(Debug)]
pub(super) struct Keys {
    /// The key that signs.
    pub(super) key: SigningKey,
    /// More keys that the directory lists.
    pub(super) published: Vec<SigningKey>,
}

impl Keys {
    /// Loads the keys of an identity.
    ///
    /// # Errors
    /// The configuration key and the path of a file that gives no key, and the reason.
    pub(super) fn load(settings: &Settings) -> Result<Keys, (&'static str, PathBuf, KeyFault)> {
        let key = SigningKey::load(&settings.key)
            .map_err(|fault| ("key", settings.key.clone(), fault))?;
        let mut published = Vec::new();
        for path in &settings.publish {
            match SigningKey::load(path) {
                Ok(key) => published.push(key),
                // The steps of a rotation make these files and remove them.
                Err(KeyFault::File(PrivateFileError::Missing)) => {}
                Err(fault) => return Err(("publish", path.clone(), fault)),
            }
        }
        Ok(Keys { key, published })
    }
}

/// The values of a request that a signature covers.
#[derive(Debug, Clone, Copy)]
pub struct Signable<'a> {
    /// The method as it is sent.
    pub method: &'a str,
    /// The authority of the target, in canonical form.
    pub authority: &'a str,
    /// Path and query as they are sent.
    pub path_and_query: &'a str,
}

/// The three fields of a signed request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fields {
    /// Signature-Agent.
    pub agent: HeaderValue,
    /// Signature-Input.
    pub input: HeaderValue,
    /// Signature.
    pub signature: HeaderValue,
    /// The time in the signature, in seconds since 1970.
    pub created: u64,
}

/// The reason that a request cannot be signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a signature covers only ASCII")]
pub struct Unsignable;

/// The result for one request of a client that has an identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It was signed.
    Signed {
        /// The name of the identity.
        identity: Arc<str>,
        /// The thumbprint of the key.
        key: Arc<str>,
        /// The time in the signature, in seconds since 1970.
        created: u64,
    },
    /// It carries a signature of the crawler's own, and was left as it is.
    Left,
    /// It cannot be signed.
    Unsignable,
}

/// Requests by outcome, of one identity. They outlive a reload, and a time without a key.
#[derive(Debug, Default)]
pub struct OutcomeCounters([AtomicU64; 3]);

impl OutcomeCounters {
    /// Names of the outcomes, as metrics show them.
    pub(super) const RESULTS: [&str; 3] = ["signed", "left", "unsignable"];

    /// Counts an outcome.
    pub fn count(&self, outcome: &Outcome) {
        let [signed, left, unsignable] = &self.0;
        let counter = match outcome {
            Outcome::Signed { .. } => signed,
            Outcome::Left => left,
            Outcome::Unsignable => unsignable,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the numbers, in the order of [`Self::RESULTS`].
    pub(super) fn now(&self) -> [u64; 3] {
        self.0.each_ref().map(|one| one.load(Ordering::Relaxed))
    }
}

impl Identity {
    /// Returns the identity with these keys.
    pub(super) fn new(settings: Settings, keys: Arc<Keys>) -> Identity {
        let (url, agent) = match settings.form {
            Form::Dictionary => {
                let url = settings.agent.as_str();
                (url, format!("{LABEL}=\"{url}\""))
            }
            Form::String => {
                let url = settings.agent.origin().as_str();
                (url, format!("\"{url}\""))
            }
        };
        Identity {
            url: url.into(),
            // Settings have only URLs that may stand in a field.
            agent: HeaderValue::try_from(agent).unwrap_or(HeaderValue::from_static("")),
            settings,
            keys,
        }
    }

    /// Returns its settings.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Tells whether verifiers look for its directory at the well-known URL of its origin.
    pub(super) fn is_at_well_known(&self) -> bool {
        self.settings.form == Form::String || self.settings.agent.is_well_known()
    }

    /// Returns the key that signs.
    #[must_use]
    pub fn key(&self) -> &SigningKey {
        &self.keys.key
    }

    /// Returns all keys that its directory lists, the one that signs first.
    pub fn keys(&self) -> impl Iterator<Item = &SigningKey> {
        [&self.keys.key].into_iter().chain(&self.keys.published)
    }

    pub(super) fn shared_keys(&self) -> Arc<Keys> {
        Arc::clone(&self.keys)
    }

    /// Signs a request at this time. `nonce` is random.
    ///
    /// # Errors
    /// When a value to cover is not ASCII.
    pub fn sign(
        &self,
        request: &Signable<'_>,
        now: Moment,
        nonce: [u8; 32],
    ) -> Result<Fields, Unsignable> {
        let Signable { method, authority, path_and_query } = *request;
        let (path, query) = path_and_query.split_once('?').unwrap_or((path_and_query, ""));
        let agent = Component::SignatureAgent {
            key: (self.settings.form == Form::Dictionary).then_some(LABEL),
            url: &self.url,
        };
        let whole = [
            Component::Method(method),
            Component::Authority(authority),
            Component::Path(path),
            Component::Query(query),
            agent,
        ];
        let authority_alone = [Component::Authority(authority), agent];
        let components: &[Component<'_>] = match self.settings.cover {
            // `OPTIONS *` has no path.
            Cover::Request if !path_and_query.is_ascii() || !path.starts_with('/') => {
                return Err(Unsignable);
            }
            Cover::Request => &whole,
            Cover::Authority => &authority_alone,
        };
        let created = now.as_millis() / 1_000;
        let nonce = STANDARD.encode(nonce);
        let parameters = [
            Parameter::Created(created),
            Parameter::Expires(created.saturating_add(self.settings.lifetime.as_secs())),
            Parameter::KeyId(self.key().thumbprint()),
            Parameter::Algorithm(ED25519),
            Parameter::Nonce(&nonce),
            Parameter::Tag(TAG),
        ];
        let (input, signature) = signed(LABEL, &Base::new(components, &parameters), self.key());
        Ok(Fields {
            agent: self.agent.clone(),
            input: HeaderValue::try_from(input).map_err(|_| Unsignable)?,
            signature: HeaderValue::try_from(signature).map_err(|_| Unsignable)?,
            created,
        })
    }
}

/// Signs a base. Returns the members of Signature-Input and Signature under this label.
pub(super) fn signed(label: &str, base: &Base, key: &SigningKey) -> (String, String) {
    let signature = STANDARD.encode(key.sign(base.as_bytes()));
    let input = [label, "=", base.input()].concat();
    (input, [label, "=:", &signature, ":"].concat())
}

impl Fields {
    /// Tells whether a request has any field of a signature.
    #[must_use]
    pub fn are_in(fields: &HeaderMap) -> bool {
        let mut names = [SIGNATURE, SIGNATURE_INPUT, SIGNATURE_AGENT].into_iter();
        names.any(|name| fields.contains_key(name))
    }

    /// Puts the fields into a request, in the place of earlier ones.
    pub fn put_into(self, fields: &mut HeaderMap) {
        fields.insert(SIGNATURE_AGENT, self.agent);
        fields.insert(SIGNATURE_INPUT, self.input);
        fields.insert(SIGNATURE, self.signature);
    }

    /// Removes the fields of a signature from a request.
    pub fn remove_from(fields: &mut HeaderMap) {
        for name in [SIGNATURE, SIGNATURE_INPUT, SIGNATURE_AGENT] {
            fields.remove(name);
        }
    }
}
