//! `crawlgate config`: is the configuration right, and what does it come to?

use std::{
    io::{self, Write},
    path::Path,
    process::ExitCode,
};

use clap::{Args, Subcommand};

use crate::{config::Config, proxy::listener, trust};

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
    /// Reads the files of tls.extra_roots and of each [[listener]], too, and prints which file was read. Exits 0 if all is right, 2 if not.
    Check,
    /// Print the effective value of every key, as TOML
    Show,
}

/// Runs `crawlgate config` on the configuration that `explicit` (`--config`) or the environment names. Results go to
/// standard output, faults to standard error; exits 0, or 2 if the configuration is wrong.
#[must_use]
pub fn run(args: &ConfigArgs, explicit: Option<&Path>) -> ExitCode {
    let config = match Config::load(explicit) {
        Ok(config) => config,
        Err(error) => {
            // Nothing is left to do for a standard error that is closed.
            let _ = writeln!(io::stderr(), "{error}");
            return ExitCode::from(WRONG);
        }
    };
    if matches!(args.command, Command::Check) {
        let faults = faults(&config);
        if !faults.is_empty() {
            let _ = io::stderr().write_all(faults.as_bytes());
            return ExitCode::from(WRONG);
        }
    }
    let text = answer(args.command, &config);
    match io::stdout().write_all(text.as_bytes()) {
        // A reader that has seen enough (`| head`) is no fault of the configuration.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => ExitCode::from(WRONG),
        _ => ExitCode::SUCCESS,
    }
}

/// What is wrong with the files that the configuration names, a line for each; nothing if nothing is.
fn faults(config: &Config) -> String {
    let faults = trust::faults(&config.tls.extra_roots);
    let line = |fault: &trust::TrustError| format!("{}: {fault}\n", config.source);
    let of_roots = faults.iter().map(line);
    let listeners = listener::faults(&config.listeners);
    let of_listeners = listeners
        .iter()
        .map(|fault| format!("{}: {fault}\n", config.source));
    of_roots.chain(of_listeners).collect()
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
    fn check_names_the_files_of_roots_that_cannot_be_read() {
        let mut config = Config::default();
        assert_eq!(faults(&config), "");
        config.tls.extra_roots = vec!["/none/1.pem".into(), "/none/2.pem".into()];
        let told = faults(&config);
        let lines: Vec<_> = told.lines().collect();
        assert_eq!(lines.len(), 2, "{told}");
        for (line, path) in lines.iter().zip(["/none/1.pem", "/none/2.pem"]) {
            let start = format!("built-in defaults: [tls] extra_roots: cannot read {path}: ");
            assert!(line.starts_with(&start), "{line}");
        }
    }

    #[test]
    fn check_names_the_files_of_listeners_that_cannot_be_used() {
        let text = "[[listener]]\nname = 'fleet'\naddress = '127.0.0.1:0'\ntls = true\n\
                    cert = '/none/1.pem'\nkey = '/none/1.key'\n";
        let config = Config::parse(text, Path::new("shown.toml")).expect("right but for the files");
        let told = faults(&config);
        let start = "shown.toml: [[listener]] \"fleet\", cert /none/1.pem: ";
        assert!(told.starts_with(start), "{told}");
    }

    #[test]
    fn check_names_the_source_and_show_prints_a_file_that_reads_the_same() {
        let config = Config::default();
        assert_eq!(answer(Command::Check, &config), "built-in defaults: ok\n");
        let shown = answer(Command::Show, &config);
        let read = Config::parse(&shown, Path::new("shown.toml")).expect("what is shown is right");
        assert_eq!(read.entries(), config.entries());
    }
}
