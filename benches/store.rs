//! The cost of keeping every decision: `cargo bench --bench store`.
//!
//! The decisions of `evidence/sets.rs` go through the log's queue and its writer into a store on disk, at full speed, as if
//! made over the last thirty days, and at 50,000 and 5,000 a second; then they are queried. Costs are CPU times: those of the requests' thread, and those of all
//! other threads (the log's and the store's). `STORE_RECORDS` (1,000,000) sets the number of decisions at full speed,
//! `STORE_SECONDS_50000` and `STORE_SECONDS_5000` (5) how long the rates are kept, `STORE_SETS` (E) the sets,
//! `STORE_SYNCHRONOUS` (full) `[store] synchronous`, `STORE_ORIGINS` (0) the number of origins that are stored and then
//! forgotten by the process, to show that opening does not depend on it, and `STORE_FOLDER` the place of the stores (a
//! temporary directory). `STORE_QUESTIONS=0` leaves the queries out.
//!
//! The allocator is that of the program. The last line of `cargo bench --bench exchange` shows the cost for exchanges.

#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a measurement reads the clock, prints, and ends loudly where it cannot be set up"
)]

#[path = "store/questions.rs"]
mod questions;
#[path = "evidence/sets.rs"]
mod sets;

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crawlgate_config::{Config, Recorded, Synchronous};
use crawlgate_evidence::{DecisionId, Exceeds, GroundDigests, Grounds, Log};
use crawlgate_origins::access::Absence;
use crawlgate_origins::identity::Identity;
use crawlgate_origins::snapshot::Snapshot;
use crawlgate_origins::state::{Fresh, State};
use crawlgate_policy::settings::PolicyDigest;
use crawlgate_record::{Bounds, Decision, Rule, Url, Verdict};
use crawlgate_robots::{Origin, ParseOptions, Robots};
use crawlgate_store::{self as store, Access, Batch, Fetch, OriginQuery, OriginUpdate, Store};
use crawlgate_system::clock::{Clock, Moment};
use rustix::time::{ClockId, clock_gettime};

use self::sets::{Dice, Request, request};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const DAY: Duration = Duration::from_secs(86_400);

/// Requests made at once, outside of the measured time.
const AT_ONCE: u64 = 100_000;

fn main() {
    if !std::env::args().any(|word| word == "--bench") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = std::env::var_os("STORE_FOLDER").map_or(folder.path().to_owned(), Into::into);
    let mut config = Config::default();
    config.log.decisions = Recorded::All;
    config.log.file = None;
    config.audit.refusals_per_minute = None;
    config.store.synchronous = match std::env::var("STORE_SYNCHRONOUS").as_deref() {
        Ok("normal") => Synchronous::Normal,
        _ => Synchronous::Full,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let sets = std::env::var("STORE_SETS").unwrap_or_else(|_| "E".to_owned());
    for set in sets.chars() {
        config.store.path = Some(folder.join(format!("bench-{set}.db")));
        runtime.block_on(measure(&config, set));
    }
}

async fn measure(config: &Config, set: char) {
    let path = config.store.path.as_deref().unwrap();
    let (records, origins) = (setting("STORE_RECORDS", 1_000_000), setting("STORE_ORIGINS", 0));
    println!("set {set}:");
    let store = store::open(config, Access::Write).unwrap();
    let log = Log::open(config, Some(Arc::clone(&store)), &Clock::system()).unwrap();
    let mut feed = Feed::of(set);
    let before = on_disk(path);
    if records > 0 {
        feed.run(&log, records, None).await;
        let each = (on_disk(path) - before) as f64 / records as f64;
        println!("  {each:.1} octets on disk for a decision");
    }
    for rate in [50_000, 5_000] {
        let seconds = setting(&format!("STORE_SECONDS_{rate}"), 5);
        if seconds > 0 {
            feed.run(&log, rate * seconds, Some(rate)).await;
        }
    }
    drop(log);
    drop(store);
    if setting("STORE_QUESTIONS", 1) == 0 {
        return;
    }

    let store = store::open(config, Access::Write).unwrap();
    questions::ask(&store).await;
    drop(store);
    questions::ask_by_sql(path);
    if origins > 0 {
        let store = store::open(config, Access::Write).unwrap();
        let (took, before) = (Instant::now(), on_disk(path));
        update_origin(&store, origins).await;
        println!("  {origins} origins: {:.1?}", took.elapsed());
        drop(store);
        let each = (on_disk(path) - before) / origins;
        println!("  {each} octets on disk for an origin");
    }
    let began = Instant::now();
    let store = store::open(config, Access::Write).unwrap();
    let page = OriginQuery { limit: 1, ..OriginQuery::default() };
    store.origins(page).await.unwrap();
    println!("  opening it: {:.1?}", began.elapsed());
}

/// Decisions of a set, without end.
struct Feed {
    set: char,
    dice: Dice,
    n: u64,
    fetched: Moment,
    policy: PolicyDigest,
    /// The state of each site, and its digest. The proxy keeps them together.
    states: HashMap<u64, (State, GroundDigests)>,
}

impl Feed {
    fn of(set: char) -> Self {
        Self {
            set,
            dice: Dice::of_set(set),
            n: 0,
            fetched: Clock::system().now(),
            policy: PolicyDigest::of("{}"),
            states: HashMap::new(),
        }
    }

    /// Records `count` decisions, at full speed or so many in a second, and prints what a decision took.
    async fn run(&mut self, log: &Log, count: u64, rate: Option<u64>) {
        let clock = Clock::system();
        let first = clock.now() - DAY * 30;
        let (mut took, mut caller, mut others) = <(Duration, Duration, Duration)>::default();
        let mut left = count;
        while left > 0 {
            let some = left.min(AT_ONCE);
            left -= some;
            let requests: Vec<Request> =
                (self.n..self.n + some).map(|n| request(self.set, n, &mut self.dice)).collect();
            self.n += some;
            for request in &requests {
                let state = || {
                    let state = state_of(request.site, self.fetched);
                    let digests = grounds_of(&state).digests(Some(&request.origin));
                    (state, digests)
                };
                self.states.entry(request.site).or_insert_with(state);
            }
            let (began, before) = (Instant::now(), (own_cpu(), cpu_of_others()));
            for (n, request) in (0..).zip(&requests) {
                if let Some(rate) = rate
                    && n % (rate / 1_000) == 0
                {
                    let due = Duration::from_micros(n * 1_000_000 / rate);
                    std::thread::sleep(due.saturating_sub(began.elapsed()));
                }
                log.ready().await.unwrap();
                let (state, digests) = &self.states[&request.site];
                let time = match rate {
                    Some(_) => clock.now(),
                    None => first + DAY * 30 / count as u32 * (count - left - some + n) as u32,
                };
                self.with(request, time, |decision| {
                    let (decision, grounds) = (digests.named_by(decision), grounds_of(state));
                    log.record(&decision, &grounds, Recorded::Denied, Exceeds::Nothing);
                });
            }
            log.flush().await.unwrap();
            took += began.elapsed();
            caller += own_cpu() - before.0;
            others += cpu_of_others() - before.1;
        }
        let per = |time: Duration| time.as_nanos() as f64 / count as f64;
        println!(
            "  {count} decisions, {:.0}/s: {:.0} ns of CPU a decision for the request, {:.0} for the log and the store",
            count as f64 / took.as_secs_f64(),
            per(caller),
            per(others),
        );
    }

    /// Makes the record of a request.
    fn with(&self, request: &Request, now: Moment, then: impl FnOnce(Decision<'_>)) {
        let Request { site, is_denied, origin, .. } = request;
        let PolicyDigest(policy) = &self.policy;
        then(Decision {
            id: DecisionId::mint(now).octets(),
            decided_after: 0,
            verdict: if *is_denied { Verdict::Deny } else { Verdict::Allow },
            reason: match is_denied {
                true => "robots_disallow",
                false => "robots_allow",
            },
            policy: Some(policy),
            client: request.client,
            chain: (&[&*request.token][..]).into(),
            user_agent: Some(request.user_agent.as_bytes().into()),
            origin: Some(origin),
            url: Url::public(request.url.as_bytes(), Some(origin), false, Bounds::CLIENTS),
            rule: is_denied.then(|| Rule {
                group: "*".into(),
                text: request.rule.as_bytes().into(),
                line: 17,
            }),
            reading: None,
            hold: 0,
            pace: None,
            upstream: (!is_denied).then(|| ([192, 0, 2, *site as u8], 443).into()),
            upstream_version: (!is_denied).then_some("2"),
            status: Some(if *is_denied { 403 } else { 200 }),
            bytes_out: request.bytes_out,
            duration: request.duration,
            error: is_denied.then(|| "http_request_denied".into()),
            ..Decision::sample()
        });
    }
}

/// Returns the state of a site with its own robots.txt.
fn state_of(site: u64, fetched: Moment) -> State {
    let text = format!("User-agent: *\nDisallow: /{site}/\n");
    let robots = Robots::parse(text.as_bytes(), ParseOptions::default());
    State::Successful {
        snapshot: Arc::new(Snapshot::new(robots, fetched, 200, "")),
        fresh: Fresh { refresh_from: fetched + DAY, until: fetched + DAY },
        outage: None,
    }
}

fn grounds_of(state: &State) -> Grounds<'_> {
    Grounds { robots: Some((state, None)), ..Grounds::default() }
}

/// Returns the CPU time of this thread.
fn own_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Returns the CPU time of the threads that write the log and the store. The program's own name begins as theirs do, so
/// the thread that has it does not count.
fn cpu_of_others() -> Duration {
    let own = rustix::process::getpid().as_raw_nonzero().to_string();
    let mut sum = 0;
    for task in fs::read_dir("/proc/self/task").unwrap() {
        let task = task.unwrap();
        if task.file_name() == *own {
            continue;
        }
        let name = fs::read_to_string(task.path().join("comm")).unwrap();
        if name.starts_with("decision-log") || name.starts_with("store-") {
            let times = fs::read_to_string(task.path().join("schedstat")).unwrap();
            let ran = times.split(' ').next().unwrap();
            sum += ran.parse::<u64>().unwrap();
        }
    }
    Duration::from_nanos(sum)
}

async fn update_origin(store: &Store, origins: u64) {
    const AT_ONCE: u64 = 10_000;
    let now = Clock::system().now();
    let mut first = 0;
    while first < origins {
        let last = origins.min(first + AT_ONCE);
        let updates = (first..last).map(|n| origin_update(n, now)).collect();
        let batch = Batch { updates, ..Batch::default() };
        store.write(batch).await.unwrap();
        first = last;
    }
}

fn origin_update(n: u64, now: Moment) -> OriginUpdate {
    let url = format!("https://www.site-{n:08}.example");
    OriginUpdate {
        origin: Origin::parse(&url).unwrap().0,
        state: Arc::new(State::Unavailable {
            why: Absence::Status(404),
            fetched: now,
            fresh: Fresh { refresh_from: now, until: now + Duration::from_secs(86_400) },
            outage: None,
        }),
        user_agent: "crawlgate/0.1".into(),
        fetch: Fetch {
            identity: Identity::default(),
            user_agent: "crawlgate/0.1".to_owned(),
            other: None,
            time: now,
            duration: Duration::from_millis(80),
            result: "unavailable".to_owned(),
            cause: None,
            status: Some(404),
            hops: vec![format!("{url}/robots.txt")],
            sha256: None,
            fields: Vec::new(),
        },
    }
}

/// Returns the octets of the database and its log.
fn on_disk(path: &Path) -> u64 {
    let log = path.with_extension("db-wal");
    let len = |path: &Path| path.metadata().map_or(0, |file| file.len());
    len(path) + len(&log)
}

fn setting(name: &str, default: u64) -> u64 {
    let text = std::env::var(name).ok();
    text.map_or(default, |text| {
        let number = text.parse();
        number.unwrap_or_else(|_| panic!("{name}={text}: not a number"))
    })
}
