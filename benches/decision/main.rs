//! The cost of a decision with a known robots.txt: `cargo bench --bench decision`.
//!
//! - `gate`: the whole check of every request: the client, the state of the origin, the rules, the origin's pace; the
//!   permit or the refusal included. No request waits here, so the future is polled once by hand, without the cost of a
//!   runtime. `in_fleet`: the same at an instance of a fleet, with its engine in this process.
//! - `identity`: the identification of a request's client and crawler, on a connection that has shown it before and on
//!   one that has not; and the cost of a client's usage counters.
//! - `pace`: a turn without any wait, taken and ended, and the recording of an answer.
//! - `rules`: only the matching, beside two other libraries with the same paths and the same file. The first of them
//!   keeps the rules of one crawler; the second, a port of Google's parser, reads the file again for each question.
//! - `parse`: reading the file.
//!
//! The file has 100 rules for everybody and 20 for another crawler.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a benchmark that cannot be set up ends loudly"
)]

mod identity;
mod pace;

use std::fmt::Write as _;
use std::future::Future as _;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener};
use std::pin::pin;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crawlgate_config::Config;
use crawlgate_egress::Egress;
use crawlgate_evidence::Log;
use crawlgate_gate::{Cleared, Gate, HeldOutcome, Kind, PriorClaim, Requester};
use crawlgate_policy::agent::Agent;
use crawlgate_policy::{Decision, Reason, Ruling, Target};
use crawlgate_robots::{ComparisonPath, Origin, ParseOptions, ProductToken, Robots, Rules};
use crawlgate_system::clock::Clock;
use crawlgate_turns::client::Client;
use crawlgate_turns::fleet::coordinator::Call;
use crawlgate_turns::fleet::in_memory::InMemoryEngine;
use crawlgate_turns::fleet::{Fleet, FleetKey, HeartbeatListener, HeartbeatReply};
use divan::{Bencher, black_box};
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, header};

const CRAWLER: &str = "BenchBot";
const USER_AGENT: &str = "Mozilla/5.0 (compatible; BenchBot/1.0; +https://bench.example/bot)";

/// Name, path and expected reason of each case.
const PATHS: [(&str, &str, Reason); 9] = [
    (
        "allowed, no rule matches",
        "/articles/2026/11/a-page-of-usual-length.html?page=2",
        Reason::RobotsAllow,
    ),
    ("allowed, a longer rule wins", "/section-07/private/public/index", Reason::RobotsAllow),
    ("denied by a literal rule", "/section-31/private/diary.html", Reason::RobotsDisallow),
    (
        "denied by a rule with a wildcard",
        "/shop/list?colour=red&sort-12=price",
        Reason::RobotsDisallow,
    ),
    ("denied by a rule with an anchor", "/download/archive/big.type-05", Reason::RobotsDisallow),
    (
        "allowed, with escapes that are no other path",
        "/articles/caf%C3%A9%20noir/a-page.html?q=a%20b",
        Reason::RobotsAllow,
    ),
    (
        "allowed, with an escaped slash in the query",
        "/share?url=https%3A%2F%2Fsite.example%2Farticles",
        Reason::RobotsAllow,
    ),
    (
        "denied by the path guard, an escaped slash",
        "/section-31%2Fprivate%2Fdiary.html",
        Reason::PathGuard,
    ),
    ("denied by the path guard", "/open/../section-31/private/", Reason::PathGuard),
];

fn main() {
    divan::main();
}

/// 100 rules: 60 literal, 20 with wildcards, 20 with wildcard and anchor.
fn robots_txt() -> String {
    let mut text = String::from("User-agent: *\n");
    for n in 0..50 {
        let _ = writeln!(text, "Disallow: /section-{n:02}/private/");
    }
    for n in 0..10 {
        let _ = writeln!(text, "Allow: /section-{n:02}/private/public/");
    }
    for n in 0..20 {
        let _ = writeln!(text, "Disallow: /*?*sort-{n:02}=");
        let _ = writeln!(text, "Disallow: /download/*.type-{n:02}$");
    }
    text.push_str("\nUser-agent: OtherBot\n");
    for n in 0..20 {
        let _ = writeln!(text, "Disallow: /other-{n:02}/");
    }
    text
}

static TEXT: LazyLock<String> = LazyLock::new(robots_txt);

/// A gate that knows one origin.
struct Known {
    client: Client,
    runtime: tokio::runtime::Runtime,
    gate: Gate,
    origin: Origin,
    headers: HeaderMap,
    clock: Clock,
}

/// Takes over nothing that a fleet tells.
struct Nothing;

impl HeartbeatListener for Nothing {
    fn on_heartbeat<'a>(&'a self, _: &'a HeartbeatReply) -> Call<'a, u64> {
        Box::pin(async { Ok(0) })
    }

    fn cut_off(&self) {}
}

impl Known {
    fn new(is_in_fleet: bool) -> Known {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let origin = Origin::parse(&origin_that_serves(&TEXT)).unwrap().0;
        let mut config = Config::default();
        config.log.file = None;
        config.egress.allow = vec!["127.0.0.0/8".parse().unwrap()];
        // No thread sends heartbeats during the measurement, so the link must last without them.
        config.fleet.patience = Duration::from_secs(86_400);
        let clock = Clock::system();
        let fleet = is_in_fleet.then(|| {
            let engine = InMemoryEngine::new(clock.clone()).coordinator();
            let key = FleetKey::of(&[7; 32]);
            Arc::new(Fleet::new(&config.fleet, "a1", key, engine, clock.clone()))
        });
        let log = Arc::new(Log::open(&config, None, &clock).unwrap());
        let egress = Egress::new(&config, clock.clone()).unwrap();
        let gate = Gate::new(&config, egress, log, fleet.clone(), clock.clone());
        if let Some(fleet) = fleet {
            let following = gate.pace().following(Arc::new(Nothing));
            let _context = runtime.enter();
            tokio::spawn(Arc::clone(&fleet).run(following));
            runtime.block_on(fleet.connected());
        }
        let mut headers = HeaderMap::new();
        headers.insert(header::USER_AGENT, HeaderValue::from_static(USER_AGENT));
        let known = Known { client: Client::default(), runtime, gate, origin, headers, clock };
        // The first question fetches robots.txt.
        let agent = known.gate.identify(&known.client, &known.headers);
        let target = known.target("/");
        let requester = known.requester(&agent);
        let asked = known.clock.now();
        let (mut decision, mut pace) = (Decision::bare(Reason::RobotsPending, asked), None);
        let outcome = HeldOutcome { decision: &mut decision, pace: &mut pace };
        let first = known.gate.clear(
            Kind::Request,
            target,
            &requester,
            asked,
            PriorClaim::default(),
            outcome,
        );
        let cleared = known.runtime.block_on(first);
        assert!(matches!(cleared.ruling, Ruling::Allow(..)));
        known
    }

    fn target(&self, path: &'static str) -> Target {
        Target { origin: self.origin.clone(), path: PathAndQuery::from_static(path) }
    }

    fn requester<'a>(&'a self, agent: &'a Agent) -> Requester<'a> {
        Requester {
            generation: self.gate.generation(),
            address: Ipv4Addr::LOCALHOST.into(),
            client: &self.client,
            agent,
        }
    }

    fn ask(&self, target: Target) -> Cleared {
        let agent = self.gate.identify(&self.client, &self.headers);
        let requester = self.requester(&agent);
        let asked = self.clock.now();
        let (mut decision, mut pace) = (Decision::bare(Reason::RobotsPending, asked), None);
        let outcome = HeldOutcome { decision: &mut decision, pace: &mut pace };
        let clear = self.gate.clear(
            Kind::Request,
            target,
            &requester,
            asked,
            PriorClaim::default(),
            outcome,
        );
        let question = pin!(clear);
        match question.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(cleared) => cleared,
            Poll::Pending => panic!("what is known needs no waiting"),
        }
    }
}

/// Starts an origin on the loopback interface that answers one request, with this file.
fn origin_that_serves(text: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut head = [0; 4096];
        let _ = stream.read(&mut head).unwrap();
        let length = text.len();
        write!(
            stream,
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\n\r\n{text}"
        )
        .unwrap();
    });
    url
}

/// One line of [`PATHS`], shown by its description.
struct Case(&'static str, &'static str, Reason);

impl std::fmt::Display for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

fn cases() -> impl Iterator<Item = Case> {
    PATHS.into_iter().map(|(name, path, reason)| Case(name, path, reason))
}

/// Returns the cases without those of the path guard, which other libraries lack.
fn matching_cases() -> impl Iterator<Item = Case> {
    cases().filter(|case| case.2 != Reason::PathGuard)
}

#[divan::bench(args = cases())]
fn gate(bencher: Bencher<'_, '_>, case: &Case) {
    ask(bencher, case, &Known::new(false));
}

#[divan::bench(args = cases())]
fn in_fleet(bencher: Bencher<'_, '_>, case: &Case) {
    ask(bencher, case, &Known::new(true));
}

fn ask(bencher: Bencher<'_, '_>, Case(_, path, expected): &Case, known: &Known) {
    let _context = known.runtime.enter();
    let decided = match known.ask(known.target(path)).ruling {
        Ruling::Allow(_, decision) | Ruling::Refuse(decision) => decision.reason,
    };
    assert_eq!(decided, *expected, "{path}");
    bencher
        .with_inputs(|| known.target(path))
        .bench_local_values(|target| drop(black_box(known.ask(black_box(target)))));
}

mod rules {
    use super::*;

    fn compiled() -> Rules {
        let robots = Robots::parse(TEXT.as_bytes(), ParseOptions::default());
        robots.rules(robots.selection(&[ProductToken::new(CRAWLER).unwrap()]))
    }

    fn denies(reason: Reason) -> bool {
        reason == Reason::RobotsDisallow
    }

    #[divan::bench(args = matching_cases())]
    fn crawlgate(bencher: Bencher<'_, '_>, Case(_, path, expected): &Case) {
        let rules = compiled();
        let denied = |path: &str| {
            rules
                .verdict(&ComparisonPath::new(path.as_bytes()))
                .is_some_and(|rule| rule.kind == crawlgate_robots::RuleKind::Disallow)
        };
        assert_eq!(denied(path), denies(*expected), "{path}");
        bencher.bench_local(|| denied(black_box(path)));
    }

    #[divan::bench(args = matching_cases())]
    fn robotxt(bencher: Bencher<'_, '_>, Case(_, path, expected): &Case) {
        let robots = robotxt::Robots::parse(TEXT.as_bytes(), CRAWLER);
        assert_eq!(!robots.is_allowed(path), denies(*expected), "{path}");
        bencher.bench_local(|| robots.is_allowed(black_box(path)));
    }

    #[divan::bench(args = matching_cases())]
    fn robotstxt(bencher: Bencher<'_, '_>, Case(_, path, expected): &Case) {
        let url = format!("https://bench.example{path}");
        let allowed = |url: &str| {
            robotstxt::DefaultMatcher::default().one_agent_allowed_by_robots(&TEXT, CRAWLER, url)
        };
        assert_eq!(!allowed(&url), denies(*expected), "{path}");
        bencher.bench_local(|| allowed(black_box(&url)));
    }
}

mod parse {
    use super::*;
    use divan::counter::BytesCount;

    #[divan::bench]
    fn crawlgate(bencher: Bencher<'_, '_>) {
        bencher
            .counter(BytesCount::of_str(TEXT.as_str()))
            .bench_local(|| Robots::parse(black_box(TEXT.as_bytes()), ParseOptions::default()));
    }

    /// Reading the file and compiling the rules of one crawler.
    #[divan::bench]
    fn crawlgate_with_rules(bencher: Bencher<'_, '_>) {
        let chain = [ProductToken::new(CRAWLER).unwrap()];
        bencher.counter(BytesCount::of_str(TEXT.as_str())).bench_local(|| {
            let robots = Robots::parse(black_box(TEXT.as_bytes()), ParseOptions::default());
            robots.rules(robots.selection(&chain))
        });
    }

    #[divan::bench]
    fn robotxt(bencher: Bencher<'_, '_>) {
        bencher
            .counter(BytesCount::of_str(TEXT.as_str()))
            .bench_local(|| robotxt::Robots::parse(black_box(TEXT.as_bytes()), CRAWLER));
    }
}
