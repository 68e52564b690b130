//! The users of the admin side: how they sign in, and what ends a user.

use std::io::Write as _;
use std::process::Stdio;
use std::sync::LazyLock;
use std::time::Instant;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::support::admin_gate::{json as body, problem};
use crate::support::{AdminGate, Origin, RULES, Response, eventually, wait_until};

/// The hash of `open sesame`.
static OPEN_SESAME: LazyLock<String> = LazyLock::new(|| {
    let hash = crawlgate_turns::client::passwords::hash(b"open sesame").unwrap();
    hash.reveal().to_owned()
});

/// The token of a user: the digest in `[[admin.user]]` is that of its name, sixteen times.
fn token(name: &str) -> String {
    name.repeat(16)
}

fn digest(token: &str) -> String {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, token.as_bytes());
    let digits: String = digest.as_ref().iter().map(|octet| format!("{octet:02x}")).collect();
    format!("sha256:{digits}")
}

/// A `[[admin.user]]` with a token.
fn user(name: &str, role: &str) -> String {
    let digest = digest(&token(name));
    format!("[[admin.user]]\nname = '{name}'\nrole = '{role}'\ntoken = '{digest}'\n")
}

/// A user of each role, with a token each, and one with a password.
pub(crate) fn users() -> String {
    [
        user("reader", "read"),
        user("viewer", "review"),
        user("worker", "operate"),
        format!("[[admin.user]]\nname = 'ada'\nrole = 'review'\npassword = '{}'\n", *OPEN_SESAME),
    ]
    .concat()
}

pub(crate) fn gate_with(tables: &str) -> AdminGate {
    AdminGate::with(|setup| setup.tables(tables))
}

pub(crate) fn bearer(name: &str) -> String {
    format!("Authorization: Bearer {}\r\n", token(name))
}

pub(crate) fn basic(pair: &str) -> String {
    format!("Authorization: Basic {}\r\n", STANDARD.encode(pair))
}

/// Sends a document of the API as this user.
pub(crate) fn send(
    gate: &AdminGate,
    who: &str,
    method: &str,
    path: &str,
    document: &Value,
) -> Response {
    let fields = format!("{}Content-Type: application/json\r\n", bearer(who));
    gate.ask(method, &format!("/api/v1{path}"), &fields, &document.to_string())
}

pub(crate) fn see(gate: &AdminGate, path: &str) -> Value {
    let answer = gate.ask("GET", &format!("/api/v1{path}"), &bearer("reader"), "");
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    body(&answer)
}

#[test]
fn a_user_signs_in_by_its_password_and_guesses_are_put_off() {
    let began = Instant::now();
    let gate = gate_with(&users());
    let ask = |pair: &str| gate.ask("GET", "/", &basic(pair), "");
    let answer = gate.get("/");
    let why = problem(&answer, 401);
    says!(why, "[[admin.user]]");
    assert!(answer.head.all("www-authenticate")[0].starts_with("Basic "), "{answer:?}");
    let page = ask("ada:open sesame").text();
    says!(page, "ada, review <a href=\"/sign-out?user=ada\">Sign out</a>");
    for pair in ["ada:open says me", "eve:open sesame", "reader:open sesame", "ada:"] {
        problem(&ask(pair), 401);
    }
    // An address has ten attempts at once, and another one after some seconds.
    let mut guesses = (0..100).map(|guess| ask(&format!("ada:guess {guess}")));
    let put_off = guesses.find(|answer| answer.status != 401).expect("put off");
    let why = problem(&put_off, 429);
    says!(why, "too many wrong passwords");
    assert!(put_off.field("retry-after").is_some(), "{put_off:?}");
    assert_eq!(ask("ada:open sesame").status, 200, "a password that is known to be right");
    // nginx takes 429 for an error.
    let mut guesses =
        (100..200).map(|guess| gate.ask("GET", "/auth", &basic(&format!("ada:guess {guess}")), ""));
    problem(&guesses.find(|answer| answer.status != 401).expect("put off"), 403);
    for target in ["/live", "/ready"] {
        assert_eq!(gate.get(target).status, 200, "{target}");
    }
    let told = gate.ask("GET", "/metrics", &bearer("reader"), "").text();
    let count = |reason: &str| -> u64 {
        let series = format!("crawlgate_admin_refusals_total{{reason=\"{reason}\"}} ");
        let (_, rest) = told.split_once(&series).unwrap_or_else(|| panic!("{series}: {told}"));
        rest.split_whitespace().next().unwrap().parse().unwrap()
    };
    assert!(count("credentials") >= 4 && count("attempts") >= 2, "{told}");
    assert_eq!(count("role"), 0);
    gate.wait_said("why=\"credentials\"");
    let said = gate.said();
    let lines: Vec<&str> = said.lines().filter(|line| line.contains("is refused")).collect();
    // Ten at once, then one in six seconds.
    let most = 10 + began.elapsed().as_secs() / 6 + 1;
    assert!(lines.len() as u64 <= most, "{lines:?}");
    assert!(lines[0].contains("peer=127.0.0.1:") && lines[0].contains("user=\"ada\""), "{lines:?}");
    lacks!(said, "guess", "sesame");
}

#[test]
fn a_reload_ends_a_user_and_changes_a_role() {
    let origin = Origin::with_rules(RULES);
    let mut gate = gate_with(&users());
    let id = gate.deny(&origin, "/private/a");
    let at = format!("/decisions/{id}/acknowledgement");
    let watch = format!(
        "GET /api/v1/decisions/live HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{}\r\n",
        gate.address,
        bearer("viewer")
    );
    let mut feed = crate::support::Wire::connect(gate.address);
    feed.send(watch);
    assert_eq!(feed.response_head().status, 200);
    problem(&send(&gate, "reader", "POST", &at, &json!({"note": "n"})), 403);
    let ada =
        |gate: &AdminGate| gate.ask("GET", "/api/v1/status", &basic("ada:open sesame"), "").status;
    assert_eq!(ada(&gate), 200);
    let tables = [user("reader", "review"), user("worker", "operate")].concat();
    gate.process.reload(|setup| setup.tables(&tables));
    let done = send(&gate, "reader", "POST", &at, &json!({"note": "n"}));
    assert_eq!(body(&done)["acknowledged"]["by"], "reader", "{done:?}");
    problem(&send(&gate, "viewer", "GET", "/status", &json!({})), 401);
    assert_eq!(ada(&gate), 401);
    // The feed of a user that is gone ends before the next event.
    gate.process.get(&origin.url("/private/after"));
    let rest = String::from_utf8_lossy(&feed.read_all()).into_owned();
    assert!(!rest.contains("/private/after"), "{rest}");
    // Only a restart opens the console, though it is on loopback.
    gate.process.reload_until(
        |setup| setup.tables(""),
        "the console refuses every request: the last [[admin.user]] is removed",
    );
    let why = problem(&gate.get("/api/v1/status"), 401);
    says!(why, "add one and reload, or restart");
    problem(&send(&gate, "worker", "GET", "/status", &json!({})), 401);
}

#[test]
fn a_reload_that_adds_users_ends_the_feeds_of_senders_without_a_name() {
    let mut gate = gate_with("");
    let mut feed = crate::support::Wire::connect(gate.address);
    feed.send(format!(
        "GET /api/v1/decisions/live HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
        gate.address
    ));
    assert_eq!(feed.response_head().status, 200);
    gate.process.reload(|setup| setup.tables(&users()));
    // No event comes: the feed ends by itself.
    let rest = String::from_utf8_lossy(&feed.read_all()).into_owned();
    assert!(rest.ends_with("\r\n0\r\n\r\n"), "{rest}");
    problem(&gate.get("/api/v1/status"), 401);
}

#[test]
fn an_export_ends_when_its_user_is_removed() {
    let origin = Origin::with_rules(RULES);
    let mut gate = gate_with(&users());
    // More octets than the pages under way and the sockets hold.
    let long = "x".repeat(15_000);
    for number in 0..500 {
        gate.process.get(&origin.url(&format!("/private/{number}-{long}")));
    }
    let last = gate.deny(&origin, "/private/last");
    eventually("the last record to be kept", || {
        let target = format!("/api/v1/decisions/{last}");
        (gate.ask("GET", &target, &bearer("viewer"), "").status == 200).then_some(())
    });
    let mut export = crate::support::Wire::connect(gate.address);
    export.send(format!(
        "GET /denials/export?format=jsonl HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{}\r\n",
        gate.address,
        bearer("viewer")
    ));
    assert_eq!(export.response_head().status, 200);
    let begin = String::from_utf8_lossy(&export.read(60_000)).into_owned();
    assert!(begin.contains("/private/0-"), "it has begun");
    gate.process.reload(|setup| setup.tables(&user("worker", "operate")));
    let rest = String::from_utf8_lossy(&export.read_all()).into_owned();
    assert!(!rest.contains("/private/last"), "it has gone on");
    assert!(!rest.ends_with("\r\n0\r\n\r\n"), "it looks complete");
    gate.wait_said("a reload has removed or changed the user that asked for it");
}

#[test]
fn beyond_loopback_a_removed_user_is_out_at_once() {
    let mut gate = AdminGate::with(|setup| {
        setup.set("admin", "address", "\"0.0.0.0:0\"");
        setup.tables(&users());
    });
    gate.wait_said("passwords and tokens for the console cross the network in the clear");
    gate.process.reload_until(
        |setup| {
            setup.set("admin", "address", "\"127.0.0.1:0\"");
            setup.tables("");
        },
        "these changes need a restart",
    );
    let host = format!("Host: 127.0.0.1:{}\r\n", gate.address.port());
    let ask =
        |fields: &str| gate.ask("GET", "/api/v1/status", &format!("{host}{fields}"), "").status;
    assert_eq!((ask(""), ask(&bearer("reader"))), (401, 401));
}

#[test]
fn signing_out_refuses_the_password_of_that_user_alone() {
    let gate = gate_with(&users());
    let ask = |target: &str| gate.ask("GET", target, &basic("ada:open sesame"), "");
    let answer = ask("/sign-out?user=ada").is(401);
    assert!(answer.head.all("www-authenticate")[0].starts_with("Basic "), "{answer:?}");
    // A page shows no user, and asks for nothing else: each further request would prompt again.
    let fields = format!("{}Accept: text/html\r\n", basic("ada:open sesame"));
    let page = gate.ask("GET", "/sign-out?user=ada", &fields, "").is(401);
    assert_eq!(page.head.all("www-authenticate").len(), 2, "{page:?}");
    let page = page.text();
    says!(page, "<h1>Signed out</h1>");
    for part in ["ada", "<nav", "stylesheet", "<script"] {
        assert!(!page.contains(part), "{part}: {page}");
    }
    // With another user's password, the same page leads to the overview.
    for target in ["/sign-out?user=reader", "/sign-out"] {
        let answer = ask(target);
        assert_eq!(
            (answer.status, answer.field("location").as_deref()),
            (303, Some("/")),
            "{target}"
        );
    }
}

#[test]
fn the_command_makes_users_that_the_running_process_takes_over() {
    let mut gate = gate_with(&users());
    let mut command = gate.setup.command("admin");
    let mut child = command
        .args(["user", "add", "grace", "--role", "review", "--password-stdin"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"a long password\n").unwrap();
    let output = child.wait_with_output().unwrap();
    let entry = String::from_utf8(output.stdout).unwrap();
    assert!(
        entry.starts_with(
            "[[admin.user]]\nname = \"grace\"\nrole = \"review\"\npassword = \"$argon2id$"
        ),
        "{entry}"
    );
    let (of_program, told) =
        gate.setup.ends(0, "admin", &["user", "add", "prom", "--role", "read", "--token"]);
    let (_, token) = told.trim_end().split_once("the token of prom: ").expect("a token");
    assert!(!of_program.contains(token), "{of_program}");
    let (_, told) =
        gate.setup.ends(2, "admin", &["user", "add", "ada", "--role", "read", "--generate"]);
    says!(told, "a user is named \"ada\" already");
    gate.process
        .reload(|setup| setup.tables(&[users(), entry.clone(), of_program.clone()].concat()));
    let (_, list, _) = gate.setup.run("admin", &["user", "list"]);
    says!(list, "grace   review   password\n");
    says!(list, "prom    read     token\n");
    let status = |fields: &str| gate.ask("GET", "/api/v1/status", fields, "").status;
    assert_eq!(status(&basic("grace:a long password")), 200);
    assert_eq!(status(&format!("Authorization: Bearer {token}\r\n")), 200);
    // The commands reach the process by its socket, without a user.
    let (code, said, told) = gate.beside("ready", &[]);
    assert_eq!((code, &*said), (Some(0), "ready\n"), "{told}");
    gate.setup.overrides("https://site.test", "/", "deny");
    wait_until("the override", || see(&gate, "/overrides")["items"][0]["by"] == "Ada Example");
}
