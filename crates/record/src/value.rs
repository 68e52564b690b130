//! Values of entries: texts and octets that may have been cut, and defaults, which are left out.

use std::fmt;

use super::bounds::most;
use super::cbor::{self, Malformed, MapWriter, Reader};
use super::table::{Bounded, Item, Value, given, values};
use crawlgate_robots::ProductToken;
use crawlgate_text::json;

/// A SHA-256.
pub type Digest = [u8; 32];

/// Foreign octets, of which the end may have been cut off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Octets<'a> {
    /// The octets.
    pub kept: &'a [u8],
    /// Number of octets cut off.
    pub cut: u64,
}

/// Text, of which the end may have been cut off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Text<'a> {
    /// The text.
    pub kept: &'a str,
    /// Number of octets cut off.
    pub cut: u64,
}

impl<'a> From<&'a [u8]> for Octets<'a> {
    fn from(kept: &'a [u8]) -> Self {
        Self { kept, cut: 0 }
    }
}

impl<'a> From<&'a str> for Text<'a> {
    fn from(kept: &'a str) -> Self {
        Self { kept, cut: 0 }
    }
}

/// Writes the value as a line spells it, at any length.
impl fmt::Display for Octets<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&json::spelled(self.kept, self.cut, usize::MAX))
    }
}

/// Writes the value as a line spells it, at any length.
impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&json::spelled(self.kept.as_bytes(), self.cut, usize::MAX))
    }
}

impl Octets<'_> {
    /// Cuts to at most `most` octets.
    pub(super) fn at_most(self, most: usize) -> Self {
        match self.kept.split_at_checked(most) {
            None | Some((_, [])) => self,
            Some((kept, rest)) => Self { kept, cut: self.cut.saturating_add(rest.len() as u64) },
        }
    }
}

impl Text<'_> {
    /// Cuts to at most `most` octets, between characters.
    pub(super) fn at_most(self, most: usize) -> Self {
        let mut end = most.min(self.kept.len());
        while !self.kept.is_char_boundary(end) {
            end -= 1;
        }
        let (kept, rest) = self.kept.split_at(end);
        Self { kept, cut: self.cut.saturating_add(rest.len() as u64) }
    }

    /// Writes an element of a list: the text, or an array of the text and the number of octets cut off.
    pub(super) fn write(self, out: &mut Vec<u8>) {
        if self.cut == 0 {
            return cbor::text(out, self.kept);
        }
        cbor::array(out, 2);
        cbor::text(out, self.kept);
        cbor::uint(out, self.cut);
    }
}

impl<'a> Text<'a> {
    /// Reads an element of a list.
    pub(super) fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        if !reader.is_array() {
            return Ok(reader.text()?.into());
        }
        if reader.array()? != 2 {
            return Err(Malformed("no text"));
        }
        Ok(Text { kept: reader.text()?, cut: cut(reader)? })
    }
}

/// Reads a number of things that were cut off.
pub(super) fn cut(reader: &mut Reader<'_>) -> Result<u64, Malformed> {
    match reader.uint()? {
        0 => Err(Malformed("a cut of nothing")),
        cut => Ok(cut),
    }
}

/// Reads a variant by its number.
pub fn variant<T: Default + PartialEq>(
    reader: &mut Reader<'_>,
    from: fn(u64) -> Option<T>,
) -> Result<T, Malformed> {
    let variant = from(reader.uint()?).ok_or(Malformed("an unknown number"))?;
    given(variant, &T::default())
}

impl Bounded for &str {
    fn within(self, most: usize) -> Self {
        Text::from(self).at_most(most).kept
    }
}

/// Texts with the number of octets cut off, which stands under another key.
macro_rules! cut_texts {
    ($($name:ident as $inner:ty),+) => {$(
        impl<'a> Item<'a> for $name<'a> {
            fn put(&self, out: &mut Vec<u8>) {
                self.kept.put(out);
            }

            fn take(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
                <$inner>::take(reader).map(Into::into)
            }

            fn cut(&self) -> u64 {
                self.cut
            }

            fn cut_place(&mut self) -> Option<&mut u64> {
                Some(&mut self.cut)
            }
        }

        impl Bounded for $name<'_> {
            fn within(self, most: usize) -> Self {
                self.at_most(most)
            }
        }
    )+};
}

cut_texts!(Text as &'a str, Octets as &'a [u8]);

values! {
    Text<'a>: Self::default();
}

/// A list of texts, of which the last may have been left out.
#[derive(Clone, Copy, Debug)]
pub struct Texts<'a> {
    list: List<'a>,
    /// Number of texts left out after these.
    pub(super) more: u64,
}

#[derive(Clone, Copy, Debug)]
enum List<'a> {
    Given(&'a [&'a str]),
    Tokens(&'a [ProductToken]),
    Read { items: Reader<'a>, count: usize },
}

impl<'a> From<&'a [&'a str]> for Texts<'a> {
    fn from(texts: &'a [&'a str]) -> Self {
        let list = List::Given(texts);
        Self { list, more: 0 }
    }
}

impl<'a> From<&'a [ProductToken]> for Texts<'a> {
    fn from(tokens: &'a [ProductToken]) -> Self {
        let list = List::Tokens(tokens);
        Self { list, more: 0 }
    }
}

impl Default for Texts<'_> {
    fn default() -> Self {
        let list = List::Given(&[]);
        Self { list, more: 0 }
    }
}

impl PartialEq for Texts<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.more == other.more && self.iter().eq(other.iter())
    }
}

impl<'a> Texts<'a> {
    /// Returns the texts in order.
    pub fn iter(&self) -> impl Iterator<Item = Text<'a>> {
        let mut list = self.list;
        std::iter::from_fn(move || list.next())
    }

    /// Returns the number of texts.
    #[must_use]
    pub fn len(&self) -> usize {
        match self.list {
            List::Given(texts) => texts.len(),
            List::Tokens(tokens) => tokens.len(),
            List::Read { count, .. } => count,
        }
    }

    /// Tells whether there is no text.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of texts left out after these.
    #[must_use]
    pub fn more(&self) -> u64 {
        self.more
    }

    /// Leaves out all texts after the first `count`, and those that do not fit together into `together` octets, each cut
    /// to a token's.
    pub(super) fn at_most(self, count: usize, together: usize) -> Self {
        let mut room = together;
        let fit = self.iter().take(count).take_while(|text| {
            let left = room.checked_sub(text.kept.len().min(most::TOKEN));
            room = left.unwrap_or_default();
            left.is_some()
        });
        let fit = fit.count();
        Self {
            list: self.list.first(fit),
            more: self.more.saturating_add((self.len() - fit) as u64),
        }
    }

    /// Writes the texts, each cut to a token's octets.
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        cbor::array(out, self.len());
        self.iter().for_each(|text| text.at_most(most::TOKEN).write(out));
    }

    /// Reads a list.
    pub fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        let count = reader.array()?;
        let items = *reader;
        for _ in 0..count {
            Text::read(reader)?;
        }
        let list = List::Read { items, count };
        Ok(Self { list, more: 0 })
    }
}

/// The octets cut off stand under another key. A list is left out if nothing was left out of it either, which its reader
/// cannot tell yet.
impl<'a> Value<'a> for Texts<'a> {
    fn nothing() -> Self {
        Self::default()
    }

    fn write(&self, key: u8, map: &mut MapWriter<'_>) {
        if !self.is_empty() || self.more > 0 {
            self.put(map.key(key));
        }
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        Texts::read(reader)
    }

    fn cut(&self) -> u64 {
        self.more
    }

    fn cut_place(&mut self) -> Option<&mut u64> {
        Some(&mut self.more)
    }
}

impl Bounded for Texts<'_> {
    fn within(self, count: usize) -> Self {
        self.at_most(count, most::LIST)
    }
}

impl<'a> List<'a> {
    /// Returns the first `count` texts.
    fn first(self, count: usize) -> Self {
        match self {
            Self::Given(texts) => Self::Given(texts.get(..count).unwrap_or(texts)),
            Self::Tokens(tokens) => Self::Tokens(tokens.get(..count).unwrap_or(tokens)),
            Self::Read { items, .. } => Self::Read { items, count },
        }
    }

    fn next(&mut self) -> Option<Text<'a>> {
        match self {
            Self::Given(texts) => {
                let (first, rest) = texts.split_first()?;
                *texts = rest;
                Some(Text::from(*first))
            }
            Self::Tokens(tokens) => {
                let (first, rest) = tokens.split_first()?;
                *tokens = rest;
                Some(Text::from(first.as_str()))
            }
            Self::Read { items, count } => {
                *count = count.checked_sub(1)?;
                // Each was read before.
                Text::read(items).ok()
            }
        }
    }
}
