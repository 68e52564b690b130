//! Every decision that the running program records can be proven afterwards. Page: `docs/proof.md`.

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{CrawlgateProcess, Origin, RULES, Reply, eventually};

/// Runs `crawlgate audit verify --all --json`.
#[track_caller]
fn verified(gate: &CrawlgateProcess, ok: bool) -> Value {
    let (code, said, error) = gate.beside("audit", &["verify", "--all", "--json"]);
    let told: Value =
        serde_json::from_str(&said).unwrap_or_else(|why| panic!("{why}: {said}{error}"));
    assert_eq!((code, &told["ok"]), (Some(i32::from(!ok)), &ok.into()), "{told:#}");
    told
}

/// Decisions before and after a reload each follow from one set of settings, so they can be proven.
#[test]
fn a_reload_of_parse_options_holds_at_once_and_leaves_every_record_provable() {
    let mut gate = CrawlgateProcess::start();
    let misspelt = Origin::with_rules("User-agent: *\nDissallow: /private\n");
    let long = Origin::with_rules(&format!(
        "User-agent: *\nDisallow: /private\n{}",
        "# a comment\n".repeat(60_000)
    ));
    let broken = Origin::http().on("/robots.txt", [Reply::status(503, "")]);
    let url = misspelt.url("/private");
    assert_eq!(gate.get(&url).status, 403);
    assert_eq!(gate.get(&long.url("/private")).status, 403);
    for (lenient, limit, profile, status) in [
        ("false", "1MiB", "archive", 200),
        ("true", "500KiB", "standard", 403),
        ("false", "600KiB", "google", 200),
        ("true", "1MiB", "archive", 403),
    ] {
        let configure = |setup: &mut crate::support::Setup| {
            setup.set("robots", "lenient", lenient);
            setup.set("robots", "size_limit", &format!("\"{limit}\""));
            setup.set("robots", "profile", &format!("\"{profile}\""));
        };
        gate.reload(configure);
        assert_eq!(gate.get(&url).status, status, "lenient = {lenient}");
        assert_eq!(gate.get(&long.url("/private")).status, 403, "{limit}");
        gate.get(&broken.url("/x"));
    }
    assert_eq!(misspelt.robots_fetches(), 1, "not fetched again");
    verified(&gate, true);
}

#[test]
fn every_kind_of_decision_is_proven_from_what_the_program_kept() {
    let mut gate = CrawlgateProcess::with(|setup| setup.set("tls", "tunnel", "[\"bank.test\"]"));
    let site = Origin::with_rules(RULES);
    let secure = Origin::https().robots(RULES);
    let bare = Origin::http().on("/robots.txt", [Reply::status(404, "")]);
    let broken = Origin::http().on("/robots.txt", [Reply::status(503, "")]);
    let babbling = Origin::http().on("/robots.txt", [Reply::raw("hello\r\n\r\n")]);
    let bank = Origin::https().robots("User-agent: *\nDisallow: /x\n");
    #[rustfmt::skip] // one row, one request
    let requests = [
        ("a rule disallows", site.url("/private?a=b"), "robots_disallow"),
        ("a rule allows", site.url("/private/open"), "robots_allow"),
        ("no rule matches", site.url("/"), "robots_allow"),
        ("a path with another reading", site.url("/x/..//private"), "path_guard"),
        ("robots.txt itself", site.url("/robots.txt"), "robots_txt"),
        ("inside TLS", secure.url("/private"), "robots_disallow"),
        ("an odd spelling", site.url("/%70rivate/\u{e9}\"|"), "robots_disallow"),
        ("no robots.txt", bare.url("/x"), "robots_unavailable"),
        ("robots.txt that cannot be had", broken.url("/x"), "robots_unreachable"),
        ("an answer that is not HTTP", babbling.url("/x"), "robots_unreachable"),
    ];
    for (name, url, reason) in &requests {
        gate.get(url);
        let record =
            gate.record(name, |record| record["reason"] == *reason && &record["url"] == url);
        assert!(record["decided_at"].is_string(), "{name}: {record}");
    }
    let mut wire = gate.connect();
    wire.tunnel(&format!("bank.test:{}", bank.port()));
    gate.record("the tunnel", |record| record["reason"] == "opaque_tunnel");
    for (pattern, action) in [("/private", "allow"), ("/closed", "deny")] {
        gate.setup.overrides(&bare.url(""), pattern, action);
    }
    for (path, reason) in [("/private/x", "operator_allow"), ("/closed", "operator_deny")] {
        eventually("the override to hold", || {
            gate.get(&bare.url(path));
            gate.records().iter().any(|record| record["reason"] == reason).then_some(())
        });
    }
    // While the program runs, and after its end.
    verified(&gate, true);
    gate.signal(Signal::TERM);
    gate.wait();
    let told = verified(&gate, true);
    // The records of the overrides are the commands' own, and the program's log has them, too.
    has!(told, {"events.override_added": 2, "records": gate.log_lines().len()});
    assert_eq!(told["signed"], told["records"], "signed at its end");
    has!(told, {"proven": gate.records().len(), "attested": {}});

    // The program's own log and the store hold the same decisions.
    let (_, listed, _) = gate.beside("log", &["--all", "--format", "jsonl"]);
    let log = std::fs::read_to_string(gate.log_path()).unwrap();
    let decisions = log.split_inclusive('\n').filter(|line| line.contains("\"verdict\""));
    assert_eq!(listed, decisions.collect::<String>());
    let id = gate.records()[0]["id"].as_str().unwrap().to_owned();
    let said = gate.succeeds("audit", &["verify", &id]);
    says!(said, ">     3  Disallow: /private\n");
}
