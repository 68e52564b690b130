//! Many instances as one gate: a fleet that Valkey or Redis coordinates (`[fleet]`).
//!
//! Each instance is a whole gate with its own store and decision log. Beside it stands the engine, which a
//! [`Coordinator`] speaks to: it knows the fetches in progress, the turns at the origins, the operator's overrides and
//! the members. Nothing in the engine is the only copy of anything: an engine that forgets costs time, and permits
//! nothing.
//!
//! The rules of this room:
//!
//! 1. Without `[fleet]` nothing changes: no [`Fleet`] exists.
//! 2. An ambiguous outcome (a time-out, a kill, a failover) ends on the polite and closed side. A turn that was perhaps
//!    granted counts as taken; a state that was perhaps published is fetched again.
//! 3. Only the engine's clock orders things in the engine. Nothing rests on a comparison with a local clock: answers
//!    carry spans, which begin when the answer arrives. The operator is told of clocks that are apart.
//! 4. An instance that has not heard from the engine for `[fleet] patience` lets nothing out ([`LinkState::CutOff`]):
//!    it may have missed an override or a state.
//!
//! - `coordinator`: the interface; `engine`: Valkey and Redis; `in_memory`: one process, for tests
//! - `overview`: the fleet as people see it; `status`: its figures; `counts`, `instruments`: metrics; `member`: reports
//! - `link`: the time since the last answer, and its meaning; `heartbeat`: the task that keeps it
//! - `seal`: authenticates what lies in the engine; `overrides`: the overrides there
//! - `check`: are the engine's settings those that the fleet needs? `survey`: the answers that it judges
//! - `reservation`: turns at an origin, and its trouble; `quota`: the quotas of clients

pub mod check;
pub mod coordinator;
mod counts;
pub mod engine;
mod heartbeat;
#[cfg(any(test, feature = "test-support"))]
#[path = "fleet/tests/in_memory.rs"]
pub mod in_memory;
mod instruments;
mod link;
mod member;
pub mod overrides;
pub mod overview;
pub mod quota;
pub mod reservation;
mod seal;
mod status;
mod survey;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::watch;

pub use self::coordinator::{Coordinator, CoordinatorError, EngineTime, HeartbeatReply, News};
pub use self::counts::Counts;
pub use self::heartbeat::HeartbeatListener;
pub use self::link::LinkState;
pub use self::member::{Member, with_another_key};
pub use self::seal::{FleetKey, KeyError};
pub use self::status::{Status, view_from_outside};

use self::instruments::Instruments;
use self::link::Link;
use self::member::{Digests, digests};
use self::reservation::{GiveBack, GroupInterval};
use crawlgate_config::{Config, FleetConfig};
use crawlgate_system::clock::{Clock, Moment, Uptime};
use crawlgate_system::metrics::Registry;
use crawlgate_text::hex;

/// An instance's part in a fleet.
#[derive(Debug)]
pub struct Fleet {
    coordinator: Arc<dyn Coordinator>,
    link: Link,
    name: Arc<str>,
    /// Tells this process from others of its name.
    process: String,
    key: FleetKey,
    clock: Clock,
    status: Arc<Status>,
    started: Moment,
    /// The digests of the settings in force.
    settings: Mutex<Digests>,
    /// True once the engine has answered.
    first: watch::Sender<bool>,
}

impl Fleet {
    /// Joins the fleet behind `coordinator` under `name`. The instance is cut off until [`Fleet::run`] has heard from
    /// the engine.
    #[must_use]
    pub fn new(
        config: &FleetConfig,
        name: &str,
        key: FleetKey,
        coordinator: Arc<dyn Coordinator>,
        clock: Clock,
    ) -> Fleet {
        let mut random = [0; 8];
        // Without randomness, two processes of one name are not told apart.
        let _ = aws_lc_rs::rand::fill(&mut random);
        Fleet {
            coordinator,
            link: Link::new(config.patience),
            name: name.into(),
            process: hex(random),
            key,
            started: clock.now(),
            clock,
            status: Arc::default(),
            settings: Mutex::default(),
            first: watch::Sender::new(false),
        }
    }

    /// Returns the state of the link to the engine now.
    #[must_use]
    pub fn link(&self) -> LinkState {
        self.link_at(self.clock.uptime())
    }

    /// Returns the state of the link at `now`, which is just past.
    #[must_use]
    pub fn link_at(&self, now: Uptime) -> LinkState {
        self.link.state(now)
    }

    /// Returns the way to the engine.
    #[must_use]
    pub fn coordinator(&self) -> &Arc<dyn Coordinator> {
        &self.coordinator
    }

    /// Returns the name of this instance.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns random digits that tell this process from all others.
    #[must_use]
    pub fn process(&self) -> &str {
        &self.process
    }

    /// Returns the key that authenticates what lies in the engine.
    #[must_use]
    pub fn key(&self) -> &FleetKey {
        &self.key
    }

    /// Returns the figures of this instance's part.
    #[must_use]
    pub fn status(&self) -> &Arc<Status> {
        &self.status
    }

    /// Puts a changed patience in force, and tells the other members of these settings from now on.
    pub fn reconfigure(&self, config: &Config) {
        self.link.set_patience(config.fleet.patience);
        *self.settings.lock() = digests(config);
    }

    /// Returns the digests of the settings in force.
    fn settings(&self) -> Digests {
        self.settings.lock().clone()
    }

    /// Returns the time after which others forget a silent member. It has stopped before.
    fn forget_after(&self) -> Duration {
        self.link.patience() + FORGOTTEN
    }

    /// Gives a turn back in the engine. Nothing waits for that: a turn that is not given back is lost, as it is without a
    /// runtime, when the process ends.
    pub(crate) fn give_back(
        self: &Arc<Self>,
        origin: Arc<str>,
        at: EngineTime,
        group: Option<(Arc<str>, Duration)>,
    ) {
        let Ok(runtime) = Handle::try_current() else {
            return;
        };
        let fleet = Arc::clone(self);
        runtime.spawn(async move {
            let turn =
                GiveBack { origin: &origin, at, group: group.as_ref().map(GroupInterval::of) };
            let _ = fleet.coordinator.give_back(turn).await;
        });
    }

    /// Registers the metrics.
    pub fn register(self: &Arc<Self>, registry: &mut Registry) {
        registry.register_collector(Box::new(Instruments(Arc::clone(self))));
        if let Some(counts) = self.coordinator.counts() {
            counts.register(registry);
        }
    }
}

/// Time from the moment at which a silent instance stops to that at which the others forget it.
const FORGOTTEN: Duration = Duration::from_secs(3);
