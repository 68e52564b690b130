//! Every page and its forms, without a browser.

use crate::desk::Desk;
use crate::support::{Origin, RULES, Reply, Response, eventually};

const BROWSER: &str = "Accept: text/html,application/xhtml+xml\r\n";

/// The request fields that a browser sends with a form of our own page.
const FORM: &str = "Accept: text/html\r\nSec-Fetch-Site: same-origin\r\n\
    Content-Type: application/x-www-form-urlencoded\r\n";

/// Returns a page, which must exist and be whole.
#[track_caller]
fn page(desk: &Desk, target: &str) -> String {
    let answer = desk.ask("GET", target, BROWSER, "");
    assert_eq!(answer.status, 200, "{target}: {}", answer.text());
    whole(&answer, target)
}

/// Asserts that a page is one of ours, and that the policy allows every part of it.
#[track_caller]
fn whole(answer: &Response, target: &str) -> String {
    let text = answer.text();
    let field = |name: &str| answer.field(name).unwrap_or_default();
    assert!(field("content-type").starts_with("text/html"), "{target}");
    let policy = field("content-security-policy");
    assert!(
        policy.starts_with("default-src 'none'"),
        "{target}: {policy}"
    );
    assert!(!policy.contains("unsafe"), "{target}: {policy}");
    assert_eq!(field("cache-control"), "no-store", "{target}");
    for needed in [
        "<!doctype html>",
        "lang=\"en\"",
        "<main id=\"main\"",
        "<h1",
        "class=\"skip\"",
        "</html>",
    ] {
        assert!(text.contains(needed), "{target}: no {needed}\n{text}");
    }
    for refused in [
        " style=\"",
        "<script>",
        "<style",
        " onclick=",
        "javascript:",
        "src=\"http",
        "url(",
    ] {
        assert!(!text.contains(refused), "{target}: {refused}\n{text}");
    }
    text
}

#[track_caller]
fn csrf(page: &str) -> String {
    let (_, rest) = page.split_once("name=\"csrf\" value=\"").expect("a form");
    rest.split('"').next().unwrap().to_owned()
}

#[track_caller]
fn post(desk: &Desk, target: &str, fields: &[(&str, &str)]) -> Response {
    let body = url::form_urlencoded::Serializer::new(String::new())
        .extend_pairs(fields)
        .finish();
    desk.ask("POST", target, FORM, &body)
}

/// Returns the target of a form's redirect.
#[track_caller]
fn led_to(answer: &Response) -> String {
    assert_eq!(answer.status, 303, "{}", answer.text());
    answer.field("location").unwrap()
}

fn encoded(text: &str) -> String {
    url::form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

#[test]
fn every_page_is_whole_and_says_what_it_should() {
    let origin = Origin::with_rules(
        "User-agent: *\nDisallow: /private\nCrawl-delay: 2\nSitemap: https://a.example/map\n",
    );
    let desk = Desk::open();
    let id = desk.deny(&origin, "/private/diary");
    desk.gate
        .get(&origin.url("/open"))
        .is_origins(200, "page /open");
    let name = origin.url("");
    let name = name.trim_end_matches('/');
    let of = encoded(name);
    eventually("what was allowed to be kept", || {
        page(&desk, "/denials?verdict=any")
            .contains("/open")
            .then_some(())
    });
    let overview = page(&desk, "/");
    assert!(
        overview.contains("<span class=\"count\">2</span> <span class=\"name\">Requests"),
        "{overview}"
    );
    let sha256 = {
        let told = page(&desk, &format!("/origin?of={of}"));
        let (_, rest) = told.split_once("href=\"/robots/").expect("a file");
        rest.split(['"', '?']).next().unwrap().to_owned()
    };
    #[rustfmt::skip] // one row, one case
    let pages: &[(&str, &[&str])] = &[
        ("/", &["robots_disallow", "<svg", "Most denied origins", name]),
        ("/?range=7d", &["7 days"]),
        ("/denials", &["/private/diary", "robots_disallow", "Export these"]),
        ("/denials?verdict=any", &["/open", "/private/diary"]),
        ("/denials?path=/other", &["No decision among those"]),
        ("/denials?view=rule", &["Disallow: /private", "Count"]),
        ("/denials?view=origin", &[name]),
        ("/denials?view=reason", &["robots_disallow"]),
        (&format!("/decisions/{id}"), &["Disallow: /private", "id=\"L2\" class=\"decides\"", "proven: the same decision", "Acknowledge", "&#34;id&#34;: &#34;"]),
        ("/origins", &[name, "successful"]),
        ("/origins?containing=nothing-like-this", &["No origin"]),
        ("/origins?state=unreachable", &["No origin"]),
        (&format!("/origin?of={of}"), &["Refresh now", "crawl-delay", "https://a.example/map", "Fetches"]),
        ("/origin?of=https%3A%2F%2Fnever.test", &["Nothing is known of it"]),
        (&format!("/origin/forget?of={of}"), &["Forget it", "Keep it"]),
        (&format!("/origin/diff?of={of}&old={sha256}&new={sha256}"), &["Nothing: they have the same lines"]),
        (&format!("/robots/{sha256}"), &["Crawl-delay: 2", "id=\"L3\""]),
        ("/overrides", &["robots.txt alone decides", "Add the override"]),
        ("/try", &["Judge it"]),
        ("/watch", &["/api/v1/decisions/live?", "Pause", "/private/diary"]),
        ("/setup", &["Download the certificate", "curl", &desk.gate.address.to_string()]),
    ];
    for (target, needed) in pages {
        let text = page(&desk, target);
        for needed in *needed {
            assert!(text.contains(needed), "{target}: no {needed}\n{text}");
        }
    }
    let raw = desk.get(&format!("/robots/{sha256}?raw=true"));
    assert!(raw.text().starts_with("User-agent: *\n"));
    assert_eq!(
        raw.field("content-type").as_deref(),
        Some("text/plain; charset=utf-8")
    );
}

#[test]
fn a_loaded_file_is_cached_until_it_changes() {
    let desk = Desk::open();
    let overview = page(&desk, "/");
    for (part, media_type) in [
        ("/assets/console.css?", "text/css; charset=utf-8"),
        ("/assets/console.js?", "text/javascript; charset=utf-8"),
        ("/assets/icon.svg?", "image/svg+xml"),
    ] {
        let (_, rest) = overview.split_once(part).expect(part);
        let target = format!("{part}{}", rest.split('"').next().unwrap());
        let answer = desk.get(&target);
        assert_eq!(answer.status, 200, "{target}");
        assert_eq!(answer.field("content-type").as_deref(), Some(media_type));
        let tag = answer.field("etag").expect(part);
        let again = desk.ask("GET", &target, &format!("If-None-Match: {tag}\r\n"), "");
        assert_eq!((again.status, again.text().as_str()), (304, ""), "{target}");
        let other = desk.ask("GET", &target, "If-None-Match: \"x\"\r\n", "");
        assert_eq!(other.status, 200, "{target}");
    }
}

#[test]
fn a_failure_is_a_page_for_people_and_a_document_for_programs() {
    let desk = Desk::open();
    #[rustfmt::skip] // one row, one case
    let cases: &[(&str, &str, u16, &str)] = &[
        ("nothing there", "/nowhere", 404, "there is nothing here"),
        ("a decision that is not kept", "/decisions/01KB7W3Y5E000000000VY7H1Q2", 404, "no such decision"),
        ("a condition that makes no sense", "/denials?reason=because", 400, "it is one of robots_allow"),
        ("an unknown parameter", "/denials?orgin=a", 400, "orgin is no parameter here"),
        ("an invalid place", "/denials?before=x", 400, "the number of a record"),
        ("an invalid view", "/denials?view=host", 400, "it is one of rule, origin, reason"),
        ("an invalid origin", "/origin?of=site", 400, "an origin has a scheme"),
        ("no origin", "/origin", 400, "of which origin?"),
        ("an invalid digest", "/robots/xyz", 400, "64 hexadecimal digits"),
        ("a file that is not there", &format!("/robots/{}", "0".repeat(64)), 404, "no robots.txt of this digest"),
        ("an invalid method", "/overrides/remove", 405, "is not for this"),
    ];
    for (name, target, status, says) in cases {
        let shown = desk.ask("GET", target, BROWSER, "");
        assert_eq!(shown.status, *status, "{name}: {}", shown.text());
        let text = whole(&shown, target);
        assert!(text.contains(says), "{name}: {text}");
        let told = crate::desk::problem(&desk.get(target), *status);
        assert!(told.contains(says), "{name}: {told}");
    }
}

#[test]
fn a_denial_is_acknowledged_once_and_replaced_on_purpose() {
    let origin = Origin::with_rules(RULES);
    let desk = Desk::open();
    let id = desk.deny(&origin, "/private/diary");
    let at = format!("/decisions/{id}");
    let form = format!("{at}/acknowledge");
    let shown = page(&desk, &at);
    let csrf = csrf(&shown);
    let note = [("csrf", &*csrf), ("by", "Ada"), ("note", "<b>known</b>")];

    let forged = post(&desk, &form, &[("csrf", "0"), ("by", "Eve"), ("note", "x")]);
    assert_eq!(forged.status, 403, "{}", forged.text());
    let elsewhere =
        "Sec-Fetch-Site: cross-site\r\nContent-Type: application/x-www-form-urlencoded\r\n";
    let body = format!("csrf={csrf}&by=Eve&note=x");
    assert_eq!(desk.ask("POST", &form, elsewhere, &body).status, 403);
    assert_eq!(desk.get(&form).status, 405, "nothing changes by GET");
    assert!(!page(&desk, &at).contains("Acknowledged by"));

    let back = led_to(&post(&desk, &form, &note));
    let shown = page(&desk, &back);
    assert!(shown.contains("It is acknowledged."), "{shown}");
    assert!(shown.contains("Acknowledged by Ada"), "{shown}");
    assert!(
        shown.contains("&#60;b&#62;known"),
        "input of people is shown as text: {shown}"
    );
    assert!(page(&desk, "/denials?acknowledged=false").contains("No decision among"));
    assert!(page(&desk, "/denials?acknowledged=true").contains("Ada: "));

    let again = post(&desk, &form, &note);
    assert_eq!(again.status, 409, "{}", again.text());
    let replaced = [&note[..], &[("replace", "true")]].concat();
    led_to(&post(&desk, &form, &replaced));
    let wrong = [
        ("csrf", &*csrf),
        ("by", " "),
        ("note", "x"),
        ("replace", "true"),
    ];
    let refused = post(&desk, &form, &wrong);
    assert_eq!(refused.status, 400);
    assert!(refused.text().contains("by: expected some text"));
}

#[test]
fn an_override_of_a_page_holds_for_the_next_request() {
    let origin = Origin::with_rules(RULES);
    let desk = Desk::open();
    let id = desk.deny(&origin, "/private/diary");
    let csrf = csrf(&page(&desk, &format!("/decisions/{id}")));
    let name = origin.url("");
    let name = name.trim_end_matches('/');
    let new = |action, until| {
        [
            ("csrf", &*csrf),
            ("origin", name),
            ("pattern", "/private/diary"),
            ("action", action),
            ("until", until),
            ("by", "Ada Example"),
            ("reason", "a letter"),
        ]
        .map(|(name, value): (&str, &str)| (name.to_owned(), value.to_owned()))
    };
    let send = |fields: &[(String, String)]| {
        let fields: Vec<(&str, &str)> = fields.iter().map(|(a, b)| (&**a, &**b)).collect();
        post(&desk, "/overrides", &fields)
    };
    for (name, fields, says) in [
        ("no end", new("allow", ""), "until"),
        (
            "an end that is past",
            new("allow", "2020-01-01"),
            "has passed already",
        ),
        (
            "an invalid action",
            new("ask", "30d"),
            "it is allow or deny",
        ),
    ] {
        let refused = send(&fields);
        assert_eq!(refused.status, 400, "{name}");
        assert!(refused.text().contains(says), "{name}: {}", refused.text());
    }
    let back = led_to(&send(&new("allow", "30d")));
    desk.gate
        .get(&origin.url("/private/diary"))
        .is_origins(200, "page /private/diary");
    let shown = page(&desk, &back);
    assert!(shown.contains("holds from the next request on"), "{shown}");
    let number = back.rsplit('=').next().unwrap();
    let told = page(&desk, &format!("/origin?of={}", encoded(name)));
    assert!(told.contains("by Ada Example: a letter"), "{told}");

    let old = [("csrf", &*csrf), ("number", number), ("by", "Grace")];
    let back = led_to(&post(&desk, "/overrides/remove", &old));
    desk.deny(&origin, "/private/diary");
    assert!(page(&desk, &back).contains("is out of force"));
    assert_eq!(post(&desk, "/overrides/remove", &old).status, 404);
    assert_eq!(
        origin.seen_but_robots(),
        ["GET /private/diary"],
        "once, while it held"
    );
}

#[test]
fn an_origin_is_refreshed_compared_and_forgotten() {
    let origin = Origin::http().on(
        "/robots.txt",
        [
            Reply::ok("User-agent: *\nDisallow: /a\n"),
            Reply::ok("User-agent: *\nDisallow: /b\n"),
        ],
    );
    let desk = Desk::open();
    desk.deny(&origin, "/a");
    let name = origin.url("");
    let name = name.trim_end_matches('/');
    let at = format!("/origin?of={}", encoded(name));
    let shown = page(&desk, &at);
    let csrf = csrf(&shown);
    let of = [("csrf", &*csrf), ("of", name)];
    let back = led_to(&post(&desk, "/origin/refresh", &of));
    let shown = page(&desk, &back);
    assert!(shown.contains("Its robots.txt was fetched."), "{shown}");
    assert!(shown.contains("Disallow: /b"), "{shown}");
    desk.deny(&origin, "/b");

    let choice = |select: &str| {
        let (_, rest) = shown
            .split_once(&format!("<select id=\"{select}\""))
            .unwrap();
        let options = rest.split("</select>").next().unwrap();
        let chosen = options
            .split("<option ")
            .find(|one| one.contains(" selected"))
            .unwrap();
        chosen.split('"').nth(1).unwrap().to_owned()
    };
    let of_name = encoded(name);
    let changes = page(
        &desk,
        &format!(
            "/origin/diff?of={of_name}&old={}&new={}",
            choice("old"),
            choice("new")
        ),
    );
    for needed in [
        "<code>− Disallow: /a</code>",
        "<code>+ Disallow: /b</code>",
        "<code>  User-agent: *</code>",
    ] {
        assert!(changes.contains(needed), "{needed}: {changes}");
    }
    assert_eq!(desk.get("/origin/refresh").status, 405);

    let back = led_to(&post(&desk, "/origin/forget", &of));
    assert!(page(&desk, &back).contains("is forgotten"));
    assert!(page(&desk, &at).contains("Nothing is known of it"));
}

#[test]
fn all_results_of_a_filter_are_exported() {
    let origin = Origin::with_rules(RULES);
    let desk = Desk::open();
    let ids: Vec<String> = ["/private/1", "/private/2", "/private/=cmd"]
        .iter()
        .map(|path| desk.deny(&origin, path))
        .collect();
    desk.gate
        .get(&origin.url("/open"))
        .is_origins(200, "page /open");
    let lines = desk.get("/denials/export?format=jsonl");
    assert_eq!(lines.status, 200);
    let disposition = lines.field("content-disposition").unwrap();
    assert!(disposition.contains("decisions.jsonl"), "{disposition}");
    let lines = lines.text();
    let told: Vec<String> = lines
        .lines()
        .map(|line| {
            let record: serde_json::Value = serde_json::from_str(line).unwrap();
            record["id"].as_str().unwrap().to_owned()
        })
        .collect();
    assert_eq!(told, ids, "oldest first, denials only");
    let cells = desk
        .get("/denials/export?format=csv&path=/private/1")
        .text();
    assert_eq!(cells.lines().count(), 2, "{cells}");
    assert!(cells.starts_with("seq,time,id,"), "{cells}");
    assert!(cells.contains(&ids[0]), "{cells}");
    eventually("what was allowed to be kept, too", || {
        let all = desk.get("/denials/export?format=jsonl&verdict=any").text();
        (all.lines().count() == 4).then_some(())
    });
}

#[test]
fn a_url_is_tried_against_the_origin_or_a_text() {
    let origin = Origin::with_rules(RULES);
    let desk = Desk::open();
    let csrf = csrf(&page(&desk, "/try"));
    let tried = |url: &str, agent: &str, robots: &str| {
        let fields = [
            ("csrf", &*csrf),
            ("url", url),
            ("agent", agent),
            ("robots", robots),
        ];
        let answer = post(&desk, "/try", &fields);
        assert_eq!(answer.status, 200, "{}", answer.text());
        whole(&answer, "/try")
    };
    let long = "# filler\n".repeat(70_000);
    #[rustfmt::skip] // one row, one case
    let cases: &[(&str, &str, &str, String, &[&str])] = &[
        ("the origin's own", &origin.url("/private/x"), "", String::new(), &["robots_disallow", "Disallow: /private", "<td>decides</td>"]),
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
    assert_eq!(
        origin.seen_but_robots(),
        Vec::<String>::new(),
        "no page was fetched"
    );
    assert!(
        page(&desk, "/denials?verdict=any").contains("No decision among"),
        "nothing is recorded"
    );
}

#[test]
fn input_of_crawlers_and_sites_is_shown_as_text() {
    let robots =
        "User-agent: *\nDisallow: /<img src=x onerror=alert(1)>\nDisallow: /private\n# \u{202e}x\n";
    let origin = Origin::with_rules(robots);
    let desk = Desk::open();
    let id = desk.deny(&origin, "/private/%3Cscript%3E'&amp;");
    for target in ["/denials", "/watch", &format!("/decisions/{id}"), "/"] {
        let text = page(&desk, target);
        for raw in ["<img", "<b>", "\u{202e}"] {
            assert!(!text.contains(raw), "{target}: {raw}\n{text}");
        }
    }
    let text = page(&desk, &format!("/decisions/{id}"));
    assert!(text.contains("\\u{202e}x"), "{text}");
    assert!(
        text.contains("&#60;img src=x onerror=alert(1)&#62;"),
        "{text}"
    );
}

#[test]
fn without_a_store_pages_say_what_to_do() {
    let desk = Desk::with(|setup| {
        setup.set("store", "path", "\"\"");
    });
    for target in ["/", "/denials", "/origins", "/overrides"] {
        let text = page(&desk, target);
        assert!(text.contains("[store] path"), "{target}: {text}");
    }
    assert_eq!(desk.get("/denials/export?format=csv").status, 404);
}
