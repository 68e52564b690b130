//! Connects to an origin by its route: name → addresses → address policy → connection, in one go.
//!
//! The dialled addresses are those that were judged; nothing is looked up between the two. If a name has several
//! addresses, only the allowed ones are dialled, so a public address beside a prohibited one serves, and the prohibited
//! one is never contacted. If all are prohibited, the first one gives the reason.
//!
//! An upstream proxy resolves the name itself, and the address policy cannot see the result: it judges literal
//! addresses, names that the operator denies or gives an address, and `localhost`. The rest is the proxy's duty. The
//! operator has named the proxy itself, so it may be in a private network; but not at an address that `deny` lists, nor
//! at one that crawlgate listens on.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arc_swap::ArcSwap;
use rustix::net::sockopt::set_tcp_keepidle;
use tokio::net::{TcpSocket, TcpStream};

use super::happy_eyeballs::{LateAddresses, interleave, race};
use super::resolve::{Found, Names};
use super::upstream_proxy::{self, ProxyCredentials};
use super::{EgressError, Failure, ViaChain};
use crawlgate_config::{
    Config, Credentials, HostPattern, ProxyProtocol, UpstreamConfig, UpstreamProxy, Via,
    check_credentials,
};
use crawlgate_policy::address_policy::{AddressPolicy, Prohibited, ProhibitedBy, literal};
use crawlgate_robots::{Origin, Scheme};
use crawlgate_system::descriptors::is_exhaustion;

/// Time of silence on a connection before the system probes the other side.
const SILENT: Duration = Duration::from_secs(60);

/// Makes connections.
#[derive(Debug)]
pub(super) struct Dialler {
    policy: ArcSwap<AddressPolicy>,
    names: ArcSwap<Names>,
    routes: Vec<KnownRoute>,
    /// Our name in `Via` to upstream proxies.
    name: OnceLock<Box<str>>,
    /// True if an origin is dialled only at the port of its scheme.
    default_ports_only: AtomicBool,
}

/// A configured route: its origins and its proxy; no proxy: directly.
#[derive(Debug)]
struct KnownRoute {
    scheme: Option<Scheme>,
    hosts: Vec<HostPattern>,
    proxy: Option<Proxy>,
}

/// An upstream proxy, ready for use.
struct Proxy {
    protocol: ProxyProtocol,
    host: String,
    port: u16,
    login: Option<ProxyCredentials>,
}

impl Dialler {
    /// Builds a dialler as configured, for a proxy that listens nowhere yet.
    pub(super) fn new(config: &Config) -> Result<Dialler, EgressError> {
        let routes = config.upstream.routes.iter().map(|route| {
            let proxy = match &route.via {
                Via::Direct => None,
                Via::Proxy(proxy) => Some(Proxy::new(proxy)?),
            };
            Ok(KnownRoute { scheme: route.scheme, hosts: route.hosts.clone(), proxy })
        });
        Ok(Dialler {
            policy: ArcSwap::from_pointee(config.egress.address_policy(Vec::new())),
            names: ArcSwap::from_pointee(Names::of_system(config.upstream.hosts.clone())),
            routes: routes.collect::<Result<_, EgressError>>()?,
            name: OnceLock::new(),
            default_ports_only: AtomicBool::new(false),
        })
    }

    /// Returns the present address policy.
    pub(super) fn address_policy(&self) -> arc_swap::Guard<Arc<AddressPolicy>> {
        self.policy.load()
    }

    /// Puts another address policy in force and forgets resolved names. The routes stay as they were.
    pub(super) fn reconfigure(&self, config: &Config) {
        self.policy.rcu(|policy| config.egress.address_policy(policy.own().to_vec()));
        let names = Names::of_system(config.upstream.hosts.clone());
        self.names.store(Arc::new(names));
    }

    /// Sets the addresses that this proxy listens on.
    pub(super) fn listens_on(&self, own: &[SocketAddr]) {
        self.policy.rcu(|policy| policy.listening_on(own));
    }

    /// Dials each origin only at the port of its scheme from now on.
    pub(super) fn keep_to_default_ports(&self) {
        self.default_ports_only.store(true, Ordering::Relaxed);
    }

    /// Sets our name. Later calls change nothing.
    pub(super) fn signs_as(&self, name: &str) {
        let _ = self.name.set(name.into()); // known already
    }

    #[cfg(test)]
    pub(super) fn asks(&self, names: Names) {
        self.names.store(Arc::new(names));
    }

    /// Checks that an origin could be dialled. Looks up its name, and dials nothing.
    pub(super) async fn resolve_and_check(&self, origin: &Origin) -> Result<(), Failure> {
        let (host, port) = (origin.host(), origin.port());
        match self.proxy_for(origin) {
            Some(_) => self.by_proxy(host, port).map(drop),
            None => self.find(host, port).await.map(drop),
        }
    }

    /// Checks the address that a connection to an origin was made to. An upstream proxy hides it.
    pub(super) fn check_peer(&self, origin: &Origin, peer: SocketAddr) -> Result<(), Prohibited> {
        match self.proxy_for(origin) {
            Some(_) => Ok(()),
            None => self.policy.load().check(origin.host(), peer, is_local),
        }
    }

    /// Returns the addresses that an origin could be dialled at; none if an upstream proxy dials it.
    pub(super) async fn addresses(&self, origin: &Origin) -> Result<Vec<IpAddr>, Failure> {
        let (host, port) = (origin.host(), origin.port());
        match self.proxy_for(origin) {
            Some(_) => Ok(Vec::new()),
            None => {
                let found = self.find(host, port).await?;
                Ok(found.iter().map(SocketAddr::ip).collect())
            }
        }
    }

    /// Connects to an origin, directly or through an upstream proxy; the proxy receives the `via` of the request.
    pub(super) async fn dial(
        &self,
        origin: &Origin,
        via: Option<&ViaChain>,
    ) -> Result<TcpStream, Failure> {
        let (host, port) = (origin.host(), origin.port());
        let is_other = port != origin.scheme().default_port();
        if is_other && self.default_ports_only.load(Ordering::Relaxed) {
            return Err(Failure::Prohibited(Prohibited {
                address: None,
                by: ProhibitedBy::OtherPort(port),
            }));
        }
        match self.proxy_for(origin) {
            None => connect(self.find_in_parts(host, port).await?).await,
            Some(proxy) => self.tunnel(proxy, host, port, via).await,
        }
    }

    /// Makes a second connection to a host, for a protocol that needs one: to this address, or by the proxy that leads
    /// to the origin. The address policy judges it, too: it may prohibit the port.
    pub(super) async fn dial_second(
        &self,
        origin: &Origin,
        address: SocketAddr,
        via: Option<&ViaChain>,
    ) -> Result<TcpStream, Failure> {
        if let Some(proxy) = self.proxy_for(origin) {
            return self.tunnel(proxy, origin.host(), address.port(), via).await;
        }
        let judged = self.policy.load().check(origin.host(), address, is_local);
        judged.map_err(Failure::Prohibited)?;
        let now = vec![address];
        connect(AllowedAddresses { now, later: None }).await
    }

    /// Connects to a host through an upstream proxy.
    async fn tunnel(
        &self,
        proxy: &Proxy,
        host: &str,
        port: u16,
        via: Option<&ViaChain>,
    ) -> Result<TcpStream, Failure> {
        let host = self.by_proxy(host, port)?;
        let mut stream = self.dial_proxy(proxy).await.map_err(|failure| match failure {
            Failure::Prohibited(_) | Failure::Exhausted => failure,
            _ => Failure::ProxyUnreachable,
        })?;
        let login = proxy.login.as_ref();
        match proxy.protocol {
            ProxyProtocol::Http => {
                let via = self.via(via);
                upstream_proxy::http(&mut stream, &host, port, login, via.as_deref()).await?;
            }
            ProxyProtocol::Socks5 => {
                upstream_proxy::socks5(&mut stream, &host, port, login).await?;
            }
        }
        Ok(stream)
    }

    /// Returns the way with our own name at its end.
    fn via(&self, via: Option<&ViaChain>) -> Option<String> {
        let ours = format!("1.1 {}", self.name.get()?);
        Some(match via {
            Some(ViaChain(before)) => format!("{before}, {ours}"),
            None => ours,
        })
    }

    fn proxy_for(&self, origin: &Origin) -> Option<&Proxy> {
        let is_meant = |route: &&KnownRoute| {
            route.scheme.is_none_or(|scheme| scheme == origin.scheme())
                && route.hosts.iter().any(|pattern| pattern.matches(origin.host()))
        };
        self.routes.iter().find(is_meant)?.proxy.as_ref()
    }

    /// Finds those addresses of a host that may be dialled and are known at once; at least one.
    async fn find(&self, host: &str, port: u16) -> Result<Vec<SocketAddr>, Failure> {
        Ok(self.find_in_parts(host, port).await?.now)
    }

    async fn find_in_parts(&self, host: &str, port: u16) -> Result<AllowedAddresses, Failure> {
        let (policy, name) = (self.policy.load_full(), host.to_owned());
        let judge = move |address| policy.check(&name, address, is_local);
        self.find_by(host, port, judge).await
    }

    async fn find_by(
        &self,
        host: &str,
        port: u16,
        judge: impl Fn(SocketAddr) -> Result<(), Prohibited> + Send + 'static,
    ) -> Result<AllowedAddresses, Failure> {
        let Found { now, later } = match literal(host) {
            Some(address) => vec![address].into(),
            // Checked before the look-up: the name server need not see a denied name.
            None => {
                let policy = self.policy.load_full();
                policy.check_name(host, port).map_err(Failure::Prohibited)?;
                let names = self.names.load_full();
                names.resolve(host).await.map_err(|error| {
                    tracing::debug!(host, %error, "no address");
                    error.failure()
                })?
            }
        };
        match (open_of(now, port, &judge), later) {
            (Ok(now), None) => Ok(AllowedAddresses { now, later: None }),
            (Ok(now), Some(later)) => {
                let later = async move { open_of(later.await, port, &judge).unwrap_or_default() };
                Ok(AllowedAddresses { now, later: Some(Box::pin(later)) })
            }
            (Err(failure), None) => Err(failure),
            // The prohibited addresses so far are not all: the other family may follow.
            (Err(failure), Some(later)) => match open_of(later.await, port, &judge) {
                Ok(now) => Ok(AllowedAddresses { now, later: None }),
                Err(_) => Err(failure),
            },
        }
    }

    /// Returns the host for an upstream proxy: the name, or the address that the operator gives it.
    fn by_proxy(&self, host: &str, port: u16) -> Result<String, Failure> {
        let policy = self.policy.load();
        let address = literal(host).or_else(|| self.names.load().given(host));
        let judged = match address {
            Some(address) => policy.check(host, SocketAddr::new(address, port), is_local),
            None => policy.check_unseen(host, port),
        };
        judged.map_err(Failure::Prohibited)?;
        Ok(match address {
            Some(IpAddr::V6(v6)) => format!("[{v6}]"),
            Some(IpAddr::V4(v4)) => v4.to_string(),
            None => host.to_owned(),
        })
    }

    async fn dial_proxy(&self, proxy: &Proxy) -> Result<TcpStream, Failure> {
        let (policy, host) = (self.policy.load_full(), proxy.host.clone());
        let judge = move |address| policy.check_proxy(&host, address, is_local);
        connect(self.find_by(&proxy.host, proxy.port, judge).await?).await
    }
}

/// Returns every fault in the named files of credentials, while a start stops at the first one.
#[must_use]
pub fn faults(config: &UpstreamConfig) -> Vec<EgressError> {
    let proxies = config.routes.iter().filter_map(|route| match &route.via {
        Via::Proxy(proxy) => Some(proxy),
        Via::Direct => None,
    });
    proxies.filter_map(|proxy| Proxy::new(proxy).err()).collect()
}

impl Proxy {
    fn new(config: &UpstreamProxy) -> Result<Proxy, EgressError> {
        let login = match &config.credentials {
            Credentials::None => None,
            Credentials::Inline { user, password } => Some(ProxyCredentials {
                user: user.clone(),
                password: password.reveal().to_owned(),
            }),
            Credentials::File(path) => {
                let fault = |why: String| EgressError::Credentials { path: path.clone(), why };
                let text =
                    std::fs::read_to_string(path).map_err(|error| fault(error.to_string()))?;
                let line = text.lines().next().unwrap_or_default();
                let (user, password) = line
                    .split_once(':')
                    .ok_or_else(|| fault("expected user:password on its first line".to_owned()))?;
                check_credentials(user, password).map_err(|why| fault(why.to_owned()))?;
                Some(ProxyCredentials { user: user.to_owned(), password: password.to_owned() })
            }
        };
        Ok(Proxy { protocol: config.protocol, host: config.host.clone(), port: config.port, login })
    }
}

impl std::fmt::Debug for Proxy {
    /// Leaves out the credentials.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Proxy")
            .field("protocol", &self.protocol)
            .field("host", &self.host)
            .field("port", &self.port)
            .finish_non_exhaustive()
    }
}

/// Addresses that are allowed.
struct AllowedAddresses {
    now: Vec<SocketAddr>,
    /// Those that a name server has not sent yet.
    later: Option<LateAddresses>,
}

/// Keeps those of `addresses` that `judge` allows, each once.
fn open_of(
    addresses: Vec<IpAddr>,
    port: u16,
    judge: impl Fn(SocketAddr) -> Result<(), Prohibited>,
) -> Result<Vec<SocketAddr>, Failure> {
    let mut open = Vec::new();
    let mut prohibited = None;
    for address in addresses {
        // Canonical: the system would dial an IPv4-mapped address over IPv4 anyway.
        let address = SocketAddr::new(address.to_canonical(), port);
        match judge(address) {
            Ok(()) if open.contains(&address) => {}
            Ok(()) => open.push(address),
            Err(why) => prohibited = prohibited.or(Some(why)),
        }
    }
    match (open.is_empty(), prohibited) {
        (false, _) => Ok(interleave(open)),
        (true, Some(prohibited)) => Err(Failure::Prohibited(prohibited)),
        (true, None) => Err(Failure::Dns),
    }
}

async fn connect(AllowedAddresses { now, later }: AllowedAddresses) -> Result<TcpStream, Failure> {
    race(now, later, open).await.map_err(|error| {
        // While connecting, these failures mean something else: map them.
        match Failure::of(&error) {
            Failure::Terminated => Failure::Refused,
            Failure::Protocol => Failure::Unroutable,
            failure => failure,
        }
    })
}

async fn open(address: SocketAddr) -> io::Result<TcpStream> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    socket.set_nodelay(true)?;
    socket.set_keepalive(true)?;
    set_tcp_keepidle(&socket, SILENT)?;
    socket.connect(address).await
}

/// Tells whether an address belongs to this machine: only such an address can be bound. Nothing is sent. If binding
/// cannot be tried, the address counts as local.
pub(super) fn is_local(address: IpAddr) -> bool {
    match UdpSocket::bind((address, 0)) {
        Ok(_) => true,
        Err(error) => is_exhaustion(&error),
    }
}

#[cfg(test)]
mod tests;
