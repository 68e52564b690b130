//! The slots of requests in flight that the engine of a fleet bounds (`[pace] concurrency`).
//!
//! A slot expires in the engine, so that an instance that is killed leaves none behind. Until its request ends, it is
//! renewed; then it is released, and nothing waits for that.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::Notify;

use crate::fleet::Fleet;
use crate::fleet::reservation::SLOT_RENEWAL;
use crawlgate_system::clock::Uptime;

/// The origin of a limiter, as the fleet knows it.
#[derive(Debug)]
pub(super) struct FleetOrigin {
    pub(super) origin: Arc<str>,
    /// True if a slot has become free since the last look.
    has_room: AtomicBool,
    room: Notify,
}

/// All slots of this instance.
#[derive(Debug)]
pub(super) struct SlotKeeper {
    fleet: Arc<Fleet>,
    count: AtomicU64,
    /// The origins by slot.
    taken: Mutex<HashMap<String, Arc<str>>>,
    renewed: Mutex<Uptime>,
}

/// A slot in the engine, released when it is dropped.
#[derive(Debug)]
pub(super) struct Slot {
    keeper: Arc<SlotKeeper>,
    fleet_origin: Arc<FleetOrigin>,
    name: String,
}

impl FleetOrigin {
    pub(super) fn new(origin: Arc<str>) -> FleetOrigin {
        FleetOrigin { origin, has_room: AtomicBool::new(false), room: Notify::new() }
    }

    /// Waits until a slot is free that was not before.
    pub(super) async fn room(&self) {
        while !self.has_room.load(Ordering::Acquire) {
            self.room.notified().await;
        }
    }

    /// Tells whether a slot has become free since the last call.
    pub(super) fn take_room(&self) -> bool {
        self.has_room.swap(false, Ordering::AcqRel)
    }
}

impl SlotKeeper {
    pub(super) fn new(fleet: &Arc<Fleet>) -> SlotKeeper {
        SlotKeeper {
            fleet: Arc::clone(fleet),
            count: AtomicU64::new(0),
            taken: Mutex::default(),
            renewed: Mutex::default(),
        }
    }

    /// Returns new names for slots.
    pub(super) fn names(&self, count: u32) -> Vec<String> {
        let name = |number: u64| format!("{}/{number}", self.fleet.process());
        let first = self.count.fetch_add(u64::from(count), Ordering::Relaxed);
        (first..first.saturating_add(u64::from(count))).map(name).collect()
    }

    /// Returns the slot of this name, which the engine has given.
    pub(super) fn slot(self: &Arc<Self>, fleet_origin: &Arc<FleetOrigin>, name: String) -> Slot {
        let origin = Arc::clone(&fleet_origin.origin);
        self.taken.lock().insert(name.clone(), origin);
        Slot { keeper: Arc::clone(self), fleet_origin: Arc::clone(fleet_origin), name }
    }

    /// Renews all slots, if it is time or the engine has lost them.
    pub(super) fn renew(&self, now: Uptime, are_lost: bool) {
        let mut renewed = self.renewed.lock();
        if !are_lost && now.since(*renewed) < SLOT_RENEWAL {
            return;
        }
        *renewed = now;
        drop(renewed);
        let mut by_origin: HashMap<Arc<str>, Vec<String>> = HashMap::new();
        for (name, origin) in &*self.taken.lock() {
            let names = by_origin.entry(Arc::clone(origin)).or_default();
            names.push(name.clone());
        }
        if by_origin.is_empty() {
            return;
        }
        let fleet = Arc::clone(&self.fleet);
        tokio::spawn(async move {
            for (origin, names) in by_origin {
                // The next renewal comes long before they expire.
                let _ = fleet.coordinator().renew_slots(&origin, &names).await;
            }
        });
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.keeper.taken.lock().remove(&self.name);
        // Without a runtime the process ends, and the slot expires.
        let Ok(runtime) = Handle::try_current() else {
            return;
        };
        let (fleet, fleet_origin) =
            (Arc::clone(&self.keeper.fleet), Arc::clone(&self.fleet_origin));
        let name = std::mem::take(&mut self.name);
        runtime.spawn(async move {
            // A slot that is not released expires.
            let _ = fleet.coordinator().release_slot(&fleet_origin.origin, &name).await;
            fleet_origin.has_room.store(true, Ordering::Release);
            fleet_origin.room.notify_one();
        });
    }
}
