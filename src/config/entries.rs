//! The way back: a configuration as keys and values in text.
//!
//! One list of all keys has three uses: `config show` prints it, a reload compares two of them, and the tests compare
//! the reader and the commented `config.toml` with it. The structs are taken apart field by field, so a new field does
//! not compile until it stands here.

use std::{fmt::Write as _, path::Path};

use super::{
    AdminConfig, AgentConfig, AuditConfig, CacheConfig, ClientAuthority, ClientConfig, Conditions,
    Config, Credentials, EgressConfig, Limits, Listen, ListenAt, Listener, ListenerCertificate,
    ListenerTls, LogConfig, PaceConfig, PasswordHash, PolicyConfig, ProfileRules, Quota,
    RobotsConfig, Route, StoreConfig, TelemetryConfig, Timing, TlsConfig, UpstreamConfig, Via,
    format_bytes, format_duration,
    keys::{
        ACTIONS, CLIENT_CERTS, CRAWL_DELAY, DURABILITY, FINALLY, FOREVER, LOG_FORMATS, MISMATCH,
        MODES, ON_FAILURE, PROFILES, RECORDED, SYNCHRONOUS, UNLIMITED,
    },
    units::format_moment,
};

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

/// The changes of a new configuration, by key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReloadPlan {
    /// Changed keys, in force from now on.
    pub applied: Vec<&'static str>,
    /// Changed keys, in force after a restart only.
    pub needs_restart: Vec<&'static str>,
}

use crate::policy::overrides::Override;
use TakesEffect::{AtReload, AtRestart};

impl Config {
    /// Returns every key with its effective value, section by section.
    #[must_use]
    pub fn entries(&self) -> Vec<Entry> {
        let Self {
            listen,
            listeners,
            limits,
            agent,
            robots,
            pace,
            tls,
            egress,
            upstream,
            log,
            telemetry,
            store,
            audit,
            admin,
            policy,
            clients,
            source: _,
        } = self;
        let mut to = Entries(Vec::new());
        // A key of no section comes first: below a section's header it would belong to that section.
        to.overrides(&policy.overrides);
        to.listeners(listeners);
        to.clients(clients);
        to.listen(listen);
        to.limits(limits);
        to.agent(agent);
        to.robots(robots);
        to.pace(pace);
        to.tls(tls);
        to.egress(egress);
        to.upstream(upstream);
        to.log(log);
        to.telemetry(telemetry);
        to.store(store);
        to.audit(audit);
        to.admin(admin);
        to.policy(policy);
        to.0
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
                    AtReload => plan.applied.push(new.key),
                    AtRestart => plan.needs_restart.push(new.key),
                }
            }
        }
        plan
    }

    /// Returns the configuration in force after a reload, with its plan: `new`, but with this one's values for keys
    /// that only a restart can change.
    #[must_use]
    pub fn reloaded(&self, new: &Self) -> (Self, ReloadPlan) {
        let plan = self.reload_diff(new);
        let old = self.clone();
        let new = new.clone();
        let config = Self {
            listen: old.listen,
            listeners: old.listeners,
            limits: new.limits,
            agent: new.agent,
            robots: RobotsConfig {
                cache: old.robots.cache,
                max_fetches: old.robots.max_fetches,
                fetches_per_second: old.robots.fetches_per_second,
                ..new.robots
            },
            pace: new.pace,
            tls: TlsConfig {
                tunnel: new.tls.tunnel,
                ..old.tls
            },
            egress: new.egress,
            upstream: UpstreamConfig {
                body_timeout: new.upstream.body_timeout,
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
            audit: new.audit,
            admin: old.admin,
            policy: new.policy,
            clients: new.clients,
            source: new.source,
        };
        (config, plan)
    }
}

struct Entries(Vec<Entry>);

impl Entries {
    fn add(&mut self, key: &'static str, takes_effect: TakesEffect, value: impl Into<String>) {
        self.0.push(Entry {
            key,
            value: value.into(),
            takes_effect,
        });
    }

    fn listen(&mut self, from: &Listen) {
        let Listen {
            addresses,
            allow,
            open,
        } = from;
        self.add("listen.address", AtRestart, quoted_list(addresses));
        self.add("listen.allow", AtRestart, quoted_list(allow));
        self.add("listen.open", AtRestart, open.to_string());
    }

    fn listeners(&mut self, from: &[Listener]) {
        self.add("listener", AtRestart, array(from.iter().map(listener)));
    }

    fn limits(&mut self, from: &Limits) {
        let Limits {
            connections,
            connections_per_client,
            requests,
            requests_per_client,
            header_timeout,
            body_timeout,
            body_rate,
            idle_timeout,
            tunnel_idle_timeout,
            header_fields,
            header_bytes,
            uri_bytes,
            drain,
        } = from;
        self.add("limits.connections", AtReload, connections.to_string());
        for (key, most) in [
            ("limits.connections_per_client", connections_per_client),
            ("limits.requests", requests),
            ("limits.requests_per_client", requests_per_client),
        ] {
            self.add(key, AtReload, most_or_unlimited(*most));
        }
        self.add("limits.header_timeout", AtReload, span(*header_timeout));
        self.add("limits.body_timeout", AtReload, span(*body_timeout));
        self.add("limits.body_rate", AtReload, body_rate.to_string());
        self.add("limits.idle_timeout", AtReload, span(*idle_timeout));
        self.add(
            "limits.tunnel_idle_timeout",
            AtReload,
            span(*tunnel_idle_timeout),
        );
        self.add("limits.header_fields", AtReload, header_fields.to_string());
        self.add("limits.header_bytes", AtReload, size(*header_bytes as u64));
        self.add("limits.uri_bytes", AtReload, size(*uri_bytes as u64));
        self.add("limits.drain", AtReload, span(*drain));
    }

    fn agent(&mut self, from: &AgentConfig) {
        let AgentConfig {
            product_tokens,
            mismatch,
            require_identity,
        } = from;
        self.add(
            "agent.product_tokens",
            AtReload,
            quoted_list(product_tokens),
        );
        let mismatch = name(&MISMATCH, *mismatch);
        self.add("agent.mismatch", AtReload, mismatch);
        let require_identity = require_identity.to_string();
        self.add("agent.require_identity", AtReload, require_identity);
    }

    fn robots(&mut self, from: &RobotsConfig) {
        let RobotsConfig {
            size_limit,
            max_redirects,
            connect_timeout,
            first_byte_timeout,
            fetch_timeout,
            max_fetches,
            fetches_per_second,
            hold,
            lenient,
            path_guard,
            soft_404,
            soft_404_phrases,
            deny_statuses,
            unreachable_status,
            user_agent,
            timing,
            cache,
        } = from;
        let CacheConfig { origins, bytes } = cache;
        self.profile(&timing.profile);
        self.timing(timing);
        self.add("robots.size_limit", AtReload, size(*size_limit as u64));
        self.add("robots.max_redirects", AtReload, max_redirects.to_string());
        self.add("robots.connect_timeout", AtReload, span(*connect_timeout));
        self.add(
            "robots.first_byte_timeout",
            AtReload,
            span(*first_byte_timeout),
        );
        self.add("robots.fetch_timeout", AtReload, span(*fetch_timeout));
        self.add("robots.max_fetches", AtRestart, max_fetches.to_string());
        let rate = fetches_per_second.map_or_else(|| quoted(UNLIMITED), float);
        self.add("robots.fetches_per_second", AtRestart, rate);
        self.add("robots.hold", AtReload, span(*hold));
        self.add("robots.lenient", AtReload, lenient.to_string());
        self.add("robots.path_guard", AtReload, path_guard.to_string());
        self.add("robots.soft_404", AtReload, soft_404.to_string());
        self.add(
            "robots.soft_404_phrases",
            AtReload,
            quoted_list(soft_404_phrases),
        );
        let statuses = array(deny_statuses.iter().map(u16::to_string));
        self.add("robots.deny_statuses", AtReload, statuses);
        self.add(
            "robots.unreachable_status",
            AtReload,
            unreachable_status.to_string(),
        );
        self.add("robots.user_agent", AtReload, quoted(user_agent));
        self.add("robots.cache.origins", AtRestart, origins.to_string());
        self.add("robots.cache.bytes", AtRestart, size(*bytes as u64));
    }

    fn profile(&mut self, from: &ProfileRules) {
        let ProfileRules {
            name: profile,
            disallow_for,
            last_good_until,
            finally,
        } = from;
        self.add("robots.profile", AtReload, name(&PROFILES, *profile));
        self.add("robots.disallow_for", AtReload, span(*disallow_for));
        let until = last_good_until.map_or_else(|| quoted(FOREVER), span);
        self.add("robots.last_good_until", AtReload, until);
        self.add("robots.finally", AtReload, name(&FINALLY, *finally));
    }

    fn timing(&mut self, from: &Timing) {
        let Timing {
            fresh,
            fresh_min,
            fresh_max,
            refresh_ahead,
            retry_min,
            retry_max,
            retry_max_503,
            jitter,
            profile: _,
        } = from;
        self.add("robots.fresh", AtReload, span(*fresh));
        self.add("robots.fresh_min", AtReload, span(*fresh_min));
        self.add("robots.fresh_max", AtReload, span(*fresh_max));
        self.add("robots.refresh_ahead", AtReload, float(*refresh_ahead));
        self.add("robots.retry_min", AtReload, span(*retry_min));
        self.add("robots.retry_max", AtReload, span(*retry_max));
        self.add("robots.retry_max_503", AtReload, span(*retry_max_503));
        self.add("robots.jitter", AtReload, float(*jitter));
    }

    fn pace(&mut self, from: &PaceConfig) {
        let PaceConfig {
            requests_per_second,
            burst,
            concurrency,
            per_address,
            crawl_delay,
            max_crawl_delay,
            backoff,
            backoff_max,
            max_hold,
            max_held,
        } = from;
        let rate = requests_per_second.map_or_else(|| quoted(UNLIMITED), float);
        self.add("pace.requests_per_second", AtReload, rate);
        self.add("pace.burst", AtReload, burst.to_string());
        let concurrency = concurrency.map_or_else(|| quoted(UNLIMITED), |most| most.to_string());
        self.add("pace.concurrency", AtReload, concurrency);
        self.add("pace.per_address", AtReload, per_address.to_string());
        let crawl_delay = name(&CRAWL_DELAY, *crawl_delay);
        self.add("pace.crawl_delay", AtReload, crawl_delay);
        self.add("pace.max_crawl_delay", AtReload, span(*max_crawl_delay));
        self.add("pace.backoff", AtReload, backoff.to_string());
        self.add("pace.backoff_max", AtReload, span(*backoff_max));
        self.add("pace.max_hold", AtReload, span(*max_hold));
        self.add("pace.max_held", AtReload, max_held.to_string());
    }

    fn tls(&mut self, from: &TlsConfig) {
        let TlsConfig {
            ca_cert,
            ca_key,
            leaf_lifetime,
            leaf_cache,
            tunnel,
            extra_roots,
            name_constraints,
        } = from;
        self.add("tls.ca_cert", AtRestart, quoted(ca_cert.display()));
        self.add("tls.ca_key", AtRestart, quoted(ca_key.display()));
        self.add("tls.leaf_lifetime", AtRestart, span(*leaf_lifetime));
        self.add("tls.leaf_cache", AtRestart, leaf_cache.to_string());
        self.add("tls.tunnel", AtReload, quoted_list(tunnel));
        let roots = array(extra_roots.iter().map(|path| quoted(path.display())));
        self.add("tls.extra_roots", AtRestart, roots);
        let constraints = quoted_list(name_constraints);
        self.add("tls.name_constraints", AtRestart, constraints);
    }

    fn egress(&mut self, from: &EgressConfig) {
        let EgressConfig {
            allow,
            deny,
            connect_ports,
        } = from;
        self.add("egress.allow", AtReload, quoted_list(allow));
        self.add("egress.deny", AtReload, quoted_list(deny));
        let ports = connect_ports.iter().map(|range| match range.single() {
            Some(port) => port.to_string(),
            None => quoted(range),
        });
        self.add("egress.connect_ports", AtReload, array(ports));
    }

    fn upstream(&mut self, from: &UpstreamConfig) {
        let UpstreamConfig {
            connect_timeout,
            response_timeout,
            body_timeout,
            idle_timeout,
            idle_per_host,
            via,
            hosts,
            routes,
        } = from;
        self.add(
            "upstream.connect_timeout",
            AtRestart,
            span(*connect_timeout),
        );
        self.add(
            "upstream.response_timeout",
            AtRestart,
            span(*response_timeout),
        );
        self.add("upstream.body_timeout", AtReload, span(*body_timeout));
        self.add("upstream.idle_timeout", AtRestart, span(*idle_timeout));
        self.add(
            "upstream.idle_per_host",
            AtRestart,
            idle_per_host.to_string(),
        );
        self.add("upstream.via", AtRestart, via.to_string());
        let mut names: Vec<_> = hosts
            .iter()
            .map(|(host, address)| format!("{} = {}", quoted(host), quoted(address)))
            .collect();
        names.sort_unstable();
        let table = match names.as_slice() {
            [] => "{}".to_owned(),
            names => format!("{{ {} }}", names.join(", ")),
        };
        self.add("upstream.hosts", AtRestart, table);
        let routes = array(routes.iter().map(route));
        self.add("upstream.proxy", AtRestart, routes);
    }

    fn log(&mut self, from: &LogConfig) {
        let LogConfig {
            decisions,
            file,
            stdout,
            rotate_bytes,
            rotate_daily,
            keep,
            on_failure,
            redact_query,
            level,
            format,
        } = from;
        self.add("log.decisions", AtReload, name(&RECORDED, *decisions));
        self.add("log.file", AtRestart, place(file.as_deref()));
        self.add("log.stdout", AtRestart, stdout.to_string());
        self.add("log.rotate_bytes", AtRestart, size(*rotate_bytes));
        self.add("log.rotate_daily", AtRestart, rotate_daily.to_string());
        self.add("log.keep", AtRestart, keep.to_string());
        self.add("log.on_failure", AtReload, name(&ON_FAILURE, *on_failure));
        self.add("log.redact_query", AtReload, redact_query.to_string());
        self.add("log.level", AtReload, quoted(level));
        self.add("log.format", AtRestart, name(&LOG_FORMATS, *format));
    }

    fn telemetry(&mut self, from: &TelemetryConfig) {
        let TelemetryConfig {
            otlp_endpoint,
            headers_file,
            service_name,
            sample,
            logs,
        } = from;
        let endpoint = otlp_endpoint.as_deref().unwrap_or_default();
        self.add("telemetry.otlp_endpoint", AtRestart, quoted(endpoint));
        let file = place(headers_file.as_deref());
        self.add("telemetry.headers_file", AtRestart, file);
        self.add("telemetry.service_name", AtRestart, quoted(service_name));
        self.add("telemetry.sample", AtRestart, float(*sample));
        self.add("telemetry.logs", AtRestart, logs.to_string());
    }

    fn store(&mut self, from: &StoreConfig) {
        let StoreConfig { path, synchronous } = from;
        self.add("store.path", AtRestart, place(path.as_deref()));
        let synchronous = name(&SYNCHRONOUS, *synchronous);
        self.add("store.synchronous", AtRestart, synchronous);
    }

    fn audit(&mut self, from: &AuditConfig) {
        let AuditConfig {
            durability,
            keep,
            max_size,
            refusals_per_minute,
            seal_every,
        } = from;
        self.add("audit.durability", AtReload, name(&DURABILITY, *durability));
        let keep = keep.map_or_else(|| quoted(FOREVER), span);
        self.add("audit.keep", AtReload, keep);
        let max_size = max_size.map_or_else(|| quoted(UNLIMITED), size);
        self.add("audit.max_size", AtReload, max_size);
        let refusals = refusals_per_minute.to_string();
        self.add("audit.refusals_per_minute", AtReload, refusals);
        self.add("audit.seal_every", AtReload, span(*seal_every));
    }

    fn admin(&mut self, from: &AdminConfig) {
        let AdminConfig {
            socket,
            address,
            token_file,
            hosts,
            connections,
        } = from;
        self.add("admin.socket", AtRestart, place(socket.as_deref()));
        let address = address.map_or_else(|| quoted(""), quoted);
        self.add("admin.address", AtRestart, address);
        self.add("admin.token_file", AtRestart, place(token_file.as_deref()));
        self.add("admin.hosts", AtRestart, quoted_list(hosts));
        self.add("admin.connections", AtRestart, connections.to_string());
    }

    fn policy(&mut self, from: &PolicyConfig) {
        let PolicyConfig {
            mode,
            report_origins,
            report_clients,
            overrides: _,
        } = from;
        self.add("policy.mode", AtReload, name(&MODES, *mode));
        let origins = quoted_list(report_origins);
        self.add("policy.report_origins", AtReload, origins);
        let clients = quoted_list(report_clients);
        self.add("policy.report_clients", AtReload, clients);
    }

    fn clients(&mut self, from: &[ClientConfig]) {
        self.add("client", AtReload, array(from.iter().map(client)));
    }

    fn overrides(&mut self, from: &[Override]) {
        let tables = from.iter().map(|one| {
            let Override {
                id: _,
                origin,
                pattern,
                action,
                until,
                by,
                reason,
                created: _,
            } = one;
            let until = until.map(|until| format!("until = {}, ", quoted(format_moment(until))));
            format!(
                "{{ origin = {}, pattern = {}, action = {}, {}by = {}, reason = {} }}",
                quoted(origin),
                quoted(pattern),
                name(&ACTIONS, *action),
                until.unwrap_or_default(),
                quoted(by),
                quoted(reason),
            )
        });
        self.add("override", AtReload, array(tables));
    }
}

/// Writes one `[[client]]`; a digest stands for its password's hash, so that a change shows.
fn client(client: &ClientConfig) -> String {
    let ClientConfig {
        name: called,
        conditions,
        product_tokens,
        user_agent,
        purpose,
        mode,
        profile,
        rate,
        quota,
        max_connections,
        max_requests,
    } = client;
    let Conditions {
        password,
        networks,
        listeners,
        certificates,
    } = conditions;
    let mut keys = vec![format!("name = {}", quoted(called))];
    let mut say = |key: &str, value: Option<String>| {
        keys.extend(value.map(|value| format!("{key} = {value}")));
    };
    let some = |list: String| Some(list).filter(|list| list != "[]");
    let digest = password.as_ref().map(PasswordHash::digest);
    let hidden = digest.map(|digest| quoted(format!("*** ({digest})")));
    say("password", hidden);
    say("networks", some(quoted_list(networks)));
    say("listeners", some(quoted_list(listeners)));
    say("certificates", some(quoted_list(certificates)));
    say("product_tokens", some(quoted_list(product_tokens)));
    say("user_agent", user_agent.as_ref().map(quoted));
    say("purpose", purpose.as_ref().map(quoted));
    say("mode", mode.map(|mode| name(&MODES, mode)));
    say("profile", profile.map(|profile| name(&PROFILES, profile)));
    let per_second = rate.map(|rate| float(rate.requests_per_second));
    say("requests_per_second", per_second);
    say("burst", rate.map(|rate| rate.burst.to_string()));
    say("quota", quota.as_ref().map(self::quota));
    say(
        "connections",
        max_connections.map(|count| count.to_string()),
    );
    say("requests", max_requests.map(|count| count.to_string()));
    format!("{{ {} }}", keys.join(", "))
}

fn quota(quota: &Quota) -> String {
    let Quota {
        requests,
        bytes,
        per,
    } = quota;
    let requests = requests.map(|count| format!("requests = {count}, "));
    let bytes = bytes.map(|count| format!("bytes = {}, ", size(count)));
    let (requests, bytes) = (requests.unwrap_or_default(), bytes.unwrap_or_default());
    format!("{{ {requests}{bytes}per = {} }}", span(*per))
}

/// Writes one `[[upstream.proxy]]`; its password is not shown.
fn route(route: &Route) -> String {
    // A file cannot set a scheme.
    let Route {
        scheme: _,
        hosts,
        via,
    } = route;
    let hosts = quoted_list(hosts);
    let proxy = match via {
        Via::Direct => return format!("{{ hosts = {hosts}, direct = true }}"),
        Via::Proxy(proxy) => proxy,
    };
    let file = match &proxy.credentials {
        Credentials::File(file) => {
            format!(", credentials_file = {}", quoted(file.display()))
        }
        Credentials::None | Credentials::Inline { .. } => String::new(),
    };
    format!("{{ hosts = {hosts}, url = {}{file} }}", quoted(proxy))
}

/// Writes one `[[listener]]`.
fn listener(listener: &Listener) -> String {
    let Listener {
        name,
        at,
        tls,
        allow,
        open,
        proxy_protocol_from,
    } = listener;
    let mut keys = vec![format!("name = {}", quoted(name))];
    match at {
        ListenAt::Address(address) => keys.push(format!("address = {}", quoted(address))),
        ListenAt::Unix { path, mode } => {
            keys.push(format!("unix = {}", quoted(path.display())));
            keys.push(format!("mode = {}", quoted(format!("{mode:04o}"))));
        }
    }
    if let Some(ListenerTls {
        certificate,
        clients,
    }) = tls
    {
        keys.push("tls = true".to_owned());
        match certificate {
            ListenerCertificate::Files { cert, key } => {
                keys.push(format!("cert = {}", quoted(cert.display())));
                keys.push(format!("key = {}", quoted(key.display())));
            }
            ListenerCertificate::Minted(names) => {
                keys.push(format!("names = {}", quoted_list(names)));
            }
        }
        if let Some(ClientAuthority { file, demand }) = clients {
            let demand = self::name(&CLIENT_CERTS, *demand);
            keys.push(format!("client_ca = {}", quoted(file.display())));
            keys.push(format!("client_cert = {demand}"));
        }
    }
    keys.push(format!("allow = {}", quoted_list(allow)));
    keys.push(format!("open = {open}"));
    let balancers = quoted_list(proxy_protocol_from);
    keys.push(format!("proxy_protocol_from = {balancers}"));
    format!("{{ {} }}", keys.join(", "))
}

/// Writes a path, or empty quotes for none.
fn place(path: Option<&Path>) -> String {
    path.map_or_else(|| quoted(""), |path| quoted(path.display()))
}

/// Writes a text in TOML's quotes.
fn quoted(text: impl ToString) -> String {
    toml::Value::String(text.to_string()).to_string()
}

fn quoted_list<T: ToString>(items: &[T]) -> String {
    array(items.iter().map(|item| quoted(item.to_string())))
}

fn array(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(", "))
}

fn span(duration: std::time::Duration) -> String {
    quoted(format_duration(duration))
}

/// Writes a size with its unit, or a plain number if no unit divides it.
fn size(bytes: u64) -> String {
    let text = format_bytes(bytes);
    if text.ends_with('B') {
        quoted(text)
    } else {
        text
    }
}

fn most_or_unlimited(most: Option<usize>) -> String {
    most.map_or_else(|| quoted(UNLIMITED), |most| most.to_string())
}

fn float(number: f64) -> String {
    toml::Value::Float(number).to_string()
}

fn name<T: PartialEq>(names: &[(&'static str, T)], value: T) -> String {
    let found = names.iter().find(|(_, known)| *known == value);
    quoted(found.map_or("", |(name, _)| name))
}
