//! Decisions as rows of a table.

use super::format::{Timestamp, encoded, line};
use crawlgate_evidence::replay::Evidence;
use crawlgate_robots::Origin;
use crawlgate_store::logs::{Fault, Listed};
use crawlgate_system::clock::Moment;
use crawlgate_tlog::KeyName;

/// A decision, as a list shows it.
pub(super) struct DecisionRow {
    /// The link to its page.
    pub(super) href: String,
    /// Its identifier, if it can be ticked: this process has the decision, and it is not acknowledged.
    pub(super) open: Option<String>,
    /// The log that has it, in a list of several.
    pub(super) log: Option<String>,
    pub(super) time: Timestamp,
    /// The name of its outcome.
    pub(super) outcome: &'static str,
    pub(super) reason: String,
    /// The status and the error of the answer.
    pub(super) answer: String,
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

impl DecisionRow {
    /// Returns none for a record that is no decision, or that cannot be read.
    fn of(listed: &Listed, names: &LogNames<'_>, now: Moment) -> Option<DecisionRow> {
        let decision = &listed.entry;
        let evidence = Evidence::read(&decision.record).ok()?;
        let rule = match (&evidence.rule, &evidence.overridden) {
            (Some(rule), _) => Some(format!("{} (line {})", rule.text, rule.line)),
            (None, Some(one)) => Some(format!("override {}: {}", one.id, one.reason)),
            (None, None) => None,
        };
        let seen = decision.acknowledged.as_ref();
        let is_own = Some(&listed.log) == names.own;
        Some(DecisionRow {
            href: decision_link(&line(&evidence.id), &listed.log, names),
            open: (names.can_be_ticked && is_own && seen.is_none()).then(|| line(&evidence.id)),
            log: names.are_shown.then(|| line(listed.log.as_str())),
            time: Timestamp::at(decision.time, now),
            outcome: evidence.outcome().as_str(),
            reason: line(&evidence.reason),
            answer: line(&evidence.answer()),
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

/// The logs as rows name them.
pub(super) struct LogNames<'n> {
    /// The log of this process.
    pub(super) own: Option<&'n KeyName>,
    /// True for a column with the name of each.
    pub(super) are_shown: bool,
    /// The conditions of the list for the pages of decisions, as a query.
    pub(super) context: &'n str,
    /// True for a list in which decisions are ticked.
    pub(super) can_be_ticked: bool,
}

/// Returns the rows of a page.
pub(super) fn rows(page: &[Listed], names: &LogNames<'_>, now: Moment) -> Vec<DecisionRow> {
    let rows = page.iter().map(|one| DecisionRow::of(one, names, now));
    rows.flatten().collect()
}

/// Returns the link to the page of a decision.
fn decision_link(id: &str, log: &KeyName, names: &LogNames<'_>) -> String {
    match (Some(log) == names.own, names.context) {
        (true, "") => format!("/decisions/{id}"),
        (true, context) => format!("/decisions/{id}?{context}"),
        (false, _) => format!("/decisions/{id}?log={}", encoded(log.as_str())),
    }
}

/// A log that could not be read, in words.
pub(super) struct LogFault {
    pub(super) log: String,
    pub(super) why: String,
}

impl LogFault {
    pub(super) fn all(faults: &[Fault]) -> Vec<LogFault> {
        let faults = faults.iter().map(|fault| LogFault {
            log: line(fault.log.as_str()),
            why: line(&fault.error.to_string()),
        });
        faults.collect()
    }
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
