//! The reader of entries: strict, so that each decision has one form, and each form that it accepts one decision.

use super::cbor::{Keys, Malformed, Reader};
use super::decision::{
    Decision, Exempt, LEFT, Mode, Pace, Rule, Signed, Source, UNSIGNABLE, Url, Verdict, Via, key,
};
use super::event::{Event, EventKind, Settings};
use super::value::{Octets, Text, Texts, cut, given, read_true, variant};
use super::{Digest, MAX};
use crawlgate_usage::record::UsageRecord;

/// An entry of the log.
#[expect(
    clippy::large_enum_variant,
    reason = "short-lived, and nearly always a decision"
)]
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
                let decision = decision(id, &mut keys, &mut reader)?;
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
    match next == u64::from(key::ID) {
        true => reader.fixed().ok(),
        false => None,
    }
}

/// Returns the time of an entry of any kind, in milliseconds since the epoch; 0 if the octets are no entry.
#[must_use]
pub fn time_of(octets: &[u8]) -> u64 {
    id_of(octets).map_or(0, super::decision::time_of)
}

/// Reads the pairs of a decision after its identifier.
fn decision<'a>(
    id: [u8; 16],
    keys: &mut Keys,
    reader: &mut Reader<'a>,
) -> Result<Decision<'a>, Malformed> {
    let mut read = Decision {
        id,
        ..Decision::default()
    };
    let mut cuts = LaterCuts::default();
    let mut given_keys = 0;
    while let Some(next) = keys.next(reader)? {
        let next = u8::try_from(next).unwrap_or(u8::MAX);
        given_keys |= bit(next);
        match next {
            key::DECIDED_AFTER => read.decided_after = given(reader.int()?)?,
            key::MODE => read.mode = variant(reader, Mode::from_number)?,
            key::VERDICT => read.verdict = variant(reader, Verdict::from_number)?,
            key::REASON => read.reason = reader.text()?,
            key::POLICY => read.policy = Some(reader.fixed()?),
            key::CLIENT => read.client = reader.address()?,
            key::CLIENT_NAME => read.client_name = Some(reader.text()?.into()),
            key::CHAIN => read.chain = Texts::read(reader)?,
            key::SOURCE => read.source = variant(reader, Source::from_number)?,
            key::MISMATCH => read.mismatch = read_true(reader)?,
            key::USER_AGENT => read.user_agent = Some(reader.bytes()?.into()),
            key::METHOD => read.method = reader.text()?.into(),
            key::ORIGIN => read.origin = Some(reader.text()?),
            key::PATH => read.url = path(reader.bytes()?, read.origin)?,
            key::URL => read.url = url(reader.bytes()?, &read)?,
            key::VIA => read.via = variant(reader, Via::from_number)?,
            key::OPAQUE => read.opaque = read_true(reader)?,
            key::RULE => read.rule = Some(rule(reader)?),
            key::OVERRIDE => read.overridden = Some(reader.fixed()?),
            key::BASIS => read.basis = Some(reader.fixed()?),
            key::HOLD => read.hold = given(reader.uint()?)?,
            key::PACE => read.pace = Some(pace(reader)?),
            key::UPSTREAM => read.upstream = Some(reader.address()?),
            key::STATUS => read.status = Some(reader.small()?),
            key::BYTES_IN => read.bytes_in = given(reader.uint()?)?,
            key::BYTES_OUT => read.bytes_out = given(reader.uint()?)?,
            key::DURATION => read.duration = given(reader.uint()?)?,
            key::ERROR => read.error = Some(reader.text()?.into()),
            key::CUTS => cuts = self::cuts(&mut read, reader)?,
            key::USAGE => {
                let text = reader.text()?;
                UsageRecord::read(text).ok_or(Malformed("no record of use"))?;
                read.usage = Some(text);
            }
            key::VERSION => read.version = Some(reader.text()?),
            key::UPSTREAM_VERSION => read.upstream_version = Some(reader.text()?),
            key::READING => {
                read.reading = Some(Octets {
                    kept: reader.bytes()?,
                    cut: std::mem::take(&mut cuts.reading),
                });
            }
            key::URL_SHA256 => {
                if read.url.cut == 0 {
                    return Err(Malformed("the digest of a URL that is whole"));
                }
                read.url.sha256 = Some(*reader.fixed()?);
            }
            key::DETAIL => {
                read.detail = Some(Text {
                    kept: reader.text()?,
                    cut: std::mem::take(&mut cuts.detail),
                });
            }
            key::SIGNED => read.signed = Some(signed(reader)?),
            key::TDMREP if read.usage.is_some() => read.tdmrep = Some(reader.fixed()?),
            key::EXEMPT => read.exempt = Some(exempt(reader)?),
            _ => return Err(Malformed("an unknown key")),
        }
    }
    require_whole(&read, given_keys, &cuts)?;
    Ok(read)
}

/// Fails for a decision that lacks what each has, or was written in another form than the one there is.
fn require_whole(read: &Decision<'_>, given_keys: u64, cuts: &LaterCuts) -> Result<(), Malformed> {
    let needed = bit(key::REASON) | bit(key::CLIENT) | bit(key::METHOD);
    if given_keys & needed != needed {
        return Err(Malformed("a decision without reason, client or method"));
    }
    if *cuts != LaterCuts::default() {
        return Err(Malformed("a cut of nothing"));
    }
    let is_chain = !read.chain.is_empty() || read.chain.more() > 0;
    if (given_keys & bit(key::CHAIN) != 0) != is_chain {
        return Err(Malformed("a chain of no tokens"));
    }
    Ok(())
}

/// Returns the bit of a key in a set of those that were read.
const fn bit(key: u8) -> u64 {
    1_u64.wrapping_shl(key as u32)
}

fn path<'a>(octets: &'a [u8], origin: Option<&str>) -> Result<Url<'a>, Malformed> {
    let is_path = matches!(octets.first(), None | Some(b'/' | b'?'));
    if origin.is_none() || !is_path {
        return Err(Malformed("a path that follows no origin"));
    }
    Ok(Url {
        follows: true,
        parts: [octets, &[], &[]],
        ..Url::default()
    })
}

fn url<'a>(octets: &'a [u8], read: &Decision<'a>) -> Result<Url<'a>, Malformed> {
    let url = Url::of([octets, &[], &[]], read.origin);
    if url.follows || read.url.follows {
        return Err(Malformed("a URL that follows its origin"));
    }
    if octets.is_empty() {
        return Err(Malformed("a default that is written"));
    }
    Ok(url)
}

fn rule<'a>(reader: &mut Reader<'a>) -> Result<Rule<'a>, Malformed> {
    if reader.array()? != 3 {
        return Err(Malformed("no rule"));
    }
    Ok(Rule {
        group: Text::read(reader)?,
        text: reader.bytes()?.into(),
        line: reader.small()?,
    })
}

fn exempt<'a>(reader: &mut Reader<'a>) -> Result<Exempt<'a>, Malformed> {
    match reader.array()? {
        2 => Ok(Exempt {
            from: reader.text()?,
            reason: reader.text()?,
        }),
        _ => Err(Malformed("no exemption")),
    }
}

fn signed<'a>(reader: &mut Reader<'a>) -> Result<Signed<'a>, Malformed> {
    const NOTHING: Malformed = Malformed("no signature");
    if !reader.is_array() {
        return match reader.uint()? {
            LEFT => Ok(Signed::Left),
            UNSIGNABLE => Ok(Signed::Unsignable),
            _ => Err(NOTHING),
        };
    }
    if reader.array()? != 3 {
        return Err(NOTHING);
    }
    Ok(Signed::With {
        identity: reader.text()?,
        key: reader.text()?,
        created: reader.uint()?,
    })
}

fn pace<'a>(reader: &mut Reader<'a>) -> Result<Pace<'a>, Malformed> {
    if reader.array()? != 3 {
        return Err(Malformed("no pace"));
    }
    Ok(Pace {
        interval: reader.uint()?,
        source: reader.text()?,
        clamped: reader.boolean()?,
    })
}

/// Numbers of octets cut off values that come later.
#[derive(Default, PartialEq, Eq)]
struct LaterCuts {
    reading: u64,
    detail: u64,
}

/// Enters the numbers of octets cut off, and returns those of values that come later.
fn cuts(read: &mut Decision<'_>, reader: &mut Reader<'_>) -> Result<LaterCuts, Malformed> {
    const NOTHING: Malformed = Malformed("a cut of nothing");
    let mut keys = Keys::of(reader)?;
    if keys.left() == 0 {
        return Err(NOTHING);
    }
    let mut later = LaterCuts::default();
    while let Some(next) = keys.next(reader)? {
        let place = match u8::try_from(next).unwrap_or(u8::MAX) {
            key::CLIENT_NAME => read.client_name.as_mut().map(|name| &mut name.cut),
            key::CHAIN => Some(&mut read.chain.more),
            key::USER_AGENT => read.user_agent.as_mut().map(|agent| &mut agent.cut),
            key::METHOD => Some(&mut read.method.cut),
            key::PATH => Some(&mut read.url)
                .filter(|url| url.follows)
                .map(|url| &mut url.cut),
            key::URL => Some(&mut read.url)
                .filter(|url| !url.follows && !url.is_empty())
                .map(|url| &mut url.cut),
            key::RULE => read.rule.as_mut().map(|rule| &mut rule.text.cut),
            key::ERROR => read.error.as_mut().map(|error| &mut error.cut),
            key::READING => Some(&mut later.reading),
            key::DETAIL => Some(&mut later.detail),
            _ => None,
        };
        *place.ok_or(NOTHING)? = cut(reader)?;
    }
    Ok(later)
}
