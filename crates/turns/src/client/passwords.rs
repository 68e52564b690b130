//! Password checks, without a hash for each request.
//!
//! An argon2 hash takes some 20 ms and 19 MiB, on purpose. So outcomes are remembered, in bounded room, under a keyed
//! hash of user, password and stored hash: the memory holds no password, and a changed password in the configuration
//! makes another key at once. Requests that bring the same credentials together wait for one hash. Beyond that, each
//! address has a few attempts (`attempts`) at each user, and one more every few seconds. A right password uses up no
//! attempt, and a password that is known to be wrong uses no second one: a program that repeats last year's password
//! locks out no other program at its address. Few hashes run at once, on threads of their own, and few wait: a flood of
//! wrong passwords takes neither the processor nor the memory from requests with known credentials.
//!
//! An unknown user gets the same answer as a wrong password, as late and as soon limited, so that a guesser cannot
//! learn user names. After a few unknown users from one address, nothing is hashed for them.

mod attempts;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use argon2::{Argon2, PasswordHasher as _, PasswordVerifier as _, password_hash};
use aws_lc_rs::hmac;
use quick_cache::sync::Cache;
use thiserror::Error;
use tokio::sync::Semaphore;

use self::attempts::{Attempt, Attempts};
use crawlgate_config::PasswordHash;
use crawlgate_system::clock::{Clock, Moment};

/// Pairs of user and password that are remembered.
const REMEMBERED: usize = 4_096;

/// Pairs that are remembered to be wrong. Kept apart, so that guesses push out only other guesses.
const REMEMBERED_WRONG: usize = 1_024;

/// Hashes that run at once: each takes a processor, and its memory.
const AT_ONCE: usize = 2;

/// Attempts that wait for their hash.
const WAITING: usize = 64;

/// The outcome of a password check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// They are right.
    Right,
    /// They are wrong.
    Wrong,
    /// There were too many attempts at this user from this address; the next one is checked after this moment.
    TooMany(Moment),
    /// Too many attempts wait, from all addresses together.
    Busy,
}

/// Checks passwords.
pub struct Passwords {
    right: Cache<[u8; 32], ()>,
    wrong: Cache<[u8; 32], ()>,
    key: hmac::Key,
    attempts: Arc<Attempts>,
    hashes: Arc<Hashes>,
    clock: Clock,
}

/// The hashes that run and wait.
struct Hashes {
    /// Duration of the last hash, with the wait for it, in microseconds.
    last_took: AtomicU64,
    slots: Arc<Semaphore>,
    waiting: AtomicUsize,
    hashed: AtomicU64,
    clock: Clock,
}

/// The credentials to check.
#[derive(Clone, Copy)]
pub struct Claim<'a> {
    /// The peer's address.
    pub address: IpAddr,
    /// The user name, as sent.
    pub user: &'a [u8],
    /// The password, as sent.
    pub password: &'a [u8],
    /// The client of that name, and the hash of its password; none if there is no such client.
    pub stored: Option<(&'a Arc<str>, &'a PasswordHash)>,
    /// A hash to check instead if there is no such client, so that the check takes as long.
    pub decoy: &'a PasswordHash,
}

impl Passwords {
    /// Starts with nothing remembered.
    #[must_use]
    pub fn new(clock: Clock) -> Passwords {
        let mut key = [0; 32];
        // Without randomness there is no TLS either, and nothing starts. A known key admits no client: an attacker who
        // reads this process's memory has the passwords anyway.
        let _ = aws_lc_rs::rand::fill(&mut key);
        Passwords {
            right: Cache::new(REMEMBERED),
            wrong: Cache::new(REMEMBERED_WRONG),
            key: hmac::Key::new(hmac::HMAC_SHA256, &key),
            attempts: Arc::default(),
            hashes: Arc::new(Hashes {
                last_took: AtomicU64::new(0),
                slots: Arc::new(Semaphore::new(AT_ONCE)),
                waiting: AtomicUsize::new(0),
                hashed: AtomicU64::new(0),
                clock: clock.clone(),
            }),
            clock,
        }
    }

    /// Returns the number of hashes computed so far.
    #[must_use]
    pub fn hashed(&self) -> u64 {
        self.hashes.hashed.load(Ordering::Relaxed)
    }

    /// Checks credentials. Concurrent checks of the same credentials share one hash.
    pub async fn check(&self, claim: &Claim<'_>) -> Outcome {
        let key = self.key_of(claim);
        let guard = match self.right.get_value_or_guard_async(&key).await {
            Ok(()) => return Outcome::Right,
            Err(guard) => guard,
        };
        if self.wrong.get(&key).is_some() {
            return Outcome::Wrong;
        }
        let attempt = match self.attempts.at(claim.user, claim.address, self.clock.now()) {
            Ok(attempt) => attempt,
            Err(again) => return Outcome::TooMany(again),
        };
        let is_hashed = claim.stored.is_some()
            || self.attempts.take_for_unknown_user(claim.address, self.clock.now()).is_ok();
        let outcome = if is_hashed {
            self.hash(claim, attempt).await
        } else {
            self.check_dummy(attempt).await
        };
        match outcome {
            Outcome::Right => {
                // Fails only if the entry was removed meanwhile, which never happens.
                let _ = guard.insert(());
            }
            Outcome::Wrong => self.wrong.insert(key, ()),
            Outcome::Busy | Outcome::TooMany(_) => {}
        }
        outcome
    }

    /// Waits as long as a hash takes, and is refused when a hash would be.
    async fn check_dummy(&self, attempt: Attempt) -> Outcome {
        if self.hashes.waiting.load(Ordering::Relaxed) >= WAITING {
            attempt.give_back();
            return Outcome::Busy;
        }
        let took = Duration::from_micros(self.hashes.last_took.load(Ordering::Relaxed));
        tokio::time::sleep(took).await;
        Outcome::Wrong
    }

    /// Checks the hash of a claim, and gives the attempt back unless the password is wrong. In a separate task: a
    /// crawler that disconnects meanwhile uses up no attempt with a right password, and no fewer with wrong ones.
    async fn hash(&self, claim: &Claim<'_>, attempt: Attempt) -> Outcome {
        let hashes = Arc::clone(&self.hashes);
        let is_client = claim.stored.is_some();
        let stored = claim.stored.map_or(claim.decoy, |(_, stored)| stored);
        let (stored, password) = (stored.clone(), claim.password.to_vec());
        let checking = tokio::spawn(async move {
            let outcome = match hashes.verify(stored, password).await {
                Some(true) if is_client => Outcome::Right,
                Some(_) => Outcome::Wrong,
                None => Outcome::Busy,
            };
            if outcome != Outcome::Wrong {
                attempt.give_back();
            }
            outcome
        });
        // It fails while the process is stopping.
        checking.await.unwrap_or(Outcome::Busy)
    }

    /// Returns the key of credentials, which includes the stored hash.
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

impl Hashes {
    /// Tells whether `password` matches `stored`; `None` if too many hashes wait.
    async fn verify(&self, stored: PasswordHash, password: Vec<u8>) -> Option<bool> {
        let began = self.clock.tick();
        let waiting = Waiting::among(&self.waiting);
        if waiting.place > WAITING {
            return None;
        }
        let slot = Arc::clone(&self.slots).acquire_owned().await.ok()?;
        drop(waiting);
        self.hashed.fetch_add(1, Ordering::Relaxed);
        let hashing = tokio::task::spawn_blocking(move || {
            let is_right = verify(&stored, &password);
            // Here, not above: the hash continues if its crawler disconnects.
            drop(slot);
            is_right
        });
        let hashed = hashing.await;
        let took = self.clock.tick().since(began).as_micros();
        let took = u64::try_from(took).unwrap_or(u64::MAX);
        self.last_took.store(took, Ordering::Relaxed);
        // It fails while the process is stopping, or if the system has no more threads.
        hashed.ok()
    }
}

impl std::fmt::Debug for Passwords {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Passwords").field("remembered", &self.right.len()).finish_non_exhaustive()
    }
}

/// The reason why a password has no hash.
#[derive(Debug, Error)]
pub enum HashError {
    /// The system has no randomness, or the password cannot be hashed.
    #[error("the password cannot be hashed: {0}")]
    Unhashed(#[from] password_hash::Error),
    /// The configuration does not take the hash.
    #[error("{0}")]
    Form(&'static str),
}

/// Tells whether `password` matches `stored`. Slow, on the calling thread; compares in constant time.
#[must_use]
pub fn verify(stored: &PasswordHash, password: &[u8]) -> bool {
    argon2::PasswordHash::new(stored.reveal())
        .is_ok_and(|hash| Argon2::default().verify_password(password, &hash).is_ok())
}

/// Hashes a new password, with a new salt.
///
/// # Errors
/// When the system has no randomness, or the password cannot be hashed.
pub fn hash(password: &[u8]) -> Result<PasswordHash, HashError> {
    let hash: argon2::PasswordHash = Argon2::default().hash_password(password)?;
    PasswordHash::parse(&hash.to_string()).map_err(HashError::Form)
}

/// A slot among the waiting attempts.
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

#[cfg(test)]
mod tests;
