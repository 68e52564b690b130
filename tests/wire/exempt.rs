//! Clients that the operator has exempted from what robots.txt disallows. Page: `docs/clients.md`.

use serde_json::{Value, json};

use crate::clients::{PASSWORD, ask, basic, connect, entry};
use crate::opaque::{SWITCH, upgrade};
use crate::overrides::proven;
use crate::support::{
    AdminGate, CrawlgateProcess, Origin, RULES, Reply, Response, Setup, eventually,
};

/// The operator's reason.
const WHY: &str = "a person asks for each page";

/// Returns the tables of a client that is exempt, and of one for all others.
fn clients(more: &str) -> String {
    let exempt = entry("helper", &format!("exempt = '{WHY}'\n{more}"));
    exempt + "[[client]]\nname = 'rest'\nnetworks = '127.0.0.0/8'\n"
}

/// Takes the exemption away.
fn without(clients: &str) -> String {
    clients.replace(&format!("exempt = '{WHY}'\n"), "")
}

/// Returns a gate with these tables that records no more than it must.
fn gate(tables: &str) -> CrawlgateProcess {
    CrawlgateProcess::with(|setup| {
        setup.set("log", "decisions", "\"denied\"");
        setup.set("tls", "tunnel", "[\"bank.test\"]");
        setup.tables(tables);
    })
}

fn helper(gate: &CrawlgateProcess, url: &str) -> Response {
    ask(&mut gate.connect(), url, &basic("helper", PASSWORD))
}

fn count(gate: &CrawlgateProcess, words: &[&str]) -> usize {
    let listed = gate.succeeds("log", &[words, &["--json"]].concat());
    listed.lines().count()
}

/// Asserts that a record tells of an exemption from this reason.
#[track_caller]
fn is_exempted(record: &Value, from: &str) {
    let found = ["mode", "verdict", "reason"].map(|name| record[name].as_str().unwrap());
    assert_eq!(found, ["enforce", "allow", "client_exempt"], "{record}");
    let exempt = json!({"from": from, "reason": WHY});
    has!(record, {"exempt": exempt, "client.name": "helper", "robots.state": "successful"});
}

#[test]
fn a_disallowed_page_goes_out_and_its_record_has_the_rule_and_the_reason() {
    let origin = Origin::with_rules(RULES);
    let clients = clients("");
    let mut gate = gate(&clients);
    gate.wait_said("exempt clients: what robots.txt disallows is forwarded for them");
    let (page, guarded) = ("/private/x", "/a/%2e%2e/private/y");
    for (path, from) in [(page, "robots_disallow"), (guarded, "path_guard")] {
        let url = origin.url(path);
        helper(&gate, &url).is_origins(200, &format!("page {path}"));
        let record = gate.record_of(&url);
        is_exempted(&record, from);
        assert_eq!(record["rule"]["text"], "Disallow: /private", "{record}");
    }
    helper(&gate, &origin.url("/open")).is_origins(200, "page /open");
    let seen = [page, guarded, "/open"].map(|path| format!("GET {path}"));
    assert_eq!(origin.seen_but_robots(), seen);

    // Another client beside it.
    has!(gate.denies(&origin.url(page)), {"client.name": "rest", "exempt": null});
    assert_eq!(origin.seen_but_robots(), seen);
    assert_eq!(count(&gate, &["--exempt"]), 2);
    assert_eq!(count(&gate, &["--verdict", "deny"]), 1);
    let settings = |gate: &CrawlgateProcess| {
        let mut lines = gate.log_lines().into_iter().rev();
        let settings = lines.find(|line| line["event"] == "settings");
        settings.unwrap()["exempt_clients"].clone()
    };
    assert_eq!(settings(&gate), json!([format!("helper: {WHY}")]));

    // The same client without the exemption.
    let change = |setup: &mut Setup| setup.tables(&without(&clients));
    gate.reload(change);
    gate.denied(&helper(&gate, &origin.url(page)));
    assert!(settings(&gate).is_null());
    assert_eq!(origin.seen_but_robots(), seen);
    proven(&gate);
}

#[test]
fn nothing_but_the_rules_of_robots_txt_is_lifted() {
    let rules = format!("{RULES}Content-Usage: train-ai=n\n");
    let (listed, stated) = (Origin::with_rules(RULES), Origin::with_rules(&rules));
    let down = Origin::http().on("/robots.txt", [Reply::status(503, "")]);
    let clients = clients("purposes = ['train-ai']");
    let gate = gate(&format!(
        "{clients}[[override]]\norigin = '{}'\naction = 'deny'\nby = 'Ada'\nreason = 'a letter'\n",
        listed.url("")
    ));
    for (origin, status, reason) in [
        (&listed, 403, "operator_deny"),
        (&down, 503, "robots_unreachable"),
        (&stated, 403, "usage_disallow"),
    ] {
        let record = gate.refused(&helper(&gate, &origin.url("/private/x")), status, reason);
        let is_exempt = record["exempt"]["from"] == "robots_disallow";
        assert_eq!(is_exempt, reason == "usage_disallow", "{record}");
        assert_eq!(origin.seen_but_robots(), [""; 0], "{reason}");
    }
    assert_eq!(count(&gate, &["--exempt"]), 0);
    proven(&gate);
}

#[test]
fn report_mode_counts_no_exempt_request_as_a_denial() {
    let gate = AdminGate::with(|setup| {
        setup.set("policy", "mode", "\"report\"");
        setup.set("log", "decisions", "\"denied\"");
        setup.tables(&clients(""));
    });
    let origin = Origin::with_rules(RULES);
    let (page, other) = (origin.url("/private/x"), origin.url("/private/y"));
    for _ in 0..3 {
        helper(&gate, &page).is_origins(200, "page /private/x");
    }
    // The denial that report mode lifts for another client is the one that counts.
    gate.process.get(&other).is_origins(200, "page /private/y");
    has!(gate.record_of(&other), {"verdict": "deny"});
    let record = gate.record_of(&page);
    let found = ["mode", "verdict", "reason"].map(|name| record[name].as_str().unwrap());
    assert_eq!(found, ["report", "allow", "client_exempt"], "{record}");
    assert_eq!(record["exempt"]["from"], "robots_disallow", "{record}");
    let counted = |verdict: &str, reason: &str, count: u64| {
        format!(
            "crawlgate_decisions_total{{verdict=\"{verdict}\",reason=\"{reason}\",mode=\"report\"}} {count}\n"
        )
    };
    eventually("the counts", || {
        let metrics = gate.get("/metrics").text();
        let exempt = counted("allow", "client_exempt", 3);
        let denied = counted("deny", "robots_disallow", 1);
        (metrics.contains(&exempt) && metrics.contains(&denied)).then_some(())
    });
    let overview = gate.get("/").text();
    says!(
        overview,
        "<span class=\"count\">4</span> <span class=\"name\">Forwarded</span>",
        "<span class=\"count\">1</span> <span class=\"name\">Would be denied</span>"
    );
    assert!(!overview.contains("client_exempt"), "{overview}");
    let banner = format!(
        "<p>Report mode: everything is decided and recorded, nothing is denied</p>\
         <p>Exempt from what robots.txt disallows: helper ({WHY})</p></aside>"
    );
    says!(overview, &banner);
    assert_eq!(count(&gate, &["--exempt"]), 3);
    assert_eq!(count(&gate, &["--verdict", "deny"]), 1);

    let report = gate.succeeds("report", &["--since", "1h", "--json", "-"]);
    let report: Value = serde_json::from_str(&report).unwrap();
    let figures = ["requests", "forwarded", "reported", "denied"];
    let figures = figures.map(|name| report["summary"][name].as_u64());
    assert_eq!(figures, [4, 4, 1, 0].map(Some), "{report}");
    proven(&gate);
}

#[test]
fn the_target_of_a_redirect_is_exempted_by_its_own_robots_txt() {
    let there = Origin::with_rules(RULES);
    let target = there.url("/private/x");
    let moved = Reply::with(302, &format!("Location: {target}\r\n"), "");
    let here = Origin::with_rules("").on("/go", [moved]);
    let gate = gate(&clients(""));
    let answer = helper(&gate, &here.url("/go"));
    answer.field_is("location", Some(&*target));
    assert_eq!(there.seen().len(), 0, "crawlgate follows none");
    helper(&gate, &target).is_origins(200, "page /private/x");
    is_exempted(&gate.record_of(&target), "robots_disallow");
    gate.denies(&target);
    assert_eq!(there.seen_but_robots(), ["GET /private/x"]);
}

#[test]
fn what_a_response_says_of_use_is_withheld_from_an_exempt_client() {
    let page = Reply::with(200, "Content-Usage: train-ai=n\r\n", "SECRET");
    let origin = Origin::with_rules(RULES).on("/private/x", [page]);
    let gate = gate(&clients("purposes = ['train-ai']"));
    let answer = helper(&gate, &origin.url("/private/x"));
    let record = gate.record_of(&origin.url("/private/x"));
    assert_eq!(answer.status, 403, "{answer:?}");
    assert!(!answer.text().contains("SECRET"), "{answer:?}");
    has!(record, {"reason": "usage_withheld", "usage.let_out_by": "client_exempt"});
    proven(&gate);
}

#[test]
fn an_open_websocket_ends_with_the_exemption_and_no_opaque_tunnel_begins() {
    let https = Origin::https().robots(RULES);
    let http = Origin::with_rules(RULES).on("/private", [Reply::raw(SWITCH).echo()]);
    let clients = clients("");
    let mut gate = gate(&clients);
    let right = basic("helper", PASSWORD);
    let bank = format!("bank.test:{}", https.port());
    for credentials in ["", &*right] {
        let answer = connect(&mut gate.connect(), &bank, credentials);
        has!(gate.refused(&answer, 403, "opaque_tunnel"), {"exempt": null});
    }
    assert_eq!(https.seen_but_robots(), [""; 0]);
    let mut socket = gate.connect();
    let shaking = upgrade(&http.url("/private"), &http.authority());
    let shaking = shaking.replacen("\r\n\r\n", &format!("\r\n{right}\r\n"), 1);
    assert_eq!(socket.exchange(shaking).status, 101);

    // With the exemption, it outlives a reload.
    gate.reload(|_| ());
    socket.send(b"still");
    assert_eq!(socket.read(5), b"still");
    let change = |setup: &mut Setup| setup.tables(&without(&clients));
    gate.reload(change);
    socket.drain();
    let ended = gate.record_of(&http.url("/private"));
    is_exempted(&ended, "robots_disallow");
    assert_eq!(ended["error"], "http_request_denied", "{ended}");
    proven(&gate);
}

#[test]
fn a_run_takes_no_exemption_and_names_it() {
    let origin = Origin::with_rules(RULES);
    let mut setup = Setup::new();
    setup.tables(&clients(""));
    let run = |client: &str, options: &[&str]| {
        let mut run = setup.command("run");
        run.args(["--client", client]).args(options);
        let curl = ["--", "curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}"];
        let output = run.args(curl).arg(origin.url("/private/x")).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "403", "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let told = format!("no exemption: the configuration exempts helper ({WHY})");
    let said = run("helper", &[]);
    says!(said, &told);
    let said = run("rest", &[]);
    assert!(!said.contains("exempt"), "{said}");
    let facts = |said: &str| serde_json::from_str::<Value>(said.lines().last().unwrap()).unwrap();
    let said = facts(&run("helper", &["--summary", "json"]));
    let exemption = json!({"client": "helper", "reason": WHY});
    assert_eq!(said["exemption_not_taken"], exemption, "{said}");
    has!(facts(&run("rest", &["--summary", "json"])), {"exemption_not_taken": null});
    assert_eq!(origin.seen_but_robots(), [""; 0]);
}
