//! The table behind the frozen entries. Longer than 400 lines of code because it is one table.

use std::net::SocketAddr;

use super::super::*;
use crate::samples::golden::sha256;

/// The codes of all reasons.
pub(super) const REASONS: &[&str] = &[
    "robots_allow",
    "no_rules",
    "robots_unavailable",
    "robots_txt",
    "operator_allow",
    "operator_deny",
    "robots_disallow",
    "path_guard",
    "robots_unreachable",
    "opaque_tunnel",
    "robots_pending",
    "paced",
    "address_prohibited",
    "misdirected",
    "bad_request",
    "log_failed",
    "unauthenticated",
    "unknown_client",
    "agent_required",
    "agent_mismatch",
    "quota_spent",
    "client_limit",
    "overloaded",
    "fleet_cut",
    "usage_disallow",
    "usage_withheld",
    "license_required",
    "usage_pending",
    "client_exempt",
];

/// The reasons of the first frozen entries; those of further ones stand at the end.
const FIRST_REASONS: usize = 23;

/// The overrides of the first frozen entries; those of further ones stand at the end.
const FIRST_OVERRIDES: usize = 4;

/// 2026-11-20T12:00:00.123Z.
const NOON: u64 = 1_795_176_000_123;

const ORIGIN: &str = "https://site.example";

const POLICY: Digest = [0x5a; 32];

fn id(number: u64) -> [u8; 16] {
    (u128::from(NOON) << 80 | u128::from(number) << 48 | 0x00c0_ffee_0007).to_be_bytes()
}

fn body(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut body = Vec::new();
    write(&mut body);
    body
}

fn successful() -> Basis<'static> {
    Basis {
        origin: ORIGIN,
        final_url: Some(b"https://www.site.example/robots.txt"),
        state: "successful",
        status: Some(200),
        fetched_at: Some(NOON - 90_000),
        sha256: Some(&[0xa5; 32]),
        bytes: Some(40),
        truncated: false,
        fresh_until: Some(NOON + 60_000),
        outage: None,
        identity: Some("examplebot"),
        user_agent: Some("ExampleBot crawlgate/0.1"),
    }
}

fn outage() -> Outage<'static> {
    Outage {
        since: NOON - 30_000,
        cause: "status_503",
        answers: true,
        attempts: 2,
        next_attempt: NOON + 10_000,
        last_failure: Some(NOON - 20_000),
    }
}

fn bases() -> Vec<(&'static str, Basis<'static>)> {
    let bare = Basis { origin: ORIGIN, state: "never_fetched", ..Basis::default() };
    vec![
        ("successful", successful()),
        ("successful in an outage", Basis { outage: Some(outage()), ..successful() }),
        ("truncated", Basis { truncated: true, bytes: Some(512_000), ..successful() }),
        ("of an address", Basis { origin: "http://[2001:db8::1]:8080", ..successful() }),
        (
            "after a hostile redirect",
            Basis { final_url: Some(b"https://a.example/\xff\"\\\x1b[2J"), ..successful() },
        ),
        ("after a long redirect", Basis { final_url: Some(&[b'r'; 4_200]), ..successful() }),
        ("fetched later than the record", Basis { fetched_at: Some(NOON + 5_000), ..successful() }),
        (
            "unavailable",
            Basis {
                status: Some(404),
                state: "unavailable",
                fetched_at: Some(NOON - 1),
                fresh_until: Some(NOON),
                identity: Some("*"),
                ..bare
            },
        ),
        ("unavailable without an answer", Basis { state: "unavailable", ..bare }),
        (
            "unreachable",
            Basis { state: "unreachable", status: Some(503), outage: Some(outage()), ..bare },
        ),
        (
            "unreachable by name",
            Basis {
                state: "unreachable",
                outage: Some(Outage {
                    cause: "dns",
                    answers: false,
                    attempts: 0,
                    last_failure: None,
                    ..outage()
                }),
                ..bare
            },
        ),
        (
            "unreachable with a copy",
            Basis {
                state: "unreachable",
                outage: Some(outage()),
                fresh_until: None,
                ..successful()
            },
        ),
        ("never fetched", bare),
    ]
}

fn overrides() -> Vec<(&'static str, Asserted<'static>)> {
    let stored = Asserted {
        id: "12",
        origin: ORIGIN,
        pattern: "/private/",
        action: Action::Deny,
        by: "Ada Example",
        reason: "a letter of 2026-11-02",
        until: Some(NOON + 86_400_000),
        created: NOON - 86_400_000,
        instance: None,
    };
    vec![
        ("stored", stored),
        ("that allows", Asserted { action: Action::Allow, ..stored }),
        ("of the configuration", Asserted { id: "config-1", until: None, created: 0, ..stored }),
        (
            "with words in other letters",
            Asserted { by: "Łukasz \"Ł\" 😀", reason: "\u{202e}turned\u{85}", ..stored },
        ),
        ("of a fleet", Asserted { instance: Some("fra-1"), ..stored }),
        ("that allows a use", Asserted { action: Action::AllowUsage, ..stored }),
    ]
}

/// Returns the bodies of the objects that the entries name.
pub(super) fn objects() -> Vec<Vec<u8>> {
    let bases = bases().into_iter().map(|(_, basis)| body(|out| basis.encode(out)));
    let overrides = overrides().into_iter();
    let overrides = overrides.map(|(_, asserted)| body(|out| asserted.encode(out)));
    bases.chain(overrides).collect()
}

fn v4(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

/// The rows, under construction.
struct Table {
    rows: Vec<(String, Vec<u8>)>,
}

impl Table {
    /// Adds the row of a decision.
    fn add(&mut self, name: &str, decision: &Decision<'_>) {
        let decision = Decision { id: id(self.rows.len() as u64), ..*decision };
        let bounds = match is_of_unknown_client(decision.reason) {
            true => Bounds::STRANGERS,
            false => Bounds::CLIENTS,
        };
        let entry = body(|out| decision.encode(bounds, out));
        self.rows.push((name.to_owned(), entry));
    }

    /// Adds the row of an event.
    fn add_event(&mut self, name: &str, kind: EventKind<'_>) {
        let id = id(self.rows.len() as u64);
        let entry = body(|out| Event { id, kind }.encode(out));
        self.rows.push((name.to_owned(), entry));
    }
}

/// A request that was forwarded, with what most records have.
fn usual<'a>(basis: &'a Digest) -> Decision<'a> {
    Decision {
        id: id(0),
        reason: "robots_allow",
        policy: Some(&POLICY),
        client: v4("127.0.0.1:40000"),
        chain: (&["ExampleBot"][..]).into(),
        source: Source::UserAgent,
        user_agent: Some((&b"ExampleBot/1.0 (+https://bot.example/)"[..]).into()),
        method: "GET".into(),
        version: Some("1.1"),
        origin: Some(ORIGIN),
        url: Url::of([b"https://site.example/page?q=1", b"", b""], Some(ORIGIN)),
        via: Via::Intercepted,
        basis: Some(basis),
        upstream: Some(v4("192.0.2.1:443")),
        upstream_version: Some("2"),
        status: Some(200),
        bytes_out: 12_345,
        duration: 23_456,
        ..Decision::default()
    }
}

/// Returns the rows: a name and an entry each.
pub(super) fn entries() -> Vec<(String, Vec<u8>)> {
    let mut table = Table { rows: Vec::new() };
    let bases: Vec<(&str, Digest)> = bases()
        .into_iter()
        .map(|(name, basis)| (name, sha256(&body(|out| basis.encode(out)))))
        .collect();
    let overrides: Vec<(&str, Digest)> = overrides()
        .into_iter()
        .map(|(name, asserted)| (name, sha256(&body(|out| asserted.encode(out)))))
        .collect();
    let (basis, overridden) = (bases[0].1, overrides[0].1);
    let usual = usual(&basis);
    let rule = Rule { group: "*".into(), text: (&b"Disallow: /private"[..]).into(), line: 3 };
    let pace = Pace { interval: 2_000_000, source: "crawl_delay", clamped: true };
    let tokens = ["ExampleBot-Image", "ExampleBot"];
    // All that an entry can hold without being cut.
    let full = Decision {
        decided_after: 1,
        mode: Mode::Report,
        verdict: Verdict::Deny,
        reason: "robots_disallow",
        client_name: Some("crawler-7".into()),
        chain: (&tokens[..]).into(),
        source: Source::Client,
        mismatch: true,
        opaque: true,
        rule: Some(rule),
        reading: Some((&b"/private/x"[..]).into()),
        overridden: Some(&overridden),
        hold: 1_500,
        pace: Some(pace),
        bytes_in: 77,
        error: Some("http_request_denied".into()),
        ..usual
    };
    // No more than an entry must hold.
    let bare = Decision {
        policy: None,
        chain: Texts::default(),
        source: Source::Nothing,
        user_agent: None,
        version: None,
        origin: None,
        url: Url::default(),
        via: Via::Plain,
        basis: None,
        upstream: None,
        upstream_version: None,
        status: None,
        bytes_out: 0,
        duration: 0,
        ..usual
    };
    let (first, later) = REASONS.split_at(FIRST_REASONS);
    reasons(&mut table, first, [&usual, &full, &bare]);
    single_fields(&mut table, &usual, &bare, &full);
    urls(&mut table, &usual);
    texts(&mut table, &usual);
    for number in [1, 23, 24, 255, 256, 65_535, 65_536, 0xffff_ffff, 0x1_0000_0000, u64::MAX] {
        let decision = Decision {
            bytes_in: number,
            bytes_out: number,
            duration: number,
            hold: number,
            ..usual
        };
        table.add(&format!("numbers of {number}"), &decision);
    }
    for after in [-1, -24, -25, -256, -257, 24, 300_000, i64::from(u32::MAX)] {
        table.add(&format!("decided after {after}"), &Decision { decided_after: after, ..usual });
    }
    for (name, basis) in &bases {
        table.add(&format!("a basis: {name}"), &Decision { basis: Some(basis), ..usual });
    }
    let (first, later_overrides) = overrides.split_at(FIRST_OVERRIDES);
    asserted(&mut table, first, &usual);
    events(&mut table);
    let decision = id(1);
    table.add_event(
        "answered that it could not be recorded",
        EventKind::AnsweredLogFailed { decision },
    );
    details(&mut table, &usual, &full);
    let missing = EventKind::Lost { count: 7, first: NOON - 1, last: NOON - 1, size: Some(99) };
    table.add_event("records missing", missing);
    // In the order in which they came to be.
    let (of_a_fleet, of_use) = later.split_at(1);
    let (of_use, of_tdmrep) = of_use.split_at(3);
    let (of_tdmrep, of_exemptions) = of_tdmrep.split_at(1);
    reasons(&mut table, of_a_fleet, [&usual, &full, &bare]);
    let (of_a_fleet, of_use_overrides) = later_overrides.split_at(1);
    asserted(&mut table, of_a_fleet, &usual);
    reasons(&mut table, of_use, [&usual, &full, &bare]);
    asserted(&mut table, of_use_overrides, &usual);
    for (number, usage) in crate::samples::dice::USAGES.into_iter().enumerate() {
        let usage = Some(usage);
        let name = format!("what a site says of use, {number}");
        table.add(&name, &Decision { usage, ..usual });
        table.add(&format!("{name}, with all"), &Decision { usage, ..full });
    }
    signatures(&mut table, &full);
    for (number, usage) in crate::samples::dice::USAGES.into_iter().enumerate() {
        let (usage, tdmrep) = (Some(usage), Some(&basis));
        let name = format!("a tdmrep.json, {number}");
        table.add(&name, &Decision { usage, tdmrep, ..usual });
        table.add(&format!("{name}, with all"), &Decision { usage, tdmrep, ..full });
    }
    reasons(&mut table, of_tdmrep, [&usual, &full, &bare]);
    reasons(&mut table, of_exemptions, [&usual, &full, &bare]);
    exemptions(&mut table, &usual, &full);
    table.rows
}

fn asserted(table: &mut Table, overrides: &[(&str, Digest)], usual: &Decision<'_>) {
    for (name, overridden) in overrides {
        table.add(
            &format!("an override {name}"),
            &Decision { overridden: Some(overridden), ..*usual },
        );
        table.add_event(
            &format!("an override {name} is added"),
            EventKind::OverrideAdded { overridden },
        );
        table.add_event(
            &format!("an override {name} is removed"),
            EventKind::OverrideRemoved { overridden, by: "Ada".into() },
        );
    }
}

fn reasons(table: &mut Table, reasons: &[&'static str], from: [&Decision<'_>; 3]) {
    let [usual, full, bare] = from;
    for reason in reasons {
        let verdict = match *reason {
            "robots_allow" | "no_rules" | "robots_unavailable" | "robots_txt"
            | "operator_allow" | "client_exempt" => Verdict::Allow,
            "robots_pending" | "paced" | "quota_spent" | "client_limit" | "overloaded"
            | "fleet_cut" | "usage_pending" => Verdict::Defer,
            _ => Verdict::Deny,
        };
        for (kind, from, mode) in [
            ("", usual, Mode::Enforce),
            (" in report mode", full, Mode::Report),
            (" alone", bare, Mode::Enforce),
        ] {
            table.add(&format!("{reason}{kind}"), &Decision { reason, verdict, mode, ..*from });
        }
    }
}

fn exemptions(table: &mut Table, usual: &Decision<'_>, full: &Decision<'_>) {
    for (name, from, reason) in [
        ("a rule", "robots_disallow", "a person asks for each page"),
        ("a reading", "path_guard", "проверка \u{202e}\"\\"),
    ] {
        for (kind, decision) in [("", usual), (", with all", full)] {
            table.add(
                &format!("a client that is exempt from {name}{kind}"),
                &Decision {
                    verdict: Verdict::Allow,
                    reason: "client_exempt",
                    exempt: Some(Exempt { from, reason }),
                    ..*decision
                },
            );
        }
    }
    let digest = [0x77; 32];
    table.add_event(
        "settings with an exempt client",
        EventKind::Settings(Settings {
            policy: &digest,
            mode: Mode::Enforce,
            report_origins: Texts::default(),
            report_clients: Texts::default(),
            exempt_clients: (&["news: a person asks for each page"][..]).into(),
        }),
    );
}

fn signatures(table: &mut Table, full: &Decision<'_>) {
    let key = "poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U";
    let with = |identity, created| Signed::With { identity, key, created };
    for (name, signed) in [
        ("a signed request", with("news", NOON / 1_000)),
        ("a request signed in 1970 by another script", with("новости", 0)),
        ("a request with a signature of its own", Signed::Left),
        ("a request that could not be signed", Signed::Unsignable),
    ] {
        table.add(name, &Decision { signed: Some(signed), ..*full });
    }
}

fn details(table: &mut Table, usual: &Decision<'_>, full: &Decision<'_>) {
    let (long, slashes) = ("é".repeat(1_000), vec![b'/'; 17_000]);
    for (name, detail) in [
        ("a detail", "https://site.example is at 10.0.0.7, which is private."),
        ("a detail of another script", "проверка \u{202e}\u{1b}[2J\"\\"),
        ("a detail that is cut", &*long),
    ] {
        table.add(name, &Decision { detail: Some(detail.into()), ..*full });
    }
    table.add(
        "a reading and a detail that are cut",
        &Decision { reading: Some((&*slashes).into()), detail: Some((&*long).into()), ..*usual },
    );
}

/// Adds rows that differ in one field from others.
fn single_fields(
    table: &mut Table,
    usual: &Decision<'_>,
    bare: &Decision<'_>,
    full: &Decision<'_>,
) {
    table.add("no more than it must hold", bare);
    table.add("all that it can hold", full);
    for mode in Mode::ALL {
        for verdict in Verdict::ALL {
            table.add(
                &format!("{} {}", mode.as_str(), verdict.as_str()),
                &Decision { mode: *mode, verdict: *verdict, ..*usual },
            );
        }
    }
    for source in Source::ALL {
        table.add(
            &format!("tokens by {}", source.as_str()),
            &Decision { source: *source, ..*usual },
        );
    }
    for via in Via::ALL {
        table.add(&format!("via {}", via.as_str()), &Decision { via: *via, ..*usual });
    }
    for version in ["1.0", "1.1", "2"] {
        table.add(
            &format!("HTTP/{version}"),
            &Decision { version: Some(version), upstream_version: Some(version), ..*usual },
        );
    }
    for status in [0, 100, 200, 304, 403, 429, 503, 599, u16::MAX] {
        table.add(&format!("status {status}"), &Decision { status: Some(status), ..*usual });
    }
    for address in [
        "0.0.0.0:0",
        "255.255.255.255:65535",
        "[::1]:80",
        "[2001:db8::1]:40000",
        "[::ffff:192.0.2.1]:443",
    ] {
        table.add(
            &format!("address {address}"),
            &Decision { client: v4(address), upstream: Some(v4(address)), ..*usual },
        );
    }
    table.add("without settings", &Decision { policy: None, ..*full });
    table.add("without a name", &Decision { client_name: None, ..*full });
    table.add("without tokens", &Decision { chain: Texts::default(), ..*full });
    table.add("without a mismatch", &Decision { mismatch: false, ..*full });
    table.add("without a User-Agent", &Decision { user_agent: None, ..*full });
    table.add("without versions", &Decision { version: None, upstream_version: None, ..*full });
    table.add("without a rule", &Decision { rule: None, ..*full });
    table.add("without a reading", &Decision { reading: None, ..*full });
    table.add("without an override", &Decision { overridden: None, ..*full });
    table.add("without a basis", &Decision { basis: None, ..*full });
    table.add("without a hold", &Decision { hold: 0, ..*full });
    table.add("without a pace", &Decision { pace: None, ..*full });
    table.add("without an upstream", &Decision { upstream: None, ..*full });
    table.add("without a status", &Decision { status: None, ..*full });
    table.add("without an error", &Decision { error: None, ..*full });
    for pace in [
        Pace { interval: 0, source: "own", clamped: false },
        Pace { interval: 1, source: "config", clamped: false },
        Pace { interval: 3_600_000_000, source: "crawl_delay", clamped: true },
    ] {
        table.add(
            &format!("a pace of {} µs", pace.interval),
            &Decision { pace: Some(pace), ..*usual },
        );
    }
}

/// Adds rows that differ in URL and origin.
fn urls(table: &mut Table, usual: &Decision<'_>) {
    let whole = [3; 32];
    let long: Vec<u8> = [b"https://site.example/", &b"x".repeat(3_000)[..]].concat();
    let too_long: Vec<u8> = [b"https://site.example/", &b"y".repeat(17_000)[..]].concat();
    let cases: &[(&str, &[u8], Option<&str>)] = &[
        ("the origin alone", b"https://site.example", Some(ORIGIN)),
        ("a slash", b"https://site.example/", Some(ORIGIN)),
        ("a query at once", b"https://site.example?q", Some(ORIGIN)),
        ("a query left out", "https://site.example/x?…redacted".as_bytes(), Some(ORIGIN)),
        ("escapes", b"https://site.example/%7Ea%2fb%zz", Some(ORIGIN)),
        ("octets that are not UTF-8", b"https://site.example/caf\xe9", Some(ORIGIN)),
        (
            "letters of other alphabets",
            "https://site.example/\u{e9}\u{1f577}".as_bytes(),
            Some(ORIGIN),
        ),
        ("controls and marks", b"https://site.example/\x00\x1b[2J\x7f\"\\", Some(ORIGIN)),
        ("a text turned around", "https://site.example/\u{202e}x".as_bytes(), Some(ORIGIN)),
        ("a port", b"https://site.example:8443/x", Some("https://site.example:8443")),
        ("an address", b"http://192.0.2.7/x", Some("http://192.0.2.7")),
        ("an address of six", b"http://[2001:db8::7]/x", Some("http://[2001:db8::7]")),
        (
            "an address of six with a port",
            b"http://[2001:db8::7]:81/x",
            Some("http://[2001:db8::7]:81"),
        ),
        ("a file", b"ftp://files.example/x", Some("ftp://files.example")),
        ("another spelling of the origin", b"https://SITE.example/x", Some(ORIGIN)),
        ("another origin", b"https://other.example/x", Some(ORIGIN)),
        ("a longer host", b"https://site.example.org/x", Some(ORIGIN)),
        ("an authority", b"site.example:443", Some(ORIGIN)),
        ("no origin", b"https://site.example/x", None),
        ("an excerpt", b"/x y z", None),
        ("nothing", b"", None),
        ("nothing of an origin", b"", Some(ORIGIN)),
        ("longer than its line", &long, Some(ORIGIN)),
    ];
    for (name, url, origin) in cases {
        let url = Url::of([url, b"", b""], *origin);
        table.add(&format!("a URL: {name}"), &Decision { url, origin: *origin, ..*usual });
    }
    let url = Url::of([&too_long, b"", b""], Some(ORIGIN)).with_sha256(whole);
    table.add("a URL: longer than its entry", &Decision { url, ..*usual });
    let url = Url::of([&long, b"", b""], Some(ORIGIN)).with_sha256(whole);
    let reason = "unknown_client";
    table.add("a URL: of a stranger", &Decision { url, reason, ..*usual });
    let url = Url::of([&long, b"", b""], None).with_sha256(whole);
    table.add(
        "a URL: of a stranger, without an origin",
        &Decision { url, reason, origin: None, ..*usual },
    );
}

/// Adds rows that differ in foreign texts.
fn texts(table: &mut Table, usual: &Decision<'_>) {
    let (long, wide) = ("a".repeat(4_200), "é".repeat(1_100));
    for (name, text) in [
        ("long", &*long),
        ("wide", &*wide),
        ("empty", ""),
        ("hostile", "\"\\\r\n\0\u{1b}[2J\u{202e}"),
    ] {
        let octets = text.as_bytes();
        table.add(
            &format!("a {name} User-Agent"),
            &Decision { user_agent: Some(octets.into()), ..*usual },
        );
        table
            .add(&format!("a {name} name"), &Decision { client_name: Some(text.into()), ..*usual });
        table.add(&format!("a {name} method"), &Decision { method: text.into(), ..*usual });
        table.add(
            &format!("a {name} token"),
            &Decision { chain: (&[text, "b"][..]).into(), ..*usual },
        );
        table.add(&format!("a {name} error"), &Decision { error: Some(text.into()), ..*usual });
        table.add(
            &format!("a {name} reading"),
            &Decision { reading: Some(octets.into()), ..*usual },
        );
        let rule = Rule { group: text.into(), text: octets.into(), line: u32::MAX };
        table.add(&format!("a {name} rule"), &Decision { rule: Some(rule), ..*usual });
    }
    table.add(
        "a User-Agent that is not UTF-8",
        &Decision { user_agent: Some((&b"caf\xe9 \xe2\x82"[..]).into()), ..*usual },
    );
    table.add("forty tokens", &Decision { chain: (&["Bot"; 40][..]).into(), ..*usual });
    table.add(
        "a stranger's User-Agent",
        &Decision { user_agent: Some(long.as_bytes().into()), reason: "unauthenticated", ..*usual },
    );
}

/// Adds the other kinds of entries.
fn events(table: &mut Table) {
    let digest = [0x77; 32];
    let (count, first, last) = (7, NOON - 60_000, NOON - 1);
    let process = Process { number: 0x00c0_ffee_0007, release: "0.1.0", configuration: &digest };
    let size = None;
    let lost = EventKind::Lost { count, first, last, size };
    table.add_event("records lost", lost);
    table.add_event("started", EventKind::Started(process));
    table.add_event("stopped", EventKind::Stopped(process));
    let names = ["crawler-7", "\u{202e}x"];
    for (name, origins, clients) in
        [("plain", &[][..], &[][..]), ("with lists", &[ORIGIN, "http://a.example"][..], &names[..])]
    {
        for mode in Mode::ALL {
            table.add_event(
                &format!("settings {name}, {}", mode.as_str()),
                EventKind::Settings(Settings {
                    policy: &digest,
                    mode: *mode,
                    report_origins: origins.into(),
                    report_clients: clients.into(),
                    exempt_clients: Texts::default(),
                }),
            );
        }
    }
    let words = "w".repeat(4_200);
    for (name, note) in [("", "seen"), (" without words", ""), (" at length", &*words)] {
        table.add_event(
            &format!("acknowledged{name}"),
            EventKind::Acknowledged { index: 1_000_000, by: "Ada".into(), note: note.into() },
        );
    }
    for cause in DropCause::ALL {
        table.add_event(
            &format!("dropped by {}", cause.as_str()),
            EventKind::Dropped { index: 65_536, cause: *cause },
        );
    }
    table.add_event(
        "a key that replaces another",
        EventKind::KeyRotated {
            old: "logs.example.org/crawlgate+0badf00d+AbCd",
            new: "logs.example.org/crawlgate+600df00d+EfGh",
            by: "Grace Hopper".into(),
            reason: "yearly".into(),
        },
    );
    table.add_event(
        "forked",
        EventKind::Forked {
            log: "logs.example.org/crawlgate",
            size: 99,
            root: &digest,
            reason: "a backup of Friday".into(),
        },
    );
    let rows = [
        Row { client: RowClient::Named("crawler-7".into()), count: 5 },
        Row { client: RowClient::At(v4("192.0.2.1:0").ip()), count: 1 },
        Row { client: RowClient::At(v4("[2001:db8::1]:0").ip()), count: 1 },
    ];
    table.add_event(
        "forwarded",
        EventKind::Forwarded { count, first, last, rows: (&rows[..]).into() },
    );
    table.add_event(
        "forwarded by none",
        EventKind::Forwarded { count: 0, first, last, rows: (&[][..]).into() },
    );
    for (name, client_name) in [
        ("by a name", Some("crawler-7")),
        ("by an address", None),
        ("by a long name", Some(&*words)),
    ] {
        table.add_event(
            &format!("refusals repeated {name}"),
            EventKind::Repeated(Repeated {
                mode: Mode::Enforce,
                verdict: Verdict::Defer,
                reason: "quota_spent",
                client: v4("192.0.2.1:0").ip(),
                client_name: client_name.map(Into::into),
                count,
                first,
                last,
            }),
        );
    }
}
