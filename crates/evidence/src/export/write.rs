//! The writing of an export: by hand (`crawlgate audit export`), and continuously (`[ship]`).
//!
//! Each record is compared with the signed root before it is written, each file of entries follows the bodies that they
//! name, and the checkpoint comes last: a reader of the destination finds everything up to each checkpoint in it. In the place of
//! bundles that cannot be read, or are other than signed, stands a [gap](super::Gap).

use std::collections::HashSet;
use std::sync::Arc;

pub use super::error::{NoProof, WriteError};
use super::{ExportDir, Gap, body_file, checkpoint_file, entries_file, gap_file, ground_file};
use crate::destination::{Destination, Listener};
use crate::lost::{end_of_dropped, told};
use crate::slice::{Bundle, Roots, leaves_of, whole_body};
use crawlgate_block::{BlockError, BlockWriter, MAX_ENTRIES, PushError};
use crawlgate_record::{Basis, Digest, Entry};
use crawlgate_store::{ObjectKind, Records, Store, StoreError, StoredDecision, objects_of};
use crawlgate_text::hex;
use crawlgate_tlog::{BUNDLE, Checkpoint, EntryProof, Hash, Note, Tree};

/// Level of zstd.
const LEVEL: i32 = 3;

/// The words on a store that does not lead to the root which was signed over some records.
#[must_use]
pub fn contradiction(size: u64) -> String {
    format!(
        "the store does not lead to the root that was signed over {size} records: it is damaged or was altered, and nothing is \
         exported; `crawlgate audit verify --all` tells more"
    )
}

/// Writes the entries from `first` up to a checkpoint, and then the checkpoint. False if the store does not lead to its
/// root: then nothing is written. A later checkpoint may hold then, because the last bundle below this one may be damaged.
///
/// # Errors
/// When the store cannot be read, or the destination cannot be written.
pub async fn write(
    store: &Arc<Store>,
    destination: &dyn Destination,
    first: u64,
    (checkpoint, note): (&Checkpoint, &Note),
    listener: &mut dyn Listener,
) -> Result<bool, WriteError> {
    let mut export =
        Export { store, destination, written: HashSet::new(), gaps: Vec::new(), listener };
    if !export.entries(first, checkpoint).await? {
        return Ok(false);
    }
    export.rotations(checkpoint.size).await?;
    let name = checkpoint_file(checkpoint.size);
    destination.put(&name, note.to_string().as_bytes()).await?;
    Ok(true)
}

/// An export under way.
struct Export<'e> {
    store: &'e Arc<Store>,
    destination: &'e dyn Destination,
    /// Bodies that stand in the directory, or are gone.
    written: HashSet<Digest>,
    /// The gaps written.
    gaps: Vec<(u64, u64)>,
    listener: &'e mut dyn Listener,
}

impl Export<'_> {
    /// Writes the entries from `first` up to the checkpoint, each file after the bodies that its entries name. False if
    /// the store has other entries than the signed ones.
    async fn entries(&mut self, first: u64, checkpoint: &Checkpoint) -> Result<bool, WriteError> {
        let size = checkpoint.size;
        let kept = self.store.extent().await?.first;
        if kept > size {
            return Err(WriteError::Dropped { size });
        }
        let next = first.max(kept).min(size);
        if kept > first {
            self.tell_gone(first, next).await?;
        }
        // Whole bundles are compared, also the one of which a part was exported before.
        let start = next - next % BUNDLE;
        let roots = Roots::of(self.store, size).await?;
        if !roots.lead_to(checkpoint, start) {
            return Ok(false);
        }
        if kept > first {
            let ground = roots.ground(next).unwrap_or_default().to_bytes();
            self.destination.put(&ground_file(next), &ground).await?;
        }
        let mut block = PendingFile::at(next)?;
        let mut gap: Option<u64> = None;
        let mut at = start;
        while at < size {
            let count = (size - at).min(BUNDLE);
            match Bundle::read(self.store, at, count).await? {
                Bundle::Dropped => return Err(WriteError::DroppedMeanwhile { after: at }),
                Bundle::Whole(records)
                    if roots.bundle(at) == Some(Tree::root_of(&leaves_of(&records))) =>
                {
                    if let Some(begin) = gap.take() {
                        self.gap(&roots, (begin, at), start).await?;
                        block = PendingFile::at(at)?;
                    }
                    for record in records.iter().filter(|one| one.seq > next) {
                        self.entry(record, &mut block).await?;
                    }
                }
                Bundle::Whole(_) | Bundle::Lost(_) if gap.is_none() => {
                    let begin = at.max(next);
                    let whole = std::mem::replace(&mut block, PendingFile::at(begin)?);
                    self.put(whole).await?;
                    gap = Some(begin);
                }
                Bundle::Whole(_) | Bundle::Lost(_) => {}
            }
            at += count;
            self.listener.written(at.saturating_sub(next), size - next);
        }
        match gap {
            Some(begin) => self.gap(&roots, (begin, at), start).await?,
            None => self.put(block).await?,
        }
        Ok(true)
    }

    /// Tells of the records from `first` to before `next`, which are gone. Those that retention dropped before the first export are no
    /// fault.
    async fn tell_gone(&mut self, first: u64, next: u64) -> Result<(), WriteError> {
        let dropped = end_of_dropped(self.store, next).await?.clamp(first, next);
        if first > 0 && dropped > first {
            let records = Records::new(first + 1, dropped);
            let were = records.verb();
            self.listener.fault(&format!("{records} {were} dropped before they were exported"));
        }
        if dropped < next {
            let records = Records::new(dropped + 1, next);
            self.listener.missing(next - dropped);
            self.listener.fault(&told(records, "the export goes without them"));
        }
        Ok(())
    }

    /// Writes the statement that the entries from `first` to before `end` are missing. The roots are those from `start` on.
    async fn gap(
        &mut self,
        roots: &Roots,
        (first, end): (u64, u64),
        start: u64,
    ) -> Result<(), WriteError> {
        let records = Records::at(first, end - 1);
        let to_bundle = if first.is_multiple_of(BUNDLE) {
            Vec::new()
        } else {
            self.rest_of_bundle(roots, first, start).await?
        };
        let whole = roots.bundles(first.next_multiple_of(BUNDLE), end);
        let whole = whole.unwrap_or_default();
        let gap = Gap::new((first, end), [to_bundle, whole].concat());
        let gap = gap.ok_or(WriteError::NoPlace(records))?;
        self.destination.put(&gap_file(first, end), &gap.to_bytes()).await?;
        self.gaps.push((first, end));
        let are = records.are();
        self.listener.missing(end - first);
        self.listener.fault(&format!(
            "{records} {are} damaged, or other than signed: a statement of the gap stands in their place; `crawlgate store \
             check` tells more"
        ));
        Ok(())
    }

    /// Returns the hashes that follow the first entries of a damaged bundle, up to its end. They are kept with the checkpoint
    /// over those entries.
    async fn rest_of_bundle(
        &self,
        roots: &Roots,
        first: u64,
        start: u64,
    ) -> Result<Vec<Hash>, WriteError> {
        let end = first.next_multiple_of(BUNDLE);
        let failed = |why: NoProof| WriteError::NotContinued {
            records: Records::at(first, end - 1),
            before: first,
            why,
        };
        let proof = self.store.consistency(first, end).await;
        let proof = proof.map_err(|error| failed(error.into()))?;
        let checkpoints = self.store.checkpoints().await?;
        let known = checkpoints.iter().find(|one| one.size == first);
        let known = known.and_then(|one| one.content());
        let known = known.ok_or_else(|| failed(NoProof::NoCheckpoint))?;
        let root = roots.root(start, end).ok_or_else(|| failed(NoProof::NoRoot))?;
        let proven = proof.verify(&known.root, &root);
        proven.map_err(|error| failed(error.into()))?;
        Ok(proof.behind())
    }

    /// Adds an entry to the next file, after the bodies that it names.
    async fn entry(
        &mut self,
        record: &StoredDecision,
        block: &mut PendingFile,
    ) -> Result<(), WriteError> {
        self.bodies(&record.entry).await?;
        if !block.push(&record.entry)? {
            self.put(std::mem::replace(block, PendingFile::at(record.seq - 1)?)).await?;
            block.push(&record.entry)?;
        }
        Ok(())
    }

    /// Writes the checkpoints by which a new key has replaced another one: a reader who knows the old key continues by
    /// them.
    async fn rotations(&self, size: u64) -> Result<(), WriteError> {
        let rotations = self.store.rotations().await?;
        for one in rotations.iter().filter(|one| one.seq <= size) {
            // Without the entry, a reader cannot follow to the new key.
            if self.gaps.iter().any(|(first, end)| (*first..*end).contains(&(one.seq - 1))) {
                continue;
            }
            let note = EntryProof::parse(one.proof.as_bytes())?.checkpoint;
            let name = checkpoint_file(one.seq);
            if self.destination.has(&name) {
                continue;
            }
            self.destination.put(&name, note.to_string().as_bytes()).await?;
        }
        Ok(())
    }

    async fn put(&self, block: PendingFile) -> Result<(), WriteError> {
        let (first, end) = (block.first, block.end);
        if let Some(body) = block.finish()? {
            let name = entries_file(first, end);
            self.destination.put(&name, &body).await?;
        }
        Ok(())
    }

    /// Writes the objects that an entry names, and the robots.txt that one of them names.
    async fn bodies(&mut self, entry: &[u8]) -> Result<(), WriteError> {
        let entry = Entry::read(entry)?;
        for (kind, digest) in objects_of(&entry) {
            if !self.written.insert(*digest) {
                continue;
            }
            let body = self.store.object(*digest).await;
            let body = self.body(kind.name(), (ExportDir::Objects, digest), body);
            let body = body.await?;
            let Some(body) = body else {
                continue;
            };
            if kind == ObjectKind::Basis
                && let Some(robots) = Basis::read(&body).ok().and_then(|basis| basis.sha256)
                && self.written.insert(*robots)
            {
                let body = self.store.snapshot(*robots).await;
                self.body("robots.txt", (ExportDir::Robots, robots), body).await?;
            }
        }
        Ok(())
    }

    /// Writes a body, and returns it; tells of one that is gone.
    async fn body(
        &mut self,
        what: &str,
        (place, sha256): (ExportDir, &Digest),
        body: Result<Option<Vec<u8>>, StoreError>,
    ) -> Result<Option<Vec<u8>>, WriteError> {
        let Some(body) = whole_body(body, sha256)? else {
            self.listener.fault(&format!(
                "the {what} with SHA-256 {} is gone; the export goes without it",
                hex(sha256)
            ));
            return Ok(None);
        };
        let name = body_file(place, sha256);
        if !self.destination.has(&name) {
            let packed = zstd::bulk::compress(&body, LEVEL)?;
            self.destination.put(&name, &packed).await?;
        }
        Ok(Some(body))
    }
}

/// The entries of the next file.
struct PendingFile {
    first: u64,
    end: u64,
    writer: BlockWriter,
}

impl PendingFile {
    fn at(first: u64) -> Result<Self, BlockError> {
        let writer = BlockWriter::new()?;
        let end = first;
        Ok(Self { first, end, writer })
    }

    /// Adds an entry. False if it belongs to the next file.
    fn push(&mut self, entry: &[u8]) -> Result<bool, PushError> {
        if self.end - self.first >= MAX_ENTRIES as u64 {
            return Ok(false);
        }
        match self.writer.push(entry) {
            Ok(_) => self.end += 1,
            Err(PushError::Full) => return Ok(false),
            Err(why) => return Err(why),
        }
        Ok(true)
    }

    fn finish(mut self) -> Result<Option<Vec<u8>>, BlockError> {
        if self.end == self.first {
            return Ok(None);
        }
        let mut body = Vec::new();
        self.writer.finish(&mut body)?;
        Ok(Some(body))
    }
}
