use proptest::prelude::*;

use super::*;
use crawlgate_record::samples::Dice;
use crawlgate_record::samples::dice::entry;
use crawlgate_record::{Entry, Outline};

fn block(entries: &[Vec<u8>]) -> (Vec<u8>, BlockSummary) {
    let mut writer = BlockWriter::new().unwrap();
    for entry in entries {
        if let Some(outline) = writer.push(entry).unwrap() {
            assert_eq!(Outline::read(entry), Ok(outline), "{entry:02x?}");
        }
    }
    let mut out = Vec::new();
    let summary = writer.finish(&mut out).unwrap();
    (out, summary)
}

fn rebuilt(block: &Block<'_>) -> Result<Vec<Vec<u8>>, BlockError> {
    let one = |place| {
        let mut out = Vec::new();
        block.entry(place, &mut out).map(|()| out)
    };
    (0..block.len()).map(one).collect()
}

fn entries(seed: u64, count: usize) -> Vec<Vec<u8>> {
    let mut dice = Dice(seed);
    (0..count).map(|_| entry(&mut dice)).collect()
}

/// Counts and searches look for decisions only in the columns.
#[test]
fn each_entry_that_reads_as_a_decision_is_in_the_columns() {
    let mut dice = Dice(9);
    let mut writer = BlockWriter::new().unwrap();
    let mut decisions = [0, 0];
    for entry in entries(8, 3_000) {
        let mut changed = entry.clone();
        let at = dice.below(changed.len() as u64) as usize;
        changed[at] = changed[at].wrapping_add(1 + dice.below(255) as u8);
        for (nth, octets) in [entry, changed].iter().enumerate() {
            if matches!(Entry::read(octets), Ok(Entry::Decision(_))) {
                decisions[nth] += 1;
                let mut out = Vec::new();
                writer.push(octets).unwrap();
                writer.finish(&mut out).unwrap();
                let block = Block::read(out).unwrap();
                assert_eq!(block.keys().len(), 1, "{octets:02x?}");
            }
        }
    }
    assert!(decisions.iter().all(|count| *count > 1_000), "{decisions:?}");
}

#[test]
fn every_entry_is_restored() {
    let mut writer = BlockWriter::new().unwrap();
    for (seed, count) in [(1, 1), (2, 2), (3, 300), (4, 2_000)] {
        let entries = entries(seed, count);
        for entry in &entries {
            let is_decision = matches!(Entry::read(entry), Ok(Entry::Decision(_)));
            let outline = writer.push(entry).unwrap();
            assert_eq!(outline.is_some(), is_decision, "{entry:02x?}");
        }
        let mut out = b"before".to_vec();
        let summary = writer.finish(&mut out).unwrap();
        assert_eq!(summary.count, count);
        // The same entries make the same block, whatever the writer has written before.
        assert_eq!(out[6..], block(&entries).0);
        let block = Block::read(&out[6..]).unwrap();
        assert!(rebuilt(&block).unwrap() == entries, "seed {seed}");
        block.check().unwrap();
        for nth in 0..block.keys().len() {
            let row = block.keys().row(nth).unwrap();
            let decision = match Entry::read(&entries[row.place as usize]).unwrap() {
                Entry::Decision(decision) => decision,
                other => panic!("{other:?}"),
            };
            assert_eq!(row.time, decision.time());
            assert_eq!(block.id(nth), Some(decision.id));
            assert_eq!(block.port(nth), Ok(u64::from(decision.client.port())));
            assert_eq!(row.origin.is_some(), decision.origin.is_some());
            let shape = block.words(WordKind::Shape).nth(row.shape as usize).unwrap();
            let mut reason = Vec::new();
            crawlgate_record::cbor::text(&mut reason, decision.reason);
            assert_eq!(shape.value(crawlgate_record::key::REASON), Some(&reason[..]));
            assert_eq!(shape.value(crawlgate_record::key::DURATION), None);
            let path = decision.url.pieces(None).0.concat();
            assert_eq!(block.path(nth), Ok(&path[..]));
        }
        let times =
            entries.iter().map(|entry| crawlgate_record::Entry::read(entry).unwrap().time());
        assert_eq!(summary.min_time, times.clone().min().unwrap());
        assert_eq!(summary.max_time, times.max().unwrap());
    }
    assert!(writer.finish(&mut Vec::new()).is_err(), "a block of nothing");
}

#[test]
fn octets_that_are_no_entry_are_kept_as_they_are() {
    let mut dice = Dice(9);
    let decision = loop {
        let one = entry(&mut dice);
        if one.first() != Some(&0xa0) && one.get(1) == Some(&1) {
            break one;
        }
    };
    let mut entries: Vec<Vec<u8>> = vec![
        Vec::new(),
        vec![0],
        vec![0xa0],
        vec![0xff; 65_535],
        b"{\"time\":\"2026\"}".to_vec(),
        vec![0xbb, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
        vec![0x9b, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff],
    ];
    for end in 0..decision.len() {
        entries.push(decision[..end].to_vec());
    }
    for at in 0..decision.len() {
        let mut flipped = decision.clone();
        flipped[at] ^= 1 << (at % 8);
        entries.push(flipped);
        let mut longer = decision.clone();
        longer.insert(at, 0x18);
        entries.push(longer);
    }
    let (out, summary) = block(&entries);
    assert_eq!(summary.count, entries.len());
    // As a check of the store counts them.
    let times = || entries.iter().map(|entry| crawlgate_record::time_of(entry));
    let span = (summary.min_time, summary.max_time);
    assert_eq!(span, (times().min().unwrap(), times().max().unwrap()));
    let found = rebuilt(&Block::read(&out).unwrap()).unwrap();
    for (place, (found, entry)) in found.iter().zip(&entries).enumerate() {
        assert!(found == entry, "{place}: {entry:02x?}");
    }
}

#[test]
fn a_full_block_takes_no_more() {
    let mut writer = BlockWriter::new().unwrap();
    assert_eq!(writer.push(&[0; 65_536]), Err(PushError::TooLong));
    for _ in 0..MAX_ENTRIES {
        writer.push(&[0]).unwrap();
    }
    assert_eq!(writer.push(&[0]), Err(PushError::Full));
    let mut out = Vec::new();
    assert_eq!(writer.finish(&mut out).unwrap().count, MAX_ENTRIES);
    assert_eq!(Block::read(&out).unwrap().len(), MAX_ENTRIES);
    let long = vec![7; 65_535];
    while writer.push(&long).is_ok() {}
    assert_eq!(writer.count(), MAX_OCTETS / long.len());
    out.clear();
    writer.finish(&mut out).unwrap();
    assert_eq!(rebuilt(&Block::read(&out).unwrap()).unwrap(), vec![long; 512]);
}

#[test]
fn denials_are_counted() {
    let entries = entries(5, 500);
    let denials = entries.iter().filter(|entry| {
        matches!(
            crawlgate_record::Entry::read(entry),
            Ok(Entry::Decision(decision)) if decision.verdict == crawlgate_record::Verdict::Deny
        )
    });
    assert_eq!(block(&entries).1.denials, denials.count());
}

/// Every flipped bit of a block is found, or changes nothing.
#[test]
fn a_flipped_bit_is_found_or_harmless() {
    let mut entries = entries(6, 40);
    entries.retain(|entry| entry.len() < 1_000);
    let (out, _) = block(&entries);
    let (mut found, mut harmless) = (0, 0);
    // All bits of the head and of the first frame, and as many of the rest.
    let step = out.len() * 8 / 1_500;
    for bit in (0..out.len() * 8).filter(|bit| *bit < 1_500 || bit % step == 0) {
        let mut flipped = out.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        match Block::read(&flipped).and_then(|block| rebuilt(&block)) {
            Err(_) => found += 1,
            Ok(same) => {
                assert!(same == entries, "bit {bit} changed an entry");
                harmless += 1;
            }
        }
    }
    assert!(found >= 2_000 && found > 100 * harmless, "{found} found, {harmless} harmless");
}

#[test]
fn a_block_that_is_cut_off_is_refused() {
    let (out, _) = block(&entries(7, 20));
    for end in 0..out.len() {
        assert!(Block::read(&out[..end]).is_err(), "{end}");
    }
    assert!(Block::read([&out[..], &[0]].concat()).is_err());
}

/// A block with this head and these sections, which may say other lengths than they have.
fn foreign(count: u32, sections: &[(u8, u32, &[u8])]) -> Vec<u8> {
    let mut out = b"cgb1".to_vec();
    out.push(sections.len() as u8);
    out.extend_from_slice(&count.to_be_bytes());
    for (id, raw, frame) in sections {
        out.push(*id);
        out.extend_from_slice(&raw.to_be_bytes());
        out.extend_from_slice(&(frame.len() as u32).to_be_bytes());
    }
    for (_, _, frame) in sections {
        out.extend_from_slice(frame);
    }
    out
}

#[test]
fn foreign_octets_are_refused_before_they_are_unpacked() {
    let bomb = zstd::bulk::compress(&vec![0; 80 * 1024 * 1024], 1).unwrap();
    let frame = zstd::bulk::compress(b"abc", 1).unwrap();
    let twice = [&frame[..], &frame[..]].concat();
    let mb = 1024 * 1024;
    #[rustfmt::skip] // one row, one case
    let cases: &[(&str, Vec<u8>)] = &[
        ("nothing", Vec::new()),
        ("another kind", b"cgb2\0\0\0\0\x01".to_vec()),
        ("no entries", foreign(0, &[])),
        ("too many entries", foreign(16_385, &[])),
        ("a bomb", foreign(1, &[(1, 80 * mb, &bomb)])),
        ("a bomb in two", foreign(1, &[(1, 40 * mb, &frame), (2, 40 * mb, &frame)])),
        ("a bomb that says less", foreign(1, &[(1, 3, &bomb)])),
        ("a frame that says more", foreign(1, &[(1, 64 * mb, &frame)])),
        ("two frames", foreign(1, &[(1, 3, &twice)])),
        ("no frame", foreign(1, &[(1, 3, b"abcdefgh")])),
        ("a section twice", foreign(1, &[(1, 3, &frame), (1, 3, &frame)])),
        ("sections in another order", foreign(1, &[(2, 3, &frame), (1, 3, &frame)])),
        ("a reserved section", foreign(1, &[(6, 3, &frame)])),
        ("section 0", foreign(1, &[(0, 3, &frame)])),
        ("an empty section", foreign(1, &[(1, 0, &[])])),
    ];
    for (name, block) in cases {
        assert!(Block::read(block).is_err(), "{name}");
    }
}

/// Makes a block of raw sections, with right lengths and checksums.
fn packed(count: usize, sections: &[Vec<u8>]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut packer = frame::Packer::new().unwrap();
    for (section, raw) in frame::Section::ALL.into_iter().zip(sections) {
        packer.add(section, raw).unwrap();
    }
    packer.finish(count, &mut out).unwrap();
    out
}

fn unpacked(block: &[u8]) -> (usize, Vec<Vec<u8>>) {
    let packed = frame::Packed::read(block.into()).unwrap();
    let sections = frame::Section::ALL.map(|section| packed.unpack(section).unwrap());
    (packed.count, sections.to_vec())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 150,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn entries_at_random_are_restored(seed: u64, count in 1_usize..120) {
        let entries = entries(seed, count);
        let (out, _) = block(&entries);
        prop_assert!(rebuilt(&Block::read(&out).unwrap()).unwrap() == entries);
    }

    /// Sections with right checksums and wrong content: nothing panics, and no entry is longer than entries are.
    #[test]
    fn foreign_columns_do_no_harm(
        seed: u64,
        changes in proptest::collection::vec((0..5_usize, any::<u32>(), any::<u8>(), 0..4_u8), 1..6),
    ) {
        let (count, mut sections) = unpacked(&block(&entries(seed, 30)).0);
        for (section, at, octet, change) in changes {
            let section = &mut sections[section];
            if section.is_empty() {
                continue;
            }
            let at = at as usize % section.len();
            match change {
                0 => section[at] = octet,
                1 => section[at] ^= 1 << (octet % 8),
                2 => section.insert(at, octet),
                _ => drop(section.remove(at)),
            }
        }
        if let Ok(block) = Block::read(packed(count, &sections)) {
            for place in 0..=block.len() {
                let mut out = Vec::new();
                if block.entry(place, &mut out).is_ok() {
                    prop_assert!(out.len() <= crawlgate_record::MAX);
                }
            }
        }
    }

    #[test]
    fn foreign_octets_do_no_harm(octets in proptest::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(Block::read(&octets).is_err());
        let with_head = [&b"cgb1"[..], &octets].concat();
        prop_assert!(Block::read(&with_head).is_err());
    }
}

#[test]
fn numbers_have_one_form() {
    use super::varint::{Input, put, put_signed};
    for number in [0, 1, 127, 128, 16_383, 16_384, u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
        let mut out = Vec::new();
        put(&mut out, number);
        let mut input = Input(&out);
        assert_eq!(input.number(), Ok(number));
        assert!(input.end().is_ok());
        assert!(Input(&out[..out.len() - 1]).number().is_err());
    }
    for number in [0, -1, 1, -64, 64, i64::MIN, i64::MAX] {
        let mut out = Vec::new();
        put_signed(&mut out, number);
        assert_eq!(Input(&out).signed(), Ok(number));
    }
    for other in [
        &[0x80, 0x00][..],
        &[0xff; 11],
        &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02],
    ] {
        assert!(Input(other).number().is_err(), "{other:02x?}");
    }
}
