//! Decisions as rows of a table.

use super::format::{Timestamp, encoded, line};
use crawlgate_evidence::words::answer;
use crawlgate_record::{Mode, Told, Verdict, token_texts};
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
        let one = decision.told().ok()?;
        let id = one.id_text();
        let rule = match (one.rule, one.overridden) {
            (Some(rule), _) => Some(format!("{} (line {})", rule.text, rule.line)),
            (None, Some(one)) => Some(format!("override {}: {}", one.id, one.reason)),
            (None, None) => None,
        };
        let seen = decision.acknowledged.as_ref();
        let is_own = Some(&listed.log) == names.own;
        Some(DecisionRow {
            href: decision_link(&id, &listed.log, names),
            open: (names.can_be_ticked && is_own && seen.is_none()).then(|| id.clone()),
            log: names.are_shown.then(|| line(listed.log.as_str())),
            time: Timestamp::at(decision.time, now),
            outcome: one.outcome().as_str(),
            reason: line(one.reason),
            answer: line(&answer(&one)),
            is_report: one.mode == Mode::Report && one.verdict != Verdict::Allow,
            method: line(&one.method.to_string()),
            url: line(&one.url_text()),
            agent: agent_of(&one),
            client: client_of(&one),
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

/// Returns the first token that the crawler was judged by.
fn agent_of(one: &Told<'_>) -> String {
    match token_texts(&one.chain).first() {
        Some(token) => line(token),
        None => "*".to_owned(),
    }
}

/// Returns the client's name, or else its address without the port.
fn client_of(one: &Told<'_>) -> String {
    match one.client_name {
        Some(name) => line(&name.to_string()),
        None => one.client.ip().to_string(),
    }
}
