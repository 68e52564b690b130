//! How far a change has reached in the fleet.

use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::Keeper;
use crate::admin::{LateMember, Reach};
use crate::fleet::coordinator::CoordinatorError;
use crate::fleet::{Fleet, Member};

/// The time that the members have to take over a change.
const WAIT: Duration = Duration::from_secs(2);

/// The time from one look at the members to the next.
const LOOK: Duration = Duration::from_millis(50);

impl Keeper {
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
                self.has_more
                    .store(true, std::sync::atomic::Ordering::Release);
                return failed(&error);
            }
        };
        let mut seen = Err(CoordinatorError::Lost);
        let looking = async {
            loop {
                seen = fleet.coordinator().members().await;
                let members = seen.iter().flatten().cloned().map(Member::from);
                let is_everywhere =
                    seen.is_ok() && members.into_iter().all(|one| has(&one, change));
                if is_everywhere {
                    return;
                }
                sleep(LOOK).await;
            }
        };
        // Those that have it not by then are named.
        let _ = timeout(WAIT, looking).await;
        let mut members: Vec<Member> = match seen {
            Ok(rows) => rows.into_iter().map(Member::from).collect(),
            Err(error) => return failed(&error),
        };
        members.sort_by(|a, b| a.name.cmp(&b.name));
        let (there, late): (Vec<Member>, Vec<Member>) =
            members.into_iter().partition(|one| has(one, change));
        let late = late.into_iter().map(|one| LateMember {
            name: one.name,
            silent_ms: millis(one.silent),
        });
        Reach {
            in_force: there.into_iter().map(|one| one.name).collect(),
            late: late.collect(),
            patience_ms: millis(patience),
            failure: None,
        }
    }
}

/// Tells whether a member reports that it has the change.
fn has(member: &Member, change: u64) -> bool {
    let report = member.report.as_ref();
    report.is_some_and(|report| report.overrides >= change)
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
