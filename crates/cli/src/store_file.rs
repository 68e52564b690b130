//! `--store FILE`: a command reads the store in a file, such as a backup, instead of the configured one.

use std::path::PathBuf;

use clap::Args;

use super::collected::CollectedArgs;
use crate::Failure;
use crawlgate_config::Config;

/// The file of the store that a command reads.
#[derive(Args, Clone, Debug, Default)]
pub(super) struct StoreFileArgs {
    /// The file of the store, such as a backup; its key and state file lie beside it [default: the store of the
    /// configuration]
    #[arg(
        long = "store",
        id = "store_file",
        value_name = "FILE",
        conflicts_with = "log"
    )]
    file: Option<PathBuf>,
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
            bail!(
                "--store {} and --log name two stores; give one of them",
                file.display()
            );
        }
        config.store.path = Some(file.clone());
        Ok(())
    }
}
