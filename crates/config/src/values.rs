//! Readers from TOML to a type, each refusing with a sentence that names the allowed values.

use std::{
    fmt::Display,
    ops::RangeInclusive,
    path::{Path, PathBuf},
    time::Duration,
};

use toml::de::{DeInteger, DeValue};
use url::Url;

use super::{
    read::{Read, Refusal, Value},
    units::{format_bytes, format_duration, parse_bytes, parse_duration},
};

pub(super) fn boolean(value: &Value<'_>) -> Read<bool> {
    value
        .get_ref()
        .as_bool()
        .ok_or_else(|| Refusal::new(value, "expected true or false"))
}

/// Reads a text with `parse`; its error names the allowed values.
pub(super) fn text<T, E: Display>(
    parse: impl Fn(&str) -> Result<T, E>,
) -> impl Fn(&Value<'_>) -> Read<T> {
    move |value| match value.get_ref().as_str() {
        Some(text) => parse(text).map_err(|error| Refusal::new(value, error.to_string())),
        None => Err(Refusal::new(value, "expected a text in quotes")),
    }
}

/// Reads the address of a service with `parse`. The value may hold a password, which is one of the faults, so the message
/// does not repeat such a value.
pub(super) fn service<T, E: Display>(
    parse: impl Fn(&str) -> Result<T, E>,
) -> impl Fn(&Value<'_>) -> Read<T> {
    move |value| match value.get_ref().as_str() {
        Some(text) => parse(text).map_err(|error| match text.contains('@') {
            true => Refusal::secret(value, error.to_string()),
            false => Refusal::new(value, error.to_string()),
        }),
        None => Err(Refusal::secret(value, "expected a text in quotes")),
    }
}

/// Returns a URL for HTTP without credentials, query and fragment; `None` for any other text.
pub(super) fn plain_url(text: &str) -> Option<Url> {
    let url = Url::parse(text).ok()?;
    let is_plain = matches!(url.scheme(), "http" | "https")
        && url.has_host()
        && url.username().is_empty()
        && url.password().is_none()
        && url.query().is_none()
        && url.fragment().is_none();
    is_plain.then_some(url)
}

/// Reads one of a few names.
pub(super) fn choice<T: Copy>(names: &[(&'static str, T)]) -> impl Fn(&Value<'_>) -> Read<T> {
    move |value| {
        let name = value.get_ref().as_str();
        let chosen = names.iter().find(|(known, _)| Some(*known) == name);
        chosen.map(|(_, chosen)| *chosen).ok_or_else(|| {
            let known: Vec<String> = names.iter().map(|(name, _)| format!("{name:?}")).collect();
            Refusal::new(value, format!("not one of {}", known.join(", ")))
        })
    }
}

/// Reads a whole number within bounds. `T` holds every number within them.
pub(super) fn integer<T: TryFrom<u64>>(
    allowed: RangeInclusive<u64>,
) -> impl Fn(&Value<'_>) -> Read<T> {
    move |value| {
        let (least, most) = (allowed.start(), allowed.end());
        whole(value)
            .filter(|number| allowed.contains(number))
            .and_then(|number| T::try_from(number).ok())
            .ok_or_else(|| {
                let why = format!("expected a whole number from {least} to {most}");
                Refusal::new(value, why)
            })
    }
}

/// Reads a number within bounds; whole numbers count.
pub(super) fn number(allowed: RangeInclusive<f64>) -> impl Fn(&Value<'_>) -> Read<f64> {
    move |value| {
        let number = match value.get_ref() {
            DeValue::Float(float) => float.as_str().parse().ok(),
            // Exact: `as` would be as good for every number that the bounds let through.
            DeValue::Integer(integer) => decimal(integer).and_then(|text| text.parse().ok()),
            _ => None,
        };
        // NaN is in no range.
        number
            .filter(|number| allowed.contains(number))
            .ok_or_else(|| {
                let (least, most) = (allowed.start(), allowed.end());
                Refusal::new(value, format!("expected a number from {least} to {most}"))
            })
    }
}

/// Reads a duration within bounds.
pub(super) fn duration(allowed: RangeInclusive<Duration>) -> impl Fn(&Value<'_>) -> Read<Duration> {
    move |value| {
        let duration = value.get_ref().as_str().and_then(parse_duration);
        duration
            .filter(|duration| allowed.contains(duration))
            .ok_or_else(|| {
                let least = format_duration(*allowed.start());
                let most = format_duration(*allowed.end());
                let why = format!(
                    "expected a duration such as \"30s\" or \"1h30m\", from \"{least}\" to \"{most}\""
                );
                Refusal::new(value, why)
            })
    }
}

/// Reads a number of octets within bounds: an integer, or a text with a unit. `T` holds every number within the bounds.
pub(super) fn bytes<T: TryFrom<u64>>(
    allowed: RangeInclusive<u64>,
) -> impl Fn(&Value<'_>) -> Read<T> {
    move |value| {
        let bytes = match value.get_ref() {
            DeValue::String(text) => parse_bytes(text),
            _ => whole(value),
        };
        bytes
            .filter(|bytes| allowed.contains(bytes))
            .and_then(|bytes| T::try_from(bytes).ok())
            .ok_or_else(|| {
                let least = format_bytes(*allowed.start());
                let most = format_bytes(*allowed.end());
                let why = format!(
                    "expected a number of octets or a size such as \"64KiB\", from \"{least}\" to \"{most}\""
                );
                Refusal::new(value, why)
            })
    }
}

/// Reads a path; a relative one starts at `base`, the directory of the file that names it.
pub(super) fn path(base: &Path) -> impl Fn(&Value<'_>) -> Read<PathBuf> {
    text(move |text| {
        if text.is_empty() {
            Err("expected a path")
        } else if text.contains('\0') {
            Err("a path holds no NUL")
        } else if text == "~" || text.starts_with("~/") {
            // A shell would have expanded it; crawlgate would make a directory of that name.
            Err("~ is not expanded here: write the whole path")
        } else {
            Ok(base.join(text))
        }
    })
}

/// Reads an array of values, each with `read`, and reports all refused ones.
pub(super) fn list<'t, T>(
    read: impl Fn(&Value<'t>) -> Read<T>,
) -> impl Fn(&Value<'t>) -> Read<Vec<T>> {
    move |value| {
        let Some(array) = value.get_ref().as_array() else {
            return Err(Refusal::new(value, "expected a list: [ … ]"));
        };
        let mut taken = Vec::new();
        let mut refused = Vec::new();
        for value in array.iter() {
            match read(value) {
                Ok(value) => taken.push(value),
                Err(refusals) => refused.extend(refusals),
            }
        }
        if refused.is_empty() {
            Ok(taken)
        } else {
            Err(refused)
        }
    }
}

/// Reads a list, or one value that stands for a list of one.
pub(super) fn one_or_list<'t, T>(
    read: impl Fn(&Value<'t>) -> Read<T>,
) -> impl Fn(&Value<'t>) -> Read<Vec<T>> {
    move |value| match value.get_ref() {
        DeValue::Array(_) => list(&read)(value),
        _ => read(value).map(|value| vec![value]),
    }
}

/// Reads `word` as `None`, and anything else with `read`.
pub(super) fn unless<'t, T>(
    word: &'static str,
    read: impl Fn(&Value<'t>) -> Read<T>,
) -> impl Fn(&Value<'t>) -> Read<Option<T>> {
    move |value| {
        if value.get_ref().as_str() == Some(word) {
            return Ok(None);
        }
        match read(value) {
            Ok(value) => Ok(Some(value)),
            Err(mut refusals) => {
                for refusal in &mut refusals {
                    refusal.or(&format!("{word:?}"));
                }
                Err(refusals)
            }
        }
    }
}

fn whole(value: &Value<'_>) -> Option<u64> {
    let integer = value.get_ref().as_integer()?;
    u64::from_str_radix(integer.as_str(), integer.radix()).ok()
}

fn decimal(integer: &DeInteger<'_>) -> Option<String> {
    let whole = i64::from_str_radix(integer.as_str(), integer.radix()).ok()?;
    Some(whole.to_string())
}
