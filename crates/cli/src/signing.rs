//! `crawlgate signing`: the identities that requests are signed with, their keys and directories.

mod rotate;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, Subcommand};

use super::credentials::quoted;
use super::terminal::joined;
use super::{Failure, terminal};
use crawlgate_config::{Config, client_name};
use crawlgate_signing::{Directory, Identities, Settings, SigningKey};
use crawlgate_system::atomic_file::NewFile;
use crawlgate_system::clock::Clock;

/// Arguments of `crawlgate signing`.
#[derive(Args, Clone, Debug)]
#[command(after_help = AFTER_HELP)]
pub struct SigningArgs {
    #[command(subcommand)]
    command: Command,
}

const AFTER_HELP: &str = "\
An identity is a [[signing]] of the configuration: a name, the URL of a directory of keys, and a private key. crawlgate signs \
the requests of the clients that name it (Web Bot Auth), so that origins can tell a crawler from its imitators. A running \
proxy reads keys again on SIGHUP.

Examples:
  crawlgate signing new news
  crawlgate signing list
  crawlgate signing directory news --write /srv/www/.well-known/http-message-signatures-directory
  crawlgate signing rotate news";

#[derive(Subcommand, Clone, Debug)]
enum Command {
    /// Make the private key of an identity, and print the section for the configuration
    ///
    /// The file is readable by its owner only. A file that is there already is left as it is.
    New {
        /// The identity
        #[arg(value_name = "NAME", value_parser = client_name)]
        name: Arc<str>,
        /// The file of the key [default: the one that the configuration names, else NAME.key beside the configuration]
        #[arg(long, value_name = "FILE")]
        key: Option<PathBuf>,
    },
    /// List the identities: name, thumbprints of the keys, URL, clients
    List,
    /// Print the directory of an identity's public keys, as it is to be served at its URL
    ///
    /// It lists the keys of all identities with the same URL.
    ///
    /// The output has no line end, so that it is what the digest among the fields covers.
    Directory {
        /// The identity
        #[arg(value_name = "NAME")]
        name: String,
        /// Write it to this file instead
        #[arg(long, value_name = "FILE")]
        write: Option<PathBuf>,
        /// Print the fields to serve it with: media type, freshness, digest, and a proof by each key, which counts for 30 days
        #[arg(long)]
        headers: bool,
    },
    /// Take the next step of replacing an identity's key, and say when the one after it is due
    ///
    /// The first step makes the next key (KEY.next), which the directory has to list. A day later, the second step signs
    /// with it, and keeps the old key in the directory (KEY.last). The third step, another day later, removes the old one.
    /// Verifiers may keep a directory for a day.
    Rotate {
        /// The identity
        #[arg(value_name = "NAME")]
        name: String,
        /// Take the step although verifiers may not know of the one before: for a key that others have
        #[arg(long)]
        now: bool,
    },
}

/// Runs `crawlgate signing`; exits 0, or 2 on failure.
pub(super) fn run(args: &SigningArgs, config: &Config) -> Result<ExitCode, Failure> {
    let said = match &args.command {
        Command::New { name, key } => new(name, key.as_deref(), config),
        Command::List => list(config),
        Command::Directory { name, write, headers } => {
            directory(config, name, write.as_deref(), *headers)
        }
        Command::Rotate { name, now } => find(config, name)
            .and_then(|settings| rotate::step(settings, *now, Clock::system().now())),
    };
    terminal::print(&said?)?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the identity of this name.
fn find<'c>(config: &'c Config, name: &str) -> Result<&'c Settings, Failure> {
    let all = &config.signing;
    if let Some(found) = all.iter().find(|one| *one.name == *name) {
        return Ok(found);
    }
    if all.is_empty() {
        let source = &config.source;
        bail!(
            "there is no [[signing]] in {source}; `crawlgate signing new {name}` makes its key and prints the section"
        );
    }
    let known = joined(all.iter().map(|one| &one.name), ", ", "");
    bail!("there is no [[signing]] of the name {name:?}; there are {known}")
}

fn new(name: &Arc<str>, key: Option<&Path>, config: &Config) -> Result<String, Failure> {
    let configured = config.signing.iter().find(|one| one.name == *name);
    let beside = config.source.file().and_then(Path::parent).unwrap_or(Path::new(""));
    let path = match (key, configured) {
        (Some(path), _) => path.to_owned(),
        (None, Some(configured)) => configured.key.clone(),
        (None, None) => beside.join(format!("{name}.key")),
    };
    let made = SigningKey::create(&path);
    let key = made.map_err(|fault| format!("{}: {fault}", path.display()))?;
    let mut said =
        format!("{}: the key of {name}, thumbprint {}\n", path.display(), key.thumbprint());
    if configured.is_none() {
        let path = std::path::absolute(&path).unwrap_or(path);
        // A String takes everything.
        let _ = write!(
            said,
            "\nAdd this to the configuration, with the URL at which you will publish its directory:\n\n\
             [[signing]]\nname = \"{name}\"\nagent = \"https://bot.example/.well-known/http-message-signatures-directory\"\n\
             key = {}\n\nand name it: signing = \"{name}\" in [agent], or in a [[client]].\n",
            quoted(&path.display().to_string())
        );
    }
    Ok(said)
}

fn list(config: &Config) -> Result<String, Failure> {
    if config.signing.is_empty() {
        return Ok(
            "no identities: requests are not signed; `crawlgate signing new NAME` makes one\n"
                .to_owned(),
        );
    }
    let mut said = String::new();
    for one in &config.signing {
        let _ = writeln!(said, "{}", one.name);
        let _ = writeln!(said, "  agent    {}", one.agent);
        let _ = writeln!(said, "  key      {}", described(&one.key));
        for path in &one.publish {
            let _ = writeln!(said, "  publish  {}", described(path));
        }
        let _ = writeln!(said, "  clients  {}", clients(config, &one.name));
    }
    Ok(said)
}

/// Returns the thumbprint of a key, or the reason why the file has no usable key, with the file.
fn described(path: &Path) -> String {
    match SigningKey::load(path) {
        Ok(key) => format!("{}  {}", key.thumbprint(), path.display()),
        Err(fault) => format!("{}: {fault}", path.display()),
    }
}

/// Returns the names of the clients that use an identity.
fn clients(config: &Config, name: &str) -> String {
    let is_others = config.agent.signing.as_deref() == Some(name);
    let is_its = |own: &Option<Arc<str>>| own.as_deref().map_or(is_others, |own| own == name);
    let signed = config.clients.iter().filter(|one| is_its(&one.signing));
    let none = if is_others && config.clients.is_empty() { "all" } else { "none" };
    joined(signed.map(|client| &client.name), ", ", none)
}

fn directory(
    config: &Config,
    name: &str,
    write: Option<&Path>,
    headers: bool,
) -> Result<String, Failure> {
    let settings = find(config, name)?;
    // All that have its URL: verifiers find one directory there.
    let all = config.signing.iter();
    let all = all.filter(|one| one.agent.as_str() == settings.agent.as_str());
    let identities = Identities::load(&all.cloned().collect::<Vec<_>>())?;
    let directory = Directory::of(identities.iter().map(|one| &**one), Clock::system().now());
    let directory = directory.ok_or("the identity has no key")?;
    let mut said = String::new();
    if headers {
        for (name, value) in directory.fields() {
            let _ = writeln!(said, "{name}: {value}");
        }
    }
    match write {
        None if headers => {}
        None => said = directory.body,
        Some(path) => {
            put(path, &directory.body).map_err(|error| format!("{}: {error}", path.display()))?;
        }
    }
    Ok(said)
}

/// Writes a file that a web server can read, whole.
fn put(path: &Path, text: &str) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    let mut file = NewFile::beside(path)?;
    file.write(text.as_bytes())?;
    file.file().set_permissions(std::fs::Permissions::from_mode(0o644))?;
    file.replace()
}
