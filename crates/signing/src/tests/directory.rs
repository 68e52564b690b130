//! The directories of identities, their proofs, and the counts of identities.

use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::signature::{ED25519, UnparsedPublicKey};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};

use super::settings;
use crate::directory::content;
use crate::{Directory, Form, Identities, Outcome, Settings, SigningKey};
use crawlgate_system::clock::Moment;

#[test]
fn the_directory_of_an_authority_lists_its_keys_once_each_with_its_proof() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let made = ["a.key", "b.key", "c.key", "next.key"].map(|name| {
        let path = file(name);
        (SigningKey::create(&path).unwrap(), path)
    });
    let [(a, _), (b, _), (c, _), (next, _)] = &made;
    let of = |name: &str, agent: &str, key: &str| Settings {
        publish: vec![file("next.key")],
        ..settings(name, agent, &file(key))
    };
    let all = Identities::load(&[
        of("a", "https://Bot.example/keys", "a.key"),
        of("b", "https://bot.example:443", "b.key"),
        of("c", "https://other.example:8443/k", "c.key"),
    ])
    .unwrap();
    let now = Moment::from_millis(1_795_219_200_000);
    let at = |authority: &str| all.directory(authority, now);
    for stranger in
        ["", "evil.example", "bot.example:444", "other.example", "bot.example/x y", "a@b@c"]
    {
        assert_eq!(at(stranger), None, "{stranger:?}");
    }
    for (authority, canonical, keys) in [
        ("bot.example", "bot.example", [a, next, b].as_slice()),
        ("BOT.example:443", "bot.example", [a, next, b].as_slice()),
        ("other.example:8443", "other.example:8443", [c, next].as_slice()),
    ] {
        let directory = at(authority).unwrap();
        assert_eq!((directory.body.clone(), directory.digest.clone()), content(keys));
        let inputs: Vec<&str> = directory.input.split(", ").collect();
        let signatures: Vec<&str> = directory.signature.split(", ").collect();
        assert_eq!((inputs.len(), signatures.len()), (keys.len(), keys.len()));
        for (place, key) in keys.iter().enumerate() {
            let input = inputs[place].strip_prefix(&format!("binding{place}=")).unwrap();
            let want = format!(
                r#"("@authority";req "content-digest");created=1795219200;expires=1797811200;keyid="{}";tag="http-message-signatures-directory""#,
                key.thumbprint()
            );
            assert_eq!(input, want);
            let base = format!(
                "\"@authority\";req: {canonical}\n\"content-digest\": {}\n\"@signature-params\": {input}",
                directory.digest
            );
            let signature = signatures[place].strip_prefix(&format!("binding{place}=:")).unwrap();
            let signature = STANDARD.decode(signature.strip_suffix(':').unwrap()).unwrap();
            let public = URL_SAFE_NO_PAD.decode(key.public()).unwrap();
            let public = UnparsedPublicKey::new(&ED25519, public);
            public.verify(base.as_bytes(), &signature).unwrap();
        }
    }
    assert_eq!(Directory::of(std::iter::empty(), now), None);
    assert_eq!(
        Directory::of(all.iter().map(|one| &**one), now).unwrap().body,
        content(&[a, next, b, c]).0
    );

    let again = |days: u32| at_time(&all, now + days * DAY);
    let first = again(0);
    assert!(Arc::ptr_eq(&first, &again(14)), "half of the proofs' time is left");
    let second = again(16);
    assert!(second.input.contains(";created=1796601600;"), "{}", second.input);
    assert!(Arc::ptr_eq(&second, &again(16)));
    assert!(!Arc::ptr_eq(&second, &again(0)), "a proof from the future is not used");
}

const DAY: Duration = Duration::from_secs(86_400);

fn at_time(all: &Identities, now: Moment) -> Arc<Directory> {
    all.directory("bot.example", now).unwrap()
}

#[test]
fn the_well_known_directory_lists_identities_that_are_looked_up_there() {
    let folder = tempfile::tempdir().unwrap();
    let made = ["a", "b", "c", "d"].map(|name| {
        let path = folder.path().join(name);
        (SigningKey::create(&path).unwrap(), path)
    });
    let [(_, a), (b, at_b), (c, at_c), (d, at_d)] = &made;
    let well_known = "https://bot.example/.well-known/http-message-signatures-directory";
    let all = [
        settings("a", "https://bot.example/a.json", a),
        settings("b", well_known, at_b),
        Settings { form: Form::String, ..settings("c", "https://bot.example/c.json", at_c) },
        settings("d", well_known, at_d),
    ];
    let now = Moment::from_millis(1_795_219_200_000);
    let of = |all: &[Settings]| at_time(&Identities::load(all).unwrap(), now).body.clone();
    assert_eq!(of(&all), content(&[b, c, d]).0);
    assert_eq!(of(&all[..1]), content(&[&made[0].0]).0, "the only one there");
}

#[test]
fn an_identity_without_a_key_is_counted_and_keeps_its_counts() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key");
    SigningKey::create(&path).unwrap();
    let all = [settings("news", "https://bot.example/", &path)];
    let shown = |all: &Identities| {
        let mut counts = all.counts();
        let (name, [.., (result, count)]) = counts.next().unwrap();
        assert_eq!((name, result, counts.next()), ("news", "unsignable", None));
        count
    };
    let loaded = Identities::load(&all).unwrap();
    assert_eq!(shown(&loaded), 0, "the series is there before the first request");
    loaded.counters("news").unwrap().count(&Outcome::Unsignable);
    std::fs::remove_file(&path).unwrap();
    let (without, faults) = Identities::default().reloaded(&all);
    assert_eq!((without.iter().count(), faults.len()), (0, 1));
    assert_eq!(shown(&without), 0);
    without.counters("news").unwrap().count(&Outcome::Unsignable);
    let (again, _) = without.reloaded(&all);
    assert_eq!((shown(&again), shown(&loaded)), (1, 1));
    assert_eq!(again.reloaded(&[]).0.counts().count(), 0);
}
