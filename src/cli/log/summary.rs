//! Decisions counted.

use super::sheet::cells;
use super::{Format, Key};
use crate::audit::time_text;
use crate::cli::screen::printable;
use crate::store::Tally;

/// The counts in this format.
pub(super) fn text(tallies: &[Tally], key: Key, format: Format) -> Result<Vec<u8>, String> {
    let names: &[&str] = match key {
        Key::Origin => &["origin"],
        Key::Reason => &["reason"],
        Key::Rule => &["origin", "rule"],
    };
    match format {
        Format::Table => Ok(table(tallies, names).into_bytes()),
        Format::Jsonl => Ok(tallies
            .iter()
            .map(|tally| line(tally, names))
            .collect::<String>()
            .into_bytes()),
        Format::Csv => {
            let heading = ["count", "first", "last"].iter().chain(names);
            let heading: Vec<String> = heading.map(|name| (*name).to_owned()).collect();
            let rows = tallies.iter().map(|tally| {
                let [first, last] = [tally.first, tally.last].map(time_text);
                [
                    vec![tally.count.to_string(), first, last],
                    tally.key.clone(),
                ]
                .concat()
            });
            cells([heading].into_iter().chain(rows))
        }
    }
}

fn table(tallies: &[Tally], names: &[&str]) -> String {
    let seconds = |moment| {
        time_text(moment)
            .get(..19)
            .unwrap_or_default()
            .replace('T', " ")
    };
    let key = |key: &[String]| {
        let parts = key.iter().map(|part| match part.as_str() {
            "" => "-".into(),
            part => printable(part),
        });
        parts.collect::<Vec<_>>().join("  ")
    };
    let mut text = format!(
        "{:>12}  {:19}  {:19}  {}\n",
        "COUNT",
        "FIRST",
        "LAST",
        names.join(" and ").to_uppercase()
    );
    for tally in tallies {
        text.push_str(&format!(
            "{:>12}  {}  {}  {}\n",
            tally.count,
            seconds(tally.first),
            seconds(tally.last),
            key(&tally.key)
        ));
    }
    text
}

fn line(tally: &Tally, names: &[&str]) -> String {
    let mut line = serde_json::Map::new();
    for (name, part) in names.iter().zip(&tally.key) {
        line.insert((*name).to_owned(), part.as_str().into());
    }
    line.insert("count".to_owned(), tally.count.into());
    line.insert("first".to_owned(), time_text(tally.first).into());
    line.insert("last".to_owned(), time_text(tally.last).into());
    format!("{}\n", serde_json::Value::Object(line))
}
