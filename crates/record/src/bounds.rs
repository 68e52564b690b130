//! Bounds on the texts of entries: what a client chooses must not fill a store.

use crawlgate_policy::Reason;

/// Maximum octets of an entry: bundles of entries frame each with a length of 16 bits.
pub const MAX: usize = 65_535;

/// Bounds on texts, in octets.
pub mod most {
    /// A longer URL, or reading of its path, is cut.
    pub const URL: usize = 16 * 1024;
    /// Bound on URL and User-Agent of unidentified clients: anyone could fill the store with them.
    pub const OF_STRANGERS: usize = 512;
    /// A longer User-Agent is cut.
    pub const USER_AGENT: usize = 1_024;
    /// A longer rule is cut.
    pub const RULE: usize = 4 * 1024;
    /// Product tokens of a chain; the number of the others is kept.
    pub const TOKENS: usize = 32;
    /// A longer token, name or method is cut.
    pub const TOKEN: usize = 256;
    /// A longer origin is cut; the canonical form of a host that DNS can carry is shorter.
    pub const ORIGIN: usize = 1_024;
    /// A longer remark of a person is cut.
    pub const WORDS: usize = 4 * 1024;
    /// A longer detail of an answer is cut.
    pub const DETAIL: usize = 1_024;
    /// Octets of all texts of one list.
    pub const LIST: usize = 24 * 1024;
}

/// Bounds on the texts that a client chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Octets of the URL.
    pub url: usize,
    /// Octets of the User-Agent.
    pub user_agent: usize,
}

impl Bounds {
    /// The bounds for identified clients.
    pub const CLIENTS: Bounds = Bounds { url: most::URL, user_agent: most::USER_AGENT };

    /// Returns the bounds for a decision with this reason.
    #[must_use]
    pub fn of(reason: &str) -> Self {
        if is_of_unknown_client(reason) { Self::STRANGERS } else { Self::CLIENTS }
    }

    /// The bounds for unidentified clients.
    pub const STRANGERS: Bounds =
        Bounds { url: most::OF_STRANGERS, user_agent: most::OF_STRANGERS };
}

/// Tells whether a decision for this reason is on a request without an identified client.
#[must_use]
pub fn is_of_unknown_client(reason: &str) -> bool {
    let strange = [Reason::Unauthenticated, Reason::UnknownClient];
    strange.iter().any(|strange| strange.as_str() == reason)
}
