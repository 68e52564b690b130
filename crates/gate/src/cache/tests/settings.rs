//! Cached states after a reload, or after the clock was set.

use super::*;
use crawlgate_config::{ProfileName, ProfileRules};

#[tokio::test]
async fn a_reload_applies_to_cached_states_and_a_view_names_its_settings() {
    let lab = Harness::new();
    let a = origin("a");
    let misspelt = Robots::parse(b"User-agent: *\nDissallow: /x", ParseOptions::default());
    lab.end(AccessResult::Successful {
        snapshot: Snapshot::new(misspelt, START, 1, "").into(),
        freshness: Freshness::Unsaid,
    });
    for lenient in [true, false, false, true] {
        let mut config = whole();
        config.robots.lenient = lenient;
        lab.cache.reconfigure(&config);
        let view = lab.cache.view(&a, Crawler::default()).await;
        let Stance::Rules(snapshot) = &view.stance else {
            panic!("no rules: {:?}", view.stance);
        };
        assert_eq!(snapshot.rules(&[]).is_empty(), !lenient);
        assert_eq!(view.by.policy, config.robots.policy_settings().digest());
        assert_eq!(view.by.config.lenient, lenient);
        let held = view.state.snapshot().expect("a file");
        assert!(Arc::ptr_eq(held, snapshot), "what is recorded is what decided");
    }
    assert_eq!(lab.fetches(), 1);
}

#[tokio::test]
async fn new_settings_apply_to_cached_states_and_to_fetches() {
    let lab = Harness::new();
    let a = origin("a");
    lab.end(down());
    assert!(matches!(lab.stance(&a).await, Stance::DisallowAll { .. }));
    let mut new = whole();
    new.robots.timing.profile = ProfileRules::of(ProfileName::Archive);
    new.robots.size_limit = 1_000_000;
    lab.cache.reconfigure(&new);
    assert!(matches!(lab.stance(&a).await, Stance::AllowAll));
    lab.end(file(1));
    lab.stance(&origin("b")).await;
    let limits: Vec<_> = lab.fetches.lock().iter().map(|(_, _, c)| c.size_limit).collect();
    assert_eq!(limits, [512_000, 1_000_000]);
}

#[tokio::test]
async fn a_file_fetched_while_the_clock_was_ahead_is_fetched_again() {
    let lab = Harness::new();
    let a = origin("a");
    lab.clock.set(START + DAY * 60);
    lab.end(file(1));
    assert_eq!(file_of(&lab.stance(&a).await), Some(1));
    lab.clock.set(START);
    lab.end(file(2));
    assert_eq!(file_of(&lab.stance(&a).await), Some(2));
    lab.clock.set(START + DAY * 60);
    lab.end(down());
    assert!(matches!(lab.stance(&a).await, Stance::DisallowAll { .. }));
    lab.clock.set(START);
    lab.end(file(3));
    assert_eq!(file_of(&lab.stance(&a).await), Some(3), "no wait of 60 days");
    assert_eq!(lab.fetches(), 4);
}
