//! Writes the log as immutable files that any tool can carry to another machine.

use std::collections::HashSet;
use std::fmt::Display;
use std::fs::{self, File, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use serde_json::{Value, json};
use tempfile::NamedTempFile;

use super::{Found, prove::tell};
use crate::audit::bundle::{ObjectKind, objects_of};
use crate::audit::verify::case::Trusted;
use crate::cli::screen::{self, Unit};
use crate::config::Config;
use crate::entry::{Basis, Digest, Entry};
use crate::store::block::{BlockWriter, MOST_ENTRIES, Refused};
use crate::store::{Store, StoreError, StoreErrorKind};
use crate::text::hex;
use crate::tlog::{Checkpoint, Hash, KeyKind, Note, VerifierKey};

pub(super) const HELP: &str = "\
The files are `log.json`, `entries/FIRST-END.cgb`, `objects/SHA256.zst`, `robots/SHA256.zst` and `checkpoints/SIZE` \
(docs/evidence.md describes them), open to their owner alone. No file changes once it stands there, so rsync, rclone or \
object storage carries the directory. A later run writes what is new, up to the newest checkpoint; one that was \
interrupted is continued. The checkpoint comes last.

Exit codes: 0 the directory holds the log of the newest checkpoint; 1 something that a record names is gone, or records \
were dropped before they were exported; 2 crawlgate itself failed.

Example:
  crawlgate audit export --to /srv/log";

/// The name of the format.
const FORMAT: &str = "crawlgate-export@1";

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
    export
        .entries(folder.end()?, newest.checkpoint.size)
        .await?;
    let name = format!("checkpoints/{:020}", newest.checkpoint.size);
    folder.put(&name, newest.note.to_string().as_bytes())?;
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
    /// Writes the entries from `first` up to `size`, each file after the bodies that its entries name.
    async fn entries(&mut self, first: u64, size: u64) -> Result<(), String> {
        let failed = |error: StoreError| error.to_string();
        let kept = self.store.extent().await.map_err(failed)?.first;
        let mut next = first.max(kept);
        if first > 0 && next > first {
            self.fault(&format!(
                "records {} to {next} were dropped before they were exported",
                first + 1
            ));
        }
        let bar = screen::bar(Unit::Records, size.saturating_sub(next));
        let mut block = Pending::at(next)?;
        while next < size {
            let most = usize::try_from(size - next).unwrap_or(PAGE).min(PAGE);
            let page = self.store.records(next, most).await.map_err(failed)?;
            let in_order = (next + 1..).zip(&page);
            if page.is_empty() || in_order.clone().any(|(seq, one)| one.seq != seq) {
                return Err(format!(
                    "records are missing after record {next}: retention has dropped them just now, or `crawlgate store check` \
                     tells more"
                ));
            }
            for record in &page {
                self.bodies(&record.entry).await?;
                if !block.push(&record.entry)? {
                    self.put(std::mem::replace(&mut block, Pending::at(record.seq - 1)?))?;
                    block.push(&record.entry)?;
                }
            }
            next += page.len() as u64;
            bar.inc(page.len() as u64);
        }
        self.put(block)?;
        bar.finish_and_clear();
        Ok(())
    }

    fn put(&self, block: Pending) -> Result<(), String> {
        let (first, end) = (block.first, block.end);
        match block.finish()? {
            Some(body) => self
                .folder
                .put(&format!("entries/{first:020}-{end:020}.cgb"), &body),
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
            let Some(body) = self.body(kind.name(), "objects", digest, body)? else {
                continue;
            };
            if kind == ObjectKind::Basis
                && let Some(robots) = Basis::read(&body).ok().and_then(|basis| basis.sha256)
                && self.written.insert(*robots)
            {
                let body = self.store.snapshot(*robots).await;
                self.body("robots.txt", "robots", robots, body)?;
            }
        }
        Ok(())
    }

    /// Writes a body, and returns it; tells of one that is gone.
    fn body(
        &mut self,
        what: &str,
        place: &str,
        digest: &Digest,
        body: Result<Option<Vec<u8>>, StoreError>,
    ) -> Result<Option<Vec<u8>>, String> {
        let body = match body {
            Err(error) if error.kind == StoreErrorKind::Corrupt => None,
            body => body.map_err(|error| error.to_string())?,
        };
        let sha256 = hex(digest);
        let Some(body) = body else {
            self.fault(&format!(
                "the {what} with SHA-256 {sha256} is gone; the export goes without it"
            ));
            return Ok(None);
        };
        let name = format!("{place}/{sha256}.zst");
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

/// The directory, locked against a second export.
struct Folder<'p> {
    path: &'p Path,
    /// The newest checkpoint in it.
    newest: Option<(u64, Hash)>,
    _lock: File,
}

impl<'p> Folder<'p> {
    /// Opens the directory of a log, or begins one.
    fn open(path: &'p Path, ours: &Checkpoint, keys: &[VerifierKey]) -> Result<Self, String> {
        let failed = |path: &Path, error: &dyn Display| format!("{}: {error}", path.display());
        for name in ["entries", "objects", "robots", "checkpoints"] {
            let place = path.join(name);
            fs::create_dir_all(&place).map_err(|error| failed(&place, &error))?;
        }
        let head = path.join("log.json");
        if !head.exists() {
            let is_log =
                |key: &&VerifierKey| key.kind() == KeyKind::Ed25519 && *key.name() == ours.origin;
            let vkey = keys.iter().find(is_log).map(ToString::to_string);
            let text = json!({"format": FORMAT, "log": ours.origin.as_str(), "vkey": vkey});
            put(path, "log.json", format!("{text}\n").as_bytes())?;
        }
        let lock = File::open(&head).map_err(|error| failed(&head, &error))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(failed(
                    path,
                    &"another export to this directory is under way",
                ));
            }
            Err(TryLockError::Error(error)) => return Err(failed(&head, &error)),
        }
        let text = fs::read_to_string(&head).map_err(|error| failed(&head, &error))?;
        let found: Value = serde_json::from_str(&text).unwrap_or_default();
        let word = |name| found.get(name).and_then(Value::as_str).unwrap_or_default();
        if word("format") != FORMAT {
            return Err(failed(
                &head,
                &"this is no export of crawlgate; name another directory with --to",
            ));
        }
        if word("log") != ours.origin.as_str() {
            let (other, ours) = (word("log"), &ours.origin);
            let told = format!(
                "this is the export of the log {other}, and the store has the log {ours}; name another directory with --to"
            );
            return Err(failed(&head, &told));
        }
        let mut folder = Self {
            path,
            newest: None,
            _lock: lock,
        };
        let sizes = folder.names("checkpoints")?;
        let sizes = sizes.iter().filter_map(|name| name.parse::<u64>().ok());
        if let Some(size) = sizes.max() {
            let file = path.join(format!("checkpoints/{size:020}"));
            let octets = fs::read(&file).map_err(|error| failed(&file, &error))?;
            let note = Note::parse(&octets).map_err(|error| failed(&file, &error))?;
            let opened = Checkpoint::open(&note, keys).map_err(|error| {
                let told = format!("{error}; name another directory with --to, or the key that has signed it with --key");
                failed(&file, &told)
            })?;
            folder.newest = Some((opened.0.size, opened.0.root));
        }
        Ok(folder)
    }

    /// Fails unless the log of the store continues the one in the directory.
    async fn require_continued(
        &self,
        store: &Arc<dyn Store>,
        ours: &Checkpoint,
    ) -> Result<(), String> {
        let Some((size, root)) = self.newest else {
            return Ok(());
        };
        let place = self.path.display();
        if size > ours.size {
            return Err(format!(
                "{place}: it has {size} records, and the newest checkpoint of the store covers {}: the store is an older copy; \
                 bring back the newer store, or name another directory with --to",
                ours.size
            ));
        }
        let proof = store.consistency(size, ours.size).await;
        let proof = proof.map_err(|error| error.to_string())?;
        proof.verify(&root, &ours.root).map_err(|error| {
            format!(
                "{place}: the log of the store does not continue the one in it, of {size} records: {error}; `crawlgate audit \
                 verify --all --checkpoint {place}/checkpoints/{size:020}` tells more; name another directory with --to"
            )
        })
    }

    /// Returns the index after the last entry in the directory.
    fn end(&self) -> Result<u64, String> {
        let names = self.names("entries")?;
        let end = |name: &String| {
            let (_, end) = name.strip_suffix(".cgb")?.split_once('-')?;
            end.parse::<u64>().ok()
        };
        Ok(names.iter().filter_map(end).max().unwrap_or(0))
    }

    fn names(&self, place: &str) -> Result<Vec<String>, String> {
        let place = self.path.join(place);
        let read = || -> io::Result<Vec<String>> {
            let names = fs::read_dir(&place)?;
            let names = names.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
            names.collect()
        };
        read().map_err(|error| format!("{}: {error}", place.display()))
    }

    fn has(&self, name: &str) -> bool {
        self.path.join(name).exists()
    }

    /// Puts a file in its place as a whole, unless it is there already.
    fn put(&self, name: &str, content: &[u8]) -> Result<(), String> {
        match self.has(name) {
            true => Ok(()),
            false => put(self.path, name, content),
        }
    }
}

fn put(folder: &Path, name: &str, content: &[u8]) -> Result<(), String> {
    let path = folder.join(name);
    let beside = path.parent().unwrap_or(folder);
    let written = || -> io::Result<()> {
        let mut file = NamedTempFile::new_in(beside)?;
        file.write_all(content)?;
        file.as_file().sync_all()?;
        file.persist(&path).map_err(|error| error.error)?;
        File::open(beside)?.sync_all()
    };
    written().map_err(|error| format!("{}: {error}", path.display()))
}
