//! The quota of a client over all instances.
//!
//! The engine keeps what each instance has taken in the present span: requests, in chunks, and octets. An instance tells
//! its totals with each question, so that a loss is mended by the next one. The engine's clock decides which span it is.

use std::time::Duration;

use crawlgate_config::Quota;

/// The time after the beginning of a generation in which the instances tell what they have taken, and none takes more.
pub const REPORTED: Duration = Duration::from_secs(5);

/// Returns the span that is counted at a time in the span `present`, after `last` was counted.
///
/// A clock that is set back gives no quota anew. Across the end of a span, counting stays in the later one. After a
/// longer step, because the clock may have been years ahead, the usage of the later span counts in the present one.
pub(crate) fn span_after(last: u64, present: u64) -> u64 {
    let is_set_back = present.checked_add(1) == Some(last);
    if is_set_back { last } else { present }
}

/// Tells whether a quota is used up by so many requests and octets.
pub(crate) fn is_spent(quota: &Quota, requests: u64, bytes: u64) -> bool {
    let is_spent = |most: Option<u64>, used| most.is_some_and(|most| used >= most);
    is_spent(quota.requests, requests) || is_spent(quota.bytes, bytes)
}

/// A question for requests out of a client's quota, and a report of what the instance has taken.
#[derive(Debug, Clone, Copy)]
pub struct ChargeQuota<'a> {
    /// The client, without braces.
    pub account: &'a str,
    /// The instance.
    pub instance: &'a str,
    /// The length of a span.
    pub per: Duration,
    /// The span of the totals; `None`: they come on top of those that the engine knows of the instance.
    pub span: Option<u64>,
    /// Requests that the instance has taken.
    pub requests: u64,
    /// Octets that it has counted.
    pub bytes: u64,
    /// Requests that it gives back, no longer part of `requests`.
    pub returned: u64,
    /// Requests wanted.
    pub wanted: u64,
    /// The most requests of all instances.
    pub most_requests: Option<u64>,
    /// The octets of all instances at which no more requests are given.
    pub most_bytes: Option<u64>,
    /// The number of instances: one of them gets a small part of what is left.
    pub members: u64,
    /// The time after the beginning of a generation in which none are given.
    pub after: Duration,
}

/// The answer to [`ChargeQuota`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Charged {
    /// The present span.
    pub span: u64,
    /// The time until it ends.
    pub left: Duration,
    /// Requests that are given.
    pub granted: u64,
    /// The requests of this instance, with those given.
    pub requests: u64,
    /// Its octets.
    pub bytes: u64,
    /// The octets of all instances.
    pub all_bytes: u64,
    /// The time until requests are given again, because the engine may have lost totals.
    pub wait: Duration,
}
