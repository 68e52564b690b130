//! The history of one origin, and the next time that it may be asked: the law of the pace.
//!
//! A gate without a fleet keeps it by its own clock. The engine of a fleet keeps the same law by the engine's clock
//! (`reserve.lua`, `report_backoff.lua`); tests compare the two. The history survives any change of settings, because
//! settings only interpret it.
//!
//! Pure: times go in and come out, in microseconds since 1970. A time of 0 means never.

mod trouble;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

pub use self::trouble::Sign;
pub(crate) use self::trouble::{Report, Trouble};
use crate::gcra::{Gcra, Rate};
use crawlgate_system::clock::Moment;

/// Groups of one origin that are kept without a check whether they still matter.
const GROUPS: usize = 16;

/// The history of requests to one origin.
#[derive(Debug, Clone, Default)]
pub(crate) struct History {
    /// Before the first turn at a rate, the burst of this time counts as used up; 0: as unused.
    pub(crate) began: u64,
    /// The time of the last request.
    pub(crate) last: u64,
    /// The time of the last robots.txt fetch, which counts for every group. A fleet may have reserved it.
    pub(crate) robots: u64,
    /// The robots.txt before that one.
    pub(crate) earlier: u64,
    pub(crate) trouble: Trouble,
    pub(crate) turns: Turns,
    pub(crate) groups: BTreeMap<Arc<str>, Last>,
}

/// The turns at the operator's own rate. Asking for the next one takes none: a request waits for several bounds and takes
/// its turn when the last one permits it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Turns {
    pub(crate) gcra: Gcra,
    /// Their rate; none before the first turn.
    pub(crate) rate: Option<Rate>,
    /// The time of the last turn.
    pub(crate) last: u64,
}

/// The last request of one group of the robots.txt.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Last {
    pub(crate) at: u64,
    /// The interval that was kept.
    pub(crate) interval: u64,
}

/// The bounds that a request has to keep.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Terms<'a> {
    /// The operator's own rate.
    pub(crate) rate: Option<Rate>,
    /// The group of the robots.txt, and its interval.
    pub(crate) group: Option<(&'a Arc<str>, u64)>,
    /// True for a robots.txt. It keeps the interval of every group, because its new intervals are still unknown.
    pub(crate) is_robots: bool,
}

/// A bound on the next request, with the time that it keeps to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bound {
    Rate,
    Group,
    Gap(u64),
    Rest(u64),
}

/// The changes by one request, to be undone if it was never sent.
#[derive(Debug)]
pub(crate) struct Undo {
    last: u64,
    turns: Turns,
    group: Option<(Arc<str>, Option<Last>)>,
}

impl History {
    /// Forgets bounds that are over. If the clock was set back, the recorded times move back with it; otherwise the
    /// origin would not be asked until that time comes again.
    pub(crate) fn settle(&mut self, now: u64) {
        // A redirect hop that was not due counts as a robots.txt, and not as the last request.
        let by = self.last.max(self.robots).saturating_sub(now);
        if by > 0 {
            self.last = self.last.saturating_sub(by);
            self.turns.gcra.set_back(by);
            self.trouble.set_back(by);
            let groups = self.groups.values_mut().map(|group| &mut group.at);
            let times = [&mut self.robots, &mut self.earlier, &mut self.turns.last];
            for at in groups.chain(times) {
                *at = at.saturating_sub(by);
            }
        }
        self.trouble.settle(now);
    }

    /// Returns the first time from `earliest` on at which a request may go, if none waits before it.
    pub(crate) fn next(&self, terms: &Terms<'_>, earliest: u64) -> u64 {
        let own = self.next_apart_from_groups(terms, earliest);
        own.max(self.next_of_group(terms, own))
    }

    /// Returns the bound that decides when the next request may go; `None` without a bound.
    pub(crate) fn bound(&self, terms: &Terms<'_>, now: u64) -> Option<Bound> {
        let Trouble { gap, rest, length, .. } = self.trouble;
        let group = self.next_of_group(terms, self.next_apart_from_groups(terms, now));
        let interval = terms.group.map_or(0, |(_, interval)| interval);
        // Of two equal ones, the last: the operator's own.
        let all = [
            (rest > now).then_some((rest, length, Bound::Rest(length))),
            (gap > 0).then(|| (self.last.saturating_add(gap), gap, Bound::Gap(gap))),
            (group > 0).then_some((group, interval, Bound::Group)),
            terms.rate.map(|rate| (self.next_at_rate(rate), rate.interval, Bound::Rate)),
        ];
        let decides = all.into_iter().flatten().max_by_key(|(at, span, _)| (*at, *span));
        decides.map(|(.., bound)| bound)
    }

    /// Returns the first time, not before `earliest`, that all bounds permit except the interval of a group.
    fn next_apart_from_groups(&self, terms: &Terms<'_>, earliest: u64) -> u64 {
        let mut next = earliest.max(self.trouble.rest);
        if let Some(rate) = terms.rate {
            next = next.max(self.next_at_rate(rate));
        }
        match self.trouble.gap {
            0 => next,
            gap => next.max(self.last.saturating_add(gap)),
        }
    }

    fn next_at_rate(&self, rate: Rate) -> u64 {
        let next = self.turns.next(rate, self.began);
        // A request from a time without a rate counts as one turn.
        if self.last > self.turns.last {
            next.max(self.last.saturating_add(rate.interval))
        } else {
            next
        }
    }

    /// Returns when the groups permit a request that may go at `own` apart from them; 0: at any time.
    fn next_of_group(&self, terms: &Terms<'_>, own: u64) -> u64 {
        let mut next = 0;
        if terms.is_robots {
            let all = self.groups.values();
            let all = all.map(|last| last.at.saturating_add(last.interval));
            next = all.max().unwrap_or_default();
        }
        if let Some((name, interval)) = terms.group {
            let last = self.groups.get(name).map_or(0, |last| last.at);
            let last = last.max(self.earlier);
            if last > 0 {
                next = next.max(last.saturating_add(interval));
            }
            // Before a reserved robots.txt, a page may go if its interval ends before that.
            let is_before = own.max(next).saturating_add(interval) <= self.robots;
            if self.robots > 0 && !is_before {
                next = next.max(self.robots.saturating_add(interval));
            }
        }
        next
    }

    /// Returns when a request may go after `ahead` others, `in_line` of them of the same group.
    pub(crate) fn expected(
        &self,
        terms: &Terms<'_>,
        (ahead, in_line): (usize, usize),
        now: u64,
    ) -> u64 {
        let count = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        let due = self.next(terms, now);
        let mut at = due.saturating_add(self.trouble.gap.saturating_mul(count(ahead)));
        if let Some(rate) = terms.rate {
            let ahead = u32::try_from(ahead).unwrap_or(u32::MAX);
            at = at.max(self.turns.next_after(ahead, rate, self.began, now));
        }
        if let Some((_, interval)) = terms.group {
            at = at.max(due.saturating_add(interval.saturating_mul(count(in_line))));
        }
        at
    }

    /// Counts a request that goes at this time.
    pub(crate) fn take(&mut self, terms: &Terms<'_>, at: u64) -> Undo {
        let mut undo = Undo { last: self.last, turns: self.turns, group: None };
        if let Some(rate) = terms.rate {
            self.turns.take(rate, self.began, at);
        }
        if let Some((name, interval)) = terms.group {
            let last = Last { at, interval };
            let before = match self.groups.get_mut(name) {
                Some(known) => Some(std::mem::replace(known, last)),
                None => {
                    if self.groups.len() >= GROUPS {
                        self.groups.retain(|_, last| last.at.saturating_add(last.interval) > at);
                    }
                    self.groups.insert(Arc::clone(name), last)
                }
            };
            undo.group = Some((Arc::clone(name), before));
        }
        self.last = self.last.max(at);
        undo
    }

    /// Counts the robots.txt of a request that goes at this time.
    pub(crate) fn take_robots(&mut self, at: u64) {
        self.earlier = self.earlier.max(at.min(self.robots));
        self.robots = self.robots.max(at);
    }

    /// Counts a robots.txt fetch that waits for no turn (a redirect hop). Within `memory`, it delays requests once;
    /// otherwise a redirecting site could starve this origin.
    /// Tells whether it counts as a request, because one was due.
    pub(crate) fn take_redirect_hop(
        &mut self,
        terms: &Terms<'_>,
        (earliest, now): (u64, u64),
        memory: u64,
    ) -> bool {
        let is_due = self.next(terms, earliest) <= now;
        if is_due {
            self.take(terms, now);
        }
        if self.robots.saturating_add(memory) <= now {
            (self.earlier, self.robots) = (self.robots, now);
        }
        is_due
    }

    /// Takes back the changes by the last request.
    pub(crate) fn undo(&mut self, undo: Undo) {
        (self.last, self.turns) = (undo.last, undo.turns);
        match undo.group {
            Some((name, Some(before))) => drop(self.groups.insert(name, before)),
            Some((name, None)) => drop(self.groups.remove(&name)),
            None => {}
        }
    }

    /// Tells whether the history no longer matters, if no request delays another one for longer than `longest`.
    pub(crate) fn is_over(&self, longest: u64, now: u64) -> bool {
        self.turns.gcra.paid() <= now
            && self.trouble.is_calm()
            && self.last.saturating_add(longest) <= now
    }
}

impl Turns {
    fn next(&self, rate: Rate, began: u64) -> u64 {
        self.at(rate, began).0.next(rate)
    }

    /// Returns the earliest time of a turn if `others` others are taken before it from now on.
    fn next_after(&self, others: u32, rate: Rate, began: u64, now: u64) -> u64 {
        let (mut gcra, _) = self.at(rate, began);
        if others > 0 {
            gcra.take(others, rate, now);
        }
        gcra.next(rate)
    }

    fn take(&mut self, rate: Rate, began: u64, at: u64) {
        let (mut gcra, last) = self.at(rate, began);
        gcra.take(1, rate, at);
        *self = Turns { gcra, rate: Some(rate), last: last.max(at) };
    }

    /// Recounts the same turns by another rate: the same number of turns is owed as of the last one, but at most a
    /// burst.
    fn at(&self, rate: Rate, began: u64) -> (Gcra, u64) {
        let mut gcra = Gcra::default();
        match self.rate {
            Some(before) if before == rate => gcra = self.gcra,
            Some(before) => {
                let owed = u32::try_from(self.gcra.owed(before, self.last)).unwrap_or(u32::MAX);
                gcra.take(owed.clamp(1, rate.burst), rate, self.last);
            }
            None if began > 0 => gcra.take(rate.burst, rate, began),
            None => {}
        }
        (gcra, self.last)
    }
}

/// Returns the whole microseconds of a span, at most the largest number.
pub(crate) fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

/// Returns a moment in microseconds.
pub(crate) fn since_1970(moment: Moment) -> u64 {
    moment.as_millis().saturating_mul(1_000)
}

/// Returns the first moment that is not before this time.
pub(crate) fn moment(at: u64) -> Moment {
    Moment::from_millis(at.div_ceil(1_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: u64 = 1_790_000_000_000_000;
    const MS: u64 = 1_000;

    fn rate(interval: u64, burst: u32) -> Rate {
        Rate { interval: interval * MS, burst }
    }

    fn at(rate: Rate) -> Terms<'static> {
        Terms { rate: Some(rate), ..Terms::default() }
    }

    /// Returns the history after requests at this rate, in milliseconds from the start.
    fn after(rate: Rate, requests: &[u64]) -> History {
        let mut history = History::default();
        for request in requests {
            history.take(&at(rate), START + request * MS);
        }
        history
    }

    #[test]
    fn the_next_turn_comes_when_the_rate_says() {
        #[rustfmt::skip] // one row, one case
        let cases: &[(&str, Rate, &[u64], u64)] = &[
            ("none was taken", rate(500, 1), &[], 0),
            ("one at a time", rate(500, 1), &[0], 500),
            ("late turns save nothing up", rate(500, 1), &[0, 900], 1_400),
            ("a burst goes at once", rate(1_000, 3), &[0, 0], 0),
            ("and is paid off turn by turn", rate(1_000, 3), &[0, 0, 0], 1_000),
        ];
        for (name, rate, requests, expected) in cases {
            let next = after(*rate, requests).next(&at(*rate), START);
            assert_eq!(next, START + expected * MS, "{name}");
        }
    }

    #[test]
    fn under_another_rate_the_same_turns_count() {
        #[rustfmt::skip] // one row, one case
        let cases: &[(&str, Rate, &[u64], Rate, u64)] = &[
            ("a slower one", rate(1_000, 1), &[0], rate(10_000, 1), 10_000),
            ("a faster one", rate(10_000, 1), &[0], rate(1_000, 1), 1_000),
            ("a burst that was used up is no debt of three", rate(1_000, 3), &[0, 0, 0], rate(1_000, 1), 1_000),
            ("a larger burst", rate(1_000, 1), &[0], rate(1_000, 2), 0),
            ("the same", rate(1_000, 3), &[0, 0, 0], rate(1_000, 3), 1_000),
        ];
        for (name, before, requests, now, expected) in cases {
            let next = after(*before, requests).next(&at(*now), START);
            assert_eq!(next, START + expected * MS, "{name}");
        }
    }

    #[test]
    fn a_clock_that_is_set_back_moves_past_requests_back() {
        let group = Arc::from("*");
        let terms = Terms { group: Some((&group, 2_000 * MS)), ..at(rate(1_000, 1)) };
        let mut history = History::default();
        history.take(&terms, START + 3_600_000 * MS);
        history.take_robots(START + 3_600_000 * MS);
        history.settle(START);
        assert_eq!(history.next(&at(rate(1_000, 1)), START), START + 1_000 * MS);
        assert_eq!(history.next(&terms, START), START + 2_000 * MS);
        assert!(!history.is_over(1_000 * MS, START));
        assert!(history.is_over(1_000 * MS, START + 1_000 * MS));
    }

    #[test]
    fn an_undone_request_leaves_the_history_as_it_was() {
        let group = Arc::from("*");
        let terms = Terms { group: Some((&group, 2_000 * MS)), ..at(rate(1_000, 1)) };
        let mut history = History::default();
        for before in [0, 5_000] {
            let due = history.next(&terms, START + before * MS);
            let undo = history.take(&terms, START + before * MS);
            history.undo(undo);
            assert_eq!(history.next(&terms, START + before * MS), due);
            history.take(&terms, START + before * MS);
        }
    }

    #[test]
    fn a_redirect_hop_is_still_past_after_the_clock_was_set_back() {
        let (slow, fast) = (Arc::from("slow"), Arc::from("fast"));
        let group = |name, seconds: u64| Terms {
            group: Some((name, seconds * 1_000 * MS)),
            ..Terms::default()
        };
        let mut history = History::default();
        history.take(&group(&slow, 30), START - 3_000 * MS);
        let robots = Terms { is_robots: true, ..Terms::default() };
        let was_due = history.take_redirect_hop(&robots, (START, START), 10_000 * MS);
        assert!(!was_due);
        let now = START - 2_000 * MS;
        history.settle(now);
        assert_eq!(history.next(&group(&fast, 1), now), now + 1_000 * MS);
    }
}
