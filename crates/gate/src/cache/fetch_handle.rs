//! The wait for the end of a fetch in progress.

use tokio::sync::watch;

/// A fetch in progress, for those that wait for its end.
#[derive(Clone)]
pub(super) struct FetchHandle(watch::Receiver<u8>);

/// The fetching half of a [`FetchHandle`]. Dropped when the waiters find the new state.
pub(super) struct FetchCompletion(watch::Sender<u8>);

/// The end of a fetch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// The state takes it into account.
    Completed,
    /// The fetch was cut short because this many others waited for it, so the state stays as it was.
    Cut(u8),
}

impl FetchHandle {
    /// Returns the two halves of a fetch that `depth` others wait for.
    pub(super) fn new(depth: u8) -> (FetchCompletion, FetchHandle) {
        let (completion, handle) = watch::channel(depth);
        (FetchCompletion(completion), FetchHandle(handle))
    }

    /// Waits for the end of the fetch.
    pub(super) async fn ended(&mut self) -> Ended {
        match self.0.changed().await {
            Ok(()) => Ended::Cut(*self.0.borrow()),
            Err(_) => Ended::Completed,
        }
    }
}

impl FetchCompletion {
    /// Tells the waiters that the fetch was cut short.
    pub(super) fn cut(&self) {
        self.0.send_modify(|_| {});
    }
}
