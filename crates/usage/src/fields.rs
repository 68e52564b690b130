//! The statements in the fields of a response about its use: Content-Usage, Content-Signal, `tdm-reservation`,
//! X-Robots-Tag and Link.
//!
//! The lines of a field are joined with `, ` before they are parsed (RFC 9110 section 5.3), except X-Robots-Tag, where
//! a name reaches to the end of its line. A field of more than [`LONGEST`] octets is not used. The same function reads
//! a response as it comes and the fields that a record keeps.

use std::borrow::Cow;
use std::sync::Arc;

use super::category::Category;
use super::field_name::{FieldName, Line};
use super::modes::Modes;
use super::said::{
    Invalid, License, Place, Preference, Said, Signal, Text, UnusedReason, Value, text,
};
use super::statement::{Parse, Statement, trimmed};
use super::{license, link, robots_tag};
use crawlgate_robots::ProductToken;

/// Limit on a field, in octets, with all its lines.
pub const LONGEST: usize = 8_192;

/// The octets between two lines of a field that are joined.
pub(super) const SEPARATOR: &[u8] = b", ";

/// Reads the fields of a response for a crawler with this chain of product tokens. Only signals that are not off are
/// read; without any of their fields, nothing is allocated.
#[must_use]
pub fn read(lines: &[Line<'_>], chain: &[ProductToken], modes: &Modes) -> Said {
    let mut said = Said::default();
    if lines.is_empty() {
        return said;
    }
    let statements: [(_, _, Parse); 2] = [
        (Signal::ContentUsage, FieldName::ContentUsage, Statement::usage),
        (Signal::ContentSignal, FieldName::ContentSignal, Statement::signal),
    ];
    for (signal, name, parse) in statements {
        if let Some(field) = Field::of(lines, signal, name, modes, &mut said) {
            statement(&mut said, &field, parse);
        }
    }
    let name = FieldName::TdmReservation;
    if let Some(field) = Field::of(lines, Signal::Tdm, name, modes, &mut said) {
        tdm_reservation(&mut said, &field);
    }
    let name = FieldName::RobotsTag;
    if let Some(field) = Field::of(lines, Signal::RobotsTag, name, modes, &mut said) {
        let is_image = named(lines, FieldName::ContentType).any(is_image);
        for line in named(lines, name) {
            robots_tag::rules(line, chain, is_image, &mut |rule, disallowed| {
                rule_of_tag(&mut said, &field, rule, disallowed);
            });
        }
    }
    let name = FieldName::Link;
    if let Some(field) = Field::of(lines, Signal::License, name, modes, &mut said) {
        for url in link::licenses(&field.value) {
            match license::url(url) {
                Err(why) => said.reject(field.invalid(why)),
                Ok(url) => said.license(License { url: Arc::from(url), place: field.place() }),
            }
        }
    }
    said
}

/// A field that is read: its lines in one.
struct Field<'a> {
    signal: Signal,
    name: FieldName,
    value: Cow<'a, [u8]>,
}

impl<'a> Field<'a> {
    /// Joins the lines of a field. `None` if the response has none, the operator does not read them, or they are too
    /// long, which is noted.
    fn of(
        lines: &[Line<'a>],
        signal: Signal,
        name: FieldName,
        modes: &Modes,
        said: &mut Said,
    ) -> Option<Field<'a>> {
        if !signal.mode(modes, &Place::Field(name)).is_read() {
            return None;
        }
        let mut lines = named(lines, name);
        let mut field = Field { signal, name, value: Cow::Borrowed(lines.next()?) };
        for line in lines {
            let value = field.value.to_mut();
            value.extend(SEPARATOR);
            value.extend(line);
            if value.len() > LONGEST {
                break;
            }
        }
        if field.value.len() > LONGEST {
            said.reject(field.invalid(UnusedReason::TooLong));
            return None;
        }
        Some(field)
    }

    fn place(&self) -> Place {
        Place::Field(self.name)
    }

    fn invalid(&self, why: UnusedReason) -> Invalid {
        Invalid { signal: self.signal, place: self.place(), why }
    }

    fn preference(&self, category: Category, value: Value, text: Text) -> Preference {
        Preference { category, value, signal: self.signal, place: self.place(), text }
    }
}

/// Returns the lines of one field, without white space around them.
fn named<'a>(lines: &[Line<'a>], name: FieldName) -> impl Iterator<Item = &'a [u8]> {
    let lines = lines.iter().filter(move |(known, _)| *known == name);
    lines.map(|(_, value)| trimmed(value))
}

/// Tells whether the lines of a field belong into the record of what was `said`: a signal that is read is in them, or they
/// were read beside one. Of `Link`, nearly all lines are about something else.
#[must_use]
pub fn tells(name: FieldName, said: &Said, modes: &Modes) -> bool {
    let is_of = |signal: Signal| signal.mode(modes, &Place::Field(name)).is_read();
    let in_link = |place: &Place| *place == Place::Field(FieldName::Link);
    match name {
        FieldName::ContentUsage => is_of(Signal::ContentUsage),
        FieldName::ContentSignal => is_of(Signal::ContentSignal),
        FieldName::TdmReservation | FieldName::TdmPolicy => is_of(Signal::Tdm),
        FieldName::RobotsTag | FieldName::ContentType => is_of(Signal::RobotsTag),
        FieldName::Link => {
            said.licenses.iter().any(|one| in_link(&one.place))
                || said.invalid.iter().any(|one| in_link(&one.place))
        }
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
        return said.reject(field.invalid(UnusedReason::Unparsable));
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
