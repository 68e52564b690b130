//! Evidence files: written by the library, proven by the library and by `docs/verify-evidence.py`, and damaged.

mod altered;
mod corpus;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crawlgate_evidence::bundle::{Checker, Proven};
use crawlgate_evidence::replay::Outcome;
use crawlgate_tlog::VerifierKey;

use self::corpus::Corpus;
use super::log::{Log, TIME, WITNESS};
use super::peers::missing;

/// Proves all records of a file by the library.
fn prove(file: &[u8], keys: &[VerifierKey]) -> Result<Vec<Proven>, String> {
    let failed = |error: &dyn std::fmt::Display| error.to_string();
    let mut checker = Checker::new(file, keys).map_err(|error| failed(&error))?;
    let mut proven = Vec::new();
    while let Some(one) = checker.prove_next().map_err(|error| failed(&error))? {
        proven.push(one);
    }
    Ok(proven)
}

#[test]
fn the_library_proves_what_it_wrote() {
    let corpus = Corpus::new();
    let keys = corpus.log.keys();
    let all = corpus.decisions();
    assert!(all.len() > 200, "{}", all.len());
    let proven = prove(&corpus.many(&all), &keys).unwrap();
    assert_eq!(proven.len(), all.len());
    for (nth, one) in all.iter().zip(&proven) {
        let exhibit = corpus.exhibit(*nth);
        assert_eq!((one.index, &one.record), (*nth as u64, &exhibit.record));
        assert_eq!(one.robots, exhibit.robots);
        assert_eq!(one.seen, [(WITNESS.to_owned(), TIME)]);
        assert_eq!(prove(&corpus.one(*nth), &keys).unwrap(), std::slice::from_ref(one));
    }
    assert_eq!(proven.last().unwrap().outcome, Some(Outcome::Same));
    // Events, too, if their objects are present.
    let events = (0..corpus.entries.len()).filter(|nth| !all.contains(nth));
    let proven = events.filter(|nth| prove(&corpus.one(*nth), &keys).is_ok());
    assert!(proven.count() >= 12);
}

#[test]
fn a_file_is_proven_by_the_right_keys_alone() {
    let corpus = Corpus::new();
    let file = corpus.one(corpus.entries.len() - 1);
    let [log, witness] = corpus.log.keys();
    let other = Log::new(1);
    let public = |name: &str, key: &VerifierKey| {
        VerifierKey::new(name.parse().unwrap(), key.kind(), *key.public())
    };
    assert!(other.entries.len() == 1);
    #[rustfmt::skip] // one row, one case
    let rows = [
        ("the log's", vec![log.clone()], None),
        ("the log's and a witness's", vec![log.clone(), witness.clone()], None),
        ("none", vec![], Some("no known key has signed")),
        ("the witness's alone", vec![witness.clone()], Some("no known key of logs.example.org")),
        ("the key under another name", vec![public("other", &log)], Some("no known key has signed")),
        ("a witness that has not cosigned", vec![log.clone(), public("witness.example/w2", &witness)], Some("the witness witness.example/w2 has not cosigned")),
    ];
    for (name, keys, want) in rows {
        let found = prove(&file, &keys);
        match want {
            None => assert_eq!(found.map(|all| all.len()), Ok(1), "{name}"),
            Some(want) => {
                let error = found.unwrap_err();
                assert!(error.contains(want), "{name}: {error}");
            }
        }
    }
}

#[test]
fn a_changed_file_is_refused() {
    let corpus = Corpus::new();
    let keys = corpus.log.keys();
    let file = String::from_utf8(corpus.one(corpus.entries.len() - 1)).unwrap();
    let twice = "\"made_by\":\"a\",\n  \"made_by\":";
    #[rustfmt::skip] // one row, one case
    let rows = [
        ("nothing", "\n", "\n", None),
        ("white space", "\n  \"entry\":", "\n\t \r\n \"entry\" : ", None),
        ("another maker", "crawlgate test", "jq", None),
        ("a format of the future", "evidence@1", "evidence@2", Some("another format")),
        ("another log", "\"log\":\"logs", "\"log\":\"dogs", Some("different names")),
        ("the verdict", "\"verdict\":\"deny\"", "\"verdict\":\"allow\"", Some("the field verdict differs")),
        ("a number", "\"status\":403", "\"status\":200", Some("the field status differs")),
        ("a number in other words", "\"status\":403", "\"status\":403.0", Some("the field status differs")),
        ("a field inside", "\"line\":3", "\"line\":2", Some("the field rule differs")),
        ("a field more", "\"status\":403", "\"status\":403,\"note\":1", Some("the field note differs")),
        ("a field less", "\"opaque\":false,", "", Some("the field opaque differs")),
        ("a field twice", "\"made_by\":", twice, Some("stands there twice")),
        ("a field of the record twice", "\"verdict\":\"deny\"", "\"verdict\":\"deny\",\"verdict\":\"deny\"", Some("stands there twice")),
        ("an unknown field", "\"made_by\":", "\"note\":1,\"made_by\":", Some("an unknown field note")),
        ("a line of robots.txt", "Disallow: /private/\\r\\nAllow", "Disallow: /public/\\r\\nAllow", Some("has another SHA-256")),
        ("the settings", "\\\"lenient\\\":true", "\\\"lenient\\\":false", Some("has another SHA-256")),
        ("the kind of an object", "\"kind\":\"terms\"", "\"kind\":\"basis\"", Some("belongs to nothing")),
        ("another place", "\\nindex ", "\\nindex 1", Some("not in a tree")),
        ("an extra line", "\\nindex ", "\\nextra AAAA\\nindex ", Some("an extra line")),
    ];
    for (name, from, to, want) in rows {
        let changed = file.replacen(from, to, 1);
        assert_eq!(changed == file, name == "nothing", "{name}");
        let found = prove(changed.as_bytes(), &keys);
        match want {
            None => assert_eq!(found.map(|all| all.len()), Ok(1), "{name}"),
            Some(want) => {
                let error = found.unwrap_err();
                assert!(error.contains(want), "{name}: {error}");
            }
        }
    }
    let mut less = file.clone();
    let at = less.rfind("\"robots\":{").unwrap() + "\"robots\":".len();
    less.replace_range(at..less.rfind('}').unwrap(), "null");
    let error = prove(less.as_bytes(), &keys).unwrap_err();
    assert!(error.starts_with("the robots.txt with SHA-256"), "{error}");
    let more = file.clone() + "{}";
    assert!(prove(more.as_bytes(), &keys).is_err());
}

#[test]
fn every_octet_of_a_file_counts() {
    let corpus = Corpus::new();
    let keys = corpus.log.keys();
    let file = corpus.one(corpus.entries.len() - 1);
    let want = prove(&file, &keys).unwrap();
    let (mut found, mut harmless) = (0, 0);
    for at in 0..file.len() {
        for mask in [0x01, 0x20] {
            let mut flipped = file.clone();
            flipped[at] ^= mask;
            match prove(&flipped, &keys) {
                Err(_) => found += 1,
                Ok(proven) => {
                    assert_eq!(proven, want, "octet {at}, mask {mask:#x}");
                    harmless += 1;
                }
            }
        }
    }
    // Only the words about the maker, and white space, mean nothing.
    assert!(found > 5_000 && harmless < 60, "{found}, {harmless}");
}

/// Runs the script, or the driver around it; `None` if there is no Python.
fn python(arguments: &[&str]) -> Option<Output> {
    let output = Command::new("python3").args(arguments).output();
    let Ok(output) = output else {
        missing("Python");
        return None;
    };
    Some(output)
}

fn path(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    path.to_str().unwrap().to_owned()
}

#[test]
fn the_script_proves_what_the_library_wrote() {
    let corpus = Corpus::new();
    let [log, witness] = corpus.log.keys().map(|key| key.to_string());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("evidence.json");
    let script = path("docs/verify-evidence.py");
    let run = |content: &[u8], keys: &[&str]| {
        fs::write(&file, content).unwrap();
        let file = file.to_str().unwrap();
        let output = python(&[&[&*script, file], keys].concat())?;
        let text = [output.stdout, output.stderr].concat();
        Some((output.status.code(), String::from_utf8(text).unwrap()))
    };
    let last = corpus.entries.len() - 1;
    let one = corpus.one(last);
    let keys = [&*log, "--witness", &witness];
    let (code, told) = or_skip!(run(&one, &keys));
    assert_eq!(code, Some(0), "{told}");
    says!(
        told,
        &*format!(
            "Proven: entry {last} (counted from 0) of the log logs.example.org/crawlgate/test-1 is this record"
        ),
        "The key of the log has signed its",
        "The witness witness.example/w1 saw these entries at 2026-07-25T17:20:00.000Z.",
        "asked for https://site.example/private/x?q=1.",
        "The decision was: deny, robots_disallow.",
        "It rests on the rule \"Disallow: /private/\", line 3 of the robots.txt.",
        "Its line 3: Disallow: /private/"
    );
    let all = corpus.decisions();
    let (code, told) = run(&corpus.many(&all), &keys).unwrap();
    assert_eq!(code, Some(0), "{told}");
    assert_eq!(told.matches("Proven: entry ").count(), all.len());
    let event = (0..last).find(|nth| !all.contains(nth)).unwrap();
    let changed = String::from_utf8(one.clone()).unwrap();
    let changed = changed.replacen("\"deny\"", "\"allow\"", 1).into_bytes();
    let other = Log::new(1).witness().to_string();
    #[rustfmt::skip] // one row, one case
    let rows: [(&str, &[u8], &[&str], &str); 6] = [
        ("an event", &corpus.one(event), &keys, "no decision"),
        ("a changed record", &changed, &keys, "the record is not what the entry says: verdict"),
        ("the key of a witness", &one, &[&other], "a key of another kind"),
        ("no key", &one, &[], "verify-evidence.py FILE VKEY"),
        ("no file", b"", &keys, "there is no record"),
        ("a header alone", &corpus.many(&[]), &keys, "there is no record"),
    ];
    for (name, content, keys, want) in rows {
        let (code, told) = run(content, keys).unwrap();
        assert_eq!(code, Some(1), "{name}: {told}");
        assert!(told.contains(want), "{name}: {told}");
    }
}

#[test]
fn the_script_is_short_enough_to_be_read() {
    let parts = ["__init__", "cbor", "ed25519", "log", "record", "text", "value"];
    let parts = parts.map(|part| format!("docs/evidence/{part}.py"));
    for file in parts.into_iter().chain(["docs/verify-evidence.py".into()]) {
        let text = fs::read_to_string(path(&file)).unwrap();
        let widest = text.lines().map(|line| line.chars().count()).max();
        assert!(text.lines().count() <= 150, "{file}");
        assert!(widest <= Some(100), "{file}: {widest:?} columns");
    }
    let files = fs::read_dir(path("docs/evidence")).unwrap();
    let is_python = |name: &std::ffi::OsString| Path::new(name).extension() == Some("py".as_ref());
    let names = files.map(|file| file.unwrap().file_name());
    assert_eq!(names.filter(is_python).count(), 7);
}

#[test]
fn the_script_finds_every_changed_octet() {
    let corpus = Corpus::new();
    let [log, witness] = corpus.log.keys().map(|key| key.to_string());
    let folder = tempfile::tempdir().unwrap();
    let last = corpus.entries.len() - 1;
    let files = [corpus.one(last), corpus.many(&[0, 7, last])];
    for (content, step) in files.into_iter().zip(["1", "3"]) {
        let file = folder.path().join("evidence.json");
        fs::write(&file, &content).unwrap();
        let (driver, script) =
            (path("tests/evidence/tlog/evidence.py"), path("docs/verify-evidence.py"));
        let file = file.to_str().unwrap();
        let output = or_skip!(python(&[&driver, &script, file, &log, &witness, step]));
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        let failed = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{told}{failed}");
        let numbers: Vec<usize> = told.split_whitespace().map(|one| one.parse().unwrap()).collect();
        let [flips, harmless] = numbers[..] else { panic!("{told}") };
        assert!(flips >= 2_000 && harmless < flips / 50, "{told}");
    }
}

#[test]
fn the_command_proves_a_file_without_a_store() {
    let corpus = Corpus::new();
    let [log, witness] = corpus.log.keys().map(|key| key.to_string());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("evidence.json");
    let run = |content: &[u8], keys: &[&str]| {
        fs::write(&file, content).unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_crawlgate"))
            .args(["audit", "verify-evidence", file.to_str().unwrap()])
            .args(keys)
            .env_clear()
            .env("HOME", folder.path())
            .output()
            .unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(text).unwrap())
    };
    let one = corpus.one(corpus.entries.len() - 1);
    let text = String::from_utf8(one.clone()).unwrap();
    let changed = text.replacen("\"deny\"", "\"allow\"", 1).into_bytes();
    let cut = &one[..one.len() - 20];
    let all = corpus.decisions();
    let (key, both) = (["--key", &log], ["--key", &log, "--witness", &witness]);
    let other = Log::new(1).witness().to_string();
    let proven = "proven: it is in the log, and the same decision follows from the file";
    type Row<'r> = (&'r str, &'r [u8], &'r [&'r str], i32, &'r str);
    #[rustfmt::skip] // one row, one case
    let rows: [Row<'_>; 9] = [
        ("a record", &one, &key, 0, proven),
        ("its witness", &one, &both, 0, "seen by   witness.example/w1, at 2026-07-25T17:20:00.000Z"),
        ("its line", &one, &both, 0, ">     3  Disallow: /private/"),
        ("a changed record", &changed, &key, 1, "is not proven: the record is not what the entry says: the field verdict differs"),
        ("a cut file", cut, &key, 1, "no evidence file"),
        ("the key of a witness", &one, &["--key", &other], 2, "the key of a witness"),
        ("no key", &one, &[], 2, "Name the key of the log with --key"),
        ("no vkey", &one, &["--key", "abc"], 2, "name+id+base64"),
        // The golden decisions are proven to be in the log; few of them follow from the robots.txt that they were given.
        ("many records", &corpus.many(&all), &key, 1, " are not"),
    ];
    for (name, content, keys, code, want) in rows {
        let (found, told) = run(content, keys);
        assert_eq!(found, Some(code), "{name}: {told}");
        assert!(told.contains(want), "{name}: {told}");
    }
}
