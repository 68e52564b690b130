//! The cost of an exchange from end to end: `cargo bench --bench exchange`.
//!
//! 64 crawlers ask an origin for 1 KB over and over, each on a connection that stays open: directly, through a bare
//! hyper proxy that decides nothing, and through crawlgate, plain and intercepted, allowed and denied, once with every
//! decision recorded instead of the denials, and once with none: a denial less that one is what its record costs. Over HTTP/2 they are 64 streams on 4 connections, to an origin that speaks
//! HTTP/2 as well. Origin and crawlers share all CPUs but one, the proxy has the last one to
//! itself. A second table has bodies of 10 MB, asked for by 4 crawlers. The measure is the proxy's CPU time per request,
//! which depends less on the machine's other load than wall time. The arrangements take turns in rounds; ratios are
//! taken within a round, and medians over the rounds are shown.
//!
//! Other proxies take part if they are there. nghttpx and Envoy do by HTTP/2 as reverse proxies, which need no tunnel and mint
//! no certificate; hudsucker intercepts, as crawlgate does, and is built in `benches/hudsucker`. `EXCHANGE_ENVOY` and
//! `EXCHANGE_HUDSUCKER` name their programs.
//!
//! `EXCHANGE_BUILD` names a program of another build of crawlgate, such as one of an earlier commit, which takes part over
//! HTTP/1.1.
//!
//! `EXCHANGE_ROUNDS` (3) and `EXCHANGE_SECONDS` (2) set the duration, `EXCHANGE_ONLY=HTTP/2` the arrangements of which
//! the name contains this; those that others are divided by always take part.

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
#[path = "exchange/peers.rs"]
mod peers;

use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use lab::crawler::{Crawlers, Way, ask_http2};
use lab::origin::{ALLOWED, DISALLOWED, LARGE};
use lab::process::Process;
use lab::{Lab, median, word};
use peers::Proxy;

const CONNECTIONS: usize = 64;

/// Connections that carry as many streams of HTTP/2.
const SHARED: usize = 4;

/// The protocol between a crawler and the next hop.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Http,
    Https,
    Http2,
}

use Protocol::{Http, Http2, Https};

/// One line of the table.
struct Arrangement {
    name: &'static str,
    protocol: Protocol,
    path: &'static str,
    /// The proxy's process, by its place among the proxies.
    proxy: Option<usize>,
    expected: u16,
}

const fn arrangement(
    name: &'static str,
    protocol: Protocol,
    path: &'static str,
    proxy: Option<usize>,
    expected: u16,
) -> Arrangement {
    Arrangement { name, protocol, path, proxy, expected }
}

const BARE: usize = 0;
const GATE: usize = 1;
const RECORDER: usize = 2;
const UNRECORDED: usize = 3;
const NGHTTPX: usize = 4;
const ENVOY: usize = 5;
const HUDSUCKER: usize = 6;
const BUILD: usize = 7;

const ARRANGEMENTS: [Arrangement; 28] = [
    arrangement("direct, HTTP", Http, ALLOWED, None, 200),
    arrangement("bare hyper proxy", Http, ALLOWED, Some(BARE), 200),
    arrangement("crawlgate, allowed", Http, ALLOWED, Some(GATE), 200),
    arrangement("crawlgate, denied", Http, DISALLOWED, Some(GATE), 403),
    arrangement("direct, HTTPS", Https, ALLOWED, None, 200),
    arrangement("crawlgate, intercepted", Https, ALLOWED, Some(GATE), 200),
    arrangement("direct, HTTP/2", Http2, ALLOWED, None, 200),
    arrangement("crawlgate, HTTP/2", Http2, ALLOWED, Some(GATE), 200),
    arrangement("crawlgate, HTTP/2, denied", Http2, DISALLOWED, Some(GATE), 403),
    arrangement("crawlgate, allowed and recorded", Http, ALLOWED, Some(RECORDER), 200),
    arrangement("crawlgate, denied and not recorded", Http, DISALLOWED, Some(UNRECORDED), 403),
    arrangement("hudsucker, intercepted", Https, ALLOWED, Some(HUDSUCKER), 200),
    arrangement("hudsucker, HTTP/2", Http2, ALLOWED, Some(HUDSUCKER), 200),
    arrangement("nghttpx, HTTP/2", Http2, ALLOWED, Some(NGHTTPX), 200),
    arrangement("Envoy, HTTP/2", Http2, ALLOWED, Some(ENVOY), 200),
    arrangement("build, allowed", Http, ALLOWED, Some(BUILD), 200),
    arrangement("build, denied", Http, DISALLOWED, Some(BUILD), 403),
    arrangement("build, intercepted", Https, ALLOWED, Some(BUILD), 200),
    arrangement("bare hyper proxy", Http, LARGE, Some(BARE), 200),
    arrangement("crawlgate", Http, LARGE, Some(GATE), 200),
    arrangement("crawlgate, intercepted", Https, LARGE, Some(GATE), 200),
    arrangement("crawlgate, HTTP/2", Http2, LARGE, Some(GATE), 200),
    arrangement("hudsucker, intercepted", Https, LARGE, Some(HUDSUCKER), 200),
    arrangement("hudsucker, HTTP/2", Http2, LARGE, Some(HUDSUCKER), 200),
    arrangement("nghttpx, HTTP/2", Http2, LARGE, Some(NGHTTPX), 200),
    arrangement("Envoy, HTTP/2", Http2, LARGE, Some(ENVOY), 200),
    arrangement("build", Http, LARGE, Some(BUILD), 200),
    arrangement("build, intercepted", Https, LARGE, Some(BUILD), 200),
];

/// The first arrangement with a large body: the others are measured against it or one of 1 KB.
const FIRST_LARGE: usize = 18;

/// crawlgate with 1 KB by intercepted HTTP/1.1.
const INTERCEPTED: usize = 5;

/// Arrangements that others are divided by.
const REFERENCES: [usize; 7] = [0, 1, 4, INTERCEPTED, 6, FIRST_LARGE, FIRST_LARGE + 2];

/// The result of one round of one arrangement.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    requests: u64,
    seconds: f64,
    p50: f64,
    p99: f64,
    /// The proxy's CPU time.
    cpu: f64,
}

fn main() {
    match lab::role().as_deref() {
        Some("origin") => lab::origin::serve(Path::new(&word(2))),
        Some("bare") => peers::bare(),
        Some("load") => load(),
        _ if lab::is_asked_to_measure() => measure(),
        _ => {}
    }
}

fn measure() {
    let rounds = lab::setting("EXCHANGE_ROUNDS", 3);
    let seconds = lab::setting("EXCHANGE_SECONDS", 2);
    let (for_proxy, for_others) = lab::process::cpu_sets();
    let lab = Lab::new(for_others.as_deref());
    let (gate, gate_port) = lab.crawlgate(for_proxy.as_deref(), &[], "");
    let mut bare = Process::part(&["--role=bare".to_owned()], for_proxy.as_deref());
    let bare_port: u16 = bare.line().trim().parse().unwrap();
    let (recorder, recorder_port) =
        lab.crawlgate_that_records(for_proxy.as_deref(), "all", &[], "");
    let (unrecorded, unrecorded_port) = lab.crawlgate_that_keeps_nothing(for_proxy.as_deref());
    let forward =
        |process, port| Some(Proxy { process, port, host: peers::ORIGIN, is_reverse: false });
    let proxies = [
        forward(bare, bare_port),
        forward(gate, gate_port),
        forward(recorder, recorder_port),
        forward(unrecorded, unrecorded_port),
        peers::nghttpx(&lab, for_proxy.as_deref()),
        peers::envoy(&lab, for_proxy.as_deref()),
        peers::hudsucker(&lab, for_proxy.as_deref()),
        peers::other_build(&lab, for_proxy.as_deref()),
    ];
    let only = std::env::var("EXCHANGE_ONLY").unwrap_or_default();
    let own = |place| own_of(place).filter(|_| proxies[BUILD].is_some());
    let own = (0..ARRANGEMENTS.len()).filter_map(own);
    let references: Vec<usize> = own.chain(REFERENCES).collect();

    let mut results: Vec<Vec<Round>> = ARRANGEMENTS.iter().map(|_| Vec::new()).collect();
    for _ in 0..rounds {
        for (place, arrangement) in ARRANGEMENTS.iter().enumerate() {
            let is_asked_for = arrangement.name.contains(&only) || references.contains(&place);
            let proxy = arrangement.proxy.map(|place| proxies[place].as_ref());
            let proxy = match proxy {
                _ if !is_asked_for => continue,
                None => None,
                Some(Some(proxy)) => Some(proxy),
                // It is not there.
                Some(None) => continue,
            };
            let reverse = proxy.filter(|proxy| proxy.is_reverse);
            let (protocol, port) = match arrangement.protocol {
                Http => ("http", lab.ports.http),
                Https => ("https", lab.ports.https),
                Http2 => ("http2", lab.ports.http2),
            };
            let port = reverse.map_or(port, |proxy| proxy.port);
            let forward = proxy.filter(|proxy| !proxy.is_reverse);
            let words = [
                "--role=load".to_owned(),
                forward.map_or(0, |proxy| proxy.port).to_string(),
                protocol.to_owned(),
                proxy.map_or(peers::ORIGIN, |proxy| proxy.host).to_owned(),
                port.to_string(),
                arrangement.path.to_owned(),
                arrangement.expected.to_string(),
                seconds.to_string(),
                lab.file("origin-ca.pem").display().to_string(),
                lab.file("ca.crt").display().to_string(),
            ];
            let mut load = Process::part(&words, for_others.as_deref());
            assert_eq!(load.line().trim(), "ready");
            let before = proxy.map(|proxy| proxy.process.cpu());
            load.go();
            let numbers = load.line();
            let after = proxy.map(|proxy| proxy.process.cpu());
            let cpu = after
                .zip(before)
                .map_or(0.0, |(after, before)| after.saturating_sub(before).as_secs_f64());
            let numbers: Vec<f64> =
                numbers.split_whitespace().map(|number| number.parse().unwrap()).collect();
            results[place].push(Round {
                requests: numbers[0] as u64,
                seconds: numbers[1],
                p50: numbers[2],
                p99: numbers[3],
                cpu,
            });
        }
    }
    report(&results, for_proxy.is_some());
}

fn report(results: &[Vec<Round>], pinned: bool) {
    let cpu = |round: &Round| round.cpu * 1e6 / round.requests as f64;
    let rate = |round: &Round| round.requests as f64 / round.seconds;
    if !pinned {
        println!("Not pinned to CPUs: there is only one, or no taskset.");
    }
    println!(
        "| 1 KB, {CONNECTIONS} connections | proxy's CPU µs/request | ÷ bare hyper | ÷ intercepted | requests/s | ÷ direct | \
         p50 ms | p99 ms |"
    );
    println!("|---|---:|---:|---:|---:|---:|---:|---:|");
    let all = || ARRANGEMENTS.iter().zip(results);
    let measured = |(_, rounds): &(&Arrangement, &Vec<Round>)| !rounds.is_empty();
    for (arrangement, rounds) in all().take(FIRST_LARGE).filter(measured) {
        let direct = &results[match arrangement.protocol {
            Http => 0,
            Https => 4,
            Http2 => 6,
        }];
        let costs = match arrangement.proxy {
            None => "– | – | –".to_owned(),
            Some(_) => format!(
                "{:.1} | {:.2} | {:.2}",
                median(rounds.iter().map(cpu)),
                median(ratios(rounds, &results[1], cpu)),
                median(ratios(rounds, &results[INTERCEPTED], cpu)),
            ),
        };
        println!(
            "| {} | {costs} | {:.0} | {:.2} | {:.2} | {:.2} |",
            arrangement.name,
            median(rounds.iter().map(rate)),
            median(ratios(rounds, direct, rate)),
            median(rounds.iter().map(|round| round.p50)) * 1e3,
            median(rounds.iter().map(|round| round.p99)) * 1e3,
        );
    }
    println!(
        "\n| 10 MB, {SHARED} connections | proxy's CPU ms/body | ÷ bare hyper | ÷ intercepted | bodies/s |"
    );
    println!("|---|---:|---:|---:|---:|");
    for (arrangement, rounds) in all().skip(FIRST_LARGE).filter(measured) {
        println!(
            "| {} | {:.2} | {:.2} | {:.2} | {:.1} |",
            arrangement.name,
            median(rounds.iter().map(cpu)) / 1e3,
            median(ratios(rounds, &results[FIRST_LARGE], cpu)),
            median(ratios(rounds, &results[FIRST_LARGE + 2], cpu)),
            median(rounds.iter().map(rate)),
        );
    }
    println!();
    for (place, (arrangement, rounds)) in all().enumerate() {
        let own = own_of(place).map(|own| &results[own]);
        if let Some(own) = own.filter(|_| !rounds.is_empty()) {
            let ratio = median(ratios(own, rounds, cpu));
            println!("crawlgate ÷ {}: {ratio:.3}", arrangement.name);
        }
    }
}

/// Returns the arrangement of this build that asks the same as one of the other build.
fn own_of(place: usize) -> Option<usize> {
    let build = ARRANGEMENTS.get(place)?;
    let asks = |of: &Arrangement| (of.protocol, of.path);
    let is_own = |own: &Arrangement| own.proxy == Some(GATE) && asks(own) == asks(build);
    (build.proxy == Some(BUILD)).then(|| ARRANGEMENTS.iter().position(is_own))?
}

fn ratios(
    rounds: &[Round],
    reference: &[Round],
    value: impl Fn(&Round) -> f64,
) -> impl Iterator<Item = f64> {
    let pairs = rounds.iter().zip(reference);
    pairs.map(move |(round, reference)| value(round) / value(reference))
}

/// Runs the crawlers: opens all connections, waits for a line, asks for some seconds, prints the result.
fn load() {
    let way = match word(2).parse().unwrap() {
        0 => Way::Direct,
        port => Way::Proxy(port),
    };
    let protocol = word(3);
    let host = word(4);
    let port: u16 = word(5).parse().unwrap();
    let path = word(6);
    let connections = match path == LARGE {
        true => SHARED,
        false => CONNECTIONS,
    };
    let expected: u16 = word(7).parse().unwrap();
    let time = Duration::from_secs(word(8).parse().unwrap());
    let authorities = [word(9), word(10)];
    let authorities = authorities.each_ref().map(Path::new);
    runtime().block_on(async {
        let crawlers = Crawlers::new(way, &authorities);
        let mut times = if protocol == "http2" {
            let url = format!("https://{host}:{port}{path}");
            let mut open = Vec::new();
            for _ in 0..SHARED {
                let mut streams = crawlers.connect_http2(&host, port).await.unwrap();
                assert_eq!(ask_http2(&mut streams, &url).await.unwrap(), expected);
                open.push(streams);
            }
            let crawlers = (0..connections).map(|number| open[number % SHARED].clone());
            let crawlers: Vec<_> = crawlers.collect();
            run(time, crawlers, move |mut streams| {
                let url = url.clone();
                async move {
                    assert_eq!(ask_http2(&mut streams, &url).await.unwrap(), expected);
                    streams
                }
            })
            .await
        } else {
            let secure = protocol == "https";
            let request = crawlers.request(secure, &host, port, &path);
            let mut open = Vec::new();
            for _ in 0..connections {
                let mut crawler = crawlers.connect(secure, &host, port).await.unwrap();
                let answer = crawler.ask(&request).await.unwrap();
                assert_eq!(answer.status, expected, "{path}");
                open.push(crawler);
            }
            run(time, open, move |mut crawler| {
                let request = request.clone();
                async move {
                    assert_eq!(crawler.ask(&request).await.unwrap().status, expected);
                    crawler
                }
            })
            .await
        };
        times.sort_unstable();
        let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize] as f64 / 1e9;
        println!("{} {} {} {}", times.len(), time.as_secs_f64(), at(0.5), at(0.99));
    });
}

/// Has each crawler ask again and again from a line of input on, and returns the nanoseconds that each answer took.
async fn run<C, F>(
    time: Duration,
    crawlers: Vec<C>,
    ask: impl Fn(C) -> F + Clone + Send + 'static,
) -> Vec<u64>
where
    C: Send + 'static,
    F: Future<Output = C> + Send,
{
    println!("ready");
    std::io::stdout().flush().unwrap();
    std::io::stdin().read_line(&mut String::new()).unwrap();
    let start = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for mut crawler in crawlers {
        let ask = ask.clone();
        tasks.spawn(async move {
            let mut times = Vec::with_capacity(100_000);
            let mut asked = Instant::now();
            while start.elapsed() < time {
                crawler = ask(crawler).await;
                let now = Instant::now();
                times.push((now - asked).as_nanos() as u64);
                asked = now;
            }
            times
        });
    }
    tasks.join_all().await.concat()
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}
