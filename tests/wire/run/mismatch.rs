//! A run that is judged by another name than its command sends.

use serde_json::{Value, json};

use super::text;
use crate::support::{Origin, RULES, Setup};

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
