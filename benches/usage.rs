//! The cost of use preferences and of signatures for one request: `cargo bench --bench usage`.
//!
//! - `silent`: the head of a response without a field about use, judged for a client that declares purposes.
//! - `one_field`: a head with only `X-Robots-Tag`.
//! - `six_fields`: a head with all six fields, judged.
//! - `record`: the text of the record of that response.
//! - `signature`: the fields of one signed request.
//!
//! For each, nanoseconds of CPU time (the fastest of many short samples), allocations and, where valgrind is installed,
//! instructions. Instructions do not depend on what else the machine does: the program runs itself under `callgrind`
//! with two numbers of rounds, and the difference is the cost of the rounds between. Ends with exit code 1 if six fields or
//! a signature cost more allocations than [`MAX_ALLOCATIONS`].

#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a measurement reads the clock, prints, and ends loudly where it cannot be set up"
)]

use std::alloc::System;
use std::cell::{OnceCell, RefCell};
use std::hint::black_box;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::Duration;

use crawlgate_policy::usage::{Head, Signals, release};
use crawlgate_policy::{Decision, Reason};
use crawlgate_robots::ProductToken;
use crawlgate_signing::{AgentUrl, Cover, Form, Identities, Settings, Signable, SigningKey};
use crawlgate_system::clock::Moment;
use crawlgate_usage::{Modes, Purpose, Purposes, lines};
use http::{HeaderMap, HeaderName, HeaderValue};
use rustix::time::{ClockId, clock_gettime};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Fields that most responses have.
const ORDINARY: [(&str, &str); 11] = [
    ("date", "Mon, 23 Nov 2026 10:00:00 GMT"),
    ("content-type", "text/html; charset=utf-8"),
    ("content-length", "10240"),
    ("connection", "keep-alive"),
    ("server", "nginx"),
    ("vary", "Accept-Encoding"),
    ("etag", "\"5d8c72a5edda8d6a\""),
    ("last-modified", "Sun, 22 Nov 2026 10:00:00 GMT"),
    ("cache-control", "public, max-age=3600"),
    ("strict-transport-security", "max-age=31536000"),
    ("x-content-type-options", "nosniff"),
];

/// A field about use of each name. A purpose of `search` passes.
const OF_USAGE: [(&str, &str); 6] = [
    ("content-usage", "train-ai=n, search=y"),
    ("content-signal", "search=yes, ai-train=no, ai-input=yes"),
    ("tdm-reservation", "1"),
    ("tdm-policy", "https://site.example/policies/tdm.json"),
    ("x-robots-tag", "max-snippet:50, noai, noimageai"),
    ("link", "<https://site.example/license.xml>; rel=\"license\"; type=\"application/rsl+xml\""),
];

/// Limit on allocations, for the lines that have one.
const MAX_ALLOCATIONS: [(&str, usize); 3] = [("silent", 0), ("six_fields", 7), ("signature", 6)];

/// Rounds of the shorter run under callgrind; the longer one has twice as many.
const COUNTED: usize = 10_000;

/// The place of the work and of the number of rounds in the arguments of a run under callgrind.
const ONLY: &str = "--only";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let work = Work::new();
    if let [only, name, rounds] = arguments.as_slice()
        && only == ONLY
    {
        let round = work.round(name);
        (0..rounds.parse().unwrap()).for_each(|_| round());
        return ExitCode::SUCCESS;
    }
    let mut code = ExitCode::SUCCESS;
    println!("| what | ns | allocations | instructions |");
    println!("|---|---:|---:|---:|");
    for name in ["silent", "one_field", "six_fields", "record", "signature"] {
        let round = work.round(name);
        round();
        let region = Region::new(ALLOCATOR);
        round();
        let change = region.change();
        let allocations = change.allocations + change.reallocations;
        let instructions = instructions(name).map_or("–".to_owned(), |count| count.to_string());
        println!("| {name} | {} | {allocations} | {instructions} |", fastest(&*round));
        let mut bounds = MAX_ALLOCATIONS.into_iter();
        if bounds.any(|(bounded, most)| bounded == name && allocations > most) {
            println!("too many allocations");
            code = ExitCode::FAILURE;
        }
    }
    code
}

/// The input of the rounds.
struct Work {
    tokens: [ProductToken; 1],
    decision: RefCell<Decision>,
    silent: HeaderMap,
    one_field: HeaderMap,
    six_fields: HeaderMap,
    /// A new key, made when it is needed: how long that takes is not the same twice.
    identities: OnceCell<Identities>,
}

impl Work {
    fn new() -> Work {
        let signals =
            Signals::of(Purposes::NONE.with(Purpose::Search), &Arc::new(Modes::default()));
        Work {
            tokens: [ProductToken::new("ExampleBot").unwrap()],
            decision: RefCell::new(Decision {
                signals: Some(signals),
                ..Decision::bare(Reason::RobotsAllow, Moment::from_millis(0))
            }),
            silent: headers(&[]),
            one_field: headers(&[("x-robots-tag", "noindex")]),
            six_fields: headers(&OF_USAGE),
            identities: OnceCell::new(),
        }
    }

    /// Returns one round of the work of this name.
    fn round(&self, name: &str) -> Box<dyn Fn() + '_> {
        match name {
            "silent" => Box::new(|| self.judge(&self.silent)),
            "one_field" => Box::new(|| self.judge(&self.one_field)),
            "six_fields" => Box::new(|| self.judge(&self.six_fields)),
            "record" => {
                self.judge(&self.six_fields);
                let usage = self.decision.borrow_mut().usage.take();
                let usage = usage.expect("fields about use");
                Box::new(move || drop(black_box(usage.text())))
            }
            "signature" => Box::new(|| self.sign()),
            _ => panic!("no work is called {name}"),
        }
    }

    /// Judges a response, as the exchange does at its head.
    fn judge(&self, headers: &HeaderMap) {
        let mut decision = self.decision.borrow_mut();
        decision.usage = None;
        let fields = black_box(headers).iter();
        let head = Head {
            status: 200,
            lines: lines::of(fields.map(|(name, value)| (name.as_str(), value.as_bytes()))),
            tokens: &self.tokens,
        };
        let released = release(&mut decision, head);
        assert!(released.is_some(), "nothing refuses this purpose");
    }

    fn sign(&self) {
        let identities = self.identities.get_or_init(identities);
        let identity = identities.get("news").unwrap();
        let request = Signable {
            method: "GET",
            authority: "site.example",
            path_and_query: "/articles/2026/11/23/a-title-of-usual-length?page=2",
        };
        let signed =
            identity.sign(black_box(&request), Moment::from_millis(1_795_000_000_000), [7; 32]);
        drop(black_box(signed.unwrap()));
    }
}

fn identities() -> Identities {
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("key");
    SigningKey::create(&key).unwrap();
    let settings = Settings {
        name: "news".into(),
        agent: AgentUrl::parse("https://bot.example/.well-known/http-message-signatures-directory")
            .unwrap(),
        key,
        publish: Vec::new(),
        lifetime: Duration::from_secs(60),
        cover: Cover::Request,
        form: Form::Dictionary,
        plain_http: false,
    };
    Identities::load(&[settings]).unwrap()
}

fn headers(more: &[(&'static str, &'static str)]) -> HeaderMap {
    let all = ORDINARY.iter().chain(more);
    let all =
        all.map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
    all.collect()
}

/// Returns the CPU time of a round in nanoseconds, in the fastest of many samples.
fn fastest(round: &dyn Fn()) -> u64 {
    let sample = |rounds: u64| {
        let began = cpu();
        (0..rounds).for_each(|_| round());
        (cpu() - began).as_nanos() as u64
    };
    // Short samples: some of them run without interruption.
    let rounds = (200_000 / sample(100).div_ceil(100).max(1)).max(1);
    (0..2_000).map(|_| sample(rounds)).min().unwrap() / rounds
}

fn cpu() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// Returns the instructions of a round; `None` without valgrind.
fn instructions(name: &str) -> Option<u64> {
    let total = |rounds: usize| {
        let run = Command::new("valgrind")
            .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
            .arg(std::env::current_exe().ok()?)
            .args([ONLY, name, &rounds.to_string()])
            .output()
            .ok()?;
        let said = String::from_utf8_lossy(&run.stderr).into_owned();
        let (_, collected) = said.split_once("Collected :")?;
        collected.split_whitespace().next()?.parse::<u64>().ok()
    };
    let (once, twice) = (total(COUNTED)?, total(2 * COUNTED)?);
    Some(twice.saturating_sub(once) / COUNTED as u64)
}
