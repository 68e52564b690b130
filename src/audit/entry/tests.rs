use std::time::Duration;

use super::super::record::tests::{NOON, denial, line};
use super::super::record::{Agent, Client, Outage as RecordedOutage, PaceLine, RuleLine};
use super::*;
use crawlgate_config as config;
use crawlgate_origins::access::Cause;
use crawlgate_policy::agent;
use crawlgate_policy::overrides::OverrideId;
use crawlgate_policy::{self as policy, Reason};
use crawlgate_record::samples::Dice;
use crawlgate_record::{Entry, Texts};

/// Asserts that the entry of a record says what the record says, and has a line.
#[track_caller]
fn agree(name: &str, record: &Record<'_>, redact_query: bool) {
    let grounds = record.object_digests();
    let mut entry = Vec::new();
    record.encode(&grounds, redact_query, &mut entry);
    assert!(
        entry.len() <= crawlgate_record::MAX,
        "{name}: {}",
        entry.len()
    );
    let Ok(Entry::Decision(read)) = Entry::read(&entry) else {
        panic!("{name}: {entry:02x?}");
    };
    let decided_at = read.time().saturating_add_signed(read.decided_after);
    assert_eq!(
        (read.id, read.time(), decided_at),
        (
            record.id.octets(),
            record.time.as_millis(),
            record.decided_at.as_millis()
        ),
        "{name}"
    );
    assert_eq!(
        (
            read.mode.name(),
            read.verdict.name(),
            read.reason,
            read.via.name()
        ),
        (record.mode, record.verdict, record.reason, record.via),
        "{name}"
    );
    assert_eq!(
        (read.policy, read.basis, read.overridden),
        (
            record.policy.as_ref().map(|PolicyDigest(digest)| digest),
            grounds.basis.as_ref(),
            grounds.overridden.as_ref()
        ),
        "{name}"
    );
    assert_eq!(
        (
            read.client,
            read.version,
            read.status,
            read.bytes_in,
            read.bytes_out
        ),
        (
            record.client.address,
            record.version,
            record.status,
            record.bytes_in,
            record.bytes_out
        ),
        "{name}"
    );
    let micros = |duration: Duration| u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
    assert_eq!(
        (read.hold, read.duration, read.origin),
        (micros(record.hold), micros(record.duration), record.origin),
        "{name}"
    );
    let text = line(record, redact_query);
    let line: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(line["id"], record.id.to_string(), "{name}");
    assert_eq!(text.find('\n'), Some(text.len() - 1), "{name}");
    assert!(!text.contains("secret"), "{name}: {text}");
    assert!(!redact_query || !text.contains("token"), "{name}: {text}");
}

#[test]
fn an_entry_says_what_its_record_says() {
    let record = denial();
    agree("a denial", &record, false);
    agree("a denial without its query", &record, true);
    let robots = record.robots.unwrap();
    #[rustfmt::skip] // one row, one case
    let cases: Vec<(&str, Record<'_>)> = vec![
        ("without grounds", Record { robots: None, overridden: None, policy: None, rule: None, reading: None, pace: None, ..record }),
        ("nothing known of the client", Record { client: Client { name: None, ..record.client }, user_agent: None, ..record }),
        ("no tokens", Record { agent: Agent { chain: Texts::default(), source: "none", mismatch: true }, ..record }),
        ("an unreadable target", Record { origin: None, url: b"", robots: None, ..record }),
        ("an excerpt", Record { origin: None, url: b"/x\xff y", robots: None, ..record }),
        ("a password", Record { url: b"https://user:secret@site.example/x?token", ..record }),
        ("a password and another host", Record { url: b"https://user:secret@other.example/x?token", ..record }),
        ("a port", Record { origin: Some("https://site.example:8443"), url: b"https://site.example:8443/x", robots: None, ..record }),
        ("an address", Record { origin: Some("https://[2001:db8::1]:8443"), url: b"https://[2001:db8::1]:8443/", robots: None, ..record }),
        ("a redirect with a password", Record { robots: Some(RobotsCopy { final_url: Some("https://u:secret@www.site.example/robots.txt"), ..robots }), ..record }),
        ("no outage", Record { robots: Some(RobotsCopy { unreachable: None, truncated: true, ..robots }), ..record }),
        ("no failure of the origin's", Record { robots: Some(RobotsCopy { unreachable: robots.unreachable.map(|outage| RecordedOutage { last_failure: None, cause: &Cause::Dns, ..outage }), ..robots }), ..record }),
        ("nothing fetched", Record { robots: Some(RobotsCopy { identity: None, user_agent: None, final_url: None, state: "never_fetched", status: None, fetched_at: None, sha256: None, bytes: None, truncated: false, fresh_until: None, unreachable: None }), ..record }),
        ("a configured override", Record { overridden: record.overridden.map(|one| Assertion { id: OverrideId::Configured(3), action: "allow", until: None, ..one }), ..record }),
        ("forwarded", Record { verdict: "allow", reason: "robots_allow", upstream: Some(([192, 0, 2, 1], 443).into()), upstream_version: Some("2"), status: Some(200), bytes_in: u64::MAX, bytes_out: u64::MAX, duration: Duration::MAX, error: Some("connection_terminated"), ..record }),
        ("decided before it began", Record { decided_at: NOON - Duration::from_millis(1_234), ..record }),
        ("a tunnel", Record { via: "tunnel", opaque: true, method: "CONNECT", url: b"site.example:443", ..record }),
        ("asked by another proxy", Record { via: "decide", version: None, ..record }),
    ];
    for (name, record) in cases {
        agree(name, &record, false);
        agree(name, &record, true);
    }
}

#[test]
fn a_hostile_record_has_an_entry_and_a_line() {
    let octets: Vec<u8> = (0..=255).cycle().take(60_000).collect();
    let wide = "é\u{202e}\"".repeat(10_000);
    for length in [
        1, 31, 200, 255, 256, 257, 500, 511, 512, 513, 1_023, 1_024, 1_025, 2_047, 2_049, 4_097,
        16_384, 16_405, 40_000,
    ] {
        for (filler, octets) in [
            ("octets", &octets),
            ("wide", &wide.clone().into_bytes()),
            ("plain", &vec![b'a'; 60_000]),
        ] {
            let part = &octets[..length];
            let text = String::from_utf8_lossy(part);
            let chain = vec![&*text; length.min(40)];
            let url = [b"https://site.example/", part].concat();
            for reason in ["robots_disallow", "unknown_client"] {
                let record = Record {
                    reason,
                    client: Client {
                        name: Some(&text),
                        ..denial().client
                    },
                    agent: Agent {
                        chain: (&chain[..]).into(),
                        ..denial().agent
                    },
                    user_agent: Some(part),
                    method: &text,
                    url: &url,
                    rule: Some(RuleLine {
                        group: &text,
                        text: &text,
                        line: u32::MAX,
                    }),
                    reading: Some(&text),
                    error: Some(&text),
                    ..denial()
                };
                let name = format!("{reason}: {length} {filler}");
                agree(&name, &record, false);
                agree(
                    &name,
                    &Record {
                        url: part,
                        ..record
                    },
                    true,
                );
            }
        }
    }
}

#[test]
fn entries_at_random_say_what_their_records_say() {
    for seed in 0..2_000 {
        let mut dice = Dice(seed);
        let number = dice.next() >> dice.below(64);
        let reason = Reason::ALL[dice.below(23) as usize];
        let of = |dice: &mut Dice, names: &[&'static str]| {
            names[dice.below(names.len() as u64) as usize]
        };
        let record = Record {
            mode: of(&mut dice, &["enforce", "report"]),
            verdict: reason.verdict().as_str(),
            reason: reason.as_str(),
            decided_at: NOON + Duration::from_millis(number & 0xffff_ffff),
            policy: Some(PolicyDigest([0x5a; 32])).filter(|_| dice.below(2) == 0),
            client: Client {
                address: match dice.below(2) {
                    0 => ((number as u32).to_be_bytes(), number as u16).into(),
                    _ => (u128::from(number).to_be_bytes(), number as u16).into(),
                },
                name: denial().client.name,
            },
            via: of(&mut dice, &["plain", "intercepted", "tunnel", "decide"]),
            version: [None, Some("1.0"), Some("1.1"), Some("2")][dice.below(4) as usize],
            hold: Duration::from_nanos(number),
            duration: Duration::from_nanos(number.wrapping_mul(3)),
            pace: Some(PaceLine {
                interval: Duration::from_micros(number),
                source: "own",
                clamped: dice.below(2) == 0,
            }),
            status: Some(number as u16),
            bytes_out: number,
            ..denial()
        };
        agree(&format!("seed {seed}"), &record, dice.below(2) == 0);
    }
}

#[test]
fn every_name_of_the_program_has_a_number() {
    for mode in [config::Mode::Enforce, config::Mode::Report] {
        assert!(Mode::from_name(mode.as_str()).is_some());
    }
    for verdict in [
        policy::Verdict::Allow,
        policy::Verdict::Deny,
        policy::Verdict::Defer,
    ] {
        assert!(Verdict::from_name(verdict.as_str()).is_some());
    }
    for source in [
        agent::Source::Client,
        agent::Source::Config,
        agent::Source::UserAgent,
        agent::Source::Nothing,
    ] {
        assert!(Source::from_name(source.as_str()).is_some());
    }
    for action in [
        policy::overrides::Action::Allow,
        policy::overrides::Action::Deny,
    ] {
        assert!(Action::from_name(action.as_str()).is_some());
    }
}
