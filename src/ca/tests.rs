use std::{
    fs,
    os::unix::fs::{DirBuilderExt as _, PermissionsExt as _},
    sync::Barrier,
    thread,
};

use super::*;

const NOW: Moment = Moment::from_millis(1_800_000_000_000);
const DAY: Duration = Duration::from_secs(86_400);

fn config(directory: &Path) -> TlsConfig {
    TlsConfig {
        ca_cert: directory.join("ca.crt"),
        ca_key: directory.join("ca.key"),
        leaf_lifetime: 7 * DAY,
        leaf_cache: 3,
        tunnel: Vec::new(),
        extra_roots: Vec::new(),
        name_constraints: Vec::new(),
    }
}

fn clock() -> Clock {
    Clock::manual(NOW)
}

fn authority() -> (tempfile::TempDir, Authority, Clock) {
    let directory = tempfile::tempdir().unwrap();
    let clock = clock();
    let authority = Authority::create(&config(directory.path()), clock.clone(), false).unwrap();
    (directory, authority, clock)
}

#[test]
fn a_created_authority_is_loaded_again_and_only_its_owner_may_read_the_key() {
    let directory = tempfile::tempdir().unwrap();
    let config = config(&directory.path().join("not/yet/there"));
    let created = Authority::load_or_create(&config, clock()).unwrap();
    let loaded = Authority::load_or_create(&config, clock()).unwrap();
    assert_eq!(created.fingerprint_sha256(), loaded.fingerprint_sha256());
    assert_eq!(
        created.certificate_pem().as_bytes(),
        fs::read(&config.ca_cert).unwrap()
    );
    assert!(
        created.subject().starts_with("CN=crawlgate local CA "),
        "{}",
        created.subject()
    );
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&config.ca_key), 0o600);
    assert_eq!(mode(config.ca_key.parent().unwrap()), 0o700);
    let left = fs::read_dir(config.ca_key.parent().unwrap())
        .unwrap()
        .count();
    assert_eq!(left, 2, "nothing but the two files is left behind");
}

#[test]
fn processes_that_start_together_agree_on_one_authority() {
    let directory = tempfile::tempdir().unwrap();
    let config = config(&directory.path().join("fresh"));
    let start = Barrier::new(8);
    let fingerprints: Vec<String> = thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    start.wait();
                    Authority::load_or_create(&config, clock())
                        .unwrap()
                        .fingerprint_sha256()
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    assert!(
        fingerprints.iter().all(|one| *one == fingerprints[0]),
        "{fingerprints:?}"
    );
}

#[test]
fn an_existing_authority_is_replaced_only_by_force() {
    let (directory, first, clock) = authority();
    let config = config(directory.path());
    let refused = Authority::create(&config, clock.clone(), false).unwrap_err();
    assert!(matches!(refused, CaError::Exists { .. }), "{refused}");
    let second = Authority::create(&config, clock, true).unwrap();
    assert_ne!(first.fingerprint_sha256(), second.fingerprint_sha256());
}

#[test]
fn every_refusal_names_the_file_and_the_way_out() {
    type Damage = fn(&TlsConfig);
    let cases: [(&str, Damage, &str, &[&str]); 13] = [
        (
            "no files at all",
            |config| {
                fs::remove_file(&config.ca_key).unwrap();
                fs::remove_file(&config.ca_cert).unwrap();
            },
            "Missing",
            &["ca.crt", "ca create"],
        ),
        (
            "the key is gone",
            |config| fs::remove_file(&config.ca_key).unwrap(),
            "Half",
            &["ca.key", "--force"],
        ),
        (
            "the certificate is gone",
            |config| fs::remove_file(&config.ca_cert).unwrap(),
            "Half",
            &["ca.crt", "--force"],
        ),
        (
            "the group may read the key",
            |config| {
                fs::set_permissions(&config.ca_key, fs::Permissions::from_mode(0o640)).unwrap();
            },
            "Exposed",
            &["ca.key", "640", "chmod 600"],
        ),
        (
            "others may read the key",
            |config| {
                fs::set_permissions(&config.ca_key, fs::Permissions::from_mode(0o604)).unwrap();
            },
            "Exposed",
            &["ca.key", "604", "chmod 600"],
        ),
        (
            "the key is a link to one that the group may read",
            |config| {
                let elsewhere = config.ca_key.with_file_name("elsewhere.key");
                fs::rename(&config.ca_key, &elsewhere).unwrap();
                fs::set_permissions(&elsewhere, fs::Permissions::from_mode(0o640)).unwrap();
                std::os::unix::fs::symlink(&elsewhere, &config.ca_key).unwrap();
            },
            "Exposed",
            &["ca.key", "640"],
        ),
        (
            "the key is a pipe",
            |config| {
                fs::remove_file(&config.ca_key).unwrap();
                let mode = rustix::fs::Mode::from_raw_mode(0o600);
                rustix::fs::mkfifoat(rustix::fs::CWD, &config.ca_key, mode).unwrap();
            },
            "Io",
            &["[tls] ca_key: cannot read", "not a regular file"],
        ),
        (
            "the key cannot be read",
            |config| {
                fs::remove_file(&config.ca_key).unwrap();
                fs::DirBuilder::new()
                    .mode(0o700)
                    .create(&config.ca_key)
                    .unwrap();
            },
            "Io",
            &["[tls] ca_key: cannot read", "ca.key"],
        ),
        (
            "the certificate cannot be read",
            |config| {
                fs::remove_file(&config.ca_cert).unwrap();
                fs::create_dir(&config.ca_cert).unwrap();
            },
            "Io",
            &["[tls] ca_cert: cannot read", "ca.crt"],
        ),
        (
            "the key is cut short",
            |config| fs::write(&config.ca_key, "-----BEGIN PRIVATE KEY-----\nMIGH").unwrap(),
            "Malformed",
            &["ca.key", "private key"],
        ),
        (
            "the certificate is no PEM",
            |config| fs::write(&config.ca_cert, "hello").unwrap(),
            "Malformed",
            &["ca.crt", "certificate"],
        ),
        (
            "the certificate is PEM around rubbish",
            |config| {
                let rubbish = crate::text::pem("CERTIFICATE", b"rubbish");
                fs::write(&config.ca_cert, rubbish).unwrap();
            },
            "Malformed",
            &["ca.crt", "--force"],
        ),
        (
            "the key is another authority's",
            |config| {
                let other = tempfile::tempdir().unwrap();
                let other = super::tests::config(other.path());
                Authority::create(&other, clock(), false).unwrap();
                fs::copy(&other.ca_key, &config.ca_key).unwrap();
            },
            "Mismatch",
            &["ca.key", "ca.crt"],
        ),
    ];
    for (name, damage, variant, words) in cases {
        let (directory, _, clock) = authority();
        let config = config(directory.path());
        damage(&config);
        let error = Authority::load(&config, clock).unwrap_err();
        assert!(
            format!("{error:?}").starts_with(variant),
            "{name}: {error:?}"
        );
        for word in words {
            assert!(
                error.to_string().contains(word),
                "{name}: no {word:?} in {error}"
            );
        }
    }
}

#[test]
fn an_authority_is_refused_outside_its_validity() {
    let (directory, authority, clock) = authority();
    clock.set(authority.not_after());
    let error = authority.server_config("late.example").unwrap_err();
    assert!(
        matches!(error, CaError::Expired { .. }),
        "while running: {error}"
    );
    let error = Authority::load(&config(directory.path()), clock.clone()).unwrap_err();
    assert!(
        matches!(error, CaError::Expired { .. }),
        "at start: {error}"
    );
    clock.set(authority.not_before() - Duration::from_secs(1));
    let error = Authority::load(&config(directory.path()), clock).unwrap_err();
    assert!(matches!(error, CaError::NotYetValid { .. }), "{error}");
}

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
    assert!(Arc::ptr_eq(
        &renewed,
        &authority.server_config("a.example").unwrap()
    ));
}

#[test]
fn the_cache_is_bounded_and_keeps_used_entries() {
    let (_directory, authority, _) = authority();
    let busy = authority.server_config("busy.example").unwrap();
    for number in 0..50 {
        authority
            .server_config(&format!("{number}.example"))
            .unwrap();
        let hit = authority.server_config("busy.example").unwrap();
        assert!(Arc::ptr_eq(&busy, &hit), "after {number} other hosts");
        assert!(
            authority.cache.len() <= 3,
            "{} entries",
            authority.cache.len()
        );
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
        assert!(
            matches!(result, Err(CaError::Host { .. })),
            "{name}: {result:?}"
        );
    }
    assert_eq!(authority.cache.len(), 0);
}

#[test]
fn the_chain_ends_in_the_authority_and_the_leaf_passes_strict_verifiers() {
    use x509_parser::prelude::{FromDer as _, GeneralName, ParsedExtension, X509Certificate};

    let (_directory, authority, _) = authority();
    let long = format!("{}.{}.example", "a".repeat(60), "b".repeat(60));
    let cases = [
        ("a name", "Example.COM", "DNSName(example.com)", true),
        (
            "a trailing dot",
            "dot.example.",
            "DNSName(dot.example)",
            true,
        ),
        ("an underscore", "a_b.example", "DNSName(a_b.example)", true),
        ("IPv4", "192.0.2.1", "IPAddress(192.0.2.1)", true),
        (
            "IPv6 in brackets",
            "[2001:db8::1]",
            "IPAddress(32.1.13.184.0.0.0.0.0.0.0.0.0.0.0.1)",
            true,
        ),
        (
            "IPv6",
            "::1",
            "IPAddress(0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.1)",
            true,
        ),
        (
            "longer than a common name may be",
            &long,
            &format!("DNSName({long})"),
            false,
        ),
    ];
    let (_, ca) = X509Certificate::from_der(authority.certificate_der()).unwrap();
    assert!(ca.is_ca() && ca.basic_constraints().unwrap().unwrap().critical);
    assert_eq!(
        ca.basic_constraints()
            .unwrap()
            .unwrap()
            .value
            .path_len_constraint,
        Some(0)
    );
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
        assert_eq!(
            leaf.subject().iter_common_name().count() == 1,
            named,
            "{case}"
        );
        assert_eq!(leaf.issuer().as_raw(), ca.subject().as_raw(), "{case}");
        leaf.verify_signature(Some(ca.public_key())).unwrap();
        assert!(!leaf.is_ca(), "{case}");
        let usage = leaf.key_usage().unwrap().unwrap();
        assert!(
            usage.critical && usage.value.digital_signature() && usage.value.flags == 1,
            "{case}"
        );
        let usage = leaf.extended_key_usage().unwrap().unwrap();
        assert!(
            usage.value.server_auth && !usage.value.client_auth,
            "{case}"
        );
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
        let mut ids = KeyIds {
            subject: None,
            authority: None,
        };
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
fn a_key_may_stand_behind_a_link_but_belong_to_nobody_else() {
    let (directory, _, clock) = authority();
    let config = config(directory.path());
    let elsewhere = directory.path().join("elsewhere.key");
    fs::rename(&config.ca_key, &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &config.ca_key).unwrap();
    Authority::load(&config, clock.clone()).unwrap();
    // Only root can give a file away.
    if std::os::unix::fs::chown(&elsewhere, Some(65_534), None).is_ok() {
        let error = Authority::load(&config, clock).unwrap_err();
        assert!(
            matches!(error, CaError::Foreign { owner: 65_534, .. }),
            "{error:?}"
        );
    }
}

#[test]
fn root_leaves_a_services_files_to_the_service() {
    use std::os::unix::fs::{MetadataExt as _, chown};

    let (directory, _, clock) = authority();
    let config = config(directory.path());
    for path in [directory.path(), &config.ca_key, &config.ca_cert] {
        // Only root can give a file away.
        if chown(path, Some(65_534), Some(65_534)).is_err() {
            return;
        }
    }
    Authority::begin_rotation(&config, clock.clone()).unwrap();
    Authority::finish_rotation(&config, clock.clone(), true).unwrap();
    Authority::begin_rotation(&config, clock).unwrap();
    for entry in fs::read_dir(directory.path()).unwrap() {
        let entry = entry.unwrap();
        let owner = entry.metadata().unwrap().uid();
        assert_eq!(owner, 65_534, "{:?}", entry.file_name());
    }
}

#[test]
fn a_constrained_authority_signs_only_for_permitted_hosts() {
    use crate::config::Subtree;

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
        match within {
            true => drop(config.unwrap()),
            false => {
                let error = config.unwrap_err();
                assert!(
                    matches!(error, CaError::Outside { .. }),
                    "{host}: {error:?}"
                );
            }
        }
    }
    let (_directory, free, _) = self::authority();
    assert!(free.covers("anything.example") && free.name_constraints().is_empty());
}
