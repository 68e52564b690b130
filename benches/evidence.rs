//! The cost of an entry and of its room in a block: `cargo bench --bench evidence`.
//!
//! Each of five sets of decisions (`evidence/sets.rs`) is encoded, filed into blocks of `EVIDENCE_BLOCK` (4,096) entries, read back and compared, and verified: each
//! entry hashed, each root compared, and a checkpoint every 4,096 entries. Times are CPU times of the thread, the least
//! of `EVIDENCE_ROUNDS` (5); `EVIDENCE_RECORDS` (131,072) sets the number of decisions, `EVIDENCE_SETS` the sets. Below A,
//! B and E stand the costs of searching their blocks: nanoseconds a decision, with the number of decisions found.

#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a measurement reads the clock, prints, and ends loudly where it cannot be set up"
)]

#[path = "evidence/search.rs"]
mod search;
#[path = "evidence/sets.rs"]
mod sets;

use std::time::Duration;

use crawlgate_block::{Block, BlockWriter};
use crawlgate_evidence::verify::walk::{Known, LogVerifier, Subtree};
use crawlgate_record::{Bounds, Decision, Digest, Rule, Source, Texts, Url, Verdict, Via};
use crawlgate_store::{LogKey, StoredCheckpoint};
use crawlgate_system::clock::Moment;
use crawlgate_tlog::{BUNDLE, Tree, leaf_hash};
use rustix::time::{ClockId, clock_gettime};

use self::sets::{Dice, Request, digest, request};

/// The allocator of the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Encodes a decision, as the end of an exchange does.
fn encode(request: &Request, policy: &Digest, out: &mut Vec<u8>) {
    let Request { n, site, is_denied, .. } = *request;
    let chain = [&*request.token];
    let decision = Decision {
        id: request.id,
        decided_after: i64::from(n.is_multiple_of(50)),
        verdict: if is_denied { Verdict::Deny } else { Verdict::Allow },
        reason: if is_denied { "robots_disallow" } else { "robots_allow" },
        policy: Some(policy),
        client: request.client,
        client_name: Some("crawler-7".into()),
        chain: Texts::from(&chain[..]),
        source: Source::UserAgent,
        user_agent: Some(request.user_agent.as_bytes().into()),
        method: "GET".into(),
        version: Some("1.1"),
        origin: Some(&request.origin),
        url: Url::of([b"", request.url.as_bytes(), b""], Some(&request.origin)),
        via: Via::Intercepted,
        rule: is_denied.then(|| Rule {
            group: "*".into(),
            text: request.rule.as_bytes().into(),
            line: 3 + (site % 40) as u32,
        }),
        basis: Some(&request.basis),
        upstream: (!is_denied).then(|| ([192, 0, (site >> 8) as u8, site as u8], 443).into()),
        upstream_version: (!is_denied).then_some("2"),
        status: Some(match (is_denied, n % 23) {
            (true, _) => 403,
            (false, 0) => 404,
            (false, 1) => 304,
            (false, _) => 200,
        }),
        bytes_out: request.bytes_out,
        duration: request.duration,
        error: is_denied.then(|| "http_request_denied".into()),
        ..Decision::default()
    };
    decision.encode(Bounds::CLIENTS, out);
}

/// Returns the CPU time of this thread.
fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn main() {
    if !std::env::args().any(|word| word == "--bench") {
        return;
    }
    let records = setting("EVIDENCE_RECORDS", 131_072);
    let at_once = setting("EVIDENCE_BLOCK", 4_096) as usize;
    let rounds = setting("EVIDENCE_ROUNDS", 5);
    println!(
        "set  entry B  block B  encode ns  file ns  read ns  verify ns   (a record; blocks of {at_once})"
    );
    let policy = digest(1);
    let sets = std::env::var("EVIDENCE_SETS").unwrap_or_else(|_| "ABCDE".to_owned());
    for set in sets.chars() {
        let mut dice = Dice::of_set(set);
        let requests: Vec<Request> = (0..records).map(|n| request(set, n, &mut dice)).collect();
        // One after the other, as the queue holds them.
        let (mut entries, mut ends) = (Vec::new(), vec![0]);
        for request in &requests {
            encode(request, &policy, &mut entries);
            ends.push(entries.len());
        }
        let raw = entries.len();
        let entry = |nth: usize| &entries[ends[nth]..ends[nth + 1]];
        let count = requests.len();
        let mut least = [Duration::MAX; 4];
        let key = LogKey::generate(None).unwrap();
        let (roots, checkpoints) = signed(&key, count, entry);
        let keys = [key.vkey()];
        let known =
            Known { keys: keys.to_vec().into(), checkpoints: &checkpoints, ..Known::default() };
        let mut packed = Vec::new();
        let mut out = Vec::with_capacity(4_096);
        for _ in 0..rounds {
            let began = cpu();
            for request in &requests {
                out.clear();
                encode(request, &policy, &mut out);
                std::hint::black_box(&out);
            }
            let encoded = cpu();
            let mut writer = BlockWriter::new().unwrap();
            let mut blocks = Vec::new();
            for first in (0..count).step_by(at_once) {
                for nth in first..count.min(first + at_once) {
                    writer.push(entry(nth)).unwrap();
                }
                let mut block = Vec::new();
                writer.finish(&mut block).unwrap();
                blocks.push(block);
            }
            let filed = cpu();
            let mut nth = 0;
            for block in &blocks {
                let block = Block::read(block).unwrap();
                for place in 0..block.len() {
                    out.clear();
                    block.entry(place, &mut out).unwrap();
                    assert!(out[..] == *entry(nth), "set {set}, entry {nth} is not restored");
                    nth += 1;
                }
            }
            let read = cpu();
            let mut faults = Vec::new();
            let mut verifier = LogVerifier::new(&known, roots.iter().copied(), &mut faults);
            for nth in 0..count {
                verifier.step(nth as u64, entry(nth), &mut faults);
            }
            let walked = verifier.end(&mut faults);
            let verified = cpu();
            assert_eq!((walked.agreeing, faults), (checkpoints.len() as u64, Vec::new()));
            let took = [encoded - began, filed - encoded, read - filed, verified - read];
            least = [0, 1, 2, 3].map(|step| least[step].min(took[step]));
            packed = blocks;
        }
        let [encoding, filing, reading, verifying] = least;
        let each = |octets: usize| octets as f64 / records as f64;
        let ns = |time: Duration| time.as_nanos() as f64 / records as f64;
        println!(
            "{set}  {:8.0} {:8.1} {:10.0} {:8.0} {:8.0} {:10.0}",
            each(raw),
            each(packed.iter().map(Vec::len).sum()),
            ns(encoding),
            ns(filing),
            ns(reading),
            ns(verifying)
        );
        if matches!(set, 'A' | 'B' | 'E') {
            search::measure(&packed, records, rounds);
        }
    }
}

/// Returns the roots of a log's bundles and segments, and a checkpoint for every 4,096 entries.
fn signed<'e>(
    key: &LogKey,
    count: usize,
    entry: impl Fn(usize) -> &'e [u8],
) -> (Vec<Subtree>, Vec<StoredCheckpoint>) {
    let (mut roots, mut checkpoints) = (Vec::new(), Vec::new());
    let mut tree = Tree::new();
    for nth in 0..count {
        if let Some(full) = tree.push(leaf_hash(entry(nth))) {
            let of = |count, root| Subtree::of(tree.size() - count, count, root).unwrap();
            roots.push(of(BUNDLE, full.bundle));
            roots.extend(full.segment.map(|root| of(crawlgate_tlog::SEGMENT, root)));
        }
        if tree.size().is_multiple_of(4_096) {
            checkpoints.push(StoredCheckpoint {
                size: tree.size(),
                time: Moment::default(),
                note: key.checkpoint(tree.size(), tree.root()).to_string(),
            });
        }
    }
    (roots, checkpoints)
}

fn setting(name: &str, default: u64) -> u64 {
    let text = std::env::var(name).ok();
    text.map_or(default, |text| {
        let number = text.parse();
        number.unwrap_or_else(|_| panic!("{name}={text}: not a number"))
    })
}
