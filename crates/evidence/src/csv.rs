//! Decisions as cells, for spreadsheets.

use std::borrow::Cow;

use crawlgate_store::StoredDecision;
use crawlgate_text::json::printable;
use crawlgate_text::time_text;

/// The names of the cells of [`row`], and the columns of the values between `seq` and the acknowledgement.
const CELLS: [(&str, &str); 20] = [
    ("time", "time"),
    ("id", "id"),
    ("mode", "mode"),
    ("verdict", "verdict"),
    ("reason", "reason"),
    ("client", "client_address"),
    ("client_name", "client_name"),
    ("agent", "agent_chain"),
    ("user_agent", "user_agent"),
    ("method", "method"),
    ("url", "url"),
    ("status", "status"),
    ("group", "rule_group"),
    ("rule", "rule_text"),
    ("line", "rule_line"),
    ("robots_url", "robots_url"),
    ("robots_state", "robots_state"),
    ("robots_fetched_at", "robots_fetched_at"),
    ("robots_sha256", "robots_sha256"),
    ("override", "override_id"),
];

/// Returns the names of the cells of [`row`].
pub fn heading() -> impl Iterator<Item = &'static str> {
    let cells = CELLS.iter().map(|(name, _)| *name);
    let seen = ["acknowledged_at", "acknowledged_by", "note"];
    ["seq"].into_iter().chain(cells).chain(seen)
}

/// Returns the cells of a decision; for an unreadable record, only its place.
pub fn row(decision: &StoredDecision) -> Vec<String> {
    let mut row = vec![decision.seq.to_string()];
    let Ok(one) = decision.told() else {
        row.resize(heading().count(), String::new());
        return row;
    };
    row.extend(CELLS.map(|(_, column)| one.cell(column).text().into_owned()));
    let seen = decision.acknowledged.as_ref();
    row.extend([
        seen.map(|seen| time_text(seen.time)).unwrap_or_default(),
        seen.map(|seen| seen.by.clone()).unwrap_or_default(),
        seen.map(|seen| seen.note.clone()).unwrap_or_default(),
    ]);
    row
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
    let mut writer =
        csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(Vec::new());
    for row in rows {
        writer.write_record(row.into_iter().map(String::into_bytes))?;
    }
    writer.into_inner().map_err(|error| error.into_error().into())
}

/// Makes a cell harmless, so that neither a spreadsheet takes it for a formula nor a terminal for orders. Crawlers and
/// sites write parts of these cells: a User-Agent of `=HYPERLINK(…)` must not become a link for the reader of the file.
pub fn harmless(cell: String) -> String {
    let is_formula = matches!(cell.bytes().next(), Some(b'=' | b'+' | b'-' | b'@' | b'\t' | b'\r'));
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
            ("what drives a terminal", "a\u{1b}[2J\u{9b}1m", "a\\u{1b}[2J\\u{9b}1m"),
            ("what ends a line", "a\nb", "a\\nb"),
            ("what turns text around", "a\u{202e}b", "a\\u{202e}b"),
            ("inside", "a=1", "a=1"),
        ];
        for (name, cell, want) in cases {
            assert_eq!(harmless(cell.to_owned()), want, "{name}");
        }
    }
}
