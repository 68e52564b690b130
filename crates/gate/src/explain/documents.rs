//! The documents of an origin that a question rests on: its robots.txt, and its tdmrep.json where the proxy would ask for it.

use std::sync::Arc;

use super::usage::{File, UsageQuery};
use super::{Alternative, Evaluator, Judgement};
use crate::cache::{Effort, RobotsCache, View};
use crawlgate_origins::identity::Crawler;
use crawlgate_origins::state::Stance;
use crawlgate_policy::agent::Agent;
use crawlgate_policy::overrides::Overrides;
use crawlgate_policy::tdmrep::{allows, may_fetch};
use crawlgate_policy::usage::Signals;
use crawlgate_policy::{Decision, Target};
use crawlgate_robots::{Origin, Scheme};
use crawlgate_system::clock::Moment;
use crawlgate_usage::SignalMode;

/// The documents of an origin.
pub struct Documents {
    /// Its robots.txt.
    pub view: View,
    /// Its tdmrep.json; `None` if it was not asked for, or reserves nothing.
    pub tdmrep: Option<Arc<File>>,
}

impl Documents {
    /// Fetches the robots.txt of an origin for a crawler, and its tdmrep.json where the proxy would ask for it before a
    /// request for `path`.
    pub async fn fetch(
        cache: &RobotsCache,
        (origin, path): (&Origin, &str),
        agent: &Agent,
        asked: Option<&UsageQuery>,
        overrides: &Overrides,
    ) -> Documents {
        let crawler = Crawler::named(&agent.tokens);
        let view = cache.view(origin, crawler).await;
        let is_guarded = view.by.config.path_guard;
        let is_due = asked.is_some_and(|asked| asked.needs_tdmrep(origin))
            && may_fetch(origin, &view.stance, agent, overrides, is_guarded, view.now)
            && allows(&view.stance, agent, path, is_guarded);
        let tdmrep = if is_due { tdmrep(cache, origin, crawler).await } else { None };
        Documents { view, tdmrep }
    }
}

impl Judgement {
    /// Returns the decision that robots.txt makes, also where an override stands before it.
    pub fn by_robots(&self) -> &Decision {
        match &self.alternative {
            Some(Alternative::Robots(otherwise)) => otherwise,
            _ => &self.decision,
        }
    }

    /// Returns the moment of the fetch that it rests on; none without one, as for a file that is given.
    pub fn fetched(&self) -> Option<Moment> {
        let by_robots = self.by_robots();
        by_robots.fetched_as.as_ref()?;
        match &self.snapshot {
            Some(snapshot) => Some(snapshot.fetched),
            None => by_robots.basis.as_ref()?.fetched(),
        }
    }
}

impl Evaluator {
    /// Fetches the documents of a URL's origin.
    pub async fn fetch(&self, cache: &RobotsCache, target: &Target) -> Documents {
        let page = (&target.origin, target.path.as_str());
        Documents::fetch(cache, page, &self.agent, Some(&self.asked), &self.overrides).await
    }
}

impl UsageQuery {
    /// Tells whether the question is about an origin's tdmrep.json, and brings none that takes its place.
    fn needs_tdmrep(&self, origin: &Origin) -> bool {
        let is_asked = match self.modes.tdmrep {
            SignalMode::Off => false,
            SignalMode::Record => true,
            SignalMode::Enforce => Signals::of(self.purposes, &self.modes).ask_for_tdmrep(),
        };
        is_asked && self.tdmrep.is_none() && origin.scheme() != Scheme::Ftp
    }
}

async fn tdmrep(cache: &RobotsCache, origin: &Origin, crawler: Crawler<'_>) -> Option<Arc<File>> {
    let view = cache.tdmrep(origin, crawler, None, Effort::Wait).await;
    match view.stance {
        Stance::Rules(snapshot) => Some(Arc::new(File::Fetched(snapshot))),
        Stance::Unknown => Some(Arc::new(File::Pending)),
        Stance::AllowAll | Stance::DisallowAll { .. } => None,
    }
}
