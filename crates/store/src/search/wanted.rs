//! The keys without which a segment has no decision that a search finds.

use super::Search;
use crate::segment::keys::{Kind, SegmentKeys, key};

/// The keys that a search wants of a segment.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Of each group, one key at least.
    groups: Vec<Vec<u32>>,
}

impl Search {
    /// Returns the keys that a segment must have to hold a matching decision.
    #[must_use]
    pub fn wanted(&self) -> Wanted {
        let query = &self.query;
        let mut groups = Vec::new();
        if let Some(origin) = query.origin.as_ref().filter(|origin| !origin.is_empty()) {
            let kind = match self.is_any_scheme() {
                true => Kind::Host,
                false => Kind::Origin,
            };
            groups.push(vec![key(kind, origin.to_ascii_lowercase().as_bytes())]);
        }
        if let Some(rule) = &query.rule {
            groups.push(vec![key(Kind::Rule, rule.as_bytes())]);
        }
        if let Some(token) = &query.agent {
            groups.push(vec![key(
                Kind::Token,
                token.to_ascii_lowercase().as_bytes(),
            )]);
        }
        if let Some(client) = &self.client {
            let mut either = vec![key(Kind::ClientName, client.name.as_bytes())];
            let address = client.address.map(|address| address.to_string());
            either.extend(address.map(|address| key(Kind::ClientAddress, address.as_bytes())));
            groups.push(either);
        }
        if let Some(reason) = &query.reason {
            groups.push(vec![key(Kind::Reason, reason.as_bytes())]);
        }
        Wanted { groups }
    }
}

impl Wanted {
    /// Tells whether a segment with these keys can hold a matching decision.
    #[must_use]
    pub fn may_be_in(&self, keys: SegmentKeys<'_>) -> bool {
        let mut groups = self.groups.iter();
        groups.all(|group| group.iter().any(|key| keys.has(*key)))
    }
}
