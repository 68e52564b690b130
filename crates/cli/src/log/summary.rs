//! Counts of decisions.

use super::{Format, Key};
use crate::Failure;
use crate::terminal;
use crawlgate_evidence::csv::to_csv;
use crawlgate_store::GroupCount;
use crawlgate_text::json::Object;
use crawlgate_text::time_text;

/// Octets of one text in JSON: more than any stored one.
const MAX_TEXT: usize = 64 * 1024;

/// Returns the counts in this format.
pub(super) fn text(tallies: &[GroupCount], key: Key, format: Format) -> Result<Vec<u8>, Failure> {
    let names: &[&str] = match key {
        Key::Origin => &["origin"],
        Key::Reason => &["reason"],
        Key::Rule => &["origin", "rule"],
    };
    match format {
        Format::Table => Ok(table(tallies, names).into_bytes()),
        Format::Jsonl | Format::Sqlite => {
            Ok(tallies.iter().flat_map(|tally| line(tally, names)).collect())
        }
        Format::Csv => {
            let heading = ["count", "first", "last"].iter().chain(names);
            let heading: Vec<String> = heading.map(|name| (*name).to_owned()).collect();
            let rows = tallies.iter().map(|tally| {
                let [first, last] = [tally.first, tally.last].map(time_text);
                [vec![tally.count.to_string(), first, last], tally.key.clone()].concat()
            });
            to_csv([heading].into_iter().chain(rows)).map_err(Into::into)
        }
    }
}

fn table(tallies: &[GroupCount], names: &[&str]) -> String {
    let seconds = |moment| time_text(moment).get(..19).unwrap_or_default().replace('T', " ");
    let rows = tallies.iter().map(|tally| {
        let key = tally.key.iter().map(|part| match part.as_str() {
            "" => "-",
            part => part,
        });
        [
            format!("{:>12}", tally.count),
            seconds(tally.first),
            seconds(tally.last),
            key.collect::<Vec<_>>().join("  "),
        ]
    });
    let names = names.join(" and ").to_uppercase();
    let heading = ["       COUNT", "FIRST              ", "LAST               ", &names];
    terminal::table(heading, rows, None)
}

fn line(tally: &GroupCount, names: &[&str]) -> Vec<u8> {
    let mut line = Vec::new();
    let mut object = Object::open(&mut line);
    for (name, part) in names.iter().zip(&tally.key) {
        // Without a deciding rule, the cell is empty.
        let part = Some(part.as_bytes()).filter(|part| !part.is_empty());
        object.text_or_null(name, part, MAX_TEXT);
    }
    object.number("count", tally.count);
    object.plain("first", time_text(tally.first).as_bytes());
    object.plain("last", time_text(tally.last).as_bytes());
    object.close();
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crawlgate_system::clock::Moment;

    #[test]
    fn a_line_begins_with_its_key() {
        let tally = |rule: &str| GroupCount {
            key: vec!["https://a.example".to_owned(), rule.to_owned()],
            count: 3,
            first: Moment::from_millis(1_795_176_000_123),
            last: Moment::from_millis(1_795_176_000_124),
        };
        for (name, rule, want) in [
            ("a rule", "Disallow: /a", "\"Disallow: /a\""),
            ("no rule", "", "null"),
            (
                "a rule that would drive a terminal",
                "Disallow: /\u{9b}1m",
                "\"Disallow: /\\u009b1m\"",
            ),
        ] {
            let lines = text(&[tally(rule)], Key::Rule, Format::Jsonl).unwrap();
            let want = format!(
                "{{\"origin\":\"https://a.example\",\"rule\":{want},\"count\":3,\
                 \"first\":\"2026-11-20T12:00:00.123Z\",\"last\":\"2026-11-20T12:00:00.124Z\"}}\n"
            );
            assert_eq!(String::from_utf8(lines).unwrap(), want, "{name}");
        }
    }
}
