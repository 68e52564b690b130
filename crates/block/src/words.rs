//! Dictionaries of a block: each word once, numbered by first appearance.

use super::frame::BlockError;
use super::varint::{self, Input};

/// The number of a new word; the next known word is one less.
pub const NEW: u64 = 0;

/// A dictionary under construction.
///
/// A table of places with open addressing: the words lie one after the other, and no word is allocated by itself.
#[derive(Debug, Default)]
pub struct Dictionary {
    /// Places plus one, by hash; zero is free. The length is a power of two, at least twice that of the words.
    table: Vec<u32>,
    /// The hash of each word, and its end among the octets.
    words: Vec<(u64, u32)>,
    octets: Vec<u8>,
    hasher: ahash::RandomState,
    /// The place looked up last: its word usually comes again.
    last: u32,
}

impl Dictionary {
    /// Returns the place of a word, and tells whether it is new.
    #[inline]
    pub fn place(&mut self, word: &[u8]) -> (u32, bool) {
        if self.is(self.last, word) {
            return (self.last, false);
        }
        let found = self.find(word);
        self.last = found.0;
        found
    }

    /// Tells whether the word at `place` is this one.
    #[inline]
    pub fn is(&self, place: u32, word: &[u8]) -> bool {
        let place = place as usize;
        let Some((_, end)) = self.words.get(place) else {
            return false;
        };
        let before = place.checked_sub(1).and_then(|before| self.words.get(before));
        let start = before.map_or(0, |(_, end)| *end);
        self.octets.get(start as usize..*end as usize) == Some(word)
    }

    fn find(&mut self, word: &[u8]) -> (u32, bool) {
        if self.words.len() * 2 >= self.table.len() {
            self.grow();
        }
        let hash = self.hasher.hash_one(word);
        let mask = self.table.len() - 1;
        let mut at = hash as usize & mask;
        while let Some(place) = self.table.get(at).and_then(|slot| slot.checked_sub(1)) {
            let of_place = self.words.get(place as usize).map(|(hash, _)| *hash);
            if of_place == Some(hash) && self.is(place, word) {
                return (place, false);
            }
            at = (at + 1) & mask;
        }
        let place = self.words.len() as u32;
        if let Some(slot) = self.table.get_mut(at) {
            *slot = place + 1;
        }
        self.octets.extend_from_slice(word);
        self.words.push((hash, self.octets.len() as u32));
        (place, true)
    }

    /// Doubles the table.
    fn grow(&mut self) {
        let size = (self.table.len() * 2).max(64);
        self.table.clear();
        self.table.resize(size, 0);
        for (place, (hash, _)) in (1..).zip(&self.words) {
            let mut at = *hash as usize & (size - 1);
            while self.table.get(at).is_some_and(|slot| *slot != 0) {
                at = (at + 1) & (size - 1);
            }
            if let Some(slot) = self.table.get_mut(at) {
                *slot = place;
            }
        }
    }

    /// Appends the place of a word to a column, and returns it.
    #[inline]
    pub fn put(&mut self, column: &mut Vec<u8>, word: &[u8]) -> u32 {
        let (place, is_new) = self.place(word);
        let number = if is_new { NEW } else { u64::from(place) + 1 };
        varint::put(column, number);
        place
    }

    /// Returns the number of words.
    #[expect(clippy::len_without_is_empty, reason = "no caller asks")]
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// Appends the words to their section.
    pub fn finish(&mut self, section: &mut Vec<u8>) {
        varint::put(section, self.words.len() as u64);
        let mut start = 0;
        for (_, end) in &self.words {
            varint::put(section, u64::from(end - start));
            start = *end;
        }
        section.append(&mut self.octets);
        self.words.clear();
        self.table.fill(0);
        self.last = 0;
    }
}

/// The words of a dictionary that is read: their ends in the section.
#[derive(Debug, Default)]
pub struct Words {
    /// The start of each word, and the end of the last.
    bounds: Vec<u32>,
}

impl Words {
    /// Reads the words of one dictionary of a block of `most` entries. `section` is the whole section, of which `input`
    /// is the rest.
    pub fn read(section: &[u8], input: &mut Input<'_>, most: usize) -> Result<Self, BlockError> {
        let count = input.length()?;
        // Each word is that of an entry.
        if count > most {
            return Err(BlockError("more words than entries"));
        }
        // First from the start of the first word, which lies behind the lengths.
        let mut bounds = Vec::with_capacity(count + 1);
        let mut end = 0_usize;
        bounds.push(0);
        for _ in 0..count {
            end = end.saturating_add(input.length()?);
            bounds.push(u32::try_from(end).unwrap_or(u32::MAX));
        }
        let start = (section.len() - input.0.len()) as u32;
        input.take(end)?;
        // The words are there, so that no bound is beyond the section.
        for bound in &mut bounds {
            *bound = bound.saturating_add(start);
        }
        Ok(Self { bounds })
    }

    /// Returns the number of words.
    #[expect(clippy::len_without_is_empty, reason = "no caller asks")]
    pub fn len(&self) -> usize {
        self.bounds.len().saturating_sub(1)
    }

    /// Returns a word out of its section.
    pub fn get<'s>(&self, section: &'s [u8], place: u32) -> Result<&'s [u8], BlockError> {
        let place = place as usize;
        let bounds = self.bounds.get(place).zip(self.bounds.get(place + 1));
        let word = bounds.and_then(|(start, end)| section.get(*start as usize..*end as usize));
        word.ok_or(BlockError("a word that is not there"))
    }
}

/// Reads a column of places: a new word is the next one.
#[derive(Debug)]
pub(super) struct Places<'w> {
    words: &'w Words,
    next: u32,
}

impl<'w> Places<'w> {
    pub(super) fn new(words: &'w Words) -> Self {
        Self { words, next: 0 }
    }

    /// Takes the number of a place, with `NEW` for the next word.
    pub(super) fn place(&mut self, number: u64) -> Result<u32, BlockError> {
        let place = self.next_place(number);
        place.ok_or(BlockError("a word that is not there"))
    }

    /// Takes the number of a place, for loops over long columns.
    #[inline]
    pub(super) fn next_place(&mut self, number: u64) -> Option<u32> {
        if number == NEW {
            let place = self.next;
            self.next += 1;
            return ((place as usize) < self.words.len()).then_some(place);
        }
        let place = u32::try_from(number - 1).ok();
        place.filter(|place| *place < self.next)
    }

    /// Refuses words that no entry has.
    pub(super) fn end(self) -> Result<(), BlockError> {
        if self.next as usize == self.words.len() {
            Ok(())
        } else {
            Err(BlockError("a word without an entry"))
        }
    }
}
