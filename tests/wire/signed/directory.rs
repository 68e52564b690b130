//! The directory of keys, and the commands that make, publish and replace them.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use crawlgate_signing::SigningKey;
use serde_json::{Value, json};

use super::verify::{AGENT, identity, is_signed_by, verdicts};
use crate::support::{AdminGate, Origin, Response, Setup};

const PATH: &str = "/.well-known/http-message-signatures-directory";

/// A gate with an identity, a key to publish, and a token that the admin side asks for.
fn gate() -> (AdminGate, [SigningKey; 2]) {
    let mut keys = None;
    let gate = AdminGate::with(|setup| {
        let (key, section) = identity(setup, "news", "publish = ['next.key', 'last.key']");
        let next = SigningKey::create(&setup.dir().join("next.key")).unwrap();
        setup.set("admin", "token_file", "\"token\"");
        setup.tables(&section);
        keys = Some([key, next]);
    });
    (gate, keys.unwrap())
}

fn message(authority: &str, answer: &Response) -> Value {
    let names = ["content-digest", "signature-input", "signature"];
    let fields: BTreeMap<_, _> = names.iter().map(|name| (*name, answer.field(name))).collect();
    json!({
        "request": { "method": "GET", "url": format!("https://{authority}{PATH}"), "headers": {} },
        "status": answer.status,
        "headers": fields,
        "body": answer.text(),
    })
}

#[test]
fn the_directory_is_public_and_each_key_proves_that_it_belongs_there() {
    let (gate, keys) = gate();
    let host = "Host: Bot.example\r\n";
    let answer = gate.ask("GET", PATH, host, "").is(200);
    for (name, value) in [
        ("content-type", "application/http-message-signatures-directory+json"),
        ("cache-control", "max-age=86400"),
    ] {
        assert_eq!(answer.field(name).as_deref(), Some(value), "{answer:?}");
    }
    let listed: Value = serde_json::from_str(&answer.text()).unwrap();
    let listed = listed["keys"].as_array().unwrap();
    assert_eq!(listed.len(), 2);
    for (jwk, key) in listed.iter().zip(&keys) {
        let want = json!({
            "kty": "OKP", "crv": "Ed25519", "use": "sig", "kid": **key.thumbprint(), "x": key.public(),
        });
        assert_eq!(*jwk, want);
    }
    let head = gate.ask("HEAD", PATH, host, "");
    assert_eq!((head.status, head.text().as_str()), (200, ""));
    assert_eq!(head.field("content-digest"), answer.field("content-digest"));
    let messages = ["bot.example", "evil.example"].map(|authority| message(authority, &answer));
    let [first, second] = &keys;
    if let Some(verdicts) = verdicts(&[first, second], &messages) {
        let one = r#""@authority";req "content-digest""#;
        assert_eq!(verdicts[0], format!("{one}; {one}"));
        assert!(verdicts[1].starts_with("no: "), "{verdicts:?}");
    }
}

#[test]
fn no_other_name_gets_a_directory() {
    let (gate, _) = gate();
    let own = format!("Host: {}\r\n", gate.address);
    for host in [
        own.as_str(),
        "Host: evil.example\r\n",
        "Host: bot.example:444\r\n",
        "Host: a@bot.example\r\n",
    ] {
        let answer = gate.ask("GET", PATH, host, "");
        assert_eq!(answer.status, 404, "{host}: {answer:?}");
        assert_eq!(answer.field("signature"), None);
    }
    // Nothing else is public under the name.
    for (method, path, status) in
        [("POST", PATH, 421), ("GET", "/", 421), ("GET", "/api/v1/status", 421)]
    {
        let answer = gate.ask(method, path, "Host: bot.example\r\n", "");
        assert_eq!(answer.status, status, "{method} {path}: {answer:?}");
    }
    let without = AdminGate::open();
    assert_eq!(without.ask("GET", PATH, "Host: bot.example\r\n", "").status, 404);
}

#[test]
fn the_commands_make_a_key_and_write_what_the_gate_serves() {
    let mut setup = Setup::new();
    let run = |setup: &Setup, words: &[&str]| {
        let mut all = vec!["signing"];
        all.extend(words);
        let (code, said, error) = setup.run(all[0], &all[1..]);
        (code, said, error)
    };
    let (code, said, error) = run(&setup, &["list"]);
    assert!(code == Some(0) && said.contains("no identities"), "{said}{error}");
    let (code, said, error) = run(&setup, &["new", "news"]);
    assert_eq!(code, Some(0), "{error}");
    let path = setup.dir().join("news.key");
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let key = SigningKey::load(&path).unwrap();
    says!(said, &**key.thumbprint());
    // The section that it prints is taken.
    let (_, rest) = said.split_once("[[signing]]").unwrap();
    let section = format!("[[signing]]{}\n", rest.split("\n\n").next().unwrap());
    says!(section, AGENT);
    let (code, _, error) = run(&setup, &["new", "news"]);
    assert!(code == Some(2) && error.contains("left as it is"), "{error}");
    for words in [["directory", "news"], ["rotate", "news"]] {
        let (code, _, error) = run(&setup, &words);
        assert!(code == Some(2) && error.contains("no [[signing]]"), "{error}");
    }

    setup.tables(&section);
    setup.set("agent", "signing", "\"news\"");
    setup.set("admin", "address", "\"127.0.0.1:0\"");
    let (_, said, _) = run(&setup, &["list"]);
    says!(said, &**key.thumbprint(), "clients  all");
    let (code, said, error) =
        run(&setup, &["directory", "news", "--write", "keys.json", "--headers"]);
    assert_eq!(code, Some(0), "{error}");
    let written = fs::read_to_string(setup.dir().join("keys.json")).unwrap();
    let (_, printed, _) = run(&setup, &["directory", "news"]);
    assert_eq!(printed, written);
    let fields = said.lines().map(|line| line.split_once(": ").unwrap());
    let fields: BTreeMap<_, _> = fields.map(|(name, value)| (name.to_lowercase(), value)).collect();
    let (code, said, error) = run(&setup, &["rotate", "news"]);
    assert!(code == Some(0) && said.contains("publish = ["), "{said}{error}");

    let command = setup.command("serve");
    let gate = AdminGate::of(crate::support::CrawlgateProcess::spawn(setup, command));
    let answer = gate.ask("GET", PATH, "Host: bot.example\r\n", "");
    assert_eq!(answer.text(), written);
    let digest = answer.field("content-digest").unwrap();
    assert_eq!(fields["content-digest"], digest);
    if let Some(verdicts) = verdicts(
        &[&key],
        &[json!({
            "request": { "method": "GET", "url": AGENT, "headers": {} },
            "status": 200,
            "headers": fields,
            "body": written,
        })],
    ) {
        assert_eq!(verdicts, [r#""@authority";req "content-digest""#]);
    }
    let origin = Origin::https();
    gate.process.passes(&origin.url("/page"));
    is_signed_by(super::verify::by_http1(&origin).last().unwrap(), &key);
}
