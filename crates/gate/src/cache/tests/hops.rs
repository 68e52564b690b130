//! Redirects of a robots.txt into other origins.

use super::*;
use crawlgate_origins::access::Hop;
use crawlgate_policy::overrides::{Action, Override, OverrideId, Overrides};

/// The answer of an origin.
#[derive(Clone, Copy)]
enum Answer {
    /// A file that disallows `/x` to all.
    File,
    /// A file that disallows `/x` only to `one`.
    FileForOne,
    /// A file that disallows `/x` to all but `two`.
    FileButForTwo,
    /// No file.
    Missing,
    /// No answer.
    Down,
    /// A redirect to a path of another origin, with a file behind it.
    To(&'static str, &'static str),
}
use Answer::{Down, File, FileButForTwo, FileForOne, Missing, To};

/// The file behind a redirect, among the others.
const BEHIND: u16 = 299;

/// A cache with origins that answer each User-Agent as the test says.
struct Web {
    cache: Arc<RobotsCache>,
    clock: Clock,
    /// The origins that were asked for their robots.txt, in order.
    asked: Arc<Mutex<Vec<String>>>,
}

fn with_rules(rules: &[u8], number: u16, now: Moment) -> AccessResult {
    let robots = crawlgate_robots::Robots::parse(rules, ParseOptions::default());
    AccessResult::Successful {
        snapshot: Snapshot::new(robots, now, number, "").into(),
        freshness: Freshness::Unsaid,
    }
}

impl Web {
    fn new(answers: impl Fn(&str, &str) -> Answer + Send + Sync + 'static) -> Web {
        let clock = Clock::manual(START);
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let (seen, now) = (Arc::clone(&asked), clock.clone());
        let fetch: Fetch = Box::new(move |asked| {
            let host = asked.origin.host().trim_end_matches(".example").to_owned();
            seen.lock().push(host.clone());
            let answer = answers(&host, asked.user_agent.to_str().expect("visible ASCII"));
            let now = now.now();
            Box::pin(async move {
                // As over the network: other tasks that are ready run first.
                tokio::task::yield_now().await;
                let result = match answer {
                    File => with_rules(b"User-agent: *\nDisallow: /x", 200, now),
                    FileForOne => with_rules(b"User-agent: one\nDisallow: /x", 200, now),
                    FileButForTwo => with_rules(
                        b"User-agent: *\nDisallow: /x\n\nUser-agent: two\nAllow: /",
                        200,
                        now,
                    ),
                    Missing => AccessResult::Unavailable {
                        why: Absence::Status(404),
                        freshness: Freshness::Unsaid,
                    },
                    Down => down(),
                    To(target, path) => {
                        match (asked.judge)(origin(target), path.to_owned()).await {
                            Hop::Allowed => with_rules(b"User-agent: *\nDisallow: /x", BEHIND, now),
                            Hop::Disallowed => AccessResult::Unavailable {
                                why: Absence::DisallowedHop,
                                freshness: Freshness::Unsaid,
                            },
                            Hop::Refused(cause) => {
                                AccessResult::Unreachable { cause, retry_after: None }
                            }
                        }
                    }
                };
                let fetch = store::Fetch {
                    identity: asked.identity,
                    user_agent: asked.user_agent.to_str().expect("ASCII").to_owned(),
                    time: now,
                    ..fetch_of(&result)
                };
                (result, fetch)
            })
        });
        let mut config = whole();
        config.robots.cache.origins = 1000;
        Web {
            cache: Arc::new(RobotsCache::fetching(
                &config,
                clock.clone(),
                None,
                None,
                fetch,
                Arc::default(),
            )),
            clock,
            asked,
        }
    }

    /// Returns the stance for a request of a crawler with these names, most specific first.
    async fn visit(&self, names: &str, host: &str) -> String {
        let tokens: Vec<_> = names.split_whitespace().map(token).collect();
        let crawler = Crawler::named(&tokens);
        match self.cache.view(&origin(host), crawler).await.stance {
            Stance::Unknown => "unknown".to_owned(),
            Stance::Rules(snapshot) if snapshot.status == BEHIND => "rules behind".to_owned(),
            Stance::Rules(_) => "rules".to_owned(),
            Stance::AllowAll => "open".to_owned(),
            Stance::DisallowAll { cause, .. } => format!("shut: {}", cause.code()),
        }
    }

    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.asked.lock())
    }
}

#[tokio::test]
async fn the_outcome_of_a_redirect_does_not_depend_on_the_order_of_visits() {
    #[rustfmt::skip] // one row, one case
    let cases: [(&str, &str, Answer, &str); 8] = [
        ("nothing else is known", "/x/robots.txt", File, "open"),
        ("allowed", "/y/robots.txt", File, "rules behind"),
        ("there are no rules", "/x/robots.txt", Missing, "rules behind"),
        ("a server may read it as disallowed", "/y/..%2Fx/robots.txt", File, "shut: unjudged_hop"),
        ("the rules cannot be had", "/x/robots.txt", Down, "shut: unjudged_hop"),
        ("disallowed to one: what others are told holds", "/x/robots.txt", FileForOne, "rules behind"),
        ("each waits for the other", "/x/robots.txt", To("a", "/x/robots.txt"), "shut: unjudged_hop"),
        ("each waits for the other, whatever the path", "/y/robots.txt", To("a", "/y/robots.txt"), "shut: unjudged_hop"),
    ];
    for (case, path, other, expected) in cases {
        let web = || {
            Web::new(move |host, _| match host {
                "a" => To("b", path),
                _ => other,
            })
        };
        for name in ["one", ""] {
            for visits in [&["a"][..], &["a", "b", "a"], &["b", "a"]] {
                let web = web();
                let mut met = String::new();
                for host in visits {
                    let meets = web.visit(name, host).await;
                    if *host == "a" {
                        met = meets;
                    }
                }
                assert_eq!(met, expected, "{case}, as {name:?}, {visits:?}");
            }
            let web = web();
            let (of_a, _) = tokio::join!(web.visit(name, "a"), web.visit(name, "b"));
            assert_eq!(of_a, expected, "{case}, as {name:?}, both at once");
        }
    }
}

#[tokio::test]
async fn a_disallowed_hop_opens_no_origin_with_a_stored_file() {
    // An answer to one crawler says nothing about the answers to others, but it proves that there is a file.
    let web = Web::new(|host, user_agent| match (host, user_agent) {
        ("b", _) => File,
        (_, named) if named.contains("two") => File,
        _ => To("b", "/x/robots.txt"),
    });
    assert_eq!(web.visit("two", "a").await, "rules");
    assert_eq!(web.visit("", "a").await, "shut: disallowed_hop");
    assert_eq!(web.visit("one", "a").await, "shut: disallowed_hop");
    assert_eq!(web.visit("two", "a").await, "rules");
    // An earlier file, for the same crawler.
    let moved = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let has_moved = Arc::clone(&moved);
    let web = Web::new(move |host, _| match host {
        "a" if has_moved.load(Ordering::Relaxed) => To("b", "/x/robots.txt"),
        _ => File,
    });
    assert_eq!(web.visit("", "a").await, "rules");
    moved.store(true, Ordering::Relaxed);
    let a = origin("a");
    let refreshed = web.cache.refresh(&a, None).await;
    refreshed.expect("there is no store");
    assert_eq!(web.visit("", "a").await, "rules", "it is fresh");
    web.clock.advance(DAY);
    assert_eq!(web.visit("", "a").await, "shut: disallowed_hop");
}

#[tokio::test]
async fn a_chain_of_redirecting_origins_has_an_end() {
    const HOSTS: [&str; 9] = ["a", "b", "c", "d", "e", "f", "g", "h", "i"];
    let web = Web::new(|host, _| {
        let at = HOSTS.iter().position(|known| *known == host);
        To(HOSTS[(at.expect("one of them") + 1) % 9], "/y/robots.txt")
    });
    assert_eq!(web.visit("", "a").await, "shut: hop_chain");
    assert_eq!(web.asked(), ["a", "b", "c"]);
    let web = Web::new(|host, _| match host {
        "a" => To("b", "/y/robots.txt"),
        "b" => To("c", "/y/robots.txt"),
        _ => File,
    });
    assert_eq!(web.visit("", "a").await, "rules behind");
    assert_eq!(web.asked(), ["a", "b", "c"]);
}

#[tokio::test]
async fn a_hop_is_judged_by_the_state_for_the_crawler_itself() {
    let web = Web::new(|host, user_agent| match (host, user_agent) {
        ("a", _) => To("b", "/x/robots.txt"),
        (_, named) if named.contains("one") => File,
        _ => Missing,
    });
    assert_eq!(web.visit("two", "b").await, "open");
    assert_eq!(web.visit("two", "a").await, "rules behind");
    assert_eq!(web.asked(), ["b", "a"], "b is known already");
    // Its own fetches are refused; the answer to `*` at a counts.
    assert_eq!(web.visit("one", "a").await, "rules behind");
    assert_eq!(web.asked(), ["a", "b", "a", "b"]);
}

#[tokio::test]
async fn foreign_origins_cannot_shut_the_one_that_they_redirect_through() {
    let web = || {
        Web::new(|host, _| match host {
            "a" => To("b", "/y/robots.txt"),
            "b" => To("c", "/y/robots.txt"),
            "c" => To("d", "/y/robots.txt"),
            _ => File,
        })
    };
    for name in ["one", ""] {
        let chain = web();
        assert_eq!(chain.visit(name, "a").await, "shut: hop_chain");
        assert_eq!(chain.asked(), ["a", "b", "c"]);
        for host in ["c", "b"] {
            assert_eq!(chain.visit(name, host).await, "rules behind", "{host}");
        }
        assert_eq!(chain.asked(), ["c", "d", "b"]);
        assert_eq!(chain.visit(name, "a").await, "shut: hop_chain", "not due");
        chain.clock.advance(Duration::from_secs(5));
        assert_eq!(chain.visit(name, "a").await, "rules behind");
        // A request that waits for a fetch in the middle of a chain is not refused with it.
        let chain = web();
        let late = async {
            while chain.asked.lock().len() < 3 {
                tokio::task::yield_now().await;
            }
            chain.visit(name, "c").await
        };
        let (_, of_c) = tokio::join!(chain.visit(name, "a"), late);
        assert_eq!(of_c, "rules behind");
    }
}

#[tokio::test]
async fn an_origin_in_the_middle_of_a_chain_is_not_asked_again_by_each_chain() {
    let web = Web::new(|host, _| match host {
        "b" => To("c", "/y/robots.txt"),
        "c" => To("d", "/y/robots.txt"),
        "d" => File,
        _ => To("b", "/y/robots.txt"),
    });
    assert_eq!(web.visit("", "a").await, "shut: hop_chain");
    assert_eq!(web.asked(), ["a", "b", "c"]);
    assert_eq!(web.visit("", "e").await, "shut: hop_chain");
    assert_eq!(web.asked(), ["e"]);
    web.clock.advance(Duration::from_secs(60));
    assert_eq!(web.visit("", "f").await, "shut: hop_chain");
    assert_eq!(web.asked(), ["f", "b", "c"]);
}

#[tokio::test]
async fn a_hop_is_judged_by_the_token_that_the_state_belongs_to() {
    // Crawlers with the same first name share the state, whatever their other names are.
    for names in ["one", "one two"] {
        let web = Web::new(|host, _| match host {
            "a" => To("b", "/x/robots.txt"),
            _ => FileButForTwo,
        });
        assert_eq!(web.visit(names, "a").await, "open", "{names:?}");
    }
}

#[tokio::test]
async fn overrides_decide_about_a_hop_before_the_rules_there() {
    #[rustfmt::skip] // one row, one case
    let cases = [
        ("an allow, against the rules", Action::Allow, "/x", DAY, "/x/robots.txt", "rules behind", &["a"][..]),
        ("a deny, which opens no other origin", Action::Deny, "/y", DAY, "/y/robots.txt", "shut: denied_hop", &["a"]),
        ("a deny of another reading", Action::Deny, "/x", DAY, "/y/..%2Fx/robots.txt", "shut: denied_hop", &["a"]),
        ("an expired one", Action::Deny, "/y", Duration::ZERO, "/y/robots.txt", "rules behind", &["a", "b"]),
        ("one for another path", Action::Deny, "/z", DAY, "/y/robots.txt", "rules behind", &["a", "b"]),
    ];
    for (case, action, pattern, lasts, path, expected, asked) in cases {
        let web = Web::new(move |host, _| match host {
            "a" => To("b", path),
            _ => File,
        });
        let asserted = Override {
            id: OverrideId::Stored(1),
            origin: origin("b"),
            pattern: pattern.to_owned(),
            action,
            until: Some(START + lasts),
            by: "Ada".to_owned(),
            reason: "a letter".to_owned(),
            created: START,
            instance: None,
        };
        web.cache.set_overrides(Arc::new(Overrides::new([asserted])));
        assert_eq!(web.visit("", "a").await, expected, "{case}");
        assert_eq!(web.asked(), asked, "{case}");
    }
}
