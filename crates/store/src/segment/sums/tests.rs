//! Sums give the counts that the blocks would give.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;
use crate::{DecisionQuery, GroupBy, hourly};
use crawlgate_block::{Block, BlockWriter};
use crawlgate_record::samples::Dice;
use crawlgate_record::samples::dice::entry;
use crawlgate_record::{self as entry, Bounds, Entry, Outline};

/// Returns entries at random over some hours.
fn entries(seed: u64, count: usize) -> Vec<Vec<u8>> {
    let mut dice = Dice(seed);
    let bounds = Bounds {
        url: entry::MAX,
        user_agent: entry::MAX,
    };
    let one = |_| {
        let (octets, mut out) = (entry(&mut dice), Vec::new());
        let later = u128::from(dice.below(4) * 2_500_000) << 80;
        let moved = |id: [u8; 16]| (u128::from_be_bytes(id) + later).to_be_bytes();
        match Entry::read(&octets).unwrap() {
            Entry::Decision(mut decision) => {
                decision.id = moved(decision.id);
                decision.encode(bounds, &mut out);
            }
            Entry::Event(mut event) => {
                event.id = moved(event.id);
                event.encode(&mut out);
            }
        }
        out
    };
    (0..count).map(one).collect()
}

fn block(entries: &[Vec<u8>]) -> Vec<u8> {
    let mut writer = BlockWriter::new().unwrap();
    let mut out = Vec::new();
    for entry in entries {
        writer.push(entry).unwrap();
    }
    writer.finish(&mut out).unwrap();
    out
}

fn sums_of(parts: &[&[Vec<u8>]]) -> Vec<u8> {
    let mut builder = SumsBuilder::new();
    for part in parts {
        builder
            .add_block(&Block::read(block(part)).unwrap())
            .unwrap();
    }
    builder.finish().unwrap().unwrap()
}

fn all_hours(sums: &Sums) -> Vec<Hourly> {
    let mut hours = Hours::default();
    hours.add(sums, Moment::from_millis(0), Moment::from_millis(u64::MAX));
    hours.into_hourly()
}

/// The requests by hour, client, token and verdict, as text.
fn requests(sums: &Sums) -> HashMap<String, u64> {
    let one = |one: Requests<'_>| {
        let key = format!(
            "{:?} {:?} {:?} {:?}",
            one.hour, one.client, one.token, one.verdict
        );
        (key, one.count)
    };
    sums.requests().map(one).collect()
}

/// Queries of which sums may know the answer, and others.
#[rustfmt::skip] // one line, one query
fn queries(entries: &[Vec<u8>]) -> Vec<(DecisionQuery, bool)> {
    let all = DecisionQuery::default;
    let text = |text: &str| Some(text.to_owned());
    let hour = |nth: u64| Some(Moment::from_millis(1_795_176_000_000 + nth * MILLIS));
    let within = Some(Moment::from_millis(1_795_176_050_000));
    let mut queries = vec![
        (all(), true),
        (DecisionQuery { verdict: text("deny"), ..all() }, true),
        (DecisionQuery { mode: text("report"), reason: text("robots_disallow"), ..all() }, true),
        (DecisionQuery { origin: text("host-7.example"), ..all() }, true),
        (DecisionQuery { origin: text("https://host-8.example"), ..all() }, true),
        (DecisionQuery { since: hour(1), ..all() }, true),
        (DecisionQuery { since: hour(0), until: hour(2), ..all() }, true),
        (DecisionQuery { until: hour(9), ..all() }, true),
        (DecisionQuery { until: hour(0), ..all() }, true),
        (DecisionQuery { since: within, ..all() }, false),
        (DecisionQuery { path: text("/"), ..all() }, false),
        (DecisionQuery { agent: text("a"), ..all() }, false),
        (DecisionQuery { client: text("192.0.2.1"), ..all() }, false),
        (DecisionQuery { failed: Some(true), ..all() }, false),
        (DecisionQuery { acknowledged: Some(false), ..all() }, false),
    ];
    let rules = entries.iter().filter_map(|entry| match Entry::read(entry) {
        Ok(Entry::Decision(decision)) => decision.rule,
        _ => None,
    });
    for rule in rules.take(3) {
        let rule = crate::search::words::shown(rule.text.kept).into_owned();
        queries.push((DecisionQuery { rule: Some(rule), ..all() }, true));
    }
    queries
}

#[test]
fn sums_count_as_their_blocks() {
    let entries = entries(21, 600);
    let octets = sums_of(&[&entries[..250], &entries[250..]]);
    let sums = Sums::read(&octets).unwrap();
    let blocks = [block(&entries[..250]), block(&entries[250..])];
    let mut counted = 0;
    for (query, suffices) in queries(&entries) {
        for key in [GroupBy::Origin, GroupBy::Reason, GroupBy::Rule] {
            let search = Search::new(&query).unwrap();
            let mut of_sums = GroupCounts::new(key);
            assert_eq!(sums.count_by(&search, &mut of_sums), suffices, "{query:?}");
            let mut of_blocks = GroupCounts::new(key);
            for block in blocks.iter().filter(|_| suffices) {
                let block = Block::read(block).unwrap();
                let all = 0..block.len();
                of_blocks
                    .count_block(&search, &block, all, |_| false)
                    .unwrap();
            }
            let of_blocks = of_blocks.into_most_frequent(usize::MAX);
            counted += of_blocks.len();
            assert_eq!(
                of_sums.into_most_frequent(usize::MAX),
                of_blocks,
                "{query:?}"
            );
        }
    }
    assert!(counted > 500, "{counted}");
}

#[test]
fn hours_are_those_of_the_lines() {
    let entries = entries(20, 500);
    let sums = Sums::read(&sums_of(&[&entries])).unwrap();
    let mut want: HashMap<(Moment, String, String, String), u64> = HashMap::new();
    for entry in &entries {
        if let Some(one) = hourly(&Outline::read(entry).unwrap()) {
            let key = (
                one.hour,
                one.mode.into(),
                one.verdict.into(),
                one.reason.into(),
            );
            let sum = want.entry(key).or_default();
            *sum = sum.saturating_add(one.count);
        }
    }
    want.retain(|_, count| *count > 0);
    let hours = all_hours(&sums);
    assert!(hours.iter().any(|hour| hour.reason == "overloaded"));
    assert!(hours.is_sorted_by_key(|one| (
        one.hour,
        one.mode.clone(),
        one.verdict.clone(),
        one.reason.clone()
    )));
    let found = hours.into_iter().filter(|one| one.count > 0);
    let found: HashMap<_, _> = found
        .map(|one| ((one.hour, one.mode, one.verdict, one.reason), one.count))
        .collect();
    assert_eq!(found, want);
    // The hour that contains the beginning counts, the one that begins at the end does not.
    let mut hours = Hours::default();
    let start = 1_795_176_000_000;
    hours.add(
        &sums,
        Moment::from_millis(start + 5),
        Moment::from_millis(start + MILLIS),
    );
    let hours = hours.into_hourly();
    assert!(!hours.is_empty() && hours.iter().all(|one| one.hour.as_millis() == start));
}

#[test]
fn requests_are_counted_by_client_and_token() {
    let entries = entries(23, 300);
    let sums = Sums::read(&sums_of(&[&entries])).unwrap();
    let mut want: HashMap<String, u64> = HashMap::new();
    for entry in &entries {
        let Entry::Decision(one) = Entry::read(entry).unwrap() else {
            continue;
        };
        let time = one.time();
        let hour = Moment::from_millis(time - time % MILLIS);
        let client = match one.client_name {
            Some(name) => Client::Named(name.kept),
            None => Client::At(one.client.ip()),
        };
        let token = one.chain.iter().next().map_or("", |token| token.kept);
        let key = format!("{hour:?} {client:?} {token:?} {:?}", one.verdict);
        *want.entry(key).or_default() += 1;
    }
    assert_eq!(requests(&sums), want);
}

#[test]
fn merged_sums_are_those_of_all() {
    let entries = entries(24, 400);
    let whole = Sums::read(&sums_of(&[&entries])).unwrap();
    let mut builder = SumsBuilder::new();
    for part in [&entries[..100], &entries[100..150], &entries[150..]] {
        builder.merge(&Sums::read(&sums_of(&[part])).unwrap());
    }
    let merged = Sums::read(&builder.finish().unwrap().unwrap()).unwrap();
    let mut builder = SumsBuilder::new();
    for entry in &entries {
        builder.add(&Entry::read(entry).unwrap());
    }
    let alone = Sums::read(&builder.finish().unwrap().unwrap()).unwrap();
    for other in [&merged, &alone] {
        assert_eq!(all_hours(other), all_hours(&whole));
        assert_eq!(requests(other), requests(&whole));
        for key in [GroupBy::Origin, GroupBy::Reason, GroupBy::Rule] {
            let [one, two] = [&whole, other].map(|sums| {
                let search = Search::new(&DecisionQuery::default()).unwrap();
                let mut counts = GroupCounts::new(key);
                assert!(sums.count_by(&search, &mut counts));
                counts.into_most_frequent(usize::MAX)
            });
            assert_eq!(one, two);
        }
    }
}

#[test]
fn the_same_blocks_make_the_same_sums() {
    let entries = entries(25, 300);
    let parts: [&[Vec<u8>]; 2] = [&entries[..128], &entries[128..]];
    assert!(sums_of(&parts) == sums_of(&parts));
    let empty = SumsBuilder::new().finish().unwrap().unwrap();
    assert!(all_hours(&Sums::read(&empty).unwrap()).is_empty());
}

#[test]
fn a_span_between_two_decisions_is_split() {
    let search = |since: u64, until: u64| {
        let query = DecisionQuery {
            since: Some(Moment::from_millis(since)),
            until: Some(Moment::from_millis(until)),
            ..DecisionQuery::default()
        };
        Search::new(&query).unwrap()
    };
    let cases = [
        ((5, 9), true),
        ((5, 10), true),
        ((4, 10), false),
        ((4, 9), false),
        ((0, 4), false),
        ((5, 11), false),
    ];
    for ((since, until), want) in cases {
        assert_eq!(
            search(since, until).lies_between(4, 10),
            want,
            "{since} {until}"
        );
    }
}

#[test]
fn foreign_octets_are_refused() {
    let octets = sums_of(&[&entries(26, 60)]);
    for end in (0..octets.len()).step_by(5) {
        assert!(Sums::read(&octets[..end]).is_err(), "{end}");
    }
    let (mut found, step) = (0, octets.len() / 400 + 1);
    for at in (0..octets.len()).step_by(step) {
        let mut flipped = octets.clone();
        flipped[at] ^= 0x04;
        found += usize::from(Sums::read(&flipped).is_err());
    }
    assert!(found > 300, "{found}");
    let bomb = zstd::bulk::compress(&vec![0; 20 * 1024 * 1024], 1).unwrap();
    for raw in [3_u32, 20 * 1024 * 1024, u32::MAX] {
        let bomb = [&MAGIC[..], &raw.to_be_bytes(), &bomb].concat();
        assert!(Sums::read(&bomb).is_err());
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 200,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// A section with a right checksum and wrong content: nothing panics.
    #[test]
    fn foreign_columns_do_no_harm(
        seed in 0_u64..20,
        changes in proptest::collection::vec((any::<u32>(), any::<u8>(), 0..3_u8), 1..6),
    ) {
        let octets = sums_of(&[&entries(seed, 12)]);
        let mut raw = zstd::bulk::decompress(&octets[8..], MAX_RAW).unwrap();
        for (at, octet, change) in changes {
            let at = at as usize % raw.len();
            match change {
                0 => raw[at] = octet,
                1 => raw.insert(at, octet),
                _ => drop(raw.remove(at)),
            }
        }
        let mut compressor = zstd::bulk::Compressor::new(1).unwrap();
        compressor.include_checksum(true).unwrap();
        let frame = compressor.compress(&raw).unwrap();
        let octets = [&MAGIC[..], &(raw.len() as u32).to_be_bytes(), &frame].concat();
        if let Ok(sums) = Sums::read(&octets) {
            all_hours(&sums);
            requests(&sums);
            let search = Search::new(&DecisionQuery::default()).unwrap();
            let _ = sums.count_by(&search, &mut GroupCounts::new(GroupBy::Rule));
            let mut builder = SumsBuilder::new();
            builder.merge(&sums);
            let again = builder.finish().unwrap().unwrap();
            prop_assert!(Sums::read(&again).is_ok());
        }
    }
}
