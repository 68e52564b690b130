use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use crate::lines::PIECE;
use crawlgate_origins::identity::Identity;
use crawlgate_origins::snapshot::Snapshot;
use crawlgate_origins::state::{Fresh, Outage};
use crawlgate_policy::overrides::{Action, OverrideId};
use crawlgate_record::samples::NOON as MILLIS;
use crawlgate_record::{Entry, Rule, Texts, Url, most, write_line};
use crawlgate_robots::{Origin, ParseOptions, Robots};

pub(crate) const NOON: Moment = Moment::from_millis(MILLIS);

/// Grounds of every kind.
struct Known {
    overridden: Override,
    state: State,
    fetched_as: FetchedAs,
}

fn known() -> Known {
    let later = |secs| NOON + Duration::from_secs(secs);
    let ago = |secs| NOON - Duration::from_secs(secs);
    Known {
        overridden: Override {
            id: OverrideId::Stored(12),
            origin: Origin::parse("https://site.example").unwrap().0,
            pattern: "/private/".to_owned(),
            action: Action::Deny,
            by: "Ada Example".to_owned(),
            reason: "a letter of 2026-11-02".to_owned(),
            until: Some(later(86_400)),
            created: ago(3_600),
            instance: None,
        },
        state: State::Successful {
            snapshot: snapshot("https://www.site.example/robots.txt"),
            fresh: Fresh { refresh_from: NOON, until: later(60) },
            outage: Some(outage()),
        },
        fetched_as: FetchedAs::new(Identity::default(), "ExampleBot crawlgate/0.1".into()),
    }
}

fn snapshot(final_url: &str) -> Arc<Snapshot> {
    let robots = Robots::parse(b"User-agent: *\nDisallow: /private\n", ParseOptions::default());
    Arc::new(Snapshot::new(robots, NOON - Duration::from_secs(90), 200, final_url))
}

fn outage() -> Outage {
    Outage {
        cause: Cause::Status(503),
        since: NOON - Duration::from_secs(30),
        last_failure: Some(NOON - Duration::from_secs(20)),
        last_attempt: NOON - Duration::from_secs(20),
        attempts: 2,
        next_attempt: NOON + Duration::from_secs(10),
    }
}

/// Returns the state of an origin that has not answered.
pub(crate) fn unreachable() -> State {
    State::Unreachable { outage: outage(), last_good: None }
}

impl Known {
    fn grounds(&self) -> Grounds<'_> {
        Grounds {
            overridden: Some(&self.overridden),
            robots: Some((&self.state, Some(&self.fetched_as))),
            tdmrep: None,
        }
    }
}

/// Returns the line that a decision with these grounds gives.
fn line(decision: Decision<'_>, grounds: &Grounds<'_>) -> String {
    let digests = grounds.digests(decision.origin);
    let mut batch = Batch::default();
    grounds.file(&digests.named_by(decision), &mut batch);
    let objects = batch.objects.iter();
    let objects: HashMap<_, _> = objects.map(|one| (one.sha256, one.body.to_vec())).collect();
    let entry = batch.entries.iter().next().unwrap();
    assert!(entry.len() <= crawlgate_record::MAX);
    let mut out = Vec::new();
    write_line(&Entry::read(entry).unwrap(), &objects, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// Returns the line of a decision without grounds.
fn parsed(decision: Decision<'_>) -> Value {
    serde_json::from_str(&line(decision, &Grounds::default())).unwrap()
}

#[test]
fn a_line_has_the_grounds_of_its_decision() {
    let known = known();
    let text = line(Decision::sample(), &known.grounds());
    assert_eq!(text.find('\n'), Some(text.len() - 1));
    let value: Value = serde_json::from_str(&text).unwrap();
    let State::Successful { snapshot, .. } = &known.state else {
        unreachable!();
    };
    let want = json!({
        "url": "https://site.example/robots.txt",
        "identity": "*",
        "user_agent": "ExampleBot crawlgate/0.1",
        "final_url": "https://www.site.example/robots.txt",
        "state": "successful",
        "status": 200,
        "fetched_at": "2026-11-20T11:58:30.123Z",
        "age_s": 90,
        "sha256": crawlgate_text::hex(snapshot.sha256),
        "bytes": 33,
        "truncated": false,
        "fresh_until": "2026-11-20T12:01:00.123Z",
        "unreachable": {
            "since": "2026-11-20T11:59:30.123Z",
            "last_failure": "2026-11-20T11:59:40.123Z",
            "cause": "status_503",
            "answers": true,
            "attempts": 2,
            "next_attempt": "2026-11-20T12:00:10.123Z",
        },
    });
    assert_eq!(value["robots"], want);
    let want = json!({
        "id": "12",
        "origin": "https://site.example",
        "pattern": "/private/",
        "action": "deny",
        "by": "Ada Example",
        "reason": "a letter of 2026-11-02",
        "until": "2026-11-21T12:00:00.123Z",
    });
    assert_eq!(value["override"], want);
}

#[test]
fn a_state_says_what_is_known_of_its_fetch() {
    let fresh = Fresh { refresh_from: NOON, until: NOON };
    let unavailable = |why| State::Unavailable { why, fetched: NOON, fresh, outage: None };
    let dns = State::Unreachable {
        outage: Outage { cause: Cause::Dns, last_failure: None, ..outage() },
        last_good: None,
    };
    for (state, status, has_fetch, last_failure) in [
        (State::NeverFetched, Value::Null, false, None),
        (unavailable(Absence::Status(404)), 404.into(), true, None),
        (unavailable(Absence::RedirectLoop), Value::Null, true, None),
        (dns, Value::Null, false, Some(Value::Null)),
        (unreachable(), 503.into(), false, Some("2026-11-20T11:59:40.123Z".into())),
    ] {
        let grounds = Grounds { robots: Some((&state, None)), ..Grounds::default() };
        let value: Value = serde_json::from_str(&line(Decision::sample(), &grounds)).unwrap();
        let robots = &value["robots"];
        assert_eq!(robots["state"], state.name());
        assert_eq!(robots["status"], status, "{state:?}");
        assert_eq!(robots["fetched_at"].is_string(), has_fetch, "{state:?}");
        for name in ["identity", "user_agent", "final_url", "sha256", "bytes"] {
            assert_eq!(robots[name], Value::Null, "{state:?}: {name}");
        }
        match last_failure {
            Some(last) => assert_eq!(robots["unreachable"]["last_failure"], last),
            None => assert_eq!(robots["unreachable"], Value::Null),
        }
    }
}

#[test]
fn secrets_in_urls_stay_out_of_the_record() {
    let url = |redact_query| {
        let octets = b"https://user:secret@site.example/x?token=secret";
        let origin = Some("https://site.example");
        Url::public(octets, origin, redact_query, Bounds::CLIENTS)
    };
    let with = |redact_query| Decision { url: url(redact_query), ..Decision::sample() };
    let whole = "https://site.example/x?token=secret";
    assert_eq!(parsed(with(false))["url"], whole);
    let mut known = known();
    if let State::Successful { snapshot: kept, .. } = &mut known.state {
        *kept = snapshot("https://user:secret@www.site.example/robots.txt");
    }
    let text = line(with(true), &known.grounds());
    assert!(!text.contains("secret"), "{text}");
    assert!(text.contains("\"https://site.example/x?…redacted\""), "{text}");
    assert!(text.contains("\"https://www.site.example/robots.txt\""), "{text}");
}

#[test]
fn the_most_hostile_exchange_is_one_valid_line_of_bounded_length() {
    let octets: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    let text = String::from_utf8_lossy(&octets);
    let chain = vec![&*text; 100];
    let decision = Decision {
        client_name: Some((&*text).into()),
        chain: (&chain[..]).into(),
        user_agent: Some((&octets[..]).into()),
        method: (&*text).into(),
        url: Url::public(&octets, Some(&text), false, Bounds::CLIENTS),
        origin: Some(&text),
        rule: Some(Rule { group: (&*text).into(), text: text.as_bytes().into(), line: u32::MAX }),
        error: Some((&*text).into()),
        ..Decision::sample()
    };
    let mut known = known();
    let asserted = &mut known.overridden;
    for words in [&mut asserted.pattern, &mut asserted.by, &mut asserted.reason] {
        *words = text.to_string();
    }
    if let State::Successful { snapshot: kept, .. } = &mut known.state {
        *kept = snapshot(&text);
    }
    let line = line(decision, &known.grounds());
    assert_eq!(line.find('\n'), Some(line.len() - 1));
    assert!(line.len() <= PIECE, "{}", line.len());
    let value: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(value["agent"]["chain"].as_array().unwrap().len(), most::TOKENS + 1);
    assert_eq!(value["agent"]["chain"][most::TOKENS], "…[+68]");
    assert_eq!(
        parsed(Decision { chain: Texts::default(), ..Decision::sample() })["agent"]["chain"],
        json!([])
    );
}

#[test]
fn unidentified_clients_get_short_records() {
    let (url, agent) = ([b'u'; 15_000], [b'a'; 1_000]);
    let length = |reason: &'static str| {
        let read = parsed(Decision {
            reason,
            url: Url::public(&url, None, false, Bounds::of(reason)),
            user_agent: Some((&agent[..]).into()),
            ..Decision::sample()
        });
        let length = |key: &str| read[key].as_str().unwrap().len();
        let is_cut = read["url"].as_str().unwrap().contains("…[+");
        (length("url"), length("user_agent"), is_cut)
    };
    let (url, agent_of_a_client, is_cut) = length("robots_disallow");
    assert!((2_000..=2_048).contains(&url) && is_cut, "{url}");
    assert_eq!(agent_of_a_client, 1_000);
    for reason in ["unauthenticated", "unknown_client"] {
        let (url, agent, is_cut) = length(reason);
        assert!(url <= 540 && agent <= 540 && is_cut, "{reason}: {url}, {agent}");
    }
}
