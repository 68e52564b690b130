//! Real clients through `crawlgate run`: each requests an allowed and a disallowed page, over HTTP and HTTPS, with no
//! set-up beyond the environment. Beside them, a CBOR library of others reads the entries of the decision log.
//!
//! A client that is not installed is named on stderr and its test passes; with `CRAWLGATE_REQUIRE_CLIENTS=1` it
//! fails. `CRAWLGATE_PYTHON` names an interpreter that is not the first on the path, `CRAWLGATE_NODES` those of Node.js, and
//! `CRAWLGATE_NODE_CLIENTS` the folder of its packages; `.ci/clients` installs all of them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::disallowed_methods,
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "a test fails by panicking, measures real time, and names what it skips"
)]

#[macro_use]
#[path = "../support/mod.rs"]
mod support;

mod browser;
mod canonical;
mod decide;
mod ftp;
mod grpc;
mod guard;
mod http2;
mod node;
mod purposes;
mod real_origins;
mod recipes;
mod uploads;
mod variables;
mod visit;

use std::fs;

use serde_json::Value;
use support::Reply;
use visit::{Visit, client, printed_statuses, python, python_client};

#[test]
fn curl() {
    let curl = or_skip!(client("curl", "CRAWLGATE_CURL", &["curl"], &["--version"]));
    let visit = Visit::new();
    let start = [curl, "--silent".to_owned(), "--show-error".to_owned()];
    let write =
        visit.urls().into_iter().flat_map(|url| ["-o".to_owned(), "/dev/null".to_owned(), url]);
    let outcome = visit
        .run(start.into_iter().chain(write).chain(["-w".to_owned(), "%{http_code}\n".to_owned()]));
    printed_statuses(&outcome);
    visit.held(&outcome);
}

#[test]
fn curl_shows_the_rule_that_denied() {
    let curl = or_skip!(client("curl", "CRAWLGATE_CURL", &["curl"], &["--version"]));
    let visit = Visit::new();
    let outcome = visit.run([curl.as_str(), "--silent", &visit.https.url("/private")]);
    says!(outcome.stdout, "Disallow: /private");
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
        "import sys, httpx\nfor url in sys.argv[1:]: print(httpx.get(url, timeout=60).status_code)",
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
fn python_aiohttp_websockets() {
    python_client(
        "aiohttp",
        "import sys, asyncio, aiohttp\n\
         async def main():\n\
         \x20   async with aiohttp.ClientSession(trust_env=True) as session:\n\
         \x20       for url in sys.argv[1:]:\n\
         \x20           try: await session.ws_connect(url.replace('http', 'ws', 1))\n\
         \x20           except aiohttp.WSServerHandshakeError as error: print(error.status)\n\
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
fn a_scrapy_spider_on_a_small_site() {
    let python = or_skip!(python("scrapy"));
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
            // Scrapy may spell a URL its own way; the spider reports the URL that it asked for.
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
    says!(outcome.stderr, "Disallow: /private"; "no summary");
}
