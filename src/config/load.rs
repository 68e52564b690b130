//! Which file is read, and what is said when it is wrong.

use std::{
    ffi::OsString,
    fmt, fs, io,
    path::{Path, PathBuf},
};

use toml::de::DeTable;

use super::{Config, Fault, Places, Source, keys, read::Reader};

/// Names the file where no option does.
const VARIABLE: &str = "CRAWLGATE_CONFIG";

/// The file that is read where nothing names one, if it exists in the working directory.
const FILE: &str = "config.toml";

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
}

/// Who named a configuration file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamedBy {
    /// The caller: `--config`.
    Caller,
    /// The environment: `$CRAWLGATE_CONFIG`.
    Environment,
    /// Nobody: it was found in the working directory.
    Nobody,
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
        };
        match named_by {
            NamedBy::Caller => Ok(()),
            NamedBy::Environment => write!(f, "\n({VARIABLE} names {})", file.display()),
            NamedBy::Nobody => write!(
                f,
                "\n({FILE} was found in the working directory; --config FILE or {VARIABLE} name another)"
            ),
        }
    }
}

impl std::error::Error for ConfigError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unreadable { cause, .. } => Some(cause),
            Self::Invalid { .. } => None,
        }
    }
}

impl Config {
    /// The configuration in force: of the file `explicit` (`--config`), of the file that `$CRAWLGATE_CONFIG` names, of
    /// `./config.toml` if there is one, else the defaults.
    ///
    /// # Errors
    /// When a file that was named cannot be read, or the file says something that is not allowed. A file that was named
    /// and is missing is an error; only `./config.toml` may be missing.
    pub fn load(explicit: Option<&Path>) -> Result<Self, ConfigError> {
        let variable = std::env::var_os(VARIABLE);
        Self::find(explicit, variable, Path::new(FILE), &Places::from_env())
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
        nearby: &Path,
        places: &Places,
    ) -> Result<Self, ConfigError> {
        let variable = variable
            .filter(|value| !value.is_empty())
            .map(PathBuf::from);
        let (file, named_by) = match (explicit, variable) {
            (Some(file), _) => (file.to_owned(), NamedBy::Caller),
            (None, Some(file)) => (file, NamedBy::Environment),
            (None, None) => (nearby.to_owned(), NamedBy::Nobody),
        };
        let octets = match fs::read(&file) {
            Ok(octets) => octets,
            Err(cause)
                if named_by == NamedBy::Nobody && cause.kind() == io::ErrorKind::NotFound =>
            {
                return Ok(Self::builtin(places));
            }
            Err(cause) => {
                return Err(ConfigError::Unreadable {
                    file,
                    named_by,
                    cause,
                });
            }
        };
        match decode(&octets).and_then(|text| parse(text, &file, places)) {
            Ok(config) => Ok(config),
            Err(faults) => Err(ConfigError::Invalid {
                file,
                named_by,
                faults,
            }),
        }
    }
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
