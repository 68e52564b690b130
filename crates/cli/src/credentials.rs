//! The secret of a new entry of the configuration, and the entry's way into the file.
//!
//! `crawlgate client add` and `crawlgate admin user add` make such entries.

use std::fs;
use std::io::{self, BufRead as _};
use std::os::unix::fs::{MetadataExt as _, chown};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use clap::Args;

use super::{Failure, terminal};
use crawlgate_config::{Config, Variables};
use crawlgate_system::atomic_file::NewFile;

/// Octets of a password, at least: anyone who can reach the proxy can guess at it.
const MIN_LENGTH: usize = 8;

/// Octets of a password, at most: clients send it with each request.
const MAX_LENGTH: usize = 1_024;

/// Random octets of a generated password.
const RANDOM: usize = 24;

/// Source of the password of a new entry. Without an option, the command prompts for it twice.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(super) struct PasswordArgs {
    /// Take the password from standard input: the first line
    #[arg(long, conflicts_with = "generate")]
    pub(super) password_stdin: bool,
    /// Generate a password, and print it on standard error
    #[arg(long)]
    pub(super) generate: bool,
}

impl PasswordArgs {
    /// Returns the password of `name`, which is fit to be one.
    pub(super) fn password(self, name: &str) -> Result<String, Failure> {
        let password = match (self.generate, self.password_stdin) {
            (true, _) => made_up()?,
            (false, true) => first_line()?,
            (false, false) => asked_twice(name)?,
        };
        is_fit(&password)?;
        Ok(password)
    }
}

/// Writes a text as a value of the configuration.
pub(super) fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}

/// Prints a new entry, or appends it to the configuration file.
pub(super) fn deliver(entry: &str, is_appended: bool, config: &Config) -> Result<(), Failure> {
    if is_appended {
        return append(entry, config);
    }
    terminal::print(entry).map(drop)
}

/// Prints a secret that was made for `name` on standard error, apart from the entry.
pub(super) fn tell_secret(kind: &str, name: &str, secret: &str) {
    terminal::say(format_args!("the {kind} of {name}: {secret}"));
}

/// Adds an entry to the configuration file, if the result is valid. Another process that reads the file meanwhile gets
/// the old file or the new one.
fn append(entry: &str, config: &Config) -> Result<(), Failure> {
    let Some(named) = config.source.file() else {
        bail!("there is no configuration file to add it to; name one with --config FILE");
    };
    let failed = |error: io::Error| format!("{}: {error}", named.display());
    // Write to the target of a link, so that the link stays.
    let file = fs::canonicalize(named).map_err(failed)?;
    let mut text = fs::read_to_string(&file).map_err(failed)?;
    if !text.is_empty() {
        let end = if text.ends_with('\n') { "\n" } else { "\n\n" };
        text.push_str(end);
    }
    text.push_str(entry);
    // As the proxy reads it: keys that the entry needs may be set by variables.
    Config::parse_with(&text, named, &Variables::from_env())
        .map_err(|error| format!("nothing was added: {error}"))?;
    replace(&file, &text).map_err(failed)?;
    let name = named.display();
    terminal::say(format_args!("added to {name}; a running proxy takes it over on SIGHUP"));
    Ok(())
}

fn replace(file: &Path, text: &str) -> io::Result<()> {
    let mut new = NewFile::beside(file)?;
    new.write(text.as_bytes())?;
    // The new file keeps the readers of the old one.
    let old = fs::metadata(file)?;
    new.file().set_permissions(old.permissions())?;
    // Only root can change the owner; other users keep their own files.
    let _ = chown(new.path(), Some(old.uid()), Some(old.gid()));
    new.replace()
}

/// Returns a random secret, as a password or as a token.
pub(super) fn made_up() -> Result<String, Failure> {
    let mut octets = [0; RANDOM];
    aws_lc_rs::rand::fill(&mut octets).map_err(|_| "the system gives no random numbers")?;
    // Letters that need no escape in a URL.
    Ok(URL_SAFE_NO_PAD.encode(octets))
}

/// Reads the first line of standard input.
pub(super) fn first_line() -> Result<String, Failure> {
    let mut line = String::new();
    let read = io::stdin().lock().read_line(&mut line);
    read.map_err(|error| format!("standard input: {error}"))?;
    let line = line.strip_suffix('\n').unwrap_or(&line);
    Ok(line.strip_suffix('\r').unwrap_or(line).to_owned())
}

fn asked_twice(name: &str) -> Result<String, Failure> {
    let first = ask(&format!("Password of {name}: "))?;
    is_fit(&first)?;
    if ask("The same again: ")? != first {
        bail!("that was not the same");
    }
    Ok(first)
}

/// Prompts at the terminal, without showing what is typed.
pub(super) fn ask(prompt: &str) -> Result<String, Failure> {
    rpassword::prompt_password(prompt).map_err(|error| {
        format!("no terminal to ask at ({error}); use --password-stdin or --generate").into()
    })
}

/// Checks that a text can be a password: RFC 7617, section 2, allows no control characters.
fn is_fit(password: &str) -> Result<(), Failure> {
    if password.len() < MIN_LENGTH {
        bail!("a password has at least {MIN_LENGTH} octets");
    }
    if password.len() > MAX_LENGTH {
        bail!("a password has at most {MAX_LENGTH} octets");
    }
    if password.chars().any(char::is_control) {
        bail!("a password holds no control characters");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_appended_entry_keeps_the_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("config.toml");
        let before = "# mine\n[log]\nlevel = \"warn\" # quiet";
        fs::write(&file, before).expect("written");
        let link = folder.path().join("link.toml");
        std::os::unix::fs::symlink(&file, &link).expect("linked");
        let entry = |name: &str| format!("[[client]]\nname = '{name}'\nnetworks = '10.1.0.0/16'\n");
        let load = || Config::load(Some(&link)).expect("right");
        append(&entry("news"), &load()).expect("added");
        append(&entry("side"), &load()).expect("added");
        let text = fs::read_to_string(&file).expect("read");
        let start = format!("{before}\n\n[[client]]\n");
        assert!(text.starts_with(&start), "{text}");
        assert_eq!(load().clients.len(), 2);
        assert!(fs::symlink_metadata(&link).expect("there").is_symlink());
        // An invalid result is not written.
        let error = append(&entry("side"), &load()).expect_err("twice").to_string();
        assert!(error.contains("another client has this name"), "{error}");
        assert_eq!(fs::read_to_string(&file).expect("read"), text);
        let nowhere = append("", &Config::default());
        let nowhere = nowhere.expect_err("no file").to_string();
        assert!(nowhere.contains("--config FILE"), "{nowhere}");
    }

    #[test]
    fn a_password_is_long_and_plain() {
        let long = "x".repeat(MAX_LENGTH + 1);
        for (password, fits) in [
            ("open sesame", true),
            ("schlüssel", true),
            ("short", false),
            ("", false),
            ("open\tsesame", false),
            (&*long, false),
        ] {
            assert_eq!(is_fit(password).is_ok(), fits, "{password:?}");
        }
        let made_up = made_up().expect("random");
        assert!(is_fit(&made_up).is_ok() && made_up.len() == 32, "{made_up}");
    }
}
