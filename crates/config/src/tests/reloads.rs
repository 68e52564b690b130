//! The changes that a reload makes, and those that wait for a restart.

use std::collections::BTreeSet;

use toml::de::DeTable;

use super::{super::apply::apply, super::read::Reader, *};

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
    let keys: BTreeSet<&str> = known
        .iter()
        .filter(|name| !is_section(name))
        .map(|name| &**name)
        .collect();
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
