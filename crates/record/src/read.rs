//! The reader of entries: strict, so that each decision has one form, and each form that it accepts one decision.

use super::cbor::{Keys, Malformed, Reader};
use super::decision::{Decision, key};
use super::event::{Event, EventKind, Settings};
use super::table::{Keyed, Value, bit};
use super::url::Url;
use super::value::cut;
use super::{Digest, MAX};
use crawlgate_usage::record::UsageRecord;

/// An entry of the log.
#[expect(clippy::large_enum_variant, reason = "short-lived, and nearly always a decision")]
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Entry<'a> {
    /// A decision.
    Decision(Decision<'a>),
    /// Another event.
    Event(Event<'a>),
}

impl<'a> Entry<'a> {
    /// Reads an entry.
    ///
    /// # Errors
    /// When the octets are not the canonical form of an entry.
    pub fn read(octets: &'a [u8]) -> Result<Self, Malformed> {
        if octets.len() > MAX {
            return Err(Malformed("an entry that is too long"));
        }
        let mut reader = Reader::new(octets);
        let mut keys = Keys::of(&mut reader)?;
        let first = keys.next(&mut reader)?;
        let kind = match first {
            Some(0) => match reader.uint()? {
                0 => return Err(Malformed("a default that is written")),
                kind => kind,
            },
            Some(1) => {
                let id = *reader.fixed()?;
                let decision = Decision::read(id, &mut keys, &mut reader)?;
                reader.end()?;
                return Ok(Self::Decision(decision));
            }
            _ => return Err(Malformed("an entry without an identifier")),
        };
        if keys.next(&mut reader)? != Some(u64::from(key::ID)) {
            return Err(Malformed("an entry without an identifier"));
        }
        let id = *reader.fixed()?;
        let event = Event::read(kind, id, &mut keys, &mut reader)?;
        reader.end()?;
        Ok(Self::Event(event))
    }

    /// Returns the identifier.
    #[must_use]
    pub fn id(&self) -> &[u8; 16] {
        match self {
            Self::Decision(decision) => &decision.id,
            Self::Event(event) => &event.id,
        }
    }

    /// Returns the time, in milliseconds since the epoch.
    #[must_use]
    pub fn time(&self) -> u64 {
        super::decision::time_of(self.id())
    }
}

impl<'a> Entry<'a> {
    /// Returns the digests of all objects that the entry names: of settings, override, basis, and the basis of tdmrep.json.
    #[must_use]
    pub fn named(&self) -> [Option<&'a Digest>; 4] {
        let policy = match self {
            Self::Decision(decision) => decision.policy,
            Self::Event(event) => match event.kind {
                EventKind::Settings(Settings { policy, .. }) => Some(policy),
                _ => None,
            },
        };
        let [overridden, basis, tdmrep] = self.objects();
        [policy, overridden, basis, tdmrep]
    }

    /// Returns the digests of the objects that the line needs: of the override, of the basis, and of the basis of
    /// tdmrep.json.
    #[must_use]
    pub fn objects(&self) -> [Option<&'a Digest>; 3] {
        match self {
            Self::Decision(decision) => [decision.overridden, decision.basis, decision.tdmrep],
            Self::Event(event) => match event.kind {
                EventKind::OverrideAdded { overridden }
                | EventKind::OverrideRemoved { overridden, .. } => [Some(overridden), None, None],
                _ => [None, None, None],
            },
        }
    }
}

/// Returns the identifier of an entry of any kind, without reading the rest. `None` if the octets do not begin as an
/// entry does.
#[must_use]
pub fn id_of(octets: &[u8]) -> Option<&[u8; 16]> {
    let mut reader = Reader::new(octets);
    let mut keys = Keys::of(&mut reader).ok()?;
    let mut next = keys.next(&mut reader).ok()??;
    if next == u64::from(key::KIND) {
        reader.uint().ok()?;
        next = keys.next(&mut reader).ok()??;
    }
    if next == u64::from(key::ID) { reader.fixed().ok() } else { None }
}

/// Returns the time of an entry of any kind, in milliseconds since the epoch; 0 if the octets are no entry.
#[must_use]
pub fn time_of(octets: &[u8]) -> u64 {
    id_of(octets).map_or(0, super::decision::time_of)
}

impl<'a> Decision<'a> {
    /// Reads the pairs of a decision after its identifier.
    fn read(id: [u8; 16], keys: &mut Keys, reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        let mut read = Decision { id, ..Decision::default() };
        let mut cuts = None;
        let further = |read: &mut Self, key, reader: &mut Reader<'a>| match key {
            key::URL => {
                read.url = Value::read(reader)?;
                Ok(())
            }
            // Some of them belong to values that come later.
            key::CUTS => {
                cuts = Some(*reader);
                reader.item().map(drop)
            }
            key::URL_SHA256 => {
                read.url.sha256 = Some(*reader.fixed()?);
                Ok(())
            }
            _ => Err(Malformed("an unknown key")),
        };
        let given = read.read_pairs(bit(key::ID), keys, reader, further)?;
        let is_given = |key| given & bit(key) != 0;
        read.place_url(is_given(key::PATH), is_given(key::URL))?;
        if let Some(mut cuts) = cuts {
            read.read_cuts(&mut cuts)?;
        }
        if read.url.sha256.is_some() && read.url.cut == 0 {
            return Err(Malformed("the digest of a URL that is whole"));
        }
        let has_chain = !read.chain.is_empty() || read.chain.more() > 0;
        if is_given(key::CHAIN) != has_chain {
            return Err(Malformed("a chain of no tokens"));
        }
        if let Some(text) = read.usage {
            UsageRecord::read(text).ok_or(Malformed("no record of use"))?;
        } else if read.tdmrep.is_some() {
            return Err(Malformed("an unknown key"));
        }
        Ok(read)
    }

    /// Tells the URL whether it follows the origin, by the key that it stood under.
    fn place_url(&mut self, is_path: bool, is_url: bool) -> Result<(), Malformed> {
        let [octets, ..] = self.url.parts;
        if is_path {
            let is_path = matches!(octets.first(), None | Some(b'/' | b'?'));
            if self.origin.is_none() || !is_path {
                return Err(Malformed("a path that follows no origin"));
            }
            self.url.follows = true;
        }
        if is_url && (is_path || Url::of(self.url.parts, self.origin).follows) {
            return Err(Malformed("a URL that follows its origin"));
        }
        if is_url && octets.is_empty() {
            Err(Malformed("a default that is written"))
        } else {
            Ok(())
        }
    }

    /// Enters the numbers of octets cut off.
    fn read_cuts(&mut self, reader: &mut Reader<'_>) -> Result<(), Malformed> {
        const NOTHING: Malformed = Malformed("a cut of nothing");
        let mut keys = Keys::of(reader)?;
        if keys.left() == 0 {
            return Err(NOTHING);
        }
        while let Some(next) = keys.next(reader)? {
            let (follows, is_empty) = (self.url.follows, self.url.is_empty());
            let place = match u8::try_from(next).unwrap_or(u8::MAX) {
                key::PATH if !follows => None,
                key::URL if follows || is_empty => None,
                key::URL => self.cut_place(key::PATH),
                key => self.cut_place(key),
            };
            *place.ok_or(NOTHING)? = cut(reader)?;
        }
        Ok(())
    }
}
