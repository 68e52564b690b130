use std::os::unix::fs::PermissionsExt as _;

use super::*;

const DAY: Duration = Duration::from_secs(86_400);

fn config(directory: &Path) -> TlsConfig {
    TlsConfig {
        ca_cert: directory.join("ca.crt"),
        ca_key: directory.join("ca.key"),
        leaf_lifetime: 7 * DAY,
        leaf_cache: 3,
        ..crawlgate_config::Config::default().tls
    }
}

/// Files are dated by the real clock, so the manual one starts there.
fn with_authority() -> (tempfile::TempDir, TlsConfig, Clock) {
    let directory = tempfile::tempdir().unwrap();
    let config = config(directory.path());
    let clock = Clock::manual(Clock::system().now());
    Authority::create(&config, clock.clone(), false).unwrap();
    (directory, config, clock)
}

fn names(directory: &tempfile::TempDir) -> Vec<String> {
    let entries = fs::read_dir(directory.path()).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

fn fingerprints(authority: &Authority) -> Vec<String> {
    let trusted = authority.trusted_der();
    let shown = trusted.iter().map(|der| text::colon_hex(&text::sha256(der)));
    shown.collect()
}

#[test]
fn both_are_trusted_from_the_first_step_and_the_next_signs_from_the_second() {
    let (directory, config, clock) = with_authority();
    let first = Authority::load(&config, clock.clone()).unwrap();
    // So that the first authority expires first.
    clock.advance(365 * DAY);
    let begun = Authority::begin_rotation(&config, clock.clone()).unwrap();
    let next = begun.next().unwrap().fingerprint_sha256();
    assert_eq!(begun.fingerprint_sha256(), first.fingerprint_sha256());
    assert_eq!(fingerprints(&begun), [first.fingerprint_sha256(), next.clone()]);
    assert_eq!(begun.trusted_pem().matches("BEGIN CERTIFICATE").count(), 2);
    assert!(!first.has_same_signer(&begun), "a running process must take it over");
    assert_eq!(names(&directory), ["ca.crt", "ca.key", "ca.next.crt", "ca.next.key"]);
    let mode = fs::metadata(directory.path().join("ca.next.key")).unwrap();
    assert_eq!(mode.permissions().mode() & 0o777, 0o600);

    clock.advance(8 * DAY);
    let finished = Authority::finish_rotation(&config, clock.clone(), false).unwrap();
    assert_eq!(finished.fingerprint_sha256(), next);
    assert_eq!(fingerprints(&finished), [next, first.fingerprint_sha256()]);
    assert_eq!(names(&directory), ["ca.crt", "ca.key", "ca.old.crt"], "the old key is gone");
    finished.server_config("a.example").unwrap();

    clock.set(first.not_after());
    let later = Authority::load(&config, clock.clone()).unwrap();
    assert_eq!(fingerprints(&later).len(), 1, "it has expired");
    Authority::begin_rotation(&config, clock.clone()).unwrap();
    clock.advance(8 * DAY);
    Authority::finish_rotation(&config, clock, false).unwrap();
    let old = fs::read_to_string(directory.path().join("ca.old.crt")).unwrap();
    assert_eq!(old.matches("BEGIN CERTIFICATE").count(), 1, "the expired one is dropped");
}

#[test]
fn a_step_out_of_turn_is_refused_and_says_the_way_out() {
    type Step = fn(&TlsConfig, Clock) -> Result<(), CaError>;
    let begin: Step = |config, clock| Authority::begin_rotation(config, clock).map(drop);
    let finish: Step = |config, clock| Authority::finish_rotation(config, clock, false).map(drop);
    #[rustfmt::skip] // one row, one case
    let cases: [(&str, &[Step], Step, &[&str]); 3] = [
        ("nothing to finish", &[], finish, &["ca.next.crt", "ca rotate"]),
        ("begun twice", &[begin], begin, &["ca.next.crt", "--finish", "--cancel"]),
        ("too early", &[begin], finish, &["wait until", "--force"]),
    ];
    for (name, before, step, words) in cases {
        let (_directory, config, clock) = with_authority();
        for step in before {
            step(&config, clock.clone()).unwrap();
        }
        let first = Authority::load(&config, clock.clone()).unwrap();
        let error = step(&config, clock.clone()).unwrap_err().to_string();
        for word in words {
            assert!(error.contains(word), "{name}: no {word:?} in {error}");
        }
        let after = Authority::load(&config, clock).unwrap();
        assert!(first.has_same_signer(&after), "{name}: something has changed");
    }
}

#[test]
fn force_finishes_early_and_cancel_drops_the_next_one() {
    let (directory, config, clock) = with_authority();
    let first = Authority::begin_rotation(&config, clock.clone()).unwrap();
    Authority::cancel_rotation(&config).unwrap();
    assert_eq!(names(&directory), ["ca.crt", "ca.key"]);
    Authority::cancel_rotation(&config).unwrap();
    let begun = Authority::begin_rotation(&config, clock.clone()).unwrap();
    let next = begun.next().unwrap().fingerprint_sha256();
    assert_ne!(first.next().unwrap().fingerprint_sha256(), next);
    let finished = Authority::finish_rotation(&config, clock, true).unwrap();
    assert_eq!(finished.fingerprint_sha256(), next);
}

#[test]
fn whatever_a_power_cut_leaves_signs_and_can_be_completed() {
    type Cut = fn(&Path);
    #[rustfmt::skip] // one row, one case
    let cases: [(&str, Cut, bool); 3] = [
        ("after the next key was written", |at| fs::remove_file(at.join("ca.next.crt")).unwrap(), false),
        ("after the old certificate was kept", |at| { fs::copy(at.join("ca.crt"), at.join("ca.old.crt")).unwrap(); }, false),
        (
            "after the key was moved",
            |at| {
                fs::copy(at.join("ca.crt"), at.join("ca.old.crt")).unwrap();
                fs::rename(at.join("ca.next.key"), at.join("ca.key")).unwrap();
            },
            true,
        ),
    ];
    for (name, cut, moved) in cases {
        let (directory, config, clock) = with_authority();
        let begun = Authority::begin_rotation(&config, clock.clone()).unwrap();
        let next = begun.next().unwrap().fingerprint_sha256();
        cut(directory.path());
        let found = Authority::load_or_create(&config, clock.clone()).unwrap();
        found.server_config("a.example").unwrap();
        assert_eq!(found.fingerprint_sha256() == next, moved, "{name}");
        if moved {
            assert_eq!(fingerprints(&found).len(), 2, "{name}: the old one is trusted");
            for refused in [
                Authority::cancel_rotation(&config).map(drop),
                Authority::begin_rotation(&config, clock.clone()).map(drop),
            ] {
                assert!(matches!(refused, Err(CaError::Interrupted { .. })), "{name}: {refused:?}");
            }
        } else if found.next().is_none() {
            Authority::begin_rotation(&config, clock.clone()).unwrap();
        }
        clock.advance(8 * DAY);
        let finished = Authority::finish_rotation(&config, clock, false).unwrap();
        assert_ne!(finished.fingerprint_sha256(), begun.fingerprint_sha256(), "{name}");
        assert_eq!(fingerprints(&finished).len(), 2, "{name}");
        assert_eq!(names(&directory), ["ca.crt", "ca.key", "ca.old.crt"], "{name}");
    }
}

#[test]
fn a_new_authority_by_force_forgets_the_others() {
    let (directory, config, clock) = with_authority();
    Authority::begin_rotation(&config, clock.clone()).unwrap();
    Authority::finish_rotation(&config, clock.clone(), true).unwrap();
    Authority::begin_rotation(&config, clock.clone()).unwrap();
    let alone = Authority::create(&config, clock.clone(), true).unwrap();
    assert_eq!(fingerprints(&alone).len(), 1);
    let loaded = Authority::load(&config, clock).unwrap();
    assert!(alone.has_same_signer(&loaded));
    assert_eq!(names(&directory), ["ca.crt", "ca.key"]);
}

#[test]
fn a_fault_beside_the_authority_is_named() {
    for (file, contents) in [("ca.next.crt", "hello"), ("ca.old.crt", "-----BEGIN")] {
        let (directory, config, clock) = with_authority();
        fs::write(directory.path().join(file), contents).unwrap();
        let error = Authority::load(&config, clock.clone()).unwrap_err();
        assert!(matches!(error, CaError::Beside { .. }), "{error:?}");
        assert!(error.to_string().contains(file), "{error}");
    }
    let (directory, config, clock) = with_authority();
    Authority::begin_rotation(&config, clock.clone()).unwrap();
    let other = directory.path().join("other");
    fs::create_dir(&other).unwrap();
    Authority::create(&self::config(&other), clock.clone(), false).unwrap();
    fs::copy(other.join("ca.key"), directory.path().join("ca.next.key")).unwrap();
    let error = Authority::finish_rotation(&config, clock.clone(), true).unwrap_err();
    assert!(matches!(error, CaError::Mismatch { .. }), "{error:?}");
    assert!(Authority::load(&config, clock).is_ok(), "nothing has moved");
}

#[test]
fn the_next_one_is_called_for_in_the_last_thirty_days() {
    let (_directory, config, clock) = with_authority();
    let authority = Authority::load(&config, clock.clone()).unwrap();
    clock.set(authority.not_after() - 31 * DAY);
    assert!(!authority.needs_successor());
    clock.advance(2 * DAY);
    assert!(authority.needs_successor());
    let begun = Authority::begin_rotation(&config, clock).unwrap();
    assert!(!begun.needs_successor());
}
