//! The files of an authority: created, loaded, replaced, and refused with the way out.

use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::sync::Barrier;
use std::{fs, thread};

use super::*;

#[test]
fn a_created_authority_is_loaded_again_and_only_its_owner_may_read_the_key() {
    let directory = tempfile::tempdir().unwrap();
    let config = config(&directory.path().join("not/yet/there"));
    let created = Authority::load_or_create(&config, clock()).unwrap();
    let loaded = Authority::load_or_create(&config, clock()).unwrap();
    assert_eq!(created.fingerprint_sha256(), loaded.fingerprint_sha256());
    assert_eq!(created.certificate_pem().as_bytes(), fs::read(&config.ca_cert).unwrap());
    assert!(created.subject().starts_with("CN=crawlgate local CA "), "{}", created.subject());
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&config.ca_key), 0o600);
    assert_eq!(mode(config.ca_key.parent().unwrap()), 0o700);
    let left = fs::read_dir(config.ca_key.parent().unwrap()).unwrap().count();
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
                    Authority::load_or_create(&config, clock()).unwrap().fingerprint_sha256()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(fingerprints.iter().all(|one| *one == fingerprints[0]), "{fingerprints:?}");
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
    #[rustfmt::skip] // one row, one case
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
        ("the key is gone", |config| fs::remove_file(&config.ca_key).unwrap(), "Half", &["ca.key", "--force"]),
        ("the certificate is gone", |config| fs::remove_file(&config.ca_cert).unwrap(), "Half", &["ca.crt", "--force"]),
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
        ("the certificate is no PEM", |config| fs::write(&config.ca_cert, "hello").unwrap(), "Malformed", &["ca.crt", "certificate"]),
        (
            "the certificate is PEM around rubbish",
            |config| {
                let rubbish = crawlgate_text::pem("CERTIFICATE", b"rubbish");
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
        assert!(format!("{error:?}").starts_with(variant), "{name}: {error:?}");
        for word in words {
            assert!(error.to_string().contains(word), "{name}: no {word:?} in {error}");
        }
    }
}

#[test]
fn an_authority_is_refused_outside_its_validity() {
    let (directory, authority, clock) = authority();
    clock.set(authority.not_after());
    let error = authority.server_config("late.example").unwrap_err();
    assert!(matches!(error, CaError::Expired { .. }), "while running: {error}");
    let error = Authority::load(&config(directory.path()), clock.clone()).unwrap_err();
    assert!(matches!(error, CaError::Expired { .. }), "at start: {error}");
    clock.set(authority.not_before() - Duration::from_secs(1));
    let error = Authority::load(&config(directory.path()), clock).unwrap_err();
    assert!(matches!(error, CaError::NotYetValid { .. }), "{error}");
}

#[test]
fn a_key_behind_a_link_must_belong_to_this_user() {
    let (directory, _, clock) = authority();
    let config = config(directory.path());
    let elsewhere = directory.path().join("elsewhere.key");
    fs::rename(&config.ca_key, &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &config.ca_key).unwrap();
    Authority::load(&config, clock.clone()).unwrap();
    // Only root can give a file away.
    if std::os::unix::fs::chown(&elsewhere, Some(65_534), None).is_ok() {
        let error = Authority::load(&config, clock).unwrap_err();
        assert!(matches!(error, CaError::Foreign { owner: 65_534, .. }), "{error:?}");
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
fn only_a_directory_that_is_visibly_ours_is_given_a_key() {
    let made = tempfile::tempdir().unwrap();
    let made_here = config(made.path());

    Authority::create(&made_here, clock(), false).unwrap();
    let ours = std::fs::read(&made_here.ca_cert).unwrap();
    let root = webpki_root_certs::TLS_SERVER_ROOT_CERTS.first().unwrap();
    let foreign = crawlgate_text::pem("CERTIFICATE", root).into_bytes();
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../certs/README.md");
    let readme = std::fs::read(readme).unwrap();

    type Case<'a> = (&'a str, &'a [(&'a str, &'a [u8])], bool);
    #[rustfmt::skip] // one row, one case
    let cases: [Case<'_>; 7] = [
        ("an empty directory", &[], false),
        ("another program's certificate", &[("server.crt", &foreign), ("server.key", b"x")], false),
        ("another program's authority", &[("ca.crt", &foreign)], false),
        ("another program's notes", &[("README.md", b"# certs/\n\nNot crawlgate's certs/")], false),
        ("our authority", &[("ca.crt", &ours)], true),
        ("our README, as a working copy has it", &[("README.md", &readme)], true),
        ("our README and an authority of one's own", &[("README.md", &readme), ("ca.crt", &foreign)], true),
    ];
    for (name, files, expected) in cases {
        let certs = tempfile::tempdir().unwrap();
        for (file, octets) in files {
            std::fs::write(certs.path().join(file), octets).unwrap();
        }
        assert_eq!(crawlgate_config::places::is_ours(certs.path()), expected, "{name}");
    }
    assert!(!crawlgate_config::places::is_ours(&made.path().join("none")), "no directory");
}
