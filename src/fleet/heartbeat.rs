//! The task that tells the engine that this instance lives, and takes over what has changed.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use tracing::{error, info, warn};

use super::coordinator::{Beat, Call, Heard};
use super::member::Report;
use super::{Fleet, LinkState, Member};

/// The time between heartbeats: what one instance announces is in force at the others by then.
const INTERVAL: Duration = Duration::from_millis(100);

/// Heartbeats without an answer at a start before the operator is told: the connection is made meanwhile.
const ATTEMPTS: u32 = 20;

/// Heartbeats from one question for the members to the next.
const MEMBERS: u32 = 10;

/// Takes over what the engine tells.
pub trait Follow: Send + Sync {
    /// Puts the changes that `heard` names in force. Until it has, the heartbeat counts as unanswered. Returns the change of
    /// the overrides that is in force then.
    ///
    /// # Errors
    /// When the engine does not give what has changed.
    fn follow<'a>(&'a self, heard: &'a Heard) -> Call<'a, u64>;
}

impl Fleet {
    /// Keeps the link to the engine for as long as it is polled, and has `follower` take over what has changed.
    pub async fn keep(self: Arc<Self>, follower: Arc<dyn Follow>) {
        let connecting = Arc::clone(&self.coordinator).keep_connected();
        tokio::join!(connecting, self.heartbeats(&*follower));
    }

    /// Waits until the engine has answered for the first time.
    pub async fn connected(&self) {
        // The sender lives as long as `self`.
        let _ = self.first.subscribe().wait_for(|heard| *heard).await;
    }

    async fn heartbeats(&self, follower: &dyn Follow) {
        let mut told = Told::new(self);
        let (mut after, mut overrides, mut turn) = (0, 0, 0_u32);
        loop {
            let sent = self.clock.uptime();
            let report = Report {
                version: env!("CARGO_PKG_VERSION").to_owned(),
                link: self.link().as_str().to_owned(),
                overrides,
            };
            let report = report.to_text();
            let wants_members = turn.is_multiple_of(MEMBERS);
            let beat = Beat {
                name: &self.name,
                report: &report,
                after,
                forget_after: self.forget_after(),
                wants_members,
            };
            let heard = match self.coordinator.heartbeat(beat).await {
                Ok(heard) => follower.follow(&heard).await.map(|now| (heard, now)),
                Err(failure) => Err(failure),
            };
            match heard {
                Ok((heard, now)) => {
                    (after, overrides) = (heard.news.last, now);
                    if let Some(rows) = heard.members {
                        let members = rows.into_iter().map(Member::from).collect();
                        self.status.has_members(members);
                    }
                    self.status.heard(heard.generation);
                    self.link.heard(sent);
                    self.first
                        .send_if_modified(|heard| !std::mem::replace(heard, true));
                    turn = turn.wrapping_add(1);
                    told.at(self.link(), None);
                }
                Err(failure) => {
                    self.status.failed(&failure);
                    told.at(self.link(), Some(&failure));
                }
            }
            sleep(INTERVAL).await;
        }
    }

    /// Takes this instance out of the members, when it ends.
    pub async fn leave(&self) {
        // The others forget it by themselves a little later.
        let _ = self.coordinator.leave(&self.name).await;
    }
}

/// The state of the link that the operator was told of.
struct Told {
    state: Option<LinkState>,
    /// Heartbeats without an answer before the first one with an answer.
    attempts: u32,
    patience: Duration,
}

impl Told {
    fn new(fleet: &Fleet) -> Told {
        Told {
            state: None,
            attempts: 0,
            patience: fleet.link.patience(),
        }
    }

    /// Tells the operator of a change.
    fn at(&mut self, state: LinkState, failure: Option<&dyn std::fmt::Display>) {
        if self.state.is_none() && state == LinkState::CutOff && self.attempts < ATTEMPTS {
            self.attempts += 1;
            return;
        }
        if self.state.replace(state) == Some(state) {
            return;
        }
        let failure = failure.map_or_else(|| "it is slow".to_owned(), ToString::to_string);
        match state {
            LinkState::Connected => info!("the fleet's engine answers"),
            LinkState::Doubtful => warn!(
                "the fleet's engine does not answer: unknown origins and paced requests are held, and after [fleet] patience \
                 ({:?}) nothing is forwarded: {failure}",
                self.patience
            ),
            LinkState::CutOff => error!(
                "this instance is cut off from its fleet and forwards nothing (503, fleet_cut): {failure}"
            ),
        }
    }
}
