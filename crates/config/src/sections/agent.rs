//! `[agent]`: the product tokens that judge crawlers.

use std::sync::Arc;

use crawlgate_policy::identity::Mismatch;
use crawlgate_robots::ProductToken;

use super::signing::identity;
use super::*;

section! {
    /// `[agent]`
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct AgentConfig "agent" {
        /// Product tokens that every crawler is judged as, most specific first. Empty: taken from each User-Agent field.
        product_tokens: Vec<ProductToken> = Vec::new(), one_or_list(|| text(ProductToken::new)), AtReload;
        /// The reaction to a User-Agent that contains none of the configured product tokens, here or of a client (RFC 9309,
        /// section 2.2.1).
        mismatch: Mismatch = Mismatch::Record, word(), AtReload;
        /// True to deny crawlers that name no product token.
        require_identity: bool = false, boolean(), AtReload;
        /// The `[[signing]]` of clients that name none; none: their requests are not signed.
        signing: Option<Arc<str>> = None, unless("", identity()), AtReload;
    }
}

words! { for Mismatch { Record = "record", Deny = "deny", } }
