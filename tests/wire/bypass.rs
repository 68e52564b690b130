//! The bypass table, first half: spellings of a URL that could make a careless gate judge one thing and fetch another.
//! For each denial the origin has seen only `/robots.txt`. `http2/bypass.rs` has the other rows on streams of HTTP/2.
//! Page: `docs/path-guard.md`.

use Outcome::{Arrives, Bad, Denied, Refused, Reset};
use http::Version;
use serde_json::Value;

use crate::http2::bypass::exactly;
use crate::http2::{TLS, listening};
use crate::support::http2_frames::End;
use crate::support::{CrawlgateProcess, Origin, RULES};

/// The versions of HTTP that a crawler may ask by, each with an origin for it.
const VERSIONS: [(Version, fn() -> Origin); 3] = [
    (Version::HTTP_11, Origin::http),
    (Version::HTTP_11, Origin::https),
    (Version::HTTP_2, Origin::https),
];

fn ask(method: &str, target: &str, fields: &str) -> String {
    format!("{method} {target} HTTP/1.1\r\nUser-Agent: TestBot/1.0\r\n{fields}\r\n")
}

#[test]
fn path_spellings_of_a_disallowed_page_are_denied() {
    let gate = CrawlgateProcess::start();
    let cases = [
        ("/private", "robots_disallow"),
        ("/%70rivate", "robots_disallow"),
        ("/%70%72%69%76%61%74%65", "robots_disallow"),
        ("/privat%65/deep", "robots_disallow"),
        ("/private/", "robots_disallow"),
        ("/private%2f", "robots_disallow"),
        ("/%2Fprivate", "path_guard"),
        ("/private;x=1", "robots_disallow"),
        ("/private?", "robots_disallow"),
        ("/private?x", "robots_disallow"),
        ("/private/../open", "robots_disallow"),
        ("//private", "path_guard"),
        ("///private", "path_guard"),
        ("/./private", "path_guard"),
        ("/a/../private", "path_guard"),
        ("/a/%2e%2e/private", "path_guard"),
        ("/a/.%2E/%70rivate", "path_guard"),
        ("/a//../../private", "path_guard"),
        ("/../private", "path_guard"),
        ("/robots.txt/../private", "path_guard"),
        ("//robots.txt/../private", "path_guard"),
        ("/%2570rivate", "path_guard"),
        ("/open/..%2f%70rivate", "path_guard"),
        ("/open%2F..%252Fprivate", "path_guard"),
        ("/open/..;x/private", "path_guard"),
        ("/;x/private", "path_guard"),
        ("//host/private", "path_guard"),
        ("/%5Chost%5Cprivate", "path_guard"),
        ("/open%5C..%5Cprivate", "path_guard"),
        ("/pri%80vate", "path_guard"),
        ("/pri%09vate/x", "path_guard"),
        ("/pri%0D%0Avate", "path_guard"),
        ("/%u0070rivate", "path_guard"),
        ("/x/.%FF./private", "path_guard"),
    ];
    for (version, origin) in VERSIONS.map(|(version, origin)| (version, origin())) {
        let origin = origin.robots(RULES);
        for (path, reason) in cases {
            let answer = gate.get_by(version, &origin.url(path));
            assert_eq!(answer.problem()["reason"], reason, "{path}: {answer:?}");
            let record = gate.refused(&answer, 403, reason);
            assert_eq!(record["rule"]["text"], "Disallow: /private", "{path}");
            has!(record, {"url": origin.url(path)}, "the record has the URL as received");
        }
        assert_eq!(origin.seen_but_robots(), [""; 0]);
    }
}

#[test]
fn allowed_paths_arrive_octet_for_octet() {
    let gate = CrawlgateProcess::start();
    let paths = [
        "/PRIVATE",
        "/priva",
        "/a%2Fprivate",
        "/open%2fx",
        "/%7euser/%C3%a9",
        "/a/b/../c/./d//e",
        "/open?q=/private&r=%zz",
        "/open?",
        "/open?a=b?c",
        "/open?next=%2Fx%2F..%2Fprivate",
        "/*$",
        "/a;b=c,d:e@f!g'h(i)",
        "/robots.txt?x=1",
        "/private/open/../open",
    ];
    for (version, origin) in VERSIONS.map(|(version, origin)| (version, origin())) {
        let origin = origin.robots(RULES);
        for path in paths {
            let answer = gate.get_by(version, &origin.url(path));
            assert_eq!(answer.status, 200, "{path}: {answer:?}");
            assert_eq!(origin.last(path).line(), format!("GET {path}"));
        }
    }
}

#[test]
fn only_robots_txt_itself_is_free_of_its_rules() {
    let gate = CrawlgateProcess::start();
    let others = [
        "/robots.txt/",
        "/ROBOTS.TXT",
        "/robots.txt;x",
        "/robots.txtx",
        "/x/robots.txt",
        "//robots.txt",
        "/robots.txt/../x",
        "/robots%2Etxt/x",
        "/robots.txt%00",
    ];
    for (version, origin) in VERSIONS.map(|(version, origin)| (version, origin())) {
        let rules = "User-agent: *\nDisallow: /\n";
        let origin = origin.robots(rules);
        let file = gate.get_by(version, &origin.url("/robots.txt"));
        assert_eq!(file.text(), rules);
        for path in others {
            let answer = gate.get_by(version, &origin.url(path));
            assert_eq!(answer.status, 403, "{path}: {answer:?}");
        }
        assert_eq!(origin.seen_but_robots(), [""; 0]);
    }
}

#[test]
fn an_empty_path_is_the_root() {
    let gate = CrawlgateProcess::start();
    let origin = Origin::with_rules("User-agent: *\nDisallow: /?private\n");
    let root = format!("http://{}", origin.authority());
    for (url, arrives) in [(root.clone(), "GET /"), (format!("{root}?open"), "GET /?open")] {
        assert_eq!(gate.connect().exchange(ask("GET", &url, "Host: x\r\n")).status, 200, "{url}");
        assert_eq!(origin.seen().last().unwrap().line(), arrives);
    }
    gate.denied(&gate.connect().exchange(ask("GET", &format!("{root}?private"), "Host: x\r\n")));
}

/// The outcome of a spelling.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Outcome {
    /// A rule denies it. The record has this host.
    Denied(&'static str),
    /// It is refused by its spelling or by a rule.
    Refused,
    /// It gets this status, as a request that crawlgate cannot send.
    Bad(u16),
    /// It is malformed: there is no answer, and no record.
    Reset,
    /// It arrives as this line.
    Arrives(&'static str),
}

/// Spellings of a scheme, a host and a path, with their outcome in absolute-form and on a stream of HTTP/2.
#[rustfmt::skip] // one row, one case
const SPELLINGS: &[(&str, &str, &str, Outcome, Outcome)] = &[
    ("http", "site.test", "/private", Denied("site.test"), Denied("site.test")),
    ("http", "SITE.Test", "/private", Denied("site.test"), Denied("site.test")),
    ("http", "site.test.", "/private", Denied("site.test"), Denied("site.test")),
    ("http", "user@site.test", "/private", Denied("site.test"), Bad(400)),
    ("http", "user:private@site.test", "/private", Denied("site.test"), Bad(400)),
    ("http", "user:word@site.test", "/open", Arrives("GET /open"), Bad(400)),
    ("http", "127.0.0.1", "/private", Denied("127.0.0.1"), Denied("127.0.0.1")),
    ("http", "0x7f.1", "/private", Denied("127.0.0.1"), Denied("127.0.0.1")),
    ("http", "2130706433", "/private", Denied("127.0.0.1"), Denied("127.0.0.1")),
    ("http", "0177.0.0.1", "/private", Denied("127.0.0.1"), Denied("127.0.0.1")),
    ("http", "127.1", "/private", Denied("127.0.0.1"), Denied("127.0.0.1")),
    ("http", "[::ffff:127.0.0.1]", "/private", Denied("[::ffff:7f00:1]"), Denied("[::ffff:7f00:1]")),
    ("http", "[::FFFF:7f00:1]", "/private", Denied("[::ffff:7f00:1]"), Denied("[::ffff:7f00:1]")),
    ("http", "[0:0:0:0:0:ffff:127.0.0.1]", "/private", Denied("[::ffff:7f00:1]"), Denied("[::ffff:7f00:1]")),
    ("http", "xn--bcher-kva.test", "/private", Denied("xn--bcher-kva.test"), Denied("xn--bcher-kva.test")),
    ("http", "XN--Bcher-KVA.test", "/private", Denied("xn--bcher-kva.test"), Denied("xn--bcher-kva.test")),
    ("http", "bücher.test", "/private", Refused, Reset),
    ("http", "b%C3%BCcher.test", "/private", Refused, Reset),
    ("http", "BÜCHER.test", "/private", Refused, Reset),
    ("http", "site.test", "/caf%C3%A9", Denied("site.test"), Denied("site.test")),
    ("http", "site.test", "/caf%c3%a9/menu", Denied("site.test"), Denied("site.test")),
    ("http", "site.test", "/%e3%81%82", Denied("site.test"), Denied("site.test")),
    ("http", "site.test", "/café", Refused, Denied("site.test")),
    ("http", "site.test", "/private#x", Refused, Denied("site.test")),
    ("http", "site.test", "/private?#x", Refused, Denied("site.test")),
    ("http", "site.test", "/open#/../private", Arrives("GET /open"), Arrives("GET /open")),
    ("ftps", "site.test", "/open", Bad(501), Bad(501)),
    ("wsx", "site.test", "/open", Bad(501), Bad(501)),
    ("file", "site.test", "/open", Bad(501), Bad(501)),
    ("httpx", "site.test", "/open", Bad(501), Bad(501)),
];

/// Asserts the outcome of each spelling; `asks` sends it, and returns the status and the problem document.
fn check_spellings(
    gate: &CrawlgateProcess,
    outcome: impl Fn(&(Outcome, Outcome)) -> Outcome,
    asks: impl Fn((&str, &str, &str)) -> Option<(u16, Value)>,
) {
    let rules = "User-agent: *\nDisallow: /private\nDisallow: /café\nDisallow: /%E3%81%82\n";
    let origin = Origin::with_rules(rules);
    let mut arrived = Vec::new();
    for (scheme, host, path, by_http1, on_stream) in SPELLINGS {
        let case = format!("{scheme}://{host}{path}");
        let expected = outcome(&(*by_http1, *on_stream));
        let authority = format!("{host}:{}", origin.port());
        let before = origin.connections();
        match (expected, asks((scheme, &authority, path))) {
            (Denied(host), Some((403, problem))) => {
                let record = gate.refusal(&problem, 403, "robots_disallow");
                has!(record, {"host": host}, "{case}");
                lacks!(record["url"].as_str().unwrap(), "user"; "user information in a record");
            }
            (Bad(status), Some((found, problem))) if status == found => {
                gate.refusal(&problem, status, "bad_request");
                assert_eq!(origin.connections(), before, "{case}");
            }
            (Refused, Some((400 | 403, _))) | (Reset, None) => {}
            (Arrives(line), Some((200, _))) => {
                let head = origin.last("/open").head;
                head.field_is("host", Some(&origin.authority()));
                lacks!(head.text(), "word"; "user information went to the origin");
                arrived.push(line);
            }
            (expected, answer) => panic!("{case}: {answer:?} and not {expected:?}"),
        }
        assert_eq!(origin.seen_but_robots(), arrived, "{case}");
    }
    assert_eq!(origin.robots_fetches(), 4, "one for each host");
    let shown = |record: &Value| record["url"].to_string().contains("user");
    assert!(!gate.records().iter().any(shown));
}

#[test]
fn spellings_of_a_host_and_a_path_are_one_origin_and_one_path() {
    let gate = CrawlgateProcess::start();
    check_spellings(
        &gate,
        |row| row.0,
        |(scheme, authority, path)| {
            let url = format!("{scheme}://{authority}{path}");
            let answer = gate.connect().exchange(ask("GET", &url, "Host: x\r\n"));
            match answer.status {
                200 => answer.is_origins(200, "page /open"),
                _ => assert!(answer.is_ours() && answer.whole, "{url}: {answer:?}"),
            }
            Some((answer.status, answer.problem()))
        },
    );
}

#[test]
fn spellings_of_a_target_on_a_stream_are_one_origin_and_one_path() {
    let (gate, place) = listening(TLS, |_| ());
    check_spellings(
        &gate,
        |row| row.1,
        |target| match exactly(&gate, place, "GET", target, &[]) {
            Err(End::Reset(1)) => None,
            answer => Some(answer.unwrap()),
        },
    );
    assert!(gate.records().iter().all(|record| record["version"] == "2"));
}

#[test]
fn the_default_port_is_no_port() {
    let gate = CrawlgateProcess::start();
    for url in ["http://site.test:80/private", "http://site.test/private"] {
        let record = gate.unreachable(&gate.get(url));
        has!(record, {"robots.url": "http://site.test/robots.txt", "port": 80});
    }
}

#[test]
fn a_robots_txt_speaks_for_its_own_host_and_port_only() {
    let gate = CrawlgateProcess::start();
    for (version, origin) in VERSIONS {
        let (strict, free) = (origin().robots("User-agent: *\nDisallow: /\n"), origin());
        gate.denied(&gate.get_by(version, &strict.url("/a")));
        gate.get_by(version, &free.url("/a")).is_origins(200, "page /a");
        gate.denied(&gate.get_by(version, &strict.url_as("www.site.test", "/a")));
        assert_eq!(strict.robots_fetches(), 2, "www.site.test has a robots.txt of its own");
        assert_eq!(strict.seen_but_robots(), [""; 0]);
    }
}

#[test]
fn an_https_url_in_absolute_form_is_judged_and_fetched_over_tls() {
    let (gate, origin) = (CrawlgateProcess::start(), Origin::https().robots(RULES));
    let mut wire = gate.connect();
    has!(gate.denied(&wire.get(&origin.url("/private"))), {"scheme": "https"});
    wire.passes(&origin.url("/open"));
    assert_eq!(origin.seen_but_robots(), ["GET /open"]);
}
