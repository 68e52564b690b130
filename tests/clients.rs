//! Real clients through `crawlgate run`: each asks for an allowed and a disallowed page, over HTTP and HTTPS, with no
//! set-up of its own beyond what the environment says.
//!
//! A client that is not installed is named on stderr and its test passes; with `CRAWLGATE_REQUIRE_CLIENTS=1` it
//! fails. `CRAWLGATE_PYTHON` and `CRAWLGATE_NODE` name interpreters that are not the first on the path.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "a test fails by panicking, measures real time, and names what it skips"
)]

mod support;

use std::env;
use std::fs;
use std::process::{Command, Output};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use serde_json::Value;
use support::{Origin, RULES, Reply, Setup};

/// How long a client may take; a browser on a busy machine takes its time.
const CLIENT_PATIENCE: Duration = Duration::from_secs(120);

/// The two origins every client visits, and a configuration that knows them.
struct Visit {
    http: Origin,
    https: Origin,
    setup: Setup,
}

/// What a client said, and what the gate recorded.
struct Outcome {
    stdout: String,
    stderr: String,
    code: Option<i32>,
    records: Vec<Value>,
}

impl Visit {
    fn new() -> Self {
        let pages = |origin: Origin| {
            origin.robots(RULES).on(
                "/page",
                [Reply::with(
                    200,
                    "Cache-Control: no-store\r\n",
                    "an allowed page",
                )],
            )
        };
        Self {
            http: pages(Origin::http()),
            https: pages(Origin::https()),
            setup: Setup::new(),
        }
    }

    /// Allowed and disallowed page, plain and over TLS.
    fn urls(&self) -> [String; 4] {
        [
            self.http.url("/page"),
            self.http.url("/private"),
            self.https.url("/page"),
            self.https.url("/private"),
        ]
    }

    /// Runs `crawlgate run -- ARGUMENTS`.
    fn run<S: AsRef<str>>(&self, arguments: impl IntoIterator<Item = S>) -> Outcome {
        let mut command = self.setup.command("run");
        command.arg("--").args(
            arguments
                .into_iter()
                .map(|argument| argument.as_ref().to_owned()),
        );
        let Output {
            status,
            stdout,
            stderr,
        } = finish(&mut command);
        let log = fs::read_to_string(self.setup.dir().join("decisions.jsonl")).unwrap_or_default();
        Outcome {
            stdout: String::from_utf8_lossy(&stdout).into_owned(),
            stderr: String::from_utf8_lossy(&stderr).into_owned(),
            code: status.code(),
            records: log
                .lines()
                .map(|line| serde_json::from_str(line).unwrap())
                .collect(),
        }
    }

    /// Asserts that every disallowed page was denied with its rule, every allowed one arrived, and the origins saw
    /// nothing else.
    #[track_caller]
    fn held(&self, outcome: &Outcome) {
        for (origin, scheme) in [(&self.http, "http"), (&self.https, "https")] {
            let seen = origin.seen_but_robots();
            assert!(
                seen.contains(&"GET /page".to_owned()),
                "{scheme}: {seen:?}\n{}",
                outcome.stderr
            );
            assert!(
                !seen.contains(&"GET /private".to_owned()),
                "{scheme}: {seen:?}"
            );
            let denied = outcome
                .records
                .iter()
                .find(|record| record["url"] == *origin.url("/private"));
            let denied =
                denied.unwrap_or_else(|| panic!("no denial over {scheme}\n{}", outcome.stderr));
            assert_eq!(
                (&denied["reason"], &denied["rule"]["line"]),
                (&"robots_disallow".into(), &3.into()),
                "{denied}"
            );
        }
    }
}

/// Runs a command to its end, or kills it.
fn finish(command: &mut Command) -> Output {
    let child = command.spawn().unwrap();
    let id = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || sender.send(child.wait_with_output()));
    receiver.recv_timeout(CLIENT_PATIENCE).map_or_else(
        |_| {
            let _ = rustix::process::kill_process(id, rustix::process::Signal::TERM);
            panic!("{command:?} did not end")
        },
        Result::unwrap,
    )
}

/// The program to run, if `probe` succeeds with one of the candidates.
fn client(name: &str, variable: &str, candidates: &[&str], probe: &[&str]) -> Option<String> {
    let chosen = env::var(variable).ok();
    let candidates: Vec<&str> = chosen
        .as_deref()
        .map_or_else(|| candidates.to_vec(), |chosen| vec![chosen]);
    let works = |program: &&&str| {
        let output = Command::new(program).args(probe).output();
        output.is_ok_and(|output| output.status.success())
    };
    let found = candidates
        .iter()
        .find(works)
        .map(|program| (*program).to_owned());
    if found.is_none() {
        let required = env::var("CRAWLGATE_REQUIRE_CLIENTS").is_ok_and(|value| value == "1");
        assert!(!required, "{name} is missing ({candidates:?})");
        eprintln!("skipped: {name} is missing ({candidates:?})");
    }
    found
}

fn python(module: &str) -> Option<String> {
    client(
        &format!("Python with {module}"),
        "CRAWLGATE_PYTHON",
        &["python3"],
        &["-c", &format!("import {module}")],
    )
}

/// Asserts that a client printed the statuses of the four pages, one on each line.
#[track_caller]
fn printed_statuses(outcome: &Outcome) {
    let statuses: Vec<_> = outcome.stdout.split_whitespace().collect();
    assert_eq!(statuses, ["200", "403", "200", "403"], "{}", outcome.stderr);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
}

/// Runs a Python program that gets the four URLs as arguments and prints their statuses.
fn python_client(module: &str, program: &str) {
    let Some(python) = python(module) else { return };
    let visit = Visit::new();
    let start = [python, "-c".to_owned(), program.to_owned()];
    let outcome = visit.run(start.into_iter().chain(visit.urls()));
    printed_statuses(&outcome);
    visit.held(&outcome);
}

#[test]
fn curl() {
    let Some(curl) = client("curl", "CRAWLGATE_CURL", &["curl"], &["--version"]) else {
        return;
    };
    let visit = Visit::new();
    let start = [curl, "--silent".to_owned(), "--show-error".to_owned()];
    let write = visit
        .urls()
        .into_iter()
        .flat_map(|url| ["-o".to_owned(), "/dev/null".to_owned(), url]);
    let outcome = visit.run(
        start
            .into_iter()
            .chain(write)
            .chain(["-w".to_owned(), "%{http_code}\n".to_owned()]),
    );
    printed_statuses(&outcome);
    visit.held(&outcome);
}

#[test]
fn curl_shows_the_rule_that_denied() {
    let Some(curl) = client("curl", "CRAWLGATE_CURL", &["curl"], &["--version"]) else {
        return;
    };
    let visit = Visit::new();
    let outcome = visit.run([curl.as_str(), "--silent", &visit.https.url("/private")]);
    assert!(
        outcome.stdout.contains("Disallow: /private"),
        "{}",
        outcome.stdout
    );
    let outcome = visit.run([curl.as_str(), "--silent", &visit.https.url("/page")]);
    assert_eq!(outcome.stdout, "an allowed page", "{}", outcome.stderr);
}

#[test]
fn python_requests() {
    python_client(
        "requests",
        "import sys, requests\nfor url in sys.argv[1:]: print(requests.get(url).status_code)",
    );
}

#[test]
fn python_requests_session_keeps_its_connection() {
    python_client(
        "requests",
        "import sys, requests\ns = requests.Session()\nfor url in sys.argv[1:]: print(s.get(url).status_code)",
    );
}

#[test]
fn python_httpx() {
    python_client(
        "httpx",
        "import sys, httpx\nfor url in sys.argv[1:]: print(httpx.get(url).status_code)",
    );
}

#[test]
fn python_aiohttp() {
    python_client(
        "aiohttp",
        "import sys, asyncio, aiohttp\n\
         async def main():\n\
         \x20   async with aiohttp.ClientSession(trust_env=True) as session:\n\
         \x20       for url in sys.argv[1:]:\n\
         \x20           async with session.get(url) as answer: print(answer.status)\n\
         asyncio.run(main())",
    );
}

#[test]
fn python_urllib() {
    python_client(
        "urllib.request",
        "import sys, urllib.request, urllib.error\n\
         for url in sys.argv[1:]:\n\
         \x20   try: print(urllib.request.urlopen(url).status)\n\
         \x20   except urllib.error.HTTPError as error: print(error.code)",
    );
}

#[test]
fn node_fetch() {
    // NODE_USE_ENV_PROXY came with these versions.
    let new_enough = "const [a, b] = process.versions.node.split('.').map(Number); process.exit(a >= 24 || (a === 22 && b >= 21) ? 0 : 1)";
    let Some(node) = client(
        "Node 24 or 22.21",
        "CRAWLGATE_NODE",
        &["node"],
        &["-e", new_enough],
    ) else {
        return;
    };
    let visit = Visit::new();
    let program = "(async () => { for (const url of process.argv.slice(1)) console.log((await fetch(url)).status); })()";
    let start = [node, "-e".to_owned(), program.to_owned()];
    let outcome = visit.run(start.into_iter().chain(visit.urls()));
    printed_statuses(&outcome);
    visit.held(&outcome);
}

#[test]
fn a_scrapy_spider_on_a_small_site() {
    let Some(python) = python("scrapy") else {
        return;
    };
    let visit = Visit::new();
    let links = "<a href=/page>1</a> <a href=/private>2</a> <a href=/private/a>3</a> <a href=/private/open>4</a> <a href=/%70rivate/b>5</a>";
    for origin in [&visit.http, &visit.https] {
        let page = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\n\r\n{links}",
            links.len()
        );
        origin.script("/", [Reply::raw(page)]);
    }
    let spider = visit.setup.dir().join("spider.py");
    fs::write(
        &spider,
        "import scrapy\n\
         class Site(scrapy.Spider):\n\
         \x20   name = 'site'\n\
         \x20   handle_httpstatus_list = [403]\n\
         \x20   custom_settings = {'ROBOTSTXT_OBEY': False, 'RETRY_ENABLED': False, 'TELNETCONSOLE_ENABLED': False, 'USER_AGENT': 'SiteBot/1.0'}\n\
         \x20   def __init__(self, starts, **kw):\n\
         \x20       super().__init__(**kw)\n\
         \x20       self.start_urls = starts.split(',')\n\
         \x20   def parse(self, response):\n\
         \x20       yield {'url': response.url, 'status': response.status}\n\
         \x20       if response.headers.get('Content-Type', b'').startswith(b'text/html'):\n\
         \x20           yield from response.follow_all(css='a')\n",
    )
    .unwrap();
    let items = visit.setup.dir().join("items.json");
    let starts = format!("starts={},{}", visit.http.url("/"), visit.https.url("/"));
    let (spider, items_path) = (spider.to_str().unwrap(), items.to_str().unwrap());
    let arguments = [
        python.as_str(),
        "-m",
        "scrapy",
        "runspider",
        spider,
        "-a",
        &starts,
        "-O",
        items_path,
        "--loglevel=WARNING",
    ];
    let outcome = visit.run(arguments);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let items: Vec<Value> = serde_json::from_slice(&fs::read(&items).unwrap()).unwrap();
    for origin in [&visit.http, &visit.https] {
        let pages = [
            ("/", 200),
            ("/page", 200),
            ("/private", 403),
            ("/private/a", 403),
            ("/private/open", 200),
            ("/%70rivate/b", 403),
        ];
        for (path, status) in pages {
            // Scrapy may spell a URL its own way; what it asked for is what it reports.
            let found = items.iter().find(|item| {
                let url = item["url"].as_str().unwrap();
                url == origin.url(path) || url == origin.url(&path.replace("%70", "p"))
            });
            assert_eq!(
                found.map(|item| &item["status"]),
                Some(&status.into()),
                "{path}: {items:?}\n{}",
                outcome.stderr
            );
        }
        let seen = origin.seen_but_robots();
        assert!(
            seen.iter()
                .all(|line| ["GET /", "GET /page", "GET /private/open"].contains(&line.as_str())),
            "{seen:?}"
        );
    }
    visit.held(&outcome);
    assert!(
        outcome.stderr.contains("Disallow: /private"),
        "no summary: {}",
        outcome.stderr
    );
}

#[test]
fn headless_chromium() {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let Some(chromium) = client("Chromium", "CRAWLGATE_CHROMIUM", &names, &["--version"]) else {
        return;
    };
    let visit = Visit::new();
    for url in visit.urls() {
        let profile = tempfile::tempdir().unwrap();
        let user_data = format!("--user-data-dir={}", profile.path().display());
        let outcome = visit.run([
            chromium.as_str(),
            "--proxy-server={proxy}",
            "--ignore-certificate-errors-spki-list={spki}",
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            &user_data,
            "--dump-dom",
            &url,
        ]);
        let expected = if url.ends_with("/page") {
            "an allowed page"
        } else {
            "Disallow: /private"
        };
        assert!(
            outcome.stdout.contains(expected),
            "{url}: {}\n{}",
            outcome.stdout,
            outcome.stderr
        );
        if url == visit.urls()[3] {
            visit.held(&outcome);
        }
    }
}
