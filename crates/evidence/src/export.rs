//! The log as immutable files: their names, and the reading of files that a stranger may have made.
//!
//! | file | content |
//! |---|---|
//! | `log.json` | the name of the format and of the log, and the public key |
//! | `ground/FIRST.roots` | the roots below FIRST, where retention had dropped the entries before: of segments, then of bundles |
//! | `entries/FIRST-END.cgb` | entries, in a block of the store |
//! | `gaps/FIRST-END.roots` | hashes in the place of entries that could not be read, or were other than signed ([`Gap`]) |
//! | `objects/SHA256.zst`, `robots/SHA256.zst` | bodies that entries name |
//! | `checkpoints/SIZE` | a signed note |
//!
//! [`write`](mod@write) makes them, by hand and continuously, and [`import()`] files them in the collected copy of a log.

mod error;
mod gap;
mod import;
mod read;
pub mod same;
pub mod write;

pub use self::gap::Gap;
pub use self::import::{ImportError, Imported, PastGaps, import, import_in_parts};
pub use self::read::{Exported, Faulty};

use serde::{Deserialize, Serialize};

use crawlgate_record::Digest;
use crawlgate_store::sqlite::collected::MissingBody;
use crawlgate_text::hex;
use crawlgate_tlog::{BUNDLE, Checkpoint, Hash, KeyKind, SEGMENT, Tree, VerifierKey};

/// The name of the format.
pub const FORMAT: &str = "crawlgate-export@1";

/// The file that names the log.
pub const HEAD: &str = "log.json";

/// The content of the file that names the log.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Head {
    format: String,
    /// The name of the log.
    pub(crate) log: String,
    /// Its key.
    vkey: Option<String>,
}

impl Head {
    /// Returns the content for the log of a checkpoint.
    pub(crate) fn of(ours: &Checkpoint, keys: &[VerifierKey]) -> Self {
        let is_log =
            |key: &&VerifierKey| key.kind() == KeyKind::Ed25519 && *key.name() == ours.origin;
        Self {
            format: FORMAT.to_owned(),
            log: ours.origin.to_string(),
            vkey: keys.iter().find(is_log).map(ToString::to_string),
        }
    }

    /// Reads a file. `None` if it is not that of an export.
    pub(crate) fn read(octets: &[u8]) -> Option<Self> {
        let head: Self = serde_json::from_slice(octets).ok()?;
        (head.format == FORMAT).then_some(head)
    }

    /// Returns the octets of the file.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        // A structure of texts has a JSON form.
        let mut text = serde_json::to_vec(self).unwrap_or_default();
        text.push(b'\n');
        text
    }
}

/// A directory of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportDir {
    /// Roots below the first entry.
    Ground,
    /// Entries.
    Entries,
    /// Hashes in the place of missing entries.
    Gaps,
    /// Settings, states of a robots.txt and overrides.
    Objects,
    /// Texts of robots.txt.
    Robots,
    /// Signed notes.
    Checkpoints,
}

impl ExportDir {
    /// All directories, in the order in which a reader needs them.
    pub const ALL: [Self; 6] =
        [Self::Ground, Self::Entries, Self::Gaps, Self::Objects, Self::Robots, Self::Checkpoints];

    /// Returns the name of the directory.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ground => "ground",
            Self::Entries => "entries",
            Self::Gaps => "gaps",
            Self::Objects => "objects",
            Self::Robots => "robots",
            Self::Checkpoints => "checkpoints",
        }
    }
}

/// Returns the name of the file with the entries from `first` to before `end`.
#[must_use]
pub fn entries_file(first: u64, end: u64) -> String {
    format!("{}/{first:020}-{end:020}.cgb", ExportDir::Entries.name())
}

/// Returns the name of the file that states the entries from `first` to before `end` as missing.
#[must_use]
pub fn gap_file(first: u64, end: u64) -> String {
    format!("{}/{first:020}-{end:020}.roots", ExportDir::Gaps.name())
}

/// Returns the name of the file with the roots below `first`.
#[must_use]
pub fn ground_file(first: u64) -> String {
    format!("{}/{first:020}.roots", ExportDir::Ground.name())
}

/// Returns the name of the file with the checkpoint of a size.
#[must_use]
pub fn checkpoint_file(size: u64) -> String {
    format!("{}/{size:020}", ExportDir::Checkpoints.name())
}

/// Returns the name of the file with a body.
#[must_use]
pub fn body_file(place: ExportDir, digest: &Digest) -> String {
    format!("{}/{}.zst", place.name(), hex(digest))
}

/// Returns the name of the file with a body that a copy lacks.
#[must_use]
pub fn file_of(missing: &MissingBody) -> String {
    let place = match missing.kind {
        Some(_) => ExportDir::Objects,
        None => ExportDir::Robots,
    };
    body_file(place, &missing.sha256)
}

/// Returns the indices of a file of entries.
pub(crate) fn indices(name: &str) -> Option<(u64, u64)> {
    range(name, ".cgb")
}

/// Returns the indices of a file that states a gap.
pub(crate) fn gap_indices(name: &str) -> Option<(u64, u64)> {
    range(name, ".roots")
}

fn range(name: &str, suffix: &str) -> Option<(u64, u64)> {
    let (first, end) = name.strip_suffix(suffix)?.split_once('-')?;
    let (first, end) = (number(first)?, number(end)?);
    (first < end).then_some((first, end))
}

/// Reads a number of twenty digits.
pub(crate) fn number(text: &str) -> Option<u64> {
    let is_whole = text.len() == 20 && text.bytes().all(|one| one.is_ascii_digit());
    is_whole.then(|| text.parse().ok())?
}

/// The roots below an entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ground {
    /// The index of the entry, the first of a bundle.
    pub first: u64,
    /// The roots of the whole segments.
    pub segments: Vec<Hash>,
    /// The roots of the bundles behind them.
    pub bundles: Vec<Hash>,
}

impl Ground {
    /// Reads the octets of a file: the hashes one after the other. `None` unless these are as many as lie below `first`.
    #[must_use]
    pub fn from_bytes(first: u64, octets: &[u8]) -> Option<Self> {
        let (hashes, []) = octets.as_chunks() else {
            return None;
        };
        let segments = usize::try_from(first / SEGMENT).ok()?;
        let bundles = usize::try_from(first % SEGMENT / BUNDLE).ok()?;
        let (of_segments, of_bundles) = hashes.split_at_checked(segments)?;
        let is_whole = first.is_multiple_of(BUNDLE) && of_bundles.len() == bundles;
        is_whole.then(|| Self {
            first,
            segments: of_segments.to_vec(),
            bundles: of_bundles.to_vec(),
        })
    }

    /// Returns the tree below the entry. `None` if the roots are not as many as it has.
    pub(crate) fn tree(&self) -> Option<Tree> {
        let mut tree = Tree::new();
        for root in &self.segments {
            tree.push_segment(*root).ok()?;
        }
        for root in &self.bundles {
            tree.push_bundle(*root).ok()?;
        }
        Some(tree)
    }

    /// Returns the octets of the file.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        [self.segments.as_flattened(), self.bundles.as_flattened()].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_lead_back_to_their_numbers_alone() {
        let name = entries_file(7, 300);
        let name = name.strip_prefix("entries/").unwrap();
        assert_eq!(indices(name), Some((7, 300)));
        for name in [
            "",
            ".tmpx",
            "7-300.cgb",
            "00000000000000000007-00000000000000000300",
            "00000000000000000300-00000000000000000300.cgb",
            "+0000000000000000007-00000000000000000300.cgb",
            "00000000000000000007-99999999999999999999.cgb",
        ] {
            assert_eq!(indices(name), None, "{name}");
        }
        assert_eq!(number("00000000000000000012"), Some(12));
    }

    #[test]
    fn ground_has_as_many_hashes_as_lie_below_it() {
        let first = 2 * SEGMENT + 3 * BUNDLE;
        let octets = vec![9; 32 * 5];
        let ground = Ground::from_bytes(first, &octets).unwrap();
        assert_eq!((ground.segments.len(), ground.bundles.len()), (2, 3));
        assert_eq!(ground.to_bytes(), octets);
        for (first, length) in
            [(first, 32 * 4), (first, 32 * 6), (first, 159), (first + 1, 160), (0, 32)]
        {
            assert_eq!(Ground::from_bytes(first, &vec![9; length]), None, "{first}, {length}");
        }
        assert!(Ground::from_bytes(0, &[]).is_some());
    }
}
