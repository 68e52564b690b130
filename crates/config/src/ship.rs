//! `[ship]`: another place that has the decision log, too.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// `[ship]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShipConfig {
    /// The place; `None`: the log is in the store alone.
    pub to: Option<ShipTo>,
    /// The least time between two passes.
    pub every: Duration,
    /// The file with the token for the service; `None`: none.
    pub token_file: Option<PathBuf>,
}

/// A place for the files of a log.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ShipTo {
    /// A directory of this log alone.
    Folder(PathBuf),
    /// The URL of a service that takes files by PUT, without a slash at its end. The name of the log follows.
    Url(String),
}

impl fmt::Display for ShipTo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(path) => path.display().fmt(f),
            Self::Url(url) => f.write_str(url),
        }
    }
}
