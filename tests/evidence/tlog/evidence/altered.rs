//! Altered evidence files: both verifiers, the library and `docs/verify-evidence.py`, are equally strict.

use std::collections::BTreeSet;
use std::fs;

use crawlgate_evidence::bundle::{Exhibit, Named, write};
use crawlgate_record::{Bounds, Decision, Entry};
use crawlgate_store::ObjectKind;
use crawlgate_tlog::EntryProof;
use serde_json::Value;

use super::corpus::Corpus;
use super::{path, prove, python};
use crate::tlog::log::Log;

/// A file, and whether it is proven.
struct Row {
    name: String,
    file: Vec<u8>,
    is_proven: bool,
}

impl Row {
    fn new(name: impl Into<String>, file: impl Into<Vec<u8>>, is_proven: bool) -> Self {
        let (name, file) = (name.into(), file.into());
        Self { name, file, is_proven }
    }
}

/// Passes each file to both verifiers. Returns what the script says of each; `None` if there is no Python.
fn both(corpus: &Corpus, rows: &[Row]) -> Option<Vec<String>> {
    let keys = corpus.log.keys();
    let folder = tempfile::tempdir().unwrap();
    let name = |nth: usize| format!("{}/{nth}", folder.path().display());
    for (nth, row) in rows.iter().enumerate() {
        let found = prove(&row.file, &keys);
        assert_eq!(found.is_ok(), row.is_proven, "{}: {found:?}", row.name);
        fs::write(name(nth), &row.file).unwrap();
    }
    let first = [
        path("tests/evidence/tlog/evidence/each.py"),
        path("docs/verify-evidence.py"),
        keys[0].to_string(),
    ];
    let words: Vec<String> = first.into_iter().chain((0..rows.len()).map(name)).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let output = python(&words)?;
    let told = String::from_utf8(output.stdout).unwrap();
    let told: Vec<String> = told.lines().map(str::to_owned).collect();
    let failed = String::from_utf8_lossy(&output.stderr);
    assert_eq!(told.len(), rows.len(), "{failed}");
    for (row, said) in rows.iter().zip(&told) {
        assert_eq!(said == "proven", row.is_proven, "{}: {said}", row.name);
    }
    Some(told)
}

/// Returns the file of one record.
fn file(corpus: &Corpus, exhibit: &Exhibit) -> Vec<u8> {
    let mut file = Vec::new();
    write(&corpus.header(), exhibit, &mut file);
    file
}

/// Returns the pointers of all texts in a value.
fn texts(value: &Value, at: &str, found: &mut Vec<String>) {
    match value {
        Value::String(_) => found.push(at.to_owned()),
        Value::Array(list) => {
            let each = list.iter().enumerate();
            each.for_each(|(nth, one)| texts(one, &format!("{at}/{nth}"), found));
        }
        Value::Object(map) => {
            let each = map.iter();
            each.for_each(|(name, one)| texts(one, &format!("{at}/{name}"), found));
        }
        _ => {}
    }
}

#[test]
fn a_text_is_cut_only_where_the_entry_says_so() {
    let corpus = Corpus::new();
    let (mut seen, mut rows) = (BTreeSet::new(), Vec::new());
    for nth in corpus.decisions().into_iter().rev() {
        let exhibit = corpus.exhibit(nth);
        let record: Value = serde_json::from_str(&exhibit.record).unwrap();
        let mut places = Vec::new();
        texts(&record, "", &mut places);
        for place in places {
            let text = record.pointer(&place).and_then(Value::as_str).unwrap();
            let is_cut = text.ends_with(" bytes]");
            if text.len() < 2
                || !text.is_ascii() && !is_cut
                || !seen.insert((place.clone(), is_cut))
            {
                continue;
            }
            let hidden = match text.split_once("…[+") {
                // One octet more is hidden, and told.
                Some((kept, mark)) if is_cut => {
                    let more: u64 = mark.strip_suffix(" bytes]").unwrap().parse().unwrap();
                    let kept = &kept[..kept.floor_char_boundary(kept.len() - 1)];
                    format!("{kept}…[+{} bytes]", more + 1)
                }
                _ => format!("{}…[+{} bytes]", &text[..1], text.len() - 1),
            };
            let mut changed = record.clone();
            *changed.pointer_mut(&place).unwrap() = hidden.into();
            let exhibit = Exhibit { record: changed.to_string(), ..exhibit.clone() };
            rows.push(Row::new(place, file(&corpus, &exhibit), false));
        }
    }
    let places: BTreeSet<&str> = rows.iter().map(|row| &*row.name).collect();
    let all = "/rule/text /rule/group /reason /method /user_agent /url /detail /robots/url";
    for place in all.split(' ') {
        assert!(places.contains(place), "{place}: {places:?}");
    }
    assert!(seen.iter().filter(|(_, is_cut)| *is_cut).count() >= 8, "{seen:?}");
    both(&corpus, &rows);
}

#[test]
fn both_cut_a_text_at_its_bound_alike() {
    let mut corpus = Corpus::new();
    let last = corpus.entries.pop().unwrap();
    let Entry::Decision(usual) = Entry::read(&last).unwrap() else { panic!("no decision") };
    let mut rows = 0;
    corpus.entries.clear();
    // Each kind of character, with its octets in the line.
    let kinds: [(&[u8], usize); 9] = [
        (b"a", 1),
        (b"\"", 2),
        (b"\x01", 6),
        ("\u{e9}".as_bytes(), 2),
        ("\u{20ac}".as_bytes(), 3),
        ("\u{200b}".as_bytes(), 6),
        ("\u{10000}".as_bytes(), 4),
        ("\u{e0001}".as_bytes(), 12),
        (b"\xff", 5),
    ];
    for reason in ["robots_disallow", "unknown_client"] {
        for (one, wide) in kinds {
            for bound in [512, 1_024] {
                for (room, more) in [(0, 0), (0, 1), (32, 0), (32, 1), (33, 0)] {
                    let user_agent = one.repeat((bound - room) / wide + more);
                    let decision =
                        Decision { reason, user_agent: Some(user_agent[..].into()), ..usual };
                    let mut entry = Vec::new();
                    decision.encode(Bounds::CLIENTS, &mut entry);
                    corpus.entries.push(entry);
                    rows += 1;
                }
            }
        }
    }
    corpus.log = Log::of(corpus.entries.clone());
    let all: Vec<usize> = (0..rows).collect();
    both(&corpus, &[Row::new("all", corpus.many(&all), true)]);
}

#[test]
fn what_is_beyond_a_bound_is_refused_before_it_costs_anything() {
    let corpus = Corpus::new();
    let last = corpus.entries.len() - 1;
    let usual = corpus.exhibit(last);
    let text = String::from_utf8(file(&corpus, &usual)).unwrap();
    let key = corpus.log.keys()[0].to_string();
    let proof = serde_json::to_string(&usual.proof.to_string()).unwrap();
    let rotation = |entry: &str| format!("{{\"entry\":\"{entry}\",\"proof\":{proof}}}");
    let with = |rotations: &str| text.replacen('{', &format!("{{\"rotations\":[{rotations}],"), 1);
    // Four million octets that a reader of CBOR takes one by one.
    let many_items = "AAAA".repeat(1_000_000);
    let new_key = {
        let head = [0xa3, 0x00, 0x09, 0x18, 52, 0x78, u8::try_from(key.len()).unwrap()];
        let second = [0x18, 58, 0x78, u8::try_from(key.len()).unwrap()];
        let entry = [&head[..], key.as_bytes(), &second, key.as_bytes()].concat();
        base64::Engine::encode(&base64::engine::general_purpose::STANDARD, entry)
    };
    let hash = format!("{}=\\n", "A".repeat(43));
    let signature = format!(
        "\\n{}",
        serde_json::to_string(&usual.proof.checkpoint.signatures()[0].to_string())
            .unwrap()
            .trim_matches('"')
    );
    let large = Exhibit {
        objects: vec![Named { kind: ObjectKind::Basis, body: vec![0; 70_000] }],
        ..usual.clone()
    };
    #[rustfmt::skip] // one row, one case
    let rows = [
        ("an entry", text.replacen("\"entry\":\"", &format!("\"entry\":\"{many_items}"), 1), "too many"),
        ("the entry of a new key", with(&rotation(&many_items)), "too many"),
        ("new keys", with(&vec![rotation(&new_key); 257].join(",")), "too many"),
        ("an object", String::from_utf8(file(&corpus, &large)).unwrap(), ""),
        ("a path", text.replacen("\\n\\n", &format!("\\n{}\\n", hash.repeat(64)), 1), "too many lines"),
        ("signatures", text.replacen(&signature, &signature.repeat(101), 1), "too many lines"),
        ("a proof", text.replacen(&signature, &signature.repeat(10_000), 1), "too long"),
        ("an index", text.replacen("\\nindex ", "\\nindex 9999999999999999999", 1), "another form"),
        ("a number", text.replacen("\"status\":403", &format!("\"status\":{}", "4".repeat(4_000_000)), 1), ""),
    ];
    let files: Vec<Row> =
        rows.iter().map(|(name, file, _)| Row::new(*name, file.as_bytes(), false)).collect();
    for row in &files {
        assert!(row.file != text.as_bytes(), "{}", row.name);
    }
    let told = or_skip!(both(&corpus, &files));
    for ((name, _, want), said) in rows.iter().zip(&told) {
        assert!(said.contains(want), "{name}: {said}");
    }
}

#[test]
fn both_refuse_the_same_forms() {
    let corpus = Corpus::new();
    let text = String::from_utf8(corpus.one(corpus.entries.len() - 1)).unwrap();
    let maker = "\"made_by\":\"crawlgate test\"";
    let text = text.replacen("\"made_by\": ", "\"made_by\":", 1);
    let tdmrep = "{\"tdmrep\":null,";
    let end = text.trim_end();
    let signature = text.rsplit("\\n— ").next().unwrap();
    let signature = format!("— {}", signature.split("\\n").next().unwrap());
    #[rustfmt::skip] // one row, one case
    let rows = [
        ("nothing", "{", "{", true),
        ("white space before it", "{", " \t\r\n{", true),
        ("white space that JSON has not", "{", "\u{a0}{", false),
        ("a byte order mark", "{", "\u{feff}{", false),
        ("no maker", maker, "\"made_by\":null", false),
        ("a number for the maker", maker, "\"made_by\":1", false),
        ("half a character for the maker", maker, "\"made_by\":\"\\ud800\"", false),
        ("a line with a point", "\"line\":3", "\"line\":3.0", false),
        ("a line with an exponent", "\"line\":3", "\"line\":3e0", false),
        ("a status with a point", "\"status\":403", "\"status\":403.0", false),
        ("a negative zero", "\"bytes_in\":0", "\"bytes_in\":-0", false),
        ("a time without a point", "\"hold_ms\":0.000", "\"hold_ms\":0", false),
        ("a time with a digit less", "\"hold_ms\":0.000", "\"hold_ms\":0.00", true),
        ("no tdmrep.json", "{", tdmrep, false),
        ("new keys that are no list", "{", "{\"rotations\":{},", false),
        ("no new keys", "{", "{\"rotations\":[],", true),
        ("null behind the record", end, &format!("{end} null"), false),
        ("an empty object behind the record", end, &format!("{end} {{}}"), false),
        ("a signature twice", &signature, &format!("{signature}\\n{signature}"), true),
        ("a line that is no signature", &signature, &format!("{signature}\\nand more"), false),
        ("a signature without a name", &signature, &format!("{signature}\\n—  AAAAAAA="), false),
        ("the signature of a stranger", &signature, &format!("{signature}\\n— stranger AAAAAAA="), true),
        ("a control character in the checkpoint", &signature, &format!("{signature}\\n— a\\u0001b AAAAAAA="), false),
        ("an index with a zero before it", "\\nindex ", "\\nindex 0", false),
        ("an index in other digits", "\\nindex ", "\\nindex \u{661}", false),
    ];
    let rows = rows.map(|(name, from, to, is_proven)| {
        let changed = text.replacen(from, to, 1);
        assert_eq!(changed == text, name == "nothing", "{name}");
        Row::new(name, changed, is_proven)
    });
    both(&corpus, &rows);
}

#[test]
fn each_signature_of_the_key_must_hold() {
    let corpus = Corpus::new();
    let last = corpus.entries.len() - 1;
    let mut exhibit = corpus.exhibit(last);
    // The key has signed another text; the line stands behind a right one.
    let false_one = corpus.log.signer().sign("another text\n");
    exhibit.proof.checkpoint.push(false_one).unwrap();
    both(&corpus, &[Row::new("a false signature", file(&corpus, &exhibit), false)]);
}

#[test]
fn an_entry_that_readers_could_take_for_two_is_refused_though_the_log_has_it() {
    let mut corpus = Corpus::new();
    let last = corpus.entries.len() - 1;
    let entry = corpus.entries[last].clone();
    let usual = corpus.exhibit(last);
    let with = |pair: &[u8]| {
        let mut entry = [&entry, pair].concat();
        let at = usize::from(entry[0] & 0x1f == 24);
        entry[at] += 1;
        entry
    };
    // The identifier comes first; the other rows change what stands behind it.
    let begin = entry.iter().position(|octet| *octet == 0x50).unwrap();
    let longer = |octets: &[u8], found: &[u8]| {
        let at = entry.windows(found.len()).position(|window| window == found);
        let at = at.unwrap();
        [&entry[..at], octets, &entry[at + found.len()..]].concat()
    };
    let before_reason = |pair: &[u8]| {
        let mut entry =
            longer(&[pair, b"\x05\x6frobots_disallow"].concat(), b"\x05\x6frobots_disallow");
        let at = usize::from(entry[0] & 0x1f == 24);
        entry[at] += 1;
        entry
    };
    assert!(begin < 5);
    #[rustfmt::skip] // one row, one case
    let rows = [
        ("octets after the end", [&entry, &[0][..]].concat()),
        ("an unknown key", with(&[0x18, 0x28, 0x00])),
        ("another reason after the first", with(&[0x05, 0x61, b'x'])),
        ("a cut end", entry[..entry.len() - 1].to_vec()),
        ("a length that is not in its shortest form", longer(b"\x05\x78\x0frobots_disallow", b"\x05\x6frobots_disallow")),
        ("octets for a text", longer(b"\x05\x4frobots_disallow", b"\x05\x6frobots_disallow")),
        ("a status in a wider form", longer(b"\x18\x19\x1a\0\0\x01\x93", b"\x18\x19\x19\x01\x93")),
        ("no mode, written", before_reason(&[0x03, 0x00])),
        ("a mode that there is not", before_reason(&[0x03, 0x02])),
        ("a mode below 0", before_reason(&[0x03, 0x20])),
        ("a cut of nothing", with(&[0x18, 0x1e, 0xa0])),
    ];
    let mut files = Vec::new();
    for (name, entry) in rows {
        let log = Log::of(vec![entry.clone()]);
        let inclusion = log.prover(1).inclusion(0).unwrap();
        let exhibit = Exhibit {
            entry,
            proof: EntryProof::new(inclusion, log.checkpoint(1)),
            ..usual.clone()
        };
        files.push(Row::new(name, file(&corpus, &exhibit), false));
    }
    corpus.log = Log::of(vec![entry]);
    both(&corpus, &files);
    for row in &files {
        let error = prove(&row.file, &corpus.log.keys()).unwrap_err();
        assert!(error.contains("not canonical"), "{}: {error}", row.name);
    }
}
