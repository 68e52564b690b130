//! A table of records: two clients, three origins, and every exception.

use crate::grounds;
use crawlgate_policy::overrides::{self, Override, OverrideId};
use crawlgate_record::{
    Basis, Bounds, Decision, DropCause, Event, EventKind, Mode, Outage, Process, Repeated,
    Row as ClientRow, RowClient, Rule, Settings, Source, Url, Verdict, Via,
};
use crawlgate_robots::Origin;
use crawlgate_store::{Batch, Object, ObjectKind};
use crawlgate_system::clock::Moment;
use crawlgate_usage::record::UsageRecord;
use crawlgate_usage::{Purpose, Purposes};

/// 2026-11-20T12:00:00Z
pub(super) const NOON: u64 = 1_795_176_000_000;
pub(super) const HOUR: u64 = 3_600_000;

const FLEET: (&str, Option<&str>) = ("192.0.2.1:4000", Some("fleet"));
const OTHER: (&str, Option<&str>) = ("192.0.2.7:4000", None);

/// A robots.txt, fetched an hour before noon.
fn successful(origin: &str, text: u8) -> Object {
    basis(Basis {
        origin,
        state: "successful",
        fetched_at: Some(NOON - HOUR),
        sha256: Some(&[text; 32]),
        ..Basis::default()
    })
}

/// An outage since ten o'clock; the copy, if there is one, was fetched thirty hours before noon.
fn unreachable(attempts: u32, copy: Option<&[u8; 32]>) -> Object {
    basis(Basis {
        origin: "https://b.example",
        state: "unreachable",
        fetched_at: copy.map(|_| NOON - 30 * HOUR),
        sha256: copy,
        outage: Some(Outage {
            since: NOON - 2 * HOUR,
            cause: "connection_refused",
            attempts,
            ..Outage::default()
        }),
        ..Basis::default()
    })
}

fn basis(basis: Basis<'_>) -> Object {
    let mut body = Vec::new();
    basis.encode(&mut body);
    Object::new(ObjectKind::Basis, &body)
}

pub(super) fn override_of_c() -> Override {
    Override {
        id: OverrideId::Stored(1),
        origin: Origin::parse("https://c.example/").unwrap().0,
        pattern: "/open".to_owned(),
        action: overrides::Action::Allow,
        until: Some(Moment::from_millis(NOON + 1_000 * HOUR)),
        by: "Ada".to_owned(),
        reason: "a <b>contract</b>".to_owned(),
        created: Moment::from_millis(NOON - 5 * HOUR),
        instance: None,
    }
}

/// The override as entries name it.
fn asserted() -> Object {
    let mut body = Vec::new();
    grounds::asserted(&override_of_c(), |one| one.encode(&mut body));
    Object::new(ObjectKind::Override, &body)
}

fn decision<'a>(client: (&str, Option<&'a str>), origin: Option<&'a str>) -> Decision<'a> {
    let parts = [origin.unwrap_or_default().as_bytes(), b"/private?q=<i>", b""];
    Decision {
        reason: "robots_allow",
        client: client.0.parse().unwrap(),
        client_name: client.1.map(Into::into),
        chain: (&["NewsBot"][..]).into(),
        source: Source::UserAgent,
        user_agent: Some((&b"NewsBot/1 <script>alert(1)</script>"[..]).into()),
        method: "GET".into(),
        origin,
        url: Url::of(parts, origin),
        status: Some(200),
        ..Decision::default()
    }
}

fn rule(text: &str) -> Option<Rule<'_>> {
    Some(Rule { group: "*".into(), text: text.as_bytes().into(), line: 3 })
}

pub(super) fn id(time: u64, number: u64) -> [u8; 16] {
    (u128::from(time) << 80 | u128::from(number) << 48 | 1).to_be_bytes()
}

/// Adds the table to a batch; `copy` makes other identifiers of the same records.
pub(super) fn file(batch: &mut Batch, copy: u64) {
    const A: Option<&str> = Some("https://a.example");
    const B: Option<&str> = Some("https://b.example");
    const C: Option<&str> = Some("https://c.example");
    let terms = Object::new(
        ObjectKind::PolicySettings,
        br#"{"lenient":true,"size_limit":512000,"path_guard":true,"soft_404":true,"deny_statuses":[],"unreachable":{"disallow_for_ms":2592000000,"last_good_until_ms":null,"finally":"allow"}}"#,
    );
    let (of_a, of_c, later_of_c) = (
        successful("https://a.example", 1),
        successful("https://c.example", 2),
        successful("https://c.example", 3),
    );
    let (down, with_copy) = (unreachable(1, None), unreachable(4, Some(&[9; 32])));
    let asserted = asserted();
    let deny = |one: Decision<'static>, reason| Decision {
        verdict: Verdict::Deny,
        reason,
        status: Some(403),
        ..one
    };
    let disallowed = "robots_disallow";
    let said = |refused| {
        let record = UsageRecord {
            purposes: Purpose::ALL.into_iter().collect(),
            refused,
            ..UsageRecord::default()
        };
        record.text()
    };
    let two = Purposes::NONE.with(Purpose::TrainAi).with(Purpose::Tdm);
    let (none, one, two) =
        (said(Purposes::NONE), said(Purposes::NONE.with(Purpose::TrainAi)), said(two));
    let tomorrow = 24 * HOUR;
    #[rustfmt::skip] // one row, one record
    let table: [(u64, Decision<'_>); 13] = [
        (0, Decision { basis: Some(&of_a.sha256), usage: Some(&none), policy: Some(&terms.sha256), ..decision(FLEET, A) }),
        (1, Decision { basis: Some(&of_a.sha256), usage: Some(&one), policy: Some(&terms.sha256), rule: rule("Disallow: /private"), ..deny(decision(FLEET, A), disallowed) }),
        (2, Decision { basis: Some(&of_a.sha256), rule: rule("Disallow: /private"), ..deny(decision(OTHER, A), disallowed) }),
        (3, Decision { basis: Some(&of_a.sha256), rule: rule("Disallow: /x<b>\u{202e}"), ..deny(decision(OTHER, A), disallowed) }),
        (4, Decision { basis: Some(&down.sha256), ..deny(decision(FLEET, B), "robots_unreachable") }),
        (5, Decision { basis: Some(&with_copy.sha256), ..decision(FLEET, B) }),
        (6, Decision { overridden: Some(&asserted.sha256), reason: "operator_allow", ..decision(FLEET, C) }),
        (7, Decision { basis: Some(&of_c.sha256), verdict: Verdict::Defer, reason: "paced", status: Some(429), ..decision(OTHER, C) }),
        (8, Decision { basis: Some(&of_c.sha256), usage: Some(&two), rule: rule("Disallow: /"), mode: Mode::Report, status: Some(200), ..deny(decision(FLEET, C), disallowed) }),
        (tomorrow, Decision { basis: Some(&later_of_c.sha256), error: Some("connection_refused".into()), status: None, ..decision(OTHER, C) }),
        (tomorrow + 1, deny(decision(OTHER, None), "bad_request")),
        (tomorrow + 2, Decision { via: Via::Tunnel, opaque: true, reason: "no_rules", ..decision(FLEET, B) }),
        // Outside of the span.
        (10 * tomorrow, Decision { basis: Some(&of_a.sha256), ..decision(FLEET, A) }),
    ];
    let mut number = copy * 100;
    for (after, one) in &table {
        number += 1;
        let id = id(NOON + after, number);
        batch.entries.push(|out| Decision { id, ..*one }.encode(Bounds::CLIENTS, out));
    }
    let clients = [
        ClientRow { client: RowClient::Named("fleet".into()), count: 6 },
        ClientRow { client: RowClient::At("192.0.2.7".parse().unwrap()), count: 4 },
    ];
    let process = |number| Process { number, release: "0.1.0", configuration: &[7; 32] };
    let origins = ["https://c.example"];
    let none: [&str; 0] = [];
    let (first, last) = (NOON, NOON + HOUR);
    #[rustfmt::skip] // one row, one event
    let events = [
        (0, EventKind::Started(process(1))),
        (HOUR, EventKind::Lost { count: 3, first: NOON, last: NOON + 5, size: None }),
        (HOUR, EventKind::Forwarded { count: 10, first, last, rows: (&clients[..]).into() }),
        (8 * HOUR, EventKind::Stopped(process(1))),
        (18 * HOUR, EventKind::Started(process(2))),
        (18 * HOUR, EventKind::Settings(Settings { policy: &terms.sha256, mode: Mode::Enforce, report_origins: (&origins[..]).into(), report_clients: (&none[..]).into(), exempt_clients: (&none[..]).into() })),
        (tomorrow, EventKind::Repeated(Repeated { mode: Mode::Enforce, verdict: Verdict::Deny, reason: "unauthenticated", client: "198.51.100.1".parse().unwrap(), client_name: None, count: 5, first: NOON + tomorrow, last: NOON + tomorrow })),
        (tomorrow, EventKind::Dropped { index: 40, cause: DropCause::Keep }),
    ];
    for (after, kind) in events {
        number += 1;
        let id = id(NOON + after, number);
        batch.entries.push(|out| Event { id, kind }.encode(out));
    }
    batch.objects = vec![terms, of_a, of_c, later_of_c, down, with_copy, asserted];
}
