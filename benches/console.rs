//! The cost of the console: `cargo bench --bench console`.
//!
//! The first part requests each page over HTTP, with a store of a million decisions of the last thirty days: it shows
//! the slowest of several answers, and the memory of the process before and after. Then a browser's requests count the open
//! denials for the navigation: how many pages that takes, and how much longer they take. The last part measures the
//! requests per second that the proxy forwards, in turns without a viewer and with the live view streaming and the
//! overview loaded once a second.
//!
//! `CONSOLE_RECORDS` (1,000,000), `CONSOLE_ROUNDS` (5) and `CONSOLE_SECONDS` (3) change the scale.

#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a measurement reads the clock, prints, and ends loudly where it cannot be set up"
)]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crawlgate_config::{Config, Recorded};
use crawlgate_evidence::{DecisionId, Exceeds, Grounds, Log};
use crawlgate_origins::snapshot::Snapshot;
use crawlgate_origins::state::{Fresh, State};
use crawlgate_record::{Bounds, Decision, Rule, Url, Verdict};
use crawlgate_robots::{ParseOptions, Robots};
use crawlgate_store::{self as store, Access};
use crawlgate_system::clock::{Clock, Moment};

/// Crawlers at once.
const CRAWLERS: usize = 8;

const DAY: Duration = Duration::from_secs(86_400);

/// Decisions that wait to be written, at most.
const AT_ONCE: u64 = 50_000;

fn main() {
    if !std::env::args().any(|word| word == "--bench") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let records = setting("CONSOLE_RECORDS", 1_000_000);
    let began = Instant::now();
    let last = fill(folder.path(), records);
    println!("{records} decisions written in {:.1?}", began.elapsed());
    let gate = CrawlgateProcess::start(folder.path());
    pages(&gate, &last);
    open_denials(&gate);
    throughput(&gate);
}

/// Writes decisions of the last thirty days, and returns the identifier of the last denial.
fn fill(folder: &Path, records: u64) -> String {
    let mut config = Config::default();
    config.log.decisions = Recorded::All;
    config.log.file = None;
    config.audit.refusals_per_minute = None;
    config.store.path = Some(folder.join("crawlgate.db"));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let store = store::open(&config, Access::Write).unwrap();
        let clock = Clock::system();
        let log = Log::open(&config, Some(store), &clock).unwrap();
        let now = clock.now();
        let span = (30 * DAY).as_millis() as u64;
        let mut last = String::new();
        for n in 0..records {
            // Few at a time: other work on the machine may keep the disk for long, and the queue is bounded.
            if n.is_multiple_of(AT_ONCE) {
                log.flush().await.unwrap();
            }
            let ago = span - span * n / records;
            // Each site's robots.txt is fetched once a day.
            let fetched = ago.next_multiple_of(DAY.as_millis() as u64);
            let before = |millis| now - Duration::from_millis(millis);
            record(&log, n, before(ago), before(fetched), &mut last);
        }
        log.flush().await.unwrap();
        log.close().unwrap();
        last
    })
}

/// One of ten is denied; a thousand sites.
fn record(log: &Log, n: u64, time: Moment, fetched: Moment, last: &mut String) {
    let (site, is_denied) = (n * 7 % 1_000, n.is_multiple_of(10));
    let host = format!("www.site-{site}.example");
    let (verdict, reason) = match is_denied {
        true => {
            (Verdict::Deny, if n.is_multiple_of(30) { "path_guard" } else { "robots_disallow" })
        }
        false => (Verdict::Allow, "robots_allow"),
    };
    let url = format!("https://{host}/some/path/of/usual/length/{n}.html?page={}", n % 50);
    let origin = format!("https://{host}");
    let robots = format!("{origin}/robots.txt");
    let id = DecisionId::mint(time);
    if is_denied {
        *last = id.to_string();
    }
    let file = Robots::parse(host.as_bytes(), ParseOptions::default());
    let state = State::Successful {
        snapshot: Arc::new(Snapshot::new(file, fetched, 200, &robots)),
        fresh: Fresh { refresh_from: fetched + DAY, until: fetched + DAY },
        outage: None,
    };
    let grounds = Grounds { robots: Some((&state, None)), ..Grounds::default() };
    let digests = grounds.digests(Some(&origin));
    let decision = Decision {
        id: id.octets(),
        decided_after: 0,
        verdict,
        reason,
        policy: None,
        client_name: None,
        chain: (&["ExampleBot"][..]).into(),
        user_agent: Some((&b"ExampleBot/1.0 (+https://bot.example/about)"[..]).into()),
        origin: Some(&origin),
        url: Url::public(url.as_bytes(), Some(&origin), false, Bounds::CLIENTS),
        rule: is_denied.then(|| Rule {
            group: "*".into(),
            text: (&b"Disallow: /some/path"[..]).into(),
            line: 17,
        }),
        reading: None,
        hold: 0,
        pace: None,
        upstream: Some(([192, 0, 2, 1], 443).into()),
        status: Some(200),
        bytes_out: 12_345,
        duration: 23_456,
        ..Decision::sample()
    };
    let decision = digests.named_by(decision);
    log.record(&decision, &grounds, Recorded::Denied, Exceeds::Nothing);
}

/// The real program.
struct CrawlgateProcess {
    child: Child,
    proxy: SocketAddr,
    console: SocketAddr,
}

impl CrawlgateProcess {
    fn start(folder: &Path) -> CrawlgateProcess {
        let config = folder.join("config.toml");
        let text = "[listen]\naddress = \"127.0.0.1:0\"\n[admin]\naddress = \"127.0.0.1:0\"\n[store]\npath = \"crawlgate.db\"\n\
             [log]\nfile = \"\"\n[tls]\nca_cert = \"ca.crt\"\nca_key = \"ca.key\"\n[egress]\nallow = [\"127.0.0.0/8\"]\n";
        fs::write(&config, text).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_crawlgate"))
            .arg("serve")
            .arg("--config")
            .arg(&config)
            .current_dir(folder)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (mut proxy, mut console) = (None, None);
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        while proxy.is_none() || console.is_none() {
            let line = lines.next().expect("it listens").unwrap();
            let after = |mark: &str| line.split_once(mark).map(|(_, rest)| rest.trim().to_owned());
            proxy = proxy.or(after("listening on "));
            console = console.or(after("console: http://"));
        }
        thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        CrawlgateProcess {
            child,
            proxy: proxy.unwrap().parse().unwrap(),
            console: console.unwrap().trim_end_matches('/').parse().unwrap(),
        }
    }

    /// Requests a page and returns its octets.
    fn get(&self, target: &str) -> usize {
        self.ask(target, "").len()
    }

    /// Requests a page with these fields and returns the answer.
    fn ask(&self, target: &str, fields: &str) -> Vec<u8> {
        let mut stream = TcpStream::connect(self.console).unwrap();
        let request = format!(
            "GET {target} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{fields}\r\n",
            self.console
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        assert!(
            answer.starts_with(b"HTTP/1.1 200"),
            "{target}: {}",
            String::from_utf8_lossy(&answer)
        );
        answer
    }

    /// Returns the resident memory, in KiB.
    fn resident(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }
}

impl Drop for CrawlgateProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn pages(gate: &CrawlgateProcess, last: &str) {
    let decision = format!("/decisions/{last}");
    let targets = [
        "/",
        "/?range=30d",
        "/denials",
        "/denials?verdict=any",
        "/denials?since=7d&reason=path_guard",
        "/denials?since=29d&until=28d",
        "/denials?origin=www.site-7.example",
        "/denials?path=/nothing/like/this",
        "/denials?client=nobody&verdict=any",
        "/denials?acknowledged=true",
        "/denials?view=rule",
        "/denials?view=origin&verdict=any",
        &decision,
        "/origins",
        "/origins?state=unreachable",
        "/overrides",
        "/try",
        "/watch",
        "/setup",
    ];
    println!("memory before: {} KiB", gate.resident());
    let mut slowest = Duration::ZERO;
    for target in targets {
        let mut took = Vec::new();
        let mut octets = 0;
        for _ in 0..setting("CONSOLE_ROUNDS", 5) {
            let began = Instant::now();
            octets = gate.get(target);
            took.push(began.elapsed());
        }
        took.sort();
        slowest = slowest.max(*took.last().unwrap());
        println!(
            "{target}: median {:.1?}, slowest {:.1?}, {octets} octets",
            took[took.len() / 2],
            took[took.len() - 1]
        );
    }
    println!("memory after: {} KiB", gate.resident());
    let began = Instant::now();
    let octets = gate.get("/denials/export?format=csv");
    println!("export as CSV: {octets} octets in {:.1?}", began.elapsed());
    println!("memory after the export: {} KiB", gate.resident());
    println!("slowest page: {slowest:.1?}");
}

/// Requests a page as a browser does until its navigation has the number of all open denials, and then some more.
fn open_denials(gate: &CrawlgateProcess) {
    let page = || {
        let began = Instant::now();
        let answer = gate.ask("/setup", "Accept: text/html\r\n");
        let took = began.elapsed();
        let answer = String::from_utf8(answer).unwrap();
        let (_, open) = answer.split_once("class=\"open\">").unwrap();
        let (open, _) = open.split_once('<').unwrap();
        (open.to_owned(), took)
    };
    let (mut counting, mut open) = (Vec::new(), String::new());
    while counting.is_empty() || open.ends_with('+') {
        let (found, took) = page();
        counting.push(took);
        open = found;
    }
    let mut counted: Vec<Duration> = (0..20).map(|_| page().1).collect();
    counting.sort();
    counted.sort();
    println!(
        "{open} open denials, counted by {} pages: median {:.1?}, slowest {:.1?}; afterwards median {:.1?}, slowest {:.1?}",
        counting.len(),
        counting[counting.len() / 2],
        counting[counting.len() - 1],
        counted[counted.len() / 2],
        counted[counted.len() - 1]
    );
}

/// Measures the requests forwarded per second, in turns without a viewer and with one.
fn throughput(gate: &CrawlgateProcess) {
    let origin = origin();
    let span = Duration::from_secs(setting("CONSOLE_SECONDS", 3));
    let (mut alone, mut watched) = (Vec::new(), Vec::new());
    for _ in 0..setting("CONSOLE_ROUNDS", 5) {
        alone.push(forwarded(gate.proxy, origin, span));
        let looking = Arc::new(AtomicBool::new(true));
        let live = watch(gate.console, Arc::clone(&looking));
        let more = {
            let (console, looking) = (gate.console, Arc::clone(&looking));
            thread::spawn(move || {
                while looking.load(Ordering::Relaxed) {
                    let mut stream = TcpStream::connect(console).unwrap();
                    let ask =
                        format!("GET / HTTP/1.1\r\nHost: {console}\r\nConnection: close\r\n\r\n");
                    stream.write_all(ask.as_bytes()).unwrap();
                    stream.read_to_end(&mut Vec::new()).unwrap();
                    thread::sleep(Duration::from_secs(1));
                }
            })
        };
        watched.push(forwarded(gate.proxy, origin, span));
        looking.store(false, Ordering::Relaxed);
        more.join().unwrap();
        live.join().unwrap();
    }
    let median = |rates: &mut Vec<f64>| {
        rates.sort_by(f64::total_cmp);
        rates[rates.len() / 2]
    };
    let (alone, watched) = (median(&mut alone), median(&mut watched));
    println!(
        "forwarded: {alone:.0}/s alone, {watched:.0}/s watched: {:.1} %",
        100.0 * watched / alone
    );
}

/// Reads the live feed as long as `looking` is true.
fn watch(console: SocketAddr, looking: Arc<AtomicBool>) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        let mut stream = TcpStream::connect(console).unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        let ask = format!("GET /api/v1/decisions/live HTTP/1.1\r\nHost: {console}\r\n\r\n");
        stream.write_all(ask.as_bytes()).unwrap();
        let mut room = [0; 16 * 1024];
        while looking.load(Ordering::Relaxed) {
            let _ = stream.read(&mut room); // silence is no failure
        }
    })
}

/// Returns the number of requests per second that several crawlers get answered.
fn forwarded(proxy: SocketAddr, origin: SocketAddr, span: Duration) -> f64 {
    let count = Arc::new(AtomicU64::new(0));
    let began = Instant::now();
    let crawlers = (0..CRAWLERS).map(|_| {
        let count = Arc::clone(&count);
        thread::spawn(move || {
            let stream = TcpStream::connect(proxy).unwrap();
            stream.set_nodelay(true).unwrap();
            let mut answers = BufReader::new(stream.try_clone().unwrap());
            let mut requests = stream;
            let request = format!("GET http://{origin}/page HTTP/1.1\r\nHost: {origin}\r\n\r\n");
            while began.elapsed() < span {
                requests.write_all(request.as_bytes()).unwrap();
                read_answer(&mut answers);
                count.fetch_add(1, Ordering::Relaxed);
            }
        })
    });
    for crawler in crawlers.collect::<Vec<_>>() {
        crawler.join().unwrap();
    }
    count.load(Ordering::Relaxed) as f64 / began.elapsed().as_secs_f64()
}

fn read_answer(answers: &mut impl BufRead) {
    let mut length = 0;
    let mut line = String::new();
    loop {
        line.clear();
        assert!(answers.read_line(&mut line).unwrap() > 0, "the proxy has hung up");
        let field = line.to_ascii_lowercase();
        if let Some(value) = field.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line == "\r\n" {
            break;
        }
    }
    let mut body = vec![0; length];
    answers.read_exact(&mut body).unwrap();
}

/// Starts an origin without a robots.txt that answers every page alike.
fn origin() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || {
                stream.set_nodelay(true).unwrap();
                let mut answers = stream.try_clone().unwrap();
                let mut requests = BufReader::new(stream);
                let (mut line, mut first) = (String::new(), String::new());
                while requests.read_line(&mut line).is_ok_and(|octets| octets > 0) {
                    if first.is_empty() {
                        first.clone_from(&line);
                    }
                    if line == "\r\n" {
                        let answer = match first.contains("/robots.txt") {
                            true => "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
                            false => "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
                        };
                        if answers.write_all(answer.as_bytes()).is_err() {
                            return;
                        }
                        first.clear();
                    }
                    line.clear();
                }
            });
        }
    });
    address
}

fn setting(name: &str, default: u64) -> u64 {
    let text = std::env::var(name).ok();
    text.map_or(default, |text| {
        let number = text.parse();
        number.unwrap_or_else(|_| panic!("{name}={text}: not a number"))
    })
}
