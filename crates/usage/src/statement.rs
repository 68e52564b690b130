//! One statement: the Dictionary of Content-Usage (RFC 9651), or the list of Content-Signal. In robots.txt a path may
//! stand before it.

use std::convert::Infallible;
use std::sync::Arc;

use sfv::visitor::{
    DictionaryVisitor, EntryVisitor, Ignored, InnerListVisitor, ItemVisitor, ParameterVisitor,
};
use sfv::{BareItemFromInput, KeyRef, Parser};

use super::category::Category;
use super::said::{Said, UnusedReason, Value};

/// A statement that parses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Statement {
    /// The categories that it names, in the order of the text, each once, and then nothing.
    values: [Option<(Category, Value)>; Category::ALL.len()],
    /// The keys that no vocabulary knows, at most [`Said::IGNORED`].
    pub(super) ignored: Vec<Arc<str>>,
}

/// A reader of statements.
pub(super) type Parse = fn(&[u8]) -> Result<Statement, UnusedReason>;

/// Splits the value of a line into its path and its statement. A value that does not begin with `/` has no path.
pub(super) fn split(value: &[u8]) -> (Option<&[u8]>, &[u8]) {
    if value.first() != Some(&b'/') {
        return (None, value);
    }
    let end = memchr::memchr2(b' ', b'\t', value).unwrap_or(value.len());
    let (path, rest) = value.split_at_checked(end).unwrap_or((value, &[]));
    (Some(path), trimmed(rest))
}

/// Splits octets at the first of this one, which is in neither part.
pub(super) fn cut(octets: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    // Not by `memchr`: it costs more than to look at the few octets that come here.
    let place = octets.iter().position(|octet| *octet == at)?;
    Some((octets.get(..place)?, octets.get(place + 1..)?))
}

/// Returns octets without the spaces and tabs around them.
pub(super) fn trimmed(mut octets: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = octets {
        octets = rest;
    }
    octets
}

impl Statement {
    /// Reads the Dictionary of Content-Usage: `y` allows, `n` disallows, and any other member under a known key is
    /// unknown. Of a repeated key the last member counts.
    pub(super) fn usage(text: &[u8]) -> Result<Statement, UnusedReason> {
        let parser = Parser::new(text);
        let read = parser.parse_dictionary_with_visitor(Reader(Statement::default()));
        read.map_err(|_| UnusedReason::Unparsable)
    }

    /// Reads the list of Content-Signal: `key=value` between commas, without case. Of a repeated key the strictest value
    /// counts.
    pub(super) fn signal(text: &[u8]) -> Result<Statement, UnusedReason> {
        let mut statement = Statement::default();
        let mut has_pair = false;
        for piece in text.split(|octet| *octet == b',') {
            let Some((key, value)) = cut(piece, b'=') else {
                continue;
            };
            let (key, value) = (trimmed(key), trimmed(value));
            if key.is_empty() {
                continue;
            }
            has_pair = true;
            match signal_category(key) {
                Some(category) => statement.strictest(category, signal_value(value)),
                None => statement.ignore(&String::from_utf8_lossy(key)),
            }
        }
        if has_pair { Ok(statement) } else { Err(UnusedReason::Unparsable) }
    }

    /// Returns the categories that it names, in the order of the text, each once.
    pub(super) fn values(&self) -> impl Iterator<Item = (Category, Value)> {
        self.values.iter().copied().flatten()
    }

    /// Returns the value of a category, which is unknown at first.
    fn value(&mut self, category: Category) -> Option<&mut Value> {
        let is_it = |one: &&mut Option<_>| one.is_none_or(|(known, _)| known == category);
        let place = self.values.iter_mut().find(is_it)?;
        let (_, value) = place.get_or_insert((category, Value::Unknown));
        Some(value)
    }

    fn strictest(&mut self, category: Category, value: Value) {
        if let Some(known) = self.value(category) {
            *known = value.max(*known);
        }
    }

    fn ignore(&mut self, key: &str) {
        if self.ignored.len() < Said::IGNORED && !self.ignored.iter().any(|known| **known == *key) {
            self.ignored.push(super::said::text(key.as_bytes()));
        }
    }
}

/// Returns the category of a key of Content-Usage. Only TDMRep speaks of `tdm`.
fn usage_category(key: &str) -> Option<Category> {
    Category::from_name(key).filter(|category| *category != Category::Tdm)
}

fn signal_category(key: &[u8]) -> Option<Category> {
    let names = [
        ("ai-train", Category::TrainAi),
        ("ai-input", Category::AiUse),
        ("search", Category::Search),
    ];
    let is = |(name, _): &(&str, _)| key.eq_ignore_ascii_case(name.as_bytes());
    names.into_iter().find(is).map(|(_, category)| category)
}

/// Returns the value of a word of Content-Signal. Packages in wide use write the words behind `yes` and `no`.
fn signal_value(word: &[u8]) -> Value {
    let is = |name: &&str| word.eq_ignore_ascii_case(name.as_bytes());
    if ["yes", "y", "allow"].iter().any(is) {
        Value::Allow
    } else if ["no", "n", "disallow"].iter().any(is) {
        Value::Disallow
    } else {
        Value::Unknown
    }
}

/// Takes the members of a Dictionary as they are parsed.
struct Reader(Statement);

/// Takes one member: the value of a known key, or nothing.
struct Member<'a>(Option<&'a mut Value>);

impl<'de> DictionaryVisitor<'de> for Reader {
    type Out = Statement;
    type Error = Infallible;

    fn entry(&mut self, key: &'de KeyRef) -> Result<impl EntryVisitor<'de>, Infallible> {
        let category = usage_category(key.as_str());
        if category.is_none() {
            self.0.ignore(key.as_str());
        }
        let value = category.and_then(|category| self.0.value(category));
        Ok(Member(value.map(|value| {
            *value = Value::Unknown;
            value
        })))
    }

    fn finish(self) -> Result<Statement, Infallible> {
        Ok(self.0)
    }
}

impl<'de> EntryVisitor<'de> for Member<'_> {
    type Error = Infallible;

    fn item(self) -> Result<impl ItemVisitor<'de>, Infallible> {
        Ok(self)
    }

    fn inner_list(self) -> Result<impl InnerListVisitor<'de>, Infallible> {
        Ok(Ignored)
    }
}

impl<'de> ItemVisitor<'de> for Member<'_> {
    type Out = ();
    type Error = Infallible;

    fn bare_item(
        self,
        item: BareItemFromInput<'de>,
    ) -> Result<impl ParameterVisitor<'de, Out = ()>, Infallible> {
        if let (Some(value), BareItemFromInput::Token(token)) = (self.0, item) {
            *value = match token.as_str() {
                "y" => Value::Allow,
                "n" => Value::Disallow,
                _ => Value::Unknown,
            };
        }
        Ok(Ignored)
    }
}
