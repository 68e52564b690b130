//! Scrapy on a site with mixed preferences: the same spider for two purposes.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;

use crate::support::{Origin, Reply, Setup};
use crate::visit::{finish, python};

/// What the site says of one of its pages.
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
    let links: String = pages()
        .iter()
        .map(|(name, _)| format!("<a href=/{name}>{name}</a>"))
        .collect();
    let html = "Content-Type: text/html\r\n";
    origin.script("/", [Reply::with(200, html, links)]);
    for (name, says) in pages() {
        let field = match says {
            Says::NoTrainingInResponse => "Content-Usage: train-ai=n\r\n",
            Says::NoSearchInResponse => "Content-Signal: search=no\r\n",
            _ => "",
        };
        let body = format!("content of {name}");
        origin.script(
            &format!("/{name}"),
            [Reply::with(200, &format!("{html}{field}"), body)],
        );
    }
    origin
}

/// Crawls the site for a purpose, and compares what reached the crawler, what the origin saw and what was recorded.
fn crawl(
    python: &str,
    purpose: &str,
    is_refused: impl Fn(Says) -> bool,
    is_sent: impl Fn(Says) -> bool,
) {
    let origin = site();
    let setup = Setup::new();
    let folder = setup.dir();
    let (spider, items) = (folder.join("spider.py"), folder.join("items.json"));
    fs::write(&spider, SPIDER).unwrap();
    let mut command = setup.command("run");
    let start = format!("start={}", origin.url("/"));
    command.args([
        "--purpose",
        purpose,
        "--",
        python,
        "-m",
        "scrapy",
        "runspider",
    ]);
    command.args([
        spider.to_str().unwrap(),
        "-a",
        &start,
        "-O",
        items.to_str().unwrap(),
    ]);
    let output = finish(command.arg("--loglevel=WARNING"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let items: Vec<Value> = serde_json::from_slice(&fs::read(&items).unwrap()).unwrap();
    let log = fs::read_to_string(folder.join("decisions.jsonl")).unwrap();
    let records: Vec<Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let seen: BTreeSet<String> = origin.seen_but_robots().into_iter().collect();
    for (name, says) in pages() {
        let item = items.iter().find(|item| item["path"] == *name);
        let item = item.unwrap_or_else(|| panic!("{name}: {items:?} {said}"));
        let text = item["text"].as_str().unwrap();
        let content = format!("content of {name}");
        let expected = if is_refused(says) { 403 } else { 200 };
        assert_eq!(item["status"], expected, "{purpose}, {name}: {text}");
        assert_eq!(
            text.contains(&content),
            !is_refused(says),
            "{purpose}, {name}: {text}"
        );
        assert_eq!(
            seen.contains(&format!("GET /{name}")),
            is_sent(says),
            "{purpose}, {name}"
        );
        let url = origin.url(&format!("/{name}"));
        let record = records.iter().find(|record| record["url"] == *url).unwrap();
        let verdict = if is_refused(says) { "deny" } else { "allow" };
        assert_eq!(record["verdict"], verdict, "{purpose}: {record}");
        assert_eq!(record["usage"]["purposes"][0], purpose, "{record}");
    }
    let (code, said, why) = setup.run("audit", &["verify", "--all"]);
    assert_eq!(code, Some(0), "{said}{why}");
}

#[test]
fn scrapy_for_training_and_for_search_gets_exactly_the_right_pages() {
    let Some(python) = python("scrapy") else {
        return;
    };
    crawl(
        &python,
        "train-ai",
        |says| !matches!(says, Says::Nothing | Says::NoSearchInResponse),
        |says| !matches!(says, Says::NoTraining | Says::Disallowed),
    );
    crawl(
        &python,
        "search",
        |says| matches!(says, Says::NoSearchInResponse | Says::Disallowed),
        |says| says != Says::Disallowed,
    );
}
