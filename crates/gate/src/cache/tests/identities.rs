//! Identities: an origin that answers each User-Agent as the test says.

mod outage;
mod shares;

use tokio::task::JoinSet;

use super::*;
use crawlgate_evidence::Log;
use crawlgate_origins::identity::{OWN, OWN_STATES};
use crawlgate_store::Store;
use crawlgate_turns::client::Client;

/// The answers of an origin, by User-Agent and by the identity that signs.
type Answers = Box<dyn Fn(&str, Option<&str>) -> AccessResult + Send + Sync>;

/// A cache with a store and an origin that answers at once.
struct Site {
    cache: RobotsCache,
    clock: Clock,
    log: Arc<Log>,
    /// The User-Agents that were sent, in order.
    sent: Arc<Mutex<Vec<String>>>,
}

impl Site {
    fn new(answers: impl Fn(&str) -> AccessResult + Send + Sync + 'static) -> Site {
        Site::on(
            Arc::new(Store::temporary()),
            Clock::manual(START),
            whole(),
            Box::new(move |user_agent, _| answers(user_agent)),
        )
    }

    fn on(store: Arc<store::Store>, clock: Clock, mut config: Config, answers: Answers) -> Site {
        config.log.file = None;
        config.robots.cache.origins = 100;
        let log = Arc::new(Log::open(&config, Some(store), &clock).expect("a log"));
        let sent = Arc::<Mutex<Vec<String>>>::default();
        let (seen, now) = (Arc::clone(&sent), clock.clone());
        let fetch: Fetch = Box::new(move |asked| {
            let user_agent = asked.user_agent.to_str().expect("visible ASCII").to_owned();
            let mut result = answers(&user_agent, asked.signed_as.as_deref());
            if let AccessResult::Successful { snapshot, .. } = &mut result {
                let robots = snapshot.robots.clone();
                *snapshot = Snapshot::new(robots, now.now(), snapshot.status, "").into();
            }
            let cause = match &result {
                AccessResult::Unavailable { why, .. } => Some(why.code()),
                _ => None,
            };
            let fetch = store::Fetch {
                identity: asked.identity,
                user_agent: user_agent.clone(),
                time: now.now(),
                cause,
                ..fetch_of(&result)
            };
            seen.lock().push(user_agent);
            Box::pin(async move { (result, fetch) })
        });
        let persistent = PersistentStates::of(&log);
        Site {
            cache: RobotsCache::fetching(
                &config,
                clock.clone(),
                persistent,
                None,
                fetch,
                Arc::default(),
            ),
            clock,
            log,
            sent,
        }
    }

    async fn view(&self, name: &str) -> View {
        let tokens: Vec<_> = (!name.is_empty()).then(|| token(name)).into_iter().collect();
        self.cache.view(&origin("a"), Crawler::named(&tokens)).await
    }

    fn sent(&self) -> Vec<String> {
        std::mem::take(&mut self.sent.lock())
    }

    /// Returns the states in the store, after all are written.
    async fn kept(&self) -> Vec<(String, &'static str, String)> {
        self.log.flush().await.expect("it is written");
        let store = self.log.store().expect("a store");
        let kept = store.origin(&origin("a")).await.expect("a store");
        kept.iter()
            .map(|one| {
                let (name, agent) = (one.identity.to_string(), one.user_agent.clone());
                (name, one.state.name(), agent)
            })
            .collect()
    }
}

fn as_named(name: &str) -> String {
    format!("{name} {OWN}")
}

fn absent(status: u16) -> AccessResult {
    AccessResult::Unavailable { why: Absence::Status(status), freshness: Freshness::Unsaid }
}

fn missing_behind(status: u16) -> AccessResult {
    AccessResult::Unavailable { why: Absence::NotFoundBehind(status), freshness: Freshness::Unsaid }
}

fn stopped() -> AccessResult {
    AccessResult::Unavailable { why: Absence::DisallowedHop, freshness: Freshness::Unsaid }
}

fn stance_of(stance: &Stance) -> &'static str {
    match stance {
        Stance::Unknown => "unknown",
        Stance::Rules(_) => "rules",
        Stance::AllowAll => "allow",
        Stance::DisallowAll { .. } => "disallow",
    }
}

#[tokio::test]
async fn a_refusal_is_believed_only_if_our_own_name_is_refused_too() {
    #[rustfmt::skip] // one row, one case
    let cases: Vec<(&str, AccessResult, AccessResult, &str, &str, usize)> = vec![
        ("a firewall, and rules for others", absent(403), file(1), "rules", "rules", 2),
        ("a firewall that refuses all", absent(403), absent(403), "allow", "allow", 2),
        ("401 here, 404 there", absent(401), absent(404), "allow", "allow", 2),
        ("refused, and the other cannot be reached", absent(403), down(), "disallow", "disallow", 2),
        ("a missing page, and rules for others", missing_behind(500), file(1), "rules", "rules", 2),
        ("missing pages to all", missing_behind(500), missing_behind(500), "allow", "allow", 2),
        ("a missing page, and the other cannot be reached", missing_behind(500), down(), "disallow", "disallow", 2),
        ("a redirect it may not follow, and rules for others", stopped(), file(1), "rules", "rules", 2),
        ("404 speaks of the file", absent(404), file(1), "allow", "rules", 1),
        ("410 speaks of the file", absent(410), file(1), "allow", "rules", 1),
        ("one outage is one crawler's", down(), file(1), "disallow", "rules", 1),
        ("a file of its own", file(2), file(1), "rules", "rules", 1),
        ("a file where others are refused", file(2), absent(403), "rules", "allow", 1),
    ];
    for (name, bad, own, for_bad, for_others, fetches) in cases {
        let site = Site::new(move |user_agent| match user_agent {
            OWN => own.clone(),
            _ => bad.clone(),
        });
        assert_eq!(stance_of(&site.view("sqlmap").await.stance), for_bad, "{name}");
        let sent = [as_named("sqlmap"), OWN.to_owned()];
        assert_eq!(site.sent(), sent[..fetches], "{name}");
        // The answer to one crawler judges no other one.
        assert_eq!(stance_of(&site.view("").await.stance), for_others, "{name}");
        let expected = match fetches {
            1 => vec![OWN.to_owned()],
            _ => Vec::new(),
        };
        assert_eq!(site.sent(), expected, "{name}");
    }
}

#[tokio::test]
async fn a_refusal_to_a_signature_is_believed_only_if_another_one_and_none_is_refused_too() {
    type Case<'a> = (&'a str, [&'a str; 2], [AccessResult; 3], &'a str, &'a str);
    // All clients have one User-Agent, and each answer is to a signature.
    let refused = || absent(403);
    #[rustfmt::skip] // one row, one case
    let cases: Vec<Case<'_>> = vec![
        // name, signatures of the client and of all others, answers to these and to none, stance, signatures in order
        ("another signature is given rules", ["a", "all"], [refused(), file(1), absent(404)], "rules", "a all"),
        ("every signature is refused", ["a", "all"], [refused(), refused(), file(1)], "rules", "a all -"),
        ("all is refused", ["a", "all"], [refused(), refused(), refused()], "allow", "a all -"),
        ("others are not signed", ["a", ""], [refused(), down(), file(1)], "rules", "a -"),
        ("nothing is signed", ["", ""], [down(), down(), refused()], "allow", "-"),
        ("one signature for all, and rules without", ["all", "all"], [down(), refused(), file(1)], "rules", "all -"),
        ("one signature for all, and nothing there", ["all", "all"], [down(), refused(), absent(404)], "allow", "all -"),
        ("one signature for all, and an outage without", ["all", "all"], [down(), refused(), down()], "disallow", "all -"),
        ("one signature for all, and no file", ["all", "all"], [down(), absent(404), file(1)], "allow", "all"),
    ];
    for (name, [own, others], answers, stance, expected) in cases {
        let toml = format!("[[client]]\nname = 'news'\nuser_agent = '{OWN}'");
        let config = Config::parse(&toml, std::path::Path::new("/etc/crawlgate/config.toml"));
        let mut config = config.expect("right");
        let signing = |name: &str| (!name.is_empty()).then(|| Arc::<str>::from(name));
        config.agent.signing = signing(others);
        for client in &mut config.clients {
            client.signing = signing(own);
        }
        let signatures = Arc::<Mutex<Vec<String>>>::default();
        let seen = Arc::clone(&signatures);
        let site = Site::on(
            Arc::new(Store::temporary()),
            Clock::manual(START),
            config.clone(),
            Box::new(move |user_agent, signed_as| {
                assert_eq!(user_agent, OWN);
                seen.lock().push(signed_as.unwrap_or("-").to_owned());
                let [own, others, unsigned] = &answers;
                match signed_as {
                    Some("a") => own.clone(),
                    Some(_) => others.clone(),
                    None => unsigned.clone(),
                }
            }),
        );
        let [client] = config.clients.as_slice() else {
            panic!("{name}");
        };
        let client = Client::of(client, &Client::default(), Arc::default());
        let agent = crawlgate_policy::agent::Agent::default();
        let view = site.cache.view(&origin("a"), client.crawler(&agent)).await;
        assert_eq!(stance_of(&view.stance), stance, "{name}");
        assert_eq!(signatures.lock().join(" "), expected, "{name}");
        // The same once more, as all others.
        let view = site.cache.view(&origin("b"), Crawler::default()).await;
        if own == others {
            assert_eq!(stance_of(&view.stance), stance, "{name}");
        }
    }
}

#[tokio::test]
async fn rules_of_another_identity_are_reported_with_its_user_agent() {
    let site = Site::new(|user_agent| match user_agent {
        OWN => file(1),
        _ => absent(403),
    });
    let view = site.view("sqlmap").await;
    let fetched_as = view.fetched_as.expect("it was fetched");
    assert_eq!((&*fetched_as.name, &*fetched_as.user_agent), ("sqlmap", OWN));
    let kept = site.kept().await;
    let rows = ["*", "sqlmap"].map(|name| (name.to_owned(), "successful", OWN.to_owned()));
    assert_eq!(kept, rows);
    let store = site.log.store().expect("a store");
    let fetches = store.fetches(&origin("a"), 9).await.expect("a store");
    let of_it = fetches.iter().find(|one| one.identity == fetched_as.identity);
    let other = of_it.expect("a fetch").other.clone().expect("two answers");
    assert_eq!(other.user_agent, as_named("sqlmap"));
    assert_eq!(other.code, "status_403");
}

#[tokio::test]
async fn one_fetch_confirms_all_refused_identities() {
    let site = Site::new(|_| absent(403));
    for name in ["a", "b", "c", "d"] {
        assert_eq!(stance_of(&site.view(name).await.stance), "allow");
    }
    let own = site.sent().iter().filter(|sent| *sent == OWN).count();
    assert_eq!(own, 1);
    // An old answer confirms nothing.
    site.clock.advance(Duration::from_secs(301));
    site.view("e").await;
    assert_eq!(site.sent(), [as_named("e"), OWN.to_owned()]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_hundred_first_requests_of_each_of_two_identities_cause_one_fetch_each() {
    let site = Arc::new(Site::new(|_| file(1)));
    let mut requests = JoinSet::new();
    for number in 0..200 {
        let site = Arc::clone(&site);
        requests.spawn(async move {
            let name = ["one", "two"][number % 2];
            file_of(&site.view(name).await.stance)
        });
    }
    let seen = requests.join_all().await;
    assert!(seen.iter().all(|file| *file == Some(1)));
    let mut sent = site.sent();
    sent.sort();
    assert_eq!(sent, [as_named("one"), as_named("two")]);
}

#[tokio::test]
async fn a_thousand_names_have_nine_states_in_memory_and_in_the_store() {
    let site = Site::new(|user_agent| match user_agent == OWN {
        true => file(1),
        false => file(2),
    });
    for round in 0..2 {
        for number in 0..1000 {
            let seen = file_of(&site.view(&format!("Random{number}Bot")).await.stance);
            let own = number < OWN_STATES;
            assert_eq!(seen, Some(if own { 2 } else { 1 }), "{number}, round {round}");
        }
    }
    assert_eq!(site.sent().len(), OWN_STATES + 1);
    assert_eq!(site.cache.states(), OWN_STATES + 1);
    let bytes = site.cache.bytes();
    assert!(bytes < 64 * 1024, "{bytes}");
    assert_eq!(site.kept().await.len(), OWN_STATES + 1);
    // After a day without use, another identity takes over the slot; the store follows.
    site.clock.advance(DAY);
    site.view("GoodBot").await;
    assert!(site.sent().contains(&as_named("GoodBot")));
    assert_eq!(site.cache.states(), OWN_STATES + 1);
    let kept = site.kept().await;
    assert_eq!(kept.len(), OWN_STATES + 1);
    assert!(kept.iter().any(|(name, ..)| name == "goodbot"));
}

#[tokio::test]
async fn a_restart_knows_each_state_and_lets_no_further_one_in() {
    let store: Arc<store::Store> = Arc::new(Store::temporary());
    let clock = Clock::manual(START);
    let answers = |user_agent: &str| match user_agent.split(' ').next() {
        Some("bad") => absent(404),
        Some("worse") => down(),
        _ => file(1),
    };
    let answers = move |user_agent: &str, _: Option<&str>| answers(user_agent);
    let names = ["bad", "worse", "c", "d", "e", "f", "g", "h"];
    let first = Site::on(Arc::clone(&store), clock.clone(), whole(), Box::new(answers));
    for name in names {
        first.view(name).await;
    }
    let before = first.kept().await;
    assert_eq!(before.len(), OWN_STATES);
    drop(first);
    let second = Site::on(store, clock, whole(), Box::new(|_, _| panic!("all is known")));
    for (name, stance) in [("bad", "allow"), ("worse", "disallow"), ("c", "rules")] {
        assert_eq!(stance_of(&second.view(name).await.stance), stance, "{name}");
    }
    assert_eq!(second.kept().await, before);
    assert_eq!(second.sent(), Vec::<String>::new());
}

#[tokio::test]
async fn two_clients_with_the_same_token_have_a_state_each() {
    let site = Site::new(|_| file(1));
    let tokens = [token("GoodBot")];
    let agent = crawlgate_policy::agent::Agent {
        tokens: tokens.to_vec(),
        ..crawlgate_policy::agent::Agent::default()
    };
    for name in ["news", "shop"] {
        let client = Client { name: Some(name.into()), ..Client::default() };
        let crawler = client.crawler(&agent);
        site.cache.view(&origin("a"), crawler).await;
    }
    assert_eq!(site.sent(), [as_named("GoodBot"), as_named("GoodBot")]);
    let names: Vec<_> = site.kept().await.into_iter().map(|(name, ..)| name).collect();
    assert_eq!(names, ["goodbot@news", "goodbot@shop"]);
}

#[tokio::test]
async fn one_identity_or_all_are_refreshed_and_forgotten() {
    let site = Site::new(|_| file(1));
    for name in ["", "one", "two"] {
        site.view(name).await;
    }
    site.sent();
    let one = Identity::parse("one").expect("an identity");
    let a = origin("a");
    let refreshed = site.cache.refresh(&a, Some(&one)).await.expect("a store");
    assert_eq!(refreshed.len(), 1);
    assert_eq!(site.sent(), [as_named("one")]);
    let refreshed = site.cache.refresh(&a, None).await.expect("a store");
    assert_eq!(refreshed.len(), 3);
    assert_eq!(site.sent().len(), 3);
    let names = async || {
        let kept = site.kept().await.into_iter();
        kept.map(|(name, ..)| name).collect::<Vec<_>>()
    };
    assert!(site.cache.forget(&a, Some(&one)).await.expect("a store"));
    assert!(!site.cache.forget(&a, Some(&one)).await.expect("a store"));
    assert_eq!(names().await, ["*", "two"]);
    assert!(site.cache.forget(&a, None).await.expect("a store"));
    assert_eq!(names().await, Vec::<String>::new());
    site.view("two").await;
    assert_eq!(site.sent(), [as_named("two")], "learnt anew");
}
