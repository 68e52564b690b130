//! The statements about the use of one page, as records, answers and `check` show it: one JSON object in a fixed order.
//!
//! Its text is bounded. Where it would be longer, it is written again with fewer and shorter parts, and says so.

mod field;

pub use self::field::FieldRecord;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};

use self::field::{Bounds, SHORT};
use super::judge::Judged;
use super::purpose::Purposes;
use super::said::{Invalid, License, Place, Preference, Said};
use crawlgate_text::guarded;

/// Most octets of the text.
pub const MAX: usize = 16 * 1024;

/// The object; each member is what its name says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UsageRecord<'a> {
    /// The purposes that the client declares.
    #[serde(with = "purposes")]
    pub purposes: Purposes,
    /// Those that were refused.
    #[serde(with = "purposes")]
    pub refused: Purposes,
    /// The preferences in force.
    pub preferences: Vec<PreferenceRecord<'a>>,
    /// The known values of all categories, over all signals.
    pub combined: BTreeMap<Cow<'a, str>, Cow<'a, str>>,
    /// Statements that were not used.
    pub invalid: Vec<InvalidRecord<'a>>,
    /// Keys that no vocabulary knows.
    pub ignored: Vec<Cow<'a, str>>,
    /// The licences that apply.
    pub licenses: Vec<Cow<'a, str>>,
    /// `before` or `after` the request was sent, if the use was refused.
    pub stage: Option<Cow<'a, str>>,
    /// The reason under which a withheld request went out.
    pub let_out_by: Option<Cow<'a, str>>,
    /// The status that the origin answered with, if its response was read.
    pub received_status: Option<u16>,
    /// The response fields that were read, a line each.
    pub fields: Vec<FieldRecord<'a>>,
    /// True if parts were left out or cut because the object was too long.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
    /// True if parts were left out, but none of the fields.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fields_whole: bool,
}

/// The part of the object that an answer to a crawler has.
#[derive(Clone, Debug, Serialize)]
#[expect(missing_docs, reason = "as in UsageRecord")]
pub struct Answered<'a> {
    #[serde(with = "purposes")]
    pub purposes: Purposes,
    #[serde(with = "purposes")]
    pub refused: Purposes,
    pub preferences: Vec<PreferenceRecord<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub licenses: Vec<Cow<'a, str>>,
}

impl Answered<'_> {
    /// Returns the text.
    #[must_use]
    pub fn text(&self) -> String {
        guarded::text(self)
    }
}

/// A preference with its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "see Preference and Place")]
pub struct PreferenceRecord<'a> {
    pub category: Cow<'a, str>,
    pub value: Cow<'a, str>,
    pub signal: Cow<'a, str>,
    #[serde(flatten)]
    pub place: PlaceRecord<'a>,
    pub text: Cow<'a, str>,
}

/// A statement that was not used, with its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "see Invalid and Place")]
pub struct InvalidRecord<'a> {
    pub signal: Cow<'a, str>,
    #[serde(flatten)]
    pub place: PlaceRecord<'a>,
    pub why: Cow<'a, str>,
}

/// A [`Place`]: its source, with the members that the source has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "see Place")]
pub struct PlaceRecord<'a> {
    pub source: Cow<'a, str>,
    /// `Some(None)` is a line of robots.txt above all groups.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub group: Option<Option<Cow<'a, str>>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<u32>,
}

impl<'a> UsageRecord<'a> {
    /// Returns the object of what was `said`, and of what follows for these purposes.
    #[must_use]
    pub fn of(
        purposes: Purposes,
        said: impl IntoIterator<Item = &'a Said> + Clone,
        judged: &Judged,
    ) -> UsageRecord<'a> {
        let all = || said.clone().into_iter();
        let combined = judged
            .combined
            .iter()
            .map(|(category, value)| (category.as_str().into(), value.as_str().into()));
        UsageRecord {
            purposes,
            refused: judged.refused,
            preferences: all()
                .flat_map(|said| &said.preferences)
                .map(PreferenceRecord::of)
                .collect(),
            combined: combined.collect(),
            invalid: all().flat_map(|said| &said.invalid).map(InvalidRecord::of).collect(),
            ignored: all()
                .flat_map(|said| &said.ignored)
                .map(|key| Cow::Borrowed(&**key))
                .collect(),
            licenses: all()
                .flat_map(|said| &said.licenses)
                .map(|License { url, .. }| Cow::Borrowed(&**url))
                .collect(),
            ..UsageRecord::default()
        }
    }

    /// Returns the text, at most [`MAX`] octets.
    #[must_use]
    pub fn text(&self) -> String {
        let whole = guarded::text(self);
        if whole.len() <= MAX {
            return whole;
        }
        let short = self.within(SHORT);
        // The response can be judged again by its fields, and all else by robots.txt and tdmrep.json.
        if !self.cut {
            let with_fields = guarded::text(&UsageRecord {
                fields: self.fields.clone(),
                fields_whole: true,
                ..short.clone()
            });
            if with_fields.len() <= MAX {
                return with_fields;
            }
        }
        guarded::text(&short)
    }

    /// Tells whether all field lines of the response can be had from the record.
    #[must_use]
    pub fn has_all_fields(&self) -> bool {
        let is_known = !self.cut || self.fields_whole || self.fields.is_empty();
        is_known && self.fields.iter().all(|field| field.line().is_some())
    }

    /// Reads what [`UsageRecord::text`] wrote; `None` for any other text.
    #[must_use]
    pub fn read(text: &str) -> Option<UsageRecord<'static>> {
        let read: UsageRecord<'static> = serde_json::from_str(text).ok()?;
        (text.len() <= MAX && read.text() == text).then_some(read)
    }

    /// Returns the purposes that the text of a record says were refused; `None` for a text of another form.
    #[must_use]
    pub fn refused_in(text: &str) -> Option<Purposes> {
        #[derive(Deserialize)]
        struct RefusedPurposes {
            #[serde(deserialize_with = "purposes::deserialize")]
            refused: Purposes,
        }
        let read: RefusedPurposes = serde_json::from_str(text).ok()?;
        Some(read.refused)
    }

    /// Returns the object within bounds, marked as cut.
    fn within(&self, bounds: Bounds) -> UsageRecord<'_> {
        let parts = bounds.parts;
        UsageRecord {
            preferences: self
                .preferences
                .iter()
                .take(parts)
                .map(|one| one.within(bounds))
                .collect(),
            invalid: self.invalid.iter().take(parts).map(|one| one.within(bounds)).collect(),
            ignored: self.ignored.iter().take(parts).map(|one| bounds.cut(one)).collect(),
            licenses: self.licenses.iter().take(parts).map(|one| bounds.cut(one)).collect(),
            fields: self.fields.iter().take(parts).map(|one| one.within(bounds)).collect(),
            combined: self.combined.clone(),
            stage: self.stage.clone(),
            let_out_by: self.let_out_by.clone(),
            cut: true,
            ..*self
        }
    }
}

impl<'a> PreferenceRecord<'a> {
    fn of(one: &'a Preference) -> PreferenceRecord<'a> {
        PreferenceRecord {
            category: one.category.as_str().into(),
            value: one.value.as_str().into(),
            signal: one.signal.as_str().into(),
            place: PlaceRecord::of(&one.place),
            text: Cow::Borrowed(&one.text),
        }
    }

    fn within(&self, bounds: Bounds) -> PreferenceRecord<'_> {
        PreferenceRecord {
            category: bounds.cut(&self.category),
            value: bounds.cut(&self.value),
            signal: bounds.cut(&self.signal),
            place: self.place.within(bounds),
            text: bounds.cut(&self.text),
        }
    }
}

impl<'a> InvalidRecord<'a> {
    fn of(one: &'a Invalid) -> InvalidRecord<'a> {
        InvalidRecord {
            signal: one.signal.as_str().into(),
            // The line is enough: it is of no group, or of one that its number tells.
            place: PlaceRecord { group: None, ..PlaceRecord::of(&one.place) },
            why: one.why.as_str().into(),
        }
    }

    fn within(&self, bounds: Bounds) -> InvalidRecord<'_> {
        InvalidRecord {
            signal: bounds.cut(&self.signal),
            place: self.place.within(bounds),
            why: bounds.cut(&self.why),
        }
    }
}

impl<'a> PlaceRecord<'a> {
    fn of(place: &'a Place) -> PlaceRecord<'a> {
        let at = PlaceRecord { source: place.source().into(), ..PlaceRecord::default() };
        match place {
            Place::Robots { group, line } => PlaceRecord {
                group: Some(group.as_deref().map(Cow::Borrowed)),
                line: Some(*line),
                ..at
            },
            Place::Field(name) => PlaceRecord { field: Some(name.as_str().into()), ..at },
            // The file as a whole has no number.
            Place::Entry(number) => {
                PlaceRecord { entry: Some(*number).filter(|number| *number > 0), ..at }
            }
        }
    }

    fn within(&self, bounds: Bounds) -> PlaceRecord<'_> {
        PlaceRecord {
            source: bounds.cut(&self.source),
            group: self.group.as_ref().map(|group| group.as_deref().map(|group| bounds.cut(group))),
            field: self.field.as_deref().map(|field| bounds.cut(field)),
            ..*self
        }
    }
}

impl fmt::Display for PlaceRecord<'_> {
    /// Writes the place in words.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.line, &self.field, self.entry) {
            (Some(line), _, _) => {
                write!(f, "robots.txt, line {line}")?;
                match &self.group {
                    Some(Some(group)) => write!(f, ", of the group {group}"),
                    Some(None) | None => Ok(()),
                }
            }
            (_, Some(field), _) => write!(f, "response, {field}"),
            (_, _, Some(entry)) => write!(f, "tdmrep.json, entry {entry}"),
            (None, None, None) => f.write_str(&self.source),
        }
    }
}

/// Reads a member that is there, although it may be null.
fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}

/// A set of purposes as a list of their words.
mod purposes {
    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serializer};

    use crate::{Purpose, Purposes};

    pub(super) fn serialize<S: Serializer>(all: &Purposes, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(all.iter().map(Purpose::as_str))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Purposes, D::Error> {
        let words = Vec::<String>::deserialize(from)?;
        let read = |word: &String| {
            Purpose::from_name(word).ok_or_else(|| D::Error::custom("an unknown purpose"))
        };
        words.iter().map(read).collect()
    }
}
