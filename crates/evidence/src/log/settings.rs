//! The settings that the log records when they come into force.

use crawlgate_config::{self as config, Config};
use crawlgate_policy::settings::PolicyDigest;
use crawlgate_record::{self as entry, EventKind, Mode};

/// Settings as an entry has them.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Settings {
    policy: PolicyDigest,
    mode: Mode,
    report_origins: Vec<String>,
    /// Networks, then names.
    report_clients: Vec<String>,
    /// Names with the operator's reasons.
    exempt_clients: Vec<String>,
}

impl Settings {
    /// Returns the settings of a configuration.
    pub(super) fn of(config: &Config) -> Self {
        let policy = &config.policy;
        let networks = policy.report_clients.iter().map(ToString::to_string);
        let named =
            config.clients.iter().filter(|client| client.mode == Some(config::Mode::Report));
        let named = named.map(|client| client.name.to_string());
        let exempt = config.clients.iter().filter_map(|client| {
            let reason = client.exempt.as_ref()?;
            Some(format!("{}: {reason}", client.name))
        });
        Self {
            policy: PolicyDigest::of(&config.robots.policy_settings().text()),
            mode: policy.mode,
            report_origins: policy.report_origins.iter().map(ToString::to_string).collect(),
            report_clients: networks.chain(named).collect(),
            exempt_clients: exempt.collect(),
        }
    }

    /// Gives `tell` the event.
    pub(super) fn tell(&self, tell: impl FnOnce(EventKind<'_>)) {
        let PolicyDigest(policy) = &self.policy;
        let origins: Vec<&str> = self.report_origins.iter().map(String::as_str).collect();
        let clients: Vec<&str> = self.report_clients.iter().map(String::as_str).collect();
        let exempt: Vec<&str> = self.exempt_clients.iter().map(String::as_str).collect();
        tell(EventKind::Settings(entry::Settings {
            policy,
            mode: self.mode,
            report_origins: (&*origins).into(),
            report_clients: (&*clients).into(),
            exempt_clients: (&*exempt).into(),
        }));
    }
}
