//! The task that tells the engine that this instance lives, and takes over what has changed.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use tracing::{error, info, warn};

use super::coordinator::{Call, CoordinatorError, Heartbeat, HeartbeatReply};
use super::member::Report;
use super::{Fleet, LinkState};

/// The time between heartbeats: within it, what one instance announces takes effect at the others.
const INTERVAL: Duration = Duration::from_millis(100);

/// The time between questions for what the engine tells of itself and of the members.
const OBSERVE: Duration = Duration::from_secs(5);

/// The difference of the clocks of an instance and the engine from which on the operator is told.
const APART: Duration = Duration::from_secs(10);

/// Heartbeats without an answer at a start before the operator is told: the connection is made meanwhile.
const ATTEMPTS: u32 = 20;

/// Takes over what the engine tells.
pub trait HeartbeatListener: Send + Sync {
    /// Puts the changes that `heard` names in force. Until it has, the heartbeat counts as unanswered. Returns the change of
    /// the overrides that is in force then.
    ///
    /// # Errors
    /// When the engine does not give what has changed.
    fn on_heartbeat<'a>(&'a self, heard: &'a HeartbeatReply) -> Call<'a, u64>;

    /// Lets nothing out any more, because this instance is cut off.
    fn cut_off(&self);
}

impl Fleet {
    /// Keeps the link to the engine for as long as it is polled, and has `listener` take over what has changed.
    pub async fn run(self: Arc<Self>, listener: Arc<dyn HeartbeatListener>) {
        let connecting = Arc::clone(&self.coordinator).keep_connected();
        tokio::join!(connecting, self.heartbeats(&*listener), self.observing());
    }

    /// Waits until the engine has answered for the first time.
    pub async fn connected(&self) {
        // The sender lives as long as `self`.
        let _ = self.first.subscribe().wait_for(|heard| *heard).await;
    }

    async fn heartbeats(&self, listener: &dyn HeartbeatListener) {
        let mut reported = ReportedLink::default();
        let (mut after, mut overrides) = (None, 0);
        let key = self.key.name();
        let mut failure: Option<CoordinatorError> = None;
        loop {
            if *self.first.borrow() && self.link() == LinkState::CutOff {
                // A process that was stopped (SIGSTOP) has missed its heartbeats: none has failed.
                let why: &dyn Display = match &failure {
                    Some(failure) => failure,
                    None => &"no heartbeat went out",
                };
                self.report_link(&mut reported, why, listener);
            }
            let sent = self.clock.uptime();
            let report = Report {
                version: env!("CARGO_PKG_VERSION").to_owned(),
                process: self.process.clone(),
                key: key.clone(),
                link: self.link().as_str().to_owned(),
                overrides,
                since: self.started.as_millis(),
                settings: self.settings(),
            };
            let report = report.to_text();
            let beat = Heartbeat {
                name: &self.name,
                process: &self.process,
                key: &key,
                report: &report,
                after,
                forget_after: self.forget_after(),
            };
            let heard = self.coordinator.heartbeat(beat).await;
            let followed = match heard {
                Ok(heard) => {
                    self.status.answered_after(self.clock.uptime().since(sent));
                    // Followed or not, the next heartbeat does not bring the same news again.
                    after = Some(heard.news.last);
                    listener.on_heartbeat(&heard).await.map(|now| (heard, now))
                }
                Err(failure) => Err(failure),
            };
            failure = match followed {
                Ok((heard, now)) => {
                    overrides = now;
                    self.status.heard(&heard, now);
                    self.link.heard(sent);
                    self.first.send_if_modified(|heard| !std::mem::replace(heard, true));
                    None
                }
                Err(failure) => {
                    self.status.failed();
                    Some(failure)
                }
            };
            match &failure {
                Some(failure) => self.report_link(&mut reported, failure, listener),
                None => self.report_link(&mut reported, &"it is slow", listener),
            }
            sleep(INTERVAL).await;
        }
    }

    /// Tells the operator and the listener of a change of the link; `why` it is not connected.
    fn report_link(
        &self,
        reported: &mut ReportedLink,
        why: &dyn Display,
        listener: &dyn HeartbeatListener,
    ) {
        let state = self.link();
        self.status.link_is(state, self.clock.now());
        if reported.at(state, self.link.patience(), why) == Some(LinkState::CutOff) {
            listener.cut_off();
        }
    }

    /// Asks the engine for what it tells of itself and of the members, and keeps that for the views.
    pub async fn observe(&self) {
        // Without an answer, the earlier one stays; the views tell its age.
        if let Ok(observed) = self.coordinator.observe().await {
            self.status.observed(observed, self.clock.uptime(), self.clock.now());
        }
    }

    /// Keeps the views up to date, and tells the operator of members with other settings and of a clock that is apart.
    async fn observing(&self) {
        let mut reported = Vec::new();
        let mut was_apart = false;
        self.connected().await;
        loop {
            self.observe().await;
            let differing = self.differing();
            if differing != reported && !differing.is_empty() {
                warn!(
                    members = ?differing,
                    "members of the fleet have other settings than this instance: give all the same"
                );
            }
            reported = differing;
            let ahead = self.status.clock_ahead_ms().unwrap_or_default();
            let apart = Duration::from_millis(ahead.unsigned_abs());
            if apart >= APART && !was_apart {
                warn!(
                    "the clock of this instance is {apart:?} {} the engine's: overrides end by it, earlier or later than at \
                     other instances, and records have its time; set the clocks",
                    if ahead > 0 { "ahead of" } else { "behind" }
                );
            }
            was_apart = apart >= APART;
            sleep(OBSERVE).await;
        }
    }

    /// Takes this instance out of the members, when it ends.
    pub async fn leave(&self) {
        // The others forget it by themselves a little later.
        let _ = self.coordinator.leave(&self.name, &self.process).await;
    }
}

/// The state of the link that the operator was told of.
#[derive(Default)]
struct ReportedLink {
    state: Option<LinkState>,
    /// Heartbeats without an answer before the first one with an answer.
    attempts: u32,
}

impl ReportedLink {
    /// Tells the operator of a change of the state, and returns the new one.
    fn at(&mut self, state: LinkState, patience: Duration, why: &dyn Display) -> Option<LinkState> {
        if self.state.is_none() && state == LinkState::CutOff && self.attempts < ATTEMPTS {
            self.attempts += 1;
            return None;
        }
        if self.state.replace(state) == Some(state) {
            return None;
        }
        match state {
            LinkState::Connected => info!("the fleet's engine answers"),
            LinkState::Doubtful => warn!(
                "the fleet's engine does not answer: unknown origins and paced requests are held, and after [fleet] patience \
                 ({patience:?}) nothing is forwarded: {why}"
            ),
            LinkState::CutOff => error!(
                "this instance is cut off from its fleet and forwards nothing (503, fleet_cut): {why}"
            ),
        }
        Some(state)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use parking_lot::Mutex;

    use super::*;
    use crate::fleet::FleetKey;
    use crate::fleet::coordinator::Coordinator as _;
    use crate::fleet::in_memory::InMemoryEngine;
    use crawlgate_config::Config;
    use crawlgate_system::clock::{Clock, Moment};

    /// Takes changes over, unless it fails.
    struct TestListener {
        fails: AtomicBool,
        news: Mutex<Vec<String>>,
        is_cut_off: AtomicBool,
    }

    impl HeartbeatListener for TestListener {
        fn on_heartbeat<'a>(&'a self, heard: &'a HeartbeatReply) -> Call<'a, u64> {
            self.news.lock().extend(heard.news.items.clone());
            let fails = self.fails.load(Ordering::Relaxed);
            Box::pin(async move { if fails { Err(CoordinatorError::Lost) } else { Ok(7) } })
        }

        fn cut_off(&self) {
            self.is_cut_off.store(true, Ordering::Relaxed);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn changes_that_are_not_taken_over_cut_an_instance_off_and_news_come_once() {
        let clock = Clock::manual(Moment::from_millis(1_795_000_000_000));
        let engine = InMemoryEngine::new(clock.clone());
        let other = engine.coordinator();
        let beat = Heartbeat {
            name: "b",
            process: "b",
            key: &FleetKey::of(&[7; 32]).name(),
            report: "",
            after: None,
            forget_after: Duration::from_secs(18),
        };
        other.heartbeat(beat).await.unwrap();
        other.announce("from before").await.unwrap();
        let config = Config::default().fleet;
        let key = FleetKey::of(&[7; 32]);
        let fleet = Fleet::new(&config, "a", key, engine.coordinator(), clock.clone());
        let fleet = Arc::new(fleet);
        let listener = Arc::new(TestListener {
            fails: AtomicBool::new(false),
            news: Mutex::default(),
            is_cut_off: AtomicBool::new(false),
        });
        let keeping = Arc::clone(&fleet).run(Arc::<TestListener>::clone(&listener));
        let keeping = tokio::spawn(keeping);
        fleet.connected().await;
        listener.fails.store(true, Ordering::Relaxed);
        other.announce("once").await.unwrap();
        clock.advance(Duration::from_secs(14));
        sleep(INTERVAL * 5).await;
        assert_eq!(*listener.news.lock(), ["once"]);
        assert!(!listener.is_cut_off.load(Ordering::Relaxed));
        clock.advance(Duration::from_secs(2));
        sleep(INTERVAL * 2).await;
        assert!(listener.is_cut_off.load(Ordering::Relaxed));
        assert_eq!(fleet.link(), LinkState::CutOff);
        listener.fails.store(false, Ordering::Relaxed);
        sleep(INTERVAL * 2).await;
        assert_eq!(fleet.link(), LinkState::Connected);
        // The process is stopped between two heartbeats: the first one after that is answered.
        listener.is_cut_off.store(false, Ordering::Relaxed);
        clock.advance(Duration::from_secs(60));
        sleep(INTERVAL * 2).await;
        assert!(listener.is_cut_off.load(Ordering::Relaxed));
        assert_eq!(fleet.link(), LinkState::Connected);
        keeping.abort();
    }
}
