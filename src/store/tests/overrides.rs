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
    };
    let store = engine();
    let before = store.version().await.unwrap();
    let first = store.add_override(one.clone()).await.unwrap();
    let endless = Override {
        until: None,
        action: Action::Deny,
        ..one.clone()
    };
    let second = store.add_override(endless.clone()).await.unwrap();
    assert_ne!(store.version().await.unwrap(), before);
    let numbered = |number, one: &Override| Override {
        id: OverrideId::Stored(number),
        ..one.clone()
    };
    let all = [numbered(first, &one), numbered(second, &endless)];
    assert_eq!(store.overrides().await.unwrap(), all);

    let before = store.version().await.unwrap();
    let by = || "Grace".to_owned();
    assert!(store.remove_override(first, by(), NOON).await.unwrap());
    assert!(!store.remove_override(first, by(), NOON).await.unwrap());
    assert_ne!(store.version().await.unwrap(), before);
    assert_eq!(store.overrides().await.unwrap(), all[1..]);
    let removed = Removed {
        asserted: all[0].clone(),
        time: NOON,
        by: by(),
    };
    let kept = store.removed_overrides().await.unwrap();
    assert_eq!(kept, [removed]);
    let third = store.add_override(one.clone()).await.unwrap();
    assert!(third > second, "no number is given twice");
}
