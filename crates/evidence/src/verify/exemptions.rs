//! Exemptions against the log: a record says that its client was exempt, and the settings in force then name the exempt
//! clients.
//!
//! Each process records its settings when they come into force, before the first request that it judges by them. Requests
//! that are judged meanwhile may still rest on the settings before. The clock may be set back, and retention drops old
//! settings: where one of these may explain a record, the log is not blamed for it.

use std::collections::HashMap;

use crawlgate_record::{Entry, EventKind, Text};
use crawlgate_store::{DecisionQuery, Store, StoreError, StoredDecision};

/// Milliseconds for which settings may still count after later ones were recorded.
const OVERLAP: u64 = 10_000;

/// Events to read at once.
const PAGE: usize = 1_000;

/// The log's answer about an exemption.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExemptionStatus {
    /// The settings in force name the client, with the same reason.
    Exempt,
    /// They do not, and no others can have been in force.
    NotExempt,
    /// The log does not tell.
    Unknown,
}

/// The exempt clients of all settings in a log, read when they are needed first.
#[derive(Debug, Default)]
pub(super) struct Exemptions {
    /// Settings by the number of their process, in the order of the log.
    all: HashMap<u64, Vec<Settings>>,
    /// Number of entries that were read.
    read: u64,
}

/// Exempt clients from a time on.
#[derive(Debug)]
struct Settings {
    /// The number of their entry.
    seq: u64,
    /// The time, in milliseconds since the epoch.
    from: u64,
    /// Names with the operator's reasons, each with the number of octets cut off.
    clients: Vec<(String, u64)>,
    /// True if further ones are left out.
    is_cut: bool,
}

impl Exemptions {
    /// Returns what the log says of the exemption that a decision has.
    pub(super) async fn standing(
        &mut self,
        store: &Store,
        decision: &StoredDecision,
    ) -> Result<ExemptionStatus, StoreError> {
        let Ok(Entry::Decision(entry)) = Entry::read(&decision.entry) else {
            return Ok(ExemptionStatus::Unknown);
        };
        let (Some(exempt), Some(name)) = (entry.exempt, entry.client_name) else {
            return Ok(ExemptionStatus::NotExempt);
        };
        if decision.seq > self.read {
            self.read_on(store).await?;
        }
        let client = format!("{}: {}", name.kept, exempt.reason);
        let decided = entry.time().saturating_add_signed(entry.decided_after);
        let of_process = self.all.get(&process_of(&entry.id));
        let recorded = of_process.map_or(&[][..], Vec::as_slice);
        let before = recorded.partition_point(|settings| settings.seq < decision.seq);
        let recorded = recorded.get(..before).unwrap_or_default();
        Ok(standing(recorded, decided, &client))
    }

    /// Reads the settings behind those that are known.
    async fn read_on(&mut self, store: &Store) -> Result<(), StoreError> {
        let end = store.extent().await?.size;
        let mut after = self.read;
        loop {
            let query = DecisionQuery {
                after: Some(after),
                to: Some(end),
                limit: PAGE,
                ..DecisionQuery::default()
            };
            let page = store.events(query).await?;
            for event in &page {
                self.add(event.seq, &event.entry);
                after = event.seq;
            }
            if page.len() < PAGE {
                break;
            }
        }
        self.read = end;
        Ok(())
    }

    fn add(&mut self, seq: u64, octets: &[u8]) {
        let Ok(Entry::Event(event)) = Entry::read(octets) else {
            return;
        };
        let EventKind::Settings(settings) = event.kind else {
            return;
        };
        let clients = settings.exempt_clients;
        let text = |client: Text<'_>| (client.kept.to_owned(), client.cut);
        let of_process = self.all.entry(process_of(&event.id)).or_default();
        of_process.push(Settings {
            seq,
            from: event.time(),
            clients: clients.iter().map(text).collect(),
            is_cut: clients.more() > 0,
        });
    }
}

/// Returns the number of the process that has made an identifier.
fn process_of(id: &[u8; 16]) -> u64 {
    (u128::from_be_bytes(*id) as u64) & ((1 << 48) - 1)
}

/// Judges by the settings that one process recorded before a decision whether a client was exempt at a time.
fn standing(recorded: &[Settings], decided: u64, client: &str) -> ExemptionStatus {
    for settings in recorded.iter().rev() {
        if settings.from <= decided && settings.names(client) {
            return ExemptionStatus::Exempt;
        }
        if settings.from.saturating_add(OVERLAP) <= decided {
            // Settings with a later time were in force then only if the clock was set back.
            let mut others = recorded.iter().filter(|one| one.from >= settings.from);
            return if others.any(|one| one.is_cut || one.names(client)) {
                ExemptionStatus::Unknown
            } else {
                ExemptionStatus::NotExempt
            };
        }
    }
    ExemptionStatus::Unknown
}

impl Settings {
    fn names(&self, client: &str) -> bool {
        let is_it = |(kept, cut): &(String, u64)| {
            let rest = client.strip_prefix(kept.as_str());
            rest.is_some_and(|rest| rest.len() as u64 == *cut)
        };
        self.clients.iter().any(is_it)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crawlgate_record::{self as entry, Bounds, Event, Exempt, Mode, Texts};
    use crawlgate_store::Batch;
    use crawlgate_store::Store;
    use crawlgate_store::samples::{NOON, ROW};
    use crawlgate_system::clock::Moment;
    use crawlgate_text::DecisionId;

    const HELPER: &str = "helper: a person asks";

    fn settings(from: u64, clients: &[(&str, u64)], is_cut: bool) -> Settings {
        let clients = clients.iter();
        Settings {
            seq: 0,
            from,
            clients: clients.map(|(text, cut)| ((*text).to_owned(), *cut)).collect(),
            is_cut,
        }
    }

    #[test]
    fn the_settings_in_force_decide_and_those_just_before() {
        let with = |from| settings(from, &[("other: x", 0), (HELPER, 0)], false);
        let without = |from| settings(from, &[], false);
        let late = 50_000;
        #[rustfmt::skip] // one row, one case
        let cases = [
            ("no settings", vec![], ExemptionStatus::Unknown),
            ("later settings alone", vec![with(late + 1)], ExemptionStatus::Unknown),
            ("exempt", vec![with(0)], ExemptionStatus::Exempt),
            ("exempt in the same millisecond", vec![with(late)], ExemptionStatus::Exempt),
            ("never exempt", vec![without(0)], ExemptionStatus::NotExempt),
            ("exempt later, or the clock was set back", vec![without(0), with(late + 1)], ExemptionStatus::Unknown),
            ("the clock was set back since", vec![with(late + 1), without(0)], ExemptionStatus::Unknown),
            ("older settings may be dropped", vec![without(late - OVERLAP + 1)], ExemptionStatus::Unknown),
            ("no longer", vec![with(0), without(late - OVERLAP)], ExemptionStatus::NotExempt),
            ("a reload at that time", vec![with(0), without(late - OVERLAP + 1)], ExemptionStatus::Exempt),
            ("two reloads at that time", vec![with(0), without(late - 9), without(late - 1)], ExemptionStatus::Exempt),
            ("another reason", vec![settings(0, &[("helper: x", 0)], false)], ExemptionStatus::NotExempt),
            ("a longer reason", vec![settings(0, &[("helper: a person asks for more", 0)], false)], ExemptionStatus::NotExempt),
            ("a reason that is cut", vec![settings(0, &[("helper: a per", 8)], false)], ExemptionStatus::Exempt),
            ("another reason that is cut", vec![settings(0, &[("helper: a per", 9)], false)], ExemptionStatus::NotExempt),
            ("a list that is cut", vec![settings(0, &[], true)], ExemptionStatus::Unknown),
            ("a later list that is cut", vec![without(0), settings(late - 1, &[], true)], ExemptionStatus::Unknown),
        ];
        for (name, all, want) in cases {
            assert_eq!(standing(&all, late, HELPER), want, "{name}");
        }
    }

    /// An identifier of this time, of another process if so wanted.
    fn id(time: Moment, is_other: bool) -> [u8; 16] {
        let mut id = DecisionId::mint(time).octets();
        id[15] ^= u8::from(is_other);
        id
    }

    #[tokio::test]
    async fn a_log_is_read_as_far_as_it_goes() {
        let store = Store::temporary();
        let mut exemptions = Exemptions::default();
        let written = async |entry: Vec<u8>| {
            let mut batch = Batch::default();
            batch.entries.push(|out| out.extend_from_slice(&entry));
            store.write(batch).await.unwrap();
            store.records(0, 100).await.unwrap().pop().unwrap()
        };
        // In force for long.
        let before = Moment::from_millis(NOON.as_millis() - OVERLAP);
        let event = |clients: &[&str], is_other| {
            let mut entry = Vec::new();
            let kind = EventKind::Settings(entry::Settings {
                policy: &[7; 32],
                mode: Mode::Enforce,
                report_origins: Texts::default(),
                report_clients: Texts::default(),
                exempt_clients: clients.into(),
            });
            let id = id(before, is_other);
            Event { id, kind }.encode(&mut entry);
            entry
        };
        let decision = |reason: Option<&'static str>, is_other| {
            let octets = ROW.entry_of(DecisionId::mint(NOON));
            let Ok(Entry::Decision(mut decision)) = Entry::read(&octets) else {
                panic!("no decision");
            };
            decision.id = id(NOON, is_other);
            decision.exempt = reason.map(|reason| Exempt { from: "robots_disallow", reason });
            let mut entry = Vec::new();
            decision.encode(Bounds::CLIENTS, &mut entry);
            entry
        };
        let early = written(decision(Some("a person asks"), false)).await;
        let standing = exemptions.standing(&store, &early).await.unwrap();
        assert_eq!(standing, ExemptionStatus::Unknown);
        written(event(&["crawler-7: a person asks"], false)).await;
        written(event(&[], true)).await;
        for (reason, is_other, want) in [
            (Some("a person asks"), false, ExemptionStatus::Exempt),
            (Some("nothing"), false, ExemptionStatus::NotExempt),
            (Some("a person asks"), true, ExemptionStatus::NotExempt),
            (None, false, ExemptionStatus::NotExempt),
        ] {
            let one = written(decision(reason, is_other)).await;
            let found = exemptions.standing(&store, &one).await.unwrap();
            assert_eq!(found, want, "{reason:?} {is_other}");
        }
        // Settings that come into force later say nothing of an earlier decision, also where the clock was set back.
        let one = written(decision(Some("nothing"), false)).await;
        written(event(&["crawler-7: nothing"], false)).await;
        let found = exemptions.standing(&store, &one).await.unwrap();
        assert_eq!(found, ExemptionStatus::NotExempt);
    }
}
