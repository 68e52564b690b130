//! The reader of events.

use super::super::Digest;
use super::super::cbor::{Keys, Malformed, Reader};
use super::super::decision::{Mode, Verdict, key};
use super::super::value::{Text, Texts, cut, variant};
use super::{DropCause, Event, EventKind, Process, Repeated, Rows, Settings};

impl<'a> Event<'a> {
    /// Reads the pairs after the identifier.
    pub(in super::super) fn read(
        kind: u64,
        id: [u8; 16],
        keys: &mut Keys,
        reader: &mut Reader<'a>,
    ) -> Result<Self, Malformed> {
        let mut pairs = Pairs { next: None, keys, reader };
        pairs.step()?;
        let kind = pairs.kind(kind)?;
        match pairs.next {
            None => Ok(Self { id, kind }),
            Some(_) => Err(Malformed("an unknown key")),
        }
    }
}

/// The pairs of an event, read in the order of their keys.
struct Pairs<'r, 'a> {
    /// The key that comes next.
    next: Option<u64>,
    keys: &'r mut Keys,
    reader: &'r mut Reader<'a>,
}

impl<'a> Pairs<'_, 'a> {
    fn step(&mut self) -> Result<(), Malformed> {
        self.next = self.keys.next(self.reader)?;
        Ok(())
    }

    /// Reads a value, if its key comes next.
    fn if_given<T>(
        &mut self,
        key: u8,
        read: impl FnOnce(&mut Reader<'a>) -> Result<T, Malformed>,
    ) -> Result<Option<T>, Malformed> {
        if self.next != Some(u64::from(key)) {
            return Ok(None);
        }
        let value = read(self.reader)?;
        self.step()?;
        Ok(Some(value))
    }

    /// Reads a value: its key must come next.
    fn get<T>(
        &mut self,
        key: u8,
        read: impl FnOnce(&mut Reader<'a>) -> Result<T, Malformed>,
    ) -> Result<T, Malformed> {
        let value = self.if_given(key, read)?;
        value.ok_or(Malformed("an event without one of its values"))
    }

    fn uint(&mut self, key: u8) -> Result<u64, Malformed> {
        self.get(key, Reader::uint)
    }

    fn text(&mut self, key: u8) -> Result<&'a str, Malformed> {
        self.get(key, Reader::text)
    }

    fn digest(&mut self, key: u8) -> Result<&'a Digest, Malformed> {
        self.get(key, Reader::fixed)
    }

    fn variant<T: Default + PartialEq>(
        &mut self,
        key: u8,
        from: fn(u64) -> Option<T>,
    ) -> Result<T, Malformed> {
        let value = self.if_given(key, |reader| variant(reader, from))?;
        Ok(value.unwrap_or_default())
    }

    /// Reads the numbers of octets or texts cut off, for these keys in their order.
    fn cuts<const N: usize>(&mut self, of: [u8; N]) -> Result<[u64; N], Malformed> {
        const NOTHING: Malformed = Malformed("a cut of nothing");
        let read = |reader: &mut Reader<'a>| {
            let mut cuts = [0; N];
            let mut keys = Keys::of(reader)?;
            if keys.left() == 0 {
                return Err(NOTHING);
            }
            while let Some(key) = keys.next(reader)? {
                let places = of.iter().zip(&mut cuts);
                let mut place = places.filter(|(one, _)| u64::from(**one) == key);
                *place.next().ok_or(NOTHING)?.1 = cut(reader)?;
            }
            Ok(cuts)
        };
        Ok(self.if_given(key::CUTS, read)?.unwrap_or([0; N]))
    }

    fn cut_text(&mut self, key: u8, cut: u64) -> Result<Text<'a>, Malformed> {
        let kept = self.text(key)?;
        Ok(Text { kept, cut })
    }

    fn list(&mut self, key: u8, more: u64) -> Result<Texts<'a>, Malformed> {
        match self.if_given(key, Texts::read)? {
            Some(texts) if texts.is_empty() => Err(Malformed("a default that is written")),
            Some(mut texts) => {
                texts.more = more;
                Ok(texts)
            }
            None if more > 0 => Err(Malformed("a cut of nothing")),
            None => Ok(Texts::default()),
        }
    }

    fn span(&mut self) -> Result<(u64, u64, u64), Malformed> {
        let count = self.uint(key::COUNT)?;
        Ok((count, self.uint(key::FIRST)?, self.uint(key::LAST)?))
    }

    fn process(&mut self) -> Result<Process<'a>, Malformed> {
        Ok(Process {
            number: self.uint(key::PROCESS)?,
            release: self.text(key::RELEASE)?,
            configuration: self.digest(key::CONFIGURATION)?,
        })
    }

    fn settings(&mut self) -> Result<Settings<'a>, Malformed> {
        let mode = self.variant(key::MODE, Mode::from_number)?;
        let policy = self.digest(key::POLICY)?;
        let [origins, clients, exempt] =
            self.cuts([key::REPORT_ORIGINS, key::REPORT_CLIENTS, key::EXEMPT_CLIENTS])?;
        Ok(Settings {
            policy,
            mode,
            report_origins: self.list(key::REPORT_ORIGINS, origins)?,
            report_clients: self.list(key::REPORT_CLIENTS, clients)?,
            exempt_clients: self.list(key::EXEMPT_CLIENTS, exempt)?,
        })
    }

    fn repeated(&mut self) -> Result<Repeated<'a>, Malformed> {
        let mode = self.variant(key::MODE, Mode::from_number)?;
        let verdict = self.variant(key::VERDICT, Verdict::from_number)?;
        let reason = self.text(key::REASON)?;
        let client = self.get(key::CLIENT, Reader::address)?;
        if client.port() != 0 {
            return Err(Malformed("a port of many requests"));
        }
        let name = self.if_given(key::CLIENT_NAME, Reader::text)?;
        let [cut] = self.cuts([key::CLIENT_NAME])?;
        if cut > 0 && name.is_none() {
            return Err(Malformed("a cut of nothing"));
        }
        let (count, first, last) = self.span()?;
        Ok(Repeated {
            mode,
            verdict,
            reason,
            client: client.ip(),
            client_name: name.map(|kept| Text { kept, cut }),
            count,
            first,
            last,
        })
    }

    fn kind(&mut self, kind: u64) -> Result<EventKind<'a>, Malformed> {
        Ok(match kind {
            1 => {
                let (count, first, last) = self.span()?;
                EventKind::Lost {
                    count,
                    first,
                    last,
                    size: self.if_given(key::SIZE, Reader::uint)?,
                }
            }
            2 => EventKind::Started(self.process()?),
            3 => EventKind::Stopped(self.process()?),
            4 => EventKind::Settings(self.settings()?),
            5 => EventKind::OverrideAdded { overridden: self.digest(key::OVERRIDE)? },
            6 => {
                let overridden = self.digest(key::OVERRIDE)?;
                let [by] = self.cuts([key::BY])?;
                let by = self.cut_text(key::BY, by)?;
                EventKind::OverrideRemoved { overridden, by }
            }
            7 => {
                let [by, note] = self.cuts([key::BY, key::NOTE])?;
                let by = self.cut_text(key::BY, by)?;
                let note = self.cut_text(key::NOTE, note)?;
                let index = self.uint(key::INDEX)?;
                EventKind::Acknowledged { index, by, note }
            }
            8 => EventKind::Dropped {
                index: self.uint(key::INDEX)?,
                cause: self.variant(key::CAUSE, DropCause::from_number)?,
            },
            9 => {
                let [by, reason] = self.cuts([key::BY, key::NOTE])?;
                EventKind::KeyRotated {
                    by: self.cut_text(key::BY, by)?,
                    reason: self.cut_text(key::NOTE, reason)?,
                    new: self.text(key::VKEY)?,
                    old: self.text(key::OLD_VKEY)?,
                }
            }
            10 => {
                let [reason] = self.cuts([key::NOTE])?;
                EventKind::Forked {
                    reason: self.cut_text(key::NOTE, reason)?,
                    log: self.text(key::LOG)?,
                    size: self.uint(key::SIZE)?,
                    root: self.digest(key::ROOT)?,
                }
            }
            11 => {
                let (count, first, last) = self.span()?;
                let rows = self.get(key::ROWS, Rows::read)?;
                EventKind::Forwarded { count, first, last, rows }
            }
            12 => EventKind::Repeated(self.repeated()?),
            13 => {
                EventKind::AnsweredLogFailed { decision: *self.get(key::DECISION, Reader::fixed)? }
            }
            _ => return Err(Malformed("an unknown kind")),
        })
    }
}
