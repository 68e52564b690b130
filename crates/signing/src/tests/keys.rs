//! Key files: which are read, and what a reload makes of bad ones.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use super::*;
use crawlgate_text::pem;

#[test]
fn both_versions_of_a_key_are_read_and_printed_ones_are_refused() {
    let pair = Ed25519KeyPair::generate().unwrap();
    let public = URL_SAFE_NO_PAD.encode(pair.public_key().as_ref());
    let v1 = pem("PRIVATE KEY", pair.to_pkcs8v1().unwrap().as_ref());
    let v2 = pem("PRIVATE KEY", pair.to_pkcs8().unwrap().as_ref());
    assert_ne!(v1, v2);
    for text in [&v1, &v2, &format!("made by hand\n{v1}")] {
        assert_eq!(SigningKey::from_pem(text).unwrap().public(), public);
    }
    let vectors = vectors();
    let rfc9421 = text(&vectors, "private_key_pem").to_owned();
    // RFC 8037, A.1.
    let seed = URL_SAFE_NO_PAD.decode("nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A");
    let rfc8037 = Ed25519KeyPair::from_seed_unchecked(&seed.unwrap()).unwrap();
    let rfc8037 = pem("PRIVATE KEY", rfc8037.to_pkcs8v1().unwrap().as_ref());
    // Tests 2 and 3 of RFC 8032, 7.1.
    let rfc8032 = [
        "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
        "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
    ];
    let rfc8032 = rfc8032.map(|seed| {
        let octets = (0..32).map(|at| u8::from_str_radix(&seed[2 * at..2 * at + 2], 16).unwrap());
        let seed: Vec<u8> = octets.collect();
        let pair = Ed25519KeyPair::from_seed_unchecked(&seed).unwrap();
        pem("PRIVATE KEY", pair.to_pkcs8v1().unwrap().as_ref())
    });
    #[rustfmt::skip] // one row, one case
    let rows = [
        ("RFC 8410", "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n-----END PRIVATE KEY-----\n", "printed in a standard"),
        ("RFC 8032, test 2", &rfc8032[0], "printed in a standard"),
        ("RFC 8032, test 3", &rfc8032[1], "printed in a standard"),
        ("RFC 9421", rfc9421.as_str(), "printed in a standard"),
        ("RFC 8037", &rfc8037, "printed in a standard"),
        ("nothing", "", "no Ed25519 key"),
        ("a public key", "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAJrQLj5P/89iXES9+vFgrIy29clF9CC/oPPsw3c5D0bs=\n-----END PUBLIC KEY-----\n", "no Ed25519 key"),
        ("two keys", &format!("{v1}{v2}"), "more than one key"),
    ];
    for (name, text, why) in rows {
        let fault = SigningKey::from_pem(text).unwrap_err().to_string();
        assert!(fault.contains(why), "{name}: {fault}");
    }
}

#[test]
fn a_bad_key_does_not_replace_a_good_one() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let (a, b) = (file("a.key"), file("b.key"));
    let first = SigningKey::create(&a).unwrap();
    assert!(matches!(SigningKey::create(&a), Err(KeyFault::Exists)));
    let other = SigningKey::create(&b).unwrap();
    let of = |name: &str, key: &Path| settings(name, "https://bot.example/k", key);
    let in_force = Identities::load(&[of("a", &a), of("b", &b)]).unwrap();
    let signs =
        |all: &Identities, name: &str| all.get(name).map(|one| one.key().thumbprint().clone());
    assert_eq!(signs(&in_force, "a").as_ref(), Some(first.thumbprint()));

    type Change = fn(&Path);
    #[rustfmt::skip] // one row, one case
    let rows: [(&str, Change, &str); 4] = [
        ("open to others", |path| fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap(), "chmod 600"),
        ("nonsense", |path| { fs::remove_file(path).unwrap(); crawlgate_system::atomic_file::place(path, "x").unwrap(); }, "signing new"),
        ("gone", |path| fs::remove_file(path).unwrap(), "no such file"),
        ("a directory", |path| fs::create_dir(path).unwrap(), "not a regular file"),
    ];
    for (name, change, why) in rows {
        change(&a);
        let changed = [
            of("b", &b),
            of("a", &a),
            of("new", &a),
            Settings { lifetime: Duration::from_secs(7), ..of("same", &b) },
        ];
        let (after, faults) = in_force.reloaded(&changed);
        assert_eq!(signs(&after, "a").as_ref(), Some(first.thumbprint()), "{name}");
        assert_eq!(signs(&after, "b").as_ref(), Some(other.thumbprint()), "{name}");
        assert_eq!(signs(&after, "new"), None, "{name}");
        assert_eq!(signs(&after, "same"), None, "{name}");
        let faults: Vec<String> = faults.iter().map(IdentityError::to_string).collect();
        let [of_a, of_new, of_same] = faults.as_slice() else {
            panic!("{name}: {faults:?}");
        };
        let place = format!("key = {}", a.display());
        assert!(of_a.contains(why) && of_a.contains(&place), "{name}: {of_a}");
        assert!(of_new.contains("\"new\""), "{name}: {of_new}");
        assert!(of_same.contains("\"b\" has the same key"), "{name}: {of_same}");
        Identities::load(&changed).unwrap_err();
    }
}

#[test]
fn a_reload_leaves_no_two_identities_with_one_key() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let (a, b) = (file("a.key"), file("b.key"));
    SigningKey::create(&a).unwrap();
    SigningKey::create(&b).unwrap();
    let of = |name: &str, key: &Path| settings(name, "https://bot.example/k", key);
    let all = [of("a", &a), of("b", &b)];
    let in_force = Identities::load(&all).unwrap();
    let of_b = fs::read(&b).unwrap();
    fs::write(&a, &of_b).unwrap();
    for (name, content, faults_of_b) in [("its own", of_b, 1), ("nonsense", b"x".to_vec(), 2)] {
        fs::write(&b, content).unwrap();
        let (after, faults) = in_force.reloaded(&all);
        assert!(after.get("a").is_some(), "{name}");
        assert!(after.get("b").is_none(), "{name}: the key is another's now");
        let faults: Vec<String> = faults.iter().map(IdentityError::to_string).collect();
        assert_eq!(faults.len(), faults_of_b, "{name}: {faults:?}");
        let last = faults.last().unwrap();
        assert!(last.contains("\"a\" has the same key"), "{name}: {last}");
    }
}

#[test]
fn published_keys_that_are_not_there_are_left_out_and_bad_ones_are_faults() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    SigningKey::create(&file("a.key")).unwrap();
    let mut settings = settings("a", "https://bot.example/k", &file("a.key"));
    settings.publish = vec![file("a.key.next"), file("a.key.last")];
    let keys = |settings: &Settings| {
        let all = Identities::load(std::slice::from_ref(settings));
        all.map(|all| all.get("a").unwrap().keys().count())
    };
    assert_eq!(keys(&settings).unwrap(), 1);
    SigningKey::create(&file("a.key.next")).unwrap();
    assert_eq!(keys(&settings).unwrap(), 2);
    fs::write(file("a.key.last"), "x").unwrap();
    let fault = keys(&settings).unwrap_err().to_string();
    assert!(fault.contains("publish = ") && fault.contains("a.key.last"), "{fault}");
}
