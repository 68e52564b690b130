//! Links that do more than lead to a page: those that judge a URL, and those to what a tile counts.

use super::pages::{BROWSER, encoded, page, whole};
use crate::support::{AdminGate, Origin, RULES, eventually};

#[test]
fn a_link_judges_a_url_unless_another_site_may_have_led_there() {
    let origin = Origin::with_rules(RULES);
    let gate = AdminGate::open();
    let asked = |url: &str, fields: &str| {
        let target = format!("/try?url={}&agent=ExampleBot", encoded(url));
        let answer = gate.ask("GET", &target, &format!("{BROWSER}{fields}"), "");
        assert_eq!(answer.status, 200, "{fields}: {}", answer.text());
        whole(&answer, &target)
    };
    let url = origin.url("/private/x");
    for fields in [
        "",
        "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n",
        "Sec-Fetch-Site: same-site\r\nSec-Fetch-Mode: navigate\r\n",
        "Sec-Fetch-Site: same-origin\r\nSec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n",
    ] {
        let text = asked(&url, fields);
        says!(text, "The link filled in the form.", &format!("value=\"{url}\""));
        assert!(!text.contains(">Verdict<"), "{fields}: {text}");
    }
    assert_eq!(origin.connections(), 0, "nothing was fetched");
    for from in ["none", "same-origin"] {
        let text = asked(&url, &format!("Sec-Fetch-Site: {from}\r\nSec-Fetch-Mode: navigate\r\n"));
        says!(
            text,
            "Disallowed by robots.txt <code>robots_disallow</code>",
            "Link to this question"
        );
    }
    assert_eq!(origin.robots_fetches(), 1);
    assert_eq!(origin.seen_but_robots(), Vec::<String>::new());
    let faulty = asked("site.example/a", "Sec-Fetch-Site: none\r\n");
    says!(
        faulty,
        "value=\"site.example/a\"",
        "aria-invalid=\"true\" aria-describedby=\"url-fault\""
    );
    assert_eq!(gate.get("/try?url=a&url=b").status, 400);
}

#[test]
fn tiles_lead_to_what_they_count() {
    // Requests, denied and its reason, put off, failed, would be denied and its reason; no list has all that were forwarded,
    // in report mode and otherwise. Where forwarded requests are not recorded, none has all requests.
    for (decisions, expected) in [("all", 7), ("denied", 6), ("purposes", 6)] {
        tiles_of(decisions, expected);
    }
}

/// Compares the tiles of a gate that records these decisions with their lists, of which there are so many.
fn tiles_of(decisions: &str, expected: usize) {
    let origin = Origin::with_rules(RULES);
    let reported = Origin::with_rules(RULES);
    let gate = AdminGate::with(|setup| {
        let origins = format!("[{:?}]", reported.url("").trim_end_matches('/'));
        setup.set("policy", "report_origins", &origins);
        setup.set("log", "decisions", &format!("\"{decisions}\""));
    });
    for path in ["/private/1", "/private/2"] {
        gate.deny(&origin, path);
    }
    for path in ["/a", "/b", "/c"] {
        gate.process.get(&origin.url(path));
    }
    gate.process.passes(&reported.url("/private/3"));
    let tiles = |text: &str| -> Vec<(String, String, u64)> {
        let (_, tiles) = text.split_once("<ul class=\"figures\">").unwrap();
        let tiles = tiles.split("</section>").next().unwrap();
        let links = tiles.split("<a href=\"").skip(1).map(|link| {
            let (href, rest) = link.split_once("\">").unwrap();
            let whole = rest.split_once("<span class=\"count\">");
            let (count, name) = match whole.filter(|(before, _)| before.is_empty()) {
                Some((_, rest)) => rest.split_once("</span>").unwrap(),
                None => {
                    let (name, rest) = rest.split_once("</a> <span class=\"number\">").unwrap();
                    (rest.split('<').next().unwrap(), name)
                }
            };
            (href.replace("&#38;", "&"), name.to_owned(), count.parse().unwrap())
        });
        links.collect()
    };
    let all = eventually("all requests to be counted", || {
        let text = page(&gate, "/");
        let six = "<span class=\"count\">6</span> <span class=\"name\">Requests</span>";
        text.contains(six).then(|| tiles(&text))
    });
    let names: Vec<&str> = all.iter().map(|(_, name, _)| name.as_str()).collect();
    let lists = all.iter().filter(|(href, ..)| href.starts_with("/denials"));
    let mut count = 0;
    for (href, name, counted) in lists {
        eventually("the list to have what its tile counts", || {
            let list = page(&gate, href);
            let rows = list.matches("<th scope=\"row\" class=\"url\">").count();
            (rows as u64 == *counted).then_some(())
        });
        assert!(href.contains("since="), "{name}: {href}");
        count += 1;
    }
    assert_eq!(count, expected, "{decisions}: {names:?}");
    let text = page(&gate, "/");
    let (_, legend) = text.split_once("<ul class=\"legend\">").unwrap();
    says!(legend, "reason=robots_disallow\">robots_disallow</a>");
}
