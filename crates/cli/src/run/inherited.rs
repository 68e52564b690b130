//! Upstream proxies from the inherited environment.
//!
//! The command's variables will name crawlgate, so crawlgate uses the earlier values itself: requests leave as the
//! command's would have. As with curl, `https_proxy` is for https URLs, `http_proxy` for http, and `all_proxy` for URLs
//! that neither covers; unlike curl, crawlgate never uses such a proxy for this machine itself. The configuration takes
//! precedence, and crawlgate reports either choice.

use crate::Failure;
use crate::terminal::joined;
use crawlgate_config::{HostPattern, ProxyProtocol, Route, UpstreamProxy, Via};
use crawlgate_robots::Scheme;

/// Adds the proxies that `variable` (the environment) names to `routes`. Returns the messages about them, none if the
/// environment names none.
///
/// # Errors
/// When the environment names a proxy that cannot be used.
pub(super) fn adopt(
    routes: &mut Vec<Route>,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Option<String>, Failure> {
    let read = |name: &'static str| ProxyVariable::read(name, &variable);
    let schemes = [(Scheme::Https, "https_proxy"), (Scheme::Http, "http_proxy")];
    let named =
        schemes.map(|(scheme, name)| Some((scheme, read(name).or_else(|| read("all_proxy"))?)));
    let named: Vec<(Scheme, ProxyVariable)> = named.into_iter().flatten().collect();
    let mut names: Vec<&str> = named.iter().map(|(_, one)| &*one.name).collect();
    names.dedup();
    let is_or_are = if names.len() > 1 { "are" } else { "is" };
    let not_used = format!("{} in the environment {is_or_are} not used", names.join(" and "));
    if named.is_empty() {
        return Ok(None);
    }
    if !routes.is_empty() {
        return Ok(Some(format!(
            "{not_used}: [[upstream.proxy]] in the configuration names the way"
        )));
    }
    let mut ways = Vec::new();
    for (scheme, one) in &named {
        ways.push((*scheme, &one.name, one.parse()?));
    }
    let exceptions = Exceptions::read(&variable);
    if exceptions.every_host {
        return Ok(Some(format!("{not_used}: no_proxy excepts every host")));
    }
    let leave = |what: &str, proxy: &UpstreamProxy, name: &str| {
        format!("{what} leave by the proxy {proxy} ({name} in the environment)")
    };
    let mut said = match &ways[..] {
        [(_, name, proxy), (_, _, other)] if proxy == other => leave("requests", proxy, name),
        ways => {
            let each = ways.iter().map(|(scheme, name, proxy)| {
                leave(&format!("requests for {scheme} URLs"), proxy, name)
            });
            joined(each, ", ", "")
        }
    };
    let mut direct = vec![HostPattern::LOOPBACK];
    direct.extend(exceptions.hosts);
    said = said + ", and directly to " + &joined(&direct, ", ", "");
    if direct.len() > 1 {
        said += " (no_proxy)";
    }
    if !exceptions.unknown.is_empty() {
        let unknown = exceptions.unknown.join(", ");
        said += &format!("; no_proxy holds what names no host and is not observed: {unknown}");
    }
    routes.push(Route { scheme: None, hosts: direct, via: Via::Direct });
    routes.extend(ways.into_iter().map(|(scheme, _, proxy)| Route {
        scheme: Some(scheme),
        hosts: HostPattern::new("*").into_iter().collect(),
        via: Via::Proxy(proxy),
    }));
    Ok(Some(said))
}

/// A variable that names a proxy.
#[derive(Clone)]
struct ProxyVariable {
    name: String,
    value: String,
}

impl ProxyVariable {
    /// Reads a variable; the lower-case spelling comes first, as with curl.
    fn read(name: &'static str, variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        [name.to_owned(), name.to_uppercase()].into_iter().find_map(|name| {
            let value = variable(&name)?.trim().to_owned();
            (!value.is_empty()).then_some(Self { name, value })
        })
    }

    fn parse(&self) -> Result<UpstreamProxy, Failure> {
        let Self { name, value } = self;
        let url = match value.split_once("://") {
            // As curl reads it: an HTTP proxy.
            None => format!("http://{value}"),
            // The "h" changes nothing: the proxy always resolves the names.
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
            .into()
        })
    }
}

/// The content of no_proxy.
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
        let list =
            ProxyVariable::read("no_proxy", variable).map_or_else(String::new, |list| list.value);
        let entries = list.split([',', ' ', '\t']).filter(|entry| !entry.is_empty());
        for entry in entries {
            if entry == "*" {
                exceptions.every_host = true;
                continue;
            }
            // A name stands for itself and all names below it, with and without a dot in front; an address for itself.
            let name = entry.trim_start_matches("*.").trim_start_matches('.');
            let host = HostPattern::new(name).or_else(|_| HostPattern::new(&format!("[{name}]")));
            match host {
                Ok(host) => {
                    exceptions.hosts.push(host);
                    exceptions.hosts.extend(HostPattern::new(&format!("*.{name}")));
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

    /// Returns the routes from an environment, written as text, and the messages or errors.
    fn adopted(environment: &[(&str, &str)]) -> (Vec<String>, String) {
        let mut routes = Vec::new();
        let said = adopt(&mut routes, |name| {
            let (_, value) = environment.iter().find(|(key, _)| *key == name)?;
            Some((*value).to_owned())
        });
        let text = |route: &Route| {
            let hosts = joined(&route.hosts, " ", "");
            let scheme = route.scheme.map_or_else(String::new, |scheme| format!("{scheme}: "));
            match &route.via {
                Via::Direct => format!("{scheme}{hosts} direct"),
                Via::Proxy(proxy) => format!("{scheme}{hosts} {proxy}"),
            }
        };
        let said = said.unwrap_or_else(|error| Some(error.to_string())).unwrap_or_default();
        (routes.iter().map(text).collect(), said)
    }

    #[test]
    fn the_proxies_of_the_environment_become_routes_and_are_reported() {
        /// An environment, the routes from it, and the messages.
        type Case<'a> = (&'a [(&'a str, &'a str)], &'a [&'a str], &'a str);
        #[rustfmt::skip] // one row, one case
        let cases: [Case<'_>; 17] = [
            (&[], &[], ""),
            (&[("https_proxy", " ")], &[], ""),
            (&[("https_proxy", "http://p.example:3128")], &["loopback direct", "https: * http://p.example:3128"],
             "requests for https URLs leave by the proxy http://p.example:3128 (https_proxy in the environment), and directly to loopback"),
            (&[("HTTP_PROXY", "p.example:3128")], &["loopback direct", "http: * http://p.example:3128"], "requests for http URLs leave by the proxy http://p.example:3128 (HTTP_PROXY in"),
            (&[("http_proxy", "http://a.example:1"), ("HTTP_PROXY", "http://b.example:1")], &["loopback direct", "http: * http://a.example:1"], "(http_proxy in"),
            (&[("http_proxy", "http://p.example:1/"), ("https_proxy", "p.example:1")],
             &["loopback direct", "https: * http://p.example:1", "http: * http://p.example:1"], "requests leave by the proxy http://p.example:1 (https_proxy in"),
            (&[("http_proxy", "http://a.example:1"), ("all_proxy", "http://b.example:1")],
             &["loopback direct", "https: * http://b.example:1", "http: * http://a.example:1"], "http://b.example:1 (all_proxy in the environment), requests for http URLs"),
            (&[("all_proxy", "socks5h://u:secret@p.example")],
             &["loopback direct", "https: * socks5://u:***@p.example:1080", "http: * socks5://u:***@p.example:1080"], "requests leave by the proxy socks5://u:***@p.example:1080 (all_proxy in"),
            (&[("http_proxy", "http://a.example:1"), ("https_proxy", "http://b.example:1")],
             &["loopback direct", "https: * http://b.example:1", "http: * http://a.example:1"], "(https_proxy in the environment), requests for http URLs leave by the proxy http://a.example:1 (http_proxy in"),
            (&[("https_proxy", "http://a.example:1"), ("all_proxy", "socks5://b.example")],
             &["loopback direct", "https: * http://a.example:1", "http: * socks5://b.example:1080"], "socks5://b.example:1080 (all_proxy in"),
            (&[("https_proxy", "https://u:secret@p.example")], &[], "https_proxy in the environment: expected the URL of a proxy"),
            (&[("https_proxy", "http://p.example"), ("http_proxy", "https://u:secret@p.example")], &[], "http_proxy in the environment: expected the URL of a proxy"),
            (&[("https_proxy", "p.example:1"), ("no_proxy", "*")], &[], "https_proxy in the environment is not used: no_proxy excepts every host"),
            (&[("https_proxy", "p.example:1"), ("http_proxy", "p.example:1"), ("no_proxy", "*")], &[], "https_proxy and http_proxy in the environment are not used"),
            (&[("no_proxy", "a.example")], &[], ""),
            (&[("https_proxy", "p.example:1"), ("NO_PROXY", "localhost, .b.example,::1")],
             &["loopback localhost *.localhost b.example *.b.example [::1] direct", "https: * http://p.example:1"], "and directly to loopback, localhost, *.localhost, b.example"),
            (&[("https_proxy", "p.example:1"), ("no_proxy", "10.0.0.0/8,c.example:80")], &["loopback direct", "https: * http://p.example:1"], "not observed: 10.0.0.0/8, c.example:80"),
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
            scheme: None,
            hosts: vec![HostPattern::new("a.example").unwrap()],
            via: Via::Direct,
        };
        let mut routes = vec![configured.clone()];
        let environment = |name: &str| (name == "https_proxy").then(|| "not used".to_owned());
        let said = adopt(&mut routes, environment).unwrap().unwrap();
        assert!(said.contains("https_proxy in the environment is not used"), "{said}");
        assert_eq!(routes, [configured]);
    }
}
