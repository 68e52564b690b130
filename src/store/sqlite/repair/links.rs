//! Links of the chain that do not fit, and those that the rest of the chain proves.
//!
//! A damaged link can be computed: it follows from the link before it and its record, and the links after it, or a
//! seal, confirm it.

use std::collections::HashMap;

use rusqlite::Connection;

use super::super::error::Failure;
use super::super::gaps;
use super::super::rows::{self, integer, number};
use crate::store::{Sha256, chain};

/// Decisions in a row that later links may prove yet.
const MOST: usize = 10_000;

/// A decision with a link that does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Doubt {
    /// The chain or a seal proves that the link was another.
    Link { seq: u64, proven: Sha256 },
    /// The link is unreadable, and nothing proves one.
    Unreadable { seq: u64 },
    /// The record, the link or the place was altered.
    Altered { seq: u64 },
}

impl Doubt {
    /// Tells whether the doubt says that the link of this decision is damaged.
    pub(super) fn is_of_link(self, decision: u64) -> bool {
        matches!(self, Self::Link { seq, .. } | Self::Unreadable { seq } if seq == decision)
    }
}

/// A decision that later links may prove yet.
struct Open {
    seq: u64,
    /// The link, computed from the one before it.
    computed: Sha256,
    /// The stored link, if it is readable.
    stored: Option<Sha256>,
}

#[derive(Default)]
struct LinkCheck {
    /// The last decision, and the link from which the next one follows.
    before: Option<(u64, Sha256)>,
    open: Vec<Open>,
    doubts: Vec<Doubt>,
}

/// Walks the chain from the decision `from` on.
pub(super) fn doubts(connection: &Connection, from: u64) -> Result<Vec<Doubt>, Failure> {
    let seals = sealed(connection)?;
    let gaps = gaps::between(connection, from, u64::MAX)?;
    let mut check = LinkCheck::default();
    let mut statement = connection
        .prepare("SELECT seq, record, hash FROM decision WHERE seq >= ?1 ORDER BY seq")?;
    let mut rows = statement.query([integer(from)])?;
    while let Some(row) = rows.next()? {
        let seq = number(row.get(0)?);
        let record = row.get_ref(1)?.as_bytes().unwrap_or_default();
        let stored = row.get_ref(2)?.as_blob().unwrap_or_default();
        let before = match check.before {
            Some((last, link)) if last + 1 == seq => Some(link),
            _ => {
                check.give_up();
                // Decisions lost to damage have left no link.
                let gap = gaps.iter().find(|gap| gap.last + 1 == seq);
                let dropped = gap.filter(|gap| gap.proof.is_some());
                let first = (seq == 1).then_some(chain::GENESIS);
                dropped.map(|gap| gap.after).or(first)
            }
        };
        let sealed = seals.get(&seq).copied();
        check.step(seq, before, record, stored.try_into().ok(), sealed);
    }
    check.give_up();
    Ok(check.doubts)
}

/// Returns the links that genuine seals name.
fn sealed(connection: &Connection) -> Result<HashMap<u64, Sha256>, Failure> {
    let mut statement = connection.prepare("SELECT * FROM seal")?;
    let seals = statement.query_and_then([], rows::seal)?;
    let genuine = seals.flatten().filter(chain::Seal::is_genuine);
    Ok(genuine.map(|seal| (seal.seq, seal.hash)).collect())
}

impl LinkCheck {
    fn step(
        &mut self,
        seq: u64,
        before: Option<Sha256>,
        record: &[u8],
        stored: Option<Sha256>,
        sealed: Option<Sha256>,
    ) {
        let Some(before) = before else {
            if stored.is_none() {
                self.doubts.push(Doubt::Unreadable { seq });
            }
            self.before = stored.map(|link| (seq, link));
            return;
        };
        let computed = chain::link(&before, record);
        if stored == Some(computed) || sealed == Some(computed) {
            if stored != Some(computed) {
                self.open.push(Open {
                    seq,
                    computed,
                    stored,
                });
            }
            let proven = self.open.drain(..).map(|open| Doubt::Link {
                seq: open.seq,
                proven: open.computed,
            });
            self.doubts.extend(proven);
            self.before = Some((seq, computed));
            return;
        }
        // The chain may go on from the stored link: then the link is right, and the record is not.
        let goes_on = self.open.last().and_then(|last| last.stored);
        let goes_on = goes_on.map(|link| chain::link(&link, record));
        if goes_on.is_some() && goes_on == stored {
            self.give_up();
            self.before = stored.map(|link| (seq, link));
            return;
        }
        self.open.push(Open {
            seq,
            computed,
            stored,
        });
        self.before = Some((seq, computed));
        if self.open.len() > MOST {
            self.give_up();
            self.before = stored.map(|link| (seq, link));
        }
    }

    /// Settles the open decisions as unproven.
    fn give_up(&mut self) {
        let mut is_known = true;
        for Open { seq, stored, .. } in self.open.drain(..) {
            match stored {
                None => self.doubts.push(Doubt::Unreadable { seq }),
                Some(_) if is_known => self.doubts.push(Doubt::Altered { seq }),
                // The link before it is unknown.
                Some(_) => {}
            }
            is_known = stored.is_some();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_proven_by_those_around_it() {
        let records = ["a", "b", "c", "d", "e"];
        let mut whole = Vec::new();
        let mut head = chain::GENESIS;
        for record in records {
            head = chain::link(&head, record.as_bytes());
            whole.push((record, Some(head)));
        }
        let proven = |seq: usize| Doubt::Link {
            seq: seq as u64,
            proven: whole[seq - 1].1.unwrap(),
        };
        type Damage = fn(&mut [(&str, Option<Sha256>)]);
        let cases: [(&str, Damage, bool, Vec<Doubt>); 9] = [
            ("none", |_| (), false, vec![]),
            (
                "a link",
                |all| all[1].1 = Some([7; 32]),
                false,
                vec![proven(2)],
            ),
            (
                "an unreadable link",
                |all| all[1].1 = None,
                false,
                vec![proven(2)],
            ),
            (
                "two in a row",
                |all| (all[1].1, all[2].1) = (None, Some([7; 32])),
                false,
                vec![proven(2), proven(3)],
            ),
            ("the first", |all| all[0].1 = None, false, vec![proven(1)]),
            (
                "the last, unsealed",
                |all| all[4].1 = None,
                false,
                vec![Doubt::Unreadable { seq: 5 }],
            ),
            (
                "the last, sealed",
                |all| all[4].1 = None,
                true,
                vec![proven(5)],
            ),
            (
                "a record",
                |all| all[1].0 = "B",
                true,
                vec![Doubt::Altered { seq: 2 }],
            ),
            (
                "a record and its link",
                |all| all[1] = ("B", None),
                true,
                vec![Doubt::Unreadable { seq: 2 }],
            ),
        ];
        for (name, damage, is_sealed, want) in cases {
            let mut all = whole.clone();
            damage(&mut all);
            let mut check = LinkCheck::default();
            for (at, (record, stored)) in all.iter().enumerate() {
                let before = check.before.map_or(chain::GENESIS, |(_, link)| link);
                let sealed = (is_sealed && at == 4).then_some(head);
                check.step(
                    at as u64 + 1,
                    Some(before),
                    record.as_bytes(),
                    *stored,
                    sealed,
                );
            }
            check.give_up();
            assert_eq!(check.doubts, want, "{name}");
        }
    }
}
