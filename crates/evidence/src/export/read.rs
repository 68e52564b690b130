//! The reading of an export that a stranger may have made: every file is bounded, and opened only if it is one.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::fs::{self, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use aws_lc_rs::digest::{SHA256, digest};
use rustix::fs::OFlags;
use thiserror::Error;

use super::{
    ExportDir, Gap, Ground, HEAD, Head, body_file, checkpoint_file, entries_file, gap_file,
    gap_indices, ground_file, indices, number,
};
use crawlgate_block::{Block, BlockError, MAX_OCTETS, unpack_frame};
use crawlgate_record::{self as entry, Digest};
use crawlgate_tlog::{KeyName, MAX_NOTE, Note, VerifierKey};

/// Maximum octets of a body, and of the file of a block: no crawlgate writes longer ones.
pub(super) const MAX_BODY: usize = 64 * 1024 * 1024;

/// Maximum octets of `log.json`.
const MAX_HEAD: usize = 65_536;

/// A file of an export that is missing, or not what it has to be.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{path}: {why}")]
pub struct Faulty {
    path: String,
    why: String,
}

impl Faulty {
    fn of(path: &Path, why: &dyn Display) -> Self {
        Self { path: path.display().to_string(), why: why.to_string() }
    }
}

/// An export.
#[derive(Debug)]
pub struct Exported {
    path: PathBuf,
    /// The name of the log, as the export says.
    pub log: KeyName,
    /// The key of the log, as the export says. It proves nothing by itself.
    pub vkey: Option<VerifierKey>,
    /// The files of entries: the index behind the last entry of each, by that of the first.
    blocks: BTreeMap<u64, u64>,
    /// The stated gaps, shorter ones first among those that begin at one index.
    gaps: BTreeSet<(u64, u64)>,
    /// The sizes of the checkpoints, in order.
    pub checkpoints: Vec<u64>,
}

impl Exported {
    /// Opens an export. Files of other names are left out.
    ///
    /// # Errors
    /// When it is no export, or cannot be read.
    pub fn open(path: &Path) -> Result<Self, Faulty> {
        let head = path.join(HEAD);
        let faulty = |why: &dyn Display| Faulty::of(&head, why);
        let said = Head::read(&read(&head, MAX_HEAD)?);
        let said = said.ok_or_else(|| faulty(&"this is no export of crawlgate"))?;
        let log: KeyName = said.log.parse().map_err(|error| faulty(&error))?;
        let vkey = said.vkey.as_deref().map(str::parse::<VerifierKey>);
        let vkey = vkey.transpose().map_err(|error| faulty(&error))?;
        let mut exported = Self {
            path: path.to_owned(),
            log,
            vkey,
            blocks: BTreeMap::new(),
            gaps: BTreeSet::new(),
            checkpoints: Vec::new(),
        };
        for name in exported.names(ExportDir::Entries)? {
            if let Some((first, end)) = indices(&name) {
                let longest = exported.blocks.entry(first).or_insert(end);
                *longest = end.max(*longest);
            }
        }
        // A kill may leave a short file. The export that continues then writes its entries again, in a longer file.
        let mut end = 0;
        exported.blocks.retain(|_, ends| {
            let is_longer = *ends > end;
            end = end.max(*ends);
            is_longer
        });
        // Versions that stated no gaps made no directory for them.
        if path.join(ExportDir::Gaps.name()).symlink_metadata().is_ok() {
            let names = exported.names(ExportDir::Gaps)?;
            exported.gaps = names.iter().filter_map(|name| gap_indices(name)).collect();
        }
        let names = exported.names(ExportDir::Checkpoints)?;
        let sizes = names.iter().filter_map(|name| number(name));
        exported.checkpoints = sizes.collect();
        exported.checkpoints.sort_unstable();
        Ok(exported)
    }

    /// Returns the directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn names(&self, place: ExportDir) -> Result<Vec<String>, Faulty> {
        let place = self.path.join(place.name());
        let names = fs::read_dir(&place).and_then(|names| {
            let names = names.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
            names.collect::<io::Result<_>>()
        });
        names.map_err(|error| Faulty::of(&place, &error))
    }

    /// Returns the first index from which on the entries up to `size` are there, or are stated to be missing. `None` if the
    /// last one is neither.
    #[must_use]
    pub fn start(&self, size: u64) -> Option<u64> {
        let mut at = size;
        while let Some(last) = at.checked_sub(1) {
            let gaps = || self.gaps_with(last).into_iter().next();
            let before = self.block_with(last).or_else(gaps);
            let Some((first, _)) = before else {
                return (at < size).then_some(at);
            };
            at = first;
        }
        (at < size).then_some(at)
    }

    /// Returns the stated gaps that hold an entry, the one that ends first before the others: its first index, and that behind
    /// its last.
    #[must_use]
    pub fn gaps_with(&self, index: u64) -> Vec<(u64, u64)> {
        let before = self.gaps.range(..=(index, u64::MAX));
        let mut with: Vec<_> = before.filter(|(_, end)| index < *end).copied().collect();
        with.sort_unstable_by_key(|(_, end)| *end);
        with
    }

    /// Returns a stated gap.
    ///
    /// # Errors
    /// When the file is missing, or of another length.
    pub fn gap(&self, (first, end): (u64, u64)) -> Result<Gap, Faulty> {
        let path = self.path.join(gap_file(first, end));
        let octets = read(&path, MAX_BODY)?;
        let gap = Gap::from_bytes((first, end), &octets);
        gap.ok_or_else(|| Faulty::of(&path, &"another number of hashes than its gap needs"))
    }

    /// Returns the file that holds an entry: its first index, and that behind its last.
    #[must_use]
    pub fn block_with(&self, index: u64) -> Option<(u64, u64)> {
        let (first, end) = self.blocks.range(..=index).next_back()?;
        (index < *end).then_some((*first, *end))
    }

    /// Returns the file with the last entries.
    #[must_use]
    pub fn last(&self) -> Option<(u64, u64)> {
        let (first, end) = self.blocks.last_key_value()?;
        Some((*first, *end))
    }

    /// Returns the index behind the last entry, or behind the last gap that is stated.
    #[must_use]
    pub fn end(&self) -> u64 {
        let gaps = self.gaps.iter().map(|(_, end)| *end);
        self.blocks.values().copied().chain(gaps).max().unwrap_or(0)
    }

    /// Returns the first index behind `index` at which a file of entries begins, or a stated gap.
    #[must_use]
    pub fn next_behind(&self, index: u64) -> Option<u64> {
        let block = self.blocks.range(index..).next().map(|(first, _)| *first);
        let gap = self.gaps.range((index, 0)..).next().map(|(first, _)| *first);
        block.into_iter().chain(gap).min()
    }

    /// Returns the checkpoint of a size. Its signatures are still to be verified.
    ///
    /// # Errors
    /// When the file is missing, or no note.
    pub fn checkpoint(&self, size: u64) -> Result<Note, Faulty> {
        let path = self.path.join(checkpoint_file(size));
        let octets = read(&path, MAX_NOTE)?;
        Note::parse(&octets).map_err(|error| Faulty::of(&path, &error))
    }

    /// Returns the roots below an entry.
    ///
    /// # Errors
    /// When the file is missing, or of another length.
    pub fn ground(&self, first: u64) -> Result<Ground, Faulty> {
        let path = self.path.join(ground_file(first));
        let octets = read(&path, MAX_BODY)?;
        let ground = Ground::from_bytes(first, &octets);
        ground.ok_or_else(|| Faulty::of(&path, &"another number of roots than lie below its index"))
    }

    /// Gives `visit` each entry of the file from `first` to before `end`, with its index.
    ///
    /// # Errors
    /// When the file is missing or damaged, or `visit` fails.
    pub fn entries<E: From<Faulty>>(
        &self,
        (first, end): (u64, u64),
        mut visit: impl FnMut(u64, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let path = self.path.join(entries_file(first, end));
        let faulty = |why: &dyn Display| E::from(Faulty::of(&path, why));
        let block = Block::read(read(&path, MAX_BODY)?).map_err(|error| faulty(&error))?;
        if block.len() as u64 != end - first {
            return Err(faulty(&"another number of records than its name says"));
        }
        visit_entries(&block, faulty, |place, entry| visit(first + place as u64, entry))
    }

    /// Returns a body. `None` if it is not there.
    ///
    /// # Errors
    /// When the file is damaged, or another body than its name says.
    pub fn body(&self, place: ExportDir, sha256: &Digest) -> Result<Option<Vec<u8>>, Faulty> {
        let path = self.path.join(body_file(place, sha256));
        if path.symlink_metadata().is_err() {
            return Ok(None);
        }
        let faulty = |why: &dyn Display| Faulty::of(&path, why);
        match unpacked(&read(&path, MAX_BODY)?, sha256) {
            Ok(Some(body)) => Ok(Some(body)),
            Ok(None) => Err(faulty(&"another body than its name says")),
            Err(_) => Err(faulty(&"it cannot be unpacked")),
        }
    }
}

/// Gives `visit` each entry of a block that a stranger may have made, with its place in it.
///
/// # Errors
/// With a `fault` when the block is damaged, or as `visit` fails.
pub(super) fn visit_entries<E>(
    block: &Block<'_>,
    fault: impl Fn(&dyn Display) -> E,
    mut visit: impl FnMut(usize, &[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let (mut entry, mut octets) = (Vec::new(), 0);
    for place in 0..block.len() {
        entry.clear();
        let restored = block.entry(place, &mut entry);
        restored.map_err(|error| fault(&error))?;
        octets += entry.len();
        // A few words of a block could stand for entries without end.
        if entry.len() > entry::MAX || octets > MAX_OCTETS + entry::MAX {
            return Err(fault(&"more octets of records than a block holds"));
        }
        visit(place, &entry)?;
    }
    Ok(())
}

/// Returns the body in the octets of a file. `None` if it has another digest.
///
/// # Errors
/// When it cannot be unpacked.
pub(super) fn unpacked(octets: &[u8], sha256: &Digest) -> Result<Option<Vec<u8>>, BlockError> {
    let body = unpack_frame(octets, MAX_BODY)?;
    Ok((digest(&SHA256, &body).as_ref() == sha256).then_some(body))
}

/// Reads a file of at most so many octets. Neither a pipe nor a link is opened: the files come from elsewhere.
fn read(path: &Path, max: usize) -> Result<Vec<u8>, Faulty> {
    let failed = |error: io::Error| Faulty::of(path, &error);
    let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path)
        .map_err(failed)?;
    if !file.metadata().map_err(failed)?.is_file() {
        return Err(Faulty::of(path, &"no regular file"));
    }
    let mut octets = Vec::new();
    let mut file = file.take(max as u64 + 1);
    file.read_to_end(&mut octets).map_err(failed)?;
    if octets.len() > max {
        Err(Faulty::of(path, &format!("more than {max} octets")))
    } else {
        Ok(octets)
    }
}
