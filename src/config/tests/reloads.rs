//! The changes that a reload makes, and those that wait for a restart.

use std::collections::BTreeSet;

use toml::de::DeTable;

use super::{super::read::Reader, *};

#[test]
fn the_table_of_keys_has_each_key_that_the_reader_knows_and_no_other() {
    let document = DeTable::parse("").unwrap();
    let mut reader = Reader::new("");
    let mut config = Config::default();
    keys::apply(document.get_ref(), &mut reader, Path::new("/"), &mut config);
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
fn the_last_credentials_of_an_address_that_stays_go_with_it() {
    let user = "user = [{ name = 'ada', role = 'read', token = \
                'sha256:9f9f5111f7b27a781f1f1ddde5ebc2dd2b796bfc7365c9c28b548e564176929f' }]";
    let open = format!("[admin]\naddress = '0.0.0.0:8119'\n{user}");
    let local = format!("[admin]\naddress = '127.0.0.1:8119'\n{user}");
    #[rustfmt::skip] // one row, one case
    let cases = [
        ("the users of an open address", &*open, "[admin]\naddress = '127.0.0.1:8119'", 1),
        ("those of a local one", &*local, "", 0),
        ("those of an open one that has a token", &format!("{open}\ntoken_file = 't'"), "", 0),
        ("a user is added", "", &*local, 1),
    ];
    for (name, old, new, users) in cases {
        let (now, plan) = parse(old).expect(name).reloaded(&parse(new).expect(name));
        assert_eq!(now.admin.users.len(), users, "{name}");
        assert!(now.admin.is_guarded(), "{name}");
        let waits = plan.needs_restart.contains(&"admin.user");
        assert_eq!(
            waits,
            name == "the users of an open address",
            "{name}: {plan:?}"
        );
        assert_eq!(
            plan.applied.contains(&"admin.user"),
            !waits,
            "{name}: {plan:?}"
        );
    }
}
