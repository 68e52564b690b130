use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use super::super::http2::tests::{connect, origin, until};
use super::*;

const IDLE: Duration = Duration::from_secs(90);
const WITHIN: Duration = Duration::from_secs(10);

fn multiplexer(connections: usize, streams: usize) -> (Multiplexer, Clock, Arc<IdleBudget>) {
    let clock = Clock::manual(Moment::from_millis(1_000_000));
    let idle = Arc::new(IdleBudget::new(10));
    let multiplexer = Multiplexer::new(Bounds {
        connections,
        streams,
        timeout: IDLE,
        idle: Arc::clone(&idle),
        clock: clock.clone(),
        generation: AtomicU64::new(0),
    });
    (multiplexer, clock, idle)
}

fn key(client: Option<&str>) -> Key {
    let (origin, _) = Origin::parse("https://a.example/").expect("a URL");
    Key::new(&origin, client.map(Arc::from))
}

/// Polls once.
fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Takes leave to make a connection.
async fn dial(multiplexer: &Multiplexer, key: &Key) -> Dial {
    match multiplexer.turn(key, WITHIN).await {
        Ok((Turn::Dial(dial), _)) => dial,
        _ => panic!("no leave to make a connection"),
    }
}

/// Makes a connection to an origin that permits so many streams, and waits until that is known.
async fn adopt(multiplexer: &Multiplexer, key: &Key, most: u32, joins: bool) -> Place {
    let (group, generation) = (multiplexer.group(key), multiplexer.generation());
    let connection = connect(origin(most), &group.changed()).await;
    until(&group.changed(), || connection.is_settled()).await;
    group.adopt(connection, generation, joins)
}

#[tokio::test]
async fn requests_wait_for_the_connection_that_one_of_them_makes() {
    let (multiplexer, ..) = multiplexer(8, 100);
    let key = key(None);
    let first = dial(&multiplexer, &key).await;
    let mut waiting = pin!(multiplexer.turn(&key, WITHIN));
    assert!(poll(waiting.as_mut()).is_pending());
    let _used = adopt(&multiplexer, &key, 10, true).await;
    drop(first);
    assert!(matches!(poll(waiting.as_mut()), Poll::Ready(Ok((Turn::Place(_), _)))));
}

#[tokio::test]
async fn a_failure_counts_for_the_requests_that_waited_for_it() {
    let (multiplexer, ..) = multiplexer(8, 100);
    let key = key(None);
    let first = dial(&multiplexer, &key).await;
    let mut waiting = pin!(multiplexer.turn(&key, WITHIN));
    assert!(poll(waiting.as_mut()).is_pending());
    first.fail(Failure::Refused);
    assert!(matches!(poll(waiting.as_mut()), Poll::Ready(Err(Failure::Refused))));
    // A later request tries anew.
    dial(&multiplexer, &key).await;
}

#[tokio::test]
async fn the_next_request_makes_the_connection_if_the_first_has_left() {
    let (multiplexer, ..) = multiplexer(8, 100);
    let key = key(None);
    let first = dial(&multiplexer, &key).await;
    let mut waiting = pin!(multiplexer.turn(&key, WITHIN));
    assert!(poll(waiting.as_mut()).is_pending());
    drop(first);
    assert!(matches!(poll(waiting.as_mut()), Poll::Ready(Ok((Turn::Dial(_), _)))));
}

#[tokio::test]
async fn each_request_makes_its_own_connection_to_an_origin_with_http1() {
    let (multiplexer, ..) = multiplexer(8, 100);
    let key = key(None);
    let first = dial(&multiplexer, &key).await;
    let mut waiting = pin!(multiplexer.turn(&key, WITHIN));
    assert!(poll(waiting.as_mut()).is_pending());
    multiplexer.remember(key.origin(), Protocol::Http1);
    drop(first);
    assert!(matches!(poll(waiting.as_mut()), Poll::Ready(Ok((Turn::Alone, _)))));
    assert!(matches!(multiplexer.turn(&key, WITHIN).await, Ok((Turn::Alone, _))));
}

#[tokio::test]
async fn streams_and_connections_are_bounded() {
    for (most, origins_most) in [(2, 100), (100, 2)] {
        let (multiplexer, ..) = multiplexer(2, most);
        let key = key(None);
        let mut places = Vec::new();
        for _ in 0..2 {
            let leave = dial(&multiplexer, &key).await;
            places.push(adopt(&multiplexer, &key, origins_most, true).await);
            drop(leave);
            places.extend(multiplexer.take(&key, |_| true));
        }
        assert_eq!(places.len(), 4);
        assert!(multiplexer.take(&key, |_| true).is_none());
        let mut waiting = pin!(multiplexer.turn(&key, WITHIN));
        assert!(poll(waiting.as_mut()).is_pending(), "no third connection");
        drop(places.pop());
        assert!(matches!(poll(waiting.as_mut()), Poll::Ready(Ok((Turn::Place(_), _)))));
    }
}

#[tokio::test]
async fn an_idle_connection_is_kept_for_its_time_and_counted() {
    let (multiplexer, clock, idle) = multiplexer(8, 100);
    let key = key(None);
    drop(adopt(&multiplexer, &key, 10, true).await);
    assert_eq!(idle.count(), 1);
    clock.advance(IDLE / 2);
    multiplexer.sweep();
    let place = multiplexer.take(&key, |_| true).expect("it is kept");
    assert_eq!((idle.count(), place.idle_for, place.past), (0, IDLE / 2, UseCount::Once));
    clock.advance(IDLE * 2);
    multiplexer.sweep();
    drop(place);
    assert_eq!(idle.count(), 1, "a connection in use is not idle");
    clock.advance(IDLE);
    multiplexer.sweep();
    assert_eq!(idle.count(), 0);
    assert!(multiplexer.take(&key, |_| true).is_none());
    assert!(multiplexer.groups.is_empty());
}

#[tokio::test]
async fn idle_connections_make_room() {
    let (multiplexer, _, idle) = multiplexer(8, 100);
    let key = key(None);
    let place = adopt(&multiplexer, &key, 10, true).await;
    assert_eq!(multiplexer.close_idle(), 0, "it is in use");
    drop(place);
    assert_eq!((multiplexer.close_idle(), idle.count()), (1, 0));
    idle.keep_at_most(0);
    drop(adopt(&multiplexer, &key, 10, true).await);
    assert!(multiplexer.take(&key, |_| true).is_none(), "there is no room for it");
}

#[tokio::test]
async fn a_connection_of_its_own_is_shared_once_its_exchange_has_ended() {
    let (multiplexer, _, idle) = multiplexer(8, 100);
    let key = key(None);
    let place = adopt(&multiplexer, &key, 10, false).await;
    assert!(multiplexer.take(&key, |_| true).is_none());
    drop(place);
    assert_eq!(idle.count(), 1);
    let shared = multiplexer.take(&key, |_| true).expect("it is shared now");
    // A second one is not needed.
    drop(adopt(&multiplexer, &key, 10, false).await);
    assert_eq!(idle.count(), 0);
    drop(shared);
    assert_eq!(idle.count(), 1);
}

#[tokio::test]
async fn connections_made_before_a_change_take_no_further_request() {
    let (multiplexer, _, idle) = multiplexer(8, 100);
    let key = key(None);
    multiplexer.remember(key.origin(), Protocol::Http2);
    let shared = adopt(&multiplexer, &key, 10, true).await;
    let own = adopt(&multiplexer, &key, 10, false).await;
    let (group, generation) = (multiplexer.group(&key), multiplexer.generation());
    multiplexer.empty();
    assert!(multiplexer.take(&key, |_| true).is_none());
    drop((shared, own));
    // One that was under way at the change.
    let connection = connect(origin(10), &group.changed()).await;
    drop(group.adopt(connection, generation, true));
    assert!(multiplexer.take(&key, |_| true).is_none());
    assert_eq!((idle.count(), multiplexer.protocol(key.origin())), (0, None));
}

#[tokio::test]
async fn a_connection_that_is_taken_while_all_are_closed_is_not_shared_again() {
    let (multiplexer, _, idle) = multiplexer(8, 100);
    let key = key(None);
    let first = adopt(&multiplexer, &key, 10, true).await;
    // In the middle of `empty`: the generation has ended, and the connections of this key are not closed yet.
    multiplexer.bounds.generation.fetch_add(1, Ordering::AcqRel);
    let second = multiplexer.take(&key, |_| true).expect("it is still there");
    let group = multiplexer.group(&key);
    group.retain(&mut group.state.lock(), |_| false);
    drop(second);
    assert!(multiplexer.take(&key, |_| true).is_none());
    drop(first);
    assert_eq!(idle.count(), 0);
}

#[tokio::test]
async fn a_connection_that_has_ended_takes_no_further_request() {
    let (multiplexer, _, idle) = multiplexer(8, 100);
    let key = key(None);
    let place = adopt(&multiplexer, &key, 10, true).await;
    place.connection.retire();
    assert!(multiplexer.take(&key, |_| true).is_none());
    drop(place);
    assert_eq!(idle.count(), 0);
}

#[tokio::test]
async fn clients_share_no_connection() {
    let (multiplexer, ..) = multiplexer(8, 100);
    drop(adopt(&multiplexer, &key(Some("a")), 10, true).await);
    assert!(multiplexer.take(&key(Some("b")), |_| true).is_none());
    assert!(multiplexer.take(&key(None), |_| true).is_none());
    assert!(multiplexer.take(&key(Some("a")), |_| true).is_some());
}
