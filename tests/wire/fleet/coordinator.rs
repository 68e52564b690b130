//! One table of cases for both implementations of the interface to an engine.

mod clocked;
mod members;
mod planted;
mod quotas;
mod sequences;
mod together;
mod turns;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use crawlgate_config::Config;
use crawlgate_system::clock::{Clock, Moment};
use crawlgate_turns::fleet::coordinator::{
    AcquireFetch, Coordinator, CoordinatorError, FetchLease, Heartbeat, NAME_HELD, PublishState,
    Published, StateKey, Token,
};
use crawlgate_turns::fleet::engine::Engine as Redis;
use crawlgate_turns::fleet::in_memory::InMemoryEngine;

use super::check;
use crate::support::{Engine, PATIENCE, client_config, origin_ca_pem};

/// Names the key of all instances.
const KEY: &str = "0f";

/// An engine under test, and the way to its accidents.
pub(super) enum TestEngine {
    Real(Engine, super::EngineLink),
    Memory(Arc<InMemoryEngine>),
}

impl TestEngine {
    /// Returns one of each kind; Redis and Valkey are missing where they are not installed.
    fn all() -> Vec<TestEngine> {
        let clock = Clock::manual(Moment::from_millis(1_795_000_000_000));
        let mut all = vec![TestEngine::Memory(InMemoryEngine::new(clock))];
        for engine in Engine::each() {
            // The user that docs/fleet.md gives the instances: each case shows that its rights suffice.
            check::admit_user_of_the_docs(&engine);
            let link = engine.link();
            all.push(TestEngine::Real(engine, link));
        }
        all
    }

    /// Joins as another instance.
    fn join(&self) -> Arc<dyn Coordinator> {
        match self {
            TestEngine::Memory(world) => world.coordinator(),
            TestEngine::Real(_, link) => {
                let mut config = Config::default().fleet;
                config.engine = Some(format!("127.0.0.1:{}", link.port()).parse().unwrap());
                // On a busy machine, every answer may be late.
                config.timeout = Duration::from_secs(5);
                let (user, password) = check::user_of_the_docs();
                config.user = Some(user);
                config.password_file = Some(password);
                let engine: Arc<dyn Coordinator> =
                    Redis::of(&config, client_config(origin_ca_pem())).unwrap();
                tokio::spawn(Arc::clone(&engine).keep_connected());
                engine
            }
        }
    }

    /// Sets the engine's clock back by so many spans of a client's quota: a real engine finds later ones in the account.
    fn set_back(&self, spans: u32, account: &str, per: Duration) {
        match self {
            TestEngine::Memory(world) => {
                let clock = world.clock();
                let back = u64::try_from(per.as_millis()).unwrap() * u64::from(spans);
                clock.set(Moment::from_millis(clock.now().as_millis() - back));
            }
            TestEngine::Real(engine, _) => {
                let key = format!("crawlgate:{{{account}}}:quota:{}", per.as_millis());
                let spans = spans.to_string();
                let reply = engine.ask(&["HINCRBY", &key, "span", &spans]);
                assert!(reply.starts_with(':'), "{reply}");
            }
        }
    }

    /// Makes the engine forget everything.
    fn forget(&self) {
        match self {
            TestEngine::Memory(world) => world.forget(),
            TestEngine::Real(engine, _) => assert_eq!(engine.ask(&["FLUSHALL"]), "+OK\r\n"),
        }
    }
}

impl TestEngine {
    /// Makes a second pass without a heartbeat of the members; a real engine heard of this one a second earlier.
    fn silences(&self, name: &str) {
        match self {
            TestEngine::Memory(world) => world.clock().advance(NAME_HELD),
            TestEngine::Real(engine, _) => {
                let earlier = format!("-{}", NAME_HELD.as_millis());
                engine.ask(&["ZINCRBY", "crawlgate:{fleet}:members", &earlier, name]);
            }
        }
    }

    /// Lets this time pass without a heartbeat. Slots that it is too long for run out.
    fn hangs(&self, time: Duration) {
        match self {
            TestEngine::Memory(world) => world.clock().advance(time),
            TestEngine::Real(engine, _) => {
                let script = "local key, ms = 'crawlgate:{fleet}:generation', ARGV[1] \
                    local id, began, run = string.match(redis.call('GET', key), '^(%S+) (%d+) (%S+)$') \
                    redis.call('SET', key, id .. ' ' .. string.format('%.0f', began - ms * 1000) .. ' ' .. run) \
                    for _, name in ipairs(redis.call('ZRANGE', 'crawlgate:{fleet}:members', 0, -1)) do \
                      redis.call('ZINCRBY', 'crawlgate:{fleet}:members', -ms, name) end \
                    for _, key in ipairs(redis.call('KEYS', '*:slots')) do \
                      for _, slot in ipairs(redis.call('ZRANGE', key, 0, -1)) do \
                        redis.call('ZINCRBY', key, -ms * 1000, slot) end end \
                    local counters = 'crawlgate:{fleet}:counters' \
                    if redis.call('HEXISTS', counters, 'resumed') == 1 then \
                      redis.call('HINCRBY', counters, 'resumed', -ms * 1000) end return 1";
                let ms = time.as_millis().to_string();
                assert_eq!(engine.ask(&["EVAL", script, "0", &ms]), ":1\r\n");
            }
        }
    }

    /// Ends the quiet time at the beginning of a generation, in which a real engine grants no turns.
    fn is_quiet_no_more(&self) {
        if let TestEngine::Real(engine, _) = self {
            end_quiet_time(engine);
        }
    }
}

/// Has the present generation begin a second earlier.
fn end_quiet_time(engine: &Engine) {
    let script = "local key = 'crawlgate:{fleet}:generation' \
        local id, began, run = string.match(redis.call('GET', key), '^(%S+) (%d+) (%S+)$') \
        redis.call('SET', key, id .. ' ' .. string.format('%.0f', began - 1000000) .. ' ' .. run) return 1";
    assert_eq!(engine.ask(&["EVAL", script, "0"]), ":1\r\n");
}

/// Runs a case against each kind of engine.
fn each<F: Future<Output = ()>>(case: impl Fn(Arc<TestEngine>) -> F) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for test_engine in TestEngine::all() {
        runtime.block_on(case(Arc::new(test_engine)));
    }
}

async fn heartbeat(
    coordinator: &Arc<dyn Coordinator>,
    name: &str,
    after: u64,
) -> crawlgate_turns::fleet::HeartbeatReply {
    beat(coordinator, name, Some(after)).await
}

/// Sends heartbeats until the engine answers one.
async fn beat(
    coordinator: &Arc<dyn Coordinator>,
    name: &str,
    after: Option<u64>,
) -> crawlgate_turns::fleet::HeartbeatReply {
    let beat = Heartbeat {
        name,
        process: "0a",
        key: KEY,
        report: &report("0a"),
        after,
        forget_after: Duration::from_secs(18),
    };
    let asking = async {
        loop {
            match coordinator.heartbeat(beat).await {
                Ok(heard) => return heard,
                Err(_) => tokio::task::yield_now().await,
            }
        }
    };
    tokio::time::timeout(PATIENCE, asking).await.unwrap()
}

/// Returns the report of a process.
fn report(process: &str) -> String {
    format!("{{\"process\":{process:?},\"key\":{KEY:?}}}")
}

/// Joins as two instances, which have heard from the engine.
async fn two(test_engine: &TestEngine) -> [Arc<dyn Coordinator>; 2] {
    let both = [test_engine.join(), test_engine.join()];
    for (one, name) in both.iter().zip(["a", "b"]) {
        heartbeat(one, name, 0).await;
    }
    test_engine.is_quiet_no_more();
    both
}

fn key() -> StateKey {
    StateKey { origin: "https://a.example".to_owned(), variant: "00000000-11111111".to_owned() }
}

fn ask<'a>(key: &'a StateKey, holder: &'a str, known: Token) -> AcquireFetch<'a> {
    AcquireFetch { key, holder, known, highest: Token::default(), lease: Duration::from_secs(60) }
}

/// Takes a lease that is free; returns its token.
async fn acquired(
    coordinator: &Arc<dyn Coordinator>,
    key: &StateKey,
    holder: &str,
    known: Token,
) -> Token {
    match coordinator.acquire_fetch(ask(key, holder, known)).await {
        Ok(FetchLease::Acquired { token, .. }) => token,
        other => panic!("{holder}: {other:?}"),
    }
}

fn publish<'a>(
    key: &'a StateKey,
    holder: &'a str,
    token: Token,
    sealed: &'a [u8],
) -> PublishState<'a> {
    PublishState { key, holder, token, sealed, keep: Duration::from_secs(3_600) }
}

#[test]
fn members_hear_of_each_other_and_of_news() {
    each(|test_engine| async move {
        let (a, b) = (test_engine.join(), test_engine.join());
        let heard = heartbeat(&a, "a", 0).await;
        assert_eq!((heard.generation, heard.news.last), (1, 0));
        let heard = heartbeat(&b, "b", 0).await;
        assert_eq!(heard.members, 2);
        let members = b.members().await.unwrap();
        let names: Vec<&str> = members.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
        a.announce("one").await.unwrap();
        b.announce("two").await.unwrap();
        let heard = heartbeat(&a, "a", 0).await;
        assert_eq!(heard.news.items, ["one", "two"]);
        assert!(!heard.news.has_gap);
        let heard = heartbeat(&a, "a", heard.news.last).await;
        assert_eq!((heard.news.items.len(), heard.news.last), (0, 2));
        let late = test_engine.join();
        let heard = beat(&late, "b", None).await;
        assert_eq!((heard.news.items.len(), heard.news.last), (0, 2), "none from before");
        assert!(!heard.news.has_gap);
        b.leave("b", "0a").await.unwrap();
        let heard = heartbeat(&a, "a", 2).await;
        assert_eq!((heard.members, a.members().await.unwrap().len()), (1, 1));
    });
}

#[test]
fn one_instance_fetches_and_the_others_take_its_state() {
    each(|test_engine| async move {
        let [a, b] = two(&test_engine).await;
        let key = key();
        let none = Token::default();
        let token = acquired(&a, &key, "a/1", none).await;
        match b.acquire_fetch(ask(&key, "b/1", none)).await.unwrap() {
            FetchLease::Held { by, left } => {
                assert_eq!(by, "a/1");
                assert!(left > Duration::from_secs(30), "{left:?}");
            }
            other => panic!("{other:?}"),
        }
        let again = a.acquire_fetch(ask(&key, "a/1", none)).await.unwrap();
        assert!(
            matches!(again, FetchLease::Acquired { token: same, .. } if same == token),
            "renewed"
        );
        let sealed = b"a state \0 \xff of octets".as_slice();
        let state = publish(&key, "a/1", token, sealed);
        assert_eq!(a.publish_state(state).await.unwrap(), Published::Done);
        match b.acquire_fetch(ask(&key, "b/1", none)).await.unwrap() {
            FetchLease::Newer(state, _) => {
                assert_eq!(state.token, token);
                assert_eq!(state.sealed, sealed);
            }
            other => panic!("{other:?}"),
        }
        // The holder of the newest state fetches, with a higher token.
        match b.acquire_fetch(ask(&key, "b/1", token)).await.unwrap() {
            FetchLease::Acquired { token: next, .. } => assert!(next > token),
            other => panic!("{other:?}"),
        }
        b.release_fetch(&key, "b/1").await.unwrap();
        let free = a.acquire_fetch(ask(&key, "a/2", token)).await.unwrap();
        assert!(matches!(free, FetchLease::Acquired { .. }), "{free:?}");
        a.release_fetch(&key, "b/1").await.unwrap();
        let held = b.acquire_fetch(ask(&key, "b/2", token)).await.unwrap();
        assert!(matches!(held, FetchLease::Held { .. }), "only the holder releases: {held:?}");
    });
}

#[test]
fn a_late_state_is_refused() {
    each(|test_engine| async move {
        let [a, b] = two(&test_engine).await;
        let key = key();
        let none = Token::default();
        let late = acquired(&a, &key, "a/1", none).await;
        a.release_fetch(&key, "a/1").await.unwrap();
        let token = acquired(&b, &key, "b/1", late).await;
        assert!(token > late);
        let newer = publish(&key, "b/1", token, b"newer");
        assert_eq!(b.publish_state(newer).await.unwrap(), Published::Done);
        let published = a.publish_state(publish(&key, "a/1", late, b"late")).await;
        match published.unwrap() {
            Published::Superseded(state, _) => {
                assert_eq!((state.token, &*state.sealed), (token, b"newer".as_slice()));
            }
            other => panic!("{other:?}"),
        }
        // The holder of the newest one may replace it.
        let known = Token(token.0 - 1);
        let same = publish(&key, "b/1", token, b"again");
        assert_eq!(b.publish_state(same).await.unwrap(), Published::Done);
        match a.acquire_fetch(ask(&key, "a/2", known)).await.unwrap() {
            FetchLease::Newer(state, _) => assert_eq!(state.sealed, b"again"),
            other => panic!("{other:?}"),
        }
    });
}

#[test]
fn an_engine_that_has_lost_everything_grants_nothing_before_a_heartbeat() {
    each(|test_engine| async move {
        let [a, b] = two(&test_engine).await;
        a.announce("one").await.unwrap();
        let (key, none) = (key(), Token::default());
        let before = acquired(&a, &key, "a/1", none).await;
        test_engine.forget();
        assert_eq!(a.acquire_fetch(ask(&key, "a/1", none)).await, Err(CoordinatorError::Lost));
        let heard = heartbeat(&b, "b", 1).await;
        assert_eq!(heard.generation, 2);
        assert!(heard.news.has_gap, "news are gone, and nobody knows which");
        assert_eq!(
            a.publish_state(publish(&key, "a/1", before, b"old")).await,
            Err(CoordinatorError::Lost),
            "under the old generation"
        );
        let highest = Token(before.0 + 1_000_000_000_000);
        let asked = AcquireFetch { highest, ..ask(&key, "b/1", none) };
        match b.acquire_fetch(asked).await.unwrap() {
            FetchLease::Acquired { token, .. } => assert!(token > highest),
            other => panic!("{other:?}"),
        }
        assert_eq!(heartbeat(&a, "a", 1).await.generation, 2);
    });
}

#[test]
fn overrides_only_grow_and_each_change_has_a_higher_number() {
    each(|test_engine| async move {
        let (a, b) = (test_engine.join(), test_engine.join());
        assert_eq!(heartbeat(&a, "a", 0).await.overrides, 0);
        heartbeat(&b, "b", 0).await;
        let octets = b"\0sealed \xff octets".as_slice();
        let one = a.add_override("1", octets).await.unwrap();
        assert!(one > 0);
        assert_eq!(heartbeat(&b, "b", 0).await.overrides, one);
        assert_eq!(b.add_override("1", octets).await.unwrap(), one, "the same again");
        let two = b.remove_override("1", b"removed").await.unwrap();
        assert!(two > one);
        let three = b.add_override("2", b"two").await.unwrap();
        assert!(three > two);
        // What was planted is written over.
        let four = a.add_override("2", b"two, rightly").await.unwrap();
        assert!(four > three);
        let mut all = b.overrides().await.unwrap();
        all.added.sort();
        let row = |id: &str, octets: &[u8]| (id.to_owned(), octets.to_vec());
        assert_eq!(all.change, four);
        assert_eq!(all.added, [row("1", octets), row("2", b"two, rightly")]);
        assert_eq!(all.removed, [row("1", b"removed")]);

        test_engine.forget();
        assert_eq!(a.overrides().await, Err(CoordinatorError::Lost));
        assert_eq!(a.add_override("1", octets).await, Err(CoordinatorError::Lost));
        let heard = heartbeat(&a, "a", 0).await;
        assert_eq!((heard.generation, heard.overrides), (2, 0));
        let five = a.add_override("1", octets).await.unwrap();
        assert!(
            five > four || matches!(*test_engine, TestEngine::Memory(_)),
            "{five} after {four}"
        );
        assert_eq!(a.overrides().await.unwrap().added.len(), 1);
    });
}

#[test]
fn members_are_named_between_heartbeats() {
    each(|test_engine| async move {
        let [a, b] = two(&test_engine).await;
        let rows = a.members().await.unwrap();
        let names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
        assert!(rows.iter().all(|row| row.report == report("0a")), "{rows:?}");
        b.leave("b", "0a").await.unwrap();
        assert_eq!(a.members().await.unwrap().len(), 1);
    });
}
