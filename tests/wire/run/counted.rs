//! The counts of a run: each denial has a record, and what rules disallow is counted apart from what is unreachable; requests
//! that name another agent; and copies of robots.txt that are older than the run.

use serde_json::{Value, json};

use super::text;
use crate::support::{Origin, RULES, Reply, Setup};

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
    let counted = setup.command("log").args(["--summary", "reason", "--json"]).output().unwrap();
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
    command.extend(nowhere.iter().flat_map(|url| [url.as_str(), "-o", "/dev/null"]));
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

#[test]
fn the_summary_counts_requests_that_name_another_agent() {
    let setup = Setup::new();
    let origin = Origin::with_rules(RULES);
    let file = setup.dir().join("summary.json");
    let run = |agent: &str| {
        let urls = [origin.url("/private"), origin.url("/open")];
        let options = ["--agent", agent, "--summary", file.to_str().unwrap()];
        let curl = ["--", "curl", "-s", "-A", "NewsBot/2 (x)"];
        let mut run = setup.command("run");
        let output = run.args(options).args(curl).args(urls).output().unwrap();
        let facts: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        (text(&output.stderr), facts["mismatched"].clone())
    };
    let (said, mismatched) = run("OtherBot");
    let line = "mismatch           2  judged as OtherBot, but sent User-Agent: NewsBot/2 (x)\n";
    says!(said, line);
    assert_eq!(
        mismatched,
        json!({"count": 2, "judged_as": ["OtherBot"], "user_agent": "NewsBot/2 (x)"})
    );
    let (said, mismatched) = run("newsbot");
    assert!(!said.contains("mismatch"), "{said}");
    assert_eq!(mismatched, Value::Null);
}

#[test]
fn a_run_tells_of_a_robots_txt_older_than_itself_and_asks_anew_on_demand() {
    let origin = Origin::with_rules(RULES);
    let setup = Setup::new();
    let url = origin.url("/private");
    let curl = ["curl", "-s", "-o", "page", "-w", "%{http_code}", &url];
    let crawl = |words: &[&str]| {
        let output = setup.command("run").args(words).arg("--").args(curl).output().unwrap();
        (text(&output.stdout), text(&output.stderr))
    };
    let told = "judged by a robots.txt older than the run (--fresh asks for each anew)\n";
    let (status, said) = crawl(&[]);
    assert_eq!(status, "403", "{said}");
    assert!(!said.contains(told), "{said}");
    origin.script("/robots.txt", [Reply::ok("User-agent: *\nAllow: /\n")]);
    let (status, said) = crawl(&[]);
    assert_eq!(status, "403", "{said}");
    let (_, older) = said.split_once(told).unwrap_or_else(|| panic!("{said}"));
    let first = older.lines().next().unwrap();
    assert!(first.ends_with(&format!("s  {}", origin.url(""))), "{said}");
    let (_, said) = crawl(&["--summary", "json"]);
    let facts: Value = serde_json::from_str(said.trim()).unwrap();
    let older = &facts["older_robots"];
    assert_eq!(older[0]["origin"], origin.url(""), "{facts}");
    assert!(older[0]["age_seconds"].is_u64() && older[1].is_null(), "{facts}");
    assert_eq!(origin.robots_fetches(), 1, "the copy counts");
    let (status, said) = crawl(&["--fresh"]);
    assert_eq!(status, "200", "{said}");
    assert!(!said.contains(told), "{said}");
    assert_eq!(origin.robots_fetches(), 2);
    // The next run has the new copy.
    assert_eq!(crawl(&[]).0, "200");
    assert_eq!(origin.robots_fetches(), 2);
}
