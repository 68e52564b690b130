//! The identity that a crawler is judged by: its chain of product tokens (RFC 9309 section 2.2.1).
//!
//! The configuration names the chain, for one client or for all; otherwise each request's User-Agent does. A crawler
//! that names itself nowhere is judged by the `*` group. A chain from a User-Agent also gets the families of its tokens
//! ([`crawlgate_robots::family`]): `Googlebot-Image` obeys the rules for `Googlebot` if no group names `Googlebot-Image`
//! itself.
//!
//! A configured chain should match the crawler's own name: "the product token SHOULD be a substring in the
//! identification string that the crawler sends". If no token of the chain is such a substring, compared without case,
//! the identity is marked as a mismatch. One matching token is enough: a crawler for images or news may send the
//! identification string of its family.

use std::sync::Arc;

use dashmap::DashMap;
use http::HeaderMap;
use http::header::USER_AGENT;

use crawlgate_robots::{ProductToken, family, product_tokens};

/// Distinct identification strings remembered. Beyond this number, each string is parsed anew.
const REMEMBERED: usize = 4096;

/// Longest identification string that counts, in octets; the rest is not read.
const LONGEST: usize = 2048;

/// The remark on a User-Agent without the URL of a page about the crawler, which sites look for in their logs.
pub const WITHOUT_URL: &str =
    "has no URL: sites that find it in their logs cannot read there who crawls, and how to stop it";

/// Tells whether a User-Agent has a URL.
#[must_use]
pub fn has_url(user_agent: &str) -> bool {
    user_agent.contains("://")
}

/// An identity.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Agent {
    /// Product tokens, most specific first; empty if nothing names the crawler.
    pub tokens: Vec<ProductToken>,
    /// The origin of the tokens.
    pub source: Source,
    /// True if the User-Agent that was sent contains none of the tokens. Always false for tokens from the User-Agent.
    pub mismatch: bool,
}

crawlgate_text::named! {
    /// The origin of a chain of product tokens.
    Source {
        /// Nothing names the crawler: the `*` group applies.
        #[default]
        Nothing = 0 "none",
        /// The `product_tokens` of a `[[client]]`.
        Client = 1 "client",
        /// `[agent] product_tokens`.
        Config = 2 "config",
        /// The request's User-Agent.
        UserAgent = 3 "user_agent",
    }
}

/// A configured chain of product tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chain {
    fits: Arc<Agent>,
    strays: Arc<Agent>,
}

impl Chain {
    /// Returns the chain of these tokens, most specific first; `None` without tokens.
    #[must_use]
    pub fn new(tokens: &[ProductToken], source: Source) -> Option<Chain> {
        let agent = |mismatch| Arc::new(Agent { tokens: tokens.to_vec(), source, mismatch });
        (!tokens.is_empty()).then(|| Chain { fits: agent(false), strays: agent(true) })
    }

    /// Returns the identity of a request with these header fields.
    fn agent(&self, headers: &HeaderMap) -> Arc<Agent> {
        let mut sent = headers.get_all(USER_AGENT).iter();
        let fits = sent.any(|line| {
            let line = line.as_bytes();
            let line = line.get(..LONGEST).unwrap_or(line);
            let is_part = |token: &ProductToken| contains(line, token.as_str().as_bytes());
            self.fits.tokens.iter().any(is_part)
        });
        Arc::clone(if fits { &self.fits } else { &self.strays })
    }
}

/// Tells whether `whole` contains `part`, without regard to case (ASCII).
fn contains(whole: &[u8], part: &[u8]) -> bool {
    let Some((first, rest)) = part.split_first() else {
        return true;
    };
    let (lower, upper) = (first.to_ascii_lowercase(), first.to_ascii_uppercase());
    memchr::memchr2_iter(lower, upper, whole).any(|at| {
        whole.get(at + 1..at + part.len()).is_some_and(|found| found.eq_ignore_ascii_case(rest))
    })
}

/// Tells the identity of requests.
#[derive(Debug)]
pub struct Agents {
    configured: Option<Chain>,
    unnamed: Arc<Agent>,
    known: DashMap<Box<[u8]>, Arc<Agent>, ahash::RandomState>,
}

impl Agents {
    /// Uses the configured chain, or reads User-Agents if it is empty.
    pub fn new(configured: &[ProductToken]) -> Agents {
        Agents {
            configured: Chain::new(configured, Source::Config),
            unnamed: Arc::default(),
            known: DashMap::default(),
        }
    }

    /// Returns the identity of a request of `client` with these header fields. Several User-Agent lines all count, in
    /// order.
    pub fn identify(&self, chain: Option<&Chain>, headers: &HeaderMap) -> Arc<Agent> {
        if let Some(chain) = chain.or(self.configured.as_ref()) {
            return chain.agent(headers);
        }
        let mut values = headers.get_all(USER_AGENT).iter();
        let Some(first) = values.next() else {
            return Arc::clone(&self.unnamed);
        };
        match values.next() {
            None => self.named(first.as_bytes()),
            Some(_) => {
                let lines: Vec<&[u8]> =
                    headers.get_all(USER_AGENT).iter().map(|v| v.as_bytes()).collect();
                self.named(&lines.join(&b' '))
            }
        }
    }

    fn named(&self, user_agent: &[u8]) -> Arc<Agent> {
        let user_agent = user_agent.get(..LONGEST).unwrap_or(user_agent);
        if let Some(agent) = self.known.get(user_agent) {
            return Arc::clone(&agent);
        }
        let tokens = with_families(product_tokens(user_agent));
        if tokens.is_empty() {
            return Arc::clone(&self.unnamed);
        }
        let agent = Arc::new(Agent { tokens, source: Source::UserAgent, mismatch: false });
        if self.known.len() < REMEMBERED {
            self.known.insert(user_agent.into(), Arc::clone(&agent));
        }
        agent
    }
}

/// Returns the same tokens, each followed by its family unless the family is already among them.
fn with_families(tokens: Vec<ProductToken>) -> Vec<ProductToken> {
    let mut chain: Vec<ProductToken> = Vec::with_capacity(tokens.len());
    for token in &tokens {
        if !chain.contains(token) {
            chain.push(token.clone());
        }
        let family = family(token.as_str()).and_then(|name| ProductToken::new(name).ok());
        chain.extend(family.filter(|family| !tokens.contains(family) && !chain.contains(family)));
    }
    chain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(agents: &Agents, lines: &[&'static str]) -> (Vec<String>, Source) {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(USER_AGENT, http::HeaderValue::from_static(line));
        }
        let agent = agents.identify(None, &headers);
        (agent.tokens.iter().map(|t| t.as_str().to_owned()).collect(), agent.source)
    }

    #[test]
    fn the_user_agent_names_the_chain() {
        let agents = Agents::new(&[]);
        #[rustfmt::skip] // one row, one case
        let cases = [
            (&["FooBot/1.2"][..], &["FooBot"][..], Source::UserAgent),
            (&["FooBot/1.2"], &["FooBot"], Source::UserAgent),
            (&["A/1", "B/2"], &["A", "B"], Source::UserAgent),
            (&["Googlebot-Image/1.0"], &["Googlebot-Image", "Googlebot"], Source::UserAgent),
            (&["googlebot-image/1.0 A/2"], &["googlebot-image", "Googlebot", "A"], Source::UserAgent),
            (&["Googlebot-Video/1 Googlebot-News/1 Googlebot/2"], &["Googlebot-Video", "Googlebot-News", "Googlebot"], Source::UserAgent),
            (&["Mozilla/5.0 (compatible; YandexBot/3.0)"], &["YandexBot", "Yandex"], Source::UserAgent),
            (&["Googlebot/2.1"], &["Googlebot"], Source::UserAgent),
            (&["Mozilla/5.0"], &[], Source::Nothing),
            (&[""], &[], Source::Nothing),
            (&[], &[], Source::Nothing),
        ];
        for (lines, tokens, source) in cases {
            let expected = tokens.iter().map(|t| t.to_string()).collect();
            assert_eq!(chain(&agents, lines), (expected, source), "{lines:?}");
        }
    }

    #[test]
    fn remembered_agents_are_bounded_and_others_are_parsed_again() {
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
        assert_eq!(agent.tokens, [ProductToken::new("First").expect("a valid token")]);
    }

    #[test]
    fn octets_that_are_no_text_do_no_harm() {
        let agents = Agents::new(&[]);
        let mut headers = HeaderMap::new();
        let value =
            http::HeaderValue::from_bytes(b"\xff\xfe FooBot/1 \x80").expect("a field value");
        headers.append(USER_AGENT, value);
        let agent = agents.identify(None, &headers);
        assert_eq!(agent.tokens, [ProductToken::new("FooBot").expect("a valid token")]);
    }

    #[test]
    fn a_configured_chain_outranks_the_user_agent() {
        let agents = Agents::new(&[ProductToken::new("Ours").expect("a valid token")]);
        assert_eq!(chain(&agents, &["FooBot/1"]), (vec!["Ours".to_owned()], Source::Config));
    }

    #[test]
    fn a_configured_chain_should_be_part_of_the_user_agent() {
        let token = |name: &&str| ProductToken::new(name).expect("a valid token");
        let endless = format!("{} Ours/1", "x".repeat(LONGEST));
        #[rustfmt::skip] // one row, one case
        let cases: [(&str, &[&str], &[&str], bool); 11] = [
            ("the token", &["Ours"], &["Ours/1.0"], false),
            ("in other letters", &["Ours"], &["Mozilla/5.0 (compatible; oURS/2.1)"], false),
            ("within a word", &["Ours"], &["NotOurs2"], false),
            ("one of several", &["Ours-Image", "Ours"], &["Ours/1.0"], false),
            ("on the second line", &["Ours"], &["Mozilla/5.0", "Ours/1.0"], false),
            ("after its beginning", &["ours"], &["ouours"], false),
            ("another", &["Ours"], &["Theirs/1.0"], true),
            ("the beginning only", &["Ours"], &["Our"], true),
            ("nothing", &["Ours"], &[], true),
            ("an empty one", &["Ours"], &[""], true),
            ("after what is read", &["Ours"], &[&endless], true),
        ];
        for (name, chain, lines, mismatch) in cases {
            let tokens: Vec<_> = chain.iter().map(token).collect();
            let mut headers = HeaderMap::new();
            for line in lines {
                let value = http::HeaderValue::from_str(line).expect("a field value");
                headers.append(USER_AGENT, value);
            }
            let ours = Agents::new(&tokens).identify(None, &headers);
            assert_eq!((ours.mismatch, ours.source), (mismatch, Source::Config), "{name}");
            let chain = Chain::new(&tokens, Source::Client);
            let theirs = Agents::new(&[token(&"Other")]).identify(chain.as_ref(), &headers);
            assert_eq!((theirs.mismatch, theirs.source), (mismatch, Source::Client), "{name}");
            assert_eq!(theirs.tokens, tokens, "{name}");
        }
    }
}
