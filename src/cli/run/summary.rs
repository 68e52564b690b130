//! The summary of a run as JSON: `crawlgate run --summary`. One line, so that it can be found after what the command has
//! printed.

use std::fmt;
use std::io::{self, Write as _};
use std::path::Path;

use serde::Serialize;

use crate::audit::Facts;
use crate::whole_file::NewFile;

/// The name and the version of the format.
const FORMAT: &str = "crawlgate-run@1";

/// The word for standard error.
const JSON: &str = "json";

/// The place that takes the summary.
pub(super) enum Output {
    Stderr,
    /// A file that comes into its place at the end of the run.
    File(NewFile),
}

/// The exemption of a client. No run takes one.
#[derive(Serialize)]
pub(super) struct Exemption {
    pub(super) client: String,
    /// The operator's reason.
    pub(super) reason: String,
}

impl fmt::Display for Exemption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { client, reason } = self;
        write!(
            f,
            "no exemption: the configuration exempts {client} ({reason}), and a run does not: every process of this machine \
             may reach its proxy"
        )
    }
}

#[derive(Serialize)]
struct Document<'a> {
    format: &'static str,
    exit_code: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    exemption_not_taken: Option<&'a Exemption>,
    #[serde(flatten)]
    facts: &'a Facts,
}

impl Output {
    /// Refuses a place that cannot be written before the command starts.
    pub(super) fn of(place: Option<&Path>) -> Result<Option<Self>, String> {
        let Some(place) = place else {
            return Ok(None);
        };
        if place == Path::new(JSON) {
            return Ok(Some(Self::Stderr));
        }
        let shown = place.display();
        let file = NewFile::beside(place);
        let file = file.map_err(|error| format!("--summary {shown}: {error}"))?;
        Ok(Some(Self::File(file)))
    }

    /// Writes the summary of a run that ends with this exit code.
    pub(super) fn write(
        self,
        exit_code: u8,
        exemption_not_taken: Option<&Exemption>,
        facts: &Facts,
    ) -> Result<(), String> {
        let document = Document {
            format: FORMAT,
            exit_code,
            exemption_not_taken,
            facts,
        };
        let line = serde_json::to_string(&document).map_err(|error| error.to_string())?;
        let line = line + "\n";
        match self {
            Self::Stderr => {
                let _ = io::stderr().write_all(line.as_bytes()); // stderr may be closed
                Ok(())
            }
            Self::File(mut file) => {
                let shown = file.place().display().to_string();
                let written = file.write(line.as_bytes()).and_then(|()| file.replace());
                written.map_err(|error| format!("--summary {shown}: {error}"))
            }
        }
    }
}
