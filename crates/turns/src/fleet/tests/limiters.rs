//! The turns at the origins, as `reserve.lua`, `give_back.lua` and `report_backoff.lua` keep them.
//!
//! Pure: times are microseconds of the engine, and arguments.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::super::coordinator::EngineTime;
use super::super::reservation::{
    GiveBack, NEAR, OriginBackoff, ReportBackoff, Reserve, Reserved, ReservedTurn, SLOT_LIFE, Sign,
    TurnKind,
};
use crate::gcra::Rate;
use crate::history::{History, Report, Terms, Trouble, Turns, micros};

/// All origins, under one generation of the engine.
#[derive(Debug, Default)]
pub(super) struct Limiters(HashMap<String, OriginLimiter>);

/// One origin.
#[derive(Debug, Default)]
struct OriginLimiter {
    history: History,
    /// The latest time at which anything was kept; 0: nothing is.
    seen: u64,
    /// The slots that are taken, with the times at which they expire.
    slots: HashMap<String, u64>,
}

impl Limiters {
    /// Reserves turns at `now`, in a generation that began at `began`. Slots that were in use before `resumed` may have run
    /// out.
    pub(super) fn reserve(
        &mut self,
        ask: Reserve<'_>,
        now: EngineTime,
        (began, resumed): (EngineTime, EngineTime),
    ) -> Reserved {
        let EngineTime(now) = now;
        let limiter = self.limiter(ask.origin, began);
        let mut history = limiter.opened(&ask, now, began);
        let group: Option<(Arc<str>, u64)> =
            ask.group.map(|group| (group.name.into(), micros(group.interval)));
        let rate = Rate { interval: micros(ask.interval), burst: ask.burst.max(1) };
        let terms = Terms {
            rate: (rate.interval > 0).then_some(rate),
            group: group.as_ref().map(|(name, interval)| (name, *interval)),
            is_robots: matches!(ask.kind, TurnKind::Robots | TurnKind::RedirectHop),
        };
        let mut earliest = now.max(history.began);
        let mut free = u32::MAX;
        if let Some(slots) = ask.slots {
            // A later one is from before the clock was set back.
            let resumed = Some(resumed.0).filter(|resumed| *resumed <= now);
            // At this time each instance has renewed the slots that the engine may have lost.
            let renewed = history.began.max(resumed.unwrap_or_default());
            earliest = earliest.max(renewed.saturating_add(micros(SLOT_LIFE) / 3));
            if ask.kind == TurnKind::Page {
                limiter.slots.retain(|_, until| *until > now);
                let taken = u32::try_from(limiter.slots.len());
                free = taken.map_or(0, |taken| slots.most.saturating_sub(taken));
            }
        }
        let mut turns = Vec::new();
        match ask.kind {
            TurnKind::Now => {
                history.take(&terms, now);
                history.take_robots(now);
                turns.push(now);
            }
            TurnKind::RedirectHop => {
                if history.take_redirect_hop(&terms, (earliest, now), micros(ask.memory)) {
                    turns.push(now);
                }
            }
            TurnKind::Page | TurnKind::Robots => {
                for nth in 0..ask.wanted.min(free) {
                    let due = history.next(&terms, earliest);
                    // A robots.txt is reserved nevertheless: the pages of all groups would keep it waiting for ever.
                    let holds_others_up = is_of_group(&history, &terms, earliest)
                        && ask.kind == TurnKind::Page
                        && (terms.rate.is_some() || history.trouble.gap > 0);
                    let horizon = if nth > 0 || holds_others_up {
                        ask.horizon.min(NEAR)
                    } else {
                        ask.horizon
                    };
                    if due.saturating_sub(now) > micros(horizon) {
                        break;
                    }
                    history.take(&terms, due);
                    if ask.kind == TurnKind::Robots {
                        history.take_robots(due);
                    }
                    turns.push(due);
                }
            }
        }
        let next = history.next(&terms, earliest);
        let taken = u32::try_from(turns.len()).unwrap_or(u32::MAX);
        let reserved = Reserved {
            turns: turns
                .iter()
                .map(|at| ReservedTurn {
                    after: Duration::from_micros(at.saturating_sub(now)),
                    at: EngineTime(*at),
                })
                .collect(),
            next: Duration::from_micros(next.saturating_sub(now)),
            is_full: taken >= free && taken < ask.wanted,
            is_of_group: is_of_group(&history, &terms, earliest),
            backoff: backoff(&history.trouble, now),
        };
        limiter.close(history, &ask, &turns, now);
        reserved
    }

    /// Gives back a turn, unless another one was reserved after it.
    pub(super) fn give_back(&mut self, turn: GiveBack<'_>) {
        let EngineTime(at) = turn.at;
        let limiter = self.0.get_mut(turn.origin);
        let Some(limiter) = limiter.filter(|limiter| limiter.seen > 0) else {
            return;
        };
        let history = &mut limiter.history;
        if history.last != at {
            return;
        }
        // A microsecond earlier, so that a second return of the same turn finds another one.
        history.last = at.saturating_sub(1);
        history.turns.give_back(at);
        if let Some(asked) = turn.group
            && let Some(group) = history.groups.get_mut(asked.name)
            && group.at == at
        {
            group.interval = micros(asked.interval);
            group.at = at.saturating_sub(group.interval);
        }
    }

    /// Enters how an origin has taken a request.
    pub(super) fn report(
        &mut self,
        report: ReportBackoff<'_>,
        now: EngineTime,
        began: EngineTime,
    ) -> OriginBackoff {
        let EngineTime(now) = now;
        let limiter = self.limiter(report.origin, began);
        if report.sign == Sign::Fine && limiter.seen == 0 {
            return OriginBackoff::default();
        }
        // A clock that was set back is noticed by the next question for a turn.
        limiter.seen = limiter.seen.max(now);
        let sent = now.saturating_sub(micros(report.age));
        let history = &mut limiter.history;
        history.last = history.last.max(sent);
        let entered = Report { sign: report.sign, first: report.first, widest: report.widest };
        history.trouble.enter(entered, sent, now, report.longest);
        backoff(&history.trouble, now)
    }

    /// Keeps the slots of requests under way.
    pub(super) fn renew(
        &mut self,
        origin: &str,
        slots: &[String],
        now: EngineTime,
        began: EngineTime,
    ) {
        let limiter = self.limiter(origin, began);
        let renewed = now.0.saturating_add(micros(SLOT_LIFE));
        for slot in slots {
            let until = limiter.slots.entry(slot.clone()).or_default();
            *until = renewed.max(*until);
        }
    }

    /// Frees a slot.
    pub(super) fn release(&mut self, origin: &str, slot: &str) {
        if let Some(limiter) = self.0.get_mut(origin) {
            limiter.slots.remove(slot);
        }
    }

    /// Returns the limiter of an origin. An unknown origin counts as used when the generation began.
    fn limiter(&mut self, origin: &str, began: EngineTime) -> &mut OriginLimiter {
        let used = || OriginLimiter { history: used_at(began.0), ..OriginLimiter::default() };
        self.0.entry(origin.to_owned()).or_insert_with(used)
    }
}

impl OriginLimiter {
    /// Returns the history that a question finds.
    fn opened(&mut self, ask: &Reserve<'_>, now: u64, began: EngineTime) -> History {
        self.history.began = began.0;
        let back = self.seen.saturating_sub(now);
        if back > 0 {
            // The engine's clock was set back: everything counts as used now, a rest keeps its length.
            let trouble = Trouble {
                since: now,
                rest: self.history.trouble.rest.saturating_sub(back),
                ..self.history.trouble
            };
            self.history = History { began: began.0.max(now), trouble, ..used_at(now) };
            self.seen = now;
        }
        let mut history = self.history.clone();
        let trouble = &mut history.trouble;
        trouble.settle(now);
        // The engine has lost the gap of this origin, or never knew one.
        if trouble.since < history.began && micros(ask.gap) > trouble.gap {
            (trouble.gap, trouble.since) = (micros(ask.gap), now);
        }
        trouble.rest = trouble.rest.max(now.saturating_add(micros(ask.rest)));
        history
    }

    /// Keeps what was reserved. Nothing is kept of an origin that nothing bounds.
    fn close(&mut self, mut history: History, ask: &Reserve<'_>, turns: &[u64], now: u64) {
        let delays_pages = ask.kind != TurnKind::Page && !ask.memory.is_zero();
        let is_bound =
            !ask.interval.is_zero() || ask.group.is_some() || ask.slots.is_some() || delays_pages;
        let is_calm = history.trouble.gap == 0 && history.trouble.rest <= now;
        if self.seen == 0 && is_calm && !is_bound {
            return;
        }
        if let Some(asked) = ask.group
            && let Some(group) = history.groups.get_mut(asked.name)
        {
            group.interval = micros(asked.interval);
        }
        (self.history, self.seen) = (history, now);
        if let Some(slots) = ask.slots {
            for (name, at) in slots.names.iter().zip(turns) {
                self.slots.insert(name.clone(), at.saturating_add(micros(SLOT_LIFE)));
            }
        }
    }
}

impl Turns {
    /// Gives back the turn of this time, if it is the last one.
    fn give_back(&mut self, at: u64) {
        if let Some(rate) = self.rate.filter(|_| self.last == at) {
            self.gcra.give_back(rate.interval);
            self.last = at.saturating_sub(1);
        }
    }
}

/// Tells whether only a group delays the next turn.
fn is_of_group(history: &History, terms: &Terms<'_>, earliest: u64) -> bool {
    let without = Terms { rate: terms.rate, ..Terms::default() };
    history.next(terms, earliest) > history.next(&without, earliest)
}

/// Returns the history of an origin that was used at this time, with all that bounds it.
fn used_at(at: u64) -> History {
    History { began: at, last: at, robots: at, earlier: at, ..History::default() }
}

fn backoff(trouble: &Trouble, now: u64) -> OriginBackoff {
    OriginBackoff {
        gap: Duration::from_micros(trouble.gap),
        rest: Duration::from_micros(trouble.rest.saturating_sub(now)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fleet::reservation::GroupInterval;

    const SECOND: u64 = 1_000_000;

    #[derive(Debug, Clone, Copy)]
    enum Ask {
        /// A page of a group, by its number.
        Page(usize),
        Robots,
    }

    fn asks() -> impl Strategy<Value = Vec<(u64, Ask, u64)>> {
        let ask = prop_oneof![
            3 => (0..GROUPS.len()).prop_map(Ask::Page),
            1 => Just(Ask::Robots),
        ];
        let wait = prop_oneof![Just(0), 0..3 * SECOND];
        let horizon = prop_oneof![Just(0), Just(60 * SECOND), 0..9 * SECOND];
        proptest::collection::vec((wait, ask, horizon), 1..80)
    }

    const GROUPS: [(&str, u64); 3] = [("a", SECOND / 2), ("b", 2 * SECOND), ("c", 5 * SECOND)];

    proptest! {
        #[test]
        fn the_pages_of_a_group_keep_its_interval_to_each_other_and_to_every_robots_txt(asks in asks()) {
            let mut limiters = Limiters::default();
            let began = 1_000 * SECOND;
            let mut now = began;
            let mut robots = vec![began];
            let mut pages = GROUPS.map(|_| Vec::new());
            for (wait, ask, horizon) in asks {
                now += wait;
                let micros = Duration::from_micros;
                let reserve = Reserve {
                    origin: "https://a.example",
                    kind: match ask {
                        Ask::Page(_) => TurnKind::Page,
                        Ask::Robots => TurnKind::Robots,
                    },
                    wanted: 1,
                    horizon: micros(horizon),
                    interval: Duration::ZERO,
                    burst: 1,
                    group: match ask {
                        Ask::Page(group) => {
                            let (name, interval) = GROUPS[group];
                            Some(GroupInterval { name, interval: micros(interval) })
                        }
                        Ask::Robots => None,
                    },
                    rest: Duration::ZERO,
                    gap: Duration::ZERO,
                    slots: None,
                    memory: micros(30 * SECOND),
                };
                let reserved = limiters.reserve(reserve, EngineTime(now), (EngineTime(began), EngineTime(0)));
                for ReservedTurn { at: EngineTime(at), .. } in reserved.turns {
                    match ask {
                        Ask::Page(group) => pages[group].push(at),
                        Ask::Robots => robots.push(at),
                    }
                }
            }
            for (pages, (name, interval)) in pages.iter_mut().zip(GROUPS) {
                pages.sort_unstable();
                for pair in pages.windows(2) {
                    prop_assert!(pair[1] - pair[0] >= interval, "{}: {:?}", name, pair);
                }
                for page in pages {
                    for one in &robots {
                        prop_assert!(page.abs_diff(*one) >= interval, "{}: {} and {}", name, page, one);
                    }
                }
            }
        }
    }
}
