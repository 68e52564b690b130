//! The tree as files: paths and contents of c2sp.org/tlog-tiles (text of July 2026).
//!
//! A tile holds up to 256 hashes of one level; level 0 has leaf hashes, each hash above is the root of a full tile below.
//! An entry bundle holds the entries below a tile of level 0. Only the last tile of a level is partial.
//!
//! The content of a tile is its hashes one after the other: `hashes.as_flattened()`.

use std::fmt;

use thiserror::Error;

use super::hash::Hash;
use super::tree::MAX_SIZE;

/// Hashes of a full tile.
pub const WIDTH: u16 = 256;

/// The octets of the longest entry that fits a bundle.
pub const MAX_ENTRY: usize = u16::MAX as usize;

/// The place of a tile in the tree, with its width in a tree of one size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tile {
    level: u8,
    index: u64,
    width: u16,
}

/// A file of the tree. `Display` writes its path below the prefix of the log, [`Resource::parse`] reads one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Resource {
    /// The newest checkpoint, a signed note.
    Checkpoint,
    /// The hashes of a tile: 32 octets each.
    Hashes(Tile),
    /// The entries below a tile of level 0.
    Entries(Tile),
}

/// The reason why octets are no content of a tile or bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ContentError {
    /// The content has more or fewer hashes or entries than the tile.
    #[error("the content has another width than the tile, {0}")]
    Width(u16),
    /// An entry or hash ends behind the content.
    #[error("the content is cut off")]
    CutOff,
    /// An entry has more than 65,535 octets.
    #[error("an entry has {0} octets, more than 65535")]
    LongEntry(usize),
}

impl Tile {
    /// Returns the level: the hashes are roots of subtrees of 256 to the power of `level` entries.
    #[must_use]
    pub const fn level(&self) -> u8 {
        self.level
    }

    /// Returns the place within the level, from 0. On level 0 that is the number of the bundle, on level 1 that of the
    /// segment.
    #[must_use]
    pub const fn index(&self) -> u64 {
        self.index
    }

    /// Returns the number of hashes, from 1 to 256.
    #[must_use]
    pub const fn width(&self) -> u16 {
        self.width
    }

    /// Returns the size of the smallest tree that has this tile with this width. `None` if no tree can.
    #[must_use]
    pub fn least_tree(&self) -> Option<u64> {
        let hashes = self.index.checked_mul(u64::from(WIDTH))? + u64::from(self.width);
        let entries = hashes.checked_mul(1_u64.checked_shl(8 * u32::from(self.level))?)?;
        (entries <= MAX_SIZE).then_some(entries)
    }

    /// Returns all tiles of a tree of `size` entries: each level from the left, the partial tile last.
    pub fn all(size: u64) -> impl Iterator<Item = Self> {
        let levels = (0..8_u8).map(move |level| (level, size >> (8 * level)));
        levels.flat_map(move |(level, hashes)| {
            let tiles = 0..hashes.div_ceil(u64::from(WIDTH));
            tiles.map(move |index| Self::holding(level, index * u64::from(WIDTH), size))
        })
    }

    /// Reads the hashes of this tile from its content.
    ///
    /// # Errors
    /// When the content is not that of a tile of this width.
    pub fn hashes(&self, content: &[u8]) -> Result<Vec<Hash>, ContentError> {
        match content.as_chunks() {
            (hashes, []) => self.whole(hashes.to_vec()),
            _ => Err(ContentError::CutOff),
        }
    }

    /// Reads the entries below this tile of level 0 from the content of their bundle.
    ///
    /// # Errors
    /// When the content is not that of a bundle of this width.
    pub fn entries<'b>(&self, mut content: &'b [u8]) -> Result<Vec<&'b [u8]>, ContentError> {
        let mut entries = Vec::new();
        while !content.is_empty() {
            let (entry, rest) = split_entry(content).ok_or(ContentError::CutOff)?;
            entries.push(entry);
            content = rest;
        }
        self.whole(entries)
    }

    fn whole<T>(&self, found: Vec<T>) -> Result<Vec<T>, ContentError> {
        if found.len() == usize::from(self.width) {
            Ok(found)
        } else {
            Err(ContentError::Width(self.width))
        }
    }

    /// Returns the tile that holds hash `hash` of a level below 8, in a tree of `size` entries that has that hash.
    pub(super) fn holding(level: u8, hash: u64, size: u64) -> Self {
        let width = u64::from(WIDTH);
        let index = hash / width;
        let rest = (size >> (8 * level)).saturating_sub(index * width);
        Self { level, index, width: rest.min(width) as u16 }
    }
}

impl fmt::Display for Tile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Resource::Hashes(*self).fmt(f)
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tile = match self {
            Self::Checkpoint => return f.write_str("checkpoint"),
            Self::Hashes(tile) => {
                write!(f, "tile/{}", tile.level)?;
                tile
            }
            Self::Entries(tile) => {
                f.write_str("tile/entries")?;
                tile
            }
        };
        // The number in groups of three digits, of which only the last has no x before it.
        let groups = tile.index.checked_ilog(1000).unwrap_or(0);
        for group in (1..=groups).rev() {
            write!(f, "/x{:03}", tile.index / 1000_u64.pow(group) % 1000)?;
        }
        write!(f, "/{:03}", tile.index % 1000)?;
        match tile.width {
            WIDTH => Ok(()),
            width => write!(f, ".p/{width}"),
        }
    }
}

impl Resource {
    /// Reads a path. Returns `None` unless `Display` writes exactly that path.
    #[must_use]
    pub fn parse(path: &str) -> Option<Self> {
        if path == "checkpoint" {
            return Some(Self::Checkpoint);
        }
        let (level, rest) = path.strip_prefix("tile/")?.split_once('/')?;
        let (number, width) = match rest.split_once(".p/") {
            Some((number, width)) => (number, width.parse().ok()?),
            None => (rest, WIDTH),
        };
        let index = number.split('/').try_fold(0_u64, |index, group| {
            let group: u16 = group.trim_start_matches('x').parse().ok()?;
            index.checked_mul(1000)?.checked_add(group.into())
        })?;
        let tile = |level| Tile { level, index, width };
        let resource = match level {
            "entries" => Self::Entries(tile(0)),
            level => Self::Hashes(tile(level.parse().ok()?)),
        };
        let (Self::Hashes(tile) | Self::Entries(tile)) = resource else {
            return None;
        };
        let is_width = (1..=WIDTH).contains(&tile.width);
        let is_possible = is_width && tile.level < 64 && index <= MAX_SIZE / 256;
        (is_possible && resource.to_string() == path).then_some(resource)
    }
}

/// Appends an entry to the content of a bundle: its length in two octets, big-endian, then the entry.
///
/// # Errors
/// When the entry is longer than [`MAX_ENTRY`].
pub fn push_entry(bundle: &mut Vec<u8>, entry: &[u8]) -> Result<(), ContentError> {
    let length = u16::try_from(entry.len()).map_err(|_| ContentError::LongEntry(entry.len()))?;
    bundle.extend_from_slice(&length.to_be_bytes());
    bundle.extend_from_slice(entry);
    Ok(())
}

/// Splits the first entry off the content of a bundle. `None` if it is cut off.
#[must_use]
pub fn split_entry(content: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = content.split_first_chunk()?;
    rest.split_at_checked(u16::from_be_bytes(*length).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tile(level: u8, index: u64, width: u16) -> Tile {
        Tile { level, index, width }
    }

    #[test]
    fn a_path_is_written_and_read() {
        #[rustfmt::skip] // one row, one case
        let rows = [
            ("checkpoint", Resource::Checkpoint),
            ("tile/0/000", Resource::Hashes(tile(0, 0, 256))),
            ("tile/0/000.p/1", Resource::Hashes(tile(0, 0, 1))),
            ("tile/0/273.p/112", Resource::Hashes(tile(0, 273, 112))),
            ("tile/2/999", Resource::Hashes(tile(2, 999, 256))),
            ("tile/63/x001/000", Resource::Hashes(tile(63, 1000, 256))),
            ("tile/1/x001/x234/067", Resource::Hashes(tile(1, 1_234_067, 256))), // the example of C2SP
            ("tile/1/x001/x000/000.p/255", Resource::Hashes(tile(1, 1_000_000, 255))),
            ("tile/entries/000", Resource::Entries(tile(0, 0, 256))),
            ("tile/entries/x123/x456/789.p/7", Resource::Entries(tile(0, 123_456_789, 7))),
            ("tile/0/x036/x028/x797/x018/x963/967", Resource::Hashes(tile(0, MAX_SIZE / 256, 256))),
        ];
        for (path, resource) in rows {
            assert_eq!(resource.to_string(), path);
            assert_eq!(Resource::parse(path), Some(resource), "{path}");
        }
    }

    #[test]
    fn a_path_in_any_other_spelling_is_refused() {
        #[rustfmt::skip] // one row, one case
        let rows = [
            "", "/", "tile", "tile/", "tile/0", "tile/0/", "tile//000", "/tile/0/000", "tile/0/000/", "checkpoint/",
            "Checkpoint", "tile/00/000", "tile/64/000", "tile/255/000", "tile/-1/000", "tile/+1/000", "tile/0/0",
            "tile/0/0000", "tile/0/1000", "tile/0/x000/001", "tile/0/001/001", "tile/0/x001", "tile/0/x001/x002",
            "tile/0/xx01/002", "tile/0/X001/002", "tile/0/000.p", "tile/0/000.p/", "tile/0/000.p/0", "tile/0/000.p/256",
            "tile/0/000.p/257", "tile/0/000.p/01", "tile/0/000.p/1.p/1", "tile/0/000.p/65537", "tile/0/000.P/1",
            "tile/entries", "tile/data/000", "tile/8/0/000", "tile/0/../000", "tile/0/00a", "tile/0/٠٠١",
            "tile/0/x036/x028/x797/x018/x963/968", "tile/0/x999/x999/x999/x999/x999/x999/x999/999",
        ];
        for path in rows {
            assert_eq!(Resource::parse(path), None, "{path}");
        }
    }

    #[test]
    fn a_tree_has_the_tiles_that_the_specification_counts() {
        let paths = |size| Tile::all(size).map(|tile| tile.to_string());
        assert_eq!(paths(0).count(), 0);
        assert_eq!(paths(1).collect::<Vec<_>>(), ["tile/0/000.p/1"]);
        let of_256: Vec<_> = paths(256).collect();
        assert_eq!(of_256, ["tile/0/000", "tile/1/000.p/1"]);
        // The example of C2SP.
        let of_70_000: Vec<_> = paths(70_000).collect();
        assert_eq!(of_70_000.len(), 273 + 1 + 1 + 1 + 1);
        let last =
            ["tile/0/272", "tile/0/273.p/112", "tile/1/000", "tile/1/001.p/17", "tile/2/000.p/1"];
        assert_eq!(of_70_000[272..], last);
        assert_eq!(Tile::all(MAX_SIZE).next(), Some(tile(0, 0, 256)));
    }

    #[test]
    fn the_least_tree_of_a_tile_is_the_smallest_that_has_it() {
        for size in [1, 255, 256, 257, 65_535, 65_536, 70_000] {
            for tile in Tile::all(size) {
                let least = tile.least_tree().unwrap();
                assert!(least <= size, "{tile} of {size}");
                assert!(Tile::all(least).any(|found| found == tile), "{tile} of {least}");
                assert!(Tile::all(least - 1).all(|found| found != tile), "{tile} of {size}");
            }
        }
        assert_eq!(tile(63, 0, 1).least_tree(), None);
        assert_eq!(tile(0, MAX_SIZE / 256, 256).least_tree(), None);
    }

    #[test]
    fn the_content_of_a_tile_is_read_strictly() {
        let two = tile(0, 0, 2);
        let mut octets = [[1; 32], [2; 32]].as_flattened().to_vec();
        assert_eq!(two.hashes(&octets), Ok(vec![[1; 32], [2; 32]]));
        assert_eq!(tile(0, 0, 3).hashes(&octets), Err(ContentError::Width(3)));
        assert_eq!(tile(0, 0, 1).hashes(&octets), Err(ContentError::Width(1)));
        octets.pop();
        assert_eq!(two.hashes(&octets), Err(ContentError::CutOff));
    }

    #[test]
    fn the_content_of_a_bundle_is_read_strictly() {
        let two = tile(0, 0, 2);
        let mut octets = Vec::new();
        push_entry(&mut octets, b"").unwrap();
        push_entry(&mut octets, b"ab").unwrap();
        assert_eq!(octets, [0, 0, 0, 2, b'a', b'b']);
        assert_eq!(two.entries(&octets), Ok(vec![&b""[..], b"ab"]));
        assert_eq!(tile(0, 0, 3).entries(&octets), Err(ContentError::Width(3)));
        assert_eq!(tile(0, 0, 1).entries(&octets), Err(ContentError::Width(1)));
        for cut in [1, 3, 4, 5] {
            assert_eq!(two.entries(&octets[..cut]), Err(ContentError::CutOff), "{cut}");
        }
        let long = push_entry(&mut octets, &[0; MAX_ENTRY + 1]);
        assert_eq!(long, Err(ContentError::LongEntry(65_536)));
        assert_eq!(octets.len(), 6);
    }
}
