//! Questions for turns that are asked at the same time, which share calls of a real engine.

use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use crawlgate_turns::fleet::CoordinatorError;
use crawlgate_turns::fleet::coordinator::Coordinator;
use crawlgate_turns::fleet::reservation::{Reserve, Reserved};
use tokio::task::JoinSet;

use super::turns::every;
use super::{TestEngine, each, two};
use crate::support::Engine;

/// More than one call takes.
const ORIGINS: usize = 100;

const INTERVAL: Duration = Duration::from_secs(10);

fn origin(number: usize) -> String {
    format!("https://o{number}.example")
}

fn turn(origin: &str) -> Reserve<'_> {
    Reserve { origin, ..every(INTERVAL.as_secs()) }
}

/// Asks for a turn at each origin at once.
async fn at_each(to: &Arc<dyn Coordinator>) -> Vec<Result<Reserved, CoordinatorError>> {
    let mut asking = JoinSet::new();
    for number in 0..ORIGINS {
        let to = Arc::clone(to);
        asking.spawn(async move { (number, to.reserve(turn(&origin(number))).await) });
    }
    let mut answers = asking.join_all().await;
    answers.sort_by_key(|(number, _)| *number);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

/// Returns the number of scripts that the engine has run.
fn scripts_run(engine: &Engine) -> u64 {
    let stats = engine.ask(&["INFO", "commandstats"]);
    let calls = stats
        .lines()
        .find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="))
        .and_then(|line| line.split(',').next());
    calls.map_or(0, |calls| calls.parse().unwrap())
}

/// Asserts that an origin's turn is the `nth` one, one interval after the other.
fn is_turn(reserved: &Reserved, nth: u32, who: usize) {
    let after: Vec<Duration> = reserved.turns.iter().map(|turn| turn.after).collect();
    let latest = INTERVAL * nth;
    assert!(
        matches!(after[..], [after] if after <= latest && after > latest - INTERVAL),
        "origin {who}: {reserved:?}"
    );
}

#[test]
fn questions_at_once_share_calls_and_each_has_its_own_answer() {
    each(|test_engine| async move {
        let [a, _] = two(&test_engine).await;
        let before = match &*test_engine {
            TestEngine::Real(engine, _) => scripts_run(engine),
            TestEngine::Memory(_) => 0,
        };
        for (who, answer) in at_each(&a).await.into_iter().enumerate() {
            is_turn(&answer.unwrap(), 1, who);
        }
        let TestEngine::Real(engine, _) = &*test_engine else {
            return;
        };
        let calls = scripts_run(engine) - before;
        assert!((2..=4).contains(&calls), "{calls} calls for {ORIGINS}");
        // One origin's question fails, for what lies in the engine: that one is refused, the others have their turns.
        engine.ask(&["SET", "crawlgate:{https://o7.example}:turns", "text"]);
        for (who, answer) in at_each(&a).await.into_iter().enumerate() {
            match (who, answer) {
                (7, Err(CoordinatorError::Refused(why))) => {
                    says!(why, "WRONGTYPE");
                }
                (who, answer) => is_turn(&answer.unwrap(), 2, who),
            }
        }
        let alone = a.reserve(turn(&origin(7))).await;
        assert!(
            matches!(&alone, Err(CoordinatorError::Refused(why)) if why.contains("WRONGTYPE")),
            "{alone:?}"
        );
        // The engine has lost what it knew: each is told.
        engine.ask(&["FLUSHALL"]);
        for answer in at_each(&a).await {
            assert_eq!(answer, Err(CoordinatorError::Lost));
        }
    });
}

#[test]
fn no_turn_is_reserved_for_a_question_that_was_given_up() {
    each(|test_engine| async move {
        let [a, b] = two(&test_engine).await;
        let (gone, stays) = (origin(1), origin(2));
        let mut given_up = a.reserve(turn(&gone));
        let mut cx = Context::from_waker(Waker::noop());
        if let TestEngine::Real(..) = &*test_engine {
            assert!(given_up.as_mut().poll(&mut cx).is_pending());
        }
        drop(given_up);
        // In the same call, had it not been given up.
        is_turn(&a.reserve(turn(&stays)).await.unwrap(), 1, 2);
        is_turn(&b.reserve(turn(&gone)).await.unwrap(), 1, 1);
    });
}
