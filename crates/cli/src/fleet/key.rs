//! `crawlgate fleet key`: makes the key that the instances of a fleet share.

use std::path::PathBuf;

use clap::Args;

use crate::Failure;
use crate::terminal::{self, printable};
use crawlgate_system::atomic_file::NewFile;
use crawlgate_turns::fleet::FleetKey;

#[derive(Args, Clone, Debug)]
pub(super) struct KeyArgs {
    /// The new file
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// Makes a key in a new file, which only its owner can read.
pub(super) fn run(args: &KeyArgs) -> Result<(), Failure> {
    let path = &args.file;
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    let mut file = NewFile::create_new(path).map_err(failed)?;
    let text = FleetKey::generate().ok_or("this system gives no random numbers")?;
    file.write(text.as_bytes()).map_err(failed)?;
    file.persist().map_err(failed)?;
    let shown = path.display().to_string();
    let shown = printable(&shown);
    let text = format!(
        "{shown}: a new key; copy it to every instance of the fleet, and name it in [fleet] key_file\n"
    );
    terminal::print(text.as_bytes()).map(drop)
}
