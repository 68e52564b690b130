//! The data that is written at once.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use super::Sha256;
use super::origins::Fetch;
use crate::client::ClientKey;
use crate::clock::Moment;
use crate::entry::is_strange;
use crate::rep::Origin;
use crate::robots::state::State;
use crate::text::DecisionId;

/// Data written at once.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    /// Updates of origins, in order.
    pub landings: Vec<OriginUpdate>,
    /// Settings that records of this batch name for the first time: digest and text.
    pub policies: Vec<(Arc<str>, Arc<str>)>,
    /// Records as lines, each a JSON object and a line feed, as [`crate::audit::Record::write_line`] writes them.
    pub lines: Vec<u8>,
    /// A summary of each line, in their order, by the writer of the lines. If their numbers differ, the store reads the
    /// lines.
    pub notes: Vec<RecordSummary>,
}

impl Batch {
    /// Takes the line of a record, with its summary, out again. False if the line is not in this batch.
    pub fn withdraw(&mut self, id: DecisionId) -> bool {
        let id = format!("\"id\":\"{id}\"");
        let Some(at) = memchr::memmem::find(&self.lines, id.as_bytes()) else {
            return false;
        };
        let (before, behind) = self.lines.split_at(at);
        let start = memchr::memrchr(b'\n', before).map_or(0, |end| end + 1);
        let end = memchr::memchr(b'\n', behind).map_or(self.lines.len(), |end| at + end + 1);
        let place = memchr::memchr_iter(b'\n', before).count();
        self.lines.drain(start..end);
        if place < self.notes.len() {
            self.notes.remove(place);
        }
        true
    }
}

/// The facts by which the store files a record, known without reading the record again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordSummary {
    /// Time of the record.
    pub time: Moment,
    /// The party that pays for the room of the record.
    pub party: Party,
    /// The kind of decision that its hour counts; `None` for a line that counts no decision.
    pub kind: Option<DecisionKind>,
    /// Number of decisions that the record covers.
    pub count: u64,
    /// Digest of the robots.txt behind the decision.
    pub sha256: Option<Sha256>,
}

/// A party that takes room with its records. Each has a share that others cannot take.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Party {
    /// A client, or an address without one.
    Client(ClientKey),
    /// All requests without an identified client, together: their number has no bound.
    Strangers,
    /// crawlgate itself, for lines about its own work.
    Own,
}

impl Party {
    /// Returns the party of a decision for this reason, on a request from `address`, by the named client if there is
    /// one.
    #[must_use]
    pub fn of(name: Option<&str>, address: IpAddr, reason: &str) -> Party {
        if is_strange(reason) {
            return Party::Strangers;
        }
        Party::Client(match name {
            Some(name) => ClientKey::Named(name.into()),
            None => ClientKey::at(address),
        })
    }
}

impl fmt::Display for Party {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(ClientKey::Named(name)) => write!(f, "client {name}"),
            Self::Client(ClientKey::At(address)) => write!(f, "address {address}"),
            Self::Strangers => f.write_str("unknown clients"),
            Self::Own => f.write_str("crawlgate"),
        }
    }
}

/// The traits by which hours count decisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecisionKind {
    /// `enforce` or `report`.
    pub mode: &'static str,
    /// `allow`, `deny` or `defer`.
    pub verdict: &'static str,
    /// The reason code.
    pub reason: &'static str,
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

    #[test]
    fn a_withdrawn_record_leaves_with_its_summary_and_takes_no_other() {
        let ids = [1, 2, 3].map(|n| DecisionId::mint(Moment::from_millis(n)));
        let line = |id: &DecisionId| format!("{{\"time\":\"x\",\"id\":\"{id}\"}}\n");
        let note = |count| RecordSummary {
            time: Moment::default(),
            party: Party::Own,
            kind: None,
            count,
            sha256: None,
        };
        let mut batch = Batch {
            lines: ids.iter().map(line).collect::<String>().into_bytes(),
            notes: [1, 2, 3].map(note).to_vec(),
            ..Batch::default()
        };
        for (id, left) in [(1, vec![0, 2]), (2, vec![0]), (0, vec![])] {
            assert!(batch.withdraw(ids[id]));
            assert!(!batch.withdraw(ids[id]), "once");
            let lines: String = left.iter().map(|&at: &usize| line(&ids[at])).collect();
            assert_eq!(batch.lines, lines.into_bytes());
            let notes: Vec<_> = left.iter().map(|&at| note(at as u64 + 1)).collect();
            assert_eq!(batch.notes, notes);
        }
    }
}
