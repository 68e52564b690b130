//! The steps of the sequences, at random.

use std::time::Duration;

use crawlgate_turns::fleet::reservation::{Sign, TurnKind};
use proptest::prelude::*;
use proptest::sample::Index;

/// The most steps of a sequence.
const STEPS: usize = 80;

/// The instances.
pub(super) const NAMES: [&str; 3] = ["a", "b", "c"];

/// The origins. In a long sequence, only trouble bounds the first, and something bounds the others always.
pub(super) const ORIGINS: [&str; 3] =
    ["https://free.example", "https://b.example", "https://c.example"];

/// Intervals in microseconds, and bursts; the first is no interval.
pub(super) const RATES: [(u64, u32); 5] =
    [(0, 1), (1_000_000, 1), (333_333, 3), (10_000_000, 2), (20_000, 5)];

/// Groups and their intervals in microseconds.
pub(super) const GROUPS: [(&str, u64); 3] = [("x", 500_000), ("x", 2_000_000), ("y", 4_000_000)];

/// The clients.
pub(super) const ACCOUNTS: [&str; 2] = ["client:0123", "client:4567"];

/// Lengths of spans, in milliseconds.
pub(super) const SPANS: [u64; 2] = [10_000, 3_600_000];

/// One act of an instance, or one accident of the engine.
#[derive(Debug, Clone)]
pub(super) enum Step {
    /// Time passes, in milliseconds.
    Wait(u64),
    /// The engine's clock is set back, by milliseconds.
    SetBack(u64),
    /// The engine forgets everything, and one instance hears of that.
    Forget,
    Heartbeat {
        is_first: bool,
        process: &'static str,
    },
    Leave(&'static str),
    Announce,
    AcquireFetch {
        key: usize,
        holder: &'static str,
        known: Index,
        lease: u64,
    },
    PublishState {
        key: usize,
        holder: &'static str,
        token: Index,
        keep: u64,
    },
    ReleaseFetch {
        key: usize,
        holder: &'static str,
    },
    PutOverride {
        id: &'static str,
        sealed: &'static [u8],
        is_removal: bool,
    },
    Overrides,
    Members,
    Reserve(Turns),
    GiveBack(Index),
    Report {
        origin: usize,
        sign: Sign,
        age: u64,
        first: u64,
    },
    RenewSlots(usize, Vec<Index>),
    ReleaseSlot(usize, Index),
    ChargeQuota(Charge),
}

/// A question for turns. Times are milliseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Turns {
    pub(super) origin: usize,
    pub(super) kind: TurnKind,
    pub(super) rate: usize,
    pub(super) group: Option<usize>,
    pub(super) most: Option<u32>,
    pub(super) wanted: u32,
    pub(super) horizon: u64,
    pub(super) rest: u64,
    pub(super) gap: u64,
}

/// A question for a part of a quota, relative to the last answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Charge {
    pub(super) account: usize,
    pub(super) per: usize,
    /// The number of spans by which the totals are late; `None`: they come on top.
    pub(super) late: Option<u64>,
    pub(super) requests: u64,
    pub(super) bytes: u64,
    pub(super) returned: u64,
    pub(super) wanted: u64,
    pub(super) most_requests: Option<u64>,
    pub(super) most_bytes: Option<u64>,
    pub(super) members: u64,
    pub(super) after: u64,
}

/// Returns sequences of steps, each with the number of its instance. In a long one, minutes pass between two steps, and the
/// clock is not set back.
pub(super) fn sequences(is_long: bool) -> impl Strategy<Value = Vec<(usize, Step)>> {
    // Even, so that nothing that is kept for an odd time ends at the time of a question.
    let wait = match is_long {
        true => prop_oneof![Just(0), 0..2_500_u64, 0..450_000_u64].boxed(),
        false => prop_oneof![Just(0), 0..150_u64, 0..2_500_u64].boxed(),
    };
    let wait = wait.prop_map(|half| Step::Wait(half * 2));
    let set_back = (1..5_000_u64).prop_map(move |half| match is_long {
        true => Step::Wait(half * 2),
        false => Step::SetBack(half * 2),
    });
    let heartbeat = (any::<bool>(), prop_oneof![9 => Just("0a"), 1 => Just("0b")])
        .prop_map(|(is_first, process)| Step::Heartbeat { is_first, process });
    let process = prop_oneof![Just("0a"), Just("0b")];
    let members = prop_oneof![
        4 => heartbeat,
        1 => process.prop_map(Step::Leave),
        1 => Just(Step::Announce),
        1 => Just(Step::Members),
    ];
    let of_turns = prop_oneof![
        6 => turns(is_long).prop_map(Step::Reserve),
        2 => any::<Index>().prop_map(Step::GiveBack),
        2 => reports(is_long),
        1 => (0..ORIGINS.len(), proptest::collection::vec(any::<Index>(), 1..4))
            .prop_map(|(origin, slots)| Step::RenewSlots(origin, slots)),
        1 => (0..ORIGINS.len(), any::<Index>())
            .prop_map(|(origin, slot)| Step::ReleaseSlot(origin, slot)),
    ];
    let step = prop_oneof![
        6 => wait,
        1 => set_back,
        1 => Just(Step::Forget),
        3 => members,
        5 => fetches(),
        2 => overrides(),
        12 => of_turns,
        3 => charges(),
    ];
    proptest::collection::vec((0..NAMES.len(), step), 1..=STEPS)
}

fn fetches() -> impl Strategy<Value = Step> {
    let holder = || prop_oneof![Just("a/1"), Just("b/1"), Just("b/2")];
    let acquire = (0..2_usize, holder(), any::<Index>(), prop_oneof![Just(3_001), Just(60_001)]);
    let publish = (0..2_usize, holder(), any::<Index>(), prop_oneof![Just(2_001), Just(3_600_001)]);
    prop_oneof![
        3 => acquire.prop_map(|(key, holder, known, lease)| {
            Step::AcquireFetch { key, holder, known, lease }
        }),
        2 => publish.prop_map(|(key, holder, token, keep)| {
            Step::PublishState { key, holder, token, keep }
        }),
        1 => (0..2_usize, holder()).prop_map(|(key, holder)| Step::ReleaseFetch { key, holder }),
    ]
}

fn overrides() -> impl Strategy<Value = Step> {
    let sealed = prop_oneof![Just(b"one".as_slice()), Just(b"\0\xff".as_slice())];
    let put = (prop_oneof![Just("1"), Just("2")], sealed, any::<bool>());
    prop_oneof![
        3 => put.prop_map(|(id, sealed, is_removal)| Step::PutOverride { id, sealed, is_removal }),
        1 => Just(Step::Overrides),
    ]
}

fn turns(is_long: bool) -> impl Strategy<Value = Turns> {
    let kind = prop_oneof![
        6 => Just(TurnKind::Page),
        2 => Just(TurnKind::Robots),
        1 => Just(TurnKind::Now),
        1 => Just(TurnKind::RedirectHop),
    ];
    let bounds = (
        0..RATES.len(),
        proptest::option::of(0..GROUPS.len()),
        proptest::option::weighted(0.3, 2..4_u32),
    );
    let horizon = prop_oneof![Just(0), Just(200), Just(1_000), Just(60_000)];
    let seldom = |millis: u64| prop_oneof![6 => Just(0), 1 => Just(millis)];
    let known = (seldom(7_000), seldom(if is_long { 0 } else { 3_000 }));
    (0..ORIGINS.len(), kind, bounds, 1..5_u32, horizon, known).prop_map(
        move |(origin, kind, (rate, group, most), wanted, horizon, (rest, gap))| {
            let is_page = kind == TurnKind::Page;
            let is_free = is_long && origin == 0;
            let group = group.filter(|_| is_page && !is_free);
            let most = most.filter(|_| !is_free);
            let may_be_unbounded = !is_long || group.is_some() || most.is_some();
            Turns {
                origin,
                kind,
                rate: match is_free {
                    true => 0,
                    false if may_be_unbounded => rate,
                    false => rate.max(1),
                },
                group,
                most,
                wanted: if is_page { wanted } else { 1 },
                // As instances ask: a slot is taken at once.
                horizon: most.map_or(horizon, |_| horizon.min(1_000)),
                rest,
                gap: if is_free { 0 } else { gap },
            }
        },
    )
}

fn reports(is_long: bool) -> impl Strategy<Value = Step> {
    let sign = prop_oneof![
        3 => Just(Sign::Fine),
        1 => Just(Sign::Refused { retry_after: Duration::ZERO }),
        1 => Just(Sign::Refused { retry_after: Duration::from_secs(7) }),
        2 => Just(Sign::Troubled),
    ];
    let age: u64 = if is_long { 1 } else { 2_000 };
    let first = prop_oneof![Just(1_000), Just(1_000_000)];
    (0..ORIGINS.len(), sign, 0..age, first).prop_map(|(origin, sign, age, first)| Step::Report {
        origin,
        sign,
        age,
        first,
    })
}

fn charges() -> impl Strategy<Value = Step> {
    let place = (0..ACCOUNTS.len(), 0..SPANS.len());
    let late = proptest::option::of(0..2_u64);
    let totals = (0..9_u64, 0..900_u64, 0..4_u64, 0..20_u64);
    let most = (proptest::option::of(Just(300_u64)), proptest::option::of(Just(2_000_u64)));
    let rest = (1..4_u64, prop_oneof![4 => Just(0), 1 => Just(5_000_u64)]);
    (place, late, totals, most, rest).prop_map(|(place, late, totals, most, rest)| {
        Step::ChargeQuota(Charge {
            account: place.0,
            per: place.1,
            late,
            requests: totals.0,
            bytes: totals.1,
            returned: totals.2,
            wanted: totals.3,
            most_requests: most.0,
            most_bytes: most.1,
            members: rest.0,
            after: rest.1,
        })
    })
}
