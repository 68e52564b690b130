//! The whole configuration: its sections, their defaults, the way back to text, and the changes of a reload.

use std::{
    fmt::{self, Write as _},
    path::{Path, PathBuf},
};

use super::sections::audit::ShipConfig;
use super::sections::limits::PaceConfig;
use super::sections::listener::Listen;
use super::sections::log::TelemetryConfig;
use super::sections::policy::AgentConfig;
use crate::places::Places;
use crate::section::{Entry, Key as _, Keys as _, TakesEffect};
use crate::sections::admin::AdminConfig;
use crate::sections::audit::{AuditConfig, StoreConfig};
use crate::sections::client::{CLIENTS, ClientConfig};
use crate::sections::egress::{EgressConfig, UpstreamConfig};
use crate::sections::fleet::FleetConfig;
use crate::sections::limits::Limits;
use crate::sections::listener::{LISTENERS, Listener};
use crate::sections::log::LogConfig;
use crate::sections::policy::{OVERRIDES, PolicyConfig};
use crate::sections::robots::RobotsConfig;
use crate::sections::signing::IDENTITIES;
use crate::sections::tls::TlsConfig;
use crawlgate_signing as signing;

/// Declares the configuration: what each section has, all together have.
macro_rules! config {
    ($(#[$attribute:meta])* pub struct Config {
        $($(#[$doc:meta])* $section:ident: $type:ty,)*
    } and {
        $($(#[$more_doc:meta])* $more:ident: $more_type:ty = $default:expr,)*
    }) => {
        $(#[$attribute])*
        pub struct Config {
            $($(#[$doc])* pub $section: $type,)*
            $($(#[$more_doc])* pub $more: $more_type,)*
        }

        impl Config {
            fn sections() -> Self {
                Self {
                    $($section: <$type>::builtin(),)*
                    $($more: $default,)*
                }
            }

            fn show(&self, to: &mut Vec<Entry>) {
                $(self.$section.show(to);)*
            }

            fn keep(&mut self, old: &Self) {
                $(self.$section.keep(&old.$section);)*
            }
        }
    };
}

config! {
    /// The whole configuration, validated. Each field is a section of the file.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Config {
        /// `[listen]`: the addresses where crawlers connect, and the networks that may.
        listen: Listen,
        /// `[limits]`: bounds for one crawler or one connection.
        limits: Limits,
        /// `[agent]`: the product tokens that judge crawlers.
        agent: AgentConfig,
        /// `[robots]`: fetching, keeping and reading robots.txt files.
        robots: RobotsConfig,
        /// `[pace]`: politeness per origin.
        pace: PaceConfig,
        /// `[tls]`: interception of HTTPS.
        tls: TlsConfig,
        /// `[egress]`: the destinations that may be dialled.
        egress: EgressConfig,
        /// `[upstream]`: connections to origin servers.
        upstream: UpstreamConfig,
        /// `[log]`: the decision log and the program's own messages.
        log: LogConfig,
        /// `[telemetry]`: messages and traces for an OpenTelemetry collector.
        telemetry: TelemetryConfig,
        /// `[store]`: the database of states and decisions.
        store: StoreConfig,
        /// `[audit]`: durability and retention of decisions.
        audit: AuditConfig,
        /// `[ship]`
        ship: ShipConfig,
        /// `[fleet]`
        fleet: FleetConfig,
        /// `[admin]`: access of commands, people and programs to the running process.
        admin: AdminConfig,
        /// `[policy]` and `[[override]]`: the operator's rulings above robots.txt.
        policy: PolicyConfig,
    } and {
        /// `[[listener]]`, in the order of the file: more addresses and sockets where crawlers connect.
        listeners: Vec<Listener> = Vec::new(),
        /// `[[client]]`, in the order of the file: without credentials, the first entry that matches decides. Empty:
        /// everyone is one unnamed client.
        clients: Vec<ClientConfig> = Vec::new(),
        /// `[[signing]]`, in the order of the file: the identities that requests are signed with.
        signing: Vec<signing::Settings> = Vec::new(),
        /// The origin of the values.
        source: Source = Source::BuiltIn,
    }
}

/// The origin of a [`Config`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// No file was named and none was found: the defaults.
    BuiltIn,
    /// A file that was named, or that stands in a directory of crawlgate's own.
    File(PathBuf),
    /// A file that no option names: it stands in the working directory, and may have come there with other files.
    Nearby(PathBuf),
}

impl Source {
    /// Returns the file, if there is one.
    #[must_use]
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::BuiltIn => None,
            Self::File(path) | Self::Nearby(path) => Some(path),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BuiltIn => f.write_str("built-in defaults"),
            Self::File(path) | Self::Nearby(path) => write!(f, "{}", path.display()),
        }
    }
}

/// The changes of a new configuration, by key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReloadPlan {
    /// Changed keys, in force from now on.
    pub applied: Vec<&'static str>,
    /// Changed keys, in force after a restart only.
    pub needs_restart: Vec<&'static str>,
}

impl Default for Config {
    /// Returns the defaults, with files in the places that this process's environment names.
    fn default() -> Self {
        Self::builtin(&Places::from_env())
    }
}

impl Config {
    /// Returns the defaults, with files in `places`.
    #[must_use]
    pub fn builtin(places: &Places) -> Self {
        let mut config = Self::sections();
        (config.tls.ca_cert, config.tls.ca_key) = places.ca();
        let (store, socket) = places.store();
        config.store.path = Some(store);
        config.admin.socket = Some(socket);
        config
    }

    /// Returns every key with its effective value, section by section.
    #[must_use]
    pub fn entries(&self) -> Vec<Entry> {
        use TakesEffect::{AtReload, AtRestart};
        let mut all = Vec::new();
        // A key of no section comes first: below a section's header it would belong to that section.
        OVERRIDES.show("override", AtReload, &self.policy.overrides, &mut all);
        LISTENERS.show("listener", AtRestart, &self.listeners, &mut all);
        CLIENTS.show("client", AtReload, &self.clients, &mut all);
        IDENTITIES.show("signing", AtReload, &self.signing, &mut all);
        self.show(&mut all);
        all
    }

    /// Returns the effective values as a configuration file.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let mut toml = String::new();
        let mut current = "";
        for entry in self.entries() {
            let (section, key) = entry.key.rsplit_once('.').unwrap_or(("", entry.key));
            if section != current {
                let gap = if toml.is_empty() { "" } else { "\n" };
                let _ = writeln!(toml, "{gap}[{section}]");
                current = section;
            }
            let _ = writeln!(toml, "{key} = {}", entry.value);
        }
        toml
    }

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
        let mut config = new.clone();
        config.keep(self);
        config.listeners.clone_from(&self.listeners);
        if self.keeps("pace.per_address") {
            config.pace.per_address = self.pace.per_address;
        }
        config.admin.had_users = self.admin.is_for_users();
        (config, plan)
    }
}
