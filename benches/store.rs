//! The cost of keeping every decision: `cargo bench --bench store`.
//!
//! Records of real length go through the log's queue and its writer into a store on disk, at full speed; then they are
//! queried. `STORE_RECORDS` (1,000,000) sets their number, `STORE_ORIGINS` (0) the number of origins that are stored
//! and then forgotten by the process, to show that opening does not depend on it, and `STORE_FOLDER` the place of the
//! store (a temporary directory).
//!
//! The last line of `cargo bench --bench exchange` shows the cost for exchanges.

#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a measurement reads the clock, prints, and ends loudly where it cannot be set up"
)]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crawlgate::audit::{Agent, Client, DecisionId, Log, Record, RobotsCopy, RuleLine};
use crawlgate::clock::{Clock, Moment};
use crawlgate::config::{Config, Recorded};
use crawlgate::rep::Origin;
use crawlgate::robots::access::Absence;
use crawlgate::robots::identity::Identity;
use crawlgate::robots::state::{Fresh, State};
use crawlgate::store::{
    self, Access, Batch, DecisionQuery, Fetch, OriginQuery, OriginUpdate, Store, TallyKey,
};

fn main() {
    if !std::env::args().any(|word| word == "--bench") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = std::env::var_os("STORE_FOLDER").map_or(folder.path().to_owned(), Into::into);
    let mut config = Config::default();
    config.log.decisions = Recorded::All;
    config.log.file = None;
    config.audit.refusals_per_minute = u32::MAX;
    config.store.path = Some(folder.join("bench.db"));
    let runtime = tokio::runtime::Builder::new_multi_thread().build().unwrap();
    runtime.block_on(measure(&config));
}

async fn measure(config: &Config) {
    let path = config.store.path.as_deref().unwrap();
    let (records, origins) = (
        setting("STORE_RECORDS", 1_000_000),
        setting("STORE_ORIGINS", 0),
    );
    let store = store::open(config, Access::Write).unwrap();
    let before = on_disk(path);
    let took = write(config, &store, records).await;
    let rate = records as f64 / took.as_secs_f64();
    println!("{records} decisions through the log: {took:.1?}, {rate:.0}/s");
    drop(store);
    let per_million = (on_disk(path) - before) as f64 / records as f64;
    println!("size: {per_million:.0} MB per million decisions");

    let store = store::open(config, Access::Read).unwrap();
    ask(&*store).await;
    drop(store);
    if origins > 0 {
        let store = store::open(config, Access::Write).unwrap();
        let (took, before) = (Instant::now(), on_disk(path));
        land(&*store, origins).await;
        println!("{origins} origins: {:.1?}", took.elapsed());
        drop(store);
        let each = (on_disk(path) - before) / origins;
        println!("size: {each} octets per origin");
    }
    let began = Instant::now();
    let store = store::open(config, Access::Write).unwrap();
    let page = OriginQuery {
        limit: 1,
        ..OriginQuery::default()
    };
    store.origins(page).await.unwrap();
    println!("opening it: {:.1?}", began.elapsed());
}

async fn write(config: &Config, store: &Arc<dyn Store>, records: u64) -> Duration {
    let clock = Clock::system();
    let log = Log::open(config, Some(Arc::clone(store)), &clock).unwrap();
    let began = Instant::now();
    for n in 0..records {
        log.ready().await.unwrap();
        record(&log, n, clock.now());
    }
    log.flush().await.unwrap();
    began.elapsed()
}

/// One of ten is denied; a thousand sites.
fn record(log: &Log, n: u64, now: Moment) {
    let (host, is_denied) = (
        format!("www.site-{}.example", n * 7 % 1_000),
        n.is_multiple_of(10),
    );
    let (verdict, reason) = match is_denied {
        true => ("deny", "robots_disallow"),
        false => ("allow", "robots_allow"),
    };
    let url = format!(
        "https://{host}/some/path/of/usual/length/{n}.html?page={}",
        n % 50
    );
    let origin = format!("https://{host}");
    let robots = format!("{origin}/robots.txt");
    log.record(&Record {
        time: now,
        id: DecisionId::mint(now),
        decided_at: now,
        mode: "enforce",
        verdict,
        reason,
        policy: None,
        client: Client {
            address: ([127, 0, 0, 1], 40_000).into(),
            name: None,
        },
        agent: Agent {
            chain: (&["ExampleBot"][..]).into(),
            source: "user_agent",
            mismatch: false,
        },
        user_agent: Some(b"ExampleBot/1.0 (+https://bot.example/about)"),
        method: "GET",
        version: Some("1.1"),
        url: url.as_bytes(),
        origin: Some(&origin),
        via: "intercepted",
        opaque: false,
        rule: is_denied.then_some(RuleLine {
            group: "*",
            text: "Disallow: /some/path",
            line: 17,
        }),
        reading: None,
        overridden: None,
        robots: Some(RobotsCopy {
            identity: Some("benchbot"),
            user_agent: Some("BenchBot crawlgate/0.1"),
            final_url: Some(&robots),
            state: "successful",
            status: Some(200),
            fetched_at: Some(now),
            sha256: Some([n as u8; 32]),
            bytes: Some(1_234),
            truncated: false,
            fresh_until: Some(now + Duration::from_secs(86_400)),
            unreachable: None,
        }),
        hold: Duration::ZERO,
        pace: None,
        upstream: Some(([192, 0, 2, 1], 443).into()),
        upstream_version: None,
        status: Some(200),
        bytes_in: 0,
        bytes_out: 12_345,
        duration: Duration::from_micros(23_456),
        error: None,
        detail: None,
    });
}

async fn ask(store: &dyn Store) {
    let all = DecisionQuery {
        limit: 100,
        newest_first: true,
        ..DecisionQuery::default()
    };
    let host = DecisionQuery {
        origin: Some("www.site-7.example".to_owned()),
        ..all.clone()
    };
    let denied = DecisionQuery {
        verdict: Some("deny".to_owned()),
        ..all.clone()
    };
    let rare = DecisionQuery {
        reason: Some("path_guard".to_owned()),
        ..all.clone()
    };
    for (name, query) in [
        ("the last 100", all.clone()),
        ("the last 100 of one host", host),
        ("the last 100 that were denied", denied),
        ("100 of which there is none", rare),
    ] {
        let began = Instant::now();
        let count = store.decisions(query).await.unwrap().len();
        println!("{name}: {count} in {:.1?}", began.elapsed());
    }
    let began = Instant::now();
    store.tally(all, TallyKey::Origin, 10).await.unwrap();
    println!("counted by origin: {:.1?}", began.elapsed());
}

async fn land(store: &dyn Store, origins: u64) {
    const AT_ONCE: u64 = 10_000;
    let now = Clock::system().now();
    let mut first = 0;
    while first < origins {
        let last = origins.min(first + AT_ONCE);
        let landings = (first..last).map(|n| landing(n, now)).collect();
        let batch = Batch {
            landings,
            ..Batch::default()
        };
        store.write(batch).await.unwrap();
        first = last;
    }
}

fn landing(n: u64, now: Moment) -> OriginUpdate {
    let url = format!("https://www.site-{n:08}.example");
    OriginUpdate {
        origin: Origin::parse(&url).unwrap().0,
        state: Arc::new(State::Unavailable {
            why: Absence::Status(404),
            fetched: now,
            fresh: Fresh {
                refresh_from: now,
                until: now + Duration::from_secs(86_400),
            },
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
