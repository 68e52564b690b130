use super::attempts::ANOTHER;
use super::*;

const NOON: Moment = Moment::from_millis(1_795_176_000_000);

/// A cheap hash: the tests count how often it is computed.
fn cheap(password: &[u8]) -> PasswordHash {
    let params = argon2::Params::new(8, 1, 1, None).expect("cheap");
    let argon2 = Argon2::new(Default::default(), Default::default(), params);
    let phc: argon2::PasswordHash = argon2.hash_password(password).expect("hashes");
    PasswordHash::parse(&phc.to_string()).expect("our own")
}

struct Lab {
    passwords: Passwords,
    clock: Clock,
    name: Arc<str>,
    stored: PasswordHash,
}

impl Lab {
    fn new() -> Lab {
        let clock = Clock::manual(NOON);
        Lab {
            passwords: Passwords::new(clock.clone()),
            clock,
            name: "news".into(),
            stored: cheap(b"sesame"),
        }
    }

    fn claim<'a>(&'a self, from: &str, password: &'a str) -> Claim<'a> {
        Claim {
            address: from.parse().expect(from),
            user: b"news",
            password: password.as_bytes(),
            stored: Some((&self.name, &self.stored)),
            decoy: &self.stored,
        }
    }

    async fn check(&self, from: &str, password: &str) -> Outcome {
        self.passwords.check(&self.claim(from, password)).await
    }
}

#[tokio::test]
async fn a_right_password_is_hashed_once() {
    let lab = Lab::new();
    for _ in 0..50 {
        assert_eq!(lab.check("192.0.2.1", "sesame").await, Outcome::Right);
    }
    assert_eq!(lab.check("192.0.2.2", "sesame").await, Outcome::Right);
    assert_eq!(lab.passwords.hashed(), 1);
}

#[tokio::test]
async fn concurrent_checks_of_one_password_share_a_hash() {
    let lab = Lab::new();
    let mut all: Vec<_> = (0..200).map(|_| Box::pin(lab.check("192.0.2.1", "sesame"))).collect();
    for one in &mut all {
        assert_eq!(one.await, Outcome::Right);
    }
    assert_eq!(lab.passwords.hashed(), 1);
}

#[tokio::test]
async fn wrong_ones_are_hashed_a_few_times_and_then_put_off() {
    let lab = Lab::new();
    for n in 0..10 {
        let wrong = format!("wrong {n}");
        assert_eq!(lab.check("192.0.2.1", &wrong).await, Outcome::Wrong);
    }
    let again = NOON + ANOTHER;
    for n in 10..100 {
        let outcome = lab.check("192.0.2.1", &format!("wrong {n}")).await;
        assert_eq!(outcome, Outcome::TooMany(again));
    }
    assert_eq!(lab.passwords.hashed(), 10);
    // Other addresses still have their attempts.
    assert_eq!(lab.check("192.0.2.2", "sesame").await, Outcome::Right);
    // A password that is known to be right needs no attempt.
    assert_eq!(lab.check("192.0.2.1", "sesame").await, Outcome::Right);
    lab.clock.advance(ANOTHER);
    assert_eq!(lab.check("192.0.2.1", "wrong 100").await, Outcome::Wrong);
}

#[tokio::test]
async fn a_repeated_wrong_password_locks_out_no_other_program() {
    let lab = Lab::new();
    for _ in 0..1_000 {
        assert_eq!(lab.check("192.0.2.1", "of last year").await, Outcome::Wrong);
    }
    assert_eq!(lab.passwords.hashed(), 1);
    assert_eq!(lab.check("192.0.2.1", "sesame").await, Outcome::Right);
}

#[tokio::test]
async fn right_passwords_use_up_no_attempt() {
    let lab = Lab::new();
    for n in 0..50 {
        let password = format!("sesame {n}");
        let stored = cheap(password.as_bytes());
        let claim =
            Claim { stored: Some((&lab.name, &stored)), ..lab.claim("192.0.2.1", &password) };
        assert_eq!(lab.passwords.check(&claim).await, Outcome::Right, "{n}");
    }
    assert_eq!(lab.passwords.hashed(), 50);
}

#[tokio::test]
async fn a_guesser_cannot_learn_user_names() {
    let lab = Lab::new();
    // The same address tried many other users before.
    for n in 0..50 {
        let user = format!("user {n}");
        let claim =
            Claim { user: user.as_bytes(), stored: None, ..lab.claim("192.0.2.1", "guess") };
        assert_eq!(lab.passwords.check(&claim).await, Outcome::Wrong, "{user}");
    }
    let hashed = lab.passwords.hashed();
    assert!(hashed <= u64::from(attempts::AT_ONCE), "{hashed} hashes for unknown users");
    let mut measured = Vec::new();
    for stored in [Some((&lab.name, &lab.stored)), None] {
        let user: &[u8] = match stored {
            Some(_) => b"news",
            None => b"nobody",
        };
        let mut outcomes = Vec::new();
        for n in 0..20 {
            let password = format!("guess {n}");
            let claim = Claim { user, stored, ..lab.claim("192.0.2.1", &password) };
            outcomes.push(lab.passwords.check(&claim).await);
        }
        measured.push(outcomes);
    }
    assert_eq!(measured[0], measured[1]);
}

#[tokio::test]
async fn an_unknown_user_costs_a_hash_and_is_never_right() {
    let lab = Lab::new();
    let claim = Claim { user: b"nobody", stored: None, ..lab.claim("192.0.2.1", "sesame") };
    // The right password of the decoy.
    assert_eq!(lab.passwords.check(&claim).await, Outcome::Wrong);
    assert_eq!(lab.passwords.hashed(), 1);
    // Attempts at unknown users are counted apart from those at known ones.
    for _ in 0..20 {
        lab.passwords.check(&claim).await;
    }
    assert_eq!(lab.check("192.0.2.1", "sesame").await, Outcome::Right);
}

#[tokio::test]
async fn a_remembered_outcome_belongs_to_user_password_and_hash() {
    let lab = Lab::new();
    let right = lab.claim("192.0.2.1", "sesame");
    let key = lab.passwords.key_of(&right);
    let other = cheap(b"sesame");
    let name: Arc<str> = "news".into();
    #[rustfmt::skip] // one row, one case
    let cases = [
        ("another user", Claim { user: b"new",..right }),
        ("another password", Claim { password: b"sesam",..right }),
        ("another hash", Claim { stored: Some((&name, &other)),..right }),
        ("no client", Claim { stored: None,..right }),
        ("moved by a letter", Claim { user: b"newss", password: b"esame",..right }),
    ];
    for (what, claim) in cases {
        assert_ne!(lab.passwords.key_of(&claim), key, "{what}");
    }
    let elsewhere = Claim { address: IpAddr::from([192, 0, 2, 9]), ..right };
    assert_eq!(lab.passwords.key_of(&elsewhere), key, "the same from anywhere");
    let another = Passwords::new(lab.clock.clone());
    assert_ne!(another.key_of(&right), key, "each process has its key");
}

#[tokio::test]
async fn a_crawler_that_disconnects_frees_its_waiting_slot() {
    let lab = Lab::new();
    {
        let mut first = Box::pin(lab.check("192.0.2.1", "sesame"));
        let polled = futures_poll(first.as_mut()).await;
        assert!(polled.is_none(), "it waits for its hash");
    }
    assert_eq!(lab.check("192.0.2.1", "sesame").await, Outcome::Right);
    assert_eq!(lab.passwords.hashes.waiting.load(Ordering::Relaxed), 0);
}

/// Returns the result of a future's first poll.
async fn futures_poll<F: Future + Unpin>(mut future: F) -> Option<F::Output> {
    std::future::poll_fn(|cx| {
        std::task::Poll::Ready(match std::pin::Pin::new(&mut future).poll(cx) {
            std::task::Poll::Ready(output) => Some(output),
            std::task::Poll::Pending => None,
        })
    })
    .await
}

#[tokio::test]
async fn attempts_beyond_the_waiting_limit_are_refused() {
    let lab = Lab::new();
    let all: Vec<_> = (0..WAITING).map(|_| Waiting::among(&lab.passwords.hashes.waiting)).collect();
    assert_eq!(lab.check("192.0.2.1", "sesame").await, Outcome::Busy);
    // Also for unknown users, with a hash for the first ones and without one afterwards: no answer tells a known user.
    for number in 0..2 * attempts::AT_ONCE {
        let user = format!("user {number}");
        let claim =
            Claim { user: user.as_bytes(), stored: None, ..lab.claim("192.0.2.1", "sesame") };
        assert_eq!(lab.passwords.check(&claim).await, Outcome::Busy, "{user}");
    }
    drop(all);
    assert_eq!(lab.check("192.0.2.1", "sesame").await, Outcome::Right);
}

#[tokio::test]
async fn a_right_password_uses_up_no_attempt_if_its_crawler_disconnects() {
    let lab = Lab::new();
    for n in 0..2 * attempts::AT_ONCE {
        let password = format!("sesame {n}");
        let stored = cheap(password.as_bytes());
        let claim =
            Claim { stored: Some((&lab.name, &stored)), ..lab.claim("192.0.2.1", &password) };
        let mut checking = Box::pin(lab.passwords.check(&claim));
        let polled = futures_poll(checking.as_mut()).await;
        assert!(polled.is_none(), "{n}: it waits for its hash");
        drop(checking);
        // The hash continues, and so does its attempt.
        while Arc::strong_count(&lab.passwords.attempts) > 1 {
            tokio::task::yield_now().await;
        }
    }
    assert_eq!(lab.check("192.0.2.1", "sesame").await, Outcome::Right);
}

#[tokio::test]
async fn a_wrong_password_uses_up_its_attempt_if_its_crawler_disconnects() {
    let lab = Lab::new();
    for n in 0..attempts::AT_ONCE {
        let wrong = format!("wrong {n}");
        let mut checking = Box::pin(lab.check("192.0.2.1", &wrong));
        assert!(futures_poll(checking.as_mut()).await.is_none(), "{n}");
    }
    let outcome = lab.check("192.0.2.1", "sesame").await;
    assert_eq!(outcome, Outcome::TooMany(NOON + ANOTHER));
}
