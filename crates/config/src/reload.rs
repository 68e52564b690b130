//! The changes that a reload makes to the configuration in force, and those that wait for a restart.

use super::{
    AdminConfig, AuditConfig, Config, FleetConfig, Listen, LogConfig, PaceConfig, RobotsConfig,
    TakesEffect, TlsConfig, UpstreamConfig,
};

/// The changes of a new configuration, by key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReloadPlan {
    /// Changed keys, in force from now on.
    pub applied: Vec<&'static str>,
    /// Changed keys, in force after a restart only.
    pub needs_restart: Vec<&'static str>,
}

impl Config {
    /// Returns the changes from this configuration to `new`, and when they take effect.
    #[must_use]
    pub fn reload_diff(&self, new: &Self) -> ReloadPlan {
        let mut plan = ReloadPlan::default();
        for (old, new) in self.entries().into_iter().zip(new.entries()) {
            if old.value != new.value {
                match new.takes_effect {
                    TakesEffect::AtReload if !self.keeps(new.key) => plan.applied.push(new.key),
                    TakesEffect::AtReload | TakesEffect::AtRestart => {
                        plan.needs_restart.push(new.key);
                    }
                }
            }
        }
        plan
    }

    /// Tells whether a key that others change at a reload stays here until a restart: a fleet, which stays as long, keeps no
    /// pace per address.
    fn keeps(&self, key: &str) -> bool {
        self.fleet.is_on() && key == "pace.per_address"
    }

    /// Returns the configuration in force after a reload, with its plan: `new`, but with this one's values for keys
    /// that only a restart can change.
    #[must_use]
    pub fn reloaded(&self, new: &Self) -> (Self, ReloadPlan) {
        let plan = self.reload_diff(new);
        let old = self.clone();
        let new = new.clone();
        let config = Self {
            listen: Listen {
                http2: new.listen.http2,
                ..old.listen
            },
            listeners: old.listeners,
            limits: new.limits,
            agent: new.agent,
            robots: RobotsConfig {
                cache: old.robots.cache,
                max_fetches: old.robots.max_fetches,
                fetches_per_second: old.robots.fetches_per_second,
                ..new.robots
            },
            pace: PaceConfig {
                per_address: match old.fleet.is_on() {
                    true => old.pace.per_address,
                    false => new.pace.per_address,
                },
                ..new.pace
            },
            tls: TlsConfig {
                tunnel: new.tls.tunnel,
                ..old.tls
            },
            egress: new.egress,
            upstream: UpstreamConfig {
                body_timeout: new.upstream.body_timeout,
                http2: new.upstream.http2,
                http1_hosts: new.upstream.http1_hosts,
                ftp: new.upstream.ftp,
                ..old.upstream
            },
            log: LogConfig {
                decisions: new.log.decisions,
                on_failure: new.log.on_failure,
                redact_query: new.log.redact_query,
                level: new.log.level,
                ..old.log
            },
            telemetry: old.telemetry,
            store: old.store,
            audit: AuditConfig {
                log_name: old.audit.log_name,
                quorum: old.audit.quorum,
                witnesses: old.audit.witnesses,
                ..new.audit
            },
            ship: old.ship,
            fleet: FleetConfig {
                patience: new.fleet.patience,
                ..old.fleet
            },
            admin: AdminConfig {
                users: new.admin.users,
                had_users: old.admin.is_for_users(),
                ..old.admin
            },
            policy: new.policy,
            clients: new.clients,
            signing: new.signing,
            source: new.source,
        };
        (config, plan)
    }
}
