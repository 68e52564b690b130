//! The rate of questions and their number at once: each peer has its own.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::num::NonZeroU32;
use std::time::Duration;

use governor::clock::Clock as _;
use governor::middleware::NoOpMiddleware;
use governor::nanos::Nanos;
use governor::state::keyed::HashMapStateStore;
use governor::{Quota, RateLimiter};
use parking_lot::Mutex;

use crawlgate_system::clock::Clock;
use crawlgate_turns::rate_limit::MonotonicClock;

/// Peers that are remembered. Beyond, new ones wait until others are forgotten.
const MAX_PEERS: usize = 10_000;

/// Questions of one peer that are answered at once.
const AT_ONCE: usize = 2;

/// The wait of a peer with as many questions.
const UNDER_WAY: Duration = Duration::from_secs(5);

/// The wait of a peer that cannot be remembered.
const CROWDED: Duration = Duration::from_secs(60);

type Limiter =
    RateLimiter<IpAddr, HashMapStateStore<IpAddr>, MonotonicClock, NoOpMiddleware<Nanos>>;

/// The questions that peers have asked.
pub(super) struct Peers {
    limiter: Limiter,
    clock: MonotonicClock,
    under_way: Mutex<HashMap<IpAddr, usize>>,
}

/// A question under way.
pub(super) struct ActiveQuestion<'p> {
    peers: &'p Peers,
    peer: IpAddr,
}

impl Drop for ActiveQuestion<'_> {
    fn drop(&mut self) {
        let mut under_way = self.peers.under_way.lock();
        match under_way.get_mut(&self.peer) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(under_way.remove(&self.peer)),
        }
    }
}

impl Peers {
    /// Limits each peer to `per_minute` questions.
    pub(super) fn new(per_minute: u32, clock: Clock) -> Peers {
        let per_minute = NonZeroU32::new(per_minute).unwrap_or(NonZeroU32::MIN);
        let clock = MonotonicClock(clock);
        let quota = Quota::per_minute(per_minute);
        Peers {
            limiter: RateLimiter::hashmap_with_clock(quota, clock.clone()),
            clock,
            under_way: Mutex::default(),
        }
    }

    /// Takes a turn of a peer, and begins its question.
    ///
    /// # Errors
    /// The time until its next turn.
    pub(super) fn take(&self, peer: IpAddr) -> Result<ActiveQuestion<'_>, Duration> {
        let peer = network(peer);
        let mut under_way = self.under_way.lock();
        if under_way.get(&peer).is_some_and(|count| *count >= AT_ONCE) {
            return Err(UNDER_WAY);
        }
        if self.limiter.len() >= MAX_PEERS {
            self.limiter.retain_recent();
            if self.limiter.len() >= MAX_PEERS {
                return Err(CROWDED);
            }
        }
        let taken = self.limiter.check_key(&peer);
        taken.map_err(|early| early.wait_time_from(self.clock.now()))?;
        *under_way.entry(peer).or_default() += 1;
        Ok(ActiveQuestion { peers: self, peer })
    }
}

/// Returns the network that one peer has: an address of IPv4, the first half of one of IPv6.
fn network(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crawlgate_system::clock::Moment;

    #[test]
    fn each_peer_has_a_rate_of_its_own() {
        let clock = Clock::manual(Moment::from_millis(0));
        let peers = Peers::new(2, clock.clone());
        let take = |peer: &str| peers.take(peer.parse().unwrap()).is_ok();
        assert_eq!([take("192.0.2.1"), take("::ffff:192.0.2.1")], [true, true]);
        assert!(!take("192.0.2.1") && take("192.0.2.2"));
        assert_eq!([take("2001:db8::1"), take("2001:db8::2:1")], [true, true]);
        assert!(!take("2001:db8::3") && take("2001:db8:0:1::1"));
        clock.advance(Duration::from_secs(30));
        assert!(take("192.0.2.1") && !take("192.0.2.1"));
        let wait = peers.take("192.0.2.1".parse().unwrap());
        assert_eq!(wait.err(), Some(Duration::from_secs(30)));
    }

    #[test]
    fn each_peer_has_few_questions_under_way() {
        let peers = Peers::new(100, Clock::manual(Moment::from_millis(0)));
        let take = |peer: &str| peers.take(peer.parse().unwrap());
        let (first, _second) = (take("192.0.2.1").unwrap(), take("192.0.2.1").unwrap());
        assert_eq!(take("::ffff:192.0.2.1").err(), Some(UNDER_WAY));
        let _other = take("192.0.2.2").unwrap();
        drop(first);
        let _third = take("192.0.2.1").unwrap();
        assert_eq!(take("192.0.2.1").err(), Some(UNDER_WAY));
    }

    #[test]
    fn peers_without_end_take_no_memory() {
        let clock = Clock::manual(Moment::from_millis(0));
        let peers = Peers::new(1, clock.clone());
        let peer = |number: usize| {
            let number = u32::try_from(number).unwrap();
            IpAddr::V4((0x0100_0000 + number).into())
        };
        assert!((0..MAX_PEERS).all(|number| peers.take(peer(number)).is_ok()));
        assert_eq!(peers.take(peer(MAX_PEERS)).err(), Some(CROWDED));
        clock.advance(Duration::from_secs(121));
        assert!(peers.take(peer(MAX_PEERS)).is_ok());
        assert!(peers.limiter.len() < MAX_PEERS);
    }
}
