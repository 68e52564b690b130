//! The exact text of `config show`, for the defaults, for a file that sets every key, and for one with secrets.

use super::*;

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
fn the_shown_text_of_three_configurations_stays() {
    #[rustfmt::skip] // one row, one case
    let cases = [
        ("the defaults", Config::builtin(&Places::default()), include_str!("golden/defaults.toml")),
        ("every key", parse(OTHER).expect("right"), include_str!("golden/every_key.toml")),
        ("odd values", parse(ODD).expect("right"), include_str!("golden/odd.toml")),
    ];
    for (name, config, want) in cases {
        assert_eq!(config.to_toml(), want, "{name}");
    }
}

#[test]
fn the_keys_that_need_a_restart_stay() {
    let entries = Config::default().entries().into_iter();
    let needs_restart = entries.filter(|entry| entry.takes_effect == TakesEffect::AtRestart);
    let keys: Vec<&str> = needs_restart.map(|entry| entry.key).collect();
    let want: Vec<&str> = include_str!("golden/restart.txt").lines().collect();
    assert_eq!(keys, want);
}
