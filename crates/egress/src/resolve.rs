//! Resolves a name to its addresses.
//!
//! Names that the operator gives addresses (`[upstream.hosts]`) are not looked up, nor are names in the system's hosts
//! file (`hosts`), nor `localhost` and its subdomains, which always mean this machine (RFC 6761, section 6.3). The name
//! servers of the system's `/etc/resolv.conf` are asked for all others, always as absolute names: a search domain would
//! turn `intranet` in a crawler's URL into a host of ours. At most [`CACHED`] answers are kept, each for its TTL.
//!
//! Both families are asked for at the same time; an answer for one of them is enough (`families`).
//!
//! Each result is judged and then dialled without a second look-up, so a name that changes between two look-ups changes
//! nothing.

mod families;
mod hosts;

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::pin::Pin;
use std::sync::OnceLock;
use std::time::Duration;

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{ResolveHosts, ResolverConfig};
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;

#[cfg(test)]
pub(super) use self::families::tests::{Answer, name_server};
use self::families::{RESOLUTION_DELAY, families};
use self::hosts::HostsFile;
use super::Failure;
use crawlgate_system::descriptors::{are_exhausted, is_exhaustion};

/// Path of the system's hosts file.
const HOSTS_FILE: &str = "/etc/hosts";

/// Answers kept.
const CACHED: u64 = 16_384;

/// Longest time that the absence of a name is remembered.
const ABSENT: Duration = Duration::from_secs(300);

/// Concurrent questions to one name server; it would refuse more.
const UNDER_WAY: usize = 1024;

/// The source of addresses for names.
pub(super) struct Names {
    hosts: HashMap<String, IpAddr>,
    fallback: Fallback,
}

/// The resolver for names that the operator gives no address.
enum Fallback {
    /// The hosts file, then the name servers.
    System(Box<System>),
    /// A test, which may lie.
    #[cfg(test)]
    Scripted(Box<Script>),
}

struct System {
    hosts_file: HostsFile,
    /// Made at the first question, because it needs a runtime.
    resolver: OnceLock<TokioResolver>,
    /// Time to wait for the second family of addresses.
    delay: Duration,
}

#[cfg(test)]
type Script = dyn Fn(&str) -> Result<Vec<IpAddr>, DnsError> + Send + Sync;

/// The addresses of a name.
pub(super) struct Found {
    /// Addresses that are known by now; never empty.
    pub(super) now: Vec<IpAddr>,
    /// Addresses to come, if only one family was answered so far.
    pub(super) later: Option<LateAddresses>,
}

/// Addresses to come; none if it turns out that there are none.
pub(super) type LateAddresses = Pin<Box<dyn Future<Output = Vec<IpAddr>> + Send>>;

impl From<Vec<IpAddr>> for Found {
    fn from(now: Vec<IpAddr>) -> Found {
        Found { now, later: None }
    }
}

/// A name did not resolve.
#[derive(Debug, thiserror::Error)]
#[error("name not resolved: {why}")]
pub(super) struct DnsError {
    why: String,
    is_exhaustion: bool,
}

impl DnsError {
    pub(super) fn new(why: impl fmt::Display) -> DnsError {
        DnsError { why: why.to_string(), is_exhaustion: false }
    }

    /// Returns the error for a question that was never sent, because no descriptor was left.
    fn exhausted(why: impl fmt::Display) -> DnsError {
        DnsError { is_exhaustion: true, ..DnsError::new(why) }
    }

    /// Returns the failure that this means for a connection.
    pub(super) fn failure(&self) -> Failure {
        if self.is_exhaustion { Failure::Exhausted } else { Failure::Dns }
    }
}

impl From<NetError> for DnsError {
    fn from(error: NetError) -> DnsError {
        let is_ours = match &error {
            NetError::Io(error) => is_exhaustion(error),
            // Too many questions are in progress.
            NetError::Busy => true,
            // The resolver reports servers that could not be asked in several ways.
            _ => !error.is_no_records_found() && are_exhausted(),
        };
        if is_ours { DnsError::exhausted(error) } else { DnsError::new(error) }
    }
}

impl Names {
    /// Returns the system's resolver, after the names that the operator gives addresses.
    pub(super) fn of_system(hosts: HashMap<String, IpAddr>) -> Names {
        let fallback = Fallback::System(Box::new(System {
            hosts_file: HostsFile::at(HOSTS_FILE),
            resolver: OnceLock::new(),
            delay: RESOLUTION_DELAY,
        }));
        Names { hosts, fallback }
    }

    #[cfg(test)]
    pub(super) fn scripted(
        script: impl Fn(&str) -> Result<Vec<IpAddr>, DnsError> + Send + Sync + 'static,
    ) -> Names {
        Names { hosts: HashMap::new(), fallback: Fallback::Scripted(Box::new(script)) }
    }

    /// Uses a hosts file, and a name server on a port of this machine. Waits for the second family for `delay`.
    #[cfg(test)]
    pub(super) fn asking(port: u16, hosts_file: &std::path::Path, delay: Duration) -> Names {
        let mut server =
            hickory_resolver::config::NameServerConfig::udp(Ipv4Addr::LOCALHOST.into());
        for connection in &mut server.connections {
            connection.port = port;
        }
        let config = ResolverConfig::from_parts(None, Vec::new(), vec![server]);
        let mut builder =
            TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
        builder.options_mut().use_hosts_file = ResolveHosts::Never;
        let resolver = builder.build().expect("a resolver");
        Names {
            hosts: HashMap::new(),
            fallback: Fallback::System(Box::new(System {
                hosts_file: HostsFile::at(hosts_file),
                resolver: OnceLock::from(resolver),
                delay,
            })),
        }
    }

    /// Returns the address that the operator gives to a name, a canonical host.
    pub(super) fn given(&self, host: &str) -> Option<IpAddr> {
        self.hosts.get(host).copied()
    }

    /// Finds the addresses of a name, a canonical host that is no address itself.
    pub(super) async fn resolve(&self, host: &str) -> Result<Found, DnsError> {
        if let Some(address) = self.given(host) {
            return Ok(vec![address].into());
        }
        let found: Found = match &self.fallback {
            Fallback::System(system) => system.resolve(host).await?,
            #[cfg(test)]
            Fallback::Scripted(script) => script(host)?.into(),
        };
        if found.now.is_empty() { Err(DnsError::new("it has no address")) } else { Ok(found) }
    }
}

impl System {
    async fn resolve(&self, host: &str) -> Result<Found, DnsError> {
        let written = self.hosts_file.addresses(host);
        let written = written.map_err(DnsError::exhausted)?;
        if !written.is_empty() {
            return Ok(written.into());
        }
        if host == "localhost" || host.ends_with(".localhost") {
            let addresses: Vec<IpAddr> =
                vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
            return Ok(addresses.into());
        }
        let resolver = match self.resolver.get() {
            Some(resolver) => resolver,
            None => {
                let made = of_resolv_conf()?;
                self.resolver.get_or_init(|| made)
            }
        };
        // The last dot makes it absolute.
        families(resolver, format!("{host}."), self.delay).await
    }
}

/// Returns the resolver for the system's name servers. If the system names none, the hosts file is the only source, as
/// in a container without network.
fn of_resolv_conf() -> Result<TokioResolver, DnsError> {
    let mut builder = match TokioResolver::builder_tokio() {
        Ok(builder) => builder,
        // The file exists, and is read at the next question.
        Err(error) if are_exhausted() => return Err(DnsError::exhausted(error)),
        Err(error) => {
            tracing::warn!(%error, "no name servers in /etc/resolv.conf: only names of the hosts file resolve");
            let none = ResolverConfig::from_parts(None, Vec::new(), Vec::new());
            TokioResolver::builder_with_config(none, TokioRuntimeProvider::default())
        }
    };
    let options = builder.options_mut();
    // We read the hosts file ourselves: the resolver would ask for the family that the file does not give.
    options.use_hosts_file = ResolveHosts::Never;
    options.cache_size = CACHED;
    options.negative_max_ttl = Some(ABSENT);
    options.max_active_requests = UNDER_WAY;
    builder.build().map_err(|error| DnsError::new(format!("no resolver: {error}")))
}

impl fmt::Debug for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Names").field("hosts", &self.hosts).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::UdpSocket;

    use super::*;

    #[tokio::test]
    async fn names_of_the_operator_are_not_looked_up() {
        let mut names = Names::scripted(|host| Err(DnsError::new(format!("{host} was asked for"))));
        let address = IpAddr::from([192, 0, 2, 1]);
        names.hosts.insert("site.test".to_owned(), address);
        assert_eq!(names.resolve("site.test").await.unwrap().now, [address]);
        let error = names.resolve("other.test").await.err().unwrap().to_string();
        assert_eq!(error, "name not resolved: other.test was asked for");
    }

    #[tokio::test]
    async fn a_name_without_address_does_not_resolve() {
        let names = Names::scripted(|_| Ok(Vec::new()));
        assert!(names.resolve("site.test").await.is_err());
    }

    #[tokio::test]
    async fn the_systems_resolver_knows_this_machine() {
        let found = Names::of_system(HashMap::new()).resolve("localhost").await;
        let found = found.unwrap().now;
        assert!(found.iter().all(IpAddr::is_loopback), "{found:?}");
    }

    /// Returns a system with one name server that receives everything and answers nothing.
    async fn behind_a_silent_server(hosts_file: &str) -> (Names, UdpSocket, tempfile::TempDir) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("hosts");
        std::fs::write(&path, hosts_file).unwrap();
        let silent = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let names = Names::asking(silent.local_addr().unwrap().port(), &path, RESOLUTION_DELAY);
        (names, silent, directory)
    }

    #[tokio::test]
    async fn names_of_the_hosts_file_and_rfc_6761_are_asked_of_no_server() {
        let lines = "192.0.2.1 four.test both.test\n2001:db8::1 six.test both.test\n";
        let (names, silent, _directory) = behind_a_silent_server(lines).await;
        for (name, expected) in [
            ("four.test", &["192.0.2.1"][..]),
            ("six.test", &["2001:db8::1"]),
            ("both.test", &["192.0.2.1", "2001:db8::1"]),
            ("localhost", &["127.0.0.1", "::1"]),
            ("any.localhost", &["127.0.0.1", "::1"]),
        ] {
            let found = names.resolve(name).await.unwrap().now;
            let expected: Vec<IpAddr> = expected.iter().map(|text| text.parse().unwrap()).collect();
            assert_eq!(found, expected, "{name}");
        }
        let mut octets = [0; 512];
        let heard = silent.try_recv(&mut octets);
        assert!(heard.is_err(), "the name server was asked");

        // Counter-proof: a name outside the file does go to the server.
        let asked = tokio::select! {
            _ = names.resolve("unknown.test") => false,
            heard = silent.recv(&mut octets) => heard.is_ok(),
        };
        assert!(asked, "the name server was not asked");
    }
}
