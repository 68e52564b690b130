//! The sockets to listen on: those that systemd has passed, and new ones.

use std::io;
use std::net::{SocketAddr, TcpListener};

use listenfd::ListenFd;
use tokio::net::TcpSocket;

use crate::Failure;
use crawlgate_admin::{BindError, claim};
use crawlgate_config::{Config, Listen, ListenAt, Listener as Configured};
use crawlgate_proxy::listener::{Bound, Listener};

/// Connections that wait to be accepted, per listener.
const BACKLOG: u32 = 1024;

/// Returns all listeners, bound. The sockets that systemd passes under the name of a `[[listener]]` (FileDescriptorName=)
/// become that one's; other passed sockets replace `[listen] address`.
pub async fn listeners(config: &Config) -> Result<Vec<Listener>, Failure> {
    // Read first: reading the sockets removes the variables.
    let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
    let mut sockets = ListenFd::from_env();
    let mut names = names.split(':');
    let mut passed = Vec::new();
    for index in 0..sockets.len() {
        passed.push((names.next().unwrap_or_default(), take(&mut sockets, index)?));
    }

    let mut listeners = Vec::new();
    let mut named = Vec::new();
    for (name, socket) in passed {
        match config.listeners.iter().find(|one| &*one.name == name) {
            Some(configured) => named.push((configured, socket)),
            None => listeners.push(Listener::simple(guarded(socket, config)?, &config.listen)),
        }
    }
    if listeners.is_empty() {
        for address in &config.listen.addresses {
            let socket = Bound::Tcp(bind(address, "[listen] address")?);
            listeners.push(Listener::simple(socket, &config.listen));
        }
    }
    for configured in &config.listeners {
        let is_own = |(of, _): &(&Configured, Bound)| of.name == configured.name;
        let (own, rest): (Vec<_>, Vec<_>) = named.into_iter().partition(is_own);
        named = rest;
        if own.is_empty() {
            listeners.push(Listener::named(make(configured).await?, configured));
        }
        for (_, socket) in own {
            let socket = guarded_as(socket, configured)?;
            listeners.push(Listener::named(socket, configured));
        }
    }
    Ok(listeners)
}

fn take(sockets: &mut ListenFd, index: usize) -> Result<Bound, Failure> {
    let of = format!("socket {index} passed by the service manager");
    let taken = match sockets.take_tcp_listener(index) {
        Ok(taken) => taken.map(Bound::Tcp),
        // Not a TCP socket: try a Unix socket, and report that error if it is not one either.
        Err(_) => sockets
            .take_unix_listener(index)
            .map_err(|error| format!("{of}: {error}"))?
            .map(|socket| Bound::Unix(socket, None)),
    };
    Ok(taken.ok_or_else(|| format!("{of} is gone"))?)
}

/// Returns a passed socket of `[listen]`, if the settings limit who may connect.
fn guarded(socket: Bound, config: &Config) -> Result<Bound, Failure> {
    match address(&socket)? {
        Some(address) if !config.listen.may_listen_on(&address) => {
            Err(exposed("[listen]", address))
        }
        _ => Ok(socket),
    }
}

/// Returns a passed socket of a `[[listener]]`, under the same condition.
fn guarded_as(socket: Bound, configured: &Configured) -> Result<Bound, Failure> {
    let Some(address) = address(&socket)? else {
        return Ok(socket);
    };
    let there = Configured { at: ListenAt::Address(address), ..configured.clone() };
    if there.is_guarded() {
        return Ok(socket);
    }
    let of = format!("[[listener]] {:?},", configured.name);
    Err(exposed(&of, address))
}

/// Tells that anyone could connect to a passed socket.
fn exposed(of: &str, address: SocketAddr) -> Failure {
    let why = Listen::EXPOSED;
    format!("{of} {address}, passed by the service manager: {why}").into()
}

fn address(socket: &Bound) -> Result<Option<SocketAddr>, Failure> {
    match socket {
        Bound::Tcp(listener) => Ok(Some(listener.local_addr()?)),
        Bound::Unix(..) => Ok(None),
    }
}

async fn make(configured: &Configured) -> Result<Bound, Failure> {
    let label = format!("[[listener]] {:?}, address", configured.name);
    let (path, mode) = match &configured.at {
        ListenAt::Address(address) => return bind(address, &label).map(Bound::Tcp),
        ListenAt::Unix { path, mode } => (path, *mode),
    };
    let of = format!("[[listener]] {:?}, unix {}", configured.name, path.display());
    match claim(path, mode).await {
        Ok((listener, file)) => {
            let listener = listener.into_std();
            let listener = listener.map_err(|error| format!("{of}: {error}"))?;
            Ok(Bound::Unix(listener, Some(file)))
        }
        Err(BindError::Taken(_)) => {
            bail!("{of}: another process listens there; give this one a separate place")
        }
        Err(BindError::Failed { error, .. }) => {
            let hint = match error.kind() {
                io::ErrorKind::InvalidInput => {
                    "; the system allows about a hundred octets for it: name a shorter path"
                }
                io::ErrorKind::AlreadyExists => "; move that away, or name another path",
                _ => "",
            };
            bail!("{of}: {error}{hint}")
        }
    }
}

fn bind(address: &SocketAddr, key: &str) -> Result<TcpListener, Failure> {
    let bound = || {
        let socket = match address {
            SocketAddr::V4(_) => TcpSocket::new_v4(),
            SocketAddr::V6(_) => TcpSocket::new_v6(),
        }?;
        socket.set_reuseaddr(true)?;
        socket.bind(*address)?;
        socket.listen(BACKLOG)?.into_std()
    };
    bound().map_err(|error: io::Error| {
        let hint = match error.kind() {
            io::ErrorKind::AddrInUse => {
                format!(": is crawlgate running already? Set {key} to another port")
            }
            io::ErrorKind::AddrNotAvailable => {
                format!(": {key} must be an address of this machine")
            }
            io::ErrorKind::PermissionDenied => format!(": set {key} to a port above 1023"),
            _ => String::new(),
        };
        format!("cannot listen on {address}: {error}{hint}").into()
    })
}
