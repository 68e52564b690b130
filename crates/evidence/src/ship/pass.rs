//! One pass: what is new, up to a checkpoint.
//!
//! It runs on a separate thread, because a disk or a network file system may let it wait. The store is read in pages,
//! so no transaction is long.

use std::path::Path;
use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::error::{CheckpointFault, Failure};
use super::remote::{Client, Service};
use super::status::StatusCell;
use super::{PassResult, STEP, Shipper, Target};
use crate::destination::{Destination, Folder, Listener};
use crate::export::same::is_same;
use crate::export::{HEAD, Head, checkpoint_file, write};
use crate::verify::case::{Trusted, Uncovered};
use crate::verify::keys::CoveringCheckpoint;
use crawlgate_store::StoredCheckpoint;
use crawlgate_tlog::{BUNDLE, Checkpoint, Note};

/// The key that names the place, for messages.
const NAMED: &str = "[ship] to";

/// Makes a pass. If the future is dropped, the pass ends before its next file.
pub(super) async fn run(shipper: &Arc<Shipper>) -> Result<PassResult, Failure> {
    let turn = Arc::clone(&shipper.turn).lock_owned().await;
    let stop = CancellationToken::new();
    let _stops = stop.clone().drop_guard();
    let (shipper, runtime) = (Arc::clone(shipper), Handle::current());
    let pass = spawn_blocking(move || {
        let _turn = turn;
        runtime.block_on(async {
            tokio::select! {
                biased;
                // The result has no reader any more.
                () = stop.cancelled() => Err(Failure::Busy),
                outcome = shipper.step() => outcome,
            }
        })
    });
    pass.await.unwrap_or(Err(Failure::Ended))
}

impl Shipper {
    async fn step(&self) -> Result<PassResult, Failure> {
        let checkpoints = self.store.checkpoints().await?;
        self.status.look(&checkpoints);
        let trusted = Trusted::of_store(&[], &self.config, &self.store).await?;
        let newest = match trusted.covering(0, &checkpoints) {
            Ok(newest) => newest,
            Err(Uncovered::Unsigned) => {
                self.require_signing().await?;
                return Ok(PassResult::Whole(0));
            }
            Err(Uncovered::Keyless(fault)) => return Err(Failure::Keyless(fault)),
        };
        let log = Log { checkpoints: &checkpoints, trusted: &trusted, newest: &newest };
        let passed = match &self.to {
            Target::Folder(path) => self.to_folder(path, &log).await,
            Target::Service(client, url) => self.to_service(client, url, &log).await,
        }?;
        self.require_signing().await?;
        Ok(passed)
    }

    /// Fails while a witness keeps the log from being signed: nothing newer can be shipped then.
    async fn require_signing(&self) -> Result<(), Failure> {
        let ahead = self.store.ahead(&self.log).await?;
        match ahead.into_iter().next() {
            None => Ok(()),
            Some((witness, size)) => Err(Failure::Ahead { witness, size }),
        }
    }

    async fn to_folder(&self, path: &Path, log: &Log<'_>) -> Result<PassResult, Failure> {
        if !path.is_dir() {
            return Err(Failure::NoFolder(path.to_owned()));
        }
        let shipped = self.store.shipped().await?.unwrap_or(0);
        if shipped > 0 && !path.join(HEAD).exists() {
            let path = path.to_owned();
            return Err(Failure::Empty { path, shipped });
        }
        let newest = &log.newest.checkpoint;
        let folder = Folder::of_export(path, newest, &log.trusted.keys.all, NAMED)?;
        folder.require_continued(&self.store, newest).await?;
        let size = folder.size();
        // Before anything can fail: retention must not drop what an older copy at the place lacks.
        if size < shipped {
            self.note(size).await?;
        }
        folder.require_whole_end()?;
        if size < newest.size {
            return self.bring(&folder, (size, folder.end()), log).await;
        }
        self.note(size).await?;
        self.status.look(log.checkpoints);
        Ok(PassResult::Whole(size))
    }

    async fn to_service(
        &self,
        client: &Client,
        url: &str,
        log: &Log<'_>,
    ) -> Result<PassResult, Failure> {
        let service = client.open(url)?;
        let newest = &log.newest.checkpoint;
        let mut shipped = self.store.shipped().await?.unwrap_or(0);
        if shipped >= newest.size {
            return Ok(PassResult::Whole(shipped));
        }
        let head = Head::of(newest, &log.trusted.keys.all).to_bytes();
        if shipped > 0 && !self.has(&service, shipped, log).await? {
            if service.get(HEAD).await?.is_none() {
                let url = url.to_owned();
                return Err(Failure::Gone { url, shipped });
            }
            warn!(
                url,
                records = shipped,
                "the checkpoint of these records is not there any more: the log is shipped from its first record on"
            );
            self.note(0).await?;
            client.forget();
            shipped = 0;
        }
        if shipped == 0 {
            service.put_new(HEAD, &head).await?;
        }
        self.bring(&service, (shipped, shipped), log).await
    }

    /// Tells whether a service has the checkpoint over the records that were shipped there.
    async fn has(&self, service: &Service<'_>, size: u64, log: &Log<'_>) -> Result<bool, Failure> {
        let name = checkpoint_file(size);
        let Some(found) = service.get(&name).await? else {
            return Ok(false);
        };
        let known = log.checkpoints.iter().find(|one| one.size == size);
        if known.is_some_and(|known| is_same(&name, known.note.as_bytes(), &found)) {
            return Ok(true);
        }
        let wrong =
            |fault: CheckpointFault| Failure::Checkpoint { url: service.shown(&name), fault };
        let note = Note::parse(&found).map_err(|error| wrong(error.into()))?;
        let keys = log.trusted.keys.at(size);
        let opened = Checkpoint::open(&note, &keys);
        let (theirs, _) = opened.map_err(|error| wrong(error.into()))?;
        let ours = &log.newest.checkpoint;
        let proof = self.store.consistency(size, ours.size).await?;
        let continues = theirs.size == size && proof.verify(&theirs.root, &ours.root).is_ok();
        if continues { Ok(true) } else { Err(wrong(CheckpointFault::NotContinued)) }
    }

    /// Writes the entries from `first` on up to a checkpoint behind `shipped` records.
    async fn bring(
        &self,
        place: &dyn Destination,
        (shipped, first): (u64, u64),
        log: &Log<'_>,
    ) -> Result<PassResult, Failure> {
        let kept = self.store.extent().await?.first;
        let mut next = log.next(shipped.max(kept).saturating_add(STEP));
        let mut faults = Faults { status: &self.status };
        loop {
            let signed = (&next.checkpoint, &next.note);
            if write::write(&self.store, place, first, signed, &mut faults).await? {
                break;
            }
            // The bundle with the last entries below it may be damaged: a later one may hold.
            let size = next.checkpoint.size;
            if size >= log.newest.checkpoint.size {
                return Err(Failure::Contradiction(size));
            }
            next = log.next(size.saturating_add(BUNDLE));
        }
        let size = next.checkpoint.size;
        self.note(size).await?;
        self.status.look(log.checkpoints);
        Ok(if size < log.newest.checkpoint.size {
            PassResult::Part
        } else {
            PassResult::Whole(size)
        })
    }

    /// Notes how far the log is shipped, unless that is known.
    async fn note(&self, size: u64) -> Result<(), Failure> {
        if self.store.shipped().await? != Some(size) {
            // A process of another configuration may have changed the place.
            self.store.ship_to(Some(self.mark)).await?;
            self.store.note_shipped(size).await?;
        }
        self.status.shipped(size);
        Ok(())
    }
}

/// The checkpoints of a log.
struct Log<'l> {
    checkpoints: &'l [StoredCheckpoint],
    trusted: &'l Trusted,
    newest: &'l CoveringCheckpoint,
}

impl Log<'_> {
    /// Returns the first checkpoint over at least so many records, or else the newest.
    fn next(&self, size: u64) -> CoveringCheckpoint {
        let enough = self.checkpoints.iter().enumerate();
        let mut enough = enough.filter(|(_, one)| one.size >= size);
        let next = enough.find_map(|(last, _)| {
            let first = self.checkpoints.get(..=last)?;
            self.trusted.covering(size.saturating_sub(1), first).ok()
        });
        next.unwrap_or_else(|| self.newest.clone())
    }
}

/// The faults of a pass, each told once.
struct Faults<'s> {
    status: &'s StatusCell,
}

impl Listener for Faults<'_> {
    fn fault(&mut self, what: &str) {
        if self.status.is_new_fault(what) {
            warn!(to = self.status.to(), "the shipped log has a fault: {what}");
        }
    }

    fn missing(&mut self, records: u64) {
        self.status.missing(records);
    }
}
