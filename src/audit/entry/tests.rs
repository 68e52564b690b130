use std::collections::HashMap;
use std::time::Duration;

use super::super::record::tests::{NOON, denial};
use super::super::record::{Agent, Client, Outage as LineOutage, PaceLine, RuleLine};
use super::*;
use crate::agent;
use crate::config;
use crate::entry::tests::dice::Dice;
use crate::entry::{Entry, write_line};
use crate::policy::overrides::OverrideId;
use crate::policy::terms::PolicyDigest;
use crate::policy::{self, Reason};

const POLICY: Digest = [0x5a; 32];

fn object(objects: &mut HashMap<Digest, Vec<u8>>, write: impl FnOnce(&mut Vec<u8>)) -> Digest {
    let mut body = Vec::new();
    write(&mut body);
    let sha256 = sha256_of([&body, &[], &[]]);
    objects.insert(sha256, body);
    sha256
}

/// Asserts that an entry gives the same line as its record. Only the digest of the settings is longer: the entry keeps all
/// of it.
#[track_caller]
fn agree(name: &str, record: &Record<'_>, redact_query: bool) {
    let mut objects = HashMap::new();
    let named = match (record.scheme, record.port) {
        ("https", 443) | ("http", 80) => format!("{}://{}", record.scheme, record.host),
        (scheme, port) => format!("{scheme}://{}:{port}", record.host),
    };
    let origin = (!record.scheme.is_empty()).then_some(&*named);
    let basis = record
        .robots
        .map(|robots| object(&mut objects, |out| robots.encode(&named, out)));
    let overridden = record
        .overridden
        .map(|asserted| object(&mut objects, |out| asserted.encode(NOON, out)));
    let grounds = Grounds {
        origin,
        policy: record.policy.map(|_| &POLICY),
        overridden: overridden.as_ref(),
        basis: basis.as_ref(),
    };
    let mut entry = Vec::new();
    record.encode(&grounds, redact_query, &mut entry);
    let mut line = Vec::new();
    let read = Entry::read(&entry).unwrap();
    write_line(&read, &objects, &mut line).unwrap();
    let mut want = Vec::new();
    record.write_line(&mut want, redact_query);
    let want = String::from_utf8(want).unwrap();
    let half = format!("\"policy\":\"{}\"", "5a".repeat(16));
    let want = want.replacen(&half, &format!("\"policy\":\"{}\"", "5a".repeat(32)), 1);
    assert_eq!(String::from_utf8(line).unwrap(), want, "{name}");
}

#[test]
fn the_line_of_an_entry_is_that_of_its_record() {
    let record = denial();
    agree("a denial", &record, false);
    agree("a denial without its query", &record, true);
    let robots = record.robots.unwrap();
    #[rustfmt::skip] // one row, one case
    let cases: Vec<(&str, Record<'_>)> = vec![
        ("without grounds", Record { robots: None, overridden: None, policy: None, rule: None, reading: None, pace: None, ..record }),
        ("nothing known of the client", Record { client: Client { name: None, ..record.client }, user_agent: None, ..record }),
        ("no tokens", Record { agent: Agent { chain: &[], source: "none", mismatch: true }, ..record }),
        ("an unreadable target", Record { scheme: "", host: "", port: 0, url: b"", robots: None, ..record }),
        ("an excerpt", Record { scheme: "", host: "", port: 0, url: b"/x\xff y", robots: None, ..record }),
        ("a password", Record { url: b"https://user:secret@site.example/x?token", ..record }),
        ("a password and another host", Record { url: b"https://user:secret@other.example/x?token", ..record }),
        ("a port", Record { port: 8443, url: b"https://site.example:8443/x", robots: None, ..record }),
        ("an address", Record { host: "[2001:db8::1]", port: 8443, url: b"https://[2001:db8::1]:8443/", robots: None, ..record }),
        ("a redirect with a password", Record { robots: Some(RobotsCopy { final_url: Some("https://u:secret@www.site.example/robots.txt"), ..robots }), ..record }),
        ("no outage", Record { robots: Some(RobotsCopy { unreachable: None, truncated: true, ..robots }), ..record }),
        ("no failure of the origin's", Record { robots: Some(RobotsCopy { unreachable: robots.unreachable.map(|outage| LineOutage { last_failure: None, answers: false, ..outage }), ..robots }), ..record }),
        ("nothing fetched", Record { robots: Some(RobotsCopy { url: robots.url, identity: None, user_agent: None, final_url: None, state: "never_fetched", status: None, fetched_at: None, sha256: None, bytes: None, truncated: false, fresh_until: None, unreachable: None }), ..record }),
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
fn the_line_of_a_hostile_entry_is_that_of_its_record() {
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
                        chain: &chain,
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
fn entries_at_random_have_the_lines_of_their_records() {
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
            policy: Some(PolicyDigest([0x5a; 16])).filter(|_| dice.below(2) == 0),
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
    let names = crate::entry::tests::reasons();
    assert_eq!(names, Reason::ALL.map(Reason::as_str));
}
