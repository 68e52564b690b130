//! Facts of an exchange: what its head and its admission fix, and the URL as it came.

use std::net::SocketAddr;
use std::sync::Arc;

use http::header::USER_AGENT;
use http::{HeaderMap, HeaderValue, Method, Uri, Version};

use crate::target::Scope;
use crawlgate_config::Config;
use crawlgate_evidence::DecisionId;
use crawlgate_gate::Requester;
use crawlgate_policy::agent::Agent;
use crawlgate_policy::generation::Generation;
use crawlgate_record::Via;
use crawlgate_robots::Origin;
use crawlgate_system::clock::{Moment, Tick};
use crawlgate_turns::client::Client;

/// Facts that do not change once the target of the request is read.
pub(super) struct Facts {
    /// The decision's identifier.
    pub(super) id: DecisionId,
    /// Start of the exchange.
    pub(super) time: Moment,
    /// The same start, to measure from.
    pub(super) began: Tick,
    pub(super) address: SocketAddr,
    pub(super) via: Via,
    /// `None` if the request line begins with no token.
    pub(super) method: Option<Method>,
    pub(super) version: Option<&'static str>,
    pub(super) url: Url,
    /// The origin, once the target was read.
    pub(super) origin: Option<Origin>,
    /// The request's User-Agent.
    pub(super) user_agent: Option<HeaderValue>,
    /// Further User-Agent fields; most requests have none.
    pub(super) more_user_agents: Vec<HeaderValue>,
}

/// The requester, with the settings that it is judged and answered under. They change only before the gate judges the
/// request once more, because the settings, overrides or clients did.
pub(super) struct Identified {
    /// Generation read before the others, so that it is never newer than they are.
    pub(super) generation: Generation,
    /// The settings in force then. The exchange is judged and answered by them, also after a reload.
    pub(super) settings: Arc<Config>,
    /// The client that the request belongs to.
    pub(super) client: Arc<Client>,
    /// The crawler, as it is judged.
    pub(super) agent: Arc<Agent>,
}

impl Identified {
    /// Returns the requester at this address, as the gate judges it.
    pub(super) fn requester(&self, address: SocketAddr) -> Requester<'_> {
        Requester {
            address: address.ip(),
            client: &self.client,
            agent: &self.agent,
            generation: self.generation,
        }
    }
}

/// Facts known when an exchange begins.
pub struct Opening<'a> {
    /// The crawler's address.
    pub address: SocketAddr,
    /// The client that the connection belongs to.
    pub client: &'a Arc<Client>,
    /// The way that the request came.
    pub scope: &'a Scope,
    /// Its method.
    pub method: Method,
    /// The version of HTTP that it came by; `None` if another proxy asks.
    pub version: Option<Version>,
    /// Its request target.
    pub uri: Uri,
}

impl Facts {
    /// Enters the fields by which the crawler identifies itself.
    pub(super) fn enter_user_agent(&mut self, headers: &HeaderMap) {
        let mut values = headers.get_all(USER_AGENT).iter();
        self.user_agent = values.next().cloned();
        self.more_user_agents.extend(values.cloned());
    }

    /// Returns the fields by which the crawler identifies itself.
    pub(super) fn user_agents(&self) -> HeaderMap {
        let values = self.user_agent.iter().chain(&self.more_user_agents);
        values.map(|value| (USER_AGENT, value.clone())).collect()
    }
}

/// The URL as it came.
pub(super) enum Url {
    /// In the request line.
    Whole(Uri),
    /// Split between CONNECT and the request line.
    Inside(Origin, Uri),
    /// A request line that cannot be read.
    Excerpt(Box<[u8]>),
}

impl Url {
    /// Reads method and target of a request that could not be read as a whole, from its first octets. Octets that do not
    /// begin like a request line may be anything, a field with a password or the rest of a body, so none of them are
    /// kept, and there is no method.
    pub(super) fn of_excerpt(excerpt: &[u8]) -> (Option<Method>, Url) {
        let line_end = memchr::memchr2(b'\r', b'\n', excerpt).unwrap_or(excerpt.len());
        let line = excerpt.get(..line_end).unwrap_or(excerpt);
        let mut words = line.split(|byte| *byte == b' ');
        let method = words.next().and_then(|word| Method::from_bytes(word).ok());
        let target = words.next().unwrap_or_default();
        let is_target = target.starts_with(b"/")
            || memchr::memmem::find(target, b"://").is_some()
            || method == Some(Method::CONNECT);
        let target = match method {
            Some(_) if is_target => target,
            _ => b"",
        };
        (method, Url::Excerpt(target.into()))
    }

    /// Returns the URL with another origin. `found` may lack a scheme.
    pub(super) fn at(&self, found: &str, own: Option<&Origin>) -> Url {
        let path = match self {
            Url::Whole(uri) | Url::Inside(_, uri) => uri.path_and_query(),
            Url::Excerpt(_) => None,
        };
        let path = path.map_or("", |path| path.as_str());
        let url = if found.contains("://") {
            format!("{found}{path}")
        } else {
            let scheme = own.map_or("http", |origin| origin.scheme().as_str());
            format!("{scheme}://{found}{path}")
        };
        Url::Excerpt(url.into_bytes().into())
    }

    /// Returns only the path.
    pub(super) fn path(&self) -> &str {
        match self {
            Url::Whole(uri) | Url::Inside(_, uri) => uri.path(),
            Url::Excerpt(_) => "",
        }
    }

    /// Appends the text that the record keeps to `text`.
    pub(super) fn write(&self, text: &mut Vec<u8>) {
        match self {
            Url::Whole(uri) => {
                if let Some(scheme) = uri.scheme_str() {
                    text.extend_from_slice(scheme.as_bytes());
                    text.extend_from_slice(b"://");
                }
                let authority = uri.authority().map_or("", |authority| authority.as_str());
                text.extend_from_slice(authority.as_bytes());
                let path = uri.path_and_query().map_or("", |path| path.as_str());
                text.extend_from_slice(path.as_bytes());
            }
            Url::Inside(origin, uri) => {
                let path = uri.path_and_query().map_or("", |path| path.as_str());
                text.extend_from_slice(origin.as_str().as_bytes());
                text.extend_from_slice(path.as_bytes());
            }
            Url::Excerpt(bytes) => text.extend_from_slice(bytes),
        }
    }
}
