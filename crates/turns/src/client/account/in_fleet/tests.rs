//! The usage of one client at several instances on one engine.

use super::*;

use tokio::task::JoinSet;

use crate::client::account::ClientAccount;
use crate::fleet::coordinator::{Coordinator as _, Heartbeat};
use crate::fleet::in_memory::{InMemoryCoordinator, InMemoryEngine};
use crate::fleet::{FleetKey, HeartbeatReply};
use crawlgate_config::Config;
use crawlgate_system::clock::Moment;

const SECOND: Duration = Duration::from_secs(1);

/// The beginning of a day.
const START: Moment = Moment::from_millis(20_000 * 86_400_000);

/// Instances in one process, on an engine that began long ago.
struct Lab {
    clock: Clock,
    world: Arc<InMemoryEngine>,
    instances: Vec<Instance>,
}

struct Instance {
    way: Arc<InMemoryCoordinator>,
    client: Client,
}

impl Lab {
    async fn start(client: &Client, instances: usize) -> Lab {
        let clock = Clock::manual(START);
        let world = InMemoryEngine::new(clock.clone());
        clock.advance(SECOND * 10);
        let mut lab = Lab { clock, world, instances: Vec::new() };
        for number in 0..instances {
            let way = lab.world.coordinator();
            let fleet = Arc::new(Fleet::new(
                &Config::default().fleet,
                &format!("a{number}"),
                FleetKey::of(&[7; 32]),
                Arc::<InMemoryCoordinator>::clone(&way),
                lab.clock.clone(),
            ));
            let account = ClientAccount::of("news", Some(&fleet), &lab.clock);
            let client = Client {
                rate: client.rate,
                quota: client.quota,
                account: Arc::new(account),
                ..Client::default()
            };
            lab.instances.push(Instance { way, client });
        }
        lab.on_heartbeat().await;
        lab
    }

    /// Has each instance hear from the engine.
    async fn on_heartbeat(&self) {
        for (number, instance) in self.instances.iter().enumerate() {
            let reply = instance.heartbeat(number).await;
            let client = &instance.client;
            client.account.on_heartbeat(client, reply.generation);
        }
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
    }

    async fn enter(&self, instance: usize, hold: Duration) -> Result<Duration, NotEntered> {
        let client = &self.instances[instance].client;
        let entered = client.account.enter(client, self.clock.now(), &self.clock, hold).await?;
        Ok(entered.commit())
    }

    /// Sends requests at one instance after the other until each is refused; returns how many were entered.
    async fn use_up(&self) -> u64 {
        let mut entered = 0;
        loop {
            let before = entered;
            for instance in 0..self.instances.len() {
                entered += u64::from(self.enter(instance, Duration::ZERO).await.is_ok());
            }
            if entered == before {
                return entered;
            }
        }
    }

    async fn pass(&self, time: Duration) {
        self.clock.advance(time);
        self.on_heartbeat().await;
    }
}

impl Instance {
    async fn heartbeat(&self, number: usize) -> HeartbeatReply {
        let beat = Heartbeat {
            name: &format!("a{number}"),
            process: "a",
            key: "0f",
            report: "",
            after: None,
            forget_after: SECOND * 18,
        };
        self.way.heartbeat(beat).await.unwrap()
    }
}

fn with_quota(requests: Option<u64>, bytes: Option<u64>) -> Client {
    Client { quota: Some(Quota { requests, bytes, per: SECOND * 86_400 }), ..Client::default() }
}

fn with_rate(requests_per_second: f64, burst: u32) -> Client {
    Client { rate: Some(Rate { requests_per_second, burst }), ..Client::default() }
}

#[tokio::test(start_paused = true)]
async fn instances_use_all_of_one_quota_and_no_more() {
    for (requests, instances) in [(1, 3), (10, 1), (10, 3), (1_000, 3), (999, 7)] {
        let lab = Lab::start(&with_quota(Some(requests), None), instances).await;
        let mut entered = lab.use_up().await;
        // One that is idle gives back what it holds.
        lab.pass(SECOND * 2).await;
        lab.pass(SECOND * 2).await;
        entered += lab.use_up().await;
        assert_eq!(entered, requests, "at {instances} instances");
        lab.pass(SECOND * 86_400).await;
        assert_eq!(lab.enter(0, Duration::ZERO).await, Ok(Duration::ZERO));
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_account_is_told_again_before_more_is_given() {
    let lab = Lab::start(&with_quota(Some(10), None), 2).await;
    for instance in [0, 1, 1, 0, 1] {
        assert!(lab.enter(instance, SECOND).await.is_ok());
    }
    lab.world.forget();
    // Nothing is given until all have told what they had.
    lab.on_heartbeat().await;
    assert_eq!(lab.enter(0, Duration::ZERO).await, Err(NotEntered::Unanswered));
    lab.pass(REPORTED).await;
    assert_eq!(lab.use_up().await, 5);
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_ends_gives_back_and_tells() {
    let lab = Lab::start(&with_quota(Some(500), Some(1_000)), 2).await;
    for _ in 0..5 {
        lab.enter(0, SECOND).await.unwrap();
        lab.enter(1, SECOND).await.unwrap();
    }
    let one = &lab.instances[0].client;
    one.account.add_bytes(1_000, lab.clock.now());
    one.account.leave(one.quota.as_ref().unwrap()).await;
    lab.pass(SECOND).await;
    assert!(
        matches!(lab.enter(1, SECOND).await, Err(NotEntered::Exceeded(_))),
        "the octets of the other count"
    );
}

#[tokio::test(start_paused = true)]
async fn octets_at_one_instance_count_at_the_others_within_a_second() {
    let lab = Lab::start(&with_quota(None, Some(100)), 2).await;
    lab.enter(0, SECOND).await.unwrap();
    lab.enter(1, SECOND).await.unwrap();
    let one = &lab.instances[0].client;
    one.account.add_bytes(100, lab.clock.now());
    for _ in 0..10 {
        lab.pass(SECOND / 10).await;
    }
    let refused = lab.enter(1, SECOND).await;
    let midnight = START + SECOND * 86_400;
    assert_eq!(refused, Err(NotEntered::Exceeded(QuotaExceeded(midnight))));
}

#[tokio::test(start_paused = true)]
async fn a_refused_request_counts_everywhere_and_waits_for_nothing() {
    let lab = Lab::start(&with_quota(Some(3), None), 2).await;
    let (one, now) = (&lab.instances[0].client, lab.clock.now());
    for _ in 0..2 {
        assert_eq!(one.account.count(one, now, &lab.clock, SECOND), Ok(()));
    }
    lab.pass(SECOND).await;
    assert_eq!(lab.use_up().await, 1);
    assert!(one.account.count(one, now, &lab.clock, SECOND).is_err());
}

#[tokio::test(start_paused = true)]
async fn one_rate_holds_for_all_instances() {
    let lab = Lab::start(&with_rate(2.0, 2), 3).await;
    let half = SECOND / 2;
    let mut holds = Vec::new();
    for request in 0..5 {
        holds.push(lab.enter(request % 3, SECOND).await);
    }
    let spent = NotEntered::Exceeded(QuotaExceeded(lab.clock.now() + half * 3));
    assert_eq!(holds, [Ok(Duration::ZERO), Ok(Duration::ZERO), Ok(half), Ok(SECOND), Err(spent)]);
    // A client leaves while its request is held: the next request gets the turn.
    let client = &lab.instances[1].client;
    lab.clock.advance(half);
    for _ in 0..5 {
        let entered = client.account.enter(client, lab.clock.now(), &lab.clock, SECOND);
        let entered = entered.await.unwrap();
        assert_eq!(entered.hold(), SECOND);
        drop(entered);
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_the_engine_may_have_lost_is_void() {
    let lab = Lab::start(&with_rate(1.0, 1), 1).await;
    let client = &lab.instances[0].client;
    let enter = async || {
        let account = &client.account;
        let entered = account.enter(client, lab.clock.now(), &lab.clock, SECOND * 9);
        entered.await.unwrap()
    };
    enter().await.commit();
    let held = enter().await;
    assert_eq!((held.hold(), held.is_void()), (SECOND, false));
    lab.world.forget();
    lab.on_heartbeat().await;
    assert!(held.is_void());
    drop(held);
    let again = enter().await;
    assert_eq!((again.hold(), again.is_void()), (SECOND, false));
}

#[tokio::test(start_paused = true)]
async fn a_refused_request_takes_a_turn_that_no_other_goes_by() {
    let lab = Lab::start(&with_rate(1.0, 1), 1).await;
    let (one, now) = (&lab.instances[0].client, lab.clock.now());
    for _ in 0..2 {
        assert_eq!(one.account.count(one, now, &lab.clock, SECOND * 9), Ok(()));
        lab.on_heartbeat().await;
    }
    assert_eq!(lab.enter(0, SECOND * 9).await, Ok(SECOND * 2));
}

#[tokio::test(start_paused = true)]
async fn requests_at_the_same_time_share_their_questions() {
    let lab = Lab::start(&with_rate(100.0, 50), 1).await;
    let client = Arc::new(Client {
        rate: lab.instances[0].client.rate,
        account: Arc::clone(&lab.instances[0].client.account),
        ..Client::default()
    });
    let mut all = JoinSet::new();
    for _ in 0..50 {
        let (client, clock) = (Arc::clone(&client), lab.clock.clone());
        all.spawn(async move {
            let entered = client.account.enter(&client, clock.now(), &clock, SECOND);
            entered.await.map(Reservation::commit)
        });
    }
    while let Some(entered) = all.join_next().await {
        assert_eq!(entered.unwrap(), Ok(Duration::ZERO));
    }
}
