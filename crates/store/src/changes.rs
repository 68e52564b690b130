//! The announcement of changed overrides: writes through this store at once, those of other processes by a look each
//! second.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

use super::StoreError;

/// Interval at which the store is read for changes by other processes.
const LOOK: Duration = Duration::from_secs(1);

/// The announcer of an open store. Clones announce to the same listeners.
#[derive(Debug, Clone, Default)]
pub(super) struct Announcer(watch::Sender<()>);

impl Announcer {
    /// Announces a change that is written.
    pub(super) fn announce(&self) {
        self.0.send_replace(());
    }

    /// Waits until `version` is no longer `seen`, and returns it.
    pub(super) async fn changed<V>(
        &self,
        seen: u64,
        version: impl Fn() -> V,
    ) -> Result<u64, StoreError>
    where
        V: Future<Output = Result<u64, StoreError>>,
    {
        // First, so that no announcement is missed between a look and the wait.
        let mut announced = self.0.subscribe();
        loop {
            let version = version().await?;
            if version != seen {
                return Ok(version);
            }
            // An announcement and the end of the time both lead to the next look.
            let _ = timeout(LOOK, announced.changed()).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::task::{Context, Poll, Waker};

    use super::*;
    use crate::{Access, Store};
    use crawlgate_config::Synchronous;
    use crawlgate_policy::overrides::{Action, Override, OverrideId};
    use crawlgate_robots::Origin;
    use crawlgate_system::clock::Moment;

    fn deny() -> Override {
        Override {
            id: OverrideId::Stored(0),
            origin: Origin::parse("https://site.example/").expect("a URL").0,
            pattern: "/".to_owned(),
            action: Action::Deny,
            until: None,
            by: "Ada".to_owned(),
            reason: "a letter".to_owned(),
            created: Moment::default(),
            instance: None,
        }
    }

    type Pending<'a> = Pin<Box<dyn Future<Output = Result<u64, StoreError>> + 'a>>;

    fn poll(pending: &mut Pending<'_>) -> Poll<Result<u64, StoreError>> {
        Pin::new(pending).poll(&mut Context::from_waker(Waker::noop()))
    }

    /// The clock stands still, so no look at the store finds the changes.
    #[tokio::test(start_paused = true)]
    async fn an_announcement_ends_the_wait_at_once() {
        let announcer = Announcer::default();
        let present = AtomicU64::new(7);
        let version = || std::future::ready(Ok(present.load(Ordering::Relaxed)));
        let mut changes: Pending<'_> = Box::pin(announcer.changed(7, version));
        assert_eq!(poll(&mut changes), Poll::Pending);
        present.store(8, Ordering::Relaxed);
        assert_eq!(poll(&mut changes), Poll::Pending, "not announced");
        announcer.announce();
        assert_eq!(poll(&mut changes), Poll::Ready(Ok(8)));
        let mut later: Pending<'_> = Box::pin(announcer.changed(7, version));
        assert_eq!(poll(&mut later), Poll::Ready(Ok(8)), "changed before");
    }

    /// Each look compares the files of the store with what this process has left there, too: a store that was emptied while
    /// no request came is noticed by the next one.
    #[tokio::test(start_paused = true)]
    async fn a_look_follows_each_second() {
        let looks = AtomicU64::new(0);
        let version = || -> Pending<'_> {
            looks.fetch_add(1, Ordering::Relaxed);
            Box::pin(std::future::ready(Ok(7)))
        };
        let announcer = Announcer::default();
        let mut changes: Pending<'_> = Box::pin(announcer.changed(7, version));
        assert_eq!(poll(&mut changes), Poll::Pending);
        for done in 1..=4 {
            tokio::time::advance(LOOK * 9 / 10).await;
            assert_eq!(poll(&mut changes), Poll::Pending);
            assert_eq!(looks.load(Ordering::Relaxed), done, "not yet");
            tokio::time::advance(LOOK / 5).await;
            assert_eq!(poll(&mut changes), Poll::Pending);
            assert_eq!(looks.load(Ordering::Relaxed), done + 1);
        }
    }

    #[tokio::test]
    async fn a_write_by_another_process_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("crawlgate.db");
        let open = || Store::open(&path, Access::Write, Synchronous::Normal).unwrap();
        let (ours, theirs) = (open(), open());
        let ours: Arc<Store> = Arc::new(ours);
        let seen = ours.version().await.unwrap();
        let mut changes: Pending<'_> = Box::pin(ours.changes(seen));
        assert_eq!(poll(&mut changes), Poll::Pending);
        theirs.add_override(deny()).await.unwrap();
        assert_ne!(changes.await.unwrap(), seen);
        assert_eq!(ours.overrides().await.unwrap().len(), 1);
    }
}
