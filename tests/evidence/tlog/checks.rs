//! Checks that hold for any octets. The properties, the kept corpus and the fuzz targets share them; each check panics
//! on a violation.

use crawlgate_evidence::witness::protocol::{Answer, Received};
use crawlgate_text::Moment;
use crawlgate_tlog::{
    Checkpoint, ConsistencyProof, Edge, EntryProof, InclusionProof, Note, Prover, Resource,
    Signature, Tile, Tree, VerifierKey, leaf_hash, push_entry,
};
use http::StatusCode;

/// The keys that have signed the kept corpus.
const KEYS: [&str; 2] = [
    "logs.example.org/crawlgate/test-1+03c8709b+AYqI4910CfGV/VLbLTy6XXLKZwm/HZQSG/N0iAG0D29c",
    "witness.example/w1+df1c0a35+BIE5dw6ofRdfVqNUZsNMfszLjYqRtO43ol32D1uPybOU",
];

/// The checkpoint that the witness of the kept corpus has cosigned, and the time at which it did, in milliseconds.
const CHECKPOINT: &str = "\
logs.example.org/crawlgate/test-1
300
rqKxBfoWuJaffWfsEP1naEXMKDuP/8DCwq+s+4be0Rg=

— logs.example.org/crawlgate/test-1 A8hwm/Wc5FQ9JZfrVvJ+BDoLIj9knxXUbXiWAkTOLb2C3UwmDze2ZLRdZApg31ek0zBj+1Z74lj8J9AV2CVIqvpmhAc=
";
const SEEN: u64 = 0x6a64_f040 * 1_000;

/// The entries of the tree that foreign proofs are held against.
const ENTRIES: u64 = 300;

/// Reads the octets as a note, a key, a line and a checkpoint: each that is read is written the same, and no check of its
/// signatures panics.
pub(crate) fn note(data: &[u8]) {
    if let Ok(note) = Note::parse(data) {
        assert_eq!(note.to_string().as_bytes(), data);
        assert!(note.text().ends_with('\n') && !note.signatures().is_empty());
        let keys = keys();
        let opened = Checkpoint::open(&note, &keys);
        assert!(opened.is_err() || note.verify(&keys).is_ok());
        if let Some(checkpoint) = Checkpoint::from_text(note.text()) {
            assert!(note.text().starts_with(&checkpoint.to_string()));
        }
    }
    let Ok(text) = str::from_utf8(data) else {
        return;
    };
    if let Ok(key) = text.parse::<VerifierKey>() {
        assert_eq!(key.to_string(), text);
    }
    if let Ok(signature) = text.parse::<Signature>() {
        assert_eq!(signature.to_string(), text);
    }
    if let Some(checkpoint) = Checkpoint::from_text(text) {
        assert!(text.starts_with(&checkpoint.to_string()));
    }
}

/// Reads the octets as the text of a proof, and as numbers and hashes of one: no forged proof holds.
pub(crate) fn proof(data: &[u8]) {
    if let Ok(proof) = EntryProof::parse(data) {
        assert_eq!(proof.to_string().as_bytes(), data);
        assert!(proof.verify(&leaf_hash(b"in no log"), &keys()).is_err());
    }
    let Some((numbers, rest)) = data.split_first_chunk::<16>() else {
        return;
    };
    let (first, second) = numbers.split_at(8);
    let number = |octets: &[u8]| u64::from_be_bytes(octets.try_into().unwrap_or_default());
    let (first, second) = (number(first), number(second));
    let path = rest.as_chunks().0.to_vec();
    if let Some(edge) = Edge::from_bytes(first, rest) {
        assert_eq!(edge.to_bytes(), rest);
    }

    let leaves: Vec<_> = (0..ENTRIES).map(|n| leaf_hash(&n.to_be_bytes())).collect();
    let root = Tree::root_of(&leaves);
    let source = |tile: Tile| match tile.level() {
        0 => leaves.chunks(256).nth(tile.index() as usize).map(<[_]>::to_vec).ok_or(()),
        _ => Ok(vec![Tree::root_of(&leaves[..256])]),
    };
    let forged = InclusionProof { index: first, size: ENTRIES, path: path.clone() };
    let leaf = leaves[(first % ENTRIES) as usize];
    let holds = forged.verify(&leaf, &root).is_ok();
    let made = Prover::new(ENTRIES, source).inclusion(first);
    assert_eq!(holds, made == Ok(forged), "{first}");

    let forged = ConsistencyProof { old: first, new: ENTRIES, path: path.clone() };
    let old = Tree::root_of(&leaves[..first.min(ENTRIES) as usize]);
    let holds = forged.verify(&old, &root).is_ok();
    let made = Prover::new(ENTRIES, source).consistency(first);
    assert_eq!(holds, made == Ok(forged), "{first}");

    let (index, size, old, new) = (first, second, first, second);
    let inclusion = InclusionProof { index, size, path: path.clone() };
    let _ = inclusion.verify(&leaf, &root);
    let _ = ConsistencyProof { old, new, path }.verify(&root, &root);
    let _ = Prover::new(second, source).consistency(first);
    let _ = Prover::new(second, source).inclusion(first);
}

/// Reads the octets as what a witness answers: an octet for the status, a line with the content type, the body. The witness
/// is believed only where its signature holds.
pub(crate) fn answer(data: &[u8]) {
    let Some((first, rest)) = data.split_first() else {
        return;
    };
    let code = match first {
        b'0' => 200,
        b'1' => 409,
        b'2' => 404,
        b'3' => 403,
        b'4' => 422,
        other => 100 + 3 * u16::from(*other),
    };
    let Ok(status) = StatusCode::from_u16(code) else {
        return;
    };
    let end = rest.iter().position(|octet| *octet == b'\n');
    let (content_type, body) = rest.split_at(end.map_or(rest.len(), |end| end + 1));
    let content_type = str::from_utf8(content_type).ok();
    let received = Received {
        status,
        content_type: content_type.map(|text| text.trim_end().to_owned()),
        body: body.to_vec(),
    };
    let [log, witness] = keys();
    let mut note = Note::parse(CHECKPOINT.as_bytes()).unwrap_or_else(|why| panic!("{why}"));
    match received.read(&note, &witness, Moment::from_millis(SEEN)) {
        Ok(Answer::Cosigned(line)) => {
            assert_eq!(code, 200);
            assert!(note.push(line).is_ok());
            let signed = note.verify(std::slice::from_ref(&witness));
            let times = signed.map(|signed| signed.iter().map(|one| one.time).collect::<Vec<_>>());
            let Ok([Some(time)]) = times.as_deref() else {
                panic!("{times:?}");
            };
            assert!(time.abs_diff(SEEN / 1_000) <= 3_600, "{time}");
        }
        Ok(Answer::Size(size)) => {
            assert_eq!(code, 409);
            let text = format!("{size}\n");
            assert!([text.as_bytes(), text.trim_end().as_bytes()].contains(&body));
        }
        Err(why) => assert!(!why.to_string().is_empty()),
    }
    // The key of the log is no witness.
    let of_log = received.read(&note, &log, Moment::from_millis(SEEN));
    assert!(!matches!(of_log, Ok(Answer::Cosigned(_))));
}

/// Reads the octets as a path, as a tile and as a bundle: each that is read is written the same.
pub(crate) fn tile(data: &[u8]) {
    if let Ok(text) = str::from_utf8(data)
        && let Some(resource) = Resource::parse(text)
    {
        assert_eq!(resource.to_string(), text);
        if let Resource::Hashes(tile) | Resource::Entries(tile) = resource {
            assert!((1..=256).contains(&tile.width()) && tile.level() < 64);
            let none = |_: Tile| Ok::<_, ()>(Vec::new());
            assert!(Prover::new(u64::MAX, none).tile(tile).is_err());
        }
    }
    let (width, content) = data.split_at(data.len().min(1));
    let width = width.first().map_or(1, |width| u64::from(*width) + 1);
    for tile in Tile::all(width).take(1) {
        if let Ok(hashes) = tile.hashes(content) {
            assert_eq!(hashes.as_flattened(), content);
        }
        if let Ok(entries) = tile.entries(content) {
            let mut again = Vec::new();
            for entry in &entries {
                assert_eq!(push_entry(&mut again, entry), Ok(()));
            }
            assert_eq!((again, entries.len() as u64), (content.to_vec(), width));
        }
    }
}

/// Returns the keys of the kept corpus: a log and a witness.
fn keys() -> [VerifierKey; 2] {
    KEYS.map(|key| key.parse().unwrap_or_else(|why| panic!("{why}")))
}
