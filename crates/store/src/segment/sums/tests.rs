//! Sums give the counts that the blocks would give.

use proptest::prelude::*;

use super::*;
use crate::{DecisionQuery, GroupBy};
use crawlgate_block::{Block, BlockWriter};
use crawlgate_record::samples::Dice;
use crawlgate_record::samples::dice::entry;
use crawlgate_record::{self as entry, Bounds, Entry};
use crawlgate_system::clock::Moment;

/// Returns entries at random over some hours.
fn entries(seed: u64, count: usize) -> Vec<Vec<u8>> {
    let mut dice = Dice(seed);
    let bounds = Bounds { url: entry::MAX, user_agent: entry::MAX };
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
        builder.add_block(&Block::read(block(part)).unwrap());
    }
    builder.finish().unwrap().unwrap()
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
                of_blocks.count_block(&search, &block, all, |_| false).unwrap();
            }
            let of_blocks = of_blocks.into_most_frequent(usize::MAX);
            counted += of_blocks.len();
            assert_eq!(of_sums.into_most_frequent(usize::MAX), of_blocks, "{query:?}");
        }
    }
    assert!(counted > 500, "{counted}");
}

#[test]
fn the_same_blocks_make_the_same_sums() {
    let entries = entries(25, 300);
    let parts: [&[Vec<u8>]; 2] = [&entries[..128], &entries[128..]];
    assert!(sums_of(&parts) == sums_of(&parts));
    let empty = SumsBuilder::new().finish().unwrap().unwrap();
    assert!(Sums::read(&empty).unwrap().decided.is_empty());
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
        assert_eq!(search(since, until).lies_between(4, 10), want, "{since} {until}");
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
            let search = Search::new(&DecisionQuery::default()).unwrap();
            let _ = sums.count_by(&search, &mut GroupCounts::new(GroupBy::Rule));
        }
    }
}
