//! `[[client]]`: the clients of the proxy.

use std::sync::Arc;
use std::time::Duration;

use toml::de::DeTable;

use super::super::{
    ClientConfig, Listener, Quota, Rate,
    client::{CertificateMatch, Conditions, PasswordHash},
    days,
    read::{Entry, Reader, Refusal, Section},
    secs,
    values::{bytes, choice, duration, integer, number, one_or_list, text},
};
use super::{MODES, PROFILES, ingress::network, signals, signing::identity};
use crawlgate_origins::identity::client_name;
use crawlgate_origins::identity::{self, LONGEST_USER_AGENT};
use crawlgate_policy::overrides::words;
use crawlgate_robots::ProductToken;
use crawlgate_signing::Settings;

/// Names that a `[[client]]` may mean; `None` where some are unknown because of a fault.
#[derive(Clone, Copy)]
pub(super) struct Known<'a> {
    pub(super) listeners: Option<&'a [Listener]>,
    pub(super) identities: Option<&'a [Settings]>,
}

/// Reads one `[[client]]`, after those in `before`.
pub(super) fn client<'t>(
    reader: &mut Reader<'t>,
    entry: Entry<'t>,
    before: &[ClientConfig],
    known: Known<'_>,
) -> Option<ClientConfig> {
    let mut section = reader.entry("[client]", entry);
    let mut name = None;
    section.set("name", &mut name, |value| {
        text(client_name)(value).map(Some)
    });
    section.demand("name");
    let conditions = conditions(&mut section, known.listeners);
    let mut product_tokens = Vec::new();
    let token = text(ProductToken::new);
    section.set("product_tokens", &mut product_tokens, one_or_list(token));
    let mut user_agent = None;
    section.set("user_agent", &mut user_agent, |value| {
        text(|text| identity::user_agent(text, LONGEST_USER_AGENT))(value).map(Some)
    });
    let mut purposes = None;
    section.set("purposes", &mut purposes, |value| {
        signals::purposes(value).map(Some)
    });
    let (mut purpose, mut mode, mut profile) = (None, None, None);
    section.set("purpose", &mut purpose, |value| {
        text(words)(value).map(Some)
    });
    let mut signing = None;
    section.set("signing", &mut signing, |value| {
        identity(known.identities)(value).map(Some)
    });
    section.set("mode", &mut mode, |value| choice(&MODES)(value).map(Some));
    let mut exempt = None;
    section.set("exempt", &mut exempt, |value| {
        text(words)(value).map(|reason| Some(Arc::from(reason)))
    });
    section.require(exempt.is_none() || conditions.is_proof(), &["exempt"], || {
        "too many could be this client: give it a password (`crawlgate client add`), certificates, or networks of at most a \
         /8 (IPv6: a /16)"
            .to_owned()
    });
    section.set("profile", &mut profile, |value| {
        choice(&PROFILES)(value).map(Some)
    });
    let rate = rate(&mut section);
    let (mut max_connections, mut max_requests) = (None, None);
    let count = |value: &_| integer(1..=1_000_000)(value).map(Some);
    section.set("connections", &mut max_connections, count);
    section.set("requests", &mut max_requests, count);
    let quota_table = section.subsection("quota");

    let is_taken = name.is_some() && before.iter().any(|one| Some(&one.name) == name.as_ref());
    section.require(!is_taken, &["name"], || {
        "another client has this name".to_owned()
    });
    let for_all = before.iter().find(|one| one.conditions.is_empty());
    section.require(for_all.is_none() || !section.names("name"), &["name"], || {
        let first = for_all.map_or("", |one| &*one.name);
        format!("never reached: {first:?}, before it, has no condition and fits everybody; put that one last")
    });
    section.finish();
    let quota = quota(reader, quota_table);
    Some(ClientConfig {
        name: name?,
        conditions,
        product_tokens,
        user_agent,
        purpose: purpose.map(String::into),
        purposes,
        signing,
        mode,
        exempt,
        profile,
        rate,
        quota,
        max_connections,
        max_requests,
    })
}

fn conditions(section: &mut Section<'_, '_>, listeners: Option<&[Listener]>) -> Conditions {
    let mut to = Conditions::default();
    section.set("password", &mut to.password, |value| {
        let text = value.get_ref().as_str().ok_or("expected a text in quotes");
        let hash = text.and_then(PasswordHash::parse);
        // An operator who writes a password instead of its hash must not find it in a log.
        hash.map(Some).map_err(|why| Refusal::secret(value, why))
    });
    section.set("networks", &mut to.networks, one_or_list(text(network)));
    let listener = text(|text| {
        let is_known = |known: &[Listener]| known.iter().any(|one| *one.name == *text);
        match listeners {
            Some(known) if !is_known(known) => Err("no [[listener]] has this name"),
            Some(_) | None => Ok(Arc::from(text)),
        }
    });
    section.set("listeners", &mut to.listeners, one_or_list(listener));
    let certificate = text(CertificateMatch::parse);
    section.set(
        "certificates",
        &mut to.certificates,
        one_or_list(certificate),
    );
    // An empty list could mean a condition that never matches, or no condition: refuse it.
    for (key, is_empty) in [
        ("networks", to.networks.is_empty()),
        ("listeners", to.listeners.is_empty()),
        ("certificates", to.certificates.is_empty()),
    ] {
        section.require(!(section.names(key) && is_empty), &[key], || {
            "expected at least one; leave the key out where it is no condition".to_owned()
        });
    }
    to
}

fn rate(section: &mut Section<'_, '_>) -> Option<Rate> {
    let mut requests_per_second = None;
    section.set("requests_per_second", &mut requests_per_second, |value| {
        number(1e-6..=1e6)(value).map(Some)
    });
    let mut burst = 1;
    section.set("burst", &mut burst, integer(1..=1_000_000));
    section.require(
        requests_per_second.is_some() || !section.names("burst"),
        &["burst"],
        || "it goes with requests_per_second".to_owned(),
    );
    Some(Rate {
        requests_per_second: requests_per_second?,
        burst,
    })
}

fn quota<'t>(reader: &mut Reader<'t>, table: Option<&'t DeTable<'t>>) -> Option<Quota> {
    let table = table?;
    let mut section = reader.section("client.quota", Some(table));
    let (mut requests, mut octets) = (None, None);
    section.set("requests", &mut requests, |value| {
        integer(1..=1 << 53)(value).map(Some)
    });
    section.set("bytes", &mut octets, |value| {
        bytes(1..=1 << 53)(value).map(Some)
    });
    let mut per = Duration::ZERO;
    section.set("per", &mut per, duration(secs(1)..=days(366)));
    section.demand("per");
    section.require(
        section.names("requests") || section.names("bytes"),
        &["per"],
        || "name requests, bytes or both".to_owned(),
    );
    section.finish();
    Some(Quota {
        requests,
        bytes: octets,
        per,
    })
}
