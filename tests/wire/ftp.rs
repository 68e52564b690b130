//! Requests for `ftp` URLs: judged by the robots.txt of their own origin, served over HTTP. Page: `docs/ftp.md`.

mod beside;
mod hostile;
mod quirks;
mod servers;

use std::thread;

use crate::support::ftp::{Act, FtpServer};
use crate::support::{CrawlgateProcess, Latch, Origin, RULES, Setup};

/// Commands of a session that fetches a robots.txt.
const ROBOTS: [&str; 5] =
    ["TYPE I", "SIZE robots.txt", "MDTM robots.txt", "EPSV", "RETR robots.txt"];

#[test]
fn a_file_is_served_over_http() {
    let gate = CrawlgateProcess::start();
    let server = FtpServer::with_rules(RULES).file("pub/a b.txt", "hello");
    let url = server.url("/pub/a%20b.txt");
    let answer = gate.get(&url);
    answer.is_origins(200, "hello");
    for (name, value) in [
        ("content-type", "text/plain"),
        ("content-length", "5"),
        ("last-modified", "Wed, 20 Nov 2024 12:00:00 GMT"),
        ("accept-ranges", "bytes"),
    ] {
        assert_eq!(answer.field(name).as_deref(), Some(value), "{answer:?}");
    }
    let record = gate.record_of(&url);
    has!(record, {
        "scheme": "ftp", "verdict": "allow", "status": 200, "bytes_out": 5,
        "upstream": format!("127.0.0.1:{}", server.port()),
    });
    has!(record, {"upstream_version": null}, "it is no HTTP");
    let robots = format!("ftp://site.test:{}/robots.txt", server.port());
    assert_eq!(record["robots"]["url"], robots, "{record}");
    let page = ["TYPE I", "SIZE pub/a b.txt", "MDTM pub/a b.txt", "EPSV", "RETR pub/a b.txt"];
    assert_eq!(server.seen(), [ROBOTS, page].concat());
}

#[test]
fn a_disallowed_file_is_never_named_to_the_server() {
    let gate = CrawlgateProcess::start();
    let server = FtpServer::with_rules(RULES).file("private/x", "secret");
    for path in ["/private/x", "/private/", "/private;type=d"] {
        has!(gate.denies(&server.url(path)), {"scheme": "ftp", "port": server.port()});
    }
    assert_eq!(server.seen(), ROBOTS);
}

#[test]
fn spellings_of_a_disallowed_path_reach_no_server() {
    for path_guard in ["true", "false"] {
        let gate = CrawlgateProcess::with(|setup| setup.set("robots", "path_guard", path_guard));
        let server = FtpServer::with_rules(RULES).file("private/x", "secret");
        #[rustfmt::skip] // one row, one case
        let cases = [
            "/%2Fprivate/x", "/private%2Fx", "//private/x", "///private/x", "/./private/x", "/a/../private/x",
            "/a/%2e%2e/private/x", "/a/.%2E/%70rivate/x", "/../private/x", "/a//../../private/x", "/robots.txt/../private/x",
            "/open/..%2f%70rivate/x", "//host/private/x", "/a%0d%0aRETR%20private/x", "/a%0ARETR%20private/x",
            "/a%0DRETR%20private/x", "/a%00/../private/x", "/%ff%f4private/x", "/a?/../private/x", "/open?x",
            "/~/private/x", "/%7e/private/x", "/~root", "/%70rivate/x",
            "/%70%72%69%76%61%74%65/x", "/privat%65/x;type=i", "/a%3db", "/private%/x", "/%private%zz",
            "/priv%3Fte/x", "/priv*te/x", "/priv%2Ate/x", "/%5Bp%5Drivate/x", "/[p]rivate/x", "/%7Bprivate,x%7D/x",
            "/{private,x}/x", "/my%01private/x", "/my%7Fprivate/x", "/%20private/x", "/private/x%20", "/%22private/x%22", "/pri%5Cvate/x", "/*/x", "/priv*te/", "/priv*te/x;type=a",
        ];
        for path in cases {
            let answer = gate.get(&server.url(path));
            gate.refused(&answer, 400, "bad_request");
            let detail = answer.problem()["detail"].as_str().unwrap().to_owned();
            assert!(detail.contains("ftp"), "{path}: {detail}");
        }
        assert_eq!(server.sessions(), 0, "path_guard = {path_guard}");
        for path in ["/private/x", "/private/x;type=a", "/private;x/x"] {
            gate.denies(&server.url(path));
        }
        assert_eq!(server.named(), [""; 0], "path_guard = {path_guard}");
    }
}

#[test]
fn a_transfer_type_hides_no_file_from_a_rule_that_ends() {
    let gate = CrawlgateProcess::with(|setup| setup.set("robots", "path_guard", "false"));
    let server = FtpServer::with_rules("User-agent: *\nDisallow: /x.txt$\nDisallow: /pub/$\n")
        .file("x.txt", "secret")
        .file("pub/y", "open");
    for path in "/x.txt /x.txt;type=i /x.txt;type=a /x.txt;TYPE=D /pub/;type=d /pub/".split(' ') {
        gate.denies(&server.url(path));
    }
    assert_eq!(server.named(), [""; 0]);
    gate.get(&server.url("/pub/y;type=i")).is_origins(200, "open");
}

#[test]
fn robots_txt_counts_for_its_own_scheme_and_port() {
    let gate = CrawlgateProcess::start();
    let closed = FtpServer::with_rules("User-agent: *\nDisallow: /\n").file("a", "closed");
    let open = FtpServer::start().file("a", "open");
    let web = Origin::with_rules("User-agent: *\nDisallow: /\n");
    gate.denies(&closed.url("/a"));
    gate.get(&open.url("/a")).is_origins(200, "open");
    gate.denies(&web.url("/a"));
    let robots = gate.get(&closed.url("/robots.txt"));
    robots.is_origins(200, "User-agent: *\nDisallow: /\n");
}

/// Returns the origin that a record names.
fn record_origin(record: &serde_json::Value) -> String {
    let text = |field: &str| record[field].as_str().unwrap_or_default();
    format!("{}://{}:{}", text("scheme"), text("host"), record["port"])
}

#[test]
fn a_request_that_writes_is_refused() {
    let (gate, server) = (CrawlgateProcess::start(), FtpServer::with_rules(RULES));
    for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "MKCOL"] {
        let answer = gate.request(method, &server.url("/a"), "Content-Length: 0\r\n");
        let record = gate.refused(&answer, 405, "bad_request");
        assert_eq!(record_origin(&record), server.url(""), "{method}: {record}");
        answer.field_is("allow", Some("GET, HEAD"));
    }
    let url = server.url("/a");
    let answer = gate.sends("GET", &url, "Content-Length: 1\r\n\r\nx").response("GET");
    let record = gate.refused(&answer, 400, "bad_request");
    assert_eq!(record_origin(&record), server.url(""), "{record}");
    for user in ["u:p@", "@", "u%0d%0a@", "anonymous:p@", "ftp:p@"] {
        let url = server.url("/a").replace("://", &format!("://{user}"));
        let answer = gate.get(&url);
        gate.refused(&answer, 400, "bad_request");
        says!(answer.text(), "without user and password");
    }
    assert_eq!(server.sessions(), 0);
}

#[test]
fn ftp_is_a_matter_of_the_configuration() {
    let mut gate = CrawlgateProcess::with(|setup| setup.set("upstream", "ftp", "false"));
    let server = FtpServer::start().file("a", "open");
    gate.refuses(&server.url("/a"), 501, "bad_request");
    assert_eq!(server.sessions(), 0);
    gate.reload(|setup| setup.set("upstream", "ftp", "true"));
    gate.get(&server.url("/a")).is_origins(200, "open");
}

#[test]
fn a_part_of_a_file_is_sent_from_its_octet() {
    let gate = CrawlgateProcess::start();
    let server = FtpServer::start().file("f.bin", "0123456789");
    let url = server.url("/f.bin");
    let modified = "If-Range: Wed, 20 Nov 2024 12:00:00 GMT\r\n";
    #[rustfmt::skip] // one row, one case
    let cases = [
        ("bytes=2-5", "", 206, "2345", Some("bytes 2-5/10")),
        ("bytes=0-0", "", 206, "0", Some("bytes 0-0/10")),
        ("bytes=7-", "", 206, "789", Some("bytes 7-9/10")),
        ("bytes=-2", "", 206, "89", Some("bytes 8-9/10")),
        ("bytes=2-5", modified, 206, "2345", Some("bytes 2-5/10")),
        ("bytes=2-5", "If-Range: Wed, 20 Nov 2024 13:00:00 GMT\r\n", 200, "0123456789", None),
        ("bytes=2-5", "If-Range: \"tag\"\r\n", 200, "0123456789", None),
        ("bytes=1-2,4-5", "", 200, "0123456789", None),
        ("bytes=10-", "", 416, "", Some("bytes */10")),
    ];
    for (range, more, status, body, content_range) in cases {
        let answer = gate.request("GET", &url, &format!("Range: {range}\r\n{more}"));
        answer.is_origins(status, body);
        assert_eq!(answer.field("content-range").as_deref(), content_range, "{range}");
    }
    let without = FtpServer::start().file("f", "0123456789").says("REST", "502 no");
    gate.request("GET", &without.url("/f"), "Range: bytes=2-5\r\n").is_origins(200, "0123456789");
}

#[test]
fn a_head_transfers_nothing() {
    let gate = CrawlgateProcess::start();
    let server = FtpServer::start().file("pub/f.html", "0123456789");
    let answer = gate.request("HEAD", &server.url("/pub/f.html"), "").is(200);
    answer.field_is("content-length", Some("10"));
    answer.field_is("content-type", Some("text/html"));
    let before = server.data_connections();
    assert_eq!(gate.request("HEAD", &server.url("/pub/"), "").status, 200);
    assert_eq!(gate.request("HEAD", &server.url("/pub/g"), "").status, 404);
    assert_eq!(server.data_connections(), before);
    has!(gate.record_of(&server.url("/pub/g")), {"error": null});
}

#[test]
fn a_directory_is_a_page_of_links() {
    let gate = CrawlgateProcess::start();
    for server in [FtpServer::start(), FtpServer::start().says("MLSD", "500 what?")] {
        let server = server.file("pub/a b&c.txt", "hello").file("pub/deep/x", "").file("top", "1");
        let answer = gate.get(&server.url("/pub/")).is(200);
        answer.field_is("content-type", Some("text/html; charset=utf-8"));
        let text = answer.text();
        says!(text, "<a href=\"a%20b&amp;c.txt\">a b&amp;c.txt</a>  5");
        says!(text, "<a href=\"deep/\">deep/</a>");
        says!(text, &format!("<title>ftp://site.test:{}/pub/</title>", server.port()));
        let root = gate.get(&server.url(""));
        says!(root.text(), "<a href=\"pub/\">", "<a href=\"top\">");
        let moved = gate.get(&server.url("/pub"));
        assert_eq!(moved.status, 301, "{moved:?}");
        assert_eq!(moved.field("location"), Some(server.url("/pub/")));
        let missing = gate.get(&server.url("/nothing/"));
        assert_eq!(missing.status, 404, "{missing:?}");
    }
}

#[test]
fn lines_are_asked_for_by_their_type() {
    let gate = CrawlgateProcess::start();
    let server = FtpServer::start().file("f", "a\r\nb\r\n");
    let answer = gate.get(&server.url("/f;type=a"));
    assert_eq!((answer.status, answer.text().as_str()), (200, "a\r\nb\r\n"));
    assert_eq!(answer.field("content-length"), None, "its length is not known");
    assert!(server.seen().contains(&"TYPE A".to_owned()));
    assert!(!server.seen().contains(&"SIZE f".to_owned()));
}

#[test]
fn replies_become_statuses() {
    let gate = CrawlgateProcess::start();
    #[rustfmt::skip] // one row, one case
    let cases = [
        ("450 busy", 503, Some("destination_unavailable")),
        ("421 going down", 503, Some("destination_unavailable")),
        ("550 no", 404, None),
        ("553 not \"that\" name", 502, Some("http_protocol_error")),
        ("530 must use \x1b[1mencryption", 502, Some("http_protocol_error")),
    ];
    for (reply, status, error) in cases {
        let server = FtpServer::start().file("f", "x").says("RETR f", reply);
        let answer = gate.get(&server.url("/f"));
        assert_eq!(answer.status, status, "{reply}: {answer:?}");
        let said = answer.field("proxy-status").unwrap();
        let told = reply.replace(['"', '\x1b'], "");
        says!(said, &format!("details=\"reply {told}\""));
        let told = reply.replace('\x1b', "\u{fffd}");
        let text = answer.text();
        assert!(text.ends_with(&format!("It replied: {told}\n")), "{text}");
        assert_eq!(said.contains("error="), error.is_some(), "{said}");
        let record = gate.record_of(&server.url("/f"));
        assert_eq!(record["error"].as_str(), error, "{record}");
        assert_eq!(record["status"], status);
    }
}

#[test]
fn what_is_forbidden_during_the_login_is_not_named() {
    let mut gate = CrawlgateProcess::start();
    let server = FtpServer::with_rules(RULES).file("open", "x").file("later", "y");
    gate.get(&server.url("/open")).is_origins(200, "x");
    let latch = Latch::new();
    let server = server.on("PASS", Act::Wait(latch.clone()));
    let mut wire = gate.connect();
    let url = server.url("/later");
    wire.ask(&url);
    latch.arrivals(1);
    let origin = server.url("");
    let deny = format!(
        "[[override]]\norigin = \"{origin}\"\naction = \"deny\"\nby = \"us\"\nreason = \"no\"\n"
    );
    gate.reload(|setup| setup.tables(&deny));
    latch.open();
    gate.refused(&wire.response("GET"), 403, "operator_deny");
    assert!(!server.named().iter().any(|line| line.contains("later")), "{:?}", server.named());
}

#[test]
fn commands_know_ftp_origins() {
    let (gate, server) = (CrawlgateProcess::start(), FtpServer::with_rules(RULES));
    let url = server.url("/private/x;type=i");
    gate.denies(&url);
    for setup in [&gate.setup, &Setup::new()] {
        let (said, _) = setup.ends(1, "check", &[&url]);
        says!(said, "Disallow: /private");
    }
    let listed = gate.beside_until("origins", &["list"], |said| said.contains("ftp://"));
    says!(listed, &server.url(""));
    assert_eq!(server.named(), [""; 0]);
}

#[test]
fn two_crawlers_at_once_cause_one_fetch_of_robots_txt() {
    let (gate, latch) = (CrawlgateProcess::start(), Latch::new());
    let server = FtpServer::with_rules(RULES).on("RETR robots.txt", Act::Wait(latch.clone()));
    thread::scope(|scope| {
        let ask = || gate.denies(&server.url("/private/x"));
        let both = [scope.spawn(ask), scope.spawn(ask)];
        latch.arrivals(1);
        latch.open();
        for one in both {
            one.join().unwrap();
        }
    });
    assert_eq!(server.seen(), ROBOTS);
}
