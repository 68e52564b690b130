//! An index of one path, for files and paths made to be expensive.
//!
//! A search for a piece of a pattern that does not occur reads the whole rest of the path. Tens of thousands of
//! patterns times eight thousand octets is too much, so in that case the path is indexed first. The index is a suffix
//! array: all places of the path, sorted by the octets that follow, so that the places of one piece are neighbours.
//! Copies of the array sort blocks of 2, 4, 8… entries by place, so that the next place is found among any number of
//! neighbours. For *n* octets the index is made in O(*n* log² *n*) and asked in O(log² *n*), plus the piece's own
//! length times log *n*.

use memchr::{memchr, memmem};

/// The length of path below which comparing at every place is faster than preparing a search.
const SHORT: usize = 64;

/// Up to this number of places, the search looks at all of them.
const FEW: usize = 32;

/// A frequent piece is first searched within this number of octets.
const NEAR: usize = 128;

/// An index of one path.
#[derive(Debug)]
pub(super) struct SuffixArray {
    /// The suffix array, then copies with every block of 2, 4, 8… entries sorted by place.
    levels: Vec<Vec<u32>>,
    /// For each pair of octets, the index in the suffix array at which its places begin.
    pairs: Vec<u32>,
}

impl SuffixArray {
    /// Indexes a path without NULs.
    pub(super) fn of(path: &[u8]) -> Self {
        let mut levels = vec![suffixes(path)];
        let mut block = 2;
        while let Some(last) = levels.last()
            && block <= path.len()
        {
            let mut level = last.clone();
            for block in level.chunks_mut(block) {
                // Merges: the block consists of two sorted runs.
                block.sort();
            }
            levels.push(level);
            block *= 2;
        }
        let mut pairs = vec![0; (1 << 16) + 1];
        for (at, first) in path.iter().enumerate() {
            let second = path.get(at + 1).copied().unwrap_or(0);
            let pair = usize::from(*first) << 8 | usize::from(second);
            if let Some(count) = pairs.get_mut(pair + 1) {
                *count += 1;
            }
        }
        let mut end = 0;
        for start in &mut pairs {
            end += *start;
            *start = end;
        }
        Self { levels, pairs }
    }

    /// Returns the first place of `piece` at or after `at` in the indexed path. `piece` is not empty.
    pub(super) fn next(&self, path: &[u8], piece: &[u8], at: usize) -> Option<usize> {
        let (start, end) = self.range(path, piece)?;
        let suffixes = self.levels.first()?.get(start..end)?;
        if suffixes.len() <= FEW {
            let places = suffixes.iter().map(|place| *place as usize);
            return places.filter(|place| *place >= at).min();
        }
        if suffixes.len() > path.len() / NEAR {
            let rest = path.get(at..)?;
            if let Some(end) = find(piece, rest.get(..NEAR).unwrap_or(rest)) {
                return Some(at + end - piece.len());
            }
        }
        self.next_within(start, end, at)
    }

    /// Returns the range of the suffix array that holds the places of `piece`.
    fn range(&self, path: &[u8], piece: &[u8]) -> Option<(usize, usize)> {
        let (pair, count) = match piece {
            [] => return None,
            [octet] => (usize::from(*octet) << 8, 1 << 8),
            [first, second, ..] => (usize::from(*first) << 8 | usize::from(*second), 1),
        };
        let start = *self.pairs.get(pair)? as usize;
        let end = *self.pairs.get(pair + count)? as usize;
        let Some(rest) = piece.get(2..).filter(|rest| !rest.is_empty()) else {
            return Some((start, end));
        };
        let same = self.levels.first()?.get(start..end)?;
        let after_pair = |place: &u32| {
            let after = path.get(*place as usize + 2..).unwrap_or_default();
            after.get(..rest.len()).unwrap_or(after)
        };
        let before = same.partition_point(|place| after_pair(place) < rest);
        let same = same.get(before..)?.partition_point(|place| after_pair(place) == rest);
        Some((start + before, start + before + same))
    }

    /// Returns the first place at or after `at` within a range of the suffix array.
    fn next_within(&self, mut start: usize, end: usize, at: usize) -> Option<usize> {
        let mut next: Option<u32> = None;
        while start < end {
            let level = start.trailing_zeros().min((end - start).ilog2());
            let length = 1 << level;
            let block = self.levels.get(level as usize)?.get(start..start + length)?;
            let found = block.get(block.partition_point(|place| (*place as usize) < at));
            next = match (next, found) {
                (Some(next), Some(found)) => Some(next.min(*found)),
                (next, found) => next.or(found.copied()),
            };
            start += length;
        }
        next.map(|place| place as usize)
    }
}

/// Returns the suffix array of a text: sorts by eight octets first, then by twice as many in each round until all ranks
/// differ.
fn suffixes(text: &[u8]) -> Vec<u32> {
    let count = text.len();
    let eight = |place: usize| {
        let rest = text.get(place..).unwrap_or_default();
        let octets = (0..8).map(|at| rest.get(at).copied().unwrap_or(0));
        octets.fold(0, |word, octet| word << 8 | u64::from(octet))
    };
    let mut order: Vec<(u64, u32)> =
        (0_u32..).zip(0..count).map(|(at, place)| (eight(place), at)).collect();
    let mut ranks = vec![0_u32; count];
    let mut known = 8;
    loop {
        order.sort_unstable();
        let (mut rank, mut last) = (0, None);
        for (key, place) in &order {
            if last.is_some_and(|last| last != *key) {
                rank += 1;
            }
            last = Some(*key);
            if let Some(slot) = ranks.get_mut(*place as usize) {
                *slot = rank;
            }
        }
        if known >= count || rank as usize + 1 == count {
            return order.into_iter().map(|(_, place)| place).collect();
        }
        for (key, place) in &mut order {
            let rank = |place: usize| ranks.get(place).copied();
            let then = rank(*place as usize + known).map_or(0, |rank| rank + 1);
            *key = u64::from(rank(*place as usize).unwrap_or(0)) << 32 | u64::from(then);
        }
        known *= 2;
    }
}

/// Returns the end of the first occurrence of `piece` in `path`.
pub(super) fn find(piece: &[u8], path: &[u8]) -> Option<usize> {
    // An empty piece: two stars in a row.
    let Some((&first, others)) = piece.split_first() else {
        return Some(0);
    };
    if others.is_empty() {
        return memchr(first, path).map(|at| at + 1);
    }
    if path.len() >= SHORT {
        return memmem::find(path, piece).map(|at| at + piece.len());
    }
    let mut at = 0;
    loop {
        at += memchr(first, path.get(at..)?)? + 1;
        if path.get(at..)?.starts_with(others) {
            return Some(at + others.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_finds_the_same_next_occurrence_as_a_search() {
        let often = [&b"ab".repeat(40)[..], b"ba", &b"aab".repeat(20)].concat();
        let texts: [&[u8]; 7] = [
            &often,
            b"",
            b"a",
            b"abracadabra",
            b"aaaaaaaaaaaaaaaaaaaaaaaa",
            b"abababababababababab",
            b"/a/b?c=d&a/b?c=d",
        ];
        for text in texts {
            let index = SuffixArray::of(text);
            for (start, end) in (0..text.len().min(40))
                .flat_map(|start| (start + 1..=text.len().min(44)).map(move |end| (start, end)))
            {
                for piece in [&text[start..end], &[&text[start..end], b"x"].concat()] {
                    for at in 0..=text.len() {
                        let found =
                            memchr::memmem::find(&text[at..], piece).map(|found| at + found);
                        let shown = String::from_utf8_lossy(piece);
                        assert_eq!(index.next(text, piece, at), found, "{shown} from {at}");
                    }
                }
            }
        }
    }
}
