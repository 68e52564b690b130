//! Overrides of robots.txt: in the configuration and in the store, on every way through the gate.
//! Page: `docs/overrides.md`.

use std::process::Output;

use serde_json::Value;

use crate::support::{
    CrawlgateProcess, Origin, RULES, Reply, Response, Setup, origin_ca_pem, wait_until,
};

/// Runs `crawlgate override …` with the gate's configuration.
fn override_(setup: &Setup, words: &[&str]) -> Output {
    setup.command("override").args(words).output().unwrap()
}

/// Adds an override for a day, and returns its number.
#[track_caller]
fn add(setup: &Setup, origin: &str, pattern: &str, action: &str) -> String {
    let said = setup.overrides(origin, pattern, action);
    let number = said.strip_prefix("override ").and_then(|rest| rest.split(':').next());
    number.unwrap_or_else(|| panic!("{said}")).to_owned()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn origin_of(origin: &Origin) -> String {
    origin.url("")
}

/// Asserts that an answer is the operator's denial, and returns its record.
#[track_caller]
fn denied(gate: &CrawlgateProcess, answer: &Response, id: &str) -> Value {
    let record = gate.refused(answer, 403, "operator_deny");
    let problem = answer.problem();
    assert_eq!(problem["override"], id, "{problem}");
    let detail = problem["detail"].as_str().unwrap();
    says!(detail, "a letter");
    lacks!(answer.text(), "Ada Example"; "the person stays out of the answer");
    assert!(problem["robots_url"].is_null(), "{problem}");
    has!(record["override"], {"id": id, "action": "deny", "by": "Ada Example"}, "{record}");
    has!(record, {"robots": null, "policy": null});
    record
}

/// Asserts that every decision so far follows from the evidence that its record names.
#[track_caller]
pub(crate) fn proven(gate: &CrawlgateProcess) {
    let mut audit = gate.setup.command("audit");
    let output = audit.args(["verify", "--all"]).output().unwrap();
    let said = text(&output.stdout) + &text(&output.stderr);
    assert!(output.status.success(), "{said}");
}

#[test]
fn an_override_decides_before_robots_txt_which_is_not_fetched_for_it() {
    let gate = CrawlgateProcess::start();
    for origin in [Origin::http().robots(RULES), Origin::https().robots(RULES)] {
        let named = origin_of(&origin);
        let deny = add(&gate.setup, &named, "/open", "deny");
        let allow = add(&gate.setup, &named, "/private/press", "allow");
        let url = origin.url("/open");
        // The running process adopts the override without a signal.
        wait_until("the override", || gate.get(&url).problem()["reason"] == "operator_deny");
        let before = origin.seen_but_robots().len();
        let fetches = origin.robots_fetches();
        let record = denied(&gate, &gate.get(&url), &deny);
        has!(record, {"override.origin": named, "override.pattern": "/open"});
        assert!(record["decided_at"].as_str().unwrap().ends_with('Z'), "{record}");
        assert_eq!(origin.robots_fetches(), fetches, "it asked for robots.txt");
        assert_eq!(origin.seen_but_robots().len(), before, "it was forwarded");

        let url = origin.url("/private/press/x");
        gate.get(&url).is_origins(200, "page /private/press/x");
        let record = gate.record_of(&url);
        has!(record, {"verdict": "allow", "reason": "operator_allow", "override.id": allow});
        // All other paths are left to robots.txt.
        gate.denies(&origin.url("/private/x"));
        gate.passes(&origin.url("/else"));
        assert!(gate.record_of(&origin.url("/else"))["override"].is_null());
    }
    proven(&gate);
}

#[test]
fn an_unreachable_robots_txt_does_not_delay_a_page_that_an_override_allows() {
    let origin = Origin::http().on("/robots.txt", [Reply::status(503, "")]);
    let mut gate = CrawlgateProcess::start();
    let url = origin.url("/press/x");
    gate.unreachable(&gate.get(&url));
    let record = gate.record_of(&url);
    let outage = &record["robots"]["unreachable"];
    has!(outage, {"cause": "status_503", "answers": true, "attempts": 1}, "{record}");
    assert!(outage["since"].is_string() && outage["next_attempt"].is_string(), "{record}");
    assert!(record["robots"]["fresh_until"].is_null(), "{record}");
    let named = origin_of(&origin);
    gate.reload(|setup| {
        setup.asserts(&named, "allow");
        setup.set("[override]", "pattern", "\"/press/\"");
    });
    gate.get(&url).is_origins(200, "page /press/x");
    gate.unreachable(&gate.get(&origin.url("/x")));
    let record = gate.record("the allowance", |record| record["reason"] == "operator_allow");
    has!(record, {"override.id": "config-1", "override.until": null});
    // The list shows it, and a removal does not change the configuration.
    let listed = text(&override_(&gate.setup, &["list"]).stdout);
    says!(listed, "config-1", &named);
    let output = override_(&gate.setup, &["remove", "config-1", "--by", "Ada"]);
    assert_eq!(output.status.code(), Some(2));
    says!(text(&output.stderr), "config.toml");
}

#[test]
fn a_reload_adds_and_removes_configured_overrides() {
    let (mut gate, origin) = (CrawlgateProcess::start(), Origin::with_rules(""));
    let url = origin.url("/x");
    gate.get(&url).is_origins(200, "page /x");
    let named = origin_of(&origin);
    gate.reload(|setup| setup.asserts(&named, "deny"));
    denied(&gate, &gate.get(&url), "config-1");
    gate.reload(|setup| setup.set("[override]", "until", "\"2020-01-01\""));
    gate.get(&url).is_origins(200, "page /x");
    assert_eq!(origin.seen_but_robots(), ["GET /x", "GET /x"]);
}

#[test]
fn a_denied_page_is_never_forwarded_under_any_robots_txt_or_request() {
    let setup = Setup::new();
    let files = [
        ("allowed", Reply::ok("User-agent: *\nAllow: /\n")),
        ("no file", Reply::status(404, "")),
        ("unreachable", Reply::status(500, "")),
        ("disallowed", Reply::ok("User-agent: *\nDisallow: /\n")),
    ];
    let origins: Vec<_> = files
        .into_iter()
        .map(|(name, reply)| (name, Origin::http().on("/robots.txt", [reply])))
        .collect();
    for (_, origin) in &origins {
        add(&setup, &origin_of(origin), "/no/", "deny");
    }
    // The override exists before the gate starts, so it holds from the first request.
    let command = setup.command("serve");
    let gate = CrawlgateProcess::spawn(setup, command);
    for (name, origin) in &origins {
        for path in "/no/ /no/x?y /%6eo/x //no/x /a/../no/x /a/%2e%2e/no/x /./no/x".split(' ') {
            for method in ["GET", "HEAD", "POST"] {
                let answer = gate.request(method, &origin.url(path), "");
                assert!(
                    answer.status == 403 && answer.is_ours(),
                    "{name}: {method} {path}: {answer:?}"
                );
            }
        }
        // No override can deny robots.txt itself.
        let answer = gate.get(&origin.url("/robots.txt"));
        assert!(!answer.is_ours(), "{name}: {answer:?}");
        assert_eq!(origin.seen_but_robots(), [""; 0], "{name}");
    }
    for record in gate.records() {
        let reason = record["reason"].as_str().unwrap();
        assert!(["operator_deny", "robots_txt"].contains(&reason), "{record}");
    }
}

#[test]
fn an_allow_of_the_whole_origin_opens_a_tunnel_and_any_deny_shuts_it() {
    let allowed = Origin::https().robots("User-agent: *\nDisallow: /\n");
    let denied = Origin::https().robots("");
    let mut setup = Setup::new();
    setup.set("tls", "tunnel", "[\"bank.test\"]");
    for (origin, pattern, action) in [(&allowed, "/", "allow"), (&denied, "/x", "deny")] {
        add(&setup, &origin.url_as("bank.test", ""), pattern, action);
    }
    let command = setup.command("serve");
    let gate = CrawlgateProcess::spawn(setup, command);
    let authority = format!("bank.test:{}", allowed.port());
    let mut wire = gate.tunnels(&authority).tls("bank.test", origin_ca_pem());
    wire.passes_inside(&authority, "/inside");
    drop(wire);
    let record = gate.record("the tunnel", |record| record["via"] == "tunnel");
    assert_eq!(record["reason"], "operator_allow", "{record}");

    let mut wire = gate.connect();
    let answer = wire.tunnel(&format!("bank.test:{}", denied.port()));
    gate.refused(&answer, 403, "operator_deny");
    assert_eq!(denied.seen().len(), 0, "not even robots.txt");
}

#[test]
fn a_removed_or_invalid_override_does_not_hold() {
    let (gate, origin) = (CrawlgateProcess::start(), Origin::with_rules(""));
    let (named, url) = (origin_of(&origin), origin.url("/x"));
    let number = add(&gate.setup, &named, "/", "deny");
    wait_until("the override", || gate.get(&url).problem()["reason"] == "operator_deny");
    // `check`, which sends nothing, reads the overrides, too.
    let check = |format: &[&str]| {
        let output = gate.setup.command("check").arg(&url).args(format).output();
        let output = output.unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let shown = check(&[]);
    says!(shown, "operator_deny", "by Ada Example: a letter");
    let document: Value = serde_json::from_str(&check(&["--json"])).unwrap();
    assert_eq!(document["override"]["id"], number, "{document}");
    let listed = override_(&gate.setup, &["list", "--json"]);
    let one: Value = serde_json::from_slice(&listed.stdout).unwrap();
    has!(one, {"id": number, "action": "deny", "pattern": "/", "by": "Ada Example"});
    let output = override_(&gate.setup, &["remove", &number, "--by", "Ada Example"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    gate.until(200, &url);
    let again = override_(&gate.setup, &["remove", &number, "--by", "Ada Example"]);
    assert_eq!(again.status.code(), Some(2));
    says!(text(&again.stderr), "already");

    let signed = ["--by", "Ada", "--reason", "a letter"];
    #[rustfmt::skip] // one row, one case
    let cases = [
        ("no end", &["add", &*named, "deny"][..], "--until"),
        ("an end that has passed", &["add", &named, "deny", "--until", "2020-01-01"], "passed"),
        ("an end too far", &["add", &named, "deny", "--until", "2999-01-01"], "more than a year"),
        ("a URL", &["add", &url, "deny", "--until", "1d"], "more than an origin"),
        ("no pattern", &["add", &named, "x", "deny", "--until", "1d"], "begins with / or *"),
        ("no action", &["add", &named, "/x", "--until", "1d"], "allow"),
    ];
    for (case, words, mention) in cases {
        let output = override_(&gate.setup, &[words, &signed].concat());
        assert_eq!(output.status.code(), Some(2), "{case}");
        let said = text(&output.stderr);
        assert!(said.contains(mention), "{case}: {said}");
    }
    let listed = override_(&gate.setup, &["list"]);
    assert_eq!(text(&listed.stdout), "no overrides are in force\n");
    let listed = override_(&gate.setup, &["list", "--all"]);
    let removed = text(&listed.stdout);
    assert_eq!(removed.lines().count(), 2, "{removed}");
    says!(removed, "by Ada Example");
}

#[test]
fn an_override_decides_about_a_redirect_of_robots_txt() {
    let gate = CrawlgateProcess::start();
    let keeper = Origin::http().robots(RULES).on("/kept/robots.txt", [Reply::ok(RULES)]);
    add(&gate.setup, &origin_of(&keeper), "/kept/", "deny");
    wait_until("the override", || {
        gate.get(&keeper.url("/kept/x")).problem()["reason"] == "operator_deny"
    });
    let hop = Reply::redirect(302, &keeper.url("/kept/robots.txt"));
    let site = Origin::http().on("/robots.txt", [hop]);
    let record = gate.unreachable(&gate.get(&site.url("/page")));
    has!(record, {"robots.unreachable.cause": "denied_hop"});
    assert_eq!(site.seen_but_robots(), [""; 0]);
    let seen = keeper.seen_but_robots();
    assert!(!seen.contains(&"GET /kept/robots.txt".to_owned()), "{seen:?}");
}
