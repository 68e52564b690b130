//! Verification of the store: the chain of records walked from end to end.
//!
//! Each record has a link, the SHA-256 of its predecessor's link and its own text, and from time to time a key outside
//! the store seals the last link (see [`crate::store::chain`]). A [`ChainVerifier`] takes the records in their order and reports
//! contradictions.
//!
//! # Changes that a walk finds
//!
//! - an altered record: its link does not follow from its text;
//! - a removed or moved record: the numbering has a gap, or the links do not follow;
//! - both, with all later links made anew so that they follow again: the links contradict the seals, and new seals need
//!   the key;
//! - records removed from the end, back to before a seal: the seal names a missing record;
//! - records removed from the front or the middle: no seal and no signed gap says that retention has dropped them;
//! - altered or removed robots.txt or settings: records name both by their digests.
//!
//! # Changes that it does not find
//!
//! - Records removed from the end before the first seal over them, or together with their seals. A [`Head`] kept
//!   elsewhere (`crawlgate audit head`) reveals these, too.
//! - Changes by a holder of the sealing key, or by crawlgate itself at the time: seals say that nothing was changed
//!   since, not that it was true.
//! - Notes that people have made on decisions, the present states of origins, and the history of fetches. None of these
//!   is evidence of a decision, and none is chained.

pub mod case;
pub mod covering;
pub mod fault;
pub mod review;
pub mod walk;

use std::fmt;

use crate::clock::Moment;
use crate::store::chain::{self, Gap, Seal};
use crate::store::{Sha256, StoredDecision};
use crate::text::hex::{Hex, from_hex};

/// The end of the chain at some time: with a copy kept elsewhere, a later walk can tell that nothing before it was
/// changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The last record.
    pub seq: u64,
    /// Its link.
    pub hash: Sha256,
}

/// A contradiction in the chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The link of a record does not follow from its predecessor's and its text: one of the three was altered.
    Link {
        /// The record.
        seq: u64,
    },
    /// Records are missing.
    Gap {
        /// The first.
        from: u64,
        /// The last.
        to: u64,
    },
    /// Records are missing at the front, and no seal says that retention has dropped them.
    Front {
        /// The first record present.
        first: u64,
    },
    /// Records are missing at the end: a seal, or a kept head, names later ones.
    Tail {
        /// The last record present.
        last: u64,
        /// The last record that the anchor names.
        sealed: u64,
        /// The anchor.
        by: Anchor,
    },
    /// The chain differs from the one that was sealed, or from its noted head.
    Anchor {
        /// The record with a different link.
        seq: u64,
        /// The last record before it that an anchor confirms.
        good: u64,
        /// The anchor.
        by: Anchor,
    },
    /// The signature of a seal does not belong to its key and its content.
    Signature {
        /// The record that it seals.
        seq: u64,
    },
    /// The key of a seal is not among the trusted ones.
    Key {
        /// The record that it seals.
        seq: u64,
        /// Its key.
        key: [u8; 32],
    },
}

/// Earlier evidence of the chain's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// A seal of this time.
    Seal(Moment),
    /// A head that was kept elsewhere.
    Kept,
    /// The state file, which names the last record that was written.
    Written,
}

/// The result of a walk along the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chain {
    /// The first record present; in an empty store, the next one to come.
    pub first: u64,
    /// The end of the chain; record 0 if no record was ever written.
    pub head: Head,
    /// The last record that a trusted seal confirms.
    pub sealed: Option<u64>,
    /// Records that retention has removed from the middle of the chain.
    pub taken_out: u64,
    /// True if retention has dropped the record of the kept head.
    pub kept_is_dropped: bool,
}

/// A check of the chain, record by record.
#[derive(Debug)]
pub struct ChainVerifier {
    /// Evidence of links, the next one last.
    anchors: Vec<(Head, Anchor)>,
    /// Starts of the chain by the seals of retention, the latest last.
    starts: Vec<(u64, Sha256)>,
    trusted: Vec<[u8; 32]>,
    /// Starts of the chain sealed since the walk began.
    dropped: Vec<(u64, Sha256)>,
    /// Gaps of retention near the walk's place.
    gaps: Vec<Gap>,
    /// Number of records in gaps so far.
    taken_out: u64,
    place: Place,
    first: Option<u64>,
    /// The last record that an anchor confirms.
    good: u64,
    sealed: Option<u64>,
    kept: Option<Head>,
    /// True if retention has removed the record of the kept head.
    kept_is_dropped: bool,
}

/// The place of a walk.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// Before the first record.
    Start,
    /// After this record.
    After(Head),
}

impl ChainVerifier {
    /// Begins a walk that trusts the seals of the keys `trusted`; without any, each seal's own key. `kept` is a head
    /// that was kept elsewhere.
    pub fn new(
        seals: &[Seal],
        trusted: &[[u8; 32]],
        kept: Option<Head>,
        faults: &mut Vec<Fault>,
    ) -> ChainVerifier {
        let mut anchors = Vec::with_capacity(seals.len() + 1);
        let mut starts = vec![(1, chain::GENESIS)];
        for seal in seals {
            let seq = seal.seq;
            if !seal.is_genuine() {
                faults.push(Fault::Signature { seq });
            } else if !is_trusted(trusted, &seal.key) {
                faults.push(Fault::Key { seq, key: seal.key });
            } else {
                let hash = seal.hash;
                anchors.push((Head { seq, hash }, Anchor::Seal(seal.time)));
                starts.push(seal.start);
            }
        }
        anchors.extend(kept.map(|head| (head, Anchor::Kept)));
        anchors.sort_by_key(|(head, _)| std::cmp::Reverse(head.seq));
        ChainVerifier {
            anchors,
            starts,
            trusted: trusted.to_vec(),
            dropped: Vec::new(),
            gaps: Vec::new(),
            taken_out: 0,
            place: Place::Start,
            first: None,
            good: 0,
            sealed: None,
            kept,
            kept_is_dropped: false,
        }
    }

    /// Takes the last record that the store has once held, as its state file says.
    pub fn expect(&mut self, written: Head) {
        let place = |(head, _): &(Head, Anchor)| head.seq > written.seq;
        let at = self.anchors.partition_point(place);
        self.anchors.insert(at, (written, Anchor::Written));
    }

    /// Takes seals made since the walk began: records that retention drops meanwhile are no gap.
    pub fn learn(&mut self, seals: &[Seal]) {
        let known = self.starts.last().map_or(1, |(start, _)| *start);
        let is_new = |seal: &&Seal| {
            let is_trusted = is_trusted(&self.trusted, &seal.key);
            seal.start.0 > known && is_trusted && seal.is_genuine()
        };
        self.dropped = seals.iter().filter(is_new).map(|seal| seal.start).collect();
    }

    /// Takes the gaps near the next records; the walk no longer needs earlier ones. It ignores gaps without a trusted
    /// signature.
    pub fn admit(&mut self, gaps: Vec<Gap>) {
        self.gaps = gaps;
        let trusted = &self.trusted;
        self.gaps.retain(|gap| is_signed(gap, trusted));
    }

    /// Goes on after a record that another walk has passed.
    pub fn resume(&mut self, head: Head) {
        self.place = Place::After(head);
    }

    /// Returns the last record so far that a trusted seal confirms.
    pub fn sealed(&self) -> Option<u64> {
        self.sealed
    }

    /// Returns the last record so far up to which a seal or a kept head confirms the chain; 0 if there is none.
    pub fn vouched(&self) -> u64 {
        self.good
    }

    /// Takes the next record.
    pub fn step(&mut self, decision: &StoredDecision, faults: &mut Vec<Fault>) {
        let seq = decision.seq;
        let before = match self.place {
            Place::Start => self.start(seq, faults),
            Place::After(head) if head.seq.checked_add(1) == Some(seq) => Some(head.hash),
            Place::After(head) => {
                let (from, to) = (head.seq.saturating_add(1), seq.saturating_sub(1));
                let dropped = self.dropped.iter().find(|(start, _)| *start == seq);
                let mut gaps = self.gaps.iter();
                let gap =
                    gaps.find(|gap| gap.first == from && gap.last == to && gap.before == head.hash);
                match (dropped, gap) {
                    (Some((_, before)), _) => Some(*before),
                    (None, Some(gap)) => {
                        self.taken_out += to.saturating_sub(head.seq);
                        Some(gap.after)
                    }
                    (None, None) => {
                        faults.push(Fault::Gap { from, to });
                        None
                    }
                }
            }
        };
        let follows = |before| chain::link(&before, decision.record.as_bytes()) == decision.hash;
        if !before.is_none_or(follows) {
            faults.push(Fault::Link { seq });
        }
        let head = Head {
            seq,
            hash: decision.hash,
        };
        self.place = Place::After(head);
        self.ask(head, faults);
    }

    /// Returns the link before the first record, if it is known.
    fn start(&mut self, first: u64, faults: &mut Vec<Fault>) -> Option<Sha256> {
        self.first = Some(first);
        let mut known = self.starts.iter().chain(&self.dropped).rev();
        let start = known.find(|(seq, _)| *seq == first);
        match start.copied() {
            Some((_, hash)) => {
                let seq = first.saturating_sub(1);
                self.ask(Head { seq, hash }, faults);
                Some(hash)
            }
            None => {
                faults.push(Fault::Front { first });
                self.anchors.retain(|(head, _)| head.seq >= first);
                None
            }
        }
    }

    /// Checks the anchors of this place, and drops those of earlier places: their records are missing.
    fn ask(&mut self, here: Head, faults: &mut Vec<Fault>) {
        while let Some((known, by)) = self.anchors.pop_if(|(head, _)| head.seq <= here.seq) {
            if known.seq < here.seq {
                if by == Anchor::Kept {
                    self.kept = None;
                    self.kept_is_dropped = true;
                }
                continue;
            }
            if known.hash != here.hash {
                let (seq, good) = (here.seq, self.good);
                faults.push(Fault::Anchor { seq, good, by });
                continue;
            }
            if by == Anchor::Written {
                // The file is not signed, so it confirms nothing.
                continue;
            }
            self.good = here.seq;
            if let Anchor::Seal(_) = by {
                self.sealed = Some(here.seq);
            }
        }
    }

    /// Returns the chain as far as it was walked.
    pub fn so_far(&self) -> Chain {
        let head = match self.place {
            Place::After(head) => head,
            Place::Start => self.before_all(),
        };
        let first = self.first.unwrap_or(head.seq.saturating_add(1));
        Chain {
            first,
            head,
            sealed: self.sealed,
            taken_out: self.taken_out,
            kept_is_dropped: self.kept_is_dropped
                || self
                    .kept
                    .is_some_and(|kept| kept.seq.saturating_add(1) < first),
        }
    }

    /// Returns the last dropped record.
    fn before_all(&self) -> Head {
        let (next, hash) = self.starts.last().copied().unwrap_or((1, chain::GENESIS));
        let seq = next.saturating_sub(1);
        Head { seq, hash }
    }

    /// Ends the walk and returns the chain.
    pub fn end(mut self, faults: &mut Vec<Fault>) -> Chain {
        if let Place::Start = self.place {
            // The store is empty: retention must have dropped every record.
            self.ask(self.before_all(), faults);
        }
        let chain = self.so_far();
        // The anchor of the latest record comes first.
        if let Some((known, by)) = self.anchors.first() {
            faults.push(Fault::Tail {
                last: chain.head.seq,
                sealed: known.seq,
                by: *by,
            });
        }
        chain
    }
}

/// Tells whether a trusted key has signed the gap of retention.
pub(crate) fn is_signed(gap: &Gap, trusted: &[[u8; 32]]) -> bool {
    let key = gap.proof.as_ref().map(|proof| &proof.key);
    key.is_some_and(|key| is_trusted(trusted, key)) && gap.is_genuine()
}

fn is_trusted(trusted: &[[u8; 32]], key: &[u8; 32]) -> bool {
    trusted.is_empty() || trusted.contains(key)
}

impl fmt::Display for Head {
    /// Writes `1234:9f86…`, as [`str::parse`] reads it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.seq, Hex(&self.hash))
    }
}

/// A text that is no [`Head`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a head is a number, a colon and 64 hexadecimal digits, as `crawlgate audit head` prints it"
)]
pub struct NotAHead;

impl std::str::FromStr for Head {
    type Err = NotAHead;

    fn from_str(text: &str) -> Result<Self, NotAHead> {
        let read = || {
            let (seq, hash) = text.split_once(':')?;
            Some(Head {
                seq: seq.parse().ok()?,
                hash: from_hex(hash)?,
            })
        };
        read().ok_or(NotAHead)
    }
}

impl fmt::Display for Anchor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Seal(time) => write!(f, "the seal of {}", crate::text::time_text(*time)),
            Self::Kept => f.write_str("the head that was kept"),
            Self::Written => f.write_str("the state file beside the store"),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Link { seq } => write!(
                f,
                "record {seq} does not follow from the one before: its text, its link or its place was altered"
            ),
            Self::Gap { from, to } if from == to => write!(f, "record {from} is missing"),
            Self::Gap { from, to } => write!(f, "records {from} to {to} are missing"),
            Self::Front { first } => write!(
                f,
                "records before {first} are missing, and no seal says that retention has dropped them"
            ),
            Self::Tail { last, sealed, by } => write!(
                f,
                "records {} to {sealed} are missing: {by} speaks of record {sealed}",
                last.saturating_add(1)
            ),
            Self::Anchor { seq, good, by } => write!(
                f,
                "at record {seq} the chain is not what {by} says: something from record {} on was altered, and the \
                 links after it made anew",
                good.saturating_add(1)
            ),
            Self::Signature { seq } => {
                write!(
                    f,
                    "the signature of the seal of record {seq} is not valid: the seal was altered"
                )
            }
            Self::Key { seq, key } => {
                let key = Hex(key);
                write!(
                    f,
                    "the seal of record {seq} is of another key, {key}; if that is an earlier key of this store, name \
                     it beside the present one (--key, more than once)"
                )
            }
        }
    }
}

#[cfg(test)]
mod tests;
