//! The way to the origins through other proxies. Page: `docs/networks.md`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::json;

use crate::address_policy::{default_policy, prohibited};
use crate::support::http2_origin::Http2Origin;
use crate::support::{CrawlgateProcess, Origin, RULES};

/// Returns a proxy's answer to the head of a CONNECT.
type Says = fn(&str) -> &'static str;

/// An upstream proxy. It connects every request to one origin, and notes the requests.
struct Proxy {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Proxy {
    fn start(
        origin: u16,
        meet: impl Fn(&mut TcpStream) -> Option<String> + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let list = Arc::clone(&asked);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let mut stream = stream;
                let Some(target) = meet(&mut stream) else {
                    continue;
                };
                list.lock().unwrap().push(target);
                let origin = TcpStream::connect(("127.0.0.1", origin)).unwrap();
                pipe(&stream, &origin);
                pipe(&origin, &stream);
            }
        });
        Self { address, asked }
    }

    /// Starts an HTTP proxy; `answer` gives its answer to the head of a CONNECT.
    fn http(origin: u16, answer: Says) -> Self {
        Self::start(origin, move |stream| {
            let mut head = String::new();
            let mut reader = BufReader::with_capacity(1, stream.try_clone().unwrap());
            while !head.ends_with("\r\n\r\n") {
                if reader.read_line(&mut head).unwrap() == 0 {
                    return None;
                }
            }
            let answer = answer(&head);
            stream.write_all(answer.as_bytes()).unwrap();
            let target = head.split(' ').nth(1).unwrap().to_owned();
            answer.starts_with("HTTP/1.1 200").then_some(target)
        })
    }

    /// Starts a SOCKS 5 proxy for a user and a password.
    fn socks5(origin: u16, login: &'static str) -> Self {
        Self::start(origin, move |stream| {
            let mut octets = [0; 3];
            stream.read_exact(&mut octets).unwrap();
            assert_eq!(octets, [5, 1, 2]);
            stream.write_all(&[5, 2]).unwrap();
            let mut said = [0; 1];
            stream.read_exact(&mut said).unwrap();
            let (user, password) = (text(stream), text(stream));
            let is_known = format!("{user}:{password}") == login;
            stream.write_all(&[1, u8::from(!is_known)]).unwrap();
            if !is_known {
                return None;
            }
            let mut request = [0; 4];
            stream.read_exact(&mut request).unwrap();
            assert_eq!(request, [5, 1, 0, 3], "a name");
            let host = text(stream);
            let mut port = [0; 2];
            stream.read_exact(&mut port).unwrap();
            stream.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).unwrap();
            Some(format!("{host}:{}", u16::from_be_bytes(port)))
        })
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

/// Reads a text behind its length.
fn text(stream: &mut TcpStream) -> String {
    let mut length = [0; 1];
    stream.read_exact(&mut length).unwrap();
    let mut text = vec![0; usize::from(length[0])];
    stream.read_exact(&mut text).unwrap();
    String::from_utf8(text).unwrap()
}

fn pipe(from: &TcpStream, to: &TcpStream) {
    let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
    thread::spawn(move || {
        drop(std::io::copy(&mut from, &mut to));
        drop(to.shutdown(Shutdown::Write));
    });
}

fn opens(_: &str) -> &'static str {
    "HTTP/1.1 200 Connection established\r\n\r\n"
}

fn opens_to_ada(head: &str) -> &'static str {
    if head.contains("Proxy-Authorization: Basic YWRhOnNlc2FtZQ==\r\n") {
        opens(head)
    } else {
        "HTTP/1.1 407 Who are you?\r\nContent-Length: 0\r\n\r\n"
    }
}

/// Starts a gate that reaches all other origins than the test names through a proxy.
fn behind(url: &str) -> CrawlgateProcess {
    let routes = format!(
        "[{{ hosts = [\"*.far.test\", \"far.test\"], url = {url:?} }}, {{ hosts = [\"*\"], direct = true }}]"
    );
    CrawlgateProcess::with(|setup| setup.set("upstream", "proxy", &routes))
}

#[test]
fn pages_and_robots_txt_go_by_the_same_proxy() {
    for origin in [Origin::http(), Origin::https()] {
        let origin = origin.robots(RULES);
        let is_https = origin.url("/").starts_with("https");
        let port = if is_https { 443 } else { 80 };
        let scheme = if is_https { "https" } else { "http" };
        let connect = Proxy::http(origin.port(), opens_to_ada);
        let socks = Proxy::socks5(origin.port(), "ada:sesame");
        for (proxy, kind) in [(&connect, "http"), (&socks, "socks5")] {
            let gate = behind(&format!("{kind}://ada:sesame@{}", proxy.address));
            gate.denies(&format!("{scheme}://far.test:{port}/private"));
            let url = format!("{scheme}://www.far.test:{port}/open");
            let before = origin.seen().len();
            assert_eq!(gate.get(&url).text(), "page /open");
            let record = gate.record(&url, |record| record["host"] == "www.far.test");
            assert_eq!(record["upstream"], json!(proxy.address.to_string()));
            let seen = origin.seen();
            let lines: Vec<_> = seen[before..].iter().map(|seen| seen.line()).collect();
            assert_eq!(lines, ["GET /robots.txt", "GET /open"]);
            for seen in &seen[before..] {
                seen.head.field_is("host", Some("www.far.test"));
                assert_eq!(seen.head.field("proxy-authorization"), None);
                let sni = is_https.then(|| "www.far.test".to_owned());
                assert_eq!(seen.sni, sni);
            }
            // A robots.txt shares no connection with a page.
            let want =
                ["far.test", "www.far.test", "www.far.test"].map(|host| format!("{host}:{port}"));
            assert_eq!(proxy.asked(), want, "{kind}");
            assert!(!gate.said().contains("sesame"), "{}", gate.said());
            let shown = gate.setup.command("config");
            let shown = { shown }.arg("show").output().unwrap();
            assert!(!String::from_utf8_lossy(&shown.stdout).contains("sesame"));
        }
    }
}

#[test]
fn http2_goes_through_a_proxy() {
    let origin = Http2Origin::with(&["h2"], |_| ()).robots(RULES);
    let authority = origin.authority();
    let (_, port) = authority.rsplit_once(':').unwrap();
    let proxy = Proxy::http(port.parse().unwrap(), opens);
    let gate = behind(&format!("http://{}", proxy.address));
    gate.denies("https://far.test:443/private");
    let answer = gate.get("https://far.test:443/open");
    answer.is_origins(200, "page /open");
    let record = gate.record("the page", |record| record["reason"] == "robots_allow");
    has!(record, {"upstream": proxy.address.to_string(), "upstream_version": "2"});
    let seen = origin.pages();
    let seen: Vec<_> = seen.iter().map(|seen| (seen.version, &*seen.path)).collect();
    assert_eq!(seen, [("2", "/open")]);
    // The connection of the robots.txt serves the page.
    assert_eq!(proxy.asked(), ["far.test:443"]);
}

#[test]
fn the_other_hosts_are_reached_directly() {
    let origin = Origin::with_rules(RULES);
    let proxy = Proxy::http(origin.port(), opens);
    let gate = behind(&format!("http://{}", proxy.address));
    assert_eq!(gate.get(&origin.url_as("site.test", "/open")).status, 200);
    assert_eq!(proxy.asked(), [""; 0]);
}

#[test]
fn what_a_proxy_says_itself_is_never_taken_for_a_robots_txt() {
    let origin = Origin::with_rules(RULES);
    #[rustfmt::skip] // one row, one case
    let answers: [(&str, Says); 4] = [
        ("the proxy forbids", |_| "HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n"),
        ("the proxy does not find the host", |_| "HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n"),
        ("the proxy requires credentials", opens_to_ada),
        ("the proxy disconnects", |_| ""),
    ];
    for (case, answer) in answers {
        let proxy = Proxy::http(origin.port(), answer);
        let gate = behind(&format!("http://{}", proxy.address));
        let answer = gate.get("http://far.test/open");
        let record = gate.unreachable(&answer);
        assert_eq!(record["robots"]["state"], "unreachable", "{case}: {record}");
        let cause = &record["robots"]["unreachable"]["cause"];
        assert_eq!(cause, "upstream_proxy", "{case}");
        let detail = answer.problem()["detail"].to_string();
        assert!(detail.contains("[[upstream.proxy]]"), "{case}: {detail}");
        // robots.txt itself needs no robots.txt: the gate reports the proxy's answer.
        let answer = gate.get("http://far.test/robots.txt");
        assert_eq!(answer.status, 502, "{case}: {answer:?}");
        let detail = answer.problem()["detail"].to_string();
        assert!(detail.contains("[[upstream.proxy]]"), "{case}: {detail}");
    }
    assert_eq!(origin.connections(), 0);
}

#[test]
fn a_proxy_that_lets_nothing_through_opens_no_site() {
    static LETS_THROUGH: AtomicBool = AtomicBool::new(false);
    let origin = Origin::with_rules(RULES);
    let proxy = Proxy::http(origin.port(), |head| match LETS_THROUGH.load(SeqCst) {
        true => opens(head),
        false => "HTTP/1.1 407 Who are you?\r\nContent-Length: 0\r\n\r\n",
    });
    let routes = format!("[{{ hosts = [\"far.test\"], url = \"http://{}\" }}]", proxy.address);
    // In this profile a site in an outage has no restrictions.
    let gate = CrawlgateProcess::with(|setup| {
        setup.set("upstream", "proxy", &routes);
        setup.set("robots", "profile", "\"archive\"");
    });
    for path in ["/private/1", "/open"] {
        let answer = gate.get(&format!("http://far.test{path}"));
        gate.unreachable(&answer);
    }
    LETS_THROUGH.store(true, SeqCst);
    // Until the next attempt nothing is known of the site.
    let answer = gate.get("http://far.test/private/2");
    assert!([502, 503].contains(&answer.status), "{answer:?}");
    assert_eq!(origin.seen_but_robots(), [""; 0]);
}

#[test]
fn behind_a_proxy_the_address_policy_holds_for_known_addresses() {
    let origin = Origin::with_rules(RULES);
    let proxy = Proxy::http(origin.port(), opens);
    let gate = CrawlgateProcess::with(|setup| {
        default_policy(setup);
        setup.set("egress", "deny", "[\"denied.test\"]");
        let routes = format!("[{{ hosts = \"*\", url = \"http://{}\" }}]", proxy.address);
        setup.set("upstream", "proxy", &routes);
    });
    #[rustfmt::skip] // one row, one case
    let hosts = [
        "127.0.0.1", "[::1]", "0x7f.1", "[64:ff9b::7f00:1]", "169.254.169.254", "localhost", "x.localhost", "denied.test",
        "site.test", // which the operator has given an address
    ];
    for host in hosts {
        prohibited(&gate, &gate.get(&format!("http://{host}/open")));
    }
    assert_eq!(proxy.asked(), [""; 0]);
    assert_eq!(gate.get("http://far.test/open").text(), "page /open");
}
