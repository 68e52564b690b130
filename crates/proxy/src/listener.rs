//! Listeners for crawlers: TCP or a Unix socket, plain or TLS, each with separate rules.
//!
//! A [`Listener`] is a [`Bound`] socket with its rules, and not yet accepting. [`Proxy::serve_on`](super::Proxy::serve_on)
//! turns it into an `ActiveListener`, which accepts connections on a `Socket` of the runtime.
//!
//! This module collects the facts about a peer that come before any request: its address, which a load balancer may
//! [`announce`], and its certificate.
//!
//! A client of a Unix socket has no address. In limits, rules and records it is [`UNIX_PEER`]: a process of this
//! machine, like one on loopback, but with port 0.

pub mod announce;
mod stream;
mod tls;

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::ArcSwap;
use ipnet::IpNet;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustls::ServerConfig;
use tokio::net::{TcpListener, UnixListener};

pub use self::stream::Stream;
pub use self::tls::{TlsError, certificate, certificate_faults, http1_config};
use crawlgate_ca::Authority;
use crawlgate_config::{Listen, Listener as Configured, ListenerTls};
use crawlgate_net::socket_file::SocketFile;

/// Stands for the address of a Unix socket's client.
pub const UNIX_PEER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// A bound listener for crawlers.
#[derive(Debug)]
pub struct Listener {
    socket: Bound,
    rules: Rules,
}

/// A listening socket.
#[derive(Debug)]
pub enum Bound {
    /// A TCP port.
    Tcp(std::net::TcpListener),
    /// A Unix socket, with its file if crawlgate is to remove it.
    Unix(std::os::unix::net::UnixListener, Option<SocketFile>),
}

/// Admission rules of a listener.
#[derive(Debug, Default)]
struct Rules {
    name: Option<Arc<str>>,
    allow: Vec<IpNet>,
    open: bool,
    balancers: Vec<IpNet>,
    tls: Option<ListenerTls>,
}

impl Listener {
    /// Creates a listener of `[listen] address`.
    #[must_use]
    pub fn simple(socket: Bound, listen: &Listen) -> Listener {
        Listener {
            socket,
            rules: Rules { allow: listen.allow.clone(), open: listen.open, ..Rules::default() },
        }
    }

    /// Creates a listener of `[[listener]]`.
    #[must_use]
    pub fn named(socket: Bound, config: &Configured) -> Listener {
        let Configured { name, at: _, tls, allow, open, proxy_protocol_from } = config;
        Listener {
            socket,
            rules: Rules {
                name: Some(Arc::clone(name)),
                allow: allow.clone(),
                open: *open,
                balancers: proxy_protocol_from.clone(),
                tls: tls.clone(),
            },
        }
    }

    /// Makes the listener ready to accept. Its certificate is read, or minted by `authority`.
    ///
    /// # Errors
    /// When the socket cannot be watched, or there is no usable certificate.
    pub(super) fn open(self, authority: &Arc<Authority>) -> Result<ActiveListener, ListenError> {
        let Listener { socket, rules } = self;
        let failed = |error| ListenError::Socket(error);
        let socket = match socket {
            Bound::Tcp(listener) => {
                listener.set_nonblocking(true).map_err(failed)?;
                Socket::Tcp(TcpListener::from_std(listener).map_err(failed)?)
            }
            Bound::Unix(listener, file) => {
                listener.set_nonblocking(true).map_err(failed)?;
                Socket::Unix(UnixListener::from_std(listener).map_err(failed)?, file)
            }
        };
        let tls = rules
            .tls
            .as_ref()
            .map(|tls| tls::config(tls, authority).map(ArcSwap::from))
            .transpose();
        let tls = tls.map_err(|error| ListenError::Tls {
            listener: rules.name.clone().unwrap_or_default(),
            error,
        })?;
        Ok(ActiveListener { socket, rules, tls })
    }
}

/// Returns all faults of the files that listeners name, while a start stops at the first one.
#[must_use]
pub fn faults(listeners: &[Configured]) -> Vec<ListenError> {
    let faults = |listener: &Configured| {
        let faults = listener.tls.as_ref().map(tls::faults).unwrap_or_default();
        let listener = Arc::clone(&listener.name);
        faults.into_iter().map(move |error| ListenError::Tls {
            listener: Arc::clone(&listener),
            error: error.into(),
        })
    };
    listeners.iter().flat_map(faults).collect()
}

/// A listener for crawlers, ready to accept.
#[derive(Debug)]
pub(super) struct ActiveListener {
    socket: Socket,
    rules: Rules,
    tls: Option<ArcSwap<ServerConfig>>,
}

#[derive(Debug)]
enum Socket {
    Tcp(TcpListener),
    /// The file goes with the listener.
    Unix(UnixListener, #[allow(dead_code, reason = "held, not read")] Option<SocketFile>),
}

impl ActiveListener {
    /// Accepts the next connection and returns it with the peer's address.
    pub async fn accept(&self) -> io::Result<(Stream, SocketAddr)> {
        match &self.socket {
            Socket::Tcp(listener) => {
                let (stream, address) = listener.accept().await?;
                Ok((Stream::Tcp(stream, None), address))
            }
            Socket::Unix(listener, _) => {
                let (stream, _) = listener.accept().await?;
                Ok((Stream::Unix(stream), UNIX_PEER))
            }
        }
    }

    /// Tells whether a connection waits to be accepted. Where the system does not say, one does.
    pub fn has_waiting(&self) -> bool {
        let socket = match &self.socket {
            Socket::Tcp(listener) => listener.as_fd(),
            Socket::Unix(listener, _) => listener.as_fd(),
        };
        let mut asked = [PollFd::from_borrowed_fd(socket, PollFlags::IN)];
        poll(&mut asked, Some(&Timespec::default())).map_or(true, |ready| ready > 0)
    }

    /// Returns the listener's name.
    pub fn name(&self) -> Option<&Arc<str>> {
        self.rules.name.as_ref()
    }

    /// Returns the listener's address.
    pub fn local_addr(&self) -> io::Result<ListenAddr> {
        match &self.socket {
            Socket::Tcp(listener) => listener.local_addr().map(ListenAddr::Address),
            Socket::Unix(listener, _) => {
                let address = listener.local_addr()?;
                let path = address.as_pathname().unwrap_or("unnamed socket".as_ref());
                Ok(ListenAddr::Unix(path.to_owned()))
            }
        }
    }

    /// Tells whether a client of this address may connect.
    pub fn may_connect(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        let Rules { allow, open, .. } = &self.rules;
        *open || address.is_loopback() || allow.iter().any(|one| one.contains(&address))
    }

    /// Tells whether a peer at this address is a load balancer that announces its clients.
    pub fn is_balancer(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        let mut balancers = self.rules.balancers.iter();
        balancers.any(|network| network.contains(&address))
    }

    /// Returns the TLS settings, if the listener wants TLS.
    pub fn tls(&self) -> Option<Arc<ServerConfig>> {
        self.tls.as_ref().map(ArcSwap::load_full)
    }

    /// Reloads the certificates, for sessions from now on.
    ///
    /// # Errors
    /// When they cannot be loaded. The old ones stay in force.
    pub fn renew(&self, authority: &Arc<Authority>) -> Result<(), ListenError> {
        if let (Some(config), Some(tls)) = (&self.rules.tls, &self.tls) {
            let renewed = tls::config(config, authority).map_err(|error| ListenError::Tls {
                listener: self.rules.name.clone().unwrap_or_default(),
                error,
            })?;
            tls.store(renewed);
        }
        Ok(())
    }
}

/// Address of a listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListenAddr {
    /// A TCP port.
    Address(SocketAddr),
    /// A Unix socket.
    Unix(PathBuf),
}

impl fmt::Display for ListenAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ListenAddr::Address(address) => write!(f, "{address}"),
            ListenAddr::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

/// Reason that a listener cannot accept.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The socket cannot be watched.
    #[error("listening failed: {0}")]
    Socket(#[from] io::Error),
    /// The listener has no usable certificate.
    #[error("[[listener]] {listener:?}, {error}")]
    Tls {
        /// The listener's name.
        listener: Arc<str>,
        /// The cause.
        #[source]
        error: TlsError,
    },
}
