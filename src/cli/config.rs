//! `crawlgate config`: is the configuration right, and what does it come to?

use std::{
    io::{self, Write},
    path::Path,
    process::ExitCode,
};

use clap::{Args, Subcommand};

use crate::config::Config;

/// Exit code of a configuration that is wrong or cannot be read.
const WRONG: u8 = 2;

/// Arguments of `crawlgate config`.
#[derive(Args, Clone, Debug)]
pub struct ConfigArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Clone, Copy, Debug)]
enum Command {
    /// Read the configuration and tell all that is wrong with it
    ///
    /// Prints which file was read. Exits 0 if it is right, 2 if not.
    Check,
    /// Print the effective value of every key, as TOML
    Show,
}

/// Runs `crawlgate config` on the configuration that `explicit` (`--config`) or the environment names. Results go to
/// standard output, faults to standard error; exits 0, or 2 if the configuration is wrong.
#[must_use]
pub fn run(args: &ConfigArgs, explicit: Option<&Path>) -> ExitCode {
    let (text, code) = match Config::load(explicit) {
        Ok(config) => (answer(args.command, &config), ExitCode::SUCCESS),
        Err(error) => {
            // Nothing is left to do for a standard error that is closed.
            let _ = writeln!(io::stderr(), "{error}");
            return ExitCode::from(WRONG);
        }
    };
    match io::stdout().write_all(text.as_bytes()) {
        // A reader that has seen enough (`| head`) is no fault of the configuration.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => ExitCode::from(WRONG),
        _ => code,
    }
}

fn answer(command: Command, config: &Config) -> String {
    match command {
        Command::Check => format!("{}: ok\n", config.source),
        Command::Show => format!("# {}\n{}", config.source, config.to_toml()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_names_the_source_and_show_prints_a_file_that_reads_the_same() {
        let config = Config::default();
        assert_eq!(answer(Command::Check, &config), "built-in defaults: ok\n");
        let shown = answer(Command::Show, &config);
        let read = Config::parse(&shown, Path::new("shown.toml")).expect("what is shown is right");
        assert_eq!(read.entries(), config.entries());
    }
}
