//! Whether a password is right, without a hash for each request.
//!
//! An argon2 hash takes some 20 ms and 19 MiB, on purpose. So what was found right is remembered, in bounded room, under
//! a keyed hash of user, password and stored hash: the memory holds no password, and one that is changed in the
//! configuration is another key at once. Requests that bring the same credentials together wait for one hash. What is
//! found wrong is not remembered; instead each address has a few attempts at each user, and one more every few seconds,
//! and past them nothing is hashed. Few hashes run at once, on threads of their own, and few wait: a flood of wrong
//! passwords takes neither the processor nor the memory from requests whose credentials are known.
//!
//! A user whom nobody knows costs the same as a wrong password.

use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use argon2::{Argon2, PasswordHasher as _, PasswordVerifier as _};
use aws_lc_rs::hmac;
use governor::middleware::NoOpMiddleware;
use governor::nanos::Nanos;
use governor::state::keyed::HashMapStateStore;
use governor::{Quota, RateLimiter};
use quick_cache::sync::Cache;
use tokio::sync::Semaphore;

use super::ClientKey;
use crate::clock::{Clock, Moment};
use crate::config::PasswordHash;

/// Pairs of user and password that are remembered.
const REMEMBERED: usize = 4_096;

/// Hashes that run at once: each takes a processor, and its memory.
const AT_ONCE: usize = 2;

/// Attempts that wait for their hash.
const WAITING: usize = 64;

/// Attempts at one user that an address has at once.
const ATTEMPTS: NonZeroU32 = NonZeroU32::MIN.saturating_add(9);

/// How long it takes until it has another one.
const ANOTHER: Duration = Duration::from_secs(6);

/// Addresses and users whose attempts are counted. Past it, all others are one.
const COUNTED: usize = 65_536;

/// What came of credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// They are right.
    Right,
    /// They are wrong.
    Wrong,
    /// There were too many attempts from this address; no other is looked at before this moment.
    TooMany(Moment),
    /// Too many attempts wait, from wherever.
    Busy,
}

/// Whose attempts are counted together: those at one user from one address (or IPv6 network of 64 bits).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Attempts(Option<(ClientKey, Option<Arc<str>>)>);

type Limiter = RateLimiter<Attempts, HashMapStateStore<Attempts>, Ticks, NoOpMiddleware<Nanos>>;

/// Checks passwords.
pub struct Passwords {
    right: Cache<[u8; 32], ()>,
    key: hmac::Key,
    attempts: Limiter,
    /// When attempts were last forgotten that have no effect any more, in seconds.
    swept: AtomicU64,
    slots: Arc<Semaphore>,
    waiting: AtomicUsize,
    hashed: AtomicU64,
    clock: Clock,
}

/// What is claimed.
#[derive(Clone, Copy)]
pub struct Claim<'a> {
    /// From where.
    pub address: IpAddr,
    /// By whom, as sent.
    pub user: &'a [u8],
    /// With which password.
    pub password: &'a [u8],
    /// The client of that name, and the hash of its password; none where there is no such client.
    pub stored: Option<(&'a Arc<str>, &'a PasswordHash)>,
    /// A hash that is checked in its place, so that it takes as long.
    pub decoy: &'a PasswordHash,
}

impl Passwords {
    /// Nothing is remembered yet.
    #[must_use]
    pub fn new(clock: Clock) -> Passwords {
        let mut key = [0; 32];
        // Without randomness there is no TLS either, and nothing starts. A key that is known lets nobody in: whoever
        // reads this process's memory has the passwords as they come.
        let _ = aws_lc_rs::rand::fill(&mut key);
        let quota = Quota::with_period(ANOTHER).unwrap_or(Quota::per_minute(ATTEMPTS));
        Passwords {
            right: Cache::new(REMEMBERED),
            key: hmac::Key::new(hmac::HMAC_SHA256, &key),
            attempts: RateLimiter::hashmap_with_clock(
                quota.allow_burst(ATTEMPTS),
                Ticks(clock.clone()),
            ),
            swept: AtomicU64::new(0),
            slots: Arc::new(Semaphore::new(AT_ONCE)),
            waiting: AtomicUsize::new(0),
            hashed: AtomicU64::new(0),
            clock,
        }
    }

    /// Hashes computed so far.
    #[must_use]
    pub fn hashed(&self) -> u64 {
        self.hashed.load(Ordering::Relaxed)
    }

    /// Looks at credentials. Those that come with the same ones meanwhile wait for the outcome.
    pub async fn check(&self, claim: &Claim<'_>) -> Outcome {
        let key = self.key_of(claim);
        let guard = match self.right.get_value_or_guard_async(&key).await {
            Ok(()) => return Outcome::Right,
            Err(guard) => guard,
        };
        if let Err(again) = self.attempt(claim) {
            return Outcome::TooMany(again);
        }
        match self.hash(claim).await {
            Outcome::Right => {
                // Refused only where it was removed meanwhile, which nothing does.
                let _ = guard.insert(());
                Outcome::Right
            }
            other => other,
        }
    }

    /// Counts an attempt.
    fn attempt(&self, claim: &Claim<'_>) -> Result<(), Moment> {
        let user = claim.stored.map(|(name, _)| Arc::clone(name));
        let mut who = Attempts(Some((ClientKey::at(claim.address), user)));
        if self.attempts.len() >= COUNTED {
            let second = self.clock.now().as_millis() / 1_000;
            if self.swept.swap(second, Ordering::Relaxed) != second {
                self.attempts.retain_recent();
            }
            if self.attempts.len() >= COUNTED {
                who = Attempts(None);
            }
        }
        let Err(early) = self.attempts.check_key(&who) else {
            return Ok(());
        };
        let now = self.clock.now();
        Err(now + early.wait_time_from(Ticks::at(now)))
    }

    async fn hash(&self, claim: &Claim<'_>) -> Outcome {
        let waiting = Waiting::among(&self.waiting);
        if waiting.place > WAITING {
            return Outcome::Busy;
        }
        let Ok(slot) = Arc::clone(&self.slots).acquire_owned().await else {
            return Outcome::Busy;
        };
        drop(waiting);
        self.hashed.fetch_add(1, Ordering::Relaxed);
        let is_client = claim.stored.is_some();
        let stored = claim.stored.map_or(claim.decoy, |(_, stored)| stored);
        let (stored, password) = (stored.clone(), claim.password.to_vec());
        let hashing = tokio::task::spawn_blocking(move || {
            let is_right = verify(&stored, &password);
            // Here, not above: a crawler that hangs up does not end the hash.
            drop(slot);
            is_right
        });
        match hashing.await {
            Ok(true) if is_client => Outcome::Right,
            Ok(_) => Outcome::Wrong,
            // The process ends, or the system has no more threads.
            Err(_) => Outcome::Busy,
        }
    }

    /// Names credentials, together with the hash that they were held against.
    fn key_of(&self, claim: &Claim<'_>) -> [u8; 32] {
        let mut context = hmac::Context::with_key(&self.key);
        let stored = claim.stored.map_or("", |(_, stored)| stored.reveal());
        for part in [claim.user, claim.password, stored.as_bytes()] {
            context.update(&(part.len() as u64).to_le_bytes());
            context.update(part);
        }
        let mut key = [0; 32];
        for (octet, of_tag) in key.iter_mut().zip(context.sign().as_ref()) {
            *octet = *of_tag;
        }
        key
    }
}

impl std::fmt::Debug for Passwords {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Passwords")
            .field("remembered", &self.right.len())
            .finish_non_exhaustive()
    }
}

/// Whether `password` is the one of `stored`. Takes its time, on the thread that calls it; compares in constant time.
#[must_use]
pub fn verify(stored: &PasswordHash, password: &[u8]) -> bool {
    argon2::PasswordHash::new(stored.reveal())
        .is_ok_and(|hash| Argon2::default().verify_password(password, &hash).is_ok())
}

/// The hash of a new password, with a salt of its own.
///
/// # Errors
/// When the system has no randomness, or the password cannot be hashed.
pub fn hash(password: &[u8]) -> Result<PasswordHash, String> {
    let hash: argon2::PasswordHash = Argon2::default()
        .hash_password(password)
        .map_err(|error| format!("the password cannot be hashed: {error}"))?;
    PasswordHash::parse(&hash.to_string()).map_err(str::to_owned)
}

/// A place among those that wait.
struct Waiting<'a> {
    all: &'a AtomicUsize,
    place: usize,
}

impl<'a> Waiting<'a> {
    fn among(all: &'a AtomicUsize) -> Waiting<'a> {
        let place = 1 + all.fetch_add(1, Ordering::Relaxed);
        Waiting { all, place }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.all.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Our clock in governor's terms.
#[derive(Debug, Clone)]
struct Ticks(Clock);

impl Ticks {
    fn at(moment: Moment) -> Nanos {
        Nanos::from(Duration::from_millis(moment.as_millis()))
    }
}

impl governor::clock::Clock for Ticks {
    type Instant = Nanos;

    fn now(&self) -> Nanos {
        Ticks::at(self.0.now())
    }
}

#[cfg(test)]
mod tests;
