//! What one or more sources say about the use of one page: preferences, licences, and statements that were not used.
//!
//! All lists are bounded ([`Said::PREFERENCES`] and others). The bound of preferences never changes a judgement: where
//! it is reached, statements that repeat others make room ([`Said::prefer`]).

use std::borrow::Cow;
use std::ops::Deref;
use std::sync::Arc;

use super::category::Category;
use super::field_name::FieldName;
use super::modes::{Modes, SignalMode};

/// Limit on the text of a preference, in octets.
const TEXT: usize = 1024;

/// Room for the preferences of most pages that have any.
const USUAL: usize = 8;

crawlgate_text::spelled! {
    /// What a source says of one category.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum Value {
        /// It names the category, and its word is neither of the others. It denies nothing.
        Unknown = "unknown",
        /// The use is allowed.
        Allow = "allow",
        /// The use is disallowed. Of several values of a category, the greatest counts (vocab-08 section 5.1).
        Disallow = "disallow",
    }
}

crawlgate_text::spelled! {
    /// The ways in which sites state preferences.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum Signal {
        /// Content-Usage (IETF aipref).
        ContentUsage = "content_usage",
        /// Content-Signal (Cloudflare).
        ContentSignal = "content_signal",
        /// TDMRep: `tdm-reservation`, and tdmrep.json.
        Tdm = "tdm",
        /// X-Robots-Tag.
        RobotsTag = "robots_tag",
        /// License of robots.txt, and Link (RSL). It states no preference; a licence applies.
        License = "license",
    }
}

/// The place of a statement.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// A line of robots.txt.
    Robots {
        /// The group that it was read for, as the file spells it; `None` above all groups.
        group: Option<Arc<str>>,
        /// The line's number, from 1.
        line: u32,
    },
    /// A response field.
    Field(FieldName),
    /// An entry of tdmrep.json, from 1; 0 is the file as a whole.
    Entry(u32),
}

/// A statement about one category.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preference {
    /// The category of use.
    pub category: Category,
    /// What is said of it.
    pub value: Value,
    /// How it is said.
    pub signal: Signal,
    /// Where it is said.
    pub place: Place,
    /// The line, the field's value, the rule or the entry, lossily decoded, at most 1 KiB.
    pub text: Text,
}

/// The text of a statement.
#[derive(Clone, Debug)]
pub enum Text {
    /// One of the words that take no copy.
    Word(&'static str),
    /// Any other text.
    Copied(Arc<str>),
}

crawlgate_text::spelled! {
    /// The reason why a statement was not used.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum UnusedReason {
        /// It has another form.
        Unparsable = "unparsable",
        /// It stands on a line so long that only its beginning counts.
        Cut = "cut",
        /// It is longer than the limit.
        TooLong = "too_long",
        /// It stands before the first user-agent line.
        NoGroup = "no_group",
        /// A licence that is no absolute http or https URL.
        NotAbsolute = "not_absolute",
    }
}

/// A statement that was not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    /// How it is said.
    pub signal: Signal,
    /// Where it is said.
    pub place: Place,
    /// The reason.
    pub why: UnusedReason,
}

/// A licence that applies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct License {
    /// Its URL, as written.
    pub url: Arc<str>,
    /// Where it is named.
    pub place: Place,
}

/// What is said about the use of one page. Empty for nearly all pages; then it owns no memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// The preferences in force, in order: robots.txt, tdmrep.json, response fields.
    pub preferences: Vec<Preference>,
    /// Statements that were not used.
    pub invalid: Vec<Invalid>,
    /// Keys that no vocabulary knows.
    pub ignored: Vec<Arc<str>>,
    /// The licences that apply.
    pub licenses: Vec<License>,
    /// The place of the first licence beyond the limit, if there is one. Where licences are enforced, it counts as one that
    /// the operator does not have.
    pub more_licenses: Option<Place>,
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Text::Word(word) => word,
            Text::Copied(text) => text,
        }
    }
}

impl From<Arc<str>> for Text {
    fn from(text: Arc<str>) -> Text {
        Text::Copied(text)
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Text) -> bool {
        **self == **other
    }
}

impl Eq for Text {}

impl Signal {
    /// Returns the operator's treatment of the signal at this place: tdmrep.json has a setting of its own.
    #[must_use]
    pub fn mode(self, modes: &Modes, place: &Place) -> SignalMode {
        match (self, place) {
            (Signal::ContentUsage, _) => modes.content_usage,
            (Signal::ContentSignal, _) => modes.content_signal,
            (Signal::Tdm, Place::Entry(_)) => modes.tdmrep,
            (Signal::Tdm, _) => modes.tdm_reservation,
            (Signal::RobotsTag, _) => modes.robots_tag,
            (Signal::License, _) => modes.license,
        }
    }
}

impl Place {
    /// Returns the word for the kind of place: `robots`, `header` or `tdmrep`.
    #[must_use]
    pub fn source(&self) -> &'static str {
        match self {
            Place::Robots { .. } => "robots",
            Place::Field(_) => "header",
            Place::Entry(_) => "tdmrep",
        }
    }
}

impl Preference {
    /// Tells whether the operator enforces the signal and it disallows the category.
    pub(super) fn is_enforced_disallow(&self, modes: &Modes) -> bool {
        self.value == Value::Disallow && self.signal.mode(modes, &self.place) == SignalMode::Enforce
    }

    /// Tells whether another preference says the same of the same category, by the same signal of the same kind of
    /// place.
    fn repeats(&self, other: &Preference) -> bool {
        (self.category, self.value, self.signal) == (other.category, other.value, other.signal)
            && self.place.source() == other.place.source()
    }
}

impl Said {
    /// Limit on preferences. More than all combinations of category, value and signal that one kind of place can state.
    pub const PREFERENCES: usize = 32;
    /// Limit on statements that were not used.
    pub const INVALID: usize = 16;
    /// Limit on unknown keys.
    pub const IGNORED: usize = 16;
    /// Limit on licences.
    pub const LICENSES: usize = 16;

    /// Tells whether nothing was said.
    pub fn is_empty(&self) -> bool {
        self.preferences.is_empty()
            && self.invalid.is_empty()
            && self.ignored.is_empty()
            && self.licenses.is_empty()
    }

    /// Adds what another source says. A `tdm-reservation` field supersedes the entry of tdmrep.json.
    #[must_use]
    pub fn and(mut self, other: &Said) -> Said {
        if other.is_empty() {
            return self;
        }
        self.drop_superseded(other);
        for preference in &other.preferences {
            self.prefer(preference.clone());
        }
        for invalid in &other.invalid {
            self.reject(invalid.clone());
        }
        for key in &other.ignored {
            self.ignore(key);
        }
        for license in &other.licenses {
            self.license(license.clone());
        }
        self.more_licenses = self.more_licenses.or_else(|| other.more_licenses.clone());
        self
    }

    /// Removes the entries of tdmrep.json if a field of this `response` states a reservation, which supersedes them.
    pub fn drop_superseded(&mut self, response: &Said) {
        let is_field =
            |one: &Preference| one.signal == Signal::Tdm && matches!(one.place, Place::Field(_));
        if response.preferences.iter().any(is_field) {
            let is_entry = |one: &Preference| matches!(one.place, Place::Entry(_));
            self.preferences.retain(|one| !is_entry(one));
        }
    }

    /// Adds a preference. At the limit, the last one that repeats another makes room for one that repeats none.
    pub(super) fn prefer(&mut self, preference: Preference) {
        if self.preferences.len() >= Said::PREFERENCES {
            let repeats = |at: usize| {
                let (before, from) = self.preferences.split_at_checked(at)?;
                let one = from.first()?;
                before.iter().any(|before| one.repeats(before)).then_some(at)
            };
            let is_new = !self.preferences.iter().any(|one| preference.repeats(one));
            match (0..self.preferences.len()).rev().find_map(repeats) {
                Some(at) if is_new => drop(self.preferences.remove(at)),
                _ => return,
            }
        }
        if self.preferences.capacity() == 0 {
            self.preferences.reserve(USUAL);
        }
        self.preferences.push(preference);
    }

    pub(super) fn reject(&mut self, invalid: Invalid) {
        if self.invalid.len() < Said::INVALID {
            self.invalid.push(invalid);
        }
    }

    /// Adds an unknown key, once.
    pub(super) fn ignore(&mut self, key: &Arc<str>) {
        if self.ignored.len() < Said::IGNORED && !self.ignored.contains(key) {
            self.ignored.push(Arc::clone(key));
        }
    }

    /// Adds a licence; several places may name one, and the first counts.
    pub(super) fn license(&mut self, license: License) {
        let is_known = |one: &License| one.url == license.url;
        if self.licenses.iter().any(is_known) {
            return;
        }
        if self.licenses.len() < Said::LICENSES {
            self.licenses.push(license);
        } else {
            self.more_licenses = self.more_licenses.take().or(Some(license.place));
        }
    }
}

/// Returns octets as the text of a preference: lossily decoded, at most 1 KiB, cut between two characters.
pub(super) fn text(octets: &[u8]) -> Arc<str> {
    // A cut inside a character must not leave a replacement character, so a little more is decoded than is kept.
    let octets = octets.get(..TEXT + 4).unwrap_or(octets);
    let decoded = match str::from_utf8(octets) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => String::from_utf8_lossy(octets),
    };
    let mut kept = TEXT.min(decoded.len());
    while !decoded.is_char_boundary(kept) {
        kept -= 1;
    }
    Arc::from(decoded.get(..kept).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Purpose, Purposes, judge};

    #[test]
    fn a_licence_beyond_the_limit_is_one_that_the_operator_does_not_have() {
        let purposes = Purposes::NONE.with(Purpose::Search);
        let url = |number: usize| format!("https://site.example/{number}");
        let mut modes = Modes {
            license: SignalMode::Enforce,
            licenses: (0..40).map(|number| url(number).into()).collect(),
            ..Modes::default()
        };
        let field = Place::Field(FieldName::Link);
        let robots = Place::Robots { group: None, line: 1 };
        for (count, place, is_withheld, expected) in [
            (16, &field, true, false),
            (17, &field, true, true),
            (40, &field, true, true),
            (40, &field, false, false),
            (16, &robots, false, false),
            (17, &robots, false, true),
        ] {
            modes.withhold = is_withheld;
            let mut said = Said::default();
            // Twice: a repeated licence takes no room.
            for number in (0..count).chain(0..count) {
                said.license(License { url: url(number).into(), place: place.clone() });
            }
            assert_eq!(said.licenses.len(), 16);
            let none = Said::default();
            let by_both = [
                judge(purposes, &modes, &said, None),
                judge(purposes, &modes, &none, Some(&said)),
                judge(purposes, &modes, &none.clone().and(&said), None),
            ];
            for judged in by_both {
                assert_eq!(judged.unlicensed, expected, "{count}, {place:?}");
            }
            assert!(!judge(Purposes::NONE, &modes, &said, None).unlicensed);
        }
    }
}
