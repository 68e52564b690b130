//! JSON read strictly: a name that an object has twice is an error, since readers differ about which one counts.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

/// A JSON value. A whole number and one with a point or an exponent are never equal: `docs/verify-evidence.py` counts
/// lines by the former.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Json {
    Null,
    Truth(bool),
    Whole(i128),
    Number(f64),
    Text(String),
    List(Vec<Json>),
    Map(BTreeMap<String, Json>),
}

/// A JSON value of another form than the format has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotJson(pub(super) String);

impl Json {
    /// Returns the values of these fields, in this order. Another field, or a missing one, is an error.
    pub(super) fn fields<const N: usize>(self, names: [&str; N]) -> Result<[Json; N], NotJson> {
        let Json::Map(mut map) = self else {
            return Err(NotJson("no object".to_owned()));
        };
        let mut values = [const { Json::Null }; N];
        for (value, name) in values.iter_mut().zip(names) {
            let found = map.remove(name);
            *value = found.ok_or_else(|| NotJson(format!("no field {name}")))?;
        }
        match map.into_keys().next() {
            Some(name) => Err(NotJson(format!("an unknown field {name}"))),
            None => Ok(values),
        }
    }

    /// Takes a field out that need not be there.
    pub(super) fn take(&mut self, name: &str) -> Option<Json> {
        match self {
            Json::Map(map) => map.remove(name),
            _ => None,
        }
    }

    pub(super) fn has(&self, name: &str) -> bool {
        matches!(self, Json::Map(map) if map.contains_key(name))
    }

    pub(super) fn text(self, what: &str) -> Result<String, NotJson> {
        match self {
            Json::Text(text) => Ok(text),
            _ => Err(NotJson(format!("{what} is no text"))),
        }
    }

    pub(super) fn list(self, what: &str) -> Result<Vec<Json>, NotJson> {
        match self {
            Json::List(list) => Ok(list),
            _ => Err(NotJson(format!("{what} is no list"))),
        }
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Strict)
    }
}

struct Strict;

impl<'de> Visitor<'de> for Strict {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, truth: bool) -> Result<Json, E> {
        Ok(Json::Truth(truth))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Json, E> {
        Ok(Json::Whole(number.into()))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Json, E> {
        Ok(Json::Whole(number.into()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Json, E> {
        Ok(Json::Number(number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Json, E> {
        Ok(Json::Text(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Json, E> {
        Ok(Json::Text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Json, A::Error> {
        let mut list = Vec::new();
        while let Some(value) = seq.next_element()? {
            list.push(value);
        }
        Ok(Json::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Json, A::Error> {
        let mut map = BTreeMap::new();
        while let Some((name, value)) = access.next_entry::<String, Json>()? {
            if map.insert(name.clone(), value).is_some() {
                let why = format!("the field {name} stands there twice");
                return Err(de::Error::custom(why));
            }
        }
        Ok(Json::Map(map))
    }
}
