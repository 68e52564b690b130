//! `crawlgate ca`: the authority's files, its fingerprints, and the set-up of clients.

use std::fmt::Write as _;
use std::iter;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};

use super::{Failure, terminal};
use crawlgate_ca::{Authority, text};
use crawlgate_config::{Config, TlsConfig};
use crawlgate_system::clock::{Clock, Moment};
use crawlgate_trust::recipes::{self, Setup};
use crawlgate_trust::{self as trust, TrustError};

/// Manage the local certificate authority that HTTPS interception signs with.
#[derive(Args, Clone, Debug)]
pub struct CaArgs {
    #[command(subcommand)]
    command: CaCommand,
}

impl CaArgs {
    /// Tells whether the command only reads the authority.
    pub(super) fn reads(&self) -> bool {
        matches!(self.command, CaCommand::Show | CaCommand::Export { .. } | CaCommand::Setup { .. })
    }
}

#[derive(Clone, Debug, Subcommand)]
enum CaCommand {
    /// Create the authority: a certificate and a key, at tls.ca_cert and tls.ca_key
    Create {
        /// Replace an existing one; every client must then trust the new one
        #[arg(long)]
        force: bool,
    },
    /// Show the authority's files, fingerprints and validity, and the authorities of a rotation
    Show,
    /// Make the next authority; a week or more later, with --finish, put it in force
    ///
    /// After the first step, every bundle names both authorities, and the current one signs. After the second step, the
    /// next one signs; the old certificate stays in the bundles until it expires. A running proxy takes either step
    /// over at SIGHUP.
    Rotate {
        /// Put the next authority in force
        #[arg(long, conflicts_with = "cancel")]
        finish: bool,
        /// Finish although clients had less than a week to get the next authority
        #[arg(long, requires = "finish")]
        force: bool,
        /// Drop the next authority
        #[arg(long)]
        cancel: bool,
    },
    /// Write files for clients: the authority alone; with the public roots; these as a Java truststore
    Export {
        /// The directory; by default that of the authority's certificate
        directory: Option<PathBuf>,
    },
    /// Print the settings for each client to use the proxy and trust the authority
    ///
    /// Writes the files that the lines name, as `ca export` does.
    #[command(visible_alias = "env")]
    Setup {
        /// Only this client, such as "curl"
        client: Option<String>,
        /// The directory of these files; by default that of the authority's certificate
        #[arg(long, value_name = "DIRECTORY")]
        exported: Option<PathBuf>,
    },
}

/// Runs `crawlgate ca`; exits 0, or 2 on failure.
pub(super) fn run(args: &CaArgs, config: &Config) -> Result<ExitCode, Failure> {
    let said = perform(&args.command, config)?;
    let printed = terminal::print(&said.result);
    if let Some(note) = said.note {
        terminal::tell(note);
    }
    printed?;
    Ok(ExitCode::SUCCESS)
}

/// The output of a command.
#[derive(Debug)]
struct CommandOutput {
    /// For standard output.
    result: String,
    /// For standard error: a step that failed besides.
    note: Option<String>,
}

impl From<String> for CommandOutput {
    fn from(result: String) -> Self {
        Self { result, note: None }
    }
}

/// Runs the command.
fn perform(command: &CaCommand, config: &Config) -> Result<CommandOutput, Failure> {
    let clock = Clock::system();
    match command {
        CaCommand::Create { force } => {
            let authority = Authority::create(&config.tls, clock.clone(), *force)?;
            Ok(changed(&authority, config, &clock))
        }
        CaCommand::Rotate { finish, force, cancel } => {
            let authority = match (finish, cancel) {
                (true, _) => Authority::finish_rotation(&config.tls, clock.clone(), *force)?,
                (false, true) => {
                    Authority::cancel_rotation(&config.tls)?;
                    Authority::load(&config.tls, clock.clone())?
                }
                (false, false) => Authority::begin_rotation(&config.tls, clock.clone())?,
            };
            Ok(changed(&authority, config, &clock))
        }
        CaCommand::Show => Ok(describe(&Authority::load(&config.tls, clock)?).into()),
        CaCommand::Export { directory } => {
            let authority = Authority::load(&config.tls, clock.clone())?;
            let exports = Exports::of(config, directory.as_ref());
            exports.write(&authority, &config.tls, clock.now())?;
            let written = exports.all().map(|path| format!("{}\n", path.display()));
            Ok(written.concat().into())
        }
        CaCommand::Setup { client, exported: directory } => {
            let authority = Authority::load(&config.tls, clock.clone())?;
            let exports = Exports::of(config, directory.as_ref());
            let setup = Setup {
                proxy: recipes::proxy_url(&config.listen.addresses),
                ca: absolute(authority.certificate_path()),
                next: authority.next().map(|next| absolute(next.path())),
                authorities: absolute(&exports.authorities),
                bundle: absolute(&exports.bundle),
                truststore: absolute(&exports.truststore),
                spki: spki_list(&authority),
            };
            let lines = match client {
                None => setup.all(),
                Some(client) => {
                    let recipe = setup.one(client).ok_or_else(|| {
                        let known = recipes::CLIENTS.join(", ");
                        format!("no set-up is known for {client:?}; known are {known}")
                    })?;
                    recipe.to_string()
                }
            };
            // The printed lines name these files: they must exist and match the authority.
            let failed = exports.write(&authority, &config.tls, clock.now()).err();
            Ok(CommandOutput {
                result: lines,
                note: failed.map(|error| {
                    format!(
                        "{error}; the lines for clients that need a bundle or truststore do not work as they are: \
                         `--exported DIRECTORY` puts these files elsewhere"
                    )
                }),
            })
        }
    }
}

/// Exports the files anew, if they were exported before, and reports on a created or changed authority: clients that
/// trust the old files would fail without an explanation.
fn changed(authority: &Authority, config: &Config, clock: &Clock) -> CommandOutput {
    let exports = Exports::of(config, None);
    let written =
        if exports.exist() { exports.write(authority, &config.tls, clock.now()) } else { Ok(()) };
    CommandOutput {
        result: describe(authority),
        note: written.err().map(|error| {
            format!("{error}; it stands for what was before until `crawlgate ca export` works")
        }),
    }
}

/// Returns the keys of this authority and the next, in Chromium's form.
fn spki_list(authority: &Authority) -> String {
    let next = authority.next().map(|next| next.spki_sha256_base64());
    let keys = iter::once(authority.spki_sha256_base64()).chain(next);
    terminal::joined(keys, ",", "")
}

fn describe(authority: &Authority) -> String {
    let mut said = String::new();
    let mut line = |label: &str, value: &dyn std::fmt::Display| {
        // Writing to a string cannot fail.
        let _ = writeln!(said, "{label:<12} {value}");
    };
    line("certificate", &authority.certificate_path().display());
    line("key", &authority.key_path().display());
    line("subject", &authority.subject());
    line(
        "valid",
        &format_args!(
            "{} to {}",
            text::date(authority.not_before()),
            text::date(authority.not_after())
        ),
    );
    line("SHA-256", &authority.fingerprint_sha256());
    line("SPKI SHA-256", &authority.spki_sha256_base64());
    let constraints = authority.name_constraints();
    if !constraints.is_empty() {
        line("signs for", &constraints.join(", "));
    }
    if let Some(next) = authority.next() {
        let dates = (text::date(next.since()), text::date(next.ready_at()));
        line("next", &next.path().display());
        line("in bundles", &format_args!("since {}; may sign from {} on", dates.0, dates.1));
        line("SHA-256", &next.fingerprint_sha256());
    }
    for retired in authority.retired() {
        let until = text::date(retired.not_after());
        line("old", &retired.path().display());
        line("in bundles", &format_args!("until {until}"));
        line("SHA-256", &retired.fingerprint_sha256());
    }
    said
}

/// The exported files, for clients that read one file only.
#[derive(Clone, Debug)]
pub(super) struct Exports {
    /// Only the authority and the others that clients trust, PEM: for clients that add them to their trusted roots.
    pub(super) authorities: PathBuf,
    /// Public roots, the operator's extra roots and the authority, PEM: for clients that trust one file.
    pub(super) bundle: PathBuf,
    /// The bundle as a Java truststore.
    pub(super) truststore: PathBuf,
}

impl Exports {
    /// Returns the paths in `directory`, or else beside the authority's certificate.
    fn of(config: &Config, directory: Option<&PathBuf>) -> Self {
        let beside = config.tls.ca_cert.parent().unwrap_or(Path::new(""));
        Self::in_directory(directory.map_or(beside, PathBuf::as_path))
    }

    /// Returns the paths in `directory`.
    pub(super) fn in_directory(directory: &Path) -> Self {
        Self {
            authorities: directory.join("authorities.pem"),
            bundle: directory.join("bundle.pem"),
            truststore: directory.join("truststore.jks"),
        }
    }

    fn all(&self) -> [&PathBuf; 3] {
        [&self.authorities, &self.bundle, &self.truststore]
    }

    fn exist(&self) -> bool {
        self.all().iter().any(|path| path.exists())
    }

    /// Writes the files anew.
    pub(super) fn write(
        &self,
        authority: &Authority,
        tls: &TlsConfig,
        now: Moment,
    ) -> Result<(), TrustError> {
        let roots = trust::public_roots().with_files(&tls.extra_roots)?;
        trust::write_file(&self.authorities, authority.trusted_pem().as_bytes())?;
        roots.write_bundle(&self.bundle, &authority.trusted_pem())?;
        roots.write_truststore(&self.truststore, &authority.trusted_der(), now)
    }
}

/// Makes a path absolute: users paste set-up lines elsewhere.
fn absolute(path: &Path) -> String {
    std::path::absolute(path).unwrap_or_else(|_| path.into()).display().to_string()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crawlgate_config::Places;

    fn config(directory: &Path) -> Config {
        let mut config = Config::builtin(&Places::default());
        config.tls.ca_cert = directory.join("ca.crt");
        config.tls.ca_key = directory.join("ca.key");
        config
    }

    fn setup(client: Option<&str>, exported: Option<PathBuf>) -> CaCommand {
        let client = client.map(str::to_owned);
        CaCommand::Setup { client, exported }
    }

    #[test]
    fn an_authority_is_created_shown_exported_and_explained() {
        let directory = tempfile::tempdir().unwrap();
        let config = config(&directory.path().join("certs"));
        let ca = |command| {
            let done = perform(&command, &config).map(|said| said.result);
            done.map_err(|error| error.to_string())
        };

        let missing = ca(CaCommand::Show).unwrap_err();
        assert!(missing.contains("crawlgate ca create"), "{missing}");
        let created = ca(CaCommand::Create { force: false }).unwrap();
        assert_eq!(ca(CaCommand::Show).unwrap(), created);
        let subject = "CN=crawlgate local CA";
        for label in ["certificate ", "key ", subject, "SHA-256 ", "SPKI SHA-256 "] {
            assert!(created.contains(label), "no {label:?} in {created}");
        }
        let again = ca(CaCommand::Create { force: false }).unwrap_err();
        assert!(again.contains("--force"), "{again}");
        assert_ne!(ca(CaCommand::Create { force: true }).unwrap(), created);

        let exported = ca(CaCommand::Export { directory: None }).unwrap();
        for path in exported.lines() {
            assert!(fs::metadata(path).unwrap().len() > 500, "{path}");
        }
        let all = ca(setup(None, None)).unwrap();
        for path in exported.lines() {
            assert!(all.contains(path), "{path} is not in {all}");
        }
        assert!(all.contains(&ca(setup(Some("CURL"), None)).unwrap()));
        let unknown = ca(setup(Some("telnet"), None)).unwrap_err();
        let names = unknown.contains("telnet") && unknown.contains("curl");
        assert!(names, "{unknown}");
    }

    #[test]
    fn the_files_of_a_set_up_exist_and_match_the_authority() {
        let directory = tempfile::tempdir().unwrap();
        let config = config(directory.path());
        let ca = |command| perform(&command, &config).unwrap();
        let setup = |exported| ca(setup(Some("curl"), exported));
        let create = |force| ca(CaCommand::Create { force }).note;
        let elsewhere = directory.path().join("elsewhere");
        let trusted = |directory: &Path| {
            assert!(directory.join("truststore.jks").exists());
            let bundle = fs::read_to_string(directory.join("bundle.pem")).unwrap();
            let ours = fs::read_to_string(&config.tls.ca_cert).unwrap();
            bundle.starts_with(&ours)
        };

        assert_eq!(create(false), None);
        let bundle = directory.path().join("bundle.pem");
        assert!(!bundle.exists(), "not exported yet");
        assert_eq!(setup(None).note, None);
        assert!(trusted(directory.path()));
        assert_eq!(create(true), None);
        assert!(trusted(directory.path()), "replaced with the authority");

        let said = setup(Some(elsewhere.clone()));
        let bundle = elsewhere.join("bundle.pem");
        assert!(said.result.contains(bundle.to_str().unwrap()), "{said:?}");
        let note = said.note.expect("there is no such directory");
        let is_told = note.contains("cannot write") && note.contains("--exported");
        assert!(is_told, "{note}");
        fs::create_dir(&elsewhere).unwrap();
        assert_eq!(setup(Some(elsewhere.clone())).note, None);
        assert!(trusted(&elsewhere));
        assert_eq!(create(true), None);
        assert!(!trusted(&elsewhere), "files elsewhere are not known");
        assert_eq!(setup(Some(elsewhere.clone())).note, None);
        assert!(trusted(&elsewhere));
    }
}
