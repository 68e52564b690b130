//! `--log NAME`: a command reads a collected log instead of the store of this gate.

use std::path::PathBuf;

use clap::Args;

use crate::config::Config;
use crate::store::collection::Collection;
use crate::store::logs::{Logs, OpenCopies};

/// The collected log that a command reads.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
pub struct CollectedArgs {
    /// Read the collected log of this name instead of this gate's own; the end of the name behind a slash, or a part that no
    /// other name has, is enough
    #[arg(long, value_name = "NAME", global = true)]
    pub(super) log: Option<String>,
    /// The directory of the collected logs [default: `[audit] collection`]
    #[arg(long, value_name = "DIR", global = true)]
    pub(super) collection: Option<PathBuf>,
}

/// The same options, out of sight: for a command below that refuses a collected log.
#[derive(Args, Clone, Debug)]
pub(super) struct NoCollectedArgs {
    #[arg(long, hide = true)]
    log: Option<String>,
    #[arg(long, hide = true)]
    collection: Option<PathBuf>,
}

impl CollectedArgs {
    /// Puts the copy of the named log in the place of the store.
    ///
    /// # Errors
    /// When there is no such log, or more than one, or no collection is named.
    pub(super) fn apply(&self, config: &mut Config) -> Result<(), String> {
        let Some(name) = &self.log else {
            return match self.collection {
                Some(_) => Err("--collection needs --log NAME: the log in it".to_owned()),
                None => Ok(()),
            };
        };
        let collection = collection(self.collection.as_ref(), config)?;
        let logs = Logs::of(None, Some(&collection), OpenCopies::default());
        let logs = logs.map_err(|error| error.to_string())?;
        let log = logs.named(name).map_err(|error| error.to_string())?;
        log.put_in(config);
        Ok(())
    }
}

/// Returns the collection that an option names, or the configuration.
pub(super) fn collection(named: Option<&PathBuf>, config: &Config) -> Result<Collection, String> {
    let folder = named.or(config.audit.collection.as_ref());
    let folder = folder.ok_or(
        "no collection is named: [audit] collection is \"\"; name its directory there or on the command line",
    )?;
    Ok(Collection::at(folder))
}
