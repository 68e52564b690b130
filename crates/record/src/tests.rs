//! One form for each entry, and one line for each form.

mod forms;
pub(crate) mod golden;
mod table;

use std::collections::HashMap;

use proptest::prelude::*;

use self::forms::least;
use super::cbor::{self, Reader};
use super::*;
use crate::samples::Dice;
use crate::samples::dice::{self, with_decision, with_event};

#[test]
fn the_frozen_entries_have_every_reason() {
    assert_eq!(table::REASONS, crawlgate_policy::Reason::ALL.map(crawlgate_policy::Reason::as_str));
}

#[test]
fn every_reason_has_the_outcome_of_its_row_and_a_failure_is_none_of_a_refusal() {
    use crawlgate_policy::{Outcome, Reason};
    for reason in Reason::ALL {
        let row = reason.info().outcome;
        let verdict = Verdict::from_name(reason.verdict().as_str()).unwrap();
        let of = |mode, has_failed| outcome(mode, verdict, reason.as_str(), has_failed);
        assert_eq!(of(Mode::Enforce, false), row, "{reason:?}");
        assert_eq!(of(Mode::Report, false), Outcome::Forwarded, "{reason:?}");
        assert_eq!(of(Mode::Report, true), Outcome::Failed, "{reason:?}");
        let failed = match row {
            Outcome::Forwarded => Outcome::Failed,
            refused => refused,
        };
        assert_eq!(of(Mode::Enforce, true), failed, "{reason:?}");
    }
}

fn encoded(decision: &Decision<'_>, bounds: Bounds) -> Vec<u8> {
    let mut out = Vec::new();
    decision.encode(bounds, &mut out);
    out
}

fn read(octets: &[u8]) -> Decision<'_> {
    match Entry::read(octets) {
        Ok(Entry::Decision(decision)) => decision,
        other => panic!("{other:?}"),
    }
}

#[test]
fn numbers_have_their_shortest_form() {
    // RFC 8949, appendix A.
    let cases: &[(i64, &[u8])] = &[
        (0, &[0x00]),
        (23, &[0x17]),
        (24, &[0x18, 0x18]),
        (255, &[0x18, 0xff]),
        (256, &[0x19, 0x01, 0x00]),
        (65_535, &[0x19, 0xff, 0xff]),
        (65_536, &[0x1a, 0x00, 0x01, 0x00, 0x00]),
        (1_000_000_000_000, &[0x1b, 0, 0, 0, 0xe8, 0xd4, 0xa5, 0x10, 0]),
        (-1, &[0x20]),
        (-10, &[0x29]),
        (-100, &[0x38, 0x63]),
        (-1_000, &[0x39, 0x03, 0xe7]),
        (i64::MIN, &[0x3b, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
    ];
    for (number, want) in cases {
        let mut out = Vec::new();
        cbor::int(&mut out, *number);
        assert_eq!(out, *want, "{number}");
        assert_eq!(Reader::new(&out).int(), Ok(*number));
    }
}

#[test]
fn a_text_beyond_its_bound_is_cut_and_says_so() {
    let long = "é".repeat(20_000);
    let tokens = vec![&*long; 100];
    let octets = vec![0xff; 40_000];
    let least = least();
    let decision = Decision {
        client_name: Some((&*long).into()),
        chain: (&tokens[..]).into(),
        user_agent: Some((&octets[..]).into()),
        method: (&*long).into(),
        origin: Some("http://a.io"),
        url: Url::of([b"http://", b"a.io/", &octets], Some("http://a.io")).with_sha256([3; 32]),
        rule: Some(Rule { group: (&*long).into(), text: (&octets[..]).into(), line: 1 }),
        reading: Some((&octets[..]).into()),
        error: Some((&*long).into()),
        detail: Some((&*long).into()),
        reason: &long,
        ..read(&least)
    };
    let entry = encoded(&decision, Bounds::CLIENTS);
    assert!(entry.len() < MAX, "{}", entry.len());
    let found = read(&entry);
    let lengths = |text: Text<'_>| (text.kept.len(), text.cut);
    let octets_of = |octets: Octets<'_>| (octets.kept.len(), octets.cut);
    assert_eq!(lengths(found.client_name.unwrap()), (256, 39_744));
    assert_eq!((found.chain.len(), found.chain.more()), (32, 68));
    assert!(found.chain.iter().all(|token| lengths(token) == (256, 39_744)));
    assert_eq!(octets_of(found.user_agent.unwrap()), (1_024, 38_976));
    assert_eq!(lengths(found.method), (256, 39_744));
    assert_eq!((found.url.len(), found.url.pieces(None).1), (16_384, 23_617));
    assert_eq!(found.url.sha256, Some([3; 32]));
    let rule = found.rule.unwrap();
    assert_eq!((lengths(rule.group), octets_of(rule.text)), ((256, 39_744), (4_096, 35_904)));
    assert_eq!(octets_of(found.reading.unwrap()), (16_384, 23_616));
    assert_eq!(lengths(found.error.unwrap()), (256, 39_744));
    assert_eq!(lengths(found.detail.unwrap()), (1_024, 38_976));
    assert_eq!(encoded(&found, Bounds::CLIENTS), entry);

    let strange = encoded(&decision, Bounds::STRANGERS);
    let found = read(&strange);
    assert_eq!((found.url.len(), octets_of(found.user_agent.unwrap())), (512, (512, 39_488)));
}

#[test]
fn a_url_is_a_path_only_behind_its_own_origin() {
    let origin = Some("https://a.io");
    type Case = (&'static str, [&'static str; 3], Option<&'static str>, Option<&'static str>);
    #[rustfmt::skip] // one row, one case
    let cases: [Case; 12] = [
        ("a path", ["", "https://a.io/x", ""], origin, Some("/x")),
        ("a query at once", ["", "https://a.io?x", ""], origin, Some("?x")),
        ("nothing", ["", "https://a.io", ""], origin, Some("")),
        ("userinfo left out", ["https://", "a.io/x", ""], origin, Some("/x")),
        ("a query left out", ["", "https://a.io/x", "?…redacted"], origin, Some("/x?…redacted")),
        ("a query left out at once", ["https://", "a.io", "?…redacted"], origin, Some("?…redacted")),
        ("a longer host", ["", "https://a.io.example/", ""], origin, None),
        ("a port", ["", "https://a.io:444/", ""], origin, None),
        ("another scheme", ["", "http://a.io/", ""], origin, None),
        ("another case", ["", "https://A.io/", ""], origin, None),
        ("a fragment", ["", "https://a.io#x", ""], origin, None),
        ("no origin", ["", "https://a.io/x", ""], None, None),
    ];
    for (name, parts, origin, want) in cases {
        let url = Url::of(parts.map(str::as_bytes), origin);
        assert_eq!(url.follows, want.is_some(), "{name}");
        let whole = parts.concat();
        assert_eq!(url.pieces(origin).0.concat(), whole.as_bytes(), "{name}");
        let want = want.unwrap_or(&whole);
        assert_eq!(url.parts.concat(), want.as_bytes(), "{name}");
    }
}

#[test]
fn names_and_numbers_of_a_variant_agree() {
    for mode in Mode::ALL {
        assert_eq!(Mode::from_name(mode.as_str()), Some(*mode));
        assert_eq!(Mode::from_number(mode.number()), Some(*mode));
    }
    for via in Via::ALL {
        assert_eq!(Via::from_name(via.as_str()), Some(*via));
        assert_eq!(Via::from_number(via.number()), Some(*via));
    }
    assert_eq!(Source::from_number(4), None);
    assert_eq!(Verdict::from_name("maybe"), None);
}

#[test]
fn an_entry_without_its_object_has_no_line() {
    let least = least();
    let sha256 = [5; 32];
    let decision = Decision { basis: Some(&sha256), ..read(&least) };
    let entry = Entry::Decision(decision);
    let mut out = b"before".to_vec();
    let mut objects: HashMap<Digest, Vec<u8>> = HashMap::new();
    let missing = write_line(&entry, &objects, &mut out).unwrap_err();
    assert_eq!((missing.what, missing.fault), ("robots", None));
    objects.insert(sha256, vec![0xa0]);
    let damaged = write_line(&entry, &objects, &mut out).unwrap_err();
    assert!(damaged.fault.is_some(), "{damaged}");
    assert_eq!(out, b"before");
}

#[test]
fn the_longest_events_fit_into_an_entry() {
    let (name, text) = ("n".repeat(300), "ü".repeat(5_000));
    let names = vec![&*name; 1_500];
    let rows = vec![Row { client: RowClient::Named((&*name).into()), count: u64::MAX }; 1_500];
    let (id, digest) = ([1; 16], [2; 32]);
    let kinds = [
        EventKind::Settings(Settings {
            policy: &digest,
            mode: Mode::Report,
            report_origins: (&names[..]).into(),
            report_clients: (&names[..]).into(),
            exempt_clients: (&names[..]).into(),
        }),
        EventKind::Forwarded { count: 9, first: 1, last: 2, rows: (&rows[..]).into() },
        EventKind::Acknowledged { index: 7, by: (&*text).into(), note: (&*text).into() },
    ];
    for kind in kinds {
        let mut out = Vec::new();
        Event { id, kind }.encode(&mut out);
        assert!(out.len() <= MAX, "{}: {}", kind.name(), out.len());
        let Ok(Entry::Event(event)) = Entry::read(&out) else {
            panic!("{}: {:?}", kind.name(), Entry::read(&out))
        };
        match event.kind {
            EventKind::Settings(Settings { report_origins, .. }) => {
                assert_eq!((report_origins.len(), report_origins.more()), (96, 1_404));
            }
            EventKind::Forwarded { count, rows, .. } => {
                assert_eq!((count, rows.iter().count()), (9, 176));
            }
            EventKind::Acknowledged { by, .. } => {
                assert_eq!((by.kept.len(), by.cut), (4_096, 5_904));
            }
            other => panic!("{other:?}"),
        }
        let mut again = Vec::new();
        event.encode(&mut again);
        assert_eq!(again, out, "{}", kind.name());
        let mut line = Vec::new();
        write_line(&Entry::Event(event), &HashMap::new(), &mut line).unwrap();
        serde_json::from_slice::<serde_json::Value>(&line).unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 400,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_decision_is_read_as_it_was_written(seed: u64) {
        with_decision(&mut Dice(seed), |decision, bounds| {
            let entry = encoded(decision, bounds);
            assert!(entry.len() <= MAX);
            let found = read(&entry);
            assert_eq!(encoded(&found, bounds), entry);
            if !entry_is_cut(&found) {
                assert_eq!(found, *decision);
            }
            let mut item = Reader::new(&entry);
            assert_eq!(item.item().unwrap(), &entry[..]);
            assert_eq!(Outline::read(&entry), Ok(Outline::of(&Entry::Decision(found))));
            let objects = dice::objects();
            let mut line = Vec::new();
            write_line(&Entry::Decision(found), &objects, &mut line).unwrap();
            assert_eq!(line.iter().position(|octet| *octet == b'\n'), Some(line.len() - 1));
            serde_json::from_slice::<serde_json::Value>(&line).unwrap();
        });
    }

    #[test]
    fn an_event_is_read_as_it_was_written(seed: u64) {
        with_event(&mut Dice(seed), |event| {
            let mut entry = Vec::new();
            event.encode(&mut entry);
            let read = Entry::read(&entry).unwrap();
            assert_eq!(read, Entry::Event(*event));
            assert_eq!(Outline::read(&entry), Ok(Outline::of(&read)));
            let mut line = Vec::new();
            write_line(&read, &dice::objects(), &mut line).unwrap();
            serde_json::from_slice::<serde_json::Value>(&line).unwrap();
        });
    }

    #[test]
    fn whatever_is_read_is_written_as_it_was(
        seed: u64,
        flips in proptest::collection::vec((any::<u16>(), 0..8_u8), 1..4),
    ) {
        let mut entry = dice::entry(&mut Dice(seed));
        for (at, bit) in flips {
            let at = usize::from(at) % entry.len();
            entry[at] ^= 1_u8 << bit;
        }
        let mut again = Vec::new();
        match Entry::read(&entry) {
            // Foreign entries may hold longer texts than ours.
            Ok(Entry::Decision(decision)) => decision.encode(
                Bounds { url: MAX, user_agent: MAX },
                &mut again,
            ),
            Ok(Entry::Event(event)) => event.encode(&mut again),
            Err(_) => return Ok(()),
        }
        assert_eq!(again, entry);
    }
}

/// Tells whether any text of an entry is cut.
fn entry_is_cut(decision: &Decision<'_>) -> bool {
    let text = |text: Option<Text<'_>>| text.map_or(0, |text| text.cut);
    let octets = |octets: Option<Octets<'_>>| octets.map_or(0, |octets| octets.cut);
    let rule = decision.rule.map_or(0, |rule| rule.group.cut + rule.text.cut);
    let tokens: u64 = decision.chain.iter().map(|token| token.cut).sum();
    text(decision.client_name)
        + octets(decision.user_agent)
        + text(Some(decision.method))
        + decision.url.cut
        + octets(decision.reading)
        + text(decision.error)
        + text(decision.detail)
        + rule
        + tokens
        + decision.chain.more()
        > 0
}
