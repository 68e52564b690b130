//! The identifier that ties an answer to its record.

use std::{
    fmt,
    hash::{BuildHasher, RandomState},
    ops::RangeInclusive,
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
    },
};

use crate::Moment;

/// Identifies one decision: in the answer to the crawler, in the decision log, in questions to an operator.
///
/// 128 bits, laid out and written as a ULID (26 characters of Crockford's base 32, sorting by time): milliseconds since
/// the epoch (48 bits), a counter (32), and a number drawn at random by each process (48). Within a process none is
/// made twice unless more than 2³² are made in one millisecond; between processes, two would have to draw the same
/// number. Not a secret: ids can be guessed from one another.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DecisionId(u128);

const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

impl DecisionId {
    /// Returns a new identifier for a decision made `now`.
    #[must_use]
    pub fn mint(now: Moment) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let count = NEXT.fetch_add(1, Ordering::Relaxed);
        let millis = u128::from(now.as_millis() & 0xffff_ffff_ffff);
        Self(millis << 80 | u128::from(count) << 48 | u128::from(Self::process()))
    }

    /// Returns the identifier with these octets, the most significant first.
    #[must_use]
    pub fn from_octets(octets: [u8; 16]) -> Self {
        Self(u128::from_be_bytes(octets))
    }

    /// Returns its octets, the most significant first.
    #[must_use]
    pub fn octets(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }

    /// Returns the 26 characters that [`Display`](fmt::Display) writes.
    #[must_use]
    pub fn text(self) -> [u8; 26] {
        let mut text = [b'0'; 26];
        let mut rest = self.0;
        for character in text.iter_mut().rev() {
            *character = ALPHABET.get((rest & 31) as usize).copied().unwrap_or_default();
            rest >>= 5;
        }
        text
    }
}

impl DecisionId {
    /// Returns the identifier that [`Display`](fmt::Display) writes so; `None` for another text.
    #[must_use]
    pub fn from_text(id: &str) -> Option<Self> {
        let mut number: u128 = 0;
        for octet in id.bytes() {
            let digit = ALPHABET.iter().position(|&known| known == octet)?;
            number = number << 5 | digit as u128;
        }
        let is_whole = id.len() == 26 && id.starts_with(|first| first <= '7');
        is_whole.then_some(Self(number))
    }

    /// Returns the time, in milliseconds since the epoch.
    #[must_use]
    pub fn time(self) -> Moment {
        Moment::from_millis((self.0 >> 80) as u64)
    }

    /// Returns the identifiers that begin with these 1 to 26 characters, as a range; `None` if none can. Case does not
    /// matter, and `I`, `L` and `O` are the digits that they look like.
    #[must_use]
    pub fn with_prefix(prefix: &str) -> Option<RangeInclusive<Self>> {
        let digit = |octet: u8| {
            let octet = match octet.to_ascii_uppercase() {
                b'I' | b'L' => b'1',
                b'O' => b'0',
                other => other,
            };
            ALPHABET.iter().position(|&known| known == octet)
        };
        let left = 26_usize.checked_sub(prefix.len())?;
        // The characters have room for two bits more than an identifier has.
        prefix.bytes().next().and_then(digit).filter(|first| *first < 8)?;
        let mut first: u128 = 0;
        for octet in prefix.bytes() {
            first = first << 5 | digit(octet)? as u128;
        }
        let first = first << (5 * left);
        Some(Self(first)..=Self(first | ((1 << (5 * left)) - 1)))
    }
}

impl DecisionId {
    /// Returns the number that this process has drawn: the last 48 bits of its identifiers.
    #[must_use]
    pub fn process() -> u64 {
        process() >> 16
    }
}

/// Returns this process's own random number.
fn process() -> u64 {
    static PROCESS: OnceLock<u64> = OnceLock::new();
    *PROCESS.get_or_init(|| {
        let mut random = [0; 8];
        match aws_lc_rs::rand::fill(&mut random) {
            Ok(()) => u64::from_ne_bytes(random),
            // The standard library seeds its hashers from the system: weaker, and good enough to tell processes apart.
            Err(_) => RandomState::new().hash_one(std::process::id()),
        }
    })
}

impl fmt::Display for DecisionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(std::str::from_utf8(&self.text()).unwrap_or_default())
    }
}

impl fmt::Debug for DecisionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_that_of_a_ulid() {
        #[rustfmt::skip] // one row, one case
        let cases = [
            ("zero", 0, "00000000000000000000000000"),
            ("all ones", u128::MAX, "7ZZZZZZZZZZZZZZZZZZZZZZZZZ"),
            // The example of the ULID specification: 01ARZ3NDEKTSV4RRFFQ69G5FAV.
            ("the specification's example", 0x0156_3E3A_B5D3_D676_4C61_EFB9_9302_BD5B, "01ARZ3NDEKTSV4RRFFQ69G5FAV"),
        ];
        for (name, number, want) in cases {
            assert_eq!(DecisionId(number).to_string(), want, "{name}");
        }
    }

    #[test]
    fn a_prefix_is_a_range_of_ids() {
        let id = DecisionId(0x0156_3E3A_B5D3_D676_4C61_EFB9_9302_BD5B);
        let text = id.to_string();
        for end in 1..=26 {
            for prefix in [text[..end].to_owned(), text[..end].to_lowercase()] {
                let range = DecisionId::with_prefix(&prefix).expect("a prefix");
                assert!(range.contains(&id), "{prefix}");
                let edges = [*range.start(), *range.end()].map(|id| id.to_string());
                assert!(edges.iter().all(|edge| edge.starts_with(&text[..end])));
                assert!(edges[0].ends_with(&"0".repeat(26 - end)), "{edges:?}");
                assert!(edges[1].ends_with(&"Z".repeat(26 - end)), "{edges:?}");
            }
        }
        assert_eq!(DecisionId::with_prefix(&text), Some(id..=id));
        let all = DecisionId::with_prefix("OiL").expect("a prefix");
        assert_eq!(Some(all), DecisionId::with_prefix("011"));
        let longer = format!("{text}0");
        for other in ["", "8", "Z", "0U", "0-", "0 ", "0é", &longer] {
            assert_eq!(DecisionId::with_prefix(other), None, "{other:?}");
        }
    }

    #[test]
    fn ids_of_one_process_sort_by_time_and_then_by_order() {
        let ids = [5, 5, 5, 6, 7].map(|millis| DecisionId::mint(Moment::from_millis(millis)));
        assert!(ids.is_sorted_by(|a, b| a < b));
        assert!(ids.is_sorted_by_key(|id| id.to_string()));
    }

    #[test]
    fn threads_never_share_an_id() {
        let now = Moment::from_millis(1);
        let threads: Vec<_> = (0..4)
            .map(|_| {
                std::thread::spawn(move || (0..5_000).map(|_| DecisionId::mint(now)).collect())
            })
            .collect();
        let mut ids: Vec<DecisionId> = threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap_or_else(|_| Vec::new()))
            .collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), 20_000);
    }
}
