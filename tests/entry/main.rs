//! Entries and blocks under the checks of fuzzing; and the cost of an entry in the request's thread: no allocation.

// A failed unwrap is a failed test.
#![allow(clippy::unwrap_used, clippy::panic)]

mod checks;
#[path = "../support/corpus.rs"]
mod corpus;

use std::alloc::System;

use crawlgate_config::{Config, Recorded};
use crawlgate_evidence::{Exceeds, Grounds, Log};
use crawlgate_origins::access::Absence;
use crawlgate_origins::identity::{FetchedAs, Identity};
use crawlgate_origins::state::{Fresh, State};
use crawlgate_record::{Bounds, Decision, Url};
use crawlgate_system::clock::{Clock, Moment};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const NOON: Moment = Moment::from_millis(1_795_176_000_123);

fn decision<'a>(
    url: &'a [u8],
    reason: &'a str,
    tokens: &'a [&'a str],
    redact_query: bool,
) -> Decision<'a> {
    let origin = Some("https://site.example");
    Decision {
        reason,
        chain: tokens.into(),
        user_agent: Some((&[b'u'; 700][..]).into()),
        url: Url::public(url, origin, redact_query, Bounds::of(reason)),
        upstream: Some(([192, 0, 2, 1], 443).into()),
        upstream_version: Some("2"),
        error: Some("http_request_denied".into()),
        detail: Some("a detail".into()),
        overridden: Some(&[7; 32]),
        basis: Some(&[8; 32]),
        ..Decision::sample()
    }
}

/// The only test of its program: the allocator counts for all threads.
#[test]
fn entries_need_no_allocation_and_the_kept_corpus_passes_the_checks() {
    count_allocations();
    corpus::pass_through(&[("entry", checks::entry), ("block", checks::block)]);
}

fn count_allocations() {
    let long = [b"https://user:secret@site.example/x?", &[b'q'; 20_000][..]].concat();
    let usual = b"https://site.example/private/x?q=1";
    #[rustfmt::skip] // one row, one case
    let kinds: [(&[u8], &str, &[&str]); 3] = [
        (usual, "robots_disallow", &["ExampleBot-Image", "ExampleBot"]),
        (&long, "robots_disallow", &["ExampleBot"]),
        (&long, "unknown_client", &[]),
    ];
    let mut entry = Vec::new();
    // The first round grows the buffer. The thread that has started this test may allocate meanwhile, once.
    let mut least = usize::MAX;
    for _ in 0..50 {
        let region = Region::new(ALLOCATOR);
        for (url, reason, tokens) in kinds {
            for redact_query in [false, true] {
                entry.clear();
                let decision = decision(url, reason, tokens, redact_query);
                decision.encode(Bounds::of(reason), &mut entry);
            }
        }
        let change = region.change();
        least = least.min(change.allocations + change.reallocations);
    }
    assert_eq!(least, 0);
    let state = State::Unavailable {
        why: Absence::Status(404),
        fetched: NOON,
        fresh: Fresh { refresh_from: NOON, until: NOON },
        outage: None,
    };
    let fetched_as = FetchedAs::new(Identity::default(), "ExampleBot crawlgate/0.1".into());
    let grounds = Grounds { robots: Some((&state, Some(&fetched_as))), ..Grounds::default() };
    let digests = grounds.digests(Some("https://site.example"));
    let usual = kinds.map(|(url, reason, tokens)| {
        let decision = decision(url, reason, tokens, false);
        digests.named_by(decision)
    });
    count_allocations_of_the_log(&usual, &grounds);
}

/// Records through a log with a writer that gathers: the calls themselves allocate nothing.
fn count_allocations_of_the_log(decisions: &[Decision<'_>], grounds: &Grounds<'_>) {
    let folder = tempfile::tempdir().unwrap();
    let mut config = Config::default();
    config.log.file = Some(folder.path().join("decisions.jsonl"));
    let log = Log::open(&config, None, &Clock::system()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    // The writer may run meanwhile, and allocate; in some round it gathers.
    let mut least = usize::MAX;
    for _ in 0..50 {
        let region = Region::new(ALLOCATOR);
        for decision in decisions {
            log.record(decision, grounds, Recorded::Denied, Exceeds::Nothing);
        }
        let change = region.change();
        least = least.min(change.allocations + change.reallocations);
        runtime.block_on(log.flush()).unwrap();
    }
    assert_eq!(least, 0);
}
