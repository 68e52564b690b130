//! Forms of the console that change something: acknowledgements, overrides, origins.

use super::pages::{FORM, encoded, page};
use crate::support::{AdminGate, Origin, RULES, Reply, Response, eventually};

#[track_caller]
pub fn csrf(page: &str) -> String {
    let (_, rest) = page.split_once("name=\"csrf\" value=\"").expect("a form");
    rest.split('"').next().unwrap().to_owned()
}

#[track_caller]
pub fn post(gate: &AdminGate, target: &str, fields: &[(&str, &str)]) -> Response {
    let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
    gate.ask("POST", target, FORM, &body)
}

/// Returns the target of a form's redirect.
#[track_caller]
fn led_to(answer: &Response) -> String {
    assert_eq!(answer.status, 303, "{}", answer.text());
    answer.field("location").unwrap()
}

#[test]
fn a_denial_is_acknowledged_once_and_replaced_on_purpose() {
    let origin = Origin::with_rules(RULES);
    let gate = AdminGate::open();
    let id = gate.deny(&origin, "/private/diary");
    let at = format!("/decisions/{id}");
    let form = format!("{at}/acknowledge");
    let shown = page(&gate, &at);
    says!(shown, "The User-Agent has no URL");
    let csrf = csrf(&shown);
    let note = [("csrf", &*csrf), ("by", "Ada"), ("note", "<b>known</b>")];

    let forged = post(&gate, &form, &[("csrf", "0"), ("by", "Eve"), ("note", "x")]);
    assert_eq!(forged.status, 403, "{}", forged.text());
    let elsewhere =
        "Sec-Fetch-Site: cross-site\r\nContent-Type: application/x-www-form-urlencoded\r\n";
    let body = format!("csrf={csrf}&by=Eve&note=x");
    assert_eq!(gate.ask("POST", &form, elsewhere, &body).status, 403);
    assert_eq!(gate.get(&form).status, 405, "nothing changes by GET");
    assert!(!page(&gate, &at).contains("Acknowledged by"));

    let back = led_to(&post(&gate, &form, &note));
    let shown = page(&gate, &back);
    says!(shown, "It is acknowledged.", "Acknowledged by Ada");
    says!(shown, "&#60;b&#62;known"; "input of people is shown as text");
    assert!(page(&gate, "/denials?acknowledged=false").contains("No decision among"));
    assert!(page(&gate, "/denials?acknowledged=true").contains("Ada: "));

    let again = post(&gate, &form, &note);
    assert_eq!(again.status, 409, "{}", again.text());
    assert!(again.text().contains("Ada has acknowledged"), "{again:?}");
    let mark = |page: &str| {
        let (_, rest) = page.split_once("name=\"replaces\" value=\"").unwrap();
        rest.split('"').next().unwrap().to_owned()
    };
    let seen = mark(&shown);
    let grace = [("csrf", &*csrf), ("by", "Grace"), ("note", "mine"), ("replaces", &seen)];
    led_to(&post(&gate, &form, &grace));
    // The page of another reviewer still shows the note of Ada.
    let late = [("csrf", &*csrf), ("by", "Eve"), ("note", "late"), ("replaces", &seen)];
    let late = post(&gate, &form, &late);
    assert_eq!(late.status, 409, "{}", late.text());
    assert!(late.text().contains("Grace has acknowledged"), "{late:?}");
    let shown = page(&gate, &at);
    says!(shown, "Acknowledged by Grace");
    let seen = mark(&shown);
    let wrong = [("csrf", &*csrf), ("by", " "), ("note", "x"), ("replaces", &seen)];
    let shown = sent_back(&gate, &form, &wrong);
    says!(shown, "Nothing is acknowledged");
    assert_eq!(mark(&shown), seen, "the form still replaces that note");
    assert!(page(&gate, &at).contains("Acknowledged by Grace"));
}

/// Sends a form for a note with an empty name and the note `x`, and returns the page with the form that comes back.
#[track_caller]
fn sent_back(gate: &AdminGate, target: &str, fields: &[(&str, &str)]) -> String {
    let answer = post(gate, target, fields);
    assert_eq!(answer.status, 400, "{answer:?}");
    let shown = answer.text();
    says!(
        shown,
        "<span class=\"fault\" id=\"ack-by-fault\">expected some text</span>",
        "aria-describedby=\"ack-by-fault\"",
        "name=\"note\" value=\"x\""
    );
    shown
}

/// Returns a hidden field of a form.
#[track_caller]
fn hidden(page: &str, name: &str) -> String {
    let start = format!("name=\"{name}\" value=\"");
    let (_, rest) = page.split_once(&start).expect("a field");
    rest.split('"').next().unwrap().replace("&#38;", "&")
}

#[test]
fn all_denials_of_a_filter_are_acknowledged_as_they_were_counted() {
    let origin = Origin::with_rules(RULES);
    let gate = AdminGate::open();
    for name in ["a", "b", "c"] {
        gate.deny(&origin, &format!("/private/{name}"));
    }
    let filter = "rule=Disallow%3A+%2Fprivate";
    let shown = page(&gate, &format!("/denials?{filter}"));
    says!(shown, "href=\"/denials/acknowledge?rule=Disallow%3A+%2Fprivate");
    let groups = page(&gate, "/denials?view=rule");
    says!(groups, "Acknowledge these");
    for wrong in "verdict=any acknowledged=true log=* reason=none view=rule".split(' ') {
        let refused = gate.get(&format!("/denials/acknowledge?{wrong}"));
        assert_eq!(refused.status, 400, "{wrong}: {}", refused.text());
    }

    let asked = page(&gate, &format!("/denials/acknowledge?since=1h&{filter}"));
    says!(asked, "Acknowledge 3 decisions?");
    let (csrf, to) = (csrf(&asked), hidden(&asked, "to"));
    let conditions = hidden(&asked, "conditions");
    lacks!(conditions, "since=1h"; "a fixed time");
    // One that came later stays open.
    let late = gate.deny(&origin, "/private/late");
    let send = |csrf: &str| {
        let note = [("csrf", csrf), ("by", "Ada"), ("note", "known")];
        let meant = [("conditions", &*conditions), ("to", &*to)];
        post(&gate, "/denials/acknowledge", &[&note[..], &meant].concat())
    };
    assert_eq!(send("0").status, 403);
    let wrong =
        [("csrf", &*csrf), ("by", ""), ("note", "x"), ("conditions", &conditions), ("to", &to)];
    let shown = sent_back(&gate, "/denials/acknowledge", &wrong);
    says!(shown, "Acknowledge 3 decisions?");
    assert_eq!(hidden(&shown, "to"), to);
    assert_eq!(hidden(&shown, "conditions"), conditions);
    let done = send(&csrf);
    assert_eq!(done.status, 200, "{}", done.text());
    assert!(done.text().contains("3 decisions are acknowledged"));
    let cookie = done.field("set-cookie").unwrap();
    assert!(
        cookie.starts_with("crawlgate_reviewer=Ada; ")
            && cookie.contains("HttpOnly")
            && cookie.contains("SameSite=Strict"),
        "{cookie}"
    );
    let number = "class=\"open\">1<span class=\"hidden\"> open</span>";
    // A page shows an older number rather than wait long for a busy store.
    let open = eventually("the number of the navigation", || {
        let open = page(&gate, "/denials?acknowledged=false");
        open.contains(number).then_some(open)
    });
    says!(open, &format!("value=\"{late}\""));
    assert_eq!(open.matches("type=\"checkbox\"").count(), 1, "{open}");
    assert!(send(&csrf).text().contains("0 decisions are acknowledged"));
}

#[test]
fn ticked_denials_are_acknowledged_and_the_notes_of_others_stay() {
    let origin = Origin::with_rules(RULES);
    let gate = AdminGate::open();
    let ids = ["a", "b", "c"].map(|name| gate.deny(&origin, &format!("/private/{name}")));
    let shown = page(&gate, "/denials");
    assert_eq!(shown.matches("type=\"checkbox\"").count(), 3, "{shown}");
    let csrf = csrf(&shown);
    let first = [("csrf", &*csrf), ("by", "Grace"), ("note", "mine")];
    led_to(&post(&gate, &format!("/decisions/{}/acknowledge", ids[0]), &first));
    let ticked = [
        ("csrf", &*csrf),
        ("by", "Ada"),
        ("note", "known"),
        ("list", "verdict=deny"),
        ("id", &ids[0]),
        ("id", &ids[1]),
        ("id", "01KB7W3Y5E000000000VY7H1Q2"),
    ];
    let mut wrong = ticked;
    (wrong[1], wrong[2]) = (("by", " "), ("note", "x"));
    let shown = sent_back(&gate, "/denials/acknowledge/ticked", &wrong);
    says!(shown, "Acknowledge 3 decisions?");
    for id in &ids[..2] {
        let kept = format!("name=\"id\" value=\"{id}\"");
        says!(shown, &kept);
    }
    let done = post(&gate, "/denials/acknowledge/ticked", &ticked);
    let text = done.text();
    says!(
        text,
        "1 decision is acknowledged",
        "1 was acknowledged meanwhile",
        "<td data-head=\"By\">Grace</td>",
        "1 of them is no longer in the store"
    );
    let none = post(&gate, "/denials/acknowledge/ticked", &ticked[..4]);
    assert_eq!(none.status, 400);

    // The one that is left is the next one, and the name is remembered.
    let cookie = done.field("set-cookie").unwrap();
    let cookie = cookie.split(';').next().unwrap();
    let fields = format!("Cookie: {cookie}\r\n");
    let at = format!("/decisions/{}?origin=site.test", ids[1]);
    let shown = gate.ask("GET", &at, &fields, "").text();
    says!(shown, "name=\"by\" value=\"Ada\"");
    let next = format!(
        "<a href=\"/decisions/{}?origin=site.test&#38;verdict=deny\" rel=\"next\">",
        ids[2]
    );
    says!(shown, &next);
    let last = [("csrf", &*csrf), ("by", "Ada"), ("note", "known")];
    let form = format!("/decisions/{}/acknowledge", ids[2]);
    let list = [&last[..], &[("list", "origin=site.test")]].concat();
    let back = led_to(&post(&gate, &form, &list));
    says!(back, "origin=site.test");
    let shown = page(&gate, &back);
    says!(shown, "No open denial of this list is near");
}

#[test]
fn an_override_of_a_page_holds_for_the_next_request() {
    let origin = Origin::with_rules(RULES);
    let gate = AdminGate::open();
    let id = gate.deny(&origin, "/private/diary");
    let csrf = csrf(&page(&gate, &format!("/decisions/{id}")));
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
        post(&gate, "/overrides", &fields)
    };
    #[rustfmt::skip] // one row, one case
    let cases = [
        ("no end", new("allow", ""), "until"),
        ("an end that is past", new("allow", "2020-01-01"), "has passed already"),
        ("an invalid action", new("ask", "30d"), "it is allow, allow_usage or deny"),
    ];
    for (name, fields, says) in cases {
        let refused = send(&fields);
        assert_eq!(refused.status, 400, "{name}");
        assert!(refused.text().contains(says), "{name}: {}", refused.text());
    }
    let back = led_to(&send(&new("allow", "30d")));
    gate.process.passes(&origin.url("/private/diary"));
    let shown = page(&gate, &back);
    says!(shown, "holds from the next request on");
    let number = back.rsplit('=').next().unwrap();
    let told = page(&gate, &format!("/origin?of={}", encoded(name)));
    says!(told, "by Ada Example: a letter");

    let old = [("csrf", &*csrf), ("number", number), ("by", "Grace")];
    let back = led_to(&post(&gate, "/overrides/remove", &old));
    gate.deny(&origin, "/private/diary");
    assert!(page(&gate, &back).contains("is out of force"));
    assert_eq!(post(&gate, "/overrides/remove", &old).status, 404);
    assert_eq!(origin.seen_but_robots(), ["GET /private/diary"], "once, while it held");
}

#[test]
fn an_origin_is_refreshed_compared_and_forgotten() {
    let origin = Origin::http().on(
        "/robots.txt",
        [Reply::ok("User-agent: *\nDisallow: /a\n"), Reply::ok("User-agent: *\nDisallow: /b\n")],
    );
    let gate = AdminGate::open();
    gate.deny(&origin, "/a");
    let name = origin.url("");
    let name = name.trim_end_matches('/');
    let at = format!("/origin?of={}", encoded(name));
    let shown = page(&gate, &at);
    let csrf = csrf(&shown);
    let of = [("csrf", &*csrf), ("of", name)];
    let back = led_to(&post(&gate, "/origin/refresh", &of));
    let shown = page(&gate, &back);
    says!(shown, "Its documents were fetched.", "Disallow: /b");
    gate.deny(&origin, "/b");

    let choice = |select: &str| {
        let (_, rest) = shown.split_once(&format!("<select id=\"{select}\"")).unwrap();
        let options = rest.split("</select>").next().unwrap();
        let chosen = options.split("<option ").find(|one| one.contains(" selected")).unwrap();
        chosen.split('"').nth(1).unwrap().to_owned()
    };
    let of_name = encoded(name);
    let changes = page(
        &gate,
        &format!("/origin/diff?of={of_name}&old={}&new={}", choice("old"), choice("new")),
    );
    says!(
        changes,
        "<code>− Disallow: /a</code>",
        "<code>+ Disallow: /b</code>",
        "<code>  User-agent: *</code>"
    );
    assert_eq!(gate.get("/origin/refresh").status, 405);

    let back = led_to(&post(&gate, "/origin/forget", &of));
    assert!(page(&gate, &back).contains("is forgotten"));
    assert!(page(&gate, &at).contains("Nothing is known of it"));
}
