//! The judgement: what all sources say together, and which declared purposes that refuses.

use super::category::{Categories, Category};
use super::modes::{Modes, SignalMode};
use super::purpose::Purposes;
use super::said::{Place, Preference, Said, Value};

/// The values of all categories after combination (vocab-08 section 5.1): any disallow is disallow, else any allow is
/// allow, else unknown. Signals that are only recorded take part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Combined {
    allowed: Categories,
    disallowed: Categories,
}

/// The judgement of one fetch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Judged {
    /// The values of all categories.
    pub combined: Combined,
    /// The declared purposes that enforced signals refuse.
    pub refused: Purposes,
    /// True if licences are enforced, a purpose is declared, and a licence applies that the operator does not list.
    pub unlicensed: bool,
}

impl Combined {
    /// Returns the value of a category.
    #[must_use]
    pub fn get(self, category: Category) -> Value {
        if self.disallowed.has(category) {
            Value::Disallow
        } else if self.allowed.has(category) {
            Value::Allow
        } else {
            Value::Unknown
        }
    }

    /// Returns the categories with a known value, in the order of [`Category::ALL`].
    pub fn iter(self) -> impl Iterator<Item = (Category, Value)> {
        let known = self.allowed.and(self.disallowed);
        known.iter().map(move |category| (category, self.get(category)))
    }

    fn add(&mut self, preference: &Preference) {
        let category = Categories::one(preference.category);
        match preference.value {
            Value::Disallow => self.disallowed = self.disallowed.and(category),
            Value::Allow => self.allowed = self.allowed.and(category),
            Value::Unknown => {}
        }
    }
}

/// Judges a fetch for its declared purposes. `before` is what robots.txt and tdmrep.json say, `after` what the response
/// says, once there is one.
///
/// The caller has dropped from `before` what the response supersedes ([`Said::drop_superseded`]). With `withhold = false`,
/// nothing that the response says refuses a purpose.
#[must_use]
pub fn judge(purposes: Purposes, modes: &Modes, before: &Said, after: Option<&Said>) -> Judged {
    let both = || std::iter::once(before).chain(after);
    let is_unlicensed = |place: &Place| is_enforced_at(place, modes);
    let mut judged = Judged::default();
    let mut disallowed = Categories::NONE;
    for preference in both().flat_map(|said| &said.preferences) {
        judged.combined.add(preference);
        if preference.is_enforced_disallow(modes) && is_enforced_at(&preference.place, modes) {
            disallowed = disallowed.and(Categories::one(preference.category));
        }
    }
    judged.refused = purposes.refused_by(disallowed);
    judged.unlicensed = modes.license == SignalMode::Enforce
        && !purposes.is_empty()
        && both().any(|said| {
            let mut unheld = said.licenses.iter().filter(|one| !is_held(&one.url, modes));
            unheld.any(|one| is_unlicensed(&one.place))
                || said.more_licenses.as_ref().is_some_and(is_unlicensed)
        });
    judged
}

/// Judges a fetch that has a response with this status, too. Only a 2xx can be refused for what it says: any other carries
/// what the crawler needs, and no content to use.
#[must_use]
pub fn judge_response(
    purposes: Purposes,
    modes: &Modes,
    before: &Said,
    after: &Said,
    status: u16,
) -> Judged {
    let both = judge(purposes, modes, before, Some(after));
    if (200..300).contains(&status) {
        both
    } else {
        Judged { combined: both.combined, ..judge(purposes, modes, before, None) }
    }
}

/// Tells whether statements at this place may refuse at all.
fn is_enforced_at(place: &Place, modes: &Modes) -> bool {
    modes.withhold || !matches!(place, Place::Field(_))
}

/// Tells whether the operator lists this licence, octet for octet.
pub(super) fn is_held(url: &str, modes: &Modes) -> bool {
    modes.licenses.iter().any(|held| **held == *url)
}
