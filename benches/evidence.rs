//! The cost of an entry and of its room in a block: `cargo bench --bench evidence`.
//!
//! Five sets of decisions, all recorded unless noted:
//!
//! - A: 1,000 sites mixed at random, paths of some 42 octets;
//! - B: 200,000 sites, 6 pages of each at a time;
//! - C: denials alone, 20,000 sites, 40 User-Agents;
//! - D: hostile, a path of 170 octets, hexadecimal digits at random, and another User-Agent each time;
//! - E: as A, paths of some 74 octets with parameters of trackers.
//!
//! Each set is encoded, filed into blocks of `EVIDENCE_BLOCK` (4,096) entries, read back and compared, and verified: each
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

use std::net::SocketAddr;
use std::time::Duration;

use crawlgate::audit::verify::walk::{Known, LogVerifier, Subtree};
use crawlgate::clock::Moment;
use crawlgate::entry::{Bounds, Decision, Digest, Mode, Rule, Source, Texts, Url, Verdict, Via};
use crawlgate::store::block::{Block, BlockWriter};
use crawlgate::store::{LogKey, StoredCheckpoint};
use crawlgate::tlog::{BUNDLE, Tree, leaf_hash};
use rustix::time::{ClockId, clock_gettime};

/// Numbers that look random (SplitMix64).
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn of<'t>(&mut self, all: &[&'t str]) -> &'t str {
        all[self.below(all.len() as u64) as usize]
    }
}

const WORDS: &[&str] = &[
    "news", "world", "article", "products", "item", "category", "archive", "image", "blog", "post",
    "about", "search", "local", "sport", "culture", "review", "house", "garden", "people",
    "winter", "summer", "travel", "market", "price", "report", "study", "energy", "water",
    "street", "school", "music", "film", "light", "paper", "green", "north", "south", "river",
    "mountain", "history", "future", "health", "science", "doctor", "kitchen", "recipe", "letter",
    "question", "answer", "village", "city", "office", "window", "garage", "engine", "circle",
    "number", "colour", "season", "weather", "morning", "evening", "friend", "family",
];

/// One request of a set.
struct Request {
    n: u64,
    id: [u8; 16],
    client: SocketAddr,
    site: u64,
    origin: String,
    url: String,
    user_agent: String,
    token: String,
    rule: String,
    basis: Digest,
    is_denied: bool,
    bytes_out: u64,
    duration: u64,
}

fn path(dice: &mut Dice) -> String {
    format!(
        "/{}/{}/{}-{}-{}-{}.html",
        dice.of(WORDS),
        2_015 + dice.below(12),
        dice.of(WORDS),
        dice.of(WORDS),
        dice.of(WORDS),
        dice.below(100_000)
    )
}

fn random(dice: &mut Dice, letters: &[u8], length: usize) -> String {
    let letter = |_| char::from(letters[dice.below(letters.len() as u64) as usize]);
    (0..length).map(letter).collect()
}

fn request(set: char, n: u64, dice: &mut Dice) -> Request {
    const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
    let site = match set {
        'B' => n / 6 * 7_919 % 200_000,
        'C' => dice.below(20_000),
        _ => dice.below(1_000),
    };
    let is_denied = set == 'C' || n.is_multiple_of(10);
    let user_agent = match set {
        'C' => format!(
            "Crawler-{}/2.1 (+https://bot.example/about)",
            dice.below(40)
        ),
        'D' => format!(
            "{}/1.0 ({})",
            random(dice, LETTERS, 12),
            random(dice, LETTERS, 48)
        ),
        _ => "ExampleBot/1.0 (+https://bot.example/about)".to_owned(),
    };
    let path = match set {
        'D' => format!("/{}", random(dice, b"0123456789abcdef", 169)),
        'E' => format!(
            "{}?utm_source={}&gclid={:08x}",
            path(dice),
            ["newsletter", "social", "search"][dice.below(3) as usize],
            dice.next() as u32
        ),
        _ => path(dice),
    };
    // Requests of several connections end in another order than they began.
    let time = 1_795_176_000_000 + n / 20 + dice.below(8);
    let counter = u128::from((n + dice.below(8)) as u32);
    let id = u128::from(time) << 80 | counter << 48 | 0x00c0_ffee_0007;
    let origin = format!("https://www.site-{site}.example");
    Request {
        n,
        id: id.to_be_bytes(),
        client: (
            [10, 0, 0, dice.below(16) as u8],
            32_768 + dice.below(28_000) as u16,
        )
            .into(),
        site,
        url: [&origin, path.as_str()].concat(),
        origin,
        token: user_agent.split('/').next().unwrap().to_owned(),
        user_agent,
        rule: format!("Disallow: /{}", WORDS[site as usize % WORDS.len()]),
        // The state of an origin's robots.txt changes twice in a set.
        basis: digest((site << 8) | (n / 60_000)),
        is_denied,
        bytes_out: if is_denied {
            412
        } else {
            2_000 + dice.below(90_000)
        },
        duration: if is_denied {
            20 + dice.below(60)
        } else {
            20_000 + dice.below(400_000)
        },
    }
}

fn digest(of: u64) -> Digest {
    let mut dice = Dice(of);
    let mut digest = [0; 32];
    for part in digest.chunks_exact_mut(8) {
        part.copy_from_slice(&dice.next().to_be_bytes());
    }
    digest
}

/// Encodes a decision, as the end of an exchange does.
fn encode(request: &Request, policy: &Digest, out: &mut Vec<u8>) {
    let Request {
        n, site, is_denied, ..
    } = *request;
    let chain = [&*request.token];
    let decision = Decision {
        id: request.id,
        decided_after: i64::from(n.is_multiple_of(50)),
        mode: Mode::Enforce,
        verdict: if is_denied {
            Verdict::Deny
        } else {
            Verdict::Allow
        },
        reason: if is_denied {
            "robots_disallow"
        } else {
            "robots_allow"
        },
        policy: Some(policy),
        client: request.client,
        client_name: Some("crawler-7".into()),
        chain: Texts::from(&chain[..]),
        source: Source::UserAgent,
        mismatch: false,
        user_agent: Some(request.user_agent.as_bytes().into()),
        method: "GET".into(),
        version: Some("1.1"),
        origin: Some(&request.origin),
        url: Url::of([b"", request.url.as_bytes(), b""], Some(&request.origin)),
        via: Via::Intercepted,
        opaque: false,
        rule: is_denied.then(|| Rule {
            group: "*".into(),
            text: request.rule.as_bytes().into(),
            line: 3 + (site % 40) as u32,
        }),
        reading: None,
        overridden: None,
        basis: Some(&request.basis),
        hold: 0,
        pace: None,
        upstream: (!is_denied).then(|| ([192, 0, (site >> 8) as u8, site as u8], 443).into()),
        upstream_version: (!is_denied).then_some("2"),
        status: Some(match (is_denied, n % 23) {
            (true, _) => 403,
            (false, 0) => 404,
            (false, 1) => 304,
            (false, _) => 200,
        }),
        bytes_in: 0,
        bytes_out: request.bytes_out,
        duration: request.duration,
        error: is_denied.then(|| "http_request_denied".into()),
        detail: None,
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
        let mut dice = Dice(u64::from(u32::from(set)));
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
        let known = Known {
            keys: &keys,
            checkpoints: &checkpoints,
            ..Known::default()
        };
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
                    assert!(
                        out[..] == *entry(nth),
                        "set {set}, entry {nth} is not restored"
                    );
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
            assert_eq!(
                (walked.agreeing, faults),
                (checkpoints.len() as u64, Vec::new())
            );
            let took = [
                encoded - began,
                filed - encoded,
                read - filed,
                verified - read,
            ];
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
            roots.extend(full.segment.map(|root| of(crawlgate::tlog::SEGMENT, root)));
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
