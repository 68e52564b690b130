//! The identity that an origin's state belongs to, and the User-Agent of its robots.txt fetch.
//!
//! A server may answer each User-Agent differently: a firewall refuses one, another gets its own file, and a field that
//! is too long gets a 400. So no crawler chooses the field freely, and no crawler is judged by the answer to another: a
//! state belongs to an origin and an [`Identity`], and the fetch carries the product token and crawlgate's own name,
//! nothing else of the crawler's fields.

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, Weak};

use http::HeaderValue;
use parking_lot::Mutex;
use thiserror::Error;

use super::document::Document;
use super::requesting_client::RequestingClient;
use super::state::State;
use crawlgate_robots::ProductToken;

/// Identities of one origin that have states of their own, besides `*`. Further ones share the robots.txt of `*`.
pub const OWN_STATES: usize = 8;

/// Longest User-Agent of a robots.txt fetch, in octets.
pub const LONGEST_USER_AGENT: usize = 256;

/// Longest own part of it, in octets: with the longest product token (128) and a space before it, the field stays
/// within [`LONGEST_USER_AGENT`].
pub const LONGEST_OWN: usize = LONGEST_USER_AGENT - 129;

/// crawlgate's own name unless the configuration sets another. The URL explains the proxy: no operator's address is
/// known here.
pub const OWN: &str = concat!(
    "crawlgate/",
    env!("CARGO_PKG_VERSION_MAJOR"),
    ".",
    env!("CARGO_PKG_VERSION_MINOR"),
    " (+https://www.rfc-editor.org/rfc/rfc9309)"
);

/// Beginning of the spelling of an identity with the state of a tdmrep.json. No token or client has a colon.
const OF_TDMREP: &str = "tdmrep.json:";

/// A client's name and a product token, or `*`, with the document that it fetches: the second half of the key of a state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Identity {
    document: Document,
    client: Option<Arc<str>>,
    token: Option<ProductToken>,
}

/// A crawler that asks for an origin, borrowed from its request, so that the look-up of its state allocates nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Crawler<'a> {
    document: Document,
    client: Option<&'a Arc<str>>,
    tokens: &'a [ProductToken],
    /// None: crawlgate itself.
    pub requester: Option<RequestingClient<'a>>,
}

impl<'a> Crawler<'a> {
    /// The crawler that the client of this name answers for.
    #[must_use]
    pub fn new(client: Option<&'a Arc<str>>, tokens: &'a [ProductToken]) -> Crawler<'a> {
        Crawler { client, tokens, ..Crawler::default() }
    }

    /// Returns a crawler with this chain of product tokens and no client.
    #[must_use]
    pub fn named(tokens: &'a [ProductToken]) -> Crawler<'a> {
        Crawler::new(None, tokens)
    }

    /// Returns the crawler that all without a state of their own share at a document.
    #[must_use]
    pub fn common(document: Document) -> Crawler<'a> {
        Crawler::default().asking(document)
    }

    /// Returns a crawler of this identity, with its chain of product tokens.
    #[must_use]
    pub fn with(identity: &'a Identity, tokens: &'a [ProductToken]) -> Crawler<'a> {
        Crawler {
            document: identity.document,
            client: identity.client.as_ref(),
            tokens,
            requester: None,
        }
    }

    /// Returns this crawler, asking for another document.
    #[must_use]
    pub fn asking(self, document: Document) -> Crawler<'a> {
        Crawler { document, ..self }
    }

    /// Returns this crawler, with the client that asks.
    #[must_use]
    pub fn asked_by(self, requester: Option<RequestingClient<'a>>) -> Crawler<'a> {
        Crawler { requester, ..self }
    }

    /// Returns the document that it asks for.
    #[must_use]
    pub fn document(self) -> Document {
        self.document
    }

    /// Returns the chain of product tokens, most specific first.
    #[must_use]
    pub fn tokens(self) -> &'a [ProductToken] {
        self.tokens
    }

    /// Returns the name of its client.
    #[must_use]
    pub fn client(self) -> Option<&'a str> {
        self.client.map(|name| &**name)
    }

    /// Returns its identity.
    #[must_use]
    pub fn identity(self) -> Identity {
        Identity {
            document: self.document,
            client: self.client.cloned(),
            token: self.tokens.first().cloned(),
        }
    }

    /// Tells whether it always shares the state of `*`.
    #[must_use]
    pub fn is_common(self) -> bool {
        self.client.is_none() && self.tokens.is_empty()
    }

    /// Tells whether this is its identity.
    #[must_use]
    pub fn is(self, identity: &Identity) -> bool {
        self.document == identity.document
            && self.tokens.first() == identity.token.as_ref()
            && self.client == identity.client.as_ref()
    }
}

impl Identity {
    /// Reads the text that [`Identity::fmt`](fmt::Display::fmt) wrote; the token is then in lower case.
    #[must_use]
    pub fn parse(text: &str) -> Option<Identity> {
        let (document, text) = match text.strip_prefix(OF_TDMREP) {
            Some(rest) => (Document::TdmRep, rest),
            None => (Document::RobotsTxt, text),
        };
        let (token, client) = match text.split_once('@') {
            Some((token, client)) => (token, Some(client)),
            None => (text, None),
        };
        let token = match token {
            "*" => None,
            token => Some(ProductToken::new(token).ok()?),
        };
        let client = match client {
            Some(client) => Some(client_name(client).ok()?),
            None => None,
        };
        Some(Identity { document, client, token })
    }

    /// Returns the identity `*` at a document.
    #[must_use]
    pub fn common(document: Document) -> Identity {
        Identity { document, ..Identity::default() }
    }

    /// Returns the document that the state is of.
    #[must_use]
    pub fn document(&self) -> Document {
        self.document
    }

    /// Returns the same client and token with the state of another document.
    #[must_use]
    pub fn at(&self, document: Document) -> Identity {
        Identity { document, ..self.clone() }
    }

    /// Tells whether it is `*`: the identity of all crawlers without a state of their own.
    #[must_use]
    pub fn is_common(&self) -> bool {
        self.client.is_none() && self.token.is_none()
    }

    /// Returns the name of its client.
    #[must_use]
    pub fn client(&self) -> Option<&str> {
        self.client.as_deref()
    }

    /// Returns its product token.
    #[must_use]
    pub fn token(&self) -> Option<&ProductToken> {
        self.token.as_ref()
    }
}

impl fmt::Display for Identity {
    /// Writes its one spelling, the key in the store: `*`, `goodbot`, `goodbot@news`, `*@news`; of a tdmrep.json with
    /// `tdmrep.json:` before it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.document {
            Document::RobotsTxt => {}
            Document::TdmRep => f.write_str(OF_TDMREP)?,
        }
        match &self.token {
            Some(token) => {
                for octet in token.as_str().chars() {
                    write!(f, "{}", octet.to_ascii_lowercase())?;
                }
            }
            None => f.write_str("*")?,
        }
        match &self.client {
            Some(client) => write!(f, "@{client}"),
            None => Ok(()),
        }
    }
}

/// The fetch behind a state: its identity and User-Agent.
#[derive(Debug)]
pub struct FetchedAs {
    /// The identity that the state belongs to.
    pub identity: Identity,
    /// The identity as text without its document, for records.
    pub name: Box<str>,
    /// The User-Agent of the fetch that the state rests on.
    pub user_agent: Arc<str>,
    /// The state that a record has named last, and its digest.
    named: Mutex<(Weak<State>, [u8; 32])>,
}

impl FetchedAs {
    /// Returns a fetch for `identity` with this User-Agent.
    #[must_use]
    pub fn new(identity: Identity, user_agent: Arc<str>) -> FetchedAs {
        FetchedAs {
            name: identity.at(Document::RobotsTxt).to_string().into(),
            identity,
            user_agent,
            named: Mutex::default(),
        }
    }

    /// Returns the digest by which records name a state that rests on this fetch, at one origin. `compute` is asked once
    /// for each state, unless records on two states alternate.
    pub fn digest(&self, state: &Arc<State>, compute: impl FnOnce() -> [u8; 32]) -> [u8; 32] {
        let mut named = self.named.lock();
        // The weak reference keeps the address from being used again.
        if !std::ptr::eq(named.0.as_ptr(), Arc::as_ptr(state)) {
            *named = (Arc::downgrade(state), compute());
        }
        named.1
    }
}

/// The User-Agents of robots.txt fetches.
#[derive(Clone, Debug)]
pub struct UserAgents {
    own: Box<str>,
    /// User-Agents of clients that have their own, by name.
    clients: Vec<(Arc<str>, Box<str>)>,
}

impl UserAgents {
    /// Returns the configured ones.
    #[must_use]
    pub fn new(own: Box<str>, clients: Vec<(Arc<str>, Box<str>)>) -> UserAgents {
        UserAgents { own, clients }
    }

    /// Returns crawlgate's own, without a product token.
    #[must_use]
    pub fn own(&self) -> &str {
        &self.own
    }

    /// Returns the one for `identity`: its client's if the client has one; otherwise its product token before
    /// crawlgate's own, unless that already contains the token.
    #[must_use]
    pub fn for_identity(&self, identity: &Identity) -> Cow<'_, str> {
        let of_client = identity.client().and_then(|name| {
            let mut all = self.clients.iter();
            all.find(|(client, _)| **client == *name)
        });
        match (of_client, identity.token()) {
            (Some((_, named)), _) => Cow::Borrowed(named),
            (None, Some(token)) if !names(&self.own, token) => {
                Cow::Owned(format!("{token} {}", self.own))
            }
            (None, _) => Cow::Borrowed(&self.own),
        }
    }
}

/// Tells whether a User-Agent names this product token.
fn names(user_agent: &str, token: &ProductToken) -> bool {
    crawlgate_robots::product_tokens(user_agent.as_bytes()).contains(token)
}

/// The allowed form of a User-Agent from the configuration.
#[derive(Debug, Error)]
#[error(
    "expected a User-Agent of 1 to {most} octets of visible ASCII: \"ExampleBot/1.0 (+https://example.com/bot)\""
)]
pub struct UserAgentExpected {
    most: usize,
}

/// Checks a User-Agent from the configuration, of at most `most` octets.
///
/// # Errors
/// The allowed form, if `text` has another.
pub fn user_agent(text: &str, most: usize) -> Result<Box<str>, UserAgentExpected> {
    let is_visible = |octet: u8| matches!(octet, b' '..=b'~');
    let is_field = !text.is_empty()
        && text.len() <= most
        && text.trim() == text
        && text.bytes().all(is_visible)
        && HeaderValue::from_str(text).is_ok();
    if is_field { Ok(text.into()) } else { Err(UserAgentExpected { most }) }
}

/// The allowed form of a client's name.
pub(crate) const NAME_EXPECTED: &str =
    "expected a name of 1 to 64 of a-z, 0-9, \"-\", \"_\" and \".\": \"news\", \"fleet-7\"";

/// Reads a client's name.
///
/// # Errors
/// The allowed form, when `text` is something else.
pub fn client_name(text: &str) -> Result<Arc<str>, &'static str> {
    let is_name = (1..=64).contains(&text.len())
        && text
            .bytes()
            .all(|octet| matches!(octet, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.'));
    if is_name { Ok(text.into()) } else { Err(NAME_EXPECTED) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configured_user_agent_is_visible_ascii_and_bounded() {
        let longest = "x".repeat(256);
        let longer = "x".repeat(257);
        for (text, is_fine) in [
            ("GoodBot/1.0 (+https://a.example)", true),
            (&*longest, true),
            (&*longer, false),
            ("", false),
            (" GoodBot", false),
            ("Good\tBot", false),
            ("Good\nBot", false),
            ("GödBot", false),
        ] {
            assert_eq!(user_agent(text, 256).is_ok(), is_fine, "{text:?}");
        }
    }
}
