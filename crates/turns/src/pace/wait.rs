//! The wait for a turn: in the queue of an origin or an address, or before all held requests.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::bound::{Due, EffectivePace, TooEarly};
use super::limiter::{Admission, Claim, GRACE, OriginLimiter};
use super::{Ask, Shared, Turn};
use crate::client::ClientKey;
use crawlgate_robots::Origin;

/// Retry time if none can be computed, because the wait depends on other requests' ends.
pub(super) const SOON: Duration = Duration::from_secs(1);

/// The fate of a prioritised request at its time-out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OnTimeout {
    /// It goes, even if it is not due.
    Go,
    /// It is given up.
    GiveUp,
}

impl Shared {
    pub(super) fn origin(&self, origin: &Origin) -> Arc<OriginLimiter> {
        self.origins.limiter(&self.context, origin)
    }

    pub(super) async fn turn(
        self: &Arc<Self>,
        ask: Ask<'_>,
        client: &ClientKey,
        address: Option<IpAddr>,
        waits_for: &mut Option<EffectivePace>,
    ) -> Result<(Turn, Option<EffectivePace>), TooEarly> {
        let settings = self.context.settings.load_full();
        let patience = settings.config.max_hold;
        let limiter = self.origin(ask.origin);
        let address = address.filter(|_| settings.is_per_address() && self.context.fleet.is_none());
        let at_address = address.map(|key| self.addresses.limiter(&self.context, &key));
        let claim = Claim {
            client,
            crawl_delay: ask.crawl_delay,
            address: at_address.as_ref(),
            patience: Some(patience),
        };
        let (number, granted, expected) = match limiter.enter(&self.context, &settings, claim) {
            Admission::Granted(turn) => return Ok((turn, None)),
            Admission::Rejected(due) => return Err(self.too_early(due)),
            Admission::Queued(number, granted, expected) => (number, granted, expected),
        };
        // In a fleet, a request may wait for no more than the answer that nothing bounds it.
        *waits_for = expected.pace.is_bound().then_some(expected.pace);
        drop(settings);
        let place = Place::new(self, &limiter, client, number);
        let granted = timeout(patience.saturating_add(GRACE), granted).await;
        drop(place);
        let (was_held, again, turn) = match granted {
            Ok(Ok(granted)) => (granted.was_held, granted.again, granted.take()),
            // The hold was too long, or the runtime is stopping.
            Ok(Err(_)) | Err(_) => (true, None, None),
        };
        match (turn, again) {
            (Some(turn), _) if was_held => {
                self.waited.fetch_add(1, Ordering::Relaxed);
                Ok((turn, *waits_for))
            }
            (Some(turn), _) => Ok((turn, None)),
            (None, Some(at)) => Err(self.too_early(Due { at, ..expected })),
            (None, None) => {
                let settings = self.context.settings.load();
                let limiters = [Some(limiter), at_address].into_iter().flatten();
                let at = limiters.map(|limiter| limiter.due(&self.context, &settings).at).max();
                Err(self.too_early(Due { at: at.unwrap_or_default(), ..expected }))
            }
        }
    }

    fn too_early(&self, due: Due) -> TooEarly {
        let now = self.context.clock.now();
        TooEarly { at: if due.at > now { due.at } else { now + SOON }, pace: due.pace }
    }

    /// Waits for a turn before all held requests in `limiter` and, where origins at one address share limits, in
    /// `at_address`. `None` if a request that gives up late waited too long, or nothing is bounded any more.
    pub(super) async fn turn_ahead(
        self: &Arc<Self>,
        limiter: &Arc<OriginLimiter>,
        at_address: Option<&Arc<OriginLimiter>>,
        on_timeout: OnTimeout,
    ) -> Option<Turn> {
        if let Some(fleet) = &self.context.fleet {
            return self.turn_ahead_in_fleet(fleet, limiter, on_timeout).await;
        }
        let row = at_address.unwrap_or(limiter);
        let started = Instant::now();
        let patience = self.context.settings.load().config.max_hold;
        // An address may have any number of fetches: each time-out starts when its fetch is the first.
        let (_first, started) = match (at_address, on_timeout) {
            (Some(_), OnTimeout::Go) => (Some(row.ahead.lock().await), Instant::now()),
            (_, OnTimeout::GiveUp) => {
                (Some(timeout(patience, row.ahead.lock()).await.ok()?), started)
            }
            (None, OnTimeout::Go) => (None, started),
        };
        loop {
            let settings = self.context.settings.load_full();
            if settings.is_off {
                return None;
            }
            let left = settings.config.max_hold.saturating_sub(started.elapsed());
            let has_timed_out = left.is_zero() && on_timeout == OnTimeout::Go;
            let at_address = at_address.filter(|_| settings.is_per_address());
            let taken = match at_address {
                None => limiter.take_for_robots(&self.context, &settings, has_timed_out),
                Some(at_address) => match limiter.wait_for_robots(&self.context, &settings) {
                    Some(wait) if !has_timed_out => Err(wait),
                    // Both turns at once: no other request gets ahead at this origin.
                    _ => at_address
                        .take_for_robots(&self.context, &settings, has_timed_out)
                        .and_then(|first| {
                            let mut turn =
                                limiter.take_for_robots(&self.context, &settings, true)?;
                            turn.at_address = Some(Box::new(first));
                            Ok(turn)
                        }),
                },
            };
            match taken {
                Ok(turn) => return Some(turn),
                Err(_) if left.is_zero() => return None,
                Err(wait) if wait > left && on_timeout == OnTimeout::GiveUp => return None,
                Err(wait) => sleep(wait.min(left)).await,
            }
        }
    }
}

/// An entry in the queue, removed on drop.
struct Place<'a> {
    shared: &'a Shared,
    limiter: &'a OriginLimiter,
    client: &'a ClientKey,
    number: u64,
}

impl<'a> Place<'a> {
    fn new(
        shared: &'a Shared,
        limiter: &'a OriginLimiter,
        client: &'a ClientKey,
        number: u64,
    ) -> Place<'a> {
        shared.context.held.fetch_add(1, Ordering::Relaxed);
        Place { shared, limiter, client, number }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.limiter.leave(self.client, self.number);
        self.shared.context.held.fetch_sub(1, Ordering::Relaxed);
    }
}
