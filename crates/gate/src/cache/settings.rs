//! The settings in force, with the variants for clients with a profile of their own.

use std::sync::Arc;

use crawlgate_config::{Config, ProfileName, RobotsConfig};
use crawlgate_origins::identity::UserAgents;
use crawlgate_policy::settings::PolicyDigest;
use crawlgate_signing::Assigned;
use crawlgate_usage::tdmrep;

/// Settings with the digest that records name. A decision from a `View` uses the view's settings, even if the
/// configuration changes meanwhile.
#[derive(Debug)]
pub struct EffectiveSettings {
    /// The settings.
    pub config: Arc<RobotsConfig>,
    /// Their digest.
    pub policy: PolicyDigest,
}

/// The settings in force, also in their variants with a client's own profile.
pub(super) struct Settings {
    pub(super) user_agents: UserAgents,
    /// The identities that fetches are signed with, by client.
    pub(super) signed_as: Assigned,
    pub(super) ours: Arc<EffectiveSettings>,
    by_profile: [(ProfileName, Arc<EffectiveSettings>); 3],
}

impl Settings {
    pub(super) fn of(config: &Config) -> Settings {
        let robots = &config.robots;
        let by_profile = [ProfileName::Standard, ProfileName::Google, ProfileName::Archive];
        Settings {
            user_agents: config.user_agents(),
            signed_as: config.signed_as(),
            by_profile: by_profile
                .map(|name| (name, Arc::new(EffectiveSettings::of(robots.under(name))))),
            ours: Arc::new(EffectiveSettings::of(robots.clone())),
        }
    }

    /// Returns the limit on the octets of a document.
    pub(super) fn longest(&self) -> usize {
        self.ours.config.size_limit.max(tdmrep::LONGEST)
    }

    pub(super) fn under(&self, profile: Option<ProfileName>) -> Arc<EffectiveSettings> {
        let found = profile.and_then(|profile| {
            let mut all = self.by_profile.iter();
            all.find(|(name, _)| *name == profile)
        });
        Arc::clone(found.map_or(&self.ours, |(_, by)| by))
    }
}

impl EffectiveSettings {
    /// Returns these settings with their digest.
    pub fn of(config: RobotsConfig) -> EffectiveSettings {
        EffectiveSettings { policy: config.policy_settings().digest(), config: Arc::new(config) }
    }
}
