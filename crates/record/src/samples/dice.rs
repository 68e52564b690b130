//! Entries at random, ordinary and hostile ones.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use super::Dice;
use crate::*;

/// Two statements about use, as records have them: one from a robots.txt, one from the fields of a response.
pub const USAGES: [&str; 2] = [
    r#"{"purposes":["train-ai"],"refused":["train-ai"],"preferences":[{"category":"train-ai","value":"disallow","signal":"content_usage","source":"robots","group":"*","line":3,"text":"Content-Usage: train-ai=n"}],"combined":{"train-ai":"disallow"},"invalid":[],"ignored":["bots"],"licenses":["https://site.example/license.xml"],"stage":"before","let_out_by":null,"received_status":null,"fields":[]}"#,
    r#"{"purposes":["search","train-ai"],"refused":[],"preferences":[{"category":"search","value":"unknown","signal":"content_usage","source":"header","field":"content-usage","text":"search=?0"}],"combined":{},"invalid":[{"signal":"tdm","source":"header","field":"tdm-reservation","why":"unparsable"}],"ignored":[],"licenses":[],"stage":null,"let_out_by":null,"received_status":404,"fields":[{"name":"content-usage","text":"search=?0","sha256":"dd8ec0a9b4c1f8a5c6a7e4ac3eac3a8a1e2ef4d5d3a6c1f0a1b2c3d4e5f60718","cut":false}]}"#,
];

impl Dice {
    fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }

    fn maybe<T>(&mut self, make: impl FnOnce(&mut Self) -> T) -> Option<T> {
        self.one_in(2).then(|| make(self))
    }

    /// A number of any length.
    fn number(&mut self) -> u64 {
        let bits = self.below(65);
        match bits {
            0 => 0,
            bits => self.next() >> (64 - bits),
        }
    }

    fn octets(&mut self, most: u64) -> Vec<u8> {
        let longest = self.of(&[8, 60, most]);
        let length = self.below(longest + 1);
        let is_plain = !self.one_in(4);
        (0..length)
            .map(
                |_| {
                    if is_plain {
                        self.of(b"abcdefghij/-._0123456789?=&")
                    } else {
                        self.next() as u8
                    }
                },
            )
            .collect()
    }

    fn text(&mut self, most: u64) -> String {
        String::from_utf8_lossy(&self.octets(most)).into_owned()
    }

    fn address(&mut self) -> SocketAddr {
        let ip = if self.one_in(3) {
            IpAddr::from((u128::from(self.next()) << 64 | 7).to_be_bytes())
        } else {
            IpAddr::from([192, 0, 2, self.below(20) as u8])
        };
        SocketAddr::new(ip, self.next() as u16)
    }

    fn id(&mut self) -> [u8; 16] {
        let millis = 1_795_176_000_000 + u128::from(self.below(100_000));
        let process = u128::from(self.of(&[77_u64, 99, 0xffff_ffff_ffff]));
        (millis << 80 | u128::from(self.next() as u32) << 48 | process).to_be_bytes()
    }
}

const BASES: [Digest; 3] = [[0x11; 32], [0x12; 32], [0x13; 32]];
const OVERRIDES: [Digest; 2] = [[0x21; 32], [0x22; 32]];

/// Returns the objects that the entries name.
pub fn objects() -> HashMap<Digest, Vec<u8>> {
    let mut objects = HashMap::new();
    for sha256 in BASES {
        let mut body = Vec::new();
        let basis = Basis {
            origin: "https://a.example",
            state: "unavailable",
            status: Some(404),
            ..Basis::default()
        };
        basis.encode(&mut body);
        objects.insert(sha256, body);
    }
    for sha256 in OVERRIDES {
        let mut body = Vec::new();
        let asserted = Asserted {
            id: "1",
            origin: "https://a.example",
            pattern: "/",
            by: "Ada",
            reason: "a letter",
            ..Asserted::default()
        };
        asserted.encode(&mut body);
        objects.insert(sha256, body);
    }
    objects
}

/// Gives `to` a decision at random.
pub fn with_decision(dice: &mut Dice, to: impl FnOnce(&Decision<'_>, Bounds)) {
    let long = dice.of(&[40, 300, 300, 20_000]);
    let tokens: Vec<String> =
        (0..dice.of(&[0, 1, 1, 1, 2, 40])).map(|_| dice.text(long.min(400))).collect();
    let tokens: Vec<&str> = tokens.iter().map(String::as_str).collect();
    let (name, method, mut error) = (dice.text(long), dice.text(20), dice.text(long));
    if error.len() % 3 == 0 {
        error = "client_closed".to_owned();
    }
    let detail = dice.text(long);
    let (agent, reading) = (dice.octets(long * 2), dice.octets(long));
    let (group, rule) = (dice.text(long), dice.octets(long));
    let origin = format!("https://host-{}.example", dice.below(30));
    let mut path = dice.octets(long);
    if dice.one_in(2) {
        path.insert(0, b'/');
    }
    let parts: [&[u8]; 3] = match dice.below(5) {
        0 => [&[], &path, &[]],
        1 => [b"https://", &path, "?…redacted".as_bytes()],
        _ => [origin.as_bytes(), &path, &[]],
    };
    let named = (!dice.one_in(6)).then_some(&*origin);
    let bounds = dice.of(&[Bounds::CLIENTS, Bounds::CLIENTS, Bounds::STRANGERS]);
    let mut url = Url::of(parts, named);
    if url.len() > bounds.url {
        url = url.with_sha256([dice.next() as u8; 32]);
    }
    let policy = [dice.below(3) as u8; 32];
    let (basis, overridden) = (dice.of(&BASES), dice.of(&OVERRIDES));
    let decision = Decision {
        id: dice.id(),
        decided_after: dice.maybe(|dice| dice.number().cast_signed()).unwrap_or(0),
        mode: dice.of(Mode::ALL),
        verdict: dice.of(Verdict::ALL),
        reason: dice.of(&["robots_allow", "robots_disallow", "unknown_client"]),
        policy: dice.maybe(|_| &policy),
        client: dice.address(),
        client_name: dice.maybe(|_| (&*name).into()),
        chain: (&tokens[..]).into(),
        source: dice.of(Source::ALL),
        mismatch: dice.one_in(5),
        user_agent: dice.maybe(|_| (&agent[..]).into()),
        method: (&*method).into(),
        version: dice.maybe(|dice| dice.of(&["1.0", "1.1", "2"])),
        origin: named,
        url,
        via: dice.of(Via::ALL),
        opaque: dice.one_in(5),
        rule: dice.maybe(|dice| Rule {
            group: (&*group).into(),
            text: (&rule[..]).into(),
            line: dice.number() as u32,
        }),
        reading: dice.maybe(|_| (&reading[..]).into()),
        overridden: dice.maybe(|_| &overridden),
        exempt: dice.maybe(|dice| Exempt {
            from: dice.of(&["robots_disallow", "opaque_tunnel"]),
            reason: dice.of(&["a person asks", "é"]),
        }),
        basis: dice.maybe(|_| &basis),
        hold: dice.maybe(Dice::number).unwrap_or(0),
        pace: dice.maybe(|dice| Pace {
            interval: dice.number(),
            source: dice.of(&["own", "crawl_delay"]),
            clamped: dice.one_in(2),
        }),
        upstream: dice.maybe(Dice::address),
        upstream_version: dice.maybe(|dice| dice.of(&["1.1", "2"])),
        signed: dice.maybe(|dice| match dice.below(3) {
            0 => Signed::Left,
            1 => Signed::Unsignable,
            _ => Signed::With {
                identity: dice.of(&["news", ""]),
                key: dice.of(&["poqk", "é"]),
                created: dice.number(),
            },
        }),
        status: dice.maybe(|dice| dice.next() as u16),
        bytes_in: dice.maybe(Dice::number).unwrap_or(0),
        bytes_out: dice.maybe(Dice::number).unwrap_or(0),
        duration: dice.maybe(Dice::number).unwrap_or(0),
        usage: dice.maybe(|dice| dice.of(&USAGES)),
        error: dice.maybe(|_| (&*error).into()),
        detail: dice.maybe(|_| (&*detail).into()),
        ..Decision::default()
    };
    to(&decision, bounds);
}

/// Gives `to` an event at random.
pub fn with_event(dice: &mut Dice, to: impl FnOnce(&Event<'_>)) {
    let (by, note, name) = (dice.text(200), dice.text(200), dice.text(60));
    let names: Vec<&str> = (0..dice.below(4)).map(|_| &*name).collect();
    let rows: Vec<Row<'_>> = (0..dice.below(5))
        .map(|_| Row {
            client: if dice.one_in(2) {
                RowClient::Named((&*name).into())
            } else {
                RowClient::At(dice.address().ip())
            },
            count: dice.number(),
        })
        .collect();
    let (digest, overridden) = ([dice.next() as u8; 32], dice.of(&OVERRIDES));
    let (count, first, last) = (dice.number(), dice.number(), dice.number());
    let process = Process { number: dice.number(), release: "0.1.0", configuration: &digest };
    let kind = match dice.below(13) {
        0 => EventKind::Lost { count, first, last, size: count.is_multiple_of(2).then_some(first) },
        1 => EventKind::Started(process),
        2 => EventKind::Stopped(process),
        3 => EventKind::Settings(Settings {
            policy: &digest,
            mode: dice.of(Mode::ALL),
            report_origins: (&names[..]).into(),
            report_clients: (&names[..names.len() / 2]).into(),
            exempt_clients: (&names[..names.len() / 3]).into(),
        }),
        4 => EventKind::OverrideAdded { overridden: &overridden },
        5 => EventKind::OverrideRemoved { overridden: &overridden, by: (&*by).into() },
        6 => EventKind::Acknowledged { index: count, by: (&*by).into(), note: (&*note).into() },
        7 => EventKind::Dropped { index: count, cause: dice.of(DropCause::ALL) },
        8 => EventKind::KeyRotated {
            old: &name,
            new: &name,
            by: (&*by).into(),
            reason: (&*note).into(),
        },
        9 => EventKind::Forked { log: &name, size: count, root: &digest, reason: (&*note).into() },
        10 => EventKind::Forwarded { count, first, last, rows: (&rows[..]).into() },
        11 => EventKind::AnsweredLogFailed { decision: dice.id() },
        _ => EventKind::Repeated(Repeated {
            mode: dice.of(Mode::ALL),
            verdict: dice.of(Verdict::ALL),
            reason: "overloaded",
            client: dice.address().ip(),
            client_name: dice.maybe(|_| (&*name).into()),
            count,
            first,
            last,
        }),
    };
    let id = dice.id();
    to(&Event { id, kind });
}

/// Returns an entry at random: one of twenty is no decision.
pub fn entry(dice: &mut Dice) -> Vec<u8> {
    let mut out = Vec::new();
    if dice.one_in(20) {
        with_event(dice, |event| event.encode(&mut out));
    } else {
        with_decision(dice, |decision, bounds| decision.encode(bounds, &mut out));
    }
    out
}
