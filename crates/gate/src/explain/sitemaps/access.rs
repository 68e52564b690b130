//! The origins of which the Sitemap lines are listed; the answer whether a crawler may fetch a sitemap, and its grounds in
//! words.

use crate::explain::SitemapError;
use crawlgate_origins::identity::Identity;
use crawlgate_policy::{Reason, Verdict};
use crawlgate_robots::Rule;
use crawlgate_store::StoredState;

/// The answer whether a crawler may fetch a sitemap.
#[derive(Debug)]
pub enum Access {
    /// The robots.txt of its origin decides.
    Judged {
        /// The reason.
        reason: Reason,
        /// The rule that decides.
        rule: Option<Rule>,
        /// The identity that got that robots.txt.
        judged_as: Identity,
        /// True if a request would fetch that robots.txt anew first.
        is_stale: bool,
    },
    /// The robots.txt of its origin is not known.
    Unknown,
    /// The value is no URL that can be requested.
    Invalid(SitemapError),
}

impl Access {
    /// Returns the answer in one word: `allowed`, `disallowed`, `unknown` or `invalid`.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Judged { reason, .. } if reason.verdict() == Verdict::Allow => "allowed",
            Self::Judged { .. } => "disallowed",
            Self::Unknown => "unknown",
            Self::Invalid(_) => "invalid",
        }
    }

    /// Returns the grounds of the answer in words; empty where nothing speaks against a sitemap.
    #[must_use]
    pub fn about(&self) -> String {
        let (reason, rule, judged_as, is_stale) = match self {
            Self::Judged { reason, rule, judged_as, is_stale } => {
                (*reason, rule, judged_as, *is_stale)
            }
            Self::Unknown => return "the robots.txt of its origin is not known".to_owned(),
            Self::Invalid(why) => return why.to_string(),
        };
        let mut grounds = Vec::new();
        match rule {
            Some(rule) => grounds.push(format!("{} (line {})", rule.text, rule.line)),
            None if reason.verdict() != Verdict::Allow => {
                grounds.push(reason.info().meaning.to_owned());
            }
            None => {}
        }
        if is_stale {
            grounds.push(format!("by a stale copy, fetched as {judged_as}"));
        }
        grounds.join("; ")
    }
}

/// The origins to list; all conditions that are given must hold.
#[derive(Clone, Debug, Default)]
pub struct OriginFilter {
    /// A part of their names.
    pub containing: Option<String>,
    /// The state of the robots.txt with the lines.
    pub state: Option<String>,
}

impl OriginFilter {
    /// Tells whether lines of a robots.txt in this state are listed.
    pub(super) fn is_state(&self, state: &StoredState) -> bool {
        let wanted = self.state.as_deref();
        wanted.is_none_or(|wanted| wanted == state.name())
    }
}
