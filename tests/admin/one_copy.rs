//! One copy of a robots.txt, by which all answer: the proxy, the API, the command line.

use std::io::Write as _;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::admin_gate::json as body;
use crate::support::{AdminGate, Origin, RULES, Reply};

#[test]
fn the_proxy_the_api_and_the_command_answer_by_one_copy_of_a_robots_txt() {
    let origin = Origin::with_rules(RULES);
    let gate = AdminGate::open();
    let url = origin.url("/private/a");
    let question = json!({"url": url, "agents": ["TestBot"]});
    let check = |words: &[&str]| {
        let words = [&["--agent", "TestBot", &url], words].concat();
        let (code, said, error) = gate.beside("check", &words);
        assert_eq!(error, "", "{words:?}");
        (code, said)
    };
    let judges_by_it =
        format!("the gate here judges by it: `crawlgate origins refresh {}`", origin.url(""));
    gate.denied(&gate.process.get(&url));
    // The origin changes its file, and no copy is due.
    origin.script("/robots.txt", [Reply::ok("User-agent: *\nAllow: /\n")]);
    gate.denied(&gate.process.get(&url));
    assert_eq!(body(&gate.post("/check", &question))["verdict"], "deny");
    let (code, said) = check(&[]);
    assert_eq!(code, Some(1), "{said}");
    says!(said, " ago), with TestBot crawlgate/", &judges_by_it);
    let line = question.to_string() + "\n";
    let output = gate.setup.command("check").arg("--jsonl").stdin(Stdio::piped()).spawn();
    let mut bulk = output.unwrap();
    bulk.stdin.take().unwrap().write_all(line.as_bytes()).unwrap();
    let answer = bulk.wait_with_output().unwrap().stdout;
    let answer: Value = serde_json::from_slice(&answer).unwrap();
    assert_eq!(answer["verdict"], "deny", "{answer}");
    assert_eq!(origin.robots_fetches(), 1, "the copy answers");
    // The origin is asked for one answer, and the copy stays.
    let (code, said) = check(&["--fresh"]);
    assert_eq!(code, Some(0), "{said}");
    says!(said, "  fetched:  with TestBot crawlgate/");
    assert_eq!(origin.robots_fetches(), 2);
    assert_eq!(check(&[]).0, Some(1));
    gate.denied(&gate.process.get(&url));
    // The gate fetches anew, and all answer by that.
    gate.succeeds("origins", &["refresh", &origin.url("")]);
    let fetches = origin.robots_fetches();
    gate.process.get(&url).is_origins(200, "page /private/a");
    assert_eq!(body(&gate.post("/check", &question))["verdict"], "allow");
    assert_eq!(check(&[]).0, Some(0));
    assert_eq!(origin.robots_fetches(), fetches);
}
