//! `[egress]`, `[upstream]`, `[upstream.hosts]`, `[[upstream.proxy]]`: the way out.

use std::{collections::HashMap, net::IpAddr, path::Path};

use toml::de::{DeTable, DeValue};

use super::super::{
    Credentials, Destination, EgressConfig, HostPattern, PortRange, Route, UpstreamConfig,
    UpstreamProxy, Via,
    read::{Entry, Read, Refusal, Section, Value},
    values::{boolean, bytes, duration, integer, list, one_or_list, path, text},
};
use super::TIMEOUT;
use crawlgate_policy::host::canonical_host;

/// Windows of HTTP/2 streams: from the one that every stream begins with (RFC 9113 6.9.2).
const HTTP2_WINDOW: std::ops::RangeInclusive<u64> = 64 * 1024..=64 * 1024 * 1024;

pub(super) fn egress(mut section: Section<'_, '_>, to: &mut EgressConfig) {
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

/// Reads one `[[upstream.proxy]]`.
pub(super) fn route(mut section: Section<'_, '_>, base: &Path) -> Option<Route> {
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
    Some(Route {
        scheme: None,
        hosts: named,
        via,
    })
}

pub(super) fn upstream<'t>(
    mut section: Section<'_, 't>,
    to: &mut UpstreamConfig,
) -> (Option<&'t DeTable<'t>>, Vec<Entry<'t>>) {
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
    section.set("body_timeout", &mut to.body_timeout, duration(TIMEOUT));
    section.set("idle_timeout", &mut to.idle_timeout, duration(TIMEOUT));
    section.set("idle_per_host", &mut to.idle_per_host, integer(0..=65_536));
    section.set("http2", &mut to.http2, boolean);
    section.set(
        "http1_hosts",
        &mut to.http1_hosts,
        list(text(HostPattern::new)),
    );
    section.set("ftp", &mut to.ftp, boolean);
    section.set("http2_streams", &mut to.http2_streams, integer(1..=65_536));
    section.set(
        "http2_connections",
        &mut to.http2_connections,
        integer(1..=65_536),
    );
    section.set("http2_window", &mut to.http2_window, bytes(HTTP2_WINDOW));
    section.set("via", &mut to.via, boolean);
    let hosts = section.subsection("hosts");
    let proxies = section.subsections("proxy");
    section.finish();
    (hosts, proxies)
}

pub(super) fn hosts(mut section: Section<'_, '_>, to: &mut HashMap<String, IpAddr>) {
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
