//! The history of one process and the engine of a fleet give the same times.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::fleet::coordinator::{Coordinator as _, Heartbeat};
use crate::fleet::in_memory::InMemoryEngine;
use crate::fleet::reservation::{GroupInterval, ReportBackoff, Reserve, Slots, TurnKind};
use crate::history::{History, micros, moment, since_1970};
use crate::pace::backoff::{Outcome, Signs};
use crate::pace::settings::PaceSettings;

#[derive(Debug, Clone, Copy)]
enum Event {
    Page(Option<&'static str>),
    Robots,
    RedirectHop,
    Answer(Outcome),
    /// Another rate, by its number. The engine keeps nothing of an origin that nothing bounds, so there it stays.
    Rate(usize),
}

fn events() -> impl Strategy<Value = Vec<(u64, Event)>> {
    let outcome = prop_oneof![
        4 => Just(Outcome::Fine { latency: None }),
        1 => Just(Outcome::Refused { retry_after: None }),
        1 => Just(Outcome::Refused { retry_after: Some(secs(7)) }),
        2 => Just(Outcome::Failed),
    ];
    let event = prop_oneof![
        6 => prop_oneof![Just(None), Just(Some("a")), Just(Some("b"))].prop_map(Event::Page),
        1 => Just(Event::Robots),
        1 => Just(Event::RedirectHop),
        2 => outcome.prop_map(Event::Answer),
        1 => (0..3_usize).prop_map(Event::Rate),
    ];
    let wait = prop_oneof![4 => 0..300_u64, 2 => 0..5_000_u64, 1 => 0..900_000_u64];
    proptest::collection::vec((wait, event), 1..60)
}

fn reserve<'a>(
    settings: &PaceSettings,
    kind: TurnKind,
    group: Option<&'a Arc<CrawlDelay>>,
) -> Reserve<'a> {
    Reserve {
        origin: "https://a.example",
        kind,
        wanted: 1,
        horizon: Duration::ZERO,
        interval: settings.own_interval,
        burst: settings.burst(),
        group: group.map(|delay| GroupInterval { name: &delay.group, interval: delay.interval }),
        rest: Duration::ZERO,
        gap: Duration::ZERO,
        slots: None::<Slots<'_>>,
        memory: settings.config.max_crawl_delay,
    }
}

proptest! {
    #[test]
    fn one_history_and_the_engine_give_the_same_times(events in events(), first in 0..4_usize) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let clock = Clock::manual(START);
            let coordinator = InMemoryEngine::new(clock.clone()).coordinator();
            let beat = Heartbeat { name: "a", process: "a", key: "0f", report: "", after: None, forget_after: secs(1) };
            coordinator.heartbeat(beat).await.unwrap();
            // Long after the beginning, when the engine counts everything as used.
            clock.advance(secs(3_600));
            let rates = [(1.0, 1), (2.0, 3), (10.0, 5)].map(|(per_second, burst)| rate(per_second, burst));
            let settings = |number: usize| PaceSettings::of(rates.get(number).unwrap_or(&config()));
            let (mut history, mut signs) = (History::default(), Signs::default());
            let mut in_force = settings(first);
            let delays = [crawl_delay("a", ms(500)), crawl_delay("b", secs(4))];
            for (wait, event) in events {
                clock.advance(ms(wait));
                let now = clock.now();
                let time = since_1970(now);
                history.settle(time);
                match event {
                    Event::Rate(_) if first == rates.len() => {}
                    Event::Rate(number) => in_force = settings(number),
                    Event::Page(group) => {
                        let delay = delays.iter().find(|delay| Some(&*delay.group) == group);
                        let terms = in_force.terms(delay.map(|delay| &**delay));
                        let due = moment(history.next(&terms, time));
                        let is_due = due <= now;
                        if is_due {
                            history.take(&terms, time);
                        }
                        let reserved = coordinator.reserve(reserve(&in_force, TurnKind::Page, delay)).await.unwrap();
                        prop_assert_eq!(reserved.turns.len(), usize::from(is_due), "{:?} {:?}", due.since(now), reserved);
                        if !is_due {
                            prop_assert_eq!(reserved.next, due.since(now));
                        }
                    }
                    Event::Robots => {
                        let terms = in_force.terms_for_robots();
                        let due = moment(history.next(&terms, time));
                        let is_due = due <= now;
                        if is_due {
                            history.take(&terms, time);
                            history.take_robots(time);
                        }
                        let reserved = coordinator.reserve(reserve(&in_force, TurnKind::Robots, None)).await.unwrap();
                        prop_assert_eq!(reserved.turns.len(), usize::from(is_due), "{:?} {:?}", due.since(now), reserved);
                        if !is_due {
                            prop_assert_eq!(reserved.next, due.since(now));
                        }
                    }
                    Event::RedirectHop => {
                        let memory = micros(in_force.config.max_crawl_delay);
                        history.take_redirect_hop(&in_force.terms_for_robots(), (time, time), memory);
                        coordinator.reserve(reserve(&in_force, TurnKind::RedirectHop, None)).await.unwrap();
                    }
                    Event::Answer(outcome) => {
                        let most = in_force.config.backoff_max;
                        // Sent now, and answered at once.
                        history.take(&in_force.terms(None), time);
                        coordinator.reserve(reserve(&in_force, TurnKind::Now, None)).await.unwrap();
                        history.take_robots(time);
                        if let Some(noticed) = signs.notice(outcome, most) {
                            history.trouble.enter(noticed, time, time, most);
                            let report = ReportBackoff {
                                origin: "https://a.example",
                                sign: noticed.sign,
                                age: Duration::ZERO,
                                first: noticed.first,
                                widest: noticed.widest,
                                longest: most,
                                memory: in_force.longest_interval(),
                            };
                            let backoff = coordinator.report_backoff(report).await.unwrap();
                            prop_assert_eq!(micros(backoff.gap), history.trouble.gap);
                            prop_assert_eq!(backoff.rest, moment(history.trouble.rest).since(now));
                        }
                    }
                }
            }
            Ok(())
        })?;
    }
}
