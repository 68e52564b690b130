//! Keeps the overrides of a process in force: those of its store, which are those of its fleet, too.
//!
//! In a fleet every instance keeps all overrides in its own store before they are in force, so the engine may lose them
//! all. They are read from the engine when it says that they have changed, when it may have lost some, and when the store
//! has some that the engine may lack. Two sets merge by union, and a removal stays.
//!
//! A heartbeat counts as answered only once its overrides are in force: an instance that cannot keep them is cut off
//! after `[fleet] patience` like one without the engine. So is one that cannot read an override of a newer version, until
//! that one is removed or ends.

mod known;
mod news;
mod reach;

pub use self::news::MessageKind;
pub use self::reach::{LateMember, Reach};

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use self::known::KnownMembers;
use tokio::sync::{Mutex, Notify};
use tokio::time::sleep;
use tracing::{error, info, warn};

use crate::Proxy;
use crawlgate_policy::overrides::{Override, OverrideId};
use crawlgate_store::{FleetOverrides, Removed, Store, StoreError};
use crawlgate_system::clock::Moment;
use crawlgate_text::DecisionId;
use crawlgate_turns::fleet::coordinator::{Call, CoordinatorError};
use crawlgate_turns::fleet::overrides::{NotOpened, Removal, open_added, open_removed, seal};
use crawlgate_turns::fleet::{Fleet, HeartbeatListener, HeartbeatReply};

/// Time until the next attempt when the overrides cannot be read.
const RETRY: Duration = Duration::from_secs(1);

/// Attempts at an engine that has lost what it knew, and the pause before each: heartbeats come more often.
const ATTEMPTS: u32 = 10;
const PAUSE: Duration = Duration::from_millis(100);

/// The person behind a removal that another version wrote.
const OF_ANOTHER_VERSION: &str = "another version of crawlgate";

/// The overrides of a process, kept in step with its store and its fleet.
pub struct OverrideSync {
    proxy: Arc<Proxy>,
    store: Arc<Store>,
    /// Set while the engine may lack an override of the store.
    has_more: AtomicBool,
    loaded: Mutex<LoadedOverrides>,
    members: parking_lot::Mutex<KnownMembers>,
}

/// The overrides in force, by version. Readings of the store take turns at its lock, so the newest one stays.
#[derive(Default)]
struct LoadedOverrides {
    /// The version of the store.
    version: u64,
    /// The generation and the change of the overrides in the engine.
    shared: Option<(u64, u64)>,
    /// An override among them that this version cannot read.
    unread: Option<Unread>,
}

/// An override of another version, which may deny something that this instance would let out.
struct Unread {
    id: String,
    until: Option<Moment>,
}

impl Unread {
    fn is_over(&self, now: Moment) -> bool {
        self.until.is_some_and(|until| until <= now)
    }

    fn error(&self) -> CoordinatorError {
        let id = self.id.escape_debug();
        CoordinatorError::NotKept(
            format!("another version wrote the override {id}, which this one cannot read; give all instances one version, or remove it").into(),
        )
    }
}

impl OverrideSync {
    /// Puts the overrides of the store in force.
    ///
    /// # Errors
    /// When they cannot be read.
    pub async fn start(
        proxy: &Arc<Proxy>,
        store: &Arc<Store>,
    ) -> Result<Arc<OverrideSync>, StoreError> {
        let override_sync = OverrideSync {
            proxy: Arc::clone(proxy),
            store: Arc::clone(store),
            has_more: AtomicBool::new(true),
            loaded: Mutex::default(),
            members: parking_lot::Mutex::default(),
        };
        override_sync.take_over(&mut *override_sync.loaded.lock().await).await?;
        Ok(Arc::new(override_sync))
    }

    /// Adds an override, which is in force here when this resolves, and tells how far it has reached in the fleet.
    ///
    /// # Errors
    /// When it cannot be kept.
    pub async fn add(&self, new: Override) -> Result<(Override, Option<Reach>), StoreError> {
        let Some(fleet) = self.proxy.gate().fleet() else {
            let id = self.store.add_override(new.clone()).await?;
            self.take_over(&mut *self.loaded.lock().await).await?;
            return Ok((Override { id, ..new }, None));
        };
        let new = Override {
            id: OverrideId::Shared(DecisionId::mint(new.created)),
            instance: Some(fleet.name().to_owned()),
            ..new
        };
        self.store.add_override(new.clone()).await?;
        self.take_over(&mut *self.loaded.lock().await).await?;
        let put = put_soon(fleet, &new, None).await;
        Ok((new, Some(self.reach(fleet, put).await)))
    }

    /// Takes an override out of force here, and tells how far that has reached in the fleet. False without an override
    /// with this identifier.
    ///
    /// # Errors
    /// When the removal cannot be kept.
    pub async fn remove(
        &self,
        id: OverrideId,
        by: String,
    ) -> Result<(bool, Option<Reach>), StoreError> {
        let now = self.now();
        let is_removed = self.store.remove_override(id, by, now).await?;
        self.take_over(&mut *self.loaded.lock().await).await?;
        let Some(fleet) = self.proxy.gate().fleet().filter(|_| is_removed) else {
            return Ok((is_removed, None));
        };
        let removed = self.store.removed_overrides().await?;
        let Some(one) = removed.iter().find(|one| one.asserted.id == id) else {
            // It was damaged, so there is nothing to tell others of.
            return Ok((true, None));
        };
        let put = put_soon(fleet, &one.asserted, Some(&removal(one))).await;
        Ok((true, Some(self.reach(fleet, put).await)))
    }

    /// Gives back to the fleet what this process does not use any more, when it ends.
    pub async fn give_back(&self) {
        self.proxy.gate().clients().leave().await;
    }

    /// Takes over what changes in the store, for as long as it is polled. `changed` tells of a change by another process.
    pub async fn follow_store(self: Arc<Self>, changed: Arc<Notify>) {
        let mut fails = false;
        loop {
            let seen = self.loaded.lock().await.version;
            let change = tokio::select! {
                change = self.store.changes(seen) => change.map(drop),
                // Another process has changed them, and says so.
                () = changed.notified() => Ok(()),
            };
            let outcome = match change {
                Ok(()) => self.take_over(&mut *self.loaded.lock().await).await,
                Err(error) => Err(error),
            };
            match outcome {
                Ok(()) => {
                    if std::mem::take(&mut fails) {
                        info!("the overrides can be read again");
                    }
                }
                Err(error) => {
                    if !std::mem::replace(&mut fails, true) {
                        error!("the overrides cannot be read and stay as they were: {error}");
                    }
                    sleep(RETRY).await;
                }
            }
        }
    }

    /// Puts the overrides of the store in force, which another process has changed.
    ///
    /// # Errors
    /// When they cannot be read. Those in force stay.
    pub async fn take_over_now(&self) -> Result<(), StoreError> {
        self.take_over(&mut *self.loaded.lock().await).await
    }

    /// Puts the overrides of the store in force.
    async fn take_over(&self, loaded: &mut LoadedOverrides) -> Result<(), StoreError> {
        let version = self.store.version().await?;
        if version != loaded.version {
            self.has_more.store(true, Ordering::Release);
        }
        self.proxy.gate().set_overrides(self.store.overrides().await?);
        loaded.version = version;
        Ok(())
    }

    /// Merges the overrides of the store and those of the engine, and puts them in force. Returns the change of the engine
    /// that is in force then, and an override that cannot be.
    async fn merge(
        &self,
        fleet: &Fleet,
        loaded: &mut LoadedOverrides,
    ) -> Result<(u64, Option<Unread>), CoordinatorError> {
        let name = fleet.name().to_owned();
        let shared = self.store.share_overrides(name, self.now()).await;
        shared.map_err(not_kept)?;
        let sealed = fleet.coordinator().overrides().await?;
        let mut theirs = FleetOverrides::default();
        let mut unread = None;
        let mut removed_there = HashSet::new();
        let mut removed_unread = Vec::new();
        for (id, octets) in &sealed.removed {
            match open_removed(fleet.key(), id, octets) {
                Ok((asserted, Removal { time, by })) => {
                    removed_there.insert(id);
                    theirs.removed.push(Removed { asserted, time, by });
                }
                Err(NotOpened::NotSealed) => refuse(fleet, id),
                Err(NotOpened::Unread { .. }) => {
                    removed_there.insert(id);
                    let id = DecisionId::from_text(id);
                    removed_unread.extend(id.map(OverrideId::Shared));
                }
            }
        }
        for (id, octets) in &sealed.added {
            match open_added(fleet.key(), id, octets) {
                Ok(one) => theirs.added.push(one),
                Err(NotOpened::NotSealed) => refuse(fleet, id),
                Err(NotOpened::Unread { .. }) if removed_there.contains(id) => {}
                Err(NotOpened::Unread { until }) => {
                    let one = Unread { id: id.clone(), until };
                    unread = Some(one).filter(|one| !one.is_over(self.now())).or(unread);
                }
            }
        }
        let added: HashSet<OverrideId> = theirs.added.iter().map(|one| one.id).collect();
        let removed = theirs.removed.iter().map(|one| one.asserted.id);
        let removed = removed.chain(removed_unread.iter().copied());
        let removed: HashSet<OverrideId> = removed.collect();
        let merged = self.store.merge_overrides(theirs, self.now()).await;
        merged.map_err(not_kept)?;
        for id in removed_unread {
            let by = OF_ANOTHER_VERSION.to_owned();
            let is_removed = self.store.remove_override(id, by, self.now()).await;
            is_removed.map_err(not_kept)?;
        }
        self.take_over(loaded).await.map_err(not_kept)?;
        for one in self.store.overrides().await.map_err(not_kept)? {
            if !added.contains(&one.id) && one.holds(self.now()) {
                put(fleet, &one, None).await?;
            }
        }
        for one in self.store.removed_overrides().await.map_err(not_kept)? {
            // After its end, no instance takes it for one that holds.
            if !removed.contains(&one.asserted.id) && one.asserted.holds(self.now()) {
                put(fleet, &one.asserted, Some(&removal(&one))).await?;
            }
        }
        Ok((sealed.change, unread))
    }

    fn now(&self) -> Moment {
        self.proxy.clock().now()
    }
}

impl HeartbeatListener for OverrideSync {
    fn on_heartbeat<'a>(&'a self, reply: &'a HeartbeatReply) -> Call<'a, u64> {
        Box::pin(async move {
            let Some(fleet) = self.proxy.gate().fleet() else {
                return Ok(reply.overrides);
            };
            self.proxy.gate().clients().on_heartbeat(reply);
            self.proxy.gate().robots_cache().on_heartbeat(reply);
            let mut loaded = self.loaded.lock().await;
            self.take_news(fleet, &reply.news);
            self.look_at_members(fleet, reply).await;
            let has_more = self.has_more.swap(false, Ordering::AcqRel);
            let is_merged = loaded.shared == Some((reply.generation, reply.overrides));
            let is_over = |unread: &Unread| unread.is_over(self.now());
            let mut change = reply.overrides;
            if has_more || !is_merged || loaded.unread.as_ref().is_some_and(is_over) {
                let merged = self.merge(fleet, &mut loaded).await;
                // The merge itself is no change that the engine lacks.
                self.has_more.store(merged.is_err(), Ordering::Release);
                (change, loaded.unread) = merged?;
                if change < reply.overrides {
                    self.has_more.store(true, Ordering::Release);
                    return Err(CoordinatorError::Lost);
                }
                loaded.shared = Some((reply.generation, change));
            }
            match &loaded.unread {
                None => Ok(change),
                Some(unread) => Err(unread.error()),
            }
        })
    }

    fn cut_off(&self) {
        self.proxy.gate().cut_off();
    }
}

/// Puts an override, or its removal, into the engine, after the next heartbeat if the engine has lost what it knew.
async fn put_soon(
    fleet: &Fleet,
    one: &Override,
    removal: Option<&Removal>,
) -> Result<u64, CoordinatorError> {
    for _ in 0..ATTEMPTS {
        match put(fleet, one, removal).await {
            Err(CoordinatorError::Lost) => sleep(PAUSE).await,
            done => return done,
        }
    }
    put(fleet, one, removal).await
}

/// Puts an override, or its removal, into the engine. Returns the change that it is; 0 if no fleet shares it.
async fn put(
    fleet: &Fleet,
    one: &Override,
    removal: Option<&Removal>,
) -> Result<u64, CoordinatorError> {
    let Some((id, sealed)) = seal(fleet.key(), one, removal) else {
        return Ok(0);
    };
    match removal {
        Some(_) => fleet.coordinator().remove_override(&id, &sealed).await,
        None => fleet.coordinator().add_override(&id, &sealed).await,
    }
}

fn removal(one: &Removed) -> Removal {
    Removal { time: one.time, by: one.by.clone() }
}

/// Counts what the fleet's key did not make.
fn refuse(fleet: &Fleet, id: &str) {
    fleet.status().refused();
    warn!(
        id = id.escape_debug().to_string(),
        "an override in the fleet's engine was not sealed by the fleet's key, and is ignored"
    );
}

fn not_kept(error: StoreError) -> CoordinatorError {
    CoordinatorError::NotKept(error.to_string().into())
}
