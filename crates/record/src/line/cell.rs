//! The values of fields, and their forms: in a line, and as text.

use std::borrow::Cow;
use std::net::SocketAddr;

use crate::Digest;
use crate::bounds::most;
use crate::value::{Octets, Text, Texts};
use crawlgate_text::hex::digits;
use crawlgate_text::json::{self, Object};
use crawlgate_text::timestamp::rfc3339;
use crawlgate_text::{DecisionId, Moment, hex, time_text};

/// The value of a field.
#[derive(Clone, Debug)]
pub enum Cell<'a> {
    /// None, in a field that the line then leaves out.
    Absent,
    /// None.
    Null,
    /// Foreign text, with the number of octets cut off, and the octets that it may take in a line.
    Text {
        /// The octets that are left.
        octets: Cow<'a, [u8]>,
        /// Number of octets cut off.
        cut: u64,
        /// The bound.
        most: usize,
    },
    /// Product tokens.
    List(Texts<'a>),
    /// Milliseconds since the epoch.
    Time(u64),
    /// An identifier.
    Id([u8; 16]),
    /// A SHA-256.
    Digest(Digest),
    /// An address with its port.
    Address(SocketAddr),
    /// A number.
    Number(u64),
    /// Microseconds, written as milliseconds.
    Micros(u64),
    /// A truth value.
    Flag(bool),
    /// JSON.
    Json(Cow<'a, str>),
    /// The member of this name in a JSON object.
    Member(&'a str, &'static str),
}

/// Returns the cell of a value that may not be given.
pub(super) fn of<'a, T>(value: Option<T>, cell: impl FnOnce(T) -> Cell<'a>) -> Cell<'a> {
    value.map_or(Cell::Null, cell)
}

pub(super) fn octets(octets: Octets<'_>, most: usize) -> Cell<'_> {
    Cell::Text { octets: octets.kept.into(), cut: octets.cut, most }
}

pub(super) fn text(text: Text<'_>, most: usize) -> Cell<'_> {
    Cell::Text { octets: text.kept.as_bytes().into(), cut: text.cut, most }
}

/// Returns a text of our own, such as a code.
pub(super) fn word(word: &str) -> Cell<'_> {
    text(word.into(), most::TOKEN)
}

pub(super) fn list(texts: Texts<'_>) -> Cell<'_> {
    Cell::List(texts)
}

pub(super) fn digest(digest: &Digest) -> Cell<'_> {
    Cell::Digest(*digest)
}

impl Cell<'_> {
    /// Writes the value into a line.
    pub(super) fn write(&self, name: &str, line: &mut Object<'_>) {
        match self {
            Self::Absent | Self::Member(..) => {}
            Self::Null => line.null(name),
            Self::Text { octets, cut, most } => {
                line.cut_text(name, octets, *cut, *most);
            }
            Self::List(texts) => write_texts(line, name, texts, most::TOKENS),
            Self::Time(millis) => line.plain(name, &rfc3339(Moment::from_millis(*millis))),
            Self::Id(id) => line.plain(name, &DecisionId::from_octets(*id).text()),
            Self::Digest(digest) => line.plain(name, &digits::<32, 64>(digest)),
            Self::Address(address) => line.address(name, *address),
            Self::Number(number) => line.number(name, *number),
            Self::Micros(micros) => line.micros(name, *micros),
            Self::Flag(is_so) => line.boolean(name, *is_so),
            Self::Json(json) => line.verbatim(name, json),
        }
    }

    /// Returns the value as the line has it, without quotes and escapes; nothing for none. Tokens have spaces between.
    #[must_use]
    pub fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Absent | Self::Null | Self::Member(..) => "".into(),
            Self::Text { octets, cut, most } => json::spelled(octets, *cut, *most),
            Self::List(texts) => token_texts(texts).join(" ").into(),
            Self::Time(millis) => time_text(Moment::from_millis(*millis)).into(),
            Self::Id(id) => DecisionId::from_octets(*id).to_string().into(),
            Self::Digest(digest) => hex(digest).into(),
            Self::Address(address) => address.to_string().into(),
            Self::Number(number) => number.to_string().into(),
            Self::Micros(micros) => (*micros as f64 / 1_000.0).to_string().into(),
            Self::Flag(is_so) => is_so.to_string().into(),
            Self::Json(json) => json.as_ref().into(),
        }
    }
}

/// Returns tokens as a line has them.
#[must_use]
pub fn token_texts(texts: &Texts<'_>) -> Vec<String> {
    let (texts, more) = fitting(texts, most::TOKENS);
    let texts =
        texts.map(|text| json::spelled(text.kept.as_bytes(), text.cut, most::TOKEN).into_owned());
    let more = (more > 0).then(|| format!("…[+{more}]"));
    texts.chain(more).collect()
}

/// Writes at most `count` texts.
pub(super) fn write_texts(line: &mut Object<'_>, name: &str, texts: &Texts<'_>, count: usize) {
    let (texts, more) = fitting(texts, count);
    let texts = texts.map(|text| (text.kept.as_bytes(), text.cut));
    line.cut_texts(name, texts, more, most::TOKEN);
}

/// Returns the first texts, and the number of those after them.
fn fitting<'a>(texts: &Texts<'a>, count: usize) -> (impl Iterator<Item = Text<'a>>, u64) {
    let more = texts.more() + texts.len().saturating_sub(count) as u64;
    (texts.iter().take(count), more)
}
