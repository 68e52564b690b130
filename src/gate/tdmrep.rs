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
use crate::client::account::QuotaExceeded;
use crate::config::Mode;
use crate::policy::overrides::Action;
use crate::policy::tdmrep::{Reservations, allows};
use crate::policy::usage::Signals;
use crate::policy::{Ruling, Target, Verdict};
use crate::robots::document::Document;
use crate::robots::state::Stance;
use crate::usage::SignalMode;

impl Gate {
    /// Judges by robots.txt, and by tdmrep.json where that allows the page. A client with a spent quota causes no fetch.
    pub(super) async fn judge_with_tdmrep(
        &self,
        kind: Kind,
        target: Target,
        requester: &Requester<'_>,
        mode: Mode,
        view: View,
        quota: Option<QuotaExceeded>,
    ) -> Ruling {
        let now = view.now;
        let may_fetch = self.may_fetch_tdmrep(&target, requester, &view);
        let by = Arc::clone(&view.by);
        let signals = self.signals(kind, &target, requester, &by.config.signals, now);
        let ruling = self.judge_by(kind, target, requester, mode, view, None);
        let is_allowed = ruling.decision().verdict() == Verdict::Allow;
        let target = match ruling {
            Ruling::Clear(permit, _) if is_allowed => permit.surrender(),
            ruling => return ruling,
        };
        let profile = requester.client.profile;
        let crawler = requester.crawler();
        let effort = effort(&signals, quota.is_some());
        let cache = &self.robots_cache;
        let file = match may_fetch {
            true => Some(cache.tdmrep(&target.origin, crawler, profile, effort).await),
            false => None,
        };
        // robots.txt may have changed during the wait.
        let mut view = cache.lookup_for(&target.origin, crawler, profile).await;
        // The permit rests on the file as it was looked at: one that has landed since makes the permit stale.
        if let Some(file) = &file {
            view.landings = file.landings;
        }
        let file = match file {
            None => Some(Reservations::disallowed()),
            Some(file) if !matches!(file.stance, Stance::Unknown) => {
                let timing = &by.config.timing.profile;
                let (state, fetched_as) = (file.state, file.fetched_as);
                Some(Reservations::of(state, fetched_as, view.now, timing))
            }
            // Nothing was asked, so there is nothing to tell.
            Some(_) if effort == Effort::Look && !signals.wait_for_tdmrep() => None,
            Some(_) => Some(Reservations::pending()),
        };
        self.judge_by(kind, target, requester, mode, view, file.map(Arc::new))
    }

    /// Tells whether the crawler may fetch the file: an override about it decides, otherwise robots.txt. No exemption of
    /// the client does: it did not ask for the file.
    fn may_fetch_tdmrep(&self, target: &Target, requester: &Requester<'_>, view: &View) -> bool {
        let path = Document::TdmRep.path();
        let operator = self.operator.load();
        let asserted = operator
            .overrides
            .about(&target.origin, path.as_bytes(), view.now);
        match asserted {
            Some(asserted) => asserted.action != Action::Deny,
            None => allows(
                &view.stance,
                requester.agent,
                path,
                view.by.config.path_guard,
            ),
        }
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
