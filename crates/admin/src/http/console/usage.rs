//! The statements of a site about the use of a page, as a table.

use super::format::{Fact, line};
use crawlgate_gate::explain::Judgement;
use crawlgate_gate::explain::usage::Usage;
use crawlgate_record::File;
use crawlgate_text::hex;
use crawlgate_usage::record::UsageRecord;

/// The table, with the facts above it.
pub(super) struct UsageTable {
    pub(super) facts: Vec<Fact>,
    pub(super) rows: Vec<Row>,
    /// True if the record has less than was said.
    pub(super) is_cut: bool,
}

/// One statement.
pub(super) struct Row {
    /// The category and its value, or the reason why the statement was not used.
    pub(super) said: String,
    pub(super) signal: String,
    pub(super) place: String,
    pub(super) text: String,
}

impl UsageTable {
    /// Returns the table of a judgement; `None` where nothing is said.
    pub(super) fn of_judged(judged: &Judgement) -> Option<UsageTable> {
        let record = judged.usage.as_ref().and_then(Usage::record);
        record.map(|record| UsageTable::of(&record, None))
    }

    /// Returns the table of a record, with the state of the origin's tdmrep.json if it was asked.
    pub(super) fn of(usage: &UsageRecord<'_>, tdmrep: Option<&File<'_>>) -> UsageTable {
        let fact = |name, text: String| Fact { name, text, when: None };
        let mut facts = Vec::new();
        if !usage.purposes.is_empty() {
            facts.push(fact("Declared purposes", usage.purposes.to_string()));
        }
        if !usage.refused.is_empty() {
            facts.push(fact("Refused", usage.refused.to_string()));
        }
        for license in &usage.licenses {
            facts.push(fact("Licence", line(license)));
        }
        if let Some(status) = usage.received_status {
            facts.push(fact("The origin answered", status.to_string()));
        }
        if let Some(file) = tdmrep {
            let sha256 = file.sha256.map(|sha256| format!(", SHA-256 {}", hex(sha256)));
            let sha256 = sha256.unwrap_or_default();
            facts.push(fact(
                "tdmrep.json",
                line(&format!("{}: {}{sha256}", file.url(), file.state)),
            ));
        }
        let preferences = usage.preferences.iter().map(|one| Row {
            said: format!("{}: {}", one.category, one.value),
            signal: line(&one.signal),
            place: line(&one.place.to_string()),
            text: line(&one.text),
        });
        let invalid = usage.invalid.iter().map(|one| Row {
            said: format!("not used: {}", one.why),
            signal: line(&one.signal),
            place: line(&one.place.to_string()),
            text: String::new(),
        });
        UsageTable { facts, rows: preferences.chain(invalid).collect(), is_cut: usage.cut }
    }
}
