//! The leaves that an authority signs: their validity, their cache, and what verifiers say of them.

use super::*;

#[test]
fn a_leaf_that_was_made_while_the_clock_was_ahead_is_made_anew() {
    let (_directory, authority, clock) = authority();
    let right = clock.now();
    let leaf = |name| authority.server_config(name).unwrap();
    clock.set(right + 40 * DAY);
    let ahead = leaf("a.example");
    assert!(Arc::ptr_eq(&ahead, &leaf("a.example")));
    clock.set(right);
    let anew = leaf("a.example");
    assert!(!Arc::ptr_eq(&ahead, &anew), "not valid for another 40 days");
    assert!(Arc::ptr_eq(&anew, &leaf("a.example")), "once");
    // A configuration that is still valid by a clock set back a little is kept.
    clock.set(right - Duration::from_secs(60));
    assert!(Arc::ptr_eq(&anew, &leaf("a.example")));
    // A configuration made by a clock behind is expired when the clock is right.
    clock.set(right + 40 * DAY);
    assert!(!Arc::ptr_eq(&anew, &leaf("a.example")));
}

#[test]
fn a_leaf_is_made_once_and_again_before_it_expires() {
    let (_directory, authority, clock) = authority();
    let first = authority.server_config("a.example").unwrap();
    clock.advance(5 * DAY);
    let same = authority.server_config("a.example").unwrap();
    assert!(Arc::ptr_eq(&first, &same), "five of seven days old");
    clock.advance(DAY);
    let renewed = authority.server_config("a.example").unwrap();
    assert!(!Arc::ptr_eq(&first, &renewed), "six of seven days old");
    assert!(Arc::ptr_eq(&renewed, &authority.server_config("a.example").unwrap()));
}

#[test]
fn the_cache_is_bounded_and_keeps_used_entries() {
    let (_directory, authority, _) = authority();
    let busy = authority.server_config("busy.example").unwrap();
    for number in 0..50 {
        authority.server_config(&format!("{number}.example")).unwrap();
        let hit = authority.server_config("busy.example").unwrap();
        assert!(Arc::ptr_eq(&busy, &hit), "after {number} other hosts");
        assert!(authority.cache.len() <= 3, "{} entries", authority.cache.len());
    }
}

#[test]
fn hosts_that_cannot_stand_in_a_certificate_are_errors() {
    let (_directory, authority, _) = authority();
    let long_label = format!("{}.example", "a".repeat(64));
    let long_name = vec!["a"; 200].join(".");
    let cases = [
        ("nothing", ""),
        ("a dot", "."),
        ("a wildcard", "*.example.com"),
        ("a space", "a b.example"),
        ("an empty label", "a..example"),
        ("a port", "a.example:443"),
        ("a NUL", "a\0.example"),
        ("raw Unicode", "bücher.example"),
        ("a label of 64 octets", long_label.as_str()),
        ("a name of 399 octets", long_name.as_str()),
        ("an open bracket", "[::1"),
        ("a name in brackets", "[a.example]"),
        ("an address with a zone", "fe80::1%eth0"),
    ];
    for (name, host) in cases {
        let result = authority.server_config(host);
        assert!(matches!(result, Err(CaError::Host { .. })), "{name}: {result:?}");
    }
    assert_eq!(authority.cache.len(), 0);
}

#[test]
fn the_chain_ends_in_the_authority_and_the_leaf_passes_strict_verifiers() {
    use x509_parser::prelude::{FromDer as _, GeneralName, ParsedExtension, X509Certificate};

    let (_directory, authority, _) = authority();
    let long = format!("{}.{}.example", "a".repeat(60), "b".repeat(60));
    #[rustfmt::skip] // one row, one case
    let cases = [
        ("a name", "Example.COM", "DNSName(example.com)", true),
        ("a trailing dot", "dot.example.", "DNSName(dot.example)", true),
        ("an underscore", "a_b.example", "DNSName(a_b.example)", true),
        ("IPv4", "192.0.2.1", "IPAddress(192.0.2.1)", true),
        ("IPv6 in brackets", "[2001:db8::1]", "IPAddress(32.1.13.184.0.0.0.0.0.0.0.0.0.0.0.1)", true),
        ("IPv6", "::1", "IPAddress(0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.1)", true),
        ("longer than a common name may be", &long, &format!("DNSName({long})"), false),
    ];
    let (_, ca) = X509Certificate::from_der(authority.certificate_der()).unwrap();
    assert!(ca.is_ca() && ca.basic_constraints().unwrap().unwrap().critical);
    assert_eq!(ca.basic_constraints().unwrap().unwrap().value.path_len_constraint, Some(0));
    assert!(ca.key_usage().unwrap().unwrap().critical);

    for (case, host, san, named) in cases {
        let (leaf, _) = authority.leaf(host, NOW).unwrap();
        let (_, leaf) = X509Certificate::from_der(&leaf).unwrap();
        let names = leaf.subject_alternative_name().unwrap().unwrap();
        let names: Vec<String> = names
            .value
            .general_names
            .iter()
            .map(|name| match name {
                GeneralName::IPAddress(octets) => {
                    let octets: Vec<String> = octets.iter().map(u8::to_string).collect();
                    format!("IPAddress({})", octets.join("."))
                }
                GeneralName::DNSName(name) => format!("DNSName({name})"),
                other => format!("{other:?}"),
            })
            .collect();
        assert_eq!(names, [san], "{case}");
        assert_eq!(leaf.subject().iter_common_name().count() == 1, named, "{case}");
        assert_eq!(leaf.issuer().as_raw(), ca.subject().as_raw(), "{case}");
        leaf.verify_signature(Some(ca.public_key())).unwrap();
        assert!(!leaf.is_ca(), "{case}");
        let usage = leaf.key_usage().unwrap().unwrap();
        assert!(
            usage.critical && usage.value.digital_signature() && usage.value.flags == 1,
            "{case}"
        );
        let usage = leaf.extended_key_usage().unwrap().unwrap();
        assert!(usage.value.server_auth && !usage.value.client_auth, "{case}");
        assert_eq!(key_ids(&leaf).authority, key_ids(&ca).subject, "{case}");
        assert!(key_ids(&leaf).subject.is_some(), "{case}");
        let days = leaf.validity().not_after.timestamp() - NOW.as_millis() as i64 / 1000;
        assert_eq!(days, 7 * 86_400, "{case}");
    }

    struct KeyIds {
        subject: Option<Vec<u8>>,
        authority: Option<Vec<u8>>,
    }
    fn key_ids(certificate: &X509Certificate<'_>) -> KeyIds {
        let mut ids = KeyIds { subject: None, authority: None };
        for extension in certificate.extensions() {
            match extension.parsed_extension() {
                ParsedExtension::SubjectKeyIdentifier(id) => ids.subject = Some(id.0.to_vec()),
                ParsedExtension::AuthorityKeyIdentifier(id) => {
                    ids.authority = id.key_identifier.as_ref().map(|id| id.0.to_vec());
                }
                _ => {}
            }
        }
        ids
    }
}

#[test]
fn a_leaf_never_outlives_its_authority() {
    use x509_parser::prelude::{FromDer as _, X509Certificate};

    let (_directory, authority, clock) = authority();
    clock.set(authority.not_after() - DAY);
    let (_, life) = authority.mint("last.example", clock.now()).unwrap();
    assert!(life.renew_at < authority.not_after());
    let (leaf, expires) = authority.leaf("last.example", clock.now()).unwrap();
    assert_eq!(expires, authority.not_after());
    let (_, leaf) = X509Certificate::from_der(&leaf).unwrap();
    let (_, ca) = X509Certificate::from_der(authority.certificate_der()).unwrap();
    assert_eq!(leaf.validity().not_after, ca.validity().not_after);
}

#[test]
fn a_constrained_authority_signs_only_for_permitted_hosts() {
    use crawlgate_config::Subtree;

    let directory = tempfile::tempdir().unwrap();
    let subtrees = ["example.com", "10.0.0.0/8", "2001:db8::/32"];
    let config = TlsConfig {
        name_constraints: subtrees.map(|text| Subtree::new(text).unwrap()).to_vec(),
        ..config(directory.path())
    };
    Authority::create(&config, clock(), false).unwrap();
    let authority = Authority::load(&config, clock()).unwrap();
    assert_eq!(authority.name_constraints(), subtrees);
    assert!(authority.is_held_to(&config.name_constraints));
    assert!(!authority.is_held_to(&[]));
    for (host, within) in [
        ("example.com", true),
        ("www.EXAMPLE.com", true),
        ("10.1.2.3", true),
        ("[2001:db8::1]", true),
        ("example.org", false),
        ("badexample.com", false),
        ("192.0.2.1", false),
        ("::1", false),
    ] {
        assert_eq!(authority.covers(host), within, "{host}");
        let config = authority.server_config(host);
        if within {
            drop(config.unwrap());
        } else {
            let error = config.unwrap_err();
            assert!(matches!(error, CaError::Outside { .. }), "{host}: {error:?}");
        }
    }
    let (_directory, free, _) = self::authority();
    assert!(free.covers("anything.example") && free.name_constraints().is_empty());
}
