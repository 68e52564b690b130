//! The objects that entries name by their SHA-256: large, and bounded by crawlgate's own work.
//!
//! The third kind, the settings behind a verdict, is a JSON text and needs no form of its own.

use super::Digest;
use super::cbor::{self, Keys, Malformed, MapWriter, Reader};
use super::value::{given, read_true, variant};
pub use crawlgate_policy::overrides::Action;

/// The keys of a basis.
mod basis {
    pub(super) const ORIGIN: u8 = 0;
    pub(super) const FINAL_URL: u8 = 1;
    pub(super) const STATE: u8 = 2;
    pub(super) const STATUS: u8 = 3;
    pub(super) const FETCHED_AT: u8 = 4;
    pub(super) const SHA256: u8 = 5;
    pub(super) const BYTES: u8 = 6;
    pub(super) const TRUNCATED: u8 = 7;
    pub(super) const FRESH_UNTIL: u8 = 8;
    pub(super) const OUTAGE: u8 = 9;
    pub(super) const IDENTITY: u8 = 10;
    pub(super) const USER_AGENT: u8 = 11;
}

/// The keys of an outage.
mod outage {
    pub(super) const SINCE: u8 = 0;
    pub(super) const CAUSE: u8 = 1;
    pub(super) const ANSWERS: u8 = 2;
    pub(super) const ATTEMPTS: u8 = 3;
    pub(super) const NEXT_ATTEMPT: u8 = 4;
    pub(super) const LAST_FAILURE: u8 = 5;
}

/// The keys of an override.
mod asserted {
    pub(super) const ID: u8 = 0;
    pub(super) const ORIGIN: u8 = 1;
    pub(super) const PATTERN: u8 = 2;
    pub(super) const ACTION: u8 = 3;
    pub(super) const BY: u8 = 4;
    pub(super) const REASON: u8 = 5;
    pub(super) const UNTIL: u8 = 6;
    pub(super) const CREATED: u8 = 7;
    pub(super) const INSTANCE: u8 = 8;
}

/// The state of an origin's robots.txt that decisions rest on. Times are milliseconds since the epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Basis<'a> {
    /// The canonical origin; the fetch was of its `/robots.txt`.
    pub origin: &'a str,
    /// The URL of the file after redirects, without userinfo; `None` if there was no file.
    pub final_url: Option<&'a [u8]>,
    /// The state, such as `successful`.
    pub state: &'a str,
    /// The status code of the fetch.
    pub status: Option<u16>,
    /// Time of the fetch.
    pub fetched_at: Option<u64>,
    /// SHA-256 of the content.
    pub sha256: Option<&'a Digest>,
    /// Octets of the content.
    pub bytes: Option<u64>,
    /// True if the file was longer than the size limit.
    pub truncated: bool,
    /// End of the time for which the state counts without another fetch.
    pub fresh_until: Option<u64>,
    /// The failed fetches since.
    pub outage: Option<Outage<'a>>,
    /// The identity of the fetch: a product token, or `*`.
    pub identity: Option<&'a str>,
    /// The User-Agent of the fetch.
    pub user_agent: Option<&'a str>,
}

/// A series of failed fetches. Times are milliseconds since the epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outage<'a> {
    /// Time of the first failure.
    pub since: u64,
    /// The code of the last failure's cause.
    pub cause: &'a str,
    /// True if the server answered at all.
    pub answers: bool,
    /// Number of failed fetches.
    pub attempts: u32,
    /// Earliest time of the next fetch.
    pub next_attempt: u64,
    /// Time of the last failure caused by the origin.
    pub last_failure: Option<u64>,
}

/// An override. Times are milliseconds since the epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asserted<'a> {
    /// Its number in the store, its identifier in the fleet, or its place in the configuration (`config-1`).
    pub id: &'a str,
    /// The canonical origin.
    pub origin: &'a str,
    /// The paths, as a pattern of robots.txt.
    pub pattern: &'a str,
    /// The assertion.
    pub action: Action,
    /// The person who added it.
    pub by: &'a str,
    /// The person's reason.
    pub reason: &'a str,
    /// Its end.
    pub until: Option<u64>,
    /// Time of its creation; zero for one of the configuration, which does not say.
    pub created: u64,
    /// The instance of a fleet that added it.
    pub instance: Option<&'a str>,
}

fn uint_if(map: &mut MapWriter<'_>, key: u8, number: Option<u64>) {
    if let Some(number) = number {
        cbor::uint(map.key(key), number);
    }
}

impl<'a> Basis<'a> {
    /// Appends the body to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut map = MapWriter::open(out);
        map.text(basis::ORIGIN, self.origin);
        if let Some(url) = self.final_url {
            cbor::bytes(map.key(basis::FINAL_URL), url);
        }
        map.text(basis::STATE, self.state);
        uint_if(&mut map, basis::STATUS, self.status.map(u64::from));
        uint_if(&mut map, basis::FETCHED_AT, self.fetched_at);
        map.digest_if(basis::SHA256, self.sha256);
        uint_if(&mut map, basis::BYTES, self.bytes);
        map.boolean(basis::TRUNCATED, self.truncated);
        uint_if(&mut map, basis::FRESH_UNTIL, self.fresh_until);
        if let Some(outage) = &self.outage {
            outage.encode(map.key(basis::OUTAGE));
        }
        map.text_if(basis::IDENTITY, self.identity);
        map.text_if(basis::USER_AGENT, self.user_agent);
        map.close();
    }

    /// Reads a body.
    ///
    /// # Errors
    /// When the octets are not the canonical form of a basis.
    pub fn read(octets: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(octets);
        let mut keys = Keys::of(&mut reader)?;
        let mut read = Self::default();
        let (mut has_origin, mut has_state) = (false, false);
        while let Some(next) = keys.next(&mut reader)? {
            match u8::try_from(next).unwrap_or(u8::MAX) {
                basis::ORIGIN => {
                    read.origin = reader.text()?;
                    has_origin = true;
                }
                basis::FINAL_URL => read.final_url = Some(reader.bytes()?),
                basis::STATE => {
                    read.state = reader.text()?;
                    has_state = true;
                }
                basis::STATUS => read.status = Some(reader.small()?),
                basis::FETCHED_AT => read.fetched_at = Some(reader.uint()?),
                basis::SHA256 => read.sha256 = Some(reader.fixed()?),
                basis::BYTES => read.bytes = Some(reader.uint()?),
                basis::TRUNCATED => read.truncated = read_true(&mut reader)?,
                basis::FRESH_UNTIL => read.fresh_until = Some(reader.uint()?),
                basis::OUTAGE => read.outage = Some(Outage::read(&mut reader)?),
                basis::IDENTITY => read.identity = Some(reader.text()?),
                basis::USER_AGENT => read.user_agent = Some(reader.text()?),
                _ => return Err(Malformed("an unknown key")),
            }
        }
        reader.end()?;
        match has_origin && has_state {
            true => Ok(read),
            false => Err(Malformed("a basis without origin or state")),
        }
    }
}

impl<'a> Outage<'a> {
    fn encode(&self, out: &mut Vec<u8>) {
        let mut map = MapWriter::open(out);
        cbor::uint(map.key(outage::SINCE), self.since);
        map.text(outage::CAUSE, self.cause);
        map.boolean(outage::ANSWERS, self.answers);
        map.uint(outage::ATTEMPTS, u64::from(self.attempts));
        cbor::uint(map.key(outage::NEXT_ATTEMPT), self.next_attempt);
        uint_if(&mut map, outage::LAST_FAILURE, self.last_failure);
        map.close();
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        let mut keys = Keys::of(reader)?;
        let mut read = Self::default();
        let mut count = 0;
        while let Some(next) = keys.next(reader)? {
            match u8::try_from(next).unwrap_or(u8::MAX) {
                outage::SINCE => {
                    read.since = reader.uint()?;
                    count += 1;
                }
                outage::CAUSE => {
                    read.cause = reader.text()?;
                    count += 1;
                }
                outage::ANSWERS => read.answers = read_true(reader)?,
                outage::ATTEMPTS => read.attempts = given(reader.small()?)?,
                outage::NEXT_ATTEMPT => {
                    read.next_attempt = reader.uint()?;
                    count += 1;
                }
                outage::LAST_FAILURE => read.last_failure = Some(reader.uint()?),
                _ => return Err(Malformed("an unknown key")),
            }
        }
        match count {
            3 => Ok(read),
            _ => Err(Malformed("an outage without one of its values")),
        }
    }
}

impl<'a> Asserted<'a> {
    /// Appends the body to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut map = MapWriter::open(out);
        map.text(asserted::ID, self.id);
        map.text(asserted::ORIGIN, self.origin);
        map.text(asserted::PATTERN, self.pattern);
        map.uint(asserted::ACTION, self.action.number());
        map.text(asserted::BY, self.by);
        map.text(asserted::REASON, self.reason);
        uint_if(&mut map, asserted::UNTIL, self.until);
        map.uint(asserted::CREATED, self.created);
        map.text_if(asserted::INSTANCE, self.instance);
        map.close();
    }

    /// Reads a body.
    ///
    /// # Errors
    /// When the octets are not the canonical form of an override.
    pub fn read(octets: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(octets);
        let mut keys = Keys::of(&mut reader)?;
        let mut read = Self::default();
        let mut texts = 0;
        while let Some(next) = keys.next(&mut reader)? {
            let text = match u8::try_from(next).unwrap_or(u8::MAX) {
                asserted::ID => &mut read.id,
                asserted::ORIGIN => &mut read.origin,
                asserted::PATTERN => &mut read.pattern,
                asserted::BY => &mut read.by,
                asserted::REASON => &mut read.reason,
                asserted::ACTION => {
                    read.action = variant(&mut reader, Action::from_number)?;
                    continue;
                }
                asserted::UNTIL => {
                    read.until = Some(reader.uint()?);
                    continue;
                }
                asserted::CREATED => {
                    read.created = given(reader.uint()?)?;
                    continue;
                }
                asserted::INSTANCE => {
                    read.instance = Some(reader.text()?);
                    continue;
                }
                _ => return Err(Malformed("an unknown key")),
            };
            *text = reader.text()?;
            texts += 1;
        }
        reader.end()?;
        match texts {
            5 => Ok(read),
            _ => Err(Malformed("an override without one of its texts")),
        }
    }
}
