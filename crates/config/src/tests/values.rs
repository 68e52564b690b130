//! The values that the keys of a file stand for.
//!
//! The changes that a reload makes, and those that wait for a restart.

use std::collections::BTreeSet;
use std::net::IpAddr;

use toml::de::DeTable;

use super::*;
use crate::apply::apply;
use crate::read::Reader;
use crawlgate_policy::overrides::Action;

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
    assert_eq!(other.upstream.hosts.get("site.example"), Some(&IpAddr::from([192, 0, 2, 1])));
    assert!(other.upstream.hosts.contains_key("other.example"));
    let [direct, socks, http] = other.upstream.routes.as_slice() else { panic!("three ways") };
    assert_eq!((direct.hosts.len(), &direct.via), (2, &Via::Direct));
    let Via::Proxy(socks) = &socks.via else { panic!("a proxy") };
    assert_eq!((socks.protocol, socks.port), (ProxyProtocol::Socks5, 9050));
    let Via::Proxy(http) = &http.via else { panic!("a proxy") };
    let file = Path::new("/etc/crawlgate/proxy.pass").to_owned();
    assert_eq!(http.credentials, Credentials::File(file));
    assert_eq!(other.store.path.as_deref(), Some(Path::new("/etc/crawlgate/store.db")));
    assert_eq!((other.audit.keep, other.audit.max_size), (None, None));
    let [allowed, denied] = other.policy.overrides.as_slice() else { panic!("two overrides") };
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
    #[rustfmt::skip] // one row, one case
    let cases: [Case<'_>; 5] = [
        ("standard", "", days(30), None, Finally::Allow),
        ("google", "profile = 'google'", hours(12), Some(days(30)), Finally::Reachable),
        ("archive", "profile = 'archive'", secs(0), Some(Duration::ZERO), Finally::Allow),
        ("a key before its profile", "disallow_for = '1h'\nprofile = 'google'", hours(1), Some(days(30)), Finally::Reachable),
        ("an end taken away", "profile = 'google'\nlast_good_until = 'forever'", hours(12), None, Finally::Reachable),
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
fn a_log_can_be_without_file() {
    for value in ["\"\"", "false"] {
        let config = parse(&format!("[log]\nfile = {value}")).expect(value);
        assert_eq!(config.log.file, None, "{value}");
    }
}

#[test]
fn the_socket_lies_beside_the_store() {
    #[rustfmt::skip] // one row, one case
    let cases = [
        ("a store elsewhere", "[store]\npath = '/a/b.db'", Some("/a/b.sock")),
        ("no store", "[store]\npath = ''", None),
        ("a place of its own", "[store]\npath = '/a/b.db'\n[admin]\nsocket = '/c'", Some("/c")),
        ("no socket", "[store]\npath = '/a/b.db'\n[admin]\nsocket = ''", None),
        ("a socket without a store", "[store]\npath = ''\n[admin]\nsocket = '/c'", Some("/c")),
    ];
    for (name, text, want) in cases {
        let socket = parse(text).expect(name).admin.socket;
        assert_eq!(socket.as_deref(), want.map(Path::new), "{name}");
    }
}

#[test]
fn the_table_of_keys_has_each_key_that_the_reader_knows_and_no_other() {
    let document = DeTable::parse("").unwrap();
    let mut reader = Reader::new("");
    let mut config = Config::default();
    apply(document.get_ref(), &mut reader, Path::new("/"), &mut config);
    let known = reader.known().iter().map(|(section, key)| match *section {
        "" => (*key).to_owned(),
        section => format!("{section}.{key}"),
    });
    let known: BTreeSet<String> = known.collect();
    // The table has a row for a section only if it has none for the keys in it.
    let is_section = |name: &String| {
        let below = format!("{name}.");
        known.iter().any(|key| key.starts_with(&below))
    };
    let keys: BTreeSet<&str> =
        known.iter().filter(|name| !is_section(name)).map(|name| &**name).collect();
    let entries = config.entries();
    let rows: BTreeSet<&str> = entries.iter().map(|entry| entry.key).collect();
    assert_eq!(rows, keys);
    assert_eq!(entries.len(), rows.len(), "a key twice");
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
    assert_eq!(plan.needs_restart, ["listen.address", "robots.cache.origins", "log.stdout",]);
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

#[test]
fn a_reload_brings_no_pace_per_address_into_a_fleet() {
    let old = parse("[fleet]\nengine = '127.0.0.1:6379'\nkey_file = 'k'").unwrap();
    let new = parse("[pace]\nper_address = true\nburst = 7").unwrap();
    let (now, plan) = old.reloaded(&new);
    assert!(now.fleet.is_on() && !now.pace.per_address);
    assert_eq!(now.pace.burst, 7);
    assert_eq!(plan.applied, ["pace.burst"]);
    assert!(plan.needs_restart.contains(&"pace.per_address"));
}

#[test]
fn users_change_at_a_reload_and_the_last_one_leaves_the_address_closed() {
    let user = "user = [{ name = 'ada', role = 'read', token = \
                'sha256:9f9f5111f7b27a781f1f1ddde5ebc2dd2b796bfc7365c9c28b548e564176929f' }]";
    let open = format!("[admin]\naddress = '0.0.0.0:8119'\n{user}");
    let local = format!("[admin]\naddress = '127.0.0.1:8119'\n{user}");
    let with_token = format!("{open}\ntoken_file = 't'");
    #[rustfmt::skip] // one row, one case: the configurations that follow each other, users, credentials, and no way in
    let cases = [
        ("no users ever", vec!["", ""], 0, false, false),
        ("a user is added", vec!["", &*local], 1, true, false),
        ("those of an open address are removed", vec![&open, ""], 0, true, true),
        ("those of a local one", vec![&local, ""], 0, true, true),
        ("those of one that has a token", vec![&with_token, ""], 0, true, false),
        ("a user is added and removed, with a reload between", vec!["", &local, "", ""], 0, true, true),
        ("a user comes back", vec![&local, "", &local], 1, true, false),
    ];
    for (name, texts, users, has_credentials, is_shut) in cases {
        let mut texts = texts.into_iter().map(|text| parse(text).expect(name));
        let mut now = texts.next().expect(name);
        for new in texts {
            let changes = now.admin.users != new.admin.users;
            let (after, plan) = now.reloaded(&new);
            assert_eq!(plan.applied.contains(&"admin.user"), changes, "{name}");
            now = after;
        }
        assert_eq!(now.admin.users.len(), users, "{name}");
        assert_eq!(now.admin.has_credentials(), has_credentials, "{name}");
        assert_eq!(now.admin.is_shut(), is_shut, "{name}");
    }
}
