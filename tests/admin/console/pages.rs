//! Every page and its forms, without a browser.

use http::Version;

use super::forms::{csrf, post};
use crate::support::ftp::FtpServer;
use crate::support::{AdminGate, Origin, RULES, Response, eventually, wait_until};

pub const BROWSER: &str = "Accept: text/html,application/xhtml+xml\r\n";

/// The request fields that a browser sends with a form of our own page.
pub const FORM: &str = "Accept: text/html\r\nSec-Fetch-Site: same-origin\r\n\
    Content-Type: application/x-www-form-urlencoded\r\n";

/// Returns a page, which must exist and be whole.
#[track_caller]
pub fn page(gate: &AdminGate, target: &str) -> String {
    let answer = gate.ask("GET", target, BROWSER, "");
    assert_eq!(answer.status, 200, "{target}: {}", answer.text());
    whole(&answer, target)
}

/// Asserts that a page is one of ours, and that the policy allows every part of it.
#[track_caller]
pub fn whole(answer: &Response, target: &str) -> String {
    let text = answer.text();
    let field = |name: &str| answer.field(name).unwrap_or_default();
    assert!(field("content-type").starts_with("text/html"), "{target}");
    let policy = field("content-security-policy");
    assert!(policy.starts_with("default-src 'none'"), "{target}: {policy}");
    assert!(!policy.contains("unsafe"), "{target}: {policy}");
    assert_eq!(field("cache-control"), "no-store", "{target}");
    says!(
        text,
        "<!doctype html>",
        "lang=\"en\"",
        "<main id=\"main\"",
        "<h1",
        "class=\"skip\"",
        "</html>"
    );
    for refused in
        [" style=\"", "<script>", "<style", " onclick=", "javascript:", "src=\"http", "url("]
    {
        assert!(!text.contains(refused), "{target}: {refused}\n{text}");
    }
    text
}

pub fn encoded(text: &str) -> String {
    url::form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

#[test]
fn a_decision_tells_the_version_of_each_side() {
    let gate = AdminGate::open();
    let origin = Origin::https().robots(RULES);
    let answer = gate.process.get_by(Version::HTTP_2, &origin.url("/open"));
    answer.is_origins(200, "page /open");
    let denied = gate.process.get_by(Version::HTTP_2, &origin.url("/private"));
    let denied = gate.process.denied(&denied);
    let allowed = gate.process.record_of(&origin.url("/open"));
    for (record, answered) in [
        (&allowed, "<dd>200, the origin by HTTP/1.1</dd>"),
        (&denied, "<dd>403, http_request_denied</dd>"),
    ] {
        let target = format!("/decisions/{}", record["id"].as_str().unwrap());
        let text = eventually("the decision to be kept", || {
            let answer = gate.ask("GET", &target, BROWSER, "");
            (answer.status == 200).then(|| whole(&answer, &target))
        });
        says!(text, "<dd>intercepted, HTTP/2</dd>", answered);
    }
    let said = gate.process.succeeds("log", &["show", allowed["id"].as_str().unwrap()]);
    says!(said, "(intercepted, HTTP/2)", "200, the origin by HTTP/1.1");
}

#[test]
fn a_decision_about_ftp_is_shown_as_any_other() {
    let gate = AdminGate::open();
    let server = FtpServer::with_rules(RULES).file("open", "x");
    let (open, closed) = (server.url("/open"), server.url("/private"));
    gate.process.get(&open).is_origins(200, "x");
    let denied = gate.process.denies(&closed);
    let allowed = gate.process.record_of(&open);
    // An answer over FTP has no version of HTTP.
    #[rustfmt::skip] // one row, one case
    let rows = [
        (&allowed, &open, ["<dd>200</dd>", "proven: the same decision"]),
        (&denied, &closed, ["Disallow: /private", "proven: the same decision"]),
    ];
    for (record, url, needed) in rows {
        let target = format!("/decisions/{}", record["id"].as_str().unwrap());
        let text = eventually("the decision to be kept", || {
            let answer = gate.ask("GET", &target, BROWSER, "");
            (answer.status == 200).then(|| whole(&answer, &target))
        });
        for needed in needed.into_iter().chain([url.as_str()]) {
            assert!(text.contains(needed), "{target}: no {needed}\n{text}");
        }
        assert!(!text.contains("the origin by HTTP"), "{text}");
    }
    let of = encoded(&server.url(""));
    let text = page(&gate, &format!("/origin?of={of}"));
    says!(text, "robots.txt");
}

#[test]
fn every_page_is_whole_and_says_what_it_should() {
    let origin = Origin::with_rules(
        "User-agent: *\nDisallow: /private\nCrawl-delay: 2\nSitemap: https://a.example/map\nSitemap: /here\n",
    );
    let gate = AdminGate::with(|setup| setup.set("audit", "checkpoint_every", "\"1s\""));
    let id = gate.deny(&origin, "/private/diary");
    gate.process.passes(&origin.url("/open"));
    let name = origin.url("");
    let name = name.trim_end_matches('/');
    let of = encoded(name);
    wait_until("what was allowed to be kept", || {
        page(&gate, "/denials?verdict=any").contains("/open")
    });
    let overview = page(&gate, "/");
    says!(overview, "<span class=\"count\">2</span> <span class=\"name\">Requests");
    let sha256 = {
        let told = page(&gate, &format!("/origin?of={of}"));
        let (_, rest) = told.split_once("href=\"/robots/").expect("a file");
        rest.split(['"', '?']).next().unwrap().to_owned()
    };
    #[rustfmt::skip] // one row, one case
    let pages: &[(&str, &[&str])] = &[
        ("/", &["robots_disallow", "<svg", "Origins that disallow most", name]),
        ("/?range=7d", &["7 days"]),
        ("/denials", &["/private/diary", "robots_disallow", "Export these"]),
        ("/denials?verdict=any", &["/open", "/private/diary"]),
        ("/denials?path=/other", &["No decision among those"]),
        ("/denials?view=rule", &["Disallow: /private", "Count"]),
        ("/denials?view=origin", &[name]),
        ("/denials?view=reason", &["Disallowed by robots.txt <code>robots_disallow</code>"]),
        (&format!("/decisions/{id}"), &["<h1>Disallowed by robots.txt <code>robots_disallow</code></h1>", "Disallow: /private", "id=\"L2\" class=\"decides\"", "proven: the same decision", "Acknowledge", "&#34;id&#34;: &#34;"]),
        ("/origins", &[name, "successful"]),
        ("/origins?containing=nothing-like-this", &["No origin"]),
        ("/origins?state=unreachable", &["No origin"]),
        (&format!("/origin?of={of}"), &["Refresh now", "crawl-delay", "https://a.example/map", "the robots.txt of its origin is not known", ">invalid</span>", "whether * may fetch", "Fetches"]),
        ("/origin?of=https%3A%2F%2Fnever.test", &["Nothing is known of it"]),
        (&format!("/origin/forget?of={of}"), &["Forget it", "Keep it"]),
        (&format!("/origin/diff?of={of}&old={sha256}&new={sha256}"), &["Nothing: they have the same lines"]),
        (&format!("/robots/{sha256}"), &["Crawl-delay: 2", "id=\"L3\""]),
        ("/overrides", &["robots.txt alone decides", "Add the override"]),
        ("/report", &["that the site answered so", "2 requests: 1 were forwarded", "Disallow: /private", "9. Verification", "Save this report"]),
        ("/report?since=7d&origin=other.test", &["0 requests:", "href=\"/report/crawlgate-report.json?since=7d&#38;origin=other.test\""]),
        ("/try", &["Judge it"]),
        ("/watch", &["/api/v1/decisions/live?", "Pause", "/private/diary"]),
        ("/setup", &["Download the certificate", "curl", &gate.process.address.to_string()]),
    ];
    for (target, needed) in pages {
        let text = page(&gate, target);
        for needed in *needed {
            assert!(text.contains(needed), "{target}: no {needed}\n{text}");
        }
    }
    // Its place in the log, with the checkpoint over it.
    let signed = eventually("the decision to be signed", || {
        let text = page(&gate, &format!("/decisions/{id}"));
        text.contains("The checkpoint over it").then_some(text)
    });
    let (_, key, _) = gate.process.beside("audit", &["key"]);
    let name = key.split('+').next().unwrap();
    says!(
        signed, // Behind the start of the process, and its settings.
        "record 3, in the log of ",
        key.trim(),
        "Hash of its leaf: <code>",
        &format!("{name}\n"),
        &format!("— {name} ")
    );
    let raw = gate.get(&format!("/robots/{sha256}?raw=true"));
    assert!(raw.text().starts_with("User-agent: *\n"));
    raw.field_is("content-type", Some("text/plain; charset=utf-8"));
}

#[test]
fn a_loaded_file_is_cached_until_it_changes() {
    let gate = AdminGate::open();
    let overview = page(&gate, "/");
    for (part, media_type) in [
        ("/assets/console.css?", "text/css; charset=utf-8"),
        ("/assets/console.js?", "text/javascript; charset=utf-8"),
        ("/assets/icon.svg?", "image/svg+xml"),
    ] {
        let (_, rest) = overview.split_once(part).expect(part);
        let target = format!("{part}{}", rest.split('"').next().unwrap());
        let answer = gate.get(&target);
        assert_eq!(answer.status, 200, "{target}");
        answer.field_is("content-type", Some(media_type));
        let tag = answer.field("etag").expect(part);
        let again = gate.ask("GET", &target, &format!("If-None-Match: {tag}\r\n"), "");
        assert_eq!((again.status, again.text().as_str()), (304, ""), "{target}");
        let other = gate.ask("GET", &target, "If-None-Match: \"x\"\r\n", "");
        assert_eq!(other.status, 200, "{target}");
    }
}

#[test]
fn a_failure_is_a_page_for_people_and_a_document_for_programs() {
    let gate = AdminGate::open();
    #[rustfmt::skip] // one row, one case
    let cases: &[(&str, &str, u16, &str)] = &[
        ("nothing there", "/nowhere", 404, "there is nothing here"),
        ("a decision that is not kept", "/decisions/01KB7W3Y5E000000000VY7H1Q2", 404, "no such decision"),
        ("a condition that makes no sense", "/denials?reason=because", 400, "it is one of robots_allow"),
        ("an unknown parameter", "/denials?orgin=a", 400, "orgin is no parameter here"),
        ("an invalid place", "/denials?before=x", 400, "no place in a list"),
        ("an invalid view", "/denials?view=host", 400, "it is one of rule, origin, reason"),
        ("an invalid origin", "/origin?of=site", 400, "an origin has a scheme"),
        ("no origin", "/origin", 400, "of which origin?"),
        ("an invalid digest", "/robots/xyz", 400, "64 hexadecimal digits"),
        ("a file that is not there", &format!("/robots/{}", "0".repeat(64)), 404, "no robots.txt of this digest"),
        ("an invalid method", "/overrides/remove", 405, "is not for this"),
    ];
    for (name, target, status, says) in cases {
        let shown = gate.ask("GET", target, BROWSER, "");
        assert_eq!(shown.status, *status, "{name}: {}", shown.text());
        let text = whole(&shown, target);
        assert!(text.contains(says), "{name}: {text}");
        let told = crate::support::admin_gate::problem(&gate.get(target), *status);
        assert!(told.contains(says), "{name}: {told}");
    }
}

#[test]
fn all_results_of_a_filter_are_exported() {
    let origin = Origin::with_rules(RULES);
    let gate = AdminGate::open();
    let ids: Vec<String> = ["/private/1", "/private/2", "/private/=cmd"]
        .iter()
        .map(|path| gate.deny(&origin, path))
        .collect();
    gate.process.passes(&origin.url("/open"));
    let lines = gate.get("/denials/export?format=jsonl");
    assert_eq!(lines.status, 200);
    let disposition = lines.field("content-disposition").unwrap();
    says!(disposition, "decisions.jsonl");
    let lines = lines.text();
    let told: Vec<String> = lines
        .lines()
        .map(|line| {
            let record: serde_json::Value = serde_json::from_str(line).unwrap();
            record["id"].as_str().unwrap().to_owned()
        })
        .collect();
    assert_eq!(told, ids, "oldest first, denials only");
    let cells = gate.get("/denials/export?format=csv&path=/private/1").text();
    assert_eq!(cells.lines().count(), 2, "{cells}");
    assert!(cells.starts_with("seq,time,id,"), "{cells}");
    says!(cells, &ids[0]);
    wait_until("what was allowed to be kept, too", || {
        gate.get("/denials/export?format=jsonl&verdict=any").text().lines().count() == 4
    });
}

#[test]
fn the_evidence_of_a_decision_is_downloaded_and_proven() {
    let origin = Origin::with_rules(RULES);
    let gate = AdminGate::open();
    let id = gate.deny(&origin, "/private/1");
    let target = format!("/decisions/{id}/evidence.json");
    let text = eventually("the decision to be stored", || {
        let answer = gate.get(&format!("/decisions/{id}"));
        (answer.status == 200).then(|| answer.text())
    });
    says!(text, &format!("href=\"{target}\""));
    let answer = gate.get(&target).is(200);
    let disposition = answer.field("content-disposition");
    assert_eq!(disposition.as_deref(), Some("attachment; filename=\"evidence.json\""));
    let file = gate.process.setup.dir().join("evidence.json");
    std::fs::write(&file, answer.text()).unwrap();
    let verify = ["verify-evidence", file.to_str().unwrap()];
    let told = gate.process.succeeds("audit", &verify);
    says!(told, &id, "the same decision follows");
    assert_eq!(gate.get("/decisions/nonsense/evidence.json").status, 404);
    assert_eq!(gate.get(&format!("{target}?x=1")).status, 400);
}

#[test]
fn a_url_is_tried_against_the_origin_or_a_text() {
    let origin = Origin::with_rules(RULES);
    let gate = AdminGate::open();
    let csrf = csrf(&page(&gate, "/try"));
    let tried = |url: &str, agent: &str, robots: &str| {
        let fields = [("csrf", &*csrf), ("url", url), ("agent", agent), ("robots", robots)];
        let answer = post(&gate, "/try", &fields);
        assert_eq!(answer.status, 200, "{}", answer.text());
        whole(&answer, "/try")
    };
    let long = "# filler\n".repeat(70_000);
    #[rustfmt::skip] // one row, one case
    let cases: &[(&str, &str, &str, String, &[&str])] = &[
        ("the origin's own", &origin.url("/private/x"), "", String::new(), &["robots_disallow", "Disallow: /private", ">decides</td>"]),
        ("an allowed one", &origin.url("/private/open"), "", String::new(), &["robots_allow", "Allow: /private/open"]),
        ("a text", "https://site.example/a/b", "ExampleBot", "User-agent: examplebot\nDisallow: /a\nAllow: /a/b$\n".into(), &["robots_allow", "the longest pattern", "(named: its groups speak)"]),
        ("a reading", "https://site.example/open/../a", "", "User-agent: *\nDisallow: /a\n".into(), &["path_guard", "As the origin may read it"]),
        ("remarks", "https://site.example/", "", "User-agent: *\nDisallow: a\n".into(), &["Remarks on the file", "Line 2"]),
        ("a long text", "https://site.example/z", "", format!("{long}User-agent: *\nDisallow: /z\n"), &["no_rules", "cut at the size limit"]),
        ("no URL", "site.example/a", "", String::new(), &["write it with its scheme"]),
        ("markup", "https://site.example/\"><script>", "", "User-agent: *\nDisallow: /<b>\n".into(), &["&#60;"]),
    ];
    for (name, url, agent, robots, needed) in cases {
        let text = tried(url, agent, robots);
        for needed in *needed {
            assert!(text.contains(needed), "{name}: no {needed}\n{text}");
        }
    }
    assert_eq!(origin.seen_but_robots(), Vec::<String>::new(), "no page was fetched");
    assert!(
        page(&gate, "/denials?verdict=any").contains("No decision among"),
        "nothing is recorded"
    );
}

#[test]
fn input_of_crawlers_and_sites_is_shown_as_text() {
    let robots =
        "User-agent: *\nDisallow: /<img src=x onerror=alert(1)>\nDisallow: /private\n# \u{202e}x\n";
    let origin = Origin::with_rules(robots);
    let gate = AdminGate::open();
    let id = gate.deny(&origin, "/private/%3Cscript%3E'&amp;");
    for target in ["/denials", "/watch", &format!("/decisions/{id}"), "/", "/report"] {
        let text = page(&gate, target);
        for raw in ["<img", "<b>", "\u{202e}"] {
            assert!(!text.contains(raw), "{target}: {raw}\n{text}");
        }
    }
    let text = page(&gate, &format!("/decisions/{id}"));
    says!(text, "\\u{202e}x", "&#60;img src=x onerror=alert(1)&#62;");
}

#[test]
fn without_a_store_pages_say_what_to_do() {
    let gate = AdminGate::with(|setup| setup.set("store", "path", "\"\""));
    for target in ["/", "/denials", "/origins", "/overrides", "/report"] {
        let text = page(&gate, target);
        assert!(text.contains("[store] path"), "{target}: {text}");
    }
    assert_eq!(gate.get("/denials/export?format=csv").status, 404);
}
