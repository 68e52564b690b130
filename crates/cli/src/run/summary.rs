//! The summary of a run as JSON: `crawlgate run --summary`. One line, so that it can be found after what the command has
//! printed.

use std::fmt;
use std::path::Path;

use serde::Serialize;

use crate::{Failure, terminal};
use crawlgate_evidence::Facts;
use crawlgate_gate::explain::states::ago;
use crawlgate_proxy::Proxy;
use crawlgate_robots::Origin;
use crawlgate_system::atomic_file::NewFile;
use crawlgate_system::clock::Moment;
use crawlgate_text::time_text;

/// The name and the version of the format.
pub(super) const FORMAT: &str = "crawlgate-run@1";

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

/// The robots.txt that requests of the run were judged by and that were fetched before it. The oldest comes first.
#[derive(Serialize)]
#[serde(transparent)]
pub(super) struct OlderRobots(Vec<OlderFile>);

#[derive(Serialize)]
struct OlderFile {
    origin: String,
    /// The moment of the fetch.
    fetched: String,
    /// Its age at the end of the run.
    age_seconds: u64,
    #[serde(skip)]
    ago: String,
}

/// Origins in the text.
const SHOWN: usize = 5;

impl OlderRobots {
    /// Returns those of a run that `began` then.
    pub(super) fn of(proxy: &Proxy, began: Moment) -> Self {
        let now = proxy.clock().now();
        let older = proxy.gate().robots_cache().judged_by_older(began);
        let file = |(origin, fetched): (Origin, Moment)| OlderFile {
            origin: origin.to_string(),
            fetched: time_text(fetched),
            age_seconds: now.since(fetched).as_secs(),
            ago: ago(fetched, now),
        };
        Self(older.into_iter().map(file).collect())
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Lines for people, each with a line feed before it.
impl fmt::Display for OlderRobots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return Ok(());
        }
        f.write_str("\njudged by a robots.txt older than the run (--fresh asks for each anew)")?;
        for file in self.0.iter().take(SHOWN) {
            write!(f, "\n{:>10}  {}", file.ago, file.origin)?;
        }
        if let Some(more @ 1..) = self.0.len().checked_sub(SHOWN) {
            write!(f, "\n            and {more} more")?;
        }
        Ok(())
    }
}

/// The summary of a run.
#[derive(Serialize)]
pub(super) struct OfRun<'a> {
    pub(super) format: &'static str,
    pub(super) exit_code: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) exemption_not_taken: Option<&'a Exemption>,
    #[serde(skip_serializing_if = "OlderRobots::is_empty")]
    pub(super) older_robots: &'a OlderRobots,
    /// Refusals that were counted without a record of their own.
    pub(super) refused_without_record: u64,
    #[serde(flatten)]
    pub(super) facts: &'a Facts,
}

impl Output {
    /// Refuses a place that cannot be written before the command starts.
    pub(super) fn of(place: Option<&Path>) -> Result<Option<Self>, Failure> {
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

    /// Writes the summary.
    pub(super) fn write(self, run: &OfRun<'_>) -> Result<(), Failure> {
        let line = serde_json::to_string(run)? + "\n";
        match self {
            Self::Stderr => {
                terminal::say(line.trim_end());
                Ok(())
            }
            Self::File(mut file) => {
                let shown = file.place().display().to_string();
                let written = file.write(line.as_bytes()).and_then(|()| file.replace());
                Ok(written.map_err(|error| format!("--summary {shown}: {error}"))?)
            }
        }
    }
}
