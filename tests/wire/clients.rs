//! Clients: their recognition and their settings. Page: `docs/clients.md`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use crate::opaque::{SWITCH, upgrade};
use crate::overrides::proven;
use crate::support::{
    CrawlgateProcess, Origin, RULES, Reply, Response, Setup, Wire, origin_ca_pem,
};

/// A test's password, which must appear nowhere.
pub const PASSWORD: &str = "sesame-canary-4711";

/// Returns an entry with a hash that is cheap to check.
pub fn entry(name: &str, more: &str) -> String {
    use argon2::PasswordHasher as _;
    let params = argon2::Params::new(8, 1, 1, None).unwrap();
    let argon2 = argon2::Argon2::new(Default::default(), Default::default(), params);
    let hash: argon2::PasswordHash = argon2.hash_password(PASSWORD.as_bytes()).unwrap();
    format!("[[client]]\nname = '{name}'\npassword = '{hash}'\n{more}\n")
}

pub fn gate_with(tables: &str) -> CrawlgateProcess {
    CrawlgateProcess::with(|setup| setup.tables(tables))
}

/// Returns the field line for these credentials.
pub fn basic(user: &str, password: &str) -> String {
    let pair = STANDARD.encode(format!("{user}:{password}"));
    format!("Proxy-Authorization: Basic {pair}\r\n")
}

pub fn ask(wire: &mut Wire, url: &str, fields: &str) -> Response {
    let authority = url.split('/').nth(2).unwrap();
    wire.exchange(format!(
        "GET {url} HTTP/1.1\r\nHost: {authority}\r\nUser-Agent: TestBot/1.0\r\n{fields}\r\n"
    ))
}

pub fn connect(wire: &mut Wire, authority: &str, fields: &str) -> Response {
    wire.exchange(format!(
        "CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\nUser-Agent: TestBot/1.0\r\n{fields}\r\n"
    ))
}

#[test]
fn a_client_is_known_by_its_network_and_judged_as_it_is_configured() {
    let gate = gate_with(
        "[[client]]\nname = 'far'\nnetworks = '10.0.0.0/8'\n\
         [[client]]\nname = 'near'\nnetworks = '127.0.0.0/8'\nproduct_tokens = ['OtherBot', 'TestBot']\n",
    );
    let rules = "User-agent: OtherBot\nDisallow: /theirs\nUser-agent: TestBot\nDisallow: /mine\n";
    let origin = Origin::with_rules(rules);
    gate.passes(&origin.url("/mine"));
    let record = gate.denies(&origin.url("/theirs"));
    assert_eq!(record["client"]["name"], "near", "{record}");
    let agent = json!({"chain": ["OtherBot", "TestBot"], "source": "client", "mismatch": false});
    assert_eq!(record["agent"], agent, "{record}");
    let (_, listed, _) = gate.beside("log", &["--client", "near", "--json"]);
    assert_eq!(listed.lines().count(), 2, "{listed}");
    let (_, listed, _) = gate.beside("log", &["--client", "far", "--json"]);
    assert_eq!(listed, "");
    proven(&gate);
}

#[test]
fn an_unknown_client_is_refused_before_any_origin_is_asked() {
    let gate = gate_with("[[client]]\nname = 'far'\nnetworks = '10.0.0.0/8'\n");
    let origin = Origin::with_rules(RULES);
    let answer = gate.get(&origin.url("/open"));
    has!(gate.refused(&answer, 403, "unknown_client"), {"client.name": null});
    let mut wire = gate.connect();
    let answer = connect(&mut wire, &format!("site.test:{}", origin.port()), "");
    gate.refused(&answer, 403, "unknown_client");
    assert!(wire.is_closed(), "a refused CONNECT ends its connection");
    assert_eq!(origin.seen().len(), 0);
}

#[test]
fn a_reload_ends_connections_of_removed_clients() {
    let tunnels = |setup: &mut Setup, tables: &str| {
        setup.set("tls", "tunnel", "[\"bank.test\"]");
        setup.tables(tables);
    };
    let news = entry("news", "") + &entry("other", "");
    let mut gate = CrawlgateProcess::with(|setup| tunnels(setup, &news));
    let http = Origin::with_rules(RULES).on("/socket", [Reply::raw(SWITCH).echo()]);
    let https = Origin::https().robots("User-agent: *\n");
    let right = basic("news", PASSWORD);
    let url = http.url("/open");
    let mut plain = gate.connect();
    ask(&mut plain, &url, &right).is_origins(200, "page /open");
    let inside = format!("site.test:{}", https.port());
    let mut wire = gate.connect();
    assert_eq!(connect(&mut wire, &inside, &right).status, 200);
    let mut tunnel = wire.tls("site.test", &gate.ca_pem());
    tunnel.passes_inside(&inside, "/open");
    let bank = format!("bank.test:{}", https.port());
    let mut wire = gate.connect();
    assert_eq!(connect(&mut wire, &bank, &right).status, 200);
    let mut opaque = wire.tls("bank.test", origin_ca_pem());
    opaque.passes_inside(&bank, "/open");

    let mut socket = gate.connect();
    let shaking = upgrade(&http.url("/socket"), &http.authority());
    let shaking = shaking.replacen("\r\n\r\n", &format!("\r\n{right}\r\n"), 1);
    assert_eq!(socket.exchange(shaking).status, 101);

    // An unchanged client continues; another hash of the same password counts as another condition.
    gate.reload(|_| ());
    ask(&mut plain, &url, &right).is_origins(200, "page /open");
    tunnel.passes_inside(&inside, "/open");
    opaque.passes_inside(&bank, "/open");
    socket.send(b"still");
    assert_eq!(socket.read(5), b"still");

    let seen = (http.seen().len(), https.seen().len());
    gate.reload(|setup| tunnels(setup, &entry("other", "")));
    gate.refused(&ask(&mut plain, &url, &right), 407, "unauthenticated");
    gate.refused(&tunnel.get_inside(&inside, "/open"), 403, "unknown_client");
    opaque.drain();
    socket.drain();
    assert_eq!((http.seen().len(), https.seen().len()), seen);
    let record = gate.record("the tunnel", |record| record["opaque"] == true);
    assert_eq!(record["error"], "http_request_denied", "{record}");
    has!(gate.record_of(&http.url("/socket")), {"error": "http_request_denied"});
}

#[test]
fn a_crawler_that_is_judged_as_another_is_recorded_or_denied() {
    let mut gate =
        CrawlgateProcess::with(|setup| setup.set("agent", "product_tokens", "[\"OtherBot\"]"));
    let origin = Origin::with_rules(RULES);
    let url = origin.url("/open");
    gate.get(&url).is_origins(200, "page /open");
    has!(gate.record_of(&url), {"agent.mismatch": true});
    let unasked = Origin::with_rules(RULES);
    gate.reload(|setup| setup.set("agent", "mismatch", "\"deny\""));
    has!(gate.refuses(&unasked.url("/open"), 403, "agent_mismatch"), {"robots": null});
    assert_eq!(unasked.seen().len(), 0, "not even its robots.txt");
    // robots.txt itself is open to every crawler.
    assert_eq!(gate.get(&unasked.url("/robots.txt")).text(), RULES);
    gate.reload(|setup| setup.set("policy", "mode", "\"report\""));
    gate.get(&url).is_origins(200, "page /open");
    let record = gate.record("the report", |record| record["mode"] == "report");
    assert_eq!(record["reason"], "agent_mismatch", "{record}");
    proven(&gate);
}

#[test]
fn what_the_origin_does_not_see_identifies_no_crawler() {
    let gate = CrawlgateProcess::with(|setup| {
        setup.set("agent", "product_tokens", "[\"TestBot\"]");
        setup.set("agent", "mismatch", "\"deny\"");
    });
    let origin = Origin::with_rules(RULES);
    let url = origin.url("/open");
    let nominated = gate.request("GET", &url, "Connection: keep-alive, User-agent\r\n");
    has!(gate.refused(&nominated, 403, "agent_mismatch"), {"user_agent": null});
    let twice = gate.request("GET", &url, "User-Agent: OtherBot/1.0\r\n");
    gate.refused(&twice, 400, "bad_request");
    let inside = Origin::https().robots(RULES);
    let twice = gate.request("GET", &inside.url("/open"), "User-Agent: OtherBot/1.0\r\n");
    gate.refused(&twice, 400, "bad_request");
    assert_eq!(origin.seen().len() + inside.seen().len(), 0);
    gate.get(&url).is_origins(200, "page /open");
    let seen = origin.last("/open").head;
    seen.field_is("user-agent", Some("TestBot/1.0"));
}

#[test]
fn a_crawler_without_a_product_token_can_be_refused() {
    let gate = CrawlgateProcess::with(|setup| setup.set("agent", "require_identity", "true"));
    let origin = Origin::with_rules(RULES);
    let anonymous = |path: &str| {
        let url = origin.url(path);
        let authority = url.split('/').nth(2).unwrap();
        let head =
            format!("GET {url} HTTP/1.1\r\nHost: {authority}\r\nUser-Agent: Mozilla/5.0\r\n\r\n");
        gate.connect().exchange(head)
    };
    gate.refused(&anonymous("/open"), 403, "agent_required");
    assert_eq!(origin.seen().len(), 0);
    assert_eq!(anonymous("/robots.txt").text(), RULES);
    gate.passes(&origin.url("/open"));
}

#[test]
fn an_outage_means_what_the_profile_of_the_client_says() {
    let gate = gate_with(
        &(entry("archive", "profile = 'archive'")
            + "[[client]]\nname = 'rest'\nnetworks = '127.0.0.0/8'\n"),
    );
    let origin = Origin::http().on("/robots.txt", [Reply::status(500, "")]);
    let url = origin.url("/x");
    let denied = gate.unreachable(&gate.get(&url));
    let mut wire = gate.connect();
    ask(&mut wire, &url, &basic("archive", PASSWORD)).is_origins(200, "page /x");
    let allowed = gate.record("the archive", |record| record["client"]["name"] == "archive");
    assert_eq!(allowed["reason"], "robots_unavailable", "{allowed}");
    assert_ne!(allowed["policy"], denied["policy"], "judged by other settings");
    assert_eq!(origin.robots_fetches(), 2, "a state for each");
    proven(&gate);
}

#[test]
fn a_client_may_be_in_a_mode_of_its_own() {
    let tables = entry("trial", "mode = 'report'") + "[[client]]\nname = 'rest'\n";
    let gate = gate_with(&tables);
    gate.wait_said("[[client]] mode");
    let origin = Origin::with_rules(RULES);
    let url = origin.url("/private");
    gate.denies(&url);
    let mut wire = gate.connect();
    ask(&mut wire, &url, &basic("trial", PASSWORD)).is_origins(200, "page /private");
    let record = gate.record("the trial", |record| record["client"]["name"] == "trial");
    assert_eq!(record["mode"], "report", "{record}");
    assert_eq!(origin.seen_but_robots(), ["GET /private"]);
}
