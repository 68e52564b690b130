//! Clients: their recognition and their settings.

use std::process::{Command, Stdio};
use std::thread;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::listeners;
use crate::opaque::{SWITCH, upgrade};
use crate::overrides::proven;
use crate::pace::held_and_broken_off;
use crate::support::{Gate, Origin, RULES, Reply, Response, Setup, Wire, origin_ca_pem};

/// A test's password, which must appear nowhere.
pub(crate) const PASSWORD: &str = "sesame-canary-4711";

const RELOADED: &str = "the configuration was read again";

/// Returns an entry with a hash that is cheap to check.
pub(crate) fn entry(name: &str, more: &str) -> String {
    use argon2::PasswordHasher as _;
    let params = argon2::Params::new(8, 1, 1, None).unwrap();
    let argon2 = argon2::Argon2::new(Default::default(), Default::default(), params);
    let hash: argon2::PasswordHash = argon2.hash_password(PASSWORD.as_bytes()).unwrap();
    format!("[[client]]\nname = '{name}'\npassword = '{hash}'\n{more}\n")
}

fn gate_with(tables: &str) -> Gate {
    Gate::with(|setup| {
        setup.tables(tables);
    })
}

/// Returns the field line for these credentials.
fn basic(user: &str, password: &str) -> String {
    let pair = STANDARD.encode(format!("{user}:{password}"));
    format!("Proxy-Authorization: Basic {pair}\r\n")
}

fn ask(wire: &mut Wire, url: &str, fields: &str) -> Response {
    let authority = url.split('/').nth(2).unwrap();
    wire.exchange(format!(
        "GET {url} HTTP/1.1\r\nHost: {authority}\r\nUser-Agent: TestBot/1.0\r\n{fields}\r\n"
    ))
}

fn connect(wire: &mut Wire, authority: &str, fields: &str) -> Response {
    wire.exchange(format!(
        "CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\nUser-Agent: TestBot/1.0\r\n{fields}\r\n"
    ))
}

/// Asserts that no output of the gate holds the password, plain or encoded.
#[track_caller]
fn kept_secret(gate: &Gate) {
    let encoded = STANDARD.encode(format!("news:{PASSWORD}"));
    let mut written = vec![gate.said().into_bytes()];
    for file in std::fs::read_dir(gate.setup.dir()).unwrap() {
        let path = file.unwrap().path();
        if path.is_file() {
            written.push(std::fs::read(path).unwrap());
        }
    }
    for text in written {
        for secret in [PASSWORD, &encoded] {
            let found = memchr::memmem::find(&text, secret.as_bytes());
            assert!(found.is_none(), "{}", String::from_utf8_lossy(&text));
        }
    }
}

#[test]
fn a_client_is_known_by_its_network_and_judged_as_it_is_configured() {
    let gate = gate_with(
        "[[client]]\nname = 'far'\nnetworks = '10.0.0.0/8'\n\
         [[client]]\nname = 'near'\nnetworks = '127.0.0.0/8'\nproduct_tokens = ['OtherBot', 'TestBot']\n",
    );
    let rules = "User-agent: OtherBot\nDisallow: /theirs\nUser-agent: TestBot\nDisallow: /mine\n";
    let origin = Origin::with_rules(rules);
    gate.get(&origin.url("/mine")).is_origins(200, "page /mine");
    let record = gate.denied(&gate.get(&origin.url("/theirs")));
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
fn whoever_fits_no_client_is_refused_before_anything_is_asked() {
    let gate = gate_with("[[client]]\nname = 'far'\nnetworks = '10.0.0.0/8'\n");
    let origin = Origin::with_rules(RULES);
    let answer = gate.get(&origin.url("/open"));
    let record = gate.refused(&answer, 403, "unknown_client");
    assert_eq!(record["client"]["name"], Value::Null, "{record}");
    let mut wire = gate.connect();
    let answer = connect(&mut wire, &format!("site.test:{}", origin.port()), "");
    gate.refused(&answer, 403, "unknown_client");
    assert!(wire.is_closed(), "a refused CONNECT ends its connection");
    assert_eq!(origin.seen().len(), 0);
}

#[test]
fn credentials_are_asked_for_checked_and_passed_on_to_nobody() {
    let gate = Gate::with(|setup| {
        setup
            .tables(&entry("news", "product_tokens = 'TestBot'"))
            .set("log", "level", "\"trace\"");
    });
    let origin = Origin::with_rules(RULES);
    let url = origin.url("/open");
    let mut wire = gate.connect();
    let answer = ask(&mut wire, &url, "");
    gate.refused(&answer, 407, "unauthenticated");
    assert_eq!(
        answer.field("proxy-authenticate").as_deref(),
        Some("Basic realm=\"crawlgate\", charset=\"UTF-8\"")
    );
    assert_eq!(origin.seen().len(), 0);
    // The same connection goes on.
    for _ in 0..3 {
        ask(&mut wire, &url, &basic("news", PASSWORD)).is_origins(200, "page /open");
    }
    let record = gate.record("the client", |record| record["status"] == 200);
    assert_eq!(record["client"]["name"], "news", "{record}");
    // Credentials of an earlier request do not count for a request without any.
    gate.refused(&ask(&mut wire, &url, ""), 407, "unauthenticated");
    for head in origin.seen() {
        assert_eq!(head.head.field("proxy-authorization"), None);
    }
    kept_secret(&gate);
    proven(&gate);
}

#[test]
fn what_is_in_a_tunnel_is_of_whoever_opened_it() {
    let gate = gate_with(&entry("news", ""));
    let origin = Origin::https().robots(RULES);
    let authority = format!("site.test:{}", origin.port());
    let mut wire = gate.connect();
    let answer = connect(&mut wire, &authority, "");
    gate.refused(&answer, 407, "unauthenticated");
    assert!(wire.is_closed());
    let mut wire = gate.connect();
    let answer = connect(&mut wire, &authority, &basic("news", PASSWORD));
    assert_eq!(answer.status, 200, "{answer:?}");
    let mut wire = wire.tls("site.test", &gate.ca_pem());
    wire.get_inside(&authority, "/open")
        .is_origins(200, "page /open");
    let record = gate.denied(&wire.get_inside(&authority, "/private"));
    assert_eq!(record["client"]["name"], "news", "{record}");
    kept_secret(&gate);
}

#[test]
fn credentials_count_only_where_nobody_can_listen() {
    let tables = "[[listener]]\nname = 'tls'\naddress = '127.0.0.1:0'\ntls = true\nnames = 'localhost'\n\
         [[listener]]\nname = 'balanced'\naddress = '127.0.0.1:0'\nallow = '192.0.2.0/24'\n\
         proxy_protocol_from = '127.0.0.1'\n";
    let (gate, places) = listeners::gate_with(&(tables.to_owned() + &entry("news", "")), 3);
    let [_, tls, balanced] = places.as_slice() else {
        panic!("three listeners")
    };
    let origin = Origin::with_rules(RULES);
    let url = origin.url("/open");
    let right = basic("news", PASSWORD);
    let mut wire = listeners::at(tls).tls("localhost", &gate.ca_pem());
    gate.refused(&ask(&mut wire, &url, ""), 407, "unauthenticated");
    ask(&mut wire, &url, &right).is_origins(200, "page /open");
    // From a remote address, through a load balancer, without TLS.
    let mut wire = listeners::at(balanced);
    wire.send("PROXY TCP4 192.0.2.7 127.0.0.1 40000 80\r\n");
    let answer = ask(&mut wire, &url, &right);
    gate.refused(&answer, 403, "unknown_client");
    assert_eq!(answer.field("proxy-authenticate"), None, "{answer:?}");
    assert_eq!(origin.seen_but_robots(), ["GET /open"]);
    kept_secret(&gate);
}

#[test]
fn wrong_credentials_are_recorded_and_after_a_few_ignored() {
    let gate = gate_with(&entry("news", ""));
    let origin = Origin::with_rules(RULES);
    let url = origin.url("/open");
    let right = basic("news", PASSWORD);
    let mut known = gate.connect();
    ask(&mut known, &url, &right).is_origins(200, "page /open");
    let mut wire = gate.connect();
    let mut put_off = 0;
    for n in 0..30 {
        let answer = ask(&mut wire, &url, &basic("news", &format!("wrong {n}")));
        if answer.status == 407 {
            gate.refused(&answer, 407, "unauthenticated");
        } else {
            gate.refused(&answer, 429, "unauthenticated");
            let seconds: u64 = answer.field("retry-after").unwrap().parse().unwrap();
            assert!((1..=60).contains(&seconds), "{answer:?}");
            put_off += 1;
        }
    }
    assert!((15..=21).contains(&put_off), "{put_off} were put off");
    // The right credentials are cached, on this connection and on others.
    ask(&mut known, &url, &right).is_origins(200, "page /open");
    ask(&mut gate.connect(), &url, &right).is_origins(200, "page /open");
    assert_eq!(origin.seen_but_robots().len(), 3);
    for malformed in ["Basic !", "Bearer x", "Basic bmV3cw==", ""] {
        let answer = ask(
            &mut gate.connect(),
            &url,
            &format!("Proxy-Authorization: {malformed}\r\n"),
        );
        gate.refused(&answer, 407, "unauthenticated");
    }
    assert_eq!(origin.seen_but_robots().len(), 3);
}

#[test]
fn a_program_with_an_old_password_locks_out_no_other() {
    let gate = gate_with(&entry("news", ""));
    let origin = Origin::with_rules(RULES);
    let url = origin.url("/open");
    let mut wire = gate.connect();
    for _ in 0..50 {
        let answer = ask(&mut wire, &url, &basic("news", "of last year"));
        gate.refused(&answer, 407, "unauthenticated");
    }
    // From the same address, and not seen before.
    let right = basic("news", PASSWORD);
    ask(&mut gate.connect(), &url, &right).is_origins(200, "page /open");
    assert_eq!(origin.seen_but_robots().len(), 1);
}

#[test]
fn a_flood_of_wrong_passwords_stops_no_right_one() {
    let (one, other) = (entry("news", ""), entry("side", ""));
    let gate = gate_with(&(one + &other));
    let origin = Origin::with_rules(RULES);
    let url = origin.url("/open");
    thread::scope(|scope| {
        for flood in 0..8 {
            let (gate, url) = (&gate, &url);
            scope.spawn(move || {
                let mut wire = gate.connect();
                for n in 0..50 {
                    let user = if n % 2 == 0 { "side" } else { "nobody" };
                    let answer = ask(&mut wire, url, &basic(user, &format!("{flood}-{n}")));
                    assert!(matches!(answer.status, 407 | 429), "{answer:?}");
                }
            });
        }
        // All at once, before any is cached.
        for _ in 0..200 {
            let (gate, url) = (&gate, &url);
            scope.spawn(move || {
                let answer = ask(&mut gate.connect(), url, &basic("news", PASSWORD));
                answer.is_origins(200, "page /open");
            });
        }
    });
    assert_eq!(origin.seen_but_robots().len(), 200);
}

#[test]
fn a_reload_ends_what_belongs_to_nobody_any_more() {
    let tunnels = |setup: &mut Setup, tables: &str| {
        setup.set("tls", "tunnel", "[\"bank.test\"]").tables(tables);
    };
    let news = entry("news", "") + &entry("other", "");
    let mut gate = Gate::with(|setup| tunnels(setup, &news));
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
    tunnel
        .get_inside(&inside, "/open")
        .is_origins(200, "page /open");
    let bank = format!("bank.test:{}", https.port());
    let mut wire = gate.connect();
    assert_eq!(connect(&mut wire, &bank, &right).status, 200);
    let mut opaque = wire.tls("bank.test", origin_ca_pem());
    opaque
        .get_inside(&bank, "/open")
        .is_origins(200, "page /open");

    let mut socket = gate.connect();
    let shaking = upgrade(&http.url("/socket"), &http.authority());
    let shaking = shaking.replacen("\r\n\r\n", &format!("\r\n{right}\r\n"), 1);
    assert_eq!(socket.exchange(shaking).status, 101);

    // An unchanged client goes on; another hash of the same password counts as another condition.
    gate.reload(|_| (), RELOADED);
    ask(&mut plain, &url, &right).is_origins(200, "page /open");
    tunnel
        .get_inside(&inside, "/open")
        .is_origins(200, "page /open");
    opaque
        .get_inside(&bank, "/open")
        .is_origins(200, "page /open");
    socket.send(b"still");
    assert_eq!(socket.read(5), b"still");

    let seen = (http.seen().len(), https.seen().len());
    gate.reload(|setup| tunnels(setup, &entry("other", "")), RELOADED);
    gate.refused(&ask(&mut plain, &url, &right), 407, "unauthenticated");
    gate.refused(&tunnel.get_inside(&inside, "/open"), 403, "unknown_client");
    opaque.drain();
    socket.drain();
    assert_eq!((http.seen().len(), https.seen().len()), seen);
    let record = gate.record("the tunnel", |record| record["opaque"] == true);
    assert_eq!(record["error"], "http_request_denied", "{record}");
    let record = gate.record_of(&http.url("/socket"));
    assert_eq!(record["error"], "http_request_denied", "{record}");
}

#[test]
fn a_crawler_that_is_judged_as_another_is_recorded_or_denied() {
    let mut gate = Gate::with(|setup| {
        setup.set("agent", "product_tokens", "[\"OtherBot\"]");
    });
    let origin = Origin::with_rules(RULES);
    let url = origin.url("/open");
    gate.get(&url).is_origins(200, "page /open");
    let record = gate.record_of(&url);
    assert_eq!(record["agent"]["mismatch"], true, "{record}");
    let unasked = Origin::with_rules(RULES);
    gate.reload(
        |setup| {
            setup.set("agent", "mismatch", "\"deny\"");
        },
        RELOADED,
    );
    let record = gate.refused(&gate.get(&unasked.url("/open")), 403, "agent_mismatch");
    assert_eq!(record["robots"], Value::Null, "{record}");
    assert_eq!(unasked.seen().len(), 0, "not even its robots.txt");
    // robots.txt itself is open to every crawler.
    assert_eq!(gate.get(&unasked.url("/robots.txt")).text(), RULES);
    gate.reload(
        |setup| {
            setup.set("policy", "mode", "\"report\"");
        },
        RELOADED,
    );
    gate.get(&url).is_origins(200, "page /open");
    let record = gate.record("the report", |record| record["mode"] == "report");
    assert_eq!(record["reason"], "agent_mismatch", "{record}");
    proven(&gate);
}

#[test]
fn what_the_origin_does_not_see_identifies_no_crawler() {
    let gate = Gate::with(|setup| {
        setup.set("agent", "product_tokens", "[\"TestBot\"]");
        setup.set("agent", "mismatch", "\"deny\"");
    });
    let origin = Origin::with_rules(RULES);
    let url = origin.url("/open");
    let nominated = gate.request("GET", &url, "Connection: keep-alive, User-agent\r\n");
    let record = gate.refused(&nominated, 403, "agent_mismatch");
    assert_eq!(record["user_agent"], Value::Null, "{record}");
    let twice = gate.request("GET", &url, "User-Agent: OtherBot/1.0\r\n");
    gate.refused(&twice, 400, "bad_request");
    let inside = Origin::https().robots(RULES);
    let twice = gate.request("GET", &inside.url("/open"), "User-Agent: OtherBot/1.0\r\n");
    gate.refused(&twice, 400, "bad_request");
    assert_eq!(origin.seen().len() + inside.seen().len(), 0);
    gate.get(&url).is_origins(200, "page /open");
    let seen = origin.last("/open").head;
    assert_eq!(seen.field("user-agent").as_deref(), Some("TestBot/1.0"));
}

#[test]
fn whoever_names_no_product_token_may_be_required_to() {
    let gate = Gate::with(|setup| {
        setup.set("agent", "require_identity", "true");
    });
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
    gate.get(&origin.url("/open")).is_origins(200, "page /open");
}

#[test]
fn an_outage_means_what_the_profile_of_the_client_says() {
    let gate = gate_with(
        &(entry("archive", "profile = 'archive'")
            + "[[client]]\nname = 'rest'\nnetworks = '127.0.0.0/8'\n"),
    );
    let origin = Origin::http().on("/robots.txt", [Reply::status(500, "")]);
    let url = origin.url("/x");
    let denied = gate.refused(&gate.get(&url), 403, "robots_unreachable");
    let mut wire = gate.connect();
    ask(&mut wire, &url, &basic("archive", PASSWORD)).is_origins(200, "page /x");
    let allowed = gate.record("the archive", |record| {
        record["client"]["name"] == "archive"
    });
    assert_eq!(allowed["reason"], "robots_unavailable", "{allowed}");
    assert_ne!(
        allowed["policy"], denied["policy"],
        "judged by other settings"
    );
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
    gate.denied(&gate.get(&url));
    let mut wire = gate.connect();
    ask(&mut wire, &url, &basic("trial", PASSWORD)).is_origins(200, "page /private");
    let record = gate.record("the trial", |record| record["client"]["name"] == "trial");
    assert_eq!(record["mode"], "report", "{record}");
    assert_eq!(origin.seen_but_robots(), ["GET /private"]);
}

#[test]
fn what_a_client_may_have_is_had_once() {
    let mut gate = gate_with(
        "[[client]]\nname = 'rest'\nquota = { requests = 3, bytes = '1MiB', per = '365d' }\n",
    );
    let origin = Origin::with_rules(RULES);
    let url = |n| origin.url(&format!("/open/{n}"));
    gate.get(&url(1)).is_origins(200, "page /open/1");
    // A denial counts like any other request, because its record takes room.
    gate.denied(&gate.get(&origin.url("/private")));
    gate.get(&url(2)).is_origins(200, "page /open/2");
    let answer = gate.get(&url(3));
    gate.refused(&answer, 429, "quota_spent");
    assert!(answer.field("retry-after").is_some(), "{answer:?}");
    assert_eq!(origin.seen_but_robots(), ["GET /open/1", "GET /open/2"]);
    // A crawler's request for robots.txt counts like any other.
    gate.refused(&gate.get(&origin.url("/robots.txt")), 429, "quota_spent");
    // A reload that allows more keeps the usage so far.
    gate.reload(
        |setup| {
            setup.tables("[[client]]\nname = 'rest'\nquota = { requests = 4, per = '365d' }\n");
        },
        RELOADED,
    );
    gate.get(&url(4)).is_origins(200, "page /open/4");
    gate.refused(&gate.get(&url(5)), 429, "quota_spent");
}

#[test]
fn the_octets_of_a_quota_are_counted_when_a_request_ends() {
    let gate = gate_with("[[client]]\nname = 'rest'\nquota = { bytes = 8, per = '365d' }\n");
    let origin = Origin::with_rules(RULES);
    let url = |n: u32| origin.url(&format!("/{n}"));
    // Answers of crawlgate itself cost nothing.
    for _ in 0..2 {
        gate.denied(&gate.get(&origin.url("/private")));
    }
    // First seven octets, then more than eight.
    for n in 1..=2 {
        gate.get(&url(n)).is_origins(200, &format!("page /{n}"));
        gate.record_of(&url(n));
    }
    gate.refused(&gate.get(&url(3)), 429, "quota_spent");
    assert_eq!(origin.seen_but_robots(), ["GET /1", "GET /2"]);
}

#[test]
fn a_client_that_disconnects_while_held_keeps_no_turn() {
    let gate = Gate::with(|setup| {
        setup
            .set("pace", "max_hold", "\"150s\"")
            .tables("[[client]]\nname = 'rest'\nrequests_per_second = 0.01\n");
    });
    let origin = Origin::with_rules(RULES);
    gate.get(&origin.url("/a")).is_origins(200, "page /a");
    for _ in 0..3 {
        // The hold would have ended after 100 seconds; if earlier turns were kept, both requests would be refused.
        let record = held_and_broken_off(&gate, &origin, "quota_spent");
        assert_eq!(record["reason"], "robots_allow", "{record}");
    }
    assert_eq!(origin.seen_but_robots(), ["GET /a"]);
}

#[test]
fn a_client_that_is_too_fast_is_held_or_refused() {
    let gate = Gate::with(|setup| {
        setup
            .set("pace", "max_hold", "\"400ms\"")
            .tables("[[client]]\nname = 'rest'\nrequests_per_second = 4\n");
    });
    let (one, other) = (Origin::with_rules(RULES), Origin::with_rules(RULES));
    gate.get(&one.url("/a")).is_origins(200, "page /a");
    // Over all origins together: the turn comes after a quarter of a second.
    gate.get(&other.url("/b")).is_origins(200, "page /b");
    let record = gate.record_of(&other.url("/b"));
    assert!(record["hold_ms"].as_f64().unwrap() > 1.0, "{record}");
    let answers: Vec<Response> = thread::scope(|scope| {
        let threads: Vec<_> = (0..6)
            .map(|n| {
                let (gate, url) = (&gate, one.url(&format!("/{n}")));
                scope.spawn(move || gate.get(&url))
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    let refused: Vec<_> = answers
        .iter()
        .filter(|answer| answer.status == 429)
        .collect();
    assert!(!refused.is_empty(), "{answers:?}");
    for answer in refused {
        gate.refused(answer, 429, "quota_spent");
        assert_eq!(
            answer.field("retry-after").as_deref(),
            Some("1"),
            "{answer:?}"
        );
    }
}

#[test]
fn entries_are_created_listed_and_checked_by_command() {
    let setup = Setup::new();
    let client = |setup: &Setup, words: &[&str], input: &str| {
        let mut command = setup.command("client");
        let child = command.args(words).stdin(Stdio::piped()).spawn();
        let mut child = child.unwrap();
        let mut stdin = child.stdin.take().unwrap();
        std::io::Write::write_all(&mut stdin, input.as_bytes()).unwrap();
        drop(stdin);
        let output = child.wait_with_output().unwrap();
        let text = |octets: Vec<u8>| String::from_utf8(octets).unwrap();
        (
            output.status.code(),
            text(output.stdout),
            text(output.stderr),
        )
    };
    let line = format!("{PASSWORD}\n");
    let words = ["add", "news", "--agent", "NewsBot", "--password-stdin"];
    let (code, made, said) = client(&setup, &words, &line);
    assert_eq!(code, Some(0), "{said}");
    assert!(
        made.starts_with(
            "[[client]]\nname = \"news\"\npassword = \"$argon2id$v=19$m=19456,t=2,p=1$"
        )
    );
    assert!(
        !made.contains(PASSWORD) && !said.contains(PASSWORD),
        "{made}{said}"
    );

    let mut setup = setup;
    setup.tables(&made);
    for (words, input, code, told) in [
        (&["check", "news"][..], &*line, 0, "news: right\n"),
        (&["check", "news"], "another one\n", 1, "news: wrong\n"),
        (
            &["list"],
            "",
            0,
            "name  recognised by  product tokens  mode\nnews  password       NewsBot         -\n",
        ),
        (
            &["check", "nobody"],
            &line,
            2,
            "no client is named \"nobody\"; there are: news",
        ),
        (
            &["add", "news", "--generate"],
            "",
            2,
            "a client is named \"news\" already",
        ),
        (
            &["add", "side", "--password-stdin"],
            "short\n",
            2,
            "a password has at least 8 octets",
        ),
        (
            &["add", "Side", "--generate"],
            "",
            2,
            "expected a name of 1 to 64",
        ),
        (&["add", "side"], "", 2, ""),
    ] {
        let (found, out, said) = client(&setup, words, input);
        assert_eq!(found, Some(code), "{words:?}: {out}{said}");
        assert!((out + &said).contains(told), "{words:?}: {said}");
    }
    // The created entry lets the client in.
    let gate = Gate::with(|setup| {
        setup.tables(&made);
    });
    let origin = Origin::with_rules(RULES);
    let answer = ask(
        &mut gate.connect(),
        &origin.url("/open"),
        &basic("news", PASSWORD),
    );
    answer.is_origins(200, "page /open");
    kept_secret(&gate);
}

#[test]
fn a_run_is_unnamed_or_the_named_client() {
    let mut setup = Setup::new();
    setup.tables(
        &(entry("news", "product_tokens = 'OtherBot'") + &entry("trial", "mode = 'report'")),
    );
    let origin = Origin::with_rules("User-agent: OtherBot\nDisallow: /\n");
    let run = |words: &[&str]| {
        let curl = ["--", "curl", "-s", "-o", "/dev/null", "-w", "%{http_code}"];
        let mut command = setup.command("run");
        let output = command
            .args(words)
            .args(curl)
            .arg(origin.url("/x"))
            .output()
            .unwrap();
        let (out, said) = (output.stdout, output.stderr);
        format!(
            "{}{}",
            String::from_utf8_lossy(&out),
            String::from_utf8_lossy(&said)
        )
    };
    for (words, told) in [
        (&["-q"][..], "200"),
        (&["-q", "--client", "news"], "403"),
        (&["-q", "--client", "news", "--report"], "200"),
        (&["-q", "--client", "nobody"], "there are: news, trial"),
    ] {
        let said = run(words);
        assert!(said.contains(told), "{words:?}: {said}");
    }
}

/// Runs a real client for an allowed and a disallowed page, over HTTP and HTTPS, with right and with wrong credentials.
/// `command` gets the proxy, the CA file and the URL, and returns a command that prints the status; for a refused
/// CONNECT, the status of the CONNECT.
fn real_client(probe: &[&str], command: impl Fn(&str, &str, &str) -> Vec<String>) {
    let (program, words) = probe.split_first().unwrap();
    let probed = Command::new(program).args(words).output();
    if !probed.is_ok_and(|output| output.status.success()) {
        let required = std::env::var("CRAWLGATE_REQUIRE_CLIENTS").is_ok_and(|value| value == "1");
        assert!(!required, "{probe:?} does not work");
        return;
    }
    let gate = gate_with(&entry("news", ""));
    let (http, https) = (Origin::with_rules(RULES), Origin::https().robots(RULES));
    let page = |origin: &Origin, path: &str| {
        let scheme = origin.url("/").split_once(':').unwrap().0.to_owned();
        format!("{scheme}://site.test:{}{path}", origin.port())
    };
    let ca = gate.setup.dir().join("ca.crt");
    for (password, want) in [(PASSWORD, ["200", "403"]), ("wrong", ["407", "407"])] {
        let proxy = format!("http://news:{password}@{}", gate.address);
        for origin in [&http, &https] {
            for (path, want) in ["/open", "/private"].into_iter().zip(want) {
                let words = command(&proxy, ca.to_str().unwrap(), &page(origin, path));
                let (program, words) = words.split_first().unwrap();
                let mut command = Command::new(program);
                for name in ["http_proxy", "https_proxy", "all_proxy", "no_proxy"] {
                    command.env_remove(name).env_remove(name.to_uppercase());
                }
                let output = command.args(words).output().unwrap();
                let printed = String::from_utf8_lossy(&output.stdout).into_owned();
                let said = String::from_utf8_lossy(&output.stderr);
                assert_eq!(printed.trim(), want, "{password} {path}: {said}");
            }
        }
    }
    assert_eq!(http.seen_but_robots(), ["GET /open"]);
    assert_eq!(https.seen_but_robots(), ["GET /open"]);
}

fn curl(dance: &str, proxy: &str, ca: &str, url: &str) -> Vec<String> {
    // For a refused CONNECT, curl prints no status of the request.
    let script = "set -- $(curl -s -o /dev/null -w '%{http_code} %{http_connect}' \"$@\"); \
        if [ $1 = 000 ]; then echo $2; else echo $1; fi";
    let words = [
        "sh",
        "-c",
        script,
        "sh",
        dance,
        "-x",
        proxy,
        "--cacert",
        ca,
        "-A",
        "TestBot/1.0",
        url,
    ];
    words.map(str::to_owned).to_vec()
}

#[test]
fn curl_sends_its_credentials_at_once_or_after_a_407() {
    for dance in ["--proxy-basic", "--proxy-anyauth"] {
        real_client(&["curl", "--version"], |proxy, ca, url| {
            curl(dance, proxy, ca, url)
        });
    }
}

#[test]
fn requests_sends_the_credentials_of_its_proxy() {
    let script = "import sys, requests\nproxy, ca, url = sys.argv[1:]\n\
        try: print(requests.get(url, proxies={'http': proxy, 'https': proxy}, verify=ca, headers={'User-Agent': 'TestBot/1.0'}).status_code)\n\
        except requests.exceptions.ProxyError as error: print(407 if '407' in str(error) else error)\n";
    real_client(&["python3", "-c", "import requests"], |proxy, ca, url| {
        ["python3", "-c", script, proxy, ca, url]
            .map(str::to_owned)
            .to_vec()
    });
}

#[test]
fn urllib_sends_the_credentials_of_its_proxy() {
    let script = "import sys, ssl, urllib.request as u, urllib.error\nproxy, ca, url = sys.argv[1:]\n\
        opener = u.build_opener(u.ProxyHandler({'http': proxy, 'https': proxy}), u.HTTPSHandler(context=ssl.create_default_context(cafile=ca)))\n\
        opener.addheaders = [('User-Agent', 'TestBot/1.0')]\n\
        try: print(opener.open(url).status)\n\
        except urllib.error.HTTPError as error: print(error.code)\n\
        except OSError as error: print(407 if '407' in str(error) else error)\n";
    real_client(&["python3", "--version"], |proxy, ca, url| {
        ["python3", "-c", script, proxy, ca, url]
            .map(str::to_owned)
            .to_vec()
    });
}
