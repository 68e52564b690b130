//! An identity as it is configured.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use url::Url;

use crawlgate_robots::Origin;

/// The path at which a directory of keys is served.
pub const WELL_KNOWN: &str = "/.well-known/http-message-signatures-directory";

/// The allowed form of the URL of an identity.
pub const EXPECTED: &str = "expected an https URL without user name, fragment and spaces: \
     \"https://bot.example/.well-known/http-message-signatures-directory\"";

/// One `[[signing]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The name by which the rest of the configuration means it.
    pub name: Arc<str>,
    /// The URL at which its keys are published.
    pub agent: AgentUrl,
    /// The file of the private key that signs.
    pub key: PathBuf,
    /// Files of more keys that the directory lists: the next one, or the last.
    pub publish: Vec<PathBuf>,
    /// Time for which a signature counts, in whole seconds.
    pub lifetime: Duration,
    /// The parts of a request that are signed.
    pub cover: Cover,
    /// The form of Signature-Agent.
    pub form: Form,
    /// True to sign requests to `http:` URLs, too.
    pub plain_http: bool,
}

/// The parts of a request that a signature covers, besides Signature-Agent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Cover {
    /// Method, authority, path and query.
    #[default]
    Request,
    /// Only the authority: an edge may rewrite the path before it is verified.
    Authority,
}

/// The form of the field Signature-Agent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Form {
    /// A dictionary, as the IETF draft has it.
    #[default]
    Dictionary,
    /// A string, as drafts before had it.
    String,
}

/// The names of the identities that requests are signed with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Assigned {
    /// The identity of clients that name none; none: they are not signed.
    pub others: Option<Arc<str>>,
    /// Clients that name an identity, and its name.
    pub clients: Vec<(Arc<str>, Arc<str>)>,
}

impl Assigned {
    /// Returns the identity of the client of this name, or of all others.
    #[must_use]
    pub fn of(&self, client: Option<&str>) -> Option<&Arc<str>> {
        let named = client.and_then(|client| {
            let mut all = self.clients.iter();
            all.find(|(name, _)| **name == *client)
        });
        named.map(|(_, identity)| identity).or(self.others.as_ref())
    }
}

/// The URL of a directory of keys.
#[derive(Clone, PartialEq, Eq)]
pub struct AgentUrl {
    text: Box<str>,
    origin: Origin,
    is_well_known: bool,
}

impl AgentUrl {
    /// Reads a URL. It keeps the spelling of the operator, because verifiers compare it.
    ///
    /// # Errors
    /// The allowed form, when `text` is something else.
    pub fn parse(text: &str) -> Result<AgentUrl, &'static str> {
        // The URL stands in quotes, in a field.
        let is_plain = |octet: u8| octet.is_ascii_graphic() && !matches!(octet, b'"' | b'\\');
        let url = Url::parse(text).map_err(|_| EXPECTED)?;
        let has_form = text.starts_with("https://")
            && text.bytes().all(is_plain)
            && text.len() <= 1_024
            && url.has_host()
            && url.username().is_empty()
            && url.password().is_none()
            && url.fragment().is_none();
        let (origin, _) = Origin::parse(text).map_err(|_| EXPECTED)?;
        if has_form {
            Ok(AgentUrl {
                is_well_known: url.path() == WELL_KNOWN && url.query().is_none(),
                text: text.into(),
                origin,
            })
        } else {
            Err(EXPECTED)
        }
    }

    /// Returns the URL as the operator has written it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Tells whether it is the well-known URL of its origin.
    #[must_use]
    pub fn is_well_known(&self) -> bool {
        self.is_well_known
    }

    /// Returns the origin of the URL.
    #[must_use]
    pub fn origin(&self) -> &Origin {
        &self.origin
    }
}

impl fmt::Display for AgentUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for AgentUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, f)
    }
}
