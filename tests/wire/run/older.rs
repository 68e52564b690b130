//! The copies of robots.txt that a run finds in the store.

use serde_json::Value;

use super::text;
use crate::support::{Origin, RULES, Reply, Setup};

#[test]
fn a_run_tells_of_a_robots_txt_older_than_itself_and_asks_anew_on_demand() {
    let origin = Origin::with_rules(RULES);
    let setup = Setup::new();
    let url = origin.url("/private");
    let curl = ["curl", "-s", "-o", "page", "-w", "%{http_code}", &url];
    let crawl = |words: &[&str]| {
        let output = setup
            .command("run")
            .args(words)
            .arg("--")
            .args(curl)
            .output()
            .unwrap();
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
    assert!(
        older[0]["age_seconds"].is_u64() && older[1].is_null(),
        "{facts}"
    );
    assert_eq!(origin.robots_fetches(), 1, "the copy counts");
    let (status, said) = crawl(&["--fresh"]);
    assert_eq!(status, "200", "{said}");
    assert!(!said.contains(told), "{said}");
    assert_eq!(origin.robots_fetches(), 2);
    // The next run has the new copy.
    assert_eq!(crawl(&[]).0, "200");
    assert_eq!(origin.robots_fetches(), 2);
}
