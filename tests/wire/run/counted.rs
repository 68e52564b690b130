//! Denials of a run: each has a record, and what rules disallow is counted apart from what is unreachable.

use serde_json::{Value, json};

use super::text;
use crate::support::{Origin, RULES, Setup};

/// Runs a command with a summary for programs. Returns what it printed as errors, and the summary.
fn summed(setup: &Setup, command: &[&str]) -> (String, Value) {
    let file = setup.dir().join("summary.json");
    let mut run = setup.command("run");
    let run = run.args(["--summary", file.to_str().unwrap(), "--"]);
    let output = run.args(command).output().unwrap();
    let facts = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    (text(&output.stderr), facts)
}

#[test]
fn every_denial_of_a_run_has_a_record_whatever_their_number() {
    let mut setup = Setup::new();
    // A run takes no such limit from the configuration.
    setup.set("log", "decisions", "\"denied\"");
    setup.set("audit", "refusals_per_minute", "5");
    let origin = Origin::with_rules(RULES);
    let urls = origin.url("/private/[1-9000]");
    let (said, facts) = summed(&setup, &["curl", "-s", "-o", "/dev/null", &urls]);
    has!(facts, {"disallowed.count": 9_000, "refused_without_record": 0}, "{said}");
    let counted = setup
        .command("log")
        .args(["--summary", "reason", "--json"])
        .output()
        .unwrap();
    let counted: Value = serde_json::from_slice(&counted.stdout).unwrap();
    has!(counted, {"reason": "robots_disallow", "count": 9_000});
    assert_eq!(origin.seen_but_robots(), [""; 0]);
}

#[test]
fn a_dead_host_hides_no_rule_in_the_summary() {
    let setup = Setup::new();
    let origin = Origin::with_rules(RULES);
    let dead = Origin::http();
    dead.stop();
    let private = origin.url("/private");
    let nowhere: Vec<String> = (0..30).map(|n| dead.url(&format!("/{n}"))).collect();
    let mut command = vec!["curl", "-s", "-w", "%{http_code}\\n", "-o", "/dev/null"];
    command.extend(
        nowhere
            .iter()
            .flat_map(|url| [url.as_str(), "-o", "/dev/null"]),
    );
    command.push(&private);
    let (said, facts) = summed(&setup, &command);
    says!(
        said,
        "disallowed         1  robots_disallow 1\n",
        "unreachable       30  refused 30\n",
        "refused here       0\n",
        "most disallowed origins\n",
        "unreachable origins\n"
    );
    let count = |name: &str| facts[name]["count"].clone();
    let counts = ["denied", "disallowed", "unreachable", "refused_here"].map(count);
    assert_eq!(counts, [json!(31), json!(1), json!(30), json!(0)]);
    assert_eq!(facts["unreachable"]["codes"], json!({"refused": 30}));
    let first = facts["first_denials"].as_array().unwrap().iter();
    let outcomes: Vec<_> = first.map(|one| one["outcome"].clone()).collect();
    assert_eq!(outcomes.len(), 21, "twenty of the dead host, and the rule");
    assert_eq!(outcomes.last(), Some(&json!("disallowed")));
    assert_eq!(dead.seen().len() + origin.seen_but_robots().len(), 0);
}
