//! `crawlgate ca`: the authority's files, its fingerprints, and how clients come to trust it.

use std::{
    fmt::Write as _,
    io::{self, Write as _},
    path::PathBuf,
    process::ExitCode,
};

use clap::{Args, Subcommand};

use super::recipes::{self, Setup};
use crate::{
    ca::{Authority, CaError, text},
    clock::Clock,
    config::Config,
    trust::{self, TrustError},
};

/// Manage the local certificate authority that HTTPS interception signs with.
#[derive(Args, Clone, Debug)]
pub struct CaArgs {
    #[command(subcommand)]
    command: CaCommand,
}

#[derive(Clone, Debug, Subcommand)]
enum CaCommand {
    /// Create the authority: a certificate and a key, where tls.ca_cert and tls.ca_key say
    Create {
        /// Replace an existing one; every client must then trust the new one
        #[arg(long)]
        force: bool,
    },
    /// Show the authority's files, fingerprints and validity
    Show,
    /// Write a bundle and a Java truststore: the public roots and the authority, for clients that trust one file
    Export {
        /// Where to; by default beside the authority's certificate
        directory: Option<PathBuf>,
    },
    /// Print what to set up in each client so that it uses the proxy and trusts the authority
    #[command(visible_alias = "env")]
    Setup {
        /// Only this client, such as "curl"
        client: Option<String>,
        /// Where `crawlgate ca export` has written its files; by default beside the authority's certificate
        #[arg(long, value_name = "DIRECTORY")]
        exported: Option<PathBuf>,
    },
}

/// Runs `crawlgate ca` and says how it went: 0, or 2 if it failed.
#[must_use]
pub fn run(args: &CaArgs, config: &Config) -> ExitCode {
    match perform(&args.command, config) {
        Ok(said) => {
            // Nobody to tell if nobody reads.
            let _ = io::stdout().lock().write_all(said.as_bytes());
            ExitCode::SUCCESS
        }
        Err(error) => {
            let _ = writeln!(io::stderr().lock(), "crawlgate: {error}");
            ExitCode::from(2)
        }
    }
}

/// Why `crawlgate ca` failed.
#[derive(Debug)]
enum Failure {
    Ca(CaError),
    Trust(TrustError),
    Client(String),
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Ca(error) => error.fmt(f),
            Self::Trust(error) => error.fmt(f),
            Self::Client(client) => write!(
                f,
                "no set-up is known for {client:?}; known are {}",
                recipes::CLIENTS.join(", ")
            ),
        }
    }
}

impl From<CaError> for Failure {
    fn from(error: CaError) -> Self {
        Self::Ca(error)
    }
}

impl From<TrustError> for Failure {
    fn from(error: TrustError) -> Self {
        Self::Trust(error)
    }
}

/// Does what the command says; what is returned is for standard output.
fn perform(command: &CaCommand, config: &Config) -> Result<String, Failure> {
    let clock = Clock::system();
    match command {
        CaCommand::Create { force } => {
            let authority = Authority::create(&config.tls, clock, *force)?;
            Ok(describe(&authority))
        }
        CaCommand::Show => Ok(describe(&Authority::load(&config.tls, clock)?)),
        CaCommand::Export { directory } => {
            let authority = Authority::load(&config.tls, clock.clone())?;
            let (bundle, truststore) = exported(config, directory.as_ref());
            let roots = trust::public_roots().with_files(&config.tls.extra_roots)?;
            roots.write_bundle(&bundle, authority.certificate_pem())?;
            roots.write_truststore(&truststore, authority.certificate_der(), clock.now())?;
            Ok(format!("{}\n{}\n", bundle.display(), truststore.display()))
        }
        CaCommand::Setup {
            client,
            exported: directory,
        } => {
            let authority = Authority::load(&config.tls, clock)?;
            let (bundle, truststore) = exported(config, directory.as_ref());
            let setup = Setup {
                proxy: recipes::proxy_url(&config.listen.addresses),
                ca: absolute(&config.tls.ca_cert),
                bundle: absolute(&bundle),
                truststore: absolute(&truststore),
                spki: authority.spki_sha256_base64(),
            };
            match client {
                None => Ok(setup.all()),
                Some(client) => setup
                    .one(client)
                    .ok_or_else(|| Failure::Client(client.clone())),
            }
        }
    }
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
    said
}

/// The bundle and the truststore in `directory`, or else beside the authority's certificate.
fn exported(config: &Config, directory: Option<&PathBuf>) -> (PathBuf, PathBuf) {
    let place = |name: &str| match directory {
        Some(directory) => directory.join(name),
        None => config.tls.ca_cert.with_file_name(name),
    };
    (place("bundle.pem"), place("truststore.jks"))
}

/// Set-up lines are pasted elsewhere, so their paths must not depend on where we stand.
fn absolute(path: &std::path::Path) -> String {
    std::path::absolute(path)
        .unwrap_or_else(|_| path.into())
        .display()
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Places;

    #[test]
    fn an_authority_is_created_shown_exported_and_explained() {
        let directory = tempfile::tempdir().unwrap();
        let mut config = Config::builtin(&Places::default());
        config.tls.ca_cert = directory.path().join("certs/ca.crt");
        config.tls.ca_key = directory.path().join("certs/ca.key");
        let ca = |command| perform(&command, &config);

        let missing = ca(CaCommand::Show).unwrap_err().to_string();
        assert!(missing.contains("crawlgate ca create"), "{missing}");
        let created = ca(CaCommand::Create { force: false }).unwrap();
        assert_eq!(ca(CaCommand::Show).unwrap(), created);
        for label in [
            "certificate ",
            "key ",
            "CN=crawlgate local CA",
            "SHA-256 ",
            "SPKI SHA-256 ",
        ] {
            assert!(created.contains(label), "no {label:?} in {created}");
        }
        let again = ca(CaCommand::Create { force: false })
            .unwrap_err()
            .to_string();
        assert!(again.contains("--force"), "{again}");
        assert_ne!(ca(CaCommand::Create { force: true }).unwrap(), created);

        let exported = ca(CaCommand::Export { directory: None }).unwrap();
        for path in exported.lines() {
            assert!(std::fs::metadata(path).unwrap().len() > 1000, "{path}");
        }
        let setup = |client: Option<&str>| {
            ca(CaCommand::Setup {
                client: client.map(str::to_owned),
                exported: None,
            })
        };
        let all = setup(None).unwrap();
        for path in exported.lines() {
            assert!(all.contains(path), "{path} is not in {all}");
        }
        assert!(all.contains(&setup(Some("CURL")).unwrap()));
        let unknown = setup(Some("telnet")).unwrap_err().to_string();
        assert!(
            unknown.contains("telnet") && unknown.contains("curl"),
            "{unknown}"
        );
    }
}
