//! Configuration: from a TOML file to values that need no further check.
//!
//! [`Config`] holds only valid values: its users never check a range again. A file is read whole and *all* its faults
//! are reported at once, each with file, line, key, value and the allowed values. crawlgate guesses nothing, refuses
//! unknown keys, and opens no listener before the file is right.
//!
//! A file needs to name only the keys that it changes. [`Config::builtin`] has all defaults; `config.toml` at the top
//! of the project shows every key with its default, and a test compares the two.
//!
//! - `section`: the macro that makes of one row a key's field, default, reader, printer and treatment by a reload
//! - `sections`: each section with its keys, the rules between them, and its types
//! - `forms`: the forms of single values, both ways
//! - `read`: the walk over the parsed TOML that collects faults
//! - `apply`: the order of the sections, and the facts of one that another needs
//! - `config`: all sections together, `config show`, and the changes that a reload makes
//! - `load`: the choice of the file; `environment`: values in variables, which come after it
//! - `search`: files that no option names, and which of them are trusted
//! - `service`: the store of the machine's service, for commands in a shell
//! - `domain`: the configuration as the crates below take it
//! - `units`: durations, sizes and days as people write them
//! - `places`: the default paths of files

mod apply;
mod config;
mod domain;
mod environment;
mod forms;
mod load;
pub mod places;
mod read;
mod search;
mod section;
mod sections;
mod service;
mod units;

pub use self::config::{Config, ReloadPlan, Source};
pub use self::environment::Variables;
pub use self::load::{ConfigError, NamedBy};
pub use self::places::Places;
pub use self::read::Fault;
pub use self::search::Distrust;
pub use self::section::{Entry, TakesEffect};
pub use self::sections::admin::{
    AdminConfig, AdminTls, AdminUser, DEFAULT_ADMIN_ADDRESS, Role, TokenDigest,
};
pub use self::sections::audit::{AuditConfig, Durability, StoreConfig, Synchronous, WitnessConfig};
pub use self::sections::client::{
    CertificateMatch, ClientConfig, Conditions, PasswordHash, Quota, Rate,
};
pub use self::sections::egress::{EgressConfig, UpstreamConfig};
pub use self::sections::fleet::{Endpoint, FleetConfig};
pub use self::sections::limits::Limits;
pub use self::sections::listener::{
    ClientAuthority, ClientCert, ListenAt, Listener, ListenerCertificate, ListenerTls,
};
pub use self::sections::log::{LogConfig, LogFormat, OnFailure, Recorded};
pub use self::sections::policy::PolicyConfig;
pub use self::sections::robots::{CacheConfig, RobotsConfig};
pub use self::sections::route::{
    Credentials, ProxyProtocol, Route, Secret, UpstreamProxy, Via, check_credentials,
};
pub use self::sections::tls::TlsConfig;
pub use self::service::{Holder, Kept};
pub use self::units::{
    format_bytes, format_duration, format_moment, parse_bytes, parse_duration, parse_moment,
};
pub use crate::sections::audit::{ShipConfig, ShipTo};
pub use crate::sections::limits::{CrawlDelayMode, PaceConfig};
pub use crate::sections::listener::{DEFAULT_ADDRESS, Listen};
pub use crate::sections::log::TelemetryConfig;
pub use crate::sections::policy::AgentConfig;
pub use crate::sections::tls::{Subtree, SubtreeError};
pub use crawlgate_origins::identity::client_name;
pub use ipnet::IpNet;

pub use crawlgate_origins::timing::{Finally, ProfileName, ProfileRules, Timing};
pub use crawlgate_policy::Mode;
pub use crawlgate_policy::destination::{Destination, DestinationError, PortRange};
pub use crawlgate_policy::host::HostPattern;
pub use crawlgate_policy::identity::Mismatch;
pub use crawlgate_usage::{Modes, Purposes, SignalMode};

#[cfg(test)]
mod tests;
