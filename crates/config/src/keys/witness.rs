//! `[[audit.witness]]`: witnesses of the decision log.

use std::path::Path;

use thiserror::Error;

use super::super::{
    WitnessConfig,
    read::{Refusal, Section},
    values::{path, plain_url, service, text, unless},
};
use crawlgate_origins::identity::client_name;
use crawlgate_tlog::{KeyError, KeyKind, VerifierKey};

const EXPECTED: &str = "expected the vkey that the operator of the witness publishes: name+id+key";

/// The reason why a text is not the vkey of a witness.
#[derive(Debug, PartialEq, Eq, Error)]
enum VkeyError {
    #[error("{0}; {EXPECTED}")]
    Malformed(#[from] KeyError),
    #[error("this is the key of a log, which does not cosign; {EXPECTED}")]
    OfLog,
}

/// Reads one `[[audit.witness]]`, after those of `earlier`.
pub(super) fn witness(
    mut section: Section<'_, '_>,
    base: &Path,
    earlier: &[WitnessConfig],
) -> Option<WitnessConfig> {
    let (mut name, mut url, mut key, mut ca) = (None::<String>, None::<String>, None, None);
    section.set("name", &mut name, |value| {
        let named = text(client_name)(value)?;
        match earlier.iter().any(|one| one.name == *named) {
            true => Err(Refusal::new(value, "an earlier witness has this name")),
            false => Ok(Some(named.to_string())),
        }
    });
    section.set("url", &mut url, |value| service(prefix)(value).map(Some));
    section.set("vkey", &mut key, |value| {
        let key = text(vkey)(value)?;
        match earlier.iter().any(|one| one.vkey == key) {
            true => Err(Refusal::new(value, "an earlier witness has this key")),
            false => Ok(Some(key)),
        }
    });
    section.set("ca", &mut ca, unless("", path(base)));
    let is_tls = url.as_ref().is_none_or(|url| url.starts_with("https:"));
    section.require(ca.is_none() || is_tls, &["ca"], || {
        "it goes with a url that begins with https://".to_owned()
    });
    for key in ["name", "url", "vkey"] {
        section.demand(key);
    }
    section.finish();
    Some(WitnessConfig {
        name: name?,
        url: url?,
        vkey: key?,
        ca,
    })
}

/// Reads the URL of a witness, without the name of a call, which crawlgate adds.
fn prefix(text: &str) -> Result<String, &'static str> {
    const ALLOWED: &str = "expected the submission prefix of a witness, without credentials, query and \"/add-checkpoint\": \
        \"https://witness.example\", \"http://127.0.0.1:8080/w1\"";
    let url = plain_url(text).ok_or(ALLOWED)?;
    let prefix = url.as_str().trim_end_matches('/');
    match prefix.ends_with("/add-checkpoint") {
        true => Err(ALLOWED),
        false => Ok(prefix.to_owned()),
    }
}

/// Reads the vkey of a witness.
fn vkey(text: &str) -> Result<VerifierKey, VkeyError> {
    let key: VerifierKey = text.parse()?;
    match key.kind() {
        KeyKind::CosignatureV1 => Ok(key),
        KeyKind::Ed25519 => Err(VkeyError::OfLog),
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
