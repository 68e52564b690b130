//! Writes the log as immutable files that any tool can carry to another machine.

mod folder;
mod signed;

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use clap::Args;

use self::folder::Folder;
use self::signed::Signed;
use super::{Found, prove::tell};
use crate::audit::export::{Place, body_file, checkpoint_file, entries_file, ground_file};
use crate::audit::verify::case::Trusted;
use crate::cli::screen::{self, Unit};
use crate::config::Config;
use crate::entry::{Basis, Digest, Entry};
use crate::store::block::{BlockWriter, MOST_ENTRIES, Refused};
use crate::store::{
    ObjectKind, Records, Store, StoreError, StoreErrorKind, StoredDecision, objects_of,
};
use crate::text::hex;
use crate::tlog::{BUNDLE, Checkpoint, EntryProof, leaf_hash};

pub(super) const HELP: &str = "\
The files are `log.json`, `ground/FIRST.roots`, `entries/FIRST-END.cgb`, `objects/SHA256.zst`, `robots/SHA256.zst` and \
`checkpoints/SIZE` (docs/evidence.md describes them), open to their owner alone. No file changes once it stands there, so rsync, rclone or \
object storage carries the directory. A later run writes what is new, up to the newest checkpoint; one that was \
interrupted is continued. The checkpoint comes last.

Each record is compared with the signed root before it is written: `crawlgate collect` files such a directory elsewhere.

Exit codes: 0 the directory holds the log of the newest checkpoint; 1 something that a record names is gone, records \
were dropped before they were exported, or records are not those that were signed, and are not exported; 2 crawlgate \
itself failed.

Example:
  crawlgate audit export --to /srv/log";

/// Records to read at once.
const PAGE: usize = 1_024;

/// Level of zstd.
const LEVEL: i32 = 3;

#[derive(Args, Clone, Debug)]
pub(super) struct ExportArgs {
    /// The directory; it is made if it is not there
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
    /// The trusted key of the log: a file, or what `crawlgate audit key` prints; repeat it if the key has changed
    /// [default: the key beside the store]
    #[arg(long, value_name = "FILE|KEY")]
    key: Vec<String>,
}

/// Writes what is new up to the newest checkpoint.
pub(super) async fn write(
    args: &ExportArgs,
    store: &Arc<dyn Store>,
    config: &Config,
) -> Result<Found, String> {
    let trusted = Trusted::of_store(&args.key, config, &**store).await;
    let trusted = trusted.map_err(|error| error.to_string())?;
    let Some(newest) = super::newest_trusted(store, &trusted).await? else {
        return Ok(Found::Faults);
    };
    let folder = Folder::open(&args.to, &newest.checkpoint, &trusted.keys.all)?;
    folder.require_continued(store, &newest.checkpoint).await?;
    let mut export = Export {
        store,
        folder: &folder,
        written: HashSet::new(),
        found: Found::Nothing,
    };
    if export.entries(folder.end()?, &newest.checkpoint).await? {
        export.rotations(newest.checkpoint.size).await?;
        let name = checkpoint_file(newest.checkpoint.size);
        folder.put(&name, newest.note.to_string().as_bytes())?;
    }
    Ok(export.found)
}

/// An export under way.
struct Export<'e> {
    store: &'e Arc<dyn Store>,
    folder: &'e Folder<'e>,
    /// Bodies that stand in the directory, or are gone.
    written: HashSet<Digest>,
    found: Found,
}

impl Export<'_> {
    /// Writes the entries from `first` up to the checkpoint, each file after the bodies that its entries name. False if
    /// the store has other entries than the signed ones.
    async fn entries(&mut self, first: u64, checkpoint: &Checkpoint) -> Result<bool, String> {
        let failed = |error: StoreError| error.to_string();
        let size = checkpoint.size;
        let kept = self.store.extent().await.map_err(failed)?.first;
        if kept > size {
            return Err(format!(
                "retention has dropped every record that the newest checkpoint covers, of {size} records: export again after the \
                 next checkpoint"
            ));
        }
        let next = first.max(kept).min(size);
        if first > 0 && next > first {
            let records = Records::new(first + 1, next);
            let were = records.were();
            self.fault(&format!(
                "{records} {were} dropped before they were exported"
            ));
        }
        // Whole bundles are compared, also the one of which a part was exported before.
        let mut at = next - next % BUNDLE;
        let Some(signed) = Signed::of(self.store, checkpoint, at).await? else {
            self.fault(&format!(
                "the store does not lead to the root that was signed over {size} records: it is damaged or was altered, and \
                 nothing is exported; `crawlgate audit verify --all` tells more"
            ));
            return Ok(false);
        };
        if next > first {
            let ground = signed.ground.to_bytes();
            self.folder.put(&ground_file(next), &ground)?;
        }
        let bar = screen::bar(Unit::Records, size - next);
        let mut block = Pending::at(next)?;
        while at < size {
            let most = usize::try_from(size - at).unwrap_or(PAGE).min(PAGE);
            let page = self.store.records(at, most).await.map_err(failed)?;
            let in_order = (at + 1..).zip(&page).all(|(seq, one)| one.seq == seq);
            if page.len() < most || !in_order {
                return Err(format!(
                    "records are missing after record {at}: retention has dropped them just now, or `crawlgate store check` \
                     tells more"
                ));
            }
            for bundle in page.chunks(BUNDLE as usize) {
                let leaves: Vec<_> = bundle.iter().map(|one| leaf_hash(&one.entry)).collect();
                if !signed.has(at, &leaves) {
                    let records = Records::new(at + 1, at + leaves.len() as u64);
                    let are = records.are();
                    self.fault(&format!(
                        "{records} {are} other than signed: the store is damaged or was altered, and nothing from there on is \
                         exported; `crawlgate audit verify --all` tells more"
                    ));
                    return Ok(false);
                }
                at += leaves.len() as u64;
                let new = bundle.iter().filter(|one| one.seq > next);
                for record in new {
                    self.entry(record, &mut block).await?;
                    bar.inc(1);
                }
            }
        }
        self.put(block)?;
        bar.finish_and_clear();
        Ok(true)
    }

    /// Adds an entry to the next file, after the bodies that it names.
    async fn entry(&mut self, record: &StoredDecision, block: &mut Pending) -> Result<(), String> {
        self.bodies(&record.entry).await?;
        if !block.push(&record.entry)? {
            self.put(std::mem::replace(block, Pending::at(record.seq - 1)?))?;
            block.push(&record.entry)?;
        }
        Ok(())
    }

    /// Writes the checkpoints by which a new key has replaced another one: a reader who knows the old key goes on by them.
    async fn rotations(&self, size: u64) -> Result<(), String> {
        let rotations = self.store.rotations().await;
        let rotations = rotations.map_err(|error| error.to_string())?;
        for one in rotations.iter().filter(|one| one.seq <= size) {
            let proof = EntryProof::parse(one.proof.as_bytes());
            let note = proof.map_err(|error| error.to_string())?.checkpoint;
            let name = checkpoint_file(one.seq);
            self.folder.put(&name, note.to_string().as_bytes())?;
        }
        Ok(())
    }

    fn put(&self, block: Pending) -> Result<(), String> {
        let (first, end) = (block.first, block.end);
        match block.finish()? {
            Some(body) => self.folder.put(&entries_file(first, end), &body),
            None => Ok(()),
        }
    }

    /// Writes the objects that an entry names, and the robots.txt that one of them names.
    async fn bodies(&mut self, entry: &[u8]) -> Result<(), String> {
        let entry = Entry::read(entry).map_err(|error| error.to_string())?;
        for (kind, digest) in objects_of(&entry) {
            if !self.written.insert(*digest) {
                continue;
            }
            let body = self.store.object(*digest).await;
            let Some(body) = self.body(kind.name(), Place::Objects, digest, body)? else {
                continue;
            };
            if kind == ObjectKind::Basis
                && let Some(robots) = Basis::read(&body).ok().and_then(|basis| basis.sha256)
                && self.written.insert(*robots)
            {
                let body = self.store.snapshot(*robots).await;
                self.body("robots.txt", Place::Robots, robots, body)?;
            }
        }
        Ok(())
    }

    /// Writes a body, and returns it; tells of one that is gone.
    fn body(
        &mut self,
        what: &str,
        place: Place,
        sha256: &Digest,
        body: Result<Option<Vec<u8>>, StoreError>,
    ) -> Result<Option<Vec<u8>>, String> {
        let body = match body {
            Err(error) if error.kind == StoreErrorKind::Corrupt => None,
            body => body.map_err(|error| error.to_string())?,
        };
        let is_whole = |body: &Vec<u8>| digest(&SHA256, body).as_ref() == sha256;
        let Some(body) = body.filter(is_whole) else {
            self.fault(&format!(
                "the {what} with SHA-256 {} is gone; the export goes without it",
                hex(sha256)
            ));
            return Ok(None);
        };
        let name = body_file(place, sha256);
        if !self.folder.has(&name) {
            let packed = zstd::bulk::compress(&body, LEVEL).map_err(|error| error.to_string())?;
            self.folder.put(&name, &packed)?;
        }
        Ok(Some(body))
    }

    fn fault(&mut self, what: &str) {
        tell(&what);
        self.found = Found::Faults;
    }
}

/// The entries of the next file.
struct Pending {
    first: u64,
    end: u64,
    writer: BlockWriter,
}

impl Pending {
    fn at(first: u64) -> Result<Self, String> {
        let writer = BlockWriter::new().map_err(|error| error.to_string())?;
        let end = first;
        Ok(Self { first, end, writer })
    }

    /// Adds an entry. False if it belongs to the next file.
    fn push(&mut self, entry: &[u8]) -> Result<bool, String> {
        if self.end - self.first >= MOST_ENTRIES as u64 {
            return Ok(false);
        }
        match self.writer.push(entry) {
            Ok(()) => self.end += 1,
            Err(Refused::Full) => return Ok(false),
            Err(why) => return Err(why.to_string()),
        }
        Ok(true)
    }

    fn finish(mut self) -> Result<Option<Vec<u8>>, String> {
        if self.end == self.first {
            return Ok(None);
        }
        let mut body = Vec::new();
        let finished = self.writer.finish(&mut body);
        finished.map_err(|error| error.to_string())?;
        Ok(Some(body))
    }
}

#[cfg(test)]
mod tests;
