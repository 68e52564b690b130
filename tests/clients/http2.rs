//! Clients that choose HTTP/2 inside the tunnel: each gets an allowed page and the reason of a denial.

use std::env;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use serde_json::{Value, json};

use crate::support::{CrawlgateProcess, Latch, Origin, RULES, Reply, eventually};
use crate::visit::{
    CLIENT_PATIENCE, Outcome, Visit, client, driven_chromium, finish, missing, python,
};

/// The images of the page that a browser loads: as many as it would ask for on connections of HTTP/1.1.
const IMAGES: usize = 6;

/// Returns the only record of a URL, and asserts that the request came by HTTP/2 inside a tunnel.
#[track_caller]
pub(crate) fn record<'a>(outcome: &'a Outcome, url: &str) -> &'a Value {
    let of_url = |record: &&Value| record["url"] == url;
    let found: Vec<_> = outcome.records.iter().filter(of_url).collect();
    let [record] = found[..] else {
        panic!("{url}: {found:?}\n{}", outcome.stderr);
    };
    has!(record, {"version": "2", "via": "intercepted"});
    record
}

/// Asserts that the gate denied a URL.
#[track_caller]
fn denied(outcome: &Outcome, url: &str) {
    has!(record(outcome, url), {"verdict": "deny", "status": 403, "reason": "robots_disallow"});
}

/// Asserts that `/page` was allowed and `/private` denied, each by HTTP/2, and that the origin saw only the first.
#[track_caller]
fn held(visit: &Visit, outcome: &Outcome) {
    let origin = &visit.https;
    let page = record(outcome, &origin.url("/page"));
    has!(page, {"verdict": "allow", "status": 200});
    denied(outcome, &origin.url("/private"));
    assert_eq!(origin.seen_but_robots(), ["GET /page"]);
    came_by_http_2(origin, "/page");
}

/// Asserts that the origin read that the request came to the proxy by HTTP/2.
#[track_caller]
fn came_by_http_2(origin: &Origin, target: &str) {
    let via = origin.last(target).head.field("via").unwrap_or_default();
    assert!(via.starts_with("2.0 crawlgate-"), "{via}");
}

/// Returns the lines of standard output, each of which is JSON.
#[track_caller]
pub(crate) fn told(outcome: &Outcome) -> Vec<Value> {
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let lines = outcome.stdout.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap_or_else(|why| panic!("{why}: {line}")))
        .collect()
}

/// Asserts what a client told of `/page` and of `/private`: version, status and body.
#[track_caller]
fn told_both(outcome: &Outcome, version: &str) {
    let told = told(outcome);
    assert_eq!(told.first(), Some(&json!([version, 200, "an allowed page"])));
    let [_, denial] = &told[..] else {
        panic!("{told:?}");
    };
    assert_eq!((&denial[0], &denial[1]), (&json!(version), &json!(403)));
    let body = denial[2].as_str().unwrap();
    says!(body, "Disallow: /private");
}

#[test]
fn curl_speaks_http_2() {
    let curl = or_skip!(client("curl", "CRAWLGATE_CURL", &["curl"], &["--version"]));
    let visit = Visit::new();
    let write = "\n%{http_version} %{http_code}\n";
    let pages = [visit.https.url("/page"), visit.https.url("/private")];
    let [page, private] = &pages;
    let outcome = visit.run([
        curl.as_str(),
        "--http2",
        "--silent",
        "--show-error",
        "-w",
        write,
        page,
        private,
    ]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let (allowed, denial) = outcome.stdout.split_once("\n2 200\n").unwrap();
    assert_eq!(allowed, "an allowed page");
    says!(denial, "Disallow: /private");
    assert!(denial.ends_with("\n2 403\n"), "{denial}");
    held(&visit, &outcome);
}

#[test]
fn python_httpx_speaks_http_2() {
    let python = or_skip!(python("httpx, h2"));
    let visit = Visit::new();
    let program = "import sys, json, httpx\n\
        with httpx.Client(http2=True, timeout=60) as client:\n\
        \x20   for url in sys.argv[1:]:\n\
        \x20       answer = client.get(url)\n\
        \x20       print(json.dumps([answer.http_version, answer.status_code, answer.text]))";
    let pages = [visit.https.url("/page"), visit.https.url("/private")];
    let start = [python, "-c".to_owned(), program.to_owned()];
    let outcome = visit.run(start.into_iter().chain(pages));
    told_both(&outcome, "HTTP/2");
    held(&visit, &outcome);
}

#[test]
fn libcurl_speaks_http_2_with_the_proxy_itself() {
    // `--proxy-http2` of curl 8.1 and newer. PycURL brings such a libcurl, and has no name for the number of the option.
    let python = or_skip!(python("pycurl"));
    let listener =
        "[[listener]]\nname = 'tls'\naddress = '127.0.0.1:0'\ntls = true\nnames = ['127.0.0.1']\n";
    let gate = CrawlgateProcess::with(|setup| setup.tables(listener));
    let place = eventually("the listener with TLS", || {
        let said = gate.said();
        let whole = said.rfind('\n').map_or("", |end| &said[..end]);
        let places = whole.split("listening on ").skip(1);
        let mut places = places.map(|rest| rest.lines().next().unwrap().to_owned());
        places.find(|place| *place != gate.address.to_string())
    });
    let program = "import io, json, pycurl, sys\n\
        place, ca, *urls = sys.argv[1:]\n\
        handle = pycurl.Curl()\n\
        handle.setopt(pycurl.PROXY, 'https://' + place)\n\
        handle.setopt(pycurl.PROXYTYPE, 3) # CURLPROXY_HTTPS2\n\
        handle.setopt(pycurl.PROXY_CAINFO, ca)\n\
        handle.setopt(pycurl.CAINFO, ca)\n\
        handle.setopt(pycurl.USERAGENT, 'TestBot/1.0')\n\
        said = []\n\
        handle.setopt(pycurl.VERBOSE, True)\n\
        handle.setopt(pycurl.DEBUGFUNCTION, lambda kind, octets: said.append(octets))\n\
        for url in urls:\n\
        \x20   body, lines = io.BytesIO(), []\n\
        \x20   handle.setopt(pycurl.URL, url)\n\
        \x20   handle.setopt(pycurl.WRITEDATA, body)\n\
        \x20   handle.setopt(pycurl.HEADERFUNCTION, lambda line: lines.append(line.decode().strip()))\n\
        \x20   handle.perform()\n\
        \x20   heads = [line for line in lines if line.startswith('HTTP/')]\n\
        \x20   print(json.dumps([heads, body.getvalue().decode()]))\n\
        print(json.dumps(b'Establishing HTTP/2 proxy tunnel' in b''.join(said)))\n";
    for (origin, has_tunnel) in [(Origin::http(), false), (Origin::https(), true)] {
        let origin = origin.robots(RULES);
        let (page, private) = (origin.url("/page"), origin.url("/private"));
        let mut command = Command::new(&python);
        let ca = gate.setup.dir().join("ca.crt");
        command.args(["-c", program, &place]).arg(ca);
        command.args([&page, &private]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let output = finish(&mut command);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        let told: Vec<Value> = String::from_utf8_lossy(&output.stdout)
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(told[0], json!([["HTTP/2 200"], "page /page"]));
        assert_eq!(told[1][0], json!(["HTTP/2 403"]));
        assert_eq!(told[2], has_tunnel, "a tunnel on a stream");
        let denial = told[1][1].as_str().unwrap();
        says!(denial, "Disallow: /private");
        for (url, verdict) in [(page, "allow"), (private, "deny")] {
            has!(gate.record_of(&url), {"version": "2", "verdict": verdict});
        }
        assert_eq!(origin.seen_but_robots(), ["GET /page"]);
    }
}

#[test]
fn node_speaks_http_2_in_a_tunnel_of_its_own() {
    let Ok(nodes) = env::var("CRAWLGATE_NODES") else {
        missing("Node.js (CRAWLGATE_NODES)");
        return;
    };
    for node in nodes.split(':') {
        let visit = Visit::new();
        let origin = visit.https.url("");
        let outcome = visit.run([node, &script("http2.cjs"), &origin, "/page", "/private"]);
        told_both(&outcome, "h2");
        held(&visit, &outcome);
    }
}

#[test]
fn chromium_speaks_http_2_on_one_connection() {
    let (chromium, node, browser) = or_skip!(driven_chromium());
    let visit = Visit::new();
    let origin = &visit.https;
    let latch = Latch::new();
    let images: Vec<_> = (0..IMAGES).map(|n| format!("/images/{n}.svg")).collect();
    let tags: String = images.iter().map(|image| format!("<img src={image}>")).collect();
    origin.script("/gallery", [document("text/html", &tags)]);
    for image in &images {
        // Each waits until all of them have been asked for.
        let picture = "<svg xmlns='http://www.w3.org/2000/svg' width='7' height='7'/>";
        let answer = document("image/svg+xml", picture);
        let mut reply = Reply::silent().wait(&latch);
        reply.steps.extend(answer.steps);
        origin.script(image, [reply]);
    }
    // A text frame of five octets.
    origin.script("/socket", [Reply::websocket().send(b"\x81\x05hello")]);
    let opener = latch.clone();
    let opening = thread::spawn(move || {
        // The browser starts first, which takes long on a busy machine.
        opener.arrivals_within(CLIENT_PATIENCE, IMAGES);
        opener.open();
    });
    let outcome = visit.run([
        &node,
        &script("browser.cjs"),
        &format!("{browser}/node_modules/playwright-core"),
        &located(&chromium),
        "{proxy}",
        "{spki}",
        &origin.url(""),
    ]);
    let told = told(&outcome);
    let [told] = &told[..] else {
        panic!("{told:?}");
    };
    opening.join().unwrap();

    has!(told, {
        "page": "h2", "images": vec![json!([7, "h2"]); IMAGES], "socket": "hello",
        "refused": "refused", "denied.0": 403, "denied.1": "h2",
    });
    let body = told["denied"][2].as_str().unwrap();
    says!(body, "Disallow: /private");

    // The address of the crawler has the port of its connection.
    let connection = &record(&outcome, &origin.url("/gallery"))["client"]["address"];
    for target in images.iter().map(String::as_str).chain(["/gallery", "/socket"]) {
        let record = record(&outcome, &origin.url(target));
        has!(record, {"client.address": connection, "verdict": "allow"});
        came_by_http_2(origin, target);
    }
    let socket = record(&outcome, &origin.url("/socket"));
    has!(socket, {"method": "GET", "status": 101});
    denied(&outcome, &origin.url("/private"));
    denied(&outcome, &origin.url("/private/socket"));
    let mut seen = origin.seen_but_robots();
    // Browsers request an icon as well.
    seen.retain(|line| line != "GET /favicon.ico");
    assert_eq!(seen.len(), IMAGES + 2, "{seen:?}");
    assert!(!seen.iter().any(|line| line.contains("private")), "{seen:?}");
}

/// Returns a 200 of this type.
fn document(kind: &str, body: &str) -> Reply {
    let length = body.len();
    Reply::raw(format!(
        "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n{body}"
    ))
}

pub(crate) fn script(name: &str) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(name);
    script.to_str().unwrap().to_owned()
}

/// Returns the path of a program; Playwright looks for none.
fn located(program: &str) -> String {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut places = env::split_paths(&path).map(|folder| folder.join(program));
    let found = places.find(|place| place.is_file());
    found.map_or_else(|| program.to_owned(), |place| place.to_str().unwrap().to_owned())
}
