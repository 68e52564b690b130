//! The question to tdmrep.json, after robots.txt has allowed the page, or the client is exempt from its disallow.
//!
//! | `[signals] tdmrep` | the client | the file |
//! |---|---|---|
//! | `off` | any | is not asked for |
//! | `record` | any | is fetched in the background |
//! | `enforce` | has a purpose that asks for `tdm` | is fetched first, and waited for |
//! | `enforce` | has none | is not fetched; what is in memory is recorded |

use std::sync::Arc;

use super::{Gate, Kind, Requester};
use crate::cache::{Effort, View};
use crawlgate_config::Mode;
use crawlgate_origins::state::Stance;
use crawlgate_policy::tdmrep::{Reservations, may_fetch};
use crawlgate_policy::usage::Signals;
use crawlgate_policy::{Ruling, Target};
use crawlgate_turns::client::account::QuotaExceeded;
use crawlgate_usage::SignalMode;

impl Gate {
    /// Judges a page that robots.txt allows once more, by its tdmrep.json, too. A client with a spent quota causes no fetch.
    pub(super) async fn judge_with_tdmrep(
        &self,
        kind: Kind,
        target: Target,
        requester: &Requester<'_>,
        mode: Mode,
        robots: View,
        quota: Option<QuotaExceeded>,
    ) -> Ruling {
        let signals = &robots.by.config.signals;
        let signals = self.signals(kind, &target, requester, signals, robots.now);
        let effort = effort(&signals, quota.is_some());
        let file = match self.may_fetch_tdmrep(&target, requester, &robots) {
            true => {
                let (crawler, profile) = (requester.crawler(), requester.client.profile);
                let cache = &self.robots_cache;
                Some(cache.tdmrep(&target.origin, crawler, profile, effort).await)
            }
            false => None,
        };
        // robots.txt may have changed during the wait.
        let mut view = self.look_up(&target.origin, requester).await;
        // The permit rests on the file as it was looked at: a later one makes the permit stale.
        if let Some(file) = &file {
            view.updates = file.updates;
        }
        let file = match file {
            None => Some(Reservations::disallowed()),
            Some(file) if !matches!(file.stance, Stance::Unknown) => {
                let timing = &robots.by.config.timing.profile;
                let (state, fetched_as) = (file.state, file.fetched_as);
                Some(Reservations::of(state, fetched_as, view.now, timing))
            }
            // Nothing was asked, so there is nothing to tell.
            Some(_) if effort == Effort::Look && !signals.wait_for_tdmrep() => None,
            Some(_) => Some(Reservations::pending()),
        };
        self.judge_by(kind, target, requester, mode, view, file.map(Arc::new))
    }

    fn may_fetch_tdmrep(&self, target: &Target, requester: &Requester<'_>, view: &View) -> bool {
        let View { stance, now, .. } = view;
        let (operator, is_guarded) = (self.operator.load(), view.by.config.path_guard);
        let (agent, overrides) = (requester.agent, &operator.overrides);
        may_fetch(&target.origin, stance, agent, overrides, is_guarded, *now)
    }
}

/// Returns the effort that a request makes for the file.
fn effort(signals: &Signals, is_quota_spent: bool) -> Effort {
    match signals.modes.tdmrep {
        _ if is_quota_spent => Effort::Look,
        SignalMode::Record => Effort::Start,
        SignalMode::Enforce if signals.wait_for_tdmrep() => Effort::Wait,
        SignalMode::Enforce if signals.ask_for_tdmrep() => Effort::Start,
        SignalMode::Enforce | SignalMode::Off => Effort::Look,
    }
}
