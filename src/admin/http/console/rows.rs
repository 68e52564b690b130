//! Decisions as rows of a table.

use super::words::{When, line};
use crate::audit::replay::Evidence;
use crate::clock::Moment;
use crate::rep::Origin;
use crate::store::StoredDecision;

/// A decision, as a list shows it.
pub(super) struct Row {
    pub(super) id: String,
    pub(super) time: When,
    pub(super) verdict: String,
    pub(super) reason: String,
    /// True if the decision was only reported and denied nothing.
    pub(super) is_report: bool,
    pub(super) method: String,
    pub(super) url: String,
    pub(super) agent: String,
    pub(super) client: String,
    /// The rule and its line, or the override.
    pub(super) rule: Option<String>,
    /// The person who has seen it, and the note.
    pub(super) seen: Option<String>,
}

impl Row {
    /// Returns none for a record that is no decision, or that cannot be read.
    pub(super) fn of(decision: &StoredDecision, now: Moment) -> Option<Row> {
        let evidence = Evidence::read(&decision.record).ok()?;
        let rule = match (&evidence.rule, &evidence.overridden) {
            (Some(rule), _) => Some(format!("{} (line {})", rule.text, rule.line)),
            (None, Some(one)) => Some(format!("override {}: {}", one.id, one.reason)),
            (None, None) => None,
        };
        let seen = decision.acknowledged.as_ref();
        Some(Row {
            id: line(&evidence.id),
            time: When::at(decision.time, now),
            verdict: line(&evidence.verdict),
            reason: line(&evidence.reason),
            is_report: evidence.mode == "report" && evidence.verdict != "allow",
            method: line(&evidence.method),
            url: line(&evidence.url),
            agent: agent_of(&evidence),
            client: client_of(&evidence),
            rule: rule.map(|rule| line(&rule)),
            seen: seen.map(|seen| line(&format!("{}: {}", seen.by, seen.note))),
        })
    }
}

/// Returns the rows of a page.
pub(super) fn rows(page: &[StoredDecision], now: Moment) -> Vec<Row> {
    page.iter().filter_map(|one| Row::of(one, now)).collect()
}

/// Returns the origin of the decision.
pub(super) fn origin_of(evidence: &Evidence<'_>) -> Option<Origin> {
    let url = format!("{}://{}:{}", evidence.scheme, evidence.host, evidence.port);
    Origin::parse(&url).ok().map(|(origin, _)| origin)
}

/// Returns the first token that the crawler was judged by.
fn agent_of(evidence: &Evidence<'_>) -> String {
    match evidence.agent.chain.first() {
        Some(token) => line(token),
        None => "*".to_owned(),
    }
}

/// Returns the client's name, or else its address without the port.
pub(super) fn client_of(evidence: &Evidence<'_>) -> String {
    match &evidence.client.name {
        Some(name) => line(name),
        None => {
            let address = &*evidence.client.address;
            let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
            line(host.trim_start_matches('[').trim_end_matches(']'))
        }
    }
}
