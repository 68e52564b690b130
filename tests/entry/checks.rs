//! Checks that hold for any octets as an entry or a block. The kept corpus and the fuzz targets share them; each check
//! panics on a violation.

use crawlgate_block::{Block, BlockWriter};
use crawlgate_record::{Asserted, Basis, Bounds, Entry, MAX};

/// Returns the octets of an entry, written again; nothing if the data is no entry.
fn written(data: &[u8]) -> Vec<u8> {
    let mut again = Vec::new();
    match Entry::read(data) {
        Ok(Entry::Decision(decision)) => {
            let bounds = Bounds { url: MAX, user_agent: MAX };
            decision.encode(bounds, &mut again);
        }
        Ok(Entry::Event(event)) => event.encode(&mut again),
        Err(_) => {}
    }
    again
}

/// Reads the octets as an entry and as each object. Octets that are read are written again as they were.
pub(crate) fn entry(data: &[u8]) {
    let mut again = written(data);
    if !again.is_empty() {
        // A foreign entry may have longer texts than ours: they are cut, once.
        assert!(again == data || data.len() > 256);
        assert!(written(&again) == again);
    }
    if let Ok(basis) = Basis::read(data) {
        again.clear();
        basis.encode(&mut again);
        assert!(again == data);
    }
    if let Ok(asserted) = Asserted::read(data) {
        again.clear();
        asserted.encode(&mut again);
        assert!(again == data);
    }
}

/// Reads the octets as a block, and files them as entries, each after its length.
pub(crate) fn block(data: &[u8]) {
    if let Ok(block) = Block::read(data) {
        let mut out = Vec::new();
        for place in 0..=block.len() {
            out.clear();
            if block.entry(place, &mut out).is_ok() {
                assert!(out.len() <= MAX && place < block.len());
            }
        }
    }
    let Ok(mut writer) = BlockWriter::new() else {
        return;
    };
    let (mut rest, mut entries) = (data, Vec::new());
    while let [high, low, after @ ..] = rest {
        let length = usize::from(u16::from_be_bytes([*high, *low])).min(after.len());
        let (entry, after) = after.split_at(length);
        assert!(writer.push(entry).is_ok());
        entries.push(entry);
        rest = after;
    }
    let mut out = Vec::new();
    assert!(writer.finish(&mut out).is_ok() != entries.is_empty());
    if entries.is_empty() {
        return;
    }
    let block = Block::read(&out);
    assert!(block.is_ok());
    for (place, entry) in entries.iter().enumerate() {
        let mut out = Vec::new();
        assert!(block.as_ref().is_ok_and(|block| block.entry(place, &mut out).is_ok()));
        assert!(out == *entry);
    }
}
