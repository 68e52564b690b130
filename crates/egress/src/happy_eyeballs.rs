//! Happy Eyeballs (RFC 8305): connects to the first of several addresses that answers.
//!
//! The families take turns. The next attempt starts beside the present one after a quarter of a second; a failed
//! attempt starts it at once. The first connection wins, the others are given up. Addresses that a name server sends
//! late join those still to be tried.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::sleep;

use crawlgate_system::descriptors::is_exhaustion;

/// Time before the next attempt starts (RFC 8305, section 5: the recommended Connection Attempt Delay).
const ALONE: Duration = Duration::from_millis(250);

/// Limit of addresses that are tried for one name. An answer can hold hundreds.
const MAX: usize = 16;

/// Orders addresses for their attempts: families by turns, beginning with that of the first (RFC 8305, section 4).
pub(super) fn interleave(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let Some(is_first_v6) = addresses.first().map(SocketAddr::is_ipv6) else {
        return addresses;
    };
    let (first, second): (Vec<_>, Vec<_>) =
        (addresses.into_iter()).partition(|address| address.is_ipv6() == is_first_v6);
    let mut second = second.into_iter();
    let mut order = Vec::new();
    for address in first {
        order.push(address);
        order.extend(second.next());
    }
    order.extend(second);
    order.truncate(MAX);
    order
}

/// Addresses that may come while others are tried.
pub(super) type LateAddresses = Pin<Box<dyn Future<Output = Vec<SocketAddr>> + Send>>;

/// Connects to one of `addresses`, in their order, or of those that come later. The error is that of the last failed
/// attempt.
pub(super) async fn race<C, F>(
    addresses: Vec<SocketAddr>,
    later: Option<LateAddresses>,
    connect: impl Fn(SocketAddr) -> F,
) -> io::Result<C>
where
    C: Send + 'static,
    F: Future<Output = io::Result<C>> + Send + 'static,
{
    race_by(addresses, later, connect, || sleep(ALONE)).await
}

/// Runs [`race`]; the future that `alone` returns resolves when the next attempt may start.
async fn race_by<C, F, A>(
    addresses: Vec<SocketAddr>,
    mut later: Option<LateAddresses>,
    connect: impl Fn(SocketAddr) -> F,
    alone: impl Fn() -> A,
) -> io::Result<C>
where
    C: Send + 'static,
    F: Future<Output = io::Result<C>> + Send + 'static,
    A: Future<Output = ()>,
{
    let mut rest = VecDeque::from(addresses);
    if rest.len() == 1
        && later.is_none()
        && let Some(only) = rest.pop_front()
    {
        return connect(only).await;
    }
    let mut failed = io::Error::from(io::ErrorKind::AddrNotAvailable);
    let mut attempts = JoinSet::new();
    let mut is_due = true;
    loop {
        if is_due || attempts.is_empty() {
            match rest.pop_front() {
                Some(address) => drop(attempts.spawn(connect(address))),
                None if attempts.is_empty() && later.is_none() => return Err(failed),
                None => {}
            }
        }
        is_due = true;
        let has_more = !rest.is_empty();
        let coming = async {
            match &mut later {
                Some(later) => later.await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            // There is one, or addresses are still to come; otherwise the loop would have ended.
            Some(ended) = attempts.join_next() => match ended {
                Ok(Ok(connection)) => return Ok(connection),
                // An attempt that could not be made says nothing about the others.
                Ok(Err(_)) if is_exhaustion(&failed) => {}
                Ok(Err(error)) => failed = error,
                Err(panicked) => failed = io::Error::other(panicked),
            },
            found = coming => {
                later = None;
                rest.extend(found);
                rest.truncate(MAX);
                // The present attempt first gets its time without a rival.
                is_due = false;
            }
            () = alone(), if has_more => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tokio::sync::{Notify, oneshot};

    use super::*;

    fn addresses(texts: &[&str]) -> Vec<SocketAddr> {
        let read = texts.iter().map(|text| text.parse().unwrap());
        read.map(|address| SocketAddr::new(address, 80)).collect()
    }

    #[test]
    fn families_take_turns() {
        #[rustfmt::skip] // one row, one case
        let cases: &[(&str, &[&str], &[&str])] = &[
            ("none", &[], &[]),
            ("one family", &["192.0.2.1", "192.0.2.2"], &["192.0.2.1", "192.0.2.2"]),
            ("IPv6 first", &["::1", "::2", "192.0.2.1", "192.0.2.2"], &["::1", "192.0.2.1", "::2", "192.0.2.2"]),
            ("IPv4 first", &["192.0.2.1", "::1", "::2", "::3"], &["192.0.2.1", "::1", "::2", "::3"]),
            ("more of the first", &["::1", "::2", "::3", "192.0.2.1"], &["::1", "192.0.2.1", "::2", "::3"]),
        ];
        for (name, given, want) in cases {
            assert_eq!(interleave(addresses(given)), addresses(want), "{name}");
        }
        let many = vec![addresses(&["::1"])[0]; 100];
        assert_eq!(interleave(many).len(), MAX);
    }

    /// The next event of a race.
    #[derive(Clone, Copy, Debug)]
    enum Event {
        /// The latest attempt has had its time without a rival.
        Overdue,
        /// This attempt connects.
        Answers(usize),
        /// This attempt fails.
        Fails(usize),
        /// The name server sends this many more addresses.
        Comes(usize),
        /// The name server has sent all addresses.
        Ends,
    }

    /// Plays `events` to a race between `places`. Returns the winner, and the number of attempts started before each
    /// event and after the last one. If an event says that more places come, the name server has not sent all of them
    /// at the start.
    async fn play(places: usize, events: &[Event]) -> (Option<usize>, Vec<usize>) {
        let overdue = Arc::new(Notify::new());
        let fates: Arc<Mutex<Vec<oneshot::Sender<bool>>>> = Arc::default();
        let connect = {
            let fates = Arc::clone(&fates);
            move |address: SocketAddr| {
                let (decide, decided) = oneshot::channel();
                fates.lock().unwrap().push(decide);
                async move {
                    match decided.await {
                        Ok(true) => Ok(usize::from(address.port())),
                        _ => Err(io::ErrorKind::ConnectionRefused.into()),
                    }
                }
            }
        };
        let alone = {
            let overdue = Arc::clone(&overdue);
            move || {
                let overdue = Arc::clone(&overdue);
                async move { overdue.notified().await }
            }
        };
        let place = |place| SocketAddr::from(([192, 0, 2, 1], u16::try_from(place).unwrap()));
        let is_late = |event: &Event| matches!(event, Event::Comes(_) | Event::Ends);
        let (tell, later_addresses) = oneshot::channel::<Vec<SocketAddr>>();
        let mut tell = Some(tell);
        let later = events.iter().any(is_late).then(|| {
            let later: LateAddresses = Box::pin(async { later_addresses.await.unwrap() });
            later
        });
        let racing = tokio::spawn(race_by((0..places).map(place).collect(), later, connect, alone));
        let mut begun = Vec::new();
        for event in events {
            settle().await;
            begun.push(fates.lock().unwrap().len());
            let decide = |place: usize, fate| {
                let (never, _) = oneshot::channel();
                let decide = std::mem::replace(&mut fates.lock().unwrap()[place], never);
                decide.send(fate).unwrap();
            };
            match *event {
                Event::Overdue => overdue.notify_one(),
                Event::Answers(place) => decide(place, true),
                Event::Fails(place) => decide(place, false),
                Event::Comes(more) => {
                    let more = (places..places + more).map(place).collect();
                    tell.take().unwrap().send(more).unwrap();
                }
                Event::Ends => tell.take().unwrap().send(Vec::new()).unwrap(),
            }
        }
        settle().await;
        begun.push(fates.lock().unwrap().len());
        // An endless race would hang here.
        assert!(racing.is_finished(), "{events:?}");
        (racing.await.unwrap().ok(), begun)
    }

    /// Lets every task go on until it waits: there is one thread, and each wakes at most two others.
    async fn settle() {
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn the_first_answer_wins_and_no_attempt_waits_for_a_black_hole() {
        use Event::{Answers, Comes, Ends, Fails, Overdue};
        // Number of places, events, winner, number of attempts at each step.
        type Case<'a> = (&'a str, usize, &'a [Event], Option<usize>, &'a [usize]);
        #[rustfmt::skip] // one row, one case
        let cases: &[Case<'_>] = &[
            ("one", 1, &[Answers(0)], Some(0), &[1, 1]),
            ("one that fails", 1, &[Fails(0)], None, &[1, 1]),
            ("the first answers in time", 2, &[Answers(0)], Some(0), &[1, 1]),
            ("the second overtakes", 2, &[Overdue, Answers(1)], Some(1), &[1, 2, 2]),
            ("the first is late, yet first", 2, &[Overdue, Answers(0)], Some(0), &[1, 2, 2]),
            ("two black holes", 3, &[Overdue, Overdue, Answers(2)], Some(2), &[1, 2, 3, 3]),
            ("a refusal starts the next at once", 2, &[Fails(0), Answers(1)], Some(1), &[1, 2, 2]),
            ("a refusal beside a black hole", 3, &[Overdue, Fails(1), Answers(2)], Some(2), &[1, 2, 3, 3]),
            ("all fail", 2, &[Fails(0), Fails(1)], None, &[1, 2, 2]),
            ("the first fails last", 2, &[Overdue, Fails(1), Fails(0)], None, &[1, 2, 2, 2]),
            ("nowhere to go", 0, &[], None, &[0]),
            ("one more comes and is not needed", 1, &[Comes(1), Answers(0)], Some(0), &[1, 1, 1]),
            ("one more comes beside a black hole", 1, &[Comes(1), Overdue, Answers(1)], Some(1), &[1, 1, 2, 2]),
            ("one more comes when all have failed", 1, &[Fails(0), Comes(1), Answers(1)], Some(1), &[1, 1, 2, 2]),
            ("no other comes when all have failed", 1, &[Fails(0), Ends], None, &[1, 1, 1]),
            ("no other comes while one is tried", 1, &[Ends, Answers(0)], Some(0), &[1, 1, 1]),
            ("two more come after one that fails", 1, &[Comes(2), Fails(0), Fails(1), Answers(2)], Some(2), &[1, 1, 2, 3, 3]),
        ];
        for (name, places, events, winner, begun) in cases {
            let played = play(*places, events).await;
            assert_eq!(played, (*winner, begun.to_vec()), "{name}");
        }
    }
}
