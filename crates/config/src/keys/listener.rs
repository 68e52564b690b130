//! `[[listener]]`: more addresses and sockets where crawlers connect.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::super::{
    ClientAuthority, ClientCert, Listen, ListenAt, Listener, ListenerCertificate, ListenerTls,
    read::Section,
    values::{boolean, choice, one_or_list, path, text},
};
use super::{
    CLIENT_CERTS,
    ingress::{network, socket_address},
};
use crawlgate_origins::identity::client_name;
use crawlgate_robots::{Origin, Scheme};

/// Reads one `[[listener]]`, after those in `before`; none if a required key is missing.
pub(super) fn listener(
    mut section: Section<'_, '_>,
    base: &Path,
    before: &[Listener],
) -> Option<Listener> {
    let mut name: Option<Arc<str>> = None;
    section.set("name", &mut name, |value| {
        text(client_name)(value).map(Some)
    });
    section.demand("name");
    let is_taken = name.is_some() && before.iter().any(|one| Some(&one.name) == name.as_ref());
    section.require(!is_taken, &["name"], || {
        "another listener has this name".to_owned()
    });
    let at = place(&mut section, base);
    let tls = tls(&mut section, base);
    let (mut allow, mut open, mut proxy_protocol_from) = (Vec::new(), false, Vec::new());
    section.set("allow", &mut allow, one_or_list(text(network)));
    section.set("open", &mut open, boolean);
    section.set(
        "proxy_protocol_from",
        &mut proxy_protocol_from,
        one_or_list(text(network)),
    );
    let says_who = proxy_protocol_from.is_empty() || open || !allow.is_empty();
    let keys = &["proxy_protocol_from", "allow", "open"];
    section.require(says_who, keys, || {
        "name the networks of the crawlers that they may speak for, allow = [\"10.0.0.0/8\"], or let everybody in \
         with open = true"
            .to_owned()
    });
    let listener = name.zip(at).map(|(name, at)| Listener {
        name,
        at,
        tls,
        allow,
        open,
        proxy_protocol_from,
    });
    let holds = listener.as_ref().is_none_or(Listener::is_guarded);
    section.require(holds, &["address"], || Listen::EXPOSED.to_owned());
    section.finish();
    listener
}

fn place(section: &mut Section<'_, '_>, base: &Path) -> Option<ListenAt> {
    let (mut address, mut socket, mut mode) = (None::<SocketAddr>, None::<PathBuf>, 0o600);
    section.set("address", &mut address, |value| {
        text(socket_address)(value).map(Some)
    });
    section.set("unix", &mut socket, |value| path(base)(value).map(Some));
    section.set("mode", &mut mode, text(permissions));
    if !section.names("unix") {
        section.demand("address");
    }
    section.require(
        !(section.names("unix") && section.names("address")),
        &["unix"],
        || "a listener has an address or a Unix socket; make two of it".to_owned(),
    );
    section.require(
        section.names("unix") || !section.names("mode"),
        &["mode"],
        || "it is for a Unix socket: unix = \"…\"".to_owned(),
    );
    match socket {
        Some(path) => Some(ListenAt::Unix { path, mode }),
        None => address.map(ListenAt::Address),
    }
}

/// Reads `tls` and the keys that belong to it.
fn tls(section: &mut Section<'_, '_>, base: &Path) -> Option<ListenerTls> {
    let mut tls = false;
    section.set("tls", &mut tls, boolean);
    let (mut cert, mut key, mut names) = (None, None, Vec::new());
    section.set("cert", &mut cert, |value| path(base)(value).map(Some));
    section.set("key", &mut key, |value| path(base)(value).map(Some));
    section.set("names", &mut names, one_or_list(text(host_name)));
    let (mut client_ca, mut demand) = (None, ClientCert::Required);
    section.set("client_ca", &mut client_ca, |value| {
        path(base)(value).map(Some)
    });
    section.set("client_cert", &mut demand, choice(&CLIENT_CERTS));

    for about_tls in ["cert", "key", "names", "client_ca", "client_cert"] {
        let holds = tls || !section.names(about_tls);
        section.require(holds, &[about_tls], || "it goes with tls = true".to_owned());
    }
    section.require(
        section.names("cert") == section.names("key"),
        &["cert", "key"],
        || "a certificate and its key go together; set both or neither".to_owned(),
    );
    section.require(
        !(section.names("cert") && section.names("names")),
        &["names"],
        || {
            "they are for a certificate of the local CA; with cert and key, leave them out"
                .to_owned()
        },
    );
    section.require(
        section.names("client_ca") || !section.names("client_cert"),
        &["client_cert"],
        || "it goes with client_ca, which names the trusted CA".to_owned(),
    );
    let has_certificate = section.names("cert") || !names.is_empty();
    section.require(!tls || has_certificate, &["names", "tls"], || {
        "name a certificate with cert and key, or what the local CA mints one for, \
         names = [\"proxy.example\"]"
            .to_owned()
    });
    let certificate = match (cert, key) {
        (Some(cert), Some(key)) => ListenerCertificate::Files { cert, key },
        _ => ListenerCertificate::Minted(names),
    };
    let clients = client_ca.map(|file| ClientAuthority { file, demand });
    tls.then_some(ListenerTls {
        certificate,
        clients,
    })
}

/// Reads a host that a certificate can be for: a name or an address, no pattern.
fn host_name(text: &str) -> Result<String, &'static str> {
    Origin::new(Scheme::Https, text, None)
        .map(|origin| origin.host().trim_matches(['[', ']']).to_owned())
        .map_err(|_| "expected a host: \"proxy.example\", \"192.0.2.1\"")
}

/// Reads permission bits, octal as chmod takes them.
fn permissions(text: &str) -> Result<u32, &'static str> {
    let digits = (3..=4).contains(&text.len()) && text.bytes().all(|b| matches!(b, b'0'..=b'7'));
    match u32::from_str_radix(text, 8) {
        Ok(mode @ 0..=0o777) if digits => Ok(mode),
        _ => Err("expected permissions as chmod takes them: \"0600\", \"0660\""),
    }
}
