//! `config show`: the reader reads what the writer writes, and no secret is shown.
//!
//! The shipped `config.toml` against the code.
//!
//! The exact text of `config show` for keys that differ from their defaults: of a file that sets all kinds of keys, and of one
//! with secrets. The defaults are those of `config.toml`.

use std::collections::BTreeSet;

use super::*;

#[test]
fn what_is_read_is_written() {
    let other = parse(OTHER).expect("right");
    let public = parse("[admin]\npublic_try = '[::]:9001'").expect("right");
    assert_eq!(parse(&public.to_toml()).expect("right"), public);
    assert!(public.admin.public_try.is_some());
    let per_address = parse("[pace]\nper_address = true").expect("right");
    assert_eq!(parse(&per_address.to_toml()).expect("right"), per_address);
    assert!(per_address.pace.per_address);
    // A mark stands for the token's digest, as for each secret.
    let user = other.admin.users.first().expect("one");
    let token = user.token.as_ref().expect("a token");
    let marked = format!("*** ({})", token.mark(&user.name));
    let written = other.to_toml().replace(&marked, &token.reveal());
    assert_eq!(parse(&written).expect("what is written is right"), other);

    let default = Config { source: other.source.clone(), ..Config::default() };
    assert_eq!(parse(&default.to_toml()).expect("right"), default);
}

#[test]
fn the_password_of_an_upstream_proxy_is_not_shown() {
    let table = "[[upstream.proxy]]\nhosts = ['*']\nurl = ";
    let config = parse(&format!("{table}'http://u:sesame@proxy.example:3128'")).expect("right");
    let [Route { via: Via::Proxy(proxy), .. }] = config.upstream.routes.as_slice() else {
        panic!("one proxy")
    };
    let Credentials::Inline { password, .. } = &proxy.credentials else { panic!("credentials") };
    assert_eq!(password.reveal(), "sesame");
    let wrong = parse(&format!("{table}'https://u:sesame@proxy.example'")).expect_err("https");
    for shown in [config.to_toml(), format!("{config:?}"), wrong.to_string()] {
        assert!(!shown.contains("sesame"), "{shown}");
    }
    assert!(config.to_toml().contains("http://u:***@proxy.example:3128"));
}

#[test]
fn the_hash_of_a_password_is_not_shown_but_its_change_is_reported() {
    let hash = |salt: &str| {
        format!("$argon2id$v=19$m=19456,t=2,p=1${salt}$MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY")
    };
    let (one, other) = (hash("c29tZXNhbHRzb21lc2FsdA"), hash("b3RoZXJzYWx0b3RoZXJzYQ"));
    let config = |hash: &str| {
        parse(&format!("[[client]]\nname = 'news'\npassword = '{hash}'")).expect("right")
    };
    let (before, after) = (config(&one), config(&other));
    let client = before.clients.first().expect("one");
    let stored = client.conditions.password.as_ref().expect("a hash");
    assert_eq!(stored.reveal(), one);
    let wrong = parse("[[client]]\nname = 'news'\npassword = 'sesame'").expect_err("no hash");
    let wrong = wrong.to_string();
    assert!(wrong.contains("crawlgate client add"), "{wrong}");
    for shown in [before.to_toml(), format!("{before:?}"), wrong] {
        assert!(!shown.contains("argon2id$v") && !shown.contains("sesame"), "{shown}");
    }
    assert_eq!(before.reload_diff(&after).applied, ["client"]);
    assert_eq!(before.reloaded(&after).0.clients, after.clients);
}

#[test]
fn the_secrets_of_admin_users_are_not_shown_but_their_change_is_reported() {
    let user = |secret: &str| format!("[[admin.user]]\nname = 'ada'\nrole = 'read'\n{secret}");
    let token = |text: &str| TokenDigest::of(text.as_bytes()).reveal();
    let (one, other) = (token("0123456789abcdef"), token("fedcba9876543210"));
    let before = parse(&user(&format!("token = '{one}'"))).expect("right");
    let after = parse(&user(&format!("token = '{other}'"))).expect("right");
    assert_eq!(before.reload_diff(&after).applied, ["admin.user"]);
    let mut shown = vec![before.to_toml(), format!("{before:?}")];
    for wrong in ["token = 'sesame'", "password = 'sesame'", "passwort = 'sesame'"] {
        shown.push(parse(&user(wrong)).expect_err(wrong).to_string());
    }
    for shown in shown {
        assert!(!shown.contains("sesame"), "{shown}");
        assert!(!shown.contains(&one) && !shown.contains(&one["sha256:".len()..]), "{shown}");
    }
}

/// The file at the top of the project, as shipped.
const SHIPPED: &str = include_str!("../../../../config.toml");

fn keys() -> BTreeSet<&'static str> {
    let entries = Config::default().entries();
    entries.into_iter().map(|entry| entry.key).collect()
}

#[test]
fn the_shipped_file_holds_the_defaults() {
    let shipped = parse(SHIPPED).expect("the shipped file is right");
    let want = Config { source: shipped.source.clone(), ..Config::default() };
    assert_eq!(shipped, want);
}

#[test]
fn the_shipped_file_names_every_key() {
    let mut named = BTreeSet::new();
    let mut section = String::new();
    for line in SHIPPED.lines() {
        let line = line.trim_start_matches("# ");
        let line = line.replace("[[", "[");
        let header = line.strip_prefix('[').and_then(|rest| rest.split_once(']'));
        if let Some((name, _)) = header {
            section = name.to_owned();
            named.insert(name.to_owned());
        } else if let Some((key, _)) = line.split_once(" = ") {
            named.insert(format!("{section}.{key}"));
        }
    }
    for key in keys() {
        assert!(named.contains(key), "config.toml does not show {key}");
    }
}

#[test]
fn the_shipped_file_marks_the_keys_that_need_a_restart() {
    let mut section = "";
    for line in SHIPPED.lines() {
        let line = line.trim_start_matches("# ");
        if let Some((name, _)) = line.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            section = name;
        }
        let Some((key, rest)) = line.split_once(" = ") else {
            continue;
        };
        let key = format!("{section}.{key}");
        let entries = Config::default().entries();
        let Some(entry) = entries.into_iter().find(|entry| entry.key == key) else {
            continue;
        };
        let restart = entry.takes_effect == TakesEffect::AtRestart;
        assert_eq!(rest.contains("[restart]"), restart, "{key}");
    }
}

/// A file with secrets, empty values and values of unusual spelling.
const ODD: &str = r#"
[listen]
address = []
[[listener]]
name = "its"
unix = "/run/a \"b\".sock"
[limits]
requests = "unlimited"
drain = "90m"
header_bytes = 65537
[robots]
profile = "archive"
last_good_until = "1d"
fetches_per_second = 0.25
user_agent = 'A "quoted" agent'
[[upstream.proxy]]
hosts = "*"
url = "http://u:sesame@proxy.example:3128"
[egress]
connect_ports = []
[log]
file = ""
level = "warn"
[store]
path = ""
[tls]
ca_cert = "/keys/ca\t'1'.pem"
ca_key = "/keys/ca.key"
[audit]
keep = "7d"
max_size = "3MiB"
[policy]
report_clients = ["::1"]
[[override]]
origin = "https://site.example"
pattern = '/a\b"c'
action = "deny"
until = "2026-12-31T10:11:12.5Z"
by = "Ada"
reason = "it's \"so\""
[[admin.user]]
name = "ada"
role = "operate"
password = '$argon2id$v=19$m=19456,t=2,p=1$c29tZXNhbHRzb21lc2FsdA$MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY'
token = "sha256:9f9f5111f7b27a781f1f1ddde5ebc2dd2b796bfc7365c9c28b548e564176929f"
[[client]]
name = "news"
password = '$argon2id$v=19$m=19456,t=2,p=1$c29tZXNhbHRzb21lc2FsdA$MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY'
mode = "report"
requests_per_second = 0.5
quota = { bytes = 1001, per = "90m" }
"#;

#[test]
fn the_shown_text_of_two_configurations_stays() {
    let defaults = Config::builtin(&Places::default()).entries();
    #[rustfmt::skip] // one row, one case
    let cases = [
        ("all kinds of keys", OTHER, include_str!("golden/other.toml")),
        ("odd values", ODD, include_str!("golden/odd.toml")),
    ];
    for (name, text, want) in cases {
        let entries = parse(text).expect("right").entries();
        let changed = entries.iter().filter(|entry| !defaults.contains(entry));
        let lines = changed.map(|entry| format!("{} = {}\n", entry.key, entry.value));
        assert_eq!(lines.collect::<String>(), want, "{name}");
    }
}
