//! `/.well-known/tdmrep.json` (TDMRep, final report of 2024-05-10): reservations of an origin's text and data mining.
//!
//! The file is a JSON array of objects. A `location` is a pattern as in robots.txt, and the first entry that matches
//! decides, whatever it says. An entry without a `location` that can match matches nothing.

use serde_json::value::RawValue;
use serde_json::{Map, Value as Json};

use super::category::{Categories, Category};
use super::modes::{Modes, SignalMode};
use super::purpose::Purposes;
use super::said::{Invalid, Place, Preference, Said, Signal, Value, Why, text};
use crate::rep::{ComparisonPath, PathPattern, Picked, RankedPaths};

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
    /// What the entries with a pattern say; `None` for one that sets nothing.
    entries: Box<[Option<Preference>]>,
    is_reserved_somewhere: bool,
}

impl TdmRep {
    /// Parses the file.
    ///
    /// # Errors
    /// When it is no JSON array, or too long.
    pub fn parse(text: &[u8]) -> Result<TdmRep, Why> {
        if text.len() > LONGEST {
            return Err(Why::TooLong);
        }
        let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
        let entries: Vec<&RawValue> = serde_json::from_slice(text).map_err(|_| Why::Unparsable)?;
        let located = (1..).zip(entries.into_iter().take(ENTRIES));
        let located = located.filter_map(|(number, entry)| located_entry(number, entry.get()));
        let (paths, entries): (Vec<_>, Vec<_>) = located.unzip();
        let disallows = |entry: &Preference| entry.value == Value::Disallow;
        Ok(TdmRep {
            is_reserved_somewhere: entries.iter().flatten().any(disallows),
            paths: RankedPaths::new((0..).zip(paths.into_iter().map(Some))),
            entries: entries.into_boxed_slice(),
        })
    }

    /// Returns what the file says about a path with its query. If `is_guarded`, all readings of the path are asked, and
    /// what each picks is united.
    pub fn at(&self, path: &[u8], is_guarded: bool) -> Said {
        let mut said = Said::default();
        if self.entries.is_empty() {
            return said;
        }
        match self.paths.pick(&ComparisonPath::new(path), is_guarded) {
            Picked::All => {
                let all = self.entries.iter().flatten();
                all.for_each(|entry| said.prefer(entry.clone()));
            }
            Picked::These(picked) => {
                let picked = picked
                    .iter()
                    .filter_map(|at| self.entries.get(*at as usize));
                picked
                    .flatten()
                    .for_each(|entry| said.prefer(entry.clone()));
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
pub fn unusable(why: Why) -> Said {
    let mut said = Said::default();
    said.reject(Invalid {
        signal: Signal::Tdm,
        place: Place::Entry(0),
        why,
    });
    said
}

/// Reads an entry: its pattern, and what it says. `None` for one that matches nothing.
fn located_entry(number: u32, entry: &str) -> Option<(PathPattern, Option<Preference>)> {
    let fields: Map<String, Json> = serde_json::from_str(entry).ok()?;
    let location = fields.get("location")?.as_str()?;
    let pattern = PathPattern::of_octets(location.as_bytes())?;
    let value = fields.get("tdm-reservation").and_then(reservation);
    let preference = value.map(|value| Preference {
        category: Category::Tdm,
        value,
        signal: Signal::Tdm,
        place: Place::Entry(number),
        text: text(entry.as_bytes()),
    });
    Some((pattern, preference))
}

fn reservation(value: &Json) -> Option<Value> {
    let is =
        |number: u64, text: &str| value.as_u64() == Some(number) || value.as_str() == Some(text);
    if is(1, "1") {
        Some(Value::Disallow)
    } else if is(0, "0") {
        Some(Value::Allow)
    } else {
        None
    }
}
