//! Tests: the file against the reader, the reader against the writer, and the messages about mistakes.

use std::{collections::BTreeSet, fs, net::IpAddr, os::unix::fs::PermissionsExt as _, path::Path};

use super::*;
use crate::policy::overrides::Action;

mod mistakes;

/// The file at the top of the project, as shipped.
const SHIPPED: &str = include_str!("../../config.toml");

fn parse(text: &str) -> Result<Config, ConfigError> {
    Config::parse(text, Path::new("/etc/crawlgate/config.toml"))
}

fn keys() -> BTreeSet<&'static str> {
    let entries = Config::default().entries();
    entries.into_iter().map(|entry| entry.key).collect()
}

#[test]
fn the_shipped_file_holds_the_defaults() {
    let shipped = parse(SHIPPED).expect("the shipped file is right");
    let want = Config {
        source: shipped.source.clone(),
        ..Config::default()
    };
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

/// A file in which every key differs from its default.
const OTHER: &str = r#"
[listen]
address = ["[::1]:0", "192.0.2.1:3128"]
allow = ["10.0.0.0/8", "192.0.2.7"]
open = true
[[listener]]
name = "fleet"
address = "0.0.0.0:8443"
tls = true
cert = "proxy.pem"
key = "/keys/proxy.key"
client_ca = "clients.pem"
client_cert = "optional"
allow = ["10.0.0.0/8"]
proxy_protocol_from = ["10.0.0.5", "10.1.0.0/16"]
[[listener]]
name = "local"
unix = "run/crawlgate.sock"
mode = "0660"
[[listener]]
name = "minted"
address = "127.0.0.1:0"
tls = true
names = ["Proxy.example", "127.0.0.1"]
[limits]
connections = 10
connections_per_client = 5
requests = 8
requests_per_client = 4
header_timeout = "1s"
body_timeout = "2s"
body_rate = 0
idle_timeout = "1m1s"
tunnel_idle_timeout = "7m"
header_fields = 50
header_bytes = 4097
uri_bytes = "4KiB"
drain = "0s"
[agent]
product_tokens = ["Googlebot-Image", "Googlebot"]
mismatch = "deny"
require_identity = true
[robots]
profile = "google"
disallow_for = "6h"
last_good_until = "20d"
finally = "allow"
fresh = "1h"
fresh_min = "1m"
fresh_max = "48h"
refresh_ahead = 1
retry_min = "50ms"
retry_max = "2h"
retry_max_503 = "6m"
jitter = 0
size_limit = "1MiB"
max_redirects = 6
connect_timeout = "1s"
first_byte_timeout = "2s"
fetch_timeout = "3s"
max_fetches = 32
fetches_per_second = 50
hold = "4s"
lenient = false
path_guard = false
soft_404 = false
soft_404_phrases = ["nothing  here", "nichts da"]
deny_statuses = [401, 403]
unreachable_status = 503
user_agent = "Fleet/1.0 (+https://fleet.example)"
cache = { origins = 10, bytes = "1MiB" }
[pace]
requests_per_second = 2
burst = 3
max_hold = "1s"
max_held = 100
concurrency = 4
per_address = true
crawl_delay = "honour"
max_crawl_delay = "1m"
backoff = false
backoff_max = "10m"
[tls]
ca_cert = "ca.pem"
ca_key = "/keys/ca.key"
leaf_lifetime = "24h"
leaf_cache = 10
tunnel = ["bank.example", "*.Bank.example", "*"]
extra_roots = ["origin.pem", "/roots.pem"]
name_constraints = ["example.com", "10.0.0.0/8"]
[upstream]
connect_timeout = "1s"
response_timeout = "2s"
body_timeout = "4s"
idle_timeout = "3s"
idle_per_host = 0
via = false
hosts = { "Site.example" = "192.0.2.1", "other.example." = "2001:db8::1" }
[[upstream.proxy]]
hosts = ["*.intranet.example", "wiki.example"]
direct = true
[[upstream.proxy]]
hosts = "*.onion"
url = "socks5://127.0.0.1:9050"
[[upstream.proxy]]
hosts = ["*"]
url = "http://proxy.example:3128"
credentials_file = "proxy.pass"
[egress]
allow = ["127.0.0.0/8", "[::1]:8080", "*.Intranet.example:8443"]
deny = "203.0.113.0/24"
connect_ports = [443, "8000-8999"]
[log]
decisions = "all"
file = "decisions.jsonl"
stdout = true
rotate_bytes = "1MiB"
rotate_daily = false
keep = 1
on_failure = "continue"
redact_query = true
level = "warn,crawlgate::proxy=debug"
format = "json"
[telemetry]
otlp_endpoint = "https://otlp.example/tenant/"
headers_file = "otlp.headers"
service_name = "crawlgate-7"
sample = 0.5
logs = false
[store]
path = "store.db"
synchronous = "full"
[audit]
durability = "strict"
keep = "forever"
max_size = "unlimited"
refusals_per_minute = 60
seal_every = "1m"
[admin]
socket = "/run/gate.sock"
address = '[::]:9000'
token_file = 'token'
hosts = ['gate.example']
connections = 7
[policy]
mode = "report"
report_origins = ["https://Site.example", "http://other.example:8080"]
report_clients = ["10.0.0.0/8", "192.0.2.7"]
[[override]]
origin = "https://site.example"
pattern = "/press/*.html$"
action = "allow"
until = "2026-12-31"
by = "Ada \"the gate\" Example"
reason = "written permission"
[[override]]
origin = "http://other.example"
action = "deny"
by = "Ada"
reason = "asked to stay away"
[[client]]
name = "fleet-7"
networks = ["10.1.0.0/16", "192.0.2.7"]
listeners = "local"
certificates = ["Crawler.example"]
product_tokens = ["NewsBot", "Googlebot"]
user_agent = "NewsBot/2.0 (+https://news.example/bot)"
purpose = "news \"search\""
mode = "enforce"
profile = "archive"
requests_per_second = 20
burst = 10
quota = { requests = 100000, bytes = "10GiB", per = "24h" }
connections = 100
requests = 50
[[client]]
name = "rest"
quota = { requests = 10, per = "1m" }
"#;

#[test]
fn every_key_is_read_and_written() {
    let other = parse(OTHER).expect("right");
    let untouched: Vec<_> = Config::default()
        .entries()
        .into_iter()
        .zip(other.entries())
        .filter(|(old, new)| old.value == new.value)
        .map(|(old, _)| old.key)
        .collect();
    // `finally = "allow"` is the default profile's value, which here overrides another profile's.
    assert_eq!(untouched, ["robots.finally"], "read, yet not different");
    assert_eq!(
        parse(&other.to_toml()).expect("what is written is right"),
        other
    );

    let default = Config {
        source: other.source.clone(),
        ..Config::default()
    };
    assert_eq!(parse(&default.to_toml()).expect("right"), default);
}

#[test]
fn values_arrive_as_they_are_meant() {
    let other = parse(OTHER).expect("right");
    assert_eq!(other.robots.timing.profile.disallow_for, hours(6));
    assert_eq!(other.robots.timing.profile.last_good_until, Some(days(20)));
    assert_eq!(other.robots.timing.profile.finally, Finally::Allow);
    assert_eq!(other.limits.header_bytes, 4_097);
    assert_eq!(other.pace.requests_per_second, Some(2.0));
    assert_eq!(other.pace.concurrency, Some(4));
    assert_eq!(other.pace.crawl_delay, CrawlDelayMode::Honour);
    assert_eq!(other.robots.fetches_per_second, Some(50.0));
    assert_eq!(other.tls.ca_cert, Path::new("/etc/crawlgate/ca.pem"));
    assert_eq!(other.tls.ca_key, Path::new("/keys/ca.key"));
    assert_eq!(
        other.upstream.hosts.get("site.example"),
        Some(&IpAddr::from([192, 0, 2, 1]))
    );
    assert!(other.upstream.hosts.contains_key("other.example"));
    let [direct, socks, http] = other.upstream.routes.as_slice() else {
        panic!("three ways")
    };
    assert_eq!((direct.hosts.len(), &direct.via), (2, &Via::Direct));
    let Via::Proxy(socks) = &socks.via else {
        panic!("a proxy")
    };
    assert_eq!((socks.protocol, socks.port), (ProxyProtocol::Socks5, 9050));
    let Via::Proxy(http) = &http.via else {
        panic!("a proxy")
    };
    let file = Path::new("/etc/crawlgate/proxy.pass").to_owned();
    assert_eq!(http.credentials, Credentials::File(file));
    assert_eq!(
        other.store.path.as_deref(),
        Some(Path::new("/etc/crawlgate/store.db"))
    );
    assert_eq!((other.audit.keep, other.audit.max_size), (None, None));
    let [allowed, denied] = other.policy.overrides.as_slice() else {
        panic!("two overrides")
    };
    assert_eq!(allowed.id.to_string(), "config-1");
    assert_eq!(allowed.until, parse_moment("2027-01-01T00:00:00Z"));
    assert_eq!(denied.pattern, "/");
    assert_eq!((denied.action, denied.until), (Action::Deny, None));
    let single: IpNet = "192.0.2.7/32".parse().unwrap();
    assert_eq!(other.listen.allow.get(1), Some(&single));
}

#[test]
fn a_profile_brings_its_values_and_single_keys_change_them() {
    type Case<'a> = (&'a str, &'a str, Duration, Option<Duration>, Finally);
    let cases: [Case<'_>; 5] = [
        ("standard", "", days(30), None, Finally::Allow),
        (
            "google",
            "profile = 'google'",
            hours(12),
            Some(days(30)),
            Finally::Reachable,
        ),
        (
            "archive",
            "profile = 'archive'",
            secs(0),
            Some(Duration::ZERO),
            Finally::Allow,
        ),
        (
            "a key before its profile",
            "disallow_for = '1h'\nprofile = 'google'",
            hours(1),
            Some(days(30)),
            Finally::Reachable,
        ),
        (
            "an end taken away",
            "profile = 'google'\nlast_good_until = 'forever'",
            hours(12),
            None,
            Finally::Reachable,
        ),
    ];
    for (name, text, disallow_for, last_good_until, finally) in cases {
        let config = parse(&format!("[robots]\n{text}")).expect(name);
        let rules = config.robots.timing.profile;
        assert_eq!(rules.disallow_for, disallow_for, "{name}");
        assert_eq!(rules.last_good_until, last_good_until, "{name}");
        assert_eq!(rules.finally, finally, "{name}");
    }
}

#[test]
fn the_password_of_an_upstream_proxy_is_not_shown() {
    let table = "[[upstream.proxy]]\nhosts = ['*']\nurl = ";
    let config = parse(&format!("{table}'http://u:sesame@proxy.example:3128'")).expect("right");
    let [
        Route {
            via: Via::Proxy(proxy),
            ..
        },
    ] = config.upstream.routes.as_slice()
    else {
        panic!("one proxy")
    };
    let Credentials::Inline { password, .. } = &proxy.credentials else {
        panic!("credentials")
    };
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
    let (one, other) = (
        hash("c29tZXNhbHRzb21lc2FsdA"),
        hash("b3RoZXJzYWx0b3RoZXJzYQ"),
    );
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
        assert!(
            !shown.contains("argon2id$v") && !shown.contains("sesame"),
            "{shown}"
        );
    }
    assert_eq!(before.reload_diff(&after).applied, ["client"]);
    assert_eq!(before.reloaded(&after).0.clients, after.clients);
}

#[test]
fn a_log_can_be_without_file() {
    for value in ["\"\"", "false"] {
        let config = parse(&format!("[log]\nfile = {value}")).expect(value);
        assert_eq!(config.log.file, None, "{value}");
    }
}

#[test]
fn the_socket_lies_beside_the_store() {
    let cases = [
        (
            "a store elsewhere",
            "[store]\npath = '/a/b.db'",
            Some("/a/b.sock"),
        ),
        ("no store", "[store]\npath = ''", None),
        (
            "a place of its own",
            "[store]\npath = '/a/b.db'\n[admin]\nsocket = '/c'",
            Some("/c"),
        ),
        (
            "no socket",
            "[store]\npath = '/a/b.db'\n[admin]\nsocket = ''",
            None,
        ),
        (
            "a socket without a store",
            "[store]\npath = ''\n[admin]\nsocket = '/c'",
            Some("/c"),
        ),
    ];
    for (name, text, want) in cases {
        let socket = parse(text).expect(name).admin.socket;
        assert_eq!(socket.as_deref(), want.map(Path::new), "{name}");
    }
}

#[test]
fn the_file_is_the_first_that_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, drain: &str| {
        let file = directory.path().join(name);
        fs::write(&file, format!("[limits]\ndrain = '{drain}'")).unwrap();
        file
    };
    let (option, variable, nearby) = (write("a", "1s"), write("b", "2s"), write("c", "3s"));
    let missing = directory.path().join("missing");
    let places = Places::default();
    let find = |option: Option<&Path>, variable: Option<&Path>, nearby: &Path| {
        let variable = variable.map(|path| path.as_os_str().to_owned());
        // A missing file is skipped.
        let candidates = [missing.clone(), nearby.to_owned()];
        Config::find(option, variable, &candidates, &places)
    };
    let drain = |found: Result<Config, ConfigError>| found.unwrap().limits.drain;

    assert_eq!(
        drain(find(Some(&option), Some(&variable), &nearby)),
        secs(1)
    );
    assert_eq!(drain(find(None, Some(&variable), &nearby)), secs(2));
    assert_eq!(drain(find(None, None, &nearby)), secs(3));
    assert_eq!(
        drain(find(None, Some(Path::new("")), &nearby)),
        secs(3),
        "an empty variable"
    );
    let none = find(None, None, &missing).unwrap();
    assert_eq!(none, Config::builtin(&places), "no file: the defaults");

    for (option, variable) in [(Some(&*missing), None), (None, Some(&*missing))] {
        let error = find(option, variable, &nearby).unwrap_err();
        assert!(
            matches!(error, ConfigError::Unreadable { .. }),
            "a file that was named must exist: {error}"
        );
    }
    fs::write(&nearby, [b'#', b'\n', 0xFF]).unwrap();
    let error = find(None, None, &nearby).unwrap_err().to_string();
    assert!(error.contains(":2: not TOML: not UTF-8"), "{error}");
    let way_out = format!("--config {} or", nearby.display());
    assert!(error.contains(&way_out), "how to name another: {error}");

    let mode = |mode| fs::set_permissions(&nearby, fs::Permissions::from_mode(mode)).unwrap();
    fs::write(&nearby, "[limits]\ndrain = '4s'").unwrap();
    mode(0o666);
    let error = find(None, None, &nearby).unwrap_err().to_string();
    assert!(
        error.contains("not read: others may write it (mode 0666)") && error.contains(&way_out),
        "{error}"
    );
    assert_eq!(drain(find(Some(&nearby), None, &option)), secs(4), "named");
    mode(0o644);
    assert_eq!(
        find(None, None, &nearby).unwrap().source,
        Source::File(nearby)
    );
}

#[test]
fn a_reload_says_what_it_changes_and_what_waits_for_a_restart() {
    let old = Config::default();
    assert_eq!(old.reload_diff(&old), ReloadPlan::default());

    let new = parse(
        "[listen]\naddress = '127.0.0.1:1'\n[robots]\nprofile = 'google'\n[robots.cache]\norigins = 1\n\
         [limits]\nconnections = 1\ndrain = '1s'\n[log]\nlevel = 'debug'\nstdout = true",
    )
    .unwrap();
    let plan = old.reload_diff(&new);
    assert_eq!(
        plan.applied,
        [
            "limits.connections",
            "limits.drain",
            "robots.profile",
            "robots.disallow_for",
            "robots.last_good_until",
            "robots.finally",
            "log.level",
        ]
    );
    assert_eq!(
        plan.needs_restart,
        ["listen.address", "robots.cache.origins", "log.stdout",]
    );
}

#[test]
fn after_a_reload_each_key_has_the_value_that_the_plan_says() {
    let old = Config::default();
    let new = parse(OTHER).unwrap();
    let (now, plan) = old.reloaded(&new);
    assert_eq!(plan, old.reload_diff(&new));
    for ((old, new), now) in old.entries().iter().zip(new.entries()).zip(now.entries()) {
        let want = match now.takes_effect {
            TakesEffect::AtReload => &new.value,
            TakesEffect::AtRestart => &old.value,
        };
        assert_eq!(&now.value, want, "{}", now.key);
    }
    assert_eq!(now.source, new.source);
}
