//! An origin in trouble gets a rest, then fewer requests.

use super::*;

#[tokio::test]
async fn an_origin_that_says_so_is_left_alone_and_then_asked_more_slowly() {
    let (pace, clock) = impatient(config());
    let a = origin("a");
    let go = || pace.try_turn(ask(&a), clock.now());
    let answer = |turn: Turn, status, retry_after: Option<u64>| {
        pace.answered(&turn, status, || retry_after.map(secs), true);
    };
    answer(go().expect("a turn"), 429, Some(120));
    assert!(go().is_none());
    let rest = EffectivePace::plain(secs(120), Source::Backoff);
    assert_eq!(pace.of(&a), Some(rest));
    assert_eq!(early(&pace, &a).await, Some(secs(120)));
    clock.advance(secs(120));
    // One request goes, and the gap is kept until answers are fine again.
    let probe = go().expect("a turn");
    assert!(go().is_none());
    assert_eq!(
        pace.of(&a),
        Some(EffectivePace::plain(secs(1), Source::Backoff))
    );
    answer(probe, 200, None);
    for wait in [500, 250] {
        assert!(go().is_none());
        clock.advance(ms(wait));
        answer(go().expect("a turn"), 200, None);
    }
    assert!(go().is_some() && go().is_some(), "all is well");
    assert_eq!(pace.of(&a), None);
    // An origin that refuses for ever is still asked now and then.
    let mut asked = 0;
    for _ in 0..3_600 {
        clock.advance(secs(1));
        if let Some(turn) = go() {
            asked += 1;
            answer(turn, 503, Some(86_400));
        }
    }
    assert!((11..=13).contains(&asked), "{asked}");
}

#[tokio::test]
async fn without_backoff_an_origins_answers_do_not_count() {
    let without = PaceConfig {
        backoff: false,
        ..config()
    };
    let (pace, clock) = impatient(without.clone());
    let a = origin("a");
    let turn = pace.try_turn(ask(&a), clock.now()).expect("a turn");
    pace.answered(&turn, 429, || Some(secs(120)), true);
    assert!(pace.try_turn(ask(&a), clock.now()).is_some());
    // Switching backoff off ends the gap.
    pace.reconfigure(&config());
    pace.answered(&turn, 429, || Some(secs(120)), true);
    assert!(pace.try_turn(ask(&a), clock.now()).is_none());
    pace.reconfigure(&without);
    assert!(pace.try_turn(ask(&a), clock.now()).is_some());
}
