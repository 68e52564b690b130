//! Secrets of crawlers, operators and origins stay where they were entered: the test sends a secret through every place
//! that takes one, then searches everything that the program has printed or stored, at the most verbose level.
//! Page: `docs/threat-model.md`.
//!
//! Kept on purpose, and so without secrets here: the User-Agent and the path of a request, the text of a robots.txt and
//! the URLs of its redirects, and a request's query unless `[log] redact_query` is set.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::net::SocketAddr;
use std::process::Stdio;

use crate::support::{CrawlgateProcess, Origin, RULES, Reply, Response, Setup, Wire, wait_until};

/// The secret. Each place adds its own ending, so that a find shows where the secret came from.
const SECRET: &str = "s3cr3tc4n4ry";

/// A word that the search must find; otherwise the search itself is broken.
const CONTROL: &str = "c0ntr0lw0rd";

/// Returns a request's fields with secrets that name `place`.
fn confiding(place: &str) -> String {
    let basic = base64(format!("user:{SECRET}-basic-{place}").as_bytes());
    format!(
        "Authorization: Bearer {SECRET}-bearer-{place}\r\n\
         Proxy-Authorization: Basic {basic}\r\n\
         Cookie: session={SECRET}-cookie-{place}\r\n\
         Referer: https://user:{SECRET}-referer-{place}@site.test/?{SECRET}\r\n\
         X-Api-Key: {SECRET}-key-{place}\r\n"
    )
}

fn base64(octets: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(octets)
}

/// Returns the forms of the secret: itself, and its base64 at each of three offsets, without the letters that depend on
/// the text around it.
fn spellings() -> Vec<Vec<u8>> {
    let coded = (0..3).map(|offset| {
        let text = base64(format!("{}{SECRET}", "x".repeat(offset)).as_bytes());
        let text = text.trim_end_matches('=');
        text.as_bytes()[4..text.len() - 2].to_vec()
    });
    std::iter::once(SECRET.as_bytes().to_vec()).chain(coded).collect()
}

#[track_caller]
fn assert_tells_nothing(what: &str, said: &[u8]) {
    for spelling in spellings() {
        if let Some(at) = said.windows(spelling.len()).position(|window| window == spelling) {
            let around = &said[at.saturating_sub(120)..(at + 80).min(said.len())];
            panic!("{what}: {}", String::from_utf8_lossy(around));
        }
    }
}

/// Returns all files in the gate's directory except the configuration, which is the operator's own.
fn kept(gate: &CrawlgateProcess) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(gate.setup.dir()).unwrap();
    entries
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.file_type().unwrap().is_file() && entry.file_name() != "config.toml")
        .filter_map(|entry| {
            let name = entry.file_name().into_string().unwrap();
            // A file that is written anew may have its last name by now.
            Some((name, fs::read(entry.path()).ok()?))
        })
        .collect()
}

/// Searches all output and files of the program. `control` must be found in the log and in the store.
fn search(gate: &CrawlgateProcess, control: &str) {
    let said = gate.said();
    assert!(said.contains("TRACE") || said.contains("DEBUG"), "the log is not verbose enough");
    assert_tells_nothing("standard error", gate.said().as_bytes());
    let mut holding = BTreeSet::new();
    for (name, octets) in kept(gate) {
        assert_tells_nothing(&name, &octets);
        if octets.windows(control.len()).any(|window| window == control.as_bytes()) {
            holding.insert(name);
        }
    }
    assert!(holding.contains("decisions.jsonl"), "the search finds nothing: {holding:?}");
    assert!(
        holding.iter().any(|name| name.starts_with("crawlgate.db")),
        "the search finds nothing in the store: {holding:?}"
    );
    for words in [
        &["log", "--limit", "1000"][..],
        &["log", "--limit", "1000", "--json"],
        &["log", "--summary"],
        &["origins"],
        &["origins", "--json"],
        &["config", "show"],
        &["config", "check"],
        &["ca", "show"],
        &["store", "size"],
    ] {
        // The configuration is named behind the subcommand.
        let output = gate.setup.command(words[0]).args(&words[1..]).output().unwrap();
        let what = words.join(" ");
        assert_tells_nothing(&what, &output.stdout);
        assert_tells_nothing(&what, &output.stderr);
    }
}

fn talkative(setup: &mut Setup) {
    setup.set("log", "level", "\"trace\"");
    setup.set("log", "redact_query", "true");
    setup.set("limits", "header_timeout", "\"3s\"");
    setup.set("admin", "address", "\"127.0.0.1:0\"");
    let proxy = format!(
        "[{{ hosts = [\"far.test\"], url = \"http://user:{SECRET}-upstream@127.0.0.1:1\" }}, \
         {{ hosts = [\"*\"], direct = true }}]"
    );
    setup.set("upstream", "proxy", &proxy);
}

#[test]
fn what_is_confided_stands_in_no_answer_message_record_or_file() {
    let gate = CrawlgateProcess::with(talkative);
    let confides = |reply: Reply| [reply];
    let page = format!(
        "HTTP/1.1 200 OK\r\nSet-Cookie: id={SECRET}-set\r\nContent-Length: 12\r\n\
         Authentication-Info: {SECRET}\r\n\r\n{SECRET}"
    );
    let broken = format!("HTTP/1.1 200 OK\r\n{SECRET} broken\r\n\r\n");
    let scripted = |origin: Origin| {
        origin
            .robots(RULES)
            .on("/open", confides(Reply::raw(&page)))
            .on("/broken", confides(Reply::raw(&broken).close()))
    };
    let (plain, tls) = (scripted(Origin::http()), scripted(Origin::https()));
    let mut answers: Vec<(String, Response)> = Vec::new();

    // Fields, query and body: forwarded, denied, failed; plain and intercepted.
    for origin in [&plain, &tls] {
        for path in ["/open", "/private", "/broken"] {
            let place = path.trim_start_matches('/');
            let url = origin.url(&format!("{path}?token={SECRET}-query-{place}"));
            let answer = gate.request("GET", &url, &confiding(place));
            // The origin's own answer may hold anything.
            if answer.is_ours() {
                answers.push((url, answer));
            }
        }
        let url = origin.url("/private");
        let fields = format!("{}Content-Length: 12\r\n\r\n{SECRET}", confiding("body"));
        // `request` ends the head; the body in front of that end becomes a second request.
        answers.push((url.clone(), gate.request("POST", &url, &fields)));
    }
    // Userinfo.
    for path in ["/open", "/private"] {
        let url = plain.url_as(&format!("user:{SECRET}-userinfo@site.test"), path);
        let answer = gate.get(&url);
        if answer.is_ours() {
            answers.push((url, answer));
        }
    }
    // Requests that are unreadable or not for this proxy.
    let (host, url) = (plain.authority(), plain.url("/open"));
    let odd = [
        format!("GET http://user:{SECRET}-line@{host}/ x HTTP/1.1\r\nHost: {host}\r\n\r\n"),
        format!("Authorization: {SECRET}-first-line\r\n\r\n"),
        format!("Cookie: a={SECRET} b={SECRET} HTTP/1.1\r\n\r\n"),
        format!("password={SECRET} {SECRET} HTTP/1.1\r\n\r\n"),
        format!("GET {url} HTTP/1.1\r\nHost: {host}\r\nCookie : {SECRET}\r\n\r\n"),
        format!("GET {url} HTTP/1.1\r\nHost: {host}\r\nAuthorization: {SECRET}\0\r\n\r\n"),
        format!("GET {url} HTTP/1.1\r\nHost: {host}\r\nAuthorization: {SECRET}"),
        format!("GET {url}?{SECRET} HTTP/1.1\r\nHost: {host}\r\nHost: {host}\r\n\r\n"),
        format!("GET /open?{SECRET} HTTP/1.1\r\nHost: user:{SECRET}@{host}\r\n\r\n"),
        format!("GET ftp://user:{SECRET}@site.test/x HTTP/1.1\r\nHost: {host}\r\n\r\n"),
        format!("GET http:/user:{SECRET}@site.test/x HTTP/1.1\r\nHost: {host}\r\n\r\n"),
        format!("TRACE {url} HTTP/1.1\r\nHost: {host}\r\nCookie: {SECRET}\r\n\r\n"),
        format!("CONNECT user:{SECRET}@{host} HTTP/1.1\r\nHost: {host}\r\n\r\n"),
        format!("CONNECT site.test:0 HTTP/1.1\r\nHost: {host}\r\n{}\r\n", confiding("connect")),
        format!("GET http://far.test/x HTTP/1.1\r\nHost: far.test\r\n{}\r\n", confiding("far")),
        format!("GET http://site.test:1/x HTTP/1.1\r\nHost: x\r\n{}\r\n", confiding("refused")),
    ];
    for request in odd {
        let answer = gate.connect().send(&request).response("GET");
        answers.push((request, answer));
    }
    // Inside a tunnel.
    let authority = tls.authority();
    let mut wire = gate.intercept(&authority, "site.test");
    let strays = format!("GET /open HTTP/1.1\r\nHost: user:{SECRET}-stray@{authority}\r\n\r\n");
    answers.push((strays.clone(), wire.exchange(&strays)));
    let mut wire = gate.connect();
    let connect =
        format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n{}\r\n", confiding("opaque"));
    assert_eq!(wire.exchange(connect).status, 200);
    wire.send(format!("\x05{SECRET}-opaque")).drain();
    // A robots.txt behind redirects with user information.
    for (number, location) in ["http://", "//"].into_iter().enumerate() {
        let led = Origin::http();
        let to = format!("{location}user:{SECRET}-location@{}/robots.txt", plain.authority());
        let fields = format!("Location: {to}\r\nSet-Cookie: {SECRET}\r\n");
        led.script("/robots.txt", [Reply::with(302, &fields, SECRET)]);
        gate.denies(&led.url(&format!("/private/{number}")));
    }
    // The words that must be found.
    gate.denies(&plain.url(&format!("/private/{CONTROL}")));

    for (what, answer) in &answers {
        assert_tells_nothing(&format!("the answer to {what}"), &answer.head.raw);
        assert_tells_nothing(&format!("the answer to {what}"), &answer.body);
    }
    let (_, shown, _) = gate.beside("log", &["--limit", "1000", "--json"]);
    says!(shown, CONTROL);
    search(&gate, CONTROL);
    let console = gate.said();
    let console = console.split("console: http://").nth(1).unwrap();
    let console: SocketAddr = console.split('/').next().unwrap().parse().unwrap();
    let words = "/ /metrics /api/v1/status /api/v1/decisions /api/v1/origins /api/v1/overrides";
    for path in words.split(' ') {
        let request = format!("GET {path} HTTP/1.1\r\nHost: {console}\r\n\r\n");
        let answer = Wire::connect(console).exchange(request);
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        assert_tells_nothing(path, &answer.head.raw);
        assert_tells_nothing(path, &answer.body);
    }
    // Once more after everything is written.
    let mut gate = gate;
    gate.signal(rustix::process::Signal::TERM);
    gate.wait();
    search(&gate, CONTROL);
}

#[test]
fn the_password_of_a_client_stays_its_own() {
    let mut setup = Setup::new();
    talkative(&mut setup);
    let password = format!("{SECRET}-client");
    let mut child = setup
        .command("client")
        .args(["add", "ada", "--agent", "TestBot", "--password-stdin"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(format!("{password}\n").as_bytes()).unwrap();
    drop(stdin);
    let added = child.wait_with_output().unwrap();
    assert!(added.status.success(), "{added:?}");
    assert_tells_nothing("client add", &added.stdout);
    assert_tells_nothing("client add", &added.stderr);
    let entry = String::from_utf8(added.stdout).unwrap();
    let hash = entry.split('"').find(|word| word.starts_with("$argon2id$"));
    let hash = hash.expect("the hash of the password").to_owned();
    setup.tables(&entry);
    let command = setup.command("serve");
    let gate = CrawlgateProcess::spawn(setup, command);

    let origin = Origin::with_rules(RULES);
    let as_user = |credentials: &str| {
        let credentials = base64(credentials.as_bytes());
        let fields = format!("Proxy-Authorization: Basic {credentials}\r\n");
        gate.request("GET", &origin.url(&format!("/private/{CONTROL}")), &fields)
    };
    gate.denied(&as_user(&format!("ada:{password}")));
    for wrong in [
        format!("ada:{password}-wrong"),
        format!("{password}:ada"),
        format!("{SECRET} without a colon"),
    ] {
        let answer = as_user(&wrong);
        assert_eq!(answer.status, 407, "{answer:?}");
        assert_tells_nothing("407", &answer.head.raw);
        assert_tells_nothing("407", &answer.body);
    }
    assert_eq!(origin.seen_but_robots(), [""; 0]);
    wait_until("the records", || gate.records().len() >= 4);
    search(&gate, CONTROL);
    for (name, octets) in kept(&gate) {
        let text = String::from_utf8_lossy(&octets).into_owned();
        lacks!(text, &hash; "the hash of the password stands in {name}");
    }
    let (_, shown, _) = gate.beside("config", &[]);
    assert!(!shown.contains(&hash), "{shown}");
    assert!(!gate.said().contains(&hash));
}

#[test]
fn the_keys_of_leaves_never_reach_the_disk() {
    let (mut gate, origin) = (CrawlgateProcess::start(), Origin::https());
    for host in ["site.test", "other.test", "www.site.test"] {
        gate.get(&origin.url_as(host, "/page")).is_origins(200, "page /page");
    }
    let look = |gate: &CrawlgateProcess| {
        let kept = kept(gate);
        let keys = kept.iter().filter(|(_, octets)| {
            let text = String::from_utf8_lossy(octets);
            text.contains("PRIVATE KEY")
        });
        let keys: BTreeSet<String> = keys.map(|(name, _)| name.clone()).collect();
        let names: BTreeSet<String> = kept.into_iter().map(|(name, _)| name).collect();
        (keys, names)
    };
    for ends in [false, true] {
        if ends {
            gate.signal(rustix::process::Signal::TERM);
            gate.wait();
        }
        let (keys, names) = look(&gate);
        let known = [
            "ca.crt",
            "ca.key",
            "crawlgate.db",
            "crawlgate.db-shm",
            "crawlgate.db-wal",
            "crawlgate.log.key",
            "crawlgate.log.state",
            // Written whole, then renamed.
            "crawlgate.log.state.new",
            "decisions.jsonl",
            "origin-ca.pem",
        ];
        let unknown: Vec<&String> =
            names.iter().filter(|name| !known.contains(&name.as_str())).collect();
        assert!(unknown.is_empty(), "unknown files: {unknown:?}");
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        assert!(keys.contains(&"ca.key"), "the search finds no key at all");
        assert!(
            keys.iter().all(|name| ["ca.key", "crawlgate.log.key"].contains(name)),
            "a key in {keys:?}"
        );
    }
}
