//! The operator's part in decisions: settings and stored overrides, combined.

use std::sync::Arc;

use super::Requester;
use crawlgate_config::{AgentConfig, Mode, PolicyConfig};
use crawlgate_policy::identity::Required;
use crawlgate_policy::overrides::{Override, Overrides};
use crawlgate_policy::reporting::Reporting;
use crawlgate_robots::Origin;
use crawlgate_usage::Modes;

/// The operator's overrides, modes and identity requirements.
pub(super) struct Operator {
    pub(super) overrides: Arc<Overrides>,
    reporting: Reporting,
    pub(super) required: Required,
    /// The treatment of each signal.
    pub(super) signals: Arc<Modes>,
}

impl Operator {
    /// Returns the mode in which a requester's access to `origin` is judged.
    pub(super) fn mode(&self, origin: &Origin, requester: &Requester<'_>) -> Mode {
        self.reporting.mode(origin, requester.client.mode, requester.address)
    }
}

/// Settings and overrides by source.
pub(super) struct Asserted {
    pub(super) config: PolicyConfig,
    pub(super) agent: AgentConfig,
    pub(super) signals: Arc<Modes>,
    /// The store's overrides.
    pub(super) stored: Vec<Override>,
}

impl Asserted {
    /// Combines the sources.
    pub(super) fn operator(&self) -> Operator {
        let all = self.config.overrides.iter().chain(&self.stored);
        Operator {
            overrides: Arc::new(Overrides::new(all.cloned())),
            reporting: self.config.reporting(),
            required: self.agent.required(),
            signals: Arc::clone(&self.signals),
        }
    }
}
