//! `--log NAME`: a command reads collected logs instead of the one of this gate. `--store FILE`: it reads the store in a file,
//! such as a backup, instead of the configured one.

use std::path::PathBuf;

use clap::Args;

use crate::Failure;
use crawlgate_config::Config;
use crawlgate_store as store;
use crawlgate_store::collection::Collection;
use crawlgate_store::logs::{self, Log, Logs, OpenCopies};

/// The logs that a command reads.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
pub struct CollectedArgs {
    /// Read the log of this name instead of this gate's own; the end of the name behind a slash, or a part that no other name
    /// has, is enough. Several with commas or by repetition; '*' for this gate's own and all collected ones
    #[arg(
        long,
        visible_alias = "instance",
        value_name = "NAME",
        value_delimiter = ',',
        global = true
    )]
    pub(super) log: Vec<String>,
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

/// The logs that were chosen.
#[derive(Clone, Debug)]
pub enum LogSelection {
    /// The one of the configuration, which may have been put there for another one.
    One,
    /// Those of several names, or all.
    Several(Logs),
}

/// The file of the store that a command reads.
#[derive(Args, Clone, Debug, Default)]
pub(super) struct StoreFileArgs {
    /// The file of the store, such as a backup; its key and state file lie beside it [default: the store of the
    /// configuration]
    #[arg(long = "store", id = "store_file", value_name = "FILE", conflicts_with = "log")]
    file: Option<PathBuf>,
}

impl CollectedArgs {
    /// Returns the chosen logs. A single one takes the place of the configured store.
    ///
    /// # Errors
    /// When there is no such log, or more than one, or no collection is named.
    pub(super) fn choose(&self, config: &mut Config) -> Result<LogSelection, Failure> {
        if self.log.is_empty() {
            return match self.collection {
                Some(_) => Err("--collection needs --log NAME: the log in it".into()),
                None => Ok(LogSelection::One),
            };
        }
        if self.log.iter().any(|name| name.trim().is_empty()) {
            bail!("--log: a name is empty; name logs with commas between them, or '*' for all");
        }
        let collection = collection(self.collection.as_ref(), config)?;
        let own = Log::own(config).filter(Log::exists);
        let logs = Logs::of(own, Some(&collection), OpenCopies::default());
        let logs = logs.and_then(|logs| logs.choose(&self.log))?;
        match (&*self.log, logs.only()) {
            ([name], Some(log)) if name != logs::ALL => {
                log.put_in(config);
                Ok(LogSelection::One)
            }
            _ if logs.is_empty() => Err(Failure::from(format!(
                "there is no log: none is collected in {}, and this gate has none",
                collection.folder().display()
            ))),
            _ => Ok(LogSelection::Several(logs)),
        }
    }
}

impl StoreFileArgs {
    /// Puts the file in the place of the configured store.
    ///
    /// # Errors
    /// When a collected log is named, too. The parser does not see one before the name of a subcommand.
    pub(super) fn put_in(
        &self,
        collected: Option<&CollectedArgs>,
        config: &mut Config,
    ) -> Result<(), Failure> {
        let Some(file) = &self.file else {
            return Ok(());
        };
        if collected.is_some_and(|collected| !collected.log.is_empty()) {
            bail!("--store {} and --log name two stores; give one of them", file.display());
        }
        config.store.path = Some(file.clone());
        Ok(())
    }
}

impl LogSelection {
    /// Returns the logs. `config` is the configuration that they were chosen with.
    ///
    /// # Errors
    /// When there is no store.
    pub(super) fn logs(&self, config: &Config) -> Result<Logs, Failure> {
        match self {
            Self::Several(logs) => Ok(logs.clone()),
            Self::One => match Log::own(config) {
                Some(log) => Ok(Logs::one(log)),
                None => {
                    store::named(config).map_err(Into::into).and(Err("the log has no name".into()))
                }
            },
        }
    }

    /// Tells whether the log of the configured store may be among them. That of one collected log has replaced it.
    pub(super) fn has_own(&self) -> bool {
        match self {
            Self::One => true,
            Self::Several(logs) => logs.iter().any(|log| !log.is_copy()),
        }
    }

    /// Tells whether several logs are asked for, even if only one is found.
    pub(super) fn is_several(&self) -> bool {
        matches!(self, Self::Several(_))
    }

    /// Fails if several logs are asked for. `what` is the command that reads one.
    pub(super) fn require_one(&self, what: &str) -> Result<(), Failure> {
        match self {
            Self::One => Ok(()),
            Self::Several(logs) => Err(Failure::from(format!(
                "{what} needs exactly one log; name one with --log: {}",
                logs.names()
            ))),
        }
    }
}

/// Returns the collection that an option names, or the configuration.
pub(super) fn collection(named: Option<&PathBuf>, config: &Config) -> Result<Collection, Failure> {
    let folder = named.or(config.audit.collection.as_ref());
    let folder = folder.ok_or(
        "no collection is named: [audit] collection is \"\"; name its directory there or on the command line",
    )?;
    Ok(Collection::at(folder))
}
