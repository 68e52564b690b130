//! The refresh of the tables of denials that other programs read from the store: the newest ones every ten seconds, the rules
//! of each day every hour, and both at the end of the process.
//!
//! No request waits for it. A failure is told once, and the next refresh tries again.

use std::time::Duration;

use tokio::time::{sleep, timeout};
use tracing::warn;

use super::{HOUR, Store, StoreError};
use crawlgate_system::clock::{Clock, Moment};

/// Interval between two lists of the newest denials.
const LIST: Duration = Duration::from_secs(10);

/// Time for the last refresh: the end of a process waits for it.
const LAST_TIMEOUT: Duration = Duration::from_secs(2);

/// Refreshes the tables until the future is dropped; `max_size` returns the setting in force.
pub(super) async fn refresh(store: &Store, max_size: impl Fn() -> Option<u64>, clock: &Clock) {
    let (mut counted, mut is_told) = (None, false);
    loop {
        let outcome = refresh_due(store, max_size(), clock.now(), &mut counted).await;
        if let (Err(error), false) = (&outcome, is_told) {
            tell(error);
        }
        is_told = outcome.is_err();
        sleep(LIST).await;
    }
}

/// Lists the newest denials, and counts the rules if the last count is an hour old.
async fn refresh_due(
    store: &Store,
    max_size: Option<u64>,
    now: Moment,
    counted: &mut Option<Moment>,
) -> Result<(), StoreError> {
    store.list_denials(max_size).await?;
    let is_due = |last| now.since(last) >= HOUR || now < last;
    if counted.is_none_or(is_due) {
        store.count_denied_rules(max_size).await?;
        *counted = Some(now);
    }
    Ok(())
}

/// Refreshes the tables of denials at the end of a process, after its last record.
pub async fn finish_tables(store: &Store, max_size: Option<u64>) {
    let refreshed = async {
        store.list_denials(max_size).await?;
        store.count_denied_rules(max_size).await
    };
    // Without time for all of it, the next process goes on.
    if let Ok(Err(error)) = timeout(LAST_TIMEOUT, refreshed).await {
        tell(&error);
    }
}

fn tell(error: &StoreError) {
    warn!("the views denials and rules of the store are not up to date: {error}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Access;
    use crate::Store;
    use crate::tests::{NOON, ROW, record};
    use crawlgate_config::Synchronous;

    #[tokio::test]
    async fn denials_are_listed_each_time_and_rules_counted_each_hour() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("crawlgate.db");
        let store = Store::open(&path, Access::Write, Synchronous::Normal).unwrap();
        let shell = rusqlite::Connection::open(path).unwrap();
        let tables = || {
            let text = "SELECT (SELECT count(*) FROM denials), (SELECT coalesce(sum(count), 0) FROM rules)";
            shell
                .query_row(text, [], |row| {
                    Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?))
                })
                .unwrap()
        };
        let minute = Duration::from_secs(60);
        let mut counted = None;
        let cases = [
            ("at the start", Duration::ZERO, (1, 1)),
            ("soon", minute, (2, 1)),
            ("in an hour", HOUR, (3, 3)),
            ("soon after", HOUR + minute, (4, 3)),
            ("a clock that was set back", minute, (5, 5)),
        ];
        for (name, after, want) in cases {
            record(&store, &[ROW]).await;
            refresh_due(&store, None, NOON + after, &mut counted)
                .await
                .unwrap();
            assert_eq!(tables(), want, "{name}");
        }
        record(&store, &[ROW]).await;
        finish_tables(&store, None).await;
        assert_eq!(tables(), (6, 6), "at the end");
    }
}
