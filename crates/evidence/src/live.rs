//! Records as they come, for watchers.
//!
//! Without a watcher, an exchange costs one load. A watcher sees all decisions, also those that are not recorded, up to
//! a bound for each tenth of a second: a faster feed is unreadable and not worth its cost. The watcher learns how many
//! records were left out by the bound or by its own slowness. Nothing here ever waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use tokio::sync::broadcast::{self, error::RecvError};

use crawlgate_system::clock::Moment;

/// Watchers at once.
const WATCHERS: usize = 16;

/// Maximum number of records that a watcher may be behind.
const BEHIND: usize = 1024;

/// Length of a span in milliseconds.
const SPAN: u64 = 100;

/// Maximum number of records shown in a span.
const MAX_SHOWN: u64 = 40;

/// Bits of a span's count.
const COUNT: u64 = 16;

/// The feed.
#[derive(Clone, Debug)]
pub(super) struct Live(Arc<Feed>);

#[derive(Debug)]
struct Feed {
    watchers: AtomicUsize,
    /// The present span, and in the lowest bits the number of records shown in it.
    span: AtomicU64,
    /// Number of records left out since the process began.
    left_out: AtomicU64,
    lines: broadcast::Sender<LiveEvent>,
}

/// A record, as it is or would be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The entry.
    pub entry: Arc<[u8]>,
    /// The entry as a JSON object, without a line feed.
    pub text: Arc<str>,
    /// True if the record is recorded, too.
    pub is_recorded: bool,
}

/// An event for a watcher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LiveEvent {
    /// A record.
    Line(Line),
    /// The line of an event, without its line feed. Events are shown once they are written, in the order of the log.
    Event(Arc<str>),
    /// Number of records left out before the next.
    Missed(u64),
}

/// A subscription to the feed. Dropping it ends the subscription.
#[derive(Debug)]
pub struct Watch {
    feed: Arc<Feed>,
    lines: broadcast::Receiver<LiveEvent>,
    /// Number of left-out records that the watcher knows of.
    reported: u64,
}

impl Live {
    pub(super) fn new() -> Live {
        Live(Arc::new(Feed {
            watchers: AtomicUsize::new(0),
            span: AtomicU64::new(0),
            left_out: AtomicU64::new(0),
            lines: broadcast::Sender::new(BEHIND),
        }))
    }

    /// Tells whether there is a watcher.
    pub(super) fn is_watched(&self) -> bool {
        self.0.watchers.load(Ordering::Relaxed) > 0
    }

    /// Tells whether there is room for another record at this time. A record without room is counted.
    pub(super) fn has_room(&self, now: Moment) -> bool {
        let span = self.0.span.load(Ordering::Relaxed);
        let has_room = span >> COUNT != now.as_millis() / SPAN || span & mask() < MAX_SHOWN;
        if !has_room {
            self.0.left_out.fetch_add(1, Ordering::Relaxed);
        }
        has_room
    }

    /// Shows the line of an event, if there is a watcher and room.
    pub(super) fn show_event(&self, line: &str, now: Moment) {
        if self.is_watched() && self.has_room(now) {
            self.send(LiveEvent::Event(line.into()), now);
        }
    }

    /// Shows a record.
    pub(super) fn show(&self, line: Line, now: Moment) {
        self.send(LiveEvent::Line(line), now);
    }

    fn send(&self, seen: LiveEvent, now: Moment) {
        let present = now.as_millis() / SPAN;
        // Two concurrent records may count as one: the bound need not be exact.
        let span = self.0.span.load(Ordering::Relaxed);
        let next = if span >> COUNT == present { span + 1 } else { (present << COUNT) + 1 };
        self.0.span.store(next, Ordering::Relaxed);
        let _ = self.0.lines.send(seen); // the last watcher may have gone
    }

    /// Subscribes from now on; `None` if there are too many watchers.
    pub(super) fn watch(&self) -> Option<Watch> {
        let more = |watchers| (watchers < WATCHERS).then_some(watchers + 1);
        let watchers = &self.0.watchers;
        watchers.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(Watch {
            lines: self.0.lines.subscribe(),
            reported: self.0.left_out.load(Ordering::Relaxed),
            feed: Arc::clone(&self.0),
        })
    }
}

fn mask() -> u64 {
    (1 << COUNT) - 1
}

impl Watch {
    /// Returns the next event. Cancel-safe: a later call loses nothing.
    pub async fn next(&mut self) -> LiveEvent {
        loop {
            if let Some(missed) = self.missed() {
                return missed;
            }
            match self.lines.recv().await {
                Ok(seen) => return seen,
                Err(RecvError::Lagged(missed)) => return LiveEvent::Missed(missed),
                // This watcher holds the feed, and with it the sender: the channel does not close.
                Err(RecvError::Closed) => std::future::pending().await,
            }
        }
    }

    /// Returns the left-out records that the watcher does not know of yet.
    pub fn missed(&mut self) -> Option<LiveEvent> {
        let left_out = self.feed.left_out.load(Ordering::Relaxed);
        let missed = left_out.wrapping_sub(self.reported);
        self.reported = left_out;
        (missed > 0).then_some(LiveEvent::Missed(missed))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.feed.watchers.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> Line {
        Line { entry: [].into(), text: text.into(), is_recorded: true }
    }

    #[tokio::test]
    async fn a_watcher_sees_records_from_then_on() {
        let live = Live::new();
        assert!(!live.is_watched());
        live.show(line("before"), Moment::default());
        let mut watch = live.watch().expect("room");
        assert!(live.is_watched());
        live.show(line("after"), Moment::default());
        assert_eq!(watch.next().await, LiveEvent::Line(line("after")));
        drop(watch);
        assert!(!live.is_watched());
    }

    #[tokio::test]
    async fn left_out_records_are_counted() {
        let live = Live::new();
        let mut watch = live.watch().expect("room");
        let now = Moment::from_millis(1_000);
        for _ in 0..MAX_SHOWN {
            assert!(live.has_room(now));
            live.show(line("shown"), now);
        }
        assert!(!live.has_room(now));
        assert!(!live.has_room(now));
        assert_eq!(watch.next().await, LiveEvent::Missed(2));
        let later = Moment::from_millis(1_000 + SPAN);
        assert!(live.has_room(later), "the next span has room");
        live.show(line("later"), later);
        for _ in 0..MAX_SHOWN {
            assert_eq!(watch.next().await, LiveEvent::Line(line("shown")));
        }
        assert_eq!(watch.next().await, LiveEvent::Line(line("later")));
        assert_eq!(watch.missed(), None);
    }

    #[tokio::test]
    async fn a_slow_watcher_learns_how_many_records_it_missed() {
        let live = Live::new();
        let mut watch = live.watch().expect("room");
        for number in 0..BEHIND + 3 {
            live.show(line(&number.to_string()), Moment::default());
        }
        assert_eq!(watch.next().await, LiveEvent::Missed(3));
        assert_eq!(watch.next().await, LiveEvent::Line(line("3")));
    }

    #[test]
    fn the_number_of_watchers_is_bounded() {
        let live = Live::new();
        let mut watches: Vec<Watch> = (0..WATCHERS).filter_map(|_| live.watch()).collect();
        assert_eq!(watches.len(), WATCHERS);
        assert!(live.watch().is_none());
        watches.pop();
        assert!(live.watch().is_some(), "a place that was left is free again");
    }
}
