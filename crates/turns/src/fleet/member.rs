//! The report that each instance gives of itself to the others.

use std::collections::BTreeMap;
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};

use super::FleetKey;
use super::coordinator::{MemberRow, Observed};
use crawlgate_config::Config;
use crawlgate_text::hex;

/// The sections of the configuration that all instances should have alike.
const ALIKE: [&str; 6] = ["agent", "client", "pace", "policy", "robots", "signals"];

/// The part of one of them that depends on the machine.
const OWN: &str = "robots.cache.";

/// Octets of a digest that are told.
const SHOWN: usize = 4;

/// The digests of a configuration, by section.
pub type Digests = BTreeMap<String, String>;

/// A member of the fleet, as it reports itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// Its report; `None` if this version cannot read it.
    pub report: Option<Report>,
    /// The time since its last heartbeat.
    pub silent: Duration,
}

/// The report of a member.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Report {
    /// The version of its program.
    pub version: String,
    /// Tells its process from others of its name; empty from older programs.
    pub process: String,
    /// Names its key.
    pub key: String,
    /// The state of its link when it sent the heartbeat.
    pub link: String,
    /// The change of the overrides that it has in force.
    pub overrides: u64,
    /// The moment of its start by its clock, in milliseconds since the epoch; 0 from older programs.
    pub since: u64,
    /// The digests of its settings; none from older programs.
    pub settings: Digests,
}

impl From<MemberRow> for Member {
    fn from(row: MemberRow) -> Member {
        Member {
            report: serde_json::from_str(&row.report).ok(),
            name: row.name,
            silent: row.silent,
        }
    }
}

/// Returns the names of the members that have another key.
#[must_use]
pub fn with_another_key(observed: &Observed, key: &FleetKey) -> Vec<String> {
    let name = key.name();
    let members = observed.members.iter().cloned().map(Member::from);
    let differing = members.filter(|one| {
        let report = one.report.as_ref();
        report.is_some_and(|report| !report.key.is_empty() && report.key != name)
    });
    differing.map(|one| one.name).collect()
}

impl Report {
    /// Returns the report as text.
    pub(super) fn to_text(&self) -> String {
        // A struct of texts and numbers is always written.
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// Returns the digests of the settings that all instances should have alike.
#[must_use]
pub fn digests(config: &Config) -> Digests {
    let mut texts: BTreeMap<&str, String> = BTreeMap::new();
    for entry in config.entries() {
        let section = entry.key.split('.').next().unwrap_or_default();
        if ALIKE.contains(&section) && !entry.key.starts_with(OWN) {
            let text = texts.entry(section).or_default();
            *text += &format!("{} = {}\n", entry.key, entry.value);
        }
    }
    let short = |text: &str| {
        let whole = digest(&SHA256, text.as_bytes());
        hex(whole.as_ref().get(..SHOWN).unwrap_or_default())
    };
    let digests = texts.into_iter().map(|(section, text)| (section.to_owned(), short(&text)));
    digests.collect()
}
