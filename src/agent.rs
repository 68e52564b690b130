//! As whom a crawler is judged: its chain of product tokens (RFC 9309 section 2.2.1).
//!
//! The chain stands in the configuration, or is read from each request's User-Agent. A crawler that
//! names itself nowhere is judged by the `*` group.

use std::sync::Arc;

use dashmap::DashMap;
use http::HeaderMap;
use http::header::USER_AGENT;

use crate::rep::{ProductToken, product_tokens};

/// Distinct identification strings remembered. Past it, strings are read anew each time.
const REMEMBERED: usize = 4096;

/// Longest identification string that counts, in octets; what follows is not read.
const LONGEST: usize = 2048;

/// An identity.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Agent {
    /// Product tokens, most specific first; empty for nobody in particular.
    pub tokens: Vec<ProductToken>,
    /// Where they come from.
    pub source: Source,
}

/// Where a chain of product tokens comes from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Source {
    /// `[agent] product_tokens`.
    Config,
    /// The request's User-Agent.
    UserAgent,
    /// Nothing names the crawler: the `*` group speaks.
    #[default]
    Nothing,
}

impl Source {
    /// The source's name in records.
    pub fn as_str(self) -> &'static str {
        match self {
            Source::Config => "config",
            Source::UserAgent => "user_agent",
            Source::Nothing => "none",
        }
    }
}

/// Tells the identity of requests.
#[derive(Debug)]
pub struct Agents {
    configured: Option<Arc<Agent>>,
    nobody: Arc<Agent>,
    known: DashMap<Box<[u8]>, Arc<Agent>, ahash::RandomState>,
}

impl Agents {
    /// With the configured chain, or none to read User-Agents.
    pub fn new(configured: &[ProductToken]) -> Agents {
        let agent = |tokens, source| Arc::new(Agent { tokens, source });
        Agents {
            configured: (!configured.is_empty())
                .then(|| agent(configured.to_vec(), Source::Config)),
            nobody: Arc::default(),
            known: DashMap::default(),
        }
    }

    /// Who sends a request with these header fields. Several User-Agent lines all count, in order.
    pub fn identify(&self, headers: &HeaderMap) -> Arc<Agent> {
        if let Some(agent) = &self.configured {
            return Arc::clone(agent);
        }
        let mut values = headers.get_all(USER_AGENT).iter();
        let Some(first) = values.next() else {
            return Arc::clone(&self.nobody);
        };
        match values.next() {
            None => self.named(first.as_bytes()),
            Some(_) => {
                let lines: Vec<&[u8]> = headers
                    .get_all(USER_AGENT)
                    .iter()
                    .map(|v| v.as_bytes())
                    .collect();
                self.named(&lines.join(&b' '))
            }
        }
    }

    fn named(&self, user_agent: &[u8]) -> Arc<Agent> {
        let user_agent = user_agent.get(..LONGEST).unwrap_or(user_agent);
        if let Some(agent) = self.known.get(user_agent) {
            return Arc::clone(&agent);
        }
        let tokens = product_tokens(user_agent);
        if tokens.is_empty() {
            return Arc::clone(&self.nobody);
        }
        let agent = Arc::new(Agent {
            tokens,
            source: Source::UserAgent,
        });
        if self.known.len() < REMEMBERED {
            self.known.insert(user_agent.into(), Arc::clone(&agent));
        }
        agent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(agents: &Agents, lines: &[&'static str]) -> (Vec<String>, Source) {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(USER_AGENT, http::HeaderValue::from_static(line));
        }
        let agent = agents.identify(&headers);
        (
            agent.tokens.iter().map(|t| t.as_str().to_owned()).collect(),
            agent.source,
        )
    }

    #[test]
    fn the_user_agent_names_the_chain() {
        let agents = Agents::new(&[]);
        for (lines, tokens, source) in [
            (&["FooBot/1.2"][..], &["FooBot"][..], Source::UserAgent),
            (&["FooBot/1.2"], &["FooBot"], Source::UserAgent),
            (&["A/1", "B/2"], &["A", "B"], Source::UserAgent),
            (&["Mozilla/5.0"], &[], Source::Nothing),
            (&[""], &[], Source::Nothing),
            (&[], &[], Source::Nothing),
        ] {
            let expected = tokens.iter().map(|t| t.to_string()).collect();
            assert_eq!(chain(&agents, lines), (expected, source), "{lines:?}");
        }
    }

    #[test]
    fn what_is_remembered_is_bounded_and_what_is_not_is_read_anew() {
        let agents = Agents::new(&[]);
        let named = |n: usize| agents.named(format!("Bot{n}/1.0").as_bytes());
        let first = named(0);
        assert!(Arc::ptr_eq(&first, &named(0)), "remembered");
        for n in 1..REMEMBERED + 10 {
            assert_eq!(named(n).tokens[0].as_str(), format!("Bot{n}"));
        }
        assert_eq!(agents.known.len(), REMEMBERED);
        assert!(Arc::ptr_eq(&first, &named(0)), "still remembered");
    }

    #[test]
    fn the_end_of_an_endless_user_agent_is_not_read() {
        let agents = Agents::new(&[]);
        let long = format!("First/1 ({}) Last/1", "x".repeat(LONGEST));
        let agent = agents.named(long.as_bytes());
        assert_eq!(
            agent.tokens,
            [ProductToken::new("First").expect("a valid token")]
        );
    }

    #[test]
    fn octets_that_are_no_text_harm_nobody() {
        let agents = Agents::new(&[]);
        let mut headers = HeaderMap::new();
        let value =
            http::HeaderValue::from_bytes(b"\xff\xfe FooBot/1 \x80").expect("a field value");
        headers.append(USER_AGENT, value);
        let agent = agents.identify(&headers);
        assert_eq!(
            agent.tokens,
            [ProductToken::new("FooBot").expect("a valid token")]
        );
    }

    #[test]
    fn a_configured_chain_outranks_the_user_agent() {
        let agents = Agents::new(&[ProductToken::new("Ours").expect("a valid token")]);
        assert_eq!(
            chain(&agents, &["FooBot/1"]),
            (vec!["Ours".to_owned()], Source::Config)
        );
    }
}
