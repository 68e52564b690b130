//! The history of one origin, and the next time that it may be asked.
//!
//! Pure: moments go in and come out. The history survives any change of settings, because settings only interpret it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::backoff::Backoff;
use super::settings::PaceSettings;
use super::turns::Turns;
use super::{EffectivePace, Group, Source};
use crawlgate_origins::crawl_delay::CrawlDelay;
use crawlgate_system::clock::Moment;

/// Groups of one origin that are kept without a check whether they still matter.
const GROUPS: usize = 16;

/// The history of requests to one origin.
#[derive(Debug, Default)]
pub(super) struct History {
    /// The moment of the last request; the epoch: never.
    pub(super) last: Moment,
    /// The moment of the last robots.txt fetch, which counts for every group.
    pub(super) robots: Moment,
    pub(super) backoff: Backoff,
    turns: Turns,
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

/// The earliest moment for a request, and the bound that decides it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Due {
    pub(super) at: Moment,
    pub(super) pace: EffectivePace,
}

/// The changes by one request, to be undone if it was never sent.
#[derive(Debug)]
pub(super) struct Undo {
    last: Moment,
    turns: Turns,
    group: Option<(Group, Option<Last>)>,
}

impl History {
    /// Forgets bounds that are over. If the clock was set back, the recorded times move back with it; otherwise the
    /// origin would not be asked until that time comes again.
    pub(super) fn settle(&mut self, now: Moment) {
        let by = self.last.since(now);
        if !by.is_zero() {
            self.last = now;
            self.robots = self.robots - by;
            self.turns.set_back(by);
            self.backoff.set_back(by);
            for last in &mut self.groups {
                last.at = last.at - by;
            }
        }
        self.backoff.settle(now);
    }

    /// Returns when the next request may go, if none waits before it.
    pub(super) fn due(
        &self,
        settings: &PaceSettings,
        crawl_delay: Option<&CrawlDelay>,
        now: Moment,
    ) -> Due {
        let mut due = Due {
            at: Moment::default(),
            pace: EffectivePace::plain(Duration::ZERO, Source::Own),
        };
        let mut bound = |at: Moment, pace: EffectivePace| {
            if (at, pace.interval) > (due.at, due.pace.interval) {
                due = Due { at, pace };
            }
        };
        if let Some(rate) = settings.rate {
            let pace = EffectivePace::plain(rate.interval(), Source::Own);
            bound(self.turns.next(rate), pace);
            // A request from a time without a rate counts as one turn.
            if self.last > self.turns.last() {
                bound(self.last + rate.interval(), pace);
            }
        }
        if let Some(crawl_delay) = crawl_delay {
            let pace = settings.effective_pace(crawl_delay);
            let group = self
                .groups
                .iter()
                .find(|last| last.group == crawl_delay.group);
            let last = group.map_or(self.robots, |last| last.at.max(self.robots));
            if last != Moment::default() {
                bound(last + pace.interval, pace);
            }
        }
        let gap = self.backoff.gap();
        if !gap.is_zero() {
            bound(self.last + gap, EffectivePace::plain(gap, Source::Backoff));
        }
        if let Some(rest) = self.backoff.rest(now) {
            bound(
                rest.until,
                EffectivePace::plain(rest.length, Source::Backoff),
            );
        }
        due
    }

    /// Returns when a robots.txt may be fetched. Its new crawl delay is still unknown, so the fetch keeps the delay
    /// that each group had.
    pub(super) fn due_for_robots(&self, settings: &PaceSettings, now: Moment) -> Moment {
        let groups = self.groups.iter().map(|last| last.at + last.interval);
        let due = self.due(settings, None, now).at;
        groups.max().unwrap_or_default().max(due)
    }

    /// Returns when a request may go after `ahead` others, `in_line` of them of its own group.
    pub(super) fn expected(
        &self,
        settings: &PaceSettings,
        crawl_delay: Option<&CrawlDelay>,
        (ahead, in_line): (usize, usize),
        now: Moment,
    ) -> Moment {
        let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let due = self.due(settings, crawl_delay, now).at.max(now);
        let mut at = due + self.backoff.gap().saturating_mul(count(ahead));
        if let Some(rate) = settings.rate {
            at = at.max(self.turns.next_but(rate, count(ahead), now));
        }
        if let Some(crawl_delay) = crawl_delay {
            let interval = settings.effective_pace(crawl_delay).interval;
            at = at.max(due + interval.saturating_mul(count(in_line)));
        }
        at
    }

    /// Counts a request that goes now.
    pub(super) fn count(
        &mut self,
        settings: &PaceSettings,
        crawl_delay: Option<&CrawlDelay>,
        now: Moment,
    ) -> Undo {
        let mut undo = Undo {
            last: self.last,
            turns: self.turns,
            group: None,
        };
        if let Some(rate) = settings.rate {
            self.turns.take(rate, now);
        }
        if let Some(crawl_delay) = crawl_delay {
            let before = self.forget(&crawl_delay.group);
            if self.groups.len() >= GROUPS {
                self.groups.retain(|last| last.at + last.interval > now);
            }
            self.groups.push_back(Last {
                group: Arc::clone(&crawl_delay.group),
                at: now,
                interval: settings.effective_pace(crawl_delay).interval,
            });
            undo.group = Some((Arc::clone(&crawl_delay.group), before));
        }
        self.last = now;
        undo
    }

    /// Counts an unpaced robots.txt fetch (a redirect hop). It delays the next request but none already queued;
    /// otherwise a redirecting site could starve this origin.
    pub(super) fn count_redirect_hop(&mut self, settings: &PaceSettings, now: Moment) {
        if self.due_for_robots(settings, now) <= now {
            self.count(settings, None, now);
        }
        if self.robots + settings.config.max_crawl_delay <= now {
            self.robots = now;
        }
    }

    /// Takes back the changes by the last request.
    pub(super) fn undo(&mut self, undo: Undo) {
        (self.last, self.turns) = (undo.last, undo.turns);
        if let Some((group, before)) = undo.group {
            self.forget(&group);
            self.groups.extend(before);
        }
    }

    /// Tells whether the history no longer matters.
    pub(super) fn is_over(&self, settings: &PaceSettings, now: Moment) -> bool {
        self.turns.is_paid(now)
            && self.backoff.is_calm()
            && self.last + settings.longest_interval() <= now
    }

    fn forget(&mut self, group: &Group) -> Option<Last> {
        let at = self.groups.iter().position(|last| last.group == *group)?;
        self.groups.remove(at)
    }
}
