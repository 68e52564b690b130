//! Entries and blocks under the checks of fuzzing; and the cost of an entry in the request's thread: no allocation.

// A failed unwrap is a failed test.
#![allow(clippy::unwrap_used, clippy::panic)]

mod checks;
#[path = "../support/corpus.rs"]
mod corpus;

use std::alloc::System;
use std::time::Duration;

use crawlgate::audit::{
    Agent, Client, DecisionId, Exceeds, Log, ObjectDigests, PaceLine, Record, RobotsCopy, RuleLine,
};
use crawlgate_config::Config;
use crawlgate_policy::settings::PolicyDigest;
use crawlgate_system::clock::{Clock, Moment};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const NOON: Moment = Moment::from_millis(1_795_176_000_123);

fn record<'a>(url: &'a [u8], reason: &'a str, tokens: &'a [&'a str]) -> Record<'a> {
    Record {
        time: NOON,
        id: DecisionId::mint(NOON),
        decided_at: NOON + Duration::from_millis(2),
        mode: "enforce",
        verdict: "deny",
        reason: match reason {
            "unknown_client" => "unknown_client",
            _ => "robots_disallow",
        },
        policy: Some(PolicyDigest([7; 32])),
        client: Client {
            address: ([127, 0, 0, 1], 40_000).into(),
            name: Some("crawler-7"),
        },
        agent: Agent {
            chain: tokens.into(),
            source: "user_agent",
            mismatch: false,
        },
        user_agent: Some(&[b'u'; 700]),
        method: "GET",
        version: Some("1.1"),
        url,
        origin: Some("https://site.example"),
        via: "intercepted",
        opaque: false,
        rule: Some(RuleLine {
            group: "*",
            text: "Disallow: /private",
            line: 3,
        }),
        reading: Some("/private"),
        overridden: None,
        exempt: None,
        robots: None,
        hold: Duration::from_micros(1_500),
        pace: Some(PaceLine {
            interval: Duration::from_secs(2),
            source: "own",
            clamped: false,
        }),
        upstream: Some(([192, 0, 2, 1], 443).into()),
        upstream_version: Some("2"),
        signed: None,
        status: Some(403),
        bytes_in: 0,
        bytes_out: 512,
        duration: Duration::from_micros(42),
        error: Some("http_request_denied"),
        detail: Some("a detail"),
        purposes: crawlgate_usage::Purposes::NONE,
        usage: None,
        tdmrep: None,
    }
}

/// The only test of its program: the allocator counts for all threads.
#[test]
fn entries_need_no_allocation_and_the_kept_corpus_passes_the_checks() {
    count_allocations();
    corpus::pass_through(&[("entry", checks::entry), ("block", checks::block)]);
}

fn count_allocations() {
    let digests = ObjectDigests {
        overridden: Some([7; 32]),
        basis: Some([8; 32]),
        tdmrep: None,
    };
    let long = [b"https://user:secret@site.example/x?", &[b'q'; 20_000][..]].concat();
    let usual = b"https://site.example/private/x?q=1";
    let records = [
        record(
            usual,
            "robots_disallow",
            &["ExampleBot-Image", "ExampleBot"],
        ),
        record(&long, "robots_disallow", &["ExampleBot"]),
        record(&long, "unknown_client", &[]),
    ];
    let mut entry = Vec::new();
    // The first round grows the buffer. The thread that has started this test may allocate meanwhile, once.
    let mut least = usize::MAX;
    for _ in 0..50 {
        let region = Region::new(ALLOCATOR);
        for record in &records {
            for redact_query in [false, true] {
                entry.clear();
                record.encode(&digests, redact_query, &mut entry);
            }
        }
        let change = region.change();
        least = least.min(change.allocations + change.reallocations);
    }
    assert_eq!(least, 0);
    let usual: Vec<_> = records.iter().map(|one| with_basis(*one)).collect();
    count_allocations_of_the_log(&usual);
}

fn with_basis(record: Record<'_>) -> Record<'_> {
    let robots = RobotsCopy {
        identity: Some("examplebot"),
        user_agent: Some("ExampleBot crawlgate/0.1"),
        final_url: Some("https://site.example/robots.txt"),
        state: "successful",
        status: Some(200),
        fetched_at: Some(NOON),
        sha256: Some([0xa5; 32]),
        bytes: Some(40),
        truncated: false,
        fresh_until: Some(NOON),
        unreachable: None,
    };
    Record {
        robots: Some(robots),
        ..record
    }
}

/// Records through a log with a writer that gathers: the calls themselves allocate nothing.
fn count_allocations_of_the_log(records: &[Record<'_>]) {
    let folder = tempfile::tempdir().unwrap();
    let mut config = Config::default();
    config.log.file = Some(folder.path().join("decisions.jsonl"));
    let log = Log::open(&config, None, &Clock::system()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let digests: Vec<ObjectDigests> = records.iter().map(Record::object_digests).collect();
    // The writer may run meanwhile, and allocate; in some round it gathers.
    let mut least = usize::MAX;
    for _ in 0..50 {
        let region = Region::new(ALLOCATOR);
        for (record, digests) in records.iter().zip(&digests) {
            log.record_of(record, digests, Exceeds::Nothing);
        }
        let change = region.change();
        least = least.min(change.allocations + change.reallocations);
        runtime.block_on(log.flush()).unwrap();
    }
    assert_eq!(least, 0);
}
