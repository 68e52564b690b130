//! The exact text of `config show` for keys that differ from their defaults: of a file that sets all kinds of keys, and of one
//! with secrets. The defaults are those of `config.toml`.

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
