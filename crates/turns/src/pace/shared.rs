//! The part of the pace that the processes of a fleet keep together: the turns at each origin.
//!
//! [`Pace`] is the only implementation. It keeps them within one process, or reserves them in the engine of a fleet, as
//! its construction says: one branch in a turn. Each request to an origin passes through
//! [`SharedPace`], pages and robots.txt alike, so another implementation needs no change of a caller. A caller knows
//! its implementation when it is compiled: a turn costs no allocation for a future and no dynamic call.
//!
//! A client's usage is kept apart ([`ClientAccount`]), because the two promise unlike things. A turn belongs to an
//! origin, may be waited for in a queue, lasts as long as its request and is told the outcome. Usage belongs to a client,
//! and a refused request is entered, too, while its exchange is dropped, where nothing can wait.
//!
//! [`ClientAccount`]: crate::client::account::ClientAccount

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::backoff::Outcome;
use super::wait::OnTimeout;
use super::{Ask, EffectivePace, Pace, Shared, TooEarly, Turn};
use crate::client::ClientKey;
use crate::fleet::reservation::TurnKind;
use crawlgate_robots::Origin;
use crawlgate_system::clock::Moment;

/// The turns at the origins. Clones share them.
pub trait SharedPace: Clone + Send + Sync + 'static {
    /// The permission for one request to go. The request counts as in flight until this is dropped.
    type Turn: Send + Sync + 'static;

    /// Takes a turn at `now`, just past, if this process can tell at once that one is free.
    fn try_turn(&self, ask: Ask<'_>, now: Moment) -> Option<Self::Turn>;

    /// Waits for the turn of a request of `client`, and sets `waits_for` to the bound as soon as the request waits.
    /// Dropping the future leaves the queue.
    ///
    /// # Errors
    /// [`TooEarly`] when the turn comes after the longest hold. No turn is used up then.
    fn turn(
        &self,
        ask: Ask<'_>,
        client: &ClientKey,
        address: Option<IpAddr>,
        waits_for: &mut Option<EffectivePace>,
    ) -> impl Future<Output = Result<(Self::Turn, Option<EffectivePace>), TooEarly>> + Send;

    /// Waits for the turn of a robots.txt fetch, which goes before all held requests and waits at most the longest
    /// hold; at `address`, the hold begins once the fetch is the first there.
    fn turn_for_robots(
        &self,
        origin: &Origin,
        address: Option<IpAddr>,
    ) -> impl Future<Output = Option<Self::Turn>> + Send;

    /// Counts the turn of a robots.txt fetch from now, when the fetch really starts.
    fn restart(&self, turn: &Self::Turn);

    /// Counts a request for a robots.txt that waits for no turn, such as a redirect hop. However many there are, they
    /// delay other requests by one interval at most.
    fn count_robots(&self, origin: &Origin);

    /// Waits until a request with this turn may be sent again after its connection was lost. Returns false if the wait
    /// would be longer than the longest hold.
    fn again(&self, turn: &Self::Turn) -> impl Future<Output = bool> + Send;

    /// Gives back an unused turn: the next request need not wait for it, unless another one has gone since.
    fn give_back(&self, turn: Self::Turn);

    /// Records that an origin has answered with this status and `Retry-After`. `is_telling` is true if the
    /// answer's time depends only on the origin: the request had no body.
    fn answered(
        &self,
        turn: &Self::Turn,
        status: u16,
        retry_after: impl FnOnce() -> Option<Duration>,
        is_telling: bool,
    );

    /// Records that an origin could not be reached, or did not answer in time.
    fn failed(&self, turn: &Self::Turn);
}

impl SharedPace for Pace {
    type Turn = Turn;

    fn try_turn(&self, ask: Ask<'_>, now: Moment) -> Option<Turn> {
        let settings = self.0.context.settings.load();
        if settings.is_per_address() {
            return None;
        }
        let limiter = self.0.origin(ask.origin);
        let passed = if settings.is_quiet && ask.crawl_delay.is_none() {
            limiter.try_fast(now)
        } else {
            None
        };
        passed.or_else(|| {
            let crawl_delay = ask.crawl_delay.map(|crawl_delay| &**crawl_delay);
            limiter.take(&self.0.context, &settings, crawl_delay)
        })
    }

    async fn turn(
        &self,
        ask: Ask<'_>,
        client: &ClientKey,
        address: Option<IpAddr>,
        waits_for: &mut Option<EffectivePace>,
    ) -> Result<(Turn, Option<EffectivePace>), TooEarly> {
        let turn = self.0.turn(ask, client, address, waits_for).await;
        if turn.is_err() {
            self.0.refused.fetch_add(1, Ordering::Relaxed);
        }
        turn
    }

    async fn turn_for_robots(&self, origin: &Origin, address: Option<IpAddr>) -> Option<Turn> {
        if self.is_unlimited() {
            return None;
        }
        let limiter = self.0.origin(origin);
        let at_address = address.map(|key| self.0.addresses.limiter(&self.0.context, &key));
        self.0.turn_ahead(&limiter, at_address.as_ref(), OnTimeout::Go).await
    }

    fn restart(&self, turn: &Turn) {
        let settings = self.0.context.settings.load();
        if let Some(fleet) = &self.0.context.fleet {
            self.0.restart_in_fleet(fleet, turn);
        }
        for turn in [Some(turn), turn.at_address.as_deref()].into_iter().flatten() {
            let before = Some(turn.number);
            turn.limiter.count_robots(&self.0.context, &settings, before);
        }
    }

    fn count_robots(&self, origin: &Origin) {
        let settings = self.0.context.settings.load();
        if settings.is_off {
            return;
        }
        let limiter = self.0.origin(origin);
        limiter.count_robots(&self.0.context, &settings, None);
        if let Some(fleet) = &self.0.context.fleet {
            limiter.count_in_fleet(&self.0.context, fleet, TurnKind::RedirectHop);
        }
    }

    async fn again(&self, turn: &Turn) -> bool {
        if self.is_unlimited() {
            return true;
        }
        let at_address = turn.at_address.as_ref().map(|turn| &turn.limiter);
        let again = self.0.turn_ahead(&turn.limiter, at_address, OnTimeout::GiveUp);
        // The request is already in flight: its second turn only counts.
        again.await.is_some() || self.is_unlimited()
    }

    fn give_back(&self, turn: Turn) {
        turn.give_back();
    }

    fn answered(
        &self,
        turn: &Turn,
        status: u16,
        retry_after: impl FnOnce() -> Option<Duration>,
        is_telling: bool,
    ) {
        let settings = self.0.context.settings.load();
        if !settings.config.backoff {
            return;
        }
        let now = self.0.context.clock.now();
        let outcome = match status {
            429 | 503 => Outcome::Refused { retry_after: retry_after() },
            _ => Outcome::Fine { latency: is_telling.then(|| now.since(turn.at)) },
        };
        self.0.record_outcome(turn, outcome, now, settings.config.backoff_max);
    }

    fn failed(&self, turn: &Turn) {
        let settings = self.0.context.settings.load();
        if settings.config.backoff {
            let now = self.0.context.clock.now();
            let most = settings.config.backoff_max;
            self.0.record_outcome(turn, Outcome::Failed, now, most);
        }
    }
}

impl Shared {
    /// Records the outcome of a request.
    fn record_outcome(
        self: &Arc<Self>,
        turn: &Turn,
        outcome: Outcome,
        now: Moment,
        most: Duration,
    ) {
        match &self.context.fleet {
            None => turn.limiter.record_outcome(outcome, turn.at, now, most),
            Some(fleet) => {
                let limiter = &turn.limiter;
                limiter.record_outcome_in_fleet(
                    &self.context,
                    fleet,
                    outcome,
                    (turn.at, now),
                    most,
                );
            }
        }
    }
}
