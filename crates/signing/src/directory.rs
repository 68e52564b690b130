//! The directory of keys: what verifiers fetch from the URL of an identity.
//!
//! Each key in it signs the response, and so proves that its holder means to be found at this authority. A proof is only
//! ever made for the authority of an identity's own URL: with others, a stranger could have any name signed.

use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::base::{Base, Component, Parameter};
use super::identity::{Identity, signed};
use super::key::SigningKey;
use crawlgate_robots::Origin;
use crawlgate_system::clock::Moment;

/// The media type of a directory.
pub const MEDIA_TYPE: &str = "application/http-message-signatures-directory+json";

/// Time for which others may keep a directory. Each step of a rotation waits so long.
pub const FRESH: Duration = Duration::from_secs(86_400);

/// Time for which a proof counts: a static host serves it until it is written again.
pub(super) const PROOF: Duration = Duration::from_secs(30 * 86_400);

/// The application of the proofs.
const TAG: &str = "http-message-signatures-directory";

/// A directory with its proofs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directory {
    /// The content, in one line.
    pub body: String,
    /// The value of Content-Digest.
    pub digest: String,
    /// The value of Signature-Input.
    pub input: String,
    /// The value of Signature.
    pub signature: String,
}

impl Directory {
    /// Returns the directory at this origin; `None` without identities there. If some of them have the well-known URL, which
    /// is where the directory is served, it lists only those.
    #[must_use]
    pub fn at<'a>(
        identities: impl Iterator<Item = &'a Identity> + Clone,
        origin: &Origin,
        now: Moment,
    ) -> Option<Directory> {
        let there = || {
            let all = identities.clone();
            all.filter(|one| one.settings().agent.origin() == origin)
        };
        let keys = if there().any(Identity::is_at_well_known) {
            distinct_keys(there().filter(|one| one.is_at_well_known()))
        } else {
            distinct_keys(there())
        };
        (!keys.is_empty()).then(|| Directory::new(&keys, origin, now))
    }

    /// Returns the directory of these identities, which have one URL; `None` without any.
    #[must_use]
    pub fn of<'a>(
        identities: impl Iterator<Item = &'a Identity> + Clone,
        now: Moment,
    ) -> Option<Directory> {
        let origin = identities.clone().next()?.settings().agent.origin();
        Some(Directory::new(&distinct_keys(identities), origin, now))
    }

    fn new(keys: &[&SigningKey], origin: &Origin, now: Moment) -> Directory {
        let (body, digest) = content(keys);
        let authority = origin.authority();
        let created = now.as_millis() / 1_000;
        let proofs = keys.iter().enumerate().map(|(place, key)| {
            let label = format!("binding{place}");
            proof(&label, key, (&authority, &digest), created, created + PROOF.as_secs())
        });
        let (inputs, signatures): (Vec<_>, Vec<_>) = proofs.unzip();
        Directory { body, digest, input: inputs.join(", "), signature: signatures.join(", ") }
    }

    /// Returns the fields of the response that depend on the directory, in the order in which they are sent.
    #[must_use]
    pub fn fields(&self) -> [(&'static str, &str); 5] {
        [
            ("content-type", MEDIA_TYPE),
            ("cache-control", "max-age=86400"),
            ("content-digest", &self.digest),
            ("signature-input", &self.input),
            ("signature", &self.signature),
        ]
    }
}

/// Returns the origin that an authority names, in any case; `None` for anything but host and port.
pub(super) fn origin_of(authority: &str) -> Option<Origin> {
    if authority.contains(['/', '?', '#', '@', ';', '\\']) {
        return None;
    }
    Some(Origin::parse(&format!("https://{authority}")).ok()?.0)
}

fn distinct_keys<'a>(identities: impl Iterator<Item = &'a Identity>) -> Vec<&'a SigningKey> {
    let mut keys: Vec<&SigningKey> = Vec::new();
    for key in identities.flat_map(Identity::keys) {
        if !keys.iter().any(|one| one.thumbprint() == key.thumbprint()) {
            keys.push(key);
        }
    }
    keys
}

/// Returns the content of a directory of these keys, and its Content-Digest.
pub(super) fn content(keys: &[&SigningKey]) -> (String, String) {
    let keys = keys.iter().map(|key| {
        format!(
            r#"{{"kty":"OKP","crv":"Ed25519","kid":"{}","x":"{}","use":"sig"}}"#,
            key.thumbprint(),
            key.public()
        )
    });
    let body = format!(r#"{{"keys":[{}]}}"#, keys.collect::<Vec<_>>().join(","));
    let sha256 = STANDARD.encode(digest(&SHA256, body.as_bytes()));
    (body, format!("sha-256=:{sha256}:"))
}

/// Returns the proof of one key, as members of Signature-Input and Signature.
pub(super) fn proof(
    label: &str,
    key: &SigningKey,
    (authority, digest): (&str, &str),
    created: u64,
    expires: u64,
) -> (String, String) {
    let components = [Component::RequestAuthority(authority), Component::ContentDigest(digest)];
    let parameters = [
        Parameter::Created(created),
        Parameter::Expires(expires),
        Parameter::KeyId(key.thumbprint()),
        Parameter::Tag(TAG),
    ];
    signed(label, &Base::new(&components, &parameters), key)
}
