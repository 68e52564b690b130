//! What the fields of a response say about its use: Content-Usage, Content-Signal, `tdm-reservation`, X-Robots-Tag and
//! Link.
//!
//! The lines of a field are joined with `, ` before they are parsed (RFC 9110 section 5.3), except X-Robots-Tag, where
//! a name reaches to the end of its line. A field of more than [`LONGEST`] octets is not used. The same function reads
//! a response as it comes and the fields that a record keeps.

use std::borrow::Cow;
use std::sync::Arc;

use super::category::Category;
use super::modes::Modes;
use super::said::{Invalid, License, Place, Preference, Said, Signal, Text, Value, Why, text};
use super::statement::{Parse, Statement, trimmed};
use super::{license, link, robots_tag};
use crate::rep::ProductToken;

const CONTENT_USAGE: &str = "content-usage";
const CONTENT_SIGNAL: &str = "content-signal";
const TDM_RESERVATION: &str = "tdm-reservation";
const TDM_POLICY: &str = "tdm-policy";
/// The field of X-Robots-Tag.
pub const ROBOTS_TAG: &str = "x-robots-tag";
const LINK: &str = "link";

/// The fields that speak of use, in lower case. `tdm-policy` is text only: it states nothing here.
pub const NAMES: [&str; 6] = [
    CONTENT_USAGE,
    CONTENT_SIGNAL,
    TDM_RESERVATION,
    TDM_POLICY,
    ROBOTS_TAG,
    LINK,
];

/// The field by which X-Robots-Tag knows images.
pub const CONTENT_TYPE: &str = "content-type";

/// Limit on a field, in octets, with all its lines.
pub const LONGEST: usize = 8_192;

/// The octets between two lines of a field that are joined.
pub(super) const SEPARATOR: &[u8] = b", ";

/// Reads the fields of a response for a crawler with this chain of product tokens. Only signals that are not off are
/// read; without any of their fields, nothing is allocated.
pub fn read<'a>(
    fields: impl Iterator<Item = (&'a str, &'a [u8])> + Clone,
    chain: &[ProductToken],
    modes: &Modes,
) -> Said {
    let mut said = Said::default();
    let Some(found) = Found::among(fields.clone()) else {
        return said;
    };
    let statements: [(_, _, Parse); 2] = [
        (Signal::ContentUsage, CONTENT_USAGE, Statement::usage),
        (Signal::ContentSignal, CONTENT_SIGNAL, Statement::signal),
    ];
    for (signal, name, parse) in statements {
        if let Some(field) = Field::of(&fields, &found, signal, name, modes, &mut said) {
            statement(&mut said, &field, parse);
        }
    }
    let signal = Signal::Tdm;
    if let Some(field) = Field::of(&fields, &found, signal, TDM_RESERVATION, modes, &mut said) {
        tdm_reservation(&mut said, &field);
    }
    let signal = Signal::RobotsTag;
    if let Some(field) = Field::of(&fields, &found, signal, ROBOTS_TAG, modes, &mut said) {
        let is_image = named(&fields, CONTENT_TYPE).any(is_image);
        for line in named(&fields, ROBOTS_TAG) {
            robots_tag::rules(line, chain, is_image, &mut |rule, disallowed| {
                rule_of_tag(&mut said, &field, rule, disallowed);
            });
        }
    }
    let signal = Signal::License;
    if let Some(field) = Field::of(&fields, &found, signal, LINK, modes, &mut said) {
        for url in link::licenses(&field.value) {
            match license::url(url) {
                Err(why) => said.reject(field.invalid(why)),
                Ok(url) => said.license(License {
                    url: Arc::from(url),
                    place: field.place(),
                }),
            }
        }
    }
    said
}

/// The first line of each field of [`NAMES`].
struct Found<'a> {
    first: [Option<&'a [u8]>; NAMES.len()],
    /// True if a field has more lines than one.
    is_repeated: bool,
}

impl<'a> Found<'a> {
    /// Looks through fields once. `None` if none speaks of use.
    fn among(fields: impl Iterator<Item = (&'a str, &'a [u8])>) -> Option<Found<'a>> {
        let mut found = Found {
            first: [None; NAMES.len()],
            is_repeated: false,
        };
        for (name, value) in fields {
            if let Some(first) = place(name).and_then(|place| found.first.get_mut(place)) {
                found.is_repeated |= first.is_some();
                first.get_or_insert(trimmed(value));
            }
        }
        found.first.iter().any(Option::is_some).then_some(found)
    }

    /// Returns the first line of a field.
    fn first(&self, name: &'static str) -> Option<&'a [u8]> {
        *self.first.get(place(name)?)?
    }
}

/// A field that is read: its lines in one.
struct Field<'a> {
    signal: Signal,
    name: &'static str,
    value: Cow<'a, [u8]>,
}

impl<'a> Field<'a> {
    /// Joins the lines of a field. `None` if the response has none, the operator does not read them, or they are too
    /// long, which is noted.
    fn of(
        fields: &(impl Iterator<Item = (&'a str, &'a [u8])> + Clone),
        found: &Found<'a>,
        signal: Signal,
        name: &'static str,
        modes: &Modes,
        said: &mut Said,
    ) -> Option<Field<'a>> {
        if !signal.mode(modes, &Place::Field(name)).is_read() {
            return None;
        }
        let mut field = Field {
            signal,
            name,
            value: Cow::Borrowed(found.first(name)?),
        };
        let lines = found.is_repeated.then(|| named(fields, name).skip(1));
        for line in lines.into_iter().flatten() {
            let value = field.value.to_mut();
            value.extend(SEPARATOR);
            value.extend(line);
            if value.len() > LONGEST {
                break;
            }
        }
        if field.value.len() > LONGEST {
            said.reject(field.invalid(Why::TooLong));
            return None;
        }
        Some(field)
    }

    fn place(&self) -> Place {
        Place::Field(self.name)
    }

    fn invalid(&self, why: Why) -> Invalid {
        Invalid {
            signal: self.signal,
            place: self.place(),
            why,
        }
    }

    fn preference(&self, category: Category, value: Value, text: Text) -> Preference {
        Preference {
            category,
            value,
            signal: self.signal,
            place: self.place(),
            text,
        }
    }
}

/// Returns the lines of one field, without white space around them.
fn named<'a>(
    fields: &(impl Iterator<Item = (&'a str, &'a [u8])> + Clone),
    name: &'static str,
) -> impl Iterator<Item = &'a [u8]> {
    let is_named = move |field: &(&str, &[u8])| is_same(name, field.0);
    let lines = fields.clone().filter(is_named);
    lines.map(|(_, value)| trimmed(value))
}

/// Returns the name of a field that [`read`] knows, in any case, as this program spells it.
#[must_use]
pub fn known(name: &str) -> Option<&'static str> {
    match is_same(CONTENT_TYPE, name) {
        true => Some(CONTENT_TYPE),
        false => of_usage(name),
    }
}

/// Returns the name of a field of [`NAMES`] in any case, as this program spells it.
#[must_use]
fn of_usage(name: &str) -> Option<&'static str> {
    NAMES.get(place(name)?).copied()
}

/// Returns the place of a field in [`NAMES`], in any case.
fn place(name: &str) -> Option<usize> {
    // No two names have the same length, so that one comparison is enough.
    let place = match name.len() {
        13 => 0,
        14 => 1,
        15 => 2,
        10 => 3,
        12 => 4,
        4 => 5,
        _ => return None,
    };
    let known = NAMES.get(place)?;
    is_same(known, name).then_some(place)
}

/// Compares names without case. Nearly all are in lower case already.
fn is_same(known: &str, name: &str) -> bool {
    known.len() == name.len() && (known == name || known.eq_ignore_ascii_case(name))
}

/// Tells whether the lines of a field belong into the record of what was `said`: a signal that is read is in them, or they
/// were read beside one. Of `Link`, nearly all lines are about something else.
#[must_use]
pub fn tells(name: &str, said: &Said, modes: &Modes) -> bool {
    let is_of = |signal: Signal| signal.mode(modes, &Place::Field(LINK)).is_read();
    let in_link = |place: &Place| *place == Place::Field(LINK);
    match name {
        CONTENT_USAGE => is_of(Signal::ContentUsage),
        CONTENT_SIGNAL => is_of(Signal::ContentSignal),
        TDM_RESERVATION | TDM_POLICY => is_of(Signal::Tdm),
        ROBOTS_TAG | CONTENT_TYPE => is_of(Signal::RobotsTag),
        LINK => {
            said.licenses.iter().any(|one| in_link(&one.place))
                || said.invalid.iter().any(|one| in_link(&one.place))
        }
        _ => false,
    }
}

fn statement(said: &mut Said, field: &Field<'_>, parse: Parse) {
    let read = match parse(&field.value) {
        Ok(read) => read,
        Err(why) => return said.reject(field.invalid(why)),
    };
    let text = Text::Copied(text(&field.value));
    for (category, value) in read.values() {
        said.prefer(field.preference(category, value, text.clone()));
    }
    for key in &read.ignored {
        said.ignore(key);
    }
}

/// Reads `1` as reserved and `0` as not reserved; of several values, 1 wins. Others are unset.
fn tdm_reservation(said: &mut Said, field: &Field<'_>) {
    let values = || field.value.split(|octet| *octet == b',').map(trimmed);
    let value = if values().any(|value| value == b"1") {
        Value::Disallow
    } else if values().any(|value| value == b"0") {
        Value::Allow
    } else {
        return said.reject(field.invalid(Why::Unparsable));
    };
    let text = text_of(&field.value, &["1", "0"]);
    said.prefer(field.preference(Category::Tdm, value, text));
}

/// Adds what one rule of X-Robots-Tag disallows; a rule that is repeated says no more.
fn rule_of_tag(said: &mut Said, field: &Field<'_>, rule: &[u8], disallowed: &[Category]) {
    let text = text_of(rule, &robots_tag::RULES);
    for category in disallowed {
        let preference = field.preference(*category, Value::Disallow, text.clone());
        if !said.preferences.contains(&preference) {
            said.prefer(preference);
        }
    }
}

/// Returns octets as the text of a preference, without a copy if they are one of these words.
fn text_of(octets: &[u8], words: &[&'static str]) -> Text {
    let mut words = words.iter();
    match words.find(|word| word.as_bytes() == octets) {
        Some(word) => Text::Word(word),
        None => Text::Copied(text(octets)),
    }
}

fn is_image(content_type: &[u8]) -> bool {
    let start = content_type.get(..b"image/".len());
    start.is_some_and(|start| start.eq_ignore_ascii_case(b"image/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_is_known_in_any_case() {
        for name in NAMES {
            assert_eq!(of_usage(name), Some(name));
            assert_eq!(of_usage(&name.to_ascii_uppercase()), Some(name));
            assert_eq!(of_usage(&name.replace(['k', 't'], "x")), None);
        }
    }
}
