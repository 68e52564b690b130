//! Writes the log as immutable files that any tool can carry to another machine.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use indicatif::ProgressBar;

use super::{CheckResult, prove::tell};
use crate::Failure;
use crate::terminal::{self, Unit};
use crawlgate_config::Config;
use crawlgate_evidence::export::write::{self, Folder, Listener};
use crawlgate_evidence::verify::case::Trusted;
use crawlgate_store::Store;

pub(super) const HELP: &str = "\
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
    store: &Arc<Store>,
    config: &Config,
) -> Result<CheckResult, Failure> {
    let trusted = Trusted::of_store(&args.key, config, store).await?;
    let Some(newest) = super::newest_trusted(store, &trusted).await? else {
        return Ok(CheckResult::Faults);
    };
    let checkpoint = &newest.checkpoint;
    std::fs::create_dir_all(&args.to).map_err(|error| format!("{}: {error}", args.to.display()))?;
    let folder = Folder::open(&args.to, checkpoint, &trusted.keys.all, "--to")?;
    folder.require_continued(store, checkpoint).await?;
    let end = folder.end()?;
    let mut progress = Progress {
        bar: terminal::bar(Unit::Records, 0),
        found: CheckResult::Clean,
    };
    let signed = (checkpoint, &newest.note);
    let written = write::write(store, &folder, end, signed, &mut progress).await;
    progress.bar.finish_and_clear();
    if !written? {
        progress.fault(&write::contradiction(checkpoint.size));
    }
    Ok(progress.found)
}

/// The progress of an export on the screen, and its faults.
struct Progress {
    bar: ProgressBar,
    found: CheckResult,
}

impl Listener for Progress {
    fn fault(&mut self, what: &str) {
        tell(&what);
        self.found = CheckResult::Faults;
    }

    fn missing(&mut self, _: u64) {}

    fn written(&mut self, records: u64, of: u64) {
        self.bar.set_length(of);
        self.bar.set_position(records);
    }
}

#[cfg(test)]
mod tests;
