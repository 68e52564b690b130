//! Writes the log into a directory: as immutable files that any tool can carry to another machine, or as tiles.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use indicatif::ProgressBar;

use super::{CheckResult, TrustArgs, prove::tell};
use crate::Failure;
use crate::terminal::{self, Unit};
use crawlgate_config::Config;
use crawlgate_evidence::destination::{Folder, Listener};
use crawlgate_evidence::export::write;
use crawlgate_evidence::tiles;
use crawlgate_evidence::verify::case::Trusted;
use crawlgate_store::Store;

/// The words that name the directory of tiles in messages.
const TILES: &str = "`crawlgate audit tiles DIR`";

pub(super) const EXPORT_HELP: &str = "\
The files are `log.json`, `ground/FIRST.roots`, `entries/FIRST-END.cgb`, `gaps/FIRST-END.roots`, `objects/SHA256.zst`, `robots/SHA256.zst` and \
`checkpoints/SIZE` (docs/copies.md describes them), open to their owner alone. No file changes once it stands there, so rsync, rclone or \
object storage carries the directory. A later run writes what is new, up to the newest checkpoint; one that was \
interrupted is continued. The checkpoint comes last.

Each record is compared with the signed root before it is written. In the place of records that cannot be read, or are other than \
signed, stands a file in `gaps/`. `crawlgate collect` files such a directory elsewhere.

Exit codes: 0 the directory holds the log of the newest checkpoint; 1 something that a record names is gone, records \
were dropped before they were exported, or are lost, or cannot be read, or are not those that were signed, and are not exported; 2 crawlgate \
itself failed.

Example:
  crawlgate audit export --to /srv/log";

pub(super) const TILES_HELP: &str = "\
The files are `checkpoint`, `tile/L/N[.p/W]` and `tile/entries/N[.p/W]` of c2sp.org/tlog-tiles, open to their owner alone. \
Full tiles that are there and right stay, so a later run, or one after an interruption, writes what is new. The checkpoint \
comes last, once the tree leads to its root.

A directory with the checkpoint of another log, or of a tree that this log does not continue, is refused and stays as it is.

Entries that retention has dropped before they were written have no tiles: the tree is pruned on its left. Records that are lost are \
named, and have no tiles either.

Exit codes: 0 the directory holds the log of the newest checkpoint; 1 the log is not the one that was signed, or records of it are lost; 2 crawlgate \
itself failed.

Example:
  crawlgate audit tiles /srv/log";

#[derive(Args, Clone, Debug)]
pub(super) struct ExportArgs {
    /// The directory; it is made if it is not there
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
    #[command(flatten)]
    trusted: TrustArgs,
}

#[derive(Args, Clone, Debug)]
pub(super) struct TilesArgs {
    /// The directory; it is made if it is not there
    dir: PathBuf,
    #[command(flatten)]
    trusted: TrustArgs,
}

/// Writes what is new up to the newest checkpoint.
pub(super) async fn export(
    args: &ExportArgs,
    store: &Arc<Store>,
    config: &Config,
) -> Result<CheckResult, Failure> {
    let trusted = Trusted::of_store(&args.trusted.key, config, store).await?;
    let Some(newest) = super::newest_trusted(store, &trusted).await? else {
        return Ok(CheckResult::Faults);
    };
    let checkpoint = &newest.checkpoint;
    std::fs::create_dir_all(&args.to).map_err(|error| format!("{}: {error}", args.to.display()))?;
    let folder = Folder::of_export(&args.to, checkpoint, &trusted.keys.all, "--to")?;
    folder.require_continued(store, checkpoint).await?;
    let mut progress = Progress::new(terminal::bar(Unit::Records, 0));
    let signed = (checkpoint, &newest.note);
    let written = write::write(store, &folder, folder.end(), signed, &mut progress).await;
    progress.bar.finish_and_clear();
    if !written? {
        progress.fault(&write::contradiction(checkpoint.size));
    }
    Ok(progress.found)
}

/// Writes the tree of the newest checkpoint.
pub(super) async fn tiles(
    args: &TilesArgs,
    store: &Arc<Store>,
    config: &Config,
) -> Result<CheckResult, Failure> {
    let trusted = Trusted::of_store(&args.trusted.key, config, store).await?;
    let Some(newest) = super::newest_trusted(store, &trusted).await? else {
        return Ok(CheckResult::Faults);
    };
    let folder = Folder::of_tiles(&args.dir, &newest.checkpoint, &trusted.keys.all, TILES)?;
    folder.require_continued(store, &newest.checkpoint).await?;
    let mut progress = Progress::new(ProgressBar::hidden());
    tiles::write(store, &folder, &newest, &mut progress).await?;
    Ok(progress.found)
}

/// The progress on the screen, and the faults that were found.
struct Progress {
    bar: ProgressBar,
    found: CheckResult,
}

impl Progress {
    const fn new(bar: ProgressBar) -> Self {
        let found = CheckResult::Clean;
        Self { bar, found }
    }
}

impl Listener for Progress {
    fn fault(&mut self, what: &str) {
        tell(&what);
        self.found = CheckResult::Faults;
    }

    fn remark(&mut self, what: &str) {
        tell(&what);
    }

    fn written(&mut self, records: u64, of: u64) {
        self.bar.set_length(of);
        self.bar.set_position(records);
    }
}

#[cfg(test)]
mod tests;
