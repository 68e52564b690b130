//! The values that the keys of a file stand for.

use std::net::IpAddr;

use super::*;
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
