//! `[log]`, `[store]`, `[audit]`, `[admin]`: stored data and access to it.

use std::net::SocketAddr;
use std::path::Path;

use super::super::{
    AdminConfig, AdminTls, AuditConfig, KIB, LogConfig, MIB, StoreConfig, days, hours,
    read::{Entry, Read, Refusal, Section, Value},
    secs,
    values::{boolean, bytes, choice, duration, integer, one_or_list, path, text, unless},
};
use super::{DURABILITY, FOREVER, LOG_FORMATS, ON_FAILURE, RECORDED, SYNCHRONOUS, UNLIMITED};
use crawlgate_policy::host::canonical_host;
use crawlgate_tlog::KeyName;

pub(super) fn log(mut section: Section<'_, '_>, base: &Path, to: &mut LogConfig) {
    section.set("decisions", &mut to.decisions, choice(&RECORDED));
    section.set("file", &mut to.file, |value| {
        // People write `false` who read the key as a switch.
        if value.get_ref().as_bool() == Some(false) {
            return Ok(None);
        }
        unless("", path(base))(value)
    });
    section.set("stdout", &mut to.stdout, boolean);
    let rotate = 4 * KIB as u64..=1 << 40;
    section.set("rotate_bytes", &mut to.rotate_bytes, bytes(rotate));
    section.set("rotate_daily", &mut to.rotate_daily, boolean);
    section.set("keep", &mut to.keep, integer(1..=100_000));
    section.set("on_failure", &mut to.on_failure, choice(&ON_FAILURE));
    section.set("redact_query", &mut to.redact_query, boolean);
    section.set("level", &mut to.level, text(level));
    section.set("format", &mut to.format, choice(&LOG_FORMATS));
    section.finish();
}

pub(super) fn store(mut section: Section<'_, '_>, base: &Path, to: &mut StoreConfig) {
    section.set("path", &mut to.path, |value| {
        // People write `false` who read the key as a switch.
        if value.get_ref().as_bool() == Some(false) {
            return Ok(None);
        }
        unless("", path(base))(value)
    });
    section.set("synchronous", &mut to.synchronous, choice(&SYNCHRONOUS));
    section.finish();
}

/// Reads `[audit]`, and returns the tables of its witnesses.
pub(super) fn audit<'t>(
    mut section: Section<'_, 't>,
    base: &Path,
    to: &mut AuditConfig,
) -> Vec<Entry<'t>> {
    section.set("durability", &mut to.durability, choice(&DURABILITY));
    let keep = hours(1)..=days(36_500);
    section.set("keep", &mut to.keep, unless(FOREVER, duration(keep)));
    let size = MIB as u64..=1 << 50;
    section.set("max_size", &mut to.max_size, unless(UNLIMITED, bytes(size)));
    section.set(
        "refusals_per_minute",
        &mut to.refusals_per_minute,
        unless(UNLIMITED, integer(1..=10_000_000)),
    );
    let every = secs(1)..=days(365);
    section.set(
        "checkpoint_every",
        &mut to.checkpoint_every,
        duration(every),
    );
    section.set("log_name", &mut to.log_name, unless("", log_name));
    section.set("quorum", &mut to.quorum, integer(1..=100));
    section.set("collection", &mut to.collection, unless("", path(base)));
    let witnesses = section.subsections("witness");
    // The default stands without a witness, too: nothing is witnessed then.
    let most = witnesses.len().max(1);
    section.require(to.quorum <= most, &["quorum"], || match witnesses.len() {
        0 => "there is no [[audit.witness]]".to_owned(),
        1 => "there is one [[audit.witness]] alone".to_owned(),
        count => format!("there are only {count} [[audit.witness]]"),
    });
    section.finish();
    witnesses
}

/// Reads the name of a log (c2sp.org/signed-note).
fn log_name(value: &Value<'_>) -> Read<KeyName> {
    let name = value.get_ref().as_str().unwrap_or_default();
    let wrong = |_| {
        Refusal::new(
            value,
            "a name without spaces and plus signs, such as \"logs.example.org/fra-1\"",
        )
    };
    name.parse().map_err(wrong)
}

/// Reads `[admin]`, and returns the tables of its users.
pub(super) fn admin<'t>(
    mut section: Section<'_, 't>,
    base: &Path,
    has_upstream_proxy: bool,
    to: &mut AdminConfig,
) -> Vec<Entry<'t>> {
    section.set("socket", &mut to.socket, |value| {
        if value.get_ref().as_bool() == Some(false) {
            return Ok(None);
        }
        unless("", path(base))(value)
    });
    section.set("address", &mut to.address, |value| {
        if value.get_ref().as_bool() == Some(false) {
            return Ok(None);
        }
        unless("", text(admin_address))(value)
    });
    section.set("token_file", &mut to.token_file, unless("", path(base)));
    let (mut cert, mut key) = (None, None);
    section.set("cert", &mut cert, unless("", path(base)));
    section.set("key", &mut key, unless("", path(base)));
    section.require(cert.is_some() == key.is_some(), &["cert", "key"], || {
        "a certificate and its key go together; set both or neither".to_owned()
    });
    to.tls = cert.zip(key).map(|(cert, key)| AdminTls { cert, key });
    section.set("hosts", &mut to.hosts, one_or_list(text(admin_host)));
    section.set("connections", &mut to.connections, integer(1..=100_000));
    section.set("public_try", &mut to.public_try, |value| {
        if value.get_ref().as_bool() == Some(false) {
            return Ok(None);
        }
        unless("", text(admin_address))(value)
    });
    section.require(!has_upstream_proxy || to.public_try.is_none(), &["public_try"], || {
        "it asks public addresses only, and crawlgate does not see the addresses behind an [[upstream.proxy]]: leave out one of \
         them"
        .to_owned()
    });
    let per_minute = &mut to.public_try_per_minute;
    section.set("public_try_per_minute", per_minute, integer(1..=100_000));
    let users = section.subsections("user");
    let is_guarded = to.is_guarded() || !users.is_empty();
    section.require(is_guarded, &["address"], || AdminConfig::EXPOSED.to_owned());
    section.finish();
    users
}

fn admin_address(text: &str) -> Result<SocketAddr, &'static str> {
    let expected = "expected an IP address and a port, \"127.0.0.1:8119\" or \"[::1]:8119\"";
    text.parse().map_err(|_| expected)
}

fn admin_host(text: &str) -> Result<String, &'static str> {
    canonical_host(text).ok_or("expected a host name without port: \"crawlgate.intranet.example\"")
}

/// Checks a filter of messages: a level, and levels of targets. The filter is returned without spaces.
///
/// `Targets`, which reads it later, would take a misspelt level for the name of a target, and nothing for a level.
fn level(filter: &str) -> Result<String, &'static str> {
    const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
    const EXPECTED: &str = "expected \"error\", \"warn\", \"info\", \"debug\", \"trace\" or \"off\", and target=level after commas, as \
         in \"info,crawlgate::proxy=debug\"";
    let is_level = |word: &str| LEVELS.iter().any(|level| word.eq_ignore_ascii_case(level));
    let is_of_path = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let directive = |text: &str| match text.split_once('=') {
        None => is_level(text.trim()).then(|| text.trim().to_owned()),
        Some((target, level)) => {
            let (target, level) = (target.trim(), level.trim());
            let is_path = !target.is_empty() && target.chars().all(is_of_path);
            (is_path && is_level(level)).then(|| format!("{target}={level}"))
        }
    };
    let directives: Option<Vec<_>> = filter.split(',').map(directive).collect();
    Ok(directives.ok_or(EXPECTED)?.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_of_messages_is_returned_without_spaces() {
        for (filter, expected) in [
            ("info", Some("info")),
            ("WARN", Some("WARN")),
            (" off ", Some("off")),
            (
                "info, crawlgate::proxy = debug",
                Some("info,crawlgate::proxy=debug"),
            ),
            ("crawlgate=trace", Some("crawlgate=trace")),
            ("", None),
            ("info,", None),
            ("info,=debug", None),
            ("info,crawlgate=3", None),
            ("crawlgate", None),
        ] {
            assert_eq!(level(filter).ok().as_deref(), expected, "{filter:?}");
        }
    }
}
