//! The names in a file, numbered: a hash map whose keys stay in the file's text.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher, RandomState};

use super::token::MAX_TOKEN;

/// Names, without regard to case, by the order of their first appearance.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    /// Where in the text each name stands, and its length.
    places: Vec<(u32, u32)>,
    /// A name's keyed hash, or the next that was free, to its number.
    numbers: HashMap<u64, u32, BuildHasherDefault<Hashed>>,
    /// The key: nobody can write a file of names that all hash alike.
    key: RandomState,
}

impl Names {
    /// The number of `name`, if it has one.
    pub(super) fn find(&self, name: &[u8], text: &[u8]) -> Option<u32> {
        self.place(name, text)?.ok()
    }

    /// The number of `name`, which stands at `start` in the text; a new one if it is new. `None`:
    /// empty, or longer than any crawler's.
    pub(super) fn number(&mut self, name: &[u8], start: u32, text: &[u8]) -> Option<u32> {
        match self.place(name, text)? {
            Ok(number) => Some(number),
            Err(free) => {
                let number = u32::try_from(self.places.len()).ok()?;
                self.places.push((start, u32::try_from(name.len()).ok()?));
                self.numbers.insert(free, number);
                Some(number)
            }
        }
    }

    /// Heap used, in octets, about.
    pub(super) fn bytes(&self) -> usize {
        size_of::<(u32, u32)>() * self.places.capacity()
            + (size_of::<(u64, u32)>() + 1) * self.numbers.capacity()
    }

    /// The number of `name`, or the hash under which it would be kept.
    fn place(&self, name: &[u8], text: &[u8]) -> Option<Result<u32, u64>> {
        if name.is_empty() {
            return None;
        }
        let mut buffer = [0; MAX_TOKEN];
        let lower = buffer.get_mut(..name.len())?;
        lower.copy_from_slice(name);
        lower.make_ascii_lowercase();
        let mut hash = self.key.hash_one(&*lower);
        while let Some(number) = self.numbers.get(&hash) {
            let known = self
                .places
                .get(*number as usize)
                .and_then(|(start, length)| text.get(*start as usize..)?.get(..*length as usize));
            if known.is_some_and(|known| known.eq_ignore_ascii_case(name)) {
                return Some(Ok(*number));
            }
            hash = hash.wrapping_add(1);
        }
        Some(Err(hash))
    }
}

/// Passes on what is a hash already.
#[derive(Clone, Copy, Debug, Default)]
struct Hashed(u64);

impl Hasher for Hashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, octets: &[u8]) {
        // Only whole hashes are ever written; anything else would still be a sound, if poor, hash.
        for octet in octets {
            self.0 = self.0.rotate_left(8) ^ u64::from(*octet);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_numbered_once() {
        let text = b"Bot spider BOT";
        let mut names = Names::default();
        assert_eq!(names.number(b"Bot", 0, text), Some(0));
        assert_eq!(names.number(b"spider", 4, text), Some(1));
        assert_eq!(names.number(b"BOT", 11, text), Some(0));
        assert_eq!(names.find(b"SPIDER", text), Some(1));
        assert_eq!(names.find(b"spide", text), None);
        assert_eq!(names.number(b"", 0, text), None);
        assert_eq!(names.number(&[b'a'; MAX_TOKEN + 1], 0, text), None);
    }

    #[test]
    fn names_that_hash_alike_are_told_apart() {
        let text = b"one two";
        let mut names = Names::default();
        // As if `one` had the hash of `two`.
        names.places.push((0, 3));
        names.numbers.insert(names.key.hash_one(&b"two"[..]), 0);
        assert_eq!(names.find(b"two", text), None);
        assert_eq!(names.number(b"two", 4, text), Some(1));
        assert_eq!(names.find(b"two", text), Some(1));
    }
}
