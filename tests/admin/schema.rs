//! The description of the API, and checks of the server against it.

use std::collections::BTreeSet;
use std::sync::Mutex;

use serde_json::{Map, Value};

use crate::support::admin_gate::json;
use crate::support::{AdminGate, Response};

/// The description, and the operations that were checked against it.
pub(crate) struct Description {
    document: Value,
    met: Mutex<BTreeSet<String>>,
}

impl Description {
    #[track_caller]
    pub(crate) fn of(gate: &AdminGate) -> Description {
        let document = gate.api("/openapi.json");
        assert!(
            document["openapi"].as_str().is_some_and(|version| version.starts_with("3.1")),
            "{}",
            document["openapi"]
        );
        let described = Description { document, met: Mutex::default() };
        let ids = described.operation_ids();
        let distinct: BTreeSet<&String> = ids.iter().collect();
        assert_eq!(distinct.len(), ids.len(), "each must be unique: {ids:?}");
        described
    }

    /// Returns the names of the operations in generated clients.
    fn operation_ids(&self) -> Vec<String> {
        let paths = self.document["paths"].as_object().unwrap();
        let operations = paths.values().flat_map(|item| item.as_object().unwrap().values());
        operations
            .map(|operation| operation["operationId"].as_str().expect("an id").to_owned())
            .collect()
    }

    /// Asserts that an answer is described for this operation: its status, its type, its members.
    #[track_caller]
    pub(crate) fn holds(&self, method: &str, path: &str, answer: &Response) {
        let operation = &self.document["paths"][path][method];
        assert!(operation.is_object(), "{method} {path} is not described");
        let responses = &operation["responses"];
        let status = answer.status.to_string();
        let range = format!("{}XX", &status[..1]);
        let response = [&status, &range]
            .into_iter()
            .map(|status| &responses[status])
            .find(|response| response.is_object())
            .unwrap_or_else(|| panic!("{method} {path}: {status} is not described"));
        self.met.lock().unwrap().insert(format!("{method} {path}"));
        let Some(content) = response["content"].as_object() else {
            assert!(answer.body.is_empty(), "{method} {path}: a body: {answer:?}");
            return;
        };
        let media_type = answer.field("content-type").expect("a type");
        let described = content.get(&media_type).unwrap_or_else(|| {
            panic!("{method} {path}: {media_type} is not described: {content:?}")
        });
        if media_type.ends_with("json") {
            let found = json(answer);
            if let Err(why) = self.fits(&found, &described["schema"]) {
                panic!("{method} {path}: {why}\n{found}");
            }
        }
    }

    /// Returns the operations without a check.
    pub(crate) fn unmet(&self) -> Vec<String> {
        let met = self.met.lock().unwrap();
        let paths = self.document["paths"].as_object().unwrap();
        paths
            .iter()
            .flat_map(|(path, item)| {
                let item = item.as_object().unwrap();
                item.keys().map(move |method| format!("{method} {path}"))
            })
            .filter(|operation| !met.contains(operation))
            .collect()
    }

    fn resolved<'a>(&'a self, schema: &'a Value) -> &'a Value {
        match schema["$ref"].as_str() {
            Some(to) => {
                let found = self.document.pointer(to.trim_start_matches('#'));
                found.unwrap_or_else(|| panic!("{to} is not described"))
            }
            None => schema,
        }
    }

    /// Returns all members that a schema describes, also in its parts, and the required ones.
    fn members<'a>(
        &'a self,
        schema: &'a Value,
        all: &mut Map<String, Value>,
        must: &mut BTreeSet<String>,
    ) {
        let schema = self.resolved(schema);
        for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
            all.insert(name.clone(), schema.clone());
        }
        for name in schema["required"].as_array().into_iter().flatten() {
            must.insert(name.as_str().unwrap().to_owned());
        }
        for part in schema["allOf"].as_array().into_iter().flatten() {
            self.members(part, all, must);
        }
    }

    /// Tells whether a value matches a schema and has no member that the schema lacks.
    fn fits(&self, value: &Value, schema: &Value) -> Result<(), String> {
        let schema = self.resolved(schema);
        for choice in ["oneOf", "anyOf"] {
            if let Some(choices) = schema[choice].as_array() {
                let fits = choices.iter().any(|choice| self.fits(value, choice).is_ok());
                return fits.then_some(()).ok_or_else(|| format!("{value} is none of {choices:?}"));
            }
        }
        let kind = match value {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Number(number) if number.is_u64() || number.is_i64() => "integer",
            Value::Number(_) => "number",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        };
        let kinds: Vec<&str> = match &schema["type"] {
            Value::String(kind) => vec![kind],
            Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        if !kinds.is_empty() && !kinds.contains(&kind) {
            return Err(format!("{value} is {kind}, described as {kinds:?}"));
        }
        match value {
            Value::Array(items) => {
                for item in items {
                    self.fits(item, &schema["items"])?;
                }
                Ok(())
            }
            Value::Object(found) => {
                let (mut all, mut must) = (Map::new(), BTreeSet::new());
                self.members(schema, &mut all, &mut must);
                if all.is_empty() {
                    // A record, which another document describes.
                    return Ok(());
                }
                if let Some(missing) = must.iter().find(|name| !found.contains_key(*name)) {
                    return Err(format!("{missing} is missing"));
                }
                for (name, value) in found {
                    let schema = all.get(name).ok_or_else(|| format!("{name} is not described"))?;
                    self.fits(value, schema).map_err(|why| format!("{name}: {why}"))?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
