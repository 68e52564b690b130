//! Decisions as cells, for spreadsheets.

use std::borrow::Cow;

use super::replay::Evidence;
use crawlgate_store::StoredDecision;
use crawlgate_text::json::printable;
use crawlgate_text::time_text;

/// The names of the columns of [`row`].
pub const HEADING: [&str; 24] = [
    "seq",
    "time",
    "id",
    "mode",
    "verdict",
    "reason",
    "client",
    "client_name",
    "agent",
    "user_agent",
    "method",
    "url",
    "status",
    "group",
    "rule",
    "line",
    "robots_url",
    "robots_state",
    "robots_fetched_at",
    "robots_sha256",
    "override",
    "acknowledged_at",
    "acknowledged_by",
    "note",
];

/// Returns a decision in columns; for an unreadable record, only its place.
pub fn row(decision: &StoredDecision) -> [String; HEADING.len()] {
    let Ok(evidence) = Evidence::read(&decision.record) else {
        let mut row = [const { String::new() }; HEADING.len()];
        let [seq, ..] = &mut row;
        *seq = decision.seq.to_string();
        return row;
    };
    let robots = evidence.robots.as_ref();
    let rule = evidence.rule.as_ref();
    let seen = decision.acknowledged.as_ref();
    let text = |cell: Option<&str>| cell.unwrap_or_default().to_owned();
    [
        decision.seq.to_string(),
        evidence.time.to_string(),
        evidence.id.to_string(),
        evidence.mode.to_string(),
        evidence.verdict.to_string(),
        evidence.reason.to_string(),
        evidence.client.address.to_string(),
        text(evidence.client.name.as_deref()),
        evidence.agent.chain.join(" "),
        text(evidence.user_agent.as_deref()),
        evidence.method.to_string(),
        evidence.url.to_string(),
        evidence
            .status
            .map(|status| status.to_string())
            .unwrap_or_default(),
        text(rule.map(|rule| &*rule.group)),
        text(rule.map(|rule| &*rule.text)),
        rule.map(|rule| rule.line.to_string()).unwrap_or_default(),
        text(robots.map(|robots| &*robots.url)),
        text(robots.map(|robots| &*robots.state)),
        text(robots.and_then(|robots| robots.fetched_at.as_deref())),
        text(robots.and_then(|robots| robots.sha256.as_deref())),
        text(
            evidence
                .overridden
                .as_ref()
                .map(|overridden| &*overridden.id),
        ),
        seen.map(|seen| time_text(seen.time)).unwrap_or_default(),
        text(seen.map(|seen| &*seen.by)),
        text(seen.map(|seen| &*seen.note)),
    ]
}

/// Returns rows of cells as CSV (RFC 4180), each cell harmless to a spreadsheet.
pub fn to_csv<R: IntoIterator<Item = String>>(
    rows: impl Iterator<Item = R>,
) -> Result<Vec<u8>, csv::Error> {
    to_csv_unchanged(rows.map(|row| row.into_iter().map(harmless)))
}

/// Returns rows of harmless cells as CSV.
pub fn to_csv_unchanged<R: IntoIterator<Item = String>>(
    rows: impl Iterator<Item = R>,
) -> Result<Vec<u8>, csv::Error> {
    let mut writer = csv::WriterBuilder::new()
        .terminator(csv::Terminator::CRLF)
        .from_writer(Vec::new());
    for row in rows {
        writer.write_record(row.into_iter().map(String::into_bytes))?;
    }
    writer
        .into_inner()
        .map_err(|error| error.into_error().into())
}

/// Makes a cell harmless, so that neither a spreadsheet takes it for a formula nor a terminal for orders. Crawlers and
/// sites write parts of these cells: a User-Agent of `=HYPERLINK(…)` must not become a link for the reader of the file.
pub fn harmless(cell: String) -> String {
    let is_formula = matches!(
        cell.bytes().next(),
        Some(b'=' | b'+' | b'-' | b'@' | b'\t' | b'\r')
    );
    let cell = match printable(&cell) {
        Cow::Borrowed(_) => cell,
        Cow::Owned(shown) => shown,
    };
    if is_formula {
        return format!("'{cell}");
    }
    cell
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_cell_is_a_formula() {
        let cases = [
            ("plain", "abc", "abc"),
            ("empty", "", ""),
            ("a formula", "=1+1", "'=1+1"),
            ("a sum", "+1", "'+1"),
            ("a difference", "-1", "'-1"),
            ("a function of old", "@SUM(A1)", "'@SUM(A1)"),
            ("behind a tab", "\t=1", "'\\t=1"),
            ("behind a line end", "\r=1", "'\\r=1"),
            (
                "what drives a terminal",
                "a\u{1b}[2J\u{9b}1m",
                "a\\u{1b}[2J\\u{9b}1m",
            ),
            ("what ends a line", "a\nb", "a\\nb"),
            ("what turns text around", "a\u{202e}b", "a\\u{202e}b"),
            ("inside", "a=1", "a=1"),
        ];
        for (name, cell, want) in cases {
            assert_eq!(harmless(cell.to_owned()), want, "{name}");
        }
    }
}
