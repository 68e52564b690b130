//! Every key of the file: what it allows, and the rules between keys.
//!
//! The bounds keep out what cannot be meant (a time-out of zero) and what would make a gate that does not hold: fewer
//! redirects or a smaller file than RFC 9309 asks for would read a restriction as its absence.

use std::{
    collections::HashMap,
    net::{IpAddr, SocketAddr},
    ops::RangeInclusive,
    path::Path,
    time::Duration,
};

use ipnet::IpNet;
use toml::de::{DeTable, DeValue};
use tracing_subscriber::EnvFilter;

use super::{
    AdminConfig, AgentConfig, AuditConfig, CacheConfig, Config, Credentials, Destination,
    Durability, EgressConfig, Finally, HostPattern, KIB, Limits, Listen, LogConfig, MIB, Mode,
    OnFailure, PaceConfig, PolicyConfig, PortRange, ProfileName, ProfileRules, Recorded,
    RobotsConfig, Route, StoreConfig, Synchronous, Timing, TlsConfig, UpstreamConfig,
    UpstreamProxy, Via, days, format_bytes, format_duration,
    host::canonical_host,
    hours, parse_moment,
    read::{Read, Reader, Refusal, Section, Value},
    secs,
    values::{
        boolean, bytes, choice, duration, integer, list, number, one_or_list, path, text, unless,
    },
};
use crate::clock::Moment;
use crate::policy::overrides::{Action, Override, OverrideId, words};
use crate::rep::{Origin, PathPattern, ProductToken};

/// Names of the profiles, as the file writes them.
pub(super) const PROFILES: [(&str, ProfileName); 3] = [
    ("standard", ProfileName::Standard),
    ("google", ProfileName::Google),
    ("archive", ProfileName::Archive),
];

/// Names of what holds finally.
pub(super) const FINALLY: [(&str, Finally); 2] =
    [("allow", Finally::Allow), ("reachable", Finally::Reachable)];

/// Names of the decisions recorded.
pub(super) const RECORDED: [(&str, Recorded); 2] =
    [("denied", Recorded::Denied), ("all", Recorded::All)];

/// Names of what a log failure does.
pub(super) const ON_FAILURE: [(&str, OnFailure); 2] =
    [("deny", OnFailure::Deny), ("continue", OnFailure::Continue)];

/// Names of what a power cut may take.
pub(super) const SYNCHRONOUS: [(&str, Synchronous); 2] =
    [("normal", Synchronous::Normal), ("full", Synchronous::Full)];

/// Names of when a denial must be in the store.
pub(super) const DURABILITY: [(&str, Durability); 2] = [
    ("relaxed", Durability::Relaxed),
    ("strict", Durability::Strict),
];

/// Names of the modes.
pub(super) const MODES: [(&str, Mode); 2] = [("enforce", Mode::Enforce), ("report", Mode::Report)];

/// Names of what an override says.
pub(super) const ACTIONS: [(&str, Action); 2] = [("allow", Action::Allow), ("deny", Action::Deny)];

/// For `pace.requests_per_second` and `audit.max_size`: as many as come.
pub(super) const UNLIMITED: &str = "unlimited";

/// For `robots.last_good_until` and `audit.keep`: without end.
pub(super) const FOREVER: &str = "forever";

/// The least that must be read of a robots.txt: 500 kibibytes (RFC 9309, section 2.5).
const LEAST_SIZE_LIMIT: u64 = 500 * KIB as u64;

/// The least number of redirects that must be followed (RFC 9309, section 2.3.1.2).
const LEAST_REDIRECTS: u64 = 5;

const ONE_MS: Duration = Duration::from_millis(1);

/// A wait on the network: not zero, not so long that it never ends.
const TIMEOUT: RangeInclusive<Duration> = ONE_MS..=hours(24);

/// A span that rules count in.
const SPAN: RangeInclusive<Duration> = Duration::ZERO..=days(3_650);

/// A size of things held in memory.
const MEMORY: RangeInclusive<u64> = MIB as u64..=1 << 40;

/// Puts what the document says into `config`. Paths start at `base`.
pub(super) fn apply<'t>(
    document: &'t DeTable<'t>,
    reader: &mut Reader<'t>,
    base: &Path,
    config: &mut Config,
) {
    let mut top = reader.section("", Some(document));
    let [listen_table, limits_table, agent_table, robots_table] =
        ["listen", "limits", "agent", "robots"].map(|name| top.subsection(name));
    let [pace_table, tls_table, upstream_table, log_table] =
        ["pace", "tls", "upstream", "log"].map(|name| top.subsection(name));
    let egress_table = top.subsection("egress");
    let [store_table, audit_table, admin_table, policy_table] =
        ["store", "audit", "admin", "policy"].map(|name| top.subsection(name));
    let override_tables = top.subsections("override");
    top.finish();

    listen(reader.section("listen", listen_table), &mut config.listen);
    limits(reader.section("limits", limits_table), &mut config.limits);
    agent(reader.section("agent", agent_table), &mut config.agent);
    let cache_table = robots(reader.section("robots", robots_table), &mut config.robots);
    let cache_section = reader.section("robots.cache", cache_table);
    cache(cache_section, &mut config.robots.cache);
    pace(reader.section("pace", pace_table), &mut config.pace);
    tls(reader.section("tls", tls_table), base, &mut config.tls);
    egress(reader.section("egress", egress_table), &mut config.egress);
    let upstream_section = reader.section("upstream", upstream_table);
    let (hosts_table, proxy_tables) = upstream(upstream_section, &mut config.upstream);
    let hosts_section = reader.section("upstream.hosts", hosts_table);
    hosts(hosts_section, &mut config.upstream.hosts);
    for table in proxy_tables {
        let section = reader.section("[upstream.proxy]", Some(table));
        config.upstream.routes.extend(route(section, base));
    }
    log(reader.section("log", log_table), base, &mut config.log);
    let admin_section = reader.section("admin", admin_table);
    let socket_is_named = admin_section.names("socket");
    admin(admin_section, base, &mut config.admin);
    let store_section = reader.section("store", store_table);
    if store_section.names("path") && !socket_is_named {
        config.admin.socket = None;
    }
    store(store_section, base, &mut config.store);
    if config.admin.socket.is_none() && !socket_is_named {
        // Beside the store, wherever the file puts that.
        let store = config.store.path.as_ref();
        config.admin.socket = store.map(|store| store.with_extension("sock"));
    }
    audit(reader.section("audit", audit_table), &mut config.audit);
    policy(reader.section("policy", policy_table), &mut config.policy);
    for (place, table) in (1..).zip(override_tables) {
        let section = reader.section("[override]", Some(table));
        config.policy.overrides.extend(override_(section, place));
    }
}

fn listen(mut section: Section<'_, '_>, to: &mut Listen) {
    section.set("address", &mut to.addresses, |value| {
        let addresses = one_or_list(text(|text| {
            text.parse::<SocketAddr>().map_err(
                |_| "expected an IP address and a port: \"127.0.0.1:8118\", \"[::1]:8118\"",
            )
        }))(value)?;
        if addresses.is_empty() {
            return Err(Refusal::new(value, "expected at least one address"));
        }
        Ok(addresses)
    });
    section.set("allow", &mut to.allow, list(text(network)));
    section.set("open", &mut to.open, boolean);
    let holds = to.addresses.iter().all(|address| to.may_listen_on(address));
    section.require(holds, &["address"], || Listen::EXPOSED.to_owned());
    section.finish();
}

/// A network, or an address that stands for itself alone.
fn network(text: &str) -> Result<IpNet, &'static str> {
    let address = text.parse::<IpAddr>().map(IpNet::from);
    address
        .or_else(|_| text.parse::<IpNet>().map(|network| network.trunc()))
        .map_err(|_| "expected a network: \"10.0.0.0/8\", \"2001:db8::/32\", \"192.0.2.7\"")
}

fn limits(mut section: Section<'_, '_>, to: &mut Limits) {
    section.set("connections", &mut to.connections, integer(1..=1_000_000));
    section.set("header_timeout", &mut to.header_timeout, duration(TIMEOUT));
    section.set("idle_timeout", &mut to.idle_timeout, duration(TIMEOUT));
    let head = KIB as u64..=MIB as u64;
    section.set("header_bytes", &mut to.header_bytes, bytes(head));
    // hyper takes no more.
    section.set("uri_bytes", &mut to.uri_bytes, bytes(256..=65_534));
    let drain = Duration::ZERO..=hours(24);
    section.set("drain", &mut to.drain, duration(drain));
    section.require(
        to.uri_bytes <= to.header_bytes,
        &["uri_bytes", "header_bytes"],
        || {
            format!(
                "uri_bytes ({}) must not exceed header_bytes ({}), which counts the request line too",
                format_bytes(to.uri_bytes as u64),
                format_bytes(to.header_bytes as u64),
            )
        },
    );
    section.finish();
}

fn agent(mut section: Section<'_, '_>, to: &mut AgentConfig) {
    let token = text(ProductToken::new);
    section.set("product_tokens", &mut to.product_tokens, one_or_list(token));
    section.finish();
}

fn robots<'t>(mut section: Section<'_, 't>, to: &mut RobotsConfig) -> Option<&'t DeTable<'t>> {
    let size = LEAST_SIZE_LIMIT..=64 * MIB as u64;
    section.set("size_limit", &mut to.size_limit, bytes(size));
    let redirects = LEAST_REDIRECTS..=20;
    section.set("max_redirects", &mut to.max_redirects, integer(redirects));
    section.set(
        "connect_timeout",
        &mut to.connect_timeout,
        duration(TIMEOUT),
    );
    section.set(
        "first_byte_timeout",
        &mut to.first_byte_timeout,
        duration(TIMEOUT),
    );
    section.set("fetch_timeout", &mut to.fetch_timeout, duration(TIMEOUT));
    section.set("hold", &mut to.hold, duration(TIMEOUT));
    section.set("lenient", &mut to.lenient, boolean);
    section.set("path_guard", &mut to.path_guard, boolean);
    section.set("soft_404", &mut to.soft_404, boolean);
    section.set("deny_statuses", &mut to.deny_statuses, list(deny_status));
    section.set(
        "unreachable_status",
        &mut to.unreachable_status,
        unreachable_status,
    );
    timing(&mut section, &mut to.timing);
    profile(&mut section, &mut to.timing.profile);
    let cache = section.subsection("cache");
    section.finish();
    cache
}

fn deny_status(value: &Value<'_>) -> Read<u16> {
    match integer(400..=499)(value) {
        Ok(429) => Err(Refusal::new(value, "429 always means unreachable")),
        Ok(status) => Ok(status),
        Err(_) => Err(Refusal::new(value, "expected a status from 400 to 499")),
    }
}

fn unreachable_status(value: &Value<'_>) -> Read<u16> {
    match integer(0..=999)(value) {
        Ok(status @ (403 | 503)) => Ok(status),
        _ => Err(Refusal::new(value, "not one of 403, 503")),
    }
}

fn timing(section: &mut Section<'_, '_>, to: &mut Timing) {
    section.set("fresh", &mut to.fresh, duration(ONE_MS..=days(365)));
    section.set("fresh_min", &mut to.fresh_min, duration(SPAN));
    section.set("fresh_max", &mut to.fresh_max, duration(ONE_MS..=days(365)));
    section.set("refresh_ahead", &mut to.refresh_ahead, number(0.01..=1.0));
    section.set("retry_min", &mut to.retry_min, duration(TIMEOUT));
    section.set("retry_max", &mut to.retry_max, duration(TIMEOUT));
    section.set("retry_max_503", &mut to.retry_max_503, duration(TIMEOUT));
    section.set("jitter", &mut to.jitter, number(0.0..=1.0));
    let order = [
        ("fresh_min", to.fresh_min, "fresh", to.fresh),
        ("fresh", to.fresh, "fresh_max", to.fresh_max),
        ("retry_min", to.retry_min, "retry_max", to.retry_max),
        ("retry_min", to.retry_min, "retry_max_503", to.retry_max_503),
    ];
    for (less, lower, more, upper) in order {
        section.require(lower <= upper, &[less, more], || {
            let (lower, upper) = (format_duration(lower), format_duration(upper));
            format!("{less} ({lower}) must not exceed {more} ({upper}): set both")
        });
    }
}

fn profile(section: &mut Section<'_, '_>, to: &mut ProfileRules) {
    // The profile is read first: it brings values of its own, which the keys below then change one by one.
    let mut name = to.name;
    section.set("profile", &mut name, choice(&PROFILES));
    *to = ProfileRules::of(name);
    section.set("disallow_for", &mut to.disallow_for, duration(SPAN));
    section.set(
        "last_good_until",
        &mut to.last_good_until,
        unless(FOREVER, duration(SPAN)),
    );
    section.set("finally", &mut to.finally, choice(&FINALLY));
    let until = to.last_good_until.unwrap_or(Duration::MAX);
    section.require(
        to.disallow_for <= until,
        &["disallow_for", "last_good_until", "profile"],
        || {
            format!(
                "disallow_for ({}) must not exceed last_good_until ({}): both count from the first failure",
                format_duration(to.disallow_for),
                format_duration(until),
            )
        },
    );
}

fn cache(mut section: Section<'_, '_>, to: &mut CacheConfig) {
    section.set("origins", &mut to.origins, integer(1..=100_000_000));
    section.set("bytes", &mut to.bytes, bytes(MEMORY));
    section.finish();
}

fn pace(mut section: Section<'_, '_>, to: &mut PaceConfig) {
    section.set(
        "requests_per_second",
        &mut to.requests_per_second,
        // One request a day, up to what a clock of nanoseconds can tell apart.
        unless(UNLIMITED, number(0.00001..=1_000_000.0)),
    );
    section.set("burst", &mut to.burst, integer(1..=1_000_000));
    section.set(
        "max_hold",
        &mut to.max_hold,
        duration(Duration::ZERO..=hours(24)),
    );
    section.finish();
}

fn tls(mut section: Section<'_, '_>, base: &Path, to: &mut TlsConfig) {
    section.set("ca_cert", &mut to.ca_cert, path(base));
    section.set("ca_key", &mut to.ca_key, path(base));
    // One without the other would pair the file's choice with the default place of another CA.
    section.require(
        section.names("ca_cert") == section.names("ca_key"),
        &["ca_cert", "ca_key"],
        || "ca_cert and ca_key belong together: set both or neither".to_owned(),
    );
    let lifetime = secs(60)..=days(397);
    section.set("leaf_lifetime", &mut to.leaf_lifetime, duration(lifetime));
    section.set("leaf_cache", &mut to.leaf_cache, integer(1..=10_000_000));
    section.set("tunnel", &mut to.tunnel, list(text(HostPattern::new)));
    section.set("extra_roots", &mut to.extra_roots, one_or_list(path(base)));
    section.finish();
}

fn egress(mut section: Section<'_, '_>, to: &mut EgressConfig) {
    section.set("allow", &mut to.allow, one_or_list(text(Destination::new)));
    section.set("deny", &mut to.deny, one_or_list(text(Destination::new)));
    section.set("connect_ports", &mut to.connect_ports, list(port_range));
    section.finish();
}

fn port_range(value: &Value<'_>) -> Read<PortRange> {
    let range = match value.get_ref() {
        DeValue::Integer(_) => integer(1..=65_535)(value).ok().map(PortRange::one),
        DeValue::String(text) => PortRange::parse(text),
        _ => None,
    };
    range.ok_or_else(|| {
        Refusal::new(
            value,
            "expected a port, 8443, or a range of them, \"8000-8999\"",
        )
    })
}

/// One `[[upstream.proxy]]`.
fn route(mut section: Section<'_, '_>, base: &Path) -> Option<Route> {
    let mut named = Vec::new();
    section.set("hosts", &mut named, one_or_list(text(HostPattern::new)));
    let mut proxy = None;
    section.set("url", &mut proxy, |value| {
        let url = value.get_ref().as_str().ok_or("expected a text in quotes");
        let proxy = url.and_then(UpstreamProxy::parse);
        proxy.map(Some).map_err(|why| Refusal::secret(value, why))
    });
    let mut file = None;
    let read = |value: &_| path(base)(value).map(Some);
    section.set("credentials_file", &mut file, read);
    let mut is_direct = false;
    section.set("direct", &mut is_direct, boolean);
    section.demand("hosts");
    section.require(
        section.names("url") != is_direct,
        &["direct", "url", "hosts", "credentials_file"],
        || "name either the url of a proxy or direct = true".to_owned(),
    );
    let has_inline = (proxy.as_ref())
        .is_some_and(|proxy: &UpstreamProxy| proxy.credentials != Credentials::None);
    section.require(
        file.is_none() || (proxy.is_some() && !has_inline),
        &["credentials_file"],
        || "it goes with a url that holds no credentials itself".to_owned(),
    );
    section.finish();
    let via = match (proxy, file) {
        (None, _) => Via::Direct,
        (Some(proxy), None) => Via::Proxy(proxy),
        (Some(proxy), Some(file)) => Via::Proxy(UpstreamProxy {
            credentials: Credentials::File(file),
            ..proxy
        }),
    };
    Some(Route { hosts: named, via })
}

fn upstream<'t>(
    mut section: Section<'_, 't>,
    to: &mut UpstreamConfig,
) -> (Option<&'t DeTable<'t>>, Vec<&'t DeTable<'t>>) {
    section.set(
        "connect_timeout",
        &mut to.connect_timeout,
        duration(TIMEOUT),
    );
    section.set(
        "response_timeout",
        &mut to.response_timeout,
        duration(TIMEOUT),
    );
    section.set("idle_timeout", &mut to.idle_timeout, duration(TIMEOUT));
    section.set("idle_per_host", &mut to.idle_per_host, integer(0..=65_536));
    let hosts = section.subsection("hosts");
    let proxies = section.subsections("proxy");
    section.finish();
    (hosts, proxies)
}

fn hosts(mut section: Section<'_, '_>, to: &mut HashMap<String, IpAddr>) {
    section.each(|name, value| {
        let host = canonical_host(name).ok_or("not a host name")?;
        let address = value.get_ref().as_str().map(str::parse::<IpAddr>);
        let Some(Ok(address)) = address else {
            return Err("expected an IP address: \"192.0.2.1\"");
        };
        match to.insert(host, address) {
            None => Ok(()),
            Some(_) => Err("a second spelling of a host that is named before"),
        }
    });
}

fn log(mut section: Section<'_, '_>, base: &Path, to: &mut LogConfig) {
    section.set("decisions", &mut to.decisions, choice(&RECORDED));
    section.set("file", &mut to.file, |value| {
        // `false` is what people write who read the key as a switch.
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
    section.finish();
}

fn store(mut section: Section<'_, '_>, base: &Path, to: &mut StoreConfig) {
    section.set("path", &mut to.path, |value| {
        // `false` is what people write who read the key as a switch.
        if value.get_ref().as_bool() == Some(false) {
            return Ok(None);
        }
        unless("", path(base))(value)
    });
    section.set("synchronous", &mut to.synchronous, choice(&SYNCHRONOUS));
    section.finish();
}

fn audit(mut section: Section<'_, '_>, to: &mut AuditConfig) {
    section.set("durability", &mut to.durability, choice(&DURABILITY));
    let keep = hours(1)..=days(36_500);
    section.set("keep", &mut to.keep, unless(FOREVER, duration(keep)));
    let size = MIB as u64..=1 << 50;
    section.set("max_size", &mut to.max_size, unless(UNLIMITED, bytes(size)));
    let seal = secs(1)..=days(365);
    section.set("seal_every", &mut to.seal_every, duration(seal));
    section.finish();
}

fn admin(mut section: Section<'_, '_>, base: &Path, to: &mut AdminConfig) {
    section.set("socket", &mut to.socket, |value| {
        if value.get_ref().as_bool() == Some(false) {
            return Ok(None);
        }
        unless("", path(base))(value)
    });
    section.finish();
}

fn policy(mut section: Section<'_, '_>, to: &mut PolicyConfig) {
    section.set("mode", &mut to.mode, choice(&MODES));
    section.set("report_origins", &mut to.report_origins, list(text(origin)));
    section.set(
        "report_clients",
        &mut to.report_clients,
        list(text(network)),
    );
    section.finish();
}

/// An origin as people write it: a URL without anything after its authority.
fn origin(text: &str) -> Result<Origin, &'static str> {
    match Origin::parse(text) {
        Ok((origin, path)) if path == "/" => Ok(origin),
        _ => Err("expected an origin: \"https://site.example\", \"http://site.example:8080\""),
    }
}

/// One `[[override]]`, the `place`th. Who vouches for it and why stand in every record that it touches, so none may be
/// without.
fn override_(mut section: Section<'_, '_>, place: u32) -> Option<Override> {
    let mut said = (None, None, None, None);
    let (on, action, by, reason) = (&mut said.0, &mut said.1, &mut said.2, &mut said.3);
    section.set("origin", on, |value| text(origin)(value).map(Some));
    section.set("action", action, |value| choice(&ACTIONS)(value).map(Some));
    section.set("by", by, |value| text(words)(value).map(Some));
    section.set("reason", reason, |value| text(words)(value).map(Some));
    let mut pattern = "/".to_owned();
    section.set(
        "pattern",
        &mut pattern,
        text(|text| PathPattern::new(text).map(|_| text.to_owned())),
    );
    let mut until = None;
    section.set("until", &mut until, |value| moment(value).map(Some));
    for key in ["origin", "action", "by", "reason"] {
        section.demand(key);
    }
    section.finish();
    let (Some(origin), Some(action), Some(by), Some(reason)) = said else {
        return None;
    };
    Some(Override {
        id: OverrideId::Configured(place),
        origin,
        pattern,
        action,
        until,
        by,
        reason,
        created: Moment::default(),
    })
}

/// A day or a moment, in quotes or as TOML's own.
fn moment(value: &Value<'_>) -> Read<Moment> {
    let written = match value.get_ref() {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Datetime(datetime) => Some(datetime.to_string()),
        _ => None,
    };
    written
        .and_then(|text| parse_moment(&text))
        .ok_or_else(|| {
            let why = "expected a day, \"2026-12-31\" (it ends with that day, UTC), or a time, \"2026-12-31T12:00:00Z\"";
            Refusal::new(value, why)
        })
}

/// A filter of messages. A word alone must be a level: `EnvFilter` would take any other for the name of a target, and
/// a misspelt level would silence everything.
fn level(filter: &str) -> Result<String, String> {
    const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
    let allowed = || {
        "expected \"error\", \"warn\", \"info\", \"debug\", \"trace\" or \"off\", and target=level after commas, as in \
         \"info,crawlgate::proxy=debug\""
            .to_owned()
    };
    let plain = filter.split(',').all(|directive| {
        let directive = directive.trim();
        directive.contains('=')
            || LEVELS
                .iter()
                .any(|level| directive.eq_ignore_ascii_case(level))
    });
    if !plain {
        return Err(allowed());
    }
    match EnvFilter::builder().parse(filter) {
        Ok(_) => Ok(filter.to_owned()),
        Err(_) => Err(allowed()),
    }
}
