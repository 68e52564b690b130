//! The comparison of a file that is there already with the one that was to be put there.
//!
//! Compressed octets may differ where another version of crawlgate has written them, a checkpoint may have got further
//! cosignatures meanwhile, and a log another key. Such files are the same.

use super::read::{unpacked, visit_entries};
use super::{ExportDir, Head};
use crawlgate_block::Block;
use crawlgate_text::from_hex;
use crawlgate_tlog::{Hash, Note, leaf_hash};

/// Tells whether `found` says the same as `ours`, the content of the file `name`.
#[must_use]
pub fn is_same(name: &str, ours: &[u8], found: &[u8]) -> bool {
    fn both<T: PartialEq>(read: impl Fn(&[u8]) -> Option<T>, ours: &[u8], found: &[u8]) -> bool {
        read(ours).is_some_and(|ours| read(found) == Some(ours))
    }
    if ours == found {
        return true;
    }
    match place_of(name) {
        Some((ExportDir::Entries, _)) => both(entries, ours, found),
        Some((ExportDir::Objects | ExportDir::Robots, _)) => is_whole_body(name, found),
        Some((ExportDir::Checkpoints, _)) => both(signed_text, ours, found),
        Some((ExportDir::Ground | ExportDir::Gaps, _)) => false,
        None => both(log, ours, found),
    }
}

/// Tells whether these octets are the body that the name of their file says.
#[must_use]
pub fn is_whole_body(name: &str, octets: &[u8]) -> bool {
    let sha256 = match place_of(name) {
        Some((ExportDir::Objects | ExportDir::Robots, file)) => file.strip_suffix(".zst"),
        _ => None,
    };
    let Some(sha256) = sha256.and_then(from_hex::<32>) else {
        return false;
    };
    matches!(unpacked(octets, &sha256), Ok(Some(_)))
}

fn place_of(name: &str) -> Option<(ExportDir, &str)> {
    let (folder, file) = name.split_once('/')?;
    let mut all = ExportDir::ALL.into_iter();
    Some((all.find(|place| place.name() == folder)?, file))
}

/// Returns the leaf hashes of the entries in a block.
fn entries(octets: &[u8]) -> Option<Vec<Hash>> {
    let block = Block::read(octets).ok()?;
    let mut hashes = Vec::new();
    let leaf = |_, entry: &[u8]| {
        hashes.push(leaf_hash(entry));
        Ok(())
    };
    visit_entries(&block, |_| (), leaf).ok()?;
    Some(hashes)
}

fn signed_text(octets: &[u8]) -> Option<String> {
    let note = Note::parse(octets).ok()?;
    Some(note.text().to_owned())
}

fn log(octets: &[u8]) -> Option<String> {
    Some(Head::read(octets)?.log)
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::digest::{SHA256, digest};

    use super::*;
    use crate::export::{FORMAT, body_file, checkpoint_file, entries_file, ground_file};
    use crawlgate_block::BlockWriter;
    use crawlgate_tlog::samples::{cosign, pair};
    use crawlgate_tlog::{EMPTY_ROOT, Signer};

    fn block(entries: &[&[u8]]) -> Vec<u8> {
        let mut writer = BlockWriter::new().unwrap();
        for entry in entries {
            writer.push(entry).unwrap();
        }
        let mut body = Vec::new();
        writer.finish(&mut body).unwrap();
        body
    }

    #[test]
    fn files_are_the_same_where_they_say_the_same() {
        let rules = (0..400).map(|n| format!("Disallow: /{}\n", n * 7_919 % 1_009));
        let text = format!("User-agent: *\n{}", rules.collect::<String>()).into_bytes();
        let sha256 = digest(&SHA256, &text).as_ref().try_into().unwrap();
        let packed = |level| zstd::bulk::compress(&text, level).unwrap();
        let other = zstd::bulk::compress(b"Disallow:", 3).unwrap();
        let pair = pair(1);
        let note = |size| Signer::new("log".parse().unwrap(), &pair).checkpoint(size, EMPTY_ROOT);
        let plain = note(0).to_string().into_bytes();
        let mut cosigned = plain.clone();
        let (_, line) = cosign(note(0).text(), "witness", 3, 1_795_176_000);
        cosigned.extend(format!("{line}\n").into_bytes());
        let head = |key: &str, log: &str| {
            let text = format!("{{\"format\":\"{FORMAT}\",\"log\":\"{log}\",\"vkey\":\"{key}\"}}");
            text.into_bytes()
        };
        let entries = entries_file(0, 2);
        let robots = body_file(ExportDir::Robots, &sha256);
        let ground = ground_file(256);
        let checkpoint = checkpoint_file(0);
        let whole = block(&[b"one", b"two"]);
        let half = whole[..whole.len() / 2].to_vec();
        #[rustfmt::skip] // one row, one case
        let rows = [
            ("octets", entries.as_str(), whole.clone(), whole.clone(), true),
            ("a half", &entries, whole.clone(), half.clone(), false),
            ("two halves", &entries, half.clone(), half[1..].to_vec(), false),
            ("other entries", &entries, whole.clone(), block(&[b"one", b"six"]), false),
            ("fewer entries", &entries, whole, block(&[b"one"]), false),
            ("another level", &robots, packed(3), packed(19), true),
            ("another body", &robots, packed(3), other, false),
            ("a body as entries", &entries, packed(3), packed(19), false),
            ("a cosignature", &checkpoint, plain.clone(), cosigned, true),
            ("another checkpoint", &checkpoint, plain, note(1).to_string().into_bytes(), false),
            ("other roots", &ground, vec![1; 32], vec![2; 32], false),
            ("a new key", "log.json", head("a", "log"), head("b", "log"), true),
            ("another log", "log.json", head("a", "log"), head("a", "gol"), false),
        ];
        assert_ne!(packed(3), packed(19), "the levels differ");
        for (name, file, ours, found, want) in rows {
            assert_eq!(is_same(file, &ours, &found), want, "{name}");
        }
        assert!(is_whole_body(&robots, &packed(3)));
        assert!(!is_whole_body(&robots, &packed(3)[1..]));
        assert!(!is_whole_body("robots/x.zst", &packed(3)));
    }
}
