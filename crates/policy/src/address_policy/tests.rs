//! The address policy as tables: allowed and prohibited destinations, with the rule.

use super::*;
use crawlgate_robots::Scheme;

fn policy(allow: &[&str], deny: &[&str], own: &[&str]) -> AddressPolicy {
    let read = |texts: &[&str]| {
        let read = texts.iter().map(|text| Destination::new(text).unwrap());
        read.collect::<Vec<_>>()
    };
    let ports = vec![PortRange::one(443), PortRange::one(80)];
    let own = own.iter().map(|own| own.parse().unwrap());
    AddressPolicy::new(read(allow), read(deny), ports, own.collect())
}

/// This machine has one address besides the loopback ones.
fn is_local(address: IpAddr) -> bool {
    address.is_loopback()
        || address == IpAddr::from([203, 0, 113, 9])
        || address == IpAddr::from([8, 8, 4, 4])
}

fn judge(policy: &AddressPolicy, host: &str, address: &str) -> Option<ProhibitedBy> {
    let (address, port) = match address.parse::<SocketAddr>() {
        Ok(address) => (address.ip(), address.port()),
        Err(_) => (address.parse().unwrap(), 80),
    };
    let judged = policy.check(host, SocketAddr::new(address, port), is_local);
    judged.err().map(|prohibited| {
        assert_eq!(prohibited.address, Some(address));
        prohibited.by
    })
}

#[test]
fn by_default_only_public_addresses_are_dialled() {
    use Class::*;
    let policy = policy(&[], &[], &[]);
    #[rustfmt::skip] // one row, one case
    let cases = [
        ("public", "8.8.8.8", None),
        ("public, IPv6", "2606:4700::1111", None),
        ("loopback", "127.0.0.1", Some(Loopback)),
        ("anywhere in it", "127.255.0.3", Some(Loopback)),
        ("loopback, IPv6", "::1", Some(Loopback)),
        ("private", "10.1.2.3", Some(Private)),
        ("link-local", "169.254.0.1", Some(LinkLocal)),
        ("metadata", "169.254.169.254", Some(Metadata)),
        ("metadata, IPv6", "fd00:ec2::254", Some(Metadata)),
        ("shared", "100.64.0.1", Some(Shared)),
        ("multicast", "239.1.1.1", Some(Multicast)),
        ("unspecified", "0.0.0.0", Some(Unspecified)),
        ("unspecified, IPv6", "::", Some(Unspecified)),
        ("broadcast", "255.255.255.255", Some(Broadcast)),
        ("documentation", "192.0.2.1", Some(Documentation)),
        ("unique local", "fd12::1", Some(UniqueLocal)),
        ("6to4 around loopback", "2002:7f00:1::", Some(Transition)),
        ("6to4 around a public address", "2002:808:808::", Some(Transition)),
        ("Teredo", "2001:0:808:808::1", Some(Transition)),
        ("IPv4-mapped loopback", "::ffff:127.0.0.1", Some(Loopback)),
        ("IPv4-mapped metadata", "::ffff:169.254.169.254", Some(Metadata)),
        ("IPv4-mapped public", "::ffff:8.8.8.8", None),
        ("IPv4-compatible loopback", "::127.0.0.1", Some(Transition)),
        ("NAT64 of loopback", "64:ff9b::7f00:1", Some(Loopback)),
        ("NAT64 of private", "64:ff9b::a01:203", Some(Private)),
        ("NAT64 of public", "64:ff9b::808:808", None),
        ("NAT64 of nothing", "64:ff9b::", Some(Unspecified)),
        ("local NAT64 of public, /96", "64:ff9b:1::808:808", None),
        ("local NAT64 of private, /96", "64:ff9b:1::a01:203", Some(Private)),
        ("local NAT64 of public, /48", "64:ff9b:1:808:8:800::", None),
        ("local NAT64 of private, /48", "64:ff9b:1:a01:2:300::", Some(Private)),
        ("local NAT64 of loopback, /64", "64:ff9b:1:0:7f:0:100:0", Some(Loopback)),
        ("private /48 behind a public tail", "64:ff9b:1:a01:2:300:808:808", Some(Private)),
        ("local NAT64 of nothing", "64:ff9b:1::", Some(Unspecified)),
    ];
    for (name, address, class) in cases {
        let found = judge(&policy, "site.example", address);
        assert_eq!(found, class.map(ProhibitedBy::Class), "{name}: {address}");
    }
}

#[test]
fn the_operator_allows_and_denies_and_deny_wins() {
    let policy = policy(
        &[
            "127.0.0.0/8",
            "10.0.0.0/8:8080",
            "*.intranet.example",
            "wiki.example:8080",
            "fd00:ec2::254",
            "2002::/16",
            "[64:ff9b:1::/48]:81",
        ],
        &["127.0.0.2", "8.8.0.0/16:53", "*.ads.example", "2001:4860::/32"],
        &[],
    );
    let class = |class| Some(ProhibitedBy::Class(class));
    let denied = Some(ProhibitedBy::Denied);
    #[rustfmt::skip] // one row, one case
    let cases = [
        ("an allowed network", "site.example", "127.0.0.1", None),
        ("... as IPv4-mapped", "site.example", "::ffff:127.0.0.1", None),
        ("... behind NAT64", "site.example", "64:ff9b::7f00:1", None),
        ("denied in it", "site.example", "127.0.0.2", denied),
        ("... as IPv4-mapped", "site.example", "::ffff:127.0.0.2", denied),
        ("... behind NAT64", "site.example", "64:ff9b::7f00:2", denied),
        ("allowed at a port", "site.example", "10.1.2.3:8080", None),
        ("at another port", "site.example", "10.1.2.3:80", class(Class::Private)),
        ("an allowed name, wherever it leads", "wiki.intranet.example", "192.168.1.1", None),
        ("... also to NAT64", "wiki.intranet.example", "64:ff9b::a01:203", None),
        ("... but not to metadata", "wiki.intranet.example", "169.254.169.254", class(Class::Metadata)),
        ("... nor behind NAT64", "wiki.intranet.example", "64:ff9b::a9fe:a9fe", class(Class::Metadata)),
        ("... nor where it is denied", "wiki.intranet.example", "127.0.0.2", denied),
        ("an allowed name at its port", "wiki.example", "192.168.1.1:8080", None),
        ("at another port", "wiki.example", "192.168.1.1:80", class(Class::Private)),
        ("another name", "wiki2.example", "192.168.1.1:8080", class(Class::Private)),
        ("metadata that is allowed by address", "site.example", "fd00:ec2::254", None),
        ("a form that is allowed", "site.example", "2002:7f00:1::", None),
        ("a translator that is allowed", "site.example", "[64:ff9b:1::a01:203]:81", None),
        ("a public network denied at a port", "site.example", "8.8.8.8:53", denied),
        ("... not at others", "site.example", "8.8.8.8:443", None),
        ("a public network denied", "site.example", "2001:4860::8888", denied),
        ("a denied name", "x.ads.example", "8.8.8.8", denied),
        ("a denied name on its way to what is allowed", "x.ads.example", "127.0.0.1", denied),
    ];
    for (name, host, address, wall) in cases {
        assert_eq!(judge(&policy, host, address), wall, "{name}");
    }
}

#[test]
fn what_the_proxy_listens_on_is_never_dialled() {
    let everything = ["0.0.0.0/0", "::/0"];
    #[rustfmt::skip] // one row, one case
    let cases = [
        ("itself", "127.0.0.1:8118", "127.0.0.1:8118", true),
        ("another port", "127.0.0.1:8118", "127.0.0.1:8119", false),
        ("another address", "127.0.0.1:8118", "127.0.0.2:8118", false),
        ("as IPv4-mapped", "127.0.0.1:8118", "[::ffff:127.0.0.1]:8118", true),
        ("behind NAT64", "8.8.4.4:8118", "[64:ff9b::808:404]:8118", true),
        ("by the unspecified address", "127.0.0.1:8118", "0.0.0.0:8118", true),
        ("by the unspecified address, IPv6", "127.0.0.1:8118", "[::]:8118", true),
        ("wildcard, loopback", "0.0.0.0:8118", "127.3.2.1:8118", true),
        ("wildcard, an address of the machine", "0.0.0.0:8118", "203.0.113.9:8118", true),
        ("wildcard of both families", "[::]:8118", "203.0.113.9:8118", true),
        ("wildcard, another machine", "0.0.0.0:8118", "203.0.113.10:8118", false),
        ("wildcard, another port", "0.0.0.0:8118", "127.0.0.1:80", false),
        ("a mapped listener", "[::ffff:127.0.0.1]:8118", "127.0.0.1:8118", true),
    ];
    for (name, own, address, is_own) in cases {
        let policy = policy(&everything, &[], &[own]);
        let wall = is_own.then_some(ProhibitedBy::Own);
        assert_eq!(judge(&policy, "site.example", address), wall, "{name}");
    }
}

#[test]
fn an_origin_is_judged_as_far_as_its_host_tells() {
    let policy = policy(&["127.0.0.0/8"], &["*.ads.example", "127.0.0.2"], &["127.0.0.1:8118"]);
    #[rustfmt::skip] // one row, one case
    let cases = [
        ("a name", "site.example", 80, None),
        ("a name that begins like an address", "1and1.example", 80, None),
        ("a denied name", "x.ads.example", 80, Some(ProhibitedBy::Denied)),
        ("an address", "8.8.8.8", 80, None),
        ("an allowed address", "127.0.0.1", 80, None),
        ("in odd spelling", "0x7f.2", 80, Some(ProhibitedBy::Denied)),
        ("as one number", "167772161", 80, Some(ProhibitedBy::Class(Class::Private))),
        ("IPv6", "[::1]", 80, Some(ProhibitedBy::Class(Class::Loopback))),
        ("IPv4-mapped", "[::ffff:10.0.0.1]", 80, Some(ProhibitedBy::Class(Class::Private))),
        ("this proxy", "127.0.0.1", 8118, Some(ProhibitedBy::Own)),
    ];
    for (name, host, port, wall) in cases {
        let origin = Origin::new(Scheme::Http, host, Some(port)).unwrap();
        let judged = policy.check_origin(&origin, is_local);
        assert_eq!(judged.err().map(|found| found.by), wall, "{name}");
    }
}

#[test]
fn a_connect_is_let_through_to_the_ports_of_the_web_and_those_that_are_allowed() {
    let policy = policy(
        &["127.0.0.1:8443", "*.site.example:8443", "10.0.0.0/8", "::1", "intra.example"],
        &[],
        &[],
    );
    #[rustfmt::skip] // one row, one case
    let cases = [
        ("site.example", 443, true), ("site.example", 80, true),
        ("site.example", 25, false), ("site.example", 22, false), ("site.example", 8443, false),
        ("www.site.example", 8443, true), ("www.site.example", 8444, false),
        ("127.0.0.1", 8443, true), ("0x7f.1", 8443, true), ("127.0.0.2", 8443, false),
        ("10.0.0.1", 8443, true), ("10.0.0.1", 25, true), ("[::1]", 8443, true),
        ("11.0.0.1", 8443, false), // it is public, and nothing names its port
        ("localhost", 8444, true), ("a.localhost", 8443, true), ("localhost.example", 8443, false),
        ("intra.example", 8443, false), // the owner of the name chooses its address
    ];
    for (host, port, is_open) in cases {
        let origin = Origin::new(Scheme::Https, host, Some(port)).unwrap();
        assert_eq!(policy.check_connect(&origin).is_ok(), is_open, "{host}:{port}");
    }
}

#[test]
fn a_port_is_open_where_all_addresses_are_allowed_at_it() {
    let policy = policy(&["10.0.0.0/8", "192.168.0.1:8443", "a.example:25"], &[], &[]);
    let opens = |addresses: &[&str], port| {
        let parse = |text: &&str| text.parse().unwrap();
        let addresses: Vec<_> = addresses.iter().map(parse).collect();
        policy.opens(&addresses, port)
    };
    assert!(opens(&["10.0.0.1", "10.0.0.2"], 25));
    assert!(opens(&["10.0.0.1", "192.168.0.1"], 8443));
    for (addresses, port) in
        [(&["10.0.0.1", "8.8.8.8"][..], 8443), (&["10.0.0.1", "192.168.0.1"], 25), (&[], 8443)]
    {
        assert!(!opens(addresses, port), "{addresses:?} at {port}");
    }
}

#[test]
fn a_refusal_names_the_address_and_the_remedy() {
    let policy = policy(&[], &["8.8.8.8", "*.ads.example"], &["127.0.0.1:8118"]);
    let reason = |host: &str, port| {
        let origin = Origin::new(Scheme::Http, host, Some(port)).unwrap();
        policy.check_origin(&origin, is_local).unwrap_err().to_string()
    };
    #[rustfmt::skip] // one row, one case
    let cases = [
        (
            "127.0.0.1",
            80,
            "leads to 127.0.0.1, which is this machine itself; the operator can allow it: \
             [egress] allow = [\"127.0.0.0/8\", \"::1\"], or crawlgate run --allow 127.0.0.0/8 --allow ::1",
        ),
        (
            "10.0.0.1",
            80,
            "leads to 10.0.0.1, which is in a private network; the operator can allow it: \
             [egress] allow = [\"10.0.0.1\"], or crawlgate run --allow 10.0.0.1",
        ),
        ("8.8.8.8", 80, "leads to 8.8.8.8, which is denied by [egress] deny"),
        ("x.ads.example", 80, "is denied by [egress] deny"),
        ("127.0.0.1", 8118, "leads to 127.0.0.1, which is this proxy itself"),
    ];
    for (host, port, says) in cases {
        assert_eq!(reason(host, port), says);
    }
    let mail = Origin::new(Scheme::Https, "site.example", Some(25)).unwrap();
    let port = policy.check_connect(&mail).unwrap_err().to_string();
    assert!(port.contains("port 25") && port.contains("[egress] connect_ports"), "{port}");
}
