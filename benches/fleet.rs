//! The cost of a fleet: `cargo bench --bench fleet`, with a redis-server (or `CRAWLGATE_ENGINE`, another program of its
//! kind) on the path.
//!
//! Pairs of crawlgate, without a fleet and as an instance of a fleet, take turns in rounds; the measure is the CPU time
//! of crawlgate and of the engine per request. The last table is the memory that the engine takes for each origin.
//!
//! - default settings: 64 crawlers at one origin, which nothing bounds
//! - one fast origin: 64 crawlers at one origin with 1,000 requests in a second, and at one with 8,000
//! - a turn for each request: 64 crawlers at 512 origins with four requests in a second each, and 256 crawlers at 2,048
//!   such origins
//!
//! In the smaller of two such cases, crawlgate has nothing to do for most of the time, and what it costs to wake a
//! processor counts, too; that differs from machine to machine.
//!
//! `FLEET_ROUNDS` (5), `FLEET_SECONDS` (4) and `FLEET_ORIGINS` (100,000; 0: no measurement of memory) set the duration.
//! `FLEET_CASE` (1 to 5) leaves one case.

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

use std::fs::Permissions;
use std::io::{Read as _, Write as _};
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use lab::crawler::{Crawlers, Way};
use lab::origin::ALLOWED;
use lab::process::Process;
use lab::{Lab, median, word};

/// Crawlers that visit many origins.
const CONNECTIONS: usize = 64;

/// Origins of the cases that ask for each turn.
const NAMES: usize = 2_048;

struct Case {
    name: &'static str,
    pace: &'static str,
    crawlers: usize,
    origins: usize,
}

const CASES: [Case; 5] = [
    Case { name: "default settings", pace: "", crawlers: 64, origins: 1 },
    Case {
        name: "one origin, 1,000 a second",
        pace: "requests_per_second = 1000\nburst = 100",
        crawlers: 64,
        origins: 1,
    },
    Case {
        name: "one origin, 8,000 a second",
        pace: "requests_per_second = 8000\nburst = 100",
        crawlers: 64,
        origins: 1,
    },
    Case {
        name: "512 origins, 4 a second each",
        pace: "requests_per_second = 4",
        crawlers: 64,
        origins: NAMES / 4,
    },
    Case {
        name: "2,048 origins, 4 a second each",
        pace: "requests_per_second = 4",
        crawlers: 256,
        origins: NAMES,
    },
];

/// The result of one round.
#[derive(Clone, Copy)]
struct Round {
    requests: f64,
    /// Seconds of CPU time.
    gate: f64,
    engine: f64,
    questions: f64,
}

fn main() {
    match lab::role().as_deref() {
        Some("origin") => lab::origin::serve(Path::new(&word(2))),
        Some("anywhere") => anywhere(),
        Some("load") => load(),
        Some("visit") => visit(),
        _ if lab::is_asked_to_measure() => measure(),
        _ => {}
    }
}

fn number(place: usize) -> usize {
    word(place).parse().unwrap()
}

fn measure() {
    let rounds = lab::setting("FLEET_ROUNDS", 5);
    let seconds = lab::setting("FLEET_SECONDS", 4);
    let origins = lab::setting("FLEET_ORIGINS", 100_000);
    let (for_gate, for_others) = lab::process::cpu_sets();
    let (gate_cpus, other_cpus) = (for_gate.as_deref(), for_others.as_deref());
    let lab = Lab::new(other_cpus);
    let engine = Engine::start(other_cpus);
    let key = lab.file("fleet.key");
    std::fs::write(&key, "07".repeat(32)).unwrap();
    std::fs::set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
    let names: Vec<String> = (0..NAMES).map(host).collect();

    println!(
        "| 1 KB | alone, CPU µs/request | in a fleet | ÷ alone | calls/request | engine, CPU µs/request | requests/s |"
    );
    println!("|---|---:|---:|---:|---:|---:|---:|");
    let only = lab::setting("FLEET_CASE", 0) as usize;
    for (at, case) in CASES.iter().enumerate() {
        if only > 0 && at + 1 != only {
            continue;
        }
        let start = |kind: &str, fleet: &str| {
            let tables = format!("[pace]\n{}\n{fleet}", case.pace);
            lab.crawlgate_with(gate_cpus, &format!("{kind}{at}"), "denied", &names, &tables)
        };
        let alone = start("alone", "");
        let member = start("member", &engine.table(&key, &format!("p{at}")));
        let mut results = [Vec::new(), Vec::new()];
        for _ in 0..rounds {
            for ((gate, port), results) in [&alone, &member].into_iter().zip(&mut results) {
                let words = [
                    "--role=load".to_owned(),
                    port.to_string(),
                    lab.ports.http.to_string(),
                    case.origins.to_string(),
                    case.crawlers.to_string(),
                    seconds.to_string(),
                ];
                let mut load = Process::part(&words, other_cpus);
                assert_eq!(load.line().trim(), "ready");
                let before = (gate.cpu(), engine.process.cpu(), engine.questions());
                load.go();
                let requests: f64 = load.line().trim().parse().unwrap();
                results.push(Round {
                    requests,
                    gate: gate.cpu().saturating_sub(before.0).as_secs_f64(),
                    engine: engine.process.cpu().saturating_sub(before.1).as_secs_f64(),
                    questions: engine.questions() - before.2,
                });
            }
        }
        let [alone, member] = results;
        let cpu = |round: &Round| round.gate * 1e6 / round.requests;
        let ratios = member.iter().zip(&alone);
        println!(
            "| {} | {:.1} | {:.1} | {:.2} | {:.2} | {:.1} | {:.0} |",
            case.name,
            median(alone.iter().map(cpu)),
            median(member.iter().map(cpu)),
            median(ratios.map(|(member, alone)| cpu(member) / cpu(alone))),
            median(member.iter().map(|round| round.questions / round.requests)),
            median(member.iter().map(|round| round.engine * 1e6 / round.requests)),
            median(member.iter().map(|round| round.requests / seconds as f64)),
        );
    }
    if origins > 0 {
        measure_memory(&lab, &engine, &key, origins, gate_cpus, other_cpus);
    }
}

/// Has an instance fetch the robots.txt of each of many origins, and prints the memory that the engine takes for them.
fn measure_memory(
    lab: &Lab,
    engine: &Engine,
    key: &Path,
    origins: u64,
    gate_cpus: Option<&str>,
    other_cpus: Option<&str>,
) {
    let mut anywhere = Process::part(&["--role=anywhere".to_owned()], other_cpus);
    let port = anywhere.line().trim().to_owned();
    let tables = format!(
        "[robots]\nmax_fetches = 1000\nfetches_per_second = 100000\n{}",
        engine.table(key, "memory")
    );
    let (_gate, proxy) = lab.crawlgate_with(gate_cpus, "memory", "denied", &[], &tables);
    let words = ["--role=visit".to_owned(), proxy.to_string(), port, origins.to_string()];
    let before = engine.memory();
    let mut visit = Process::part(&words, other_cpus);
    let visited: f64 = visit.line().trim().parse().unwrap();
    let each = (engine.memory() - before) / visited;
    println!("\nThe engine takes {each:.0} octets for each of {visited} origins.");
}

/// The engine of the fleet.
struct Engine {
    process: Process,
    port: u16,
}

impl Engine {
    fn start(cpus: Option<&str>) -> Engine {
        let program = std::env::var("CRAWLGATE_ENGINE");
        let program = program.unwrap_or_else(|_| "redis-server".to_owned());
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let port_word = port.to_string();
        let words = ["--port", &port_word, "--bind", "127.0.0.1", "--save", ""];
        let words = words.map(str::to_owned);
        let mut process = Process::start(&program, &words, cpus);
        assert_eq!(process.listening_port(), port);
        Engine { process, port }
    }

    /// Returns the table that makes crawlgate an instance of a separate fleet.
    fn table(&self, key: &Path, prefix: &str) -> String {
        format!(
            "[fleet]\nengine = \"127.0.0.1:{}\"\nkey_file = {:?}\nprefix = {prefix:?}\n",
            self.port,
            key.display().to_string()
        )
    }

    /// Returns the octets of memory in use.
    fn memory(&self) -> f64 {
        self.figure("memory", "used_memory:")
    }

    /// Returns the number of scripts that the engine has run.
    fn questions(&self) -> f64 {
        self.figure("commandstats", "cmdstat_evalsha:calls=")
    }

    fn figure(&self, section: &str, name: &str) -> f64 {
        let mut stream = std::net::TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let commands = format!("INFO {section}\r\nQUIT\r\n");
        stream.write_all(commands.as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let figure = text.lines().find_map(|line| line.strip_prefix(name));
        let figure = figure.and_then(|figure| figure.split(',').next());
        figure.map_or(0.0, |figure| figure.trim().parse().unwrap())
    }
}

fn host(number: usize) -> String {
    format!("o{number}.bench.test")
}

/// Runs the crawlers: each asks its origins in turn, from a line of input on, for some seconds; prints the number of
/// answers.
fn load() {
    let (proxy, port) = (number(2) as u16, number(3) as u16);
    let (origins, count) = (number(4), number(5));
    let time = Duration::from_secs(number(6) as u64);
    runtime().block_on(async {
        let crawlers = Crawlers::new(Way::Proxy(proxy), &[]);
        let mut opening = tokio::task::JoinSet::new();
        for first in 0..count {
            let crawlers = crawlers.clone();
            opening.spawn(async move {
                let mine = (first % origins..origins).step_by(count);
                let requests: Vec<_> = mine
                    .map(|number| crawlers.request(false, &host(number), port, ALLOWED))
                    .collect();
                let mut crawler = crawlers.connect(false, "127.0.0.1", port).await.unwrap();
                for request in &requests {
                    assert_eq!(crawler.ask(request).await.unwrap().status, 200);
                }
                (crawler, requests)
            });
        }
        let open = opening.join_all().await;
        println!("ready");
        std::io::stdout().flush().unwrap();
        std::io::stdin().read_line(&mut String::new()).unwrap();
        let start = Instant::now();
        let mut tasks = tokio::task::JoinSet::new();
        for (mut crawler, requests) in open {
            tasks.spawn(async move {
                let mut answers = 0_u64;
                for request in requests.iter().cycle() {
                    if start.elapsed() >= time {
                        break;
                    }
                    assert_eq!(crawler.ask(request).await.unwrap().status, 200);
                    answers += 1;
                }
                answers
            });
        }
        println!("{}", tasks.join_all().await.iter().sum::<u64>());
    });
}

/// Asks for one page of each of many origins, which are addresses of the loopback interface; prints their number.
fn visit() {
    let (proxy, port, origins) = (number(2) as u16, number(3) as u16, number(4));
    runtime().block_on(async {
        let crawlers = Crawlers::new(Way::Proxy(proxy), &[]);
        let mut tasks = tokio::task::JoinSet::new();
        for first in 0..CONNECTIONS {
            let crawlers = crawlers.clone();
            tasks.spawn(async move {
                let mut crawler = crawlers.connect(false, "127.0.0.1", port).await.unwrap();
                for number in (first..origins).step_by(CONNECTIONS) {
                    let address = Ipv4Addr::from_bits(0x7f01_0000 + number as u32);
                    let request = crawlers.request(false, &address.to_string(), port, ALLOWED);
                    assert_eq!(crawler.ask(&request).await.unwrap().status, 200);
                }
            });
        }
        tasks.join_all().await;
        println!("{origins}");
    });
}

/// Serves a page and a robots.txt at every address of the loopback interface.
fn anywhere() {
    lab::process::end_with_parent();
    runtime().block_on(async {
        let listener = tokio::net::TcpListener::bind("0.0.0.0:0").await.unwrap();
        println!("{}", listener.local_addr().unwrap().port());
        std::io::stdout().flush().unwrap();
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let mut head = Vec::new();
                while stream.read_buf(&mut head).await.is_ok_and(|read| read > 0) {
                    if !head.ends_with(b"\r\n\r\n") {
                        continue;
                    }
                    let body = match head.starts_with(b"GET /robots.txt") {
                        true => "User-agent: *\nDisallow: /private/\nDisallow: /*?sort=\nCrawl-delay: 1\n",
                        false => "page",
                    };
                    let answer = format!(
                        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\
                         Connection: close\r\n\r\n{body}",
                        body.len()
                    );
                    let _ = stream.write_all(answer.as_bytes()).await;
                    break;
                }
            });
        }
    });
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}
