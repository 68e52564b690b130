//! The statements of a site about use, on the page of a decision.

use serde_json::json;

use super::forms::{csrf, post};
use super::pages::{FORM, page};
use crate::support::{AdminGate, Origin, eventually, wait_until};

#[test]
fn a_decision_shows_what_the_site_says_of_use_and_an_override_of_use_lifts_it() {
    let gate = AdminGate::with(|setup| setup.set("policy", "purposes", "\"train-ai\""));
    let origin = Origin::with_rules(
        "User-agent: *\nAllow: /\nContent-Usage: train-ai=n, search=y, <b>=1\nContent-Signal: ai-train=no\n",
    );
    let answer = gate.process.get(&origin.url("/page"));
    let record = gate.process.refused(&answer, 403, "usage_disallow");
    let target = format!("/decisions/{}", record["id"].as_str().unwrap());
    wait_until("the decision to be kept", || gate.ask("GET", &target, FORM, "").status == 200);
    let text = page(&gate, &target);
    says!(
        text,
        "What the site says of use",
        "<dt>Declared purposes</dt><dd>train-ai</dd>",
        "<dt>Refused</dt><dd>train-ai</dd>",
        "<th scope=\"row\">train-ai: disallow</th><td data-head=\"Signal\">content_signal</td><td data-head=\"Place\">robots.txt, line 4, of the group *</td>",
        "<th scope=\"row\">not used: unparsable</th><td data-head=\"Signal\">content_usage</td><td data-head=\"Place\">robots.txt, line 3</td>"
    );
    assert!(!text.contains("<b>=1"), "{text}");
    let metrics = gate.get("/metrics").text();
    says!(
        metrics,
        "crawlgate_usage_refusals_total{purpose=\"train-ai\",stage=\"before\",mode=\"enforce\"} 1",
        "crawlgate_usage_statements_total{signal=\"content_signal\",source=\"robots\",result=\"read\"} 1",
        "crawlgate_usage_statements_total{signal=\"content_usage\",source=\"robots\",result=\"invalid\"} 1"
    );
    let asserted = json!({
        "origin": origin.url(""),
        "action": "allow_usage",
        "until": "1d",
        "by": "Ada",
        "reason": "a licence",
    });
    let added = gate.post("/overrides", &asserted);
    assert_eq!(added.status, 201, "{}", added.text());
    let answer = eventually("the override to be in force", || {
        let answer = gate.process.get(&origin.url("/page"));
        (answer.status == 200).then_some(answer)
    });
    answer.is_origins(200, "page /page");
    let lifted = gate.process.record("the lifted page", |record| {
        record["url"] == *origin.url("/page") && record["verdict"] == "allow"
    });
    assert_eq!(lifted["override"]["action"], "allow_usage", "{lifted}");
    has!(lifted, {"usage.refused": [], "usage.combined.train-ai": "disallow"});
}

#[test]
fn a_url_is_tried_for_purposes_and_an_origin_shows_what_its_file_says_of_use() {
    let gate = AdminGate::with(|_| ());
    let origin = Origin::with_rules(
        "Content-Usage: search=n\nUser-agent: *\nAllow: /\nContent-Usage: train-ai=n\nLicense: https://site.example/l\nCrawl-delay: 1\n",
    );
    let url = origin.url("/page");
    let judged = |purposes: &str| {
        let csrf = csrf(&page(&gate, "/try"));
        let fields = [("csrf", &*csrf), ("url", &url), ("purposes", purposes)];
        let answer = post(&gate, "/try", &fields);
        assert_eq!(answer.status, 200, "{purposes}");
        answer.text()
    };
    for (purposes, words) in [
        ("train-ai, tdm", "<dt>Refused</dt><dd>train-ai</dd>"),
        ("train-ai, tdm", "<code>usage_disallow</code>"),
        ("search", "<code>robots_allow</code>"),
        ("", "<th scope=\"row\">train-ai: disallow</th>"),
        ("training", "id=\"purposes-fault\">`training` is no purpose"),
    ] {
        let text = judged(purposes);
        assert!(text.contains(words), "{purposes}, {words}: {text}");
        let kept = format!("name=\"purposes\" value=\"{purposes}\"");
        assert!(text.contains(&kept), "{kept}: {text}");
    }
    let filled = page(&gate, "/try?purposes=tdm");
    says!(filled, "name=\"purposes\" value=\"tdm\"");

    let checked = |purposes: serde_json::Value| {
        gate.post("/check", &json!({ "url": url, "purposes": purposes }))
    };
    let refused: serde_json::Value =
        serde_json::from_str(&checked(json!(["train-ai"])).text()).unwrap();
    has!(refused, {"reason": "usage_disallow", "usage.refused": ["train-ai"]});
    let unknown = checked(json!(["training"]));
    assert_eq!(unknown.status, 400);
    says!(unknown.text(), "purposes: `training` is no purpose");

    let target = format!("/origin?of={}", origin.url(""));
    let shown = eventually("the file to be kept", || {
        let shown = page(&gate, &target);
        shown.contains("Crawl").then_some(shown)
    });
    says!(
        shown,
        "Preferences about use, and licences: 2 content-usage, 1 license",
        "<td>license</td><td class=\"long\" data-head=\"For\"><code>*</code></td><td class=\"long\" data-head=\"Value\">https://site.example/l",
        "<code>above all groups</code></td><td class=\"long\" data-head=\"Value\">search=n (",
        "<td>crawl-delay</td>"
    );
}
