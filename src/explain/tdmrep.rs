//! The tdmrep.json of an origin, for a question: fetched where the proxy would ask for it.

use std::sync::Arc;

use super::{Evaluator, usage};
use crate::cache::{Effort, RobotsCache, View};
use crate::policy::Target;
use crate::policy::overrides::Action;
use crate::policy::tdmrep::allows;
use crate::policy::usage::Signals;
use crate::rep::Scheme;
use crate::robots::document::Document;
use crate::robots::identity::Crawler;
use crate::robots::state::Stance;
use crate::usage::SignalMode;

impl Evaluator {
    /// Tells whether the proxy would ask for the origin's tdmrep.json after this state of robots.txt, and may fetch it.
    #[must_use]
    pub fn asks_for_tdmrep(&self, target: &Target, view: &View) -> bool {
        let modes = &self.asked.modes;
        let signals = Signals::of(self.asked.purposes, modes);
        let is_asked = match modes.tdmrep {
            SignalMode::Off => false,
            SignalMode::Record => true,
            SignalMode::Enforce => signals.ask_for_tdmrep(),
        };
        // A copy that the user brings takes its place.
        if !is_asked || self.asked.tdmrep.is_some() || target.origin.scheme() == Scheme::Ftp {
            return false;
        }
        let is_guarded = self.settings.path_guard;
        let may = |path: &str| allows(&view.stance, &self.agent, path, is_guarded);
        let path = Document::TdmRep.path();
        let overrides = &self.overrides;
        let asserted = overrides.about(&target.origin, path.as_bytes(), view.now);
        let may_fetch = asserted.map_or_else(|| may(path), |one| one.action != Action::Deny);
        may_fetch && may(target.path.as_str())
    }
}

/// Fetches the tdmrep.json of an origin; `None` if nothing is reserved.
pub async fn fetch(
    cache: &RobotsCache,
    target: &Target,
    crawler: Crawler<'_>,
) -> Option<Arc<usage::File>> {
    let view = cache.tdmrep(&target.origin, crawler, None, Effort::Wait);
    match view.await.stance {
        Stance::Rules(snapshot) => Some(Arc::new(usage::File::Fetched(snapshot))),
        Stance::Unknown => Some(Arc::new(usage::File::Pending)),
        Stance::AllowAll | Stance::DisallowAll { .. } => None,
    }
}
