//! The columns of the views: those of a decision, a person's acknowledgement, and the line.

use rusqlite::types::Value;

use crawlgate_record::{COLUMNS, Cell, token_texts};

/// The columns behind those of a decision: their names, and the columns of the table of acknowledgements; `None` for the
/// line.
pub(crate) const BESIDE: [(&str, Option<&str>); 4] = [
    ("acknowledged_at", Some("time")),
    ("acknowledged_by", Some("person")),
    ("acknowledged_note", Some("note")),
    ("line", None),
];

/// Returns the names of all columns after `seq`, the number of the record, and their types.
pub(crate) fn columns() -> impl Iterator<Item = (&'static str, &'static str)> {
    let of_decision = COLUMNS.iter().map(|column| (&*column.name, column.kind));
    of_decision.chain(BESIDE.map(|(name, _)| (name, "TEXT")))
}

/// Returns the value of a cell. Lists and objects are JSON.
pub(crate) fn value(cell: &Cell<'_>) -> Value {
    match cell {
        Cell::Absent | Cell::Null => Value::Null,
        Cell::Number(number) => match i64::try_from(*number) {
            Ok(number) => Value::Integer(number),
            Err(_) => Value::Real(*number as f64),
        },
        Cell::Micros(micros) => Value::Real(*micros as f64 / 1_000.0),
        Cell::Flag(is_so) => Value::Integer((*is_so).into()),
        Cell::List(texts) => Value::Text(serde_json::Value::from(token_texts(texts)).to_string()),
        Cell::Member(object, name) => member(object, name),
        cell => Value::Text(cell.text().into_owned()),
    }
}

fn member(object: &str, name: &str) -> Value {
    use serde_json::Value as Json;
    let object: Json = serde_json::from_str(object).unwrap_or_default();
    match object.get(name) {
        None | Some(Json::Null) => Value::Null,
        Some(Json::Number(number)) => number.as_i64().map_or(Value::Null, Value::Integer),
        Some(Json::String(text)) => Value::Text(text.clone()),
        Some(list) => Value::Text(list.to_string()),
    }
}
