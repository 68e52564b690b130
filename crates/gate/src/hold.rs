//! The waits of an allowed request: for its client's rate, and for its turn at the origin.

use std::sync::Arc;
use std::time::Duration;

use super::{Cleared, Gate, HeldOutcome, Kind, Requester, cut_off};
use crawlgate_origins::crawl_delay::CrawlDelay;
use crawlgate_policy::{self as policy, Decision, Permit, Reason, Ruling, Verdict};
use crawlgate_system::clock::{Moment, Uptime};
use crawlgate_turns::client::account::{NotEntered, QuotaExceeded, Reservation};
use crawlgate_turns::pace::{Ask, EffectivePace, SharedPace as _, TooEarly};

impl Gate {
    /// Charges a request to its client. An allowed request is held until the client's rate lets it go, and is then
    /// judged again. This comes before the origin's turn, so that a granted turn is not kept waiting.
    pub(super) async fn charge(
        &self,
        kind: Kind,
        ruling: Ruling,
        requester: &Requester<'_>,
        outcome: &mut HeldOutcome<'_>,
    ) -> Ruling {
        let now = self.clock.now();
        let (permit, decision) = match ruling {
            Ruling::Allow(permit, decision) => (permit, decision),
            // A refusal counts like any other request, but is not held: it costs no other request anything.
            refused @ Ruling::Refuse(_) => {
                return match self.clients.count(requester.client, now) {
                    Ok(()) => refused,
                    Err(QuotaExceeded(retry_at)) => Ruling::refuse(quota_exceeded(retry_at, now)),
                };
            }
        };
        if self.fleet.is_some() {
            // The engine may have to be asked.
            outcome.decision.clone_from(&decision);
        }
        // Without a fleet, no request enters twice.
        let began = self.fleet.as_ref().map(|_| self.clock.uptime());
        let entered = self.clients.enter(requester.client, now, Duration::ZERO).await;
        match entered {
            Ok(entered) if entered.is_immediate() => {
                entered.commit();
                Ruling::Allow(permit, decision)
            }
            Ok(entered) => {
                *outcome.decision = *decision;
                let entered = match self.held(entered, requester, began).await {
                    Ok(entered) => entered,
                    Err(why) => return Ruling::refuse(self.not_entered(&why)),
                };
                let now = self.clock.now();
                let ruling = self.judge(kind, permit.into_target(), requester, now).await;
                // The request is answered, whatever the new ruling.
                entered.commit();
                ruling
            }
            Err(why) => Ruling::refuse(self.not_entered(&why)),
        }
    }

    /// Holds a request until its client's rate lets it go, which it asked for when it `began`. One that has to ask again is
    /// held no longer for that. Breaking the wait off gives the reservation back.
    async fn held<'a>(
        &'a self,
        mut entered: Reservation<'a>,
        requester: &'a Requester<'_>,
        began: Option<Uptime>,
    ) -> Result<Reservation<'a>, NotEntered> {
        loop {
            tokio::time::sleep(entered.hold()).await;
            if !entered.is_void() {
                return Ok(entered);
            }
            drop(entered);
            let held = began.map(|began| self.clock.uptime().since(began));
            let held = held.unwrap_or_default();
            entered = self.clients.enter(requester.client, self.clock.now(), held).await?;
        }
    }

    /// Returns the refusal of a request that its client's bounds do not let go.
    fn not_entered(&self, why: &NotEntered) -> Decision {
        match why {
            NotEntered::Exceeded(QuotaExceeded(retry_at)) => {
                quota_exceeded(*retry_at, self.clock.now())
            }
            NotEntered::Unanswered => cut_off(self.clock.now()),
        }
    }

    /// Waits for the turn of an allowed request.
    pub(super) async fn await_turn(
        &self,
        kind: Kind,
        permit: Permit,
        decision: Box<Decision>,
        requester: &Requester<'_>,
        hold: Duration,
        waits_for: &mut Option<EffectivePace>,
    ) -> Cleared {
        let began = self.clock.now();
        let crawl_delay = self.crawl_delay(&decision, requester);
        let origin = permit.target().origin.clone();
        let address = match self.pace.is_per_address() {
            true => self.egress.address_of(&origin).await,
            false => None,
        };
        let ask = Ask { origin: &origin, crawl_delay: crawl_delay.as_ref() };
        let client = requester.client.key(requester.address);
        let turn = tokio::select! {
            biased;
            turn = self.pace.turn(ask, &client, address, waits_for) => turn,
            () = self.until_cut_off(), if self.fleet.is_some() => {
                let now = self.clock.now();
                let ruling = Ruling::refuse(cut_off(now));
                return Cleared::at_once(ruling, hold + now.since(began), None);
            }
        };
        match turn {
            Ok((turn, pace)) => {
                let now = self.clock.now();
                let paced = now.since(began);
                let kept = crawl_delay.and_then(|crawl_delay| self.pace.kept_of(&crawl_delay));
                let cleared = Cleared {
                    ruling: Ruling::Allow(permit, decision),
                    hold: hold + paced,
                    turn: Some(turn),
                    pace: pace.or(kept.filter(|pace| pace.clamped)),
                    charged: None,
                };
                match cleared.pace {
                    _ if paced.is_zero() => cleared,
                    // The inputs of the decision may have changed during the wait.
                    _ => self.judge_again(kind, cleared, requester, now).await,
                }
            }
            Err(TooEarly { at, pace }) => Cleared {
                ruling: policy::await_turn(permit, decision, at),
                hold: hold + self.clock.now().since(began),
                turn: None,
                pace: Some(pace),
                charged: None,
            },
        }
    }

    /// Judges a held request again, and gives back a turn that it no longer needs.
    async fn judge_again(
        &self,
        kind: Kind,
        held: Cleared,
        requester: &Requester<'_>,
        now: Moment,
    ) -> Cleared {
        let Cleared { ruling, hold, turn, pace, charged } = held;
        let ruling = match ruling {
            Ruling::Allow(permit, _) => {
                self.judge(kind, permit.into_target(), requester, now).await
            }
            refused @ Ruling::Refuse(_) => refused,
        };
        let is_allowed = ruling.decision().verdict() == Verdict::Allow;
        let turn = match turn {
            Some(turn) if !is_allowed => {
                self.pace.give_back(turn);
                None
            }
            turn => turn,
        };
        Cleared { ruling, hold, turn, pace, charged }
    }

    /// Tells whether a request waits for its origin's turn. A request that enforcement would have denied takes no turn.
    pub(super) fn takes_turn(&self, decision: &Decision) -> bool {
        !self.pace.is_unlimited() && decision.verdict() == Verdict::Allow
    }

    /// Returns the crawl delay that the origin's robots.txt sets for this crawler, if crawl delays are honoured and the
    /// decision rests on that file.
    pub(super) fn crawl_delay(
        &self,
        decision: &Decision,
        requester: &Requester<'_>,
    ) -> Option<Arc<CrawlDelay>> {
        if !self.pace.honours_crawl_delay() {
            return None;
        }
        match decision.reason {
            Reason::RobotsAllow | Reason::NoRules | Reason::ClientExempt => {
                let snapshot = decision.basis.as_ref()?.snapshot()?;
                snapshot.crawl_delay(&requester.agent.tokens)
            }
            _ => None,
        }
    }
}

/// Returns the decision on a request beyond its client's quota.
pub(super) fn quota_exceeded(retry_at: Moment, now: Moment) -> Decision {
    Decision { retry_at: Some(retry_at), ..Decision::bare(Reason::QuotaSpent, now) }
}
