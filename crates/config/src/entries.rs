//! The way back: a configuration as keys and values in text.
//!
//! [`KEYS`] has three uses: `config show` prints its values, a reload compares those of two configurations, and the
//! tests compare the reader and the commented `config.toml` with it. A test holds it to the keys that the reader knows,
//! both ways.
//!
//! The values are not derived with serde: each key needs a row in any case, for its [`TakesEffect`], and three quarters
//! of them would need an attribute besides, as a duration, a size, a name or a limit that may be `"unlimited"` has its
//! own spelling. With the rules of robots.txt and the overrides, which rooms below this one define, written a second
//! time for serde, that is more code than a function in the row.

mod tables;
mod text;

use std::fmt::{Display, Write as _};

use self::{
    tables::{admin_user, client, hosts, listener, override_, purposes, route, signing, witness},
    text::{float, list, name, or_forever, or_unlimited, place, quoted, size, span, texts},
};
use super::{
    Config, PortRange,
    keys::{
        BY_CAUSE, CRAWL_DELAY, DURABILITY, FINALLY, LOG_FORMATS, MISMATCH, MODES, ON_FAILURE,
        PROFILES, RECORDED, SIGNAL_MODES, SYNCHRONOUS,
    },
};
use TakesEffect::{AtReload, AtRestart};

/// One key of the configuration with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Section and key: `robots.profile`, `robots.cache.bytes`.
    pub key: &'static str,
    /// The value in TOML.
    pub value: String,
    /// The time when a changed value takes effect.
    pub takes_effect: TakesEffect,
}

/// The time when a changed value takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakesEffect {
    /// At a reload (SIGHUP).
    AtReload,
    /// At the next start: sockets, files and caches depend on it.
    AtRestart,
}

/// A key, the time when a change of it takes effect, and its value in TOML.
type Key = (&'static str, TakesEffect, fn(&Config) -> String);

/// Every key, section by section, in the order of `config show`.
#[rustfmt::skip] // one row, one key
const KEYS: &[Key] = &[
    // A key of no section comes first: below a section's header it would belong to that section.
    ("override", AtReload, |config| list(&config.policy.overrides, override_)),
    ("listener", AtRestart, |config| list(&config.listeners, listener)),
    ("client", AtReload, |config| list(&config.clients, client)),
    ("signing", AtReload, |config| list(&config.signing, signing)),
    ("listen.address", AtRestart, |config| texts(&config.listen.addresses)),
    ("listen.allow", AtRestart, |config| texts(&config.listen.allow)),
    ("listen.open", AtRestart, |config| config.listen.open.to_string()),
    ("listen.http2", AtReload, |config| config.listen.http2.to_string()),
    ("limits.connections", AtReload, |config| config.limits.connections.to_string()),
    ("limits.connections_per_client", AtReload, |config| or_unlimited(config.limits.connections_per_client, whole)),
    ("limits.requests", AtReload, |config| or_unlimited(config.limits.requests, whole)),
    ("limits.requests_per_client", AtReload, |config| or_unlimited(config.limits.requests_per_client, whole)),
    ("limits.header_timeout", AtReload, |config| span(config.limits.header_timeout)),
    ("limits.body_timeout", AtReload, |config| span(config.limits.body_timeout)),
    ("limits.body_rate", AtReload, |config| config.limits.body_rate.to_string()),
    ("limits.idle_timeout", AtReload, |config| span(config.limits.idle_timeout)),
    ("limits.tunnel_idle_timeout", AtReload, |config| span(config.limits.tunnel_idle_timeout)),
    ("limits.header_fields", AtReload, |config| config.limits.header_fields.to_string()),
    ("limits.header_bytes", AtReload, |config| size(config.limits.header_bytes as u64)),
    ("limits.uri_bytes", AtReload, |config| size(config.limits.uri_bytes as u64)),
    ("limits.http2_streams", AtReload, |config| config.limits.http2_streams.to_string()),
    ("limits.http2_window", AtReload, |config| size(config.limits.http2_window.into())),
    ("limits.http2_resets", AtReload, |config| config.limits.http2_resets.to_string()),
    ("limits.http2_control_frames", AtReload, |config| config.limits.http2_control_frames.to_string()),
    ("limits.drain", AtReload, |config| span(config.limits.drain)),
    ("agent.product_tokens", AtReload, |config| texts(&config.agent.product_tokens)),
    ("agent.mismatch", AtReload, |config| name(&MISMATCH, config.agent.mismatch)),
    ("agent.require_identity", AtReload, |config| config.agent.require_identity.to_string()),
    ("agent.signing", AtReload, |config| quoted(shown(config.agent.signing.as_ref()))),
    ("robots.profile", AtReload, |config| name(&PROFILES, config.robots.timing.profile.name)),
    ("robots.disallow_for", AtReload, |config| span(config.robots.timing.profile.disallow_for)),
    ("robots.last_good_until", AtReload, |config| or_forever(config.robots.timing.profile.last_good_until)),
    ("robots.finally", AtReload, |config| name(&FINALLY, config.robots.timing.profile.finally)),
    ("robots.fresh", AtReload, |config| span(config.robots.timing.fresh)),
    ("robots.fresh_min", AtReload, |config| span(config.robots.timing.fresh_min)),
    ("robots.fresh_max", AtReload, |config| span(config.robots.timing.fresh_max)),
    ("robots.refresh_ahead", AtReload, |config| float(config.robots.timing.refresh_ahead)),
    ("robots.retry_min", AtReload, |config| span(config.robots.timing.retry_min)),
    ("robots.retry_max", AtReload, |config| span(config.robots.timing.retry_max)),
    ("robots.retry_max_503", AtReload, |config| span(config.robots.timing.retry_max_503)),
    ("robots.jitter", AtReload, |config| float(config.robots.timing.jitter)),
    ("robots.size_limit", AtReload, |config| size(config.robots.size_limit as u64)),
    ("robots.max_redirects", AtReload, |config| config.robots.max_redirects.to_string()),
    ("robots.connect_timeout", AtReload, |config| span(config.robots.connect_timeout)),
    ("robots.first_byte_timeout", AtReload, |config| span(config.robots.first_byte_timeout)),
    ("robots.fetch_timeout", AtReload, |config| span(config.robots.fetch_timeout)),
    ("robots.max_fetches", AtRestart, |config| config.robots.max_fetches.to_string()),
    ("robots.fetches_per_second", AtRestart, |config| or_unlimited(config.robots.fetches_per_second, float)),
    ("robots.hold", AtReload, |config| span(config.robots.hold)),
    ("robots.lenient", AtReload, |config| config.robots.lenient.to_string()),
    ("robots.path_guard", AtReload, |config| config.robots.path_guard.to_string()),
    ("robots.soft_404", AtReload, |config| config.robots.soft_404.to_string()),
    ("robots.soft_404_phrases", AtReload, |config| texts(&config.robots.soft_404_phrases)),
    ("robots.deny_statuses", AtReload, |config| list(&config.robots.deny_statuses, u16::to_string)),
    ("robots.unreachable_status", AtReload, |config| config.robots.unreachable_status.map_or_else(|| quoted(BY_CAUSE), |status| status.to_string())),
    ("robots.user_agent", AtReload, |config| quoted(&config.robots.user_agent)),
    ("robots.cache.origins", AtRestart, |config| config.robots.cache.origins.to_string()),
    ("robots.cache.bytes", AtRestart, |config| size(config.robots.cache.bytes as u64)),
    ("signals.content_usage", AtReload, |config| name(&SIGNAL_MODES, config.robots.signals.content_usage)),
    ("signals.content_signal", AtReload, |config| name(&SIGNAL_MODES, config.robots.signals.content_signal)),
    ("signals.tdm_reservation", AtReload, |config| name(&SIGNAL_MODES, config.robots.signals.tdm_reservation)),
    ("signals.tdmrep", AtReload, |config| name(&SIGNAL_MODES, config.robots.signals.tdmrep)),
    ("signals.robots_tag", AtReload, |config| name(&SIGNAL_MODES, config.robots.signals.robots_tag)),
    ("signals.license", AtReload, |config| name(&SIGNAL_MODES, config.robots.signals.license)),
    ("signals.licenses", AtReload, |config| texts(&config.robots.signals.licenses)),
    ("signals.withhold", AtReload, |config| config.robots.signals.withhold.to_string()),
    ("signals.stamp", AtReload, |config| config.robots.signals.stamp.to_string()),
    ("pace.requests_per_second", AtReload, |config| or_unlimited(config.pace.requests_per_second, float)),
    ("pace.burst", AtReload, |config| config.pace.burst.to_string()),
    ("pace.concurrency", AtReload, |config| or_unlimited(config.pace.concurrency, whole)),
    ("pace.per_address", AtReload, |config| config.pace.per_address.to_string()),
    ("pace.crawl_delay", AtReload, |config| name(&CRAWL_DELAY, config.pace.crawl_delay)),
    ("pace.max_crawl_delay", AtReload, |config| span(config.pace.max_crawl_delay)),
    ("pace.backoff", AtReload, |config| config.pace.backoff.to_string()),
    ("pace.backoff_max", AtReload, |config| span(config.pace.backoff_max)),
    ("pace.max_hold", AtReload, |config| span(config.pace.max_hold)),
    ("pace.max_held", AtReload, |config| config.pace.max_held.to_string()),
    ("tls.ca_cert", AtRestart, |config| place(Some(&config.tls.ca_cert))),
    ("tls.ca_key", AtRestart, |config| place(Some(&config.tls.ca_key))),
    ("tls.leaf_lifetime", AtRestart, |config| span(config.tls.leaf_lifetime)),
    ("tls.leaf_cache", AtRestart, |config| config.tls.leaf_cache.to_string()),
    ("tls.tunnel", AtReload, |config| texts(&config.tls.tunnel)),
    ("tls.extra_roots", AtRestart, |config| list(&config.tls.extra_roots, |path| place(Some(path)))),
    ("tls.name_constraints", AtRestart, |config| texts(&config.tls.name_constraints)),
    ("egress.allow", AtReload, |config| texts(&config.egress.allow)),
    ("egress.deny", AtReload, |config| texts(&config.egress.deny)),
    ("egress.connect_ports", AtReload, |config| list(&config.egress.connect_ports, ports)),
    ("upstream.connect_timeout", AtRestart, |config| span(config.upstream.connect_timeout)),
    ("upstream.response_timeout", AtRestart, |config| span(config.upstream.response_timeout)),
    ("upstream.body_timeout", AtReload, |config| span(config.upstream.body_timeout)),
    ("upstream.idle_timeout", AtRestart, |config| span(config.upstream.idle_timeout)),
    ("upstream.idle_per_host", AtRestart, |config| config.upstream.idle_per_host.to_string()),
    ("upstream.http2", AtReload, |config| config.upstream.http2.to_string()),
    ("upstream.http1_hosts", AtReload, |config| texts(&config.upstream.http1_hosts)),
    ("upstream.ftp", AtReload, |config| config.upstream.ftp.to_string()),
    ("upstream.http2_streams", AtRestart, |config| config.upstream.http2_streams.to_string()),
    ("upstream.http2_connections", AtRestart, |config| config.upstream.http2_connections.to_string()),
    ("upstream.http2_window", AtRestart, |config| size(config.upstream.http2_window.into())),
    ("upstream.via", AtRestart, |config| config.upstream.via.to_string()),
    ("upstream.hosts", AtRestart, |config| hosts(&config.upstream.hosts)),
    ("upstream.proxy", AtRestart, |config| list(&config.upstream.routes, route)),
    ("log.decisions", AtReload, |config| name(&RECORDED, config.log.decisions)),
    ("log.file", AtRestart, |config| place(config.log.file.as_deref())),
    ("log.stdout", AtRestart, |config| config.log.stdout.to_string()),
    ("log.rotate_bytes", AtRestart, |config| size(config.log.rotate_bytes)),
    ("log.rotate_daily", AtRestart, |config| config.log.rotate_daily.to_string()),
    ("log.keep", AtRestart, |config| config.log.keep.to_string()),
    ("log.on_failure", AtReload, |config| name(&ON_FAILURE, config.log.on_failure)),
    ("log.redact_query", AtReload, |config| config.log.redact_query.to_string()),
    ("log.level", AtReload, |config| quoted(&config.log.level)),
    ("log.format", AtRestart, |config| name(&LOG_FORMATS, config.log.format)),
    ("telemetry.otlp_endpoint", AtRestart, |config| quoted(config.telemetry.otlp_endpoint.as_deref().unwrap_or_default())),
    ("telemetry.headers_file", AtRestart, |config| place(config.telemetry.headers_file.as_deref())),
    ("telemetry.service_name", AtRestart, |config| quoted(&config.telemetry.service_name)),
    ("telemetry.sample", AtRestart, |config| float(config.telemetry.sample)),
    ("telemetry.logs", AtRestart, |config| config.telemetry.logs.to_string()),
    ("store.path", AtRestart, |config| place(config.store.path.as_deref())),
    ("store.synchronous", AtRestart, |config| name(&SYNCHRONOUS, config.store.synchronous)),
    ("audit.durability", AtReload, |config| name(&DURABILITY, config.audit.durability)),
    ("audit.keep", AtReload, |config| or_forever(config.audit.keep)),
    ("audit.max_size", AtReload, |config| or_unlimited(config.audit.max_size, size)),
    ("audit.refusals_per_minute", AtReload, |config| or_unlimited(config.audit.refusals_per_minute, whole)),
    ("audit.checkpoint_every", AtReload, |config| span(config.audit.checkpoint_every)),
    ("audit.log_name", AtRestart, |config| quoted(config.audit.log_name.as_ref().map_or("", |name| name.as_str()))),
    ("audit.quorum", AtRestart, |config| config.audit.quorum.to_string()),
    ("audit.collection", AtReload, |config| place(config.audit.collection.as_deref())),
    ("audit.witness", AtRestart, |config| list(&config.audit.witnesses, witness)),
    ("ship.to", AtRestart, |config| quoted(shown(config.ship.to.as_ref()))),
    ("ship.every", AtRestart, |config| span(config.ship.every)),
    ("ship.token_file", AtRestart, |config| place(config.ship.token_file.as_deref())),
    ("fleet.engine", AtRestart, |config| quoted(shown(config.fleet.engine.as_ref()))),
    ("fleet.sentinels", AtRestart, |config| texts(&config.fleet.sentinels)),
    ("fleet.master", AtRestart, |config| quoted(shown(config.fleet.master.as_ref()))),
    ("fleet.tls", AtRestart, |config| config.fleet.tls.to_string()),
    ("fleet.cert", AtRestart, |config| place(config.fleet.cert.as_deref())),
    ("fleet.key", AtRestart, |config| place(config.fleet.key.as_deref())),
    ("fleet.user", AtRestart, |config| quoted(shown(config.fleet.user.as_ref()))),
    ("fleet.password_file", AtRestart, |config| place(config.fleet.password_file.as_deref())),
    ("fleet.key_file", AtRestart, |config| place(config.fleet.key_file.as_deref())),
    ("fleet.name", AtRestart, |config| quoted(shown(config.fleet.name.as_ref()))),
    ("fleet.prefix", AtRestart, |config| quoted(&config.fleet.prefix)),
    ("fleet.patience", AtReload, |config| span(config.fleet.patience)),
    ("fleet.timeout", AtRestart, |config| span(config.fleet.timeout)),
    ("admin.socket", AtRestart, |config| place(config.admin.socket.as_deref())),
    ("admin.address", AtRestart, |config| config.admin.address.map_or_else(|| quoted(""), quoted)),
    ("admin.token_file", AtRestart, |config| place(config.admin.token_file.as_deref())),
    ("admin.cert", AtRestart, |config| place(config.admin.tls.as_ref().map(|tls| tls.cert.as_path()))),
    ("admin.key", AtRestart, |config| place(config.admin.tls.as_ref().map(|tls| tls.key.as_path()))),
    ("admin.user", AtReload, |config| list(&config.admin.users, admin_user)),
    ("admin.hosts", AtRestart, |config| texts(&config.admin.hosts)),
    ("admin.connections", AtRestart, |config| config.admin.connections.to_string()),
    ("admin.public_try", AtRestart, |config| config.admin.public_try.map_or_else(|| quoted(""), quoted)),
    ("admin.public_try_per_minute", AtRestart, |config| config.admin.public_try_per_minute.to_string()),
    ("policy.mode", AtReload, |config| name(&MODES, config.policy.mode)),
    ("policy.report_origins", AtReload, |config| texts(&config.policy.report_origins)),
    ("policy.report_clients", AtReload, |config| texts(&config.policy.report_clients)),
    ("policy.purposes", AtReload, |config| purposes(config.policy.purposes)),
];

/// Writes a count.
fn whole(count: impl Display) -> String {
    count.to_string()
}

/// Writes a port as a number, or a range in quotes.
fn ports(range: &PortRange) -> String {
    match range.single() {
        Some(port) => port.to_string(),
        None => quoted(range),
    }
}

/// Writes a value that may be missing as text.
fn shown(value: Option<&impl Display>) -> String {
    value.map_or_else(String::new, ToString::to_string)
}

impl Config {
    /// Returns every key with its effective value, section by section.
    #[must_use]
    pub fn entries(&self) -> Vec<Entry> {
        let entry = |&(key, takes_effect, value): &Key| Entry {
            key,
            value: value(self),
            takes_effect,
        };
        KEYS.iter().map(entry).collect()
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
}
