//! The page for everyone (`[admin] public_try`): what it serves, and what it keeps to itself.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;

use crate::support::admin_gate::problem;
use crate::support::{AdminGate, Origin, RULES, Response, Setup, Wire, eventually};

/// The address of a site, on loopback of a network namespace: a public one elsewhere.
const SITE: &str = "203.1.113.7";

const NOT_PUBLIC: &str = "This page judges sites on the public internet only.";

/// A program with the page, and the address of the page.
struct Public {
    gate: AdminGate,
    address: SocketAddr,
}

impl Public {
    #[track_caller]
    fn with(configure: impl FnOnce(&mut Setup)) -> Public {
        let gate = AdminGate::with(|setup| {
            setup.set("admin", "public_try", "\"127.0.0.1:0\"");
            configure(setup);
        });
        let address = eventually("the gate to print the address of the page", || {
            let said = gate.said();
            let (_, rest) = said.split_once("public page: http://")?;
            rest.split_once('/')?.0.parse().ok()
        });
        Public { gate, address }
    }

    #[track_caller]
    fn ask(&self, method: &str, target: &str) -> Response {
        let host = self.address;
        let request =
            format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\n\r\n");
        Wire::connect(self.address).exchange(request)
    }

    /// Asks for the verdict on a URL, and returns the page.
    #[track_caller]
    fn judged(&self, url: &str, agent: &str) -> String {
        let answer = self.ask("GET", &question(url, agent));
        assert_eq!(answer.status, 200, "{url}: {}", answer.text());
        answer.text()
    }

    #[track_caller]
    fn count(&self, outcome: &str) -> u64 {
        let text = self.gate.get("/metrics").text();
        let name = format!("crawlgate_public_try_questions_total{{outcome=\"{outcome}\"}} ");
        let (_, rest) = text.split_once(&name).expect("the metric");
        rest.lines().next().unwrap().parse().unwrap()
    }
}

fn question(url: &str, agent: &str) -> String {
    let encoded =
        |text: &str| -> String { url::form_urlencoded::byte_serialize(text.as_bytes()).collect() };
    format!("/try?url={}&agent={}", encoded(url), encoded(agent))
}

#[test]
fn the_page_and_its_style_are_served_and_nothing_else() {
    let public = Public::with(|setup| setup.set("admin", "token_file", "\"token\""));
    let form = public.ask("GET", "/try");
    assert_eq!(form.status, 200, "no token is asked for: {form:?}");
    says!(form.text(), "<form method=\"get\" action=\"/try\">");
    assert_eq!(public.ask("GET", "/try?url=&agent=").status, 200);
    let style = public.ask("GET", "/try/style.css");
    let media_type = style.field("content-type");
    assert_eq!(media_type.as_deref(), Some("text/css; charset=utf-8"));
    let mut wire = Wire::connect(public.address);
    let host = public.address;
    wire.send(format!("HEAD /try HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    assert_eq!(wire.response("HEAD").status, 200);
    for path in ["/try", "/try/style.css"] {
        for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"] {
            problem(&public.ask(method, path), 405);
        }
    }
    #[rustfmt::skip] // by room
    let elsewhere = [
        "/", "/denials", "/denials/export", "/decisions/x", "/decisions/x/evidence.json", "/origins", "/origin",
        "/origin/diff", "/origin/refresh", "/origin/forget", "/robots/x", "/overrides", "/fleet", "/report",
        "/report/crawlgate-report.html", "/report/crawlgate-report.json", "/watch", "/setup", "/ca.crt",
        "/assets/console.css", "/assets/console.js", "/live", "/ready", "/metrics", "/decide?url=http://a.example/",
        "/auth", "/api/v1/status", "/api/v1/check", "/api/v1/decisions", "/api/v1/decisions/live", "/api/v1/origins",
        "/api/v1/overrides", "/api/v1/openapi.json", "/.well-known/http-message-signatures-directory", "/try/",
        "/try/x", "//try", "/TRY",
    ];
    for path in elsewhere {
        for method in ["GET", "POST"] {
            problem(&public.ask(method, path), 404);
        }
    }
    let (nowhere, posted) = (public.ask("GET", "/"), public.ask("POST", "/try"));
    for answer in [form, style, nowhere, posted] {
        let policy = answer.field("content-security-policy").unwrap_or_default();
        let expected = "default-src 'none'; style-src 'self'; form-action 'self'; ";
        assert!(policy.starts_with(expected) && !policy.contains("script"), "{policy}");
        for (field, value) in [
            ("x-content-type-options", "nosniff"),
            ("x-frame-options", "DENY"),
            ("referrer-policy", "no-referrer"),
            ("cross-origin-opener-policy", "same-origin"),
            ("cross-origin-resource-policy", "same-origin"),
            ("x-robots-tag", "noindex, nofollow"),
        ] {
            assert_eq!(answer.field(field).as_deref(), Some(value), "{field}");
        }
        for field in ["set-cookie", "www-authenticate"] {
            assert_eq!(answer.field(field), None);
        }
    }
    problem(&public.ask("GET", "/try?url=a&url=b"), 400);
    problem(&public.ask("GET", "/try?robots=a"), 400);
}

#[test]
fn a_private_address_is_asked_for_nothing_whatever_crawlers_may() {
    let public = Public::with(|setup| setup.set("admin", "public_try_per_minute", "1000"));
    let origin = Origin::with_rules(RULES);
    // Crawlers may go there, and its robots.txt is known to them.
    let process = &public.gate.process;
    process.denies(&origin.url("/private"));
    let connections = origin.connections();
    let mut urls: Vec<String> =
        ["site.test", "127.0.0.1", "localhost", "[::1]", "0x7f.1", "[::ffff:127.0.0.1]"]
            .map(|host| origin.url_as(host, "/private"))
            .into();
    urls.extend([
        origin.url("/robots.txt"),
        format!("http://{}/api/v1/status", public.gate.address),
        format!("http://{}/try", public.address),
        "http://10.0.0.1/".to_owned(),
        "http://169.254.169.254/latest/".to_owned(),
        "https://[fd00::1]/".to_owned(),
        "ftp://127.0.0.1:2121/x".to_owned(),
    ]);
    for url in &urls {
        let page = public.judged(url, "TestBot");
        says!(page, NOT_PUBLIC; "{url}");
        lacks!(page, "Verdict", "Disallow"; "{url}");
    }
    assert_eq!(origin.connections(), connections, "{:?}", origin.seen());
    assert_eq!(public.count("not_public"), urls.len() as u64);
    #[rustfmt::skip] // one row, one case
    let rows = [
        ("gopher://a.example/", "", "the scheme must be http, https"),
        ("http://a.example/\"><script>alert(1)</script>", "", "write http://a.example/"),
        ("https://a.example/", &"x".repeat(5000), "4096 octets"),
    ];
    for (url, agent, why) in rows {
        let page = public.judged(url, agent);
        assert!(page.contains(why) && !page.contains("Verdict"), "{page}");
        assert!(!page.contains("<script"), "{page}");
    }
    assert_eq!((public.count("invalid"), public.count("judged")), (3, 0));
}

#[test]
fn each_address_asks_at_its_rate() {
    let public = Public::with(|setup| setup.set("admin", "public_try_per_minute", "2"));
    for _ in 0..2 {
        public.judged("http://127.0.0.1/", "");
        let form = public.ask("GET", "/try");
        assert_eq!(form.status, 200, "the form costs nothing");
    }
    let refused = public.ask("GET", &question("http://127.0.0.1/", ""));
    let why = problem(&refused, 429);
    says!(why, "too many questions");
    let wait: u64 = refused.field("retry-after").unwrap().parse().unwrap();
    assert!((1..=31).contains(&wait), "{wait}");
    assert_eq!(public.ask("GET", "/try").status, 200);
    assert_eq!((public.count("limited"), public.count("not_public")), (1, 2));
}

#[test]
fn it_does_not_start_where_addresses_are_hidden() {
    let mut setup = Setup::new();
    setup.set("admin", "public_try", "\"127.0.0.1:0\"");
    setup.tables("[[upstream.proxy]]\nhosts = [\"*\"]\nurl = \"http://127.0.0.1:1\"\n");
    let (_, said) = setup.ends(2, "serve", &[]);
    for key in ["[admin] public_try", "[[upstream.proxy]]"] {
        says!(said, key);
    }
}

#[test]
fn a_public_site_is_judged_by_its_robots_txt_alone() {
    let set_up = format!("ip link set lo up && ip addr add {SITE}/32 dev lo");
    let unshare = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--net", "sh", "-c", script]);
        command
    };
    let probe = unshare(&set_up).output();
    if !probe.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: no network namespace with an address of its own can be made");
        return;
    }
    let inside = unshare(&format!("{set_up} && exec \"$0\" \"$@\""))
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "public_try::inside_a_namespace", "--ignored"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&inside.stdout);
    let error = String::from_utf8_lossy(&inside.stderr);
    assert!(inside.status.success() && said.contains("1 passed"), "{said}\n{error}");
}

/// Starts the site at a port, and returns the requests that it has seen. Names that begin with `to-PORT` redirect there.
fn site(port: u16) -> Arc<Mutex<Vec<String>>> {
    let listener = TcpListener::bind((SITE, port)).unwrap();
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let list = Arc::clone(&seen);
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let head = lines.map_while(Result::ok).take_while(|line| !line.is_empty());
            let head: Vec<String> = head.collect();
            let (status, body) = match head[0].split(' ').nth(1).unwrap() {
                "/robots.txt" => ("200 OK", RULES),
                _ => ("404 Not Found", ""),
            };
            let host = head.iter().find_map(|line| line.strip_prefix("Host: to-"));
            let (status, more) = match host.and_then(|host| host.split_once('.')) {
                Some((port, _)) => (
                    "301 Moved Permanently",
                    format!("Location: http://site.example:{port}/robots.txt\r\n"),
                ),
                None => (status, String::new()),
            };
            list.lock().unwrap().push(head.join("\n"));
            let answer = format!(
                "HTTP/1.1 {status}\r\n{more}Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
                body.len()
            );
            drop(stream.write_all(answer.as_bytes()));
        }
    });
    seen
}

#[test]
#[ignore = "a_public_site_is_judged_by_its_robots_txt_alone runs it in a namespace"]
fn inside_a_namespace() {
    let (seen, beside) = (site(80), site(8080));
    let at = |path: &str| format!("http://site.example{path}");
    let mut public = Public::with(|setup| {
        for (name, address) in [
            ("site.example", SITE),
            ("to-80.example", SITE),
            ("to-8080.example", SITE),
            ("inside.example", "127.0.0.1"),
        ] {
            let (name, address) = (format!("\"{name}\""), format!("\"{address}\""));
            setup.set("upstream.hosts", &name, &address);
        }
        setup.set("signals", "tdmrep", "\"record\"");
        setup.tables(&format!(
            "[[override]]\norigin = \"{}\"\naction = \"allow\"\npattern = \"/private\"\nby = \"Reviewer Name\"\n\
             reason = \"a secret note\"\n[[client]]\nname = \"the-client\"\nnetworks = [\"127.0.0.1\"]\n",
            at("")
        ));
    });
    let page = public.judged(&at("/private/x"), "ExampleBot/1.0 (+https://bot.example/)");
    says!(
        page,
        "<span class=\"verdict deny\">",
        "robots_disallow",
        "<td class=\"long\"><code>Disallow: /private</code></td>",
        "<td data-head=\"Line\">3</td>",
        "<code>ExampleBot</code> (not named), so by the rules for <code>*</code>",
        &at("/robots.txt")
    );
    for kept in ["Reviewer", "secret", "the-client", "verride"] {
        assert!(!page.contains(kept), "{kept}: {page}");
    }
    let page = public.judged(&at("/private/open"), "");
    says!(page, "<span class=\"verdict allow\">", "Allow: /private/open");
    {
        let seen = seen.lock().unwrap();
        assert_eq!(seen.len(), 1, "one fetch, no page: {seen:?}");
        assert!(seen[0].starts_with("GET /robots.txt HTTP/1.1"), "{seen:?}");
        let has_agent = seen[0].contains("ExampleBot");
        assert!(!has_agent, "strangers choose no User-Agent: {seen:?}");
    }
    assert_eq!(public.count("judged"), 2);
    // The override concerns only crawlers, and the only record is theirs.
    assert_eq!(public.gate.process.get(&at("/private/x")).status, 404);
    let records = public.gate.process.wait_records(1);
    assert_eq!(records.len(), 1, "{records:?}");
    let page = public.judged("http://site.example:8080/", "");
    says!(page, "URLs without a port");
    let page = public.judged("http://to-80.example/private/x", "");
    says!(page, "robots_disallow");
    let page = public.judged("http://to-8080.example/open", "");
    says!(page, "robots_unreachable", "may not be reached from here");
    let beside = beside.lock().unwrap().clone();
    assert!(beside.is_empty(), "no other port is asked: {beside:?}");
    let page = public.judged("http://inside.example/", "");
    says!(page, NOT_PUBLIC);
    // A reload holds here, too.
    public.gate.process.reload(|setup| setup.set("egress", "deny", "[\"site.example\"]"));
    let page = public.judged(&at("/private/x"), "");
    says!(page, NOT_PUBLIC);
}
