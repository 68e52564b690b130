//! From a name to its addresses.
//!
//! Names that the operator gives addresses (`[upstream.hosts]`) are not looked up. All others are asked of the hosts
//! file and of the name servers of the system's `/etc/resolv.conf`, always as absolute names: a search domain would
//! make `intranet` in a crawler's URL into a host of ours. Answers are kept for their TTL, and no more than
//! [`CACHED`] of them.
//!
//! What comes back is only ever *judged and dialled*; nobody looks a second time, so a name that changes its mind
//! between two look-ups changes nothing.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::OnceLock;
use std::time::Duration;

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{LookupIpStrategy, ResolveHosts, ResolverConfig};
use hickory_resolver::net::runtime::TokioRuntimeProvider;

/// Answers kept.
const CACHED: u64 = 16_384;

/// Longest time that the absence of a name is believed.
const ABSENT: Duration = Duration::from_secs(300);

/// Questions to one name server under way at once; beyond it they would be refused.
const UNDER_WAY: usize = 1024;

/// Who knows the addresses of names.
pub(super) struct Names {
    hosts: HashMap<String, IpAddr>,
    others: Others,
}

/// Who is asked for what the operator does not say.
enum Others {
    /// Made at the first question, since it wants a runtime to live in; or why there is none.
    System(Box<OnceLock<Result<TokioResolver, String>>>),
    /// A test, which may lie.
    #[cfg(test)]
    Scripted(Box<Script>),
}

#[cfg(test)]
type Script = dyn Fn(&str) -> Result<Vec<IpAddr>, DnsError> + Send + Sync;

/// A name did not resolve.
#[derive(Debug)]
pub(super) struct DnsError(String);

impl DnsError {
    pub(super) fn new(why: impl fmt::Display) -> DnsError {
        DnsError(why.to_string())
    }
}

impl fmt::Display for DnsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "name not resolved: {}", self.0)
    }
}

impl std::error::Error for DnsError {}

impl Names {
    /// The system's resolver, behind the names that the operator gives addresses.
    pub(super) fn of_system(hosts: HashMap<String, IpAddr>) -> Names {
        let others = Others::System(Box::default());
        Names { hosts, others }
    }

    #[cfg(test)]
    pub(super) fn scripted(
        script: impl Fn(&str) -> Result<Vec<IpAddr>, DnsError> + Send + Sync + 'static,
    ) -> Names {
        Names {
            hosts: HashMap::new(),
            others: Others::Scripted(Box::new(script)),
        }
    }

    /// The address that the operator gives a name, a canonical host.
    pub(super) fn given(&self, host: &str) -> Option<IpAddr> {
        self.hosts.get(host).copied()
    }

    /// The addresses of a name, a canonical host that is no address itself. Never empty.
    pub(super) async fn resolve(&self, host: &str) -> Result<Vec<IpAddr>, DnsError> {
        if let Some(address) = self.given(host) {
            return Ok(vec![address]);
        }
        let found: Vec<IpAddr> = match &self.others {
            Others::System(resolver) => {
                let resolver = resolver.get_or_init(system).as_ref();
                let resolver = resolver.map_err(DnsError::new)?;
                // The last dot makes it absolute.
                let answer = resolver.lookup_ip(format!("{host}.")).await;
                answer.map_err(DnsError::new)?.iter().collect()
            }
            #[cfg(test)]
            Others::Scripted(script) => script(host)?,
        };
        match found {
            found if found.is_empty() => Err(DnsError::new("it has no address")),
            found => Ok(found),
        }
    }
}

/// The system's name servers. Where it names none, the hosts file is all there is, as in a container without network.
fn system() -> Result<TokioResolver, String> {
    let mut builder = TokioResolver::builder_tokio().unwrap_or_else(|error| {
        tracing::warn!(%error, "no name servers in /etc/resolv.conf: only names of the hosts file resolve");
        let nobody = ResolverConfig::from_parts(None, Vec::new(), Vec::new());
        TokioResolver::builder_with_config(nobody, TokioRuntimeProvider::default())
    });
    let options = builder.options_mut();
    options.ip_strategy = LookupIpStrategy::Ipv6AndIpv4;
    options.use_hosts_file = ResolveHosts::Always;
    options.cache_size = CACHED;
    options.negative_max_ttl = Some(ABSENT);
    options.max_active_requests = UNDER_WAY;
    builder
        .build()
        .map_err(|error| format!("no resolver: {error}"))
}

impl fmt::Debug for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Names")
            .field("hosts", &self.hosts)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn names_of_the_operator_are_not_looked_up() {
        let mut names = Names::scripted(|host| Err(DnsError::new(format!("{host} was asked for"))));
        let address = IpAddr::from([192, 0, 2, 1]);
        names.hosts.insert("site.test".to_owned(), address);
        assert_eq!(names.resolve("site.test").await.unwrap(), [address]);
        let error = names.resolve("other.test").await.unwrap_err().to_string();
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
        let found = found.unwrap();
        assert!(found.iter().all(IpAddr::is_loopback), "{found:?}");
    }
}
