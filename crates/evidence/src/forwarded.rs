//! Counts of requests that were forwarded without a record, by client.
//!
//! They become one entry for each hour, and one at the end. A request costs a look into a fixed table and an addition;
//! it allocates nothing. A client that finds no place in the table is only part of the sum.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use parking_lot::Mutex;

use crawlgate_record::{EventKind, Row, RowClient};
use crawlgate_store::HOUR;
use crawlgate_system::clock::Moment;
use crawlgate_turns::client::{ClientKey, network_of};

/// Clients with counts of their own: as many rows as an entry has.
const SLOTS: usize = 1_000;

/// Slots that a client may take, one after the other.
const TRIES: usize = 16;

/// The counts.
#[derive(Debug)]
pub(super) struct Forwarded {
    present: ArcSwap<Table>,
    hasher: ahash::RandomState,
    reader: Mutex<ReaderState>,
}

/// The state of the reader of the counts.
#[derive(Debug, Default)]
struct ReaderState {
    /// The hour that is counted, from the epoch; zero before the first look.
    hour: u64,
    /// Earlier tables: a request that found one may still count there.
    before: Vec<Arc<Table>>,
}

#[derive(Debug)]
struct Table {
    slots: Box<[ClientSlot]>,
    others: Count,
}

/// A client's slot.
#[derive(Debug, Default)]
struct ClientSlot {
    client: OnceLock<ClientKey>,
    count: Count,
}

#[derive(Debug, Default)]
struct Count {
    number: AtomicU64,
    /// Times of the first and of the last request, in milliseconds; zero without one.
    first: AtomicU64,
    last: AtomicU64,
}

/// The counts of a span of time.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Sum {
    count: u64,
    first: u64,
    last: u64,
    /// Most frequent first; of two with one count, the first by name or address.
    rows: Vec<(ClientKey, u64)>,
}

impl Default for Forwarded {
    fn default() -> Self {
        Self {
            present: ArcSwap::from_pointee(Table::new()),
            hasher: ahash::RandomState::new(),
            reader: Mutex::default(),
        }
    }
}

impl Forwarded {
    /// Counts a request of the client with this name, or of the unnamed one at this address.
    pub(super) fn count(&self, name: Option<&Arc<str>>, address: IpAddr, time: Moment) {
        let (hash, network) = match name {
            Some(name) => (self.hasher.hash_one(&**name), None),
            None => {
                let network = network_of(address);
                (self.hasher.hash_one(network), Some(network))
            }
        };
        let is_it = |key: &ClientKey| match (key, name) {
            (ClientKey::Named(known), Some(name)) => known == name,
            (ClientKey::At(known), None) => Some(*known) == network,
            _ => false,
        };
        let table = self.present.load();
        let start = hash as usize % SLOTS;
        let slots = (start..start + TRIES).filter_map(|at| table.slots.get(at % SLOTS));
        for slot in slots {
            let key = slot.client.get_or_init(|| match name {
                Some(name) => ClientKey::Named(Arc::clone(name)),
                None => ClientKey::at(address),
            });
            if is_it(key) {
                return slot.count.add(time);
            }
        }
        table.others.add(time);
    }

    /// Returns the counts of the hour that is over, or all of them; `None` if there are none to tell.
    pub(super) fn take(&self, now: Moment, all: bool) -> Option<Sum> {
        let hour = now.as_millis() / u64::try_from(HOUR.as_millis()).unwrap_or(1);
        let mut reader = self.reader.lock();
        let is_over = std::mem::replace(&mut reader.hour, hour) != hour;
        if !is_over && !all {
            return None;
        }
        let mut sum = Sum::default();
        let table = self.present.swap(Arc::new(Table::new()));
        reader.before.push(table);
        reader.before.retain_mut(|table| {
            // Asked first: once no request has the table, none can find it again.
            let is_final = Arc::get_mut(table).is_some();
            sum.add(table);
            !is_final
        });
        sum.rows.sort_by(|(a, more), (b, less)| less.cmp(more).then_with(|| a.cmp(b)));
        (sum.count > 0).then_some(sum)
    }
}

impl Table {
    fn new() -> Self {
        let slots = (0..SLOTS).map(|_| ClientSlot::default());
        Self { slots: slots.collect(), others: Count::default() }
    }
}

impl Count {
    fn add(&self, time: Moment) {
        let time = time.as_millis();
        self.number.fetch_add(1, Ordering::Relaxed);
        if self.first.load(Ordering::Relaxed) == 0 {
            self.first.store(time, Ordering::Relaxed);
        }
        if self.last.load(Ordering::Relaxed) < time {
            self.last.store(time, Ordering::Relaxed);
        }
    }
}

impl Sum {
    fn add(&mut self, table: &Table) {
        self.take(&table.others);
        for slot in &table.slots {
            let count = self.take(&slot.count);
            let Some(client) = slot.client.get().filter(|_| count > 0) else {
                continue;
            };
            match self.rows.iter_mut().find(|(known, _)| known == client) {
                Some((_, known)) => *known += count,
                None => self.rows.push((client.clone(), count)),
            }
        }
    }

    /// Adds a count that ends with that, and returns it.
    fn take(&mut self, count: &Count) -> u64 {
        let number = count.number.swap(0, Ordering::Relaxed);
        let (first, last) = (&count.first, &count.last);
        let (first, last) = (first.load(Ordering::Relaxed), last.load(Ordering::Relaxed));
        if number > 0 {
            self.first = match self.count {
                0 => first,
                _ => self.first.min(first),
            };
            self.last = self.last.max(last);
            self.count += number;
        }
        number
    }

    /// Gives `tell` the event.
    pub(super) fn tell(&self, tell: impl FnOnce(EventKind<'_>)) {
        let rows = self.rows.iter().map(|(client, count)| Row {
            client: match client {
                ClientKey::Named(name) => RowClient::Named((&**name).into()),
                ClientKey::At(address) => RowClient::At(*address),
            },
            count: *count,
        });
        let rows: Vec<_> = rows.collect();
        tell(EventKind::Forwarded {
            count: self.count,
            first: self.first,
            last: self.last,
            rows: (&*rows).into(),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: Moment = Moment::from_millis(1_795_176_000_000);

    fn address(n: u32) -> IpAddr {
        (0x0a00_0000 + n).to_be_bytes().into()
    }

    #[test]
    fn requests_are_counted_by_client_and_told_once_an_hour_and_at_the_end() {
        let forwarded = Forwarded::default();
        let name: Arc<str> = "news".into();
        assert_eq!(forwarded.take(NOON, false), None, "nothing came");
        for n in 0..3 {
            let time = NOON + HOUR / 10 * n;
            forwarded.count(Some(&name), address(n), time);
        }
        forwarded.count(None, address(1), NOON + HOUR / 2);
        assert_eq!(forwarded.take(NOON + HOUR / 2, false), None, "not yet");
        let sum = forwarded.take(NOON + HOUR, false).unwrap();
        let want = Sum {
            count: 4,
            first: NOON.as_millis(),
            last: (NOON + HOUR / 2).as_millis(),
            rows: vec![(ClientKey::Named(name), 3), (ClientKey::At(address(1)), 1)],
        };
        assert_eq!(sum, want);
        sum.tell(|event| {
            let EventKind::Forwarded { count, rows, .. } = event else {
                panic!("{event:?}");
            };
            assert_eq!(count, rows.iter().map(|row| row.count).sum::<u64>());
        });
        forwarded.count(None, address(1), NOON + HOUR);
        assert_eq!(forwarded.take(NOON + HOUR, false), None);
        let rest = forwarded.take(NOON + HOUR, true).unwrap();
        assert_eq!((rest.count, rest.first), (1, (NOON + HOUR).as_millis()));
        assert_eq!(forwarded.take(NOON + HOUR * 2, true), None, "told");
    }

    #[test]
    fn clients_without_a_place_are_part_of_the_sum() {
        let forwarded = Forwarded::default();
        for n in 0..5_000 {
            forwarded.count(None, address(n), NOON);
            forwarded.count(None, address(0), NOON);
        }
        let sum = forwarded.take(NOON, true).unwrap();
        assert_eq!(sum.count, 10_000);
        assert!(sum.rows.len() <= SLOTS, "{}", sum.rows.len());
        assert_eq!(sum.rows.first(), Some(&(ClientKey::At(address(0)), 5_001)));
    }

    #[test]
    fn no_count_is_lost_while_it_is_told() {
        let forwarded = Forwarded::default();
        let taken = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for n in 0..2 {
                let forwarded = &forwarded;
                scope.spawn(move || {
                    for _ in 0..50_000 {
                        forwarded.count(None, address(n), NOON);
                    }
                });
            }
            for n in 0..200 {
                let sum = forwarded.take(NOON + HOUR * n, false);
                taken.fetch_add(sum.map_or(0, |sum| sum.count), Ordering::Relaxed);
            }
        });
        let rest = forwarded.take(NOON, true).map_or(0, |sum| sum.count);
        assert_eq!(taken.into_inner() + rest, 100_000);
    }
}
