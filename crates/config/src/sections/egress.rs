//! `[egress]`, `[upstream]` and `[upstream.hosts]`: the way out.

use std::{collections::HashMap, net::IpAddr, time::Duration};

use toml::de::DeValue;

use crawlgate_policy::destination::{Destination, PortRange};
use crawlgate_policy::host::{HostPattern, canonical_host};

use super::route::{ROUTES, Route};
use super::*;

section! {
    /// `[egress]`
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct EgressConfig "egress" {
        /// Destinations outside the public internet that may be dialled.
        allow: Vec<Destination> = Vec::new(), one_or_list(|| text(Destination::new)), AtReload;
        /// Destinations that are never dialled, even if `allow` has them.
        deny: Vec<Destination> = Vec::new(), one_or_list(|| text(Destination::new)), AtReload;
        /// Ports that a CONNECT may request.
        connect_ports: Vec<PortRange> = vec![PortRange::one(443), PortRange::one(80)], list(ports()), AtReload;
    }
}

section! {
    /// `[upstream]`
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct UpstreamConfig "upstream" {
        /// Longest time to a connection, TLS included.
        connect_timeout: Duration = secs(10), timeout(), AtRestart;
        /// Longest time from the end of a request to the head of its response.
        response_timeout: Duration = secs(60), timeout(), AtRestart;
        /// Longest silence within a response's body.
        body_timeout: Duration = secs(60), timeout(), AtReload;
        /// Time that an unused connection is kept.
        idle_timeout: Duration = secs(90), timeout(), AtRestart;
        /// Unused connections kept per origin.
        idle_per_host: usize = 64, integer(0..=65_536), AtRestart;
        /// True to offer HTTP/2 to `https` origins.
        http2: bool = true, boolean(), AtReload;
        /// Hosts that HTTP/2 is not offered to.
        http1_hosts: Vec<HostPattern> = Vec::new(), list(text(HostPattern::new)), AtReload;
        /// True to forward requests for `ftp` URLs.
        ftp: bool = true, boolean(), AtReload;
        /// Most requests at once on one HTTP/2 connection.
        http2_streams: u32 = 100, integer(1..=65_536), AtRestart;
        /// Most HTTP/2 connections to one origin, for one client.
        http2_connections: usize = 8, integer(1..=65_536), AtRestart;
        /// Octets of a response by HTTP/2 that the origin may send before the crawler takes any: from the window that every
        /// stream begins with (RFC 9113 6.9.2).
        http2_window: u32 = 256 * KIB as u32, bytes(64 * KIB as u64..=64 * MIB as u64), AtRestart;
        /// True to name crawlgate in `Via`, both ways.
        via: bool = true, boolean(), AtRestart;
        /// `[upstream.hosts]`: addresses for names, used instead of a lookup, like `/etc/hosts`. Names are canonical.
        hosts: HashMap<String, IpAddr> = HashMap::new(), Hosts, AtRestart;
        /// `[[upstream.proxy]]`, in the order of the file: the first that names a host decides.
        routes as "proxy": Vec<Route> = Vec::new(), ROUTES, AtRestart;
    }
}

/// A port as a number, or a range in quotes.
fn ports() -> Form<PortRange> {
    let read = |value: &Value<'_>| match value.get_ref() {
        DeValue::Integer(_) => {
            let port = u16::try_from(whole(value)?).ok().filter(|port| *port != 0);
            port.map(PortRange::one)
        }
        DeValue::String(text) => PortRange::parse(text),
        _ => None,
    };
    let why = "expected a port, 8443, or a range of them, \"8000-8999\"";
    checked(read, why, |range| match range.single() {
        Some(port) => port.to_string(),
        None => quoted(range),
    })
}

/// Addresses by name.
type Addresses = HashMap<String, IpAddr>;

/// Names of the user's choice, with their addresses.
struct Hosts;

impl Key<Addresses> for Hosts {
    fn read(&self, _: Name, to: &mut Addresses, section: &mut Section<'_, '_>, _: &Context) {
        section.within("upstream.hosts", |hosts| {
            hosts.each(|name, value| {
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
        });
    }

    fn show(&self, key: Name, when: TakesEffect, hosts: &Addresses, to: &mut Vec<Entry>) {
        let hosts = hosts.iter();
        let hosts = hosts.map(|(host, address)| format!("{} = {}", quoted(host), quoted(address)));
        let mut hosts: Vec<String> = hosts.collect();
        hosts.sort_unstable();
        let value =
            if hosts.is_empty() { "{}".to_owned() } else { format!("{{ {} }}", hosts.join(", ")) };
        to.push(Entry::new(key, when, value));
    }
}
