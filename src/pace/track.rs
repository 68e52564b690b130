//! What one origin was asked, and from when on it may be asked again.
//!
//! Pure: moments go in and come out. What was done survives any change of settings, since it is only read by them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::backoff::Backoff;
use super::meter::Meter;
use super::regime::Regime;
use super::{Group, InForce, Source};
use crate::clock::Moment;
use crate::robots::wish::Wish;

/// Groups of one origin that are kept without looking whether that is still needed.
const GROUPS: usize = 16;

/// What was done at one origin.
#[derive(Debug, Default)]
pub(super) struct Track {
    /// When the last request went; the epoch: never.
    pub(super) last: Moment,
    /// When robots.txt was asked for last, which counts for every group.
    pub(super) robots: Moment,
    pub(super) backoff: Backoff,
    meter: Meter,
    groups: VecDeque<Last>,
}

/// The last request of one group of the robots.txt.
#[derive(Debug, Clone)]
struct Last {
    group: Group,
    at: Moment,
    /// The interval that was kept.
    interval: Duration,
}

/// When a request may go at the earliest, and what makes it so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Due {
    pub(super) at: Moment,
    pub(super) pace: InForce,
}

/// What a request changed, to be undone where it was never sent.
#[derive(Debug)]
pub(super) struct Undo {
    last: Moment,
    meter: Meter,
    group: Option<(Group, Option<Last>)>,
}

impl Track {
    /// Forgets what is over. Where the clock was set back, what was done goes back with it, or the origin would be left
    /// alone until that time comes again.
    pub(super) fn settle(&mut self, now: Moment) {
        let by = self.last.since(now);
        if !by.is_zero() {
            self.last = now;
            self.robots = self.robots - by;
            self.meter.set_back(by);
            self.backoff.set_back(by);
            for last in &mut self.groups {
                last.at = last.at - by;
            }
        }
        self.backoff.settle(now);
    }

    /// When the next request may go, if nobody waits.
    pub(super) fn due(&self, regime: &Regime, wish: Option<&Wish>, now: Moment) -> Due {
        let mut due = Due {
            at: Moment::default(),
            pace: InForce::plain(Duration::ZERO, Source::Own),
        };
        let mut bound = |at: Moment, pace: InForce| {
            if (at, pace.interval) > (due.at, due.pace.interval) {
                due = Due { at, pace };
            }
        };
        if let Some(rate) = regime.rate {
            let pace = InForce::plain(rate.interval(), Source::Own);
            bound(self.meter.next(rate), pace);
            // What went while there was no rate counts as one.
            if self.last > self.meter.last() {
                bound(self.last + rate.interval(), pace);
            }
        }
        if let Some(wish) = wish {
            let pace = regime.keep(wish);
            let group = self.groups.iter().find(|last| last.group == wish.group);
            let last = group.map_or(self.robots, |last| last.at.max(self.robots));
            if last != Moment::default() {
                bound(last + pace.interval, pace);
            }
        }
        let gap = self.backoff.gap();
        if !gap.is_zero() {
            bound(self.last + gap, InForce::plain(gap, Source::Backoff));
        }
        if let Some(rest) = self.backoff.rest(now) {
            bound(rest.until, InForce::plain(rest.length, Source::Backoff));
        }
        due
    }

    /// When a robots.txt may be asked for. It is not known yet what it will ask for, so it keeps what it asked of
    /// anybody.
    pub(super) fn due_for_robots(&self, regime: &Regime, now: Moment) -> Moment {
        let groups = self.groups.iter().map(|last| last.at + last.interval);
        let due = self.due(regime, None, now).at;
        groups.max().unwrap_or_default().max(due)
    }

    /// When a request may go that `ahead` others go before, `in_line` of them of its own group.
    pub(super) fn expected(
        &self,
        regime: &Regime,
        wish: Option<&Wish>,
        (ahead, in_line): (usize, usize),
        now: Moment,
    ) -> Moment {
        let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let due = self.due(regime, wish, now).at.max(now);
        let mut at = due + self.backoff.gap().saturating_mul(count(ahead));
        if let Some(rate) = regime.rate {
            at = at.max(self.meter.next_but(rate, count(ahead), now));
        }
        if let Some(wish) = wish {
            let interval = regime.keep(wish).interval;
            at = at.max(due + interval.saturating_mul(count(in_line)));
        }
        at
    }

    /// Counts a request that goes now.
    pub(super) fn count(&mut self, regime: &Regime, wish: Option<&Wish>, now: Moment) -> Undo {
        let mut undo = Undo {
            last: self.last,
            meter: self.meter,
            group: None,
        };
        if let Some(rate) = regime.rate {
            self.meter.take(rate, now);
        }
        if let Some(wish) = wish {
            let before = self.forget(&wish.group);
            if self.groups.len() >= GROUPS {
                self.groups.retain(|last| last.at + last.interval > now);
            }
            self.groups.push_back(Last {
                group: Arc::clone(&wish.group),
                at: now,
                interval: regime.keep(wish).interval,
            });
            undo.group = Some((Arc::clone(&wish.group), before));
        }
        self.last = now;
        undo
    }

    /// Counts a robots.txt that goes now and waited for nothing, as those do that a redirect of another origin leads to.
    /// It keeps the next request waiting, but nobody who waits already: whoever sends many here would else shut the
    /// origin for all others.
    pub(super) fn count_aside(&mut self, regime: &Regime, now: Moment) {
        if self.due_for_robots(regime, now) <= now {
            self.count(regime, None, now);
        }
        if self.robots + regime.config.max_crawl_delay <= now {
            self.robots = now;
        }
    }

    /// Takes back what the last request changed.
    pub(super) fn undo(&mut self, undo: Undo) {
        (self.last, self.meter) = (undo.last, undo.meter);
        if let Some((group, before)) = undo.group {
            self.forget(&group);
            self.groups.extend(before);
        }
    }

    /// Whether nothing that was done matters any more.
    pub(super) fn is_over(&self, regime: &Regime, now: Moment) -> bool {
        self.meter.is_paid(now)
            && self.backoff.is_calm()
            && self.last + regime.longest_interval() <= now
    }

    fn forget(&mut self, group: &Group) -> Option<Last> {
        let at = self.groups.iter().position(|last| last.group == *group)?;
        self.groups.remove(at)
    }
}
