//! Entries for the tests of all crates: at random, and frozen ones.

// A failed unwrap or index is a failed test.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, clippy::missing_panics_doc)]

pub mod dice;
pub mod golden;

use crate::{Decision, Pace, Rule, Source, Url, Verdict, Via};

/// 2026-11-20T12:00:00.123Z, in milliseconds since the epoch.
pub const NOON: u64 = 1_795_176_000_123;

/// Returns an identifier of this time, in milliseconds since the epoch.
#[must_use]
pub fn id_at(millis: u64) -> [u8; 16] {
    (u128::from(millis) << 80 | 7).to_be_bytes()
}

impl Decision<'static> {
    /// Returns a denial by a rule, of an identified client, without grounds.
    #[must_use]
    pub fn sample() -> Self {
        let origin = "https://site.example";
        Self {
            id: id_at(NOON),
            decided_after: 1,
            verdict: Verdict::Deny,
            reason: "robots_disallow",
            policy: Some(&[0x5a; 32]),
            client: ([127, 0, 0, 1], 40_000).into(),
            client_name: Some("crawler-7".into()),
            chain: (&["ExampleBot-Image", "ExampleBot"][..]).into(),
            source: Source::UserAgent,
            user_agent: Some((&b"ExampleBot-Image/1.0 (+https://bot.example/)"[..]).into()),
            method: "GET".into(),
            version: Some("1.1"),
            origin: Some(origin),
            url: Url::of([origin.as_bytes(), b"/private/x?q=1", b""], Some(origin)),
            via: Via::Intercepted,
            rule: Some(Rule {
                group: "*".into(),
                text: (&b"Disallow: /private"[..]).into(),
                line: 3,
            }),
            reading: Some((&b"/private/x"[..]).into()),
            hold: 1_500,
            pace: Some(Pace { interval: 2_000_000, source: "crawl_delay", clamped: true }),
            status: Some(403),
            bytes_out: 512,
            duration: 42,
            ..Self::default()
        }
    }
}

/// Numbers that look random and follow from the first (SplitMix64).
#[derive(Debug)]
pub struct Dice(pub u64);

impl Dice {
    /// Returns the next number.
    #[expect(clippy::should_implement_trait, reason = "an iterator would be an Option at each use")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns the next number, below a bound.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}
