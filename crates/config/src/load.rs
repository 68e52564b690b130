//! The choice of the configuration file, and the errors in it.

use std::{
    ffi::OsString,
    fmt, fs, io,
    path::{Path, PathBuf},
};

use toml::de::DeTable;

use super::{
    apply::apply,
    config::{Config, Source},
    environment::{Variables, merge},
    places::Places,
    read::{Fault, Reader},
    search::{self, Distrust, SearchError},
};

/// The environment variable that names the file if no option does.
pub(super) const VARIABLE: &str = "CRAWLGATE_CONFIG";

/// The reason why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    Unreadable {
        /// The file, as it was named.
        file: PathBuf,
        /// The source of the file's name.
        named_by: NamedBy,
        /// The system's error.
        #[source]
        cause: io::Error,
    },
    /// The file or the environment has values that are not allowed.
    Invalid {
        /// The file, as it was named; empty without a file.
        file: PathBuf,
        /// The source of the file's name.
        named_by: NamedBy,
        /// All faults, those of the file in its order, then those of variables; never empty.
        faults: Vec<Fault>,
    },
    /// No option names the file, and another user may have written it.
    Distrusted {
        /// The file.
        file: PathBuf,
        /// The reason for distrust.
        #[source]
        why: Distrust,
    },
}

/// The source of a configuration file's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamedBy {
    /// The caller: `--config`.
    Caller,
    /// The environment: `$CRAWLGATE_CONFIG`.
    Environment,
    /// The search in the usual directories.
    Search,
}

impl fmt::Display for ConfigError {
    /// Writes one line for each fault, each with the name of the file or of the variable, and one more if the file was found by search and may
    /// belong to another program.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (file, named_by) = match self {
            Self::Unreadable { file, named_by, cause } => {
                write!(f, "{}: cannot be read: {cause}", file.display())?;
                (file, named_by)
            }
            Self::Invalid { file, named_by, faults } => {
                for (count, fault) in faults.iter().enumerate() {
                    let end_of_last = if count == 0 { "" } else { "\n" };
                    match fault.variable {
                        None => write!(f, "{end_of_last}{}:{fault}", file.display())?,
                        Some(_) => write!(f, "{end_of_last}{fault}")?,
                    }
                }
                if faults.iter().all(|fault| fault.variable.is_some()) {
                    return Ok(());
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

impl Config {
    /// Reads the configuration in force: of the file `explicit` (`--config`), of the file that `$CRAWLGATE_CONFIG`
    /// names, of the first that exists of `./crawlgate.toml`, `$XDG_CONFIG_HOME/crawlgate/config.toml` and
    /// `/etc/crawlgate/config.toml`, else the defaults; and of the environment's [`Variables`], which come last.
    ///
    /// # Errors
    /// When a named file is missing; when a file cannot be read or has a value that is not allowed; when another user
    /// may have written a file that was found by search.
    pub fn load(explicit: Option<&Path>) -> Result<Self, ConfigError> {
        Self::load_with(explicit, &Variables::from_env())
    }

    /// Reads the configuration in force with these variables, which may hold options of the command line.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn load_with(explicit: Option<&Path>, variables: &Variables) -> Result<Self, ConfigError> {
        let variable = std::env::var_os(VARIABLE);
        let places = Places::from_env();
        let candidates = places.configurations();
        Self::find(explicit, variable, &candidates, &places, variables)
    }

    /// Returns the file that `explicit` or `$CRAWLGATE_CONFIG` names, for a command that searches for none.
    #[must_use]
    pub fn named_file(explicit: Option<&Path>) -> Option<PathBuf> {
        named(explicit, std::env::var_os(VARIABLE)).map(|(file, _)| file)
    }

    /// Reads the configuration in `text`, the contents of `file`. The file itself is not read; relative paths start at
    /// its directory.
    ///
    /// # Errors
    /// When the text is not TOML or has a value that is not allowed; the error lists all faults.
    pub fn parse(text: &str, file: &Path) -> Result<Self, ConfigError> {
        Self::parse_with(text, file, &Variables::default())
    }

    /// Reads the configuration in `text`, the contents of `file`, and in variables of the environment.
    ///
    /// # Errors
    /// As [`Config::parse`].
    pub fn parse_with(text: &str, file: &Path, variables: &Variables) -> Result<Self, ConfigError> {
        parse(text, file, &Places::from_env(), variables).map_err(|faults| ConfigError::Invalid {
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
        variables: &Variables,
    ) -> Result<Self, ConfigError> {
        let found = match named(explicit, variable) {
            Some((file, named_by)) => Some((fs::read(&file), file, named_by)),
            None => first_that_exists(candidates)?,
        };
        let Some((octets, file, named_by)) = found else {
            let parsed = parse("", Path::new(""), places, variables);
            return parsed.map_err(|faults| ConfigError::Invalid {
                file: PathBuf::new(),
                named_by: NamedBy::Search,
                faults,
            });
        };
        let octets = match octets {
            Ok(octets) => octets,
            Err(cause) => {
                return Err(ConfigError::Unreadable { file, named_by, cause });
            }
        };
        match decode(&octets).and_then(|text| parse(text, &file, places, variables)) {
            Ok(mut config) => {
                if named_by == NamedBy::Search && file.is_relative() {
                    config.source = Source::Nearby(file);
                }
                Ok(config)
            }
            Err(faults) => Err(ConfigError::Invalid { file, named_by, faults }),
        }
    }
}

/// Returns the file that an option or else the environment names. An empty variable names none.
fn named(explicit: Option<&Path>, variable: Option<OsString>) -> Option<(PathBuf, NamedBy)> {
    match (explicit, variable.filter(|value| !value.is_empty())) {
        (Some(file), _) => Some((file.to_owned(), NamedBy::Caller)),
        (None, Some(file)) => Some((file.into(), NamedBy::Environment)),
        (None, None) => None,
    }
}

/// The content of a file, the file, and the source of its name.
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
        vec![Fault::new(line, message)]
    })
}

fn parse(
    file_text: &str,
    file: &Path,
    places: &Places,
    variables: &Variables,
) -> Result<Config, Vec<Fault>> {
    // The variables are further lines of the same text, so that a fault finds the place of a value in either.
    let text = format!("{file_text}\n{}", variables.lines());
    let lines = 1 + file_text.matches('\n').count();
    let mut reader = Reader::new(&text);
    let (mut document, mut errors) = DeTable::parse_recoverable(file_text);
    let own = " ".repeat(file_text.len()) + text.get(file_text.len()..).unwrap_or_default();
    let (set, more) = DeTable::parse_recoverable(&own);
    errors.extend(more);
    merge(document.get_mut(), set.into_inner());
    for error in &errors {
        reader.syntax(error);
    }
    let mut config = Config::builtin(places);
    config.source =
        if file.as_os_str().is_empty() { Source::BuiltIn } else { Source::File(file.to_owned()) };
    // After a syntax error the parser returns a partial document: its faults would be guesses.
    if errors.is_empty() {
        let named = match config.source {
            // Without a file, paths of variables start where one would be found first.
            Source::BuiltIn => Path::new("crawlgate.toml"),
            _ => file,
        };
        let base = std::path::absolute(named).unwrap_or_else(|_| named.to_owned());
        let base = base.parent().unwrap_or(Path::new("/"));
        apply(document.get_ref(), &mut reader, base, &mut config);
    }
    let mut faults = reader.into_faults();
    for fault in &mut faults {
        let number = fault.line.checked_sub(lines + 1);
        fault.variable = number.and_then(|number| variables.names().nth(number).map(str::to_owned));
    }
    if faults.is_empty() { Ok(config) } else { Err(faults) }
}
