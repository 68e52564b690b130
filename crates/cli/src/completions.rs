//! `crawlgate completions` and `crawlgate man`: files for shells and for man, made from the command line itself.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::Resettable;
use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use super::terminal::print;
use super::{Cli, Failure};

/// Arguments of `crawlgate completions`.
#[derive(Args, Clone, Debug)]
pub struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

/// Arguments of `crawlgate man`.
#[derive(Args, Clone, Debug)]
pub struct ManArgs {
    /// Write crawlgate.1 and a page for each command to this directory
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
}

/// Prints the completions of a shell.
pub(super) fn completions(args: &CompletionsArgs) -> Result<ExitCode, Failure> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "crawlgate", &mut text);
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the manual page of the program, or writes the pages of all commands.
pub(super) fn man(args: &ManArgs) -> Result<ExitCode, Failure> {
    // The same version makes the same pages, whatever its commit.
    let command = Cli::command().disable_help_subcommand(true).long_version(Resettable::Reset);
    if let Some(directory) = &args.to {
        let failed = |error: io::Error| format!("{}: {error}", directory.display());
        fs::create_dir_all(directory).map_err(failed)?;
        clap_mangen::generate_to(command, directory).map_err(failed)?;
    } else {
        let mut text = Vec::new();
        clap_mangen::Man::new(command).render(&mut text)?;
        print(&text)?;
    }
    Ok(ExitCode::SUCCESS)
}
