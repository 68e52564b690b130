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
use super::said::{Invalid, License, Place, Preference, Said, Signal, Value, Why, text};
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
    if !fields.clone().any(|(name, _)| of_usage(name).is_some()) {
        return said;
    }
    let statements: [(_, _, Parse); 2] = [
        (Signal::ContentUsage, CONTENT_USAGE, Statement::usage),
        (Signal::ContentSignal, CONTENT_SIGNAL, Statement::signal),
    ];
    for (signal, name, parse) in statements {
        if let Some(field) = Field::of(&fields, signal, name, modes, &mut said) {
            statement(&mut said, &field, parse);
        }
    }
    if let Some(field) = Field::of(&fields, Signal::Tdm, TDM_RESERVATION, modes, &mut said) {
        tdm_reservation(&mut said, &field);
    }
    if let Some(field) = Field::of(&fields, Signal::RobotsTag, ROBOTS_TAG, modes, &mut said) {
        let is_image = named(&fields, CONTENT_TYPE).any(is_image);
        for line in named(&fields, ROBOTS_TAG) {
            robots_tag::rules(line, chain, is_image, &mut |rule, disallowed| {
                rule_of_tag(&mut said, &field, rule, disallowed);
            });
        }
    }
    if let Some(field) = Field::of(&fields, Signal::License, LINK, modes, &mut said) {
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
        signal: Signal,
        name: &'static str,
        modes: &Modes,
        said: &mut Said,
    ) -> Option<Field<'a>> {
        if !signal.mode(modes, &Place::Field(name)).is_read() {
            return None;
        }
        let mut lines = named(fields, name);
        let mut field = Field {
            signal,
            name,
            value: Cow::Borrowed(lines.next()?),
        };
        for line in lines {
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

    fn preference(&self, category: Category, value: Value, text: Arc<str>) -> Preference {
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
    // No two names have the same length, so that one comparison is enough.
    let known = match name.len() {
        4 => LINK,
        10 => TDM_POLICY,
        12 => ROBOTS_TAG,
        13 => CONTENT_USAGE,
        14 => CONTENT_SIGNAL,
        15 => TDM_RESERVATION,
        _ => return None,
    };
    is_same(known, name).then_some(known)
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
    let text = text(&field.value);
    for (category, value) in read.values() {
        said.prefer(field.preference(category, value, Arc::clone(&text)));
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
    said.prefer(field.preference(Category::Tdm, value, text(&field.value)));
}

/// Adds what one rule of X-Robots-Tag disallows; a rule that is repeated says no more.
fn rule_of_tag(said: &mut Said, field: &Field<'_>, rule: &[u8], disallowed: &[Category]) {
    let text = text(rule);
    for category in disallowed {
        let preference = field.preference(*category, Value::Disallow, Arc::clone(&text));
        if !said.preferences.contains(&preference) {
            said.prefer(preference);
        }
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
