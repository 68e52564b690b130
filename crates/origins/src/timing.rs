//! The life of a robots.txt, and the meaning of an unreachable one as time passes.

use std::time::Duration;

/// Freshness of files and retries of failures. The keys stand in `[robots]` itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Timing {
    /// Freshness of a file without caching headers (RFC 9309, section 2.4: at most 24 hours).
    pub fresh: Duration,
    /// Lower bound of a freshness from the response.
    pub fresh_min: Duration,
    /// Upper bound of a freshness from the response.
    pub fresh_max: Duration,
    /// Share of the freshness after which a request refreshes an origin; above 0, at most 1.
    pub refresh_ahead: f64,
    /// First wait after a failed fetch.
    pub retry_min: Duration,
    /// Longest wait between attempts.
    pub retry_max: Duration,
    /// Longest wait between attempts while the origin answers 503.
    pub retry_max_503: Duration,
    /// Share of random variation in a wait, 0 to 1, so that origins that failed together are not retried together.
    pub jitter: f64,
    /// The meaning of an unreachable file.
    pub profile: ProfileRules,
}

/// The meaning of an unreachable robots.txt as time passes: complete disallow for `disallow_for`, then the last good
/// copy up to `last_good_until` (without one, no restrictions), then `finally`. Both spans count from the first
/// failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileRules {
    /// The profile with these values.
    pub name: ProfileName,
    /// Time that an unreachable file means complete disallow.
    pub disallow_for: Duration,
    /// Age until which the last good copy counts; `None`: for ever.
    pub last_good_until: Option<Duration>,
    /// The ruling after that.
    pub finally: Finally,
}

/// The published rules for an unreachable robots.txt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProfileName {
    /// RFC 9309, section 2.3.1.4, with Google's 30 days.
    Standard,
    /// Google's documentation of today.
    Google,
    /// No restrictions while unreachable: for archives that have decided so. Never a default.
    Archive,
}

/// The ruling when the last good copy no longer counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Finally {
    /// No restrictions.
    Allow,
    /// No restrictions if the origin answers other requests, else complete disallow.
    Reachable,
}

const fn secs(count: u64) -> Duration {
    Duration::from_secs(count)
}

const fn hours(count: u64) -> Duration {
    secs(count * 60 * 60)
}

const fn days(count: u64) -> Duration {
    hours(count * 24)
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            fresh: hours(24),
            fresh_min: secs(5 * 60),
            fresh_max: hours(24),
            refresh_ahead: 0.8,
            retry_min: secs(5),
            retry_max: hours(1),
            retry_max_503: secs(5 * 60),
            jitter: 0.1,
            profile: ProfileRules::of(ProfileName::Standard),
        }
    }
}

impl ProfileRules {
    /// Returns the published rules of a profile.
    #[must_use]
    pub const fn of(name: ProfileName) -> Self {
        let (disallow_for, last_good_until, finally) = match name {
            ProfileName::Standard => (days(30), None, Finally::Allow),
            ProfileName::Google => (hours(12), Some(days(30)), Finally::Reachable),
            // No restrictions at all, so not even the last good copy counts.
            ProfileName::Archive => (Duration::ZERO, Some(Duration::ZERO), Finally::Allow),
        };
        Self { name, disallow_for, last_good_until, finally }
    }
}
