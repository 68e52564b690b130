//! The store and the authority of the machine's service, for commands in a shell that read them.
//!
//! systemd names the service's directory only to the service. A command in a shell looks at the places of its user:
//! root has no store there, and `sudo crawlgate log` means the service's. So a command that reads takes the service's
//! directory where no option or variable names another place, the configuration is the service's, and its user has
//! nothing to read. A command that serves or runs never does.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::config::Config;
use super::environment::Variables;
use super::load::{ConfigError, VARIABLE};
use super::places::Places;

/// The service's directory, below the root of the system.
const STATE: &str = "var/lib/crawlgate";

/// The service's configuration.
const CONFIGURATION: &str = "etc/crawlgate/config.toml";

/// The file that a command reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// The store.
    Store,
    /// The certificate of the local CA.
    Authority,
}

/// The owner of the file that a command reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder {
    /// The user, or the configuration names a place.
    User,
    /// The service, in this directory.
    Service(PathBuf),
    /// The service has a directory, and this user may not enter it.
    Closed(PathBuf),
}

impl Kept {
    fn place(self, places: &Places) -> PathBuf {
        match self {
            Self::Store => places.store().0,
            Self::Authority => places.ca().0,
        }
    }

    fn configured(self, config: &Config) -> Option<&Path> {
        match self {
            Self::Store => config.store.path.as_deref(),
            Self::Authority => Some(&config.tls.ca_cert),
        }
    }
}

impl Config {
    /// Reads the configuration in force for a command that reads `kept`, which may be the service's.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn load_to_read(
        explicit: Option<&Path>,
        kept: Kept,
    ) -> Result<(Self, Holder), ConfigError> {
        let places = Places::from_env();
        let variables = Variables::from_env();
        match explicit.map(Path::to_owned).or_else(named_by_environment) {
            Some(_) => Ok((Self::load(explicit)?, Holder::User)),
            None => Self::find_to_read(
                &places.configurations(),
                &places,
                &variables,
                kept,
                Path::new("/"),
            ),
        }
    }

    /// Finds the configuration and the holder of `kept` in the system at `root`.
    pub(super) fn find_to_read(
        candidates: &[PathBuf],
        places: &Places,
        variables: &Variables,
        kept: Kept,
        root: &Path,
    ) -> Result<(Self, Holder), ConfigError> {
        let find = |places: &Places| Self::find(None, None, candidates, places, variables);
        let config = find(places)?;
        let of_service = config.source.file().is_none_or(|file| file == root.join(CONFIGURATION));
        let own = kept.place(places);
        let is_own = kept.configured(&config) != Some(&own) || own.try_exists().unwrap_or(true);
        if !of_service || is_own || places.is_of_service() {
            return Ok((config, Holder::User));
        }
        let directory = root.join(STATE);
        let there = places.at(&directory);
        match fs::metadata(kept.place(&there)) {
            Ok(_) => Ok((find(&there)?, Holder::Service(directory))),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                Ok((config, Holder::Closed(directory)))
            }
            Err(_) => Ok((config, Holder::User)),
        }
    }
}

fn named_by_environment() -> Option<PathBuf> {
    let named: Option<OsString> = std::env::var_os(VARIABLE);
    named.filter(|name| !name.is_empty()).map(PathBuf::from)
}
