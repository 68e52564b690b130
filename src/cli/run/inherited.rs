//! A proxy that the environment names already.
//!
//! The command's variables will name ours, so what stood there is not lost: requests leave by it, as the command's
//! would have. The configuration comes first, and either way it is said.

use crate::config::{HostPattern, ProxyProtocol, Route, UpstreamProxy, Via};

/// Adds the proxy that `variable` (the environment) names to `routes`. Returns what is to be said of it, nothing where
/// the environment names none.
///
/// # Errors
/// When the environment names a proxy that cannot be used, or one for http and another one for https.
pub(super) fn adopt(
    routes: &mut Vec<Route>,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Option<String>, String> {
    let read = |name: &'static str| Named::read(name, &variable);
    let all = read("all_proxy");
    let candidates = [read("https_proxy"), read("http_proxy")].map(|one| one.or(all.clone()));
    let mut named = candidates.into_iter().flatten();
    let Some(first) = named.next() else {
        return Ok(None);
    };
    let name = &first.name;
    if !routes.is_empty() {
        return Ok(Some(format!(
            "{name} in the environment is not used: [[upstream.proxy]] in the configuration names the way"
        )));
    }
    let proxy = first.parse()?;
    if let Some(second) = named.next()
        && second.parse()? != proxy
    {
        return Err(format!(
            "{name} and {} in the environment name two proxies; name in the configuration, with [[upstream.proxy]], \
             which hosts are reached by which, or unset one",
            second.name
        ));
    }
    let exceptions = Exceptions::read(&variable);
    if exceptions.every_host {
        return Ok(Some(format!(
            "{name} in the environment is not used: no_proxy excepts every host"
        )));
    }
    let mut said = format!("requests leave by the proxy {proxy} ({name} in the environment)");
    if !exceptions.hosts.is_empty() {
        let hosts: Vec<String> = exceptions.hosts.iter().map(ToString::to_string).collect();
        said += &format!(", but directly to {} (no_proxy)", hosts.join(", "));
        routes.push(Route {
            hosts: exceptions.hosts,
            via: Via::Direct,
        });
    }
    if !exceptions.unknown.is_empty() {
        let unknown = exceptions.unknown.join(", ");
        said += &format!("; no_proxy holds what names no host and is not observed: {unknown}");
    }
    routes.push(Route {
        hosts: HostPattern::new("*").into_iter().collect(),
        via: Via::Proxy(proxy),
    });
    Ok(Some(said))
}

/// A variable that names a proxy.
#[derive(Clone)]
struct Named {
    name: String,
    value: String,
}

impl Named {
    /// Reads a variable; the lower-case spelling comes first, as with curl.
    fn read(name: &'static str, variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        [name.to_owned(), name.to_uppercase()]
            .into_iter()
            .find_map(|name| {
                let value = variable(&name)?.trim().to_owned();
                (!value.is_empty()).then_some(Self { name, value })
            })
    }

    fn parse(&self) -> Result<UpstreamProxy, String> {
        let Self { name, value } = self;
        let url = match value.split_once("://") {
            // As curl reads it: an HTTP proxy.
            None => format!("http://{value}"),
            // The "h" asks for what ours does in any case: the proxy resolves the names.
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("socks5h") => {
                format!("{}://{rest}", ProxyProtocol::Socks5.as_str())
            }
            Some(_) => value.clone(),
        };
        // The value is not repeated: it may hold a password.
        UpstreamProxy::parse(&url).map_err(|why| {
            format!(
                "{name} in the environment: {why}; name a proxy that can be used with [[upstream.proxy]] in the \
                 configuration, or unset {name}"
            )
        })
    }
}

/// What no_proxy says.
#[derive(Default)]
struct Exceptions {
    every_host: bool,
    hosts: Vec<HostPattern>,
    /// Networks and hosts with ports, which routes cannot name.
    unknown: Vec<String>,
}

impl Exceptions {
    fn read(variable: impl Fn(&str) -> Option<String>) -> Self {
        let mut exceptions = Self::default();
        let list = Named::read("no_proxy", variable).map_or_else(String::new, |list| list.value);
        let entries = list
            .split([',', ' ', '\t'])
            .filter(|entry| !entry.is_empty());
        for entry in entries {
            if entry == "*" {
                exceptions.every_host = true;
                continue;
            }
            // A name stands for itself and all below it, with and without a dot in front; an address for itself.
            let name = entry.trim_start_matches("*.").trim_start_matches('.');
            let host = HostPattern::new(name).or_else(|_| HostPattern::new(&format!("[{name}]")));
            match host {
                Ok(host) => {
                    exceptions.hosts.push(host);
                    exceptions
                        .hosts
                        .extend(HostPattern::new(&format!("*.{name}")));
                }
                Err(_) => exceptions.unknown.push(entry.to_owned()),
            }
        }
        exceptions
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The routes that come of an environment, written as text, and what is said or wrong.
    fn adopted(environment: &[(&str, &str)]) -> (Vec<String>, String) {
        let mut routes = Vec::new();
        let said = adopt(&mut routes, |name| {
            let (_, value) = environment.iter().find(|(key, _)| *key == name)?;
            Some((*value).to_owned())
        });
        let text = |route: &Route| {
            let hosts: Vec<_> = route.hosts.iter().map(ToString::to_string).collect();
            match &route.via {
                Via::Direct => format!("{} direct", hosts.join(" ")),
                Via::Proxy(proxy) => format!("{} {proxy}", hosts.join(" ")),
            }
        };
        let said = said.unwrap_or_else(Some).unwrap_or_default();
        (routes.iter().map(text).collect(), said)
    }

    #[test]
    fn the_proxy_of_the_environment_becomes_a_route_and_is_told() {
        /// An environment, the routes that come of it, and what is said.
        type Case<'a> = (&'a [(&'a str, &'a str)], &'a [&'a str], &'a str);
        #[rustfmt::skip] // one row, one case
        let cases: [Case<'_>; 15] = [
            (&[], &[], ""),
            (&[("https_proxy", " ")], &[], ""),
            (&[("https_proxy", "http://p.example:3128")], &["* http://p.example:3128"], "leave by the proxy http://p.example:3128 (https_proxy in"),
            (&[("HTTP_PROXY", "p.example:3128")], &["* http://p.example:3128"], "(HTTP_PROXY in"),
            (&[("http_proxy", "http://a.example:1"), ("HTTP_PROXY", "http://b.example:1")], &["* http://a.example:1"], "(http_proxy in"),
            (&[("http_proxy", "http://p.example:1/"), ("https_proxy", "p.example:1")], &["* http://p.example:1"], "(https_proxy in"),
            (&[("http_proxy", "http://p.example:1"), ("all_proxy", "http://p.example:1")], &["* http://p.example:1"], "(all_proxy in"),
            (&[("all_proxy", "socks5h://u:secret@p.example")], &["* socks5://u:***@p.example:1080"], "socks5://u:***@p.example:1080 (all_proxy in"),
            (&[("http_proxy", "http://a.example:1"), ("https_proxy", "http://b.example:1")], &[], "name two proxies"),
            (&[("https_proxy", "http://a.example:1"), ("all_proxy", "socks5://b.example")], &[], "https_proxy and all_proxy in the environment name two proxies"),
            (&[("https_proxy", "https://u:secret@p.example")], &[], "https_proxy in the environment: expected the URL of a proxy"),
            (&[("https_proxy", "p.example:1"), ("no_proxy", "*")], &[], "excepts every host"),
            (&[("no_proxy", "a.example")], &[], ""),
            (&[("https_proxy", "p.example:1"), ("NO_PROXY", "localhost, .b.example,::1")],
             &["localhost *.localhost b.example *.b.example [::1] direct", "* http://p.example:1"], "directly to localhost, *.localhost, b.example"),
            (&[("https_proxy", "p.example:1"), ("no_proxy", "10.0.0.0/8,c.example:80")], &["* http://p.example:1"], "not observed: 10.0.0.0/8, c.example:80"),
        ];
        for (environment, routes, says) in cases {
            let (found, said) = adopted(environment);
            assert_eq!(found, routes, "{environment:?}: {said}");
            assert!(said.contains(says), "{environment:?}: {said}");
            assert_eq!(said.is_empty(), says.is_empty(), "{environment:?}: {said}");
            assert!(!said.contains("secret"), "{environment:?}: {said}");
        }
    }

    #[test]
    fn the_configuration_comes_first() {
        let configured = Route {
            hosts: vec![HostPattern::new("a.example").unwrap()],
            via: Via::Direct,
        };
        let mut routes = vec![configured.clone()];
        let environment = |name: &str| (name == "https_proxy").then(|| "not used".to_owned());
        let said = adopt(&mut routes, environment).unwrap().unwrap();
        assert!(
            said.contains("https_proxy in the environment is not used"),
            "{said}"
        );
        assert_eq!(routes, [configured]);
    }
}
