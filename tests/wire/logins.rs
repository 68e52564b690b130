//! Logins that authenticate a connection (NTLM, Negotiate): no other crawler connection gets the pages behind them.
//! Page: `docs/messages.md`.

mod origin;

use std::process::{Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Request;

use self::origin::LoginOrigin;
use crate::support::http2_origin::Http2Origin;
use crate::support::{CrawlgateProcess, Origin, Reply, Response, Wire, http2};

const NEGOTIATE: &str = "WWW-Authenticate: Negotiate\r\n";
const NTLM: &str = "WWW-Authenticate: NTLM\r\n";

/// Returns the field by which a user logs in at once.
fn credentials(user: &str) -> String {
    format!("Authorization: Negotiate {}\r\n", STANDARD.encode(user))
}

/// A first message of NTLM.
fn type_1() -> String {
    let message = STANDARD.encode(b"NTLMSSP\0\x01\0\0\0\x07\x02\0\0");
    format!("Authorization: NTLM {message}\r\n")
}

/// A crawler connection, and the origin of its requests.
struct Visitor<'a> {
    wire: Wire,
    origin: &'a LoginOrigin,
    is_inside: bool,
}

impl<'a> Visitor<'a> {
    fn new(gate: &CrawlgateProcess, origin: &'a LoginOrigin) -> Self {
        let authority = origin.authority();
        let is_inside = origin.url("/").starts_with("https");
        let wire = match is_inside {
            true => gate.intercept(&authority, "site.test"),
            false => gate.connect(),
        };
        Self { wire, origin, is_inside }
    }

    fn request(&self, method: &str, path: &str, rest: &str) -> String {
        let authority = self.origin.authority();
        let target = match self.is_inside {
            true => path.to_owned(),
            false => self.origin.url(path),
        };
        format!(
            "{method} {target} HTTP/1.1\r\nHost: {authority}\r\nUser-Agent: TestBot/1.0\r\n{rest}"
        )
    }

    #[track_caller]
    fn get(&mut self, path: &str, fields: &str) -> Response {
        let request = self.request("GET", path, &format!("{fields}\r\n"));
        self.wire.exchange(request)
    }
}

#[test]
fn a_login_serves_no_other_crawler_connection() {
    for scheme in ["http", "https"] {
        let gate = CrawlgateProcess::start();
        let origin = LoginOrigin::start(scheme, NEGOTIATE);
        let mut ada = Visitor::new(&gate, &origin);
        assert_eq!(ada.get("/", "").status, 401);
        ada.get("/page", &credentials("ada")).is_origins(200, "/page of ada");
        let hers = origin.last("/page").connection;
        // Ada's connection waits for its next request now, and another crawler asks.
        for path in ["/one", "/two"] {
            let mut other = Visitor::new(&gate, &origin);
            let answer = other.get(path, "");
            assert_eq!(answer.status, 401, "{scheme}{path}: {answer:?}");
            assert_ne!(origin.last(path).connection, hers);
        }
        ada.get("/again", "").is_origins(200, "/again of ada");
        assert_eq!(origin.last("/again").connection, hers);
        let mut bob = Visitor::new(&gate, &origin);
        bob.get("/page", &credentials("bob")).is_origins(200, "/page of bob");
        ada.get("/still", "").is_origins(200, "/still of ada");
        bob.get("/still", "").is_origins(200, "/still of bob");
        has!(gate.record_of(&origin.url("/again")), {"verdict": "allow", "status": 200});
    }
}

#[test]
fn a_connection_is_pinned_however_its_login_is_spelled() {
    let gate = CrawlgateProcess::start();
    for challenge in [
        "WWW-Authenticate: NEGOTIATE\r\n",
        "www-authenticate: nTlM\r\n",
        "WWW-Authenticate: Basic realm=\"a, b\", Negotiate\r\n",
        "WWW-Authenticate: Basic realm=\"a\"\r\nWWW-Authenticate: Digest realm=\"b\", NTLM\r\n",
        "WWW-Authenticate: Kerberos\r\n",
    ] {
        let origin = LoginOrigin::start("http", challenge);
        let mut ada = Visitor::new(&gate, &origin);
        assert_eq!(ada.get("/first", "").status, 401);
        // It is pinned before any credentials: no other crawler connection may be in it when they come.
        let mut other = Visitor::new(&gate, &origin);
        assert_eq!(other.get("/other", "").status, 401);
        let hers = origin.last("/first").connection;
        assert_ne!(origin.last("/other").connection, hers, "{challenge}");
        ada.get("/second", "");
        assert_eq!(origin.last("/second").connection, hers, "{challenge}");
    }
    let origin = LoginOrigin::start("http", NEGOTIATE);
    for scheme in ["negotiate", "NEGOTIATE", "Negotiate"] {
        let mut ada = Visitor::new(&gate, &origin);
        let login = credentials("ada").replace("Negotiate", scheme);
        ada.get("/page", &login).is_origins(200, "/page of ada");
        let mut other = Visitor::new(&gate, &origin);
        assert_eq!(other.get("/other", "").status, 401, "{scheme}");
    }
}

#[test]
fn a_connection_without_logins_is_shared_as_before() {
    let gate = CrawlgateProcess::start();
    let basic = Reply::with(401, "WWW-Authenticate: Basic realm=\"x\"\r\n", "log in");
    let origin = Origin::http().on("/basic", [basic]);
    assert_eq!(gate.get(&origin.url("/basic")).status, 401);
    gate.record_of(&origin.url("/basic"));
    gate.passes(&origin.url("/page"));
    assert_eq!(origin.last("/basic").connection, origin.last("/page").connection);
}

#[test]
fn the_two_connections_of_a_login_end_together() {
    let gate = CrawlgateProcess::start();
    let origin = LoginOrigin::start("http", NEGOTIATE);
    let mut ada = Visitor::new(&gate, &origin);
    ada.get("/page", &credentials("ada")).is_origins(200, "/page of ada");
    origin.wait_ended(1);
    drop(ada);
    // That of robots.txt, and Ada's.
    origin.wait_ended(2);
    let mut bob = Visitor::new(&gate, &origin);
    bob.get("/ended", &credentials("bob")).is_origins(200, "/ended of bob");
    origin.wait_ended(3);
    assert!(bob.wire.is_closed(), "the crawler logs in again on a new one");
    let mut eve = Visitor::new(&gate, &origin);
    let last = eve.get("/last", &credentials("eve"));
    last.is_origins(200, "the last page");
    last.field_is("connection", Some("close"));
    assert!(eve.wire.is_closed());
}

#[test]
fn a_handshake_is_not_continued_on_another_connection() {
    let gate = CrawlgateProcess::start();
    let origin = LoginOrigin::start("http", NTLM);
    let mut ada = Visitor::new(&gate, &origin);
    assert_eq!(ada.get("/", "").status, 401);
    let challenge = ada.get("/", &type_1());
    assert!(challenge.field("www-authenticate").unwrap().starts_with("NTLM "));
    ada.get("/lost", &type_1()).is(502);
    let legs = origin.asked();
    assert_eq!(legs.iter().filter(|one| one.path == "/lost").count(), 1);
    assert!(legs.iter().all(|one| one.connection == legs[0].connection), "{legs:?}");
    assert!(ada.wire.is_closed());
    has!(gate.record_of(&origin.url("/lost")), {"error": "connection_terminated"});
}

#[test]
fn a_body_goes_by_the_connection_of_its_login_as_the_last_request() {
    let gate = CrawlgateProcess::start();
    let origin = LoginOrigin::start("http", NEGOTIATE);
    let mut ada = Visitor::new(&gate, &origin);
    ada.get("/page", &credentials("ada")).is_origins(200, "/page of ada");
    let form = ada.request("POST", "/form", "Content-Length: 4\r\n\r\nform");
    let answer = ada.wire.exchange(form);
    answer.is_origins(200, "/form of ada");
    let (page, form) = (origin.last("/page"), origin.last("/form"));
    assert_eq!(page.connection, form.connection);
    // What a server left unread of it would be a request that was not judged.
    assert_eq!(form.option.as_deref(), Some("close"));
    answer.field_is("connection", Some("close"));
    assert!(ada.wire.is_closed());
}

#[test]
fn a_websocket_begins_on_the_connection_of_its_login() {
    let gate = CrawlgateProcess::start();
    let origin = LoginOrigin::start("https", NEGOTIATE);
    let mut ada = Visitor::new(&gate, &origin);
    ada.get("/page", &credentials("ada")).is_origins(200, "/page of ada");
    let handshake = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                     Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    assert_eq!(ada.get("/socket", handshake).status, 101);
    assert_eq!(origin.last("/socket").connection, origin.last("/page").connection);
    let mut other = Visitor::new(&gate, &origin);
    assert_eq!(other.get("/socket", handshake).status, 401);
}

#[test]
fn the_streams_of_one_crawler_take_turns_on_the_connection_of_its_login() {
    let gate = CrawlgateProcess::start();
    let origin = LoginOrigin::start("https", NEGOTIATE);
    let mut ada = gate.intercept_http2(&origin.authority(), "site.test");
    let mut bob = gate.intercept_http2(&origin.authority(), "site.test");
    let login = |user: &str, path: &str| {
        let mut request: Request<()> = http2::get(&origin.url(path));
        let value = credentials(user).replace("Authorization: ", "");
        request.headers_mut().insert("authorization", value.trim().parse().unwrap());
        request
    };
    assert_eq!(ada.get(&origin.url("/")).status, 401);
    ada.exchange(login("ada", "/page")).is_origins(200, "/page of ada");
    bob.exchange(login("bob", "/page")).is_origins(200, "/page of bob");
    let streams: Vec<_> = (0..20)
        .map(|number| ada.begin(http2::get(&origin.url(&format!("/{number}"))), true).unwrap())
        .collect();
    for (number, pending) in streams.into_iter().enumerate() {
        let answer = ada.answer(pending).unwrap();
        assert_eq!(answer.text(), format!("/{number} of ada"));
    }
    bob.get(&origin.url("/still")).is_origins(200, "/still of bob");
    let mut other = gate.intercept_http2(&origin.authority(), "site.test");
    assert_eq!(other.get(&origin.url("/other")).status, 401);
}

#[test]
fn an_http2_origin_that_offers_such_a_login_is_asked_by_http1_for_it() {
    let gate = CrawlgateProcess::start();
    let origin = Http2Origin::start()
        .http1("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nadas.")
        .on("/", |mut stream| async move {
            stream.send_empty(401, &[("www-authenticate", "Negotiate")]);
        });
    let mut ada = gate.intercept(&origin.authority(), "site.test");
    assert_eq!(ada.get_inside(&origin.authority(), "/").status, 401);
    ada.get_inside(&origin.authority(), "/page").is_origins(200, "adas.");
    assert_eq!(origin.last("/page").version, "1.1");
    // No other crawler connection is told to.
    gate.passes(&origin.url("/other"));
    assert_eq!(origin.last("/other").version, "2");
    let mut bob = gate.intercept(&origin.authority(), "site.test");
    let login = format!(
        "GET /login HTTP/1.1\r\nHost: {}\r\nUser-Agent: TestBot/1.0\r\n{}\r\n",
        origin.authority(),
        credentials("bob")
    );
    bob.exchange(login).is_origins(200, "adas.");
    let (page, login) = (origin.last("/page"), origin.last("/login"));
    assert_eq!(login.version, "1.1");
    assert_ne!(page.connection, login.connection);
}

#[test]
fn a_crawler_is_told_that_logins_last_as_long_as_its_connection() {
    let gate = CrawlgateProcess::start();
    for (scheme, expected) in [("http", Some("Session-Based-Authentication")), ("https", None)] {
        let origin = LoginOrigin::start(scheme, NEGOTIATE);
        let answer = Visitor::new(&gate, &origin).get("/", "");
        assert_eq!(answer.field("proxy-support").as_deref(), expected, "{answer:?}");
        let option = expected.map(|_| "Proxy-Support");
        assert_eq!(answer.field("connection").as_deref(), option);
    }
}

#[test]
fn eight_users_of_curl_log_in_with_ntlm_at_once() {
    let version = Command::new("curl").arg("--version").output();
    let features = version.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    if !features.is_ok_and(|features| features.contains("NTLM")) {
        assert!(std::env::var_os("CRAWLGATE_REQUIRE_CLIENTS").is_none(), "no curl with NTLM");
        eprintln!("skipped: no curl with NTLM");
        return;
    }
    let gate = CrawlgateProcess::start();
    for (scheme, method) in [("http", "GET"), ("https", "GET"), ("http", "POST")] {
        let origin = LoginOrigin::start(scheme, NTLM);
        let users: Vec<_> = (0..8)
            .map(|number| {
                let mut curl = Command::new("curl");
                curl.args(["-sS", "--ntlm", "-u", &format!("user{number}:secret")])
                    .args(["--cacert", "ca.crt", "--noproxy", "", "-x"])
                    .arg(format!("http://{}", gate.address()))
                    .args(["-w", " %{http_code}\\n", "-A", "TestBot/1.0"]);
                if method == "POST" {
                    curl.args(["-d", "form"]);
                }
                for page in 0..5 {
                    curl.arg(origin.url(&format!("/{number}/{page}")));
                }
                curl.current_dir(gate.setup.dir());
                curl.stdout(Stdio::piped()).spawn().unwrap()
            })
            .collect();
        for (number, curl) in users.into_iter().enumerate() {
            let output = curl.wait_with_output().unwrap();
            let pages = (0..5).map(|page| format!("/{number}/{page} of user{number} 200\n"));
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            assert_eq!(said, pages.collect::<String>(), "{scheme} {method}");
        }
        // No page went to a user by the connection of another one.
        let asked = origin.asked();
        for one in &asked {
            let number = one.path.split('/').nth(1).unwrap();
            let expected = format!("user{number}");
            assert!(one.user.as_ref().is_none_or(|user| *user == expected), "{one:?}");
        }
        assert!(asked.iter().any(|one| one.has_credentials));
    }
}
