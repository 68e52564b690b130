//! The tdmrep.json of a decision: asked after robots.txt, and only where robots.txt allows the page.
//!
//! With `[signals] tdmrep = "enforce"`, a client with a purpose that asks for `tdm` waits for the file, and an entry that
//! reserves refuses before the request. A file that cannot be had reserves nothing.

use std::sync::Arc;

use super::overrides::Overrides;
use super::{Verdict, by_rules};
use crate::agent::Agent;
use crawlgate_origins::document::Document;
use crawlgate_origins::identity::FetchedAs;
use crawlgate_origins::snapshot::Snapshot;
use crawlgate_origins::state::{Stance, State};
use crawlgate_origins::timing::ProfileRules;
use crawlgate_robots::{ComparisonPath, Origin};
use crawlgate_text::Moment;
use crawlgate_usage::{Said, tdmrep};

/// The origin's tdmrep.json, as a decision finds it.
#[derive(Debug, Clone)]
pub struct Reservations {
    /// The state of the file, for the request's identity.
    pub state: Arc<State>,
    /// The fetch behind the state.
    pub fetched_as: Option<Arc<FetchedAs>>,
    /// The stance that counts for the request.
    pub stance: TdmRepStance,
}

/// The effect of a tdmrep.json on a request.
#[derive(Debug, Clone)]
pub enum TdmRepStance {
    /// robots.txt, or an override, keeps the crawler from the file.
    Disallowed,
    /// The file is not known yet.
    Pending,
    /// Nothing is reserved: there is no file, or it cannot be had.
    Unset,
    /// This copy holds.
    Copy(Arc<Snapshot>),
}

impl Reservations {
    /// Returns the file of an origin that keeps the crawler from it.
    #[must_use]
    pub fn disallowed() -> Reservations {
        Reservations { state: Arc::default(), fetched_as: None, stance: TdmRepStance::Disallowed }
    }

    /// Returns the file that has not come.
    #[must_use]
    pub fn pending() -> Reservations {
        Reservations { stance: TdmRepStance::Pending, ..Reservations::disallowed() }
    }

    /// Returns the file in this state at `now`.
    #[must_use]
    pub fn of(
        state: Arc<State>,
        fetched_as: Option<Arc<FetchedAs>>,
        now: Moment,
        profile: &ProfileRules,
    ) -> Reservations {
        let stance = match state.stance_of(Document::TdmRep, now, profile) {
            Stance::Rules(snapshot) => TdmRepStance::Copy(snapshot),
            Stance::Unknown => TdmRepStance::Pending,
            Stance::AllowAll | Stance::DisallowAll { .. } => TdmRepStance::Unset,
        };
        Reservations { state, fetched_as, stance }
    }

    /// Returns what the file says of a path.
    pub(super) fn at(&self, path: &[u8], is_guarded: bool) -> Said {
        match &self.stance {
            TdmRepStance::Copy(snapshot) => match snapshot.tdmrep() {
                Ok(file) => file.at(path, is_guarded),
                Err(why) => tdmrep::unusable(why),
            },
            TdmRepStance::Disallowed | TdmRepStance::Pending | TdmRepStance::Unset => {
                Said::default()
            }
        }
    }
}

/// Tells whether the crawler may fetch the file of an origin in this stance: an override about the file decides, otherwise
/// robots.txt. No exemption of the client does: it did not ask for the file.
#[must_use]
pub fn may_fetch(
    origin: &Origin,
    stance: &Stance,
    agent: &Agent,
    overrides: &Overrides,
    path_guard: bool,
    now: Moment,
) -> bool {
    let path = Document::TdmRep.path();
    overrides
        .is_allowed(origin, path.as_bytes(), now)
        .unwrap_or_else(|| allows(stance, agent, path, path_guard))
}

/// Tells whether the rules of an origin in this stance allow the crawler a path, in all its readings if it is guarded.
#[must_use]
pub fn allows(stance: &Stance, agent: &Agent, path: &str, path_guard: bool) -> bool {
    match stance {
        Stance::Rules(snapshot) => {
            let rules = snapshot.rules(&agent.tokens);
            let conclusion = by_rules(&rules, &ComparisonPath::new(path.as_bytes()), path_guard);
            conclusion.reason.verdict() == Verdict::Allow
        }
        Stance::AllowAll => true,
        Stance::Unknown | Stance::DisallowAll { .. } => false,
    }
}
