//! The values of columns are those of the line.

use std::collections::{HashMap, HashSet};

use serde_json::json;

use super::super::columns::value;
use super::{ask, filled};
use crate::DecisionQuery;
use crawlgate_record::{COLUMNS, Told};

/// Returns the fields of a line by the names of their columns.
fn by_column(line: &serde_json::Value) -> HashMap<String, serde_json::Value> {
    let mut all = HashMap::new();
    let object = |value: &serde_json::Value| value.as_object().cloned().unwrap_or_default();
    for (name, value) in object(line) {
        for (inner, value) in object(&value) {
            for (innermost, value) in object(&value) {
                all.insert(format!("{inner}_{innermost}"), value);
            }
            all.insert(format!("{name}_{inner}"), value);
        }
        all.insert(name, value);
    }
    let agent = line["agent"]["chain"].get(0).cloned();
    all.insert("agent".to_owned(), agent.unwrap_or(json!("*")));
    all
}

/// Returns the value of a field in SQL.
fn of_line(value: &serde_json::Value) -> serde_json::Value {
    match value {
        serde_json::Value::Bool(is_so) => json!(i64::from(*is_so)),
        list if list.is_array() || list.is_object() => json!(list.to_string()),
        // SQL has no larger integers.
        number if number.is_u64() && !number.is_i64() => json!(number.as_f64()),
        value => value.clone(),
    }
}

#[tokio::test]
async fn each_column_is_the_field_of_the_line() {
    let (_folder, path, _store) = filled().await;
    let taken =
        ask(&path, &DecisionQuery::default(), "SELECT * FROM decisions WHERE seq > 3000").unwrap();
    let at = |name: &str| taken.names.iter().position(|one| one == name).unwrap();
    for row in &taken.rows {
        let line: serde_json::Value =
            serde_json::from_str(row[at("line")].as_str().unwrap()).unwrap();
        let fields = by_column(&line);
        for column in COLUMNS.iter().filter(|column| column.name != "origin") {
            let want = of_line(fields.get(&column.name).unwrap_or(&json!(null)));
            assert_eq!(row[at(&column.name)], want, "{}: {line}", column.name);
        }
    }
}

/// The entries that are frozen with their lines hold every field there is, cut and foreign ones, too.
#[test]
fn what_an_entry_says_directly_is_what_its_line_says() {
    use rusqlite::types::Value;
    let (mut compared, mut given) = (0, HashSet::new());
    let objects = crawlgate_record::samples::golden::objects();
    for (entry, line) in crawlgate_record::samples::golden::entries() {
        let Ok(told) = Told::read(&entry, &objects) else {
            continue;
        };
        let line: serde_json::Value = serde_json::from_str(&line).unwrap();
        let fields = by_column(&line);
        for column in COLUMNS.iter().filter(|column| column.name != "origin") {
            let found = match value(&column.of(&told)) {
                Value::Null => json!(null),
                Value::Integer(number) => json!(number),
                Value::Real(number) => json!(number),
                Value::Text(text) => json!(text),
                Value::Blob(octets) => json!(octets),
            };
            if !found.is_null() {
                given.insert(&column.name);
            }
            let want = of_line(fields.get(&column.name).unwrap_or(&json!(null)));
            assert_eq!(found, want, "{}: {line}", column.name);
            compared += 1;
        }
    }
    assert!(compared > 4_000, "{compared}");
    let never = COLUMNS.iter().filter(|one| !given.contains(&one.name));
    let never: Vec<_> = never.map(|one| &*one.name).collect();
    // The one is compared with no field, the other is given by no frozen entry.
    assert_eq!(never, ["origin", "usage_let_out_by"]);
}
