//! `[[listener]]`: addresses and sockets besides `[listen] address` where crawlers connect, each with rules of its own.

use std::{fmt, net::SocketAddr, path::PathBuf, sync::Arc};

use super::{IpNet, Listen};

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
            ListenAt::Address(address) => Listen::may_reach(address, &self.allow, self.open),
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

/// The demand for a crawler's certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientCert {
    /// No session without a valid one.
    Required,
    /// A crawler without a certificate is served; one that shows a certificate must show a valid one.
    Optional,
}
