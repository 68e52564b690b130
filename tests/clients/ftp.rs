//! Scrapy over FTP. Its own handler for `ftp` opens connections past any proxy; with its handler for HTTP in that place, it
//! asks the proxy that the environment names.

use std::fs;

use serde_json::Value;

use crate::support::RULES;
use crate::support::ftp::FtpServer;
use crate::visit::{Outcome, Visit, python};

/// The setting that docs/ftp.md names.
const SETTING: &str = "DOWNLOAD_HANDLERS = {\"ftp\": \"scrapy.core.downloader.handlers.http11.HTTP11DownloadHandler\"}";

/// A spider that requests all URLs and writes down what came of each.
fn crawl(visit: &Visit, python: &str, settings: &str, urls: &[String]) -> (Outcome, Vec<Value>) {
    let dir = visit.setup.dir();
    let spider = dir.join("spider.py");
    let items = dir.join("items.json");
    fs::write(
        &spider,
        format!(
            "import scrapy\n\
             class Files(scrapy.Spider):\n\
             \x20   name = 'files'\n\
             \x20   handle_httpstatus_all = True\n\
             \x20   custom_settings = {{'ROBOTSTXT_OBEY': False, 'RETRY_ENABLED': False, 'TELNETCONSOLE_ENABLED': False, 'USER_AGENT': 'FileBot/1.0', **dict({settings})}}\n\
             \x20   async def start(self):\n\
             \x20       for url in {urls:?}:\n\
             \x20           yield scrapy.Request(url, self.parse, errback=self.failed, meta={{'handle_httpstatus_all': True}})\n\
             \x20   def parse(self, response):\n\
             \x20       yield {{'url': response.url, 'status': response.status, 'body': response.text}}\n\
             \x20   def failed(self, failure):\n\
             \x20       yield {{'url': failure.request.url, 'error': str(failure.value)}}\n"
        ),
    )
    .unwrap();
    let outcome = visit.run([
        python,
        "-m",
        "scrapy",
        "runspider",
        spider.to_str().unwrap(),
        "-O",
        items.to_str().unwrap(),
        "--loglevel=WARNING",
    ]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let items = serde_json::from_slice(&fs::read(&items).unwrap()).unwrap();
    (outcome, items)
}

#[test]
fn scrapy_asks_the_proxy_for_ftp_with_its_handler_for_http() {
    let python = or_skip!(python("scrapy"));
    let manual = include_str!("../../docs/ftp.md");
    assert!(manual.contains(SETTING), "docs/ftp.md has another setting");
    let visit = Visit::new();
    let server = FtpServer::with_rules(RULES).file("page", "a file");
    let urls = ["/page", "/private"].map(|path| server.url(path));
    let settings = SETTING.replace("DOWNLOAD_HANDLERS = ", "DOWNLOAD_HANDLERS=");
    let (outcome, items) = crawl(&visit, &python, &settings, &urls);
    let found = |url: &String| {
        let found = items.iter().find(|item| item["url"] == **url);
        found.unwrap_or_else(|| panic!("{url}: {items:?}\n{}", outcome.stderr))
    };
    let (open, denied) = (found(&urls[0]), found(&urls[1]));
    has!(open, {"status": 200, "body": "a file"});
    assert_eq!(denied["status"], 403, "{denied}");
    // The server saw only the sessions of the proxy.
    assert_eq!(server.named(), ["SIZE page", "MDTM page", "RETR page"], "{:?}", server.seen());
    let reasons: Vec<_> = urls
        .iter()
        .map(|url| {
            let mut records = outcome.records.iter();
            let record = records.find(|record| record["url"] == **url);
            record.unwrap_or_else(|| panic!("{url}: {:?}", outcome.records))["reason"].clone()
        })
        .collect();
    assert_eq!(reasons, ["robots_allow", "robots_disallow"]);
}

#[test]
fn scrapys_own_handler_of_ftp_asks_no_proxy() {
    let python = or_skip!(python("scrapy"));
    let visit = Visit::new();
    let server = FtpServer::with_rules(RULES).file("page", "a file");
    // The name of the URL leads nowhere outside crawlgate.
    let url = server.url("/page").replace("site.test", "127.0.0.1");
    let (outcome, items) = crawl(&visit, &python, "", std::slice::from_ref(&url));
    assert_eq!(items.len(), 1, "{items:?}\n{}", outcome.stderr);
    assert!(server.sessions() > 0, "{items:?}\n{}", outcome.stderr);
    let asked = outcome.records.iter().find(|record| record["url"] == *url);
    assert_eq!(asked, None, "docs/ftp.md says otherwise of this Scrapy");
}
