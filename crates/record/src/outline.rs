//! The outline of an entry: what a store counts and follows, read without the rest.
//!
//! The one thread of a store that writes needs it of each entry. Seven of more than thirty values matter here; the others are
//! passed over. Where an entry goes into a block at once, the block's writer reads it whole, and returns the outline.

use super::Digest;
use super::cbor::{Keys, Malformed, Reader};
use super::decision::{Mode, Verdict, key, time_of};
use super::event::EventKind;
use super::read::Entry;
use super::value::variant;

/// The facts of an entry that a store counts and follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outline<'a> {
    /// The time, in milliseconds since the epoch.
    pub time: u64,
    /// The decisions that the entry stands for; `None` for an event that stands for none.
    pub counted: Option<Counted<'a>>,
    /// The digests of all objects that the entry names: of settings, override, basis, and the basis of tdmrep.json.
    pub named: [Option<&'a Digest>; 4],
}

/// A number of decisions of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted<'a> {
    /// The mode.
    pub mode: Mode,
    /// The verdict.
    pub verdict: Verdict,
    /// The reason code.
    pub reason: &'a str,
    /// The number of decisions.
    pub count: u64,
}

impl<'a> Outline<'a> {
    /// Reads the outline of an entry. The values that it does not have are passed over unread.
    ///
    /// # Errors
    /// When the octets do not begin as an entry does.
    pub fn read(octets: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(octets);
        let mut keys = Keys::of(&mut reader)?;
        if keys.next(&mut reader)? != Some(u64::from(key::ID)) {
            return Entry::read(octets).map(|entry| Self::of(&entry));
        }
        let time = time_of(reader.fixed()?);
        let (mut mode, mut verdict, mut reason) = (Mode::default(), Verdict::default(), None);
        let [mut policy, mut overridden, mut basis, mut tdmrep] = [None; 4];
        while let Some(next) = keys.next(&mut reader)? {
            match u8::try_from(next).unwrap_or(u8::MAX) {
                key::MODE => mode = variant(&mut reader, Mode::from_number)?,
                key::VERDICT => verdict = variant(&mut reader, Verdict::from_number)?,
                key::REASON => reason = Some(reader.text()?),
                key::POLICY => policy = Some(reader.fixed()?),
                key::OVERRIDE => overridden = Some(reader.fixed()?),
                key::BASIS => basis = Some(reader.fixed()?),
                key::TDMREP => tdmrep = Some(reader.fixed()?),
                // Keys ascend.
                next if next > key::TDMREP => break,
                _ => {
                    reader.item()?;
                }
            }
        }
        let reason = reason.ok_or(Malformed("a decision without a reason"))?;
        Ok(Self {
            time,
            counted: Some(Counted { mode, verdict, reason, count: 1 }),
            named: [policy, overridden, basis, tdmrep],
        })
    }

    /// Returns the outline of an entry that is read.
    #[must_use]
    pub fn of(entry: &Entry<'a>) -> Self {
        let counted = match entry {
            Entry::Decision(one) => Some((one.mode, one.verdict, one.reason, 1)),
            Entry::Event(event) => match event.kind {
                EventKind::Repeated(one) => Some((one.mode, one.verdict, one.reason, one.count)),
                _ => None,
            },
        };
        Self {
            time: entry.time(),
            counted: counted.map(|(mode, verdict, reason, count)| Counted {
                mode,
                verdict,
                reason,
                count,
            }),
            named: entry.named(),
        }
    }
}
