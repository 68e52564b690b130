//! Records to prove: the golden entries, on settings and a robots.txt that exist.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use aws_lc_rs::digest::{SHA256, digest};
use crawlgate_evidence::bundle::{Exhibit, Header, LinesWriter, Named, write};
use crawlgate_record::{Basis, Bounds, Decision, Digest, Entry, Rule, Url, Verdict, write_line};
use crawlgate_store::objects_of;
use crawlgate_tlog::EntryProof;

use crate::tlog::log::Log;

const ROBOTS: &str =
    "# r\u{f6}bots\r\nUser-agent: *\r\nDisallow: /private/\r\nAllow: /private/open\r\n";

const TDMREP: &str = r#"[{"location": "/private/*", "tdm-reservation": 1}]"#;

const TERMS: &str = "{\"lenient\":true,\"size_limit\":512000,\"path_guard\":true,\"soft_404\":false,\"deny_statuses\":[],\
    \"unreachable\":{\"disallow_for_ms\":2592000000,\"last_good_until_ms\":null,\"finally\":\"allow\"}}";

fn sha256(octets: &[u8]) -> Digest {
    digest(&SHA256, octets).as_ref().try_into().unwrap()
}

/// The golden entries, with settings and a robots.txt that exist, and one decision that can be made again.
pub(super) struct Corpus {
    pub(super) entries: Vec<Vec<u8>>,
    bodies: HashMap<Digest, Vec<u8>>,
    pub(super) log: Log,
}

impl Corpus {
    pub(super) fn new() -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/record/src/tests/golden.txt");
        let text = fs::read_to_string(path).unwrap();
        let octets = |digits: &str| -> Vec<u8> {
            let digit = |at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
            (0..digits.len()).step_by(2).map(digit).collect()
        };
        let mut bodies: HashMap<Digest, Vec<u8>> = HashMap::new();
        for body in [TERMS, ROBOTS, TDMREP] {
            bodies.insert(sha256(body.as_bytes()), body.as_bytes().to_vec());
        }
        let lines =
            |kind: &'static str| text.lines().filter_map(move |line| line.strip_prefix(kind));
        for body in lines("object ").map(octets) {
            bodies.insert(sha256(&body), body);
        }
        let mut entries = Vec::new();
        for entry in lines("entry ").map(octets) {
            match Entry::read(&entry).unwrap() {
                Entry::Decision(decision) => entries.push(remade(&decision, &mut bodies)),
                Entry::Event(_) => entries.push(entry),
            }
        }
        let usual = Entry::read(&entries[0]).unwrap();
        let Entry::Decision(usual) = usual else { panic!("{usual:?}") };
        let denied = denied(&usual, &mut bodies);
        entries.push(denied);
        let log = Log::of(entries.clone());
        Self { entries, bodies, log }
    }

    pub(super) fn header(&self) -> Header {
        Header {
            vkey: self.log.signer().key().clone(),
            made_by: "crawlgate test".to_owned(),
            rotations: Vec::new(),
        }
    }

    pub(super) fn exhibit(&self, nth: usize) -> Exhibit {
        let size = self.entries.len();
        let proof = self.log.prover(size).inclusion(nth as u64).unwrap();
        let entry = Entry::read(&self.entries[nth]).unwrap();
        let mut line = Vec::new();
        write_line(&entry, &self.bodies, &mut line).unwrap();
        let named = objects_of(&entry);
        let objects = named.map(|(kind, digest)| {
            // Events name settings that are not among the golden objects.
            let body = self.bodies.get(digest).cloned().unwrap_or_default();
            Named { kind, body }
        });
        let [robots, tdmrep] = match &entry {
            Entry::Decision(decision) => [decision.basis, decision.tdmrep],
            Entry::Event(_) => [None; 2],
        }
        .map(|basis| {
            let sha256 = Basis::read(&self.bodies[basis?]).unwrap().sha256?;
            Some(self.bodies[sha256].clone())
        });
        Exhibit {
            entry: self.entries[nth].clone(),
            record: String::from_utf8(line).unwrap().trim_end().to_owned(),
            proof: EntryProof::new(proof, self.log.checkpoint(size)),
            objects: objects.collect(),
            robots,
            tdmrep,
        }
    }

    /// Returns the file of one record.
    pub(super) fn one(&self, nth: usize) -> Vec<u8> {
        let mut file = Vec::new();
        write(&self.header(), &self.exhibit(nth), &mut file);
        file
    }

    /// Returns the places of all decisions.
    pub(super) fn decisions(&self) -> Vec<usize> {
        let is_decision = |nth: &usize| {
            let entry = Entry::read(&self.entries[*nth]).unwrap();
            matches!(entry, Entry::Decision(_))
        };
        (0..self.entries.len()).filter(is_decision).collect()
    }

    /// Returns the file of these records, as JSON Lines.
    pub(super) fn many(&self, all: &[usize]) -> Vec<u8> {
        let mut file = Vec::new();
        let mut writer = LinesWriter::new(&self.header(), &mut file);
        for nth in all {
            writer.line(&self.exhibit(*nth), &mut file);
        }
        file
    }
}

/// Encodes a decision anew, on settings and a robots.txt that exist.
fn remade(decision: &Decision<'_>, bodies: &mut HashMap<Digest, Vec<u8>>) -> Vec<u8> {
    let terms = sha256(TERMS.as_bytes());
    let mut on = |basis: Option<&Digest>, text: &str| {
        let body = bodies[basis?].clone();
        let mut basis = Basis::read(&body).unwrap();
        let sha256_of_text = sha256(text.as_bytes());
        if basis.sha256.is_some() {
            basis.sha256 = Some(&sha256_of_text);
            basis.bytes = Some(text.len() as u64);
        }
        let mut body = Vec::new();
        basis.encode(&mut body);
        let digest = sha256(&body);
        bodies.insert(digest, body);
        Some(digest)
    };
    let basis = on(decision.basis, ROBOTS);
    let tdmrep = on(decision.tdmrep, TDMREP);
    let decision = Decision {
        policy: decision.policy.map(|_| &terms),
        basis: basis.as_ref(),
        tdmrep: tdmrep.as_ref(),
        // A line beyond the file would belong to no file.
        rule: decision.rule.map(|rule| Rule { line: rule.line.min(5), ..rule }),
        ..*decision
    };
    let mut entry = Vec::new();
    decision.encode(Bounds::CLIENTS, &mut entry);
    entry
}

/// Encodes a denial that follows from the robots.txt.
fn denied(usual: &Decision<'_>, bodies: &mut HashMap<Digest, Vec<u8>>) -> Vec<u8> {
    let (terms, robots) = (sha256(TERMS.as_bytes()), sha256(ROBOTS.as_bytes()));
    let basis = Basis {
        origin: "https://site.example",
        final_url: Some(b"https://site.example/robots.txt"),
        state: "successful",
        status: Some(200),
        fetched_at: Some(usual.time() - 60_000),
        sha256: Some(&robots),
        bytes: Some(ROBOTS.len() as u64),
        fresh_until: Some(usual.time() + 86_400_000),
        identity: Some("*"),
        user_agent: Some("crawlgate"),
        ..Basis::default()
    };
    let mut body = Vec::new();
    basis.encode(&mut body);
    let basis = sha256(&body);
    bodies.insert(basis, body);
    let origin = Some("https://site.example");
    let url = [&b"https://site.example/private/x?q=\xe9"[..9], b"ite.example/private/x", b"?q=1"];
    let decision = Decision {
        verdict: Verdict::Deny,
        reason: "robots_disallow",
        policy: Some(&terms),
        basis: Some(&basis),
        overridden: None,
        exempt: None,
        origin,
        url: Url::of(url, origin),
        opaque: false,
        rule: Some(Rule { group: "*".into(), text: b"Disallow: /private/"[..].into(), line: 3 }),
        reading: None,
        user_agent: Some(b"Bot/1 \xe9 \"quoted\" \x1b[2J"[..].into()),
        status: Some(403),
        ..*usual
    };
    let mut entry = Vec::new();
    decision.encode(Bounds::CLIENTS, &mut entry);
    entry
}
