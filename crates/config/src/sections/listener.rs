//! `[[listener]]`: addresses and sockets besides `[listen] address` where crawlers connect, each with separate rules.
//!
//! `[listen]`: the addresses where crawlers connect, and the networks that may.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use ipnet::IpNet;

use super::*;
use crawlgate_origins::identity::client_name;
use crawlgate_robots::{Origin, Scheme};

/// One `[[listener]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    /// The unique name: `[[client]]` entries, messages and sockets passed by systemd refer to it.
    pub name: Arc<str>,
    /// The address or socket.
    pub at: ListenAt,
    /// TLS between crawlers and the proxy; `None`: none.
    pub tls: Option<ListenerTls>,
    /// Networks that crawlers may connect from. Empty: any that reaches the listener. A Unix socket's peers count as
    /// 127.0.0.1.
    pub allow: Vec<IpNet>,
    /// True if the operator accepts an address that other machines reach without an `allow` list.
    pub open: bool,
    /// Networks of load balancers, which must name their client with the PROXY protocol.
    pub proxy_protocol_from: Vec<IpNet>,
}

impl Listener {
    /// Tells whether the settings limit who may connect; always true on the loopback interface and on a Unix socket.
    #[must_use]
    pub fn is_guarded(&self) -> bool {
        match &self.at {
            ListenAt::Unix { .. } => true,
            ListenAt::Address(address) => may_reach(address, &self.allow, self.open),
        }
    }
}

/// The address or socket of a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAt {
    /// A TCP port. Port 0 asks the system for a free one.
    Address(SocketAddr),
    /// A Unix socket.
    Unix {
        /// Its path.
        path: PathBuf,
        /// The permission bits of its file, which limit the users that may connect.
        mode: u32,
    },
}

impl fmt::Display for ListenAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => write!(f, "{address}"),
            Self::Unix { path, .. } => write!(f, "{}", path.display()),
        }
    }
}

/// TLS of a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerTls {
    /// The certificate that the listener shows.
    pub certificate: ListenerCertificate,
    /// The authorities of client certificates; `None`: none is requested.
    pub clients: Option<ClientAuthority>,
}

/// The certificate that a listener shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenerCertificate {
    /// A chain and its key, PEM. Read again at a reload.
    Files {
        /// The certificate, then its issuers.
        cert: PathBuf,
        /// Its private key.
        key: PathBuf,
    },
    /// Minted by the local CA for these names; never empty. A crawler that requests none of them gets the first.
    Minted(Vec<String>),
}

/// The authorities that must have signed client certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientAuthority {
    /// The authorities' certificates, PEM. Read again at a reload.
    pub file: PathBuf,
    /// The demand for a certificate.
    pub demand: ClientCert,
}

words! {
    /// The demand for a crawler's certificate.
    pub enum ClientCert {
        /// No session without a valid one.
        Required = "required",
        /// A crawler without a certificate is served; one that shows a certificate must show a valid one.
        Optional = "optional",
    }
}

pub(crate) const LISTENERS: Tables<Listener> =
    Tables { name: "[listener]", read: listener, write: Keys::write };

table! {
    struct Keys of it: Listener [
        (address, unix, mode) = match &it.at {
            ListenAt::Address(address) => (Some(*address), None, None),
            ListenAt::Unix { path, mode } => (None, Some(path.clone()), Some(*mode)),
        },
        tls = it.tls.as_ref(),
        (cert, key, names) = match tls.map(|tls| &tls.certificate) {
            Some(ListenerCertificate::Files { cert, key }) => (Some(cert.clone()), Some(key.clone()), None),
            Some(ListenerCertificate::Minted(names)) => (None, None, Some(names.clone())),
            None => (None, None, None),
        },
        clients = tls.and_then(|tls| tls.clients.as_ref()),
    ] {
        name: Arc<str>, text(client_name), Some(it.name.clone());
        address: SocketAddr, socket_address(), address;
        unix: PathBuf, path(), unix;
        mode: u32, permissions(), mode;
        tls: bool, boolean(), tls.map(|_| true);
        cert: PathBuf, path(), cert;
        key: PathBuf, path(), key;
        names: Vec<String>, one_or_list(|| text(host_name)), names;
        client_ca: PathBuf, path(), clients.map(|clients| clients.file.clone());
        client_cert: ClientCert, word(), clients.map(|clients| clients.demand);
        allow: Vec<IpNet>, one_or_list(network), Some(it.allow.clone());
        open: bool, boolean(), Some(it.open);
        proxy_protocol_from: Vec<IpNet>, one_or_list(network), Some(it.proxy_protocol_from.clone());
    }
}

/// Reads one `[[listener]]`, after those in `before`; none if a required key is missing.
fn listener(table: &mut Section<'_, '_>, cx: &Context, before: &[Listener]) -> Option<Listener> {
    let mut keys = Keys::read(table, cx);
    table.demand(&["name"]);
    let is_new = is_new(before, |one| &one.name, &keys.name);
    table.require(is_new, &["name"], "another listener has this name");
    let at = place(table, &mut keys);
    let tls = tls(table, &mut keys);
    let (allow, open) = (keys.allow.unwrap_or_default(), keys.open.unwrap_or_default());
    let proxy_protocol_from = keys.proxy_protocol_from.unwrap_or_default();
    let says_who = proxy_protocol_from.is_empty() || open || !allow.is_empty();
    let of_balancers = &["proxy_protocol_from", "allow", "open"];
    let why = "name the networks of the crawlers that they may speak for, allow = [\"10.0.0.0/8\"], or let everybody in \
               with open = true";
    table.require(says_who, of_balancers, why);
    let listener = Listener { name: keys.name?, at: at?, tls, allow, open, proxy_protocol_from };
    table.require(listener.is_guarded(), &["address"], Listen::EXPOSED);
    Some(listener)
}

fn place(table: &mut Section<'_, '_>, keys: &mut Keys) -> Option<ListenAt> {
    let (is_unix, is_address) = (table.names("unix"), table.names("address"));
    if !is_unix {
        table.demand(&["address"]);
    }
    let why = "a listener has an address or a Unix socket; make two of it";
    table.require(!(is_unix && is_address), &["unix"], why);
    let why = "it is for a Unix socket: unix = \"…\"";
    table.require(is_unix || !table.names("mode"), &["mode"], why);
    match keys.unix.take() {
        Some(path) => Some(ListenAt::Unix { path, mode: keys.mode.unwrap_or(0o600) }),
        None => keys.address.map(ListenAt::Address),
    }
}

/// Checks `tls` and the keys that belong to it.
fn tls(table: &mut Section<'_, '_>, keys: &mut Keys) -> Option<ListenerTls> {
    let tls = keys.tls.unwrap_or_default();
    for about_tls in ["cert", "key", "names", "client_ca", "client_cert"] {
        let holds = tls || !table.names(about_tls);
        table.require(holds, &[about_tls], "it goes with tls = true");
    }
    let has_cert = table.names("cert");
    let why = "a certificate and its key go together; set both or neither";
    table.require(has_cert == table.names("key"), &["cert", "key"], why);
    let why = "they are for a certificate of the local CA; with cert and key, leave them out";
    table.require(!(has_cert && table.names("names")), &["names"], why);
    let has_ca = table.names("client_ca") || !table.names("client_cert");
    let why = "it goes with client_ca, which names the trusted CA";
    table.require(has_ca, &["client_cert"], why);
    let names = keys.names.take().unwrap_or_default();
    let why = "name a certificate with cert and key, or what the local CA mints one for, names = [\"proxy.example\"]";
    table.require(!tls || has_cert || !names.is_empty(), &["names", "tls"], why);
    let certificate = match (keys.cert.take(), keys.key.take()) {
        (Some(cert), Some(key)) => ListenerCertificate::Files { cert, key },
        _ => ListenerCertificate::Minted(names),
    };
    let demand = keys.client_cert.unwrap_or(ClientCert::Required);
    let clients = keys.client_ca.take();
    let clients = clients.map(|file| ClientAuthority { file, demand });
    tls.then_some(ListenerTls { certificate, clients })
}

/// Reads a host that a certificate can be for: a name or an address, no pattern.
fn host_name(text: &str) -> Result<String, &'static str> {
    Origin::new(Scheme::Https, text, None)
        .map(|origin| origin.host().trim_matches(['[', ']']).to_owned())
        .map_err(|_| "expected a host: \"proxy.example\", \"192.0.2.1\"")
}

/// Permission bits, octal as chmod takes them.
fn permissions() -> Form<u32> {
    let Form { read, .. } = text(|text| {
        let is_octal = |octet| matches!(octet, b'0'..=b'7');
        let is_mode = matches!(text.len(), 3..=4) && text.bytes().all(is_octal);
        match u32::from_str_radix(text, 8) {
            Ok(mode @ 0..=0o777) if is_mode => Ok(mode),
            _ => Err("expected permissions as chmod takes them: \"0600\", \"0660\""),
        }
    });
    Form::new(read, |mode| quoted(&format_args!("{mode:04o}")))
}

/// The address where crawlers connect.
pub const DEFAULT_ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8118);

section! {
    /// `[listen]`
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Listen "listen" {
        /// Addresses to listen on; empty only if there is a `[[listener]]`. Port 0 asks the system for a free one.
        addresses as "address": Vec<SocketAddr> = vec![DEFAULT_ADDRESS], one_or_list(socket_address), AtRestart;
        /// Networks that crawlers may connect from. Empty: any network that reaches an address.
        allow: Vec<IpNet> = Vec::new(), list(network()), AtRestart;
        /// True if the operator accepts an address that other machines reach without an `allow` list.
        open: bool = false, boolean(), AtRestart;
        /// True to offer HTTP/2 in the TLS sessions of crawlers: inside intercepted tunnels and on listeners with TLS.
        http2: bool = true, boolean(), AtReload;
    }
}

impl Listen {
    /// The advice about an address that [may not](Self::may_listen_on) be listened on.
    pub const EXPOSED: &str = "reachable from other machines; name the networks that may use it, \
        allow = [\"10.0.0.0/8\"], or let everybody in with open = true";

    /// Tells whether the settings limit who may connect to `address`; always true on the loopback interface.
    #[must_use]
    pub fn may_listen_on(&self, address: &SocketAddr) -> bool {
        may_reach(address, &self.allow, self.open)
    }

    /// Checks the section. Unless it `has_others`, a file that names no address would admit no crawler and is refused.
    pub(crate) fn check(&self, section: &mut Section<'_, '_>, has_others: bool) {
        let has_one = has_others || !self.addresses.is_empty();
        section.require(has_one, &["address"], "expected at least one address, or a [[listener]]");
        let holds = self.addresses.iter().all(|address| self.may_listen_on(address));
        section.require(holds, &["address"], Self::EXPOSED);
    }
}

/// Tells whether an address is on the loopback interface, or the settings limit who may connect to it.
pub(super) fn may_reach(address: &SocketAddr, allow: &[IpNet], open: bool) -> bool {
    address.ip().to_canonical().is_loopback() || open || !allow.is_empty()
}

/// An IP address and a port.
pub(super) fn socket_address() -> Form<SocketAddr> {
    text(|text: &str| {
        text.parse()
            .map_err(|_| "expected an IP address and a port: \"127.0.0.1:8118\", \"[::1]:8118\"")
    })
}

/// A network, or a single address.
pub(super) fn network() -> Form<IpNet> {
    text(|text: &str| {
        let address = text.parse::<IpAddr>().map(IpNet::from);
        address
            .or_else(|_| text.parse::<IpNet>().map(|network| network.trunc()))
            .map_err(|_| "expected a network: \"10.0.0.0/8\", \"2001:db8::/32\", \"192.0.2.7\"")
    })
}
