//! Restores an entry of the decision log, octet for octet, from the columns of its block. [`crate`] says what shapes, holes and
//! words are.

use super::frame::BlockError;
use super::keys::{Found, Row};
use super::read::Block;
use crawlgate_record::cbor;
use crawlgate_record::{self as entry, key};

impl Block<'_> {
    /// Appends an entry to `out`, by its place in the block: the octets that the writer was given.
    ///
    /// # Errors
    /// When there is no such place, a section is damaged, or the entry is too long. `out` may then have a part of it.
    pub fn entry(&self, place: usize, out: &mut Vec<u8>) -> Result<(), BlockError> {
        const ABSENT: BlockError = BlockError("an entry that is not there");
        let start = out.len();
        match self.at(place).ok_or(ABSENT)? {
            Found::Other(nth) => out.extend_from_slice(self.other(nth)?),
            Found::Row(nth) => {
                let row = self.keys().row(nth).ok_or(ABSENT)?;
                self.rebuild(nth, &row, out)?;
            }
        }
        if out.len() - start <= entry::MAX {
            Ok(())
        } else {
            Err(BlockError("an entry that is too long"))
        }
    }

    fn rebuild(&self, nth: usize, row: &Row, out: &mut Vec<u8>) -> Result<(), BlockError> {
        let all = self.measures()?;
        let measures = all.row(nth);
        let measures = measures.ok_or(BlockError("an entry that is not there"))?;
        let shape = self.shape(row.shape)?;
        let words = &self.words;
        let dictionaries = &self.dictionaries;
        let client = dictionaries.client.get(words, row.client)?;
        let requester = dictionaries.requester.get(words, row.requester)?;
        let (address, name) = two(client, true, shape.holes.has(key::CLIENT_NAME))?;
        let has = (shape.holes.has(key::CHAIN), shape.holes.has(key::USER_AGENT));
        let (chain, user_agent) = two(requester, has.0, has.1)?;
        let word = dictionaries.shape.get(words, row.shape)?;
        let mut start = 0;
        for (end, hole) in &shape.pieces {
            let end = *end as usize;
            out.extend_from_slice(word.get(start..end).unwrap_or_default());
            start = end;
            let Some(hole) = hole else { continue };
            match *hole {
                key::ID => {
                    cbor::bytes_head(out, 16);
                    out.extend_from_slice(row.time.to_be_bytes().split_at(2).1);
                    out.extend_from_slice(&row.counter.to_be_bytes());
                }
                key::DECIDED_AFTER => cbor::int(out, measures.decided_after),
                key::CLIENT => {
                    cbor::array(out, 2);
                    out.extend_from_slice(address);
                    cbor::uint(out, measures.port);
                }
                key::CLIENT_NAME => out.extend_from_slice(name),
                key::CHAIN => out.extend_from_slice(chain),
                key::USER_AGENT => out.extend_from_slice(user_agent),
                key::ORIGIN => {
                    let origin = row.origin.unwrap_or_default();
                    out.extend_from_slice(dictionaries.origin.get(words, origin)?);
                }
                key::PATH | key::URL => cbor::bytes(out, self.path(nth)?),
                key::RULE => {
                    let rule = row.rule.unwrap_or_default();
                    out.extend_from_slice(dictionaries.rule.get(words, rule)?);
                }
                key::BASIS => {
                    out.extend_from_slice(dictionaries.basis.get(words, measures.basis)?);
                }
                key::UPSTREAM => {
                    out.extend_from_slice(dictionaries.upstream.get(words, measures.upstream)?);
                }
                key::HOLD => cbor::uint(out, measures.hold),
                key::BYTES_IN => cbor::uint(out, measures.bytes_in),
                key::BYTES_OUT => cbor::uint(out, measures.bytes_out),
                key::DURATION => cbor::uint(out, measures.duration),
                rare => out.extend_from_slice(all.rare(measures, rare)),
            }
        }
        Ok(())
    }
}

/// Splits a word into its first and second item. An item that the shape has no hole for is empty.
fn two(word: &[u8], first: bool, second: bool) -> Result<(&[u8], &[u8]), BlockError> {
    let wrong = BlockError("a word of another kind");
    let mut reader = cbor::Reader::new(word);
    let item = |reader: &mut cbor::Reader<'_>| reader.item().map(<[u8]>::len).map_err(|_| wrong);
    let end = if first { item(&mut reader)? } else { 0 };
    if second {
        item(&mut reader)?;
    }
    if reader.is_done() { Ok(word.split_at(end)) } else { Err(wrong) }
}
