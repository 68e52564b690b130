//! What a person has asserted about an origin, over its robots.txt: by whom, why, and until when.

use std::fmt;

use crate::clock::Moment;
use crate::rep::Origin;

/// An assertion about the paths of one origin. Never inferred, always by a named person, and expiring unless it
/// stands in the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Override {
    /// Its number in the store, or where it stands in the configuration.
    pub id: OverrideId,
    /// The origin it speaks of.
    pub origin: Origin,
    /// A path pattern as in robots.txt (RFC 9309 section 2.2.3); `/` is the whole origin.
    pub pattern: String,
    /// What it says.
    pub action: Action,
    /// When it ends to hold; `None`: not before it is removed.
    pub until: Option<Moment>,
    /// Who asserted it.
    pub by: String,
    /// Why.
    pub reason: String,
    /// When; of one in the configuration, when that was read.
    pub created: Moment,
}

/// Which override it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum OverrideId {
    /// By its number in the store.
    Stored(u64),
    /// By its place in the configuration, from 1.
    Configured(u32),
}

impl fmt::Display for OverrideId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stored(number) => write!(f, "{number}"),
            Self::Configured(place) => write!(f, "config-{place}"),
        }
    }
}

/// What an override says of the paths that its pattern matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// Forward them, whatever robots.txt says.
    Allow,
    /// Refuse them, whatever robots.txt says.
    Deny,
}

impl Action {
    /// The action's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
        }
    }
}
