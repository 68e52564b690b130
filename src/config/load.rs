//! Which file is read, and what is said when it is wrong.

use std::{
    ffi::OsString,
    fmt, fs, io,
    path::{Path, PathBuf},
};

use toml::de::DeTable;

use super::{
    Config, Fault, Places, Source, keys,
    read::Reader,
    search::{self, Distrust, SearchError},
};

/// Names the file where no option does.
const VARIABLE: &str = "CRAWLGATE_CONFIG";

/// Why there is no configuration.
#[derive(Debug)]
pub enum ConfigError {
    /// The file cannot be read.
    Unreadable {
        /// The file, as it was named.
        file: PathBuf,
        /// Who named it.
        named_by: NamedBy,
        /// What the system says.
        cause: io::Error,
    },
    /// The file says something that is not allowed.
    Invalid {
        /// The file, as it was named.
        file: PathBuf,
        /// Who named it.
        named_by: NamedBy,
        /// All that is wrong, in the order of the file; never empty.
        faults: Vec<Fault>,
    },
    /// The file was named by nothing, and another user may have written it.
    Distrusted {
        /// The file.
        file: PathBuf,
        /// Who may have written it, and how.
        why: Distrust,
    },
}

/// Who named a configuration file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamedBy {
    /// The caller: `--config`.
    Caller,
    /// The environment: `$CRAWLGATE_CONFIG`.
    Environment,
    /// Nothing: it stands where a configuration is looked for.
    Search,
}

impl fmt::Display for ConfigError {
    /// One line for each fault, each with the file's name, and one more where the file was not named by anybody and may
    /// belong to another program.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (file, named_by) = match self {
            Self::Unreadable {
                file,
                named_by,
                cause,
            } => {
                write!(f, "{}: cannot be read: {cause}", file.display())?;
                (file, named_by)
            }
            Self::Invalid {
                file,
                named_by,
                faults,
            } => {
                for (count, fault) in faults.iter().enumerate() {
                    let end_of_last = if count == 0 { "" } else { "\n" };
                    write!(f, "{end_of_last}{}:{fault}", file.display())?;
                }
                (file, named_by)
            }
            Self::Distrusted { file, why } => {
                write!(f, "{}: not read: {why}", file.display())?;
                (file, &NamedBy::Search)
            }
        };
        match named_by {
            NamedBy::Caller => Ok(()),
            NamedBy::Environment => write!(f, "\n({VARIABLE} names {})", file.display()),
            NamedBy::Search => write!(
                f,
                "\n(nothing names {0}, it was found; --config {0} or {VARIABLE} name it, or another)",
                file.display()
            ),
        }
    }
}

impl std::error::Error for ConfigError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unreadable { cause, .. } => Some(cause),
            Self::Invalid { .. } => None,
            Self::Distrusted { why, .. } => Some(why),
        }
    }
}

impl Config {
    /// Reads the configuration in force: of the file `explicit` (`--config`), of the file that `$CRAWLGATE_CONFIG` names,
    /// of the first that exists of `./crawlgate.toml`, `$XDG_CONFIG_HOME/crawlgate/config.toml` and
    /// `/etc/crawlgate/config.toml`, else the defaults.
    ///
    /// # Errors
    /// When a file that was named is missing; when a file cannot be read or says something that is not allowed; when a
    /// file that nothing names may have been written by another user.
    pub fn load(explicit: Option<&Path>) -> Result<Self, ConfigError> {
        let variable = std::env::var_os(VARIABLE);
        let places = Places::from_env();
        Self::find(explicit, variable, &places.configurations(), &places)
    }

    /// The configuration that `text` describes, the contents of `file`. The file itself is not read; relative paths
    /// start at its directory.
    ///
    /// # Errors
    /// When the text is not TOML or says something that is not allowed; all faults are told at once.
    pub fn parse(text: &str, file: &Path) -> Result<Self, ConfigError> {
        parse(text, file, &Places::from_env()).map_err(|faults| ConfigError::Invalid {
            file: file.to_owned(),
            named_by: NamedBy::Caller,
            faults,
        })
    }

    pub(super) fn find(
        explicit: Option<&Path>,
        variable: Option<OsString>,
        candidates: &[PathBuf],
        places: &Places,
    ) -> Result<Self, ConfigError> {
        let variable = variable
            .filter(|value| !value.is_empty())
            .map(PathBuf::from);
        let named = match (explicit, variable) {
            (Some(file), _) => Some((file.to_owned(), NamedBy::Caller)),
            (None, Some(file)) => Some((file, NamedBy::Environment)),
            (None, None) => None,
        };
        let found = match named {
            Some((file, named_by)) => Some((fs::read(&file), file, named_by)),
            None => first_that_exists(candidates)?,
        };
        let Some((octets, file, named_by)) = found else {
            return Ok(Self::builtin(places));
        };
        let octets = match octets {
            Ok(octets) => octets,
            Err(cause) => {
                return Err(ConfigError::Unreadable {
                    file,
                    named_by,
                    cause,
                });
            }
        };
        match decode(&octets).and_then(|text| parse(text, &file, places)) {
            Ok(mut config) => {
                if named_by == NamedBy::Search && file.is_relative() {
                    config.source = Source::Nearby(file);
                }
                Ok(config)
            }
            Err(faults) => Err(ConfigError::Invalid {
                file,
                named_by,
                faults,
            }),
        }
    }
}

/// What was read of a file, the file, and what names it.
type Found = (io::Result<Vec<u8>>, PathBuf, NamedBy);

fn first_that_exists(candidates: &[PathBuf]) -> Result<Option<Found>, ConfigError> {
    for file in candidates {
        let octets = match search::read(file) {
            Ok(Some(octets)) => Ok(octets),
            Ok(None) => continue,
            Err(SearchError::Unreadable(cause)) => Err(cause),
            Err(SearchError::Distrusted(why)) => {
                let file = file.clone();
                return Err(ConfigError::Distrusted { file, why });
            }
        };
        return Ok(Some((octets, file.clone(), NamedBy::Search)));
    }
    Ok(None)
}

fn decode(octets: &[u8]) -> Result<&str, Vec<Fault>> {
    std::str::from_utf8(octets).map_err(|error| {
        let before = octets.get(..error.valid_up_to()).unwrap_or_default();
        let line = 1 + before.iter().filter(|octet| **octet == b'\n').count();
        let message = "not TOML: not UTF-8".to_owned();
        vec![Fault { line, message }]
    })
}

fn parse(text: &str, file: &Path, places: &Places) -> Result<Config, Vec<Fault>> {
    let mut reader = Reader::new(text);
    let (document, errors) = DeTable::parse_recoverable(text);
    for error in &errors {
        reader.syntax(error);
    }
    let mut config = Config::builtin(places);
    config.source = Source::File(file.to_owned());
    // What the parser saved from a broken file is not judged: its faults would be the parser's guesses.
    if errors.is_empty() {
        let base = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
        let base = base.parent().unwrap_or(Path::new("/"));
        keys::apply(document.get_ref(), &mut reader, base, &mut config);
    }
    let faults = reader.into_faults();
    if faults.is_empty() {
        Ok(config)
    } else {
        Err(faults)
    }
}
