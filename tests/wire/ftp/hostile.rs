//! FTP servers that lie, stall, never end or break off, and the address policy between them and the gate.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::thread;

use crate::address_policy::{default_policy, prohibited};
use crate::streaming::{ROOM, at_rest};
use crate::support::ftp::{Act, FtpServer, Sending};
use crate::support::{CrawlgateProcess, RULES, wait_until};

/// Starts a gate with time-outs of this section that a stalled server uses up quickly, and a busy one does not.
pub(super) fn impatient(section: &str, keys: [&str; 3]) -> CrawlgateProcess {
    CrawlgateProcess::with(|setup| {
        for key in keys {
            setup.set(section, key, "\"3s\"");
        }
    })
}

/// Asserts that a page is refused because its robots.txt is unreachable, and that no page was named.
#[track_caller]
pub(super) fn unreachable(gate: &CrawlgateProcess, server: &FtpServer, cause: &str) {
    let answer = gate.get(&server.url("/open"));
    has!(gate.unreachable(&answer), {"robots.unreachable.cause": cause});
    assert_eq!(server.named(), [""; 0]);
}

#[test]
fn a_550_alone_means_that_there_is_no_robots_txt() {
    let gate = CrawlgateProcess::start();
    let absent = FtpServer::start().file("open", "x");
    gate.get(&absent.url("/open")).is_origins(200, "x");
    #[rustfmt::skip] // one row, one case
    let cases = [
        ("greeting", "421 too many users", "ftp_421:too many users"),
        ("greeting", "530 not from there", "ftp_530:not from there"),
        ("USER", "530 no anonymous users", "ftp_530:no anonymous users"),
        ("PASS", "530 no anonymous users", "ftp_530:no anonymous users"),
        ("PASS", "332 an account, please", "ftp_332:an account, please"),
        ("TYPE", "504 no", "ftp_504:no"),
        ("SIZE", "421 going down", "ftp_421:going down"),
        ("PASV", "500 no", "ftp_500:no"),
        ("RETR", "421 going down", "ftp_421:going down"),
        ("RETR", "425 no data connection", "ftp_425:no data connection"),
        ("RETR", "450 busy", "ftp_450:busy"),
        ("RETR", "501 no", "ftp_501:no"),
        ("RETR", "553 no", "ftp_553:no"),
        ("RETR", "550 not for you", "ftp_550:not for you"),
        ("RETR", "220 hello again", "protocol"),
        ("PASS", "150 it comes", "protocol"),
        ("EPSV", "229 (|||22|)", "protocol"),
        ("EPSV", "229 (|||0|)", "protocol"),
        ("EPSV", "229 no port", "protocol"),
        ("greeting", "SSH-2.0-OpenSSH_9.6", "protocol"),
        ("greeting", "HTTP/1.1 200 OK", "protocol"),
    ];
    for (step, reply, cause) in cases {
        let server = FtpServer::with_rules("").says(step, reply);
        let server = match step {
            "PASV" => server.says("EPSV", "500 no"),
            _ => server,
        };
        unreachable(&gate, &server, cause);
    }
}

#[test]
fn a_server_that_never_ends_a_reply_is_left() {
    let gate = CrawlgateProcess::start();
    for step in ["greeting", "USER", "PASS", "SIZE", "EPSV", "RETR"] {
        for octets in ["220-x\r\n", "2", "\r\n", "x"] {
            let server = FtpServer::with_rules("").on(step, Act::Endless(octets));
            unreachable(&gate, &server, "protocol");
        }
    }
}

#[test]
fn a_listing_without_end_is_broken_off() {
    let gate = CrawlgateProcess::start();
    for line in ["\n", "type=file; a\n"] {
        let server = FtpServer::with_rules("").sends("/", Sending::Endless(line));
        let answer = gate.get(&server.url("/"));
        assert!(answer.status == 200 && !answer.whole);
        assert!(!answer.text().contains("</html>"), "it does not look whole");
        has!(gate.record_of(&server.url("/")), {"error": "http_response_body_size"});
    }
}

/// Returns a server with a file and a directory.
pub(super) fn files() -> FtpServer {
    FtpServer::start().file("open", "0123456789").file("pub/inner", "x")
}

/// Asserts that a page gets 504 where the server stalls at this step.
#[track_caller]
fn is_late(gate: &CrawlgateProcess, server: &FtpServer, step: &str, path: &str, fields: &str) {
    let answer = gate.request("GET", &server.url(path), fields);
    assert_eq!(answer.status, 504, "{step} {path}: {answer:?}");
    has!(gate.record_of(&server.url(path)), {"error": "http_response_timeout"});
    let seen = server.seen();
    let last = seen.last().unwrap();
    assert!(last.starts_with(step), "{step} {path}: {seen:?}");
}

#[test]
fn a_server_that_stalls_at_any_step_is_left() {
    let robots = ["connect_timeout", "first_byte_timeout", "fetch_timeout"];
    let pages = ["connect_timeout", "response_timeout", "body_timeout"];
    // The robots.txt before a page has the usual time, as a busy machine may be long about it.
    let (robots, pages) = (impatient("robots", robots), impatient("upstream", pages));
    let (robots, pages) = (&robots, &pages);
    let steps = ["greeting", "USER", "PASS", "TYPE", "SIZE", "MDTM", "EPSV", "RETR"];
    thread::scope(|scope| {
        for step in steps {
            scope.spawn(move || {
                let server = FtpServer::with_rules("").on(step, Act::Stall);
                unreachable(robots, &server, "timeout");
            });
        }
        #[rustfmt::skip] // one row, one case
        let before_the_answer = [
            ("SIZE open", "/open", ""),
            ("MDTM open", "/open", ""),
            ("REST", "/open", "Range: bytes=2-5\r\n"),
            ("RETR open", "/open", ""),
            // The name of a directory without its slash.
            ("CWD", "/pub", ""),
            ("CWD", "/pub/", ""),
            ("TYPE A", "/pub/", ""),
            ("MLSD", "/pub/", ""),
        ];
        for (step, path, fields) in before_the_answer {
            scope.spawn(move || {
                let server = files().on(step, Act::Stall);
                is_late(pages, &server, step, path, fields);
            });
        }
        scope.spawn(move || {
            let server = FtpServer::with_rules("").says("EPSV", "500 what?").on("PASV", Act::Stall);
            unreachable(robots, &server, "timeout");
        });
        scope.spawn(move || {
            let server = files().says("MLSD", "500 what?").on("LIST", Act::Stall);
            is_late(pages, &server, "LIST", "/pub/", "");
        });
        // As the server has it: without a reply behind the last octet, or in the middle.
        for sending in [Sending::Stall(3), Sending::Silent] {
            scope.spawn(move || {
                let server = FtpServer::with_rules("User-agent: *\n").sends("robots.txt", sending);
                unreachable(robots, &server, "timeout");
            });
            for (name, path) in [("open", "/open"), ("pub/", "/pub/")] {
                scope.spawn(move || {
                    let server = files().sends(name, sending);
                    let answer = pages.get(&server.url(path));
                    assert!(answer.status == 200 && !answer.whole, "{answer:?}");
                    has!(pages.record_of(&server.url(path)), {"error": "http_response_timeout"});
                });
            }
        }
    });
}

#[test]
fn a_server_that_closes_at_any_step_is_unreachable() {
    let gate = CrawlgateProcess::start();
    for step in ["greeting", "USER", "PASS", "TYPE", "SIZE", "MDTM", "EPSV", "RETR"] {
        let server = FtpServer::with_rules("").on(step, Act::Close);
        unreachable(&gate, &server, "incomplete");
    }
}

#[test]
fn a_robots_txt_that_is_not_whole_does_not_count() {
    let gate = CrawlgateProcess::start();
    for sending in
        [Sending::Cut(14), Sending::Short(14), Sending::Unconfirmed, Sending::Longer("Allow: /\n")]
    {
        let server = FtpServer::with_rules("User-agent: *\nDisallow: /private\n")
            .sends("robots.txt", sending);
        unreachable(&gate, &server, "incomplete");
        let unknown = FtpServer::with_rules("User-agent: *\nDisallow: /private\n")
            .sends("robots.txt", sending)
            .says("SIZE", "500 what?");
        // Without a length, only the reply tells.
        if let Sending::Cut(_) | Sending::Unconfirmed = sending {
            unreachable(&gate, &unknown, "incomplete");
        }
    }
}

#[test]
fn a_server_that_waits_for_the_other_close_is_not_waited_for() {
    let gate = CrawlgateProcess::start();
    let server = FtpServer::with_rules(RULES)
        .file("open", "0123456789")
        .sends("robots.txt", Sending::Lingering)
        .sends("open", Sending::Lingering)
        .sends("/", Sending::Lingering);
    gate.get(&server.url("/open")).is_origins(200, "0123456789");
    let page = gate.get(&server.url("/"));
    assert!(page.status == 200 && page.whole, "{page:?}");
    gate.denies(&server.url("/private/x"));
}

#[test]
fn a_page_that_is_cut_short_is_seen_to_be() {
    let gate = CrawlgateProcess::start();
    for sending in [Sending::Cut(3), Sending::Short(3), Sending::Cut(10), Sending::Unconfirmed] {
        for has_size in [true, false] {
            if let (Sending::Short(_), false) = (sending, has_size) {
                continue; // nothing tells
            }
            let server = FtpServer::start().file("open", "0123456789").sends("open", sending);
            let server = match has_size {
                true => server,
                false => server.says("SIZE", "500 what?"),
            };
            let answer = gate.get(&server.url("/open"));
            assert!(answer.status == 200 && !answer.whole, "{sending:?}: {answer:?}");
            let record = gate.record_of(&server.url("/open"));
            has!(record, {"error": "http_response_incomplete"}, "{sending:?}");
        }
    }
}

#[test]
fn only_the_first_octets_of_a_robots_txt_are_read() {
    let gate = CrawlgateProcess::start();
    let rules =
        format!("User-agent: *\nDisallow: /private\n{}Disallow: /open\n", "#\n".repeat(1 << 20));
    let server = FtpServer::with_rules(&rules).file("open", "x");
    gate.denies(&server.url("/private"));
    gate.get(&server.url("/open")).is_origins(200, "x");
    let endless = FtpServer::with_rules("").says("SIZE", "500 what?");
    let endless = endless.sends("robots.txt", Sending::Endless("User-agent: *\nDisallow: /\n"));
    gate.denies(&endless.url("/open"));
}

#[test]
fn a_listing_without_end_takes_no_memory() {
    let facts =
        "type=file;size=1; a name of some length that fills the memory of a careless gateway\r\n";
    let columns =
        "-rw-r--r-- 1 ftp ftp 1 Nov 20 12:00 a name of some length that fills the memory\r\n";
    for (line, mlsd) in [(facts, None), (columns, Some("500 what?"))] {
        let gate = CrawlgateProcess::start();
        let server = FtpServer::with_rules("").sends("/", Sending::Endless(line));
        let server = match mlsd {
            Some(reply) => server.says("MLSD", reply),
            None => server,
        };
        let before = gate.resident();
        let url = server.url("/");
        let mut crawler = asking(&gate, &url);
        let mut read = Vec::with_capacity(64 << 20);
        Read::by_ref(&mut crawler).take(64 << 20).read_to_end(&mut read).unwrap();
        let end = String::from_utf8_lossy(&read[read.len() - 4096..]);
        says!(end, "a name of some length");
        assert!(server.sent() > 32 << 20, "it was passed on while it came");
        let grown = gate.resident().saturating_sub(before);
        assert!(grown < 32 << 20, "{grown} octets more");
        drop(crawler);
        has!(gate.record_of(&url), {"error": "client_closed"});
    }
}

#[test]
fn a_crawler_that_does_not_read_holds_an_ftp_server_back() {
    let gate = CrawlgateProcess::start();
    let piece = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    let server = FtpServer::with_rules("")
        .file("large", "")
        .says("SIZE large", "213 1000000000000")
        .sends("large", Sending::Endless(piece))
        .sends("/", Sending::Endless("type=file;size=1; some name\r\n"));
    for path in ["/large", "/"] {
        let (before, earlier) = (gate.resident(), server.sent());
        let url = server.url(path);
        let crawler = asking(&gate, &url);
        wait_until("the transfer to begin", || server.sent() > earlier);
        let sent = at_rest(|| server.sent() as u64) - earlier as u64;
        assert!(sent < ROOM, "{path}: {sent} octets for a crawler that read none");
        let grown = gate.resident().saturating_sub(before);
        assert!(grown < ROOM, "{path}: {grown} octets more");
        drop(crawler);
        has!(gate.record_of(&url), {"error": "client_closed"});
    }
}

/// Opens a connection and sends a request for a URL.
fn asking(gate: &CrawlgateProcess, url: &str) -> TcpStream {
    let mut crawler = TcpStream::connect(gate.address()).unwrap();
    crawler.write_all(format!("GET {url} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).unwrap();
    crawler
}

#[test]
fn the_data_connection_goes_to_the_host_of_the_control_connection() {
    let gate = CrawlgateProcess::start();
    let decoy_address = Ipv4Addr::new(127, 0, 0, 2);
    let server =
        FtpServer::start().file("open", "hello").says("EPSV", "522 no").passive_at(decoy_address);
    gate.get(&server.url("/open")).is_origins(200, "hello");
    assert!(server.seen().contains(&"PASV".to_owned()));
    assert_eq!(server.data_connections(), 1);
}

#[test]
fn the_address_policy_holds_for_both_connections() {
    let closed = CrawlgateProcess::with(default_policy);
    let server = FtpServer::start().file("open", "x");
    for host in ["site.test", "127.0.0.1", "localhost", "[::1]", "0x7f.1"] {
        let url = server.url("/open").replace("site.test", host);
        prohibited(&closed, &closed.get(&url));
    }
    assert_eq!(server.sessions(), 0);
    let gate = CrawlgateProcess::start();
    // The port of the gate itself, which never connects to itself.
    let own = format!("229 extended (|||{}|)", gate.address().port());
    let server = FtpServer::with_rules("").says("EPSV", &own);
    unreachable(&gate, &server, "prohibited");
}

#[test]
fn a_page_without_its_data_connection_is_recorded_as_sent() {
    let gate = CrawlgateProcess::start();
    let server = FtpServer::with_rules(RULES).file("open", "x").file("later", "y");
    gate.get(&server.url("/open")).is_origins(200, "x");
    let own = format!("229 extended (|||{}|)", gate.address().port());
    let server = server.says("EPSV", &own);
    for path in ["/later", "/"] {
        gate.answers(&server.url(path), 502);
        let record = gate.record_of(&server.url(path));
        let found = ["verdict", "reason", "error"].map(|field| record[field].as_str());
        let expected = [Some("allow"), Some("robots_allow"), Some("http_protocol_error")];
        assert_eq!(found, expected, "{record}");
        assert_eq!(record["status"], 502, "{record}");
    }
    assert!(server.named().contains(&"SIZE later".to_owned()));
}

#[test]
fn a_reply_that_came_unasked_answers_no_command() {
    let gate = CrawlgateProcess::start();
    let twice = Act::Say("213 1\r\n213 20261120120000\r\n229 extended (|||6446|)\r\n".to_owned());
    let server = FtpServer::with_rules("").on("SIZE", twice);
    unreachable(&gate, &server, "protocol");
}

#[test]
fn decisions_about_ftp_are_proven_from_the_store() {
    let gate = CrawlgateProcess::start();
    let server = FtpServer::with_rules(RULES).file("open", "x").file("private/open", "y");
    gate.get(&server.url("/open;type=i")).is_origins(200, "x");
    gate.get(&server.url("/private/open;type=a")).is_origins(200, "y");
    gate.denies(&server.url("/private/x;type=i"));
    let refused = FtpServer::start().says("greeting", "421 no");
    unreachable(&gate, &refused, "ftp_421:no");
    gate.wait_records(4);
    let said = gate.succeeds("audit", &["verify", "--all", "--json"]);
    let told: serde_json::Value = serde_json::from_str(&said).unwrap();
    has!(told, {"proven": 4, "attested": {}});
}
