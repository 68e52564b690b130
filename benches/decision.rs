//! The cost of a decision with a known robots.txt: `cargo bench --bench decision`.
//!
//! - `gate`: the whole check of every request: the client, the state of the origin, the rules, the origin's pace; the
//!   permit or the refusal included. No request waits here, so the future is polled once by hand, without the cost of a
//!   runtime.
//! - `identity`: the identification of a request's client and crawler, on a connection that has shown it before and on
//!   one that has not; and the cost of a client's usage counters.
//! - `pace`: a turn without any wait, taken and ended, and the recording of an answer.
//! - `rules`: matching alone, beside two other libraries with the same paths and the same file. The first of them keeps
//!   the rules of one crawler; the second, a port of Google's parser, reads the file again for each question.
//! - `parse`: reading the file.
//!
//! The file has 100 rules for everybody and 20 for another crawler.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a benchmark that cannot be set up ends loudly"
)]

use std::fmt::Write as _;
use std::future::Future as _;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener};
use std::pin::pin;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll, Waker};

use crawlgate::agent::Agent;
use crawlgate::audit::Log;
use crawlgate::client::Client;
use crawlgate::clock::Clock;
use crawlgate::config::Config;
use crawlgate::egress::Egress;
use crawlgate::gate::{Cleared, Gate, Had, HeldOutcome, Kind, Requester};
use crawlgate::policy::{Decision, Reason, Ruling, Target};
use crawlgate::rep::{ComparisonPath, Origin, ParseOptions, ProductToken, Robots, Rules};
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
    (
        "allowed, a longer rule wins",
        "/section-07/private/public/index",
        Reason::RobotsAllow,
    ),
    (
        "denied by a literal rule",
        "/section-31/private/diary.html",
        Reason::RobotsDisallow,
    ),
    (
        "denied by a rule with a wildcard",
        "/shop/list?colour=red&sort-12=price",
        Reason::RobotsDisallow,
    ),
    (
        "denied by a rule with an anchor",
        "/download/archive/big.type-05",
        Reason::RobotsDisallow,
    ),
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
    (
        "denied by the path guard",
        "/open/../section-31/private/",
        Reason::PathGuard,
    ),
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

impl Known {
    fn new() -> Known {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let origin = Origin::parse(&origin_that_serves(&TEXT)).unwrap().0;
        let mut config = Config::default();
        config.log.file = None;
        config.egress.allow = vec!["127.0.0.0/8".parse().unwrap()];
        let clock = Clock::system();
        let log = Arc::new(Log::open(&config, None, &clock).unwrap());
        let egress = Egress::new(&config, clock.clone()).unwrap();
        let gate = Gate::new(&config, egress, log, clock.clone());
        let mut headers = HeaderMap::new();
        headers.insert(header::USER_AGENT, HeaderValue::from_static(USER_AGENT));
        let known = Known {
            client: Client::default(),
            runtime,
            gate,
            origin,
            headers,
            clock,
        };
        // The first question fetches robots.txt.
        let agent = known.gate.identify(&known.client, &known.headers);
        let target = known.target("/");
        let requester = known.requester(&agent);
        let asked = known.clock.now();
        let (mut decision, mut pace) = (Decision::bare(Reason::RobotsPending, asked), None);
        let outcome = HeldOutcome {
            decision: &mut decision,
            pace: &mut pace,
        };
        let first = known.gate.clear(
            Kind::Request,
            target,
            &requester,
            asked,
            Had::default(),
            outcome,
        );
        let cleared = known.runtime.block_on(first);
        assert!(matches!(cleared.ruling, Ruling::Clear(..)));
        known
    }

    fn target(&self, path: &'static str) -> Target {
        Target {
            origin: self.origin.clone(),
            path: PathAndQuery::from_static(path),
        }
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
        let outcome = HeldOutcome {
            decision: &mut decision,
            pace: &mut pace,
        };
        let clear = self.gate.clear(
            Kind::Request,
            target,
            &requester,
            asked,
            Had::default(),
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
    PATHS
        .into_iter()
        .map(|(name, path, reason)| Case(name, path, reason))
}

/// Returns the cases without those of the path guard, which other libraries lack.
fn matching_cases() -> impl Iterator<Item = Case> {
    cases().filter(|case| case.2 != Reason::PathGuard)
}

#[divan::bench(args = cases())]
fn gate(bencher: Bencher<'_, '_>, Case(_, path, expected): &Case) {
    let known = Known::new();
    let _context = known.runtime.enter();
    let decided = match known.ask(known.target(path)).ruling {
        Ruling::Clear(_, decision) | Ruling::Refuse(decision) => decision.reason,
    };
    assert_eq!(decided, *expected, "{path}");
    bencher
        .with_inputs(|| known.target(path))
        .bench_local_values(|target| drop(black_box(known.ask(black_box(target)))));
}

/// Identification of a request's client and crawler, before the gate.
mod identity {
    use super::*;
    use argon2::PasswordHasher as _;
    use base64::Engine as _;
    use crawlgate::client::{AuthCache, Clients, Peer};
    use std::sync::LazyLock;

    /// A client with a password, and 100 with networks; the last network is loopback's.
    static CLIENTS: LazyLock<String> = LazyLock::new(|| {
        let hash: argon2::PasswordHash = argon2::Argon2::default()
            .hash_password(b"open sesame")
            .unwrap();
        let mut text = format!("[[client]]\nname = 'secret'\npassword = '{hash}'\n");
        for n in 0..99 {
            let _ = write!(
                text,
                "[[client]]\nname = 'client-{n}'\nnetworks = '10.{n}.0.0/16'\n"
            );
        }
        let near = "[[client]]\nname = 'near'\nnetworks = '127.0.0.0/8'\nproduct_tokens = ['ExampleBot']\n";
        text + near
    });

    fn peer() -> Peer {
        Peer {
            address: (Ipv4Addr::LOCALHOST, 40_000).into(),
            listener: None,
            certificate: None,
            is_private: true,
        }
    }

    struct Asked {
        runtime: tokio::runtime::Runtime,
        clients: Clients,
        headers: HeaderMap,
        peer: Peer,
        auth_cache: AuthCache,
    }

    impl Asked {
        fn new(toml: &str, password: Option<&str>) -> Asked {
            let config = Config::parse(toml, std::path::Path::new("/config.toml")).unwrap();
            let mut headers = HeaderMap::new();
            headers.insert(header::USER_AGENT, HeaderValue::from_static(USER_AGENT));
            if let Some(password) = password {
                let pair = format!("secret:{password}");
                let pair = base64::engine::general_purpose::STANDARD.encode(pair);
                let field = HeaderValue::from_str(&format!("Basic {pair}")).unwrap();
                headers.insert(header::PROXY_AUTHORIZATION, field);
            }
            let runtime = tokio::runtime::Builder::new_current_thread();
            let asked = Asked {
                runtime: { runtime }.enable_all().build().unwrap(),
                clients: Clients::new(&config, Clock::system()),
                headers,
                peer: peer(),
                auth_cache: AuthCache::default(),
            };
            // A password is hashed once.
            let first = asked
                .clients
                .recognise(&asked.peer, &asked.headers, &asked.auth_cache);
            let _ = asked.runtime.block_on(first);
            asked
        }

        fn anew(&self) -> Arc<Client> {
            let anew = self
                .clients
                .recognise(&self.peer, &self.headers, &self.auth_cache);
            match pin!(anew).poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(found) => found.unwrap(),
                Poll::Pending => panic!("what is known needs no waiting"),
            }
        }
    }

    /// One client without a name, on a connection that is known.
    #[divan::bench]
    fn nobody_known(bencher: Bencher<'_, '_>) {
        let asked = Asked::new("", None);
        bencher.bench_local(|| {
            asked
                .clients
                .cached(black_box(&asked.auth_cache), &asked.headers)
        });
    }

    /// The same credentials as before on this connection.
    #[divan::bench]
    fn password_known(bencher: Bencher<'_, '_>) {
        let asked = Asked::new(&CLIENTS, Some("open sesame"));
        let known = || {
            asked
                .clients
                .cached(black_box(&asked.auth_cache), &asked.headers)
        };
        assert!(known().is_some());
        bencher.bench_local(known);
    }

    /// The first request of a connection, with credentials that another one has brought.
    #[divan::bench]
    fn password_of_another_connection(bencher: Bencher<'_, '_>) {
        let asked = Asked::new(&CLIENTS, Some("open sesame"));
        bencher.bench_local(|| asked.anew());
    }

    /// The first request of a connection, from the last of 100 networks.
    #[divan::bench]
    fn network_of_a_new_connection(bencher: Bencher<'_, '_>) {
        let asked = Asked::new(&CLIENTS, None);
        bencher.bench_local(|| asked.anew());
    }

    /// A configured chain against the User-Agent.
    #[divan::bench]
    fn product_token_in_the_user_agent(bencher: Bencher<'_, '_>) {
        let known = Known::new();
        let client = Asked::new(&CLIENTS, None).anew();
        assert!(client.chain.is_some());
        bencher.bench_local(|| known.gate.identify(black_box(&client), &known.headers));
    }

    /// A rate and a quota.
    #[divan::bench]
    fn account(bencher: Bencher<'_, '_>) {
        let toml = "[[client]]\nname = 'a'\nrequests_per_second = 1e6\nburst = 1000000\n\
                    quota = { requests = 9007199254740992, per = '1d' }\n";
        let asked = Asked::new(toml, None);
        let (client, clock) = (asked.anew(), Clock::system());
        bencher.bench_local(|| {
            asked
                .clients
                .enter(black_box(&client), clock.now(), &clock)
                .is_ok()
        });
    }
}

/// A turn at a known origin, without a wait.
mod pace {
    use super::*;
    use crawlgate::config::{CrawlDelayMode, PaceConfig};
    use crawlgate::pace::{Ask, Pace};
    use crawlgate::rep::Field;
    use crawlgate::robots::crawl_delay::CrawlDelay;

    fn off() -> PaceConfig {
        PaceConfig {
            backoff: false,
            ..Config::default().pace
        }
    }

    /// Unlimited, so that no turn ever waits.
    fn unheld() -> PaceConfig {
        PaceConfig {
            requests_per_second: Some(1_000_000.0),
            burst: 1_000_000,
            concurrency: Some(1_000_000),
            ..off()
        }
    }

    fn turns(bencher: Bencher<'_, '_>, config: &PaceConfig, crawl_delay: Option<CrawlDelay>) {
        let clock = Clock::system();
        let pace = Pace::new(config, clock.clone());
        let origin = Origin::parse("https://www.site.example/").unwrap().0;
        let crawl_delay = crawl_delay.map(Arc::new);
        let now = clock.now();
        bencher.bench_local(|| {
            let ask = Ask {
                origin: black_box(&origin),
                crawl_delay: crawl_delay.as_ref(),
            };
            // The gate checks this first.
            (!pace.is_unlimited()).then(|| pace.try_turn(ask, now))
        });
    }

    /// Neither limits nor watches the origin.
    #[divan::bench]
    fn off_(bencher: Bencher<'_, '_>) {
        turns(bencher, &off(), None);
    }

    /// As without a configuration: the origin is watched, and left alone if it asks for that.
    #[divan::bench]
    fn backoff(bencher: Bencher<'_, '_>) {
        turns(bencher, &Config::default().pace, None);
    }

    /// The operator's rate and concurrency.
    #[divan::bench]
    fn own(bencher: Bencher<'_, '_>) {
        turns(bencher, &unheld(), None);
    }

    /// The robots.txt's crawl delay, too.
    #[divan::bench]
    fn honour(bencher: Bencher<'_, '_>) {
        let config = PaceConfig {
            crawl_delay: CrawlDelayMode::Honour,
            // Less than a tick: never waited for.
            max_crawl_delay: std::time::Duration::from_nanos(1),
            ..unheld()
        };
        let crawl_delay = CrawlDelay {
            interval: std::time::Duration::from_secs(1),
            field: Field::CrawlDelay,
            line: 2,
            group: "*".into(),
        };
        turns(bencher, &config, Some(crawl_delay));
    }

    /// Recording of an answer.
    #[divan::bench]
    fn answer(bencher: Bencher<'_, '_>) {
        let clock = Clock::system();
        let pace = Pace::new(&Config::default().pace, clock.clone());
        let origin = Origin::parse("https://www.site.example/").unwrap().0;
        let ask = Ask {
            origin: &origin,
            crawl_delay: None,
        };
        let turn = pace.try_turn(ask, clock.now()).unwrap();
        bencher.bench_local(|| pace.answered(black_box(&turn), 200, || None, true));
    }
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
                .is_some_and(|rule| rule.kind == crawlgate::rep::RuleKind::Disallow)
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
        bencher
            .counter(BytesCount::of_str(TEXT.as_str()))
            .bench_local(|| {
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
