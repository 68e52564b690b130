//! The writing of a stranger into the engine, value by value: it may delay and forget. It gives no turn early and no
//! token that is not exact, and no call ends in a panic or without an answer.

use std::sync::Arc;
use std::time::Duration;

use crawlgate_turns::fleet::coordinator::{
    Coordinator, CoordinatorError, EngineTime, FetchLease, Published, Token,
};
use crawlgate_turns::fleet::quota::ChargeQuota;
use crawlgate_turns::fleet::reservation::{
    GiveBack, GroupInterval, ReportBackoff, Reserve, Sign, Slots, TurnKind,
};
use tokio::time::timeout;

use super::{TestEngine, ask, each, heartbeat, key, publish, two};
use crate::support::{Engine, PATIENCE};

const ORIGIN: &str = "https://a.example";
const ACCOUNT: &str = "client:0123";
const DAY: Duration = Duration::from_secs(86_400);

/// From this number on, the scripts cannot tell two neighbours apart.
const INEXACT: u64 = 1 << 53;

const VALUES: &[&str] = &[
    "",
    "x",
    "-1",
    "nan",
    "inf",
    "-inf",
    "1e400",
    "0x7fffffffffffffff",
    "9007199254740991",
    "9007199254740993",
    "18446744073709551616",
    "1 2",
    "9007199254740993 x",
    "x 9007199254740993 x",
    "x x x",
    "\u{7f}\u{0}\u{80}",
];

/// A place that a script reads.
#[derive(Debug, Clone, Copy)]
enum Place {
    Text(&'static str),
    Field(&'static str, &'static str),
    Score(&'static str),
    Message,
}

const STATE: &str = "crawlgate:{https://a.example}:state:00000000-11111111";
const LEASE: &str = "crawlgate:{https://a.example}:lease:00000000-11111111";
const TURNS: &str = "crawlgate:{https://a.example}:turns";
const SLOTS: &str = "crawlgate:{https://a.example}:slots";
const QUOTA: &str = "crawlgate:{client:0123}:quota:86400000";
const MEMBERS: &str = "crawlgate:{fleet}:members";
const REPORTS: &str = "crawlgate:{fleet}:reports";
const COUNTERS: &str = "crawlgate:{fleet}:counters";
const NEWS: &str = "crawlgate:{fleet}:news";

/// The places, with a text in the stead of each container, too.
#[rustfmt::skip] // by key
const PLACES: &[Place] = &[
    Place::Text("crawlgate:{fleet}:generation"),
    Place::Text(STATE), Place::Text(LEASE),
    Place::Text(TURNS), Place::Text(SLOTS), Place::Text(QUOTA), Place::Text(MEMBERS), Place::Text(REPORTS),
    Place::Text(COUNTERS), Place::Text(NEWS), Place::Text("crawlgate:{fleet}:overrides"),
    Place::Text("crawlgate:{fleet}:overrides_removed"),
    Place::Field(COUNTERS, "overrides"), Place::Field(COUNTERS, "news"),
    Place::Field(TURNS, "generation"), Place::Field(TURNS, "paid"), Place::Field(TURNS, "interval"),
    Place::Field(TURNS, "burst"), Place::Field(TURNS, "rated"), Place::Field(TURNS, "last"), Place::Field(TURNS, "gap"),
    Place::Field(TURNS, "since"), Place::Field(TURNS, "rest"), Place::Field(TURNS, "robots"), Place::Field(TURNS, "seen"),
    Place::Field(TURNS, "g:a"), Place::Field(TURNS, "g:x"),
    Place::Field(QUOTA, "span"), Place::Field(QUOTA, "r:a"), Place::Field(QUOTA, "r:x"), Place::Field(QUOTA, "o:a"),
    Place::Field(QUOTA, "o:x"),
    Place::Score(MEMBERS), Place::Score(SLOTS),
    Place::Message,
];

impl Place {
    /// Plants a value here. A value that the engine itself refuses does not count.
    fn plant(self, engine: &Engine, value: &str) {
        match self {
            Place::Text(key) => engine.ask(&["SET", key, value]),
            Place::Field(TURNS, field) => {
                // Of the present generation, or else it counts for nothing.
                let script = "local id = string.match(redis.call('GET', KEYS[2]), '^(%S+)') \
                    redis.call('HSET', KEYS[1], 'generation', id, ARGV[1], ARGV[2]) return 1";
                let keys = ["2", TURNS, "crawlgate:{fleet}:generation"];
                let reply = engine.ask(&["EVAL", script, keys[0], keys[1], keys[2], field, value]);
                assert_eq!(reply, ":1\r\n");
                reply
            }
            Place::Field(key, field) => engine.ask(&["HSET", key, field, value]),
            Place::Score(key) => engine.ask(&["ZADD", key, value, "x"]),
            Place::Message => engine.ask(&["XADD", NEWS, "9007199254740991-1", "m", value]),
        };
    }
}

/// Fails if a call does not end, whatever its outcome is.
async fn ends<T>(
    call: impl Future<Output = Result<T, CoordinatorError>>,
) -> Result<T, CoordinatorError> {
    timeout(PATIENCE, call).await.unwrap()
}

/// Asks everything that there is to ask.
async fn ask_all(a: &Arc<dyn Coordinator>, planted: &str) {
    let beat = super::Heartbeat {
        name: "a",
        process: "0a",
        key: super::KEY,
        report: &super::report("0a"),
        after: Some(1),
        forget_after: Duration::from_secs(18),
    };
    let _ = ends(a.heartbeat(beat)).await;
    let (key, none) = (key(), Token::default());
    let lease = ends(a.acquire_fetch(ask(&key, "a/1", none))).await;
    if let Ok(FetchLease::Newer(state, _)) = &lease {
        assert!(state.token.0 < INEXACT, "{planted}: {state:?}");
    }
    if let Ok(FetchLease::Acquired { token, .. }) = lease {
        assert!(token > none && token.0 < INEXACT, "{planted}: {token:?}");
        let published = ends(a.publish_state(publish(&key, "a/1", token, b"state"))).await;
        if let Ok(Published::Superseded(state, _)) = published {
            assert!(state.token.0 < INEXACT, "{planted}: {state:?}");
        }
    }
    let _ = ends(a.release_fetch(&key, "a/1")).await;
    for id in ["1", "2"] {
        if let Ok(change) = ends(a.add_override(id, b"sealed")).await {
            assert!(change < INEXACT, "{planted}: change {change}");
        }
        let _ = ends(a.remove_override(id, b"sealed")).await;
    }
    let _ = ends(a.overrides()).await;
    let _ = ends(a.members()).await;
    let _ = ends(a.observe()).await;
    let _ = ends(a.announce("news")).await;
    let names = ["a/1".to_owned()];
    let group = Some(GroupInterval { name: "a", interval: Duration::from_secs(1) });
    let turn = Reserve {
        origin: ORIGIN,
        kind: TurnKind::Page,
        wanted: 1,
        horizon: Duration::from_secs(3_600),
        interval: Duration::from_secs(1),
        burst: 2,
        group,
        rest: Duration::ZERO,
        gap: Duration::ZERO,
        slots: Some(Slots { most: 3, names: &names }),
        memory: Duration::from_secs(60),
    };
    for kind in [TurnKind::Page, TurnKind::Robots, TurnKind::Now, TurnKind::RedirectHop] {
        if let Ok(reserved) = ends(a.reserve(Reserve { kind, ..turn })).await {
            let latest = reserved.turns.iter().map(|turn| turn.after).max();
            assert!(latest <= Some(turn.horizon), "{planted}: {reserved:?}");
        }
    }
    let at = EngineTime(1_795_000_000_000_000);
    let origin = ORIGIN;
    let _ = ends(a.give_back(GiveBack { origin, at, group })).await;
    for sign in [Sign::Fine, Sign::Refused { retry_after: DAY }, Sign::Troubled] {
        let report = ReportBackoff {
            origin,
            sign,
            age: Duration::ZERO,
            first: Duration::from_secs(1),
            widest: Duration::from_secs(60),
            longest: DAY,
            memory: Duration::from_secs(60),
        };
        if let Ok(backoff) = ends(a.report_backoff(report)).await {
            assert!(matches!(sign, Sign::Fine) || !backoff.is_none(), "{planted}: {sign:?}");
        }
    }
    let _ = ends(a.renew_slots(ORIGIN, &names)).await;
    let _ = ends(a.release_slot(ORIGIN, "a/1")).await;
    let charge = ChargeQuota {
        account: ACCOUNT,
        instance: "a",
        per: DAY,
        span: None,
        requests: 1,
        bytes: 1,
        returned: 0,
        wanted: 2,
        most_requests: Some(100),
        most_bytes: Some(100),
        members: 1,
        after: Duration::ZERO,
    };
    if let Ok(charged) = ends(a.charge_quota(charge)).await {
        assert!(charged.granted <= 2, "{planted}: {charged:?}");
    }
}

#[test]
fn what_is_planted_delays_and_is_forgotten() {
    each(async |test_engine| {
        let TestEngine::Real(engine, _) = &*test_engine else {
            return;
        };
        let [a, _] = two(&test_engine).await;
        for place in PLACES {
            for value in VALUES {
                place.plant(engine, value);
                let planted = format!("{place:?} is {value:?}");
                ask_all(&a, &planted).await;
                test_engine.forget();
                heartbeat(&a, "a", 0).await;
            }
        }
        test_engine.is_quiet_no_more();
        let lease = a.acquire_fetch(ask(&key(), "a/2", Token::default())).await;
        assert!(matches!(lease, Ok(FetchLease::Acquired { .. })), "{lease:?}");
    });
}
