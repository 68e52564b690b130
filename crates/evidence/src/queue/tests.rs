//! Back-pressure, failures and withdrawals.

use std::io;
use std::time::Duration;

use super::content::MAX_KNOWN;
use super::*;
use crate::grounds::{GroundDigests, tests::unreachable};
use crawlgate_origins::state::State as OriginState;
use crawlgate_record::{Entry, Event, EventKind};
use crawlgate_store::Entries;

/// Returns a queue with the same room for all.
fn queue(room: usize, clock: &Clock) -> Queue {
    let bounds = Bounds { write: room, wait: room, lose: room };
    Queue::new(bounds, true, clock.clone())
}

fn take(queue: &Queue) -> Batch {
    let clock = Clock::manual(Moment::default());
    queue.take(Entries::default(), Duration::ZERO, &clock).unwrap()
}

fn grounds_of(state: &OriginState) -> Grounds<'_> {
    Grounds { robots: Some((state, None)), ..Grounds::default() }
}

/// Queues a denial with these grounds, and returns their digests.
fn put_with(queue: &Queue, id: DecisionId, grounds: &Grounds<'_>) -> GroundDigests {
    let decision = Decision { id: id.octets(), ..Decision::sample() };
    let digests = grounds.digests(decision.origin);
    let decision = digests.named_by(decision);
    let mut entry = Vec::new();
    decision.encode(crawlgate_record::Bounds::CLIENTS, &mut entry);
    queue.put(&decision, grounds, &entry);
    digests
}

/// Queues three octets, framed as an entry, if they find room.
fn put(queue: &Queue) -> bool {
    queue.put_entry(Moment::default(), |inner| {
        inner.next.entries.push(|out| out.push(0));
    })
}

/// The end of a failure during which each request found its record.
const NOTHING: Option<Unrecorded> = Some(Unrecorded { lost: 0, refused: 0 });

#[test]
fn a_failure_and_its_end_are_reported_once() {
    let queue = queue(100, &Clock::manual(Moment::default()));
    let failure = || LogFailed::new("log", &io::Error::from(io::ErrorKind::StorageFull));
    for _ in 0..2 {
        put(&queue);
        let batch = take(&queue);
        let news = [(); 3].map(|()| queue.failed(failure()));
        assert_eq!(news, [true, false, false]);
        let ends = [(); 2].map(|()| queue.wrote(&batch, Moment::default()));
        assert_eq!(ends, [NOTHING, None]);
    }
}

#[test]
fn requests_refused_during_a_failure_are_one_event_after_it() {
    let clock = Clock::manual(Moment::from_millis(5_000));
    let queue = queue(1_000, &clock);
    let ready = || {
        let mut ready = std::pin::pin!(queue.ready());
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        match ready.as_mut().poll(&mut context) {
            std::task::Poll::Ready(answer) => answer.is_ok(),
            std::task::Poll::Pending => panic!("it waits"),
        }
    };
    assert!(ready());
    put(&queue);
    let batch = take(&queue);
    queue.failed(LogFailed::new("log", &io::Error::from(io::ErrorKind::StorageFull)));
    for _ in 0..3 {
        assert!(!ready());
        clock.advance(Duration::from_secs(1));
    }
    let unrecorded = Unrecorded { lost: 0, refused: 3 };
    assert_eq!(queue.wrote(&batch, clock.now()), Some(unrecorded));
    assert!(ready());
    let batch = take(&queue);
    let entries: Vec<_> = batch.content.entries.iter().map(Entry::read).collect();
    let [Ok(Entry::Event(Event { kind: EventKind::Repeated(told), .. }))] = entries[..] else {
        panic!("{entries:?}");
    };
    assert_eq!((told.reason, told.count, told.first, told.last), ("log_failed", 3, 5_000, 7_000));
    assert_eq!(queue.wrote(&batch, clock.now()), None, "once");
}

#[test]
fn unwritten_lines_still_fill_the_queue() {
    let bounds = Bounds { write: 3, wait: 3, lose: 6 };
    let queue = Queue::new(bounds, true, Clock::manual(Moment::default()));
    let put = || put(&queue);
    let state = || queue.state.load(Ordering::Relaxed);
    assert!(put());
    assert_eq!(state(), State::Full as u8);
    let batch = take(&queue);
    assert_eq!(state(), State::Full as u8, "taken is not written");
    assert!(put());
    assert!(!put(), "a lost record is no record to wait for");
    assert_eq!(
        queue.wrote(&batch, Moment::default()),
        Some(Unrecorded { lost: 1, refused: 0 }),
        "one found no room"
    );
    assert_eq!(state(), State::Full as u8, "the second is there still");
    let batch = take(&queue);
    assert_eq!(batch.content.entries.len(), 2);
    assert_eq!(queue.wrote(&batch, Moment::default()), None);
    assert_eq!(state(), State::Open as u8);
}

#[test]
fn late_records_make_requests_wait_and_a_stuck_write_refuses_them() {
    let millis = Duration::from_millis;
    let clock = Clock::manual(Moment::default());
    let queue = queue(100, &clock);
    let put = || put(&queue);
    let take = || {
        let batch = queue.take(Entries::default(), Duration::ZERO, &clock);
        batch.unwrap()
    };
    put();
    clock.advance(millis(10));
    let batch = take();
    let cases = [
        (0, Some(90), State::Open, false),
        (90, Some(900), State::Full, false),
        (900, Some(4_010), State::Full, true),
        (4_010, None, State::Refusing, true),
    ];
    for (passes, next, state, is_behind) in cases {
        clock.advance(millis(passes));
        assert_eq!(queue.look(&batch, &clock), next.map(millis), "{passes}");
        assert_eq!(queue.state.load(Ordering::Relaxed), state as u8, "{passes}");
        assert_eq!(queue.backlog().is_behind, is_behind, "{passes}");
    }
    put();
    assert_eq!(queue.wrote(&batch, Moment::default()), NOTHING);
    assert_eq!(queue.state.load(Ordering::Relaxed), State::Open as u8);
    assert!(queue.backlog().is_behind, "until a batch is in time");
    let batch = take();
    assert_eq!(queue.look(&batch, &clock), Some(millis(100)));
    assert_eq!(queue.wrote(&batch, Moment::default()), None);
    assert!(!queue.backlog().is_behind);

    // After the last record nothing waits, though no batch was in time.
    put();
    let batch = take();
    clock.advance(millis(1_000));
    queue.look(&batch, &clock);
    assert!(queue.backlog().holds_up_requests());
    assert_eq!(queue.wrote(&batch, Moment::default()), None);
    let backlog = queue.backlog();
    assert!(backlog.is_behind && !backlog.holds_up_requests());
}

#[test]
fn a_withdrawn_record_is_dropped_or_contradicted_by_an_event() {
    let clock = Clock::manual(Moment::default());
    let queue = queue(1_000, &clock);
    let put = |id| {
        put_with(&queue, id, &Grounds::default());
    };
    let ids = [1, 2, 3].map(|n| DecisionId::mint(Moment::from_millis(n)));
    put(ids[0]);
    let batch = take(&queue);
    put(ids[1]);
    put(ids[2]);
    queue.withdraw(ids[0], Moment::default());
    queue.withdraw(ids[1], Moment::default());
    assert_eq!(queue.wrote(&batch, Moment::default()), None);
    let batch = take(&queue);
    let entries: Vec<_> = batch.content.entries.iter().map(Entry::read).collect();
    let [Ok(Entry::Decision(kept)), Ok(Entry::Event(event)), Ok(Entry::Event(counted))] =
        entries[..]
    else {
        panic!("{entries:?}");
    };
    assert!(matches!(counted.kind, EventKind::Repeated(told) if told.count == 1), "{counted:?}");
    assert_eq!(kept.id, ids[2].octets());
    let decision = ids[0].octets();
    assert!(
        matches!(event, Event { kind: EventKind::AnsweredLogFailed { decision: id }, .. } if id == decision),
        "{event:?}"
    );
    queue.wrote(&batch, Moment::default());
    // A flush does not wait for a withdrawn record that is the only one in the queue.
    put(ids[1]);
    queue.withdraw(ids[1], Moment::default());
    queue.close();
    let rest = queue.take(Entries::default(), Duration::ZERO, &clock);
    assert!(rest.is_none());
    assert!(queue.outcome().is_ok());
}

#[test]
fn the_objects_of_a_withdrawn_record_are_written_with_an_entry() {
    let queue = queue(100_000, &Clock::manual(Moment::default()));
    let time = Moment::from_millis(1_795_176_000_000);
    let put = |id| {
        let state = unreachable();
        put_with(&queue, id, &grounds_of(&state));
    };
    let ids = [1, 2].map(|n| DecisionId::mint(time + Duration::from_secs(n)));
    put(ids[0]);
    queue.withdraw(ids[0], time);
    let batch = take(&queue);
    assert!(!batch.content.objects.is_empty());
    let entries: Vec<_> = batch.content.entries.iter().map(Entry::read).collect();
    let [Ok(Entry::Event(event))] = entries[..] else {
        panic!("{entries:?}");
    };
    assert!(matches!(event.kind, EventKind::AnsweredLogFailed { .. }));
    assert_eq!(event.time(), time.as_millis(), "the objects are used");
    assert_eq!(queue.wrote(&batch, time), None);
    put(ids[1]);
    let batch = take(&queue);
    assert!(batch.content.objects.is_empty(), "they are known");
}

#[test]
fn an_object_is_queued_once_and_again_after_the_queue_has_forgotten() {
    let queue = queue(usize::MAX, &Clock::manual(Moment::default()));
    let put = |n: u64| {
        let mut state = unreachable();
        if let OriginState::Unreachable { outage, .. } = &mut state {
            outage.since = Moment::from_millis(n);
        }
        let id = DecisionId::mint(Moment::default());
        put_with(&queue, id, &grounds_of(&state)).robots.unwrap()
    };
    let first = put(0);
    put(0);
    let batch = take(&queue);
    assert_eq!((batch.content.objects.len(), batch.forgotten), (1, None));
    queue.wrote(&batch, Moment::default());
    put(0);
    let batch = take(&queue);
    assert!(batch.content.objects.is_empty(), "it is known");
    queue.wrote(&batch, Moment::default());
    for n in 1..=MAX_KNOWN as u64 {
        put(n);
    }
    assert_eq!(put(0), first);
    let batch = take(&queue);
    // The last new object did not fit among the known ones: the queue forgot those, and this one is known first.
    assert_eq!(batch.content.objects.len(), MAX_KNOWN + 1);
    assert_eq!(batch.forgotten, Some(MAX_KNOWN - 1));
    assert_eq!(batch.content.objects.last().unwrap().sha256, first);
}
