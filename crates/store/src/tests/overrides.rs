//! Every engine numbers overrides and keeps the removed ones.

use super::*;

#[tokio::test]
async fn overrides_are_added_numbered_and_removed() {
    let one = Override {
        id: OverrideId::Stored(0),
        origin: origin("site.example"),
        pattern: "/press/".to_owned(),
        action: Action::Allow,
        until: Some(NOON + DAY),
        by: "Ada".to_owned(),
        reason: "written permission".to_owned(),
        created: NOON,
        instance: None,
    };
    let store = engine();
    let before = store.version().await.unwrap();
    let first = store.add_override(one.clone()).await.unwrap();
    let endless = Override { until: None, action: Action::Deny, ..one.clone() };
    let second = store.add_override(endless.clone()).await.unwrap();
    assert_ne!(store.version().await.unwrap(), before);
    let numbered = |id, one: &Override| Override { id, ..one.clone() };
    let all = [numbered(first, &one), numbered(second, &endless)];
    assert_eq!(store.overrides().await.unwrap(), all);

    let before = store.version().await.unwrap();
    let by = || "Grace".to_owned();
    assert!(store.remove_override(first, by(), NOON).await.unwrap());
    assert!(!store.remove_override(first, by(), NOON).await.unwrap());
    assert_ne!(store.version().await.unwrap(), before);
    assert_eq!(store.overrides().await.unwrap(), all[1..]);
    let removed = Removed { asserted: all[0].clone(), time: NOON, by: by() };
    let kept = store.removed_overrides().await.unwrap();
    assert_eq!(kept, [removed]);
    let third = store.add_override(one.clone()).await.unwrap();
    assert!(third > second, "no number is given twice");
}

fn shared(number: u128, action: Action) -> Override {
    Override {
        id: OverrideId::Shared(DecisionId::from_octets(number.to_be_bytes())),
        origin: origin("site.example"),
        pattern: format!("/{number}"),
        action,
        until: Some(NOON + DAY),
        by: "Ada".to_owned(),
        reason: "a letter".to_owned(),
        created: NOON,
        instance: Some("a1".to_owned()),
    }
}

fn gone(one: &Override) -> Removed {
    Removed { asserted: one.clone(), time: NOON, by: "Grace".to_owned() }
}

/// Two stores hear of the same changes in every order, in parts and more than once: they end with the same overrides.
#[tokio::test]
async fn stores_that_have_heard_the_same_hold_the_same() {
    let (one, two, three) =
        (shared(1, Action::Deny), shared(2, Action::Allow), shared(3, Action::Deny));
    let added = |all: &[&Override]| FleetOverrides {
        added: all.iter().copied().cloned().collect(),
        removed: Vec::new(),
    };
    let removed = |one: &Override| FleetOverrides { added: Vec::new(), removed: vec![gone(one)] };
    let parts = [added(&[&one, &two]), added(&[&two, &three]), removed(&two), removed(&three)];
    for order in [[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1], [1, 3, 0, 2]] {
        let store = engine();
        let mut news = 0;
        for part in order.into_iter().chain(order) {
            news += u32::from(store.merge_overrides(parts[part].clone(), NOON).await.unwrap());
        }
        assert!(news <= 4, "{order:?}: what is known changes nothing");
        let kept = store.overrides().await.unwrap();
        assert_eq!(kept, std::slice::from_ref(&one), "{order:?}");
        let mut kept = store.removed_overrides().await.unwrap();
        kept.sort_by_key(|one| one.asserted.id);
        assert_eq!(kept, [gone(&two), gone(&three)], "{order:?}");
        let version = store.version().await.unwrap();
        let again = removed(&two);
        assert!(!store.merge_overrides(again, NOON).await.unwrap(), "{order:?}");
        assert_eq!(store.version().await.unwrap(), version, "{order:?}");
    }
}

#[tokio::test]
async fn a_numbered_override_becomes_one_of_the_fleet() {
    let store = engine();
    let one = Override { id: OverrideId::Stored(0), instance: None, ..shared(1, Action::Deny) };
    let numbered = store.add_override(one.clone()).await.unwrap();
    let before = store.add_override(one.clone()).await.unwrap();
    assert!(store.remove_override(before, "Ada".to_owned(), NOON).await.unwrap());
    assert!(store.share_overrides("a1".to_owned(), NOON).await.unwrap());
    assert!(!store.share_overrides("a2".to_owned(), NOON).await.unwrap());
    let kept = store.overrides().await.unwrap();
    let [now] = &*kept else {
        panic!("{kept:?}");
    };
    assert!(matches!(now.id, OverrideId::Shared(_)), "{now:?}");
    assert_eq!(now.instance.as_deref(), Some("a1"));
    let by = || "Grace".to_owned();
    assert!(!store.remove_override(numbered, by(), NOON).await.unwrap(), "its number is gone");
    let written = now.id.to_string();
    assert_eq!(OverrideId::in_store(&written.to_lowercase()), Some(now.id));
    assert!(store.remove_override(now.id, by(), NOON).await.unwrap());
    let removed = store.removed_overrides().await.unwrap();
    assert_eq!(removed[0].asserted, *now);
    assert_eq!(removed[1].asserted.id, before, "what is removed stays as it was");
}
