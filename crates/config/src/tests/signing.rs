//! `[[signing]]`, and the clients that are signed.

use std::time::Duration;

use super::*;
use crawlgate_signing::{Cover, Form};

/// Returns the message for a text with faults, without the directory.
fn message(text: &str) -> String {
    let error = parse(text).expect_err("has a fault").to_string();
    error.replace("/etc/crawlgate/", "")
}

#[test]
fn an_identity_needs_a_name_a_url_and_a_key() {
    let config = parse("[[signing]]\nname = 'news'\nagent = 'https://bot.example'\nkey = 'a.key'");
    let config = config.expect("right");
    let [identity] = config.signing.as_slice() else {
        panic!("{:?}", config.signing);
    };
    assert_eq!(identity.key, Path::new("/etc/crawlgate/a.key"));
    assert_eq!(identity.lifetime, Duration::from_secs(60));
    assert_eq!(identity.cover, Cover::Request);
    assert_eq!(identity.form, Form::Dictionary);
    assert!(!identity.plain_http && identity.publish.is_empty());
    assert_eq!(
        config.signed_as().of(None),
        None,
        "it signs for those that name it"
    );
}

#[test]
fn each_mistake_names_the_key_the_value_and_the_way_out() {
    const ONE: &str = "[[signing]]\nname = 'a'\nagent = 'https://a.example'\nkey = 'a.key'\n";
    let with = |line: &str| format!("{ONE}{line}");
    let url = "expected an https URL without user name, fragment and spaces: \
               \"https://bot.example/.well-known/http-message-signatures-directory\"";
    #[rustfmt::skip] // one row, one case
    let rows = [
        ("[[signing]]".to_owned(), "config.toml:1: [[signing]] name is missing".to_owned()),
        ("[[signing]]".to_owned(), "config.toml:1: [[signing]] agent is missing".to_owned()),
        ("[[signing]]".to_owned(), "config.toml:1: [[signing]] key is missing".to_owned()),
        (with("[agent]\nsigning = 'b'"), "config.toml:6: [agent] signing = 'b': no [[signing]] has this name, or \"\"".to_owned()),
        (with("[[client]]\nname = 'c'\nsigning = 'b'"), "config.toml:7: [[client]] signing = 'b': no [[signing]] has this name".to_owned()),
        (with("lifetime = '0s'"), "config.toml:5: [[signing]] lifetime = '0s': expected a duration such as \"30s\" or \"1h30m\", from \"1s\" to \"24h\"".to_owned()),
        (with("lifetime = '25h'"), "config.toml:5: [[signing]] lifetime = '25h': expected a duration such as \"30s\" or \"1h30m\", from \"1s\" to \"24h\"".to_owned()),
        (with("cover = 'path'"), "config.toml:5: [[signing]] cover = 'path': not one of \"request\", \"authority\"".to_owned()),
        (with("form = 'both'"), "config.toml:5: [[signing]] form = 'both': not one of \"dictionary\", \"string\"".to_owned()),
        (with("publish = ['']"), "config.toml:5: [[signing]] publish = '': expected a path".to_owned()),
        (ONE.replace("https:", "http:"), format!("config.toml:3: [[signing]] agent = 'http://a.example': {url}")),
        (ONE.replace("a.example", "a.example/#k"), format!("config.toml:3: [[signing]] agent = 'https://a.example/#k': {url}")),
        (format!("{ONE}{}", ONE.replace("a.key", "b.key")), "config.toml:6: [[signing]] name = 'a': another [[signing]] has this name".to_owned()),
        (format!("{ONE}{}", ONE.replace("'a'", "'b'")), "config.toml:8: [[signing]] key = 'a.key': \"a\" has this key; each identity needs its own: `crawlgate signing new` makes one".to_owned()),
    ];
    for (text, want) in rows {
        let found = message(&text);
        assert!(found.contains(&want), "{text}\n{found}\n{want}");
    }
    let found = message(&ONE.replace("a.example", "u:sesame@a.example"));
    assert!(found.contains(url) && !found.contains("sesame"), "{found}");
}

#[test]
fn a_key_in_the_place_of_its_path_is_not_repeated() {
    let one = "[[signing]]\nname = 'a'\nagent = 'https://a.example'\n";
    #[rustfmt::skip] // one row, one case
    let rows = [
        ("key", "key = \"-----BEGIN PRIVATE KEY-----\\nsesame\""),
        ("key", "key = '-----BEGIN PRIVATE KEY-----sesame'"),
        ("key", "key = \"sesame\\r\""),
        ("publish", "key = 'a.key'\npublish = ['b.key', \"sesame\\n\"]"),
    ];
    for (key, line) in rows {
        let found = message(&format!("{one}{line}"));
        let why = format!("[[signing]] {key} = …: expected the path of a file with the key");
        assert!(found.contains(&why), "{line}\n{found}");
        assert!(!found.contains("sesame"), "{line}\n{found}");
    }
}

#[test]
fn an_identity_with_a_fault_makes_no_further_fault_of_those_that_name_it() {
    let found = message("[agent]\nsigning = 'a'\n[[signing]]\nname = 'a'\nagent = 'x'\nkey = 'k'");
    assert!(!found.contains("[agent]"), "{found}");
}

#[test]
fn a_client_is_signed_as_it_says_or_as_all_others() {
    let config = parse(OTHER).expect("right");
    let signed_as = config.signed_as();
    let of = |client| signed_as.of(client).map(|name| &**name);
    assert_eq!(of(Some("fleet-7")), Some("news"));
    assert_eq!(of(Some("rest")), Some("all"));
    assert_eq!(of(None), Some("all"));
}
