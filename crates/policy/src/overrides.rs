//! Overrides: an operator's assertions about an origin, above its robots.txt, each with name, reason and end.
//!
//! Patterns match as in robots.txt, and the most specific match decides: most octets, a deny on a tie. An expired
//! override does not count.
//!
//! An origin may read a path as another one (`/open/../private`; see [`PathVariants`]). An override is about the
//! content that the origin serves, so every variant is checked, independently of `[robots] path_guard`. A deny that
//! matches any variant denies. An allow that decides about the path as written must also match the other variants; if
//! it matches only some, robots.txt decides. So a record needs to name only one override to show that it had to decide.
//!
//! An override of usage lifts what the site says of the use of its content, and leaves the rules of robots.txt in force. It
//! is looked for apart from the others.
//!
//! An opaque tunnel carries every path: any deny denies it, and an allow for the whole origin allows it.

use std::collections::HashMap;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use crawlgate_robots::{ComparisonPath, Origin, PathPattern, PathVariants};
use crawlgate_text::DecisionId;
use crawlgate_text::Moment;

/// An assertion about the paths of one origin. It is never inferred, always names a person, and expires unless it is in
/// the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Override {
    /// Its identifier, which says where it comes from.
    pub id: OverrideId,
    /// The origin that it applies to.
    pub origin: Origin,
    /// A path pattern as in robots.txt (RFC 9309 section 2.2.3); `/` is the whole origin.
    pub pattern: String,
    /// The assertion.
    pub action: Action,
    /// The moment of its end; `None`: it holds until it is removed.
    pub until: Option<Moment>,
    /// The person who asserted it.
    pub by: String,
    /// The reason.
    pub reason: String,
    /// The moment of its creation; the epoch for one in the configuration, which does not say.
    pub created: Moment,
    /// The instance of a fleet that added it; `None` if this one has never been in a fleet.
    pub instance: Option<String>,
}

/// Limit of octets in a name or a reason: both are in every record, and the reason is in every answer.
const MAX_WORDS: usize = 1_000;

/// Checks a person's name or reason and returns it without surrounding white space.
///
/// # Errors
/// When the text is empty, too long for a record, or contains terminal controls or line ends.
pub fn words(text: &str) -> Result<String, &'static str> {
    let text = text.trim();
    if text.is_empty() {
        Err("expected some text")
    } else if text.len() > MAX_WORDS {
        Err("expected at most 1,000 octets: every record contains it")
    } else if text.chars().any(char::is_control) {
        Err("expected one line, without control characters")
    } else {
        Ok(text.to_owned())
    }
}

/// The identifier of an override.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum OverrideId {
    /// Its number in the store.
    Stored(u64),
    /// Its position in the configuration, from 1.
    Configured(u32),
    /// Its identifier in a fleet, the same at every instance.
    Shared(DecisionId),
}

impl fmt::Display for OverrideId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stored(number) => write!(f, "{number}"),
            Self::Configured(place) => write!(f, "config-{place}"),
            Self::Shared(id) => write!(f, "{id}"),
        }
    }
}

impl OverrideId {
    /// Returns the identifier of an override in the store, as people write it; `None` for another text.
    #[must_use]
    pub fn in_store(text: &str) -> Option<OverrideId> {
        if text.bytes().all(|octet| octet.is_ascii_digit()) && text.len() < SHARED {
            text.parse().ok().map(OverrideId::Stored)
        } else {
            DecisionId::from_text(&text.to_ascii_uppercase()).map(OverrideId::Shared)
        }
    }

    /// Tells whether it is one of the configuration.
    #[must_use]
    pub fn is_configured(&self) -> bool {
        matches!(self, Self::Configured(_))
    }
}

/// Characters of an identifier in a fleet.
const SHARED: usize = 26;

crawlgate_text::named! {
    /// The assertion of an override about the paths that its pattern matches.
    Action {
        /// Forward them, regardless of robots.txt and of what the site says of use.
        #[default]
        Allow = 0 "allow",
        /// Refuse them, regardless of robots.txt.
        Deny = 1 "deny",
        /// Forward them regardless of what the site says of use; the rules of robots.txt hold.
        AllowUsage = 2 "allow_usage",
    }
}

impl Override {
    /// Tells whether it holds at `now`.
    pub fn holds(&self, now: Moment) -> bool {
        self.until.is_none_or(|until| now < until)
    }
}

/// All overrides, by origin. Compiled once for each change, read by each request.
#[derive(Debug, Default)]
pub struct Overrides {
    /// Those above robots.txt.
    by_origin: ByOrigin,
    /// Those above what a site says of use.
    of_usage: ByOrigin,
}

type ByOrigin = HashMap<Origin, Vec<Entry>, ahash::RandomState>;

#[derive(Debug)]
struct Entry {
    pattern: PathPattern,
    asserted: Arc<ActiveOverride>,
}

/// An override in force, with its digest once a record has named it.
#[derive(Debug)]
pub struct ActiveOverride {
    asserted: Override,
    digest: OnceLock<[u8; 32]>,
}

impl ActiveOverride {
    /// Puts an override in force.
    #[must_use]
    pub fn new(asserted: Override) -> ActiveOverride {
        ActiveOverride { asserted, digest: OnceLock::new() }
    }

    /// Returns the digest by which records name the override; `compute` is asked once.
    pub fn digest(&self, compute: impl FnOnce(&Override) -> [u8; 32]) -> [u8; 32] {
        *self.digest.get_or_init(|| compute(&self.asserted))
    }
}

impl Deref for ActiveOverride {
    type Target = Override;

    fn deref(&self) -> &Override {
        &self.asserted
    }
}

impl Entry {
    fn is_allow(&self) -> bool {
        self.asserted.action != Action::Deny
    }
}

impl Overrides {
    /// Compiles overrides. An override with a pattern that can match nothing is left out; the commands that add
    /// overrides reject such a pattern.
    pub fn new(all: impl IntoIterator<Item = Override>) -> Overrides {
        let mut overrides = Overrides::default();
        for asserted in all {
            let Ok(pattern) = PathPattern::new(&asserted.pattern) else {
                continue;
            };
            let by_origin = match asserted.action {
                Action::AllowUsage => &mut overrides.of_usage,
                Action::Allow | Action::Deny => &mut overrides.by_origin,
            };
            let entries = by_origin.entry(asserted.origin.clone());
            entries
                .or_default()
                .push(Entry { pattern, asserted: Arc::new(ActiveOverride::new(asserted)) });
        }
        let Overrides { by_origin, of_usage } = &mut overrides;
        for entries in by_origin.values_mut().chain(of_usage.values_mut()) {
            // The first match decides. Of two equal ones, the older decides: a repeated assertion should not change the
            // records.
            entries.sort_by_key(|entry| {
                let length = std::cmp::Reverse(entry.pattern.length());
                (length, entry.is_allow(), entry.asserted.id)
            });
        }
        overrides
    }

    /// Tells whether there are no overrides.
    pub fn is_empty(&self) -> bool {
        self.by_origin.is_empty() && self.of_usage.is_empty()
    }

    /// Returns the override that decides about a path (with its query) of an origin at `now`.
    pub fn about(&self, origin: &Origin, path: &[u8], now: Moment) -> Option<&Arc<ActiveOverride>> {
        decisive(self.of(origin)?, path, now)
    }

    /// Tells whether the override that decides about a path (with its query) of an origin at `now` allows it; `None` if none
    /// decides.
    pub fn is_allowed(&self, origin: &Origin, path: &[u8], now: Moment) -> Option<bool> {
        let asserted = self.about(origin, path, now)?;
        Some(asserted.action != Action::Deny)
    }

    /// Returns the override that lifts what an origin says of the use of a path (with its query) at `now`.
    pub fn about_usage(
        &self,
        origin: &Origin,
        path: &[u8],
        now: Moment,
    ) -> Option<&Arc<ActiveOverride>> {
        if self.of_usage.is_empty() {
            None
        } else {
            decisive(self.of_usage.get(origin)?, path, now)
        }
    }

    /// Returns the override that lifts what an origin says of the use of everything that it serves at `now`.
    pub fn about_all_usage(&self, origin: &Origin, now: Moment) -> Option<&Arc<ActiveOverride>> {
        let entries = self.of_usage.get(origin)?;
        let lifts = |one: &&Entry| one.asserted.holds(now) && one.pattern.is_everything();
        entries.iter().find(lifts).map(|one| &one.asserted)
    }

    /// Returns the override that decides about everything that an origin serves at `now`.
    pub fn about_all(&self, origin: &Origin, now: Moment) -> Option<&Arc<ActiveOverride>> {
        let holding = || {
            let entries = self.of(origin).into_iter().flatten();
            entries.filter(move |entry| entry.asserted.holds(now))
        };
        let deny = holding().find(|entry| !entry.is_allow());
        deny.or_else(|| holding().find(|entry| entry.pattern.is_everything()))
            .map(|entry| &entry.asserted)
    }

    fn of(&self, origin: &Origin) -> Option<&Vec<Entry>> {
        if self.by_origin.is_empty() {
            return None;
        }
        self.by_origin.get(origin)
    }
}

/// Returns the one of an origin's overrides that decides about a path (with its query) at `now`.
fn decisive<'a>(entries: &'a [Entry], path: &[u8], now: Moment) -> Option<&'a Arc<ActiveOverride>> {
    let path = ComparisonPath::new(path);
    let written = first(entries, now, |entry| entry.pattern.matches(&path));
    let mut decides = written;
    if written.is_none_or(Entry::is_allow) {
        let variants = PathVariants::of(&path);
        let has_escapes = entries.iter().any(|entry| entry.pattern.has_escapes());
        for comparison in variants.comparisons(has_escapes) {
            let matches = |entry: &Entry| {
                if entry.is_allow() {
                    entry.pattern.allows(&comparison)
                } else {
                    entry.pattern.denies(&comparison)
                }
            };
            match first(entries, now, matches) {
                Some(entry) if !entry.is_allow() => return Some(&entry.asserted),
                _ => decides = decides.filter(|allow| matches(allow)),
            }
        }
        if !variants.is_complete() {
            // A deny may apply to one of the variants that were not checked.
            let denies = |entry: &&Entry| !entry.is_allow() && entry.asserted.holds(now);
            if let Some(deny) = entries.iter().find(denies) {
                return Some(&deny.asserted);
            }
            decides = decides.filter(|allow| allow.pattern.is_everything());
        }
    }
    decides.map(|entry| &entry.asserted)
}

/// Returns the most specific override that holds and matches.
fn first(entries: &[Entry], now: Moment, matches: impl Fn(&Entry) -> bool) -> Option<&Entry> {
    let mut holding = entries.iter().filter(|entry| entry.asserted.holds(now));
    holding.find(|entry| matches(entry))
}

#[cfg(test)]
mod tests;
