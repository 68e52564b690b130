//! A fuzzer of HTTP/2 frames against a running crawlgate: `cargo bench --bench frames`.
//!
//! For ten seconds (`FRAMES_SECONDS`), half of them for each side, peers send frames: well-formed ones, some with random
//! flags, lengths, streams and payloads, and octets cut off anywhere. First crawlers do, in tunnels; then an origin does,
//! which ordinary requests ask meanwhile. The run fails, with exit code 1, unless crawlgate answers an ordinary request
//! of an honest origin after each batch, passes no response on as whole that the origin did not end, does not panic,
//! does not grow once it has settled, and ends with exit code 0. `FRAMES_SEED` repeats a run.

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

#[path = "frames/crawler.rs"]
mod crawler;
mod lab;
#[path = "frames/octets.rs"]
mod octets;
#[path = "frames/origin.rs"]
mod origin;
#[path = "frames/script.rs"]
mod script;
#[path = "frames/visitor.rs"]
mod visitor;

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use lab::Lab;
use lab::crawler::{Crawlers, Way};
use lab::origin::ALLOWED;
use lab::process::Process;
use octets::Random;
use origin::Hostile;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use tokio::time::timeout;
use visitor::Counters;

/// Connections at the same time.
const BATCH: usize = 16;

/// Time for a connection to answer before it is dropped.
const PATIENCE: Duration = Duration::from_millis(50);

/// The longest time for an answer of the origin that sends frames.
const MAX_PATIENCE: Duration = Duration::from_secs(5);

/// Requests in a row that may be late.
const MAX_LATE: u64 = 20;

/// Time for a side on a machine that is so busy that a run shows nothing at first.
const MAX_TIME: Duration = Duration::from_secs(120);

/// Tolerated growth, for the allocator's to-and-fro.
const TOLERATED: u64 = 16 << 20;

/// Settings for an origin that fails all the time: no request waits for long, nor for the origin's sake.
const SETTINGS: &str =
    "connect_timeout = \"500ms\"\nhttp2_connections = 2\n[pace]\nbackoff = false\n";

fn main() -> ExitCode {
    match lab::role().as_deref() {
        Some(_) => {
            let directory = std::env::args().nth(2).unwrap();
            lab::origin::serve(Path::new(&directory));
            ExitCode::SUCCESS
        }
        None if lab::is_asked_to_measure() => fuzz(),
        None => ExitCode::SUCCESS,
    }
}

fn fuzz() -> ExitCode {
    let time = Duration::from_secs(lab::setting("FRAMES_SECONDS", 10)) / 2;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let seed = lab::setting("FRAMES_SEED", now.as_nanos() as u64);
    println!("seed {seed}");
    let lab = Lab::new(None);
    let (gate, port) = lab.crawlgate(None, &[], SETTINGS);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut bench = FrameBench {
        crawlers: Crawlers::new(Way::Proxy(port), &[&lab.file("ca.crt")]),
        random: Random(seed | 1),
        lab,
        gate,
        time,
        runtime,
    };
    // Both, even if the first fails: each says what it found.
    let holds = [bench.hostile_crawlers(), bench.hostile_origin()];
    let has_panicked = bench.gate.has_panicked();
    let status = bench.gate.terminate();
    println!("the end: {status}, panics: {has_panicked}");
    match status.success() && !has_panicked && holds == [true; 2] {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

struct FrameBench {
    lab: Lab,
    gate: Process,
    crawlers: Crawlers,
    random: Random,
    /// Time for each side.
    time: Duration,
    runtime: Runtime,
}

impl FrameBench {
    /// Runs batches until the time is over, each with an ordinary request after it, and for longer while `batch` tells that
    /// all of them have shown nothing. Tells whether memory settles.
    fn batches(
        &mut self,
        side: &str,
        honest: u16,
        mut batch: impl FnMut(&mut Self) -> bool,
    ) -> bool {
        let start = Instant::now();
        let (mut batches, mut late, mut settled) = (0_u64, 0, 0);
        let before = self.gate.resident();
        let mut is_telling = false;
        while start.elapsed() < self.time || (!is_telling && start.elapsed() < MAX_TIME) {
            is_telling = batch(self);
            batches += 1;
            late += self.ask(honest);
            if settled == 0 && start.elapsed() > self.time / 3 {
                settled = self.gate.resident();
            }
        }
        let resident = self.gate.resident();
        println!(
            "{side}: {batches} batches, {late} late answers; memory: {before} octets at first, {settled} after a third, {resident} at the end"
        );
        resident <= settled + TOLERATED
    }

    /// Asks an honest origin, again where crawlgate has not reached it in time: on a busy machine the connect time-out is
    /// short. Returns the number of requests that were too late.
    fn ask(&self, port: u16) -> u64 {
        let crawlers = &self.crawlers;
        for late in 0..MAX_LATE {
            let status = self.runtime.block_on(async {
                let mut crawler = crawlers.connect(true, "127.0.0.1", port).await?;
                let request = crawlers.request(true, "127.0.0.1", port, ALLOWED);
                Ok::<_, std::io::Error>(crawler.ask(&request).await?.status)
            });
            match status.unwrap() {
                200 => return late,
                status => assert_eq!(status, 504, "an ordinary request"),
            }
        }
        panic!("no ordinary request is answered");
    }

    /// Crawlers send frames to crawlgate.
    fn hostile_crawlers(&mut self) -> bool {
        let origin = self.lab.ports.https;
        self.batches("crawlers", origin, |bench| {
            bench.runtime.block_on(async {
                let mut batch = JoinSet::new();
                for _ in 0..BATCH {
                    let crawlers = bench.crawlers.clone();
                    let octets = crawler::script(&mut bench.random, origin);
                    batch.spawn(async move {
                        let mut stream = crawlers.speak_http2("127.0.0.1", origin).await.unwrap();
                        // A peer that has closed already has judged the frames.
                        drop(stream.write_all(&octets).await);
                        drop(stream.flush().await);
                        drop(timeout(PATIENCE, stream.read_to_end(&mut Vec::new())).await);
                    });
                }
                batch.join_all().await;
            });
            true
        })
    }

    /// An origin answers ordinary requests of crawlgate with frames.
    fn hostile_origin(&mut self) -> bool {
        let tls = lab::origin::acceptor(self.lab.directory(), b"h2");
        let random = self.random.fork();
        let hostile = self.runtime.block_on(Hostile::start(tls, random));
        let (mut counters, mut patience) = (Counters::default(), visitor::PATIENCE);
        let honest = self.lab.ports.http2;
        let settles = self.batches("an origin", honest, |bench| {
            let (crawlers, random) = (&bench.crawlers, &mut bench.random);
            let visiting = visitor::visit(crawlers, &hostile, random, patience);
            let visited = bench.runtime.block_on(visiting);
            if visited.is_silent() {
                patience = (2 * patience).min(MAX_PATIENCE);
            }
            counters.add(&visited);
            counters.is_telling()
        });
        println!("{counters:?}");
        // A run in which nothing passes, or nothing breaks off, shows nothing.
        settles && counters.is_telling()
    }
}
