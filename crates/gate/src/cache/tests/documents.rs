//! Two documents of one origin: each has its own flight and its own states.

use super::*;
use crawlgate_origins::document::Document;
use crawlgate_origins::identity::OWN_STATES;
use crawlgate_robots::ProductToken;
use crawlgate_usage::SignalMode;

impl Harness {
    async fn tdmrep(&self, origin: &Origin, effort: Effort) -> View {
        let crawler = Crawler::default();
        self.cache.tdmrep(origin, crawler, None, effort).await
    }
}

fn reserved(text: &str) -> AccessResult {
    let robots = Robots::parse(text.as_bytes(), ParseOptions::default());
    AccessResult::Successful {
        snapshot: Snapshot::new(robots, START, 7, "").into(),
        freshness: Freshness::Unsaid,
    }
}

const ALL: &str = r#"[{"location":"/","tdm-reservation":1}]"#;

fn reserves(view: &View) -> bool {
    match &view.stance {
        Stance::Rules(snapshot) => {
            let read = snapshot.tdmrep().expect("a tdmrep.json");
            !read.at(b"/page", true).is_empty()
        }
        _ => false,
    }
}

#[tokio::test]
async fn each_document_is_fetched_by_itself_and_kept_by_itself() {
    let lab = Harness::new();
    let a = origin("a");
    lab.learn(&a).await;
    assert!(matches!(lab.tdmrep(&a, Effort::Look).await.stance, Stance::Unknown));
    assert_eq!(lab.fetches(), 1, "a look fetches nothing");
    let mut waiting: Vec<_> = (0..100).map(|_| Box::pin(lab.tdmrep(&a, Effort::Wait))).collect();
    for view in &mut waiting {
        assert!(poll(view).is_pending());
    }
    lab.end(reserved(ALL));
    for view in waiting {
        assert!(reserves(&view.await));
    }
    assert_eq!(lab.fetches(), 2, "one flight for all");
    assert!(reserves(&lab.tdmrep(&a, Effort::Look).await));
    assert_eq!(file_of(&lab.stance(&a).await), Some(1));
    assert_eq!(lab.cache.states(), 2);
}

#[tokio::test]
async fn a_fetch_that_is_only_started_is_not_waited_for() {
    let lab = Harness::new();
    let a = origin("a");
    lab.learn(&a).await;
    let view = lab.tdmrep(&a, Effort::Start).await;
    assert!(matches!(view.stance, Stance::Unknown));
    lab.until(|lab| lab.fetches() == 2).await;
    lab.end(reserved(ALL));
    let reads = || {
        let crawler = Crawler::common(Document::TdmRep);
        lab.cache.known(&a, crawler)
    };
    lab.until(|_| reads().is_some_and(|state| state.snapshot().is_some())).await;
    assert!(reserves(&lab.tdmrep(&a, Effort::Start).await));
    assert_eq!(lab.fetches(), 2);
}

#[tokio::test]
async fn a_refresh_asks_for_no_file_that_is_off_or_disallowed() {
    let rows = [
        (SignalMode::Off, "User-agent: *\nAllow: /", 1),
        (SignalMode::Record, "User-agent: *\nAllow: /", 2),
        (SignalMode::Enforce, "User-agent: *\nDisallow: /.well-known/", 1),
    ];
    for (mode, robots, expected) in rows {
        let lab = Harness::new();
        let a = origin("a");
        lab.end(reserved(robots));
        lab.stance(&a).await;
        lab.end(reserved(ALL));
        lab.tdmrep(&a, Effort::Wait).await;
        let mut config = whole();
        let mut modes = (*config.robots.signals).clone();
        modes.tdmrep = mode;
        config.robots.signals = modes.into();
        lab.cache.reconfigure(&config);
        let before = lab.fetches();
        lab.end(reserved(robots));
        lab.end(reserved(ALL));
        let refreshed = lab.cache.refresh(&a, None).await.expect("no store");
        assert_eq!(refreshed.len(), expected, "{mode:?}");
        assert_eq!(lab.fetches() - before, expected, "{mode:?}");
    }
}

#[tokio::test]
async fn a_crawler_without_a_state_of_its_own_is_not_judged_by_the_file_of_all() {
    let lab = Harness::new();
    let a = origin("a");
    lab.learn(&a).await;
    lab.end(reserved("[]"));
    lab.tdmrep(&a, Effort::Wait).await;
    let view = async |name: &str| {
        let tokens = [ProductToken::new(name).expect("a token")];
        let crawler = Crawler::named(&tokens);
        lab.cache.tdmrep(&a, crawler, None, Effort::Wait).await
    };
    for number in 0..OWN_STATES {
        lab.end(reserved(ALL));
        assert!(reserves(&view(&format!("Named{number}Bot")).await));
    }
    let before = lab.fetches();
    let further = view("FurtherBot").await;
    assert!(matches!(further.stance, Stance::Unknown), "{further:?}");
    assert_eq!(lab.fetches(), before, "nothing is fetched for it");
    assert!(!reserves(&lab.tdmrep(&a, Effort::Wait).await), "`*` keeps its file");
    assert_eq!(lab.cache.states(), OWN_STATES + 2);
}
