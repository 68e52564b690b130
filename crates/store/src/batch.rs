//! The data that is written at once.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use super::Sha256;
use super::origins::Fetch;
use crawlgate_origins::requesting_client::ClientKey;
use crawlgate_origins::state::State;
use crawlgate_record::{Digest, Entry, is_of_unknown_client};
use crawlgate_robots::Origin;
use crawlgate_text::DecisionId;
use crawlgate_tlog::split_entry;

/// Data written at once.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    /// Updates of origins, in order.
    pub updates: Vec<OriginUpdate>,
    /// Objects that entries of this batch or of later ones name. A writer adds each object at the latest with the first
    /// entry that names it.
    pub objects: Vec<Object>,
    /// Entries of the log, in order.
    pub entries: Entries,
    /// True if the batch, once written, outlives a power cut, also where `[store] synchronous` promises less.
    pub is_durable: bool,
}

/// A body that entries name by its SHA-256.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// SHA-256 of the body.
    pub sha256: Sha256,
    /// The kind.
    pub kind: ObjectKind,
    /// The body.
    pub body: Arc<[u8]>,
}

impl Object {
    /// Returns the object with this body.
    #[must_use]
    pub fn new(kind: ObjectKind, body: &[u8]) -> Self {
        Self { sha256: digest(body), kind, body: body.into() }
    }
}

/// Returns the SHA-256 of octets.
pub(crate) fn digest(octets: &[u8]) -> Sha256 {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, octets);
    digest.as_ref().try_into().unwrap_or_default()
}

/// The kinds of objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ObjectKind {
    /// The settings behind verdicts: JSON text.
    PolicySettings = 0,
    /// The state of an origin's robots.txt or tdmrep.json: a [`Basis`](crawlgate_record::Basis).
    Basis = 1,
    /// An override: an [`Asserted`](crawlgate_record::Asserted).
    Override = 2,
}

impl ObjectKind {
    /// All kinds, in the order of their numbers.
    pub const ALL: [Self; 3] = [Self::PolicySettings, Self::Basis, Self::Override];

    /// Returns the number in the store.
    #[must_use]
    pub fn number(self) -> u64 {
        self as u64
    }

    /// Returns the name in files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::PolicySettings => "terms",
            Self::Basis => "basis",
            Self::Override => "override",
        }
    }
}

/// Returns the objects that an entry names, with their kinds.
pub fn objects_of<'e>(
    entry: &Entry<'e>,
) -> impl Iterator<Item = (ObjectKind, &'e Digest)> + use<'e> {
    let kinds =
        [ObjectKind::PolicySettings, ObjectKind::Override, ObjectKind::Basis, ObjectKind::Basis];
    let named = kinds.into_iter().zip(entry.named());
    named.filter_map(|(kind, digest)| Some((kind, digest?)))
}

/// Entries one after the other, each behind its length as 16 bits, the most significant octet first.
///
/// A clone shares the octets until one of the two changes: the writer keeps a batch that the store writes.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Entries {
    frames: Arc<Vec<u8>>,
    count: usize,
}

impl Entries {
    /// Adds the entry that `write` appends. An entry that is longer than any may be is left out.
    pub fn push(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let frames = Arc::make_mut(&mut self.frames);
        let start = frames.len();
        frames.extend_from_slice(&[0; LENGTH]);
        write(frames);
        let length = u16::try_from(frames.len() - start - LENGTH);
        debug_assert!(length.is_ok(), "the encoders bound each entry");
        match (length, frames.get_mut(start..start + LENGTH)) {
            (Ok(length), Some(head)) => {
                head.copy_from_slice(&length.to_be_bytes());
                self.count += 1;
            }
            _ => frames.truncate(start),
        }
    }

    /// Returns the entries in order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = &**self.frames;
        std::iter::from_fn(move || {
            let (entry, next) = split_entry(rest)?;
            rest = next;
            Some(entry)
        })
    }

    /// Returns the entries with their lengths.
    pub(crate) fn frames(&self) -> &[u8] {
        &self.frames
    }

    /// Takes the entry with this identifier out again. False if it is not here.
    pub fn withdraw(&mut self, id: DecisionId) -> bool {
        let id = id.octets();
        let mut start = 0;
        while let Some((entry, _)) = self.frames.get(start..).and_then(split_entry) {
            let end = start + LENGTH + entry.len();
            if crawlgate_record::id_of(entry) == Some(&id) {
                Arc::make_mut(&mut self.frames).drain(start..end);
                self.count -= 1;
                return true;
            }
            start = end;
        }
        false
    }

    /// Returns the number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Tells whether there is no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the octets of all entries with their lengths.
    #[must_use]
    pub fn octets(&self) -> usize {
        self.frames.len()
    }

    /// Drops all entries, and keeps room for as many octets again. Room above `most` goes, and room that is large
    /// beside these entries and `least`.
    pub fn clear(&mut self, least: usize, most: usize) {
        self.count = 0;
        let used = self.frames.len();
        match Arc::get_mut(&mut self.frames) {
            Some(frames) => {
                frames.clear();
                let is_large = frames.capacity() / 4 > used.max(least);
                if is_large || frames.capacity() > most {
                    frames.shrink_to(used.saturating_mul(2).clamp(least, most));
                }
            }
            None => self.frames = Arc::default(),
        }
    }
}

impl fmt::Debug for Entries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { frames, count } = self;
        write!(f, "Entries({count} in {} octets)", frames.len())
    }
}

/// Octets of an entry's length.
const LENGTH: usize = 2;

/// The owner of records that take room. Each owner has a share that others cannot take.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum RoomOwner {
    /// A client, or an address without one.
    Client(ClientKey),
    /// All requests without an identified client, together: their number has no bound.
    UnknownClients,
    /// crawlgate itself, for lines about its own work.
    Own,
}

impl RoomOwner {
    /// Returns the owner of a decision for this reason, on a request from `address`, by the named client if there is
    /// one.
    #[must_use]
    pub fn of(name: Option<&str>, address: IpAddr, reason: &str) -> RoomOwner {
        if is_of_unknown_client(reason) {
            return RoomOwner::UnknownClients;
        }
        RoomOwner::Client(match name {
            Some(name) => ClientKey::Named(name.into()),
            None => ClientKey::at(address),
        })
    }
}

impl fmt::Display for RoomOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(ClientKey::Named(name)) => write!(f, "client {name}"),
            Self::Client(ClientKey::At(address)) => write!(f, "address {address}"),
            Self::UnknownClients => f.write_str("unknown clients"),
            Self::Own => f.write_str("crawlgate"),
        }
    }
}

/// An ended fetch of robots.txt, with the new state of its identity.
#[derive(Debug, Clone)]
pub struct OriginUpdate {
    /// The origin.
    pub origin: Origin,
    /// The new state, for the identity of the fetch. A new snapshot in it is kept, too.
    pub state: Arc<State>,
    /// The User-Agent of the fetch behind the state.
    pub user_agent: Arc<str>,
    /// The fetch.
    pub fetch: Fetch,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::ROW;
    use crawlgate_record::{Event, EventKind};
    use crawlgate_system::clock::Moment;

    #[test]
    fn a_buffer_stays_as_large_as_its_batches() {
        let (least, most) = (1_000, 64_000);
        let mut all = Entries::default();
        let mut room_after = |octets: usize| {
            while all.octets() < octets {
                all.push(|out| out.extend_from_slice(&[0; 998]));
            }
            all.clear(least, most);
            assert!(all.is_empty() && all.octets() == 0);
            all.frames.capacity()
        };
        let steady = room_after(30_000);
        assert!(steady >= 30_000);
        for _ in 0..3 {
            assert_eq!(room_after(30_000), steady, "nothing grows again");
        }
        assert_eq!(room_after(steady / 2), steady);
        assert!(room_after(200_000) <= most, "a burst leaves no more than that");
        for _ in 0..3 {
            room_after(0);
        }
        assert!(room_after(0) <= 4 * least, "and silence little");
        let mut kept = all.clone();
        kept.push(|out| out.push(1));
        assert_eq!((all.len(), kept.len()), (0, 1));
    }

    #[test]
    fn a_withdrawn_entry_leaves_and_takes_no_other() {
        let ids = [1, 2, 3].map(|n| DecisionId::mint(Moment::from_millis(n)));
        let entries = ids.map(|id| ROW.entry_of(id));
        let mut all = Entries::default();
        for entry in &entries {
            all.push(|out| out.extend_from_slice(entry));
        }
        // An event that names a decision is not its entry.
        let event = Event {
            id: DecisionId::mint(Moment::from_millis(4)).octets(),
            kind: EventKind::AnsweredLogFailed { decision: ids[1].octets() },
        };
        all.push(|out| event.encode(out));
        assert_eq!(all.len(), 4);
        for (id, left) in [(1, vec![0, 2]), (2, vec![0]), (0, vec![])] {
            assert!(all.withdraw(ids[id]));
            assert!(!all.withdraw(ids[id]), "once");
            let kept: Vec<&[u8]> = all.iter().collect();
            let (last, kept) = kept.split_last().unwrap();
            assert_eq!(kept, left.iter().map(|&at: &usize| &*entries[at]).collect::<Vec<_>>());
            assert_eq!(crawlgate_record::id_of(last), Some(&event.id));
            assert_eq!(all.len(), left.len() + 1);
            assert_eq!(all.octets(), all.iter().map(|entry| entry.len() + 2).sum::<usize>());
        }
    }
}
