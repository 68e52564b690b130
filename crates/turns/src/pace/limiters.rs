//! The limiters of all origins, or of all addresses, bounded in number.

use std::hash::Hash;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use dashmap::DashMap;
use parking_lot::Mutex;

use super::context::Context;
use super::limiter::OriginLimiter;
use crawlgate_robots::Origin;
use crawlgate_system::clock::{Moment, Uptime};

/// Limit of origins, and of addresses, that are kept.
pub(super) const KEPT: usize = 100_000;

/// Fraction of them that is evicted at once, so that many requests share the cost of one scan.
pub(super) const SHARE: usize = 16;

/// Pause after an eviction that made no room because the limiters are in use: each one reads all of them.
const REST: Duration = Duration::from_secs(1);

/// The origin limiters by origin or address.
pub(super) struct Limiters<K> {
    pub(super) limiters: DashMap<K, Arc<OriginLimiter>, ahash::RandomState>,
    /// Only one task evicts at a time. After a pass that made no room, the next one is not before this.
    evicting: Mutex<Option<Uptime>>,
}

/// A key of limiters.
pub(super) trait LimiterKey: Clone + Eq + Hash {
    /// Returns the name under which a fleet paces it; `None` if a fleet does not.
    fn fleet_name(&self) -> Option<&str>;
}

impl LimiterKey for Origin {
    fn fleet_name(&self) -> Option<&str> {
        Some(self.as_str())
    }
}

impl LimiterKey for IpAddr {
    fn fleet_name(&self) -> Option<&str> {
        None
    }
}

impl<K: LimiterKey> Limiters<K> {
    pub(super) fn limiter(&self, context: &Context, key: &K) -> Arc<OriginLimiter> {
        if let Some(limiter) = self.limiters.get(key) {
            return Arc::clone(&limiter);
        }
        if self.limiters.len() >= KEPT {
            self.evict(context);
        }
        let new = || {
            let name = context.fleet.as_ref().and_then(|_| key.fleet_name());
            Arc::new(name.map_or_else(OriginLimiter::default, OriginLimiter::in_fleet))
        };
        Arc::clone(&self.limiters.entry(key.clone()).or_insert_with(new))
    }

    /// Drops origins without relevant history; if those are few, also the origins asked least recently.
    fn evict(&self, context: &Context) {
        let Some(mut rests_until) = self.evicting.try_lock() else {
            return;
        };
        if rests_until.is_some_and(|until| context.clock.uptime() < until) {
            return;
        }
        self.evict_now(context);
        *rests_until = (self.limiters.len() >= KEPT).then(|| context.clock.uptime() + REST);
    }

    fn evict_now(&self, context: &Context) {
        let settings = context.settings.load();
        // Each turn and each held request holds a reference to its origin limiter.
        let is_used = |limiter: &Arc<OriginLimiter>| Arc::strong_count(limiter) > 1;
        self.limiters
            .retain(|_, limiter| is_used(limiter) || limiter.last(context, &settings).is_some());
        let least = KEPT - KEPT / SHARE;
        let Some(surplus) = self.limiters.len().checked_sub(least).filter(|n| *n > 0) else {
            return;
        };
        let mut by_age: Vec<(Moment, K)> = self
            .limiters
            .iter()
            .map(|limiter| {
                (limiter.last(context, &settings).unwrap_or_default(), limiter.key().clone())
            })
            .collect();
        by_age.sort_unstable_by_key(|(last, _)| *last);
        for (_, key) in by_age.into_iter().take(surplus) {
            self.limiters.remove_if(&key, |_, limiter| !is_used(limiter));
        }
    }
}

impl<K: Eq + Hash> Default for Limiters<K> {
    fn default() -> Limiters<K> {
        Limiters { limiters: DashMap::default(), evicting: Mutex::default() }
    }
}
