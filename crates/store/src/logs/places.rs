//! The places up to which the logs of a list were read.
//!
//! The text of the places leads a reader of pages to the next one. It names logs by a digest: hundreds of names would make
//! it longer than a URL may be.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use aws_lc_rs::digest::{SHA256, digest};

use crawlgate_text::hex;
use crawlgate_tlog::KeyName;

/// Octets of the digest of a name.
const DIGEST: usize = 6;

/// The name of a log as a digest, in hexadecimal.
type Key = String;

/// The place in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The entry of this number was the last.
    At(u64),
    /// The log could not be read, and is left out.
    Failed,
}

/// A place in each of several logs. A log without one has no further entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places(BTreeMap<Key, Place>);

/// The error for a text that names no places.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this is no place in a list; take it from the page before")]
pub struct UnreadablePlaces;

impl Places {
    /// Sets the place in a log.
    pub fn insert(&mut self, log: &KeyName, place: Place) {
        self.0.insert(key(log), place);
    }

    /// Returns the place in a log.
    #[must_use]
    pub fn get(&self, log: &KeyName) -> Option<Place> {
        self.0.get(&key(log)).copied()
    }

    /// Returns the number in a log; 0 without one.
    #[must_use]
    pub fn number(&self, log: &KeyName) -> u64 {
        match self.get(log) {
            Some(Place::At(seq)) => seq,
            Some(Place::Failed) | None => 0,
        }
    }

    /// Returns these places, with the `others` for logs without one.
    #[must_use]
    pub fn or(mut self, others: &Self) -> Self {
        for (key, place) in &others.0 {
            self.0.entry(key.clone()).or_insert(*place);
        }
        self
    }

    /// Tells whether a log may have further entries.
    #[must_use]
    pub fn lead_on(&self) -> bool {
        self.0.values().any(|place| *place != Place::Failed)
    }
}

fn key(log: &KeyName) -> Key {
    let digest = digest(&SHA256, log.as_str().as_bytes());
    hex(digest.as_ref().iter().take(DIGEST).copied().collect::<Vec<u8>>())
}

impl fmt::Display for Places {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nth, (key, place)) in self.0.iter().enumerate() {
            let gap = if nth > 0 { "." } else { "" };
            match place {
                Place::At(seq) => write!(f, "{gap}{key}-{seq}")?,
                Place::Failed => write!(f, "{gap}{key}-x")?,
            }
        }
        Ok(())
    }
}

impl FromStr for Places {
    type Err = UnreadablePlaces;

    fn from_str(text: &str) -> Result<Self, UnreadablePlaces> {
        let place = |part: &str| {
            let (key, place) = part.split_once('-')?;
            let is_digit = |octet: u8| matches!(octet, b'0'..=b'9' | b'a'..=b'f');
            let is_key = key.len() == 2 * DIGEST && key.bytes().all(is_digit);
            let place = match place {
                "x" => Place::Failed,
                seq if seq.bytes().all(|octet| octet.is_ascii_digit()) => {
                    Place::At(seq.parse().ok()?)
                }
                _ => return None,
            };
            is_key.then(|| (key.to_owned(), place))
        };
        let places = text.split('.').map(place).collect::<Option<_>>();
        places.map(Self).ok_or(UnreadablePlaces)
    }
}
