//! Every key of the file: its allowed values, and the rules between keys.
//!
//! The bounds keep out mistakes (a time-out of zero) and values that weaken the proxy: fewer redirects or a smaller
//! file than RFC 9309 requires would turn a restriction into its absence.

mod admin;
mod client;
mod egress;
mod fleet;
mod ingress;
mod kept;
mod listener;
mod pace;
mod policy;
mod robots;
mod ship;
mod signals;
mod signing;
mod telemetry;
mod tls;
mod witness;

use std::{ops::RangeInclusive, path::Path, sync::Arc, time::Duration};

use toml::de::DeTable;

use self::{
    admin::user,
    client::{Known, client},
    egress::{egress, hosts, route, upstream},
    fleet::fleet,
    ingress::{agent, limits, listen},
    kept::{admin, audit, log, store},
    listener::listener,
    pace::pace,
    policy::{override_, policy},
    robots::{cache, robots},
    ship::ship,
    signals::signals,
    signing::signing,
    telemetry::telemetry,
    tls::tls,
    witness::witness,
};
use super::{
    ClientCert, Config, CrawlDelayMode, Durability, Finally, KIB, LogFormat, MIB, Mismatch, Mode,
    OnFailure, ProfileName, Recorded, Role, Synchronous, Via, days, hours,
    read::{Entry, Reader},
};
use crawlgate_policy::overrides::Action;
use crawlgate_signing::{Cover, Form};
use crawlgate_usage::{Purpose, SignalMode};

/// Names of the profiles, as the file writes them.
pub(super) const PROFILES: [(&str, ProfileName); 3] = [
    ("standard", ProfileName::Standard),
    ("google", ProfileName::Google),
    ("archive", ProfileName::Archive),
];

/// Names of the final rulings.
pub(super) const FINALLY: [(&str, Finally); 2] =
    [("allow", Finally::Allow), ("reachable", Finally::Reachable)];

/// Names of the decisions recorded.
pub(super) const RECORDED: [(&str, Recorded); 3] = [
    ("denied", Recorded::Denied),
    ("purposes", Recorded::Purposes),
    ("all", Recorded::All),
];

/// Names of the reactions to a log failure.
pub(super) const ON_FAILURE: [(&str, OnFailure); 2] =
    [("deny", OnFailure::Deny), ("continue", OnFailure::Continue)];

/// Names of the formats of messages.
pub(super) const LOG_FORMATS: [(&str, LogFormat); 2] =
    [("text", LogFormat::Text), ("json", LogFormat::Json)];

/// Names of the durability of writes.
pub(super) const SYNCHRONOUS: [(&str, Synchronous); 2] =
    [("normal", Synchronous::Normal), ("full", Synchronous::Full)];

/// Names of the durability of denials.
pub(super) const DURABILITY: [(&str, Durability); 2] = [
    ("relaxed", Durability::Relaxed),
    ("strict", Durability::Strict),
];

/// Names of the reactions to a mismatched User-Agent.
pub(super) const MISMATCH: [(&str, Mismatch); 2] =
    [("record", Mismatch::Record), ("deny", Mismatch::Deny)];

/// Names of the treatments of a crawl delay.
pub(super) const CRAWL_DELAY: [(&str, CrawlDelayMode); 2] = [
    ("honour", CrawlDelayMode::Honour),
    ("record", CrawlDelayMode::Record),
];

/// Names of the demands for a client certificate.
pub(super) const CLIENT_CERTS: [(&str, ClientCert); 2] = [
    ("required", ClientCert::Required),
    ("optional", ClientCert::Optional),
];

/// Names of the roles.
pub(super) const ROLES: [(&str, Role); 3] = [
    (Role::Read.as_str(), Role::Read),
    (Role::Review.as_str(), Role::Review),
    (Role::Operate.as_str(), Role::Operate),
];

/// Names of the modes.
pub(super) const MODES: [(&str, Mode); 2] = [("enforce", Mode::Enforce), ("report", Mode::Report)];

/// Names of the parts of a request that are signed.
pub(super) const SIGNED_PARTS: [(&str, Cover); 2] =
    [("request", Cover::Request), ("authority", Cover::Authority)];

/// Names of the forms of Signature-Agent.
pub(super) const FORMS: [(&str, Form); 2] =
    [("dictionary", Form::Dictionary), ("string", Form::String)];

/// Names of the effects of an override.
pub(super) const ACTIONS: [(&str, Action); 2] = [("allow", Action::Allow), ("deny", Action::Deny)];

/// Names of the restrictions that an allow lifts, each with the allow that lifts them.
pub(super) const COVERS: [(&str, Action); 2] =
    [("all", Action::Allow), ("usage", Action::AllowUsage)];

/// Names of the treatments of a signal.
pub(super) const SIGNAL_MODES: [(&str, SignalMode); 3] = [
    ("off", SignalMode::Off),
    ("record", SignalMode::Record),
    ("enforce", SignalMode::Enforce),
];

/// Names of the purposes.
pub(super) const PURPOSES: [(&str, Purpose); 5] = [
    ("search", Purpose::Search),
    ("train-ai", Purpose::TrainAi),
    ("ai-input", Purpose::AiInput),
    ("tdm", Purpose::Tdm),
    ("other", Purpose::Other),
];

/// For `pace.requests_per_second`, `audit.max_size` and the like: no limit.
pub(super) const UNLIMITED: &str = "unlimited";

/// For `robots.unreachable_status`: the status follows the cause.
pub(super) const BY_CAUSE: &str = "by_cause";

/// For `robots.last_good_until` and `audit.keep`: no end.
pub(super) const FOREVER: &str = "forever";

/// The least octets of a robots.txt to read: 500 kibibytes (RFC 9309, section 2.5).
const LEAST_SIZE_LIMIT: u64 = 500 * KIB as u64;

/// The least redirects to follow (RFC 9309, section 2.3.1.2).
const LEAST_REDIRECTS: u64 = 5;

const ONE_MS: Duration = Duration::from_millis(1);

/// The bounds of a wait on the network: not zero, not so long that it never ends.
const TIMEOUT: RangeInclusive<Duration> = ONE_MS..=hours(24);

/// The bounds of freshness and of a span in a profile.
const SPAN: RangeInclusive<Duration> = Duration::ZERO..=days(3_650);

/// The bounds of a size in memory.
const MEMORY: RangeInclusive<u64> = MIB as u64..=1 << 40;

/// Puts the document's values into `config`. Paths start at `base`.
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
    let [
        egress_table,
        telemetry_table,
        fleet_table,
        ship_table,
        signals_table,
    ] = ["egress", "telemetry", "fleet", "ship", "signals"].map(|name| top.subsection(name));
    let [store_table, audit_table, admin_table, policy_table] =
        ["store", "audit", "admin", "policy"].map(|name| top.subsection(name));
    let override_tables = top.subsections("override");
    let client_tables = top.subsections("client");
    let listener_tables = top.subsections("listener");
    let signing_tables = top.subsections("signing");
    top.finish();

    let listener_count = listener_tables.len();
    listeners(listen_table, listener_tables, reader, base, config);
    limits(reader.section("limits", limits_table), &mut config.limits);
    let signing_count = signing_tables.len();
    for table in signing_tables {
        let section = reader.entry("[signing]", table);
        let identity = signing(section, base, &config.signing);
        config.signing.extend(identity);
    }
    // An identity with a fault has no known name.
    let known = config.signing.clone();
    let identities = (known.len() == signing_count).then_some(known.as_slice());
    let agent_section = reader.section("agent", agent_table);
    agent(agent_section, identities, &mut config.agent);
    let cache_table = robots(reader.section("robots", robots_table), &mut config.robots);
    let cache_section = reader.section("robots.cache", cache_table);
    cache(cache_section, &mut config.robots.cache);
    let signals_section = reader.section("signals", signals_table);
    signals(signals_section, Arc::make_mut(&mut config.robots.signals));
    pace(reader.section("pace", pace_table), &mut config.pace);
    tls(reader.section("tls", tls_table), base, &mut config.tls);
    egress(reader.section("egress", egress_table), &mut config.egress);
    ways_out(upstream_table, reader, base, config);
    log(reader.section("log", log_table), base, &mut config.log);
    let telemetry_section = reader.section("telemetry", telemetry_table);
    telemetry(telemetry_section, base, &mut config.telemetry);
    store_and_admin(store_table, admin_table, reader, base, config);
    evidence(audit_table, reader, base, config);
    ship(reader.section("ship", ship_table), base, config);
    fleet(reader.section("fleet", fleet_table), base, config);
    policy(reader.section("policy", policy_table), &mut config.policy);
    for (place, table) in (1..).zip(override_tables) {
        let section = reader.entry("[override]", table);
        config.policy.overrides.extend(override_(section, place));
    }
    // A listener with a fault has no known name.
    let known = &config.listeners;
    let known = Known {
        listeners: (known.len() == listener_count).then_some(known.as_slice()),
        identities,
    };
    for table in client_tables {
        let client = client(reader, table, &config.clients, known);
        config.clients.extend(client);
    }
}

/// Reads `[listen]` and the `[[listener]]`s.
fn listeners<'t>(
    listen_table: Option<&'t DeTable<'t>>,
    tables: Vec<Entry<'t>>,
    reader: &mut Reader<'t>,
    base: &Path,
    config: &mut Config,
) {
    let section = reader.section("listen", listen_table);
    listen(section, !tables.is_empty(), &mut config.listen);
    for table in tables {
        let section = reader.entry("[listener]", table);
        let listener = listener(section, base, &config.listeners);
        config.listeners.extend(listener);
    }
}

/// Reads `[upstream]`, its hosts and the upstream proxies.
fn ways_out<'t>(
    upstream_table: Option<&'t DeTable<'t>>,
    reader: &mut Reader<'t>,
    base: &Path,
    config: &mut Config,
) {
    let section = reader.section("upstream", upstream_table);
    let (hosts_table, proxy_tables) = upstream(section, &mut config.upstream);
    let hosts_section = reader.section("upstream.hosts", hosts_table);
    hosts(hosts_section, &mut config.upstream.hosts);
    for table in proxy_tables {
        let section = reader.entry("[upstream.proxy]", table);
        config.upstream.routes.extend(route(section, base));
    }
}

/// Reads `[store]`, `[admin]` and its users. Without a name, the socket lies beside the store.
fn store_and_admin<'t>(
    store_table: Option<&'t DeTable<'t>>,
    admin_table: Option<&'t DeTable<'t>>,
    reader: &mut Reader<'t>,
    base: &Path,
    config: &mut Config,
) {
    let admin_section = reader.section("admin", admin_table);
    let socket_is_named = admin_section.names("socket");
    let mut routes = config.upstream.routes.iter();
    let has_upstream_proxy = routes.any(|route| matches!(route.via, Via::Proxy(_)));
    let user_tables = admin(admin_section, base, has_upstream_proxy, &mut config.admin);
    for table in user_tables {
        let section = reader.entry("[admin.user]", table);
        let user = user(section, &config.admin.users);
        config.admin.users.extend(user);
    }
    let store_section = reader.section("store", store_table);
    if store_section.names("path") && !socket_is_named {
        config.admin.socket = None;
    }
    store(store_section, base, &mut config.store);
    if config.admin.socket.is_none() && !socket_is_named {
        // Beside the store, even if the file moves the store.
        let store = config.store.path.as_ref();
        config.admin.socket = store.map(|store| store.with_extension("sock"));
    }
}

/// Reads `[audit]` and the witnesses.
fn evidence<'t>(
    audit_table: Option<&'t DeTable<'t>>,
    reader: &mut Reader<'t>,
    base: &Path,
    config: &mut Config,
) {
    let section = reader.section("audit", audit_table);
    for table in audit(section, base, &mut config.audit) {
        let section = reader.entry("[audit.witness]", table);
        let witness = witness(section, base, &config.audit.witnesses);
        config.audit.witnesses.extend(witness);
    }
}
