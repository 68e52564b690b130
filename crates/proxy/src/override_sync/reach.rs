//! The reach of a change in a fleet, for people and for programs.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::{sleep, timeout};

use super::OverrideSync;
use crawlgate_turns::fleet::coordinator::{CoordinatorError, MemberRow};
use crawlgate_turns::fleet::{Fleet, HeartbeatReply, Member};

/// The time that the members have to take over a change.
const WAIT: Duration = Duration::from_secs(2);

/// The most by which later changes are above one that was just made: the engine's clock numbers them, in microseconds. A
/// member that reports more than that has met with a number that was planted.
const LATER: u64 = 60_000_000;

/// The time from one look at the members to the next.
const LOOK: Duration = Duration::from_millis(50);

/// Silence after which a member counts as silent, in milliseconds.
const SILENT: u64 = 1_000;

/// The instances of the fleet at which a change is in force, and those that lack it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Reach {
    /// The instances at which it is in force.
    pub in_force: Vec<String>,
    /// The instances that do not have it yet. They forward nothing once they have not heard from the engine, or have not
    /// taken over what it told, for `patience_ms`.
    pub late: Vec<LateMember>,
    /// `[fleet] patience` in milliseconds.
    pub patience_ms: u64,
    /// The reason why the engine did not take the change. It is in force at this instance, which brings it to the others
    /// once the engine answers.
    pub failure: Option<String>,
}

/// An instance that lacks a change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LateMember {
    /// Its name.
    pub name: String,
    /// The time since its last heartbeat, in milliseconds.
    pub silent_ms: u64,
}

/// Writes `in force on a1, a2; a3 has not been heard of for 4 s and forwards nothing from 15 s on`.
impl fmt::Display for Reach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.in_force.join(", ");
        if let Some(failure) = &self.failure {
            return write!(
                f,
                "in force only on {names}: {failure}; the other instances take it over once the engine answers"
            );
        }
        write!(f, "in force on {names}")?;
        let patience = self.patience_ms / 1_000;
        for LateMember { name, silent_ms } in &self.late {
            match *silent_ms {
                SILENT.. => {
                    let silent = silent_ms / 1_000;
                    write!(
                        f,
                        "; {name} has not been heard of for {silent} s and forwards nothing from {patience} s on"
                    )?;
                }
                _ => write!(
                    f,
                    "; {name} does not have it yet and forwards nothing from {patience} s without it on"
                )?,
            }
        }
        Ok(())
    }
}

impl OverrideSync {
    /// Keeps the names of the members, for the time in which the engine has forgotten some.
    pub(super) async fn look_at_members(&self, fleet: &Fleet, reply: &HeartbeatReply) {
        let (generation, members) = (reply.generation, reply.members);
        let now = self.proxy.clock().uptime();
        if !self.members.lock().is_stale(generation, members, now) {
            return;
        }
        // Without an answer, the next heartbeat asks again.
        if let Ok(rows) = fleet.coordinator().members().await {
            let names = rows.into_iter().map(|row| row.name).collect();
            let now = self.proxy.clock().uptime();
            let patience = self.proxy.settings().fleet.patience;
            let mut known = self.members.lock();
            known.take_in(generation, names, now, patience);
        }
    }

    /// Returns the members that the engine has forgotten, and that may still forward.
    fn missing(&self, rows: &[MemberRow]) -> Vec<String> {
        let present = rows.iter().map(|row| row.name.clone()).collect();
        let now = self.proxy.clock().uptime();
        self.members.lock().missing(&present, now)
    }

    /// Waits until every member has the change that the engine has taken, or not soon enough.
    pub(super) async fn reach(&self, fleet: &Fleet, put: Result<u64, CoordinatorError>) -> Reach {
        let patience = self.proxy.settings().fleet.patience;
        let failed = |error: &CoordinatorError| Reach {
            in_force: vec![fleet.name().to_owned()],
            failure: Some(error.to_string()),
            ..Reach::default()
        };
        let change = match put {
            Ok(change) => change,
            // The next heartbeat that is answered brings it to the engine.
            Err(error) => {
                self.has_more.store(true, std::sync::atomic::Ordering::Release);
                return failed(&error);
            }
        };
        let mut seen = Err(CoordinatorError::Lost);
        let looking = async {
            loop {
                seen = fleet.coordinator().members().await;
                let members = seen.iter().flatten().cloned().map(Member::from);
                let is_everywhere = seen.as_ref().is_ok_and(|rows| self.missing(rows).is_empty())
                    && members.into_iter().all(|one| has(&one, change));
                if is_everywhere {
                    return;
                }
                sleep(LOOK).await;
            }
        };
        // Those that do not have it after this time are named.
        let _ = timeout(WAIT, looking).await;
        let (mut members, missing): (Vec<Member>, Vec<String>) = match seen {
            Ok(rows) => {
                let missing = self.missing(&rows);
                (rows.into_iter().map(Member::from).collect(), missing)
            }
            Err(error) => return failed(&error),
        };
        members.sort_by(|a, b| a.name.cmp(&b.name));
        let (there, late): (Vec<Member>, Vec<Member>) =
            members.into_iter().partition(|one| has(one, change));
        let late = late
            .into_iter()
            .map(|one| LateMember { name: one.name, silent_ms: millis(one.silent) });
        let forgotten =
            missing.into_iter().map(|name| LateMember { name, silent_ms: millis(WAIT) });
        Reach {
            in_force: there.into_iter().map(|one| one.name).collect(),
            late: late.chain(forgotten).collect(),
            patience_ms: millis(patience),
            failure: None,
        }
    }
}

/// Tells whether a member reports that it has the change.
fn has(member: &Member, change: u64) -> bool {
    let report = member.report.as_ref();
    let honest = change..=change.saturating_add(LATER);
    // 0 is no change: every member has it.
    report.is_some_and(|report| change == 0 || honest.contains(&report.overrides))
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reach_names_who_has_the_change_and_who_lacks_it() {
        let late = |name: &str, silent_ms| LateMember { name: name.to_owned(), silent_ms };
        let reach = Reach {
            in_force: vec!["a1".to_owned(), "a2".to_owned()],
            patience_ms: 15_000,
            ..Reach::default()
        };
        assert_eq!(reach.to_string(), "in force on a1, a2");
        let some = Reach { late: vec![late("a3", 4_120), late("a4", 90)], ..reach.clone() };
        assert_eq!(
            some.to_string(),
            "in force on a1, a2; a3 has not been heard of for 4 s and forwards nothing from 15 s on; \
             a4 does not have it yet and forwards nothing from 15 s without it on"
        );
        let alone = Reach {
            in_force: vec!["a1".to_owned()],
            failure: Some("the engine does not answer: no answer within 250ms".to_owned()),
            ..Reach::default()
        };
        assert_eq!(
            alone.to_string(),
            "in force only on a1: the engine does not answer: no answer within 250ms; the other instances take it over \
             once the engine answers"
        );
    }
}
