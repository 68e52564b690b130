//! A test of endurance: `cargo bench --bench soak`.
//!
//! 100 crawlers roam 1,000 origins, half of them HTTPS, for a minute (`SOAK_SECONDS`); every tenth request is for a
//! page that is disallowed. It fails, with exit code 1, unless
//!
//! - every allowed page arrives, every disallowed one is refused by crawlgate, and nothing else happens;
//! - each origin has been asked for its robots.txt once, and for a disallowed page never;
//! - each denial stands in the decision log;
//! - memory does not grow once all origins are known;
//! - crawlgate ends when it is told to, with exit code 0.

#![allow(
    dead_code,
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a measurement reads the clock, prints, and ends loudly where it cannot be set up"
)]

mod lab;

use std::io::{self, BufRead as _, BufReader};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use lab::Lab;
use lab::crawler::{Crawler, Crawlers, Way};
use lab::origin::{ALLOWED, DISALLOWED, Ports, SEEN, Seen};
use lab::process::Process;

const ORIGINS: u64 = 1000;
const CRAWLERS: u64 = 100;

/// Requests of a crawler to an origin before it moves on to another.
const VISIT: u64 = 10;

/// One in so many requests is for a disallowed page.
const DENIED_IN: u64 = 10;

/// Unused connections kept per origin: few, so that their number settles soon and memory can be judged.
const POOLED: &str = "idle_per_host = 1";

/// Tolerated growth, for the allocator's to-and-fro.
const TOLERATED: u64 = 4 << 20;

#[derive(Default)]
struct Counters {
    allowed: AtomicU64,
    denied: AtomicU64,
    wrong: AtomicU64,
}

fn main() -> ExitCode {
    match lab::role().as_deref() {
        Some(_) => {
            let directory = std::env::args().nth(2).unwrap();
            lab::origin::serve(Path::new(&directory));
            ExitCode::SUCCESS
        }
        None if lab::is_asked_to_measure() => soak(),
        None => ExitCode::SUCCESS,
    }
}

fn soak() -> ExitCode {
    let time = Duration::from_secs(lab::setting("SOAK_SECONDS", 60).max(8));
    raise_descriptor_limit();
    let lab = Lab::new(None);
    let names: Vec<String> = (0..ORIGINS).map(name).collect();
    let (gate, port) = lab.crawlgate(None, &names, POOLED);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();

    let counters = Arc::new(Counters::default());
    let authority = lab.file("ca.crt");
    let crawlers = Crawlers::new(Way::Proxy(port), &[&authority]);
    let resident = runtime.block_on(roam(&crawlers, lab.ports, &counters, time, &gate));
    let seen = runtime.block_on(ask_origin(lab.ports)).unwrap();
    let descriptors = gate.descriptors();
    let status = gate.terminate();
    let log = std::fs::File::open(lab.file("denied.jsonl")).unwrap();
    let records = BufReader::new(log).lines().count() as u64;

    let [allowed, denied, wrong] =
        [&counters.allowed, &counters.denied, &counters.wrong].map(|number| number.load(Relaxed));
    let samples = resident.len();
    // All origins are known after the first quarter.
    let early = median(&resident[samples / 4..samples / 2]);
    let late = median(&resident[samples * 3 / 4..]);
    let total = allowed + denied + wrong;
    println!(
        "{total} requests of {CRAWLERS} crawlers to {ORIGINS} origins in {} s: {} a second",
        time.as_secs(),
        total / time.as_secs()
    );
    println!("allowed {allowed}, denied {denied} ({:.1} %)", denied as f64 * 100.0 / total as f64);
    let mib = |octets: u64| octets as f64 / f64::from(1 << 20);
    println!(
        "memory: {:.1} MiB at the start, {:.1} once warm, {:.1} at the end; {descriptors} descriptors at the end",
        mib(resident[0]),
        mib(early),
        mib(late)
    );
    let demands = [
        (wrong == 0, format!("{wrong} wrong answers or errors")),
        (
            seen.robots == ORIGINS,
            format!("robots.txt fetched {} times from {ORIGINS} origins", seen.robots),
        ),
        (seen.disallowed == 0, format!("{} disallowed pages reached an origin", seen.disallowed)),
        (
            seen.allowed == allowed,
            format!("{} pages asked of origins, {allowed} delivered", seen.allowed),
        ),
        (records == denied, format!("{records} records of {denied} denials")),
        (
            late <= early + TOLERATED.max(early / 20),
            format!("memory grew by {:.1} MiB", mib(late.saturating_sub(early))),
        ),
        (status.success(), format!("crawlgate ended: {status}")),
    ];
    for (met, what) in &demands {
        println!("{} {what}", if *met { "ok  " } else { "FAIL" });
    }
    ExitCode::from(u8::from(!demands.iter().all(|(met, _)| *met)))
}

fn name(origin: u64) -> String {
    format!("o{origin:03}.bench.test")
}

/// Every connection to an origin is a descriptor, here as in crawlgate, which inherits the limit.
fn raise_descriptor_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let _ = setrlimit(Resource::Nofile, limit);
}

/// Starts the crawlers and returns the resident memory of the gate, second by second.
async fn roam(
    crawlers: &Crawlers,
    ports: Ports,
    counters: &Arc<Counters>,
    time: Duration,
    gate: &Process,
) -> Vec<u64> {
    let end = Instant::now() + time;
    let mut tasks = tokio::task::JoinSet::new();
    for place in 0..CRAWLERS {
        tasks.spawn(crawl(crawlers.clone(), ports, Arc::clone(counters), place, end));
    }
    let mut resident = Vec::new();
    while Instant::now() < end {
        resident.push(gate.resident());
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    tasks.join_all().await;
    resident
}

/// Visits the crawler's share of the origins once, so that all are known, then any.
async fn crawl(
    crawlers: Crawlers,
    ports: Ports,
    counters: Arc<Counters>,
    place: u64,
    end: Instant,
) {
    let mut chance = Chance(place + 1);
    let mut plain = None;
    let share = ORIGINS / CRAWLERS;
    let first = (place * share..(place + 1) * share).map(Some);
    for origin in first.chain(std::iter::repeat(None)) {
        if Instant::now() >= end {
            return;
        }
        let origin = origin.unwrap_or_else(|| chance.below(ORIGINS));
        if let Err(error) =
            visit(&crawlers, ports, &counters, &mut chance, &mut plain, origin).await
        {
            // Show only the first few failures.
            if counters.wrong.fetch_add(1, Relaxed) < 5 {
                eprintln!("{}: {error}", name(origin));
            }
            plain = None;
        }
    }
}

/// Sends some requests to one origin: over the crawler's own plain connection, or through a tunnel of this visit.
async fn visit(
    crawlers: &Crawlers,
    ports: Ports,
    counters: &Counters,
    chance: &mut Chance,
    plain: &mut Option<Crawler>,
    origin: u64,
) -> io::Result<()> {
    let host = name(origin);
    let secure = origin % 2 == 1;
    let port = if secure { ports.https } else { ports.http };
    let mut tunnel;
    let crawler = if secure {
        tunnel = crawlers.connect(true, &host, port).await?;
        &mut tunnel
    } else {
        if plain.is_none() {
            *plain = Some(crawlers.connect(false, &host, port).await?);
        }
        plain.as_mut().unwrap()
    };
    for _ in 0..VISIT {
        let disallowed = chance.below(DENIED_IN) == 0;
        let path = if disallowed { DISALLOWED } else { ALLOWED };
        let answer = crawler.ask(&crawlers.request(secure, &host, port, path)).await?;
        match (disallowed, answer.status, answer.by_proxy) {
            (false, 200, false) => counters.allowed.fetch_add(1, Relaxed),
            (true, 403, true) => counters.denied.fetch_add(1, Relaxed),
            _ => return Err(io::Error::other(format!("{path}: {answer:?}"))),
        };
    }
    Ok(())
}

async fn ask_origin(ports: Ports) -> io::Result<Seen> {
    let direct = Crawlers::new(Way::Direct, &[]);
    let mut crawler = direct.connect(false, "127.0.0.1", ports.http).await?;
    let request = direct.request(false, "127.0.0.1", ports.http, SEEN);
    let (_, body) = crawler.exchange(&request).await?;
    Ok(Seen::read(&String::from_utf8_lossy(&body)))
}

fn median(values: &[u64]) -> u64 {
    let mut values = values.to_vec();
    values.sort_unstable();
    values[values.len() / 2]
}

/// Numbers that are as good as random and the same each time (xorshift).
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        // The high bits are the better ones.
        (self.0 >> 11) % bound
    }
}
