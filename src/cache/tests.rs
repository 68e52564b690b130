//! Fetches, waits and evictions, with a fetch that ends when the test says so.

mod hops;
mod identities;
mod restart;

use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::sync::{Barrier, mpsc};

use super::*;
use crate::config::{Config, Places, ProfileName, ProfileRules};
use crate::rep::{ParseOptions, ProductToken, Robots};
use crate::robots::access::Cause;
use crate::robots::access::{Absence, Freshness};
use crate::robots::identity::OWN;
use crate::robots::snapshot::Snapshot;

const START: Moment = Moment::from_millis(1_790_000_000_000);
const DAY: Duration = Duration::from_secs(86_400);

/// The end of a fetch.
enum End {
    With(AccessResult),
    InPanic,
}

/// The parameters of a fetch.
type Question = (Origin, String, Arc<RobotsConfig>);

/// A cache with fetches that end one after the other, on the test's command.
struct Laboratory {
    cache: RobotsCache,
    clock: Clock,
    fetches: Arc<Mutex<Vec<Question>>>,
    ends: mpsc::UnboundedSender<End>,
}

impl Laboratory {
    fn new() -> Laboratory {
        Laboratory::with(|_| {})
    }

    fn with(change: impl FnOnce(&mut RobotsConfig)) -> Laboratory {
        Laboratory::on(Clock::manual(START), None, change)
    }

    fn on(
        clock: Clock,
        memory: Option<PersistentStates>,
        change: impl FnOnce(&mut RobotsConfig),
    ) -> Laboratory {
        let (ends, to_come) = mpsc::unbounded_channel();
        let to_come = Arc::new(tokio::sync::Mutex::new(to_come));
        let fetches = Arc::<Mutex<Vec<Question>>>::default();
        let seen = Arc::clone(&fetches);
        let now = clock.clone();
        let fetch: Fetch = Box::new(move |asked| {
            let user_agent = asked.user_agent.to_str().expect("visible ASCII").to_owned();
            let (identity, name) = (asked.identity.clone(), user_agent.clone());
            seen.lock().push((asked.origin, user_agent, asked.config));
            let (to_come, now) = (Arc::clone(&to_come), now.clone());
            Box::pin(async move {
                match to_come.lock().await.recv().await {
                    Some(End::With(mut result)) => {
                        if let AccessResult::Successful { snapshot, .. } = &mut result {
                            let robots = snapshot.robots.clone();
                            *snapshot =
                                Snapshot::new(robots, now.now(), snapshot.status, "").into();
                        }
                        let fetch = store::Fetch {
                            identity,
                            user_agent: name,
                            time: now.now(),
                            ..fetch_of(&result)
                        };
                        (result, fetch)
                    }
                    Some(End::InPanic) => panic!("as the test asked"),
                    None => std::future::pending().await,
                }
            })
        });
        let mut config = whole();
        change(&mut config.robots);
        Laboratory {
            cache: RobotsCache::fetching(&config, clock.clone(), memory, fetch, Arc::default()),
            clock,
            fetches,
            ends,
        }
    }

    fn end(&self, result: AccessResult) {
        self.ends.send(End::With(result)).expect("the cache lives");
    }

    fn fetches(&self) -> usize {
        self.fetches.lock().len()
    }

    async fn stance(&self, origin: &Origin) -> Stance {
        self.cache.view(origin, Crawler::default()).await.stance
    }

    fn known(&self, origin: &Origin) -> Option<Arc<State>> {
        self.cache.known(origin, Crawler::default())
    }

    async fn refresh(&self, origin: &Origin) -> Result<Arc<State>, StoreError> {
        let mut states = self.cache.refresh(origin, None).await?;
        Ok(states.remove(0).1)
    }

    /// Lets the cache's own tasks run until `done`.
    async fn until(&self, done: impl Fn(&Laboratory) -> bool) {
        for _ in 0..1000 {
            if done(self) {
                return;
            }
            tokio::task::yield_now().await;
        }
        panic!("it never happened");
    }

    /// Fetches an origin's file.
    async fn learn(&self, origin: &Origin) {
        self.clock.advance(Duration::from_millis(1));
        self.end(file(1));
        assert_eq!(file_of(&self.stance(origin).await), Some(1));
        // The flight ends before its task is gone; only then may its origin be evicted.
        let is_free = |entry: &Arc<Entry>| Arc::strong_count(entry) == 1;
        let entries = &self.cache.shared.entries;
        self.until(|_| entries.get(origin).is_none_or(|entry| is_free(&entry)))
            .await;
    }

    fn knows(&self, origin: &Origin) -> bool {
        self.cache.shared.entries.contains_key(origin)
    }
}

fn config() -> RobotsConfig {
    whole().robots
}

fn whole() -> Config {
    let mut config = Config::builtin(&Places::default());
    config.robots.timing.jitter = 0.0;
    config
}

fn token(name: &str) -> ProductToken {
    ProductToken::new(name).expect("a valid token")
}

fn origin(name: &str) -> Origin {
    let (origin, _) = Origin::parse(&format!("http://{name}.example/")).expect("a URL");
    origin
}

fn file(number: u16) -> AccessResult {
    let robots = Robots::parse(b"User-agent: *\nDisallow: /x", ParseOptions::default());
    AccessResult::Successful {
        snapshot: Snapshot::new(robots, START, number, "").into(),
        freshness: Freshness::Unsaid,
    }
}

/// Returns the record of a fetch with this result.
fn fetch_of(result: &AccessResult) -> store::Fetch {
    store::Fetch {
        identity: Identity::default(),
        user_agent: String::new(),
        other: None,
        time: START,
        duration: Duration::from_millis(20),
        result: result.name().to_owned(),
        cause: None,
        status: None,
        hops: Vec::new(),
        sha256: match result {
            AccessResult::Successful { snapshot, .. } => Some(snapshot.sha256),
            _ => None,
        },
        fields: Vec::new(),
    }
}

fn down() -> AccessResult {
    AccessResult::Unreachable {
        cause: Cause::Connect,
        retry_after: None,
    }
}

/// Returns the number of the deciding file.
fn file_of(stance: &Stance) -> Option<u16> {
    match stance {
        Stance::Rules(snapshot) => Some(snapshot.status),
        _ => None,
    }
}

/// Polls a future once, without a waker.
fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

#[tokio::test]
async fn a_reload_applies_to_cached_states_and_a_view_names_its_settings() {
    let lab = Laboratory::new();
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
        assert_eq!(view.by.terms, config.robots.terms().digest());
        assert_eq!(view.by.config.lenient, lenient);
        let held = view.state.snapshot().expect("a file");
        assert!(
            Arc::ptr_eq(held, snapshot),
            "what is recorded is what decided"
        );
    }
    assert_eq!(lab.fetches(), 1);
}

#[tokio::test]
async fn a_file_fetched_while_the_clock_was_ahead_is_fetched_again() {
    let lab = Laboratory::new();
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
    assert_eq!(
        file_of(&lab.stance(&a).await),
        Some(3),
        "no wait of 60 days"
    );
    assert_eq!(lab.fetches(), 4);
}

#[tokio::test]
async fn a_thousand_first_requests_wait_for_one_fetch() {
    let lab = Laboratory::new();
    let a = origin("a");
    let mut views: Vec<_> = (0..1000).map(|_| Box::pin(lab.stance(&a))).collect();
    for view in &mut views {
        assert!(poll(view).is_pending());
    }
    lab.end(file(1));
    for view in views {
        assert_eq!(file_of(&view.await), Some(1));
    }
    assert_eq!(lab.fetches(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_thousand_first_requests_on_four_threads_cause_one_fetch() {
    let lab = Arc::new(Laboratory::new());
    lab.end(file(1));
    let start = Arc::new(Barrier::new(1000));
    let mut requests = tokio::task::JoinSet::new();
    for _ in 0..1000 {
        let (lab, start) = (Arc::clone(&lab), Arc::clone(&start));
        requests.spawn(async move {
            start.wait().await;
            file_of(&lab.stance(&origin("a")).await)
        });
    }
    let seen = requests.join_all().await;
    assert!(seen.iter().all(|file| *file == Some(1)));
    assert_eq!(lab.fetches(), 1);
}

#[tokio::test]
async fn each_origin_is_fetched_by_itself() {
    let lab = Laboratory::new();
    let (a, b) = (origin("a"), origin("b"));
    let tokens = [token("ExampleBot")];
    lab.end(file(1));
    lab.end(down());
    assert_eq!(file_of(&lab.stance(&a).await), Some(1));
    let view = lab.cache.view(&b, Crawler::named(&tokens)).await;
    assert!(matches!(view.stance, Stance::DisallowAll { .. }));
    let fetches = lab.fetches.lock();
    let asked: Vec<_> = fetches.iter().map(|(o, agent, _)| (o, &**agent)).collect();
    let named = format!("ExampleBot {OWN}");
    assert_eq!(asked, [(&a, OWN), (&b, &*named)]);
}

#[tokio::test]
async fn a_crawler_that_hangs_up_cancels_nothing() {
    let lab = Laboratory::new();
    let a = origin("a");
    let mut first = Box::pin(lab.stance(&a));
    assert!(poll(&mut first).is_pending());
    drop(first);
    let mut second = Box::pin(lab.stance(&a));
    assert!(poll(&mut second).is_pending());
    lab.end(file(1));
    assert_eq!(file_of(&second.await), Some(1));
    assert_eq!(lab.fetches(), 1);
}

#[tokio::test]
async fn a_fetch_that_panics_wakes_all_and_is_tried_again() {
    let lab = Laboratory::new();
    let a = origin("a");
    let mut views: Vec<_> = (0..3).map(|_| Box::pin(lab.stance(&a))).collect();
    for view in &mut views {
        assert!(poll(view).is_pending());
    }
    lab.ends.send(End::InPanic).expect("the cache lives");
    for view in views {
        let stance = view.await;
        let is_internal = matches!(
            stance,
            Stance::DisallowAll {
                cause: Cause::Internal,
                ..
            }
        );
        assert!(is_internal, "{stance:?}");
    }
    lab.clock.advance(Duration::from_secs(5));
    lab.end(file(1));
    assert_eq!(file_of(&lab.stance(&a).await), Some(1));
    assert_eq!(lab.fetches(), 2);
}

#[test]
fn a_fetch_that_is_dropped_with_its_runtime_lands() {
    let lab = Laboratory::new();
    let a = origin("a");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        assert!(poll(&mut Box::pin(lab.stance(&a))).is_pending());
        lab.until(|lab| lab.fetches() == 1).await;
    });
    drop(runtime);
    let state = lab.known(&a).expect("the origin is known");
    let cause = state.outage().map(|outage| outage.cause);
    assert_eq!(cause, Some(Cause::Internal));
}

#[tokio::test]
async fn a_fetch_that_outlasts_the_hold_leaves_nothing_known_and_goes_on() {
    let lab = Laboratory::with(|config| config.hold = Duration::ZERO);
    let a = origin("a");
    let view = lab.cache.view(&a, Crawler::default()).await;
    assert!(matches!(view.stance, Stance::Unknown));
    assert!(matches!(*view.state, State::NeverFetched));
    lab.end(file(1));
    let is_known = |lab: &Laboratory| {
        lab.cache
            .known(&a, Crawler::default())
            .is_some_and(|s| s.snapshot().is_some())
    };
    lab.until(is_known).await;
    assert_eq!(file_of(&lab.stance(&a).await), Some(1));
    assert_eq!(lab.fetches(), 1);
}

#[tokio::test]
async fn a_refresh_ahead_runs_once_and_in_the_background() {
    let lab = Laboratory::new();
    let a = origin("a");
    lab.learn(&a).await;
    lab.clock.advance(DAY.mul_f64(0.9));
    for _ in 0..3 {
        let Poll::Ready(stance) = poll(&mut Box::pin(lab.stance(&a))) else {
            panic!("a request waits for a refresh");
        };
        assert_eq!(file_of(&stance), Some(1));
        tokio::task::yield_now().await;
    }
    assert_eq!(lab.fetches(), 2);
    lab.end(file(2));
    let is_new = |lab: &Laboratory| {
        let state = lab.known(&a).expect("the origin is known");
        state
            .snapshot()
            .is_some_and(|snapshot| snapshot.status == 2)
    };
    lab.until(is_new).await;
    assert_eq!(lab.fetches(), 2);
}

#[tokio::test]
async fn a_refresh_that_outlives_the_copy_is_waited_for() {
    let lab = Laboratory::new();
    let a = origin("a");
    lab.learn(&a).await;
    lab.clock.advance(DAY.mul_f64(0.9));
    lab.stance(&a).await;
    lab.clock.advance(DAY.mul_f64(0.1));
    let mut view = Box::pin(lab.stance(&a));
    assert!(poll(&mut view).is_pending());
    lab.end(file(2));
    assert_eq!(file_of(&view.await), Some(2));
    assert_eq!(lab.fetches(), 2);
}

#[tokio::test]
async fn an_outage_is_answered_at_once_until_its_next_attempt() {
    let lab = Laboratory::new();
    let a = origin("a");
    lab.end(down());
    lab.stance(&a).await;
    for _ in 0..2 {
        let found = poll(&mut Box::pin(lab.stance(&a)));
        assert!(matches!(found, Poll::Ready(Stance::DisallowAll { .. })));
    }
    assert_eq!(lab.fetches(), 1);
    lab.clock.advance(Duration::from_secs(5));
    let mut view = Box::pin(lab.stance(&a));
    assert!(poll(&mut view).is_pending());
    lab.end(AccessResult::Unavailable {
        why: Absence::Status(404),
        freshness: Freshness::Unsaid,
    });
    assert!(matches!(view.await, Stance::AllowAll));
    assert_eq!(lab.fetches(), 2);
}

#[tokio::test]
async fn a_thousand_requests_that_doubt_one_state_wait_for_one_fetch() {
    let lab = Laboratory::new();
    let a = origin("a");
    lab.end(down());
    let seen = lab.cache.view(&a, Crawler::default()).await.state;
    let mut views: Vec<_> = (0..1000)
        .map(|_| Box::pin(lab.cache.revalidate(&a, &seen, Crawler::default(), None)))
        .collect();
    for view in &mut views {
        assert!(poll(view).is_pending());
    }
    lab.end(file(1));
    for view in views {
        assert_eq!(file_of(&view.await.stance), Some(1));
    }
    // A request that comes later has seen an outdated state.
    let late = lab
        .cache
        .revalidate(&a, &seen, Crawler::default(), None)
        .await;
    assert_eq!(file_of(&late.stance), Some(1));
    assert_eq!(lab.fetches(), 2);
}

#[tokio::test]
async fn beyond_the_count_the_least_recently_used_goes() {
    let lab = Laboratory::with(|config| config.cache.origins = 3);
    let [a, b, c, d] = ["a", "b", "c", "d"].map(origin);
    for origin in [&a, &b, &c] {
        lab.learn(origin).await;
    }
    lab.clock.advance(Duration::from_millis(1));
    lab.stance(&a).await;
    lab.learn(&d).await;
    let known = [&a, &b, &c, &d].map(|origin| lab.knows(origin));
    assert_eq!(known, [true, false, true, true]);
}

#[tokio::test]
async fn an_origin_in_flight_is_not_evicted() {
    let lab = Laboratory::with(|config| config.cache.origins = 1);
    let [a, b, c] = ["a", "b", "c"].map(origin);
    // No request waits for it any more: the flight alone keeps it.
    assert!(poll(&mut Box::pin(lab.stance(&a))).is_pending());
    lab.until(|lab| lab.fetches() == 1).await;
    for origin in [&b, &c] {
        lab.clock.advance(Duration::from_millis(1));
        assert!(poll(&mut Box::pin(lab.stance(origin))).is_pending());
    }
    assert!([&a, &b, &c].iter().all(|origin| lab.knows(origin)));
    for _ in 0..3 {
        lab.end(file(1));
    }
    lab.until(|lab| lab.cache.len() == 1).await;
    assert!(lab.knows(&c));
}

#[tokio::test]
async fn beyond_the_octets_the_least_recently_used_goes() {
    let one = {
        let lab = Laboratory::new();
        lab.learn(&origin("a")).await;
        lab.cache.bytes()
    };
    let lab = Laboratory::with(|config| config.cache.bytes = 2 * one + one / 2);
    let [a, b, c] = ["a", "b", "c"].map(origin);
    for origin in [&a, &b, &c] {
        lab.learn(origin).await;
    }
    lab.until(|lab| lab.cache.len() == 2).await;
    assert_eq!(
        [&a, &b, &c].map(|origin| lab.knows(origin)),
        [false, true, true]
    );
    assert_eq!(lab.cache.bytes(), 2 * one);
}

#[tokio::test]
async fn rules_compiled_later_are_weighed_and_all_weight_goes_with_its_origin() {
    let lab = Laboratory::with(|config| config.cache.origins = 0);
    let a = origin("a");
    lab.end(file(1));
    let view = lab.cache.view(&a, Crawler::default()).await;
    let before = lab.cache.bytes();
    let Stance::Rules(snapshot) = view.stance else {
        panic!("no rules");
    };
    snapshot.rules(&[]);
    lab.stance(&a).await;
    assert!(before < lab.cache.bytes());
    lab.until(|lab| {
        lab.cache.shared.bound();
        lab.cache.is_empty()
    })
    .await;
    assert_eq!(lab.cache.bytes(), 0);
}

#[tokio::test]
async fn new_settings_apply_to_cached_states_and_to_fetches() {
    let lab = Laboratory::new();
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
    let limits: Vec<_> = lab
        .fetches
        .lock()
        .iter()
        .map(|(_, _, c)| c.size_limit)
        .collect();
    assert_eq!(limits, [512_000, 1_000_000]);
}
