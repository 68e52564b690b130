//! Everything that is counted is given back, and the least busy connection makes room.

use std::collections::VecDeque;
use std::thread;

use super::*;
use crawlgate_config::Config;

const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
const THERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));

fn limits(set: impl FnOnce(&mut Limits)) -> Limits {
    let mut limits = Config::default().limits;
    set(&mut limits);
    limits
}

fn called(name: &str) -> Client {
    Client { name: Some(name.into()), ..Client::default() }
}

fn named(name: &str) -> Arc<Client> {
    Arc::new(called(name))
}

/// Tells whether a connection has been asked to leave.
async fn has_to_leave(slot: &ConnectionSlot) -> bool {
    let soon = std::time::Duration::from_millis(1);
    tokio::time::timeout(soon, slot.has_to_leave()).await.is_ok()
}

fn is_empty(limiter: &Limiter) -> bool {
    let occupied = limiter.occupied();
    (occupied.connections, occupied.requests) == (0, 0)
        && limiter.usages.is_empty()
        && limiter.spare.taken() == 0
}

#[tokio::test(start_paused = true)]
async fn the_longest_idle_makes_room_and_no_busy_connection_does() {
    let limiter = Arc::<Limiter>::default();
    let slot = || limiter.slot(3);
    let (one, two, three) = (slot().unwrap(), slot().unwrap(), slot().unwrap());
    one.begin();
    two.begin();
    three.begin();
    assert!(slot().is_none(), "three are busy");
    two.end();
    one.end();
    let four = slot().expect("two is idle for longest");
    assert!(has_to_leave(&two).await && !has_to_leave(&one).await);
    // It is no longer idle when its turn comes.
    one.begin();
    assert!(!has_to_leave(&four).await);
    let five = slot().expect("four has been idle since it came");
    assert!(has_to_leave(&four).await && !has_to_leave(&one).await);
    assert_eq!(limiter.occupied().connections, 3);
    assert_eq!(limiter.occupied().evicted, 2);
    drop((one, two, three, four, five));
    assert!(is_empty(&limiter));
}

#[tokio::test(start_paused = true)]
async fn thousands_of_newcomers_take_each_others_seats() {
    let limiter = Arc::<Limiter>::default();
    let crawler = limiter.slot(100).unwrap();
    let mut flood = VecDeque::new();
    for _ in 0..5000 {
        // It sends a request now and then.
        crawler.begin();
        crawler.end();
        flood.push_back(limiter.slot(100).expect("a connection is idle"));
        if flood.len() > 200 {
            flood.pop_front();
        }
    }
    assert!(!has_to_leave(&crawler).await);
    assert_eq!(limiter.occupied().connections, 100);
    drop((crawler, flood));
    assert!(is_empty(&limiter));
}

#[tokio::test(start_paused = true)]
async fn a_client_has_as_many_connections_as_it_may_have() {
    let limiter = Arc::<Limiter>::default();
    let limits = limits(|limits| limits.connections_per_client = Some(2));
    let unnamed = Arc::<Client>::default();
    let slots: Vec<ConnectionSlot> = (0..4).map(|_| limiter.slot(100).unwrap()).collect();
    for slot in &slots {
        slot.begin();
    }
    assert_eq!(slots[0].belongs_to(&unnamed, HERE, &limits), Ok(()));
    assert_eq!(slots[1].belongs_to(&unnamed, HERE, &limits), Ok(()));
    let third = slots[2].belongs_to(&unnamed, HERE, &limits);
    assert_eq!(third, Err(Reason::ClientLimit));
    assert_eq!(slots[3].belongs_to(&unnamed, THERE, &limits), Ok(()));
    // Its own idle connection makes room, and no other client's.
    slots[3].end();
    slots[1].end();
    assert_eq!(slots[2].belongs_to(&unnamed, HERE, &limits), Ok(()));
    assert!(has_to_leave(&slots[1]).await && !has_to_leave(&slots[3]).await);
    // A connection that turns out to belong to a client counts as that client's.
    let news = Arc::new(Client { max_connections: Some(1), ..called("news") });
    assert!(slots[0].request(&news, HERE, &limits).is_ok());
    let other = limiter.slot(100).unwrap();
    assert_eq!(other.belongs_to(&unnamed, HERE, &limits), Ok(()));
    let too_many = other.request(&news, THERE, &limits).map(drop);
    assert_eq!(too_many, Err(LimitExceeded::Connections(Reason::ClientLimit)));
    drop((slots, other));
    assert!(is_empty(&limiter));
}

#[test]
fn requests_are_counted_in_all_and_of_each_client() {
    let limiter = Arc::<Limiter>::default();
    let limits = limits(|limits| {
        limits.requests = Some(3);
        limits.requests_per_client = Some(2);
    });
    let (one, two) = (named("one"), named("two"));
    let many = Arc::new(Client { max_requests: Some(3), ..called("many") });
    let slots: Vec<ConnectionSlot> = (0..5).map(|_| limiter.slot(100).unwrap()).collect();
    let place = |slot: usize, client| slots[slot].request(client, HERE, &limits);
    let mine = LimitExceeded::Requests(Reason::ClientLimit);
    let all = LimitExceeded::Requests(Reason::Overloaded);
    let first = place(0, &one).unwrap();
    let second = place(1, &one).unwrap();
    assert_eq!(place(2, &one).map(drop), Err(mine));
    let third = place(2, &two).unwrap();
    assert_eq!(place(3, &two).map(drop), Err(all));
    drop(second);
    assert!(place(3, &two).is_ok(), "what was refused is not counted");
    drop((first, third));
    let three: Vec<RequestSlot> = (0..3).map(|slot| place(slot, &many).unwrap()).collect();
    assert_eq!(place(3, &many).map(drop), Err(mine), "its own number");
    assert_eq!(limiter.occupied().requests, 3);
    drop((three, slots));
    assert!(is_empty(&limiter));
}

#[test]
fn a_reload_forgets_nothing_that_is_under_way() {
    let limiter = Arc::<Limiter>::default();
    let limits = limits(|limits| limits.requests_per_client = Some(1));
    let (before, after) = (named("one"), named("one"));
    let slots = [limiter.slot(9).unwrap(), limiter.slot(9).unwrap()];
    let place = slots[0].request(&before, HERE, &limits).unwrap();
    let again = slots[1].request(&after, THERE, &limits).map(drop);
    assert_eq!(again, Err(LimitExceeded::Requests(Reason::ClientLimit)));
    drop(place);
    assert!(slots[0].request(&after, HERE, &limits).is_ok());
    drop(slots);
    assert!(is_empty(&limiter));
}

#[tokio::test(start_paused = true)]
async fn a_tunnel_on_a_stream_makes_room_and_its_connection_does_not() {
    let limiter = Arc::<Limiter>::default();
    let connection = Arc::new(limiter.slot(2).unwrap());
    let tunnel = limiter.tunnel_slot(2, &connection).unwrap();
    tunnel.reset();
    assert!(!connection.resets(), "each ends on its own");
    let other = limiter.slot(2).expect("the tunnel is idle");
    assert!(has_to_leave(&tunnel).await && !has_to_leave(&connection).await);
    other.begin();
    drop(tunnel);
    assert!(
        limiter.tunnel_slot(2, &connection).is_none(),
        "no connection makes room for its own tunnel"
    );
    assert!(!has_to_leave(&connection).await);
    let third = limiter.slot(2).expect("the connection carries nothing");
    assert!(has_to_leave(&connection).await);
    drop((connection, other, third));
    assert!(is_empty(&limiter));
}

#[test]
fn only_so_many_are_told_that_there_is_no_room() {
    let limiter = Arc::<Limiter>::default();
    let found: Vec<ConnectionSlot> =
        std::iter::from_fn(|| limiter.spare_slot()).take(10_000).collect();
    assert_eq!(found.len(), SPARE_SLOTS);
    let occupied = limiter.occupied();
    assert_eq!((occupied.turned_away, occupied.closed), (found.len() as u64, 1));
    drop(found);
    assert!(limiter.spare_slot().is_some());
    assert!(is_empty(&limiter));
}

#[test]
fn the_operator_is_warned_once_a_minute() {
    let limiter = Limiter::default();
    let at = |seconds: u64| limiter.should_warn(Moment::from_millis(1_000_000 + seconds * 1000));
    let found: Vec<bool> = [0, 1, 59, 60, 61, 130].map(at).into();
    assert_eq!(found, [true, false, false, true, false, true]);
}

#[test]
fn many_threads_lose_and_invent_nothing() {
    let limiter = Arc::<Limiter>::default();
    let limits = limits(|limits| limits.requests_per_client = Some(3));
    let clients = [named("one"), named("two")];
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (limiter, limits, clients) = (&limiter, &limits, &clients);
            scope.spawn(move || {
                for turn in 0..2000 {
                    let Some(slot) = limiter.slot(3) else {
                        continue;
                    };
                    slot.begin();
                    let client = &clients[(turn + thread) % 2];
                    let place = slot.request(client, HERE, limits);
                    if turn % 3 == 0 {
                        slot.end();
                    }
                    drop(place);
                }
            });
        }
    });
    assert!(is_empty(&limiter));
}

#[tokio::test(start_paused = true)]
async fn silent_tunnels_go_after_idle_connections_and_give_their_place() {
    let limiter = Arc::<Limiter>::default();
    let slot = || limiter.slot(3);
    let (tunnel, socket, idle) = (slot().unwrap(), slot().unwrap(), slot().unwrap());
    for one in [&tunnel, &socket, &idle] {
        one.begin();
    }
    tunnel.mark_silent();
    socket.mark_silent();
    idle.end();
    let four = slot().expect("one is idle");
    assert!(has_to_leave(&idle).await && !has_to_leave(&tunnel).await);
    four.begin();
    // Found by the search before; by now there is an idle connection.
    four.end();
    let five = slot().expect("one is idle again");
    assert!(has_to_leave(&four).await && !has_to_leave(&tunnel).await);
    five.begin();
    let six = slot().expect("two are silent");
    assert!(has_to_leave(&tunnel).await && !has_to_leave(&socket).await);
    six.begin();
    // Octets pass: it is in use.
    socket.mark_active();
    assert!(slot().is_none());

    // The requests of one client, and of all.
    let client = named("one");
    for (in_all, of_client) in [(Some(2), None), (None, Some(2))] {
        let limiter = Arc::<Limiter>::default();
        let limits = limits(|limits| {
            limits.requests = in_all;
            limits.requests_per_client = of_client;
        });
        let slots: Vec<ConnectionSlot> = (0..3).map(|_| limiter.slot(10).unwrap()).collect();
        let place = |number: usize| slots[number].request(&client, HERE, &limits);
        let (_first, _second) = (place(0).unwrap(), place(1).unwrap());
        slots[0].begin();
        slots[1].begin();
        assert!(place(2).is_err());
        slots[1].mark_silent();
        let third = place(2).expect("one is silent");
        assert!(has_to_leave(&slots[1]).await && !has_to_leave(&slots[0]).await);
        drop(third);
        assert!(place(2).is_err(), "the silent one has not gone yet");
    }
}

#[test]
fn the_first_streams_of_a_connection_count_it_once() {
    let limiter = Arc::<Limiter>::default();
    let limits = limits(|limits| limits.connections_per_client = Some(1));
    let client = named("news");
    for round in 0..100 {
        let slot = limiter.slot(1).unwrap();
        // Busy, so that it does not make room for itself.
        slot.begin();
        // Both streams look for the owner before either counts: the counts are locked meanwhile.
        let counts = limiter.usages.entry(client.key(HERE));
        let arrived = AtomicUsize::new(0);
        let enter = || {
            arrived.fetch_add(1, Ordering::AcqRel);
            slot.belongs_to(&client, HERE, &limits)
        };
        thread::scope(|scope| {
            let both = [scope.spawn(enter), scope.spawn(enter)];
            while arrived.load(Ordering::Acquire) < 2 {
                thread::yield_now();
            }
            (0..100).for_each(|_| thread::yield_now());
            drop(counts);
            for one in both {
                assert_eq!(one.join().unwrap(), Ok(()), "round {round}");
            }
        });
    }
    assert!(is_empty(&limiter));
}
