//! `/.well-known/tdmrep.json` (TDMRep, final report of 2024-05-10): reservations of an origin's text and data mining.
//!
//! The file is a JSON array of objects. A `location` is a pattern as in robots.txt, and the first entry that matches
//! decides, whatever it says. An entry without a `location` that can match matches nothing.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::category::{Categories, Category};
use super::modes::{Modes, SignalMode};
use super::purpose::Purposes;
use super::said::{Invalid, Place, Preference, Said, Signal, UnusedReason, Value, text};
use crawlgate_robots::{Applicable, ComparisonPath, PathPattern, RankedPaths};

/// Limit on the file, in octets.
pub const LONGEST: usize = 512_000;

/// Limit on the entries that count.
pub const ENTRIES: usize = 10_000;

/// The UTF-8 byte order mark.
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// A tdmrep.json, parsed once.
#[derive(Debug, Default)]
pub struct TdmRep {
    paths: RankedPaths,
    /// The statements of the entries with a pattern; `None` for one that sets nothing.
    entries: Box<[Option<Preference>]>,
    /// The entries that cannot be read.
    invalid: Box<[Invalid]>,
    is_reserved_somewhere: bool,
}

/// The effect of an entry on requests.
enum Entry {
    /// It matches nothing.
    Unlocated,
    /// It says this where the pattern matches; `None` for nothing.
    At(PathPattern, Option<Preference>),
    /// It cannot be read.
    Unreadable,
}

impl TdmRep {
    /// Parses the file.
    ///
    /// # Errors
    /// When it is no JSON array, or too long.
    pub fn parse(text: &[u8]) -> Result<TdmRep, UnusedReason> {
        if text.len() > LONGEST {
            return Err(UnusedReason::TooLong);
        }
        let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
        let entries: Vec<&RawValue> =
            serde_json::from_slice(text).map_err(|_| UnusedReason::Unparsable)?;
        let (mut paths, mut located, mut invalid) = (Vec::new(), Vec::new(), Vec::new());
        for (number, entry) in (1..).zip(entries.into_iter().take(ENTRIES)) {
            match read_entry(number, entry.get()) {
                Entry::Unlocated => {}
                Entry::At(path, says) => {
                    paths.push(path);
                    located.push(says);
                }
                Entry::Unreadable => invalid.push(Invalid {
                    signal: Signal::Tdm,
                    place: Place::Entry(number),
                    why: UnusedReason::Unparsable,
                }),
            }
        }
        invalid.truncate(Said::INVALID);
        let entries = located;
        let disallows = |entry: &Preference| entry.value == Value::Disallow;
        Ok(TdmRep {
            is_reserved_somewhere: entries.iter().flatten().any(disallows),
            paths: RankedPaths::new((0..).zip(paths.into_iter().map(Some))),
            entries: entries.into_boxed_slice(),
            invalid: invalid.into_boxed_slice(),
        })
    }

    /// Tells whether no entry can match a path.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns what the file says about a path with its query. If `is_guarded`, all readings of the path are asked, and
    /// what each picks is united.
    pub fn at(&self, path: &[u8], is_guarded: bool) -> Said {
        let mut said = Said::default();
        self.invalid.iter().for_each(|one| said.reject(one.clone()));
        if self.is_empty() {
            return said;
        }
        match self.paths.pick(&ComparisonPath::new(path), is_guarded) {
            Applicable::All => {
                let all = self.entries.iter().flatten();
                all.for_each(|entry| said.prefer(entry.clone()));
            }
            Applicable::These(picked) => {
                let picked = picked.iter().filter_map(|at| self.entries.get(*at as usize));
                picked.flatten().for_each(|entry| said.prefer(entry.clone()));
            }
        }
        said
    }

    /// Tells whether an entry refuses one of the purposes on any path, if the file is enforced: what an opaque tunnel
    /// must ask.
    pub fn refuses_somewhere(&self, purposes: Purposes, modes: &Modes) -> bool {
        let tdm = Categories::one(Category::Tdm);
        modes.tdmrep == SignalMode::Enforce
            && self.is_reserved_somewhere
            && !purposes.refused_by(tdm).is_empty()
    }

    /// Returns the octets of heap used, roughly.
    pub fn bytes(&self) -> usize {
        let text = |entry: &Preference| entry.text.len() + 16;
        let texts: usize = self.entries.iter().flatten().map(text).sum();
        self.paths.bytes() + size_of_val(&*self.entries) + texts
    }
}

/// Returns what is said by a file that is not used.
#[must_use]
pub fn unusable(why: UnusedReason) -> Said {
    let mut said = Said::default();
    said.reject(Invalid { signal: Signal::Tdm, place: Place::Entry(0), why });
    said
}

/// Reads an entry: its pattern, and what it says. Other members may hold anything.
fn read_entry(number: u32, entry: &str) -> Entry {
    if !entry.starts_with('{') {
        return Entry::Unlocated;
    }
    let Some(members) = read::<BTreeMap<String, &RawValue>>(entry) else {
        return Entry::Unreadable;
    };
    let location = members.get("location").map(|location| location.get());
    let Some(location) = location.filter(|location| location.starts_with('"')) else {
        return Entry::Unlocated;
    };
    let Some(location) = read::<String>(location) else {
        return Entry::Unreadable;
    };
    let Some(pattern) = PathPattern::of_octets(location.as_bytes()) else {
        return Entry::Unlocated;
    };
    let value = members.get("tdm-reservation");
    let preference = value.and_then(|value| reservation(value.get())).map(|value| Preference {
        category: Category::Tdm,
        value,
        signal: Signal::Tdm,
        place: Place::Entry(number),
        text: text(entry.as_bytes()).into(),
    });
    Entry::At(pattern, preference)
}

fn read<'a, T: Deserialize<'a>>(json: &'a str) -> Option<T> {
    serde_json::from_str(json).ok()
}

/// Reads a reservation: 1 or 0, as a number in any spelling or as a text.
fn reservation(value: &str) -> Option<Value> {
    let number = read::<f64>(value);
    let text = read::<String>(value);
    let is = |one: f64, spelling: &str| {
        number.is_some_and(|number| number.total_cmp(&one).is_eq())
            || text.as_deref() == Some(spelling)
    };
    if is(1.0, "1") {
        Some(Value::Disallow)
    } else if is(0.0, "0") {
        Some(Value::Allow)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(entry: &str) -> (Option<Value>, usize) {
        let file = format!("[{entry}]");
        let file = TdmRep::parse(file.as_bytes()).expect("an array");
        let said = file.at(b"/a", true);
        let value = said.preferences.first().map(|one| one.value);
        (value, said.invalid.len())
    }

    #[test]
    fn an_entry_that_reserves_is_never_dropped_without_a_trace() {
        let disallow = Some(Value::Disallow);
        let with = |member: &str| format!(r#"{{"location":"/","tdm-reservation":{member}}}"#);
        for (entry, want) in [
            (with("1"), (disallow, 0)),
            (with("1.0"), (disallow, 0)),
            (with("1e0"), (disallow, 0)),
            (with(r#""1""#), (disallow, 0)),
            (with("0.0"), (Some(Value::Allow), 0)),
            (with("2"), (None, 0)),
            (with("1e999"), (None, 0)),
            (with(r#"1,"tdm-policy":"\ud800""#), (disallow, 0)),
            (with(r#"1,"more":1e999"#), (disallow, 0)),
            (with(r#"0,"tdm-reservation":1"#), (disallow, 0)),
            (with(r#"1,"\ud800":0"#), (None, 1)),
            (r#"{"location":"/\ud800","tdm-reservation":1}"#.to_owned(), (None, 1)),
            (r#"{"tdm-reservation":1}"#.to_owned(), (None, 0)),
            ("7".to_owned(), (None, 0)),
        ] {
            assert_eq!(value(&entry), want, "{entry}");
        }
    }
}
