use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};

use serde_json::{Value, json};

use super::*;
use crate::audit::lines::PIECE;
use crawlgate_record::{Entry, most, write_line};
use crawlgate_store::Batch;

pub(in crate::audit) const NOON: Moment = Moment::from_millis(1_795_176_000_123);

/// A denial with every field filled in.
pub(in crate::audit) fn denial() -> Record<'static> {
    Record {
        time: NOON,
        id: DecisionId::mint(NOON),
        decided_at: NOON + Duration::from_millis(1),
        mode: "enforce",
        verdict: "deny",
        reason: "robots_disallow",
        policy: Some(PolicyDigest([0x5a; 32])),
        client: Client {
            address: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 40_000),
            name: Some("crawler-7"),
        },
        agent: Agent {
            chain: (&["ExampleBot-Image", "ExampleBot"][..]).into(),
            source: "user_agent",
            mismatch: false,
        },
        user_agent: Some(b"ExampleBot-Image/1.0 (+https://bot.example/)"),
        method: "GET",
        version: Some("1.1"),
        url: b"https://site.example/private/x?q=1",
        origin: Some("https://site.example"),
        via: "intercepted",
        opaque: false,
        rule: Some(RuleLine {
            group: "*",
            text: "Disallow: /private",
            line: 3,
        }),
        reading: Some("/private/x"),
        overridden: Some(Assertion {
            id: OverrideId::Stored(12),
            origin: "https://site.example",
            pattern: "/private/",
            action: "deny",
            by: "Ada Example",
            reason: "a letter of 2026-11-02",
            until: Some(NOON + Duration::from_secs(86_400)),
            created: NOON - Duration::from_secs(3_600),
            instance: None,
        }),
        exempt: None,
        robots: Some(RobotsCopy {
            identity: Some("examplebot"),
            user_agent: Some("ExampleBot crawlgate/0.1"),
            final_url: Some("https://www.site.example/robots.txt"),
            state: "successful",
            status: Some(200),
            fetched_at: Some(NOON - Duration::from_secs(90)),
            sha256: Some([0xa5; 32]),
            bytes: Some(40),
            truncated: false,
            fresh_until: Some(NOON + Duration::from_secs(60)),
            unreachable: Some(Outage {
                since: NOON - Duration::from_secs(30),
                last_failure: Some(NOON - Duration::from_secs(20)),
                cause: &Cause::Status(503),
                attempts: 2,
                next_attempt: NOON + Duration::from_secs(10),
            }),
        }),
        hold: Duration::from_micros(1_500),
        pace: Some(PaceLine {
            interval: Duration::from_secs(2),
            source: "crawl_delay",
            clamped: true,
        }),
        upstream: None,
        upstream_version: None,
        signed: None,
        status: Some(403),
        bytes_in: 0,
        bytes_out: 512,
        duration: Duration::from_micros(42),
        error: None,
        detail: None,
        purposes: Purposes::NONE,
        usage: None,
        tdmrep: None,
    }
}

/// Returns the line that the record's entry gives.
pub(in crate::audit) fn line(record: &Record<'_>, redact_query: bool) -> String {
    let mut batch = Batch::default();
    record.file(redact_query, &mut batch);
    let objects = batch.objects.iter();
    let objects: HashMap<_, _> = objects.map(|one| (one.sha256, one.body.to_vec())).collect();
    let entry = batch.entries.iter().next().unwrap();
    let mut out = Vec::new();
    write_line(&Entry::read(entry).unwrap(), &objects, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn parsed(record: &Record<'_>) -> Value {
    serde_json::from_str(&line(record, false)).unwrap()
}

#[test]
fn a_record_is_one_line_with_all_its_fields() {
    let record = denial();
    let text = line(&record, false);
    assert_eq!(text.find('\n'), Some(text.len() - 1));
    let mut want = json!({
        "time": "2026-11-20T12:00:00.123Z",
        "id": record.id.to_string(),
        "decided_at": "2026-11-20T12:00:00.124Z",
        "mode": "enforce",
        "verdict": "deny",
        "reason": "robots_disallow",
        "policy": "5a".repeat(32),
        "client": {"address": "127.0.0.1:40000", "name": "crawler-7"},
        "agent": {"chain": ["ExampleBot-Image", "ExampleBot"], "source": "user_agent", "mismatch": false},
        "user_agent": "ExampleBot-Image/1.0 (+https://bot.example/)",
        "method": "GET",
        "url": "https://site.example/private/x?q=1",
        "scheme": "https",
        "host": "site.example",
        "port": 443,
        "via": "intercepted",
        "opaque": false,
        "rule": {"group": "*", "text": "Disallow: /private", "line": 3},
        "reading": "/private/x",
        "override": {
            "id": "12",
            "origin": "https://site.example",
            "pattern": "/private/",
            "action": "deny",
            "by": "Ada Example",
            "reason": "a letter of 2026-11-02",
            "until": "2026-11-21T12:00:00.123Z",
        },
        "robots": {
            "url": "https://site.example/robots.txt",
            "identity": "examplebot",
            "user_agent": "ExampleBot crawlgate/0.1",
            "final_url": "https://www.site.example/robots.txt",
            "state": "successful",
            "status": 200,
            "fetched_at": "2026-11-20T11:58:30.123Z",
            "age_s": 90,
            "sha256": "a5".repeat(32),
            "bytes": 40,
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
        },
        "hold_ms": 1.5,
        "pace": { "interval_ms": 2000.0, "source": "crawl_delay", "clamped": true },
        "upstream": null,
        "upstream_version": null,
        "status": 403,
        "bytes_in": 0,
        "bytes_out": 512,
        "duration_ms": 0.042,
        "error": null,
    });
    // Beside the others it would exceed the macro's depth.
    want["version"] = "1.1".into();
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), want);
}

#[test]
fn unknown_values_are_null() {
    let mut record = denial();
    record.client.name = None;
    record.agent.chain = Texts::default();
    record.user_agent = None;
    record.policy = None;
    record.rule = None;
    record.reading = None;
    record.overridden = None;
    record.robots = None;
    record.status = None;
    let value = parsed(&record);
    for field in [
        &value["client"]["name"],
        &value["user_agent"],
        &value["policy"],
        &value["rule"],
        &value["reading"],
        &value["override"],
        &value["robots"],
        &value["status"],
    ] {
        assert_eq!(*field, Value::Null);
    }
    assert_eq!(value["agent"]["chain"], json!([]));

    let robots = RobotsCopy {
        identity: None,
        user_agent: None,
        final_url: None,
        state: "unreachable",
        status: None,
        fetched_at: None,
        sha256: None,
        bytes: None,
        truncated: false,
        fresh_until: None,
        unreachable: None,
    };
    record.robots = Some(robots);
    let value = parsed(&record);
    for name in [
        "final_url",
        "status",
        "fetched_at",
        "age_s",
        "sha256",
        "bytes",
        "fresh_until",
        "unreachable",
    ] {
        assert_eq!(value["robots"][name], Value::Null, "{name}");
    }
}

#[test]
fn secrets_in_urls_stay_out_of_the_record() {
    let mut record = denial();
    record.url = b"https://user:secret@site.example/x?token=secret";
    let mut robots = record.robots.unwrap();
    robots.final_url = Some("https://user:secret@www.site.example/robots.txt");
    record.robots = Some(robots);
    assert_eq!(
        parsed(&record)["url"],
        "https://site.example/x?token=secret"
    );
    let text = line(&record, true);
    assert!(!text.contains("secret"), "{text}");
    assert!(
        text.contains("\"https://site.example/x?…redacted\""),
        "{text}"
    );
    assert!(
        text.contains("\"https://www.site.example/robots.txt\""),
        "{text}"
    );
}

#[test]
fn the_most_hostile_exchange_is_one_valid_line_of_bounded_length() {
    let octets: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    let text = String::from_utf8_lossy(&octets);
    let chain = vec![&*text; 100];
    let mut record = denial();
    record.client.name = Some(&text);
    record.agent.chain = (&chain[..]).into();
    record.user_agent = Some(&octets);
    record.method = &text;
    record.url = &octets;
    record.origin = Some(&text);
    record.rule = Some(RuleLine {
        group: &text,
        text: &text,
        line: u32::MAX,
    });
    let mut robots = record.robots.unwrap();
    robots.final_url = Some(&text);
    record.overridden = Some(Assertion {
        id: OverrideId::Stored(u64::MAX),
        origin: &text,
        pattern: &text,
        action: "allow",
        by: &text,
        reason: &text,
        until: None,
        created: NOON,
        instance: None,
    });
    record.robots = Some(robots);
    record.error = Some(&text);

    let line = line(&record, false);
    assert_eq!(line.find('\n'), Some(line.len() - 1));
    assert!(line.len() <= PIECE, "{}", line.len());
    let value: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(
        value["agent"]["chain"].as_array().unwrap().len(),
        most::TOKENS + 1
    );
    assert_eq!(value["agent"]["chain"][most::TOKENS], "…[+68]");
}

#[test]
fn unidentified_clients_get_short_records() {
    let (url, agent) = ([b'u'; 15_000], [b'a'; 1_000]);
    let length = |reason: &'static str| {
        let record = Record {
            reason,
            url: &url,
            user_agent: Some(&agent),
            ..denial()
        };
        let read = parsed(&record);
        let length = |key: &str| read[key].as_str().unwrap().len();
        let is_cut = read["url"].as_str().unwrap().contains("…[+");
        (length("url"), length("user_agent"), is_cut)
    };
    let (url, agent_of_a_client, is_cut) = length("robots_disallow");
    assert!((2_000..=2_048).contains(&url) && is_cut, "{url}");
    assert_eq!(agent_of_a_client, 1_000);
    for reason in ["unauthenticated", "unknown_client"] {
        let (url, agent, is_cut) = length(reason);
        assert!(
            url <= 540 && agent <= 540 && is_cut,
            "{reason}: {url}, {agent}"
        );
    }
}
