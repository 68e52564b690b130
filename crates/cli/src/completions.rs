//! `crawlgate completions` and `crawlgate man`: files for shells and for man, made from the command line itself.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::builder::Resettable;
use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use super::terminal::print;
use super::{Cli, Failure, fail};

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
#[must_use]
pub fn completions(args: &CompletionsArgs) -> ExitCode {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "crawlgate", &mut text);
    exit(print(&text).map(drop))
}

/// Prints the manual page of the program, or writes the pages of all commands.
#[must_use]
pub fn man(args: &ManArgs) -> ExitCode {
    // The same version makes the same pages, whatever its commit.
    let command = Cli::command()
        .disable_help_subcommand(true)
        .long_version(Resettable::Reset);
    exit(match &args.to {
        None => page(command).and_then(|text| print(&text).map(drop)),
        Some(directory) => pages(command, directory),
    })
}

fn page(command: clap::Command) -> Result<Vec<u8>, Failure> {
    let mut text = Vec::new();
    clap_mangen::Man::new(command).render(&mut text)?;
    Ok(text)
}

fn pages(command: clap::Command, directory: &Path) -> Result<(), Failure> {
    let failed = |error: io::Error| format!("{}: {error}", directory.display());
    fs::create_dir_all(directory).map_err(failed)?;
    Ok(clap_mangen::generate_to(command, directory).map_err(failed)?)
}

fn exit(result: Result<(), Failure>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error),
    }
}
