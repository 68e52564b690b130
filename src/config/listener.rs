//! `[[listener]]`: places beside `[listen] address` where crawlers connect, each with rules of its own.

use std::{fmt, net::SocketAddr, path::PathBuf, sync::Arc};

use super::{IpNet, Listen};

/// One `[[listener]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    /// Its name, unique: what `[[client]]` entries, messages and sockets passed by systemd mean it by.
    pub name: Arc<str>,
    /// Where it listens.
    pub at: ListenAt,
    /// TLS between crawlers and the proxy; `None`: none.
    pub tls: Option<ListenerTls>,
    /// Networks whose crawlers may connect. Empty: whoever reaches it. A Unix socket's peers count as 127.0.0.1.
    pub allow: Vec<IpNet>,
    /// The operator wants an address that others can reach without an `allow` list.
    pub open: bool,
    /// Networks of load balancers that say with the PROXY protocol for whom they connect, and must.
    pub proxy_protocol_from: Vec<IpNet>,
}

impl Listener {
    /// Whether it is said who may connect; always so on the loopback interface and on a Unix socket.
    #[must_use]
    pub fn is_guarded(&self) -> bool {
        match &self.at {
            ListenAt::Unix { .. } => true,
            ListenAt::Address(address) => Listen::may_reach(address, &self.allow, self.open),
        }
    }
}

/// Where a listener listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAt {
    /// A TCP port. Port 0 asks the system for a free one.
    Address(SocketAddr),
    /// A Unix socket.
    Unix {
        /// Its path.
        path: PathBuf,
        /// The permission bits of its file, which say who may connect.
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
    /// What it shows.
    pub certificate: ListenerCertificate,
    /// Whom it wants to be shown; `None`: nobody.
    pub clients: Option<ClientAuthority>,
}

/// The certificate that a listener shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenerCertificate {
    /// A chain and its key, PEM. Read again at a reload.
    Files {
        /// The certificate, then what it was signed by.
        cert: PathBuf,
        /// Its private key.
        key: PathBuf,
    },
    /// Minted by the local CA for these names; never empty. A crawler that asks for none of them gets the first.
    Minted(Vec<String>),
}

/// By whom client certificates must be signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientAuthority {
    /// The authorities' certificates, PEM. Read again at a reload.
    pub file: PathBuf,
    /// Whether there is a way in without one.
    pub demand: ClientCert,
}

/// Whether crawlers must show a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientCert {
    /// No session without a valid one.
    Required,
    /// Who has none is served without; who shows one must show a valid one.
    Optional,
}
