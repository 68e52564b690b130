//! Published examples of URLs that share a robots.txt.

use crawlgate_robots::Origin;
use serde_json::Value;

#[test]
fn origin_examples() {
    let file: Value = serde_json::from_str(include_str!("vectors/origins.json")).unwrap();
    let cases = file["cases"].as_array().unwrap();
    assert!(!cases.is_empty());
    let origin = |url: &Value| {
        let url = url.as_str().unwrap();
        Origin::parse(url).unwrap_or_else(|error| panic!("{url}: {error}")).0
    };
    let mut failures = Vec::new();
    for case in cases {
        let robots_of = origin(&case["robots_of"]);
        let [same, other] = ["same", "other"].map(|key| case[key].as_array().unwrap());
        let same = same
            .iter()
            .filter(|url| origin(url) != robots_of)
            .map(|url| format!("{url} is not {robots_of}"));
        let other = other
            .iter()
            .filter(|url| origin(url) == robots_of)
            .map(|url| format!("{url} is {robots_of}"));
        failures.extend(same.chain(other));
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
