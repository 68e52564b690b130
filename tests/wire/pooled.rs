//! Reuse of connections to an origin: which requests share one, and that no request gets the answer to another.
//! Page: `docs/messages.md`.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::{fs, thread};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::clients::entry;
use crate::support::{CrawlgateProcess, Latch, Origin, RULES, Reply, Wire, eventually, wait_until};

/// Waits until the connection of an answered request can carry another one, a moment after the answer: the record comes
/// later.
#[track_caller]
fn rests(gate: &CrawlgateProcess, url: &str) {
    gate.record_of(url);
}

/// Returns the number of the connection that carried the last request for `path`.
#[track_caller]
fn connection_of(origin: &Origin, path: &str) -> usize {
    origin.last(path).connection
}

/// CPython's own web server, which leaves the body of a GET unread and then reads it as the next request.
struct HttpServer {
    child: Child,
    port: u16,
    log: Arc<Mutex<String>>,
}

impl HttpServer {
    /// Serves the files of `dir`.
    fn start(dir: &std::path::Path) -> Self {
        let mut command = Command::new("python3");
        command
            .args(["-u", "-m", "http.server", "0", "--bind", "127.0.0.1"])
            .args(["--protocol", "HTTP/1.1", "--directory"])
            .arg(dir);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("python3 is needed for this test");
        let mut first = String::new();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        stdout.read_line(&mut first).unwrap();
        let port = first.split(" port ").nth(1).unwrap_or(&first);
        let port = port.split(' ').next().unwrap().parse().expect(&first);
        let log = Arc::new(Mutex::new(String::new()));
        let (kept, stderr) = (Arc::clone(&log), child.stderr.take().unwrap());
        thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                kept.lock().unwrap().push_str(&format!("{line}\n"));
            }
        });
        Self { child, port, log }
    }

    /// Returns the answered request lines, once the line for `path` is among them.
    fn answered(&self, path: &str) -> Vec<String> {
        eventually("the server's log", || {
            let log = self.log.lock().unwrap();
            let lines = log.lines().filter_map(|line| line.split('"').nth(1));
            let lines: Vec<String> = lines.map(str::to_owned).collect();
            let is_there = lines.iter().any(|line| line.contains(path));
            is_there.then_some(lines)
        })
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Returns a request with another request as its body.
fn with_request_inside(method: &str, target: &str, authority: &str, fields: &str) -> String {
    let body = format!("GET /private HTTP/1.1\r\nHost: {authority}\r\n\r\n");
    format!(
        "{method} {target} HTTP/1.1\r\nHost: {authority}\r\nUser-Agent: TestBot/1.0\r\n{fields}\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

#[test]
fn a_body_that_its_server_takes_for_a_request_is_none() {
    let site = tempfile::tempdir().unwrap();
    for (file, text) in [
        ("robots.txt", RULES),
        ("page", "the page"),
        ("other", "the other page"),
        ("private", "the private page"),
    ] {
        fs::write(site.path().join(file), text).unwrap();
    }
    let server = HttpServer::start(site.path());
    let authority = format!("site.test:{}", server.port);

    // The server has the known fault: two answers to one request.
    let mut wire = Wire::connect(([127, 0, 0, 1], server.port).into());
    let straight = with_request_inside("GET", "/page", &authority, "");
    wire.exchange(&straight).is_origins(200, "the page");
    wire.response("GET").is_origins(200, "the private page");
    drop(wire);
    server.answered("/private");
    server.log.lock().unwrap().clear();

    for tables in [String::new(), entry("a", "") + &entry("b", "")] {
        let is_told_apart = !tables.is_empty();
        let gate = CrawlgateProcess::with(|setup| setup.tables(&tables));
        let login = |name: &str| match is_told_apart {
            true => {
                let pair = STANDARD.encode(format!("{name}:{}", crate::clients::PASSWORD));
                format!("Proxy-Authorization: Basic {pair}\r\n")
            }
            false => String::new(),
        };
        let url = |path: &str| format!("http://{authority}{path}");
        for method in ["GET", "HEAD"] {
            for round in 0..5 {
                let request = with_request_inside(method, &url("/page"), &authority, &login("a"));
                let mut wire = gate.connect();
                let answer = wire.exchange(&request);
                assert_eq!(answer.status, 200, "{method} {round}: {answer:?}");
                let other = gate.request("GET", &url("/other"), &login("b"));
                other.is_origins(200, "the other page");
            }
        }
        let last = format!("/last-{is_told_apart}");
        gate.request("GET", &url(&last), &login("a"));
        let lines = server.answered(&last);
        let is_smuggled = |line: &&String| line.contains("/private");
        assert_eq!(lines.iter().find(is_smuggled), None, "{lines:?}");
        // One line for each request: two a round, the robots.txt and the last.
        let asked = lines.iter().filter(|line| line.starts_with("GET /page"));
        assert_eq!(asked.count(), if is_told_apart { 10 } else { 5 }, "{lines:?}");
        gate.denied(&gate.request("GET", &url("/private"), &login("b")));
        let records = gate.records();
        let pages = records.iter().filter(|one| one["url"] == *url("/page"));
        assert_eq!(pages.count(), 10);
    }
}

#[test]
fn a_body_goes_alone() {
    let gate = CrawlgateProcess::start();
    #[rustfmt::skip] // one row, one case
    let cases = [
        ("GET", "", true),
        ("HEAD", "", true),
        ("DELETE", "", true),
        ("GET", "Content-Length: 0\r\n\r\n", true),
        ("POST", "Content-Length: 4\r\n\r\nbody", false),
        ("PUT", "Content-Length: 4\r\n\r\nbody", false),
        ("PATCH", "Transfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n", false),
        ("GET", "Content-Length: 4\r\n\r\nbody", false),
        ("GET", "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", false),
        ("GET", "TE: trailers\r\nConnection: te\r\nContent-Length: 1\r\n\r\nb", false),
        ("HEAD", "Content-Length: 4\r\n\r\nbody", false),
        ("DELETE", "Content-Length: 4\r\n\r\nbody", false),
        ("OPTIONS", "Content-Length: 4\r\n\r\nbody", false),
        ("PROPFIND", "Content-Length: 4\r\n\r\nbody", false),
        ("post", "Content-Length: 4\r\n\r\nbody", false),
    ];
    for (method, body, is_shared) in cases {
        for origin in [Origin::http(), Origin::https()] {
            let case = format!("{method} {body:?}");
            let origin = origin.on("/page", [Reply::raw("HTTP/1.1 204 No Content\r\n\r\n")]);
            gate.get(&origin.url("/before"));
            rests(&gate, &origin.url("/before"));
            let before = connection_of(&origin, "/before");
            let url = origin.url("/page");
            let fields = match body {
                "" => "\r\n",
                body => body,
            };
            let mut wire = gate.sends(method, &url, fields);
            assert_eq!(wire.response(method).status, 204, "{case}");
            let seen = origin.last("/page");
            assert!(seen.whole, "{case}: {seen:?}");
            assert_eq!(gate.record_of(&url)["status"], 204, "{case}");
            gate.get(&origin.url("/after"));
            let (page, after) = (seen.connection, connection_of(&origin, "/after"));
            let closes = seen.head.all("connection").join(",").contains("close");
            if is_shared {
                assert_eq!((page, after, closes), (before, before, false), "{case}");
            } else {
                assert!(page != before && closes, "{case}: {seen:?}");
                // Requests that share a connection are not disturbed.
                assert_eq!(after, before, "{case}");
                eventually("the connection to end", || {
                    // The connection of the robots.txt, and this one.
                    (origin.ended() == 2).then_some(())
                });
            }
        }
    }
}

#[test]
fn a_robots_txt_has_a_connection_of_its_own() {
    let gate = CrawlgateProcess::start();
    for origin in [Origin::http(), Origin::https()] {
        let origin = origin.robots(RULES);
        for path in ["/1", "/2"] {
            gate.get(&origin.url(path));
            rests(&gate, &origin.url(path));
        }
        gate.denies(&origin.url("/private"));
        let robots = origin.last("/robots.txt");
        robots.head.field_is("connection", Some("close"));
        let pages = connection_of(&origin, "/1");
        assert_ne!(robots.connection, pages);
        assert_eq!(connection_of(&origin, "/2"), pages);
        assert_eq!(origin.connections(), 2);
        // A crawler that requests the file itself gets it like any page.
        gate.get(&origin.url("/robots.txt")).is_origins(200, RULES);
        assert_eq!(connection_of(&origin, "/robots.txt"), pages);

        // A second fetch does not take the connection that pages reuse either.
        let authority = origin.url("");
        gate.succeeds("origins", &["refresh", &authority]);
        let again = origin.last("/robots.txt");
        assert_ne!(again.connection, pages);
        assert_eq!(origin.connections(), 3);
    }
}

#[test]
fn clients_share_no_connection() {
    let gate = CrawlgateProcess::with(|setup| {
        let tables = "[[client]]\nname = 'far'\nnetworks = '10.0.0.0/8'\n".to_owned();
        setup.tables(&(tables + &entry("a", "") + &entry("b", "")));
    });
    let login = |name: &str| {
        let pair = STANDARD.encode(format!("{name}:{}", crate::clients::PASSWORD));
        format!("Proxy-Authorization: Basic {pair}\r\n")
    };
    let origin = Origin::http();
    let asks = |name: &str, path: &str| {
        let answer = gate.request("GET", &origin.url(path), &login(name));
        answer.is_origins(200, &format!("page {path}"));
        rests(&gate, &origin.url(path));
        connection_of(&origin, path)
    };
    let (a, b) = (asks("a", "/1"), asks("b", "/2"));
    assert_ne!(a, b);
    assert_eq!((asks("a", "/3"), asks("b", "/4")), (a, b));
    assert_eq!((asks("b", "/5"), asks("a", "/6")), (b, a));
    assert_eq!(origin.connections(), 4, "two connections for pages, two for robots.txt");
}

#[test]
fn octets_that_were_not_asked_for_answer_nothing() {
    let gate = CrawlgateProcess::start();
    let answer = |text: &str| {
        let length = text.len();
        format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{text}")
    };
    let stray = answer("a stray answer");
    for origin in [Origin::http, Origin::https] {
        #[rustfmt::skip] // one row, one case
        let rows = [
            ("a second answer", "/page", answer("page") + &stray),
            ("more than its length says", "/page", answer("page") + "!"),
            ("a body of a HEAD", "/head", answer("page")),
            ("a body of a 304", "/page", "HTTP/1.1 304 Not Modified\r\n\r\n".to_owned() + &stray),
            ("more than the last chunk", "/page", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\npage\r\n0\r\n\r\n".to_owned() + &stray),
        ];
        for (case, path, reply) in rows {
            let origin = origin().on(path, [Reply::raw(reply)]);
            let method = if path == "/head" { "HEAD" } else { "GET" };
            let first = gate.request(method, &origin.url(path), "");
            assert!(first.status < 400, "{case}: {first:?}");
            gate.passes(&origin.url("/next"));
            assert_ne!(connection_of(&origin, "/next"), connection_of(&origin, path), "{case}");
        }
        // Some octets come when no request is in progress.
        let latch = Latch::new();
        let late = Reply::raw(answer("page")).wait(&latch).send(&stray);
        let origin = origin().on("/page", [late]);
        gate.get(&origin.url("/page")).is_origins(200, "page");
        latch.open();
        eventually("the connection to end", || {
            // The connection of the robots.txt, and this one.
            (origin.ended() == 2).then_some(())
        });
        gate.passes(&origin.url("/next"));
    }
}

#[test]
fn an_answer_before_the_end_of_the_request_is_the_last_of_its_connection() {
    let gate = CrawlgateProcess::start();
    for origin in [Origin::http(), Origin::https()] {
        // The origin reads the rest of the body: the connection is in order, but the gate cannot rely on that.
        let early = Reply::ok("enough").read_body();
        let origin = origin.on(
            "/upload",
            [
                early,
                Reply::silent()
                    .read_body()
                    .send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nwell"),
            ],
        );
        let url = origin.url("/upload");
        let upload = |rest_after_answer: bool| {
            let mut wire = gate.sends("POST", &url, "Content-Length: 8\r\n\r\nhalf");
            if !rest_after_answer {
                wire.send("half");
            }
            let answer = wire.response("POST");
            if rest_after_answer {
                wire.send("half");
                wait_until("the rest of the body", || origin.last("/upload").body.len() == 8);
            }
            gate.passes(&origin.url("/next"));
            let is_kept = connection_of(&origin, "/upload") == connection_of(&origin, "/next");
            (answer.text(), is_kept)
        };
        assert_eq!(upload(true), ("enough".to_owned(), false));
        // The same with an answer after the body: each body has a connection to itself.
        assert_eq!(upload(false), ("well".to_owned(), false));
    }
}
