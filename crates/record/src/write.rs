//! The encoder of decisions: called in the request's thread, it allocates nothing once its buffer has grown.

use super::bounds::{Bounds, most};
use super::cbor::{self, Malformed, MapWriter, Reader};
use super::decision::{Decision, Exempt, LEFT, Pace, Rule, Signed, UNSIGNABLE, key};
use super::table::{Bounded, Item, Keyed, Value, put_map};
use super::url::Url;
use super::value::{Octets, Text};

/// The pairs of a map: a default is left out.
impl MapWriter<'_> {
    pub(super) fn uint(&mut self, key: u8, number: u64) {
        if number != 0 {
            cbor::uint(self.key(key), number);
        }
    }

    /// Writes a text of ours.
    pub(super) fn text(&mut self, key: u8, text: &str) {
        cbor::text(self.key(key), text);
    }

    /// Writes a text of at most `most` octets, and returns the number of octets cut off.
    pub(super) fn cut_text(&mut self, key: u8, text: Option<Text<'_>>, most: usize) -> u64 {
        let Some(text) = text.map(|text| text.at_most(most)) else {
            return 0;
        };
        cbor::text(self.key(key), text.kept);
        text.cut
    }

    /// Writes the numbers of octets or texts that were cut off, by key.
    pub(super) fn cuts(&mut self, all: &[(u8, u64)]) {
        if all.iter().all(|(_, cut)| *cut == 0) {
            return;
        }
        let mut cuts = MapWriter::open(self.key(key::CUTS));
        all.iter().for_each(|(key, cut)| cuts.uint(*key, *cut));
        cuts.close();
    }
}

impl Decision<'_> {
    /// Appends the entry to `out`: at most [`MAX`](super::MAX) octets, always the same for the same decision.
    ///
    /// A text beyond its bound is cut, and the entry says by how much. A URL that is cut should come with the digest of
    /// the whole ([`Url::with_sha256`]).
    pub fn encode(&self, bounds: Bounds, out: &mut Vec<u8>) {
        if self.tdmrep.is_some() && self.usage.is_none() {
            let without = Decision { tdmrep: None, ..*self };
            return put_map(&without, bounds, out);
        }
        put_map(self, bounds, out);
    }

    /// Writes the numbers of octets that were cut off: nearly always, nothing is.
    pub(super) fn write_cuts(&self, map: &mut MapWriter<'_>) {
        if self.cuts().all(|(_, cut)| cut == 0) {
            return;
        }
        let mut cuts = MapWriter::open(map.key(key::CUTS));
        for (key, cut) in self.cuts() {
            let is_whole_url = key == key::PATH && !self.url.follows;
            cuts.uint(if is_whole_url { key::URL } else { key }, cut);
        }
        cuts.close();
    }

    /// Writes the digest of a URL that is cut.
    pub(super) fn write_url_sha256(&self, map: &mut MapWriter<'_>) {
        let sha256 = self.url.sha256.as_ref().filter(|_| self.url.cut > 0);
        sha256.write(key::URL_SHA256, map);
    }
}

/// Bounds a code of ours, so that no mistake makes an entry too long.
fn ours(code: &str) -> &str {
    code.within(most::TOKEN)
}

/// Its key is [`key::PATH`], or [`key::URL`] if it does not follow the origin.
impl<'a> Value<'a> for Url<'a> {
    fn nothing() -> Self {
        Self::default()
    }

    fn write(&self, path: u8, map: &mut MapWriter<'_>) {
        if self.is_empty() && !self.follows {
            return;
        }
        let out = map.key(if self.follows { path } else { key::URL });
        cbor::bytes_head(out, self.len());
        self.parts.iter().for_each(|part| out.extend_from_slice(part));
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(Url { parts: [reader.bytes()?, &[], &[]], ..Url::default() })
    }

    fn cut(&self) -> u64 {
        self.cut
    }

    fn cut_place(&mut self) -> Option<&mut u64> {
        Some(&mut self.cut)
    }
}

impl Bounded for Url<'_> {
    fn within(mut self, most: usize) -> Self {
        let mut left = most;
        for part in &mut self.parts {
            let kept = Octets::from(*part).at_most(left);
            *part = kept.kept;
            self.cut = self.cut.saturating_add(kept.cut);
            left -= part.len();
        }
        self
    }
}

impl<'a> Item<'a> for Rule<'a> {
    fn put(&self, out: &mut Vec<u8>) {
        cbor::array(out, 3);
        self.group.at_most(most::TOKEN).write(out);
        cbor::bytes(out, self.text.kept);
        cbor::uint(out, self.line.into());
    }

    fn take(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        reader.array_of(3, "no rule")?;
        Ok(Rule { group: Text::read(reader)?, text: reader.bytes()?.into(), line: reader.small()? })
    }

    fn cut(&self) -> u64 {
        self.text.cut
    }

    fn cut_place(&mut self) -> Option<&mut u64> {
        Some(&mut self.text.cut)
    }
}

impl Bounded for Rule<'_> {
    fn within(self, most: usize) -> Self {
        let text = self.text.at_most(most);
        Self { text, ..self }
    }
}

impl<'a> Item<'a> for Exempt<'a> {
    fn put(&self, out: &mut Vec<u8>) {
        cbor::array(out, 2);
        cbor::text(out, ours(self.from));
        // The configuration takes no longer one.
        cbor::text(out, self.reason.within(most::WORDS));
    }

    fn take(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        reader.array_of(2, "no exemption")?;
        Ok(Exempt { from: reader.text()?, reason: reader.text()? })
    }
}

impl<'a> Item<'a> for Signed<'a> {
    fn put(&self, out: &mut Vec<u8>) {
        match *self {
            Signed::With { identity, key, created } => {
                cbor::array(out, 3);
                cbor::text(out, ours(identity));
                cbor::text(out, ours(key));
                cbor::uint(out, created);
            }
            Signed::Left => cbor::uint(out, LEFT),
            Signed::Unsignable => cbor::uint(out, UNSIGNABLE),
        }
    }

    fn take(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        const NOTHING: &str = "no signature";
        if !reader.is_array() {
            return match reader.uint()? {
                LEFT => Ok(Signed::Left),
                UNSIGNABLE => Ok(Signed::Unsignable),
                _ => Err(Malformed(NOTHING)),
            };
        }
        reader.array_of(3, NOTHING)?;
        Ok(Signed::With { identity: reader.text()?, key: reader.text()?, created: reader.uint()? })
    }
}

impl<'a> Item<'a> for Pace<'a> {
    fn put(&self, out: &mut Vec<u8>) {
        cbor::array(out, 3);
        cbor::uint(out, self.interval);
        cbor::text(out, ours(self.source));
        cbor::boolean(out, self.clamped);
    }

    fn take(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        reader.array_of(3, "no pace")?;
        Ok(Pace { interval: reader.uint()?, source: reader.text()?, clamped: reader.boolean()? })
    }
}
