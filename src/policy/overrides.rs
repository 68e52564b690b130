//! What a person has asserted about an origin, over its robots.txt: by whom, why, and until when.
//!
//! Patterns match as those of robots.txt do, and the most specific one that matches decides: most octets, a deny on a
//! tie. One that has expired does not count.
//!
//! An origin may read a path as another one (`/open/../private`; see [`Readings`]). An assertion is about what the origin
//! serves, so it is asked about every reading, whatever `[robots] path_guard` says. A deny that decides about one of
//! them denies. An allow that decides about the path as written must match the others by itself; where it speaks of some
//! only, robots.txt has the word. So the one override that a record names is enough to see that it had to decide.
//!
//! A tunnel that cannot be looked into carries every path: it is denied by any deny, and allowed by an allow for the
//! whole origin.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use crate::clock::Moment;
use crate::rep::{ComparisonPath, Origin, PathPattern, Readings, Spelling};

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
    /// When; of one in the configuration, which does not say, the epoch.
    pub created: Moment,
}

/// Octets of a name or a reason, at most: both stand in every record and the reason in every answer.
const MOST_WORDS: usize = 1_000;

/// What a person says of themselves or as their reason, without white space around it.
///
/// # Errors
/// When it says nothing, is too long for a record, or holds what drives a terminal or ends a line.
pub fn words(text: &str) -> Result<String, &'static str> {
    let text = text.trim();
    if text.is_empty() {
        Err("expected some text")
    } else if text.len() > MOST_WORDS {
        Err("expected at most 1,000 octets: it stands in every record")
    } else if text.chars().any(char::is_control) {
        Err("expected one line, without control characters")
    } else {
        Ok(text.to_owned())
    }
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

impl Override {
    /// Whether it holds at `now`.
    pub fn holds(&self, now: Moment) -> bool {
        self.until.is_none_or(|until| now < until)
    }
}

/// All overrides, by origin. Made once for each change, asked by each request.
#[derive(Debug, Default)]
pub struct Overrides {
    by_origin: HashMap<Origin, Vec<Entry>, ahash::RandomState>,
}

#[derive(Debug)]
struct Entry {
    pattern: PathPattern,
    asserted: Arc<Override>,
}

impl Entry {
    fn is_allow(&self) -> bool {
        self.asserted.action == Action::Allow
    }
}

impl Overrides {
    /// Compiles overrides. One whose pattern can match nothing is left out: nobody could have meant it, and none is
    /// taken in from a person.
    pub fn new(all: impl IntoIterator<Item = Override>) -> Overrides {
        let mut overrides = Overrides::default();
        for asserted in all {
            let Ok(pattern) = PathPattern::new(&asserted.pattern) else {
                continue;
            };
            let entries = overrides.by_origin.entry(asserted.origin.clone());
            entries.or_default().push(Entry {
                pattern,
                asserted: Arc::new(asserted),
            });
        }
        for entries in overrides.by_origin.values_mut() {
            // The first that matches decides. Of two that say the same, the older: what stands in records should not
            // change because somebody said it again.
            entries.sort_by_key(|entry| {
                let length = std::cmp::Reverse(entry.pattern.length());
                (length, entry.is_allow(), entry.asserted.id)
            });
        }
        overrides
    }

    /// Whether there are none at all.
    pub fn is_empty(&self) -> bool {
        self.by_origin.is_empty()
    }

    /// The override that decides about a path (with its query) of an origin at `now`.
    pub fn about(&self, origin: &Origin, path: &[u8], now: Moment) -> Option<&Arc<Override>> {
        let entries = self.of(origin)?;
        let path = ComparisonPath::new(path);
        let written = first(entries, &path, Spelling::Written, now);
        let mut decides = written;
        if written.is_none_or(Entry::is_allow) {
            let readings = Readings::of(&path);
            let has_escapes = entries.iter().any(|entry| entry.pattern.has_escapes());
            for question in readings.questions(has_escapes) {
                let (path, spelling) = (&question.path, question.spelling);
                match first(entries, path, spelling, now) {
                    Some(entry) if !entry.is_allow() => return Some(&entry.asserted),
                    _ => {
                        let matches = |allow: &&Entry| allow.pattern.matches_in(path, spelling);
                        decides = decides.filter(matches);
                    }
                }
            }
            if !readings.is_complete() {
                // One of those that were not asked about may be meant.
                let denies = |entry: &&Entry| !entry.is_allow() && entry.asserted.holds(now);
                if let Some(deny) = entries.iter().find(denies) {
                    return Some(&deny.asserted);
                }
                decides = decides.filter(|allow| allow.pattern.is_everything());
            }
        }
        decides.map(|entry| &entry.asserted)
    }

    /// The override that decides about everything that an origin serves at `now`.
    pub fn about_all(&self, origin: &Origin, now: Moment) -> Option<&Arc<Override>> {
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

/// The most specific one that holds and matches.
fn first<'a>(
    entries: &'a [Entry],
    path: &ComparisonPath<'_>,
    spelling: Spelling,
    now: Moment,
) -> Option<&'a Entry> {
    entries
        .iter()
        .find(|entry| entry.asserted.holds(now) && entry.pattern.matches_in(path, spelling))
}

#[cfg(test)]
mod tests;
