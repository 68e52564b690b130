//! A cache with a fetch that ends when the test says so.

mod documents;
mod flights;
mod hops;
mod identities;
mod refresh;
mod restart;
mod settings;
mod size;
mod world;

use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::sync::mpsc;

use super::*;
use crawlgate_config::{Config, Places, RobotsConfig};
use crawlgate_origins::access::{Absence, Cause, Freshness};
use crawlgate_origins::identity::Identity;
use crawlgate_origins::snapshot::Snapshot;
use crawlgate_origins::state::Stance;
use crawlgate_robots::{ParseOptions, ProductToken, Robots};
use crawlgate_store::StoreError;
use crawlgate_system::clock::Moment;

const START: Moment = Moment::from_millis(1_790_000_000_000);
const DAY: Duration = Duration::from_secs(86_400);

/// The end of a fetch.
enum End {
    With(AccessResult),
    InPanic,
}

/// The parameters of a fetch.
type Lookup = (Origin, String, Arc<RobotsConfig>);

/// A cache with fetches that end one after the other, on the test's command.
struct Harness {
    cache: RobotsCache,
    clock: Clock,
    fetches: Arc<Mutex<Vec<Lookup>>>,
    ends: mpsc::UnboundedSender<End>,
}

impl Harness {
    fn new() -> Harness {
        Harness::with(|_| {})
    }

    fn with(change: impl FnOnce(&mut RobotsConfig)) -> Harness {
        Harness::on(Clock::manual(START), None, change)
    }

    fn on(
        clock: Clock,
        persistent: Option<PersistentStates>,
        change: impl FnOnce(&mut RobotsConfig),
    ) -> Harness {
        let (ends, to_come) = mpsc::unbounded_channel();
        let to_come = Arc::new(tokio::sync::Mutex::new(to_come));
        let fetches = Arc::<Mutex<Vec<Lookup>>>::default();
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
        Harness {
            cache: RobotsCache::fetching(
                &config,
                clock.clone(),
                persistent,
                None,
                fetch,
                Arc::default(),
            ),
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
    async fn until(&self, done: impl Fn(&Harness) -> bool) {
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
        self.until(|_| entries.get(origin).is_none_or(|entry| is_free(&entry))).await;
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
    AccessResult::Unreachable { cause: Cause::Connect, retry_after: None }
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
