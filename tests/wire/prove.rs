//! Denials, proven only by files to a reader who has neither crawlgate nor the store. Page: `docs/evidence-files.md`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{CrawlgateProcess, Origin, RULES, Reply};

/// A running gate with the key of its log, and the verifiers of evidence files.
struct Case {
    gate: CrawlgateProcess,
    vkey: String,
    has_python: bool,
}

impl Case {
    fn new() -> Case {
        Case::of(CrawlgateProcess::start())
    }

    fn of(gate: CrawlgateProcess) -> Case {
        let key = gate.succeeds("audit", &["key"]);
        let has_python = Command::new("python3").arg("--version").output().is_ok();
        if !has_python {
            eprintln!("skipped in part: python3 is missing");
        }
        let vkey = key.trim().to_owned();
        Case { gate, vkey, has_python }
    }

    /// Asks for a URL that is denied; returns the identifier of the stored decision.
    fn deny(&self, url: &str) -> String {
        assert_eq!(self.gate.get(url).status, 403);
        let record = self.gate.record("the denial", |record| record["url"] == url);
        let id = record["id"].as_str().unwrap().to_owned();
        let show = ["show", &id];
        self.gate.beside_until("log", &show, |told| !told.is_empty());
        id
    }

    fn prove(&self, words: &[&str]) -> (Option<i32>, String, String) {
        self.gate.beside("audit", &[&["prove"], words].concat())
    }

    /// Returns what both verifiers tell of a file, if both say the same about it.
    #[track_caller]
    fn verified(&self, file: &[u8], is_proven: bool) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("evidence");
        fs::write(&path, file).unwrap();
        let path = path.to_str().unwrap();
        let words = ["verify-evidence", path, "--key", &self.vkey];
        let (code, mut told, error) = self.gate.beside("audit", &words);
        let want = Some(i32::from(!is_proven));
        assert_eq!(code, want, "{told}{error}");
        if self.has_python {
            let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/verify-evidence.py");
            let output = Command::new("python3")
                .args([script.to_str().unwrap(), path, &self.vkey])
                .output()
                .unwrap();
            told += &String::from_utf8_lossy(&output.stdout);
            told += &String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), want, "{told}");
        }
        told
    }
}

#[test]
fn a_refusal_by_tdmrep_json_is_proven_by_its_file_alone() {
    let path = "/.well-known/tdmrep.json";
    let text = r#"[{"location":"/","tdm-reservation":1}]"#;
    let origin = Origin::http().on(path, [Reply::ok(text)]);
    let case = Case::of(CrawlgateProcess::with(|setup| {
        setup.set("signals", "tdmrep", "\"enforce\"");
        setup.set("policy", "purposes", "[\"tdm\"]");
    }));
    let id = case.deny(&origin.url("/page"));
    let (code, file, error) = case.prove(&[&id]);
    assert_eq!(code, Some(0), "{error}");
    let parsed: Value = serde_json::from_str(&file).unwrap();
    assert_eq!(parsed["tdmrep"]["body"], text, "{file}");
    case.verified(file.as_bytes(), true);
    // Another file does not prove it.
    let other = file.replace(":1}]", ":0}]");
    case.verified(other.as_bytes(), false);
    let mut without = parsed;
    without.as_object_mut().unwrap().remove("tdmrep");
    case.verified(without.to_string().as_bytes(), false);
}

#[test]
fn a_denial_is_proven_by_a_file_and_any_altered_octet_is_found() {
    let mut case = Case::new();
    let site = Origin::with_rules(RULES);
    let url = site.url("/private?a=b");
    let id = case.deny(&url);
    // No checkpoint covers it yet: one is made beside the running gate.
    let (code, file, error) = case.prove(&[&id]);
    assert_eq!((code, error.as_str()), (Some(0), ""));
    let told = case.verified(file.as_bytes(), true);
    says!(told, "the same decision follows from the file");
    let shown: Value = serde_json::from_str(&file).unwrap();
    has!(shown, {"record.id": id, "record.url": url, "robots.body": RULES, "vkey": case.vkey});

    #[rustfmt::skip] // one row, one case
    let places = [
        ("the record", file.find("\"verdict\":\"deny\"").unwrap() + 12),
        ("the entry", file.find("\"entry\":\"").unwrap() + 40),
        ("the index", file.find("\\nindex ").unwrap() + 8),
        ("the checkpoint", file.find("\\n\\n").unwrap() + 20),
        ("the signature", file.rfind("\\n\\n—").unwrap() + 100),
        ("the settings", file.find("\"kind\":\"terms\"").unwrap() + 120),
        ("robots.txt", file.find("\"robots\":{\"sha256\":\"").unwrap() + 120),
    ];
    for (name, at) in places {
        let mut altered = file.clone().into_bytes();
        altered[at] ^= 1;
        let told = case.verified(&altered, false);
        assert!(!told.contains("panicked"), "{name}: {told}");
    }

    // After the end, only from the store; and what is lost there is said.
    case.gate.signal(Signal::TERM);
    case.gate.wait();
    let (code, again, error) =
        case.prove(&[&shown["record"]["id"].as_str().unwrap().to_lowercase()]);
    assert_eq!((code, error.as_str()), (Some(0), ""));
    case.verified(again.as_bytes(), true);
    let store = case.gate.setup.dir().join("crawlgate.db");
    let lose = |what: &str| {
        let store = rusqlite::Connection::open(&store).unwrap();
        store.execute_batch("PRAGMA foreign_keys = OFF").unwrap();
        assert_eq!(store.execute(what, []).unwrap(), 1, "{what}");
    };
    lose("DELETE FROM snapshot");
    let id = shown["record"]["id"].as_str().unwrap();
    let (code, less, error) = case.prove(&[id]);
    let sha256 = shown["robots"]["sha256"].as_str().unwrap();
    let want = format!("the robots.txt with SHA-256 {sha256} is missing in the store");
    assert!(code == Some(1) && error.contains(&want), "{code:?} {error}");
    let told = case.verified(less.as_bytes(), false);
    says!(told, &format!("the robots.txt with SHA-256 {sha256} is missing"));
    let less: Value = serde_json::from_str(&less).unwrap();
    has!(less, {"robots": null, "record": shown["record"]});
    lose("DELETE FROM object WHERE kind = 1");
    let (code, less, error) = case.prove(&[id]);
    assert!(code == Some(1) && error.contains("the basis with SHA-256"), "{code:?} {error}");
    let less: Value = serde_json::from_str(&less).unwrap();
    says!(less["record"]["missing"].as_str().unwrap(), "object");
}

#[test]
fn the_decisions_about_a_site_are_proven_by_one_file() {
    let case = Case::new();
    let (site, other) = (Origin::with_rules(RULES), Origin::with_rules(RULES));
    let ids: Vec<String> =
        (0..5).map(|nth| case.deny(&site.url(&format!("/private/{nth}")))).collect();
    let foreign = case.deny(&other.url("/private"));
    let origin = site.url("").trim_end_matches('/').to_owned();
    let file = case.gate.setup.dir().join("site.jsonl");
    let name = file.to_str().unwrap();
    let conditions = ["--origin", &origin, "--since", "1h", "-o", name];
    let (code, out, error) = case.prove(&conditions);
    assert_eq!((code, &*out, &*error), (Some(0), "", ""));
    let mode = fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let text = fs::read_to_string(&file).unwrap();
    case.verified(text.as_bytes(), true);
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let found: Vec<_> =
        lines[1..].iter().map(|line| line["record"]["id"].as_str().unwrap()).collect();
    assert_eq!(found, ids);
    assert!(!text.contains(&foreign));
    assert_eq!(text.matches("\"kind\":\"terms\"").count(), 1, "bodies stand there once");

    // Nothing to prove leaves the file as it was.
    let before = ["--origin", &origin, "--until", "2020-01-01", "-o", name];
    let (code, _, error) = case.prove(&before);
    assert!(code == Some(1) && error.contains("no decision that is kept"), "{error}");
    assert_eq!(fs::read_to_string(&file).unwrap(), text);
    #[rustfmt::skip] // one row, one case
    let rows: [(&[&str], i32, &str); 5] = [
        (&["01KB7W3Y5E000000000VY7H1Q2"], 1, "no such decision"),
        (&[], 2, "required"),
        (&[&ids[0], "--origin", &origin], 2, "cannot be used with"),
        (&["--since", "soon"], 2, "--since soon: not a time"),
        (&[&ids[0], "-o", "/dev/null"], 2, "no regular file"),
    ];
    for (words, code, want) in rows {
        let (found, out, error) = case.prove(words);
        assert_eq!((found, &*out), (Some(code), ""), "{words:?}: {error}");
        assert!(error.contains(want), "{words:?}: {error}");
    }
    let (code, _, _) = case.prove(&[&ids[0], "-o", name]);
    assert_eq!(code, Some(0));
    case.verified(&fs::read(&file).unwrap(), true);
}

#[test]
fn a_log_with_a_name_is_proven_by_the_key_beside_the_store() {
    let case = Case::of(CrawlgateProcess::with(|setup| {
        setup.set("audit", "log_name", "\"logs.example.org/fra-1\"");
    }));
    assert!(case.vkey.starts_with("logs.example.org/fra-1+"));
    let site = Origin::with_rules(RULES);
    let id = case.deny(&site.url("/private"));
    let (code, file, error) = case.prove(&[&id]);
    assert_eq!((code, &*error), (Some(0), ""));
    case.verified(file.as_bytes(), true);
    let path = case.gate.setup.dir().join("evidence");
    fs::write(&path, file).unwrap();
    let words = ["verify-evidence", path.to_str().unwrap()];
    let (code, told, error) = case.gate.beside("audit", &words);
    assert_eq!((code, &*error), (Some(0), ""), "{told}");
    let start = format!("{id} proven");
    assert!(told.starts_with(&start), "{told}");
}
