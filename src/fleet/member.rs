//! The report that each instance gives of itself to the others.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::coordinator::MemberRow;

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
    /// The state of its link when it sent the heartbeat.
    pub link: String,
    /// The change of the overrides that it has in force.
    pub overrides: u64,
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

impl Report {
    /// Returns the report as text.
    pub(super) fn to_text(&self) -> String {
        // A struct of texts and numbers is always written.
        serde_json::to_string(self).unwrap_or_default()
    }
}
