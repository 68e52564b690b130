//! The vectors of `tests/vectors/signatures.json`, octet for octet.

mod directory;
mod keys;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use http::HeaderMap;
use rustls::pki_types::{PrivatePkcs8KeyDer, pem::PemObject as _};
use serde_json::Value;

use super::base::{Base, Component, Parameter};
use super::directory::{content, proof};
use super::identities::IdentityError;
use super::identity::{Keys, signed};
use super::*;
use crawlgate_robots::Origin;
use crawlgate_system::clock::Moment;

const VECTORS: &str = include_str!("../../../tests/vectors/signatures.json");

/// The nonce of our own vectors.
fn nonce() -> [u8; 32] {
    let mut nonce = [0; 32];
    for (octet, value) in nonce.iter_mut().zip(0..) {
        *octet = value;
    }
    nonce
}

fn vectors() -> Value {
    serde_json::from_str(VECTORS).unwrap()
}

fn printed_pair(vectors: &Value) -> Ed25519KeyPair {
    let pem = vectors["private_key_pem"].as_str().unwrap();
    let der = PrivatePkcs8KeyDer::from_pem_slice(pem.as_bytes()).unwrap();
    Ed25519KeyPair::from_pkcs8(der.secret_pkcs8_der()).unwrap()
}

fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value[name].as_str().unwrap_or_else(|| panic!("{name}"))
}

fn settings(name: &str, agent: &str, key: &Path) -> Settings {
    Settings {
        name: name.into(),
        agent: AgentUrl::parse(agent).unwrap(),
        key: key.to_owned(),
        publish: Vec::new(),
        lifetime: Duration::from_secs(60),
        cover: Cover::Request,
        form: Form::Dictionary,
        plain_http: false,
    }
}

fn identity(settings: Settings, pair: Ed25519KeyPair) -> Identity {
    let keys = Keys { key: SigningKey::of(pair), published: Vec::new() };
    Identity::new(settings, Arc::new(keys))
}

#[test]
fn the_thumbprint_is_that_of_the_standard() {
    let vectors = vectors();
    let key = SigningKey::of(printed_pair(&vectors));
    assert_eq!(key.public(), text(&vectors, "public_x"));
    assert_eq!(&**key.thumbprint(), text(&vectors, "keyid"));
}

/// A request of a vector, as crawlgate sends it by default.
fn ours(vectors: &Value, vector: &Value) -> (Base, Fields) {
    let agent = text(vector, "agent");
    let mut settings = settings("news", agent, Path::new("unused"));
    if text(vector, "form") == "string" {
        settings.form = Form::String;
    }
    let request = &vector["request"];
    // As a target is read: the origin in canonical form, path and query as they are sent.
    let (origin, path_and_query) = Origin::parse(text(request, "url")).unwrap();
    let authority = origin.authority();
    let identity = identity(settings, printed_pair(vectors));
    let signable = Signable {
        method: text(request, "method"),
        authority: &authority,
        path_and_query: &path_and_query,
    };
    let now = Moment::from_millis(1_795_219_200_999);
    let fields = identity.sign(&signable, now, nonce()).unwrap();
    let (path, query) = path_and_query.split_once('?').unwrap_or((&path_and_query, ""));
    let nonce = STANDARD.encode(nonce());
    let key = (text(vector, "form") == "dictionary").then_some("crawlgate");
    let base = Base::new(
        &[
            Component::Method(signable.method),
            Component::Authority(&authority),
            Component::Path(path),
            Component::Query(query),
            Component::SignatureAgent { key, url: agent },
        ],
        &[
            Parameter::Created(1_795_219_200),
            Parameter::Expires(1_795_219_260),
            Parameter::KeyId(text(vectors, "keyid")),
            Parameter::Algorithm("ed25519"),
            Parameter::Nonce(&nonce),
            Parameter::Tag("web-bot-auth"),
        ],
    );
    (base, fields)
}

#[test]
fn our_vectors_come_out_octet_for_octet() {
    let vectors = vectors();
    let mut count = 0;
    for vector in vectors["vectors"].as_array().unwrap() {
        if text(vector, "id").starts_with("draft-") {
            continue;
        }
        count += 1;
        let id = text(vector, "id");
        let (base, fields) = ours(&vectors, vector);
        assert_eq!(base.as_bytes(), text(vector, "base").as_bytes(), "{id}");
        assert_eq!(fields.agent, text(vector, "signature_agent"), "{id}");
        assert_eq!(fields.input, text(vector, "signature_input"), "{id}");
        assert_eq!(fields.signature, text(vector, "signature"), "{id}");
    }
    assert_eq!(count, 9);
}

#[test]
fn the_vectors_of_the_draft_come_out_octet_for_octet() {
    let vectors = vectors();
    let key = SigningKey::of(printed_pair(&vectors));
    let (keyid, all) = (text(&vectors, "keyid"), vectors["vectors"].as_array().unwrap());
    let of = |id: &str| all.iter().find(|one| one["id"] == id).unwrap();
    #[rustfmt::skip] // one row, one case
    let rows = [
        ("draft-ed25519", Some("agent2"), 4_889_289_600, "n9p433xm+NJ3ph3upfBIGmsuwHw387YV7Q/F+6BSpGCVjYCqQw6rznNA8PVVLySrAWsv0hQtFioQb6E1YsauiA=="),
        ("draft-ed25519-string", None, 1_735_693_200, "e8N7S2MFd/qrd6T2R3tdfAuuANngKI7LFtKYI/vowzk4lAZYadIX6wW25MwG7DCT9RUKAJ0qVkU0mEeLElW1qg=="),
    ];
    for (id, member, expires, nonce) in rows {
        let vector = of(id);
        let url = text(vector, "agent");
        let agent = Component::SignatureAgent { key: member, url };
        let parameters = [
            Parameter::Created(1_735_689_600),
            Parameter::KeyId(keyid),
            Parameter::Algorithm("ed25519"),
            Parameter::Expires(expires),
            Parameter::Nonce(nonce),
            Parameter::Tag("web-bot-auth"),
        ];
        let base = Base::new(&[Component::Authority("example.com"), agent], &parameters);
        assert_eq!(base.as_bytes(), text(vector, "base").as_bytes(), "{id}");
        let (input, signature) = signed("sig2", &base, &key);
        assert_eq!(input, text(vector, "signature_input"), "{id}");
        assert_eq!(signature, text(vector, "signature"), "{id}");
    }

    let vector = of("draft-directory");
    let (body, digest) = content(&[&key]);
    assert_eq!(body, text(vector, "body"));
    assert_eq!(digest, text(vector, "content_digest"));
    let at = ("signature-agent.test", digest.as_str());
    let (input, signature) = proof("binding", &key, at, 1_735_689_600, 4_889_289_600);
    assert_eq!(input, text(vector, "signature_input"));
    assert_eq!(signature, text(vector, "signature"));
}

#[test]
fn what_is_not_ascii_is_signed_only_where_it_is_not_covered() {
    let pair = || Ed25519KeyPair::from_seed_unchecked(&[7; 32]).unwrap();
    let agent = "https://bot.example/keys";
    let whole = identity(settings("news", agent, Path::new("k")), pair());
    let authority = identity(
        Settings { cover: Cover::Authority, ..settings("news", agent, Path::new("k")) },
        pair(),
    );
    for (path, is_signable) in [("/é", false), ("/a?é", false), ("*", false), ("/%C3%A9", true)] {
        let request = Signable { method: "GET", authority: "site.example", path_and_query: path };
        let now = Moment::from_millis(0);
        assert_eq!(whole.sign(&request, now, nonce()).is_ok(), is_signable, "{path}");
        let fields = authority.sign(&request, now, nonce()).unwrap();
        let input = fields.input.to_str().unwrap();
        let start =
            r#"crawlgate=("@authority" "signature-agent";key="crawlgate");created=0;expires=60;"#;
        assert!(input.starts_with(start), "{input}");
    }
}

#[test]
fn the_fields_of_a_signature_are_put_found_and_removed() {
    let pair = Ed25519KeyPair::from_seed_unchecked(&[7; 32]).unwrap();
    let identity = identity(settings("n", "https://bot.example/k", Path::new("k")), pair);
    let request = Signable { method: "GET", authority: "site.example", path_and_query: "/" };
    let mut fields = HeaderMap::new();
    assert!(!Fields::are_in(&fields));
    for octet in [1, 2] {
        let signed = identity.sign(&request, Moment::from_millis(0), [octet; 32]);
        signed.unwrap().put_into(&mut fields);
    }
    assert!(Fields::are_in(&fields));
    assert_eq!(fields.len(), 3, "the second signature replaces the first");
    Fields::remove_from(&mut fields);
    assert!(fields.is_empty());
    for name in ["signature", "signature-input", "signature-agent"] {
        let one = HeaderMap::from_iter([(name.parse().unwrap(), "x".parse().unwrap())]);
        assert!(Fields::are_in(&one), "{name}");
    }
}

#[test]
fn an_agent_url_is_https_and_can_stand_in_a_field() {
    #[rustfmt::skip] // one row, one case
    let rows = [
        ("https://bot.example", Some("https://bot.example")),
        ("https://Bot.example:443/keys?a=b", Some("https://bot.example")),
        ("https://bot.example:8443/", Some("https://bot.example:8443")),
        ("https://[2001:db8::1]/", Some("https://[2001:db8::1]")),
        ("", None),
        ("bot.example", None),
        ("http://bot.example/", None),
        ("https://", None),
        ("https://user@bot.example/", None),
        ("https://user:secret@bot.example/", None),
        ("https://bot.example/#key", None),
        ("https://bot.example/a b", None),
        ("https://bot.example/\"", None),
        ("https://bot.example/\\", None),
        ("https://bot.example/é", None),
        ("https://bot.example:0/", None),
        (" https://bot.example/", None),
    ];
    for (text, want) in rows {
        let found = AgentUrl::parse(text);
        let origin = found.as_ref().ok().map(|url| url.origin().as_str());
        assert_eq!(origin, want, "{text:?}");
        if let Ok(url) = found {
            assert_eq!(url.as_str(), text, "as the operator has written it");
        }
    }
}

#[test]
fn a_client_without_an_identity_of_its_own_has_that_of_all_others() {
    let assigned =
        Assigned { others: Some("all".into()), clients: vec![("news".into(), "paper".into())] };
    let of = |client| assigned.of(client).map(|name| &**name);
    assert_eq!(of(Some("news")), Some("paper"));
    assert_eq!(of(Some("rest")), Some("all"));
    assert_eq!(of(None), Some("all"));
    assert_eq!(Assigned::default().of(Some("news")), None);
}
