//! The pace settings in force.

use std::time::Duration;

use super::bound::{Due, EffectivePace, Source};
use crate::gcra::Rate;
use crate::history::{Bound, History, Terms, micros, moment, since_1970};
use crawlgate_config::{CrawlDelayMode, PaceConfig};
use crawlgate_origins::crawl_delay::CrawlDelay;
use crawlgate_robots::Field;
use crawlgate_system::clock::Moment;

/// `[pace]`, with derived values.
#[derive(Debug)]
pub(super) struct PaceSettings {
    pub(super) config: PaceConfig,
    /// The operator's own interval; zero without one.
    pub(super) own_interval: Duration,
    /// The operator's own rate, in microseconds.
    rate: Option<Rate>,
    /// True if nothing is bounded and no outcome is recorded.
    pub(super) is_off: bool,
    /// True if requests are bounded only by an origin's trouble or its robots.txt.
    pub(super) is_quiet: bool,
}

impl PaceSettings {
    pub(super) fn of(config: &PaceConfig) -> PaceSettings {
        let own = config
            .requests_per_second
            .and_then(|rate| Duration::try_from_secs_f64(1.0 / rate).ok())
            .map(|interval| interval.max(Duration::from_nanos(1)));
        let is_quiet = own.is_none() && config.concurrency.is_none();
        PaceSettings {
            config: config.clone(),
            own_interval: own.unwrap_or_default(),
            rate: own.map(|interval| rate(interval, config.burst)),
            is_off: is_quiet && !config.backoff && config.crawl_delay == CrawlDelayMode::Record,
            is_quiet,
        }
    }

    /// Returns the part of a robots.txt's interval that is kept.
    pub(super) fn effective_pace(&self, crawl_delay: &CrawlDelay) -> EffectivePace {
        let most = self.config.max_crawl_delay;
        EffectivePace {
            interval: crawl_delay.interval.min(most),
            source: match crawl_delay.field {
                Field::RequestRate => Source::RequestRate,
                _ => Source::CrawlDelay,
            },
            clamped: crawl_delay.interval > most,
        }
    }

    /// Tells whether origins at one address share limits.
    pub(super) fn is_per_address(&self) -> bool {
        self.config.per_address && !self.is_quiet
    }

    /// Returns the number of requests that may go at once.
    pub(super) fn burst(&self) -> u32 {
        self.rate.map_or(1, |rate| rate.burst)
    }

    /// Returns the pace of an origin without trouble, with the interval of its robots.txt. `None` if nothing bounds it.
    pub(super) fn planned(&self, crawl_delay: Option<&CrawlDelay>) -> Option<EffectivePace> {
        let own = (!self.own_interval.is_zero())
            .then(|| EffectivePace::plain(self.own_interval, Source::Own));
        let asked = crawl_delay.filter(|_| self.honours_crawl_delay());
        let asked = asked.map(|crawl_delay| self.effective_pace(crawl_delay));
        // Of two equal ones, the operator's own.
        let both = asked.into_iter().chain(own);
        both.max_by_key(|pace| pace.interval)
    }

    /// Returns the bounds of a page.
    pub(super) fn terms<'a>(&self, crawl_delay: Option<&'a CrawlDelay>) -> Terms<'a> {
        Terms {
            rate: self.rate,
            group: crawl_delay.map(|crawl_delay| {
                let interval = self.effective_pace(crawl_delay).interval;
                (&crawl_delay.group, micros(interval))
            }),
            is_robots: false,
        }
    }

    /// Returns the bounds of a robots.txt.
    pub(super) fn terms_for_robots(&self) -> Terms<'static> {
        Terms { is_robots: true, ..self.terms(None) }
    }

    /// Returns when the next request may go by this history, if none waits before it, and the bound that decides it.
    pub(super) fn due(
        &self,
        history: &History,
        crawl_delay: Option<&CrawlDelay>,
        now: Moment,
    ) -> Due {
        let (terms, now) = (self.terms(crawl_delay), since_1970(now));
        let pace = match (history.bound(&terms, now), crawl_delay) {
            (Some(Bound::Gap(length) | Bound::Rest(length)), _) => {
                EffectivePace::plain(Duration::from_micros(length), Source::Backoff)
            }
            (Some(Bound::Group), Some(crawl_delay)) => self.effective_pace(crawl_delay),
            (Some(Bound::Rate), _) => EffectivePace::plain(self.own_interval, Source::Own),
            (Some(Bound::Group) | None, _) => EffectivePace::plain(Duration::ZERO, Source::Own),
        };
        Due { at: moment(history.next(&terms, now)), pace }
    }

    /// Tells whether the intervals that a robots.txt asks for are kept.
    pub(super) fn honours_crawl_delay(&self) -> bool {
        self.config.crawl_delay == CrawlDelayMode::Honour
    }

    /// Returns the longest time for which a request can delay the next one.
    pub(super) fn longest_interval(&self) -> Duration {
        let asked = match self.config.crawl_delay {
            CrawlDelayMode::Honour => self.config.max_crawl_delay,
            CrawlDelayMode::Record => Duration::ZERO,
        };
        self.own_interval.max(asked)
    }
}

/// Returns the rate of one turn per interval, which is rounded up: no turn is early.
fn rate(interval: Duration, burst: u32) -> Rate {
    let interval = u64::try_from(interval.as_nanos().div_ceil(1_000)).unwrap_or(u64::MAX);
    // Turns that fall due within one tick of the clock may go within it.
    let within_a_tick = u32::try_from(1_000 / interval.max(1)).unwrap_or(u32::MAX);
    Rate { interval, burst: burst.max(within_a_tick).max(1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_never_early_and_has_a_burst_for_each_tick_of_the_clock() {
        for (per_second, burst, interval, at_once) in [
            (2.0, 1, 500_000, 1),
            (3.0, 2, 333_334, 2),
            (4_000.0, 1, 250, 4),
            (1_000_000.0, 1, 1, 1_000),
        ] {
            let rate = rate(Duration::from_secs_f64(1.0 / per_second), burst);
            let expected = Rate { interval, burst: at_once };
            assert_eq!(rate, expected, "{per_second}");
        }
    }
}
