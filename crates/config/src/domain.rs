//! The configuration as the rooms below it take it.

use std::time::Duration;

use std::sync::Arc;

use super::config::Config;
use super::sections::egress::EgressConfig;
use super::sections::policy::{AgentConfig, PolicyConfig};
use super::sections::robots::RobotsConfig;
use crawlgate_origins::identity::UserAgents;
use crawlgate_policy::address_policy::AddressPolicy;
use crawlgate_policy::generation::Generation;
use crawlgate_policy::identity::Required;
use crawlgate_policy::reporting::Reporting;
use crawlgate_policy::settings::{PolicySettings, SignalSettings, Unreachable};
use crawlgate_policy::usage::Signals;
use crawlgate_policy::{DecisionInputs, Mode};
use crawlgate_signing::Assigned;
use crawlgate_usage::Purposes;

impl RobotsConfig {
    /// Returns the settings that can change a verdict.
    #[must_use]
    pub fn policy_settings(&self) -> PolicySettings {
        let mut deny_statuses = self.deny_statuses.clone();
        deny_statuses.sort_unstable();
        deny_statuses.dedup();
        let profile = &self.timing.profile;
        PolicySettings {
            lenient: self.lenient,
            size_limit: self.size_limit as u64,
            path_guard: self.path_guard,
            soft_404: self.soft_404,
            deny_statuses,
            unreachable: Unreachable {
                disallow_for_ms: millis(profile.disallow_for),
                last_good_until_ms: profile.last_good_until.map(millis),
                finally: profile.finally,
            },
            signals: Some(SignalSettings::of(&self.signals)),
        }
    }

    /// Returns the settings that a decision is made under in `mode`. A permit that is made under them sends nothing: it
    /// has no generation.
    #[must_use]
    pub fn settings(&self, mode: Mode) -> DecisionInputs {
        DecisionInputs {
            mode,
            exempt: None,
            signals: Signals::of(Purposes::NONE, &self.signals),
            generation: Generation::default(),
            path_guard: self.path_guard,
            policy: self.policy_settings().digest(),
        }
    }
}

impl Config {
    /// Returns the User-Agents that robots.txt is fetched with.
    #[must_use]
    pub fn user_agents(&self) -> UserAgents {
        let clients = self.clients.iter().filter_map(|client| {
            let named = client.user_agent.clone()?;
            Some((Arc::clone(&client.name), named))
        });
        UserAgents::new(self.robots.user_agent.clone(), clients.collect())
    }

    /// Returns the identities that requests are signed with, by client.
    #[must_use]
    pub fn signed_as(&self) -> Assigned {
        let clients = self.clients.iter().filter_map(|client| {
            let identity = client.signing.clone()?;
            Some((Arc::clone(&client.name), identity))
        });
        Assigned { others: self.agent.signing.clone(), clients: clients.collect() }
    }
}

impl PolicyConfig {
    /// Returns the modes of origins and clients.
    #[must_use]
    pub fn reporting(&self) -> Reporting {
        Reporting::new(self.mode, &self.report_origins, &self.report_clients)
    }
}

impl AgentConfig {
    /// Returns the requirements on a crawler's identification.
    #[must_use]
    pub fn required(&self) -> Required {
        Required { mismatch: self.mismatch, token: self.require_identity }
    }
}

impl EgressConfig {
    /// Returns the address policy of a proxy that listens on `own`.
    #[must_use]
    pub fn address_policy(&self, own: Vec<std::net::SocketAddr>) -> AddressPolicy {
        AddressPolicy::new(self.allow.clone(), self.deny.clone(), self.connect_ports.clone(), own)
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
