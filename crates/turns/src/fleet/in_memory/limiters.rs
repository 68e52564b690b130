//! The turns at the origins, as `reserve.lua`, `give_back.lua` and `report_backoff.lua` keep them.
//!
//! Pure: times are microseconds of the engine, and arguments.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use super::super::coordinator::EngineTime;
use super::super::reservation::{
    GiveBack, NEAR, OriginBackoff, ReportBackoff, Reserve, Reserved, ReservedTurn, SLOT_LIFE, Sign,
    TurnKind,
};
use super::super::time::micros;

/// A gap below this is none.
const LEAST_GAP: u64 = 200_000;

/// A gap is forgotten after this time without a report.
const FORGOTTEN: u64 = 600_000_000;

/// All origins, under one generation of the engine.
#[derive(Debug, Default)]
pub(super) struct Limiters(HashMap<String, OriginLimiter>);

/// One origin. Where a time is missing, the origin counts as used when the generation began.
#[derive(Debug, Default)]
struct OriginLimiter {
    rate: Option<Rate>,
    last: Option<u64>,
    gap: u64,
    since: u64,
    rest: u64,
    robots: Option<u64>,
    /// The robots.txt before that one, which may be reserved.
    earlier: Option<u64>,
    /// The latest time at which anything was kept; 0: nothing is.
    seen: u64,
    groups: BTreeMap<String, Group>,
    /// The slots that are taken, with the times at which they expire.
    slots: HashMap<String, u64>,
}

/// The turns at the operator's own rate.
#[derive(Debug, Clone, Copy)]
struct Rate {
    interval: u64,
    burst: u64,
    /// The time at which all turns are paid off.
    paid: u64,
    /// The time of the last turn.
    last: u64,
}

#[derive(Debug, Clone, Copy)]
struct Group {
    at: u64,
    interval: u64,
}

/// A limiter while turns are reserved in it.
struct Reservation<'a> {
    ask: Reserve<'a>,
    now: u64,
    began: u64,
    /// The time from which on the slots are known.
    renewed: u64,
    /// The rate that is asked for; none if there is none.
    rate: Option<Rate>,
    last: u64,
    gap: u64,
    rest: u64,
    robots: u64,
    earlier: u64,
    group: Option<Group>,
    /// The latest time that any group waits for, for a robots.txt.
    groups: u64,
    turns: Vec<u64>,
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
        let limiter = self.0.entry(ask.origin.to_owned()).or_default();
        let EngineTime(began) = limiter.settle(now, began);
        // A later one is from before the clock was set back.
        let resumed = Some(resumed.0).filter(|resumed| *resumed <= now);
        let mut turns = limiter.open(ask, now, (began, resumed.unwrap_or_default()));
        let free = match ask.slots {
            Some(slots) if ask.kind == TurnKind::Page => {
                limiter.slots.retain(|_, until| *until > now);
                u32::try_from(limiter.slots.len())
                    .map_or(0, |taken| slots.most.saturating_sub(taken))
            }
            _ => u32::MAX,
        };
        match ask.kind {
            TurnKind::Now => turns.take(now),
            TurnKind::RedirectHop => {
                if turns.due().0 <= now {
                    turns.take(now);
                }
                // Only once within the longest interval: a site that redirects delays others by no more.
                if turns.robots.saturating_add(micros(ask.memory)) <= now {
                    (turns.earlier, turns.robots) = (turns.robots, now);
                }
            }
            TurnKind::Page | TurnKind::Robots => {
                for nth in 0..ask.wanted.min(free) {
                    let (at, is_of_group) = turns.due();
                    // A robots.txt is reserved nevertheless: the pages of all groups would keep it waiting for ever.
                    let holds_others_up = is_of_group
                        && ask.kind == TurnKind::Page
                        && (turns.rate.is_some() || turns.gap > 0);
                    let horizon = match nth > 0 || holds_others_up {
                        true => ask.horizon.min(NEAR),
                        false => ask.horizon,
                    };
                    if at.saturating_sub(now) > micros(horizon) {
                        break;
                    }
                    turns.take(at);
                }
            }
        }
        let (next, is_of_group) = turns.due();
        let taken = u32::try_from(turns.turns.len()).unwrap_or(u32::MAX);
        let reserved = Reserved {
            turns: turns
                .turns
                .iter()
                .map(|at| ReservedTurn {
                    after: Duration::from_micros(at.saturating_sub(now)),
                    at: EngineTime(*at),
                })
                .collect(),
            next: Duration::from_micros(next.saturating_sub(now)),
            is_full: taken >= free && taken < ask.wanted,
            is_of_group,
            backoff: OriginBackoff {
                gap: Duration::from_micros(turns.gap),
                rest: Duration::from_micros(turns.rest.saturating_sub(now)),
            },
        };
        limiter.close(turns);
        reserved
    }

    /// Gives back a turn, unless another one was reserved after it.
    pub(super) fn give_back(&mut self, turn: GiveBack<'_>) {
        let Some(limiter) = self.0.get_mut(turn.origin) else {
            return;
        };
        let EngineTime(at) = turn.at;
        if limiter.last != Some(at) {
            return;
        }
        // A microsecond earlier, so that a second return of the same turn finds another one.
        let before = at.saturating_sub(1);
        limiter.last = Some(before);
        if let Some(rate) = limiter.rate.as_mut().filter(|rate| rate.last == at) {
            rate.paid = rate.paid.saturating_sub(rate.interval);
            rate.last = before;
        }
        if let Some(asked) = turn.group
            && let Some(group) = limiter.groups.get_mut(asked.name)
            && group.at == at
        {
            let interval = micros(asked.interval);
            *group = Group {
                at: at.saturating_sub(interval),
                interval,
            };
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
        let limiter = self.0.entry(report.origin.to_owned()).or_default();
        if report.sign == Sign::Fine && limiter.seen == 0 {
            return OriginBackoff::default();
        }
        limiter.forget_gap(now);
        // A clock that was set back is noticed by the next question for a turn.
        limiter.seen = limiter.seen.max(now);
        let sent = now.saturating_sub(micros(report.age));
        limiter.last = Some(limiter.last.unwrap_or(began.0).max(sent));
        let is_new = sent >= limiter.since;
        match report.sign {
            Sign::Fine if limiter.gap > 0 && is_new => {
                (limiter.gap, limiter.since) = (limiter.gap / 2, now);
                if limiter.gap < LEAST_GAP {
                    limiter.gap = 0;
                }
            }
            Sign::Fine => {}
            Sign::Refused { .. } | Sign::Troubled => {
                if is_new {
                    let wider = limiter.gap.saturating_mul(2).max(micros(report.first));
                    (limiter.gap, limiter.since) =
                        (limiter.gap.max(wider.min(micros(report.widest))), now);
                }
                if let Sign::Refused { retry_after } = report.sign {
                    let rest = micros(retry_after)
                        .max(limiter.gap)
                        .min(micros(report.longest));
                    limiter.rest = limiter.rest.max(now.saturating_add(rest));
                }
            }
        }
        OriginBackoff {
            gap: Duration::from_micros(limiter.gap),
            rest: Duration::from_micros(limiter.rest.saturating_sub(now)),
        }
    }

    /// Keeps the slots of requests under way.
    pub(super) fn renew(&mut self, origin: &str, slots: &[String], now: EngineTime) {
        let limiter = self.0.entry(origin.to_owned()).or_default();
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
}

impl OriginLimiter {
    /// Counts everything as used now if the engine's clock was set back. Returns the time at which what is missing counts
    /// as used.
    fn settle(&mut self, now: u64, began: EngineTime) -> EngineTime {
        let back = self.seen.saturating_sub(now);
        if back == 0 {
            return began;
        }
        *self = OriginLimiter {
            gap: self.gap,
            since: now,
            rest: self.rest.saturating_sub(back),
            last: Some(now),
            robots: Some(now),
            earlier: Some(now),
            seen: now,
            slots: std::mem::take(&mut self.slots),
            ..OriginLimiter::default()
        };
        EngineTime(began.0.max(now))
    }

    fn forget_gap(&mut self, now: u64) {
        if self.gap > 0 && now.saturating_sub(self.since) >= self.gap.max(FORGOTTEN) {
            self.gap = 0;
        }
    }

    fn open<'a>(
        &mut self,
        ask: Reserve<'a>,
        now: u64,
        (began, resumed): (u64, u64),
    ) -> Reservation<'a> {
        self.forget_gap(now);
        // The engine has lost the gap of this origin, or never knew one.
        if self.since < began && micros(ask.gap) > self.gap {
            (self.gap, self.since) = (micros(ask.gap), now);
        }
        let interval = micros(ask.interval);
        let burst = u64::from(ask.burst.max(1));
        let unused = Rate {
            interval,
            burst,
            paid: began.saturating_add(interval.saturating_mul(burst)),
            last: began,
        };
        let rate = self.rate.map_or(unused, |rate| rate.at(interval, burst));
        let all = self
            .groups
            .values()
            .map(|group| group.at.saturating_add(group.interval));
        Reservation {
            ask,
            now,
            began,
            // By then each instance has renewed the slots that the engine may have lost.
            renewed: began.max(resumed).saturating_add(micros(SLOT_LIFE) / 3),
            rate: (interval > 0).then_some(rate),
            last: self.last.unwrap_or(began),
            gap: self.gap,
            rest: self.rest.max(now.saturating_add(micros(ask.rest))),
            robots: self.robots.unwrap_or(began),
            earlier: self.earlier.unwrap_or(began),
            group: ask
                .group
                .and_then(|group| self.groups.get(group.name).copied()),
            groups: match ask.kind {
                TurnKind::Robots | TurnKind::RedirectHop => all.max().unwrap_or_default(),
                TurnKind::Page | TurnKind::Now => 0,
            },
            turns: Vec::new(),
        }
    }

    /// Keeps what was reserved. Nothing is kept of an origin that nothing bounds.
    fn close(&mut self, turns: Reservation<'_>) {
        let Reserve {
            kind,
            group,
            slots,
            memory,
            ..
        } = turns.ask;
        let delays_pages = kind != TurnKind::Page && !memory.is_zero();
        let is_bound = turns.rate.is_some() || group.is_some() || slots.is_some() || delays_pages;
        let is_calm = turns.gap == 0 && turns.rest <= turns.now;
        if self.seen == 0 && is_calm && !is_bound {
            return;
        }
        self.seen = turns.now;
        self.last = Some(turns.last);
        self.rest = turns.rest;
        self.robots = Some(turns.robots);
        self.earlier = Some(turns.earlier);
        // A rate that only asked is not kept: it took nothing.
        if !turns.turns.is_empty() && turns.rate.is_some() {
            self.rate = turns.rate;
        }
        if let (Some(asked), Some(Group { at, .. })) = (group, turns.group) {
            let interval = micros(asked.interval);
            self.groups
                .insert(asked.name.to_owned(), Group { at, interval });
        }
        if let Some(slots) = slots {
            for (name, at) in slots.names.iter().zip(turns.turns) {
                self.slots
                    .insert(name.clone(), at.saturating_add(micros(SLOT_LIFE)));
            }
        }
    }
}

impl Rate {
    /// Recounts the turns by another rate: the same number of turns is owed as of the last one, but at most a burst.
    fn at(self, interval: u64, burst: u64) -> Rate {
        if interval == 0 || (self.interval, self.burst) == (interval, burst) {
            return self;
        }
        let owed = self
            .paid
            .saturating_sub(self.last)
            .div_ceil(self.interval.max(1));
        let owed = owed.clamp(1, burst);
        Rate {
            interval,
            burst,
            paid: self.last.saturating_add(owed.saturating_mul(interval)),
            last: self.last,
        }
    }
}

impl Reservation<'_> {
    /// Returns the time of the next turn, and whether a group alone decides it.
    fn due(&self) -> (u64, bool) {
        let mut at = self.now.max(self.began).max(self.rest);
        if let Some(rate) = self.rate {
            let ahead = rate.interval.saturating_mul(rate.burst - 1);
            at = at.max(rate.paid.saturating_sub(ahead));
            if self.last > rate.last {
                at = at.max(self.last.saturating_add(rate.interval));
            }
        }
        if self.gap > 0 {
            at = at.max(self.last.saturating_add(self.gap));
        }
        if self.ask.slots.is_some() {
            at = at.max(self.renewed);
        }
        let mut group = self.groups;
        if let Some(asked) = self.ask.group {
            let interval = micros(asked.interval);
            let last = self.group.map_or(0, |group| group.at).max(self.earlier);
            group = group.max(last.saturating_add(interval));
            // Before a reserved robots.txt, a page may go if its interval ends by then.
            if at.max(group).saturating_add(interval) > self.robots {
                group = group.max(self.robots.saturating_add(interval));
            }
        }
        (at.max(group), group > at)
    }

    fn take(&mut self, at: u64) {
        if let Some(rate) = &mut self.rate {
            rate.paid = rate.paid.max(at).saturating_add(rate.interval);
            rate.last = rate.last.max(at);
        }
        if let Some(asked) = self.ask.group {
            let interval = micros(asked.interval);
            self.group = Some(Group { at, interval });
        }
        if matches!(self.ask.kind, TurnKind::Robots | TurnKind::Now) {
            self.earlier = self.earlier.max(at.min(self.robots));
            self.robots = self.robots.max(at);
        }
        self.last = self.last.max(at);
        self.turns.push(at);
    }
}

#[cfg(test)]
mod tests;
