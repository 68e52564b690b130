//! `[listen]`, `[limits]`, `[agent]`: where crawlers connect, their limits, and their identity.

use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;

use super::super::{
    AgentConfig, KIB, Limits, Listen, MIB, format_bytes, hours,
    read::{Refusal, Section},
    values::{boolean, bytes, choice, duration, integer, list, one_or_list, text, unless},
};
use super::{MISMATCH, TIMEOUT, UNLIMITED, signing::identity};
use crawlgate_robots::ProductToken;
use crawlgate_signing::Settings;
use std::time::Duration;

/// Reads `[listen]`. Unless it `has_others`, a file that names no address would admit no crawler and is refused.
pub(super) fn listen(mut section: Section<'_, '_>, has_others: bool, to: &mut Listen) {
    section.set("address", &mut to.addresses, |value| {
        let addresses = one_or_list(text(socket_address))(value)?;
        if addresses.is_empty() && !has_others {
            let why = "expected at least one address, or a [[listener]]";
            return Err(Refusal::new(value, why));
        }
        Ok(addresses)
    });
    section.set("allow", &mut to.allow, list(text(network)));
    section.set("open", &mut to.open, boolean);
    section.set("http2", &mut to.http2, boolean);
    let holds = to.addresses.iter().all(|address| to.may_listen_on(address));
    section.require(holds, &["address"], || Listen::EXPOSED.to_owned());
    section.finish();
}

pub(super) fn socket_address(text: &str) -> Result<SocketAddr, &'static str> {
    text.parse()
        .map_err(|_| "expected an IP address and a port: \"127.0.0.1:8118\", \"[::1]:8118\"")
}

/// Reads a network, or a single address.
pub(super) fn network(text: &str) -> Result<IpNet, &'static str> {
    let address = text.parse::<IpAddr>().map(IpNet::from);
    address
        .or_else(|_| text.parse::<IpNet>().map(|network| network.trunc()))
        .map_err(|_| "expected a network: \"10.0.0.0/8\", \"2001:db8::/32\", \"192.0.2.7\"")
}

pub(super) fn limits(mut section: Section<'_, '_>, to: &mut Limits) {
    section.set("connections", &mut to.connections, integer(1..=1_000_000));
    let most = || unless(UNLIMITED, integer(1..=1_000_000));
    let per_client = &mut to.connections_per_client;
    section.set("connections_per_client", per_client, most());
    section.set("requests", &mut to.requests, most());
    section.set("requests_per_client", &mut to.requests_per_client, most());
    section.set("header_timeout", &mut to.header_timeout, duration(TIMEOUT));
    section.set("body_timeout", &mut to.body_timeout, duration(TIMEOUT));
    section.set("body_rate", &mut to.body_rate, integer(0..=1_000_000));
    section.set("header_fields", &mut to.header_fields, integer(8..=1_000));
    section.set("idle_timeout", &mut to.idle_timeout, duration(TIMEOUT));
    section.set(
        "tunnel_idle_timeout",
        &mut to.tunnel_idle_timeout,
        duration(TIMEOUT),
    );
    let head = KIB as u64..=MIB as u64;
    section.set("header_bytes", &mut to.header_bytes, bytes(head));
    // hyper takes no longer targets.
    section.set("uri_bytes", &mut to.uri_bytes, bytes(256..=65_534));
    section.set("http2_streams", &mut to.http2_streams, integer(1..=10_000));
    // The initial window of RFC 9113 is the least: a crawler may use it before it has seen our settings.
    let window = 64 * KIB as u64..=16 * MIB as u64;
    section.set("http2_window", &mut to.http2_window, bytes(window));
    section.set("http2_resets", &mut to.http2_resets, integer(1..=1_000_000));
    let frames = 100..=10_000_000;
    section.set(
        "http2_control_frames",
        &mut to.http2_control_frames,
        integer(frames),
    );
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

/// Reads `[agent]`. `identities` are the known `[[signing]]`.
pub(super) fn agent(
    mut section: Section<'_, '_>,
    identities: Option<&[Settings]>,
    to: &mut AgentConfig,
) {
    let token = text(ProductToken::new);
    section.set("product_tokens", &mut to.product_tokens, one_or_list(token));
    section.set("mismatch", &mut to.mismatch, choice(&MISMATCH));
    section.set("require_identity", &mut to.require_identity, boolean);
    section.set("signing", &mut to.signing, unless("", identity(identities)));
    section.finish();
}
