//! A bounded cache of ready TLS configurations, one per host.
//!
//! Crawlers name the hosts, so nothing else bounds their number. A full cache drops the oldest entry without use
//! since its last inspection (the CLOCK approximation of least recently used): a hit then costs a look-up and, at most,
//! the setting of one flag.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use dashmap::{DashMap, Entry};
use parking_lot::Mutex;
use rustls::ServerConfig;

use crawlgate_system::clock::Moment;

pub(super) struct Cache {
    hosts: DashMap<Arc<str>, Ready>,
    /// The same hosts, the next one to inspect in front.
    queue: Mutex<VecDeque<Arc<str>>>,
    capacity: usize,
}

struct Ready {
    config: Arc<ServerConfig>,
    validity: Validity,
    used: AtomicBool,
}

/// The time in which a configuration may be used.
#[derive(Debug, Clone, Copy)]
pub(super) struct Validity {
    /// Start of the certificate's validity. The clock may have been ahead when it was made.
    pub(super) from: Moment,
    /// Time from which a newer one is needed.
    pub(super) renew_at: Moment,
}

impl Validity {
    fn holds(self, now: Moment) -> bool {
        self.from <= now && now < self.renew_at
    }
}

impl Cache {
    pub(super) fn new(capacity: usize) -> Self {
        Self { hosts: DashMap::new(), queue: Mutex::default(), capacity: capacity.max(1) }
    }

    /// Returns the configuration for `host`, if there is one that needs no renewal.
    pub(super) fn get(&self, host: &str, now: Moment) -> Option<Arc<ServerConfig>> {
        let ready = self.hosts.get(host)?;
        if !ready.validity.holds(now) {
            return None;
        }
        // Read first: cores that serve the same host then share the cache line instead of passing it around.
        if !ready.used.load(Ordering::Relaxed) {
            ready.used.store(true, Ordering::Relaxed);
        }
        Some(Arc::clone(&ready.config))
    }

    /// Keeps `config` for `host` and returns the kept one: if two threads made one at the same time, both get the
    /// first's.
    pub(super) fn insert(
        &self,
        host: &str,
        config: Arc<ServerConfig>,
        validity: Validity,
        now: Moment,
    ) -> Arc<ServerConfig> {
        let host: Arc<str> = host.into();
        let ready = Ready { config: Arc::clone(&config), validity, used: AtomicBool::new(false) };
        match self.hosts.entry(Arc::clone(&host)) {
            Entry::Occupied(kept) if kept.get().validity.holds(now) => {
                return Arc::clone(&kept.get().config);
            }
            Entry::Occupied(mut kept) => {
                kept.insert(ready);
                return config;
            }
            Entry::Vacant(place) => {
                place.insert(ready);
            }
        }
        self.enqueue(host);
        config
    }

    /// Puts a new host at the end of the queue and makes room if there are too many.
    fn enqueue(&self, host: Arc<str>) {
        let mut queue = self.queue.lock();
        queue.push_back(host);
        // One round clears every flag, so the second round ends at the first host.
        let mut looks = queue.len() * 2;
        while queue.len() > self.capacity
            && looks > 0
            && let Some(oldest) = queue.pop_front()
        {
            looks -= 1;
            let spent = self
                .hosts
                .remove_if(&oldest, |_, ready| !ready.used.swap(false, Ordering::Relaxed));
            if spent.is_none() {
                queue.push_back(oldest);
            }
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.hosts.len()
    }
}
