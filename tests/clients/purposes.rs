//! Scrapy on a site with mixed preferences: the same spider for two purposes.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::support::{CrawlgateProcess, Origin, Reply, Setup, eventually};
use crate::visit::{finish, python};

/// The statement of the site about one of its pages.
#[derive(Clone, Copy, PartialEq)]
enum Says {
    Nothing,
    /// Training is disallowed, in robots.txt.
    NoTraining,
    /// Training is disallowed, in the response.
    NoTrainingInResponse,
    /// Search is disallowed, in the response.
    NoSearchInResponse,
    /// The rules disallow the page.
    Disallowed,
}

const SPIDER: &str = "\
import scrapy
class Site(scrapy.Spider):
    name = 'site'
    handle_httpstatus_list = [403]
    custom_settings = {'ROBOTSTXT_OBEY': False, 'RETRY_ENABLED': False, 'TELNETCONSOLE_ENABLED': False, 'USER_AGENT': 'SiteBot/1.0'}
    def __init__(self, start, **kw):
        super().__init__(**kw)
        self.start_urls = [start]
    def parse(self, response):
        yield {'path': response.url.split('/')[-1], 'status': response.status, 'text': response.text}
        if response.status == 200 and response.url.endswith('/'):
            yield from response.follow_all(css='a')
";

/// Thirty pages, each of a kind.
fn pages() -> Vec<(String, Says)> {
    let kinds = [
        Says::Nothing,
        Says::NoTraining,
        Says::NoTrainingInResponse,
        Says::NoSearchInResponse,
        Says::Disallowed,
    ];
    let page = |number: usize| {
        let says = kinds[number % kinds.len()];
        let prefix = match says {
            Says::NoTraining => "reserved",
            Says::Disallowed => "private",
            _ => "page",
        };
        (format!("{prefix}-{number}"), says)
    };
    (0..30).map(page).collect()
}

fn site() -> Origin {
    let origin = Origin::with_rules(
        "User-agent: *\nDisallow: /private-\nContent-Usage: /reserved- train-ai=n\n",
    );
    let links: String =
        pages().iter().map(|(name, _)| format!("<a href=/{name}>{name}</a>")).collect();
    let html = "Content-Type: text/html\r\n";
    origin.script("/", [Reply::with(200, html, links)]);
    for (name, says) in pages() {
        let field = match says {
            Says::NoTrainingInResponse => "Content-Usage: train-ai=n\r\n",
            Says::NoSearchInResponse => "Content-Signal: search=no\r\n",
            _ => "",
        };
        let body = format!("content of {name}");
        origin.script(&format!("/{name}"), [Reply::with(200, &format!("{html}{field}"), body)]);
    }
    origin
}

/// The outcome of a crawl.
struct Crawled {
    /// The items that the spider got.
    items: Vec<Value>,
    /// The records of the gate.
    records: Vec<Value>,
    stderr: String,
}

/// Runs the spider behind a command; its arguments come before those of Python.
fn spider(python: &str, command: &mut Command, setup: &Setup, origin: &Origin) -> Crawled {
    let folder = setup.dir();
    let (spider, items) = (folder.join("spider.py"), folder.join("items.json"));
    fs::write(&spider, SPIDER).unwrap();
    command.args([python, "-m", "scrapy", "runspider"]);
    command.arg(&spider).arg("-a");
    command.arg(format!("start={}", origin.url("/")));
    command.arg("-O").arg(&items);
    let output = finish(command.arg("--loglevel=WARNING"));
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{stderr}");
    Crawled {
        items: serde_json::from_slice(&fs::read(&items).unwrap()).unwrap(),
        records: records(folder, origin),
        stderr,
    }
}

/// Waits for the records of all pages, which a running gate writes a moment after its answers, and returns all records.
#[track_caller]
fn records(folder: &Path, origin: &Origin) -> Vec<Value> {
    let urls: Vec<String> =
        pages().iter().map(|(name, _)| origin.url(&format!("/{name}"))).collect();
    eventually("the records of all pages", || {
        let log = fs::read(folder.join("decisions.jsonl")).unwrap();
        let log = String::from_utf8_lossy(&log);
        let whole = log.rfind('\n').map_or("", |end| &log[..=end]);
        let records: Vec<Value> =
            whole.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let has = |url: &String| records.iter().any(|record| record["url"] == **url);
        urls.iter().all(has).then_some(records)
    })
}

/// The pages that a purpose is refused, and those that are requested for it.
#[derive(Clone, Copy)]
struct Expected {
    purpose: &'static str,
    is_refused: fn(Says) -> bool,
    is_sent: fn(Says) -> bool,
}

const TRAINING: Expected = Expected {
    purpose: "train-ai",
    is_refused: |says| !matches!(says, Says::Nothing | Says::NoSearchInResponse),
    is_sent: |says| !matches!(says, Says::NoTraining | Says::Disallowed),
};

const SEARCH: Expected = Expected {
    purpose: "search",
    is_refused: |says| matches!(says, Says::NoSearchInResponse | Says::Disallowed),
    is_sent: |says| says != Says::Disallowed,
};

impl Expected {
    /// Compares what reached the crawler, what the origin saw and what was recorded of this client.
    #[track_caller]
    fn agrees(self, crawled: &Crawled, origin: &Origin, client: Option<&str>) {
        let Expected { purpose, is_refused, is_sent } = self;
        let seen: BTreeSet<String> = origin.seen_but_robots().into_iter().collect();
        for (name, says) in pages() {
            let items = &crawled.items;
            let item = items.iter().find(|item| item["path"] == *name);
            let item =
                item.unwrap_or_else(|| panic!("{name}: {:?} {}", crawled.records, crawled.stderr));
            let text = item["text"].as_str().unwrap();
            let content = format!("content of {name}");
            let expected = if is_refused(says) { 403 } else { 200 };
            assert_eq!(item["status"], expected, "{purpose}, {name}: {text}");
            assert_eq!(text.contains(&content), !is_refused(says), "{purpose}, {name}: {text}");
            assert_eq!(seen.contains(&format!("GET /{name}")), is_sent(says), "{purpose}, {name}");
            let url = origin.url(&format!("/{name}"));
            let mut records = crawled.records.iter();
            let record = records.find(|record| record["url"] == *url).unwrap();
            let verdict = if is_refused(says) { "deny" } else { "allow" };
            assert_eq!(record["verdict"], verdict, "{purpose}: {record}");
            assert_eq!(record["usage"]["purposes"][0], purpose, "{record}");
            assert_eq!(record["client"]["name"].as_str(), client, "{record}");
        }
    }
}

/// Asserts that every decision is proven from its record, of which there are at least so many.
#[track_caller]
fn all_proven(setup: &Setup, least: u64) {
    let said = setup.succeeds("audit", &["verify", "--all", "--json"]);
    let told: Value = serde_json::from_str(&said).unwrap();
    has!(told, {"ok": true, "attested": {}, "wrong": 0});
    assert!(told["proven"].as_u64().unwrap() >= least, "{told}");
}

#[test]
fn scrapy_for_training_and_for_search_gets_exactly_the_right_pages() {
    let python = or_skip!(python("scrapy"));
    for expected in [TRAINING, SEARCH] {
        let (origin, setup) = (site(), Setup::new());
        let mut command = setup.command("run");
        command.args(["--purpose", expected.purpose, "--"]);
        let crawled = spider(&python, &mut command, &setup, &origin);
        expected.agrees(&crawled, &origin, None);
        all_proven(&setup, 30);
    }
}

#[test]
fn two_clients_of_one_service_crawl_for_a_purpose_each() {
    let python = or_skip!(python("scrapy"));
    let hash = crawlgate_turns::client::passwords::hash(b"open sesame").unwrap();
    let clients = [("model", TRAINING), ("index", SEARCH)];
    let entries = clients.map(|(name, expected)| {
        let (password, purpose) = (hash.reveal(), expected.purpose);
        format!("[[client]]\nname = '{name}'\npassword = '{password}'\npurposes = ['{purpose}']\n")
    });
    let gate = CrawlgateProcess::with(|setup| setup.tables(&entries.concat()));
    for (name, expected) in clients {
        let origin = site();
        let mut command = Command::new("env");
        command.arg(format!("http_proxy=http://{name}:open%20sesame@{}", gate.address));
        command.arg("no_proxy=").stdout(Stdio::piped());
        command.stderr(Stdio::piped());
        let crawled = spider(&python, &mut command, &gate.setup, &origin);
        expected.agrees(&crawled, &origin, Some(name));
    }
    all_proven(&gate.setup, 60);
}
